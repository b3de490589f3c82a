"""Back to the queue: node failure, launch failure, scontrol requeue, preemption (slurm.md 4.5, 4.6).

Follows job_mgr.c _job_complete(requeue), kill_running_job_by_node_name(), _job_requeue_op(),
_handle_requeue_limit() and batch_requeue_fini(). The job is PENDING at once but COMPLETING until its nodes are
done; only then its new earliest start is set: credential lifetime + 1 s later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.slurmctld import event_details as details
from slurmtwin.models.slurmctld.pending_reason import keep_a_build_later, set_held
from slurmtwin.models.slurmctld.states import JobState, Reason

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job, Node
    from slurmtwin.models.slurmd.batch_job import BatchJob


class Requeues:
    """Requeues of one slurmctld."""

    def __init__(self, ctld: Slurmctld, lifecycle: Lifecycle) -> None:
        self._ctld = ctld
        self._lifecycle = lifecycle
        scheduler, timers = ctld.conf.scheduler, ctld.conf.timers
        delay_ns = scheduler.requeue_delay_ns if scheduler.requeue_delay_ns >= 0 else timers.cred_expire_ns
        self._hold_s = delay_ns // SECOND + 1
        self._why: dict[int, str] = {}
        self.told_at_end = False
        """The row of a requeue comes with the end of its run, as in slurmctld's log; else with the new earliest start.
        """

    def may_requeue(self, job: Job) -> bool:
        """A batch job with Requeue=1."""
        return job.requeue and job.batch_flag > 0

    def back_to_pending(self, job: Job) -> None:
        """The run has just ended; the record waits again, still COMPLETING."""
        job.state = JobState.PENDING
        job.restart_count += 1
        job.reason = Reason.NONE
        job.exit_code = 0
        job.preempt_s = 0
        job.preemptor = None
        self._lifecycle.signals.forget(job)
        if self.told_at_end:
            self._tell(job, None)

    def _tell(self, job: Job, earliest_ns: int | None) -> None:
        self._ctld.emit(
            Kind.JOB_REQUEUED,
            job_id=job.request.job_id,
            value=earliest_ns,
            unit=None if earliest_ns is None else "ns",
            detail=details.of_task(detail_text(reason=self._why.pop(job.slurm_id, "")), job.array_task),
        )

    def count_launch(self, job: Job) -> None:
        """batch_flag grows; above MaxBatchRequeue the job is held (not on CLOUD nodes)."""
        job.batch_flag += 1
        if job.batch_flag > self._ctld.conf.controller.max_batch_requeue:
            job.batch_flag = 1
            set_held(self._ctld, job, Reason.HOLD_MAX_REQUEUE)

    def pending_again(self, job: Job) -> None:
        """batch_requeue_fini(): the nodes are done, the job looks like a new one."""
        ctld = self._ctld
        now_s = ctld.now_s()
        job.alloc = None
        job.work = None
        job.start_s = job.end_s = job.suspend_s = job.pre_suspend_s = 0
        if job.begin_s <= now_s:
            job.begin_s = now_s + self._hold_s
        job.submit_s = now_s + 1 if job.submit_s == now_s else now_s
        job.eligible_s = job.accrue_s = 0
        job.reason_kept = Reason.NONE
        if job.limit_set:
            job.limit_s = self._lifecycle.asked_limit_s(job)
            job.limit_set = False
        if job.priority and ctld.conf.version != "22.05":
            ctld.priority.set_priority(job)
        if not self.told_at_end:
            self._tell(job, ctld.at_s(job.begin_s))
        if job.held:
            ctld.emit(
                Kind.JOB_HELD,
                job_id=job.request.job_id,
                detail=details.of_task(details.reason(job.reason), job.array_task),
            )
        ctld.schedulers.enqueue(job)
        keep_a_build_later(ctld, job)

    def requeue(self, job: Job, why: str, state: JobState, shown: str = "", hold: bool = False) -> bool:
        """_job_requeue_op(): a running, suspended or completing job goes back. False: it may not be requeued."""
        if not self.may_requeue(job) or (job.state is JobState.PENDING):
            return False
        self._why[job.slurm_id] = why
        if job.state in (JobState.RUNNING, JobState.SUSPENDED):
            self._lifecycle.ends.finish(job, state, requeue=True, shown=shown)
        elif job.completing:
            self.back_to_pending(job)
        else:
            self._lifecycle.purge.keep(job)
            self.back_to_pending(job)
            self.pending_again(job)
        if hold:
            set_held(self._ctld, job, Reason.HELD_USER)
            if not job.completing:
                self._ctld.schedulers.enqueue(job)
        return True

    def node_failed(self, job: Job, node: Node, reason: str) -> None:
        """One job of a node that went DOWN (kill_running_job_by_node_name())."""
        if job.completing:
            self._lifecycle.ends.nodes_done(job, node.bit, by_message=False)
            return
        allocation = job.alloc
        assert allocation is not None
        if not job.kill_on_node_fail and allocation.nodes.bit_count() > 1 and not job.configuring:
            self._lifecycle.shrink(job, node)
            return
        for part_of in job.het_job or (job,):
            if part_of.state not in (JobState.RUNNING, JobState.SUSPENDED):
                continue
            if self.may_requeue(part_of):
                self._why[part_of.slurm_id] = f"node {node.name} failed: {reason}"
                self._lifecycle.ends.finish(part_of, JobState.NODE_FAIL, requeue=True)
            else:
                self._end_failed(part_of)

    def _end_failed(self, job: Job) -> None:
        """Final NODE_FAIL; since 24.11 with exit code 1."""
        code = 0 if self._ctld.conf.version == "22.05" else 1
        self._lifecycle.ends.finish(job, JobState.NODE_FAIL, reason="NodeDown", exit_code=code)

    def missing(self, job: Job, node: Node) -> None:
        """_purge_missing_jobs(): the node knows nothing of the job: job_complete(requeue, node_fail)."""
        for part_of in job.het_job or (job,):
            if part_of.state in (JobState.RUNNING, JobState.SUSPENDED):
                self._complete_failed(part_of, f"not found on {node.name}")

    def launch_failed(self, job: Job, work: BatchJob) -> None:
        """The launch RPC was not delivered (agent.c): job_complete with requeue."""
        if job.work is work and job.running:
            for part_of in job.het_job or (job,):
                if part_of.running:
                    self._complete_failed(part_of, "launch failed")

    def _complete_failed(self, job: Job, why: str) -> None:
        if not self.may_requeue(job):
            self._end_failed(job)
            return
        self._why[job.slurm_id] = why
        cloud = self._first_node_is_cloud(job)
        self._lifecycle.ends.finish(job, JobState.NODE_FAIL, requeue=True)
        if not cloud:
            self.count_launch(job)
            if job.held and not job.completing:
                self._ctld.schedulers.enqueue(job)

    def _first_node_is_cloud(self, job: Job) -> bool:
        allocation = job.alloc
        if allocation is None:
            return False
        bit = allocation.nodes & -allocation.nodes
        return self._ctld.nodes.nodes[bit.bit_length() - 1].conf.state.upper() == "CLOUD"

    def launch_failed_hold(self, job: Job, node: Node) -> None:
        """Prolog failure: requeued and held unless nohold_on_prolog_fail (slurm.md 4.6 "Prolog fails")."""
        hold = not self._ctld.conf.scheduler.nohold_on_prolog_fail
        if self.requeue(job, f"prolog failed on {node.name}", JobState.CANCELLED, shown="REQUEUED"):
            self.count_launch(job)
            if hold and not job.held:
                set_held(self._ctld, job, Reason.LAUNCH_FAILED_REQUEUED_HELD)
