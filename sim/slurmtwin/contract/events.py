"""The event table: one definition for every world. Arrow and JSON schemas are generated from it.

One row is one fact. The true time lies in t_ns ± t_err_ns. Order is (t_ns, seq). Metrics are derived
from rows, never written beside them. Kinds are a closed enum, `subject.verb`: adding one is a minor
change of EVENT_SCHEMA, renaming or changing a meaning a major one (reference/style.md 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

EVENT_SCHEMA: Final = "slurmtwin/events/1"


class Kind(StrEnum):
    """What happened. Text after each member: who writes it and what value, unit, detail mean."""

    # job: actor is the daemon that decided; job_id is the workload's number; detail.array_task if a task of an array
    JOB_SUBMITTED = "job.submitted"  # slurmctld accepted it; detail.slurm_id
    JOB_REJECTED = "job.rejected"  # refused at submit; detail.reason
    # job.started: detail.node_cpus = CPUs per node in hostlist order, when neither equal nor all of each node
    JOB_STARTED = "job.started"  # node = hostlist; value = CPUs, unit cpu; detail.by = main|backfill|submit|salloc
    # run over, nodes COMPLETING; detail.exit_code and detail.state = COMPLETED|FAILED|TIMEOUT|CANCELLED|
    # NODE_FAIL|PREEMPTED|OUT_OF_MEMORY|DEADLINE|BOOT_FAIL
    JOB_ENDED = "job.ended"
    JOB_COMPLETED = "job.completed"  # last node's epilog reported: COMPLETING is over, resources are free
    JOB_REQUEUED = "job.requeued"  # back to PENDING; detail.reason; value = earliest start, unit ns (none in pods)
    JOB_HELD = "job.held"  # detail.reason
    JOB_RELEASED = "job.released"
    JOB_UPDATED = "job.updated"  # detail: what changed
    JOB_SUSPENDED = "job.suspended"
    JOB_RESUMED = "job.resumed"
    JOB_PREEMPTED = "job.preempted"  # chosen as victim; detail.by_job, mode
    JOB_SIGNALED = "job.signaled"  # detail.signal
    JOB_PLANNED = "job.planned"  # backfill reserved nodes; value = expected start, unit ns
    JOB_PENDING = "job.pending"  # pending reason changed; detail.reason
    JOB_PURGED = "job.purged"  # left slurmctld's memory (MinJobAge)
    JOB_LOST = "job.lost"  # known to the user, unknown to slurmctld after a crash
    JOB_ACCOUNTED = "job.accounted"  # as sacct lists it, when its answer changes; detail.state, start, end, nodes
    JOB_SHRUNK = "job.shrunk"  # --no-kill: went on without a failed node
    # the script on the nodes, whatever slurmctld believes: property checks compare the two
    SCRIPT_STARTED = "script.started"
    SCRIPT_ENDED = "script.ended"  # detail.exit_code, signal
    # script.grew: a child of it took so much memory and ended (memory.hog with a size); value, unit byte; detail: CPU
    # time until it began, start_ns, and for each 4 MiB that it took, step_ns, and gave back at its end, exit_ns
    SCRIPT_GREW = "script.grew"
    # node: as slurmctld sees it
    NODE_REGISTERED = "node.registered"  # detail.state
    NODE_CREATED = "node.created"
    NODE_DELETED = "node.deleted"
    NODE_PINGED = "node.pinged"  # value 1 answered, 0 not
    NODE_NOT_RESPONDING = "node.not_responding"  # the "*" flag
    NODE_RESPONDING = "node.responding"
    NODE_DOWN = "node.down"  # detail.reason
    NODE_UP = "node.up"  # DOWN ended; detail.reason
    NODE_DRAINED = "node.drained"  # DRAIN flag set; detail.reason
    NODE_RESUMED = "node.resumed"
    NODE_INVALID = "node.invalid"  # INVAL registration; detail.reason
    NODE_POWERING_DOWN = "node.powering_down"
    NODE_POWERED_DOWN = "node.powered_down"
    NODE_POWERING_UP = "node.powering_up"
    # daemons: node says where, detail.role for primary/backup
    SLURMCTLD_STARTED = "slurmctld.started"  # serving
    SLURMCTLD_STOPPED = "slurmctld.stopped"  # clean
    SLURMCTLD_CRASHED = "slurmctld.crashed"
    SLURMCTLD_STANDBY = "slurmctld.standby"
    SLURMCTLD_TOOK_OVER = "slurmctld.took_over"
    SLURMCTLD_SAVED = "slurmctld.saved"
    SLURMCTLD_RECONFIGURED = "slurmctld.reconfigured"
    SLURMD_STARTED = "slurmd.started"
    SLURMD_STOPPED = "slurmd.stopped"
    SLURMD_CRASHED = "slurmd.crashed"
    SLURMDBD_STARTED = "slurmdbd.started"
    SLURMDBD_STOPPED = "slurmdbd.stopped"
    SLURMDBD_QUEUE_FULL = "slurmdbd.queue_full"
    # scheduling passes: value = jobs tested, unit job; detail.started
    SCHED_MAIN_PASS = "sched.main_pass"
    SCHED_BACKFILL_CYCLE = "sched.backfill_cycle"
    SCHED_PRIORITY_PASS = "sched.priority_pass"
    RESERVATION_CREATED = "reservation.created"
    RESERVATION_ENDED = "reservation.ended"
    # what the user's side sees: written when the answer changes; detail.asked = livez|readyz|nodes|ping
    CLIENT_ANSWERED = "client.answered"
    CLIENT_REFUSED = "client.refused"  # no answer, or an error; detail.error
    METRIC_READ = "metric.read"  # a sample of a daemon's /metrics; actor the daemon; value, unit; detail.metric
    NODE_STATE = "node.state"  # as slurmrestd lists it; detail.state, reason
    JOB_STATE = "job.state"  # as slurmrestd lists it; detail.state, reason
    # pods and containers: actor apiserver (the object's own stamp) or collector (receipt); node = Kubernetes node
    POD_CREATED = "pod.created"  # detail.pod = NAMESPACE/NAME
    POD_SCHEDULED = "pod.scheduled"
    POD_READY = "pod.ready"
    POD_UNREADY = "pod.unready"
    POD_DELETING = "pod.deleting"  # deletionTimestamp set; value = grace, unit s
    POD_DELETED = "pod.deleted"
    POD_ENDED = "pod.ended"  # phase Failed or Succeeded; detail.phase, reason
    CONTAINER_STARTED = "container.started"  # value = restart count, unit restart
    CONTAINER_ENDED = "container.ended"  # detail.reason (OOMKilled, Error ..), exit_code, signal
    CONTAINER_WAITING = "container.waiting"  # detail.reason (CrashLoopBackOff, ErrImageNeverPull ..)
    CONTAINER_PINNED = "container.pinned"  # detail.cpuset, by = cgroup|cpu_manager
    # cpu.overbooked: jobs hold more CPUs than their containers have; node = Kubernetes node; value = CPUs too many,
    # unit cpu, 0: no longer; detail.cpuset = the CPUs they share, detail.jobs
    CPU_OVERBOOKED = "cpu.overbooked"
    KUBE_NODE_CREATED = "kube_node.created"
    KUBE_NODE_DELETED = "kube_node.deleted"
    KUBE_NODE_READY = "kube_node.ready"
    KUBE_NODE_UNREADY = "kube_node.unready"  # detail.status = False|Unknown
    KUBE_NODE_TAINTED = "kube_node.tainted"  # detail.taints
    KUBE_NODE_CORDONED = "kube_node.cordoned"
    KUBE_NODE_UNCORDONED = "kube_node.uncordoned"
    LEASE_RENEWED = "lease.renewed"  # the kubelet's lease of a node; recorded: value = received so late, unit ns
    KUBELET_RELISTED = "kubelet.relisted"  # it looked at its containers; rows around faults only
    POD_SYNCED = "pod.synced"  # the kubelet began a sync of the pod; detail.pod
    POD_PROBED = "pod.probed"  # a probe of it succeeded, some of them; detail.pod, container, probe
    CLAIM_BOUND = "claim.bound"
    CLAIM_LOST = "claim.lost"
    KUBE_EVENT = "kube.event"  # detail.reason, about, message
    OBJECT_CHANGED = "object.changed"  # an object of a custom resource; detail.resource, name, generation
    # an operator's own words; node = the pod, Slurm node or object acted on; detail.do, object, outcome
    ACTION_ISSUED = "action.issued"  # detail.outcome = done|skipped (what it rested on no longer held)
    ACTION_FAILED = "action.failed"  # detail.outcome: the error
    WATCH_BROKEN = "watch.broken"  # the collector lost a watch; detail.resource
    WATCH_RESUMED = "watch.resumed"  # detail.hole true when changes may be missing
    CLOCK_MEASURED = "clock.measured"  # offset of a source's clock; value, unit ns; t_err_ns of the row its error
    # the run itself
    FAULT_INJECTED = "fault.injected"  # detail: the fault as in the scenario; value = lateness of the call, unit ns
    FAULT_PROVEN = "fault.proven"  # its effect was seen; detail.proof
    FAULT_CLEARED = "fault.cleared"
    FAULT_SIGNALLED = "fault.signalled"  # a signal that a fault sends by itself while it lasts; detail.signal
    RUN_STARTED = "run.started"
    RUN_ENDED = "run.ended"  # detail.why = done|max_events|max_time|wall_limit|interrupted


@dataclass(frozen=True, slots=True)
class Column:
    """One column: name, Arrow type name, whether null is allowed, what it means."""

    name: str
    arrow: str
    nullable: bool
    meaning: str


COLUMNS: Final = (
    Column("run_id", "string", False, "the run this row belongs to"),
    Column("world", "string", False, "twin, slurm or kind"),
    Column("seq", "int64", False, "place in the table, from 0; breaks ties of t_ns"),
    Column("t_ns", "int64", False, "nanoseconds since the scenario's start; may be negative before it"),
    Column("t_err_ns", "int64", False, "half-width: the true time lies in t_ns ± t_err_ns; 0 in the twin"),
    Column("kind", "string", False, "one of Kind"),
    Column("actor", "string", False, "who did or saw it: slurmctld, slurmd, backfill, fault, user ..."),
    Column("job_id", "int64", True, "the workload's job number"),
    Column("node", "string", True, "a node name or a canonical Slurm hostlist"),
    Column("pod_uid", "string", True, "Kubernetes pod UID"),
    Column("cluster", "string", True, "cluster name where there is more than one"),
    Column("cause_seq", "int64", True, "seq of the row that led to this one"),
    Column("value", "int64", True, "a number, in unit"),
    Column("unit", "string", True, "unit of value: ns, cpu, job, node ..."),
    Column("detail", "string", True, "JSON object with sorted keys, for what has no column"),
)


class Event(NamedTuple):
    """One row without run_id and world (the same for the whole run) and seq (its place)."""

    t_ns: int
    kind: Kind
    actor: str
    job_id: int | None = None
    node: str | None = None
    value: int | None = None
    unit: str | None = None
    detail: str | None = None
    cause_seq: int | None = None
    t_err_ns: int = 0
    pod_uid: str | None = None
    cluster: str | None = None


def hash_line(event: Event) -> str:
    """The canonical text of a row for the event hash: every column that a world decides, tab-separated."""
    return (
        f"{event[0]}\t{event[1]._value_}\t{event[2]}\t{event[3]}\t{event[4]}\t{event[5]}\t{event[6]}\t{event[7]}"
        f"\t{event[8]}\t{event[9]}\t{event[10]}\t{event[11]}\n"
    )


def arrow_schema() -> Any:
    """The pyarrow schema of an event file (pyarrow is imported here: it is an extra)."""
    import pyarrow as pa

    types = {"string": pa.string(), "int64": pa.int64()}
    columns = [pa.field(c.name, types[c.arrow], nullable=c.nullable, metadata={"meaning": c.meaning}) for c in COLUMNS]
    return pa.schema(columns, metadata={"schema": EVENT_SCHEMA})


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of one row of an events.jsonl file."""
    types = {"string": "string", "int64": "integer"}
    properties: dict[str, Any] = {}
    for c in COLUMNS:
        kind = types[c.arrow]
        properties[c.name] = {"type": [kind, "null"] if c.nullable else kind, "description": c.meaning}
    properties["kind"]["enum"] = [k.value for k in Kind]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": EVENT_SCHEMA,
        "type": "object",
        "properties": properties,
        "required": [c.name for c in COLUMNS if not c.nullable],
        "additionalProperties": False,
    }
