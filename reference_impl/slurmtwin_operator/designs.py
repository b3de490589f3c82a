"""Designs: named settings of the switches, of Slurm and of Kubernetes, as YAML in scenarios/designs/. Data, no code.

`python -m slurmtwin_operator.designs docs/operator.md` renews the tables of designs and switches in that page
(`--check` says whether they are stale).
"""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.yaml_file import load_yaml, validated
from slurmtwin_operator.core.switches import Switches

DESIGN_SCHEMA: Final = "slurmtwin/design/1"
FOLDER: Final = Path("scenarios/designs")
BEGIN, END = "<!-- generated: {} -->", "<!-- end -->"


class Strict(BaseModel):
    """Base of the parts: frozen, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Probe(Strict):
    """A probe of slurmctld and slurmd."""

    path: str = Field(description="HTTP path, or tcp")
    period_s: int = 10
    failures: int = 3
    delay_s: int = 0


class KubernetesSettings(Strict):
    """How the pods run."""

    worker_grace_s: int = 30
    worker_unreachable_s: int = 300
    supervisor: Literal["none", "supervisord", "loop-5s"] = Field(
        "none", description="what restarts a daemon inside its container"
    )
    scaling: Literal["count", "per-node"] = "count"
    sidecars: tuple[str, ...] = Field(
        (), description="restartable init containers of a worker's pod: slurmd waits until a look has seen each run"
    )
    startup: Probe | None = None
    liveness: Probe | None = None
    readiness: Probe | None = None


class CarrierSettings(Strict):
    """How the core is carried: polls, caches, back-off. The shell and the twin's adapter take the same."""

    poll_s: Annotated[int, Field(ge=1)] = Field(30, description="a pass at least so often")
    poll_after_failure: bool = Field(True, description="false: only its back-off brings a failed pass back")
    backoff_base_ms: int = Field(5, description="first pause after a failed pass, doubled each time")
    backoff_cap_s: int = 1000
    workers: int = Field(4, description="passes over objects of one kind at once")
    slurm_cache_s: int = Field(0, description="age that an answer of slurmrestd may have; 0: asked in each pass")
    slurm_informer: bool = Field(False, description="a pass waits for an informer's list: batches and looks of 1 s")
    lease_s: int = Field(
        0, description="a process that begins waits until a killed one's lease is so old; 0: no leader election"
    )
    start_jitter_s: int = Field(0, description="workers wait a random time up to this before they register")


class Design(Strict):
    """A named way to run Slurm with Kubernetes."""

    schema_: Literal["slurmtwin/design/1"] = Field(alias="schema")
    name: Annotated[str, Field(pattern=r"^[a-z][-a-z0-9]{0,40}$")]
    title: str
    grade: Literal["A", "B", "C"] = Field(
        description="A run against the real operator, B mechanisms recorded on a cluster, C read only"
    )
    source: str
    switches: Switches = Switches()
    slurm_conf: dict[str, str | int] = Field(default_factory=dict)
    carrier: CarrierSettings = CarrierSettings()
    kubernetes: KubernetesSettings = KubernetesSettings()


KEPT: Final = 64
"""Designs that a process remembers: each run of an operator's asks for one."""


def load_design(path: Path | str) -> Design:
    """The design in a YAML file. Raises InputError with file:line for the first thing that is wrong."""
    path = Path(path)
    return _loaded(path, path.read_bytes() if path.is_file() else b"")


@lru_cache(maxsize=KEPT)
def _loaded(path: Path, written: bytes) -> Design:  # noqa: ARG001  a file written anew is read anew
    document = load_yaml(path)
    if not isinstance(document, dict):
        raise InputError("a design is a mapping with the keys schema, name, switches", Where(str(path), 1))
    return validated(Design, document, path)


def find_design(name: str, folder: Path = FOLDER) -> Design:
    """A shipped design by its name. Raises InputError when there is none."""
    path = folder / f"{name}.yaml"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.yaml")))
        raise InputError(f"no design is called {name!r}", hint=f"one of {known}")
    return load_design(path)


def all_designs(folder: Path = FOLDER) -> list[Design]:
    """The shipped designs, the default first."""
    found = [load_design(path) for path in sorted(folder.glob("*.yaml"))]
    return sorted(found, key=lambda design: (design.name != "default", design.name))


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def tables(folder: Path = FOLDER) -> dict[str, str]:
    """The generated tables of docs/operator.md by their name."""
    designs = all_designs(folder)
    rows = ["| design | grade | what it is | switches beside the default |", "|---|---|---|---|"]
    for design in designs:
        changed = design.switches.model_dump(exclude_defaults=True)
        text = "; ".join(f"{name} {_shown(value)}" for name, value in changed.items()) or "none"
        rows.append(f"| {design.name} | {design.grade} | {design.title}. Read in: {design.source} | {text} |")
    switches = ["| switch | default | what it is | settings and the real systems they reproduce |", "|---|---|---|---|"]
    for name, field in Switches.model_fields.items():
        extra: Any = field.json_schema_extra
        sources = "; ".join(f"`{value}` {source}" for value, source in extra["x-reproduces"].items())
        switches.append(f"| {name} | {_shown(field.default)} | {field.description} | {sources} |")
    return {"designs": "\n".join(rows), "switches": "\n".join(switches)}


def renewed(text: str, folder: Path = FOLDER) -> str:
    """A page with its generated tables made anew."""
    for name, table in tables(folder).items():
        head, mark, rest = text.partition(BEGIN.format(name))
        if not mark:
            raise InputError(f"the page has no place for the table {name!r}", hint=BEGIN.format(name))
        _, end, tail = rest.partition(END)
        text = f"{head}{mark}\n{table}\n{end}{tail}"
    return text


def main(arguments: list[str]) -> int:
    """Renew a page, or with --check say whether it is stale (exit code 1)."""
    (page,) = [Path(argument) for argument in arguments if not argument.startswith("-")]
    text = page.read_text(encoding="utf-8")
    wanted = renewed(text)
    if "--check" not in arguments:
        page.write_text(wanted, encoding="utf-8")
    elif wanted != text:
        sys.stderr.write(f"stale: {page}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
