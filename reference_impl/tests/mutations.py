"""Planted mistakes: each replaces one piece of the core; some checker, or the end state, must turn red."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from slurmtwin_operator.core import actions as a
from slurmtwin_operator.core.nodeset import drains, machines, records, scale, survey, update

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutation:
    """A mistake and the stories in which it must show (by any checker or a wrong end)."""

    name: str
    plant: Plant
    stories: tuple[str, ...]


def _after(module: Any, name: str, change: Callable[[Any], None]) -> Plant:
    """Run the original step, then spoil the pass."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        original = getattr(module, name)

        def step(p: Any, *rest: Any) -> Any:
            result = original(p, *rest)
            change(p)
            return result

        patch.setattr(module, name, step)

    return plant


def _replace(module: Any, name: str, other: Any) -> Plant:
    return lambda patch: patch.setattr(module, name, other)


def _both(*plants: Plant) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        for one in plants:
            one(patch)

    return plant


def _drop(*kinds: type[Any]) -> Callable[[Any], None]:
    """Forget actions of these kinds."""

    def change(p: Any) -> None:
        p.actions[:] = [action for action in p.actions if not isinstance(action, kinds)]

    return change


def _unguarded(p: Any) -> None:
    p.actions[:] = [replace(x, only_if=None) if getattr(x, "only_if", None) else x for x in p.actions]


def _twice(p: Any) -> None:
    """The first create again under another name."""
    made = [x for x in p.actions if isinstance(x, a.CreatePod)]
    if made:
        first = made[0]
        text = first.manifest.replace(f'"{first.name}"', f'"{first.name}9"')
        text = text.replace(f'slot":"{first.slot}"', f'slot":"{first.slot}9"')
        p.actions.append(replace(first, name=f"{first.name}9", manifest=text, at_most=-1))


def _lowest_first(p: Any, live: list[Any]) -> list[Any]:
    return sorted(live, key=lambda m: not (m.slurm is not None and m.slurm.busy))


def _short_budget(p: Any, old: list[Any]) -> list[Any]:
    return old


MUTATIONS = (
    Mutation("drain skipped: delete at once",
             _both(_replace(scale, "removable", lambda m, p: True), _after(scale, "remove_chosen", _unguarded)),
             ("scale-in-busy",)),
    Mutation("busy nodes count as drained",
             _both(_replace(scale, "removable", lambda m, p: m.slurm is not None and m.slurm.drained),
                   _after(scale, "remove_chosen", _unguarded)),
             ("scale-in-busy", "update")),
    Mutation("drains are never sent", _after(drains, "sync_drains", _drop(a.DrainNode)), ("scale-in-idle", "update")),
    Mutation("drains of ours are never undone", _after(drains, "sync_drains", _drop(a.ResumeNode)),
             ("scale-in-cancelled", "cordon")),
    Mutation("pods are created twice",
             lambda patch: patch.setattr(scale, "create_missing", _double(scale.create_missing)), ("create",)),
    Mutation("one pod too few", _replace(scale, "_free_ordinals", lambda occupied, number: _fewer(occupied, number)),
             ("create",)),
    Mutation("busy victims first", _replace(scale, "victims_of", _lowest_first), ("scale-in-order",)),
    Mutation("scale-in forgotten", _replace(scale, "condemn", lambda p: None), ("scale-in-idle",)),
    Mutation("update forgets its budget", _replace(update, "_rolling", _short_budget), ("update",)),
    Mutation("silent nodes cost nothing", _replace(update, "_costs_nothing", lambda m, p: not m.available),
             ("update-while-silent",)),
    Mutation("update never chosen", _replace(update, "choose", lambda p: None), ("update",)),
    Mutation("foreign drains look like ours",
             _replace(drains, "_give_back", lambda m, node, p: p.actions.append(a.ResumeNode(node.name))),
             ("admin-drain",)),
    Mutation("records are never pruned", _replace(records, "prune", lambda p: True), ("scale-in-idle",)),
    Mutation("records are pruned under live pods",
             _after(records, "prune", lambda p: p.actions.extend(
                 a.DeleteSlurmNode(m.pod.name) for m in p.members
                 if m.slurm is not None and m.slurm.drained and not m.slurm.busy)),
             ("cordon",)),
    Mutation("records with a foreign drain are pruned", _replace(records, "_defunct", lambda n, m, p: not n.busy),
             ("admin-drain-ghost",)),
    Mutation("dead pods are left lying", _replace(scale, "remove_dead", lambda p: None), ("rest-away-dead-pod",)),
    Mutation("cordons are ignored", _replace(drains, "cordon_wish", lambda m, p: ""), ("cordon",)),
    Mutation("health is ignored", _replace(drains, "health_wish", lambda m, p: ""), ("health",)),
    Mutation("protection is never set", _replace(drains, "protect", lambda p: None), ("kubectl-drain",)),
    Mutation("the lock is never released", _after(machines, "sync_machines", lambda p: p.actions.__setitem__(
        slice(None), [x for x in p.actions if not (isinstance(x, a.LockNode) and not x.state)])), ("lock",)),
    Mutation("locked before the others are gone", _after(machines, "sync_machines", _drop(a.LockNode)), ("lock",)),
    Mutation("own drains are mirrored as cordons",
             _after(machines, "sync_machines", lambda p: p.actions.extend(
                 a.CordonNode(m.pod.kube_node, True) for m in p.members
                 if p.sw.sync == "both" and m.pod.kube_node and not m.kube.unschedulable)), ("both-ways",)),
    Mutation("mirrored cordons stay", _after(machines, "sync_machines", lambda p: p.actions.__setitem__(
        slice(None), [x for x in p.actions if not (isinstance(x, a.CordonNode) and not x.on)])), ("both-ways",)),
    Mutation("a machine is replaced with jobs on it", _replace(machines, "removable", lambda m, p: True), ("replace",)),
    Mutation("DOWN nodes of ours are not resumed", _replace(drains, "_returns", lambda m, node, p: False),
             ("pod-deleted",)),
    Mutation("the finalizer stays",
             lambda patch: patch.setattr(survey.Pass, "say", _no_finalizer(survey.Pass.say)), ("delete-busy",)),
    Mutation("drains repeat in every pass",
             _after(drains, "sync_drains", lambda p: p.actions.extend(
                 a.DrainNode(m.pod.name, f"slurmtwin: again {p.now}") for m in p.members
                 if m.slurm is not None and m.pod.slot == "0")), ("create",)),
)  # fmt: skip


def _double(original: Callable[[Any], list[str]]) -> Callable[[Any], list[str]]:
    def create(p: Any) -> list[str]:
        names = original(p)
        _twice(p)
        return names

    return create


def _fewer(occupied: set[str], number: int) -> list[str]:
    return [str(n) for n in range(number - 1) if str(n) not in occupied]


def _no_finalizer(original: Callable[..., None]) -> Callable[..., None]:
    def say(p: Any, why: a.Why, about: str = "") -> None:
        if why is a.Why.DELETING:
            p.actions[:] = [x for x in p.actions if not isinstance(x, a.SetFinalizer)]
        original(p, why, about)

    return say
