"""The event loop: what comes next, in the order of engine/environment.py."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from slurmtwin.models.slurmctld.compiled import layout as at
from slurmtwin.models.slurmctld.compiled.jit import compiled, kept, lent
from slurmtwin.models.slurmctld.compiled.layout import Core
from slurmtwin.models.slurmctld.compiled.life import begin, complete, kill, leave, next_arrival, report, submit
from slurmtwin.models.slurmctld.compiled.passes import backfill_look, look, main_pass
from slurmtwin.models.slurmctld.compiled.planning import Plan
from slurmtwin.models.slurmctld.compiled.timers import call_at, pop

_MODULES: Final = (
    "layout", "forms", "jit", "timers", "bitmaps", "events", "life", "node_map", "planning", "passes", "loop",
    "../node_space", "../tables",
)  # fmt: skip
"""What the loop is made of."""


@compiled
def _open(core: Core) -> None:
    """TwinWorld._open(): the users begin."""
    s = core.s
    call_at(s[at.NOW] + s[at.STALL], at.STALLED, 0, s, core.heap)
    s[at.COUNT] += 1
    next_arrival(core)


@compiled
def _happen(what: int, job: int, core: Core) -> bool:
    """One event; False: the twin must play it."""
    s = core.s
    if what == at.ARRIVE:
        submit(core)
        s[at.FEED_AT] += 1
        next_arrival(core)
    elif what == at.BEGIN:
        begin(job, core)
    elif what == at.EXIT:
        leave(job, core)
    elif what == at.REPORT:
        report(job, core)
    elif what == at.EPILOG or what == at.EPILOG_BY_MESSAGE:
        complete(job, what == at.EPILOG_BY_MESSAGE, core)
    elif what == at.KILL:
        kill(job, core)
    elif s[at.NOW] - s[at.MOVED] >= s[at.STALL] and s[at.EXHAUSTED] and not s[at.RUNNING_JOBS]:
        return False
    else:
        call_at(max(s[at.NOW], s[at.MOVED]) + s[at.STALL], at.STALLED, 0, s, core.heap)
    return True


@compiled
def _run(core: Core, plan: Plan) -> int:
    """Play the run on until it is over or needs something: FINISHED, FLUSH, MORE, ROOM or GIVE_UP."""
    s, heap = core.s, core.heap
    while True:
        if s[at.ROWS_USED] + 2 * s[at.PENDING_JOBS] + s[at.RUNNING_JOBS] + s[at.OLD] + 64 > core.rows.shape[0]:
            return at.FLUSH
        hostlists = (min(s[at.PENDING_JOBS], s[at.MAX_TEST]) + 8) * s[at.HOSTLIST_MOST]
        hosts = s[at.NODES] * (2 * s[at.DIGITS] + core.name.size + 8)
        if s[at.TEXT_USED] + hostlists + hosts > core.text.size:
            return at.FLUSH
        now = min(heap[1, 0], s[at.LOOK_AT], s[at.MAIN_AT], s[at.BF_AT])
        what = heap[1, 2]
        if heap[1, 0] == now and what == at.ARRIVE:
            if s[at.FEED_AT] + 1 >= s[at.FEED_SIZE] and not s[at.FEED_LAST]:
                return at.MORE
            if not s[at.SPARE] or s[at.HEAD] + s[at.PENDING_JOBS] == core.pending.size:
                return at.ROOM
            if s[at.RECORDS_IN_MEMORY] >= s[at.MOST_RECORDS_IN_MEMORY] or s[at.NEXT_ID] > s[at.LAST_ID]:
                return at.GIVE_UP
        s[at.NOW] = now
        s[at.NOW_S] = (s[at.EPOCH] + now) // at.NS
        s[at.COUNT] += 1
        if heap[1, 0] == now:
            job = heap[1, 3]
            pop(heap)
            if what == at.STOP:
                if not (s[at.RUNNING_JOBS] or s[at.COMPLETING_JOBS] or s[at.PENDING_JOBS]):
                    return at.FINISHED
                s[at.STOPPING] = 0
            elif not _happen(what, job, core):
                return at.GIVE_UP
        elif s[at.LOOK_AT] == now:
            look(core)
        elif s[at.MAIN_AT] == now:
            main_pass(core, plan)
        else:
            backfill_look(core, plan)


def _entry(sources: int) -> Callable[[Core, Plan], int]:
    """run() for these sources.

    numba keeps compiled code by the text of a function's own file alone. The number is kept with it: so other code is
    looked for as soon as any file has changed that the loop is made of.
    """

    @kept
    def run(core: Core, plan: Plan) -> int:
        """Play the run on until it is over or needs something: FINISHED, FLUSH, MORE, ROOM or GIVE_UP."""
        core.s[at.SOURCES] = sources
        lent_core = Core(
            lent(core.s), lent(core.jobs), lent(core.nodes), lent(core.heap), lent(core.pending), lent(core.running),
            lent(core.limits), lent(core.old), lent(core.spare), lent(core.feed), lent(core.masks),
            lent(core.lengths), lent(core.rows), lent(core.text), lent(core.name),
        )  # fmt: skip
        lent_plan = Plan(
            lent(plan.slots), lent(plan.free), lent(plan.freed), lent(plan.alive), lent(plan.tries), lent(plan.runs),
            lent(plan.rows), lent(plan.order),
        )  # fmt: skip
        if not core.s[at.COUNT]:
            _open(lent_core)
        return _run(lent_core, lent_plan)

    return run


def _sources() -> int:
    """A number of the text of all modules that run() is compiled from."""
    digest = hashlib.blake2b(digest_size=7)
    here = Path(__file__).parent
    for name in _MODULES:
        digest.update((here / f"{name}.py").read_bytes())
    return int.from_bytes(digest.digest(), "big")


run: Final = _entry(_sources())
"""Play a run on until it is over or needs something (layout.FINISHED and the like)."""
