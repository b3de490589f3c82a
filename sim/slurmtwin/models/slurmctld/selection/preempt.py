"""Who may be preempted, in which order, by which mode (slurm.md 3.2; interfaces/preempt.c, plugins/preempt/*)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.slurmctld.states import JobState
from slurmtwin.models.slurmctld.tables import Job, Partition

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

_MODES: Final = ("off", "cancel", "requeue", "suspend")
_MOST: Final = 0xFFFF


class Preemption:
    """The preempt plugin's answers of one controller."""

    def __init__(self, ctld: Slurmctld) -> None:
        self._ctld = ctld
        conf = ctld.conf.preempt
        self._conf = conf
        self._by_qos = conf.type == "preempt/qos"
        self.enabled = conf.type != "preempt/none" and (conf.mode != "off" or conf.gang)
        self._qos = {q.name: q for q in ctld.conf.qos}
        self._youngest = ctld.conf.scheduler.preempt_youngest_first

    def mode(self, job: Job) -> str:
        """slurm_job_preempt_mode(): off, cancel, requeue or suspend."""
        own = ""
        if self._by_qos:
            qos = self._qos.get(job.qos)
            own = qos.preempt_mode if qos else ""
        elif job.part is not None:
            own = job.part.conf.preempt_mode
        for word in (own or self._conf.mode).lower().split(","):
            if word in _MODES:
                return word
        return self._conf.mode.lower()

    def candidates(self, job: Job, part: Partition, now_s: int) -> list[Job]:
        """slurm_find_preemptable_jobs(): low tier or QOS priority first, then few nodes; or the youngest first."""
        if not self.enabled:
            return []
        found = [other for other in self._below(part) if self._may_go(other, job, part, now_s)]
        found.sort(key=lambda j: j.slurm_id)
        if self._youngest:
            found.sort(key=lambda j: -j.start_s)
        else:
            found.sort(key=self._rank)
        return found

    def _below(self, part: Partition) -> Iterable[Job]:
        """Running jobs that the partitions' tiers do not protect; the leader of a hetjob stands for it."""
        running = self._ctld.running.values()
        if self._by_qos:
            return running
        low = {p.index for p in self._ctld.partitions.values() if _yields(p, part)}
        return [job for job in running if job.part is not None and job.part.index in low] if low else ()

    def _may_go(self, other: Job, job: Job, part: Partition, now_s: int) -> bool:
        if other.het_job is not None:
            if other.het_job[0] is not other:
                return False
            if not all(self._preemptable(c, job, part, now_s) for c in other.het_job):
                return False
            return any(_holds(c, part.nodes) for c in other.het_job)
        return _holds(other, part.nodes) and self._preemptable(other, job, part, now_s)

    def _preemptable(self, other: Job, job: Job, part: Partition, now_s: int) -> bool:
        allowed = self._qos_allows(other, job) if self._by_qos else other.part is not None and _yields(other.part, part)
        return allowed and not self._exempt(other, now_s)

    def _qos_allows(self, other: Job, job: Job) -> bool:
        ours, theirs = self._qos.get(job.qos), self._qos.get(other.qos)
        if ours is None or theirs is None:
            return False
        if ours is theirs:
            within = self._conf.within or "within" in ours.preempt_mode.lower()
            return within and job.priority > other.priority
        return theirs.name in ours.preempt

    def _exempt(self, other: Job, now_s: int) -> bool:
        """PreemptExemptTime: the QOS's, else the cluster's; counted from the start."""
        exempt_ns = self._conf.exempt_time_ns
        qos = self._qos.get(other.qos)
        if qos is not None and qos.preempt_exempt_time_ns >= 0:
            exempt_ns = qos.preempt_exempt_time_ns
        return exempt_ns > 0 and now_s < other.start_s + exempt_ns // SECOND

    def _rank(self, job: Job) -> int:
        if self._by_qos:
            qos = self._qos.get(job.qos)
            high = min(qos.priority, _MOST) if qos else 0
        else:
            high = job.part.conf.priority_tier if job.part is not None else 0
        nodes = job.alloc.nodes.bit_count() if job.alloc is not None else 0
        return (high << 16) + min(nodes, _MOST)


def _yields(theirs: Partition, ours: Partition) -> bool:
    """preempt/partition_prio: a lower tier whose mode is not off."""
    return theirs.conf.priority_tier < ours.conf.priority_tier and theirs.conf.preempt_mode.lower() != "off"


def _holds(job: Job, nodes: int) -> bool:
    return (
        job.state in (JobState.RUNNING, JobState.SUSPENDED) and job.alloc is not None and bool(job.alloc.nodes & nodes)
    )


def parts_of(job: Job) -> list[Job]:
    """The job, or all components of its hetjob: they go together."""
    return job.het_job if job.het_job is not None else [job]
