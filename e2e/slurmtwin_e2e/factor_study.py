"""How fast is still right: runs of one workload at several accelerations beside those at k = 1.

`python -m slurmtwin_e2e.factor_study FOLDER...` takes run folders of one scenario and Slurm version (`slurmtwin record
--factor K --recordings DIR` makes them) and prints one line per factor: how runs at k differ from runs at k = 1, beside
how those differ among themselves. A factor agrees when the start difference (median, 95th percentile) keeps to the bars
of DESIGN.md or to 1.5 times what k = 1 runs differ, and the average of the mean waits lies within 5 % of theirs (an
average, because the largest gap of single runs only grows with their number).
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from statistics import fmean, median
from typing import Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.contract.manifest import read_manifest

MEDIAN_BAR_S: Final = 1.0
P95_BAR_S: Final = 30.0
WAIT_BAR: Final = 0.05
FEWEST_RUNS: Final = 3
ALLOWANCE: Final = 1.5
"""Times what runs at k = 1 differ among themselves."""
JobKey = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class RealRun:
    """First start of each job (ns since t = 0), its nodes, its wait (seconds)."""

    factor: float
    starts: dict[JobKey, int]
    nodes: dict[JobKey, str]
    mean_wait_s: float
    late_p99_ms: float


@dataclass(frozen=True, slots=True)
class Figures:
    """One line: medians over all pairs of runs."""

    pairs: int
    median_s: float
    p95_s: float
    same_nodes: float
    wait_gap: float
    """Difference of the average mean waits, relative to the second runs'."""


def read_run(folder: Path) -> RealRun:
    """One run folder. Raises InputError when it has no manifest."""
    manifest = read_manifest(folder)
    submits: dict[int, int] = {}
    starts: dict[JobKey, int] = {}
    nodes: dict[JobKey, str] = {}
    with gzip.open(folder / "events.jsonl.gz", "rt", encoding="utf-8") as stream:
        for row in map(json.loads, stream):
            if row["kind"] == Kind.JOB_SUBMITTED:
                submits.setdefault(row["job_id"], row["t_ns"])
            elif row["kind"] == Kind.JOB_STARTED:
                key = (row["job_id"], json.loads(row.get("detail", "{}")).get("array_task"))
                if key not in starts:
                    starts[key], nodes[key] = row["t_ns"], row["node"]
    waits = [(t_ns - submits[key[0]]) / SECOND for key, t_ns in starts.items() if key[0] in submits]
    late = float(manifest.resources.get("late_p99_ms", 0))
    return RealRun(float(manifest.parameters["factor"]), starts, nodes, fmean(waits), late)


def compared(here: Sequence[RealRun], base: Sequence[RealRun]) -> Figures:
    """Every run of one group beside every run of another; a group beside itself: every two of its runs."""
    pairs = list(combinations(base, 2)) if here is base else list(product(here, base))
    medians, highs, same = [], [], []
    for one, other in pairs:
        common = sorted(one.starts.keys() & other.starts.keys(), key=str)
        errors = sorted(abs(one.starts[k] - other.starts[k]) / SECOND for k in common)
        medians.append(median(errors))
        highs.append(errors[min(len(errors) - 1, len(errors) * 95 // 100)])
        same.append(sum(one.nodes[k] == other.nodes[k] for k in common) / len(common))
    wait, usual = (fmean(run.mean_wait_s for run in runs) for runs in (here, base))
    return Figures(len(pairs), median(medians), median(highs), median(same), abs(wait - usual) / usual)


def agrees(found: Figures, among: Figures) -> bool:
    """Within the bars, or within 1.5 times what runs at k = 1 differ among themselves."""
    rows = (
        (found.median_s, MEDIAN_BAR_S, among.median_s),
        (found.p95_s, P95_BAR_S, among.p95_s),
        (found.wait_gap, WAIT_BAR, 0.0),
    )
    return all(value <= max(bar, ALLOWANCE * real) for value, bar, real in rows)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def table(runs: Sequence[RealRun]) -> list[str]:
    """Markdown lines. Raises ValueError without two runs at k = 1."""
    by_factor: dict[float, list[RealRun]] = {}
    for run in sorted(runs, key=lambda r: r.factor):
        by_factor.setdefault(run.factor, []).append(run)
    base = by_factor.get(1.0, [])
    if len(base) < 2:
        raise ValueError("two runs at k = 1 are needed to compare with")
    among = compared(base, base)
    titles = ("k", "runs", "lateness p99", "mean waits", "starts apart, median", "p95", "same nodes",
              "waits apart", "agrees")  # fmt: skip
    lines = [_line(titles), "|" + "---|" * len(titles)]
    for factor, here in by_factor.items():
        found = among if factor == 1 else compared(here, base)
        waits = ", ".join(f"{r.mean_wait_s:.0f}" for r in sorted(here, key=lambda r: r.mean_wait_s))
        word = "yes" if agrees(found, among) else "no"
        if factor == 1 or len(here) < FEWEST_RUNS:
            word = "-" if factor == 1 else "too few"
        lines.append(_line((
            f"{factor:g}", f"{len(here)}", f"{max(r.late_p99_ms for r in here):.0f} ms", f"{waits} s",
            f"{found.median_s:.1f} s", f"{found.p95_s:.0f} s", f"{100 * found.same_nodes:.0f} %",
            f"{100 * found.wait_gap:.1f} %", word,
        )))  # fmt: skip
    return lines


def main(arguments: Sequence[str]) -> int:
    """Print the table of the run folders named."""
    sys.stdout.write("\n".join(table([read_run(Path(name)) for name in arguments])) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
