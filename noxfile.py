"""Tasks. Each installs the lock and calls one program; no logic lives here.

`nox` runs the fast sessions; `nox -l` lists all. A session that cannot do its work fails, it never skips.
"""

from __future__ import annotations

from pathlib import Path

import nox

nox.needs_version = ">=2025.5"
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = True

PYTHONS = ["3.11", "3.12", "3.13"]
JUNIT = Path("out/junit")


def install(session: nox.Session) -> None:
    """The locked packages, then slurmtwin itself, editable."""
    session.install("--require-hashes", "--no-deps", "-r", "requirements.lock")
    session.install("--no-deps", "--no-build-isolation", "--editable", ".")
    JUNIT.mkdir(parents=True, exist_ok=True)


@nox.session(python="3.11", tags=["fast"])
def lint(session: nox.Session) -> None:
    """ruff, mypy --strict, import-linter."""
    install(session)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session(python="3.11", tags=["fast"])
def schemas(session: nox.Session) -> None:
    """Generated files equal the committed ones: schemas, rules table."""
    install(session)
    session.run("slurmtwin", "schema", "--check")
    session.run("python", "-m", "slurmtwin_reports.rules", "--check")
    session.run("python", "-m", "slurmtwin_operator.crds", "--check")
    session.run("python", "-m", "slurmtwin_operator.codec", "--check")
    session.run("python", "-m", "slurmtwin_operator.designs", "--check", "docs/operator.md")


@nox.session(python=PYTHONS, tags=["fast"])
def tests(session: nox.Session) -> None:
    """Unit, property, oracle, golden and conformance tests."""
    install(session)
    report = JUNIT / f"tests-{session.python}.xml"
    session.run("pytest", "-q", "-n", "auto", f"--junitxml={report}", *session.posargs)


@nox.session(python="3.11", tags=["fast"])
def check(session: nox.Session) -> None:
    """The main job: judge the shipped scenarios against the recordings; writes out/report.html."""
    install(session)
    session.run(
        "slurmtwin", "check", "--report", "out/report.html", f"--junitxml={JUNIT / 'check.xml'}", *session.posargs
    )


@nox.session(python="3.11", default=False)
def core(session: nox.Session) -> None:
    """Every branch of the operator's core is taken by its tests: fails under 100 %."""
    install(session)
    measure = ("--cov=slurmtwin_operator.core", "--cov-branch", "--cov-report=term-missing", "--cov-fail-under=100")
    tests = sorted(str(path) for path in Path("reference_impl/tests").glob("test_*.py") if "shell" not in path.name)
    session.run("pytest", "-q", "-p", "no:xdist", *measure, *tests, *session.posargs)


@nox.session(python="3.11", default=False)
def mutants(session: nox.Session) -> None:
    """Planted mistakes of the operator's core and shell: each turns a property or a named test red; prints a table."""
    install(session)
    tests = ("reference_impl/tests/test_mutations.py", "reference_impl/tests/test_shell_mutations.py")
    session.run("pytest", "-v", "--no-header", *tests, *session.posargs)


@nox.session(python="3.11", default=False)
def bench(session: nox.Session) -> None:
    """Speed on one core (pytest-benchmark), with event counts that must not move and the SimPy floor beside."""
    install(session)
    session.run("pytest", "-q", "-p", "no:xdist", "-m", "bench", "--benchmark-only", *session.posargs)


@nox.session(python="3.11", default=False)
def compiled(session: nox.Session) -> None:
    """A copy with hot modules compiled by mypyc gives the events of the sources (needs a C compiler; 5 min)."""
    install(session)
    copy = str(Path(session.create_tmp()).resolve() / "copy")
    session.run("python", "compiled_copy.py", copy)
    tests = "sim/tests/worlds/test_compiled_copy.py"
    session.run("python", "-m", "pytest", "-q", "-p", "no:xdist", tests, env={"SLURMTWIN_COMPILED": copy})


@nox.session(python=PYTHONS, default=False)
def determinism(session: nox.Session) -> None:
    """Same event hash over hash seeds and worker counts, on this Python."""
    install(session)
    session.run("pytest", "-q", "-m", "golden", *session.posargs)


@nox.session(python="3.11", default=False)
def docs(session: nox.Session) -> None:
    """The documentation in out/docs, warnings as errors; its tutorials are run as tests by `nox -s tests`."""
    install(session)
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "out/docs", *session.posargs)


@nox.session(python="3.11", default=False)
def pinning(session: nox.Session) -> None:
    """The kubelet model against fresh answers of the real managers: `-- COUNT SEED`; needs Go."""
    install(session)
    count, seed, *_ = [*session.posargs, *("10000", "1")[len(session.posargs) :]]
    answers = Path(session.create_tmp()) / "pinning.jsonl.gz"
    build = session.create_tmp()
    arguments = ("--count", count, "--seed", seed, "--build", build, "--out", str(answers))
    session.run("python", "-m", "slurmtwin_e2e.pinning.oracle", *arguments)
    session.run("python", "-m", "slurmtwin.worlds.pinning", str(answers))


@nox.session(name="e2e-image", python="3.11", default=False)
def e2e_image(session: nox.Session) -> None:
    """The kind node image: present, pulled or built (about 15 min cold on 2 idle cores); starts Docker if it must."""
    install(session)
    session.run("python", "-m", "slurmtwin_e2e.kind", "image", "--yes", *session.posargs)


@nox.session(python="3.11", default=False)
def e2e(session: nox.Session) -> None:
    """Real Kubernetes on this machine, now: the cluster's own tests, then three scenarios (or those named)."""
    install(session)
    session.run("python", "-m", "slurmtwin_e2e.kind", "image", "--yes")
    tests = ("-q", "-n", "0", f"--junitxml={JUNIT / 'e2e.xml'}", "e2e/tests/test_kind_real.py")
    session.run("pytest", *tests, env={"SLURMTWIN_KIND": "1"})
    session.run("python", "-m", "slurmtwin_e2e.kind", "smoke", *session.posargs)


@nox.session(python="3.11", default=False)
def record(session: nox.Session) -> None:
    """Record what is missing with the real Slurm (needs Docker): `nox -s record -- --budget 120m`."""
    install(session)
    session.run("slurmtwin", "record", "--missing", *session.posargs)


@nox.session(python="3.11", default=False)
def lock(session: nox.Session) -> None:
    """Renew requirements.lock: exact versions with hashes, no index or host named."""
    session.install("pip-tools")
    project = nox.project.load_toml("pyproject.toml")
    wanted = list(project["project"]["dependencies"])
    for name, packages in sorted(project["project"]["optional-dependencies"].items()):
        wanted += packages if name != "all" else []
    for group in ("test", "lint", "compile"):
        wanted += project["dependency-groups"][group]
    wanted += ["nox>=2025.5.1", "hatchling>=1.25", "editables>=0.5"]
    source = Path(session.create_tmp()) / "requirements.in"
    source.write_text("\n".join(wanted) + "\n")
    quiet = ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--no-emit-trusted-host"]
    out = ["--generate-hashes", "--strip-extras", "--output-file", "requirements.lock", str(source.resolve())]
    session.run("pip-compile", "--quiet", *quiet, *out)
    pins = source.with_name("constraints.txt")  # the operator's image takes the same versions
    lines = Path("requirements.lock").read_text().splitlines()
    pins.write_text("".join(line.rstrip(" \\") + "\n" for line in lines if "==" in line))
    needed = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["operator"]]
    source.write_text("\n".join(name for name in needed if not name.startswith("rich")) + "\n")
    out[-2:] = ["reference_impl/requirements.lock", str(source.resolve())]
    session.run("pip-compile", "--quiet", *quiet, "--constraint", str(pins), *out)
