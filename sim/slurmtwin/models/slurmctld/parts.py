"""What the parts of slurmctld may ask of each other. One protocol per part; slurmctld.py joins them.

A part never reaches into another's tables beside these calls. All run inside one simulated instant;
whoever needs time asks the environment for a later call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from slurmtwin.contract.jobs import JobRequest
from slurmtwin.models.slurmctld.allocation import Allocation
from slurmtwin.models.slurmctld.background import Duty
from slurmtwin.models.slurmctld.node_report import NodeReport
from slurmtwin.models.slurmctld.states import DependState, JobState
from slurmtwin.models.slurmctld.tables import Job, Node, Partition

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.reservations import ReservationTest
    from slurmtwin.models.slurmd.batch_job import BatchJob


@dataclass(frozen=True, slots=True)
class Placement:
    """select_nodes succeeded: what the job gets, and who must go first (victims still hold it if any)."""

    allocation: Allocation
    victims: tuple[Job, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """select_nodes failed. kind as slurmctld tells them apart; reason is squeue's text; candidates for `why`."""

    kind: str
    """busy (ESLURM_NODES_BUSY), not_avail (nodes down/drained/reserved), never (bad constraints),
    limit (association/QOS), license, reservation, part_limit, preempting (victims told to go)."""
    reason: str
    considered: int = 0
    """Bitmap of nodes that were looked at."""


class NodeSelection(Protocol):
    """node_scheduler.c plus the select plugin: which nodes, which cores, who is preempted (slurm.md 1.3, 3.2)."""

    usage_version: int
    """Grows whenever usage changes: allocate, release, suspend, resume, rebuild. Equal version: equal answers."""

    def select_nodes(self, job: Job, part: Partition, avail: int, now_s: int) -> Placement | Refusal:
        """Try to place the job now on nodes of `avail` (a bitmap already cut by the caller)."""
        ...

    def will_run(
        self, job: Job, part: Partition, avail: int, now_s: int,
        start_s: int = 0, until_s: int = 0, now_only: bool = False,
    ) -> tuple[int, int] | Refusal:  # fmt: skip
        """(expected start, node bitmap) as select_p_job_test(WILL_RUN) finds it; start == now_s: fits now.

        `avail` went through usable_nodes(). From 24.11 (will_run_data_t): with start_s > now_s the test on the
        present state is skipped and running jobs that end by start_s are taken as gone (a hit there returns
        now_s); running jobs that end after until_s are not tried (0: all). now_only (TEST_NOW_ONLY): no future.
        """
        ...

    def node_counts(self, job: Job, part: Partition) -> tuple[int, int, int] | Refusal:
        """get_node_cnts(): (min, requested, max) nodes in that partition; Refusal kind limit or part_limit."""
        ...

    def usable_nodes(self, job: Job, part: Partition, avail: int) -> int | None:
        """job_req_node_filter() with --exclude: what of `avail` the job may use at all; None: --nodelist not in it."""
        ...

    def free_nodes(self) -> int:
        """Bitmap of nodes on which some job could still get a CPU now; may be too large, never too small."""
        ...

    def uniform(self, job: Job, part: Partition) -> tuple[int, Callable[[int, int], int]] | None:
        """(nodes needed, (free nodes, count) -> nodes) where each node is free or full for the job; else None."""
        ...

    def guess_end(self, job: Job, now_s: int) -> int:
        """_guess_job_end(): when a job that is past its expected end goes."""
        ...

    def can_ever_run(self, job: Job, part: Partition) -> Refusal | None:
        """The test at submit: on all of the partition's nodes, empty (SELECT_MODE_TEST_ONLY)."""
        ...

    def allocate(self, job: Job, allocation: Allocation) -> None:
        """Take the resources (job.alloc is set by the caller)."""
        ...

    def release(self, job: Job, nodes: int) -> None:
        """Give back what the job holds on those nodes."""
        ...

    def suspend(self, job: Job) -> None: ...

    def resume(self, job: Job) -> None: ...

    def rebuild(self) -> None:
        """Recompute all usage from the running jobs (restart, node table change)."""
        ...


class PriorityPlugin(Protocol):
    """priority/basic or priority/multifactor (slurm.md 3.1)."""

    def start(self) -> None:
        """Arm the periodic work (decay and recalculation)."""
        ...

    def set_priority(self, job: Job) -> None:
        """At submit, requeue, release and update: job.priority and job.prio_by_part."""
        ...

    def recovered(self, job: Job) -> None:
        """A record was loaded at start (state_store.py)."""
        ...

    def job_started(self, job: Job) -> None: ...

    def job_ended(self, job: Job) -> None:
        """Charge usage up to now."""
        ...

    def catch_up(self) -> None:
        """Bring the decayed usage to now: calculations that nobody waited for are made up."""
        ...


class AccountingPolicy(Protocol):
    """acct_policy.c: association and QOS limits (man sacctmgr, resource_limits.html)."""

    def admit(self, job: Job) -> str | None:
        """At submit: fill assoc and qos, ask partition_limits.submit(), test limits; the reject reason, or None."""
        ...

    def job_submitted(self, job: Job) -> None: ...

    def job_left(self, job: Job) -> None:
        """The record no longer counts as submitted (ended for good, cancelled)."""
        ...

    def runnable(self, job: Job) -> str | None:
        """acct_policy_job_runnable_pre_select: a pending reason, or None."""
        ...

    def runnable_with(self, job: Job, allocation: Allocation | None) -> str | None:
        """acct_policy_job_runnable_post_select; None: asked for a job that found no nodes."""
        ...

    def max_nodes(self, job: Job, part: Partition) -> tuple[int, str] | None:
        """acct_policy_get_max_nodes(): (most nodes limits allow one job, reason if that is too few); None: no limit."""
        ...

    def preferred_nodes(self, job: Job, part: Partition) -> int:
        """_find_grp_node_bitmap(): nodes in use under a node limit of the job, to be taken first."""
        ...

    @property
    def watches_usage(self) -> bool:
        """Limits on usage can end running jobs: only then does the 30 s scan have to ask timed_out()."""
        ...

    def prio_thresh(self, job: Job) -> int:
        """acct_policy_get_prio_thresh(): below this priority nothing is held back for the job; 0: not limited."""
        ...

    def timed_out(self, job: Job) -> bool:
        """acct_policy_job_time_out(): a running job's group minutes are used up (30 s scan)."""
        ...

    def job_started(self, job: Job) -> None: ...

    def job_ended(self, job: Job) -> None:
        """The run is over: call it before PriorityPlugin.job_ended() or instead of it (it charges the usage itself)."""
        ...


class PartitionPolicy(Protocol):
    """Partition limits and access lists: which reason at submit, which while pending (man slurm.conf)."""

    def submit(self, job: Job) -> str | None:
        """sbatch's refusal, or None; drops closed partitions from job.parts, fills nodes_min and limit_s.

        AccountingPolicy.admit() calls it between finding the QOS and testing the limits, as _job_create() does.
        """
        ...

    def pending(self, job: Job, part: Partition, check_min_time: bool = False) -> str | None:
        """job_limits_check() when the queue is built: the reason, or None. check_min_time: --time-min counts."""
        ...

    def select(self, job: Job, part: Partition) -> str | None:
        """QOSNotAllowed or AccountNotAllowed at the head of select_nodes(), or None."""
        ...


class Reservations(Protocol):
    """reservation.c."""

    def create(
        self, name: str, start_s: int, duration_s: int, nodes: int,
        users: Sequence[str], accounts: Sequence[str], flags: frozenset[str],
    ) -> str | None:  # fmt: skip
        """None, or why it was refused."""
        ...

    def start(self) -> None:
        """slurmctld begins to serve: the polls take their phase from the background loop."""
        ...

    def delete(self, name: str) -> str | None: ...

    def submit(self, job: Job) -> str | None:
        """validate_job_resv() at submit (AccountingPolicy.admit() asks it): the refusal in sbatch's words, or None."""
        ...

    def test(self, job: Job, when_s: int, length_s: int, move: bool) -> ReservationTest:
        """job_test_resv() in full: verdict, nodes, overlap; with `move` the later start it would allow (backfill)."""
        ...

    def magnetic(self, job: Job) -> tuple[str, ...]:
        """MAGNETIC reservations that draw the job: one more queue record each (build_job_queue)."""
        ...

    def end_s(self, job: Job) -> int | None:
        """First second at which a running job is ended with its reservation; None: never."""
        ...

    def usable_nodes(self, job: Job, avail: int, start_s: int, end_s: int) -> int:
        """job_test_resv: `avail` without nodes reserved for others then; inside its own reservation only those."""
        ...

    def access(self, job: Job) -> str | None:
        """May the job use the reservation it names, now? A pending reason, or None."""
        ...

    def next_change_s(self, after_s: int) -> int | None:
        """When the set of reserved nodes changes next: backfill's later start times."""
        ...


class LicensePool(Protocol):
    """license_mgr.c: cluster-wide counters."""

    def available(self, job: Job) -> bool: ...

    def ever(self, job: Job) -> bool: ...

    def take(self, job: Job) -> None: ...

    def give_back(self, job: Job) -> None: ...


class Schedulers(Protocol):
    """The main pass with its triggers, and the order of the pending queue (job_scheduler.c)."""

    def enqueue(self, job: Job) -> None:
        """The job became pending (or its place in the order changed: call again)."""
        ...

    def dequeue(self, job: Job) -> None: ...

    def reorder(self) -> None:
        """Priorities of many jobs changed."""
        ...

    def queue_pass(self) -> None:
        """queue_job_scheduler(): the 1 s loop runs a depth-limited pass when batch_sched_delay allows."""
        ...

    def pass_now(self) -> None:
        """schedule(false) at once (epilog complete), or queued under defer and busy mode."""
        ...

    def try_at_submit(self, job: Job) -> bool:
        """salloc's attempt inside the submit RPC; True when started."""
        ...

    def start(self) -> None:
        """slurmctld begins to serve: arm the periodic full pass and the backfill agent."""
        ...

    def stop(self) -> None:
        """slurmctld ends: no pass comes any more."""
        ...


class JobLifecycle(Protocol):
    """Submit, start, end, requeue, kill: job_mgr.c (slurm.md 4.5, 4.6)."""

    def submit(self, request: JobRequest) -> None: ...

    def start(self, job: Job, part: Partition, placement: Placement, by: str) -> None:
        """The job starts now (by main, backfill, submit); victims are empty."""
        ...

    def preempt(self, victims: Iterable[Job], preemptor: Job) -> None:
        """Tell victims to go, each in its own mode (slurm.md 3.2)."""
        ...

    def split_task(self, meta: Job) -> Job:
        """The next task of an array's meta record as a job of its own, ready to start (job_array_split)."""
        ...

    def dependency_state(self, job: Job) -> DependState: ...

    def node_failed(self, node: Node, reason: str) -> None:
        """kill_running_job_by_node_name (slurm.md 4.5)."""
        ...

    def missing_on_node(self, job: Job, node: Node) -> None:
        """_purge_missing_jobs found it: complete with node_fail (slurm.md 4.4)."""
        ...

    def kill_on_node(self, job: Job, node: Node) -> None:
        """kill_job_on_node(): a registering node still has steps of a job that is over: TERMINATE once more."""
        ...

    def batch_complete(self, work: BatchJob) -> None:
        """REQUEST_COMPLETE_BATCH_SCRIPT: slurmstepd reports the script's end."""
        ...

    def end(self, job: Job, state: JobState, reason: str = "") -> None:
        """End a running job or cancel a pending one."""
        ...

    def cancel(self, number: int) -> None:
        """scancel of the workload's job with that number."""
        ...

    def hold(self, job: Job, reason: str) -> None: ...

    def requeue(self, job: Job, reason: str) -> None:
        """A running job goes back to PENDING."""
        ...

    def release(self, job: Job) -> None: ...

    def work_lost(self, slurm_id: int) -> None:
        """The job's processes died with their container: its time limit will have to end it (slurm.md 12 "S1b")."""
        ...

    def recovered(self, job: Job) -> None:
        """A record was loaded at start (state_store.py): it is in ctld.jobs (and running or completing) with its
        partitions set; queue it when pending, arm its limits when running, send TERMINATE again when completing
        (_sync_nodes_to_comp_job(), slurm.md 5.2).
        """
        ...


class NodeLifecycle(Protocol):
    """node_mgr.c: states, registration, pings (slurm.md 4.1-4.4)."""

    def start(self, first_sweep: bool = True) -> None:
        """slurmctld begins to serve: arm the 3 s sweep and the ping ticks."""
        ...

    def job_allocated(self, nodes: int) -> None:
        """Node states follow an allocation (make_node_alloc)."""
        ...

    def job_completing(self, nodes: int) -> int:
        """make_node_comp: the run is over there. Returns the nodes that must confirm it: DOWN ones need not."""
        ...

    def job_gone(self, job: Job, nodes: int) -> None:
        """make_node_idle for a job's nodes: clears COMPLETING when none is left, updates idle and avail."""
        ...

    def not_responding(self, node: Node, sent_s: int) -> None:
        """An RPC sent at sent_s was lost: NO_RESPOND at once (node_not_resp()). slurmd/daemon.py says it."""
        ...

    def reach_changed(self, nodes: int) -> None:
        """Slurmds of these nodes fell silent, or answer again."""
        ...

    def register(self, reports: Iterable[NodeReport]) -> None:
        """Registrations arrived (slurm.md 4.3)."""
        ...

    def answered(self, node: Node) -> None:
        """Any successful RPC to the node: _node_did_resp."""
        ...

    def update(self, node: Node, state: str, reason: str) -> str | None:
        """scontrol update nodename=; None, or why it was refused."""
        ...

    def nodes_added(self, nodes: int) -> None:
        """New, deleted or changed records of the node table: their bits follow."""
        ...

    @property
    def held(self) -> tuple[int, int]:
        """Nodes with a running job, and nodes that a job leaves."""
        ...

    def has_jobs(self, node: Node) -> bool:
        """ALLOCATED or COMPLETING."""
        ...

    def is_allocated(self, node: Node) -> bool:
        """Up, with a running job."""
        ...

    def answers(self) -> Callable[[int, int], int]:
        """last_response_s() as of now, to be worked out later: of a node's bit and what its record holds."""
        ...

    def last_response_s(self, node: Node) -> int:
        """When the node was heard last, in Unix seconds."""
        ...

    def set_reason(self, node: Node, reason: str) -> None:
        """Overwrite or clear the node's reason."""
        ...

    def drain(self, node: Node, reason: str) -> None:
        """drain_nodes(): prolog or epilog failure, "Kill task failed", "Duplicate jobid" (slurm.md 4.6)."""
        ...


class Background(Protocol):
    """The 1 s loop (background.py): whoever works in it registers a duty and arms it; no ticks."""

    start_s: int
    """time(NULL) when the loop began."""
    steady: bool

    def register(self, duty: Duty, action: Callable[[], None]) -> None: ...

    def arm(self, duty: Duty, not_before_s: int = 0, shown_ns: int = 0) -> None:
        """Do it at the first look from now on whose Unix second is not_before_s or later (SCHEDULE: main passes).

        shown_ns: so long behind its begin time(NULL) shows that second; 0: nobody asks it.
        """
        ...

    def first_look_ns(self, not_before_s: int, after_ns: int, shown_ns: int = 0) -> int: ...


class StateStore(Protocol):
    """StateSaveLocation: what is written when, what a crash loses (slurm.md 5.3)."""

    def changed(self, jobs: bool = True) -> None:
        """schedule_job_save() and schedule_node_save(): cheap, call it at every change slurmctld would save.

        jobs=False: schedule_node_save() alone.
        """
        ...

    def backfill_starts(self) -> None:
        """Backfill is about to start a job: no save is asked for (call it before the record changes)."""
        ...

    def serve(self) -> None:
        """The loop has begun."""
        ...

    def save(self, keep: bool = False) -> None:
        """Write everything now; keep: a clean stop or a takeover reads it."""
        ...

    def left_behind(self) -> None:
        """The process was killed."""
        ...

    next_job_id: int
    """job_id_sequence: the number after the last one given out; saved with the jobs (slurm.md 5.2 "Job ids")."""
