"""When the background loop looks, by version (controller.c _slurmctld_background())."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.engine.environment import Environment, RunBudget
from slurmtwin.models.slurmctld.background import BackgroundLoop, Duty, Periodic
from slurmtwin.models.slurmctld.host_costs import HostCosts


@dataclass
class Conf:
    """As much of a configuration as the loop reads."""

    version: str


class Controller:
    """As much of slurmctld as the loop needs."""

    def __init__(self, version: str, lag_ms: float = 0, start_ns: int = 0, epoch_ns: int = 0) -> None:
        self.env = Environment(start_ns=start_ns)
        self.conf = Conf(version)
        self.costs = HostCosts(loop_lag_ns=round(lag_ms * MS))
        self.epoch_ns = epoch_ns

    def now_s(self) -> int:
        return (self.epoch_ns + self.env.now_ns) // SECOND

    def at_s(self, unix_s: int) -> int:
        return unix_s * SECOND - self.epoch_ns


def a_loop(version: str, **more: Any) -> tuple[Any, BackgroundLoop]:
    controller = Controller(version, **more)
    loop = BackgroundLoop(cast("Any", controller))
    loop.start()
    return controller, loop


def looks_of(controller: Any, loop: BackgroundLoop, count: int) -> list[int]:
    """The next looks, in ms."""
    out, after = [], controller.env.now_ns
    for _ in range(count):
        after = loop.first_look_ns(0, after)
        out.append(after // MS)
    return out


def test_22_05_looks_a_second_after_its_last_look_and_drifts() -> None:
    """Ten sleeps of 100 ms and what they overshoot: at 30 ms a round the 20th look falls into second 21.

    slurm.md 0 "background loop tick".
    """
    controller, loop = a_loop("22.05", lag_ms=30, start_ns=400 * MS)
    looks = looks_of(controller, loop, 40)
    assert looks[:3] == [1430, 2460, 3490]
    assert {b - a for a, b in pairwise(looks)} == {1030}
    assert sorted(set(range(1, 41)) - {ms // 1000 for ms in looks}) == [20]


@pytest.mark.parametrize("version", ["24.11", "26.05"])
def test_later_versions_look_at_every_whole_second(version: str) -> None:
    """pthread_cond_timedwait() until time(NULL) + 1: no drift, whatever the start's fraction."""
    controller, loop = a_loop(version, start_ns=400 * MS)
    assert looks_of(controller, loop, 3) == [1000, 2000, 3000]


@pytest.mark.parametrize(
    ("asked_s", "after_ms", "look_ms"),
    [(0, 1500, 2001), (1, 1500, 2001), (2, 1500, 2005), (2, 2001, 2005), (2, 2005, 3001), (3, 1500, 3005)],
)
def test_what_waits_for_the_clock_is_done_when_that_shows_its_second(asked_s: int, after_ms: int, look_ms: int) -> None:
    """time(NULL) is 5 ms behind and the loop wakes 1 ms behind a second: at 2001 ms it does what was due in second 1,
    at 2005 what is due in second 2 (docs/surprises.md).
    """
    _, loop = a_loop("26.05", lag_ms=1, start_ns=400 * MS)
    assert loop.first_look_ns(asked_s, after_ms * MS, 5 * MS) == look_ms * MS


@pytest.mark.parametrize(("shown_ms", "looks_ms"), [(0, [2001]), (5, [2005])])
def test_a_duty_later_in_the_loop_runs_in_the_same_look_if_its_second_is_shown(
    shown_ms: int, looks_ms: list[int]
) -> None:
    """Armed by a duty before it for the second of that look."""
    controller, loop = a_loop("26.05", lag_ms=1, start_ns=400 * MS)
    seen: list[int] = []
    loop.register(Duty.HEALTH_CHECK, lambda: loop.arm(Duty.PING, 2, shown_ms * MS))
    loop.register(Duty.PING, lambda: seen.append(controller.env.now_ns // MS))
    loop.arm(Duty.HEALTH_CHECK, 2)
    controller.env.run_within(RunBudget())
    assert seen == looks_ms


def test_a_late_wake_up_shifts_every_look_alike() -> None:
    """The lag after the second does not add up."""
    controller, loop = a_loop("26.05", lag_ms=4, start_ns=400 * MS)
    assert looks_of(controller, loop, 3) == [1004, 2004, 3004]


def test_the_duties_of_one_look_run_in_the_loop_s_order() -> None:
    """Time limits before purge before scheduling, however they were armed."""
    controller, loop = a_loop("26.05")
    done: list[Duty] = []
    for duty in reversed(Duty):
        loop.register(duty, lambda duty=duty: done.append(duty))
        loop.arm(duty)
    controller.env.run_within(RunBudget())
    assert done == list(Duty)


def test_a_duty_armed_inside_a_look_runs_in_it_when_it_comes_later_in_the_loop() -> None:
    """set_node_maint_mode() may ask for a pass that the same look then makes."""
    controller, loop = a_loop("26.05")
    passes: list[int] = []
    loop.register(Duty.RESERVATIONS, lambda: loop.arm(Duty.SCHEDULE))
    loop.register(Duty.SCHEDULE, lambda: passes.append(controller.env.now_ns))
    loop.arm(Duty.RESERVATIONS)
    controller.env.run_within(RunBudget())
    assert passes == [SECOND]


def test_an_idle_day_costs_no_event() -> None:
    """Nothing is armed, nothing happens; the phase of a 30 s duty is still that of the start."""
    controller, loop = a_loop("26.05", start_ns=400 * MS)
    period = Periodic(loop, controller, 30)
    controller.env.call_at(86_400 * SECOND + 7, lambda _: None)
    controller.env.run_within(RunBudget())
    assert controller.env.event_count == 1
    assert period.next_s() == 86_400 + 30


@given(
    version=st.sampled_from(["22.05", "26.05"]),
    lag_ms=st.integers(0, 60),
    start_ms=st.integers(0, 2_000),
    interval=st.integers(1, 60),
    asked=st.lists(st.integers(1, 400), max_size=6),
)
def test_the_phase_of_a_duty_is_that_of_a_loop_that_ticks(
    version: str, lag_ms: int, start_ms: int, interval: int, asked: list[int]
) -> None:
    """Periodic against the plain loop `if now - last >= interval: last = now` over every look."""
    if version == "26.05":
        lag_ms = 0
    controller, loop = a_loop(version, lag_ms=lag_ms, start_ns=start_ms * MS)
    period = Periodic(loop, controller, interval)
    ticks, last, at = [], loop.start_s, controller.env.now_ns
    while at < 600 * SECOND:
        at = loop.first_look_ns(0, at)
        if at // SECOND - last >= interval:
            last = at // SECOND
            ticks.append(last)
    for second in asked:
        assert period.next_s(second) == next(t for t in ticks if t >= max(second, loop.start_s + 1))
