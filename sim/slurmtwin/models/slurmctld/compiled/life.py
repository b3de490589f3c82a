"""A job's life: submission, start, end, and what each tells the schedulers.

Follows job_submit.py, job_start.py, slurmd/batch_job.py, job_end.py, time_limit.py, job_purge.py and
node_lifecycle.py for plain jobs on well nodes.
"""

from __future__ import annotations

from slurmtwin.models.slurmctld.compiled import forms
from slurmtwin.models.slurmctld.compiled import layout as at
from slurmtwin.models.slurmctld.compiled.events import emit, lowest, write_host, write_hostlist
from slurmtwin.models.slurmctld.compiled.jit import compiled
from slurmtwin.models.slurmctld.compiled.layout import Array, Core, Int
from slurmtwin.models.slurmctld.compiled.timers import (
    arm,
    call_at,
    cancel,
    coming_s,
    first_look,
    has_come,
    next_s,
    pop,
    push,
)
from slurmtwin.models.slurmctld.tables import INFINITE_S

_INFINITE = INFINITE_S


# --- the schedulers are told


@compiled
def wake(s: Array) -> None:
    """BackfillAgent.wake()."""
    if s[at.BF_AT] != at.NEVER or s[at.BF_RUNS] or not s[at.BF_ON]:
        return
    here = s[at.BF_ANCHOR]
    if here < s[at.NOW]:
        here += (s[at.NOW] - here + at.NS - 1) // at.NS * at.NS
    s[at.BF_AT] = here


@compiled
def stamp_job(s: Array) -> None:
    """last_job_update."""
    s[at.STAMP_JOB] = s[at.NOW_S]
    wake(s)


@compiled
def stamp_node(s: Array) -> None:
    """last_node_update."""
    s[at.STAMP_NODE] = s[at.NOW_S]
    wake(s)


@compiled
def _full_look_is_over(s: Array) -> bool:
    full_s = s[at.FULL_AT]
    if s[at.NOW_S] != full_s:
        return bool(s[at.NOW_S] > full_s)
    return has_come(first_look(full_s, full_s * at.NS - s[at.EPOCH] - 1, s), s)


@compiled
def loop_called_s(s: Array) -> Int:
    """Scheduler._loop_called_s()."""
    return max(s[at.LAST_SCHED], s[at.FULL_AT] - s[at.FULL_PERIOD])


@compiled
def arm_passes(s: Array) -> None:
    """Scheduler._arm()."""
    if s[at.NOW_S] >= s[at.FULL_AT] and _full_look_is_over(s):
        s[at.FULL_AT] = coming_s(s[at.FULL_LAST], s[at.FULL_PERIOD], s)
    if s[at.QUEUED]:
        arm(at.SCHEDULE_DUTY, loop_called_s(s) + s[at.DELAY], s)
    if s[at.PENDING_JOBS]:
        arm(at.SCHEDULE_DUTY, s[at.FULL_AT], s)


@compiled
def queue_pass(s: Array) -> None:
    """Scheduler.queue_pass()."""
    s[at.QUEUED] += 1
    arm_passes(s)


@compiled
def ask_for_pass(full: bool, s: Array) -> None:
    """Scheduler._schedule()."""
    if full:
        s[at.MAIN_FULL] = 1
    if s[at.MAIN_AT] == at.NEVER:
        s[at.MAIN_AT] = max(s[at.NOW], s[at.FREE_AT])


# --- submission


@compiled
def submit(core: Core) -> None:
    """The next job of the users arrives (Submission.submit(), PendingQueue.add())."""
    s, jobs = core.s, core.jobs
    asked = core.feed[s[at.FEED_AT]]
    s[at.SPARE] -= 1
    job = core.spare[s[at.SPARE]]
    s[at.NEXT_ID] += 1
    s[at.RECORDS_IN_MEMORY] += 1
    own = jobs[job]
    own[at.ID], own[at.SLURM_ID] = asked[at.FEED_ID], s[at.NEXT_ID] - 1
    own[at.RUN], own[at.LIMIT] = asked[at.FEED_RUN], asked[at.FEED_LIMIT]
    own[at.WANTED], own[at.FEWEST], own[at.LENGTH] = asked[at.FEED_WANTED], asked[at.FEED_FEWEST], asked[at.FEED_LENGTH]
    own[at.LENGTH_PLACE], own[at.EXIT_CODE] = asked[at.FEED_PLACE], asked[at.FEED_EXIT]
    own[at.STATE], own[at.REASON], own[at.PLANNED_START], own[at.SCRIPT] = at.PENDING, at.NO_REASON, 0, -1
    own[at.LIVE], own[at.STARTED], own[at.UNHEARD] = 1, 0, 1
    emit(forms.SUBMITTED, own[at.ID], 0, own[at.SLURM_ID], s, core.rows)
    stamp_job(s)
    core.pending[s[at.HEAD] + s[at.PENDING_JOBS]] = job
    s[at.PENDING_JOBS] += 1
    s[at.QUEUE_VERSION] += 1
    s[at.CHANGES] += 1
    arm_passes(s)
    queue_pass(s)


@compiled
def next_arrival(core: Core) -> None:
    """JobFeed._next()."""
    s = core.s
    if s[at.FEED_AT] < s[at.FEED_SIZE]:
        s[at.ARRIVED] = max(s[at.ARRIVED], core.feed[s[at.FEED_AT], at.FEED_SUBMIT] + s[at.SUBMIT_COST])
        call_at(s[at.ARRIVED], at.ARRIVE, 0, s, core.heap)
    else:
        s[at.EXHAUSTED] = 1
        maybe_over(s, core.heap)


@compiled
def maybe_over(s: Array, heap: Array) -> None:
    """TwinWorld._maybe_over()."""
    s[at.MOVED] = s[at.NOW]
    if s[at.STOPPING] or not s[at.EXHAUSTED] or s[at.RUNNING_JOBS] or s[at.COMPLETING_JOBS] or s[at.PENDING_JOBS]:
        return
    s[at.STOPPING] = 1
    call_at(s[at.NOW] + s[at.SETTLE], at.STOP, 0, s, heap)


# --- start


@compiled
def leave_queue(place: int, core: Core) -> None:
    """The record at that place of the queue goes (PendingQueue.remove())."""
    s, pending = core.s, core.pending
    here = s[at.HEAD] + place
    if place < s[at.PENDING_JOBS] >> 1:
        for i in range(here, s[at.HEAD], -1):
            pending[i] = pending[i - 1]
        s[at.HEAD] += 1
    else:
        for i in range(here, s[at.HEAD] + s[at.PENDING_JOBS] - 1):
            pending[i] = pending[i + 1]
    s[at.PENDING_JOBS] -= 1
    s[at.QUEUE_VERSION] += 1
    s[at.CHANGES] += 1


@compiled
def start(place: int, form: int, core: Core) -> None:
    """The job at that place of the queue starts on the nodes of masks[CHOSEN] (JobStart.start(), BatchJob.launch())."""
    s, jobs, masks, running = core.s, core.jobs, core.masks, core.running
    job = core.pending[s[at.HEAD] + place]
    own, count = jobs[job], abs(jobs[job, at.WANTED])
    leave_queue(place, core)
    now_s = s[at.NOW_S]
    for i in range(masks.shape[1]):
        core.nodes[job, i] = masks[at.CHOSEN, i]
        masks[at.HELD, i] |= masks[at.CHOSEN, i]
    own[at.STATE], own[at.REASON], own[at.START], own[at.PLANNED_START] = at.RUNNING, at.NO_REASON, now_s, 0
    end_s = now_s + (own[at.LIMIT] if own[at.LIMIT] >= 0 else _INFINITE)
    own[at.END] = end_s
    here = s[at.RUNNING_JOBS]
    while here > 0 and running[here - 1, 0] > end_s:
        running[here, 0], running[here, 1] = running[here - 1, 0], running[here - 1, 1]
        here -= 1
    running[here, 0], running[here, 1] = end_s, job
    s[at.RUNNING_JOBS] += 1
    s[at.USAGE_VERSION] += 1
    s[at.CHANGES] += 1
    stamp_node(s)
    stamp_job(s)
    write_hostlist(masks[at.CHOSEN], count, s, core.text, core.name)
    emit(form, own[at.ID], count, 0, s, core.rows)
    own[at.HOST] = lowest(masks[at.CHOSEN])
    own[at.SCRIPT] = call_at(s[at.NOW] + s[at.LAUNCH_COST], at.BEGIN, job, s, core.heap)
    _watch(job, s[at.NOW] + s[at.LAUNCH_COST], core)


# --- the 30 s scan


@compiled
def _watch(job: int, begun_ns: int, core: Core) -> None:
    """TimeLimits.watch()."""
    s, own = core.s, core.jobs[job]
    due_s = own[at.END] + s[at.OVER_TIME]
    if own[at.LIMIT] < 0 or begun_ns + own[at.RUN] + s[at.NOTICE_COST] < due_s * at.NS - s[at.EPOCH]:
        return
    s[at.LIMIT_SERIAL] += 1
    push(core.limits, due_s, s[at.LIMIT_SERIAL], job, own[at.SLURM_ID])
    _arm_limits(core)


@compiled
def _arm_limits(core: Core) -> None:
    s = core.s
    if core.limits[0, 2]:
        arm(at.LIMIT_DUTY, next_s(s[at.LIMIT_LAST], 30, core.limits[1, 0], s), s)


@compiled
def scan_limits(core: Core) -> None:
    """TimeLimits.scan()."""
    s, jobs, limits = core.s, core.jobs, core.limits
    s[at.LIMIT_LAST] = now_s = s[at.NOW_S]
    while limits[0, 2] and limits[1, 0] <= now_s:
        job, slurm_id = limits[1, 2], limits[1, 3]
        pop(limits)
        if jobs[job, at.STATE] == at.RUNNING and jobs[job, at.SLURM_ID] == slurm_id:
            _finish(job, forms.TIMED_OUT, 0, core)  # nothing moves a plain job's end: it was due
    _arm_limits(core)


# --- the script


@compiled
def begin(job: int, core: Core) -> None:
    """BatchJob._begin()."""
    s, own = core.s, core.jobs[job]
    own[at.STARTED] = 1
    write_host(own[at.HOST], s, core.text, core.name)
    emit(forms.SCRIPT_STARTED, own[at.ID], 0, 0, s, core.rows)
    own[at.SCRIPT] = call_at(s[at.NOW] + own[at.RUN], at.EXIT, job, s, core.heap)


@compiled
def leave(job: int, core: Core) -> None:
    """BatchJob._exit()."""
    s, own = core.s, core.jobs[job]
    own[at.LIVE] = 0
    write_host(own[at.HOST], s, core.text, core.name)
    emit(forms.SCRIPT_ENDED, own[at.ID], 0, own[at.EXIT_CODE], s, core.rows)
    own[at.SCRIPT] = call_at(s[at.NOW] + s[at.NOTICE_COST], at.REPORT, job, s, core.heap)


@compiled
def report(job: int, core: Core) -> None:
    """BatchJob._tell(), JobEnd.batch_complete()."""
    s, own = core.s, core.jobs[job]
    if not own[at.UNHEARD]:
        return
    own[at.UNHEARD] = 0
    if own[at.STATE] != at.RUNNING:
        return
    if own[at.EXIT_CODE]:
        _finish(job, forms.FAILED, own[at.EXIT_CODE], core)
    elif own[at.END] + s[at.OVER_TIME] < s[at.NOW_S]:
        _finish(job, forms.TIMED_OUT, 0, core)
    else:
        _finish(job, forms.COMPLETED_WELL, 0, core)


@compiled
def kill(job: int, core: Core) -> None:
    """BatchJob.kill()."""
    s, own = core.s, core.jobs[job]
    own[at.UNHEARD] = 0
    if not own[at.LIVE]:
        return
    own[at.LIVE] = 0
    cancel(own[at.SCRIPT], core.heap)
    if own[at.STARTED]:
        write_host(own[at.HOST], s, core.text, core.name)
        emit(forms.SCRIPT_KILLED, own[at.ID], 0, 0, s, core.rows)


# --- end


@compiled
def _finish(job: int, form: int, exit_code: int, core: Core) -> None:
    """JobEnd.finish(), JobEnd._terminate()."""
    s, own, masks, running = core.s, core.jobs[job], core.masks, core.running
    last = s[at.RUNNING_JOBS] - 1
    here = 0
    while running[here, 1] != job:
        here += 1
    for i in range(here, last):
        running[i, 0], running[i, 1] = running[i + 1, 0], running[i + 1, 1]
    s[at.RUNNING_JOBS] = last
    s[at.COMPLETING_JOBS] += 1
    own[at.STATE], own[at.END] = at.COMPLETING, s[at.NOW_S]
    for i in range(masks.shape[1]):
        masks[at.HELD, i] &= ~core.nodes[job, i]
        masks[at.LEAVING, i] |= core.nodes[job, i]
    s[at.USAGE_VERSION] += 1
    s[at.CHANGES] += 1
    stamp_node(s)
    stamp_job(s)
    emit(form, own[at.ID], 0, exit_code, s, core.rows)
    cost, what = s[at.EPILOG_COST], at.EPILOG_BY_MESSAGE if s[at.BY_MESSAGE] else at.EPILOG
    if own[at.UNHEARD]:
        call_at(s[at.NOW] + s[at.RPC_COST], at.KILL, job, s, core.heap)
        cost += s[at.KILL_COST]
        what = at.EPILOG_BY_MESSAGE
    call_at(s[at.NOW] + cost, what, job, s, core.heap)


@compiled
def complete(job: int, by_message: bool, core: Core) -> None:
    """JobEnd._completed(), Lifecycle.left()."""
    s, own, masks = core.s, core.jobs[job], core.masks
    own[at.STATE] = at.OVER
    s[at.COMPLETING_JOBS] -= 1
    for i in range(masks.shape[1]):
        masks[at.LEAVING, i] &= ~core.nodes[job, i]
    s[at.CHANGES] += 1
    stamp_node(s)
    stamp_job(s)
    emit(forms.COMPLETED, own[at.ID], 0, 0, s, core.rows)
    if s[at.MIN_AGE]:
        _grow_old(job, own[at.END] + s[at.MIN_AGE], core)
    maybe_over(s, core.heap)
    if by_message and not s[at.DEFERS]:
        ask_for_pass(False, s)
    else:
        queue_pass(s)


# --- the 60 s purge


@compiled
def _grow_old(job: int, due_s: int, core: Core) -> None:
    """Purge.finished()."""
    s, old = core.s, core.old
    size = old.shape[0]
    place = s[at.OLD]
    s[at.OLD] += 1
    while place > 0:
        before = (s[at.OLD_FIRST] + place - 1) % size
        if old[before, 0] <= due_s:
            break
        here = (s[at.OLD_FIRST] + place) % size
        old[here, 0], old[here, 1] = old[before, 0], old[before, 1]
        place -= 1
    here = (s[at.OLD_FIRST] + place) % size
    old[here, 0], old[here, 1] = due_s, job
    if not place:
        _arm_purge(core)


@compiled
def _arm_purge(core: Core) -> None:
    s = core.s
    if s[at.OLD]:
        arm(at.PURGE_DUTY, next_s(s[at.PURGE_LAST], s[at.PURGE_PERIOD], core.old[s[at.OLD_FIRST], 0], s), s)


@compiled
def purge(core: Core) -> None:
    """Purge.scan()."""
    s, old = core.s, core.old
    s[at.PURGE_LAST] = now_s = s[at.NOW_S]
    while s[at.OLD] and old[s[at.OLD_FIRST], 0] <= now_s:
        job = old[s[at.OLD_FIRST], 1]
        s[at.OLD_FIRST] = (s[at.OLD_FIRST] + 1) % old.shape[0]
        s[at.OLD] -= 1
        s[at.RECORDS_IN_MEMORY] -= 1
        core.spare[s[at.SPARE]] = job
        s[at.SPARE] += 1
        emit(forms.PURGED, core.jobs[job, at.ID], 0, 0, s, core.rows)
    _arm_purge(core)
