"""A new NodeSet: what its first pass asks for."""

from __future__ import annotations

from slurmtwin_operator.core import plan
from slurmtwin_operator.core.actions import Apply, CreatePod, Memory
from slurmtwin_operator.core.observed import Identity, NodeSetObserved
from slurmtwin_operator.core.spec import NodeSetSpec


def test_first_pass_creates_service_budget_and_pods() -> None:
    """Four replicas: the service, the disruption budget, then four pods with the lowest ordinals."""
    spec = NodeSetSpec(cluster="c", replicas=4, image="slurmd:26.05")
    decided = plan(NodeSetObserved(Identity("ns", "w", "u1"), spec), Memory(), 0)
    assert [a.kind for a in decided.actions if isinstance(a, Apply)] == ["Service", "PodDisruptionBudget"]
    assert [a.name for a in decided.actions if isinstance(a, CreatePod)] == ["w-0", "w-1", "w-2", "w-3"]
