"""Cost of a NodeSet pass: function calls as the gate in every run, times under `nox -s bench`."""

from __future__ import annotations

from typing import Any

import pytest
from call_count import calls

from slurmtwin_operator.core import plan
from slurmtwin_operator.core.actions import Apply, Memory
from slurmtwin_operator.core.observed import Applied, Identity, KubeNode, NodeSetObserved, Pod, Slurm, SlurmNode
from slurmtwin_operator.core.spec import NodeSetSpec

NOW = 1_000_000_000_000
CALLS_PER_POD = 16
"""Function calls per pod and pass, Python's and C's together."""


def at_rest(pods: int, busy_every: int = 3) -> NodeSetObserved:
    """A set of so many ready pods, each on a machine of its own, every third one with a job."""
    spec = NodeSetSpec(cluster="c", image="slurmd:1", replicas=pods)
    first = plan(NodeSetObserved(Identity("ns", "w", "u"), spec), Memory(), 0)
    applied = tuple(Applied(a.kind, a.name, a.hash) for a in first.actions if isinstance(a, Apply))
    return NodeSetObserved(
        Identity("ns", "w", "u"), spec, applied=applied,
        pods=tuple(
            Pod(f"w-{i}", f"u{i}", str(i), spec.revision, "Running", True, 0, 0, False, f"k{i}", True)
            for i in range(pods)
        ),
        kube_nodes=tuple(KubeNode(f"k{i}") for i in range(pods)),
        slurm=Slurm(nodes=tuple(
            SlurmNode(f"w-{i}", "IDLE" if i % busy_every else "ALLOCATED", features=("w",), registered_ns=1)
            for i in range(pods)
        )),
    )  # fmt: skip


def scaling_in(pods: int) -> NodeSetObserved:
    """The same, half as many wanted."""
    observed = at_rest(pods)
    spec = observed.spec.model_copy(update={"replicas": pods // 2})
    return NodeSetObserved(
        observed.me, spec, applied=observed.applied, pods=observed.pods, kube_nodes=observed.kube_nodes,
        slurm=observed.slurm,
    )  # fmt: skip


def warm_calls(observed: NodeSetObserved) -> int:
    """Function calls of one warm pass."""
    plan(observed, Memory(), NOW)
    return calls(lambda: plan(observed, Memory(), NOW))


def test_a_pass_at_rest_stays_within_its_calls() -> None:
    """Few calls per pod, whatever the machine."""
    assert warm_calls(at_rest(1000)) <= CALLS_PER_POD * 1000
    assert plan(at_rest(10), Memory(), NOW).actions == ()


@pytest.mark.parametrize("make", [at_rest, scaling_in])
def test_cost_grows_no_worse_than_linearly(make: Any) -> None:
    """Ten times the pods, at most ten times the calls (sorting's comparisons are not calls)."""
    assert warm_calls(make(1000)) <= 10 * warm_calls(make(100))


@pytest.mark.bench
@pytest.mark.parametrize(("pods", "limit_us"), [(10, 50), (1000, 5000)])
def test_time_of_a_pass(benchmark: Any, pods: int, limit_us: int) -> None:
    """At most 50 us with 10 pods, 5 ms with 1,000 (the fastest round: the machine may be busy with other things)."""
    observed = at_rest(pods)
    benchmark.pedantic(
        plan, args=(observed, Memory(), NOW), rounds=200, iterations=20000 // pods // 20, warmup_rounds=5
    )
    assert benchmark.stats.stats.min * 1e6 <= limit_us
