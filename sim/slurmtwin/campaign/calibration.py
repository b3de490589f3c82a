"""Host costs from recordings at acceleration 1: medians with their intervals, per Slurm version (DESIGN 5).

Measured are the costs that two rows of a recording enclose. The others of worlds/host_costs.yaml (an epilog's
answer, the start of a daemon) have no such pair of rows; that file names their origin.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.clock import MS
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Kind

PAIRS: Final = {
    "launch": (Kind.JOB_STARTED, Kind.SCRIPT_STARTED),
    "exit_notice": (Kind.SCRIPT_ENDED, Kind.JOB_ENDED),
}
"""Cost -> the rows of one job run that enclose it."""
RESAMPLES: Final = 2000


@dataclass(frozen=True, slots=True)
class Cost:
    """One measured cost in milliseconds."""

    version: str
    name: str
    median_ms: float
    low_ms: float
    high_ms: float
    count: int
    error_ms: float
    """Half-width of what the two stamps resolve: a median below it is known to be small, no more."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {name: getattr(self, name) for name in self.__slots__}


def measure(folders: Iterable[Path]) -> list[Cost]:
    """The costs seen in run folders of real Slurm at k = 1, by version. Raises InputError when there is none."""
    from slurmtwin_reports.load import load_run

    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for folder in folders:
        run = load_run(folder)
        if run.world != "slurm" or float(run.manifest.parameters["factor"]) != 1.0:
            continue
        for name, values in _spans(run.rows()).items():
            found.setdefault((run.version, name), []).extend(values)
    if not found:
        raise InputError("no recording at acceleration 1 here", hint="slurmtwin record --factor 1 makes one")
    return [_cost(version, name, values) for (version, name), values in sorted(found.items())]


def _spans(rows: Iterable[Any]) -> dict[str, list[tuple[int, int]]]:
    """Cost -> (length, error) of each job run that has both rows in order, ns."""
    opened: dict[tuple[str, int, int], Any] = {}
    out: dict[str, list[tuple[int, int]]] = {name: [] for name in PAIRS}
    first = {kind: name for name, (kind, _) in PAIRS.items()}
    last = {kind: name for name, (_, kind) in PAIRS.items()}
    for row in rows:
        if row.job_id is None:
            continue
        if row.kind in last:
            begun = opened.pop((last[row.kind], *row.key), None)
            clean = row.kind != Kind.JOB_ENDED or json.loads(row.detail or "{}").get("state") in ("COMPLETED", "FAILED")
            if begun is not None and clean:
                out[last[row.kind]].append((row.t_ns - begun.t_ns, row.t_err_ns + begun.t_err_ns))
        if row.kind in first:
            opened[(first[row.kind], *row.key)] = row
    return out


def _cost(version: str, name: str, values: list[tuple[int, int]]) -> Cost:
    import numpy as np

    lengths = np.asarray([max(0, length) for length, _ in values], dtype=np.int64)
    draws = np.random.default_rng(0).integers(0, len(lengths), (RESAMPLES, len(lengths)))
    low, high = np.percentile(np.median(lengths[draws], axis=1), [2.5, 97.5])
    error = float(np.median([e for _, e in values]))
    return Cost(
        version, name, float(np.median(lengths)) / MS, float(low) / MS, float(high) / MS, len(lengths), error / MS
    )
