"""The default design under crashes and false views: the same end, and no property broken on the way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slurmtwin_operator.testing.kube import FakeKube
from slurmtwin_operator.testing.perturb import perturbation
from slurmtwin_operator.testing.scenarios import STORIES, Story, end_state, play

Judge = Callable[[FakeKube], dict[str, str]]
PERTURBATIONS = 48
"""Per story: 26 stories make 1,248."""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_every_property_holds(story: Story, judge: Judge) -> None:
    """Undisturbed, each story ends at rest with every property holding."""
    kube, _ = play(story)
    assert judge(kube) == {}


@pytest.mark.parametrize("lose_memory", [False, True], ids=["memory kept", "memory lost"])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_crash_after_every_action_converges(story: Story, lose_memory: bool, judge: Judge) -> None:
    """Stopped after any one action and started again, the operator reaches the same state."""
    whole, carrier = play(story)
    for number in range(1, carrier.actions + 1):
        kube, _ = play(story, crash_after=number, lose_memory=lose_memory)
        assert end_state(kube) == end_state(whole), f"crash after action {number}"
        assert judge(kube) == {}, f"crash after action {number}"


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_sieve_perturbations_break_nothing(story: Story, judge: Judge) -> None:
    """Stale, skipped and partial views, doubled passes and crashes: the same end, every property holds."""
    whole, _ = play(story)
    for number in range(PERTURBATIONS):
        kube, _ = play(story, **perturbation(story.name, number))
        assert judge(kube) == {}, f"perturbation({story.name!r}, {number})"
        assert end_state(kube) == end_state(whole), f"perturbation({story.name!r}, {number})"


def test_there_are_enough_of_them() -> None:
    """At least a thousand generated perturbations."""
    assert PERTURBATIONS * len(STORIES) >= 1000


def test_a_disturbance_reaches_the_core() -> None:
    """The adapters do disturb: with a long stale view the operator acts later than without."""
    story = next(s for s in STORIES if s.name == "scale-in-idle")
    plain, _ = play(story)
    stale, _ = play(story, disturbances=perturbation("scale-in-idle", 0)["disturbances"], crash_after=3)
    assert [e.t_ns for e in plain.events] != [e.t_ns for e in stale.events]
