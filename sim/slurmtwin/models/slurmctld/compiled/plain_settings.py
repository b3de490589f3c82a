"""Settings of a cluster that a compiled run knows: a closed list. Any other must be what the version has by default.

So a setting that is new to the twin is refused to compiled code until somebody has taught it, or has said here that no
plain run can tell.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from slurmtwin.contract.cluster import ClusterConf, PartitionConf
    from slurmtwin.models.slurmctld.host_costs import HostCosts

READ: Final = {
    "scheduler": {
        "interval_ns", "batch_sched_delay_ns", "min_interval_ns", "default_queue_depth", "max_job_start", "defer",
        "defer_batch",
    },
    "scheduler.backfill": {
        "interval_ns", "window_ns", "resolution_ns", "max_job_test", "node_space_size", "window_linear_ns",
    },
    "timers": {"kill_wait_ns", "min_job_age_ns", "over_time_limit_ns"},
    "controller": {"prolog", "epilog", "max_job_count", "first_job_id", "max_job_id"},
}  # fmt: skip
"""Handed to the loop (handover.py)."""

UNSEEN: Final = {
    "scheduler": {
        "max_sched_time_ns", "build_queue_timeout_ns", "requeue_delay_ns", "nohold_on_prolog_fail", "time_slice_ns",
    },
    "scheduler.backfill": {
        "max_time_ns", "continue_", "yield_interval_ns", "yield_sleep_ns", "max_job_array_resv", "hetjob_immediate",
        "hetjob_prio",
    },
    "timers": {
        "message_timeout_ns", "tcp_timeout_ns", "slurmd_timeout_ns", "slurmctld_timeout_ns", "inactive_limit_ns",
        "batch_start_timeout_ns", "unkillable_step_timeout_ns", "epilog_msg_time_ns", "cred_expire_ns",
        "health_check_node_state", "resume_timeout_ns", "suspend_timeout_ns",
    },
    "controller": {
        "cluster_name", "hosts", "return_to_service", "job_requeue", "max_batch_requeue", "max_array_size",
        "tree_width", "max_dbd_msgs", "max_dbd_msg_action", "kill_invalid_depend", "max_depend_depth",
        "no_addr_cache", "no_backup_scheduling", "enforce_part_limits", "gres_types", "licenses", "reboot_program",
    },
}  # fmt: skip
"""No plain run can tell: passes take no time in it, nothing is silent, requeued, an array or a hetjob; a request that
is refused at submit is not plain."""

JUDGED: Final = ("select", "priority")
"""Sections that eligible.py asks the twin's own parts about."""
CLOSED: Final = ("scheduler", "scheduler.backfill", "timers", "controller", "preempt")
"""Sections of which every other setting must be the default."""
EMPTY: Final = ("switches", "qos", "assocs")

PARTITION_UNSEEN: Final = frozenset(
    {
        "name", "nodes", "default", "hidden", "priority_tier", "priority_job_factor", "tres_billing_weights",
        "grace_time_ns", "over_subscribe_count",
    }
)  # fmt: skip

COSTS_READ: Final = frozenset(
    {
        "submit_rpc_ns", "launch_ns", "exit_notice_ns", "epilog_ns", "epilog_by_message", "kill_ns", "rpc_ns",
        "backfill_waiting_ns", "backfill_start_ns", "prolog_ns", "epilog_script_ns",
    }
)  # fmt: skip
COSTS_UNSEEN: Final = frozenset({"loop_lag_ns", "slurmctld_start_ns", "decay_start_ns", "slurmd_start_ns"})
"""Over when the cluster has booted, or part of the loops' phase. The rest must be zero."""


def odd_setting(conf: ClusterConf, usual: ClusterConf) -> str | None:
    """The first setting that compiled code does not know, as SECTION.FIELD; usual: the version's defaults."""
    for section in CLOSED:
        known = READ.get(section, set()) | UNSEEN.get(section, set())
        mine, theirs = _section(conf, section), _section(usual, section)
        for field in fields(mine):
            if field.name in known or f"{section}.{field.name}" in CLOSED:
                continue
            if getattr(mine, field.name) != getattr(theirs, field.name):
                return f"{section}.{field.name}"
    return next((name for name in EMPTY if getattr(conf, name)), None)


def _section(conf: ClusterConf, name: str) -> Any:
    found: Any = conf
    for part in name.split("."):
        found = getattr(found, part)
    return found


def odd_partition(conf: PartitionConf) -> str | None:
    """The first option of the partition that is neither the default nor unseen."""
    for field in fields(conf):
        if field.name not in PARTITION_UNSEEN and getattr(conf, field.name) != field.default:
            return f"partition option {field.name}"
    return None


def odd_cost(costs: HostCosts) -> str | None:
    """The first host cost that compiled code does not charge."""
    for field in fields(costs):
        if field.name not in COSTS_READ | COSTS_UNSEEN and getattr(costs, field.name):
            return f"host cost {field.name}"
    return None
