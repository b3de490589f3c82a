"""Starts of pods beside each other: all nodes of a kind cluster are one host, which they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Environment

Draw = Callable[[], int]
BESIDE: Final = 0.22
QUIET_BESIDE: Final = 2
"""Starts of pods share the host: Scheduled to Started is 0.94 s alone, 1.34 s of two and 1.64 s of four together in the
quiet runs (first repetition, and pairs of the second), so each one beside adds 22 %. Calibrated durations are those of
starts with two others beside them on average."""


class Sharing:
    """One host runs all nodes: starts that are under way share its CPUs."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._ends_ns: list[int] = []

    @property
    def alone(self) -> bool:
        """No start is under way."""
        return not any(end_ns > self._env.now_ns for end_ns in self._ends_ns)

    def takes_ns(self, drawn_ns: int) -> int:
        """How long a start takes now that would take so long beside as many as in the quiet runs."""
        return self.stands(self._shared(drawn_ns))

    def stands(self, takes_ns: int) -> int:
        """A start begins that takes so long."""
        self._ends_ns.append(self._env.now_ns + takes_ns)
        return takes_ns

    def of(self, draw: Draw) -> Draw:
        """Draws of something that is no start, but shares the host with those under way."""
        return lambda: self._shared(draw())

    def _shared(self, drawn_ns: int) -> int:
        now_ns = self._env.now_ns
        self._ends_ns = [end_ns for end_ns in self._ends_ns if end_ns > now_ns]
        return round(drawn_ns * (1 + BESIDE * len(self._ends_ns)) / (1 + BESIDE * QUIET_BESIDE))
