"""Carries a core against the doubles: observes, remembers, acts, comes back; and is disturbed or stopped on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from slurmtwin.contract.events import Kind
from slurmtwin_operator.core import plan as own_plan
from slurmtwin_operator.core.actions import Action, Guard, Memory, Plan
from slurmtwin_operator.core.observed import NodeSetObserved
from slurmtwin_operator.core.switches import Switches
from slurmtwin_operator.testing.disturbance import Disturbance, haunted, mixed, partial, shuffled
from slurmtwin_operator.testing.kube import FakeKube, Resource
from slurmtwin_operator.testing.slurm import SECOND, RefusedError

WATCH_NS: Final = SECOND // 10
POLL_NS: Final = 30 * SECOND
RESTART_NS: Final = 15 * SECOND


class CrashError(Exception):
    """The operator's process ends here."""


class World(Protocol):
    """Custom resources of one kind, and what stands around them."""

    kube: FakeKube

    @property
    def switches(self) -> Switches:
        """Those that the objects are carried under."""

    def resources(self) -> Mapping[str, Resource]:
        """Those that exist, by name."""

    def observe(self, resource: Resource) -> Any:
        """What caches and servers say of one now."""

    def perform(self, resource: Resource, action: Action) -> None:
        """Apply one action. Raises RefusedError when it fails."""

    def holds(self, resource: Resource, guard: Guard) -> bool:
        """Ask the servers again. Raises RefusedError when they cannot be asked."""

    def skips(self, resource: Resource, action: Action) -> bool:
        """The API server says that nothing is left to do."""

    def end_state(self) -> dict[str, Any]:
        """What must be the same however the way to it was disturbed."""


@dataclass(slots=True)
class Carrier:
    """One operator process."""

    world: World
    core: Callable[[Any, Memory, int], Plan] = own_plan
    disturbances: tuple[Disturbance, ...] = ()
    crash_after: int = -1
    """Crash after so many actions; -1: never."""
    lose_memory: bool = False
    passes: list[tuple[Any, Memory, int, Plan]] = field(default_factory=list)
    keep_passes: bool = False
    backoff_base_ns: int = 0
    """First pause after a failed pass, doubled with each; 0: a failed pass is tried again like any other."""
    backoff_cap_ns: int = 1000 * SECOND
    poll_after_failure: bool = True
    """Is an object polled whose last pass failed? False: its back-off or a change wakes it."""
    silence_ns: int = 0
    """So long the first pass that asks a slurmrestd which has gone waits before it fails; its object waits with it."""
    actions: int = 0
    performed: dict[str, int] = field(default_factory=dict)
    """How often each kind of action was applied."""
    wedged: bool = False
    """A call to slurmrestd that has no time-out never returned."""
    _armed: dict[str, int] = field(default_factory=dict)
    _frozen: dict[int, dict[str, Any]] = field(default_factory=dict)
    _seen: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    _down_until: int = -1
    _failures: dict[str, int] = field(default_factory=dict)
    _busy_until: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kube.on_change = self._changed
        self._changed()
        self.kube.after(POLL_NS, self._poll)

    @property
    def kube(self) -> FakeKube:
        """The clock, and the API server's doubles."""
        return self.world.kube

    def _changed(self) -> None:
        for name in self.world.resources():
            self._arm(name, WATCH_NS)

    def _poll(self) -> None:
        for name in self.world.resources():
            if self.poll_after_failure or name not in self._failures:
                self._arm(name, WATCH_NS)
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
        if (until := max(self._down_until, self._busy_until.get(name, 0))) > self.kube.now:
            self._arm(name, until - self.kube.now)
        elif not self.wedged and name in self.world.resources() and not self._acts("skip"):
            self._reconcile(self.world.resources()[name])

    def _acts(self, pattern: str) -> bool:
        return any(d.kind == pattern and d.acts(self.kube.now) for d in self.disturbances)

    def _reconcile(self, resource: Resource) -> None:
        try:
            for _ in range(2 if self._acts("twice") else 1):
                self._pass(resource)
        except CrashError:
            self._down_until = self.kube.now + RESTART_NS
            if self.lose_memory:
                for other in self.world.resources().values():
                    other.memory = Memory()
            self._arm(resource.name, RESTART_NS)

    def _pass(self, resource: Resource) -> None:
        if self.kube.slurm.rest == "tarpit" and not self.world.switches.rest_timeout_s:
            self.wedged = True
            return
        observed = self._disturbed(resource.name, self.world.observe(resource))
        memory, now = resource.memory, self.kube.now
        plan = self.core(observed, memory, now)
        if self.keep_passes:
            self.passes.append((observed, memory, now, plan))
        resource.memory, resource.conditions = plan.memory, plan.conditions
        failed = isinstance(observed, NodeSetObserved) and observed.stops_pass
        for action in plan.actions:
            if not self._act(resource, action) and self.world.switches.failed_action == "stop":
                failed = True
                break
        self._arm(resource.name, self._pause(resource.name, plan.requeue_ns, failed=failed))

    def _pause(self, name: str, requeue_ns: int, *, failed: bool) -> int:
        """When to come back: as the core said, or after a failed pass by client-go's back-off."""
        if not failed or not self.backoff_base_ns:
            self._failures.pop(name, None)
            return requeue_ns
        count = self._failures.get(name, 0)
        self._failures[name] = count + 1
        waited = 0 if count else self.silence_ns
        self._busy_until[name] = self.kube.now + waited
        return waited + min(self.backoff_base_ns << min(count, 40), self.backoff_cap_ns)

    def _act(self, resource: Resource, action: Action) -> bool:
        """Apply one action; False when it failed."""
        outcome = "done"
        guard: Guard | None = getattr(action, "only_if", None)
        try:
            if (guard is not None and not self.world.holds(resource, guard)) or self.world.skips(resource, action):
                outcome = "skipped"
            else:
                self.world.perform(resource, action)
                self.performed[action.do] = self.performed.get(action.do, 0) + 1
        except RefusedError as error:
            outcome = str(error)
        subject = getattr(action, "node", "") or getattr(action, "name", "") or getattr(action, "cluster", "")
        kind = Kind.ACTION_ISSUED if outcome in ("done", "skipped") else Kind.ACTION_FAILED
        self.kube.note(kind, "operator", node=str(subject), do=action.do, outcome=outcome,
                       object=str(getattr(action, "kind", "")))  # fmt: skip
        self.actions += 1
        if self.actions == self.crash_after:
            raise CrashError
        return kind is Kind.ACTION_ISSUED

    def _disturbed(self, name: str, observed: Any) -> Any:
        self._seen.setdefault(name, []).append((self.kube.now, observed))
        for number, disturbance in enumerate(self.disturbances):
            if not disturbance.acts(self.kube.now):
                continue
            if disturbance.kind == "stale":
                old = self._frozen.setdefault(number, {}).setdefault(name, observed)
                observed = mixed(observed, old, disturbance.part)
            elif disturbance.kind == "back":
                since = disturbance.at_ns - disturbance.back_ns
                old = next(view for at, view in self._seen[name] if at >= since)
                observed = mixed(observed, old, disturbance.part)
            elif disturbance.kind == "partial":
                observed = partial(observed, disturbance.part, disturbance.seed)
            elif disturbance.kind == "lag":
                observed = haunted(observed, self.kube.buried, disturbance)
            elif disturbance.kind == "shuffle":
                observed = shuffled(observed, disturbance.seed + self.kube.now // POLL_NS)
        return observed
