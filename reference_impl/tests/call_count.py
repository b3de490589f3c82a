"""The cost of a piece of code as a number that no busy machine changes: its function calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def calls(what: Callable[[], object]) -> int:
    """Function calls of it, Python's and C's together."""
    count = 0

    def tick(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(tick)
    try:
        what()
    finally:
        sys.setprofile(None)
    return count
