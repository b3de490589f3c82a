"""slurmrestd as slurm-bridge asks it: external jobs, each with the pods that it stands for in its AdminComment.

The scheduler's client keeps no cache: each call goes to slurmctld. The controllers' cache is not modelled either; they
refresh it before what matters (controller/pod/slurmcontrol IsJobRunning()).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from slurmtwin.contract.clock import MS
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
from slurmtwin.models.slurmctld.states import JobState

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import Clock
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job

Answer = TypeVar("Answer")
EXTERNAL_JOBS: Final = 500_000_000
"""The k-th external job is the workload's job 500000000 + k in the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestCosts:
    """What slurmrestd and slurmctld take for an answer, ns."""

    call_ns: int = 4 * MS
    """Any call: a change of a node takes 1.9 to 5.0 ms by the hour (quiet-operated, ten batches; `rest-change`)."""
    job_ns: int = 1_550_000
    """A job more in a list of all jobs: about 900 of them took 1.4 s (slurm-bridge issue 45)."""


@dataclass(frozen=True, slots=True)
class ExternalJob:
    """What the bridge reads of a job record."""

    slurm_id: int
    state: JobState
    nodes: tuple[str, ...]
    """Those that it has, or had."""


class _Call:
    """One request."""

    __slots__ = ("act", "done")

    def __init__(self, act: Callable[[Slurmctld], Any], done: Callable[[Any], None]) -> None:
        self.act = act
        self.done = done


class BridgeRest:
    """The way to slurmctld, as one cluster's bridge has it; what it remembers lies in slurmctld's records."""

    def __init__(self, cluster: SlurmCluster, serves: Callable[[], bool], costs: RestCosts) -> None:
        self._cluster = cluster
        self._serves = serves
        self.costs = costs
        self.submitted = 0
        self._slurm_ids: dict[int, int] = {}
        """The workload's number of a job that is not over -> Slurm's."""
        self._of_pod: dict[str, list[int]] = {}
        """Pod -> Slurm's numbers of the jobs whose comments name it: an index, checked against the records."""

    def call(
        self, clock: Clock, calls: int, act: Callable[[Slurmctld], Answer], done: Callable[[Answer | None], None],
        lists: bool = False,
    ) -> None:  # fmt: skip
        """So many calls one after the other, the last of which is `act`; done(None): nobody answered."""
        wait_ns = calls * self.costs.call_ns
        ctld = self._cluster.ctld
        if lists and ctld is not None:
            wait_ns += self.costs.job_ns * len(ctld.jobs)
        clock.call_in(wait_ns, self._arrive, _Call(act, done))

    def _arrive(self, call: _Call) -> None:
        ctld = self._cluster.ctld
        call.done(call.act(ctld) if ctld is not None and self._serves() else None)

    # reads, at slurmctld

    def read(self, ctld: Slurmctld, slurm_id: int) -> ExternalJob | None:
        """GET job; None: 404."""
        job = ctld.jobs.get(slurm_id) if slurm_id else None
        if job is None:
            return None
        alloc = job.alloc
        return ExternalJob(slurm_id, job.state, tuple(ctld.nodes.names(alloc.nodes)) if alloc is not None else ())

    def job_of_pod(self, ctld: Slurmctld, pod: str) -> ExternalJob | None:
        """GetJobsForPods(): the last job in the list whose AdminComment names the pod."""
        for slurm_id in reversed(self._of_pod.get(pod, ())):
            job = ctld.jobs.get(slurm_id)
            if job is not None and (job.comment == pod or pod in job.comment.split(",")):
                return self.read(ctld, slurm_id)
        return None

    def jobs_naming(self, pod: str) -> tuple[int, ...]:
        """Slurm's numbers of all jobs that were submitted for the pod."""
        return tuple(self._of_pod.get(pod, ()))

    def external(self, ctld: Slurmctld) -> list[int]:
        """All external jobs that are not over."""
        return [job.slurm_id for job in ctld.jobs.values() if job.request.external and not job.state.finished]

    def pods_of(self, ctld: Slurmctld, slurm_id: int) -> tuple[str, ...]:
        """The pods of an external job; none: it is not one."""
        job = ctld.jobs.get(slurm_id)
        return tuple(job.comment.split(",")) if job is not None and job.request.external and job.comment else ()

    def number(self, slurm_id: int) -> int | None:
        """The workload's number of an external job, for rows; None: slurmctld does not know it."""
        ctld = self._cluster.ctld
        job = ctld.jobs.get(slurm_id) if ctld is not None else None
        return job.id if job is not None else None

    @property
    def next_number(self) -> int:
        """The workload's number of the next external job."""
        return EXTERNAL_JOBS + self.submitted + 1

    # writes, at slurmctld

    def submit(self, ctld: Slurmctld, request: JobRequest, pods: tuple[str, ...]) -> int:
        """POST job/submit with the flag EXTERNAL_JOB: Slurm's number; 0: refused. request.job_id is next_number."""
        self.submitted += 1
        lifecycle = ctld.lifecycle
        assert isinstance(lifecycle, Lifecycle)
        job: Job | None = lifecycle.submission.submit(request)
        if job is None:
            return 0
        job.comment = ",".join(pods)
        self._slurm_ids[request.job_id] = job.slurm_id
        for pod in pods:
            self._of_pod.setdefault(pod, []).append(job.slurm_id)
        return job.slurm_id

    def update(self, ctld: Slurmctld, slurm_id: int, names: str) -> bool | None:
        """POST job/ID with the nodes that will do now; False: it is pending no more; None: refused.

        update_job() reads the old list anew first, and refuses any change where a node of it is gone.
        """
        job = ctld.jobs.get(slurm_id)
        if job is None or not job.pending:
            return False
        try:
            ctld.nodes.named(job.request.nodelist)
        except KeyError:
            return None
        if job.request.nodelist != names:
            job.request = replace(job.request, nodelist=names)
            job.demand = None
            ctld.schedulers.queue_pass()
        return True

    def cancel(self, ctld: Slurmctld, slurm_id: int) -> bool:
        """DELETE job: scancel; an unknown or finished one is tolerated."""
        job = ctld.jobs.get(slurm_id)
        if job is None or job.state.finished:
            return False
        ctld.lifecycle.cancel(job.id)
        return True

    def over(self, number: int) -> int:
        """A job of the workload is over: Slurm's number of it if it was external, else 0."""
        return self._slurm_ids.pop(number, 0)

    def runs(self, slurm_id: int) -> bool:
        """slurmctld serves and has that job RUNNING now: who asked would hear so."""
        ctld = self._cluster.ctld
        return ctld is not None and slurm_id in ctld.running

    def is_open(self, slurm_id: int) -> bool:
        """slurmctld has that job, and it is not over."""
        ctld = self._cluster.ctld
        job = ctld.jobs.get(slurm_id) if ctld is not None else None
        return ctld is None or (job is not None and not job.state.finished)

    def forget(self, pod: str) -> None:
        """The pod is gone for good: nobody asks for it again."""
        self._of_pod.pop(pod, None)
