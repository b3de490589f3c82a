"""Autoscalers by their sources' rules: who is asked for how many, and when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.contract.clock import MINUTE, SECOND
from slurmtwin.models.autoscaler.horizontal import HorizontalAutoscaler, wanted
from slurmtwin.models.autoscaler.keda import Activation
from slurmtwin.models.autoscaler.machines import Asked, MachineScaler, machines_needed

GIB = 1 << 30


@pytest.mark.parametrize(
    ("form", "usage", "target", "current", "pods", "ready", "number"),
    [
        ("Value", 1, 5, 1, 1, 1, 1),  # X55: 1/5 of one ready pod, rounded up
        ("Value", 1, 1, 1, 1, 1, 1),  # X55: inside the tolerance
        ("Value", 8, 1, 1, 1, 1, 8),
        ("Value", 8, 1, 4, 4, 2, 16),  # ready pods count, not replicas
        ("Value", 3, 2, 0, 0, 0, 2),  # a set at 0 takes the ratio
        ("Value", 11, 10, 4, 4, 4, 4),  # 1.1 is inside
        ("Value", 12, 10, 4, 4, 4, 5),
        ("AverageValue", 12, 1, 1, 1, 1, 12),
        ("AverageValue", 4, 1, 4, 4, 0, 4),
        ("AverageValue", 0, 1, 4, 4, 4, 0),
        ("AverageValue", 3, 1, 0, 0, 0, 3),
    ],
)
def test_replicas_follow_the_metric_as_the_calculator_says(
    form: str, usage: int, target: int, current: int, pods: int, ready: int, number: int
) -> None:
    """replica_calculator.go, worked by hand."""
    assert wanted(form, usage, target, current, pods, ready) == number  # type: ignore[arg-type]


def autoscaler(least: int = 1, most: int = 100) -> HorizontalAutoscaler:
    """Pods that wait, one worker each."""
    return HorizontalAutoscaler("AverageValue", 1, least, most, 300 * SECOND)


def test_one_look_doubles_at_most_or_goes_to_four() -> None:
    """From 1 to 4, to 8, to 16 (scaleUpLimitFactor 2, scaleUpLimitMinimum 4)."""
    scaler, current, seen = autoscaler(), 1, []
    for look in range(4):
        current = scaler.look(look * 15 * SECOND, 16, current, current, current)
        seen.append(current)
    assert seen == [4, 8, 16, 16]


def test_fewer_are_asked_for_when_the_window_has_forgotten_the_last_higher_number() -> None:
    """X56: 300 s after the last look that wanted four."""
    scaler = autoscaler()
    assert scaler.look(0, 4, 4, 4, 4) == 4
    assert scaler.look(299 * SECOND, 0, 4, 4, 4) == 4
    assert scaler.look(301 * SECOND, 0, 4, 4, 4) == 1


def test_a_metric_that_cannot_be_read_changes_nothing() -> None:
    """FailedComputeMetricsReplicas; the bounds still hold."""
    scaler = autoscaler(most=3)
    assert scaler.look(0, None, 2, 2, 2) == 2
    assert scaler.look(0, None, 9, 9, 9) == 3


def test_an_autoscaler_with_a_least_number_leaves_a_set_at_zero_alone() -> None:
    """ScalingDisabled: nothing but KEDA takes it from 0."""
    assert autoscaler().look(0, 50, 0, 0, 0) == 0


@given(st.integers(0, 200), st.integers(1, 50), st.integers(1, 60), st.integers(0, 60))
def test_bounds_hold_whatever_the_metric_says(usage: int, target: int, current: int, ready: int) -> None:
    """Between least and most, and never more than twice what there is, or four."""
    for form in ("Value", "AverageValue"):
        scaler = HorizontalAutoscaler(form, target, 1, 40, 0)
        found = scaler.look(0, usage, current, current, min(ready, current))
        assert 1 <= found <= 40
        assert found <= max(4, 2 * current)


def test_keda_takes_a_set_from_zero_and_back_after_its_cooldown() -> None:
    """Between, it leaves the number to the autoscaler."""
    keda = Activation(0, 300 * SECOND)
    assert keda.look(0, 0, 0) == 0
    assert keda.look(30 * SECOND, 7, 0) == 1
    assert keda.look(60 * SECOND, 3, 5) == 5
    assert keda.look(330 * SECOND, 0, 5) == 5
    assert keda.look(360 * SECOND, 0, 5) == 0


def test_a_query_without_a_result_counts_as_nothing_asked_for() -> None:
    """X57: ignoreNullValues; a least number above 0 keeps it."""
    assert Activation(0, 300 * SECOND).look(400 * SECOND, None, 3) == 0
    assert Activation(2, 300 * SECOND).look(400 * SECOND, None, 3) == 3


def test_pods_that_wait_are_packed_into_as_few_machines_as_first_fit_finds() -> None:
    """Four workers of a CPU into machines of two CPUs; one that no machine holds asks for none."""
    room = Asked(2000, 8 * GIB, 110)
    assert machines_needed([Asked(1000, GIB)] * 4, room) == 2
    assert machines_needed([Asked(1000, GIB)] * 5, room) == 3
    assert machines_needed([Asked(3000, GIB)], room) == 0
    assert machines_needed([Asked(1, 1)] * 3, Asked(2000, GIB, 1)) == 3


def test_machines_that_are_coming_are_counted_and_the_group_has_an_end() -> None:
    """The next scan asks for no second one for the same pods."""
    room, waiting = Asked(1000, GIB, 110), [Asked(1000, GIB)] * 5
    scaler = MachineScaler(1, 9, 10 * MINUTE)
    assert scaler.grow(0, waiting, room, 1, 0) == 5
    assert scaler.grow(10 * SECOND, waiting, room, 6, 5) == 0
    assert MachineScaler(1, 3, 10 * MINUTE).grow(0, waiting, room, 1, 0) == 2


def test_an_empty_machine_goes_after_its_time_and_the_pause_behind_the_last_growth() -> None:
    """Five minutes unneeded, ten since the last one was asked for, and never below the least."""
    scaler, room = MachineScaler(1, 4, 5 * MINUTE), Asked(1000, GIB, 110)
    assert scaler.grow(0, [Asked(1000, GIB)], room, 1, 0) == 1
    assert scaler.shrink(MINUTE, ["b"], 2) == []
    assert scaler.shrink(9 * MINUTE, ["b"], 2) == []
    assert scaler.shrink(10 * MINUTE, [], 2) == []
    assert scaler.shrink(11 * MINUTE, ["b"], 2) == []
    assert scaler.shrink(15 * MINUTE, ["b"], 2) == []
    assert scaler.shrink(16 * MINUTE, ["b"], 2) == ["b"]
    assert scaler.shrink(16 * MINUTE, ["b"], 1) == []
