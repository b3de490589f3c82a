"""How two runs of one workload differ: start by start, class by class, milestone by milestone.

Times compare as intervals: an error counts from where the two measurement intervals stop touching.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from slurmtwin_reports.history import History, JobKey, Row, label, nodes_of
from slurmtwin_reports.job_table import CLASS_NAMES, JobRecord, JobTable, job_table

ALL: Final = "all jobs"
MILESTONES: Final = (
    "node.down", "node.up", "node.resumed", "job.started", "job.ended", "job.requeued", "slurmctld.started",
    "slurmctld.took_over", "slurmctld.stopped", "slurmctld.crashed", "slurmctld.standby",
)  # fmt: skip
"""What a fault leads to and every world writes; not silence (`*`), whose end real logs tell only at times."""


@dataclass(slots=True)
class _Milestones:
    """Rows that say the same in every world: changes of state after the first fault, one per node, job, controller."""

    several_controllers: bool
    counts: bool = False
    """True from the first fault on; before it rows only say what is so."""
    found: dict[str, list[Row]] = field(default_factory=dict)
    state: dict[str, str] = field(default_factory=dict)

    def take(self, row: Row) -> None:
        """Add a row, unless the world only says again what is so already."""
        if row.kind.startswith("node."):
            for node in nodes_of(row.node or ""):
                self._becomes(node, "node.down" if row.kind == "node.down" else "node.up", "node.up", row)
        elif row.kind.startswith("job."):
            # a real end may say itself that it is a requeue, with or without a row of its own
            requeued = row.kind == "job.requeued" or (row.kind == "job.ended" and row.details.get("requeued"))
            if requeued or row.kind == "job.started":
                self._becomes(label(row.key), "job.requeued" if requeued else "", "", row)
        else:
            # a single controller has a name of its own in every world
            host = (row.node or "") if self.several_controllers else ""
            serving = row.kind in ("slurmctld.started", "slurmctld.took_over")
            self._becomes(f"controller {host}".strip(), "serves" if serving else "", "", row)

    def _becomes(self, who: str, what: str, at_first: str, row: Row) -> None:
        before = self.state.get(who, at_first)
        self.state[who] = what
        if self.counts and what and what != before:
            self.found.setdefault(f"{what} {who}", []).append(row)


@dataclass(slots=True)
class Side:
    """One run, digested: its jobs, its milestones, and whether it came to its own end."""

    history: History
    table: JobTable
    ended: str
    milestones: dict[str, list[Row]]
    faults: int

    @classmethod
    def of(cls, history: History) -> Side:
        """Walk a history once for the jobs, once for the rest."""
        ended, faults = "", 0
        milestones = _Milestones(history.facts is not None and len(history.facts.controllers) > 1)
        for row in history.rows():
            if row.kind == "fault.injected":
                faults += 1
                milestones.counts = True
            elif row.kind == "run.ended":
                ended = str(row.details.get("why", ""))
                break
            elif row.kind in MILESTONES:
                milestones.take(row)
        return cls(history, job_table(history), ended, milestones.found, faults)


@dataclass(slots=True)
class Difference:
    """How two runs of one workload differ. `errors_ns` are start errors as intervals, one per matched start."""

    errors_ns: list[int] = field(default_factory=list)
    signed_ns: list[int] = field(default_factory=list)
    """Midpoint of the first minus midpoint of the second, for figures."""
    run_errors_ns: list[int] = field(default_factory=list)
    milestone_errors_ns: list[int] = field(default_factory=list)
    milestones_missed: int = 0
    missed: int = 0
    """Starts on one side only."""
    other_nodes: int = 0
    other_states: int = 0
    jobs: int = 0
    classes: dict[str, ClassGap] = field(default_factory=dict)

    def merge(self, other: Difference) -> None:
        """Pool another pair of runs."""
        for name in ("errors_ns", "signed_ns", "run_errors_ns", "milestone_errors_ns"):
            getattr(self, name).extend(getattr(other, name))
        for name in ("milestones_missed", "missed", "other_nodes", "other_states", "jobs"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name, gap in other.classes.items():
            self.classes.setdefault(name, ClassGap()).merge(gap)


@dataclass(slots=True)
class ClassGap:
    """Mean waits of one class in each pair of runs, ns, and the measurement error of their difference."""

    jobs: int = 0
    pairs: list[tuple[float, float, float]] = field(default_factory=list)

    def merge(self, other: ClassGap) -> None:
        """Pool another pair of runs."""
        self.jobs = max(self.jobs, other.jobs)
        self.pairs += other.pairs

    @property
    def real_mean(self) -> float:
        """Mean over the pairs of the second run's mean wait, ns."""
        return sum(b for _, b, _ in self.pairs) / len(self.pairs) if self.pairs else 0.0

    @property
    def relative(self) -> float:
        """Mean over the pairs of |a - b| / b beyond measurement error; b is the second (real) run's mean."""
        gaps = []
        for a, b, error in self.pairs:
            beyond = max(0.0, abs(a - b) - error)
            gaps.append(beyond / b if b > 0 else float(beyond > 0))
        return sum(gaps) / len(gaps) if gaps else 0.0


def difference(a: Side, b: Side) -> Difference:
    """Compare two runs start by start (job, number of the attempt), class by class, milestone by milestone."""
    out = Difference()
    for key, record in a.table.records.items():
        other = b.table.records.get(key)
        out.jobs += 1
        if other is None:
            out.other_states += 1
            out.missed += len(record.attempts)
            continue
        out.other_states += _last_state(record) != _last_state(other)
        out.missed += abs(len(record.attempts) - len(other.attempts))
        for mine, real in zip(record.attempts, other.attempts, strict=False):
            apart = mine.start_ns - real.start_ns
            error = mine.start_err_ns + real.start_err_ns
            out.errors_ns.append(max(0, abs(apart) - error))
            out.signed_ns.append(apart)
            out.other_nodes += mine.nodes != real.nodes and _nodes(mine.nodes) != _nodes(real.nodes)
            if mine.end_ns is not None and real.end_ns is not None:
                run = (mine.end_ns - mine.start_ns) - (real.end_ns - real.start_ns)
                error += mine.end_err_ns + real.end_err_ns
                out.run_errors_ns.append(max(0, abs(run) - error))
    for key, record in b.table.records.items():
        if key not in a.table.records:
            out.jobs += 1
            out.other_states += 1
            out.missed += len(record.attempts)
    out.classes = _class_gaps(a.table, b.table)
    _compare_milestones(a, b, out)
    return out


def _last_state(record: JobRecord) -> str:
    """A run that slurmctld forgot for good is a lost job: only the twin can write that down (job.lost)."""
    last = record.attempts[-1] if record.attempts else None
    return "LOST" if last is not None and last.state == "FORGOTTEN" else record.state


def _nodes(text: str) -> list[str]:
    return sorted(nodes_of(text))


def _class_gaps(a: JobTable, b: JobTable) -> dict[str, ClassGap]:
    """Mean waits per class over the jobs that started in both runs; classed by what the second run's jobs are."""
    members: dict[str, list[JobKey]] = {ALL: []}
    for key, record in b.records.items():
        other = a.records.get(key)
        if record.wait_ns is None or other is None or other.wait_ns is None:
            continue
        members[ALL].append(key)
        for by in CLASS_NAMES:
            members.setdefault(f"{by} {b.class_of(record, by)}", []).append(key)
    whole = len(members[ALL])
    out: dict[str, ClassGap] = {}
    for name, keys in members.items():
        if not keys or (name != ALL and len(keys) == whole):
            continue
        mine, real = _mean_wait(a, keys), _mean_wait(b, keys)
        error = sum(_wait_error(a, k) + _wait_error(b, k) for k in keys) / len(keys)
        out[name] = ClassGap(len(keys), [(mine, real, error)])
    return out


def _mean_wait(table: JobTable, keys: Iterable[JobKey]) -> float:
    waits = [table.records[k].wait_ns or 0 for k in keys]
    return sum(waits) / len(waits)


def _wait_error(table: JobTable, key: JobKey) -> int:
    record = table.records[key]
    return record.submit_err_ns + record.attempts[0].start_err_ns


def _compare_milestones(a: Side, b: Side, out: Difference) -> None:
    """The k-th occurrence of a milestone on one target against the k-th of the other run, after faults only."""
    if not (a.faults and b.faults):
        return
    for name in sorted(set(a.milestones) | set(b.milestones)):
        mine, real = a.milestones.get(name, []), b.milestones.get(name, [])
        out.milestones_missed += abs(len(mine) - len(real))
        for x, y in zip(mine, real, strict=False):
            out.milestone_errors_ns.append(max(0, abs(x.t_ns - y.t_ns) - x.t_err_ns - y.t_err_ns))
