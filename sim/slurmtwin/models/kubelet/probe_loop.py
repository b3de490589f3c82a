"""The probes of a kubelet's containers on its clock (probes.py has their states).

A worker ticks from the pod's first sync on. Ticks that would find what the last one found are not simulated: a worker
sleeps while it is settled, and goes on at its next real tick when the container, or what it answers, has changed.
Source: pkg/kubelet/prober/{worker,prober_manager}.go, v1.34.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from slurmtwin.models.kubelet.probes import Answer, Probed, ProbeKind, ProbeWorker, Step
from slurmtwin.models.kubelet.relist import Ticks

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import Clock
    from slurmtwin.engine.environment import Call
    from slurmtwin.models.api_server.objects import Container, Pod

KINDS: tuple[ProbeKind, ...] = ("startup", "liveness", "readiness")


def soonest_ns(answers_ns: Sequence[int], period_ns: int) -> int:
    """Of answers to ticks a period apart the one that came the soonest; none is half a period later than another."""
    first_ns = answers_ns[0]
    return min(answers_ns, key=lambda at_ns: (at_ns - first_ns + period_ns // 2) % period_ns)


class ProbeOwner(Protocol):
    """What a loop asks of its kubelet."""

    def probed(self, uid: str, name: str) -> Probed:
        """The container as the kubelet's own status has it."""
        ...

    def answer(self, uid: str, name: str, kind: ProbeKind) -> Answer | None:
        """What the process answers now; None: it is gone, the connection is refused."""
        ...

    def probe_close_ns(self) -> int:
        """How long the connection of a probe that timed out takes to close."""
        ...

    def probe_result(self, uid: str, kind: ProbeKind, ok: bool) -> None:
        """A result was reached."""
        ...

    def probe_failed(self, uid: str, kind: ProbeKind, answer: Answer) -> None:
        """One attempt failed (the event Unhealthy)."""
        ...


class _Loop:
    """One worker's ticks."""

    __slots__ = ("_call", "_clock", "_name", "_owner", "_stopped", "_ticks", "_uid", "worker")

    def __init__(
        self, clock: Clock, owner: ProbeOwner, uid: str, name: str, worker: ProbeWorker, first_ns: int
    ) -> None:
        self._clock = clock
        self._owner = owner
        self._uid = uid
        self._name = name
        self.worker = worker
        self._ticks = Ticks(first_ns, worker.spec.period_ns)
        self._stopped = False
        self._call: Call | None = clock.call_at(first_ns, self._tick)

    def wake(self) -> None:
        """Something may be different: tick again from the next tick on."""
        if not self._stopped and self._call is None:
            self._call = self._clock.call_at(self._ticks.next_after(self._clock.now_ns), self._tick)

    def now(self) -> None:
        """A manual run: at once, and the period counts from here."""
        if self._stopped:
            return
        if self._call is not None:
            self._call.cancel()
        self._ticks.first_ns = self._clock.now_ns
        self._call = self._clock.call_in(0, self._tick)

    def stand(self, at_ns: int) -> None:
        """Its ticks fall on this time and on whole periods before and after it."""
        now_ns = self._clock.now_ns
        self._ticks.first_ns = now_ns + (at_ns - now_ns) % self._ticks.period_ns
        if self._call is not None:
            self._call.cancel()
            self._call = self._clock.call_at(self._ticks.first_ns, self._tick)

    def stop(self) -> None:
        """The worker ends."""
        self._stopped = True
        if self._call is not None:
            self._call.cancel()

    def _tick(self, _argument: object) -> None:
        self._call = None
        worker = self.worker
        seen = self._owner.probed(self._uid, self._name)
        before = (worker.result, worker.container_id)
        step = worker.next_step(self._clock.now_ns, seen)
        if step is Step.STOP:
            self._stopped = True
            return
        if step is Step.SKIP:
            waits = seen.running_since_ns is not None and worker.spec.initial_delay_ns > 0 and not worker.settled
            if waits or before != (worker.result, worker.container_id):
                self.wake()
            return
        answer = self._owner.answer(self._uid, self._name, worker.kind)
        if answer is Answer.SILENT:
            late_ns = worker.spec.timeout_ns + self._owner.probe_close_ns()
            self._call = self._clock.call_in(late_ns, self._answered, (answer, worker.container_id))
        else:
            self._answered((answer, worker.container_id))

    def _answered(self, request: tuple[Answer | None, str]) -> None:
        self._call = None
        answer, container_id = request
        worker = self.worker
        if self._stopped or container_id != worker.container_id:
            return
        ok = answer is Answer.OK
        if not ok:
            self._owner.probe_failed(self._uid, worker.kind, answer or Answer.REFUSED)
        if worker.answered(ok):
            self._owner.probe_result(self._uid, worker.kind, ok)
        if not worker.settled:
            self.wake()


class ProbeLoops:
    """All probes of one kubelet."""

    def __init__(self, clock: Clock, owner: ProbeOwner, first_wait_ns: Callable[[int], int]) -> None:
        self._clock = clock
        self._owner = owner
        self._first_wait_ns = first_wait_ns
        """Given the period: how long a new worker waits (kubernetes.md 3.2: only after the kubelet's own start)."""
        self._loops: dict[str, dict[tuple[str, ProbeKind], _Loop]] = {}
        self._added_ns: dict[str, int] = {}
        self._begun_ns: dict[str, int] = {}
        """Pod -> when its workers came, and when its first container was begun."""

    def add(self, pod: Pod) -> None:
        """Workers for all probes of a pod, once."""
        uid = pod.meta.uid
        if uid in self._loops:
            return
        loops: dict[tuple[str, ProbeKind], _Loop] = {}
        for container in _probed(pod):
            for kind in KINDS:
                spec = getattr(container, kind)
                if spec is not None:
                    first_ns = self._clock.now_ns + self._first_wait_ns(spec.period_ns)
                    worker = ProbeWorker(kind, spec)
                    loops[container.name, kind] = _Loop(self._clock, self._owner, uid, container.name, worker, first_ns)
        if loops:
            self._loops[uid] = loops
            self._added_ns[uid] = self._clock.now_ns

    def container_begins(self, uid: str) -> None:
        """A pod's image is there; its first one counts."""
        if uid in self._loops:
            self._begun_ns.setdefault(uid, self._clock.now_ns)

    def begun_at(self, uid: str, at_ns: int) -> None:
        """A pod's first image was there at this time: its probes tick as they would from that on."""
        begun_ns = self._begun_ns.get(uid)
        if begun_ns is not None:
            for loop in self._loops[uid].values():
                loop.stand(at_ns - (begun_ns - self._added_ns[uid]))

    def stand(self, uid: str, name: str, kind: str, answers_ns: Sequence[int]) -> None:
        """A container's probe was answered at these times, of which the one soonest behind its tick counts."""
        for (container, known), loop in self._loops.get(uid, {}).items():
            if (container, known) == (name, kind):
                loop.stand(soonest_ns(answers_ns, loop.worker.spec.period_ns))

    def stand_on(self, uid: str, at_ns: int) -> None:
        """All probes of a pod began at this time."""
        for loop in self._loops.get(uid, {}).values():
            loop.stand(at_ns)

    def result(self, uid: str, name: str, kind: ProbeKind, container_id: str) -> bool | None:
        """The result for that run of the container; None: no such probe, or not looked at yet."""
        loop = self._loops.get(uid, {}).get((name, kind))
        if loop is None or loop.worker.container_id != container_id:
            return None
        return loop.worker.result

    def has(self, uid: str, name: str, kind: ProbeKind) -> bool:
        """A worker is there."""
        return (name, kind) in self._loops.get(uid, {})

    def run_now(self, uid: str, name: str) -> None:
        """A started container that is not ready: its readiness is looked at at once."""
        loop = self._loops.get(uid, {}).get((name, "readiness"))
        if loop is not None:
            loop.now()

    def wake(self, uid: str, name: str = "") -> None:
        """The container (or every one of the pod) changed."""
        for (container, _), loop in self._loops.get(uid, {}).items():
            if not name or name == container:
                loop.wake()

    def stop_liveness_and_startup(self, uid: str) -> None:
        """The pod is being deleted."""
        for (_, kind), loop in self._loops.get(uid, {}).items():
            if kind != "readiness":
                loop.stop()

    def remove(self, uid: str) -> None:
        """The containers are stopped."""
        self._added_ns.pop(uid, None)
        self._begun_ns.pop(uid, None)
        for loop in self._loops.pop(uid, {}).values():
            loop.stop()


def _probed(pod: Pod) -> list[Container]:
    return [*(c for c in pod.spec.init_containers if c.restartable), *pod.spec.containers]
