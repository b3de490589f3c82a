"""What holds of the core for any observation: order-free, JSON-able, monotone where claimed, careful with pods."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmtwin_operator.codec import read_observed, read_plan, to_json
from slurmtwin_operator.core import plan
from slurmtwin_operator.core.actions import DeleteObject, DrainNode, Memory, Plan, ResumeNode, SetFinalizer
from slurmtwin_operator.core.observed import (
    PREFIX,
    Applied,
    Identity,
    KubeNode,
    NodeSetObserved,
    Pod,
    Slurm,
    SlurmJob,
    SlurmNode,
)
from slurmtwin_operator.core.spec import NodeSetSpec
from slurmtwin_operator.core.switches import Switches
from slurmtwin_operator.testing.disturbance import shuffled
from slurmtwin_operator.testing.scenarios import STORIES, Story, play

NOW = 1_000_000_000_000
SPEC = NodeSetSpec(cluster="c", image="slurmd:1", replicas=3)
REVISIONS = (SPEC.revision, "old")
REASONS = ("", f"{PREFIX}scale-in", f"{PREFIX}update", f"{PREFIX}pod is terminating", "bad disk",
           "Node unexpectedly rebooted", f"{PREFIX}health K8SNodeDegraded of m1")  # fmt: skip
UPDATES: tuple[dict[str, Any], ...] = (
    {}, {"type": "on-delete"}, {"max_unavailable": "100%"}, {"type": "scheduled", "start_s": 900},
    {"type": "scheduled", "start_s": 9000},
)  # fmt: skip
APPLIED = (Applied("Service", "w-nodes", "x"), Applied("PodDisruptionBudget", "w-busy", "x"))
times = st.sampled_from((0, NOW - 120_000_000_000, NOW - 1_000_000_000))
DEFAULT = st.just(Switches())
flags = st.lists(st.sampled_from(("DRAIN", "COMPLETING", "NOT_RESPONDING")), unique=True, max_size=2).map(tuple)


def literals(annotation: Any) -> tuple[Any, ...]:
    """The choices of a Literal, or of a tuple of them."""
    return get_args(annotation)


def some_switches() -> st.SearchStrategy[Switches]:
    """Any setting of the switches that are a choice."""
    fields = {
        name: st.sampled_from(get_args(field.annotation))
        for name, field in Switches.model_fields.items()
        if get_args(field.annotation) and all(isinstance(x, str) for x in get_args(field.annotation))
    }
    fields |= {name: st.booleans() for name, field in Switches.model_fields.items() if field.annotation is bool}
    return st.builds(Switches, **fields, lost_node_after_s=st.sampled_from((0, 60)))


@st.composite
def observations(draw: st.DrawFn, switches: st.SearchStrategy[Switches] = DEFAULT) -> NodeSetObserved:
    """Any observation of a small node set."""
    slots = draw(st.lists(st.integers(0, 5), unique=True, max_size=5))
    pods = tuple(
        Pod(f"w-{slot}", f"u{slot}", str(slot), draw(st.sampled_from(REVISIONS)),
            draw(st.sampled_from(("Pending", "Running", "Failed"))), draw(st.booleans()), draw(times), draw(times),
            draw(st.booleans()), draw(st.sampled_from(("", "k0", "k1", "k2"))), draw(st.booleans()),
            draw(st.booleans()))
        for slot in slots
    )  # fmt: skip
    nodes = tuple(
        SlurmNode(f"w-{slot}", draw(st.sampled_from(("IDLE", "ALLOCATED", "MIXED", "DOWN"))), draw(flags),
                  draw(st.sampled_from(REASONS)), draw(st.sampled_from(("", "k0"))), ("w",), draw(times), True,
                  draw(st.booleans()))
        for slot in draw(st.lists(st.integers(0, 6), unique=True, max_size=6))
    )  # fmt: skip
    machines = tuple(
        KubeNode(f"k{i}", f"m{i}", draw(st.booleans()), draw(st.booleans()), draw(st.booleans()), draw(times),
                 draw(st.sampled_from(((), ("K8SNodeDegraded",), ("Other",)))), draw(st.booleans()),
                 draw(st.sampled_from(("", "pending", "locked"))), draw(st.integers(0, 1)))
        for i in range(draw(st.integers(0, 3)))
    )  # fmt: skip
    jobs = tuple(SlurmJob(i, "RUNNING", (f"w-{i}",), draw(times)) for i in range(draw(st.integers(0, 2))))
    update = draw(st.sampled_from(UPDATES))
    spec = NodeSetSpec(cluster="c", image="slurmd:1", replicas=draw(st.integers(0, 5)), update=update,
                       scaling=draw(st.sampled_from(("count", "count", "per-node"))))  # fmt: skip
    slurm = Slurm(draw(st.sampled_from(("fresh", "fresh", "fresh", "away", "absent"))), NOW, nodes, jobs,
                  draw(st.sampled_from(((), ("slurmtwin-maint-w",)))))  # fmt: skip
    me = Identity("ns", "w", "uid", 2, draw(st.booleans()), draw(st.booleans()))
    applied = draw(st.sampled_from(((), APPLIED)))
    power = tuple(draw(st.lists(st.sampled_from("0126"), unique=True)))
    return NodeSetObserved(me, spec, draw(switches), pods=pods, kube_nodes=machines, slurm=slurm, applied=applied,
                           power=power)  # fmt: skip


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    """Any memory of such a set."""
    pairs = st.tuples(st.sampled_from(("u0", "u1", "u2")), times)
    names = st.tuples(st.sampled_from(("w-0", "w-1", "w-9")), times)
    some = [tuple(sorted(dict(draw(st.lists(p, max_size=2))).items())) for p in (pairs, names, names, names)]
    return Memory(draw(st.sampled_from((0, 2, 3))), -1, *some)


@given(observations(some_switches()), memories(), st.integers(0, 1000))
@settings(max_examples=120, deadline=None)
def test_order_of_lists_changes_nothing(observed: NodeSetObserved, memory: Memory, seed: int) -> None:
    """The same objects in another order give the same plan, and the same objects the same plan again."""
    decided = plan(observed, memory, NOW)
    assert plan(shuffled(observed, seed), memory, NOW) == decided
    assert plan(observed, memory, NOW) == decided


@given(observations(some_switches()), memories())
@settings(max_examples=80, deadline=None)
def test_all_of_it_is_json(observed: NodeSetObserved, memory: Memory) -> None:
    """Observation and plan survive JSON, are hashable, and a plan from the copy is equal."""
    copy = read_observed("NodeSet", json.loads(json.dumps(to_json(observed))))
    decided = plan(observed, memory, NOW)
    assert copy == observed
    assert plan(copy, memory, NOW) == decided
    assert read_plan(json.loads(json.dumps(to_json(decided)))) == decided
    assert isinstance(hash((observed.pods, observed.slurm, decided.actions, decided.memory)), int)


def deleted(decided: Plan) -> set[str]:
    """The pods a plan deletes."""
    return {x.name for x in decided.actions if isinstance(x, DeleteObject) and x.kind == "Pod"}


@given(observations(), memories(), st.integers(1, 3))
@settings(max_examples=120, deadline=None)
def test_more_replicas_never_delete_more(observed: NodeSetObserved, memory: Memory, more: int) -> None:
    """Monotone: raising replicas adds no scale-in; what is deleted then would have been without."""
    by_hand = observed.spec.update.model_copy(update={"type": "on-delete"})
    spec = observed.spec.model_copy(update={"update": by_hand})
    observed = replace(observed, me=replace(observed.me, deleting=False), spec=spec)
    higher = observed.spec.model_copy(update={"replicas": observed.spec.replicas + more})
    few, many = plan(observed, memory, NOW), plan(replace(observed, spec=higher), memory, NOW)
    assert deleted(many) <= deleted(few)


@given(observations(), memories())
@settings(max_examples=120, deadline=None)
def test_default_deletes_only_what_may_go(observed: NodeSetObserved, memory: Memory) -> None:
    """By default a pod is deleted only when dead, or with a guard that re-reads its node, never while Slurm is away."""
    pods = {pod.name: pod for pod in observed.pods}
    remembered = {uid for uid, at in memory.deleted}
    for action in plan(observed, memory, NOW).actions:
        if isinstance(action, DeleteObject) and action.kind == "Pod":
            pod = pods[action.name]
            dead = pod.phase == "Failed"
            assert action.uid == pod.uid
            assert dead or (action.only_if is not None and action.only_if.idle)
            assert dead or pod.uid in remembered or observed.slurm.answer == "fresh"


@given(observations(), memories())
@settings(max_examples=120, deadline=None)
def test_default_never_touches_foreign_drains(observed: NodeSetObserved, memory: Memory) -> None:
    """Nodes that others drained are neither resumed nor drained again; nothing is told to a Slurm that is away."""
    foreign = {n.name for n in observed.slurm.nodes if n.drained and not n.reason.startswith(PREFIX)}
    for action in plan(observed, memory, NOW).actions:
        if isinstance(action, ResumeNode | DrainNode):
            assert action.node not in foreign
            assert observed.slurm.answer == "fresh"


@given(observations(), memories())
@settings(max_examples=80, deadline=None)
def test_an_old_generation_is_left_alone(observed: NodeSetObserved, memory: Memory) -> None:
    """A spec older than one already acted on (time travel) leads to no action."""
    memory = replace(memory, generation=observed.me.generation + 1)
    assert plan(observed, memory, NOW).actions == ()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_at_rest_there_is_nothing_to_do(story: Story) -> None:
    """Applied plans lead to rest: the last pass of each story plans no action, and so does one with no memory."""
    kube, carrier = play(story, keep_passes=True)
    observed, memory, now, last = carrier.passes[-1]
    if not kube.node_sets:
        assert last.actions == (SetFinalizer(False),)
        return
    assert last.actions == ()
    assert plan(observed, memory, now).actions == ()
    assert plan(observed, Memory(), now).actions == ()
