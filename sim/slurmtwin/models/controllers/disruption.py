"""Disruption budgets: how many pods may be evicted now, and the eviction API that spends the allowance.

Source: pkg/controller/disruption/disruption.go, pkg/registry/core/pod/storage/eviction.go v1.34.2; kubernetes.md 6.21.
Node loss and taint eviction ask for nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slurmtwin.engine.records import changed
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
        self._members: dict[str, _Members] = {}
        """Of each budget, by its key."""
        plane.pods.informer.tell(self._pod_changed)

    def _changed(self, _old: DisruptionBudget | None, new: DisruptionBudget | None) -> None:
        if new is not None:
            self.queue.add(new.meta.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        for members in self._members.values():
            members.drop(pod.meta.key)
            if new is not None and _selects(members.budget, new):
                members.add(new)
        for budget in self._budgets:
            if _selects(budget, pod):
                self.queue.add(budget.meta.key)

    def _selected(self, budget: DisruptionBudget) -> _Members:
        """The cached pods that a budget is about: all are looked at once for each selector."""
        known = self._members.get(budget.meta.key)
        if known is None or known.budget.selector != budget.selector:
            known = self._members[budget.meta.key] = _Members(budget)
            for pod in self.plane.pods.informer:
                if _selects(budget, pod):
                    known.add(pod)
        return known

    def sync(self, key: str, finished: Finished) -> None:
        """trySync()."""
        budget = self._budgets.get(key)
        if budget is None:
            self._members.pop(key, None)
            finished(True)
            return
        now_ns, defaults = self.plane.now_ns, self.plane.defaults
        pods = self._selected(budget)
        there = {name: pods.pods.get(f"{budget.meta.namespace}/{name}") for name in budget.disrupted}
        entries = {
            name: at_ns for name, at_ns in budget.disrupted.items()
            if (pod := there[name]) is not None and not pod.meta.deleting
            and now_ns - at_ns < defaults.disruption_entry_ns
        }  # fmt: skip
        if entries:
            self.queue.add_after(key, min(entries.values()) + defaults.disruption_entry_ns - now_ns)
        healthy = pods.healthy - sum(_healthy(pod) for name, pod in there.items() if name in entries and pod)
        expected = self._expected(pods) if _needs_scale(budget) else len(pods.pods)
        desired = _desired(budget, expected)
        wanted = changed(
            budget, healthy=healthy, desired=desired, expected=expected, disrupted=entries,
            allowed=max(0, healthy - desired) if expected else 0, observed_generation=budget.meta.generation,
        )  # fmt: skip
        if wanted == budget:
            finished(True)
            return
        self.client.update_status(wanted, lambda answer: finished(not isinstance(answer, ApiError)))

    def _expected(self, pods: _Members) -> int:
        """Sum of the scales of the pods' controllers (getExpectedScale())."""
        space, total = pods.budget.meta.namespace, 0
        for owner, _ in pods.owners.values():
            total += next((n for n in (scale(owner, space) for scale in self._scales) if n is not None), 0)
        return total


class _Members:
    """The pods that a budget selects, and what is counted of them."""

    def __init__(self, budget: DisruptionBudget) -> None:
        self.budget = budget
        """The one that chose them."""
        self.pods: dict[str, Pod] = {}
        """By key."""
        self.healthy = 0
        self.owners: dict[str, tuple[Owner, int]] = {}
        """Uid of a controller -> it, and how many of the pods are its."""

    def add(self, pod: Pod) -> None:
        """One that is not among them."""
        self.pods[pod.meta.key] = pod
        self.healthy += _healthy(pod)
        owner = pod.meta.owner
        if owner is not None:
            known, count = self.owners.get(owner.uid, (owner, 0))
            self.owners[owner.uid] = (known, count + 1)

    def drop(self, key: str) -> None:
        """It is selected no more, or was not."""
        pod = self.pods.pop(key, None)
        if pod is None:
            return
        self.healthy -= _healthy(pod)
        owner = pod.meta.owner
        if owner is not None:
            known, count = self.owners[owner.uid]
            if count > 1:
                self.owners[owner.uid] = (known, count - 1)
            else:
                del self.owners[owner.uid]


def _healthy(pod: Pod) -> bool:
    return pod.ready and not pod.meta.deleting


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
