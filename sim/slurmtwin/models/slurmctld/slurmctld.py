"""slurmctld as a whole: the tables and the parts that act on them, on one simulated clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.cluster import ClusterConf, NodeConf
from slurmtwin.contract.events import Kind
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.engine.daemon_clock import Clock
from slurmtwin.engine.event_sink import EventSink
from slurmtwin.engine.random_streams import RandomStreams
from slurmtwin.models.slurmctld.changes import Changes, TrackedJob, TrackedNode
from slurmtwin.models.slurmctld.host_costs import HostCosts
from slurmtwin.models.slurmctld.tables import Job, Node, NodeTable, Partition

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld import parts
    from slurmtwin.models.slurmd.parts import Slurmds, ToController


class Slurmctld:
    """The controller's tables. Parts hang on it by name (see `assemble` for which is which)."""

    background: parts.Background
    nodes_lifecycle: parts.NodeLifecycle
    lifecycle: parts.JobLifecycle
    schedulers: parts.Schedulers
    selection: parts.NodeSelection
    priority: parts.PriorityPlugin
    limits: parts.AccountingPolicy
    reservations: parts.Reservations
    licenses: parts.LicensePool
    partition_limits: parts.PartitionPolicy
    store: parts.StateStore
    slurmds: Slurmds
    cluster: ToController

    def __init__(
        self,
        env: Clock,
        conf: ClusterConf,
        sink: EventSink,
        costs: HostCosts,
        streams: RandomStreams,
        epoch_ns: int,
        tracks: bool = False,
    ) -> None:
        self.env = env
        """This slurmctld's own clock: timers end with the process. What runs on nodes uses the environment."""
        self.conf = conf
        self.sink = sink
        self.costs = costs
        self.streams = streams
        self.epoch_ns = epoch_ns
        """The simulated Unix time of t = 0: second boundaries and bf_resolution slots hang on it."""
        self._time = env.environment
        self._second_of_ns: int | None = None
        self._second = 0
        self.node_changes: Changes[Node] | None = Changes() if tracks else None
        self.job_changes: Changes[Job] | None = Changes() if tracks else None
        """Which records have changed; None: nobody asks."""
        self.nodes = NodeTable(conf.nodes, self.node_record)
        self.partitions: dict[str, Partition] = {}
        for index, part in enumerate(conf.partitions):
            bitmap = self.nodes.bitmap(part.nodes)
            cpus = sum(self.nodes.by_name[name].conf.cpus for name in part.nodes)
            self.partitions[part.name] = Partition(part, bitmap, index, cpus)
        self.jobs: dict[int, Job] = {}
        """Job records in memory, by Slurm id, in submit order (purged MinJobAge after their end)."""
        self.running: dict[int, Job] = {}
        """RUNNING and SUSPENDED jobs by Slurm id, in start order."""
        self.completing: dict[int, Job] = {}
        self.reasons_to_keep: dict[int, Job] = {}
        self.reasons_to_find: dict[int, Job] = {}
        """Jobs with a reason that the next build of the queue may find new, or the one behind it (pending_reason.py).
        """
        self.serving = False
        # Slurm's last_*_update stamps (time_t): the schedulers skip work when none has moved
        self._last_job_update_s = 0
        self.job_stamps = 0
        """How often last_job_update was set."""
        self._last_node_update_s = 0
        self._last_part_update_s = 0
        self._last_resv_update_s = 0
        self.accounting: Callable[[bool], None] | None = None
        """While slurmdbd is away: takes each job record that has to wait (True: a start, False: an end)."""
        self.on_update: Callable[[], None] | None = None
        """Called at every stamp: the backfill agent sleeps until something changes."""

    @property
    def last_job_update_s(self) -> int:
        """last_job_update."""
        return self._last_job_update_s

    @last_job_update_s.setter
    def last_job_update_s(self, unix_s: int) -> None:
        self._last_job_update_s = unix_s
        self.job_stamps += 1
        if self.on_update is not None:
            self.on_update()

    @property
    def last_node_update_s(self) -> int:
        """last_node_update."""
        return self._last_node_update_s

    @last_node_update_s.setter
    def last_node_update_s(self, unix_s: int) -> None:
        self._last_node_update_s = unix_s
        if self.on_update is not None:
            self.on_update()

    @property
    def last_part_update_s(self) -> int:
        """last_part_update."""
        return self._last_part_update_s

    @last_part_update_s.setter
    def last_part_update_s(self, unix_s: int) -> None:
        self._last_part_update_s = unix_s
        if self.on_update is not None:
            self.on_update()

    @property
    def last_resv_update_s(self) -> int:
        """last_resv_update."""
        return self._last_resv_update_s

    @last_resv_update_s.setter
    def last_resv_update_s(self, unix_s: int) -> None:
        self._last_resv_update_s = unix_s
        if self.on_update is not None:
            self.on_update()

    def node_record(self, index: int, conf: NodeConf) -> Node:
        """A new record for the node table."""
        changes = self.node_changes
        return Node(index, conf) if changes is None else TrackedNode(index, conf, changes)

    def job_record(self, request: JobRequest, slurm_id: int, submit_s: int) -> Job:
        """A new record for the job table."""
        changes = self.job_changes
        return Job(request, slurm_id, submit_s) if changes is None else TrackedJob(request, slurm_id, submit_s, changes)

    def now_s(self) -> int:
        """time(NULL): the simulated Unix time in whole seconds, truncated."""
        now_ns = self._time.now_ns
        if now_ns != self._second_of_ns:
            self._second_of_ns = now_ns
            self._second = (self.epoch_ns + now_ns) // SECOND
        return self._second

    def at_s(self, unix_s: int) -> int:
        """The simulated nanosecond at which the Unix clock shows unix_s."""
        return unix_s * SECOND - self.epoch_ns

    def emit(
        self, kind: Kind, actor: str = "slurmctld", job_id: int | None = None, node: str | None = None,
        value: int | None = None, unit: str | None = None, detail: str | None = None,
    ) -> None:  # fmt: skip
        """One event row at the present instant."""
        self.sink.emit(self._time.now_ns, kind, actor, job_id, node, value, unit, detail)
