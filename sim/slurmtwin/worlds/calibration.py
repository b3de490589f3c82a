"""Host costs per Slurm version: calibrated medians kept as data beside this module (host_costs.yaml)."""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.clock import MS
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.yaml_file import load_yaml, plain
from slurmtwin.engine.random_streams import RandomStreams
from slurmtwin.models.slurmctld.host_costs import HostCosts, HostNoise

HOST_COSTS_SCHEMA: Final = "slurmtwin/host-costs/1"
HOST_COSTS_FILE: Final = Path(__file__).with_name("host_costs.yaml")


SPREADS: Final = ("launch_spread", "exit_notice_spread")
"""Measured values, equally likely, of costs that differ from job to job (host.noise)."""


def load_host_noise(version: str, factor: float, streams: RandomStreams, path: Path = HOST_COSTS_FILE) -> HostNoise:
    """Draws from the spreads of a version at an acceleration, from streams of their own."""
    entry = _entry(version, path)
    values = [[round(ms * MS * factor) for ms in entry[name]] for name in SPREADS]
    launch_ns, exit_notice_ns = (streams.choice_ns(f"host.{name}", v) for name, v in zip(SPREADS, values, strict=True))
    return HostNoise(launch_ns, exit_notice_ns)


def load_host_costs(version: str, path: Path = HOST_COSTS_FILE) -> tuple[HostCosts, str]:
    """(costs, their origin) of a Slurm version. Raises InputError when the file lacks the version or a cost."""
    entry = _entry(version, path)
    return host_costs(entry, path), str(entry.get("origin", ""))


@lru_cache(maxsize=4)
def _document(path: Path, written_ns: int) -> Any:  # noqa: ARG001  a file that was written anew is read anew
    """The file as plain values; YAML is slow to read, and each run of a campaign asks."""
    return plain(load_yaml(path))


def _entry(version: str, path: Path) -> dict[str, Any]:
    document = _document(path, path.stat().st_mtime_ns if path.exists() else 0)
    if not isinstance(document, dict) or document.get("schema") != HOST_COSTS_SCHEMA:
        raise InputError(f"not a {HOST_COSTS_SCHEMA} document", Where(str(path), 1))
    entry = document.get(version)
    if not isinstance(entry, dict):
        raise InputError(f"no host costs for Slurm {version}", Where(str(path)))
    return entry


def host_costs(entry: dict[str, Any], path: Path = HOST_COSTS_FILE) -> HostCosts:
    """HostCosts of one mapping of milliseconds; every cost must be named, nothing else may be."""
    names = {f.name.removesuffix("_ns"): f.name for f in fields(HostCosts)}
    unknown = sorted(set(entry) - set(names) - {"origin", *SPREADS})
    missing = sorted(set(names) - set(entry))
    if unknown or missing:
        problem = f"{unknown[0]} is unknown" if unknown else f"{missing[0]} is missing"
        raise InputError(f"host costs: {problem}", Where(str(path)))
    values: dict[str, Any] = {}
    for short, name in names.items():
        value = entry[short]
        if name.endswith("_ns"):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
                raise InputError(f"host costs: {short} must be milliseconds >= 0", Where(str(path)))
            values[name] = round(value * MS)
        else:
            values[name] = bool(value)
    return HostCosts(**values)
