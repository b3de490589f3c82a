"""A small slurmctld for scheduler tests: the real schedulers, everything around them as plain as can be.

Jobs hold whole one-CPU nodes, take the lowest free ones, start and end without delay, and complete at once.
What a test does not set is Slurm's default of its version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.cluster import ClusterConf
from slurmtwin.contract.events import Kind
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.slurm_files import SlurmFiles, parse_conf_text
from slurmtwin.engine.environment import Environment, RunBudget
from slurmtwin.engine.event_sink import EventSink
from slurmtwin.engine.random_streams import RandomStreams
from slurmtwin.models.slurmctld.allocation import Allocation
from slurmtwin.models.slurmctld.background import BackgroundLoop
from slurmtwin.models.slurmctld.host_costs import HostCosts
from slurmtwin.models.slurmctld.licenses import Licenses
from slurmtwin.models.slurmctld.partition_limits import PartitionLimits
from slurmtwin.models.slurmctld.parts import Placement, Refusal
from slurmtwin.models.slurmctld.scheduler import Scheduler
from slurmtwin.models.slurmctld.slurmctld import Slurmctld
from slurmtwin.models.slurmctld.states import DependState, JobState, Reason
from slurmtwin.models.slurmctld.tables import INFINITE_S, Job, Node, Partition, bits
from slurmtwin.workload.slurm_conf import read_slurm_files

EPOCH_S = 1_700_000_400
"""t = 0: a multiple of 4200 s, so that slots of bf_resolution=7, 60 or 600 begin at such times of the test's clock."""


def conf_of(text: str, version: str = "26.05", nodes: int = 4) -> ClusterConf:
    """A configuration: `nodes` one-CPU nodes n0.. in partition main (unless the text names its own), and `text`."""
    lines = [text]
    if "NodeName" not in text:
        lines.append(f"NodeName=n[0-{nodes - 1}] CPUs=1 RealMemory=1000")
    if "PartitionName" not in text:
        lines.append("PartitionName=main Nodes=ALL Default=YES MaxTime=UNLIMITED State=UP")
    if "SelectType=" not in text:
        lines.append("SelectType=select/linear")
    return read_slurm_files(SlurmFiles(tuple(parse_conf_text("\n".join(lines), "slurm.conf"))), version)[0]


def lowest(free: int, count: int) -> int:
    """The `count` lowest bits of `free`."""
    chosen = 0
    for _ in range(count):
        low = free & -free
        chosen |= low
        free ^= low
    return chosen


class PlainSelection:
    """parts.NodeSelection for whole one-CPU nodes, written for clarity: lowest free nodes, 30 s groups that double."""

    def __init__(self, ctld: Slurmctld, choose: Callable[[int, int], int] = lowest) -> None:
        self.ctld = ctld
        self.choose = choose
        self.busy = 0
        self.usage_version = 0
        self.fast = True
        """Let backfill use its bitmap search."""
        self.asked = 0
        """Calls of select_nodes and will_run."""

    def select_nodes(self, job: Job, part: Partition, avail: int, now_s: int) -> Placement | Refusal:
        self.asked += 1
        free = avail & part.nodes & self.ctld.nodes.avail & ~self.busy
        if job.nodes_min > part.nodes.bit_count():
            return Refusal("never", Reason.BAD_CONSTRAINTS)
        if free.bit_count() < job.nodes_min:
            return Refusal("busy", Reason.RESOURCES)
        nodes = self.choose(free, job.nodes_min)
        return Placement(Allocation(nodes, None, job.nodes_min))

    def will_run(
        self, job: Job, part: Partition, avail: int, now_s: int,
        start_s: int = 0, until_s: int = 0, now_only: bool = False,
    ) -> tuple[int, int] | Refusal:  # fmt: skip
        self.asked += 1
        count, busy = job.nodes_min, self.busy
        refusal = Refusal("busy", Reason.RESOURCES)
        if start_s <= now_s and (avail & ~busy).bit_count() >= count:
            return now_s, self.choose(avail & ~busy, count)
        if now_only:
            return refusal
        ends = []
        for running in self.ctld.running.values():
            assert running.alloc is not None
            if start_s and running.end_s <= start_s:
                busy &= ~running.alloc.nodes
            elif running.alloc.nodes & avail:
                ends.append(running)
        if start_s and (avail & ~busy).bit_count() >= count:
            return now_s, self.choose(avail & ~busy, count)
        ends.sort(key=lambda j: j.end_s)
        ends = [j for j in ends if not until_s or j.end_s <= until_s]
        window, base, removed = 30, 0, []
        while ends:
            while ends:
                first = ends.pop(0)
                base = base or first.end_s + window - first.end_s % window
                removed.append(first)
                busy &= ~first.alloc.nodes
                if ends and ends[0].end_s > base + window:
                    break
            if (avail & ~busy).bit_count() >= count:
                nodes = self.choose(avail & ~busy, count)
                last = next((j for j in reversed(removed) if j.alloc.nodes & nodes), removed[-1])
                if self.ctld.conf.version == "22.05":
                    last = removed[-1]
                wait_s = self.ctld.conf.timers.kill_wait_ns // SECOND
                end_s = last.end_s if last.end_s > now_s else max(last.end_s + wait_s, now_s + 1)
                return end_s, nodes
            while ends and ends[0].end_s > base + window:
                window *= 2
        return refusal

    def node_counts(self, job: Job, part: Partition) -> tuple[int, int, int] | Refusal:
        return job.nodes_min, job.nodes_min, job.nodes_max or len(self.ctld.nodes)

    def usable_nodes(self, job: Job, part: Partition, avail: int) -> int | None:
        return avail

    def free_nodes(self) -> int:
        return ((1 << len(self.ctld.nodes)) - 1) & ~self.busy

    def uniform(self, job: Job, part: Partition) -> tuple[int, Callable[[int, int], int]] | None:
        fast = self.fast and self.ctld.conf.version != "22.05"
        return (job.nodes_min, self.choose) if fast else None

    def guess_end(self, job: Job, now_s: int) -> int:
        return max(job.end_s + self.ctld.conf.timers.kill_wait_ns // SECOND, now_s + 1)

    def can_ever_run(self, job: Job, part: Partition) -> Refusal | None:
        return None

    def allocate(self, job: Job, allocation: Allocation) -> None:
        self.usage_version += 1
        self.busy |= allocation.nodes

    def release(self, job: Job, nodes: int) -> None:
        self.usage_version += 1
        self.busy &= ~nodes

    def suspend(self, job: Job) -> None:
        self.release(job, job.alloc.nodes)

    def resume(self, job: Job) -> None:
        self.allocate(job, job.alloc)

    def rebuild(self) -> None: ...


class OpenLimits:
    """No association, no QOS; tests may set `why` to make jobs wait."""

    def __init__(self) -> None:
        self.why: dict[int, str] = {}
        self.thresh = 0

    def prio_thresh(self, job: Job) -> int:
        return self.thresh

    def preferred_nodes(self, job: Job, part: Partition) -> int:
        return 0

    def runnable(self, job: Job) -> str | None:
        return self.why.get(job.id)

    def runnable_with(self, job: Job, allocation: Allocation) -> str | None:
        return None

    def max_nodes(self, job: Job, part: Partition) -> None:
        return None


class OpenReservations:
    """Windows (start, end, nodes) for nobody, and names that open at a time."""

    def __init__(self, ctld: Slurmctld) -> None:
        self.ctld = ctld
        self.closed: list[tuple[int, int, int]] = []
        self.inside: dict[str, int] = {}
        self.opens_s: dict[str, int] = {}

    def usable_nodes(self, job: Job, avail: int, start_s: int, end_s: int) -> int:
        if job.reservation:
            return avail & self.inside.get(job.reservation, 0)
        for begin, end, nodes in self.closed:
            if begin < end_s and end > start_s:
                avail &= ~nodes
        return avail

    def access(self, job: Job) -> str | None:
        return None if self.opens_s.get(job.reservation, 0) <= self.ctld.now_s() else Reason.RESERVATION

    def next_change_s(self, after_s: int) -> int | None:
        return min((t for b, e, _ in self.closed for t in (b, e) if t > after_s), default=None)


class Forgetful:
    """parts.StateStore that saves nothing."""

    def changed(self, jobs: bool = True) -> None: ...
    def backfill_starts(self) -> None: ...


class MiniLifecycle:
    """Jobs start and end at once; an ended job is gone."""

    def __init__(self, cluster: MiniCluster) -> None:
        self.cluster = cluster
        self.depends: dict[int, DependState] = {}
        self.preempted: list[tuple[int, int]] = []
        self.held: list[int] = []

    def start(self, job: Job, part: Partition, placement: Placement, by: str) -> None:
        c, ctld = self.cluster, self.cluster.ctld
        ctld.schedulers.dequeue(job)
        job.state, job.reason, job.part, job.alloc = JobState.RUNNING, Reason.NONE, part, placement.allocation
        job.start_s, job.started_by = ctld.now_s(), by
        job.end_s = job.start_s + (job.limit_s if job.limit_s is not None and job.limit_s >= 0 else INFINITE_S)
        ctld.running[job.slurm_id] = job
        ctld.selection.allocate(job, placement.allocation)
        ctld.nodes.idle &= ~placement.allocation.nodes
        ctld.last_job_update_s = ctld.now_s()
        if job.licenses:
            ctld.licenses.take(job)
        if job.array_job is not None:
            job.array_job.array_active += 1
        c.started.append((ctld.env.now_ns, job.id, job.array_task, placement.allocation.nodes, by))
        ctld.emit(Kind.JOB_STARTED, job_id=job.id)
        if job.request.run_ns is not None:
            ctld.env.call_in(job.request.run_ns, lambda _: self.end(job, JobState.COMPLETED))

    def end(self, job: Job, state: JobState, reason: str = "") -> None:
        ctld = self.cluster.ctld
        if job.state is JobState.PENDING:
            ctld.schedulers.dequeue(job)
            job.state = state
            return
        if job.state is not JobState.RUNNING:
            return
        job.state, job.end_s = state, ctld.now_s()
        del ctld.running[job.slurm_id]
        ctld.selection.release(job, job.alloc.nodes)
        ctld.nodes.idle |= job.alloc.nodes
        if job.licenses:
            ctld.licenses.give_back(job)
        if job.array_job is not None:
            job.array_job.array_active -= 1
        ctld.last_job_update_s = ctld.last_node_update_s = ctld.now_s()
        self.cluster.ended.append((ctld.env.now_ns, job.id))
        if self.cluster.passes:
            ctld.schedulers.pass_now() if self.cluster.epilog_message else ctld.schedulers.queue_pass()

    def split_task(self, meta: Job) -> Job:
        assert meta.array_waiting
        index = meta.array_waiting.pop(0)
        if meta.array_waiting:
            task = self.cluster.copy(meta)
        else:
            task, meta.array_waiting = meta, None
        task.array_task, task.array_job = index, meta
        return task

    def dependency_state(self, job: Job) -> DependState:
        return self.depends.get(job.id, DependState.SATISFIED)

    def hold(self, job: Job, reason: str) -> None:
        job.priority, job.reason = 0, reason
        self.held.append(job.id)
        self.cluster.ctld.schedulers.dequeue(job)

    def preempt(self, victims: Iterable[Job], preemptor: Job) -> None:
        for victim in victims:
            self.preempted.append((victim.id, preemptor.id))

    def requeue(self, job: Job, reason: str) -> None: ...

    def node_failed(self, node: Node, reason: str) -> None: ...


class MiniCluster:
    """Build, submit, run, look at `started`: [(ns, job id, array task, nodes, by), ...]."""

    def __init__(
        self, text: str = "", version: str = "26.05", nodes: int = 4, costs: HostCosts | None = None,
        start_ns: int = 0, passes: bool = True, choose: Callable[[int, int], int] = lowest, keep: bool = True,
        conf: ClusterConf | None = None,
    ) -> None:  # fmt: skip
        self.env = Environment(start_ns)
        conf = conf or conf_of(text, version, nodes)
        self.sink = EventSink("test", "twin", keep=keep)
        self.ctld = ctld = Slurmctld(
            self.env, conf, self.sink, costs or HostCosts(), RandomStreams(1), EPOCH_S * SECOND
        )
        self.passes = passes
        self.epilog_message = True
        self.started: list[tuple[int, int, int | None, int, str]] = []
        self.ended: list[tuple[int, int]] = []
        self.lifecycle = MiniLifecycle(self)
        self.limits = OpenLimits()
        self.reservations = OpenReservations(ctld)
        parts: dict[str, Any] = {
            "background": BackgroundLoop(ctld), "lifecycle": self.lifecycle, "limits": self.limits,
            "reservations": self.reservations, "licenses": Licenses(ctld), "store": Forgetful(),
            "partition_limits": PartitionLimits(ctld), "selection": PlainSelection(ctld, choose),
        }  # fmt: skip
        for name, part in parts.items():
            setattr(ctld, name, part)
        self.scheduler = Scheduler(ctld)
        ctld.schedulers = self.scheduler
        ctld.nodes.avail = ctld.nodes.idle = ctld.nodes.up = (1 << len(ctld.nodes)) - 1
        self._next_id = 0
        if passes:
            ctld.background.start()
            self.scheduler.start()

    def copy(self, meta: Job) -> Job:
        """A task's record of its own."""
        self._next_id += 1
        task = Job(meta.request, 100_000 + self._next_id, meta.submit_s)
        copied = ("limit_s", "time_min_s", "nodes_min", "priority", "parts", "licenses", "eligible_s", "reservation")
        for name in copied:
            setattr(task, name, getattr(meta, name))
        self.ctld.jobs[task.slurm_id] = task
        return task

    def job(self, number: int, nodes: int = 1, limit_s: int | None = 60, run_s: float | None = 60, **more: Any) -> Job:
        """A job record of this moment. more: JobRequest options, or Job attributes such as priority, time_min_s."""
        ctld = self.ctld
        run_ns = None if run_s is None else round(run_s * SECOND)
        request = JobRequest(job_id=number, submit_ns=self.env.now_ns, run_ns=run_ns)
        attributes = {name: more.pop(name) for name in list(more) if name in Job.__slots__ and name != "reservation"}
        request = replace(request, **more)
        job = Job(request, number, ctld.now_s())
        job.nodes_min, job.limit_s, job.priority = nodes, limit_s, 1
        job.cpus_min = nodes
        job.parts = (
            [ctld.partitions[p] for p in request.partition.split(",")]
            if request.partition
            else [next(iter(ctld.partitions.values()))]
        )
        for name, value in attributes.items():
            setattr(job, name, value)
        return job

    def submit(
        self, number: int, nodes: int = 1, limit_s: int | None = 60, run_s: float | None = 60, **more: Any
    ) -> Job:
        """The job arrives now."""
        return self.arrive(self.job(number, nodes, limit_s, run_s, **more))

    def arrive(self, job: Job) -> Job:
        """Into the tables and the queue."""
        ctld = self.ctld
        ctld.jobs[job.slurm_id] = job
        ctld.last_job_update_s = ctld.now_s()
        ctld.schedulers.enqueue(job)
        if self.passes:
            ctld.schedulers.queue_pass()
        return job

    def at(self, seconds: float, action: Callable[[], object]) -> None:
        """Do it at that time."""
        self.env.call_at(round(seconds * SECOND), lambda _: action())

    def run(self, until_s: float | None = None) -> MiniCluster:
        """Run to that time, or until nothing is left."""
        self.env.stop_reason = ""
        self.env.run_within(RunBudget(max_time_ns=None if until_s is None else round(until_s * SECOND)))
        return self

    def start_s(self, number: int, task: int | None = None) -> float | None:
        """When the job started, seconds since t = 0; None: not (yet)."""
        for at_ns, job_id, index, _nodes, _by in self.started:
            if job_id == number and index == task:
                return at_ns / SECOND
        return None

    def nodes_of(self, number: int) -> list[int]:
        """Node indices of the job's start."""
        return next(list(bits(nodes)) for _, job_id, _, nodes, _ in self.started if job_id == number)

    def order(self) -> list[int]:
        """Job ids in order of start."""
        return [job_id for _, job_id, _, _, _ in self.started]

    def kinds(self) -> Sequence[Kind]:
        """Kinds of all events so far."""
        self.sink._flush()
        assert self.sink.kept is not None
        return [event.kind for event in self.sink.kept]
