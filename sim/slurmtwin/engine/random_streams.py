"""Named random streams: one per purpose, so that adding a draw in one model moves none in another.

Stream = PCG64DXSM over SeedSequence(root, spawn_key=(replication, blake2b(name))). Equal names give equal
draws over designs: common random numbers. Draws are taken in blocks, which is much faster than one by one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np

_FIRST_BLOCK: Final = 16
_BLOCK: Final = 1024


def generator(root_seed: int, replication: int, name: str) -> np.random.Generator:
    """The numpy generator of one named stream."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    key = (replication, int.from_bytes(digest, "big"))
    return np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(root_seed, spawn_key=key)))


class Stream:
    """One stream of one distribution in integer nanoseconds, drawn in blocks: the first is small, each next twice that.

    The size of the blocks does not show in what is drawn.
    """

    __slots__ = ("_block", "_draw", "_next", "_size")

    def __init__(self, draw: Callable[[int], Any]) -> None:
        self._draw = draw
        self._block: list[int] = []
        self._next = 0
        self._size = _FIRST_BLOCK

    def __call__(self) -> int:
        """The next draw."""
        if self._next == len(self._block):
            self._block = [int(x) for x in self._draw(self._size)]
            self._size = min(2 * self._size, _BLOCK)
            self._next = 0
        value = self._block[self._next]
        self._next += 1
        return value


class RandomStreams:
    """The streams of one run."""

    def __init__(self, root_seed: int, replication: int = 0) -> None:
        self.root_seed = root_seed
        self.replication = replication

    def generator(self, name: str) -> np.random.Generator:
        """A fresh generator at the start of the named stream."""
        return generator(self.root_seed, self.replication, name)

    def uniform_ns(self, name: str, low_ns: int, high_ns: int) -> Stream:
        """Whole nanoseconds, low <= x < high (low == high: always low)."""
        if high_ns <= low_ns:
            return Stream(lambda n: [low_ns] * n)
        source = self._when_drawn(name)
        return Stream(lambda n: source().integers(low_ns, high_ns, n))

    def choice_ns(self, name: str, values_ns: list[int]) -> Stream:
        """Bootstrap from measured values."""
        source = self._when_drawn(name)
        values = np.asarray(values_ns, dtype=np.int64)
        return Stream(lambda n: values[source().integers(0, len(values), n)])

    def _when_drawn(self, name: str) -> Callable[[], np.random.Generator]:
        """The named stream's generator, made at its first draw: most streams of a run draw nothing."""
        made: list[np.random.Generator] = []

        def source() -> np.random.Generator:
            if not made:
                made.append(self.generator(name))
            return made[0]

        return source
