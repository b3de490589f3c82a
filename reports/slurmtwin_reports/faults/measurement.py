"""What a recording would have shown of a replication: its exact times with the recording's own error drawn.

A time known to ± e is moved by a draw from [-e, e]. A receipt of the collector's watch is one in the twin as well, and
may be late besides, as the run's leases were, but where nothing else is received: there a real one is no later. A time
that the API cut to whole seconds is cut to the middle of the same second, after the drawn offset between the clocks:
seconds begin there as they do for the recorded stamp. One that a daemon's log cut to its millisecond is cut likewise,
after what it may have taken to write that line. An injection is known before: the twin's own lies where the
recorded one may have, and is stamped as that was. What an observer sees by looking again and again has the stamp of the
look that would have seen it. Recorded and simulated spans are then of one kind, ties and all, so that their ranks can
be compared.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin_reports.faults.milestones import HALF_SECOND, Mark, Marks

if TYPE_CHECKING:
    import numpy as np

NEVER: Final = 1 << 62
"""ns: a milestone that did not come, or a span without an end. Later than everything."""
NO_START: Final = -(1 << 62)
"""A span whose phase did not begin. Shorter than everything: any order of the outcomes serves a test of equality."""
HALF_MS: Final = MS // 2
USUAL_RECEIPT_NS: Final = 6 * MS
"""Receipt of a lease less its own stamp, a request and a watch: the median of 1,154 runs' medians (watch_delay_ms of
their manifests; 3.9 to 10 in 1,055). The twin's receipts have both. Of late ones a run knows the 95th percentile, which
is the error of its receipts."""


def stream(seed: int, name: str) -> np.random.Generator:
    """The judge's named streams: equal names give equal draws, a new one moves no other."""
    import numpy as np

    key = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")
    return np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(seed, spawn_key=(key,))))


def times_of(runs: Sequence[Sequence[Marks]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Exact times of replications as an array [replication, phase, start or end] of ns; NEVER where none came."""
    import numpy as np

    out = np.full((len(runs), len(runs[0]) if runs else 0, 2), NEVER, dtype=np.int64)
    for place, run in enumerate(runs):
        for number, marks in enumerate(run):
            for side, mark in enumerate((marks.start, marks.end)):
                if mark is not None:
                    out[place, number, side] = mark.t_ns
    return out


def measured(
    times: np.ndarray[Any, np.dtype[np.int64]], mark: Mark | None, epoch_ns: int, draw: np.random.Generator
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """These exact times as a collector whose error was that of `mark` would have written them; NEVER stays NEVER.

    An injection has the recorded stamp: each replication injects somewhere within that stamp's error. Who looks again
    and again looks at the recorded times: what comes in an earlier or later pause than the recorded has that one's
    stamp.
    """
    import numpy as np

    if mark is None:
        return times
    never = times == NEVER
    if mark.pinned:
        return np.where(never, NEVER, mark.t_ns)
    if mark.looked:
        return np.where(never, NEVER, _stamped(times, mark.t_ns, mark.err_ns))
    if mark.logged:
        written = draw.integers(-(mark.err_ns - HALF_MS), mark.err_ns - HALF_MS, times.shape, endpoint=True)
        return np.where(never, NEVER, _stamped(times + written, mark.t_ns, HALF_MS))
    if mark.received:
        late = 0 if mark.calm else _late(mark.err_ns, times.shape, draw)
        return np.where(never, NEVER, times + late)
    error = mark.err_ns - HALF_SECOND if mark.cut else mark.err_ns
    moved = times + (draw.integers(-error, error, times.shape, endpoint=True) if error > 0 else 0)
    if mark.cut:
        begin_ns = (mark.t_ns - HALF_SECOND + epoch_ns) % SECOND - epoch_ns
        moved = (moved - begin_ns) // SECOND * SECOND + HALF_SECOND + begin_ns
    return np.where(never, NEVER, moved)


def _stamped(
    times: np.ndarray[Any, np.dtype[np.int64]], stamp_ns: int, half_ns: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The stamps of these times where one stands for all within half_ns of it, and others at whole widths from it."""
    return stamp_ns + (times - (stamp_ns - half_ns)) // (2 * half_ns) * (2 * half_ns)


def _late(err_ns: int, shape: tuple[int, ...], draw: np.random.Generator) -> np.ndarray[Any, np.dtype[np.int64]]:
    """How much later than usual receipts come: half of them not at all, one in twenty by more than the 95th percentile
    is above the median, exponentially between.
    """
    import numpy as np

    mean_ns = max(0, err_ns - USUAL_RECEIPT_NS) / math.log(10)
    late = draw.exponential(mean_ns, shape) * (draw.random(shape) < 0.5)
    return np.asarray(late).astype(np.int64)


def spans(
    start: np.ndarray[Any, np.dtype[np.int64]], end: np.ndarray[Any, np.dtype[np.int64]]
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Lengths, 0 at least; NEVER without an end, NO_START without a start."""
    import numpy as np

    length = np.maximum(np.where(end == NEVER, 0, end) - np.where(start == NEVER, 0, start), 0)
    return np.where(start == NEVER, NO_START, np.where(end == NEVER, NEVER, length))


def recorded_span(marks: Marks) -> int:
    """The recorded length on the same scale."""
    if marks.start is None:
        return NO_START
    length = marks.length_ns
    return NEVER if length is None else length


def words(ns: int) -> str:
    """A span in seconds; `none` where the end did not come, `no start` where the phase did not begin."""
    if ns == NEVER:
        return "none"
    if ns == NO_START:
        return "no start"
    return f"{ns / SECOND:.1f}" if ns >= 10 * SECOND else f"{ns / SECOND:.3g}"
