"""Every switch matters: each setting beside the default changes a plan, or what a carrier makes of one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from slurmtwin_operator.core import plan
from slurmtwin_operator.core.actions import Memory
from slurmtwin_operator.core.observed import ClusterObserved
from slurmtwin_operator.core.switches import SAFEST, Switches, VictimKey
from slurmtwin_operator.testing.disturbance import Disturbance
from slurmtwin_operator.testing.kube import FakeKube
from slurmtwin_operator.testing.other_kinds import ALL_STORIES
from slurmtwin_operator.testing.scenarios import START, Story, cordon, job, play, rest, scale
from slurmtwin_operator.testing.slurm import SECOND

Change = Callable[[FakeKube], None]

SPECIAL: dict[str, tuple[Any, ...]] = {
    "victim_order": tuple((key, "ordinal") for key in get_args(VictimKey)),
    "rest_timeout_s": (0, 300), "lost_node_after_s": (900,), "worker_lost_after_s": (60,),
    "health_conditions": ((), ("Other",)),
}  # fmt: skip
"""Settings of the switches that are no choice."""
OF_THE_CARRIER = ("failed_action", "rest_timeout_s")
"""Switches that the core hands on: whoever applies a plan, or asks Slurm, follows them."""
MORE = (
    Story("order-of-victims", (START, (20, lambda k: k.annotate("w-0", deletion_cost=-5)),
                               (25, lambda k: k.annotate("w-1", cordoned=True)), (30, job(1, 900)), (31, job(2, 400)),
                               (60, scale(1)), (70, scale(3)), (75, scale(2))), 120),
    Story("rest-absent", (START, (30, job(1, 400, 3)), (50, rest("absent")), (60, scale(1))), 200),
    Story("never-registered", ((0, scale(1)), (0, lambda k: k.unregistered.add("w-1")), (20, scale(2)), (40, scale(1))),
          60),
    Story("state-lost", (START, (60, lambda k: k.slurm.lose_state())), 300),
    Story("machine-lost-for-long", (START, (60, lambda k: k.change_machine("k0", "kubelet", ready=False))), 1000),
)  # fmt: skip
"""Situations that the test set has not."""


def settings() -> list[tuple[str, Any]]:
    """(switch, a setting that is not the default)."""
    found = []
    for name, field in Switches.model_fields.items():
        choices = SPECIAL.get(name) or ((True, False) if field.annotation is bool else get_args(field.annotation))
        found += [(name, value) for value in choices if value != field.default]
    return found


@cache
def passes() -> tuple[tuple[Any, Memory, int], ...]:
    """Observations of all kinds under the switches of their stories, each once."""
    seen: dict[Any, None] = {}
    for story in (*ALL_STORIES, *MORE):
        for observed, memory, now, _ in play(story, keep_passes=True)[1].passes:
            seen[observed, memory, now] = None
    return tuple(seen)


def switched(observed: Any, **changed: Any) -> Any:
    """The observation under other switches."""
    if isinstance(observed, ClusterObserved):
        switches = observed.spec.switches.model_copy(update=changed)
        return replace(observed, spec=observed.spec.model_copy(update={"switches": switches}))
    return replace(observed, switches=observed.switches.model_copy(update=changed))


@pytest.mark.parametrize(("name", "value"), settings(), ids=lambda value: str(value))
def test_every_setting_changes_a_plan(name: str, value: Any) -> None:
    """Some pass of the test set is planned otherwise; a switch that changes nothing is a bug."""
    if name in OF_THE_CARRIER:
        return
    default = getattr(SAFEST, name)
    assert any(
        plan(switched(observed, **{name: value}), memory, now)
        != plan(switched(observed, **{name: default}), memory, now)
        for observed, memory, now in passes()
    )


def kill(machine: str) -> Change:
    """The worker of that number's machine is gone at once."""
    return lambda kube: kube.delete_pod(machine.replace("k", "w-"), force=True)


def on_all(change: Callable[[str], Change]) -> Change:
    """The change on the first two machines."""
    return lambda kube: (change("k0")(kube), change("k1")(kube))


@pytest.mark.parametrize(
    ("name", "value", "steps"),
    [
        ("failed_action", "stop", (START, (60, on_all(cordon)), (61, on_all(kill)))),  # no such pods to label
        ("rest_timeout_s", 0, (START, (40, rest("tarpit")), (100, rest("up")), (120, scale(1)))),
    ],
)  # fmt: skip
def test_the_carrier_follows_its_switches(name: str, value: Any, steps: Any) -> None:
    """Beside the core: what ends a pass, and how long Slurm is waited for (the shell's own: test_shell_passes.py)."""
    story, late = Story("carried", steps, 400), Disturbance("stale", 35 * SECOND, 60 * SECOND, "pods")
    one, other = (play(story, switches, disturbances=(late,))[0] for switches in (SAFEST, Switches(**{name: value})))
    assert one.events != other.events


def test_every_switch_names_a_source_that_the_page_explains() -> None:
    """Each real system behind a setting is written with a key of the design notes (or an issue, or a scenario)."""
    page = (Path(__file__).parents[2] / "docs" / "operator.md").read_text(encoding="utf-8")
    keys = ("SL", "SO", "SB", "NS", "SU", "SA", "GK", "KQ", "S0", "S4")
    for name, field in Switches.model_fields.items():
        extra: Any = field.json_schema_extra
        assert f"| {name} |" in page
        texts = " ".join(extra["x-reproduces"].values())
        assert re.search(rf"\b({'|'.join(keys)})\b|X\d+", texts), name
