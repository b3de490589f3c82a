"""The life of jobs in one slurmctld: the parts of job_mgr.c put together (parts.JobLifecycle).

Each step lives in its own module; this one owns what they share and answers the other parts of slurmctld.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld import event_details as details
from slurmtwin.models.slurmctld.admin_commands import AdminCommands
from slurmtwin.models.slurmctld.arrays import Arrays
from slurmtwin.models.slurmctld.dependencies import Dependencies
from slurmtwin.models.slurmctld.gang import Gang
from slurmtwin.models.slurmctld.hetjobs import HetJobs
from slurmtwin.models.slurmctld.job_end import JobEnd
from slurmtwin.models.slurmctld.job_purge import Purge, weight
from slurmtwin.models.slurmctld.job_request import limit_seconds
from slurmtwin.models.slurmctld.job_start import JobStart
from slurmtwin.models.slurmctld.job_submit import Submission
from slurmtwin.models.slurmctld.pending_reason import set_held
from slurmtwin.models.slurmctld.preemption_actions import Preemption
from slurmtwin.models.slurmctld.requeue import Requeues
from slurmtwin.models.slurmctld.signals import Signals
from slurmtwin.models.slurmctld.states import DependState, JobState, Reason
from slurmtwin.models.slurmctld.time_limit import TimeLimits
from slurmtwin.models.slurmd.batch_job import BatchJob

if TYPE_CHECKING:
    from slurmtwin.contract.jobs import JobRequest
    from slurmtwin.models.slurmctld.background import BackgroundLoop
    from slurmtwin.models.slurmctld.parts import Placement
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job, Node, Partition
    from slurmtwin.models.slurmd.batch_job import NodeSide


class Lifecycle:
    """parts.JobLifecycle."""

    def __init__(self, ctld: Slurmctld, loop: BackgroundLoop, side: NodeSide) -> None:
        self._ctld = ctld
        self._side = side
        self.purge = Purge(ctld, self, loop)
        self.limits = TimeLimits(ctld, self, loop)
        self.arrays = Arrays(ctld, self)
        self.hetjobs = HetJobs(ctld)
        self.dependencies = Dependencies(ctld, self)
        self.signals = Signals(ctld, self)
        self.requeues = Requeues(ctld, self)
        self.ends = JobEnd(ctld, self, side)
        self.starts = JobStart(ctld, self, side)
        self.preemption = Preemption(ctld, self)
        self.submission = Submission(ctld, self)
        self.admin = AdminCommands(ctld, self)
        self.gang = Gang(ctld, self)
        self._numbers: dict[int, Job] = {}
        """The workload's number -> record (an array's meta record)."""

    def serve(self) -> None:
        """slurmctld begins to serve: the loop runs, its 30 s and 60 s phases are known."""
        self.limits.start()
        self.purge.start()
        self.gang.start()

    def stop(self) -> None:
        """slurmctld ends."""
        self.limits.stop()
        self.purge.stop()

    @property
    def open_count(self) -> int:
        """Jobs in memory that are not over, every task of an array counted."""
        return self.purge.record_count - self.purge.over_count

    # what the parts share

    def next_slurm_id(self) -> int:
        """job_id_sequence, over MaxJobId back to FirstJobId, skipping numbers in use."""
        ctld = self._ctld
        controller = ctld.conf.controller
        number = max(ctld.store.next_job_id, controller.first_job_id)
        while number in ctld.jobs or number > controller.max_job_id:
            number = controller.first_job_id if number >= controller.max_job_id else number + 1
        ctld.store.next_job_id = number + 1
        return number

    def remember(self, job: Job) -> None:
        """The record can be named by the workload's number."""
        self._numbers[job.request.job_id] = job

    def by_number(self, number: int) -> Job | None:
        """The record of the workload's number, while it is in memory."""
        return self._numbers.get(number)

    def forget(self, job: Job) -> None:
        """The record leaves memory."""
        self.arrays.forget(job)
        if self._numbers.get(job.request.job_id) is job:
            del self._numbers[job.request.job_id]

    def left(self, job: Job) -> None:
        """The job has ended for good and holds nothing."""
        self._ctld.limits.job_left(job)
        self.signals.forget(job)
        self.preemption.forget(job)
        self.purge.finished(job)
        self._side.job_over(job.request.job_id)

    def array_task_ended(self, job: Job) -> None:
        """A run is over: for a task, its array counts one less."""
        self.arrays.ended(job, job.state)

    def asked_limit_s(self, job: Job) -> int | None:
        """The limit the user asked for, in seconds."""
        return limit_seconds(job.request.limit_ns)

    def reservation_end_s(self, job: Job) -> int | None:
        """When the reservation the job runs in ends it; None: it does not."""
        if not job.reservation:
            return None
        return self._ctld.reservations.end_s(job)

    # parts.JobLifecycle

    def submit(self, request: JobRequest) -> None:
        """sbatch or salloc arrived."""
        if self.submission.submit(request) is None:
            self._side.job_over(request.job_id)

    def start(self, job: Job, part: Partition, placement: Placement, by: str) -> None:
        """The job starts now."""
        self.starts.start(job, part, placement, by)

    def preempt(self, victims: Iterable[Job], preemptor: Job) -> None:
        """Tell victims to go."""
        self.preemption.preempt(victims, preemptor)

    def split_task(self, meta: Job) -> Job:
        """The next task of an array."""
        return self.arrays.split_task(meta)

    def dependency_state(self, job: Job) -> DependState:
        """Outcome of the job's dependencies now."""
        return self.dependencies.test(job)

    def batch_complete(self, work: BatchJob) -> None:
        """REQUEST_COMPLETE_BATCH_SCRIPT arrived."""
        self.ends.batch_complete(work)

    def node_failed(self, node: Node, reason: str) -> None:
        """The node went DOWN: its jobs are requeued, ended or go on without it (slurm.md 4.5)."""
        ctld = self._ctld
        here = [
            job
            for table in (ctld.running, ctld.completing)
            for job in table.values()
            if (job.alloc is not None and job.alloc.nodes & node.bit and not job.completing)
            or job.completing_nodes & node.bit
        ]
        for job in sorted(here, key=lambda j: j.slurm_id):
            self.requeues.node_failed(job, node, reason)

    def missing_on_node(self, job: Job, node: Node) -> None:
        """The node does not know the job."""
        self.requeues.missing(job, node)

    def kill_on_node(self, job: Job, node: Node) -> None:
        """A registering node still has steps of a job that is over: TERMINATE once more."""
        self.ends.kill_on_node(job, node)

    def end(self, job: Job, state: JobState, reason: str = "") -> None:
        """End a running job or cancel a pending one."""
        for part_of in job.het_job or (job,):
            if part_of.pending and part_of.completing:
                part_of.state = state  # a job on its way back to the queue stays ended
            elif part_of.pending:
                self.ends.cancel_pending(part_of, state, reason)
            elif part_of.state in (JobState.RUNNING, JobState.SUSPENDED):
                self.ends.finish(part_of, state, reason)

    def timed_out(self, job: Job) -> None:
        """_job_timed_out()."""
        for part_of in job.het_job or (job,):
            if part_of.state is JobState.RUNNING:
                self.ends.finish(part_of, JobState.TIMEOUT, "TimeLimit")

    def shrink(self, job: Job, node: Node) -> None:
        """--no-kill: the job goes on without a failed node (excise_node_from_job())."""
        from slurmtwin.models.slurmctld.shrink import without

        ctld = self._ctld
        assert job.alloc is not None
        ctld.selection.release(job, node.bit)
        job.alloc = without(job.alloc, node)
        ctld.nodes_lifecycle.job_gone(job, node.bit)
        ctld.last_job_update_s = ctld.now_s()
        ctld.emit(
            Kind.JOB_SHRUNK,
            job_id=job.request.job_id,
            node=node.name,
            value=job.alloc.cpu_total,
            unit="cpu",
            detail=details.of_task(None, job.array_task),
        )

    def cancel(self, number: int) -> None:
        """scancel of the workload's job with that number."""
        self.admin.cancel(number)

    def hold(self, job: Job, reason: str) -> None:
        """Priority 0 (scontrol hold, bad constraints)."""
        ctld = self._ctld
        set_held(ctld, job, reason)
        ctld.last_job_update_s = ctld.now_s()
        ctld.emit(
            Kind.JOB_HELD, job_id=job.request.job_id, detail=details.of_task(details.reason(reason), job.array_task)
        )
        if job.pending:
            ctld.schedulers.enqueue(job)
        ctld.store.changed()

    def requeue(self, job: Job, reason: str) -> None:
        """A running job goes back to PENDING; one that may not be requeued ends."""
        for part_of in job.het_job or (job,):
            if part_of.state not in (JobState.RUNNING, JobState.SUSPENDED):
                continue
            if not self.requeues.requeue(part_of, reason, JobState.CANCELLED, shown="REQUEUED"):
                self.ends.finish(part_of, JobState.NODE_FAIL, reason)

    def release(self, job: Job) -> None:
        """scontrol release: a new priority, and a pass is queued."""
        ctld = self._ctld
        job.held = False
        job.reason = Reason.NONE
        ctld.priority.set_priority(job)
        ctld.last_job_update_s = ctld.now_s()
        ctld.emit(Kind.JOB_RELEASED, job_id=job.request.job_id, detail=details.of_task(None, job.array_task))
        if job.pending and not job.completing:
            ctld.schedulers.enqueue(job)
        ctld.schedulers.queue_pass()
        ctld.store.changed()

    def suspend(self, job: Job, by_admin: bool) -> bool:
        """_job_suspend_op(SUSPEND_JOB): processes stop. By an admin CPUs come free too, memory stays."""
        ctld = self._ctld
        if job.state is not JobState.RUNNING:
            return False
        now_s = ctld.now_s()
        if by_admin:
            ctld.selection.suspend(job)
        job.state = JobState.SUSPENDED
        if by_admin:
            job.priority = 0
            self.gang.job_ended(job)
        job.pre_suspend_s += now_s - (job.suspend_s or job.start_s)
        job.suspend_s = job.last_active_s = now_s
        if isinstance(job.work, BatchJob):
            job.work.stop()
        ctld.last_job_update_s = ctld.last_node_update_s = now_s
        ctld.emit(Kind.JOB_SUSPENDED, job_id=job.request.job_id, detail=details.of_task(None, job.array_task))
        ctld.store.changed()
        return True

    def resume(self, job: Job) -> bool:
        """_job_suspend_op(RESUME_JOB): the limit counts run time only."""
        ctld = self._ctld
        if job.state is not JobState.SUSPENDED:
            return False
        now_s = ctld.now_s()
        by_admin = job.priority == 0
        if by_admin:
            ctld.selection.resume(job)
        job.state = JobState.RUNNING
        if by_admin:
            ctld.priority.set_priority(job)
            self.gang.job_started(job)
        if job.limit_s is not None and job.limit_s >= 0 and not job.preempt_s:
            job.end_s = now_s + job.limit_s - job.pre_suspend_s
        job.suspend_s = job.last_active_s = now_s
        if isinstance(job.work, BatchJob):
            job.work.go_on()
        self.limits.watch(job)
        ctld.last_job_update_s = ctld.last_node_update_s = now_s
        ctld.emit(Kind.JOB_RESUMED, job_id=job.request.job_id, detail=details.of_task(None, job.array_task))
        ctld.store.changed()
        return True

    def recovered(self, job: Job) -> None:
        """A record was loaded at start."""
        self.remember_recovered(job)
        ctld = self._ctld
        ctld.priority.recovered(job)
        if job.completing:
            ctld.completing[job.slurm_id] = job
            self.ends.kill_again(job)
            self.purge.watch_completing(job)
        elif job.pending:
            ctld.schedulers.enqueue(job)
        elif job.state is JobState.RUNNING:
            self.limits.watch(job)
        elif job.state.finished:
            self.purge.finished(job)

    def work_lost(self, slurm_id: int) -> None:
        """The job's processes are gone and nobody will report their end: its limits have to be looked at."""
        job = self._ctld.jobs.get(slurm_id)
        if job is not None and job.state is JobState.RUNNING:
            self.limits.watch(job)

    def remember_recovered(self, job: Job) -> None:
        """Names and counts of a loaded record."""
        if job.array_task is None or job.array_job is job:
            self.remember(job)
        self.purge.record_count += weight(job)
