"""Jobs that slurmctld and a registering node do not agree on (slurm.md 4.4; job_mgr.c validate_jobs_on_node()).

A batch job that its batch host does not report is given up only when its start and its last sign of life are
both older than BatchStartTimeout + min(10 s, MessageTimeout): 20 s by default. A younger one stays RUNNING, a
ghost, until the node's next registration.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, cast

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.slurmctld.states import JobState

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.node_lifecycle import NodeLifecycle
    from slurmtwin.models.slurmctld.node_report import NodeReport
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job, Node
    from slurmtwin.models.slurmd.parts import Work

_DEFAULT_MESSAGE_TIMEOUT_S: Final = 10


class Reconciliation:
    """validate_jobs_on_node() and _purge_missing_jobs()."""

    def __init__(self, ctld: Slurmctld, nodes: NodeLifecycle) -> None:
        self.ctld = ctld
        self.nodes = nodes

    def validate(self, node: Node, report: NodeReport, jobs_here: Iterable[object] | None) -> int:
        """Compare; returns the number of jobs slurmctld had on the node before (run_job_cnt + comp_job_cnt).

        `jobs_here`: the running batch jobs whose batch host this is, where the caller has an index of them.
        """
        for work in report.works:
            self._reported(node, work)
        count = self.nodes.running.of(node.index) + self.nodes.leaving.of(node.index)
        if count:
            self._purge_missing(node, report, cast("Iterable[Job] | None", jobs_here))
        return count

    def _reported(self, node: Node, work: Work) -> None:
        """One job that the node says it runs (slurm.md 4.4, first five rows)."""
        ctld = self.ctld
        now_s = ctld.now_s()
        job = ctld.jobs.get(work.slurm_id)
        if job is None:
            self._abort(work, node)
        elif job.state in (JobState.RUNNING, JobState.SUSPENDED):
            if job.alloc is None or not job.alloc.nodes & node.bit:
                self._abort(work, node)
            elif job.batch_flag and batch_host(job) == node.bit:
                job.last_active_s = now_s
        elif job.completing:
            ctld.lifecycle.kill_on_node(job, node)
        elif job.pending:
            self._abort(work, node)
        elif now_s - job.end_s >= ctld.conf.timers.message_timeout_ns // SECOND:
            ctld.lifecycle.kill_on_node(job, node)

    def _abort(self, work: Work, node: Node) -> None:
        """REQUEST_ABORT_JOB to that node only: once sent it is on the wire, whatever happens to slurmctld."""
        self.ctld.slurmds.send(node, work.abort)

    def _purge_missing(self, node: Node, report: NodeReport, jobs_here: Iterable[Job] | None) -> None:
        """_purge_missing_jobs(): jobs in the order of the job list."""
        ctld = self.ctld
        timers = ctld.conf.timers
        message_s = timers.message_timeout_ns // SECOND
        old_s = ctld.now_s() - timers.batch_start_timeout_ns // SECOND - min(_DEFAULT_MESSAGE_TIMEOUT_S, message_s)
        boot_s = node.boot_time_s - (message_s + 5) if node.boot_time_s > message_s + 5 else 0
        reported = {work.slurm_id for work in report.works}
        if jobs_here is None:
            jobs_here = [job for job in ctld.running.values() if _batch_job_on(job, node)]
        ghost = False
        for job in sorted(jobs_here, key=_list_order):
            if job.state not in (JobState.RUNNING, JobState.SUSPENDED) or job.configuring:
                continue
            limit_s = old_s
            if self.nodes.tracks_busy and job.start_s < boot_s:
                limit_s -= timers.resume_timeout_ns // SECOND
            if job.last_active_s < limit_s and job.start_s < limit_s:
                ctld.lifecycle.missing_on_node(job, node)
            elif job.slurm_id not in reported:
                ghost = True
        self.nodes.pings.mark_ghost(node, ghost)

    def batch_hosts(self) -> dict[int, list[object]]:
        """Running batch jobs by the index of their batch host."""
        out: dict[int, list[object]] = {}
        for job in self.ctld.running.values():
            if job.alloc is not None and _counts(job):
                out.setdefault(batch_host(job).bit_length() - 1, []).append(job)
        return out


def batch_host(job: Job) -> int:
    """Bit of the node whose slurmd runs the script: the first of the allocation; 0 without one."""
    nodes = job.alloc.nodes if job.alloc is not None else 0
    return nodes & -nodes


def _counts(job: Job) -> bool:
    """Only batch jobs, and of a hetjob only its leader, are given up this way."""
    return bool(job.batch_flag) and (job.het_job is None or job.het_job[0] is job)


def _batch_job_on(job: Job, node: Node) -> bool:
    return _counts(job) and batch_host(job) == node.bit


def _list_order(job: Job) -> int:
    return job.slurm_id
