"""The default design under crashes and false views: the same end, and no property broken on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest

from slurmtwin_operator.core.actions import Action
from slurmtwin_operator.testing.disturbance import Disturbance
from slurmtwin_operator.testing.judges import findings
from slurmtwin_operator.testing.kube import FakeKube
from slurmtwin_operator.testing.other_kinds import ALL_STORIES, OTHER_STORIES
from slurmtwin_operator.testing.perturb import perturbation
from slurmtwin_operator.testing.scenarios import STORIES, Story, play
from slurmtwin_operator.testing.slurm import SECOND

Judge = Callable[[FakeKube], dict[str, str]]
PERTURBATIONS = {"NodeSet": 48, "Cluster": 32, "PodGroup": 32, "Dispatch": 32}
"""Per story of a kind: more than two thousand together."""
STORY = pytest.mark.parametrize("story", ALL_STORIES, ids=lambda story: story.name)


def broken(story: Story, kube: FakeKube, judge: Judge) -> dict[str, str]:
    """What the run broke, by the properties of node sets or by those of the kind."""
    return judge(kube) if story.kind == "NodeSet" else dict.fromkeys(findings(story.kind, kube.events), story.kind)


@STORY
def test_every_property_holds(story: Story, judge: Judge) -> None:
    """Undisturbed, each story ends at rest with every property holding."""
    kube, _ = play(story)
    assert broken(story, kube, judge) == {}


@pytest.mark.parametrize("lose_memory", [False, True], ids=["memory kept", "memory lost"])
@STORY
def test_crash_after_every_action_converges(story: Story, lose_memory: bool, judge: Judge) -> None:
    """Stopped after any one action and started again, the operator reaches the same state."""
    _, whole = play(story)
    assert whole.actions > 0
    for number in range(1, whole.actions + 1):
        kube, carrier = play(story, crash_after=number, lose_memory=lose_memory)
        assert carrier.world.end_state() == whole.world.end_state(), f"crash after action {number}"
        assert broken(story, kube, judge) == {}, f"crash after action {number}"


def test_every_kind_of_action_is_crashed_after() -> None:
    """The stories' plans hold each kind of action that there is, and it took effect."""
    performed = {do for story in ALL_STORIES for do in play(story)[1].performed}
    assert performed == {kind.__dataclass_fields__["do"].default for kind in get_args(Action)}


@STORY
def test_sieve_perturbations_break_nothing(story: Story, judge: Judge) -> None:
    """Stale, reordered, skipped and partial views, doubled passes and crashes: the same end, every property holds."""
    _, whole = play(story)
    for number in range(PERTURBATIONS[story.kind]):
        kube, carrier = play(story, **perturbation(story.name, number, story.kind))
        about = f"perturbation({story.name!r}, {number}, {story.kind!r})"
        assert broken(story, kube, judge) == {}, about
        assert carrier.world.end_state() == whole.world.end_state(), about


def test_there_are_enough_of_them() -> None:
    """At least a thousand generated perturbations, and some of every kind of object."""
    assert sum(PERTURBATIONS[story.kind] for story in ALL_STORIES) >= 1000
    assert {story.kind for story in ALL_STORIES} == set(PERTURBATIONS)


def test_a_disturbance_reaches_the_core() -> None:
    """The adapters do disturb: with a long stale view the operator acts later than without."""
    story = next(s for s in STORIES if s.name == "scale-in-idle")
    plain, _ = play(story)
    late = Disturbance("stale", 30 * SECOND, 120 * SECOND)
    stale, _ = play(story, disturbances=(late,))
    first = [next(e.t_ns for e in kube.events if e.kind == "node.drained") for kube in (plain, stale)]
    assert first[0] < 70 * SECOND
    assert first[1] >= 150 * SECOND


@pytest.mark.parametrize(
    ("name", "disturbance", "finding"),
    [
        ("groups-take-turns", Disturbance("partial", 40 * SECOND, 40 * SECOND, "slurm", 0), "was submitted beside job"),
        ("group-runs", Disturbance("partial", 25 * SECOND, 35 * SECOND, "slurm", 2), "was deleted inside its job"),
        ("group-runs", Disturbance("partial", 25 * SECOND, 35 * SECOND, "pods", 0), "was ended under 2 pods"),
        ("cluster-deleted", Disturbance("partial", 60 * SECOND, 60 * SECOND, "node_sets", 0), "the Cluster went"),
    ],
)
def test_without_recheck_a_false_view_does_harm(name: str, disturbance: Disturbance, finding: str) -> None:
    """The judges can fail: the same view that `default` survives breaks a property of designs that do not ask again."""
    story = next(s for s in OTHER_STORIES if s.name == name)
    careless = story.switches.model_copy(update={"recheck": False})
    found = [
        findings(story.kind, play(story, switches, disturbances=(disturbance,))[0].events)
        for switches in (story.switches, careless)
    ]
    assert found[0] == []
    assert any(finding in text for text in found[1]), found[1]
