"""The dispatcher's core on simulated time, with each cluster's slurmrestd behind a port (slurmtwin_operator's process).

A request waits for its answer as the real one does: a connection whose first packet is dropped is tried again each
second by the kernel, and the request is given up after `patience`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.slurmctld.node_words import node_words
from slurmtwin_operator.core.job_dispatch import (
    COPY,
    Heard,
    Order,
    Outcome,
    Rules,
    Told,
    first_memory,
    plan_jobs,
)

if TYPE_CHECKING:
    from slurmtwin.contract.jobs import JobRequest
    from slurmtwin.contract.scenario import Dispatch
    from slurmtwin.engine.environment import Environment
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

AGAIN_NS: Final = SECOND
"""A SYN without an answer is sent again each second at first (Linux >= 6.5, net.ipv4.tcp_syn_linear_timeouts)."""
NO_JOBS: Final = frozenset(("DOWN", "DRAIN", "NOT_RESPONDING", "FAIL", "UNKNOWN", "FUTURE"))
"""Words of a node's state with which it takes none."""
ACTOR: Final = "dispatcher"


def at_once() -> int:
    """A timer that is never late."""
    return 0


class ClusterPort:
    """One cluster's slurmrestd as the dispatcher asks it."""

    def __init__(
        self, env: Environment, cluster: SlurmCluster, answers: Callable[[], bool], patience_ns: int,
        takes_ns: Callable[[], int], late_ns: Callable[[], int] = at_once,
    ) -> None:  # fmt: skip
        self._env, self._cluster, self._patience_ns, self._takes_ns = env, cluster, patience_ns, takes_ns
        self._late_ns = late_ns
        """Behind its patience: a time-out of asyncio."""
        self._answers = answers
        """The link is whole, and slurmrestd and slurmctld run."""

    def ask(self, what: Callable[[Slurmctld], None], failed: Callable[[], None]) -> None:
        """Call `what` when slurmctld has the request, or `failed` when it was given up."""
        self._try((self._env.now_ns, what, failed))

    def _try(self, request: tuple[int, Callable[[Slurmctld], None], Callable[[], None]]) -> None:
        begun_ns, _, failed = request
        env = self._env
        left_ns = begun_ns + self._patience_ns - env.now_ns
        if self._answers():
            env.call_in(self._takes_ns(), self._reach, request)
        elif left_ns > AGAIN_NS:
            env.call_in(AGAIN_NS, self._try, request)
        else:
            env.call_in(left_ns + self._late_ns(), lambda _: failed())

    def _reach(self, request: tuple[int, Callable[[Slurmctld], None], Callable[[], None]]) -> None:
        """It has come to slurmctld, unless that is gone by now."""
        ctld = self._cluster.ctld
        if ctld is None or not self._answers():
            self._try(request)
        else:
            request[1](ctld)


class JobDispatcher:
    """The jobs of one dispatcher and its clusters, from start() on."""

    def __init__(
        self, env: Environment, spec: Dispatch, ports: dict[str, ClusterPort], jobs: Sequence[JobRequest],
        cpus_of: Callable[[JobRequest], int], changed: Callable[[], None], wake: Callable[[], int] = at_once,
    ) -> None:  # fmt: skip
        self._env, self._spec, self._ports, self._cpus_of, self._changed = env, spec, ports, cpus_of, changed
        self._wake = wake
        """What its loop is late by, in ns."""
        self._jobs = {job.job_id: job for job in jobs}
        self._to_come = len(jobs)
        self._rules = Rules(clusters=tuple(spec.clusters), lost_after_ns=spec.lost_after, remembers=spec.remembers)
        self._memory = first_memory(self._rules, 0)
        self._answering: dict[str, bool] = {}
        self._look_ns = -1
        self.rows: list[Event] = []
        """What it did and saw, as the real one notes it."""

    @property
    def idle(self) -> bool:
        """Every job has come and is with a cluster that answered for it."""
        open_ = any(held.state in ("asked", "silent") for held in self._memory.held)
        return not (self._to_come or self._memory.waiting or open_)

    def start(self) -> None:
        """Ask for loads at 0 and every staleness after it; jobs come at their times."""
        self._at(0, self._ask_all, 0)
        for job in self._jobs.values():
            self._at(max(0, job.submit_ns), self._arrive, job)

    def _at(self, at_ns: int, what: Callable[[Any], None], argument: object = None) -> None:
        """Its loop wakes for this then."""
        self._env.call_at(at_ns + self._wake(), what, argument)

    def _ask_all(self, due_ns: int) -> None:
        due_ns += self._spec.staleness
        self._at(due_ns, self._ask_all, due_ns)
        for name in self._spec.clusters:
            self._ask(name, self._env.now_ns)

    def _arrive(self, job: JobRequest) -> None:
        self._to_come -= 1
        self._pass(arrived=[Order(job.job_id, self._cpus_of(job))])

    def _pass(
        self, heard: Sequence[Heard] = (), told: Sequence[Told] = (), arrived: Sequence[Order] = ()
    ) -> None:  # fmt: skip
        now = self._env.now_ns
        plan = plan_jobs(self._rules, self._memory, now, heard=heard, told=told, arrived=arrived)
        self._memory = plan.memory
        for name in plan.lost:
            self._note(Kind.ACTION_ISSUED, name, None, do="give-up", object=name, outcome="done")
        for name, copy in plan.cancels:
            self._cancel(name, copy)
        for name, order in plan.submits:
            self._submit(name, order)
        if plan.again_ns > now and plan.again_ns != self._look_ns:
            self._look_ns = plan.again_ns
            self._at(plan.again_ns, self._look)
        self._changed()

    def _look(self, _argument: object) -> None:
        self._pass()

    # requests

    def _ask(self, name: str, asked_ns: int) -> None:
        def answer(ctld: Slurmctld) -> None:
            self._answer(name, good=True)
            self._pass(heard=[self._heard(name, asked_ns, ctld)])

        def silence() -> None:
            self._answer(name, good=False)
            self._pass(heard=[Heard(name, asked_ns)])

        self._ports[name].ask(answer, silence)

    def _heard(self, name: str, asked_ns: int, ctld: Slurmctld) -> Heard:
        """Nodes and jobs as slurmrestd lists them."""
        cpus = sum(node.conf.cpus for node in ctld.nodes.nodes if not NO_JOBS & set(node_words(ctld, node)))
        live = [job for job in ctld.jobs.values() if not job.state.finished]
        load = sum(self._cpus_of(job.request) for job in live)
        ours = tuple(sorted(job.id for job in live if job.id % COPY in self._jobs))
        return Heard(name, asked_ns, True, cpus, load, ours)

    def _submit(self, name: str, order: Order) -> None:
        copy = order.copy_number
        request = replace(self._jobs[order.number], job_id=copy, submit_ns=self._env.now_ns, partition=name)

        def end(outcome: Outcome) -> None:
            kind = Kind.ACTION_FAILED if outcome == "silent" else Kind.ACTION_ISSUED
            said = "no answer in time" if outcome == "silent" else "done"
            self._note(kind, name, copy, do="submit", object=name, outcome=said)
            self._pass(told=[Told(name, copy, outcome, self._env.now_ns)])

        def submit(ctld: Slurmctld) -> None:
            ctld.lifecycle.submit(request)
            end("taken")

        self._ports[name].ask(submit, lambda: end("silent"))

    def _cancel(self, name: str, copy: int) -> None:
        def cancel(ctld: Slurmctld) -> None:
            self._note(Kind.ACTION_ISSUED, name, copy, do="cancel", object=name, outcome="done")
            ctld.lifecycle.cancel(copy)

        def silence() -> None:
            self._note(Kind.ACTION_FAILED, name, copy, do="cancel", object=name, outcome="no answer in time")

        self._ports[name].ask(cancel, silence)

    # rows

    def _answer(self, name: str, *, good: bool) -> None:
        if self._answering.get(name) is not good:
            self._answering[name] = good
            self._note(Kind.CLIENT_ANSWERED if good else Kind.CLIENT_REFUSED, name, None, asked="load")

    def _note(self, kind: Kind, name: str, job: int | None, **more: str) -> None:
        self.rows.append(Event(self._env.now_ns, kind, ACTOR, job, detail=detail_text(**more), cluster=name))
