"""A run folder and its manifest: what was run, with what, at what cost, and what came out.

RUN/events.parquet | events.jsonl.gz   the event table
RUN/manifest.json                      this document
RUN/scenario.resolved.json             the scenario with every default written out
RUN/jobs.jsonl                         the resolved workload, one JobRequest per line
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.errors import InputError, Where

MANIFEST_SCHEMA: Final = "slurmtwin/manifest/1"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The five blocks of a run's provenance (after tskit's): software, parameters, environment, resources, results."""

    world: str
    scenario: str
    scenario_sha256: str
    seed: int
    replication: int = 0
    software: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    resources: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    schema: str = MANIFEST_SCHEMA


def software_block() -> dict[str, Any]:
    """slurmtwin's own version and those of the libraries whose results depend on them."""
    names = ("slurmtwin", "simpy", "numpy", "pyarrow", "pandas", "scipy", "pydantic")
    return {name: _version(name) for name in names}


@lru_cache
def _version(name: str) -> str | None:
    """Of an installed distribution; looking it up reads files, and a campaign asks for each run."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def environment_block() -> dict[str, Any]:
    """Python, platform and number of CPUs."""
    return {"python": platform.python_version(), "implementation": sys.implementation.name,
            "platform": f"{platform.system()}-{platform.machine()}", "cpus": os.cpu_count() or 1}  # fmt: skip


def sha256_text(text: str) -> str:
    """Hex SHA-256 of UTF-8 text."""
    return hashlib.sha256(text.encode()).hexdigest()


def write_atomic(path: Path, data: str | bytes) -> None:
    """Write a file under a temporary name beside it, then rename: a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = data.encode() if isinstance(data, str) else data
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(raw)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write RUN/manifest.json, sorted keys."""
    write_atomic(folder / "manifest.json", json.dumps(asdict(manifest), indent=1, sort_keys=True) + "\n")


def read_manifest(folder: Path) -> Manifest:
    """Read RUN/manifest.json. Raises InputError when it is missing, broken or of another schema."""
    path = folder / "manifest.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"not a run folder: {error.strerror}", Where(str(path))) from error
    except ValueError as error:
        raise InputError(f"not JSON: {error}", Where(str(path))) from error
    if not isinstance(document, dict) or document.get("schema") != MANIFEST_SCHEMA:
        raise InputError(f"not a {MANIFEST_SCHEMA} document", Where(str(path)))
    try:
        return Manifest(**document)
    except TypeError as error:
        raise InputError(f"a manifest with wrong keys: {error}", Where(str(path))) from error
