"""Carries a core against the doubles: observes, remembers, acts, comes back; and is disturbed on request.

Disturbances are adapters around the core, never branches in it: a crash after any action, memory lost or kept, and
Sieve's patterns (stale, skipped and partial observations), passes run twice, lists in another order.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from slurmtwin.contract.events import Kind
from slurmtwin_operator.core import plan as own_plan
from slurmtwin_operator.core.actions import Action, CreatePod, Guard, Memory, Plan
from slurmtwin_operator.core.observed import Identity, NodeSetObserved, Policy, Slurm
from slurmtwin_operator.core.switches import SAFEST, Switches
from slurmtwin_operator.testing.apply import UnreachableError, perform
from slurmtwin_operator.testing.kube import FakeKube, Resource
from slurmtwin_operator.testing.slurm import SECOND, RefusedError

WATCH_NS: Final = SECOND // 10
POLL_NS: Final = 30 * SECOND
RESTART_NS: Final = 15 * SECOND
Part = Literal["pods", "kube_nodes", "slurm", "spec", "all"]


class CrashError(Exception):
    """The operator's process ends here."""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One thing that goes wrong, from `at_ns` for `for_ns`."""

    kind: Literal["stale", "skip", "partial", "twice", "shuffle", "lag"]
    """lag: every second pod that was deleted while it lasts still stands in the cache, alive."""
    at_ns: int = 0
    for_ns: int = 0
    part: Part = "all"
    seed: int = 0

    def acts(self, now: int) -> bool:
        """True while it lasts."""
        return self.at_ns <= now < self.at_ns + self.for_ns


@dataclass(slots=True)
class Carrier:
    """One operator process."""

    kube: FakeKube
    switches: Switches = SAFEST
    core: Callable[[Any, Memory, int], Plan] = own_plan
    policy: Policy = field(default_factory=Policy)
    disturbances: tuple[Disturbance, ...] = ()
    crash_after: int = -1
    """Crash after so many actions; -1: never."""
    lose_memory: bool = False
    passes: list[tuple[NodeSetObserved, Memory, int, Plan]] = field(default_factory=list)
    keep_passes: bool = False
    actions: int = 0
    wedged: bool = False
    """A call to slurmrestd that has no time-out never returned."""
    _armed: dict[str, int] = field(default_factory=dict)
    _frozen: dict[int, dict[str, NodeSetObserved]] = field(default_factory=dict)
    _last_slurm: Slurm = field(default_factory=Slurm)
    _down_until: int = -1

    def __post_init__(self) -> None:
        self.kube.on_change = self._changed
        self._poll()

    def _changed(self) -> None:
        for name in self.kube.node_sets:
            self._arm(name, WATCH_NS)

    def _poll(self) -> None:
        self._changed()
        self.kube.after(POLL_NS, self._poll)

    def _arm(self, name: str, delay: int) -> None:
        """A pass at that time, unless an earlier one is due."""
        due = self.kube.now + delay
        if self._armed.get(name, due + 1) > due:
            self._armed[name] = due
            self.kube.after(delay, lambda: self._due(name, due))

    def _due(self, name: str, due: int) -> None:
        if self._armed.get(name) != due:
            return
        del self._armed[name]
        if self.kube.now < self._down_until:
            self._arm(name, self._down_until - self.kube.now)
        elif (
            not self.wedged
            and name in self.kube.node_sets
            and not any(d.kind == "skip" and d.acts(self.kube.now) for d in self.disturbances)
        ):
            self._reconcile(self.kube.node_sets[name])

    def _reconcile(self, resource: Resource) -> None:
        repeat = 2 if any(d.kind == "twice" and d.acts(self.kube.now) for d in self.disturbances) else 1
        try:
            for _ in range(repeat):
                self._pass(resource)
        except CrashError:
            self._down_until = self.kube.now + RESTART_NS
            if self.lose_memory:
                for other in self.kube.node_sets.values():
                    other.memory = Memory()
            self._arm(resource.name, RESTART_NS)

    def _pass(self, resource: Resource) -> None:
        if self.kube.slurm.rest == "tarpit" and not self.switches.rest_timeout_s:
            self.wedged = True
            return
        observed = self._disturbed(resource.name, self.observe(resource))
        memory, now = resource.memory, self.kube.now
        plan = self.core(observed, memory, now)
        if self.keep_passes:
            self.passes.append((observed, memory, now, plan))
        resource.memory, resource.conditions = plan.memory, plan.conditions
        for action in plan.actions:
            if not self._act(resource, action) and self.switches.failed_action == "stop":
                break
        self._arm(resource.name, plan.requeue_ns)

    def _act(self, resource: Resource, action: Action) -> bool:
        """Apply one action; False when it failed."""
        outcome = "done"
        guard: Guard | None = getattr(action, "only_if", None)
        try:
            if (guard is not None and not self._holds(guard)) or self._enough(resource, action):
                outcome = "skipped"
            else:
                perform(self.kube, resource, action)
        except RefusedError as error:
            outcome = str(error)
        subject = getattr(action, "node", "") or getattr(action, "name", "")
        kind = Kind.ACTION_ISSUED if outcome in ("done", "skipped") else Kind.ACTION_FAILED
        self.kube.note(kind, "operator", node=str(subject), do=action.do, outcome=outcome,
                       object=str(getattr(action, "kind", "")))  # fmt: skip
        self.actions += 1
        if self.actions == self.crash_after:
            raise CrashError
        return kind is Kind.ACTION_ISSUED

    def _enough(self, resource: Resource, action: Action) -> bool:
        """The API server counts as many pods of the set as there shall be."""
        if not isinstance(action, CreatePod) or action.at_most < 0:
            return False
        return sum(pod.node_set == resource.name for pod in self.kube.pods.values()) >= action.at_most

    def _holds(self, guard: Guard) -> bool:
        """Read the node again; nothing is done when it cannot be read."""
        if not self.kube.slurm.answers:
            raise UnreachableError
        if guard.no_pod and guard.node in self.kube.pods:
            return False
        record = self.kube.slurm.nodes.get(guard.node)
        if record is None:
            return guard.idle
        if guard.reason is not None and record.reason != guard.reason:
            return False
        return not guard.idle or (record.drained and not record.job)

    # observing
    def observe(self, resource: Resource) -> NodeSetObserved:
        """What the caches and slurmrestd say now."""
        kube, me = self.kube, resource
        identity = Identity("ns", me.name, me.uid, me.generation, me.deleting, me.finalizer)
        view = kube.slurm.view()
        if kube.slurm.rest == "tarpit":
            view = replace(view, answer="away")
        if view.answer == "fresh":
            self._last_slurm = view
        elif view.answer == "away":
            view = replace(self._last_slurm, answer="away")
        else:
            view = Slurm("absent", kube.now)
        return NodeSetObserved(
            identity, me.spec, self.switches, self.policy, kube.view_pods(me.name), kube.view_machines(), view,
            kube.view_objects(me.name), me.conditions, me.power,
        )  # fmt: skip

    def _disturbed(self, name: str, observed: NodeSetObserved) -> NodeSetObserved:
        for number, disturbance in enumerate(self.disturbances):
            if not disturbance.acts(self.kube.now):
                continue
            if disturbance.kind == "stale":
                old = self._frozen.setdefault(number, {}).setdefault(name, observed)
                observed = _mixed(observed, old, disturbance.part)
            elif disturbance.kind == "partial":
                observed = _partial(observed, disturbance)
            elif disturbance.kind == "lag":
                ghosts = [pod for at, pod in self.kube.buried if disturbance.acts(at) and int(pod.slot) % 2 == 0]
                there = {ghost.name for ghost in ghosts}
                rest = (pod for pod in observed.pods if pod.name not in there)
                observed = replace(observed, pods=(*rest, *ghosts))
            elif disturbance.kind == "shuffle":
                observed = shuffled(observed, disturbance.seed + self.actions)
        return observed


def _mixed(new: NodeSetObserved, old: NodeSetObserved, part: Part) -> NodeSetObserved:
    """The new observation with one part, or all of it, as it was."""
    if part == "all":
        return old
    if part == "spec":
        return replace(new, me=old.me, spec=old.spec)
    return replace(new, **{part: getattr(old, part)})


def _partial(observed: NodeSetObserved, disturbance: Disturbance) -> NodeSetObserved:
    """Every second or third object is missing from a list."""
    keep = random.Random(disturbance.seed)  # noqa: S311  a test's choice

    def some(items: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(item for item in items if keep.random() < 0.6)

    if disturbance.part == "slurm":
        return replace(observed, slurm=replace(observed.slurm, nodes=some(observed.slurm.nodes)))
    if disturbance.part == "kube_nodes":
        return replace(observed, kube_nodes=some(observed.kube_nodes))
    return replace(observed, pods=some(observed.pods))


def shuffled(observed: NodeSetObserved, seed: int) -> NodeSetObserved:
    """The same observation with every list in another order."""
    draw = random.Random(seed)  # noqa: S311  a test's choice

    def mix(items: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(draw.sample(items, len(items)))

    slurm = replace(observed.slurm, nodes=mix(observed.slurm.nodes), jobs=mix(observed.slurm.jobs))
    return replace(
        observed, pods=mix(observed.pods), kube_nodes=mix(observed.kube_nodes), slurm=slurm,
        applied=mix(observed.applied),
    )  # fmt: skip
