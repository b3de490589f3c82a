"""Ticks of the kubelet's look at its containers: the pause begins at the end of each (generic.go, wait.Until)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.models.kubelet.relist import MovingTicks, Ticks

TURNS = st.lists(st.integers(0, 80 * MS), min_size=1, max_size=20)
ASKED = st.lists(st.integers(-3 * SECOND, 40 * SECOND), min_size=1, max_size=12)


def drawn(turns_ns: list[int]) -> Callable[[], int]:
    """These one after the other, and again."""

    def each() -> Iterator[int]:
        while True:
            yield from turns_ns

    return each().__next__


def ticks_until(turns_ns: list[int], end_ns: int) -> list[int]:
    """All ticks from 0 to behind the end."""
    turn, found = drawn(turns_ns), [0]
    while found[-1] <= end_ns:
        found.append(found[-1] + SECOND + turn())
    return found


@given(TURNS, ASKED)
def test_a_tick_is_the_sum_of_the_pauses_and_turns_before_it(turns_ns: list[int], asked_ns: list[int]) -> None:
    """In whatever order they are asked for."""
    ticks, listed = MovingTicks(0, SECOND, drawn(turns_ns)), ticks_until(turns_ns, 45 * SECOND)
    for now_ns in asked_ns:
        assert ticks.next_after(now_ns) == next(tick for tick in listed if tick > now_ns)
        before = [tick for tick in listed if tick <= now_ns]
        assert ticks.last_before(now_ns) == (before[-1] if before else -SECOND)


@given(TURNS)
def test_a_turn_takes_what_moves_the_next_one(turns_ns: list[int]) -> None:
    """A pod that a relist finds changed is synced at its end, and the next relist comes a pause behind that."""
    ticks, listed = MovingTicks(0, SECOND, drawn(turns_ns)), ticks_until(turns_ns, 30 * SECOND)
    for tick, later in pairwise(listed):
        assert tick + ticks.took_ns(tick) + SECOND == later


@given(st.integers(-3 * SECOND, 40 * SECOND))
def test_turns_that_take_nothing_are_a_plain_ticker(now_ns: int) -> None:
    """From the first tick on."""
    moving, plain = MovingTicks(0, SECOND, lambda: 0), Ticks(0, SECOND)
    assert moving.next_after(now_ns) == plain.next_after(now_ns)
    assert moving.took_ns(max(0, now_ns)) == plain.took_ns(max(0, now_ns)) == 0


def test_a_loop_that_stood_still_goes_on_with_turns_of_its_own() -> None:
    """Its pause was over meanwhile: a turn is now."""
    anew = MovingTicks(0, SECOND, drawn([5 * MS])).anew(7 * SECOND)
    assert anew.next_after(7 * SECOND) == 8005 * MS
    assert Ticks(0, SECOND).anew(7 * SECOND).next_after(7 * SECOND) == 8 * SECOND
