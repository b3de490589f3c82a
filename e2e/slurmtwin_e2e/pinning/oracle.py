"""Builds the Go oracle and asks it: ``python -m slurmtwin_e2e.pinning.oracle``.

The answers are the recorded cases that the kubelet model is judged by; fresh ones are drawn
with another seed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slurmtwin.contract.errors import EnvironmentMissingError, SlurmtwinError
from slurmtwin_e2e.pinning.sequences import cases

EXIT_HANG = 9
SOURCE = Path(__file__).parents[2] / "pinning_oracle"


def build(target: Path) -> Path:
    """Compiles the oracle; the Go tools keep what they compiled.

    Raises ``EnvironmentMissingError`` without Go or without its modules.
    """
    if shutil.which("go") is None:
        raise EnvironmentMissingError("the pinning oracle needs Go 1.24 or newer; install it")
    program = target / "pinning_oracle"
    done = subprocess.run(  # noqa: S603 - fixed arguments
        ["go", "build", "-o", str(program), "."],  # noqa: S607 - the user's Go
        cwd=SOURCE,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise EnvironmentMissingError(f"the pinning oracle does not build: {done.stderr.strip()}")
    return program


def answers(program: Path, drawn: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The real managers' answer to each case, in order."""
    memory = Path("/dev/shm")  # noqa: S108 - state files are written often, and fsynced
    environment = {**os.environ, **({"TMPDIR": str(memory)} if memory.is_dir() else {})}
    while drawn:
        done = subprocess.run(  # noqa: S603 - the program just built
            [str(program)],
            input="".join(json.dumps(case) + "\n" for case in drawn),
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        if done.returncode not in (0, EXIT_HANG):
            raise SlurmtwinError(f"the pinning oracle failed: {done.stderr.strip()[-2000:]}")
        lines = done.stdout.splitlines()
        yield from map(json.loads, lines)
        drawn = drawn[len(lines) :]


def record(program: Path, seed: int, count: int, batch: int = 500) -> Iterator[dict[str, Any]]:
    """Cases with their answers; ``batch`` cases are asked at a time."""
    drawn: list[dict[str, Any]] = []
    for case in cases(seed, count):
        drawn.append(case)
        if len(drawn) == batch:
            yield from _answered(program, drawn)
            drawn = []
    yield from _answered(program, drawn)


def _answered(program: Path, drawn: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for case, answer in zip(drawn, answers(program, list(drawn)), strict=True):
        yield {"case": case, "answer": answer}


def main(arguments: list[str] | None = None) -> int:
    """Records cases into a gzip file of JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="root seed of the cases")
    parser.add_argument("--count", type=int, default=10_000, help="how many sequences")
    parser.add_argument("--build", type=Path, required=True, help="folder for the program")
    parser.add_argument("--out", type=Path, required=True, help="FILE.jsonl.gz to write")
    options = parser.parse_args(arguments)
    options.build.mkdir(parents=True, exist_ok=True)
    program = build(options.build)
    partial = options.out.with_name(options.out.name + ".partial")
    with partial.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed:
        for number, line in enumerate(record(program, options.seed, options.count), start=1):
            packed.write(json.dumps(line, separators=(",", ":"), sort_keys=True).encode() + b"\n")
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{number}/{options.count}")
    partial.replace(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
