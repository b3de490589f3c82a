"""scancel and scontrol: what users and admins do to jobs, partitions and reservations.

Follows job_mgr.c job_signal(), job_suspend(), job_requeue(), update_job(), partition_mgr.c update_part().
A command that slurmctld would refuse changes nothing and returns why.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.contract.clock import SECOND, parse_slurm_time
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Kind
from slurmtwin.contract.hostlist import expand
from slurmtwin.contract.scenario import JobAction, PartitionAction, ReservationAction
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.slurmctld import dependencies
from slurmtwin.models.slurmctld import event_details as details
from slurmtwin.models.slurmctld.job_request import limit_seconds
from slurmtwin.models.slurmctld.partition_limits import ROOT
from slurmtwin.models.slurmctld.states import JobState, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job, Partition

NO_SUCH_JOB: Final = "Invalid job id specified"
ALREADY_DONE: Final = "Job/step already completing or completed"


class AdminCommands:
    """Commands to one slurmctld."""

    def __init__(self, ctld: Slurmctld, lifecycle: Lifecycle) -> None:
        self._ctld = ctld
        self._lifecycle = lifecycle
        self._job_commands: dict[str, Callable[[Job], str | None]] = {
            "job.cancel": self._cancel,
            "job.hold": self._hold,
            "job.release": self._release,
            "job.requeue": lambda job: self._requeue(job, hold=False),
            "job.requeuehold": lambda job: self._requeue(job, hold=True),
            "job.suspend": self._suspend,
            "job.resume": self._resume,
        }
        self._job_fields: dict[str, Callable[[Job, str], None]] = {
            "timelimit": self._set_limit,
            "priority": self._set_priority,
            "nice": self._set_nice,
            "starttime": self._set_begin,
            "partition": self._set_partition,
            "numnodes": self._set_nodes,
            "requeue": self._set_requeue,
            "reservationname": self._set_reservation,
            "dependency": self._set_dependency,
            "arraytaskthrottle": self._set_throttle,
            "qos": self._set_qos,
        }

    # jobs

    def cancel(self, number: int) -> str | None:
        """scancel of the workload's job with that number; an array goes as a whole."""
        job = self._lifecycle.by_number(number)
        return NO_SUCH_JOB if job is None else self._cancel(job)

    def job(self, action: JobAction) -> str | None:
        """One JobAction of a scenario. None, or why slurmctld refuses it."""
        job = self._lifecycle.by_number(action.job)
        if job is None:
            return NO_SUCH_JOB
        if action.kind == "job.update":
            return self._update(job, {str(k): str(v) for k, v in action.set.items()})
        return self._job_commands[action.kind](job)

    def _each(self, job: Job) -> list[Job]:
        """The job, or all records of its array, or all components of its hetjob."""
        if job.het_job is not None:
            return list(job.het_job)
        return self._lifecycle.arrays.records(job) if job.request.array else [job]

    def _cancel(self, job: Job) -> str | None:
        done = ALREADY_DONE
        for record in self._each(job):
            if record.state.finished:
                continue
            done = ""
            self._lifecycle.end(record, JobState.CANCELLED)
        return done or None

    def _hold(self, job: Job) -> str | None:
        for record in self._each(job):
            if record.pending and record.priority:
                self._lifecycle.hold(record, Reason.HELD_USER if record.user != "root" else Reason.HELD_ADMIN)
        return None

    def _release(self, job: Job) -> str | None:
        for record in self._each(job):
            if record.pending and not record.priority:
                self._lifecycle.release(record)
        return None

    def _requeue(self, job: Job, hold: bool) -> str | None:
        refused = True
        for record in self._each(job):
            went = self._lifecycle.requeues.requeue(record, "requeued", JobState.CANCELLED, shown="REQUEUED", hold=hold)
            refused &= not went
        return "Requested operation is presently disabled" if refused else None

    def _suspend(self, job: Job) -> str | None:
        went = [self._lifecycle.suspend(record, by_admin=True) for record in self._each(job)]
        if any(went):
            self._ctld.schedulers.queue_pass()
            return None
        return "Job is not running"

    def _resume(self, job: Job) -> str | None:
        went = [self._lifecycle.resume(record) for record in self._each(job)]
        if any(went):
            self._ctld.schedulers.queue_pass()
            return None
        return "Job is not suspended"

    def _update(self, job: Job, values: dict[str, str]) -> str | None:
        unknown = [key for key in values if key.lower() not in self._job_fields]
        if unknown:
            raise InputError(f"job.update: {unknown[0]} is not modelled", hint=", ".join(sorted(self._job_fields)))
        if job.state.finished:
            return ALREADY_DONE
        for record in self._each(job):
            for key, value in values.items():
                self._job_fields[key.lower()](record, value)
            self._ctld.emit(
                Kind.JOB_UPDATED,
                job_id=record.request.job_id,
                detail=details.of_task(detail_text(**values), record.array_task),
            )
            if record.pending and not record.completing:
                self._ctld.schedulers.enqueue(record)
        self._ctld.last_job_update_s = self._ctld.now_s()
        self._ctld.schedulers.queue_pass()
        self._ctld.store.changed()
        return None

    def _set_limit(self, job: Job, value: str) -> None:
        sign = value[:1] if value[:1] in "+-" else ""
        change = limit_seconds(parse_slurm_time(value.lstrip("+-"))) or 0
        before = job.limit_s if job.limit_s is not None else 0
        job.limit_s = before + change if sign == "+" else max(60, before - change) if sign == "-" else change
        job.limit_set = False
        if job.state is JobState.RUNNING:
            lost_s = self._ctld.now_s() - job.start_s - job.pre_suspend_s if job.pre_suspend_s else 0
            job.end_s = job.start_s + job.limit_s + lost_s
            self._lifecycle.limits.watch(job)

    def _set_priority(self, job: Job, value: str) -> None:
        job.priority = int(value)
        job.direct_prio = True
        if job.prio_by_part:
            job.prio_by_part = [job.priority] * len(job.prio_by_part)

    def _set_nice(self, job: Job, value: str) -> None:
        job.nice = int(value)
        self._ctld.priority.set_priority(job)

    def _set_begin(self, job: Job, value: str) -> None:
        """Seconds since the scenario's start, as every time in a scenario."""
        job.begin_s = (self._ctld.epoch_ns + int(float(value) * SECOND)) // SECOND

    def _set_partition(self, job: Job, value: str) -> None:
        names = [name for name in value.split(",") if name in self._ctld.partitions]
        if names and job.pending:
            job.parts = [self._ctld.partitions[name] for name in names]
            job.part = job.parts[0]
            self._ctld.priority.set_priority(job)

    def _set_nodes(self, job: Job, value: str) -> None:
        low, _, high = value.partition("-")
        job.nodes_min = int(low)
        job.nodes_max = int(high or low)

    def _set_requeue(self, job: Job, value: str) -> None:
        job.requeue = value not in ("0", "False", "no")

    def _set_reservation(self, job: Job, value: str) -> None:
        job.reservation = value

    def _set_dependency(self, job: Job, value: str) -> None:
        terms = dependencies.parse(value)
        if terms is not None:
            job.dependency = list(terms)

    def _set_throttle(self, job: Job, value: str) -> None:
        meta = self._lifecycle.arrays.meta_of(job)
        if meta is not None:
            meta.array_max = int(value)

    def _set_qos(self, job: Job, value: str) -> None:
        job.qos = value
        self._ctld.priority.set_priority(job)

    # partitions and reservations

    def partition(self, action: PartitionAction) -> str | None:
        """scontrol update partitionname=... Unknown fields are an InputError."""
        part = self._ctld.partitions.get(action.target)
        if part is None:
            return "Invalid partition name specified"
        for key, value in action.set.items():
            self._set_partition_field(part, str(key).lower(), str(value))
        ctld = self._ctld
        ctld.last_part_update_s = ctld.now_s()
        ctld.schedulers.reorder()
        ctld.schedulers.queue_pass()
        ctld.store.changed(jobs=False)
        return None

    def _set_partition_field(self, part: Partition, key: str, value: str) -> None:
        changes: dict[str, Any]
        if key == "nodes":
            table = self._ctld.nodes
            part.nodes = table.bitmap(expand(value))
            names = tuple(table.names(part.nodes))
            part.total_cpus = sum(table.by_name[name].conf.cpus for name in names)
            changes = {"nodes": names}
        elif key in _PARTITION_TIMES:
            changes = {_PARTITION_TIMES[key]: parse_slurm_time(value)}
        elif key in _PARTITION_NUMBERS:
            number = -1 if value.upper() in ("UNLIMITED", "INFINITE") else int(value)
            changes = {_PARTITION_NUMBERS[key]: number}
        elif key == "state":
            changes = {"state": value.upper()}
        elif key in _PARTITION_LISTS:
            names = () if value.upper() in ("", "ALL") else tuple(value.split(","))
            changes = {_PARTITION_LISTS[key]: names}
        else:
            known = sorted(["nodes", "state", *_PARTITION_TIMES, *_PARTITION_NUMBERS, *_PARTITION_LISTS])
            raise InputError(f"partition.update: {key} is not modelled", hint=", ".join(known))
        part.conf = replace(part.conf, **changes)

    def reservation(self, action: ReservationAction) -> str | None:
        """scontrol create or delete reservation."""
        ctld = self._ctld
        if action.kind == "reservation.delete":
            refused = ctld.reservations.delete(action.name)
        else:
            words = action.nodes.strip()
            nodes = (1 << len(ctld.nodes)) - 1 if words.upper() in ("", "ALL") else ctld.nodes.bitmap(expand(words))
            refused = ctld.reservations.create(
                action.name,
                (ctld.epoch_ns + action.start) // SECOND,
                action.duration // SECOND,
                nodes,
                [u for u in (action.users or ("" if action.accounts else ROOT)).split(",") if u],
                [a for a in action.accounts.split(",") if a],
                frozenset(f.strip().upper() for f in action.flags.split(",") if f.strip()),
            )
        if refused is None:
            ctld.schedulers.queue_pass()
        return refused


_PARTITION_TIMES: Final = {"maxtime": "max_time_ns", "defaulttime": "default_time_ns"}
_PARTITION_NUMBERS: Final = {
    "maxnodes": "max_nodes",
    "minnodes": "min_nodes",
    "prioritytier": "priority_tier",
    "priorityjobfactor": "priority_job_factor",
    "maxcpuspernode": "max_cpus_per_node",
}
_PARTITION_LISTS: Final = {
    "allowaccounts": "allow_accounts",
    "denyaccounts": "deny_accounts",
    "allowqos": "allow_qos",
    "denyqos": "deny_qos",
}
