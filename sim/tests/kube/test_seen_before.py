"""Passes that see what the last one saw: nothing is decided or made anew, and nothing is missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.adapters.operator_process import Looked, _Process
from slurmtwin.adapters.seen_before import Decisions, NodeSetViews, StandingCore, other_states
from slurmtwin.adapters.views import NODE_SET
from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.models.api_server.objects import Custom, Meta, Node, Pod, PodSpec
from slurmtwin.models.slurmctld.node_words import ListedNodes, node_words
from slurmtwin.models.slurmctld.slurmctld import Slurmctld
from slurmtwin.worlds.twin import TwinOptions, run_scenario
from slurmtwin_operator.core import plan
from slurmtwin_operator.core.actions import DrainNode, Memory, Plan
from slurmtwin_operator.core.observed import Identity, NodeSetObserved, Slurm, SlurmNode
from slurmtwin_operator.core.spec import NodeSetSpec

FAULTS = Path(__file__).parents[3] / "scenarios" / "faults"
SPEC = NodeSetSpec(cluster="slurm", replicas=1, image="slurmd")
OBSERVED = NodeSetObserved(Identity("d", "w", "w.1", 1, False, True), SPEC)


class Core:
    """A core that is asked; from `drains_ns` on it drains a node."""

    def __init__(self, drains_ns: int = 1 << 62) -> None:
        self.asked: list[int] = []
        self.drains_ns = drains_ns

    def __call__(self, _observed: NodeSetObserved, memory: Memory, now_ns: int) -> Plan:
        self.asked.append(now_ns)
        actions = (DrainNode("w-0", "late"),) if now_ns >= self.drains_ns else ()
        return Plan(actions, memory, 300 * SECOND)


@given(st.lists(st.integers(0, 3), max_size=6), st.lists(st.integers(0, 3), max_size=6), st.booleans())
def test_records_that_changed_are_named_as_sets_would(old: list[int], new: list[int], same_names: bool) -> None:
    """Nodes that stand where they stood, that moved, came or went."""
    before = tuple(SlurmNode(f"w-{place}", f"S{state}") for place, state in enumerate(old))
    shift = 0 if same_names else 1
    now = tuple(
        before[place] if place < len(old) and old[place] == state and same_names
        else SlurmNode(f"w-{place + shift}", f"S{state}")
        for place, state in enumerate(new)
    )  # fmt: skip
    assert other_states(before, now) == {record.name for record in set(now) - set(before)}


@pytest.mark.parametrize(
    ("changed", "told"),
    [({"state": "DOWN"}, True), ({"flags": ("DRAIN",)}, True), ({"reason": "r"}, True),
     ({"comment": "worker3"}, False), ({"registered_ns": 1}, False)],
)  # fmt: skip
def test_what_conditions_of_pods_do_not_say_is_no_other_state(changed: dict[str, Any], told: bool) -> None:
    """A comment, or a slurmd that registered again, brings no write of a pod."""
    before = SlurmNode("w-0", "IDLE")
    assert other_states((before,), (replace(before, **changed),)) == ({"w-0"} if told else set())


def seconds(core: Core) -> list[int]:
    return [at_ns // SECOND for at_ns in core.asked]


def test_an_idle_poll_asks_the_core_once_in_each_of_its_own_spans() -> None:
    """0 s, 30 s with a look at 330 s, then nothing before 330 s: the age of Slurm's answer is no news."""
    core = Core()
    decisions = Decisions(core)
    for at_s in range(0, 360, 30):
        decisions.plan(replace(OBSERVED, slurm=Slurm("fresh", at_s * SECOND)), Memory(), at_s * SECOND)
    assert seconds(core) == [0, 30, 330, 330, 630]


def test_what_the_core_does_by_the_clock_is_done_at_the_poll_that_sees_it() -> None:
    """A plan that will be another one within its span never stands."""
    core = Core(drains_ns=100 * SECOND)
    decisions = Decisions(core)
    first = next(at_s for at_s in range(0, 360, 30) if decisions.plan(OBSERVED, Memory(), at_s * SECOND).actions)
    assert first == 120


def test_news_are_decided_at_once() -> None:
    """Other jobs, or another memory."""
    core = Core()
    decisions = Decisions(core)
    for at_s in (0, 1, 2):
        decisions.plan(OBSERVED, Memory(), at_s * SECOND)
    decisions.plan(replace(OBSERVED, slurm=Slurm("away")), Memory(), 3 * SECOND)
    decisions.plan(OBSERVED, Memory(generation=2), 4 * SECOND)
    assert seconds(core) == [0, 1, 301, 3, 4]


def test_views_of_what_did_not_change_are_the_same_objects() -> None:
    """One pod is another version: its view alone is new."""
    views = NodeSetViews()
    pods = [Pod(meta=Meta(name=f"w-{n}", uid=f"u{n}"), spec=PodSpec(node_name="n1")) for n in range(3)]
    views.look("w", SPEC, pods, [])
    before = views.pods
    views.look("w", SPEC, list(pods), [])
    assert views.pods is before
    pods[1] = replace(pods[1], meta=replace(pods[1].meta, deletion_ns=5))
    views.look("w", SPEC, pods, [])
    assert [a is b for a, b in zip(before, views.pods, strict=True)] == [True, False, True]
    assert views.pods[1].deleting


def test_caches_that_moved_or_another_specification_are_looked_at() -> None:
    """Once each."""
    views = NodeSetViews()
    views.look("w", SPEC, [], [])
    other = SPEC.model_copy(update={"replicas": 2})
    stale = [views.stale(caches, SPEC) for caches in ((1, 1), (1, 1), (1, 2), (1, 2))]
    assert stale == [True, False, True, False]
    assert views.stale((1, 2), other)


def test_a_machine_appears_when_a_pod_of_the_set_is_on_it() -> None:
    """One that the selector leaves out is seen while it is a host."""
    views = NodeSetViews()
    machine = Node(meta=Meta(name="n1"))
    spec = NodeSetSpec(cluster="slurm", replicas=1, image="slurmd", node_selector={"role": "compute"})
    views.look("w", spec, [], [(machine, 0)])
    assert views.nodes == ()
    pod = Pod(meta=Meta(name="w-0", uid="u"), spec=PodSpec(node_name="n1"))
    views.look("w", spec, [pod], [(machine, 2)])
    assert [(view.name, view.foreign_pods) for view in views.nodes] == [("n1", 2)]


OPERATED = sorted(
    path.stem for path in FAULTS.glob("*.yaml")
    if (section := load_scenario(path).pods) is not None and section.operator not in ("", "slurm-bridge")
)  # fmt: skip


@pytest.mark.parametrize("name", OPERATED)
def test_a_core_that_goes_by_changes_decides_what_a_full_one_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pass of each scenario that an operator runs."""
    standing, passes = StandingCore.__call__, []

    def both(self: StandingCore, observed: NodeSetObserved, memory: Memory, now_ns: int) -> Plan:
        made = standing(self, observed, memory, now_ns)
        assert made == plan(observed, memory, now_ns)
        passes.append(now_ns)
        return made

    monkeypatch.setattr(StandingCore, "__call__", both)
    run_scenario(load_scenario(FAULTS / f"{name}.yaml"), FAULTS, TwinOptions(seed=3))
    assert passes


@pytest.mark.parametrize("name", ["x41-slinky", "x32-slinky", "x37-slinky", "x1-slinky", "x44-slinky"])
def test_a_look_at_what_changed_sees_what_a_look_at_all_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods and machines, in each pass."""
    look, quick = _Process._look, [0]

    def checked(self: _Process, item: Custom) -> Looked:
        seen = look(self, item)
        whole = NodeSetViews()
        pods = [pod for pod in self.pods if pod.meta.labels.get(NODE_SET) == item.meta.name]
        whole.look(item.meta.name, item.spec["spec"], pods, [(node, self._foreign(node)) for node in self.nodes])
        assert seen == (whole.pods, whole.nodes)
        return seen

    catch_up = NodeSetViews.catch_up

    def counted(self: NodeSetViews, *given: Any) -> bool:
        done = catch_up(self, *given)
        quick[0] += done
        return done

    monkeypatch.setattr(_Process, "_look", checked)
    monkeypatch.setattr(NodeSetViews, "catch_up", counted)
    run_scenario(load_scenario(FAULTS / f"{name}.yaml"), FAULTS, TwinOptions(seed=3))
    assert quick[0]


@pytest.mark.parametrize("name", ["x1-slinky", "x32-slinky", "x41-slinky", "x52-failed-pods", "x59-elastic-resume"])
def test_a_node_that_is_not_looked_at_is_listed_as_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens to nodes in a scenario: words and reasons of those left out have not changed."""
    changed = ListedNodes.changed
    told: dict[ListedNodes, list[tuple[str, ...]]] = {}
    left_out = []

    def checked(self: ListedNodes, ctld: Slurmctld) -> Sequence[int]:
        places = changed(self, ctld)
        now = [(*node_words(ctld, node), node.reason, node.name) for node in ctld.nodes.nodes]
        for place in sorted(set(range(len(now))) - set(places)):
            left_out.append(place)
            assert told[self][place] == now[place]
        told[self] = now
        return places

    monkeypatch.setattr(ListedNodes, "changed", checked)
    run_scenario(load_scenario(FAULTS / f"{name}.yaml"), FAULTS, TwinOptions(seed=3))
    assert left_out
