#!/usr/bin/env python3
"""Set up and run: needs Python >= 3.11 and nothing else.

    python3 bootstrap.py check [ARGS ...]   judge the shipped scenarios; writes out/report.html
    python3 bootstrap.py test [ARGS ...]    run the tests
    python3 bootstrap.py lint               ruff, mypy, import-linter, freshness of generated files
    python3 bootstrap.py bench              speed and event counts
    python3 bootstrap.py run COMMAND ...    any command inside the environment, in the folder you are in

Packages come from requirements.lock, by exact version and hash, into .venv/pythonX.Y beside this file.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
LOCK = ROOT / "requirements.lock"


def say(text: str) -> None:
    """Talk on stderr; stdout belongs to the command."""
    sys.stderr.write(f"bootstrap: {text}\n")


def environment() -> Path:
    """The virtual environment's bin folder, made or renewed when the lock changed."""
    if sys.version_info < (3, 11):  # noqa: UP036  the one file that older Pythons may meet
        sys.exit(f"bootstrap: Python >= 3.11 is needed, this is {sys.version.split()[0]}")
    home = ROOT / ".venv" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    stamp = home / "lock.sha256"
    wanted = hashlib.sha256(LOCK.read_bytes() + (ROOT / "pyproject.toml").read_bytes() + str(ROOT).encode()).hexdigest()
    bin_folder = home / "bin"
    if stamp.exists() and stamp.read_text() == wanted:
        return bin_folder
    say(f"installing the locked packages into {home.relative_to(ROOT)}")
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=False)  # noqa: S603
    if made.returncode:
        sys.exit("bootstrap: cannot make a virtual environment; on Debian: apt-get install python3-venv")
    pip = [str(bin_folder / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # the lock is complete: resolving again would look at newer versions than its own, which have no hash in it
    subprocess.run([*pip, "--require-hashes", "--no-deps", "-r", str(LOCK)], check=True, cwd=ROOT)  # noqa: S603
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)], check=True, cwd=ROOT)  # noqa: S603
    stamp.write_text(wanted)
    return bin_folder


def commands(task: str, rest: list[str]) -> list[list[str]]:
    """The command lines of one task."""
    if task == "check":
        return [["slurmtwin", "check", "--report", "out/report.html", *rest]]
    if task == "test":
        return [["python", "-m", "pytest", "-q", *(rest or ["-n", str(os.cpu_count() or 1)])]]
    if task == "lint":
        return [
            ["ruff", "check", "."],
            ["ruff", "format", "--check", "."],
            ["mypy"],
            ["lint-imports"],
            ["slurmtwin", "schema", "--check"],
            ["python", "-m", "slurmtwin_reports.rules", "--check"],
        ]
    if task == "bench":
        return [["python", "-m", "pytest", "-q", "-p", "no:xdist", "-m", "bench", "--benchmark-only", *rest]]
    if task == "run" and rest:
        return [rest]
    sys.exit(str(__doc__))


def main() -> int:
    """Run one task; the first failing command ends it with its exit code."""
    if len(sys.argv) < 2:
        sys.exit(str(__doc__))
    lines = commands(sys.argv[1], sys.argv[2:])
    bin_folder = environment()
    path = f"{bin_folder}{os.pathsep}{os.environ.get('PATH', '')}"
    where = None if sys.argv[1] == "run" else ROOT
    for line in lines:
        code = subprocess.run(line, check=False, cwd=where, env={**os.environ, "PATH": path}).returncode  # noqa: S603
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
