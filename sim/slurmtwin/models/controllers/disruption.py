"""Disruption budgets: how many pods may be evicted now, and the eviction API that spends the allowance.

Source: pkg/controller/disruption/disruption.go, pkg/registry/core/pod/storage/eviction.go v1.34.2; kubernetes.md 6.21.
Node loss and taint eviction ask for nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slurmtwin.models.api_server.errors import ApiError, InvalidError, TooManyRequestsError
from slurmtwin.models.api_server.objects import (
    Condition,
    Deployment,
    DisruptionBudget,
    Job,
    Owner,
    Pod,
    ReplicaSet,
    StatefulSet,
    fits,
)
from slurmtwin.models.controllers.controller import Controller

if TYPE_CHECKING:
    from slurmtwin.models.api_server.server import ApiServer
    from slurmtwin.models.api_server.work_queue import Finished
    from slurmtwin.models.controllers.controller_manager import ControllerManager

MOST_ENTRIES = 2000
"""Evictions granted and not seen yet that a budget may hold (MaxDisruptedPodSize)."""


def share(value: int | str, total: int) -> int:
    """An int, or a percentage rounded up: both budgets do (GetScaledValueFromIntOrPercent(.., true))."""
    if isinstance(value, int):
        return value
    return -(-int(value.rstrip("%")) * total // 100)


def evict(server: ApiServer, key: str, grace_ns: int | None = None) -> Pod:
    """POST pods/eviction, at the server. Raises TooManyRequestsError (429) when a budget does not allow it now.

    Pending, finished and terminating pods ignore budgets; so do pods that are not ready, where the budget says
    AlwaysAllow, or where enough are healthy.
    """
    pod = server.get(Pod, key)
    if pod.finished or pod.status.phase == "Pending" or pod.meta.deleting:
        return server.delete(Pod, key, grace_ns, pod.meta.uid)
    budgets = [
        b for b in server.list_of(DisruptionBudget)
        if b.meta.namespace == pod.meta.namespace and fits(b.selector, pod.meta.labels)
    ]  # fmt: skip
    if len(budgets) > 1:
        raise InvalidError(f"{key}: more than one budget fits")
    if budgets:
        _spend(server, budgets[0], pod)
    condition = Condition("True", server.env.now_ns, "EvictionByEvictionAPI")

    def mark(p: Pod) -> Pod:
        conditions = {**p.status.conditions, "DisruptionTarget": condition}
        return replace(p, status=replace(p.status, conditions=conditions))

    server.patch(Pod, key, mark)
    return server.delete(Pod, key, grace_ns, pod.meta.uid)


def _spend(server: ApiServer, budget: DisruptionBudget, pod: Pod) -> None:
    """checkAndDecrement()."""
    healthy_enough = budget.healthy >= budget.desired > 0
    if not pod.ready and (budget.always_allow_unhealthy or healthy_enough):
        return
    if budget.observed_generation < budget.meta.generation:
        raise TooManyRequestsError(f"{budget.meta.key}: its controller has not seen it yet")
    if budget.allowed <= 0 or len(budget.disrupted) > MOST_ENTRIES:
        raise TooManyRequestsError(f"{budget.meta.key} allows no disruption now")
    entries = {**budget.disrupted, pod.meta.name: server.env.now_ns}
    server.patch(DisruptionBudget, budget.meta.key, lambda b: replace(b, allowed=b.allowed - 1, disrupted=entries))


class Disruption(Controller):
    """Keeps each budget's counts."""

    def __init__(self, plane: ControllerManager) -> None:
        super().__init__(plane, workers=1)
        self._budgets = plane.informer(DisruptionBudget)
        self._budgets.tell(self._changed)
        self._scales: tuple[Callable[[Owner, str], int | None], ...] = (
            _scale_of(plane, StatefulSet, "StatefulSet"), _scale_of(plane, ReplicaSet, "ReplicaSet"),
            _scale_of(plane, Deployment, "Deployment"), _scale_of(plane, Job, "Job"),
        )  # fmt: skip
        self._members: dict[str, tuple[DisruptionBudget, dict[str, Pod]]] = {}
        """Budget -> the one that chose them, and the cached pods that it selects, by key."""
        plane.pods.informer.tell(self._pod_changed)

    def _changed(self, _old: DisruptionBudget | None, new: DisruptionBudget | None) -> None:
        if new is not None:
            self.queue.add(new.meta.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        for budget, members in self._members.values():
            if new is not None and _selects(budget, new):
                members[new.meta.key] = new
            else:
                members.pop(pod.meta.key, None)
        for budget in self._budgets:
            if _selects(budget, pod):
                self.queue.add(budget.meta.key)

    def _selected(self, budget: DisruptionBudget) -> list[Pod]:
        """The cached pods that a budget is about: all are looked at once for each selector."""
        known = self._members.get(budget.meta.key)
        if known is None or known[0].selector != budget.selector:
            chosen = {p.meta.key: p for p in self.plane.pods.informer if _selects(budget, p)}
            known = self._members[budget.meta.key] = (budget, chosen)
        return list(known[1].values())

    def sync(self, key: str, finished: Finished) -> None:
        """trySync()."""
        budget = self._budgets.get(key)
        if budget is None:
            self._members.pop(key, None)
            finished(True)
            return
        now_ns, defaults = self.plane.now_ns, self.plane.defaults
        pods = self._selected(budget)
        there = {p.meta.name: p for p in pods}
        entries = {
            name: at_ns for name, at_ns in budget.disrupted.items()
            if name in there and not there[name].meta.deleting and now_ns - at_ns < defaults.disruption_entry_ns
        }  # fmt: skip
        if entries:
            self.queue.add_after(key, min(entries.values()) + defaults.disruption_entry_ns - now_ns)
        healthy = sum(p.ready and not p.meta.deleting and p.meta.name not in entries for p in pods)
        expected = self._expected(pods) if _needs_scale(budget) else len(pods)
        desired = _desired(budget, expected)
        wanted = replace(
            budget, healthy=healthy, desired=desired, expected=expected, disrupted=entries,
            allowed=max(0, healthy - desired) if expected else 0, observed_generation=budget.meta.generation,
        )  # fmt: skip
        if wanted == budget:
            finished(True)
            return
        self.client.update_status(wanted, lambda answer: finished(not isinstance(answer, ApiError)))

    def _expected(self, pods: list[Pod]) -> int:
        """Sum of the scales of the pods' controllers (getExpectedScale())."""
        total, seen = 0, set()
        for pod in pods:
            owner = pod.meta.owner
            if owner is None or owner.uid in seen:
                continue
            seen.add(owner.uid)
            total += next((n for n in (scale(owner, pod.meta.namespace) for scale in self._scales) if n is not None), 0)
        return total


def _selects(budget: DisruptionBudget, pod: Pod) -> bool:
    return budget.meta.namespace == pod.meta.namespace and fits(budget.selector, pod.meta.labels)


def _needs_scale(budget: DisruptionBudget) -> bool:
    return budget.max_unavailable is not None or isinstance(budget.min_available, str)


def _desired(budget: DisruptionBudget, expected: int) -> int:
    if budget.max_unavailable is not None:
        return max(0, expected - share(budget.max_unavailable, expected))
    return share(budget.min_available, expected) if budget.min_available is not None else 0


def _scale_of(plane: ControllerManager, kind: type, name: str) -> Callable[[Owner, str], int | None]:
    informer: Any = plane.informer(kind)

    def scale(owner: Owner, namespace: str) -> int | None:
        found = informer.get(f"{namespace}/{owner.name}") if owner.kind == name else None
        if found is None:
            return None
        return found.parallelism if isinstance(found, Job) else found.replicas

    return scale
