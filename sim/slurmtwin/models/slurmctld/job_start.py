"""A job starts: resources, node states, time limit, launch of the batch script (select_nodes(), launch_job())."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmtwin.contract.events import Kind
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.slurmctld import event_details as details
from slurmtwin.models.slurmctld.job_request import limit_at_start
from slurmtwin.models.slurmctld.states import JobState, Reason
from slurmtwin.models.slurmctld.tables import INFINITE_S
from slurmtwin.models.slurmd.batch_job import BatchJob

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
    from slurmtwin.models.slurmctld.parts import Placement
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job, Node, Partition
    from slurmtwin.models.slurmd.batch_job import NodeSide


class JobStart:
    """Starts of one slurmctld."""

    def __init__(self, ctld: Slurmctld, lifecycle: Lifecycle, side: NodeSide) -> None:
        self._ctld = ctld
        self._lifecycle = lifecycle
        self._side = side
        self._contain = "contain" in {flag.lower() for flag in ctld.conf.controller.prolog_flags}
        self._part_time_free = {q.name for q in ctld.conf.qos if "partitiontimelimit" in {f.lower() for f in q.flags}}

    def start(self, job: Job, part: Partition, placement: Placement, by: str) -> None:
        """The job holds its nodes from now on; the script runs launch_ns later."""
        ctld = self._ctld
        now_s = ctld.now_s()
        if by == "backfill":
            ctld.store.backfill_starts()
        ctld.schedulers.dequeue(job)
        allocation = placement.allocation
        own = job.limit_s
        job.limit_s = limit_at_start(own, part.conf, job.qos in self._part_time_free)
        if own != job.limit_s:
            job.limit_set = True
        job.part = part
        job.alloc = allocation
        job.state = JobState.RUNNING
        job.reason = Reason.NONE
        job.start_s = job.last_active_s = now_s
        job.planned_start_s = job.preempt_s = 0
        job.end_s = now_s + (job.limit_s if job.limit_s >= 0 else INFINITE_S)
        job.exit_code = 0
        job.started_by = by
        nodes = allocation.nodes
        ctld.running[job.slurm_id] = job
        if job.licenses:
            ctld.licenses.take(job)
        ctld.selection.allocate(job, allocation)
        ctld.nodes_lifecycle.job_allocated(nodes)
        ctld.limits.job_started(job)
        ctld.priority.job_started(job)
        ctld.last_job_update_s = ctld.last_node_update_s = now_s
        self._lifecycle.arrays.started(job)
        self._emit(job, by)
        table = ctld.nodes
        if nodes & (table.booting | table.power_down) or nodes & ~table.avail:
            job.configuring = True
            self._lifecycle.limits.watch_configuring(job)
        else:
            self.launch(job)
        self._lifecycle.gang.job_started(job)
        if by != "backfill":
            ctld.store.changed()

    def _emit(self, job: Job, by: str) -> None:
        ctld, allocation = self._ctld, job.alloc
        assert allocation is not None
        cpus = allocation.cpus
        if cpus is None or len(set(cpus)) == 1:
            detail = details.started(by)
        else:
            detail = detail_text(by=by, node_cpus=list(cpus))
        ctld.emit(
            Kind.JOB_STARTED,
            "backfill" if by == "backfill" else "slurmctld",
            job.request.job_id,
            ctld.nodes.hostlist(allocation.nodes),
            allocation.cpu_total,
            "cpu",
            details.of_task(detail, job.array_task),
        )

    def launch(self, job: Job) -> None:
        """launch_job(): REQUEST_BATCH_JOB_LAUNCH to the first node; a hetjob's leader launches for all."""
        allocation = job.alloc
        assert allocation is not None
        job.configuring = False
        if job.het_job is not None and job.het_job[0] is not job:
            self._lifecycle.limits.watch(job)
            return
        if job.request.external:  # launch_prolog() and launch_job() leave it alone
            self._lifecycle.limits.watch(job)
            return
        table, slurmds = self._ctld.nodes, self._side.slurmds
        host_bit = allocation.nodes & -allocation.nodes
        host = table.nodes[host_bit.bit_length() - 1]
        work = BatchJob(self._side, job, host.name, host_bit, allocation.nodes if self._contain else 0)
        job.work = work
        if host_bit & slurmds.deaf:
            lost = self._lifecycle.requeues.launch_failed
            slurmds.call(host, lambda: self._late_launch(job, work), lambda: lost(job, work))
        elif self._ctld.conf.controller.prolog_fails:
            ran_ns = self._ctld.costs.launch_ns + self._side.prolog_ns
            self._ctld.env.call_in(ran_ns, lambda _: self._prolog_failed(job, work, host))
        else:
            work.launch()
        self._lifecycle.limits.watch(job)

    def _prolog_failed(self, job: Job, work: BatchJob, host: Node) -> None:
        """slurmd reports a failed Prolog: the job goes back held, the node is drained (slurm.md 4.6 "Prolog fails")."""
        if job.work is work and job.running:
            self._lifecycle.requeues.launch_failed_hold(job, host)
            self._ctld.nodes_lifecycle.drain(host, "Prolog error")

    def _late_launch(self, job: Job, work: BatchJob) -> None:
        if job.work is work and job.running:
            work.launch()
            self._lifecycle.limits.watch(job)
