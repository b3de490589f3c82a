"""A plain run from the moment its cluster has booted: state in, jobs in, events out (loop.py plays it)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from slurmtwin.models.slurmctld.compiled import NotPlainError
from slurmtwin.models.slurmctld.compiled import layout as at
from slurmtwin.models.slurmctld.compiled.loop import run
from slurmtwin.models.slurmctld.compiled.planning import workspace
from slurmtwin.models.slurmctld.compiled.table import Block

if TYPE_CHECKING:
    from slurmtwin.contract.jobs import JobRequest
    from slurmtwin.engine.event_sink import EventSink
    from slurmtwin.models.slurmctld.compiled.eligible import JobShapes
    from slurmtwin.models.slurmctld.compiled.handover import Boot

_CHUNK: Final = 16_384
"""Requests read at once."""
_FIRST_JOBS: Final = 4096
_ROWS: Final = 1 << 16
_TEXT: Final = 1 << 23


class CompiledRun:
    """One run; `play` ends with NotPlainError or with the run's last event."""

    def __init__(self, boot: Boot, shapes: JobShapes, requests: Iterator[JobRequest], sink: EventSink) -> None:
        self._shapes = shapes
        self._requests = requests
        self._sink = sink
        self._words = words = boot.masks.shape[1]
        self._room = _FIRST_JOBS
        room = self._room
        self._core = at.Core(
            s=boot.state, jobs=np.zeros((room, at.JOB_FIELDS), np.int64), nodes=np.zeros((room, words), np.uint64),
            heap=np.zeros((3 * room + 8, 4), np.int64), pending=np.zeros(2 * room, np.int64),
            running=np.zeros((room, 2), np.int64),
            limits=np.zeros((room + 2, 4), np.int64), old=np.zeros((room, 2), np.int64),
            spare=np.arange(room - 1, -1, -1, dtype=np.int64), feed=np.zeros((0, at.FEED_FIELDS), np.int64),
            masks=boot.masks, lengths=np.zeros((0, 3), np.int64), rows=np.zeros((_ROWS, at.ROW_FIELDS), np.int64),
            text=np.zeros(max(_TEXT, 1100 * int(boot.state[at.HOSTLIST_MOST])), np.uint8), name=boot.name,
        )  # fmt: skip
        boot.state[at.SPARE] = room
        self._plan = workspace(self._core)

    @property
    def now_ns(self) -> int:
        """Simulated time."""
        return int(self._core.s[at.NOW])

    @property
    def event_count(self) -> int:
        """Events of the engine that were played here."""
        return int(self._core.s[at.COUNT])

    def play(self) -> None:
        """To the end. Raises NotPlainError."""
        self._read()
        while True:
            why = run(self._core, self._plan)
            if why == at.GIVE_UP:
                raise NotPlainError("too many jobs in memory, or a run that does not move")
            if why == at.MORE:
                self._read()
            elif why == at.ROOM:
                self._grow()
            else:
                self._flush()
                if why == at.FINISHED:
                    return

    def _flush(self) -> None:
        core = self._core
        s = core.s
        used, text = int(s[at.ROWS_USED]), int(s[at.TEXT_USED])
        if used:
            self._sink.add_block(Block(core.rows[:used], core.text[:text]))
        s[at.ROWS_USED] = s[at.TEXT_USED] = 0
        need = 2 * (2 * s[at.PENDING_JOBS] + s[at.RUNNING_JOBS] + s[at.OLD] + 64)
        if need > len(core.rows):
            self._core = core._replace(rows=np.zeros((int(2 * need), at.ROW_FIELDS), np.int64))

    def _read(self) -> None:
        """The next jobs into the feed, behind the one that is under way."""
        core = self._core
        s = core.s
        rows: list[tuple[int, ...]] = []
        for request in islice(self._requests, _CHUNK):
            row = self._shapes.row(request)
            if isinstance(row, str):
                raise NotPlainError(f"job {request.job_id}: {row}")
            rows.append(row)
        s[at.FEED_LAST] = len(rows) < _CHUNK
        fresh = np.array(rows, np.int64).reshape(-1, at.FEED_FIELDS)
        feed = np.concatenate([core.feed[int(s[at.FEED_AT]) :], fresh])
        s[at.FEED_AT], s[at.FEED_SIZE] = 0, len(feed)
        self._core = core._replace(feed=feed, lengths=self._lengths())
        if len(self._core.lengths) > len(self._plan.alive):
            self._plan = workspace(self._core)

    def _lengths(self) -> Any:
        """(length, room, place of the n-th shortest)."""
        known = np.array(list(self._shapes.lengths), np.int64)
        self._core.s[at.LENGTHS] = len(known)
        return np.stack([known, np.zeros_like(known), np.argsort(known)], axis=1)

    def _grow(self) -> None:
        """Room for twice as many jobs; the queue begins at its array's begin again."""
        core = self._core
        s = core.s
        head, waiting = int(s[at.HEAD]), int(s[at.PENDING_JOBS])
        queue = core.pending[head : head + waiting].copy()
        s[at.HEAD] = 0
        if s[at.SPARE]:
            core.pending[:waiting] = queue
            return
        room = self._room = 2 * self._room
        old = np.zeros((room, 2), np.int64)
        first, waits = int(s[at.OLD_FIRST]), int(s[at.OLD])
        old[:waits] = np.roll(core.old, -first, axis=0)[:waits]
        s[at.OLD_FIRST] = 0
        pending = np.zeros(2 * room, np.int64)
        pending[:waiting] = queue
        spare = np.zeros(room, np.int64)
        spare[: room // 2] = np.arange(room - 1, room // 2 - 1, -1)
        s[at.SPARE] = room // 2
        self._core = core._replace(
            jobs=_longer(core.jobs, room), nodes=_longer(core.nodes, room), heap=_longer(core.heap, 3 * room + 8),
            pending=pending, running=_longer(core.running, room),
            limits=_longer(core.limits, room + 2), old=old, spare=spare,
        )  # fmt: skip
        self._plan = workspace(self._core)


def _longer(array: Any, size: int) -> Any:
    out = np.zeros((size, *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out
