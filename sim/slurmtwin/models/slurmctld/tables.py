"""slurmctld's tables: node records with bitmaps over them, partitions, job records.

A bitmap is a Python int: bit i is the node at index i of the node table (slurm.conf order; dynamic nodes
are appended, slurm.md 1.3). `_s` marks Slurm's own time_t: whole seconds of the simulated Unix clock,
truncated as time(NULL) does, because Slurm's rules compare those and not nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.cluster import NodeConf, PartitionConf
from slurmtwin.contract.hostlist import compress, expand
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.models.slurmctld.states import JobState, NodeBase, NodeFlag, Reason

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.allocation import Allocation

_NUMBERED: Final = re.compile(r"(.*?)(\d+)\Z")

_MOST_TEXTS: Final = 64
"""Hostlists whose bitmaps a node table keeps."""
INFINITE_S: Final = 365 * 86_400
"""Slurm's stand-in for an unlimited time limit where a length is needed: one year (slurm.md 2.2)."""


def bits(bitmap: int) -> Iterator[int]:
    """Indices of the set bits, ascending."""
    while bitmap:
        low = bitmap & -bitmap
        yield low.bit_length() - 1
        bitmap ^= low


def _series(names: list[str]) -> tuple[str, int, int, int]:
    """(prefix, digits, first number, count) if the names count up by one; digits 0 otherwise."""
    found = [_NUMBERED.match(name) for name in names]
    first = found[0] if found else None
    if first is None or len(first[2]) > 18:
        return "", 0, 0, len(names)
    prefix, digits, start = first[1], len(first[2]), int(first[2])
    for place, name in enumerate(names):
        if name != f"{prefix}{start + place:0{digits}d}" or len(name) != len(names[0]):
            return "", 0, 0, len(names)
    return prefix, digits, start, len(names)


def _ranges_text(bitmap: int, prefix: str, digits: int, first: int) -> str:
    parts: list[str] = []
    index = 0
    while bitmap:
        skip = (bitmap & -bitmap).bit_length() - 1
        bitmap >>= skip
        index += skip
        run = (~bitmap & (bitmap + 1)).bit_length() - 1
        low = first + index
        parts.append(f"{low:0{digits}d}" if run == 1 else f"{low:0{digits}d}-{low + run - 1:0{digits}d}")
        bitmap >>= run
        index += run
    return f"{prefix}[{','.join(parts)}]"


@dataclass(slots=True, eq=False)
class Node:
    """One record of the node table."""

    index: int
    conf: NodeConf
    base: NodeBase = NodeBase.UNKNOWN
    """IDLE also stands for ALLOCATED and COMPLETING: NodeLifecycle counts the jobs."""
    flags: NodeFlag = NodeFlag.NONE
    reason: str = ""
    last_response_s: int = 0
    boot_time_s: int = 0
    """0: not known (always so just after slurmctld started)."""
    jobs: dict[int, Job] = field(default_factory=dict)
    """Running and suspended jobs by Slurm id."""
    completing: dict[int, Job] = field(default_factory=dict)
    alloc_cpus: int = 0
    alloc_mem_mib: int = 0
    alloc_cores: int = 0
    """Bitmap over the node's cores (boards*sockets*cores_per_socket)."""
    exclusive_jobs: int = 0
    """Jobs here that own the whole node."""
    owner_user: str = ""
    """--exclusive=user or a partition's ExclusiveUser: who owns the node."""
    last_busy_s: int = 0
    boot_req_s: int = 0
    """When slurmctld asked for a boot (power saving); 0: not waiting for one."""
    power_req_s: int = 0
    """When slurmctld asked for power off; 0: not waiting."""

    @property
    def name(self) -> str:
        """NodeName."""
        return self.conf.name

    @property
    def bit(self) -> int:
        """This node's bit."""
        return 1 << self.index


class NodeTable:
    """Nodes in table order and the bitmaps the schedulers use."""

    def __init__(self, confs: Iterable[NodeConf], record: Callable[[int, NodeConf], Node] = Node) -> None:
        self.nodes: list[Node] = [record(i, conf) for i, conf in enumerate(confs)]
        self.by_name: dict[str, Node] = {n.name: n for n in self.nodes}
        self.avail = 0
        """Schedulable: not DOWN, DRAIN, FAIL, NO_RESPOND, powering down (avail_node_bitmap)."""
        self.idle = 0
        """No job and not completing (idle_node_bitmap)."""
        self.up = 0
        """Not DOWN and answering (up_node_bitmap)."""
        self.completing = 0
        """At least one job is completing there (cg_node_bitmap)."""
        self.external = 0
        """State=EXTERNAL: no slurmd, and for external jobs alone (external_node_bitmap)."""
        self.booting = 0
        self.power_down = 0
        self._series: tuple[str, int, int, int] | None = None
        self._named: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def bitmap(self, names: Iterable[str]) -> int:
        """Bitmap of node names; KeyError for an unknown one."""
        out = 0
        for name in names:
            out |= 1 << self.by_name[name].index
        return out

    def asked(self, names: Iterable[str]) -> int:
        """Bitmap of names that a job was accepted with; KeyError for one that never was.

        A node that was deleted since keeps its bit in it, as delete_nodes() leaves req_node_bitmap alone (node_mgr.c,
        26.05): a job that needs it waits.
        """
        out = 0
        for name in names:
            node = self.by_name.get(name) or next((one for one in reversed(self.nodes) if one.name == name), None)
            if node is None:
                raise KeyError(name)
            out |= node.bit
        return out

    def named(self, text: str) -> int:
        """Bitmap of a hostlist that many jobs share; KeyError for an unknown name, InputError for bad syntax."""
        found = self._named.get(text)
        if found is None:
            if len(self._named) >= _MOST_TEXTS:
                self._named.clear()
            found = self._named[text] = self.bitmap(expand(text))
        return found

    def renamed(self) -> None:
        """Names have come or gone: what lists of names stand for is found out anew."""
        self._named.clear()

    def names(self, bitmap: int) -> list[str]:
        """Names of a bitmap, in table order."""
        return [self.nodes[i].name for i in bits(bitmap)]

    @property
    def series(self) -> tuple[str, int, int, int]:
        """(prefix, digits, first number, count) where names count up by one; digits 0 where they do not."""
        if self._series is None or len(self.nodes) != self._series[3]:
            self._series = _series([n.name for n in self.nodes])
        return self._series

    def hostlist(self, bitmap: int) -> str:
        """Canonical hostlist text of a bitmap."""
        if bitmap & (bitmap - 1) == 0:
            return self.nodes[bitmap.bit_length() - 1].name if bitmap else ""
        prefix, width, first, _count = self.series
        return _ranges_text(bitmap, prefix, width, first) if width else compress(self.names(bitmap))


@dataclass(slots=True, eq=False)
class Partition:
    """One partition record. `conf` is replaced when scontrol updates it."""

    conf: PartitionConf
    nodes: int
    """Bitmap."""
    index: int
    total_cpus: int = 0

    @property
    def name(self) -> str:
        """PartitionName."""
        return self.conf.name


class Job:
    """One record of the job table: a job, an array's meta record or one split-off task, a hetjob component."""

    __slots__ = (
        "account", "accrue_s", "alloc", "array_active", "array_job", "array_max", "array_task", "array_waiting",
        "assoc", "batch_flag", "begin_s", "comment", "completing", "completing_nodes", "configuring", "cpus_min",
        "deadline_s", "demand", "dependency", "direct_prio", "eligible_s", "end_s", "exit_code", "features", "gres",
        "held", "het_job", "id", "kill_on_node_fail", "last_active_s", "licenses", "limit_s", "limit_set", "mem_mib",
        "mem_per_cpu", "nice", "node_pool", "nodes_max", "nodes_min", "part", "parts", "planned_start_s", "pn_min_cpus",
        "pre_suspend_s", "preempt_s", "preemptor", "prio_by_part", "prio_factors", "prio_key", "priority", "qos",
        "reason", "reason_kept", "request", "requeue", "reservation", "restart_count", "slurm_id", "start_s",
        "started_by", "state", "state_before", "submit_s", "suspend_s", "tasks", "time_min_s", "timers",
        "usage_mark_s", "user", "whole_node", "work",
    )  # fmt: skip

    def __init__(self, request: JobRequest, slurm_id: int, submit_s: int) -> None:
        self.request = request
        self.id = request.job_id
        """The workload's number: what events carry."""
        self.slurm_id = slurm_id
        self.state = JobState.PENDING
        self.completing = False
        self.configuring = False
        self.reason: str = Reason.NONE
        self.reason_kept: str = Reason.NONE
        """state_reason_prev_db: the last one that a build of the queue found worth the accounting."""
        self.user = request.user
        self.account = request.account
        self.parts: list[Partition] = []
        """Candidate partitions in request order."""
        self.part: Partition | None = None
        """The one it runs in, or is being tested in."""
        self.qos = ""
        self.assoc: object | None = None
        self.submit_s = submit_s
        self.eligible_s = 0
        """When it became eligible (begin time, dependency); 0: not yet."""
        self.accrue_s = 0
        self.begin_s = 0
        self.deadline_s = 0
        self.start_s = 0
        """Start of the run, or the expected start of a pending job."""
        self.end_s = 0
        """While running: start + limit; then the real end."""
        self.planned_start_s = 0
        self.limit_s: int | None = None
        """Seconds; None: not given (the partition's rules)."""
        self.limit_set = False
        self.time_min_s = 0
        self.priority = 0
        """0: held."""
        self.prio_by_part: list[int] | None = None
        self.prio_key: object | None = None
        self.direct_prio = False
        """Set by hand (scontrol update Priority=): the plugin leaves it alone."""
        self.prio_factors: object | None = None
        """The priority plugin's own record of the job."""
        self.nice = request.nice
        self.held = False
        self.node_pool = False
        """--nodelist names more nodes than an external job takes: any of them will do."""
        self.nodes_min = 1
        self.nodes_max = 0
        """0: no limit."""
        self.cpus_min = 1
        self.tasks = 1
        self.pn_min_cpus = 1
        self.mem_mib = 0
        """Per node, or per CPU when mem_per_cpu; 0: all of the node."""
        self.mem_per_cpu = False
        self.whole_node = False
        self.gres: tuple[tuple[str, str, int], ...] = ()
        """(name, type or "", count per node)."""
        self.licenses: tuple[tuple[str, int], ...] = ()
        self.features: object | None = None
        self.demand: object | None = None
        """Node selection's reading of the sizes above; set to None when one of them changes."""
        self.dependency: list[object] = []
        self.reservation = request.reservation
        self.array_job: Job | None = None
        """A split-off task's meta record."""
        self.array_task: int | None = None
        self.array_waiting: list[int] | None = None
        """Meta record: task indices not split off yet, ascending."""
        self.array_max = 0
        self.array_active = 0
        self.het_job: list[Job] | None = None
        """All components, leader first."""
        self.alloc: Allocation | None = None
        self.completing_nodes = 0
        self.batch_flag = 1
        self.restart_count = 0
        self.requeue = True
        self.kill_on_node_fail = True
        self.last_active_s = 0
        self.exit_code = 0
        self.started_by = ""
        self.preempt_s = 0
        self.preemptor: Job | None = None
        self.suspend_s = 0
        self.pre_suspend_s = 0
        self.state_before: JobState | None = None
        self.timers: list[object] | None = None
        self.usage_mark_s = 0
        self.work: object | None = None
        """What runs on the nodes (slurmd's side)."""
        self.comment = ""

    @property
    def pending(self) -> bool:
        """PENDING, whatever the reason."""
        return self.state is JobState.PENDING

    @property
    def running(self) -> bool:
        """RUNNING: holds nodes and may use them."""
        return self.state is JobState.RUNNING
