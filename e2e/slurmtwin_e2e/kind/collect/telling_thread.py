"""A thread that says what ended it: without that an observer that died is missed by nobody."""

from __future__ import annotations

import threading
from collections.abc import Callable


class TellingThread(threading.Thread):
    """Calls `act` beside the run; it does not keep the process alive."""

    def __init__(self, act: Callable[[], None], what: str) -> None:
        super().__init__(daemon=True)
        self._act, self._what = act, what
        self.lost = ""
        """The error that ended it, and what it did; "": none."""

    def run(self) -> None:
        """As threading.Thread.run()."""
        try:
            self._act()
        except Exception as error:  # whatever it was: the run lacks what it would have seen
            self.lost = f"{self._what}: {type(error).__name__}: {error}"
