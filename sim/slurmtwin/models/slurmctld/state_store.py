"""StateSaveLocation: when slurmctld writes its tables, and what a SIGKILL loses (slurm.md 5.3; state_save.c).

A change only sets a flag, one for job_state and one for node_state. One thread writes what is flagged when
SAVE_MAX_WAIT seconds have gone since its last write began, so a kill loses up to about five seconds. One change sets
no flag: a start by backfill (backfill.c never calls schedule_job_save(), 22.05 to 26.05). It is saved with the next
change of a job that does, or by the full save each 300 s, and a kill before that loses the start.

Copying every record at every save would cost more than the scheduling; so copies are made only of the saves just
before a kill that the run knows of. A save with nothing changed after it needs none: the tables themselves are what
was saved.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld.background import Duty, Periodic
from slurmtwin.models.slurmctld.policies import PolicyState, export_state
from slurmtwin.models.slurmctld.saved_records import SavedNode, SavedRecords
from slurmtwin.models.slurmctld.tables import Job

if TYPE_CHECKING:
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

SAVE_MAX_WAIT_S: Final = 5
PERIODIC_CHECKPOINT_S: Final = 300
_NEAR_A_KILL_NS: Final = (SAVE_MAX_WAIT_S + 2) * SECOND
_CHECKPOINT_NS: Final = (PERIODIC_CHECKPOINT_S + 2) * SECOND


@dataclass(slots=True)
class Snapshot:
    """job_state and node_state as one save left them. Job records are copies, in list order."""

    at_ns: int
    next_job_id: int
    jobs: list[Job]
    """Whoever loads them makes copies of his own (copy_jobs())."""
    records: list[SavedNode]
    """Nodes, each with the last answer that its own record holds."""
    answers: Callable[[int, int], int]
    policy: PolicyState | None = None
    """Usage and reservations."""

    @property
    def nodes(self) -> list[SavedNode]:
        """Nodes with the times of last answers that a save at that moment wrote."""
        return [
            replace(record, last_response_s=self.answers(1 << place, record.last_response_s))
            for place, record in enumerate(self.records)
        ]


@dataclass(slots=True)
class Heartbeat:
    """The heartbeat file: when its last writer began to beat, and which controller that is."""

    since_s: int
    until_s: int | None
    every_s: int
    index: int

    def read_s(self, now_s: int) -> int:
        """The time in the file at `now_s`."""
        last_s = now_s if self.until_s is None else min(now_s, self.until_s)
        return self.since_s + max(0, last_s - self.since_s) // self.every_s * self.every_s


class StateVolume:
    """The directory itself: outlives slurmctld, shared by all SlurmctldHosts."""

    def __init__(self, cluster: SlurmCluster) -> None:
        self._cluster = cluster
        self.saved: Snapshot | None = None
        self.heartbeat: Heartbeat | None = None
        self.kills_ns: list[int] = []
        """When slurmctld will be killed, as far as the run knows beforehand, ascending."""
        self.copies_all = False
        """Every save is copied: for runs whose kills nobody can announce (a pod's OOM kill). Set `kept` as well."""
        self.kept = False
        """Saves are played out: some controller may die or be replaced."""
        self.writer = 0
        """Index of the controller that wrote job_state last."""

    def expect_kill(self, at_ns: int) -> None:
        """A controller dies then: saves shortly before it are copied."""
        self.kills_ns.insert(bisect_left(self.kills_ns, at_ns), at_ns)
        self.kept = True

    def kill_is_near(self, now_ns: int, within_ns: int = _NEAR_A_KILL_NS) -> bool:
        """A save now may be the last one before a kill."""
        if self.copies_all:
            return True
        place = bisect_left(self.kills_ns, now_ns)
        return place < len(self.kills_ns) and self.kills_ns[place] - now_ns <= within_ns

    def kill_was_expected(self, now_ns: int) -> bool:
        """The kill that happens now was announced, so the saves before it were copied."""
        return self.copies_all or now_ns in self.kills_ns

    def lose(self) -> None:
        """The volume comes up empty: no job, no node state, no heartbeat (slurm.md 5.2 "job_state missing")."""
        self.saved = None
        self.heartbeat = None


@dataclass(slots=True)
class _Marks:
    """The save thread's view of time."""

    last_save_s: int = 0
    jobs: bool = False
    """job_state is to be written."""
    nodes: bool = False
    planned: bool = field(default=False)
    behind: tuple[int, list[Job]] | None = None
    """(next job id, job records) of job_state where backfill has started jobs since; None: as the flags say."""


class StateStore:
    """parts.StateStore of one slurmctld."""

    def __init__(self, ctld: Slurmctld, volume: StateVolume, index: int = 0) -> None:
        self._ctld = ctld
        self._volume = volume
        self._index = index
        self._marks = _Marks()
        self._records = SavedRecords(ctld)
        self._checkpoints: Periodic | None = None
        self.next_job_id = 0

    def serve(self) -> None:
        """The loop has begun: the full save each 300 s counts from here."""
        if self._volume.kept:
            background = self._ctld.background
            background.register(Duty.SAVE, self._checkpoint)
            self._checkpoints = Periodic(background, self._ctld, PERIODIC_CHECKPOINT_S)  # type: ignore[arg-type]

    def changed(self, jobs: bool = True) -> None:
        """schedule_job_save() and schedule_node_save(), the latter alone where no job has changed."""
        if not self._volume.kept:
            return
        marks = self._marks
        marks.jobs = marks.jobs or jobs
        marks.nodes = True
        if not marks.planned:
            marks.planned = True
            ctld = self._ctld
            due_ns = ctld.at_s(marks.last_save_s + SAVE_MAX_WAIT_S)
            ctld.env.call_at(max(due_ns, ctld.env.now_ns), self._save_thread)

    def backfill_starts(self) -> None:
        """Backfill is about to start a job and will not ask for a save: what job_state holds until the next one."""
        volume, marks = self._volume, self._marks
        if not volume.kept or marks.jobs or marks.behind is not None:
            return
        if volume.kill_is_near(self._ctld.env.now_ns, _CHECKPOINT_NS):
            marks.behind = (self.next_job_id, self._records.jobs())

    def _save_thread(self, _argument: object) -> None:
        self._marks.planned = False
        if self._marks.nodes:
            self._write(jobs=self._marks.jobs)

    def _checkpoint(self) -> None:
        assert self._checkpoints is not None
        self._checkpoints.acted()
        self.save()

    def save(self, keep: bool = False) -> None:
        """save_all_state(); `keep`: the copy is wanted for certain (clean stop)."""
        self._write(jobs=True, keep=keep)

    def _write(self, jobs: bool, keep: bool = False) -> None:
        """dump_all_node_state(), and dump_all_job_state() where a job is flagged."""
        ctld, volume, marks = self._ctld, self._volume, self._marks
        marks.last_save_s = ctld.now_s()
        marks.jobs = marks.nodes = False
        if jobs:
            marks.behind = None
        volume.writer = self._index
        if keep or volume.kill_is_near(ctld.env.now_ns):
            volume.saved = self._on_disk()
            ctld.emit(Kind.SLURMCTLD_SAVED, value=len(volume.saved.jobs), unit="job")

    def _on_disk(self) -> Snapshot:
        """The files as they stand where nothing is flagged."""
        if self._marks.behind is None:
            return self._snapshot()
        next_job_id, jobs = self._marks.behind
        return replace(self._snapshot(), next_job_id=next_job_id, jobs=jobs)

    def _snapshot(self) -> Snapshot:
        """Copies of all records."""
        ctld = self._ctld
        jobs, nodes = self._records.jobs(), self._records.nodes()
        answers = ctld.nodes_lifecycle.answers()
        return Snapshot(ctld.env.now_ns, self.next_job_id, jobs, nodes, answers, export_state(ctld))

    def left_behind(self) -> None:
        """The process was killed. What it had saved is the last copy, or, with no change since, its tables.

        A kill that nobody announced is taken as one right after a save.
        """
        if not self._volume.kill_was_expected(self._ctld.env.now_ns):
            self._volume.saved = self._snapshot()
        elif not self._marks.nodes:
            self._volume.saved = self._on_disk()
