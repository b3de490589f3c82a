"""The steps of the pinning proof say what differs, pod by pod and fact by fact."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurmtwin_e2e.kind.prove_pinning import ONE, SHRUNK, STEPS, Seen, differences

GOOD: Seen = {
    "shared": {"phase": "Running", "restarts": 0, "cpu_manager": "0", "cgroup": "0"},
    "first": {"phase": "Running", "restarts": 0, "cpu_manager": "1", "cgroup": "1"},
}


def test_only_the_facts_that_are_asked_for_are_compared() -> None:
    """A pod that is not named, and a fact that is not, may be anything."""
    assert differences({"shared": SHRUNK, "first": ONE}, GOOD | {"other": {"phase": "Failed"}}) == []


@pytest.mark.parametrize(
    ("pod", "change", "says"),
    [
        ("shared", {"cgroup": "0-1"}, "shared.cgroup: '0-1', expected '0'"),
        ("first", {"cpu_manager": "0"}, "first.cpu_manager: '0', expected '1'"),
        ("first", {"phase": "Pending"}, "first.phase: 'Pending', expected 'Running'"),
    ],
)
def test_a_fact_that_differs_is_named(pod: str, change: dict[str, str], says: str) -> None:
    """What was found stands beside what was expected."""
    assert differences({"shared": SHRUNK, "first": ONE}, GOOD | {pod: GOOD[pod] | change}) == [says]


def test_a_pod_that_is_missing_differs_in_every_fact() -> None:
    """Nothing seen is nothing proven."""
    assert len(differences({"second": {"phase": "Failed", "reason": "OutOfcpu"}}, GOOD)) == 2


def test_the_kernels_set_is_asked_for_wherever_a_pod_must_run() -> None:
    """The kubelet's own account alone proves nothing."""
    for step in STEPS:
        for facts in step.expected.values():
            assert facts["phase"] != "Running" or {"cpu_manager", "cgroup"} <= facts.keys()


def test_the_recorded_steps_are_as_expected() -> None:
    """Real CPU sets of a real kubelet, by its own account and the kernel's, in the order of the proof."""
    path = Path(__file__).parents[2] / "scenarios" / "pinning" / "kind-cpusets.json"
    steps = json.loads(path.read_text())["steps"]
    assert [step["step"] for step in steps] == [step.name for step in STEPS]
    for expected, step in zip(STEPS, steps, strict=True):
        assert differences(expected.expected, step["pods"]) == []
