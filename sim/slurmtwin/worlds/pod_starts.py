"""What a pod's start takes, and what starts beside each other take: all nodes of a kind cluster are one host."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.models.kubelet.container_runtime import LateMount, StartCosts
from slurmtwin.models.kubelet.defaults import VOLUME_POLL_NS
from slurmtwin.worlds.kubelet_phases import REMOUNT_NS, exit_range_ns
from slurmtwin.worlds.pod_durations import OF_ENDS, OF_MOUNTS, OF_PAIRS
from slurmtwin.worlds.pod_operator import asks_by_lists
from slurmtwin.worlds.pod_services import NO_IMAGE

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Environment
    from slurmtwin.worlds.pod_world import PodWorld
    from slurmtwin.worlds.start_times import StartTimes

Draw = Callable[[], int]
BESIDE: Final = 0.22
QUIET_BESIDE: Final = 2
"""Starts of pods share the host: Scheduled to Started is 0.94 s alone, 1.34 s of two and 1.64 s of four together in the
first quiet runs (first repetition, and pairs of the second), so each one beside adds 22 %. Calibrated durations are
those of starts with two others beside them on average. Two that start together have a law of their own where the
batch's quiet runs show pairs (quiet-deleted)."""
CLEAN_UP_OWN_NS: Final = 6 * MS
"""Of clean-up this is the pod's own worker, beside which those of other pods do theirs: as long as an answer's way. The
rest is its turn among the kubelet's statuses, one pod behind the other: 264 removals on one kubelet came 25 ms behind
the one before (median), the law of a single one has 24."""
BOUND_NS: Final = 2 * MS
"""kube-scheduler's own part of a binding once the cluster is filled, beside requests and watches: 407 pods that were
created behind a scenario's begin were bound in 6 to 23 ms, median 12 (docs/surprises.md), in the model 2 ms earlier."""
BOUND_MODELLED_NS: Final = 40 * MS
"""Of pod-bind, which the model has apart: requests and watches of a cluster that is filled."""
PULL_NS: Final = 10 * SECOND
"""An image that a registry has; every recorded one is on the machine beforehand."""
END_RECEIVED_NS: Final = 5 * MS
"""Of end-told, which a watcher's receipt ends: its watch, which the model has apart."""
DELETE_HEARD_NS: Final = 5 * MS
"""Of stop-heard: the request and the kubelet's watch, which the model has apart."""
END_SENT_NS: Final = 20 * MS
"""Of stop-told, behind the runtime's word: the kubelet's request and the watcher's watch, likewise."""
END_ALONE: Final = 0.75
END_BESIDE: Final = 0.52
END_MOST: Final = 5
END_SCATTER: Final = 0.6
"""Of stop-told, which quiet-deleted shows of one or two ends at a time: of the hour's median 74 that came alone took
0.75, 142 with one other within 0.4 s 1.14, so each one beside adds 52 %; in quiet-operated 83 with three others took
2.1, 203 with five or more 2.7, as five would have it. 30 ends of quiet-ended, behind a preStop hook, took 0.75 as well.
The law's sigma has both in it: 0.27 on the mean of twelve batches, of those alone 0.12, of pairs 0.19."""
UNMOUNT_NS: Final = 20 * MS
"""What unmounting a pod's volumes takes behind the two loops that see its end (an assumption: no row shows it)."""
LISTED_AGAIN_NS: Final = (800 * MS, 1600 * MS)
"""A reflector lists again behind a refusal (client-go reflector.go: 800 ms with a jitter of 1, v1.34.2)."""
LIST_AWAITED_NS: Final = 1 * SECOND
"""A mount waits so long for its object (watch_based_manager.go Get())."""
MOUNTED_AGAIN_NS: Final = 500 * MS
"""And is tried again so much later (exponential_backoff.go, initialDurationBeforeRetry)."""
LISTS_REFUSED: Final = (2, 3, 1, 3, 3)
"""Of a pod's ConfigMap, Secret and token so many were refused, each as often (slurmtwin_e2e.kind.refused_lists)."""
SYNCED_NS: Final = 11 * MS
"""Of container-restart, what a sync that has killed the container itself is past. Pulled is heard 15 ms behind the sync
of a slurmctld that comes back (103 of quiet-restarts); 4 of them stay, as behind such a kill it is heard so much later
than the model says it (x2-controller-hang; docs/surprises.md)."""
LEAST_SANDBOX_NS: Final = 50 * MS
"""A sandbox takes so long at least, however little is left of a pod's start beside its container's."""


class Sharing:
    """One host runs all nodes: starts that are under way share its CPUs."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._ends_ns: list[int] = []
        self.joined_ns = 0
        """When the last start came to those under way."""

    @property
    def under_way(self) -> int:
        """Starts that go on now."""
        return sum(end_ns > self._env.now_ns for end_ns in self._ends_ns)

    @property
    def alone(self) -> bool:
        """No start is under way."""
        return not self.under_way

    def takes_ns(self, drawn_ns: int) -> int:
        """How long a start takes now that would take so long beside as many as in the quiet runs."""
        return self.stands(self._shared(drawn_ns))

    def stands(self, takes_ns: int) -> int:
        """A start begins that takes so long."""
        self._ends_ns.append(self._env.now_ns + takes_ns)
        return takes_ns

    def of(self, draw: Draw) -> Draw:
        """Draws of something that is no start, but shares the host with those under way."""
        return lambda: self._shared(draw())

    def _shared(self, drawn_ns: int) -> int:
        now_ns = self._env.now_ns
        self._ends_ns = [end_ns for end_ns in self._ends_ns if end_ns > now_ns]
        return round(drawn_ns * (1 + BESIDE * len(self._ends_ns)) / (1 + BESIDE * QUIET_BESIDE))


class Mounting:
    """Pods whose volumes are being mounted, on one host: at its first look a kubelet knows who else is on the way."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._spans: dict[str, tuple[int, int]] = {}
        """Pod -> when its mounts began, and when they are over as far as is known."""
        self._looked: set[str] = set()

    def begins(self, uid: str) -> None:
        """A pod comes to those under way; the first look is the least it takes."""
        now_ns = self._env.now_ns
        since_ns = min((began for began, over in self._spans.values() if over > now_ns), default=now_ns)
        self._spans = {one: span for one, span in self._spans.items() if span[1] > since_ns}
        self._spans[uid] = (now_ns, now_ns + VOLUME_POLL_NS)
        self._looked.discard(uid)

    def looks(self, uid: str) -> int | None:
        """Others that were on the way beside it, at its first look; None: it has looked, or never began."""
        own = self._spans.get(uid)
        if own is None or uid in self._looked:
            self._looked.discard(uid)
            return None
        self._looked.add(uid)
        return sum(over > own[0] for one, (_, over) in self._spans.items() if one != uid)

    def goes_on(self, uid: str, more_ns: int) -> int:
        """So much longer, if anything."""
        if more_ns <= 0:
            self._looked.discard(uid)
            return 0
        self._spans[uid] = (self._spans[uid][0], self._env.now_ns + more_ns)
        return more_ns


def less(draw: Draw, part_ns: int) -> Draw:
    """A duration without the part that the model has of its own."""
    return lambda: max(0, draw() - part_ns)


def binds(world: PodWorld, sharing: Sharing) -> Draw:
    """What kube-scheduler takes for a pod: pod-bind while the cluster is filled, of which its own requests and the
    first watches' 40 ms are in the model; behind the scenario's begin next to nothing.
    """
    filling = sharing.of(less(world.draw("pod-bind"), BOUND_MODELLED_NS))
    return lambda: filling() if world.env.now_ns < 0 else BOUND_NS


def _end_told(world: PodWorld) -> Draw | None:
    if not world.has(OF_ENDS):
        return None
    return less(world.draw(OF_ENDS), END_RECEIVED_NS)


def daemon_stop(world: PodWorld, times: StartTimes) -> Draw:
    """From a daemon's last line until its process is gone: stop-told less what runtime and kubelet take behind that.

    Pods whose containers are being stopped meanwhile share the host; behind hooks, which end one by one, as long as
    their ends overlap.
    """
    told, middle_ns, runtime_ns = world.draw("stop-told"), world.middle("stop-told"), StartCosts().stop()
    if times.relist_ns:
        runtime_ns = sum(exit_range_ns(times, world.middle("container-restart"))) // 2

    def stop() -> int:
        now_ns = world.env.now_ns
        apart_ns = sorted(abs(over_ns - now_ns) if over_ns else 0 for over_ns in world.kube.stopping)
        alone_ns = END_ALONE * middle_ns * math.pow(told() / middle_ns, END_SCATTER)
        return max(0, round(end_beside(alone_ns, apart_ns[1 : END_MOST + 1])) - runtime_ns - END_SENT_NS)

    return stop


def end_beside(alone_ns: float, apart_ns: Sequence[int]) -> float:
    """What an end takes beside others that begin so much sooner or later, the nearest first: each adds END_BESIDE for
    the part of it that they have in common, were they equally long.

    So it is the longer root of t = alone (1 + END_BESIDE (n - sum(apart) / t)) for all n that are nearer than t.
    """
    took_ns, sum_ns = alone_ns, 0
    for count, near_ns in enumerate(apart_ns, 1):
        sum_ns += near_ns
        half_ns = alone_ns * (1 + END_BESIDE * count) / 2
        square = half_ns * half_ns - alone_ns * END_BESIDE * sum_ns
        if square < 0 or half_ns + math.sqrt(square) <= near_ns:
            break
        took_ns = half_ns + math.sqrt(square)
    return took_ns


def refused_lists(world: PodWorld, sharing: Sharing) -> Callable[[], LateMount | None]:
    """A kubelet lists a pod's objects as soon as it hears of it: the API server may not have heard of its binding yet.

    What starts that came together take has it in it, as mounts of an operator's pods have; so this is of plain pods
    that start alone.
    """
    refused, draw = world.happens("list.refused"), world.streams.uniform_ns
    again, loop = draw("list.again", *LISTED_AGAIN_NS), draw("list.loop", 0, REMOUNT_NS)
    count = world.streams.choice_ns("list.count", list(LISTS_REFUSED))

    def late() -> LateMount | None:
        if not sharing.alone or not refused():
            return None
        awaited_ns = loop() + loop() + LIST_AWAITED_NS
        listed = [again() for _ in range(count())]
        failed = [awaited_ns for listed_ns in listed if listed_ns > awaited_ns]
        mounted = [*(ns for ns in listed if ns <= awaited_ns), *(ns + MOUNTED_AGAIN_NS + loop() for ns in failed)]
        return LateMount(max(mounted), tuple(failed))

    return late


@dataclass(frozen=True, slots=True)
class StartLaw:
    """What a start takes beside so many others."""

    pod: Draw
    container: Draw
    pod_ns: int
    """The pod's median."""
    container_ns: int
    """The container's."""

    @classmethod
    def of(cls, world: PodWorld, beside: str) -> StartLaw:
        """Of the durations pod-start and container-start with that ending."""
        pod, container = f"pod-start{beside}", f"container-start{beside}"
        return cls(world.draw(pod), world.draw(container), world.middle(pod), world.middle(container))

    def late_ns(self, by: StartLaw, shared_ns: int) -> int:
        """What a start under this law loses while it goes on by a slower one for so long."""
        return max(0, shared_ns * (by.pod_ns - self.pod_ns) // self.pod_ns)


@dataclass(frozen=True, slots=True)
class Begun:
    """A pod with a sandbox whose container is still to come."""

    by: StartLaw
    part_ns: int
    """Of its start, the container's."""
    at_ns: int


def start_costs(world: PodWorld, sharing: Sharing, operator: str) -> StartCosts:
    """Sandbox and mounts are what a pod's start has beyond its container's: one draw for the pod, one for the part
    of it that is the container's. A law was measured with so many others beside a start, or of many: then those that
    are there share the host.

    Probes tick from the end of the mounts on. An operator's pods are later: how much shows before each fault, and in
    quiet-operated by how many others are on their way, those that came later among them. Those of slurm-operator are
    mounted at the first look where they start alone (docs/surprises.md).
    """
    many, few = StartLaw.of(world, ""), [StartLaw.of(world, "-alone")]
    if world.has(*OF_PAIRS):
        few.append(StartLaw.of(world, "-pair"))
    back = world.draw("container-restart")
    together, mounting = world.draw("volumes-mounted"), Mounting(world.env)
    mounts = {others: world.draw(name) for others, name in enumerate(OF_MOUNTS) if world.has(name)}
    at_once = asks_by_lists(operator)
    behind = world.draw("container-start-behind") if at_once else None
    begun: dict[str, Begun] = {}
    clock = world.env

    def law() -> StartLaw:
        others = sharing.under_way
        return few[others] if others < len(few) else many

    def stands(by: StartLaw, drawn_ns: int) -> int:
        return sharing.takes_ns(drawn_ns) if by is many else sharing.stands(drawn_ns)

    def sandbox(uid: str) -> int:
        by = law()
        left_ns = by.pod() - VOLUME_POLL_NS
        part_ns = min(by.container(), max(0, left_ns - LEAST_SANDBOX_NS))
        sharing.joined_ns = clock.now_ns
        begun[uid] = Begun(by, part_ns, clock.now_ns)
        return stands(by, max(LEAST_SANDBOX_NS, left_ns - part_ns))

    def start(uid: str) -> int:
        by, own = law(), begun.pop(uid, None)
        if own is None:  # not the pod's first container
            drawn_ns = by.container() if behind is None else behind() * by.container_ns // few[0].container_ns
            return stands(by, drawn_ns)
        if own.by is by:
            return stands(by, own.part_ns)
        # others came or went meanwhile: its own draw by the other law's measure, and what its sandbox lost to them
        shared_ns = clock.now_ns - max(own.at_ns, sharing.joined_ns)
        return stands(by, own.part_ns * by.container_ns // own.by.container_ns) + own.by.late_ns(by, shared_ns)

    def restart() -> int:
        drawn_ns = back()
        sharing.joined_ns = clock.now_ns
        if sharing.under_way < len(few):
            return sharing.stands(drawn_ns)
        return sharing.takes_ns(round(drawn_ns * (1 + BESIDE * QUIET_BESIDE)))  # it was measured alone

    def mount(uid: str) -> int:
        if operator:
            mounting.begins(uid)
        return VOLUME_POLL_NS

    def mount_more(uid: str) -> int:
        others = mounting.looks(uid)
        if others is None or (at_once and not others):
            return 0
        drawn = mounts.get(others)
        if drawn is None:
            drawn = (lambda: 2 * VOLUME_POLL_NS) if not others and sharing.alone else together
        return mounting.goes_on(uid, drawn() - VOLUME_POLL_NS)

    loop = world.streams.uniform_ns("volumes.unmounted", 0, REMOUNT_NS)
    return replace(
        StartCosts(), mount=mount, mount_more=mount_more, unmount=lambda: loop() + loop() + UNMOUNT_NS,
        clean_up=lambda: CLEAN_UP_OWN_NS, removed=less(world.draw("clean-up"), CLEAN_UP_OWN_NS), create=lambda: 0,
        sandbox=sandbox, start=start, term=less(world.draw("stop-heard"), DELETE_HEARD_NS), kill=world.draw("sigkill"),
        restart=restart, synced_ns=SYNCED_NS,
        late_mount=StartCosts().late_mount if operator else refused_lists(world, sharing),
        end_told=_end_told(world), pull=lambda image: None if image == NO_IMAGE else PULL_NS,
    )  # fmt: skip
