"""A run ends: the completion RPC, COMPLETING, TERMINATE to the nodes, epilogs, and then the next pass.

Follows job_mgr.c _job_complete(), job_signal(), _job_timed_out() and job_epilog_complete(), node_scheduler.c
deallocate_nodes(), slurmd/req.c _rpc_terminate_job() (slurm.md 1.1, 4.6). Nodes are handled together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld import event_details as details
from slurmtwin.models.slurmctld.states import JobState
from slurmtwin.models.slurmctld.tables import bits
from slurmtwin.models.slurmd.batch_job import SIGTERM, BatchJob

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job, Node
    from slurmtwin.models.slurmd.batch_job import NodeSide


class JobEnd:
    """Ends of runs of one slurmctld."""

    def __init__(self, ctld: Slurmctld, lifecycle: Lifecycle, side: NodeSide) -> None:
        self._ctld = ctld
        self._lifecycle = lifecycle
        self._side = side
        self._by_message = ctld.conf.controller.epilog or ctld.costs.epilog_by_message
        """slurmd answers TERMINATE at once, and reports the end later by MESSAGE_EPILOG_COMPLETE."""
        self._script_ns = ctld.costs.epilog_script_ns if ctld.conf.controller.epilog else 0

    def batch_complete(self, work: BatchJob) -> None:
        """REQUEST_COMPLETE_BATCH_SCRIPT: the script has ended by itself (job_complete())."""
        ctld = self._ctld
        job = ctld.jobs.get(work.slurm_id)
        if job is None or job.start_s != work.start_s or job.state not in (JobState.RUNNING, JobState.SUSPENDED):
            return  # a late or a second completion
        preemption = self._lifecycle.preemption
        if preemption.in_grace(job) and preemption.mode(job) == "requeue" and ctld.conf.version != "22.05":
            preemption.go(job, "requeue")  # its own end does not save a victim from being requeued
            return
        for part_of in job.het_job or (job,):
            self.finish(part_of, self._outcome(part_of, work), exit_code=work.exit_code, signal=work.signal)

    def _outcome(self, job: Job, work: BatchJob) -> JobState:
        """_job_complete(): exit code first; past its time limit a clean exit still counts as TIMEOUT."""
        if self._ctld.conf.version != "22.05" and self._lifecycle.preemption.in_grace(job):
            return JobState.PREEMPTED
        if work.exit_code or work.signal:
            return JobState.FAILED
        over_s = self._lifecycle.limits.over_time_s(job)
        return JobState.TIMEOUT if job.end_s + over_s < self._ctld.now_s() else JobState.COMPLETED

    def finish(
        self,
        job: Job,
        state: JobState,
        reason: str = "",
        exit_code: int = 0,
        signal: int = 0,
        requeue: bool = False,
        shown: str = "",
    ) -> None:
        """The run is over in this state; its nodes go COMPLETING and get TERMINATE.

        requeue: the job goes back to PENDING when its nodes are done (slurm.md 4.5, 4.6). shown: the state's name
        in accounting where it is no JobState (REQUEUED).
        """
        ctld = self._ctld
        now_s = ctld.now_s()
        allocation = job.alloc
        assert allocation is not None
        suspended = job.state is JobState.SUSPENDED
        job.end_s = job.suspend_s if suspended else now_s
        job.state = state
        job.completing = True
        job.configuring = False
        job.last_active_s = now_s
        job.exit_code = exit_code
        if reason:
            job.reason = reason
        ctld.running.pop(job.slurm_id, None)
        ctld.completing[job.slurm_id] = job
        nodes = allocation.nodes
        ctld.limits.job_ended(job)
        ctld.selection.release(job, nodes)
        waiting = job.completing_nodes = ctld.nodes_lifecycle.job_completing(nodes)
        ctld.last_job_update_s = ctld.last_node_update_s = now_s
        ctld.emit(
            Kind.JOB_ENDED,
            job_id=job.request.job_id,
            detail=details.of_task(details.ended(shown or state.name, exit_code, signal), job.array_task),
        )
        if requeue:
            self._lifecycle.requeues.back_to_pending(job)
        self._lifecycle.array_task_ended(job)
        if job.request.external:  # deallocate_nodes(): "is external, no need to wait to complete"
            job.completing_nodes = 0
            self._completed(job, nodes, by_message=False)
        else:
            self._terminate(job, nodes)
            if not waiting:
                self._completed(job, nodes, by_message=False)
        ctld.store.changed()

    def _terminate(self, job: Job, nodes: int) -> None:
        """REQUEST_TERMINATE_JOB (or KILL_TIMELIMIT, KILL_PREEMPTED) to all nodes, through the agent."""
        ctld, side = self._ctld, self._side
        deaf = side.slurmds.deaf | side.slurmds.unwritten
        reached = job.completing_nodes & ~deaf
        work = job.work
        running = isinstance(work, BatchJob) and work.unheard and side.slurmds.works.get(work.slurm_id) is work
        killed = False
        if running and isinstance(work, BatchJob) and work.nodes & nodes & ~deaf:
            killed = True  # DOWN nodes are told, too, only not waited for (deallocate_nodes())
            side.env.call_in(ctld.costs.rpc_ns, lambda _: work.kill(SIGTERM))
        if reached:
            lingers = not running and self._lingers(job, reached)
            each_ns, count = ctld.costs.epilog_each_ns, reached.bit_count()
            waits_ns = side.turn_ns(each_ns * count) - side.env.now_ns
            cost = waits_ns + ctld.costs.epilog_ns + each_ns * (count - 1) + self._script_ns
            if killed:
                cost += ctld.costs.kill_ns
            ctld.env.call_in(cost, self._epilogs, (job, job.start_s, reached, running or lingers))
        for index in bits(nodes & deaf):
            self._call_deaf(job, index)
        if job.completing_nodes & deaf:
            self._lifecycle.purge.watch_completing(job)

    def _lingers(self, job: Job, nodes: int) -> bool:
        """Whether slurmd finds the slurmstepd of a run that ended by itself: it reports by message once that is gone
        (slurmd/req.c _rpc_terminate_job(), 26.05.3). Seen where runs share a node, never of one that is alone there.
        """
        noise = self._side.noise
        if noise is None or noise.lingers is None or not noise.lingers():
            return False
        others = (*self._ctld.running.values(), *self._ctld.completing.values())
        return any(one is not job and one.alloc is not None and one.alloc.nodes & nodes for one in others)

    def _call_deaf(self, job: Job, index: int) -> None:
        """TERMINATE to a slurmd that does not answer now.

        One that reads it after slurmctld has given up cannot say "already complete" any more: it reports only by
        message, when it had something to kill or an Epilog to run (slurmd/req.c _rpc_terminate_job()).
        """
        ctld, slurmds = self._ctld, self._side.slurmds
        node = ctld.nodes.nodes[index]
        start_s = job.start_s

        def kill() -> bool:
            work = slurmds.works.get(job.slurm_id)
            if not isinstance(work, BatchJob) or work.start_s != start_s or not work.nodes & node.bit:
                return False
            work.kill(SIGTERM)
            return True

        def answered() -> None:
            ctld.env.call_in(ctld.costs.epilog_ns, self._epilogs, (job, start_s, node.bit, kill()))

        def late() -> None:
            if kill() or ctld.conf.controller.epilog:
                ctld.env.call_in(ctld.costs.epilog_ns, self._epilogs, (job, start_s, node.bit, True))

        slurmds.call(node, answered, lambda: None, late=late)

    def _epilogs(self, argument: tuple[Job, int, int, bool]) -> None:
        job, start_s, nodes, killed = argument
        if job.start_s == start_s and job.completing:
            if self._ctld.conf.controller.epilog_fails:
                for index in bits(nodes):
                    self._ctld.nodes_lifecycle.drain(self._ctld.nodes.nodes[index], "Epilog error")
            self.nodes_done(job, nodes, killed or self._by_message)

    def nodes_done(self, job: Job, nodes: int, by_message: bool) -> None:
        """job_epilog_complete() of these nodes; the last one ends COMPLETING and lets the scheduler know.

        by_message: MESSAGE_EPILOG_COMPLETE runs a pass at once; the answer "already complete" to TERMINATE only
        queues one (slurm.md 1.1).
        """
        done = job.completing_nodes & nodes
        if not done:
            return
        job.completing_nodes &= ~done
        if job.completing_nodes:
            self._ctld.nodes_lifecycle.job_gone(job, done)
            self._ctld.last_node_update_s = self._ctld.now_s()
        else:
            self._completed(job, done, by_message)

    def _completed(self, job: Job, done: int, by_message: bool) -> None:
        """cleanup_completing(): licences come back, a requeued job waits again, the scheduler may run."""
        ctld = self._ctld
        job.completing = False
        ctld.completing.pop(job.slurm_id, None)
        ctld.nodes_lifecycle.job_gone(job, done)
        if job.licenses:
            ctld.licenses.give_back(job)
        self._lifecycle.gang.job_ended(job)
        ctld.last_job_update_s = ctld.last_node_update_s = ctld.now_s()
        ctld.emit(Kind.JOB_COMPLETED, job_id=job.request.job_id, detail=details.of_task(None, job.array_task))
        if job.state is JobState.PENDING:
            self._lifecycle.requeues.pending_again(job)
        else:
            self._lifecycle.left(job)
        if by_message:
            ctld.schedulers.pass_now()
        else:
            ctld.schedulers.queue_pass()
        ctld.store.changed()

    def kill_on_node(self, job: Job, node: Node) -> None:
        """kill_job_on_node(): the node still has processes of a job that is over."""
        ctld, start_s = self._ctld, job.start_s
        work = self._side.slurmds.works.get(job.slurm_id)

        def arrived(bit: int) -> None:
            if work is not None:
                work.abort(bit)
            ctld.env.call_in(ctld.costs.epilog_ns + ctld.costs.kill_ns, self._epilogs, (job, start_s, bit, True))

        self._side.slurmds.send(node, arrived)

    def kill_again(self, job: Job) -> None:
        """re_kill_job(): TERMINATE once more to the nodes that have not answered (purge, each 60 s)."""
        self._terminate(job, job.completing_nodes)

    def resend_after_s(self) -> int:
        """Silence after which a COMPLETING job is killed again: KillWait + 2*MessageTimeout."""
        timers = self._ctld.conf.timers
        return (timers.kill_wait_ns + 2 * timers.message_timeout_ns) // SECOND

    def cancel_pending(self, job: Job, state: JobState, reason: str = "") -> None:
        """A job that holds nothing ends: scancel, deadline, a dependency that can never be met."""
        ctld = self._ctld
        ctld.schedulers.dequeue(job)
        job.state = state
        job.start_s = job.end_s = ctld.now_s()
        if reason:
            job.reason = reason
        ctld.last_job_update_s = ctld.now_s()
        ctld.emit(
            Kind.JOB_ENDED,
            job_id=job.request.job_id,
            detail=details.of_task(details.ended(state.name, 0, 0), job.array_task),
        )
        self._lifecycle.left(job)
        ctld.store.changed()
