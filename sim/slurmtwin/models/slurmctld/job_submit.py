"""sbatch and salloc: what slurmctld does inside the submit RPC (job_mgr.c job_allocate(), slurm.md 1.1).

The job gets a number, its partitions, sizes, memory, priority and eligibility, or is refused. sbatch never
starts it: the RPC only queues a scheduling pass. salloc is tried at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Kind
from slurmtwin.contract.hostlist import expand
from slurmtwin.contract.jobs import parse_array
from slurmtwin.models.slurmctld import event_details as details
from slurmtwin.models.slurmctld.dependencies import Dependency
from slurmtwin.models.slurmctld.job_purge import weight
from slurmtwin.models.slurmctld.job_request import (
    fit_memory_limit,
    limit_seconds,
    parse_gres,
    parse_licenses,
    set_memory,
    set_sizes,
)
from slurmtwin.models.slurmctld.pending_reason import set_reason
from slurmtwin.models.slurmctld.states import Reason
from slurmtwin.models.slurmctld.tables import Job

if TYPE_CHECKING:
    from slurmtwin.contract.jobs import JobRequest
    from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

_TOO_LARGE: Final = ("PartitionConfig", Reason.PARTITION_NODE_LIMIT)


class Submission:
    """The submit RPCs of one slurmctld."""

    def __init__(self, ctld: Slurmctld, lifecycle: Lifecycle) -> None:
        self._ctld = ctld
        self._lifecycle = lifecycle
        self._default = next((p for p in ctld.partitions.values() if p.conf.default), None)

    def submit(self, request: JobRequest) -> Job | None:
        """Accept or refuse one request now. The job, or None after job.rejected."""
        ctld = self._ctld
        job = ctld.job_record(request, 0, ctld.now_s())
        problem = self._fill(job, request) or self._room(job) or self._admit(job)
        if problem is not None:
            ctld.emit(Kind.JOB_REJECTED, job_id=request.job_id, detail=details.reason(problem))
            return None
        self._number(job)
        self._join(job)
        return job

    def tried(self, request: JobRequest) -> Job | None:
        """The record that the request would get now, numbered and queued nowhere; None when it would be refused."""
        job = Job(request, 0, self._ctld.now_s())
        return None if self._fill(job, request) or self._admit(job) else job

    def _fill(self, job: Job, request: JobRequest) -> str | None:
        """The record's fields; a refusal in sbatch's words."""
        ctld = self._ctld
        named = 0
        try:
            if request.array:
                job.array_waiting, job.array_max = parse_array(request.array)
            if request.gres:
                job.gres = parse_gres(request.gres)
            if request.licenses:
                job.licenses = parse_licenses(request.licenses)
            if request.nodelist or request.exclude:
                named = self._named_nodes(request)
        except (InputError, ValueError):
            return "Invalid job request"
        except KeyError:
            return "Invalid node name specified"
        if not self._partitions(job, request):
            return "Invalid partition name specified"
        set_sizes(job, request)
        first = job.parts[0].conf
        set_memory(job, request, first, ctld.conf)
        if not fit_memory_limit(job, first, ctld.conf):
            return "Memory required by task is not available"
        job.node_pool = request.external and named > job.nodes_min
        if named > (job.nodes_max or named) and not job.node_pool:
            return "Node count specification invalid"
        self._fill_times(job, request)
        job.whole_node = request.exclusive == "node"
        job.kill_on_node_fail = not request.no_kill
        job.requeue = ctld.conf.controller.job_requeue if request.requeue is None else request.requeue
        job.batch_flag = 0 if request.interactive or request.external else 1
        return None

    def _named_nodes(self, request: JobRequest) -> int:
        """How many nodes --nodelist names. KeyError when one, or one of --exclude, does not exist."""
        table = self._ctld.nodes
        if request.external:
            return table.named(request.nodelist).bit_count()
        table.bitmap(expand(request.exclude))
        return table.bitmap(expand(request.nodelist)).bit_count()

    def _partitions(self, job: Job, request: JobRequest) -> bool:
        ctld = self._ctld
        if not request.partition:
            if self._default is None:
                return False
            job.parts = [self._default]
        else:
            names = dict.fromkeys(name.strip() for name in request.partition.split(","))
            if any(name not in ctld.partitions for name in names):
                return False
            job.parts = [ctld.partitions[name] for name in names]
            if len(job.parts) > 1:
                # build_part_list(): higher tiers first, the order of the request inside a tier
                job.parts.sort(key=lambda part: -part.conf.priority_tier)
        job.part = job.parts[0]
        return True

    def _fill_times(self, job: Job, request: JobRequest) -> None:
        ctld = self._ctld
        job.limit_s = limit_seconds(request.limit_ns)
        job.time_min_s = limit_seconds(request.time_min_ns) or 0
        if request.begin_ns is not None:
            begin_s = (ctld.epoch_ns + request.begin_ns) // SECOND
            job.begin_s = begin_s if begin_s > job.submit_s else 0
        if request.deadline_ns is not None:
            job.deadline_s = (ctld.epoch_ns + request.deadline_ns) // SECOND

    def _room(self, job: Job) -> str | None:
        """MaxArraySize and MaxJobCount: every task of an array counts."""
        controller = self._ctld.conf.controller
        tasks = job.array_waiting
        if tasks is not None and (tasks[-1] >= controller.max_array_size):
            return "Invalid job array specification"
        if self._lifecycle.purge.record_count + weight(job) > controller.max_job_count:
            return "Slurm temporarily unable to accept job, sleeping and retrying"
        return None

    def _admit(self, job: Job) -> str | None:
        """Partition and accounting rules, deadline, dependency, licences, and: could it ever run here."""
        ctld = self._ctld
        refused = ctld.limits.admit(job)
        if refused is not None:
            return refused
        job.part = job.parts[0]
        if job.deadline_s and self._misses_deadline(job):
            return "Requested time limit is invalid (missing or exceeds some limit)"
        if job.request.dependency and not self._lifecycle.dependencies.attach(job):
            return "Job dependency problem"
        if job.licenses and not ctld.licenses.ever(job):
            return "Invalid license specification"
        return self._fits_somewhere(job)

    @staticmethod
    def _misses_deadline(job: Job) -> bool:
        earliest = max(job.begin_s, job.submit_s)
        needed = job.time_min_s or (job.limit_s if job.limit_s is not None and job.limit_s > 0 else 0)
        return job.deadline_s < earliest + needed

    def _fits_somewhere(self, job: Job) -> str | None:
        """_select_nodes_parts() in test mode: refused when no partition could ever run it (all must under ALL)."""
        ctld = self._ctld
        enforce = ctld.conf.controller.enforce_part_limits
        last: str | None = None
        for part in job.parts:
            if ctld.conf.version == "26.05" and ctld.partition_limits.pending(job, part) in _TOO_LARGE:
                kind = "part_limit"  # 26.05 then leaves the nodes alone (_select_nodes_base())
            else:
                refusal = ctld.selection.can_ever_run(job, part)
                kind = refusal.kind if refusal is not None else ""
            if kind != "never" and not (kind == "part_limit" and enforce != "no"):
                if enforce != "all":
                    return None
                continue
            last = "Requested node configuration is not available"
            if enforce == "all":
                break
        return last

    def _number(self, job: Job) -> None:
        """The next free job id (_get_next_job_id())."""
        job.slurm_id = self._lifecycle.next_slurm_id()
        self._ctld.jobs[job.slurm_id] = job
        self._lifecycle.purge.record_count += weight(job)

    def _join(self, job: Job) -> None:
        """Into the queue: hold, dependency, begin time, priority (job_independent() and set_job_prio())."""
        ctld, lifecycle, request = self._ctld, self._lifecycle, job.request
        if request.het_group:
            lifecycle.hetjobs.add(job)
        if request.hold:
            job.held = True
            job.priority = 0
        else:
            ctld.priority.set_priority(job)
        ctld.limits.job_submitted(job)
        ctld.emit(Kind.JOB_SUBMITTED, job_id=request.job_id, detail=f'{{"slurm_id":{job.slurm_id}}}')
        lifecycle.remember(job)
        if job.held:
            set_reason(ctld, job, Reason.HELD_USER)
        elif not job.dependency:
            self._note_limit(job)
        ctld.last_job_update_s = ctld.now_s()
        for record in self._records(job):
            ctld.schedulers.enqueue(record)
        if job.deadline_s:
            lifecycle.purge.watch_deadline(job)
        if request.interactive and not request.het_group and ctld.schedulers.try_at_submit(job):
            return
        ctld.schedulers.queue_pass()
        ctld.store.changed()

    def _note_limit(self, job: Job) -> None:
        """The test of the submit RPC asks the limits first: a job over one carries that reason from the start.

        So the first pass leaves it out by its reason (schedule(), JSR_QOS_ASSOC), and assoc_limit_stop, which acts
        on a fresh refusal, closes nothing.
        """
        reason = self._ctld.limits.runnable(job)
        if reason is not None:
            set_reason(self._ctld, job, reason)

    def _records(self, job: Job) -> list[Job]:
        """What waits in the queue: under aftercorr each task of an array has a record of its own from the start."""
        if not job.dependency or job.array_waiting is None:
            return [job]
        terms = [term for term in job.dependency if isinstance(term, Dependency)]
        if not any(term.kind == "aftercorr" for term in terms):
            return [job]
        tasks = self._lifecycle.arrays.split_all(job)
        for task in tasks:
            task.dependency = [replace(term) for term in terms]
        return tasks
