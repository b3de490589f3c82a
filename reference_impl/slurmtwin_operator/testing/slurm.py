"""Slurm in memory: node records, whole-node jobs first come first served, requeue with its hold.

Rules from the Slurm notes: DOWN and drained nodes take no jobs; a node set DOWN requeues its jobs with a hold of 121 s;
a silent node is flagged after one ping and DOWN after SlurmdTimeout; ReturnToService decides who comes back by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from slurmtwin.contract.events import Kind
from slurmtwin_operator.core.observed import Slurm, SlurmJob, SlurmNode

SECOND: Final = 1_000_000_000
REQUEUE_HOLD_NS: Final = 121 * SECOND
PING_NS: Final = 10 * SECOND
NOT_RESPONDING: Final = "Not responding"


class RefusedError(Exception):
    """slurmctld or the API server refused a request; the text says why."""


@dataclass(slots=True)
class Record:
    """A node record."""

    name: str
    feature: str
    down: bool = False
    drained: bool = False
    silent: bool = False
    dead: bool = False
    """Its slurmd is gone, whether slurmctld knows it or not."""
    reason: str = ""
    comment: str = ""
    registered_ns: int = 0
    job: int = 0
    lock_asked: bool = False


@dataclass(slots=True)
class Job:
    """A job of whole nodes."""

    id: int
    nodes: int
    run_ns: int
    partition: str
    name: str = ""
    state: str = "PENDING"
    on: tuple[str, ...] = ()
    begin_ns: int = 0
    end_ns: int = 0
    starts: int = 0


@dataclass(slots=True)
class Clock:
    """What the doubles share: time, delayed calls, the event table."""

    after: Callable[[int, Callable[[], None]], None]
    now: Callable[[], int]
    note: Callable[..., None]


@dataclass(slots=True)
class FakeSlurm:
    """slurmctld and slurmrestd."""

    clock: Clock
    return_to_service: int = 1
    slurmd_timeout_ns: int = 300 * SECOND
    lock_first: bool = False
    """A prolog asks for the machine's lock, and the job starts when it is locked."""
    rest: str = "up"
    """up, down, tarpit (accepts and never answers), absent (no REST API object)."""
    running: bool = True
    nodes: dict[str, Record] = field(default_factory=dict)
    jobs: dict[int, Job] = field(default_factory=dict)
    reservations: set[str] = field(default_factory=set)
    partitions: tuple[str, ...] | None = None
    """Those of the loaded slurm.conf; None: any."""
    machine_locked: Callable[[str], bool] = lambda _node: True

    # what slurmd does
    def register(self, name: str, feature: str) -> None:
        """A slurmd registers (dynamic node)."""
        record = self.nodes.get(name)
        if record is None:
            record = self.nodes[name] = Record(name, feature)
            self.clock.note(Kind.NODE_CREATED, "slurmctld", node=name)
        if record.job:
            self._requeue(self.jobs[record.job], "missing at registration")
        record.silent = record.dead = False
        record.registered_ns = self.clock.now()
        back = self.return_to_service == 2 or (self.return_to_service == 1 and record.reason == NOT_RESPONDING)
        if record.down and back:
            record.down, record.reason = False, "" if not record.drained else record.reason
            self.clock.note(Kind.NODE_UP, "slurmctld", node=name)
        self.clock.note(Kind.NODE_REGISTERED, "slurmctld", node=name)
        self.schedule()

    def lose(self, name: str) -> None:
        """A slurmd is gone without a word."""
        record, at = self.nodes.get(name), self.clock.now()
        if record is None:
            return
        record.dead = True

        def flag() -> None:
            if self._still_silent(name, at):
                record.silent = True
                self.clock.note(Kind.NODE_NOT_RESPONDING, "slurmctld", node=name)

        def fail() -> None:
            if self._still_silent(name, at):
                self.set_down(name, record.reason if record.down else NOT_RESPONDING)

        self.clock.after(PING_NS, flag)
        self.clock.after(self.slurmd_timeout_ns, fail)

    def _still_silent(self, name: str, since: int) -> bool:
        record = self.nodes.get(name)
        return self.running and record is not None and record.registered_ns <= since

    # what scontrol and slurmrestd do
    def drain(self, name: str, reason: str, who: str) -> None:
        """State=DRAIN."""
        record = self._record(name)
        if not record.drained or record.reason != reason:
            record.drained, record.reason = True, reason
            self.clock.note(Kind.NODE_DRAINED, who, node=name, reason=reason)

    def resume(self, name: str, who: str, *, undrain: bool = False) -> None:
        """State=RESUME, or UNDRAIN, which leaves DOWN and its reason."""
        record = self._record(name)
        record.drained = False
        if not (undrain and record.down):
            record.down, record.reason = False, ""
        self.clock.note(Kind.NODE_RESUMED, who, node=name)
        self.schedule()

    def set_down(self, name: str, reason: str) -> None:
        """State=DOWN: its job is requeued."""
        record = self._record(name)
        record.down, record.reason = True, record.reason if record.drained and record.reason else reason
        self.clock.note(Kind.NODE_DOWN, "slurmctld", node=name, reason=reason)
        if record.job:
            self._requeue(self.jobs[record.job], f"{name} is DOWN")

    def delete_node(self, name: str, who: str) -> None:
        """Delete a dynamic node's record; refused while a job holds it."""
        if self._record(name).job:
            raise RefusedError(f"node {name} is busy")
        del self.nodes[name]
        self.clock.note(Kind.NODE_DELETED, who, node=name)

    def submit(self, job: Job, who: str = "user") -> None:
        """sbatch."""
        self.jobs[job.id] = job
        named = {"name": job.name} if job.name else {}
        self.clock.note(Kind.JOB_SUBMITTED, who, job_id=job.id, **named)
        self.schedule()

    def cancel(self, number: int, who: str = "user") -> None:
        """scancel."""
        job = self.jobs.get(number)
        if job is None or job.state not in ("PENDING", "RUNNING"):
            raise RefusedError(f"no job {number}")
        self._end(job, "CANCELLED", who)

    def lose_state(self) -> None:
        """slurmctld starts with an empty StateSaveLocation."""
        self.nodes.clear()
        self.jobs.clear()
        self.clock.note(Kind.SLURMCTLD_STARTED, "slurmctld", detail_state="empty")

    # scheduling
    def schedule(self) -> None:
        """Start what can start, in the order of submission."""
        if not self.running:
            return
        for job in self.jobs.values():
            if job.state != "PENDING" or job.begin_ns > self.clock.now():
                continue
            free = [r for r in self.nodes.values() if not (r.job or r.down or r.drained or r.silent)]
            free = [r for r in free if job.partition in ("", r.feature)]
            if len(free) < job.nodes:
                return
            self._start(job, sorted(free, key=lambda r: r.name)[: job.nodes])

    def _start(self, job: Job, records: list[Record]) -> None:
        if self.lock_first and not all(self.machine_locked(r.name) for r in records):
            for record in records:
                record.lock_asked = True
            return
        job.state, job.on, job.starts = "RUNNING", tuple(r.name for r in records), job.starts + 1
        job.end_ns = self.clock.now() + job.run_ns
        for record in records:
            record.job, record.lock_asked = job.id, False
        self.clock.note(Kind.JOB_STARTED, "slurmctld", job_id=job.id, node=",".join(job.on))
        start = job.starts

        def end() -> None:
            alive = all((r := self.nodes.get(n)) is not None and not r.dead for n in job.on)
            if job.state == "RUNNING" and job.starts == start and self.jobs.get(job.id) is job and alive:
                self._end(job, "COMPLETED")

        self.clock.after(job.run_ns, end)

    def _end(self, job: Job, state: str, by: str = "slurmctld") -> None:
        job.state = state
        self._free(job)
        self.clock.note(Kind.JOB_ENDED, "slurmctld", job_id=job.id, node=",".join(job.on), state=state, by=by)
        self.schedule()

    def _requeue(self, job: Job, reason: str) -> None:
        self.clock.note(Kind.JOB_REQUEUED, "slurmctld", job_id=job.id, node=",".join(job.on), reason=reason)
        self._free(job)
        job.state, job.begin_ns = "PENDING", self.clock.now() + REQUEUE_HOLD_NS
        self.clock.after(REQUEUE_HOLD_NS, self.schedule)

    def _free(self, job: Job) -> None:
        for name in job.on:
            record = self.nodes.get(name)
            if record is not None and record.job == job.id:
                record.job = 0

    def _record(self, name: str) -> Record:
        record = self.nodes.get(name)
        if record is None or not self.running:
            raise RefusedError(f"slurmctld knows no node {name}")
        return record

    # what slurmrestd lists
    def view(self) -> Slurm:
        """The answer of slurmrestd now, as the core reads it."""
        return Slurm(
            "absent" if self.rest == "absent" else "fresh" if self.answers else "away",
            self.clock.now(),
            tuple(_listed(record) for record in self.nodes.values()),
            tuple(
                SlurmJob(j.id, j.state, j.on if j.state == "RUNNING" else (), j.end_ns, j.partition, j.name)
                for j in self.jobs.values()
            ),
            tuple(sorted(self.reservations)),
        )

    @property
    def answers(self) -> bool:
        """slurmrestd answers."""
        return self.rest == "up" and self.running


def _listed(record: Record) -> SlurmNode:
    flags = ("DRAIN",) * record.drained + ("NOT_RESPONDING",) * record.silent
    state = "DOWN" if record.down else "ALLOCATED" if record.job else "IDLE"
    return SlurmNode(
        record.name, state, flags, record.reason, record.comment, (record.feature,), record.registered_ns,
        True, record.lock_asked,
    )  # fmt: skip


def summary(slurm: FakeSlurm) -> list[tuple[Any, ...]]:
    """Node records without names, for comparing end states."""
    return sorted((r.down, r.drained, r.silent, r.reason, bool(r.job)) for r in slurm.nodes.values())
