"""One step at a time: from the recorded state before each real start, does the twin start the same job there?

The twin's tables are led along the recording: submits, starts and ends happen when and as they were recorded,
its own loops and passes stand still. Before each recorded start the scheduler that made it (main pass or
backfill) is asked for its first start; then the recorded one is carried out. So one wrong choice does not
spoil the next comparison, as it does in a free run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.events import Kind
from slurmtwin.contract.hostlist import expand
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import Scenario
from slurmtwin.engine.environment import Environment
from slurmtwin.engine.event_sink import EventSink
from slurmtwin.engine.random_streams import RandomStreams
from slurmtwin.models.slurm_cluster import SlurmCluster
from slurmtwin.models.slurmctld.assemble import Assembly
from slurmtwin.models.slurmctld.background import BackgroundLoop, Duty
from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
from slurmtwin.models.slurmctld.parts import Placement, Refusal
from slurmtwin.models.slurmctld.scheduler import Scheduler
from slurmtwin.models.slurmctld.slurmctld import Slurmctld
from slurmtwin.models.slurmctld.start_attempt import is_meta
from slurmtwin.models.slurmctld.states import JobState
from slurmtwin.models.slurmctld.tables import Job, Partition
from slurmtwin.models.slurmd.batch_job import BatchJob
from slurmtwin.workload.slurm_conf import cluster_conf
from slurmtwin.worlds.calibration import load_host_costs
from slurmtwin.worlds.start_times import StartTimes

BY_SCHEDULER: Final = ("main", "backfill")


@dataclass(frozen=True, slots=True)
class Step:
    """One recorded start beside the twin's choice. Node sets are bitmaps; 0 when nothing would have started."""

    job: tuple[int, int | None]
    by: str
    t_ns: int
    nodes: int
    chosen: tuple[int, int | None] | None
    chosen_nodes: int

    @property
    def same(self) -> bool:
        """The same job on the same nodes."""
        return self.job == self.chosen and self.nodes == self.chosen_nodes


class _StillLoop(BackgroundLoop):
    """A background loop that never looks."""

    def arm(self, duty: Duty, not_before_s: int = 0) -> None:
        """Nothing is ever due."""


class _StillAssembly(Assembly):
    """slurmctld without its own passes: only what is asked of it happens."""

    loop_type = _StillLoop

    def serve(self, ctld: Slurmctld) -> None:
        super().serve(ctld)
        assert isinstance(ctld.schedulers, Scheduler)
        ctld.schedulers.backfill.stop()


class _PickedError(Exception):
    """Ends a pass at its first start; not an error of anybody's."""

    def __init__(self, job: Job, task: int | None, nodes: int) -> None:
        super().__init__()
        self.job, self.task, self.nodes = job, task, nodes


class LedTwin:
    """A twin led along a recording."""

    def __init__(self, scenario: Scenario, base_dir: Path, jobs: Iterable[JobRequest], times: StartTimes) -> None:
        conf, _ = cluster_conf(scenario, base_dir)
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

    @property
    def ctld(self) -> Slurmctld:
        """The one controller."""
        ctld = self._cluster.ctld
        assert ctld is not None, "the recording has slurmctld serving before its first job"
        return ctld

    @property
    def _lifecycle(self) -> Lifecycle:
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
            self._lifecycle.submit(part_of)

    def record(self, number: int, task: int | None) -> Job | None:
        """The record of a job, or of an array's task that was split off."""
        job = self._lifecycle.by_number(number)
        if job is None or task is None:
            return job
        found = self._lifecycle.arrays.task_of(job, task)
        return found if found is not None else job

    def free(self, nodes: int) -> None:
        """A recorded start on these nodes proves that every epilog there was over."""
        for job in list(self.ctld.completing.values()):
            if job.completing_nodes & nodes:
                self._lifecycle.ends.nodes_done(job, job.completing_nodes, by_message=True)

    def choose(self, by: str) -> _PickedError | None:
        """The first start the scheduler would make now; nothing is changed by asking."""
        ctld, lifecycle = self.ctld, self._lifecycle
        selection = ctld.selection
        last: list[Placement] = []

        def select(job: Job, part: Partition, avail: int, now_s: int) -> Placement | Refusal:
            found = type(selection).select_nodes(selection, job, part, avail, now_s)
            if isinstance(found, Placement):
                last[:] = [found]
            return found

        def split(meta: Job) -> Job:
            waiting = meta.array_waiting or [0]
            raise _PickedError(meta, waiting[0], last[0].allocation.nodes)

        def start(job: Job, part: Partition, placement: Placement, by: str) -> None:  # noqa: ARG001
            raise _PickedError(job, job.array_task, placement.allocation.nodes)

        schedulers = ctld.schedulers
        assert isinstance(schedulers, Scheduler)
        ask: Callable[[], int] = schedulers.run_pass if by == "main" else schedulers.backfill.run_cycle
        patches = ((selection, "select_nodes", select), (lifecycle, "split_task", split), (lifecycle, "start", start),
                   (lifecycle, "preempt", lambda *_: None))  # fmt: skip
        for target, name, double in patches:
            setattr(target, name, double)
        try:
            ask()
        except _PickedError as picked:
            return picked
        finally:
            for target, name, _ in patches:
                delattr(target, name)
        return None

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
                starting = self._lifecycle.split_task(job) if is_meta(job) else job
                starting.part = part
                self._lifecycle.start(starting, part, Placement(found.allocation), by)
                return True
        self._lifecycle.end(job, JobState.CANCELLED)
        return False

    def end(self, number: int, task: int | None, detail: dict[str, Any]) -> None:
        """Carry out a recorded end."""
        job = self.record(number, task)
        if job is None:
            return
        if job.state in (JobState.RUNNING, JobState.SUSPENDED):
            state = JobState.__members__.get(str(detail.get("state")), JobState.COMPLETED)
            if detail.get("requeued"):
                self._lifecycle.requeue(job, "recorded")
            else:
                if isinstance(job.work, BatchJob) and state in (JobState.COMPLETED, JobState.FAILED):
                    job.work.kill(0)  # the script has ended: nothing is left for TERMINATE to kill
                self._lifecycle.ends.finish(job, state, exit_code=_exit_code(detail.get("exit_code")))
        elif job.pending and detail.get("never_started"):
            self._lifecycle.end(job, JobState.CANCELLED)


def _exit_code(value: object) -> int:
    """0 and 1 as the twin has them, "1:0" as sacct prints it."""
    return int(str(value or 0).partition(":")[0])


def steps(
    scenario: Scenario, base_dir: Path, jobs: Iterable[JobRequest], rows: Sequence[Any], times: StartTimes
) -> list[Step]:
    """Every recorded start by a scheduler beside the twin's choice. `rows`: the recording's event rows, in order."""
    twin = LedTwin(scenario, base_dir, jobs, times)
    out: list[Step] = []
    for row in rows:
        if row.job_id is None or row.kind not in (Kind.JOB_SUBMITTED, Kind.JOB_STARTED, Kind.JOB_ENDED):
            continue
        twin.advance(row.t_ns)
        detail = json.loads(row.detail) if row.detail else {}
        task = detail.get("array_task")
        if row.kind == Kind.JOB_SUBMITTED:
            twin.submit(row.job_id)
        elif row.kind == Kind.JOB_ENDED:
            twin.end(row.job_id, task, detail)
        else:
            nodes = twin.ctld.nodes.bitmap(expand(row.node))
            by = detail.get("by", "main")
            twin.submit(row.job_id)  # a start proves the submission, which slurmctld may log a moment later
            twin.free(nodes)
            if by in BY_SCHEDULER:
                picked = twin.choose(by)
                chosen = (picked.job.request.job_id, picked.task) if picked else None
                out.append(Step((row.job_id, task), by, row.t_ns, nodes, chosen, picked.nodes if picked else 0))
            twin.start(row.job_id, task, nodes, by)
    return out


def replay_starts(
    scenario: Scenario, base_dir: Path, jobs: Iterable[JobRequest], rows: Sequence[Any], times: StartTimes
) -> tuple[int, int]:
    """(recorded starts, those of which the twin would have chosen job and nodes). Not for scenarios with faults."""
    if scenario.faults:
        return 0, 0
    found = steps(scenario, base_dir, jobs, rows, times)
    return len(found), sum(step.same for step in found)
