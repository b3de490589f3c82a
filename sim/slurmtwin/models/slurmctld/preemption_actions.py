"""What happens to a victim: cancel, requeue, suspend, with its grace time (slurmctld/preempt.c, slurm.md 3.2).

The preemptor waits; it starts in a later pass when the victims' nodes are free. A victim in grace is looked at
again by the 30 s scan and at every further attempt of the preemptor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.slurmctld import event_details as details
from slurmtwin.models.slurmctld.states import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job


class Preemption:
    """Actions on victims of one slurmctld."""

    def __init__(self, ctld: Slurmctld, lifecycle: Lifecycle) -> None:
        self._ctld = ctld
        self._lifecycle = lifecycle
        self._qos = {q.name: q for q in ctld.conf.qos}
        self._graced: dict[int, int] = {}
        """Slurm id -> start of the run whose grace time began."""

    def mode(self, job: Job) -> str:
        """slurm_job_preempt_mode(): of the QOS (preempt/qos) or the partition (partition_prio), else the cluster's."""
        conf = self._ctld.conf.preempt
        own = ""
        if conf.type == "preempt/qos":
            qos = self._qos.get(job.qos)
            own = qos.preempt_mode if qos else ""
        elif job.part is not None:
            own = job.part.conf.preempt_mode
        words = [w for w in (own or conf.mode).lower().split(",") if w not in ("gang", "within", "cluster", "")]
        return words[0] if words else conf.mode.lower()

    def grace_s(self, job: Job) -> int:
        """GraceTime of the QOS (preempt/qos) or of the partition, seconds."""
        if self._ctld.conf.preempt.type == "preempt/qos":
            qos = self._qos.get(job.qos)
            return qos.grace_time_ns // SECOND if qos else 0
        return job.part.conf.grace_time_ns // SECOND if job.part is not None else 0

    def preempt(self, victims: Iterable[Job], preemptor: Job) -> None:
        """_preempt_jobs(): each victim in its own mode."""
        for victim in victims:
            if victim.state not in (JobState.RUNNING, JobState.SUSPENDED):
                continue
            mode = self.mode(victim)
            if mode == "suspend" and self._ctld.conf.preempt.gang:
                self._suspend(victim, preemptor)
                continue
            if not victim.preempt_s:
                victim.preemptor = preemptor
                self._emit(victim, preemptor, mode)
                if not self._open_grace(victim):
                    continue
            elif self._ctld.now_s() < victim.end_s:
                continue
            self.go(victim, mode)

    def _emit(self, victim: Job, preemptor: Job, mode: str) -> None:
        self._ctld.emit(
            Kind.JOB_PREEMPTED,
            job_id=victim.request.job_id,
            detail=details.of_task(detail_text(by_job=preemptor.request.job_id, mode=mode), victim.array_task),
        )

    def _suspend(self, victim: Job, preemptor: Job) -> None:
        """The victim makes room at once. Its end time stays: after a resume the 30 s scan still ends it then."""
        victim.preempt_s = self._ctld.now_s()
        if victim.state is JobState.RUNNING:
            victim.preemptor = preemptor
            self._emit(victim, preemptor, "suspend")
            self._lifecycle.suspend(victim, by_admin=False)

    def _open_grace(self, victim: Job) -> bool:
        """The end time moves to now + GraceTime. True: no grace, the victim goes at once."""
        now_s = self._ctld.now_s()
        grace_s = self.grace_s(victim)
        victim.preempt_s = now_s
        victim.end_s = min(victim.end_s, now_s + grace_s)
        if not grace_s:
            return True
        self._graced[victim.slurm_id] = victim.start_s
        self._lifecycle.signals.send(victim, "TERM", to_batch=False)
        self._lifecycle.limits.look_at(victim, now_s)
        return False

    def in_grace(self, job: Job) -> bool:
        """The run was told to go and given time: since 24.11 its own end counts as PREEMPTED too (GRACE_PREEMPT)."""
        return self._graced.get(job.slurm_id) == job.start_s

    def forget(self, job: Job) -> None:
        """The run is over."""
        self._graced.pop(job.slurm_id, None)

    def grace_over(self, victim: Job) -> None:
        """The 30 s scan finds a victim whose grace began: it goes once its end time is reached."""
        if self._ctld.now_s() >= victim.end_s:
            self.go(victim, self.mode(victim))
        else:
            self._lifecycle.limits.look_at(victim, victim.end_s)

    def go(self, victim: Job, mode: str) -> None:
        """The victim leaves now: requeued if that is its mode and it may be, else ended."""
        lifecycle = self._lifecycle
        for part_of in victim.het_job or (victim,):
            if part_of.state not in (JobState.RUNNING, JobState.SUSPENDED):
                continue
            if mode == "requeue" and lifecycle.requeues.requeue(part_of, "preempted", JobState.PREEMPTED):
                continue
            lifecycle.ends.finish(part_of, JobState.PREEMPTED)
