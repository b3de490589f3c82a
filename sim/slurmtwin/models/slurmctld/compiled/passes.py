"""The schedulers: when the main pass and backfill cycles run, and what they do.

Follows scheduler.py, main_pass.py, backfill.py and compiled_planner.py for one partition of equal one-CPU nodes.
"""

from __future__ import annotations

from slurmtwin.models.slurmctld.compiled import forms
from slurmtwin.models.slurmctld.compiled import layout as at
from slurmtwin.models.slurmctld.compiled.bitmaps import choose, count_free
from slurmtwin.models.slurmctld.compiled.events import emit
from slurmtwin.models.slurmctld.compiled.jit import compiled
from slurmtwin.models.slurmctld.compiled.layout import Array, Core, Int
from slurmtwin.models.slurmctld.compiled.life import (
    arm_passes,
    ask_for_pass,
    loop_called_s,
    purge,
    scan_limits,
    stamp_job,
    start,
    wake,
)
from slurmtwin.models.slurmctld.compiled.planning import Plan, plan_all
from slurmtwin.models.slurmctld.compiled.timers import coming_s, next_s

# --- the background loop


@compiled
def look(core: Core) -> None:
    """BackgroundLoop._look()."""
    s = core.s
    s[at.LOOKED] = s[at.NOW]
    s[at.LOOK_AT] = at.NEVER
    for duty in range(3):
        if s[at.DUE + duty] <= s[at.NOW]:
            s[at.DUE + duty] = s[at.ASKED + duty] = at.NEVER
            s[at.CURRENT] = duty
            if duty == at.LIMIT_DUTY:
                scan_limits(core)
            elif duty == at.PURGE_DUTY:
                purge(core)
            else:
                _schedule_duty(s)
    s[at.CURRENT] = -1
    for duty in range(3):
        s[at.LOOK_AT] = min(s[at.LOOK_AT], s[at.DUE + duty])


@compiled
def _schedule_duty(s: Array) -> None:
    """Scheduler._at_look()."""
    now_s = s[at.NOW_S]
    if now_s >= s[at.FULL_AT]:
        s[at.FULL_LAST] = now_s
        s[at.FULL_AT] = next_s(now_s, s[at.FULL_PERIOD], 0, s)
        s[at.QUEUED] = 0
        s[at.LAST_SCHED] = now_s
        ask_for_pass(True, s)
    elif s[at.QUEUED] and now_s - loop_called_s(s) >= s[at.DELAY]:
        s[at.QUEUED] = 0
        s[at.LAST_SCHED] = now_s
        ask_for_pass(False, s)
    arm_passes(s)


# --- the main pass


@compiled
def main_pass(core: Core, plan: Plan) -> None:
    """Scheduler._run()."""
    s = core.s
    s[at.MAIN_AT] = at.NEVER
    full = s[at.MAIN_FULL]
    s[at.MAIN_FULL] = 0
    if not s[at.OPTIONS_READ]:  # Scheduler._read_options()
        s[at.OPTIONS_READ] = 1
        s[at.FULL_PERIOD], s[at.DELAY] = s[at.PERIOD_READ], s[at.DELAY_READ]
        s[at.FULL_AT] = coming_s(s[at.FULL_LAST], s[at.FULL_PERIOD], s)
    waiting = s[at.PENDING_JOBS]
    if not waiting:
        return
    known = False
    queue, usage = s[at.QUEUE_VERSION], s[at.USAGE_VERSION]
    if full:
        # a fresh reason behind the first record: the pass has something to say
        last = core.pending[s[at.HEAD] + waiting - 1]
        known = waiting == 1 or core.jobs[last, at.SLURM_ID] < s[at.FRESH_FROM]
        if known and s[at.MAIN_QUIET] == queue and s[at.MAIN_QUIET_USAGE] == usage:
            if s[at.MAIN_QUIET_STAMPS]:
                stamp_job(s)
            s[at.FREE_AT] = s[at.NOW] + s[at.MIN_INTERVAL]
            return
    started = _pass(full, core, plan)
    s[at.MAIN_QUIET], s[at.MAIN_QUIET_USAGE] = (queue, usage) if known and not started else (-1, -1)
    s[at.MAIN_QUIET_STAMPS] = s[at.PENDING_JOBS] > 1


@compiled
def _pass(full: bool, core: Core, plan: Plan) -> int:
    """Scheduler._pass(), MainPass.run()."""
    s, jobs, masks = core.s, core.jobs, core.masks
    started = tested = depth = 0
    while s[at.PENDING_JOBS]:
        if s[at.MAX_START] and started >= s[at.MAX_START]:
            break
        if not full:
            depth += 1
            if depth > s[at.DEPTH] + 1:
                break
        job = core.pending[s[at.HEAD]]
        count = abs(jobs[job, at.WANTED])
        tested += 1
        if count_free(core) < count:
            if jobs[job, at.REASON] != at.RESOURCES:
                jobs[job, at.REASON] = at.RESOURCES
                emit(forms.PENDING_RESOURCES, jobs[job, at.ID], 0, 0, s, core.rows)
            _leave_rest(full, depth, core)
            break
        choose(masks, at.FREE, jobs[job, at.WANTED], plan.runs, masks, at.CHOSEN)
        start(0, forms.STARTED_BY_MAIN, core)
        started += 1
    if started:
        stamp_job(s)
    emit(forms.MAIN_PASS, 0, tested, started, s, core.rows)
    s[at.FREE_AT] = s[at.NOW] + s[at.MIN_INTERVAL]
    return started


@compiled
def _leave_rest(full: bool, depth: int, core: Core) -> None:
    """MainPass._leave_rest(): behind the first record that does not fit, fresh reasons become Priority.

    Fresh are always the last of the queue, from number s[FRESH_FROM] on.
    """
    s, jobs, pending = core.s, core.jobs, core.pending
    waiting = s[at.PENDING_JOBS]
    left = waiting if full else s[at.DEPTH] + 1 - depth
    if left <= 0 or waiting == 1:
        return
    stamp_job(s)
    last = min(left, waiting - 1)
    place = last
    while place > 0 and jobs[pending[s[at.HEAD] + place], at.SLURM_ID] >= s[at.FRESH_FROM]:
        place -= 1
    for here in range(place + 1, last + 1):
        job = pending[s[at.HEAD] + here]
        jobs[job, at.REASON] = at.PRIORITY
        emit(forms.PENDING_PRIORITY, jobs[job, at.ID], 0, 0, s, core.rows)
        s[at.FRESH_FROM] = jobs[job, at.SLURM_ID] + 1


# --- backfill


@compiled
def backfill_look(core: Core, plan: Plan) -> None:
    """BackfillAgent._at_look(), _begin() and _resume()."""
    s = core.s
    s[at.BF_AT] = at.NEVER
    if s[at.NOW_S] - s[at.BF_LAST] < s[at.BF_INTERVAL] // at.NS:
        s[at.BF_ANCHOR] = s[at.NOW] + at.NS
        wake(s)
        return
    if not _more_work(s):
        return
    s[at.BF_TOOK] = 0
    s[at.BF_RUNS] = 1
    _cycle(core, plan)
    s[at.BF_RUNS] = 0
    over = s[at.NOW] + s[at.BF_TOOK]
    s[at.BF_ANCHOR] = over + s[at.BF_INTERVAL]
    s[at.BF_LAST] = (s[at.EPOCH] + over) // at.NS
    if _more_work(s):
        wake(s)


@compiled
def _more_work(s: Array) -> bool:
    return bool(max(s[at.STAMP_JOB], s[at.STAMP_NODE], s[at.STAMP_OTHER]) >= s[at.BF_LAST])


@compiled
def _host_cost(started: int, s: Array) -> Int:
    return s[at.BF_WAITING] * min(s[at.PENDING_JOBS] + started, s[at.MAX_TEST]) + s[at.BF_START] * started


@compiled
def _cycle(core: Core, plan: Plan) -> None:
    """BackfillAgent._cycle()."""
    s = core.s
    if s[at.BF_PLANNED]:
        s[at.STAMP_NODE] = s[at.NOW_S]
    if not s[at.PENDING_JOBS]:
        s[at.BF_PLANNED] = 0
        return
    if s[at.BF_QUIET] == s[at.CHANGES] and s[at.NOW_S] < s[at.BF_QUIET_UNTIL]:
        s[at.BF_TOOK] = _host_cost(0, s)
        return
    tested, started, valid_s, planned = plan_all(core, plan)
    s[at.BF_PLANNED] = planned
    if planned:
        s[at.STAMP_NODE] = s[at.NOW_S]
    s[at.BF_QUIET] = -1 if started else s[at.CHANGES]
    s[at.BF_QUIET_UNTIL] = valid_s
    emit(forms.BACKFILL_CYCLE, 0, tested, started, s, core.rows)
    s[at.BF_TOOK] = _host_cost(started, s)
