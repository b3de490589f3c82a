"""The arrays of a compiled run: what each holds, and the names of their places."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

Int = Any
"""An int64."""
Array = Any
"""A numpy array of int64."""
Row = Any
"""A bitmap of nodes: a row of uint64, lowest node first."""
Rows = Any
Bytes = Any
"""A numpy array of uint8."""

NS: Final = 1_000_000_000
NEVER: Final = 1 << 62
"""Later than any time."""


class Core(NamedTuple):
    """Everything a run is made of."""

    s: Array
    """Scalars, see the places of the state below."""
    jobs: Array
    """One row per job in memory; a purged job's row is used again."""
    nodes: Rows
    """Nodes of each job that runs or is COMPLETING."""
    heap: Array
    """(time, order, what, job row) of everything that happens by itself: a binary heap."""
    pending: Array
    """Rows of the pending jobs in queue order, from s[HEAD] on."""
    running: Array
    """(expected end, job row) by expected end."""
    limits: Array
    """(second, serial, job row): jobs that the 30 s scan looks at; a binary heap."""
    old: Array
    """(second, job row): jobs that leave memory then; a ring."""
    spare: Array
    """Free rows of `jobs`; s[SPARE] of them."""
    feed: Array
    """Jobs to come."""
    masks: Rows
    lengths: Array
    """(time limit, fewest nodes) of the pending jobs, per limit that occurred, ascending."""
    rows: Array
    """Events not taken yet."""
    text: Bytes
    """Their node names, one after the other."""
    name: Bytes
    """What every node's name begins with."""


(
    # time
    NOW, NOW_S, EPOCH, ORDER, COUNT,
    # the background loop; DUE and ASKED hold one place per duty
    LOOK_AT, LOOKED, CURRENT, LAG, ANCHOR, DUE, DUE_1, DUE_2, ASKED, ASKED_1, ASKED_2,
    LIMIT_LAST, LIMIT_SERIAL, LIMITS, PURGE_LAST, PURGE_PERIOD, MIN_AGE, OLD, OLD_FIRST,
    # the main scheduler
    MAIN_AT, MAIN_FULL, FREE_AT, FULL_LAST, FULL_PERIOD, FULL_AT, QUEUED, LAST_SCHED, DELAY, OPTIONS_READ, PERIOD_READ,
    DELAY_READ, MIN_INTERVAL, DEPTH,
    MAX_START, DEFERS, MAIN_QUIET, MAIN_QUIET_USAGE, MAIN_QUIET_STAMPS, QUEUE_VERSION, USAGE_VERSION, FRESH_FROM,
    # the backfill scheduler
    BF_ON, BF_AT, BF_ANCHOR, BF_LAST, BF_RUNS, BF_INTERVAL, BF_QUIET, BF_QUIET_UNTIL, BF_PLANNED, BF_TOOK, BF_WAITING,
    BF_START, CHANGES, STAMP_JOB, STAMP_NODE, STAMP_OTHER, FREED,
    # what a cycle needs to know
    WINDOW, RESOLUTION, LINEAR, LATEST, MAX_TEST, MAX_RECORDS, KILL_WAIT, OVER_TIME,
    # host costs
    SUBMIT_COST, LAUNCH_COST, NOTICE_COST, EPILOG_COST, KILL_COST, RPC_COST, BY_MESSAGE,
    # jobs
    HEAD, PENDING_JOBS, RUNNING_JOBS, COMPLETING_JOBS, RECORDS_IN_MEMORY, MOST_RECORDS_IN_MEMORY, NEXT_ID, LAST_ID,
    SPARE, LENGTHS,
    # the users
    FEED_AT, FEED_SIZE, FEED_LAST, ARRIVED, EXHAUSTED, MOVED, STALL, STOPPING, SETTLE,
    # names and events
    NODES, DIGITS, FIRST_NUMBER, HOSTLIST_MOST, ROWS_USED, TEXT_USED, SOURCES,
) = range(104)  # fmt: skip
"""Places of the state. Times without a unit in the name are ns, those that Slurm compares are Unix seconds. FREED: the
usage version that Plan.freed shows, -1: none."""
STATE_SIZE: Final = 104

LIMIT_DUTY, PURGE_DUTY, SCHEDULE_DUTY = range(3)
"""background.py Duty, as far as a plain run has them, in their order."""

ARRIVE, BEGIN, EXIT, REPORT, EPILOG, EPILOG_BY_MESSAGE, KILL, STALLED, STOP = range(9)
"""What happens by itself."""

(
    ID, SLURM_ID, RUN, LIMIT, WANTED, FEWEST, LENGTH, LENGTH_PLACE, STATE, START, END, PLANNED_START, REASON, SCRIPT,
    LIVE, STARTED, UNHEARD, EXIT_CODE, HOST,
) = range(19)  # fmt: skip
"""Fields of a job. WANTED: nodes, -1 for one by first_node(); LENGTH_PLACE: of its limit in Core.lengths; SCRIPT: order
of the event that is planned for its script, -1 for none; HOST: index of its batch host."""
JOB_FIELDS: Final = 19

PENDING, RUNNING, COMPLETING, OVER = range(4)
NO_REASON, RESOURCES, PRIORITY = range(3)

FEED_ID, FEED_SUBMIT, FEED_RUN, FEED_LIMIT, FEED_WANTED, FEED_FEWEST, FEED_LENGTH, FEED_PLACE, FEED_EXIT = range(9)
FEED_FIELDS: Final = 9

ALL, HELD, LEAVING, FREE, CHOSEN, WORK = range(6)
"""Masks: the partition's nodes, those that running jobs hold, those of COMPLETING jobs; the rest is room to work in."""
MASKS: Final = 6

ROW_TIME, ROW_FORM, ROW_JOB, ROW_VALUE, ROW_NUMBER, ROW_TEXT = range(6)
"""Fields of an event: ROW_FORM is its form (forms.py), ROW_NUMBER the number in its detail, ROW_TEXT where its node
ends."""
ROW_FIELDS: Final = 6

FINISHED, FLUSH, MORE, ROOM, GIVE_UP = range(5)
"""Why loop.run() came back: the run is over; the events must be taken; more jobs are wanted; more rows for jobs are
wanted; something happened that only the twin can play."""
