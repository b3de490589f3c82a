"""A checker that cannot fail is a bug: every planted mistake of the core turns a property or the end state red."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mutations import MUTATIONS

from slurmtwin_operator.testing.kube import FakeKube
from slurmtwin_operator.testing.node_sets import end_state
from slurmtwin_operator.testing.scenarios import START, STORIES, Story, admin_drain, job, play, scale

EXTRA = (
    Story("scale-in-order", (START, (30, job(1, 2000)), (60, scale(2))), 900),
    Story("admin-drain-ghost", (START, (40, admin_drain("w-2")), (60, scale(2))), 900),
)
BY_NAME = {story.name: story for story in (*STORIES, *EXTRA)}


def shown(story: Story, kube: FakeKube) -> dict[str, Any]:
    """The end state, which nodes were drained at all, and how many pods were ever made."""
    drained = sorted({str(e.node) for e in kube.events if e.kind == "node.drained"})
    return {**end_state(kube), "drained": drained, "made": sum(e.kind == "pod.created" for e in kube.events)}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_is_caught(
    mutation: Any, judge: Callable[[FakeKube], dict[str, str]], monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:  # fmt: skip
    """In each of its stories some property breaks, or the end is another one."""
    for name in mutation.stories:
        story = BY_NAME[name]
        good, _ = play(story)
        assert judge(good) == {}
        with monkeypatch.context() as patch:
            mutation.plant(patch)
            bad, _ = play(story)
        assert judge(bad) or shown(story, bad) != shown(story, good), name
        record_property("red", f"{name}: {', '.join(judge(bad)) or 'another end'}")
    record_property("mutation", f"core: {mutation.name}")


def test_there_are_enough() -> None:
    """At least fifteen mutations."""
    assert len(MUTATIONS) >= 15
