"""Milestones of a run, read off its rows alone: the same search in a recording and in the twin's replications.

A mark is a milestone's row as a time and its error. Stamps that the API cuts to whole seconds and Slurm's logs to
milliseconds are known as such, and so are those of an observer that asks again and again: a replication's time is cut
in the same way before the two are compared (measurement.py).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.hostlist import expand
from slurmtwin.contract.phases import Milestone, Phase
from slurmtwin_reports.history import Row, fault_of
from slurmtwin_reports.load import LOG_ERROR_NS

HALF_SECOND: Final = SECOND // 2
PROBED: Final = (250 * MS, 300 * MS)
POLLED: Final = (SECOND, 1100 * MS)
PROBES: Final = ("client.answered", "client.refused")
LOOKS_NS: Final = {"client.answered": PROBED, "client.refused": PROBED, "node.state": POLLED, "job.state": POLLED}
"""Kind of an observer's row -> from one look until the next is answered, at least and while nothing holds one up: it
asks controllers each 0.25 s and slurmrestd each second (e2e/slurm_images/files/observer.py). The row of a first look is
as wide as its request alone."""
CALM_NS: Final = SECOND
WITH_IT_NS: Final = 100 * MS
"""Nothing else was received in the second before a calm receipt, but for the last of it: what came along with it, as
Unhealthy does with Killing. Leases come within 10.6 ms there (95 % of 672 in the twelve quiet runs of 28 November 2026,
09:10 to 10:25 UTC; 190 others within 67; 11.4 of 1,071 with eight of that afternoon), 13.2 where three runs with faults
stand beside each other (1,651; 264 others 175). The twin's own come within 15.5, a request's way there and a watch
(worlds/pod_faults.py)."""
USUAL_MS: Final = 10.0
"""In 1,055 of 1,154 runs the median lease is received sooner (measurement.USUAL_RECEIPT_NS). In the others the host had
other work, and no receipt is calm."""
ASKED_NS: Final = SECOND
"""PROBE_LIMIT_S there: so long a probe waits for an answer. Its row reaches from the begin of the probe before to its
own end."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A milestone that came: its time and half-width in ns, whether its stamp is a cut second, and its row."""

    t_ns: int
    err_ns: int = 0
    cut: bool = False
    seq: int = -1
    pinned: bool = False
    """An injection: a replication has it within the error of this one, which stands for it in both."""
    received: bool = False
    """The time at which the collector's watch told of it: its error is how late that may have been."""
    calm: bool = False
    """A receipt that nothing else was received before (CALM_NS); known of recordings alone."""
    logged: bool = False
    """A line of a Slurm daemon's log, whose stamp is cut to its millisecond and stands in the middle of that."""
    looked: bool = False
    """Somebody looks again and again, and had not seen it at the begin of the mark's width, and had at its end."""


@dataclass(frozen=True, slots=True)
class Marks:
    """One phase of one run. end None: the end did not come; start None: neither did the start."""

    start: Mark | None
    end: Mark | None

    @property
    def length_ns(self) -> int | None:
        """The span, 0 at least: two rows of one instant may stand in either order. None without both marks."""
        if self.start is None or self.end is None:
            return None
        return max(0, self.end.t_ns - self.start.t_ns)

    @property
    def error_ns(self) -> int:
        """Half-width of the span: the sum of both marks'."""
        return sum(mark.err_ns for mark in (self.start, self.end) if mark is not None)


def _names(text: str | None) -> Sequence[str]:
    if not text:
        return ()
    try:
        return expand(text)
    except InputError:
        return (text,)


def fits(row: Row, wanted: Milestone) -> bool:
    """Is this row the milestone's kind, actor, node, job, and has it these details?"""
    if row.kind != wanted.kind.value or (wanted.actor and row.actor != wanted.actor):
        return False
    if wanted.job is not None and row.job_id != wanted.job:
        return False
    if wanted.node not in ("", "*") and wanted.node not in _names(row.node):
        return False
    if not wanted.detail:
        return True
    known = row.details
    return all(known.get(key) == value for key, value in wanted.detail.items())


def find(rows: Iterable[Row], wanted: Milestone, after_ns: int | None) -> Row | None:
    """The n-th fitting row at or after a time (None: from the beginning); node '*' counts different nodes."""
    seen: set[str] = set()
    count = 0
    for row in rows:
        if (after_ns is not None and row.t_ns + row.t_err_ns < after_ns) or not fits(row, wanted):
            continue
        if wanted.node == "*":
            seen.add(str(row.node))
            count = len(seen)
        else:
            count += 1
        if count >= wanted.nth:
            return row
    return None


def marks_of(rows: Sequence[Row], phase: Phase) -> Marks:
    """One phase of one run. A phase begins at or after the first injection, where there is one."""
    faults = [row.t_ns - row.t_err_ns for row in rows if row.kind == "fault.injected"]
    return _marks(rows, phase, min(faults) if faults else None)


def all_marks(rows: Iterable[Row], phases: Sequence[Phase]) -> tuple[Marks, ...]:
    """Every phase of one run, in their order."""
    wanted = {m.kind.value for phase in phases for m in (phase.start, phase.end)} | {"fault.injected"}
    kept = [row for row in rows if row.kind in wanted]
    return tuple(marks_of(kept, phase) for phase in phases)


def recorded_marks(rows: Iterable[Row], phases: Sequence[Phase], median_ms: float | None) -> tuple[Marks, ...]:
    """all_marks() of a recording, whose receipts are known as calm or not. median_ms: its leases' (None: unknown)."""
    every = list(rows)
    found = all_marks(every, phases)
    if median_ms is None or median_ms > USUAL_MS:
        return found
    receipts = receipts_ns(every)
    return tuple(Marks(_with_calm(marks.start, receipts), _with_calm(marks.end, receipts)) for marks in found)


def _with_calm(mark: Mark | None, receipts: Sequence[int]) -> Mark | None:
    return replace(mark, calm=is_calm(mark.t_ns, receipts)) if mark is not None and mark.received else mark


def receipts_ns(rows: Iterable[Row]) -> list[int]:
    """When the collector's watch told of anything, in order."""
    return sorted(row.t_ns for row in rows if row.actor == "collector")


def is_calm(at_ns: int, receipts: Sequence[int]) -> bool:
    """Was nothing else received before this time (CALM_NS)? Of times from receipts_ns()."""
    return bisect_left(receipts, at_ns - CALM_NS) == bisect_left(receipts, at_ns - WITH_IT_NS)


def _marks(rows: Sequence[Row], phase: Phase, after_ns: int | None) -> Marks:
    start = find(rows, phase.start, after_ns)
    if start is None:
        return Marks(None, None)
    stopped = any(row.kind == "fault.injected" and fault_of(row).get("kind") == "process.freeze" for row in rows)
    own = phase.end.model_copy(update={"nth": 1}) if phase.end == phase.start else phase.end
    later = (row for row in rows if row.seq != start.seq)
    end = find(later, own, start.t_ns - start.t_err_ns)
    return Marks(_mark(start, stopped), None if end is None else _mark(end, stopped))


def _mark(row: Row, stopped: bool) -> Mark:
    """stopped: the run has a process that stands still, and takes what it is asked."""
    cut = row.actor == "apiserver" and row.t_err_ns >= HALF_SECOND
    pinned = row.kind == "fault.injected" and row.actor == "fault"
    low_ns, high_ns = row.t_ns - row.t_err_ns, row.t_ns + row.t_err_ns
    if row.actor == "observer" and _probed(row):
        low_ns, high_ns = _within(row, low_ns, high_ns, stopped)
    err_ns = (high_ns - low_ns) // 2
    received = row.actor == "collector"
    logged, looked = row.t_err_ns == LOG_ERROR_NS and not received, _looked(row, err_ns)
    return Mark(low_ns + err_ns, err_ns, cut, row.seq, pinned, received, logged=logged, looked=looked)


def _probed(row: Row) -> bool:
    """An answer to a probe, not to another request."""
    return row.kind in PROBES and row.details.get("asked") == "livez"


def _within(row: Row, low_ns: int, high_ns: int, stopped: bool) -> tuple[int, int]:
    """Where in the row of a probe the answer can have changed.

    One that timed out met nobody from its own begin on: the change came before that. And one that a stopped process had
    taken ends with that process: who answers the next came after that.
    """
    if row.kind == "client.refused" and row.details.get("error") == "timed out":
        return low_ns, max(high_ns - ASKED_NS, low_ns)
    if row.kind == "client.answered" and stopped:
        return max(low_ns, high_ns - PROBED[0]), high_ns
    return low_ns, high_ns


def _looked(row: Row, err_ns: int) -> bool:
    """Of an answer, that of a probe alone: another request's row says when it was asked, not since when."""
    least_ns, most_ns = LOOKS_NS.get(row.kind, (1, 0))
    if row.actor != "observer" or not least_ns <= 2 * err_ns <= most_ns:
        return False
    return row.kind not in PROBES or _probed(row)
