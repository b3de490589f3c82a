"""Users: each request reaches slurmctld at its time, a cancel follows, and closed-loop users wait for their jobs.

One request is looked at ahead, so a workload of any length needs no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from slurmtwin.contract.demand import Users
from slurmtwin.contract.events import Kind
from slurmtwin.contract.scenario import COPY
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.slurmctld import event_details as details
from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle

if TYPE_CHECKING:
    from slurmtwin.contract.jobs import JobRequest
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.worlds.dispatcher import Dispatcher
    from slurmtwin.worlds.start_times import StartTimes

NO_CONTROLLER = "Unable to contact slurm controller (connect failure)"


class JobFeed:
    """Hands the requests of one workload to the cluster."""

    def __init__(
        self, cluster: SlurmCluster, requests: Iterator[JobRequest], times: StartTimes,
        dispatcher: Dispatcher | None = None, users: Users | None = None,
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self._dispatcher = dispatcher
        self._users = users or Users()
        self._left: set[int] = set()
        """Jobs whose user has lost patience."""
        self._requests = requests
        self._times = times
        self._waiting: dict[int, list[JobRequest]] = {}
        """By the job waited for (after_job)."""
        self._open: dict[int, None] = {}
        """Jobs seen in the workload that are not over."""
        self._last_ns = cluster.env.now_ns
        self._thinking = 0
        """Requests whose user thinks before submitting."""
        self.hold: Callable[[Callable[[], None]], bool] | None = None
        """Takes a submit that cannot leave its user now, and does it later; False: it can leave."""
        self.exhausted = False
        """No request is left."""
        self.on_change: Callable[[], None] = lambda: None
        """Called whenever the number of jobs to come may have become zero."""

    @property
    def waiting(self) -> int:
        """Requests whose user waits for another job, or thinks after it."""
        return len(self._waiting) + self._thinking

    def start(self) -> None:
        """Plan the first request, and what cut links lead to."""
        if self._dispatcher is not None:
            for at, to, cluster in self._dispatcher.cuts:
                self._cluster.env.call_at(at, self._cut, (at, to, cluster))
        self._next(None)

    def _next(self, _argument: object) -> None:
        for request in self._requests:
            self._open[request.job_id] = None
            if request.after_job in self._open:
                self._waiting.setdefault(request.after_job, []).append(request)
                continue
            # recorded arrivals may be a little out of order: a later request does not overtake an earlier one
            at_ns = self._last_ns = max(self._last_ns, self._arrival_ns(request))
            self._cluster.env.call_at(at_ns, self._arrive, request)
            return
        self.exhausted = True
        self.on_change()

    def _arrival_ns(self, request: JobRequest) -> int:
        recorded = self._times.submit_ns.get(request.job_id) if self._times.submit_ns else None
        return recorded if recorded is not None else request.submit_ns + self._cluster.costs.submit_rpc_ns

    def _arrive(self, request: JobRequest) -> None:
        self.deliver(request)
        self._next(None)

    def deliver(self, request: JobRequest) -> None:
        """The submit RPC reaches the controller, or the command fails when none answers (slurm.md 5.4)."""
        cluster = self._cluster
        if self.hold is not None and self.hold(lambda: self._thought(request)):
            self._thinking += 1
            return
        if self._dispatcher is not None:
            wait_ns = self._dispatcher.wait_ns(request, cluster.env.now_ns)
            if wait_ns:
                self._later(wait_ns, self._thought, request)
                return
            placed = self._dispatcher.place(request, cluster.env.now_ns)
            if placed is not request and self._dispatcher.delay_ns:
                self._later(self._dispatcher.delay_ns, self._reach, placed)
                return
            request = placed
        self._submit(request)

    def _later(self, after_ns: int, what: Callable[[JobRequest], None], request: JobRequest) -> None:
        self._thinking += 1
        self._cluster.env.call_in(after_ns, what, request)

    def _reach(self, request: JobRequest) -> None:
        """A job has come to its cluster."""
        self._thinking -= 1
        self._submit(request)

    # clusters out of reach

    def _cut(self, link: tuple[int, int, int]) -> None:
        """A link is cut from now on: a cluster that stays silent for too long loses its jobs."""
        at, to, cluster = link
        assert self._dispatcher is not None
        self._tell(Kind.FAULT_INJECTED, cluster)
        self._cluster.env.call_at(to, self._back, cluster)
        lost_ns = self._dispatcher.lost_after_ns
        if lost_ns and to - at > lost_ns:
            self._cluster.env.call_at(at + lost_ns, self._lost, (to, cluster))

    def _back(self, cluster: int) -> None:
        self._tell(Kind.FAULT_CLEARED, cluster)

    def _tell(self, kind: Kind, cluster: int) -> None:
        assert self._dispatcher is not None
        said = detail_text(fault={"kind": "link.cut", "target": self._dispatcher.name(cluster)})
        self._cluster.sink.emit(self._cluster.env.now_ns, kind, "fault", None, None, None, None, said)

    def _lost(self, what: tuple[int, int]) -> None:
        """Every job that is not known to have ended is sent again; its first copy goes when the cluster is back."""
        to, cluster = what
        assert self._dispatcher is not None
        for request in self._dispatcher.sent_to(cluster):
            self._cluster.env.call_at(to, self._cancel, request.job_id)
            self.deliver(replace(request, job_id=request.job_id + COPY, after_job=0, cancel_ns=None))

    def _submit(self, request: JobRequest) -> None:
        cluster = self._cluster
        if request.cancel_ns is not None:
            cancel_ns = max(request.cancel_ns, cluster.env.now_ns)
            cluster.env.call_at(cancel_ns, self._cancel, request.job_id)
        if self._users.patience:
            cluster.env.call_in(self._users.patience, self._impatient, request.job_id)
        self._try((request, cluster.env.now_ns))

    def _try(self, what: tuple[JobRequest, int]) -> None:
        """One sbatch of a request, whose first was at that time."""
        request, _ = what
        ctld = self._cluster.ctld
        if ctld is not None:
            ctld.lifecycle.submit(request)
            return

        def submit(controller: Slurmctld) -> None:
            controller.lifecycle.submit(request)

        self._cluster.request(submit, lambda: self._failed(what))

    def _failed(self, what: tuple[JobRequest, int]) -> None:
        """No slurmctld answered: the user tries again, or the job is never submitted."""
        cluster, users = self._cluster, self._users
        request, first_ns = what
        number, now_ns = request.job_id, cluster.env.now_ns
        cluster.sink.emit(
            now_ns, Kind.JOB_REJECTED, "sbatch", number, None, None, None, details.reason(NO_CONTROLLER)
        )  # fmt: skip
        late = users.gives_up and now_ns + users.try_again - first_ns >= users.gives_up
        if not users.try_again or late or number in self._left:
            self.job_over(number)
            return
        self._thinking += 1
        cluster.env.call_in(users.try_again, self._again, what)

    def _again(self, what: tuple[JobRequest, int]) -> None:
        self._thinking -= 1
        if what[0].job_id in self._left:
            self.job_over(what[0].job_id)
        else:
            self._try(what)

    def _impatient(self, number: int) -> None:
        """A user looks at a job that has waited for long: one that never started is cancelled, or not tried again."""
        self._left.add(number)

        def leave(controller: Slurmctld) -> None:
            lifecycle = controller.lifecycle
            assert isinstance(lifecycle, Lifecycle)
            job = lifecycle.by_number(number)
            if job is not None and job.pending and not job.restart_count:
                lifecycle.cancel(number)

        if number in self._open:
            self._cluster.request(leave, lambda: None, self._cluster.costs.rpc_ns)

    def _cancel(self, number: int) -> None:
        def cancel(controller: Slurmctld) -> None:
            controller.lifecycle.cancel(number)

        self._cluster.request(cancel, lambda: None, self._cluster.costs.rpc_ns)

    def job_over(self, number: int) -> None:
        """A job has ended for good or was refused: whoever waits for it thinks, then submits."""
        self._open.pop(number, None)
        if self._dispatcher is not None:
            self._dispatcher.over(number, self._cluster.env.now_ns)
        for request in self._waiting.pop(number, ()):
            at_ns = self._cluster.env.now_ns + request.think_ns + self._cluster.costs.submit_rpc_ns
            self._thinking += 1
            self._cluster.env.call_at(max(at_ns, request.submit_ns), self._thought, request)
        self.on_change()

    def _thought(self, request: JobRequest) -> None:
        self._thinking -= 1
        self.deliver(request)
