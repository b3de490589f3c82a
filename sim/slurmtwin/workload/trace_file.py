"""What all trace readers share: opening, the account of dropped and altered rows, job numbers, submit order."""

from __future__ import annotations

import gzip
import heapq
import zlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat
from operator import call
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.jobs import FIELD_DEFAULTS, JobRequest

FIRST_PLACES: Final = 5
"""How many places of each reason an account keeps."""
ORDER_WINDOW: Final = 10_000
"""Rows that are held back to put a nearly sorted trace into submit order."""
EPOCH_SECONDS: Final = 100_000_000
"""Submit times above this (3 years) are taken as seconds since 1970, not since the log's start."""
MAX_SECONDS: Final = 10**11
"""No time of a trace is above this (3,000 years): beyond it the number is nonsense."""


@dataclass(slots=True)
class Tally:
    """How often something happened, and where first."""

    count: int = 0
    places: list[Where] = field(default_factory=list)


@dataclass(slots=True)
class ReadAccount:
    """What a reader made of a trace: every row is a job, dropped, or no job row at all."""

    path: str
    format: str
    rows: int = 0
    """Rows that stand for a job (no comments, headers, blank lines)."""
    jobs: int = 0
    """JobRequests handed out."""
    dropped: dict[str, Tally] = field(default_factory=dict)
    """Reason -> rows that became no job."""
    altered: dict[str, Tally] = field(default_factory=dict)
    """Reason -> jobs of which some value was filled in or changed."""
    notes: list[str] = field(default_factory=list)
    """What was found out about the whole file: time base, units, dialect, header against content."""

    def drop(self, reason: str, where: Where) -> None:
        """Count a row that becomes no job."""
        _add(self.dropped, reason, where)

    def alter(self, reason: str, where: Where) -> None:
        """Count a job that differs from its row."""
        _add(self.altered, reason, where)

    @property
    def dropped_rows(self) -> int:
        """Number of rows that became no job."""
        return sum(tally.count for tally in self.dropped.values())

    def as_dict(self) -> dict[str, Any]:
        """The account as JSON: counts and first places per reason."""

        def tallies(table: dict[str, Tally]) -> dict[str, Any]:
            return {r: {"count": t.count, "first": [str(p) for p in t.places]} for r, t in sorted(table.items())}

        return {
            "path": self.path, "format": self.format, "rows": self.rows, "jobs": self.jobs,
            "dropped": tallies(self.dropped), "altered": tallies(self.altered), "notes": list(self.notes),
        }  # fmt: skip


def _add(table: dict[str, Tally], reason: str, where: Where) -> None:
    tally = table.setdefault(reason, Tally())
    tally.count += 1
    if len(tally.places) < FIRST_PLACES:
        tally.places.append(where)


class JobStream:
    """Jobs in submit order, produced while it is iterated; `account` is complete when it is exhausted."""

    def __init__(self, account: ReadAccount, produce: Callable[[], Iterator[JobRequest]]) -> None:
        self.account = account
        self._produce = produce

    def __iter__(self) -> Iterator[JobRequest]:
        account = self.account
        account.rows = account.jobs = 0
        account.dropped, account.altered, account.notes = {}, {}, []
        return self._produce()


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a plain or gzip file, decoded as Latin-1 (never fails; job fields are ASCII).

    Raises InputError with the line when the file cannot be read, is cut short, or is not text.
    """
    number = 0
    try:
        with path.open("rb") as probe:
            head = probe.read(65_536)
        zipped = head[:2] == b"\x1f\x8b"
        if not zipped and b"\0" in head:
            raise InputError("not a text file", Where(str(path), head[: head.index(b"\0")].count(b"\n") + 1))
        opener = gzip.open if zipped else open
        with opener(path, "rt", encoding="latin-1", newline="\n") as stream:
            for line in stream:
                number += 1
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"broken gzip file: {error}", Where(str(path), number + 1)) from error
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read: {reason}", Where(str(path))) from error


class RequestFactory:
    """Makes JobRequests that differ in a few fields, twice as fast as their constructor (a million rows matter).

    The slots are set one by one, past the frozen class's constructor; the result is the same object.
    """

    def __init__(self, *names: str) -> None:
        rest = [name for name in FIELD_DEFAULTS if name not in names]
        slots = [getattr(JobRequest, name) for name in (*names, *rest)]
        self._setters = [slot.__set__ for slot in slots]
        self._defaults = tuple(FIELD_DEFAULTS[name] for name in rest)

    def __call__(self, *values: object) -> JobRequest:
        """The request with these values, in the order of the names; the other fields have their defaults."""
        job = JobRequest.__new__(JobRequest)
        deque(map(call, self._setters, repeat(job), values + self._defaults), 0)
        return job


class JobNumbers:
    """Which job numbers are taken, kept as runs of consecutive numbers: small for any usual trace."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def take(self, number: int) -> bool:
        """Mark a number as used; False when it was."""
        ends = self._ends
        if ends and number == ends[-1] + 1:
            ends[-1] = number
            return True
        at = bisect_right(self._starts, number)
        if at and number <= ends[at - 1]:
            return False
        if at and number == ends[at - 1] + 1:
            ends[at - 1] = number
        else:
            self._starts.insert(at, number)
            ends.insert(at, number)
        return True

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._starts, number)
        return bool(at) and number <= self._ends[at - 1]

    @property
    def highest(self) -> int:
        """The largest number taken; 0 for none."""
        return max(self._ends, default=0)


class TraceReader:
    """One pass over one trace file: what every reader keeps, and what becomes of a broken line."""

    def __init__(self, path: Path, lenient: bool, account: ReadAccount) -> None:
        self.path = path
        self.lenient = lenient
        self.account = account
        self.numbers = JobNumbers()

    def broken(self, error: InputError, where: Where) -> None:
        """Raises the error with its place; a lenient reader drops the line and counts it."""
        if not self.lenient:
            raise error if error.where else error.at(where)
        self.account.drop(f"broken line: {error.message.split(':')[0]}", where)


def in_submit_order(
    jobs: Iterable[tuple[JobRequest, int]], account: ReadAccount, lenient: bool, window: int = ORDER_WINDOW
) -> Iterator[JobRequest]:
    """The jobs (each with its line) sorted by (submit_ns, job_id), holding back at most `window` of them.

    A row that comes later than that is an InputError; with `lenient` it is dropped and counted.
    """
    queue: deque[JobRequest] = deque()
    rows = iter(jobs)
    newest_ns, newest_id = -(10**30), 0
    out: JobRequest | None = None
    room = window
    for job, line in rows:
        submit = job.submit_ns
        if submit <= newest_ns and (submit < newest_ns or job.job_id < newest_id):
            where = Where(account.path, line)
            account.notes.append(f"rows are not in submit order, the first is at {where}: sorted")
            rows = chain([(job, line)], rows)
            break
        newest_ns, newest_id = submit, job.job_id
        queue.append(job)
        if room:
            room -= 1
        else:
            account.jobs += 1
            out = queue.popleft()
            yield out
    else:
        account.jobs += len(queue)
        yield from queue
        return
    held = [(job.submit_ns, job.job_id, job) for job in queue]  # sorted, so a heap
    last = (-(10**30), 0) if out is None else (out.submit_ns, out.job_id)
    for job, line in rows:
        if (job.submit_ns, job.job_id) < last:
            if not lenient:
                raise InputError(
                    f"job {job.job_id} is submitted before jobs that stand more than {window} rows above it",
                    Where(account.path, line), "sort the trace by submit time",
                )  # fmt: skip
            account.drop("far out of submit order", Where(account.path, line))
            continue
        heapq.heappush(held, (job.submit_ns, job.job_id, job))
        if len(held) > window:
            submit, number, ready = heapq.heappop(held)
            last = (submit, number)
            account.jobs += 1
            yield ready
    while held:
        account.jobs += 1
        yield heapq.heappop(held)[2]
