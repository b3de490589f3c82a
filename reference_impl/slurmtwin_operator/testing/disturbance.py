"""What goes wrong between the cluster and the core: Sieve's patterns, passes run twice, lists in another order.

They are adapters around the core, never branches in it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from slurmtwin_operator.core.observed import (
    ClusterObserved,
    DispatchObserved,
    NodeSetObserved,
    Pod,
    PodGroupObserved,
    Slurm,
)  # fmt: skip

Part = Literal["pods", "kube_nodes", "slurm", "spec", "node_sets", "applied", "controllers", "mirrors", "all"]
Pattern = Literal["stale", "back", "skip", "partial", "twice", "shuffle", "lag"]
STALE: Final[dict[str, tuple[Part, ...]]] = {
    "NodeSet": ("pods", "kube_nodes", "slurm", "spec", "all"),
    "Cluster": ("node_sets", "applied", "controllers", "slurm", "spec", "all"),
    "PodGroup": ("pods", "slurm", "all"),
    "Dispatch": ("mirrors", "all"),
}
"""Kind of object -> what of its observation may be as it was."""
PARTIAL: Final[dict[str, tuple[Part, ...]]] = {
    "NodeSet": ("pods", "kube_nodes", "slurm"),
    "Cluster": ("node_sets", "applied", "controllers"),
    "PodGroup": ("pods", "slurm"),
    "Dispatch": ("mirrors",),
}
"""Kind of object -> which of its lists may lack some; slurmctld lists jobs whole, but a cache of them may not."""
_LISTS: Final[dict[type[Any], tuple[str, ...]]] = {
    NodeSetObserved: ("pods", "kube_nodes", "applied"),
    ClusterObserved: ("node_sets", "applied", "controllers"),
    PodGroupObserved: ("pods",),
    DispatchObserved: ("mirrors",),
}


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One thing that goes wrong, from `at_ns` for `for_ns`."""

    kind: Pattern
    """back: a view from before is delivered after newer ones (time travel); lag: every second pod that was deleted
    while it lasts still stands in the cache, alive."""
    at_ns: int = 0
    for_ns: int = 0
    part: Part = "all"
    seed: int = 0

    @property
    def back_ns(self) -> int:
        """How far `back` goes: 1 s to 64 s before it begins."""
        return (1 << self.seed % 7) * 1_000_000_000

    def acts(self, now: int) -> bool:
        """True while it lasts."""
        return self.at_ns <= now < self.at_ns + self.for_ns


def mixed(new: Any, old: Any, part: Part) -> Any:
    """The new observation with one part, or all of it, as it was."""
    if part == "all":
        return old
    if part == "spec":
        return replace(new, me=old.me, spec=old.spec)
    return replace(new, **{part: getattr(old, part)})


def partial(observed: Any, part: Part, seed: int) -> Any:
    """Some objects are missing from a list."""
    keep = random.Random(seed)  # noqa: S311  a test's choice

    def some(items: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(item for item in items if keep.random() < 0.6)

    if part == "slurm":
        slurm: Slurm = observed.slurm
        return replace(observed, slurm=replace(slurm, nodes=some(slurm.nodes), jobs=some(slurm.jobs)))
    return replace(observed, **{part: some(getattr(observed, part))})


def haunted(observed: NodeSetObserved, buried: list[tuple[int, Pod]], disturbance: Disturbance) -> NodeSetObserved:
    """Every second pod that was deleted while it lasts still stands in the cache, alive."""
    ghosts = [pod for at, pod in buried if disturbance.acts(at) and int(pod.slot) % 2 == 0]
    there = {ghost.name for ghost in ghosts}
    rest = (pod for pod in observed.pods if pod.name not in there)
    return replace(observed, pods=(*rest, *ghosts))


def shuffled(observed: Any, seed: int) -> Any:
    """The same observation with every list in another order."""
    draw = random.Random(seed)  # noqa: S311  a test's choice

    def mix(items: Any) -> tuple[Any, ...]:
        return tuple(draw.sample(tuple(items), len(items)))

    changed: dict[str, Any] = {name: mix(getattr(observed, name)) for name in _LISTS[type(observed)]}
    if not isinstance(observed, DispatchObserved):
        slurm: Slurm = observed.slurm
        changed["slurm"] = replace(slurm, nodes=mix(slurm.nodes), jobs=mix(slurm.jobs))
    if isinstance(observed, ClusterObserved):
        conf = dict(mix(observed.spec.conf.items()))
        changed["spec"] = observed.spec.model_copy(update={"conf": conf})
    return replace(observed, **changed)
