"""What a compiled run takes over from the twin that has booted its cluster: the phase of every timer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.slurmctld.background import BackgroundLoop, Duty
from slurmtwin.models.slurmctld.compiled import layout as at
from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
from slurmtwin.models.slurmctld.scheduler import UNREAD_BATCH_SCHED_DELAY_S, Scheduler

if TYPE_CHECKING:
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

_DUTIES = {Duty.TIME_LIMIT: at.LIMIT_DUTY, Duty.PURGE: at.PURGE_DUTY, Duty.SCHEDULE: at.SCHEDULE_DUTY}


@dataclass(frozen=True, slots=True)
class Boot:
    """The first state of a compiled run."""

    state: Any
    masks: Any
    name: Any


def boot_of(cluster: SlurmCluster, part_index: int, users_ns: int, settle_ns: int, stall_ns: int) -> Boot | str:
    """The state of a cluster that eligible.cluster_reason() passed, or why it cannot be taken over.

    users_ns: when the users begin; settle_ns: from the end of the last job to the end of the run.
    """
    ctld = cluster.ctld
    assert ctld is not None
    state = np.zeros(at.STATE_SIZE, np.int64)
    reason = _loop(ctld, state) or _schedulers(ctld, state)
    if reason is not None:
        return reason
    _options(ctld, state)
    state[at.NOW] = users_ns
    state[at.NOW_S] = (ctld.epoch_ns + users_ns) // SECOND
    state[at.STALL], state[at.SETTLE] = stall_ns, settle_ns
    prefix, digits, first, count = ctld.nodes.series
    words = -(-count // 64)
    masks = np.zeros((at.MASKS, words), np.uint64)
    nodes = list(ctld.partitions.values())[part_index].nodes
    masks[at.ALL] = np.frombuffer(nodes.to_bytes(8 * words, "little"), np.uint64)
    state[at.NODES], state[at.DIGITS], state[at.FIRST_NUMBER] = count, digits, first
    state[at.HOSTLIST_MOST] = len(prefix.encode()) + 8 + (count // 2 + 1) * (digits + 2)
    return Boot(state, masks, np.frombuffer(prefix.encode(), np.uint8))


def _loop(ctld: Slurmctld, s: Any) -> str | None:
    """The background loop and its duties."""
    loop, lifecycle = ctld.background, ctld.lifecycle
    assert isinstance(loop, BackgroundLoop)
    assert isinstance(lifecycle, Lifecycle)
    phase = loop.phase()
    s[at.EPOCH] = ctld.epoch_ns
    s[at.LAG], s[at.ANCHOR], s[at.LOOKED], s[at.CURRENT] = phase.lag_ns, phase.anchor_ns, phase.looked_ns, -1
    s[at.LOOK_AT] = phase.next_ns if phase.next_ns is not None else at.NEVER
    for place in range(3):
        s[at.DUE + place] = s[at.ASKED + place] = at.NEVER
    for duty, (due_ns, asked_s) in phase.due.items():
        if duty not in _DUTIES:
            return f"{duty.name.lower()} is due"
        s[at.DUE + _DUTIES[duty]], s[at.ASKED + _DUTIES[duty]] = due_ns, asked_s
    s[at.LIMIT_LAST], s[at.PURGE_LAST] = lifecycle.limits.last_s, lifecycle.purge.last_s
    s[at.PURGE_PERIOD], s[at.MIN_AGE] = lifecycle.purge.interval_s, lifecycle.purge.min_age_s
    return None


def _schedulers(ctld: Slurmctld, s: Any) -> str | None:
    schedulers = ctld.schedulers
    assert isinstance(schedulers, Scheduler)
    main, backfill = schedulers.phase(), schedulers.backfill.phase()
    if main is None or backfill is None:
        return "a scheduler is at work"
    s[at.FULL_LAST], s[at.FULL_PERIOD], s[at.FULL_AT] = main.full_last_s, main.full_period_s, main.full_at_s
    s[at.QUEUED], s[at.LAST_SCHED], s[at.OPTIONS_READ] = main.queued, main.last_s, main.options_read
    s[at.FREE_AT], s[at.MAIN_FULL], s[at.DEFERS] = main.free_at_ns, main.full_requested, main.defers
    s[at.MAIN_AT] = main.next_ns if main.next_ns is not None else at.NEVER
    s[at.MAIN_QUIET] = s[at.BF_QUIET] = -1
    s[at.BF_ON] = 1
    s[at.BF_AT] = backfill.next_ns if backfill.next_ns is not None else at.NEVER
    s[at.BF_ANCHOR], s[at.BF_LAST] = backfill.anchor_ns, backfill.last_s
    s[at.STAMP_JOB], s[at.STAMP_NODE] = ctld.last_job_update_s, ctld.last_node_update_s
    s[at.STAMP_OTHER] = max(ctld.last_part_update_s, ctld.last_resv_update_s)
    return None


def _options(ctld: Slurmctld, s: Any) -> None:
    conf, costs = ctld.conf, ctld.costs
    options, backfill, controller = conf.scheduler, conf.scheduler.backfill, conf.controller
    min_ns = options.min_interval_ns
    s[at.MIN_INTERVAL] = min_ns + 1000 if min_ns else 0
    s[at.PERIOD_READ] = options.interval_ns // SECOND
    s[at.DELAY_READ] = options.batch_sched_delay_ns // SECOND
    s[at.DELAY] = s[at.DELAY_READ] if s[at.OPTIONS_READ] else UNREAD_BATCH_SCHED_DELAY_S
    s[at.DEPTH], s[at.MAX_START] = options.default_queue_depth, options.max_job_start
    s[at.BF_INTERVAL] = backfill.interval_ns
    s[at.BF_WAITING], s[at.BF_START] = costs.backfill_waiting_ns, costs.backfill_start_ns
    s[at.WINDOW], s[at.RESOLUTION] = backfill.window_ns // SECOND, backfill.resolution_ns // SECOND
    s[at.LINEAR], s[at.LATEST] = backfill.window_linear_ns // SECOND, conf.version == "26.05"
    s[at.MAX_TEST], s[at.MAX_RECORDS] = backfill.max_job_test, backfill.node_space_size
    s[at.KILL_WAIT] = conf.timers.kill_wait_ns // SECOND
    s[at.OVER_TIME] = conf.timers.over_time_limit_ns // SECOND
    s[at.SUBMIT_COST], s[at.NOTICE_COST], s[at.RPC_COST] = costs.submit_rpc_ns, costs.exit_notice_ns, costs.rpc_ns
    s[at.LAUNCH_COST] = costs.launch_ns + (costs.prolog_ns if controller.prolog else 0)
    s[at.EPILOG_COST] = costs.epilog_ns + (costs.epilog_script_ns if controller.epilog else 0)
    s[at.KILL_COST], s[at.BY_MESSAGE] = costs.kill_ns, controller.epilog or costs.epilog_by_message
    s[at.MOST_RECORDS_IN_MEMORY], s[at.LAST_ID] = controller.max_job_count, controller.max_job_id
    s[at.NEXT_ID] = max(ctld.store.next_job_id, controller.first_job_id)
