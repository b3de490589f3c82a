"""Reads slurmctld's log: one typed fact per line that means something, in the order written.

The formats are those of src/slurmctld and src/plugins/sched/backfill of 22.05, 24.11 and 26.05 at SlurmctldDebug=debug
with DebugFlags=Backfill,HetJob (26.05 names backfilled jobs only under HetJob).
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_STAMP = re.compile(r"\[(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{3})\] (.*)")
_JOB = r"JobId=(?P<job>\d+(?:_(?:\d+|\*|\[[^\]]*\]))?(?:\+\d+)?(?:\(\d+\))?)"


@dataclass(frozen=True, slots=True)
class Fact:
    """One line: its stamp (unix ns, truncated to ms), what it says, and the named parts."""

    t_ns: int
    what: str
    parts: dict[str, str] = field(default_factory=dict)


_PATTERNS: tuple[tuple[str, str], ...] = (
    ("submit", r"_slurm_rpc_submit_batch_job: " + _JOB + r".* InitPrio=(?P<prio>\d+)"),
    ("submit_het", r"_slurm_rpc_submit_batch_het_job: " + _JOB),
    ("salloc", r"_slurm_rpc_allocate_resources:? " + _JOB + r".* NodeList=(?P<nodes>\S+)"),
    ("rejected", r"_slurm_rpc_(?:submit_batch_job|allocate_resources): (?P<reason>[A-Z].*)"),
    ("start_main", r"sched: Allocate " + _JOB + r" NodeList=(?P<nodes>\S+) #CPUs=(?P<cpus>\d+) Partition=(?P<part>\S+)"),
    ("start_backfill", r"Started " + _JOB + r" in (?P<part>\S+) on (?P<nodes>\S+)"),
    ("exit", r"_job_complete: " + _JOB + r" (?P<how>WEXITSTATUS|WTERMSIG) (?P<code>\d+)"),
    ("oom", r"_job_complete: " + _JOB + r" OOM failure"),
    ("cancelled_by", r"_job_complete: " + _JOB + r" cancelled by (?P<who>node failure|interactive user)"),
    ("requeue_by", r"_job_complete: requeue " + _JOB + r" (?P<why>due to node failure|per user/system request)"),
    ("done", r"_job_complete: " + _JOB + r" done"),
    ("timeout", r"Time limit exhausted for " + _JOB),
    ("deadline", r"[Dd]eadline.*" + _JOB),
    ("preempted_requeue", r"preempted " + _JOB + r" has been requeued to reclaim resources for JobId=(?P<by>\S+)"),
    ("preempted_kill", r"preempted " + _JOB + r" (?:has been killed|had to be killed)(?: to reclaim resources for JobId=(?P<by>\S+))?"),
    ("preempted_suspend", r"preempted " + _JOB + r" (?:has been|was) suspended to reclaim resources for JobId=(?P<by>\S+)"),
    ("grace", r"setting (?P<seconds>\d+) sec preemption grace time for " + _JOB + r" to reclaim resources for JobId=(?P<by>\S+)"),
    ("node_fail_requeue", r"requeue (?:job )?" + _JOB + r" due to failure of node (?P<node>\S+)"),
    ("node_fail_kill", r"Killing " + _JOB + r" on failed node (?P<node>\S+)"),
    ("node_removed", r"Removing failed node (?P<node>\S+) from " + _JOB),
    ("missing", r"Batch " + _JOB + r" missing from batch node (?P<node>\S+) \(not found BatchStartTime"),
    ("orphan", r"Orphan " + r"(?:StepId|JobId)=(?P<job>\d+)\S* reported on node (?P<node>[^\s,]+)"),
    ("registered_pending", r"Registered PENDING " + _JOB),
    ("hold", r"hold on " + _JOB + r" by uid (?P<uid>\d+)"),
    ("release", r"release hold on " + _JOB + r" by uid (?P<uid>\d+)"),
    ("held", r"Holding " + _JOB + r",? (?P<reason>.*)"),
    ("requeue", r"Requeuing " + _JOB),
    ("duplicate", r"Duplicate jobid on nodes (?P<nodes>\S+), set to state DRAIN"),
    ("abort", r"Aborting " + _JOB + r" on node (?P<node>\S+)"),
    ("kill_rpc", r"(?:_slurm_rpc_kill_job|_log_kill_job|_signal_job|kill_job).*: REQUEST_KILL_JOB " + _JOB + r" uid (?P<uid>\d+)"),
    ("invalid_depend", r"Job dependency can't be satisfied, cancelling " + _JOB),
    ("warn_signal", r"warning signal (?P<signal>\d+) to " + _JOB),
    ("planned", r"_dump_job_sched: (?:BACKFILL: )?" + _JOB + r" to start at (?P<start>\S+), end at (?P<end>\S+) on nodes (?P<nodes>\S+)"),
    ("main_pass", r"Running job scheduler for? ?(?P<depth>full queue|default depth)"),
    ("bf_test", r"_attempt_backfill: (?:BACKFILL: )?test for " + _JOB + r" Prio=(?P<prio>\d+)"),
    ("bf_begin", r"_attempt_backfill: beginning"),
    ("bf_none", r"_attempt_backfill: no jobs to backfill"),
    ("bf_end", r"_attempt_backfill: completed testing (?P<tested>\d+)\((?P<total>\d+)\) jobs"),
    ("bf_break", r"_attempt_backfill: (?:BACKFILL: )?(?P<why>yielding locks.*|system state changed, breaking out.*|bf_max_time.*|hit .*|reached .*limit.*)"),
    ("registered", r"node (?P<node>\S+) registered with (?P<jobs>\d+) jobs"),
    ("responding", r"Node (?P<node>\S+) now responding"),
    ("down", r"error: Nodes (?P<nodes>\S+) not responding, setting DOWN"),
    ("resume_timeout", r"node (?P<node>\S+) not resumed by ResumeTimeout\("),
    ("not_responding", r"error: Nodes (?P<nodes>\S+) not responding"),
    ("returned", r"node_did_resp: node (?P<node>\S+) returned to service|node (?P<node2>\S+) returned to service"),
    ("rebooted", r"Node (?P<node>\S+) unexpectedly rebooted"),
    ("drain", r"drain_nodes: node (?P<node>\S+) state set to DRAIN"),
    ("update_node", r"update_node: node (?P<node>\S+) (?:reason set to|state set to):? (?P<state>.*)"),
    ("inval", r"Setting node (?P<node>\S+) state to INVAL with reason:(?P<reason>.*)"),
    ("ping", r"Spawning ping agent for (?P<nodes>\S+)"),
    ("registration", r"Spawning registration agent for (?P<nodes>\S+) (?P<count>\d+) hosts"),
    ("primary", r"Running as primary controller"),
    ("standby", r"slurmctld running in background mode"),
    ("takeover", r"not responding, BackupController(?P<index>\d+) (?P<host>\S+) taking over"),
    ("terminated", r"Terminate signal \S.*received"),
    ("reconfigured", r"Processing (?:RPC: |Reconfiguration).*[Rr]econfig"),
    ("recovered_jobs", r"Recovered information about (?P<count>\d+) jobs"),
    ("purged", r"_purge_job_record: " + _JOB),
    ("power_down", r"power_save: (?:suspending|handle failed|pid \d+ reporting failed)?\s*nodes? (?P<nodes>\S+)"),
    ("resv_created", r"sched: Created reservation[= ](?P<name>\S+)"),
)  # fmt: skip
_COMPILED = tuple((what, re.compile(pattern)) for what, pattern in _PATTERNS)
_SKIP = re.compile(r"_handle_planned|_future_run_test|slurm_cred_create|laying out|sackd_mgr|create_mmap_buf")


def stamp_ns(parts: Sequence[str], milli: str = "0") -> int:
    """Unix time in ns of year, month, day, hour, minute, second (the container runs in UTC)."""
    year, month, day, hour, minute, second = map(int, parts)
    return calendar.timegm((year, month, day, hour, minute, second)) * 1_000_000_000 + int(milli) * 1_000_000


def iso_ns(text: str) -> int | None:
    """Unix ns of `2026-01-01T00:04:10`; None for `Unknown` and the like."""
    found = re.match(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\Z", text)
    return stamp_ns(found.groups()) if found else None


def read_log(path: Path) -> Iterator[Fact]:
    """Every line of the log that matches a pattern."""
    with path.open(errors="replace") as stream:
        for line in stream:
            head = _STAMP.match(line)
            if not head or _SKIP.search(line):
                continue
            text = head[8]
            for what, pattern in _COMPILED:
                found = pattern.search(text)
                if found:
                    parts = {k: v for k, v in found.groupdict().items() if v is not None}
                    yield Fact(stamp_ns(head.groups()[:6], head[7]), what, parts)
                    break
