"""Runs on one cluster meet: none begins before all are up, none is taken down before all are over."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from slurmtwin_e2e.kind.beside import Beside

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


def test_one_alone_never_waits() -> None:
    """A single run passes every point."""
    alone = Beside(1)
    alone.wait("up")
    alone.wait("over")
