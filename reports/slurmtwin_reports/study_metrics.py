"""The figures of one run of a study, from its events and workload alone.

Every figure is given for several cuts of the warm-up (shares of the submit span), beside the cut that this run's
own waits ask for: runs that are compared are then read at one cut, the latest that any of them asks for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from slurmtwin.contract.scenario import COPY
from slurmtwin_reports.checks.active_controller import BEGINS, ENDS
from slurmtwin_reports.history import History, fault_of
from slurmtwin_reports.job_table import JobRecord, JobTable, job_table
from slurmtwin_reports.metrics import bounded_slowdown, busy_steps, mean_level, quantile
from slurmtwin_reports.warm_up import mser5

CUTS: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
"""Shares of the submit span that may be dropped."""
UNSETTLED: Final = -1.0
"""In place of a cut: the waits never settle within the first half."""
HOUR_NS: Final = 3_600_000_000_000
Figures = dict[str, float]


def run_figures(history: History, warm_up: str = "mser-5") -> dict[str, Any]:
    """`{"cut": share asked for, "figures": {share: figures}}` of a run; with warm_up "none" only the cut 0."""
    table = job_table(history)
    records = sorted(
        (r for r in table.records.values() if r.submit_ns is not None and r.state != "REJECTED"),
        key=lambda r: (r.submit_ns, r.key),
    )
    capacity = sum(history.facts.node_cpus.values()) if history.facts else 0
    cuts = CUTS if warm_up == "mser-5" else CUTS[:1]
    asked = cut_of(records) if warm_up == "mser-5" else 0.0
    down = _downtime(history)
    whole = _pod_figures(history)
    figures = {f"{cut:g}": {**_figures(table, records, cut, capacity, down), **whole} for cut in cuts}
    return {"cut": asked, "figures": figures}


def cut_of(records: Sequence[JobRecord]) -> float:
    """The least of CUTS behind which MSER-5 on the waits in submit order ends the warm-up; UNSETTLED for none."""
    waits = [r.wait_ns / 1e9 for r in records if r.wait_ns is not None]
    if len(waits) < len(records) or len(waits) < 50:
        return 0.0 if len(waits) == len(records) else UNSETTLED
    drop = mser5(waits)
    if drop is None:
        return UNSETTLED
    begin, end = records[0].submit_ns or 0, records[-1].submit_ns or 0
    share = ((records[drop].submit_ns or 0) - begin) / max(1, end - begin)
    return next((cut for cut in CUTS if cut >= share), UNSETTLED)


def _figures(
    table: JobTable, records: Sequence[JobRecord], cut: float, capacity: int, down: list[tuple[int, int]]
) -> Figures:
    if not records:
        return {"jobs": 0.0}
    begin, last = records[0].submit_ns or 0, records[-1].submit_ns or 0
    from_ns = begin + int((last - begin) * cut)
    kept = [r for r in records if (r.submit_ns or 0) >= from_ns and r.key[0] < COPY]
    copies = [r for r in records if r.key[0] >= COPY and (r.submit_ns or 0) >= from_ns]
    out: Figures = {"jobs": float(len(kept)), "unstarted": float(sum(r.wait_ns is None for r in kept))}
    out.update(_waits(kept, ""))
    delays = [r.attempts[0].start_ns - _asked_ns(r) for r in kept if r.attempts]
    if delays:
        out["mean_delay_s"] = sum(delays) / len(delays) / 1e9
    out["never_submitted"] = float(
        sum(r.submit_ns is None and (r.asked_ns or 0) >= from_ns for r in table.records.values())
    )
    out["left_waiting"] = float(sum(not r.attempts and r.state == "CANCELLED" for r in kept))
    for name, members in _classes(table, kept).items():
        out.update(_waits(members, f":{name}"))
    turn = _turnarounds(kept, copies)
    if turn:
        out["mean_turnaround_s"] = sum(turn) / len(turn) / 1e9
    slow = [s for r in kept if (s := bounded_slowdown(r)) is not None]
    if slow:
        out["mean_bounded_slowdown"] = math.fsum(slow) / len(slow)
    used = sum(a.cpus * a.busy_ns(table.end_ns) for r in (*kept, *copies) for a in r.attempts)
    good = sum(a.cpus * a.busy_ns(table.end_ns) for r in kept for a in r.attempts if a.state == "COMPLETED")
    if copies:
        good += _of_copies(table, kept, copies, out)
    if used:
        out["goodput"] = good / used
    out["lost_core_hours"] = (used - good) / HOUR_NS
    out["requeues"] = float(sum(r.requeues for r in kept))
    out["submission_downtime_s"] = sum(max(0, min(b, last) - max(a, from_ns)) for a, b in down) / 1e9
    if capacity:
        level = mean_level(busy_steps(table), from_ns, last)
        if level is not None:
            out["utilisation"] = level / capacity
    return out


def _asked_ns(record: JobRecord) -> int:
    """When its user first tried to submit a job that slurmctld took in the end."""
    return record.asked_ns if record.asked_ns is not None else record.submit_ns or 0


def _turnarounds(kept: Sequence[JobRecord], copies: Sequence[JobRecord]) -> list[int]:
    """From submission to the first successful end of a job or of a copy of it, in ns; jobs without one are left out."""
    ends: dict[tuple[int, int], int] = {}
    for record in (*kept, *copies):
        for attempt in record.attempts:
            if attempt.state == "COMPLETED" and attempt.end_ns is not None:
                key = (record.key[0] % COPY, record.key[1])
                ends[key] = min(attempt.end_ns, ends.get(key, attempt.end_ns))
    return [ends[r.key] - (r.submit_ns or 0) for r in kept if r.key in ends]


def _of_copies(table: JobTable, kept: Sequence[JobRecord], copies: Sequence[JobRecord], out: Figures) -> int:
    """Useful CPU time of copies, where the job itself came to no good end; counts copies, and jobs done twice."""
    ended = {r.key for r in kept for a in r.attempts if a.state == "COMPLETED"}
    done = [(r, a) for r in copies for a in r.attempts if a.state == "COMPLETED"]
    twice = [(r.key[0] % COPY, r.key[1]) in ended for r, _ in done]
    out["moved"], out["run_twice"] = float(len(copies)), float(sum(twice))
    return sum(a.cpus * a.busy_ns(table.end_ns) for (_, a), again in zip(done, twice, strict=True) if not again)


def _pod_figures(history: History) -> Figures:
    """Of a run in pods, whatever the warm-up: hours that worker pods exist, and how long each shrinking of them took.

    A shrinking lasts from an operator.scale step until the last pod goes before the next step. Whoever asked for fewer
    workers wants their machines: service_missed_hours are hours of pods beyond the count that was asked for last.
    """
    made: dict[str, int] = {}
    held_ns = missed_ns = last_ns = end = 0
    asked: int | None = None
    steps: list[tuple[int, int]] = []
    for row in history.rows():
        end = max(end, row.t_ns)
        if row.kind == "fault.injected" and fault_of(row).get("kind") == "operator.scale":
            missed_ns, last_ns = missed_ns + _beyond(made, asked) * (row.t_ns - last_ns), row.t_ns
            steps.append((row.t_ns, 0))
            asked = int(str(fault_of(row).get("count", 0)))
        elif row.actor == "collector" and row.kind in ("pod.created", "pod.deleted"):
            detail = row.details
            if detail.get("app") != "slurmd":
                continue
            missed_ns, last_ns = missed_ns + _beyond(made, asked) * (row.t_ns - last_ns), row.t_ns
            uid = str(row.pod_uid or detail.get("pod"))
            if row.kind == "pod.created":
                made[uid] = row.t_ns
            elif (since := made.pop(uid, None)) is not None:
                held_ns += row.t_ns - since
                if steps:
                    steps[-1] = (steps[-1][0], row.t_ns - steps[-1][0])
    if not held_ns and not made:
        return {}
    missed_ns += _beyond(made, asked) * (end - last_ns)
    out = {
        "pod_hours": (held_ns + sum(end - since for since in made.values())) / HOUR_NS,
        "service_missed_hours": missed_ns / HOUR_NS,
    }
    shrinking = [took for _, took in steps if took]
    if shrinking:
        out["scale_in_s"] = sum(shrinking) / len(shrinking) / 1e9
    return out


def _beyond(made: dict[str, int], asked: int | None) -> int:
    return 0 if asked is None else max(0, len(made) - asked)


def _waits(records: Iterable[JobRecord], suffix: str) -> Figures:
    waits = [w for r in records if (w := r.wait_ns) is not None]
    if not waits:
        return {}
    p95 = quantile(waits, 0.95)
    return {f"mean_wait_s{suffix}": sum(waits) / len(waits) / 1e9, f"p95_wait_s{suffix}": (p95 or 0.0) / 1e9}


def _classes(table: JobTable, records: Iterable[JobRecord]) -> dict[str, list[JobRecord]]:
    """Started jobs by size, as the reports have them."""
    out: dict[str, list[JobRecord]] = {}
    for record in records:
        if record.attempts:
            out.setdefault(table.class_of(record, "size"), []).append(record)
    return dict(sorted(out.items()))


def _downtime(history: History) -> list[tuple[int, int]]:
    """Spans in which no slurmctld served, from the first that did on; a frozen one serves nobody."""
    active: set[str] = set()
    frozen: set[str] = set()
    spans: list[tuple[int, int]] = []
    since: int | None = None
    end = 0
    for row in history.rows():
        end = max(end, row.t_ns)
        host = row.node or row.actor
        if row.kind in BEGINS:
            active.add(host)
        elif row.kind in ENDS:
            active.discard(host)
            frozen.discard(host)
        elif row.kind == "fault.injected":
            fault = fault_of(row)
            target = str(fault.get("target") or min([*active, *frozen], default=""))
            if fault.get("kind") == "slurmctld.freeze" and target in active:
                active.discard(target)
                frozen.add(target)
            elif fault.get("kind") == "slurmctld.thaw" and target in frozen:
                frozen.discard(target)
                active.add(target)
            else:
                continue
        else:
            continue
        if active and since is not None:
            spans.append((since, row.t_ns))
            since = None
        elif not active and since is None:
            since = row.t_ns
    return spans if since is None else [*spans, (since, end)]
