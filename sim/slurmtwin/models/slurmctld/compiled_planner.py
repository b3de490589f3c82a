"""The plain planner on compiled code, for runs that plan a lot (plan_kernel.py has the rules).

Each cycle plans its records anew: here that costs less than finding out which plans still hold.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.slurmctld import plan_kernel as kernel
from slurmtwin.models.slurmctld.node_space import FAR_S
from slurmtwin.models.slurmctld.parts import Refusal
from slurmtwin.models.slurmctld.plain_planner import PlainPlanner
from slurmtwin.models.slurmctld.start_attempt import attempt_start

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.pending_queue import PendingQueue
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

_FIRST_ROOM: Final = 64
_END = attrgetter("end_s")


class CompiledPlanner(PlainPlanner):
    """PlainPlanner with the same answers. Its arrays live on from cycle to cycle."""

    def __init__(self, ctld: Slurmctld, queue: PendingQueue) -> None:
        super().__init__(ctld, queue)
        self._words = -(-len(ctld.nodes) // 64)
        self._most_slots = self._options.node_space_size + 2
        """A reservation cuts at most two slots, and none is made once node_space_size records are used."""
        self._state = np.zeros(kernel.STATE_SIZE, np.int64)
        self._settings = np.zeros(kernel.SETTINGS_SIZE, np.int64)
        self._masks = np.zeros((kernel.MASK_ROWS, self._words), np.uint64)
        self._masks[kernel.ALL] = self._rows([self._everything])[0]
        self._room = 0
        self._make_room(_FIRST_ROOM)

    def _make_room(self, reservations: int) -> None:
        """Arrays for so many reservations; they only grow."""
        if reservations <= self._room:
            return
        self._room = room = max(2 * self._room, reservations)
        slots = min(2 * room + 1, self._most_slots)
        self._space = kernel.Map(
            np.zeros(slots, np.int64), np.zeros(slots, np.int64), np.zeros((slots, self._words), np.uint64),
            np.zeros(slots, np.uint8), np.zeros(slots, np.int64),
        )  # fmt: skip
        self._plans_made = np.zeros((room, 2), np.int64)
        self._nodes_planned = np.zeros((room, self._words), np.uint64)

    def _rows(self, bitmaps: list[int]) -> Any:
        """Bitmaps as rows of words."""
        size = 8 * self._words
        raw = b"".join([bitmap.to_bytes(size, "little") for bitmap in bitmaps])
        return np.frombuffer(raw, np.uint64).reshape(-1, self._words)

    def _plan_all(self, now_s: int) -> None:
        """Plan, start what fits, and go on behind it."""
        queue, state = self._queue, self._state
        wanted, lengths = np.array(queue.wanted), np.array(queue.lengths)
        if not wanted.all():  # a choice rule that is not compiled
            super()._plan_all(now_s)
            return
        self._begin_cycle(now_s, len(wanted))
        told = 0
        outcome = kernel.START
        while outcome == kernel.START:
            outcome = kernel.plan(
                wanted, lengths, self._masks, self._settings, state, self._space, self._running(now_s),
                self._still_alive(), self._plans_made, self._nodes_planned,
            )  # fmt: skip
            told = self._tell_from(told)
            if outcome == kernel.START:
                self._attempt(int(state[kernel.RECORD]))
        self.tested = int(state[kernel.TESTED])
        self.valid_until_s = int(state[kernel.VALID_UNTIL])
        if told:
            self.planned = int.from_bytes(np.bitwise_or.reduce(self._nodes_planned[:told]).tobytes(), "little")

    def _begin_cycle(self, now_s: int, records: int) -> None:
        """An empty map, and what does not change within the cycle."""
        ctld, options, masks = self._ctld, self._options, self._masks
        assert self._base is not None
        _part, everywhere, avail, exact = self._base
        self._make_room(min(records, options.max_job_test))
        rows = self._rows([everywhere, ctld.nodes.completing, everywhere & avail])
        masks[kernel.EVERYWHERE], masks[kernel.COMPLETING] = rows[0], rows[1]
        resolution_s = self._resolution_s
        begin, end, free = self._space[:3]
        begin[0] = now_s // resolution_s * resolution_s
        end[0] = (now_s + self._window_s) // resolution_s * resolution_s
        free[0] = rows[2]
        linear_s = options.window_linear_ns // SECOND
        self._settings[:] = (
            now_s, self._window_s, resolution_s, linear_s, not self._latest, self._latest,
            options.max_job_test, options.node_space_size, exact,
        )  # fmt: skip
        self._state[:] = 0
        self._state[[kernel.SLOTS, kernel.RECORDS, kernel.VALID_UNTIL, kernel.REFUSED]] = (1, 1, FAR_S, -1)

    def _running(self, now_s: int) -> kernel.Running:
        """Expected ends, bitmaps, and for jobs past their end when they are taken to go."""
        guess = self._ctld.selection.guess_end
        jobs = sorted(self._ctld.running.values(), key=_END)
        ends = [job.end_s for job in jobs]
        guesses = [guess(job, now_s) if job.end_s <= now_s else 0 for job in jobs]
        held = self._rows([job.alloc.nodes if job.alloc is not None else 0 for job in jobs])
        freed = np.empty((len(jobs) + 1, self._words), np.uint64)
        return kernel.Running(np.array(ends, np.int64), held, np.array(guesses, np.int64), freed)

    def _still_alive(self) -> Any:
        """Lengths, with the fewest nodes wanted for so long; and the idle nodes into their mask."""
        ctld = self._ctld
        for part, demand in self._queue.demand():
            self._masks[kernel.IDLE] = self._rows([ctld.selection.free_nodes() & ctld.nodes.avail & part.nodes])[0]
            return np.array(demand, np.int64)
        return np.zeros((0, 2), np.int64)

    def _attempt(self, place: int) -> None:
        """Start the record that fits now."""
        ctld, state = self._ctld, self._state
        record = self._queue.entries[place][-1]
        usable = int.from_bytes(self._masks[kernel.USABLE].tobytes(), "little")
        if isinstance(attempt_start(ctld, record.job, record.part, usable, "backfill"), Refusal):
            state[kernel.REFUSED] = place
            return
        ctld.last_job_update_s = ctld.now_s()
        self.started += 1
        state[kernel.TESTED] += 1
        state[kernel.RECORD] = place + 1
        state[kernel.ALIVE] = 0

    def _tell_from(self, told: int) -> int:
        """The reservations made since."""
        entries = self._queue.entries
        made = int(self._state[kernel.RESERVED])
        for number, (place, start_s) in enumerate(self._plans_made[told:made].tolist(), told):
            record = entries[place][-1]
            if record.job.planned_start_s:
                record.job.planned_start_s = start_s
            else:
                self._tell(record, start_s, int.from_bytes(self._nodes_planned[number].tobytes(), "little"))
        return made
