"""A twin led along a recording: submits, starts and ends happen when and as they were recorded (one_step.py).

Its own loops and passes stand still; what is under way between two rows (registrations, epilogs) happens by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.clock import MS
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import Scenario
from slurmtwin.engine.environment import Environment
from slurmtwin.engine.event_sink import EventSink
from slurmtwin.engine.random_streams import RandomStreams
from slurmtwin.models.slurm_cluster import SlurmCluster
from slurmtwin.models.slurmctld.assemble import Assembly
from slurmtwin.models.slurmctld.background import BackgroundLoop, Duty
from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
from slurmtwin.models.slurmctld.node_lifecycle import NodeLifecycle
from slurmtwin.models.slurmctld.parts import Placement
from slurmtwin.models.slurmctld.priority_basic import PriorityBasic
from slurmtwin.models.slurmctld.scheduler import Scheduler
from slurmtwin.models.slurmctld.slurmctld import Slurmctld
from slurmtwin.models.slurmctld.start_attempt import is_meta
from slurmtwin.models.slurmctld.states import JobState, Reason
from slurmtwin.models.slurmctld.tables import Job
from slurmtwin.models.slurmd.batch_job import BatchJob
from slurmtwin.workload.slurm_conf import cluster_conf
from slurmtwin.worlds.calibration import load_host_costs
from slurmtwin.worlds.start_times import StartTimes

EPILOG_DOUBT_NS: Final = 25 * MS
"""Host time after a logged end within which the unlogged end of COMPLETING may lie: slurmctld's agent, TERMINATE,
slurmd's answer. Real passes left nodes alone for up to 22 ms after an end (recordings at acceleration 20)."""
_MOST_DOUBTS: Final = 6
"""The last ends before a pass whose order of completion is tried out."""


class _StillLoop(BackgroundLoop):
    """A background loop that never looks."""

    def arm(self, duty: Duty, not_before_s: int = 0, shown_ns: int = 0) -> None:
        """Nothing is ever due."""


class _StillAssembly(Assembly):
    """slurmctld without its own passes: only what is asked of it happens."""

    loop_type = _StillLoop

    def serve(self, ctld: Slurmctld) -> None:
        super().serve(ctld)
        assert isinstance(ctld.schedulers, Scheduler)
        ctld.schedulers.backfill.stop()


class LedTwin:
    """A twin led along a recording."""

    def __init__(self, scenario: Scenario, base_dir: Path, jobs: Iterable[JobRequest], times: StartTimes) -> None:
        conf, _ = cluster_conf(scenario, base_dir)
        self.bf_interval_ns = conf.scheduler.backfill.interval_ns
        conf = replace(conf, scheduler=replace(conf.scheduler, interval_ns=-1))
        costs = load_host_costs(conf.version)[0].scaled(scenario.host.factor)
        self._times = times
        self.env = Environment(start_ns=min(0, times.slurmctld_ns - costs.slurmctld_start_ns, times.slurmd_ns))
        self._cluster = SlurmCluster(
            self.env, conf, EventSink("one-step", "twin"), costs, times.epoch_ns, _StillAssembly(RandomStreams(0))
        )
        self.env.call_at(times.slurmctld_ns - costs.slurmctld_start_ns, lambda _: self._cluster.boot(slurmds=0))
        self.env.call_at(times.slurmd_ns, lambda _: self._cluster.slurmds.start((1 << len(conf.nodes)) - 1))
        # a led job runs until the recording ends it
        self._requests = {job.job_id: replace(job, run_ns=None, cancel_ns=None) for job in jobs}
        self._submitted: set[int] = set()
        self._ends: list[tuple[int, int]] = []
        """Of ended runs: when doubt about their epilogs is over, and nodes."""
        self._held: set[Job] = set()
        """Running jobs that are to be held once they are requeued."""
        self._requeued: dict[Job, tuple[int, int]] = {}
        """Of requeued jobs: between when and when their epilogs came in."""
        self._shown: set[tuple[Job, Job]] = set()
        self._doubt_ns = round(EPILOG_DOUBT_NS * scenario.host.factor)
        if conf.controller.epilog:
            self._doubt_ns += costs.epilog_script_ns
        self._kill_ns = costs.kill_ns

    @property
    def ctld(self) -> Slurmctld:
        """The one controller."""
        ctld = self._cluster.ctld
        assert ctld is not None, "the recording has slurmctld serving before its first job"
        return ctld

    @property
    def lifecycle(self) -> Lifecycle:
        """Its jobs."""
        lifecycle = self.ctld.lifecycle
        assert isinstance(lifecycle, Lifecycle)
        return lifecycle

    def advance(self, t_ns: int) -> None:
        """Let what is under way (registrations, epilogs) happen up to a time."""
        if t_ns > self.env.now_ns:
            self.env.run(until=t_ns)

    def submit(self, number: int) -> None:
        """A recorded submission; a hetjob's components come together."""
        request = self._requests.get(number)
        if request is None or number in self._submitted:
            return
        together = [request]
        if request.het_group:
            together = [r for r in self._requests.values() if r.het_group == request.het_group]
        for part_of in together:
            self._submitted.add(part_of.job_id)
            self.lifecycle.submit(part_of)

    def record(self, number: int, task: int | None) -> Job | None:
        """The record of a job, or of an array's task that was split off."""
        job = self.lifecycle.by_number(number)
        if job is None or task is None:
            return job
        found = self.lifecycle.arrays.task_of(job, task)
        return found if found is not None else job

    def free(self, nodes: int) -> None:
        """A recorded start on these nodes proves that every epilog there was over."""
        for job in list(self.ctld.completing.values()):
            if job.completing_nodes & nodes:
                self.lifecycle.ends.nodes_done(job, job.completing_nodes & nodes, by_message=True)

    def other_completing(self, proven: int) -> list[int]:
        """What else cg_node_bitmap may have been: the end of COMPLETING is not logged.

        Nodes of runs that ended a moment ago may be completing or not, but for those that the pass itself uses
        (`proven`). Tried: all of them done, the last ones not, single ones not.
        """
        now_ns = self.env.now_ns
        self._ends = [end for end in self._ends if end[0] >= now_ns][-_MOST_DOUBTS:]
        recent = [nodes & ~proven for _, nodes in self._ends if nodes & ~proven]
        doubtful = 0
        for nodes in recent:
            doubtful |= nodes
        modelled = self.ctld.nodes.completing
        out = [0]
        for nodes in reversed(recent):
            out.append(out[-1] | nodes)
        out += recent
        masks = dict.fromkeys(modelled & ~doubtful | nodes for nodes in out)
        return [mask for mask in masks if mask != modelled]

    def put_before(self, number: int, other: int) -> bool:
        """Exchange the places of two requeued jobs whose order the log hides; False where it does not.

        From 24.11 on priority/basic gives a requeued job a new priority when its last epilog comes in.
        """
        first, second = self.lifecycle.by_number(number), self.lifecycle.by_number(other)
        priority = self.ctld.priority
        if first is None or second is None or not isinstance(priority, PriorityBasic) or (second, first) in self._shown:
            return False
        if not (first.pending and second.pending and first.restart_count and second.restart_count):
            return False
        began, over = self._requeued[first]
        other_began, other_over = self._requeued[second]
        if first.priority > second.priority or began > other_over or other_began > over:
            return False
        first.priority, second.priority = second.priority, first.priority
        for job in (first, second):
            self.ctld.schedulers.enqueue(job)
        self._shown.add((first, second))
        return True

    def start(self, number: int, task: int | None, nodes: int, by: str) -> bool:
        """Carry out a recorded start; False when the twin cannot place the job on those nodes at all."""
        job = self.record(number, task)
        if job is None or not job.pending:
            return False
        ctld = self.ctld
        for part in job.parts or ([job.part] if job.part else []):
            if nodes & ~part.nodes:
                continue
            job.part = part
            found = ctld.selection.select_nodes(job, part, nodes, ctld.now_s())
            if isinstance(found, Placement) and found.allocation.nodes == nodes:
                starting = self.lifecycle.split_task(job) if is_meta(job) else job
                starting.part = part
                self.lifecycle.start(starting, part, Placement(found.allocation), by)
                return True
        self.lifecycle.end(job, JobState.CANCELLED)
        return False

    def end(self, number: int, task: int | None, detail: dict[str, Any]) -> None:
        """Carry out a recorded end."""
        job = self.record(number, task)
        if job is None:
            return
        if job.state in (JobState.RUNNING, JobState.SUSPENDED):
            state = JobState.__members__.get(str(detail.get("state")), JobState.COMPLETED)
            if job.alloc is not None:
                by_itself = state in (JobState.COMPLETED, JobState.FAILED) and not detail.get("requeued")
                over_ns = self.env.now_ns + self._doubt_ns + (0 if by_itself else self._kill_ns)
                self._ends.append((over_ns, job.alloc.nodes))
                self._requeued[job] = (self.env.now_ns, over_ns)
            if detail.get("requeued"):
                self.lifecycle.requeue(job, "recorded")
                if job in self._held:
                    self.lifecycle.hold(job, Reason.HELD_USER)
            else:
                if isinstance(job.work, BatchJob) and state in (JobState.COMPLETED, JobState.FAILED):
                    job.work.kill(0)  # the script has ended: nothing is left for TERMINATE to kill
                self.lifecycle.ends.finish(job, state, exit_code=_exit_code(detail.get("exit_code")))
        elif job.pending and detail.get("never_started"):
            self.lifecycle.end(job, JobState.CANCELLED)

    def hold(self, number: int, task: int | None) -> None:
        """A recorded hold; slurmctld logs that of a failed launch before the end of the run."""
        job = self.record(number, task)
        if job is None:
            return
        if job.pending:
            self.lifecycle.hold(job, Reason.HELD_USER)
        else:
            self._held.add(job)

    def drain(self, names: Iterable[str]) -> None:
        """A recorded DRAIN that nobody asked for: a failed prolog or launch."""
        nodes = self.ctld.nodes_lifecycle
        assert isinstance(nodes, NodeLifecycle)
        for name in names:
            nodes.drain(self.ctld.nodes.by_name[name], "recorded")


def _exit_code(value: object) -> int:
    """0 and 1 as the twin has them, "1:0" as sacct prints it."""
    return int(str(value or 0).partition(":")[0])
