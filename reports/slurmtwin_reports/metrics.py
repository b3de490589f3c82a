"""Figures of one run, all derived from its events: waits, utilisation, slowdown, goodput, requeues.

Seconds are for display; sums are taken in integer nanoseconds before they are divided.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from slurmtwin_reports.history import label
from slurmtwin_reports.job_table import CLASS_NAMES, JobRecord, JobTable

SLOWDOWN_BOUND_NS: Final = 10_000_000_000
"""Bounded slowdown counts runs under 10 s as 10 s (Feitelson and Rudolph 1998)."""
LONG_WAIT_NS: Final = 60_000_000_000

Step = tuple[int, int]
"""(time in ns, value from then on)."""


def job_rows(table: JobTable) -> list[dict[str, Any]]:
    """One dict per job: times in ns, nodes and starter of the last attempt, restarts, wait."""
    rows = []
    for key, record in table.records.items():
        last = record.attempts[-1] if record.attempts else None
        rows.append({
            "job": label(key), "job_id": key[0], "array_task": key[1] if key[1] >= 0 else None,
            "submit_ns": record.submit_ns, "eligible_ns": record.eligible_ns,
            "first_start_ns": record.attempts[0].start_ns if record.attempts else None,
            "start_ns": last.start_ns if last else None, "end_ns": last.end_ns if last else None,
            "completed_ns": last.completed_ns if last else None, "nodes": last.nodes if last else None,
            "cpus": last.cpus if last else None, "started_by": record.attempts[0].start_by if record.attempts else None,
            "wait_ns": record.wait_ns, "restarts": max(0, len(record.attempts) - 1), "state": record.state,
            **{name: table.class_of(record, name) for name in CLASS_NAMES},
        })  # fmt: skip
    return rows


def job_frame(table: JobTable) -> Any:
    """job_rows as a pandas frame, integers nullable."""
    import pandas as pd

    frame = pd.DataFrame(job_rows(table))
    whole = [c for c in frame.columns if c.endswith("_ns") or c in ("job_id", "array_task", "cpus", "restarts")]
    return frame.astype(dict.fromkeys(whole, "Int64"))


def waits_by_class(table: JobTable, by: str) -> dict[str, list[int]]:
    """Waits in ns of the started jobs, by class name in sorted order; `by` is one of CLASS_NAMES."""
    groups: dict[str, list[int]] = {}
    for record in table.records.values():
        wait = record.wait_ns
        if wait is not None:
            groups.setdefault(table.class_of(record, by), []).append(wait)
    return dict(sorted(groups.items()))


def busy_steps(table: JobTable) -> list[Step]:
    """CPUs in use over time, as steps."""
    return _steps(_busy_changes(table))


def queue_steps(table: JobTable) -> list[Step]:
    """Jobs submitted and waiting for a start (again after a requeue), as steps."""
    changes: list[tuple[int, int]] = []
    for record in table.records.values():
        if record.submit_ns is None or record.state == "REJECTED":
            continue
        since: int | None = record.submit_ns
        for number, attempt in enumerate(record.attempts):
            if since is not None:
                changes += ((since, 1), (attempt.start_ns, -1))
            again = number < len(record.attempts) - 1 or record.state == "PENDING"
            since = attempt.end_ns if again else None
        if since is not None and record.state == "PENDING":
            changes.append((since, 1))
        elif not record.attempts:
            changes += ((record.submit_ns, 1), (record.submit_ns, -1))
    return _steps(changes)


def _busy_changes(table: JobTable) -> Iterable[tuple[int, int]]:
    for _, _, attempt in table.attempts():
        yield attempt.start_ns, attempt.cpus
        if attempt.end_ns is not None:
            yield attempt.end_ns, -attempt.cpus
        for begin, end in attempt.pauses:
            yield begin, -attempt.cpus
            if end is not None or attempt.end_ns is not None:
                yield end if end is not None else attempt.end_ns or begin, attempt.cpus


def _steps(changes: Iterable[tuple[int, int]]) -> list[Step]:
    steps: list[Step] = []
    level = 0
    for t, change in sorted(changes):
        level += change
        if steps and steps[-1][0] == t:
            steps[-1] = (t, level)
        else:
            steps.append((t, level))
    return steps


def mean_level(steps: list[Step], begin_ns: int, end_ns: int) -> float | None:
    """Time-average of a step function over [begin, end); None for an empty span."""
    if end_ns <= begin_ns:
        return None
    area, level, t = 0, 0, begin_ns
    for when, value in steps:
        if when >= end_ns:
            break
        if when > t:
            area += level * (when - t)
            t = when
        level = value
    area += level * (end_ns - t)
    return area / (end_ns - begin_ns)


def quantile(values: list[int], q: float) -> float | None:
    """Linear-interpolated quantile (Hyndman and Fan type 7, as numpy's default); None for no values."""
    if not values:
        return None
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def bounded_slowdown(record: JobRecord) -> float | None:
    """max(1, (wait + run) / max(run, 10 s)) of a job that ran to its end once; None otherwise."""
    wait, last = record.wait_ns, record.attempts[-1] if record.attempts else None
    if wait is None or last is None or last.end_ns is None or len(record.attempts) > 1:
        return None
    run = last.end_ns - last.start_ns
    return max(1.0, (wait + run) / max(run, SLOWDOWN_BOUND_NS))


def summary(table: JobTable, capacity_cpus: int | None = None) -> dict[str, Any]:
    """The figures of a run, JSON-ready. `capacity_cpus` (all CPUs of the cluster) is needed for utilisation."""
    records = list(table.records.values())
    started = [r for r in records if r.attempts]
    waits = [w for r in started if (w := r.wait_ns) is not None]
    states: dict[str, int] = {}
    for r in records:
        states[r.state] = states.get(r.state, 0) + 1
    used = sum(a.cpus * a.busy_ns(table.end_ns) for _, _, a in table.attempts())
    good = sum(a.cpus * a.busy_ns(table.end_ns) for _, _, a in table.attempts() if a.state == "COMPLETED")
    slow = [s for r in records if (s := bounded_slowdown(r)) is not None]
    out: dict[str, Any] = {
        "jobs": len(records),
        "started": len(started),
        "states": dict(sorted(states.items())),
        "requeues": sum(r.requeues for r in records),
        "restarts": sum(len(r.attempts) - 1 for r in started),
        "mean_wait_s": sum(waits) / len(waits) / 1e9 if waits else None,
        "median_wait_s": _seconds(quantile(waits, 0.5)),
        "p95_wait_s": _seconds(quantile(waits, 0.95)),
        "max_wait_s": _seconds(max(waits, default=None)),
        "share_wait_over_60s": _share(sum(w > LONG_WAIT_NS for w in waits), len(waits)),
        "share_by_backfill": _share(sum(r.attempts[0].start_by == "backfill" for r in started), len(started)),
        "mean_bounded_slowdown": sum(slow) / len(slow) if slow else None,
        "goodput": _share(good, used),
        "lost_cpu_s": (used - good) / 1e9,
        **_spans(table, capacity_cpus),
    }
    return out


def _spans(table: JobTable, capacity: int | None) -> dict[str, Any]:
    """Makespan, and utilisation over all of it and over the loaded span (first to last start)."""
    submits = [r.submit_ns for r in table.records.values() if r.submit_ns is not None]
    starts = [a.start_ns for _, _, a in table.attempts()]
    ends = [a.end_ns if a.end_ns is not None else table.end_ns for _, _, a in table.attempts()]
    if not submits or not starts:
        return {"makespan_s": None, "utilisation": None, "utilisation_loaded": None}
    steps = busy_steps(table)
    whole = mean_level(steps, min(submits), max(ends))
    loaded = mean_level(steps, min(starts), max(starts))
    return {
        "makespan_s": (max(ends) - min(submits)) / 1e9,
        "utilisation": whole / capacity if capacity and whole is not None else None,
        "utilisation_loaded": loaded / capacity if capacity and loaded is not None else None,
    }


def number(value: float | None) -> str:
    """A figure for people: up to four significant digits, never an exponent, `-` for nothing."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:.0f}"
    if 0 < abs(value) < 0.001:
        return f"{value:.4f}".rstrip("0").rstrip(".") if abs(value) >= 0.00005 else "0"
    return f"{value:.4g}"


def _seconds(ns: float | int | None) -> float | None:
    return None if ns is None else ns / 1e9


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
