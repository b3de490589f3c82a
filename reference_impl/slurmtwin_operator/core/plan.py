"""The one entry of the core: which planner an observation belongs to."""

from __future__ import annotations

from slurmtwin_operator.core.actions import Memory, Plan
from slurmtwin_operator.core.cluster import plan_cluster
from slurmtwin_operator.core.dispatch import plan_dispatch
from slurmtwin_operator.core.nodeset import plan_node_set
from slurmtwin_operator.core.observed import ClusterObserved, NodeSetObserved, Observed, PodGroupObserved
from slurmtwin_operator.core.pod_group import plan_pod_group


def plan(observed: Observed, memory: Memory, now_ns: int) -> Plan:
    """What to do about one object now (nanoseconds of the shell's clock)."""
    if isinstance(observed, NodeSetObserved):
        return plan_node_set(observed, memory, now_ns)
    if isinstance(observed, ClusterObserved):
        return plan_cluster(observed, memory, now_ns)
    if isinstance(observed, PodGroupObserved):
        return plan_pod_group(observed, memory, now_ns)
    return plan_dispatch(observed, memory, now_ns)
