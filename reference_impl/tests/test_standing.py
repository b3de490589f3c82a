"""A pass that knows what the last one saw decides what one decides that looks at everything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from call_count import calls
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmtwin_operator.core.actions import DrainNode, LabelPod, Memory
from slurmtwin_operator.core.nodeset import plan_node_set, standing
from slurmtwin_operator.core.nodeset.standing import Standing
from slurmtwin_operator.core.observed import PREFIX, Identity, KubeNode, NodeSetObserved, Pod, Slurm, SlurmNode
from slurmtwin_operator.core.spec import NodeSetSpec
from slurmtwin_operator.core.switches import Switches

SECOND = 1_000_000_000
START = 1000 * SECOND
SLINKY = {"rest_down": "stop-pass", "rest_missing": "open", "unknown_node": "drained", "unregistered_pod": "delete",
          "failed_action": "stop", "down_return": "moved", "prune": "never", "pdb": "busy", "health": "none",
          "recheck": False, "deletion": "at-once"}  # fmt: skip
SWITCHES = (
    Switches(), Switches(**SLINKY), Switches(pdb="busy", down_return="moved", prune="node-not-found"),
    Switches(pdb="none", health="none", remember_deletes=False, unseen_creation="wait", foreign_drain="undo"),
    Switches(update_budget="chosen-only", scale_in_sync="separate", sync="none", unregistered_pod="delete"),
    Switches(sync="both"), Switches(health="replace"), Switches(lock="taint"),
)  # fmt: skip
UPDATES: tuple[dict[str, Any], ...] = (
    {}, {"type": "on-delete"}, {"max_unavailable": "100%"}, {"type": "scheduled", "start_s": 900},
)  # fmt: skip
POD: dict[str, tuple[Any, ...]] = {
    "ready": (True, True, False), "phase": ("Running", "Running", "Pending", "Failed"),
    "deleting": (False, False, True),
    "protected": (True, False), "cordoned": (False, False, True), "kube_node": ("k0", "k1", "k2", ""),
    "revision": ("new", "new", "old"), "ready_since_ns": (START, 0), "created_ns": (0, START), "uid": ("same", "other"),
}  # fmt: skip
NODE: dict[str, tuple[Any, ...]] = {
    "state": ("IDLE", "IDLE", "ALLOCATED", "MIXED", "DOWN"), "comment": ("k0", "k1", ""),
    "flags": ((), (), ("DRAIN",), ("COMPLETING",), ("NOT_RESPONDING",), ("DRAIN", "NOT_RESPONDING")),
    "reason": ("", f"{PREFIX}scale-in", "bad disk", "Node unexpectedly rebooted"), "dynamic": (True, False),
    "registered_ns": (START, 0), "features": (("w",), ("x",)),
}  # fmt: skip
MACHINE: dict[str, tuple[Any, ...]] = {
    "unschedulable": (False, True), "mirrored": (False, True), "ready": (True, False),
    "conditions": ((), (), ("K8SNodeDegraded",)),
}  # fmt: skip


def at_rest(pods: int, switches: Switches, **spec: Any) -> NodeSetObserved:
    """So many pods that serve, one to a machine; Slurm knows one node more."""
    made = NodeSetSpec(cluster="c", image="slurmd:1", replicas=pods, **spec)
    protected = switches.pdb == "until-drained"
    return NodeSetObserved(
        Identity("ns", "w", "u"), made, switches,
        pods=tuple(
            Pod(f"w-{i}", f"u{i}", str(i), made.revision, "Running", True, 0, 0, False, f"k{i}", protected)
            for i in range(pods)
        ),
        kube_nodes=tuple(KubeNode(f"k{i}") for i in range(pods)),
        slurm=Slurm("fresh", START, tuple(
            SlurmNode(f"w-{i}", "IDLE", comment=f"k{i}", features=("w",), registered_ns=1) for i in range(pods + 1)
        )),
    )  # fmt: skip


def other(draw: st.DrawFn, item: Any, choices: dict[str, tuple[Any, ...]], o: NodeSetObserved) -> Any:
    """The object with another value in one of its fields, perhaps the same one."""
    name = draw(st.sampled_from(sorted(choices)))
    value = draw(st.sampled_from(choices[name]))
    if name == "revision":
        value = o.spec.revision if value == "new" else value
    if name == "uid":
        value = item.uid if value == "same" else f"{item.uid}."
    return replace(item, **{name: value})


def with_one(items: tuple[Any, ...], place: int, item: Any) -> tuple[Any, ...]:
    """The tuple with another object at a place."""
    return (*items[:place], item, *items[place + 1 :])


CHANGES = ("pod", "pod", "pod", "node", "node", "node", "machine", "drop", "add", "order", "answer", "replicas", "none",
           "record", "delete")  # fmt: skip


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[NodeSetObserved, int]]:
    """What passes see, one after the other, a few things changed between them; and when."""
    update = draw(st.sampled_from(UPDATES))
    o = at_rest(draw(st.integers(1, 5)), draw(st.sampled_from(SWITCHES)), update=update)
    now, out = START, [(o, START)]
    for _ in range(draw(st.integers(1, 8))):
        for _ in range(draw(st.integers(0, 3))):
            o = changed(draw, o)
        now += draw(st.sampled_from((1, 5, 30, 61, 300))) * SECOND
        out.append((o, now))
    return out


def changed(draw: st.DrawFn, o: NodeSetObserved) -> NodeSetObserved:
    """One thing is not as it was."""
    what = draw(st.sampled_from(CHANGES))
    slurm = o.slurm
    if what == "pod" and o.pods:
        place = draw(st.integers(0, len(o.pods) - 1))
        return replace(o, pods=with_one(o.pods, place, other(draw, o.pods[place], POD, o)))
    if what == "node" and slurm.nodes:
        place = draw(st.integers(0, len(slurm.nodes) - 1))
        nodes = with_one(slurm.nodes, place, other(draw, slurm.nodes[place], NODE, o))
        return replace(o, slurm=replace(slurm, nodes=nodes))
    if what == "machine" and o.kube_nodes:
        place = draw(st.integers(0, len(o.kube_nodes) - 1))
        return replace(o, kube_nodes=with_one(o.kube_nodes, place, other(draw, o.kube_nodes[place], MACHINE, o)))
    if what == "drop" and o.pods:
        place = draw(st.integers(0, len(o.pods) - 1))
        return replace(o, pods=o.pods[:place] + o.pods[place + 1 :])
    if what == "add":
        slot = draw(st.integers(0, 6))
        return replace(o, pods=(*o.pods, Pod(f"w-{slot}", f"n{slot}", str(slot), o.spec.revision)))
    if what == "order":
        return replace(o, pods=o.pods[::-1], slurm=replace(slurm, nodes=slurm.nodes[::-1]))
    if what == "answer":
        return replace(o, slurm=replace(slurm, answer=draw(st.sampled_from(("fresh", "fresh", "away", "absent")))))
    if what == "replicas":
        more = {"replicas": len(o.pods) + draw(st.sampled_from((0, 0, 1, -1))) or 1}
        return replace(o, spec=o.spec.model_copy(update=more))
    if what == "record":
        return replace(o, slurm=replace(slurm, nodes=slurm.nodes[:-1]))
    return replace(o, me=replace(o.me, deleting=draw(st.booleans()))) if what == "delete" else o


def same_plans(history: list[tuple[NodeSetObserved, int]], forgets: frozenset[int] = frozenset()) -> None:
    """Pass by pass: with what stands and without."""
    kept, memory = Standing(), Memory()
    for number, (o, now) in enumerate(history):
        wanted = plan_node_set(o, memory, now)
        assert plan_node_set(o, memory, now, kept) == wanted
        memory = Memory() if number in forgets else wanted.memory


@given(histories(), st.frozensets(st.integers(0, 8)))
@settings(max_examples=400, deadline=None)
def test_any_history_is_decided_as_if_all_were_looked_at(
    history: list[tuple[NodeSetObserved, int]], forgets: frozenset[int]
) -> None:
    """Actions, memory, status, conditions, reasons and the next look are equal in each pass."""
    same_plans(history, forgets)


@pytest.mark.parametrize(
    "rule", ["deleting", "phase", "revision", "cordoned", "state", "flags", "comment", "protected"]
)
def test_a_rule_that_is_forgotten_is_found(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each field that makes a member noticed: taken for its ordinary value, some history is decided otherwise."""
    quiet = standing._quiet
    ordinary: dict[str, Any] = {"deleting": False, "phase": "Running", "cordoned": False, "flags": ()}

    def blind(pod: Pod, node: SlurmNode, machine: Any, revision: str, switches: Switches) -> bool:
        if rule in ("state", "flags", "comment"):
            served: dict[str, Any] = {"state": "IDLE", "comment": pod.kube_node, "flags": ()}
            node = replace(node, **{rule: served[rule]})
        else:
            usual = {"revision": revision, "protected": node.busy or switches.pdb == "until-drained"}
            pod = replace(pod, **{rule: (ordinary | usual)[rule]})
        return quiet(pod, node, machine, revision, switches)

    monkeypatch.setattr(standing, "_quiet", blind)
    bad: dict[str, Any] = {
        "deleting": True, "phase": "Failed", "revision": "old", "cordoned": True, "protected": True, "state": "DOWN",
        "flags": ("DRAIN",), "comment": "elsewhere",
    }  # fmt: skip
    o = at_rest(3, Switches(**SLINKY))
    if rule in ("state", "flags", "comment"):
        node = replace(o.slurm.nodes[1], registered_ns=-1, **{rule: bad[rule]})
        after = replace(o, slurm=replace(o.slurm, nodes=with_one(o.slurm.nodes, 1, node)))
    else:
        after = replace(o, pods=with_one(o.pods, 1, replace(o.pods[1], **{rule: bad[rule]})))
    with pytest.raises(AssertionError):
        same_plans([(o, START), (after, START + SECOND)])


def test_a_change_among_a_thousand_costs_two_hundred_calls() -> None:
    """A node that gets a job: its pod's label alone is decided about."""
    o, kept = at_rest(1000, Switches(**SLINKY)), Standing()
    plan_node_set(o, Memory(), START, kept)
    busy = with_one(o.slurm.nodes, 7, replace(o.slurm.nodes[7], state="ALLOCATED"))
    after = replace(o, slurm=replace(o.slurm, nodes=busy))
    label = LabelPod("w-7", "u7", "slurmtwin.dev/protect", "true")
    assert plan_node_set(after, Memory(), START, kept).actions[-1] == label
    labelled = replace(after, pods=with_one(o.pods, 7, replace(o.pods[7], protected=True)))
    assert calls(lambda: plan_node_set(labelled, Memory(), START, kept)) <= 200


def test_what_the_memory_names_is_looked_at() -> None:
    """A drain that was asked for and is not seen yet: its node does not count as available."""
    o, kept = at_rest(3, Switches(**SLINKY)), Standing()
    plan_node_set(o, Memory(), START, kept)
    remembers = Memory(drained=(("w-1", START),), deleted=(("u2", START),))
    wanted = plan_node_set(o, remembers, START + SECOND)
    assert plan_node_set(o, remembers, START + SECOND, kept) == wanted
    assert dict(wanted.status)["available"] == 1


def test_a_cordon_of_a_machine_reaches_its_pod() -> None:
    """By the machine alone."""
    o, kept = at_rest(3, Switches()), Standing()
    plan_node_set(o, Memory(), START, kept)
    after = replace(o, kube_nodes=with_one(o.kube_nodes, 1, replace(o.kube_nodes[1], unschedulable=True)))
    made = plan_node_set(after, Memory(), START, kept)
    assert made == plan_node_set(after, Memory(), START)
    assert DrainNode("w-1", f"{PREFIX}cordon of k1") in made.actions
