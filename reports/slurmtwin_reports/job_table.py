"""What became of each job: submit, eligible, every attempt, final state. Built in one walk over the rows.

An attempt is one start and what followed it; a requeued job has several. Times are nanoseconds since the
scenario's start with their half-width; waits count from the submit row to the first start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from slurmtwin.contract.jobs import parse_array
from slurmtwin_reports.history import History, JobKey, Row, forgets, loses_state

SIZE_CLASSES: Final = ((1, "1 CPU"), (8, "2-8 CPUs"), (64, "9-64 CPUs"), (512, "65-512 CPUs"))
CLASS_NAMES: Final = ("partition", "qos", "user", "size")


@dataclass(slots=True)
class Attempt:
    """One start. `state` is the end's, empty while it runs; `start_by` is main, backfill, submit or salloc."""

    start_ns: int
    start_err_ns: int
    nodes: str
    cpus: int
    start_by: str
    node_cpus: tuple[int, ...] = ()
    end_ns: int | None = None
    end_err_ns: int = 0
    completed_ns: int | None = None
    state: str = ""
    pauses: list[tuple[int, int | None]] = field(default_factory=list)
    """Suspended from, to; None: still suspended."""

    def busy_ns(self, until_ns: int) -> int:
        """Time it ran, without suspensions, up to `until_ns` when it has not ended."""
        end = self.end_ns if self.end_ns is not None else until_ns
        paused = sum((b if b is not None else end) - a for a, b in self.pauses)
        return max(0, end - self.start_ns - paused)


@dataclass(slots=True)
class JobRecord:
    """One job or array task. `state` is the last known: PENDING, RUNNING, an end state, REJECTED, LOST."""

    key: JobKey
    submit_ns: int | None = None
    submit_err_ns: int = 0
    eligible_ns: int | None = None
    state: str = "PENDING"
    reason: str = ""
    requeues: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    asked_ns: int | None = None
    """When its user first tried to submit it: before `submit_ns` where no slurmctld answered."""

    @property
    def first(self) -> Attempt | None:
        """The first attempt."""
        return self.attempts[0] if self.attempts else None

    @property
    def wait_ns(self) -> int | None:
        """Submit to first start."""
        if self.submit_ns is None or not self.attempts:
            return None
        return self.attempts[0].start_ns - self.submit_ns

    @property
    def end_ns(self) -> int | None:
        """End of the last attempt."""
        return self.attempts[-1].end_ns if self.attempts else None


@dataclass(slots=True)
class JobTable:
    """All jobs of a run, and when it ended."""

    records: dict[JobKey, JobRecord]
    requests: Mapping[int, Mapping[str, Any]]
    end_ns: int
    default_partition: str = ""
    crash_ns: int | None = None
    """The last crash of slurmctld so far, while the rows are walked."""
    lost_ns: int | None = None
    """When slurmctld's saved state was lost for the last time."""
    numbers: dict[str, JobKey] = field(default_factory=dict)
    """Who got a Slurm job id last."""
    renumbered_ns: dict[int, int] = field(default_factory=dict)
    """Job -> when another one got its Slurm job id."""

    @property
    def last_ns(self) -> int:
        """The last start or end of a job."""
        return max((a.end_ns if a.end_ns is not None else a.start_ns for _, _, a in self.attempts()), default=0)

    def attempts(self) -> Iterator[tuple[JobKey, int, Attempt]]:
        """(job, number of the attempt, attempt) over all jobs in submit order."""
        for key, record in self.records.items():
            for number, attempt in enumerate(record.attempts):
                yield key, number, attempt

    def class_of(self, record: JobRecord, by: str) -> str:
        """The class a job belongs to; `by` is one of CLASS_NAMES."""
        if by == "size":
            cpus = record.first.cpus if record.first else 0
            return next((name for most, name in SIZE_CLASSES if cpus <= most), "over 512 CPUs")
        given = str(self.requests.get(record.key[0], {}).get(by, ""))
        if not given and by == "partition":
            given = self.default_partition
        return given or "(default)"


def job_table(history: History) -> JobTable:
    """Walk the rows once and follow each job; the table is kept for the next who asks."""
    known = history.memo.get("job_table")
    if isinstance(known, JobTable):
        return known
    table = JobTable({}, history.jobs, 0, history.facts.default_partition if history.facts else "")
    followers = _FOLLOW
    for row in history.rows():
        table.end_ns = max(table.end_ns, row.t_ns)
        follow = followers.get(row.kind)
        if follow is not None and row.job_id is not None:
            follow(table, row)
        elif forgets(row):
            table.crash_ns = row.t_ns
            table.lost_ns = row.t_ns if loses_state(row) else table.lost_ns
        elif row.kind == "run.ended":
            break  # what a real daemon still did while it was shut down is not the run's
    _close_lost(table)
    _expand_arrays(table)
    history.memo["job_table"] = table
    return table


def _close_lost(table: JobTable) -> None:
    """What ran when the saved state was lost holds nothing from then on; its record stays RUNNING."""
    if table.lost_ns is None:
        return
    for record in table.records.values():
        last = record.attempts[-1] if record.attempts else None
        if last is not None and last.end_ns is None and last.start_ns <= table.lost_ns:
            last.end_ns, last.state = table.lost_ns, "FORGOTTEN"


def _record(table: JobTable, row: Row) -> JobRecord:
    key = row.key
    record = table.records.get(key)
    if record is None:
        record = table.records[key] = JobRecord(key)
        whole = table.records.get((key[0], -1))
        if key[1] >= 0 and whole is not None:
            record.submit_ns, record.submit_err_ns = whole.submit_ns, whole.submit_err_ns
            record.eligible_ns, record.reason = whole.eligible_ns, whole.reason
    return record


def _submitted(table: JobTable, row: Row) -> None:
    record = _record(table, row)
    number = str(row.details.get("slurm_id", ""))
    if number:
        before = table.numbers.get(number, record.key)
        table.numbers[number] = record.key
        if before != record.key:
            table.renumbered_ns[before[0]] = row.t_ns
        if before != record.key and table.crash_ns is not None:
            # a crash lost the older job with its number: no world but the twin can write a row of that
            table.records[before].state = "LOST"
    if record.submit_ns is None:
        if record.state == "REJECTED":  # tried again
            record.state = "PENDING"
        record.submit_ns, record.submit_err_ns = row.t_ns, row.t_err_ns
        begin = table.requests.get(record.key[0], {}).get("begin_ns")
        record.eligible_ns = max(row.t_ns, begin) if isinstance(begin, int) else row.t_ns


def _rejected(table: JobTable, row: Row) -> None:
    record = _record(table, row)
    record.state = "REJECTED"
    record.asked_ns = row.t_ns if record.asked_ns is None else record.asked_ns
    record.reason = str(row.details.get("reason", ""))


def _started(table: JobTable, row: Row) -> None:
    record = _record(table, row)
    _forget(table, record, row)
    details = row.details
    split = tuple(int(c) for c in details.get("node_cpus", ()))
    record.attempts.append(
        Attempt(row.t_ns, row.t_err_ns, row.node or "", row.value or 0, str(details.get("by", "")), split)
    )
    record.state = "RUNNING"


def _ended(table: JobTable, row: Row) -> None:
    record = _record(table, row)
    state = str(row.details.get("state", "COMPLETED"))
    # a real end may say itself that it is a requeue, with or without a row of its own
    record.state = "PENDING" if row.details.get("requeued") else state
    if record.attempts and record.attempts[-1].end_ns is None:
        last = record.attempts[-1]
        last.end_ns, last.end_err_ns, last.state = row.t_ns, row.t_err_ns, state


def _completed(table: JobTable, row: Row) -> None:
    record = _record(table, row)
    if record.attempts and record.attempts[-1].completed_ns is None:
        record.attempts[-1].completed_ns = row.t_ns


def _requeued(table: JobTable, row: Row) -> None:
    record = _record(table, row)
    if record.attempts and record.attempts[-1].end_ns is None:
        last = record.attempts[-1]
        last.end_ns, last.end_err_ns, last.state = row.t_ns, row.t_err_ns, "REQUEUED"
    record.state = "PENDING"
    record.requeues += 1


def _lost(table: JobTable, row: Row) -> None:
    record = _record(table, row)
    _forget(table, record, row)
    record.state = "LOST"


def _forget(table: JobTable, record: JobRecord, row: Row) -> None:
    """A start that slurmctld forgot in a crash (slurm.md 5.3) holds nothing from the crash on."""
    if record.attempts and record.attempts[-1].end_ns is None:
        last = record.attempts[-1]
        crashed = table.crash_ns is not None and table.crash_ns >= last.start_ns
        last.end_ns = table.crash_ns if crashed else row.t_ns
        last.end_err_ns, last.state = row.t_err_ns, "FORGOTTEN"


def _pending(table: JobTable, row: Row) -> None:
    record = _record(table, row)
    reason = str(row.details.get("reason", ""))
    waited = record.reason.startswith(("Dependency", "BeginTime", "JobHeld", "JobArrayTaskLimit"))
    if waited and not record.attempts and not reason.startswith(("Dependency", "BeginTime", "JobHeld")):
        record.eligible_ns = row.t_ns
    record.reason = reason


def _held(table: JobTable, row: Row) -> None:
    _record(table, row).reason = str(row.details.get("reason", "JobHeldUser"))


def _released(table: JobTable, row: Row) -> None:
    record = _record(table, row)
    if not record.attempts:
        record.eligible_ns = row.t_ns
    record.reason = ""


def _suspended(table: JobTable, row: Row) -> None:
    record = _record(table, row)
    if record.attempts:
        record.attempts[-1].pauses.append((row.t_ns, None))


def _resumed(table: JobTable, row: Row) -> None:
    record = _record(table, row)
    if record.attempts and record.attempts[-1].pauses and record.attempts[-1].pauses[-1][1] is None:
        begin = record.attempts[-1].pauses[-1][0]
        record.attempts[-1].pauses[-1] = (begin, row.t_ns)


_FOLLOW: Final = {
    "job.submitted": _submitted, "job.rejected": _rejected, "job.started": _started, "job.ended": _ended,
    "job.completed": _completed, "job.requeued": _requeued, "job.lost": _lost, "job.pending": _pending,
    "job.held": _held, "job.released": _released, "job.suspended": _suspended, "job.resumed": _resumed,
}  # fmt: skip


def _expand_arrays(table: JobTable) -> None:
    """An array submitted by one row stands for its tasks: those never seen alone keep the array's own story."""
    for key in [k for k in table.records if k[1] < 0]:
        array = table.requests.get(key[0], {}).get("array")
        whole = table.records[key]
        if not array or whole.attempts:
            continue
        del table.records[key]
        for index in parse_array(str(array))[0]:
            if (key[0], index) not in table.records:
                table.records[(key[0], index)] = JobRecord(
                    (key[0], index), whole.submit_ns, whole.submit_err_ns, whole.eligible_ns, whole.state, whole.reason
                )
