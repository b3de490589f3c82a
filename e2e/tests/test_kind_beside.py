"""Runs on one cluster meet: none begins before all are up, none is taken down before all are over."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.contract.clock import SECOND
from slurmtwin_e2e.kind.beside import APART_NS, Beside

LIMIT_S = 20


def started(work: Callable[[], None]) -> threading.Thread:
    """A member at work."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_all_begin_when_the_last_is_up() -> None:
    """Two wait for a third; what they note lies behind its coming."""
    together, notes = Beside(3), queue.SimpleQueue[str]()

    def early() -> None:
        together.wait("up")
        notes.put("early begins")

    members = [started(early), started(early)]
    notes.put("the last comes")
    together.wait("up")
    for member in members:
        member.join(LIMIT_S)
        assert not member.is_alive()
    assert [notes.get_nowait() for _ in range(3)] == ["the last comes", "early begins", "early begins"]


def test_nobody_waits_for_one_that_left() -> None:
    """A run that fails on its way holds nobody up, at this point or at the next."""
    together = Beside(2)

    def good() -> None:
        together.wait("up")
        together.wait("over")

    member = started(good)
    together.wait("up")
    together.leave()
    member.join(LIMIT_S)
    assert not member.is_alive()


def test_two_that_fail_in_one_thread_are_two() -> None:
    """A pool gives a run that failed at once its thread back: the next one's may be the same."""
    together = Beside(4)

    def bad() -> None:
        together.wait("up")
        together.leave()

    together.leave()
    together.leave()
    members = [started(bad), started(lambda: together.wait("up"))]
    for member in members:
        member.join(LIMIT_S)
        assert not member.is_alive()


def test_one_alone_never_waits() -> None:
    """A single run passes every point."""
    alone = Beside(1)
    alone.wait("up")
    alone.wait("over")


@given(st.lists(st.lists(st.integers(0, 60 * SECOND), max_size=3), min_size=1, max_size=5), st.integers(0, 10**18))
def test_no_two_runs_fail_at_one_time(members: list[list[int]], now_ns: int) -> None:
    """Whatever their scenarios say, faults of different runs are APART_NS from each other; nobody begins early."""
    together = Beside(len(members))
    zeros = [together.zero_ns(now_ns, faults) for faults in members]
    absolute = [[zero + at for at in faults] for zero, faults in zip(zeros, members, strict=True)]
    pairs = [(a, b) for i, one in enumerate(absolute) for other in absolute[:i] for a in one for b in other]
    assert all(abs(a - b) >= APART_NS for a, b in pairs)
    assert zeros[0] == now_ns <= min(zeros)
