"""Does capacity explain the recorded waits? A plan rests on that: without it the answer is called unsupported.

The trace is replayed on today's nodes and its waits are held against the recorded ones, by class and by target.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from slurmtwin.campaign.planning.target import Target, wait_table

FIGURE_ERROR: Final = 0.25
"""A target's figure of the replay may lie so far from the recorded one, or ..."""
SMALL_S: Final = 60.0
"""... so many seconds."""
LEAST_EXPLAINED: Final = 0.5
"""Of all recorded waiting, so much must be met by the replay, job by job (1 less the absolute errors' share)."""
LEAST_KNOWN: Final = 0.5


def replay_check(replayed_s: Any, recorded_s: Any, classes: Any, targets: tuple[Target, ...]) -> dict[str, Any]:
    """The comparison over the counted jobs. `supported` is None when the trace has too few recorded waits."""
    both = np.isfinite(recorded_s) & np.isfinite(replayed_s)
    share = float(both.mean()) if both.size else 0.0
    if share < LEAST_KNOWN or not recorded_s[both].any():
        why = "the trace has no recorded waits to hold a replay against"
        return {"supported": None, "why": why, "known": share, "classes": [], "figures": [], "explained": None}
    now, then, names = replayed_s[both], recorded_s[both], classes[both]
    error = np.abs(now - then)
    explained = 1.0 - float(error.sum()) / float(then.sum())
    figures: list[dict[str, Any]] = []
    for target in targets:
        got, was = target.figure(now, names), target.figure(then, names)
        close = abs(got - was) <= max(FIGURE_ERROR * was, SMALL_S)
        figures.append({"target": target.text, "replayed_s": got, "recorded_s": was, "close": bool(close)})
    reasons = [
        f"{row['target'].partition(' <')[0]} {_hours(row['replayed_s'])}, recorded {_hours(row['recorded_s'])}"
        for row in figures
        if not row["close"]
    ]
    if explained < LEAST_EXPLAINED and float(then.mean()) > SMALL_S:
        reasons.append(f"job by job {max(0.0, explained):.0%} of the recorded waiting is explained")
    why = "capacity does not explain the recorded waits: " + "; ".join(reasons)
    return {
        "supported": not reasons, "why": why if reasons else "the replay meets the recorded waits", "known": share,
        "figures": figures, "explained": explained, "median_error_s": float(np.median(error)),
        "classes": _by_class(now, then, names),
    }  # fmt: skip


def _by_class(now: Any, then: Any, names: Any) -> list[dict[str, Any]]:
    rows = []
    recorded = {row["class"]: row for row in wait_table(then, names)}
    for row in wait_table(now, names):
        was = recorded[row["class"]]
        rows.append({
            "class": row["class"], "jobs": row["jobs"],
            **{f"replayed_{key}": row[key] for key in ("mean_s", "median_s", "p95_s")},
            **{f"recorded_{key}": was[key] for key in ("mean_s", "median_s", "p95_s")},
        })  # fmt: skip
    return rows


def _hours(seconds: float) -> str:
    return (
        f"{seconds / 3600:.3g} h"
        if seconds >= 3600
        else f"{seconds / 60:.3g} min"
        if seconds >= 60
        else f"{seconds:.3g} s"
    )
