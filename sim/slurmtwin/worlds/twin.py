"""The twin: a scenario simulated in integer nanoseconds, its events, manifest and run folder."""

from __future__ import annotations

import json
import resource
import time as wall_clock
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from slurmtwin.contract.clock import DAY, SECOND
from slurmtwin.contract.cluster_facts import facts_of
from slurmtwin.contract.cluster_faults import ClusterFault
from slurmtwin.contract.errors import UnsupportedError
from slurmtwin.contract.events import Kind
from slurmtwin.contract.manifest import (
    Manifest,
    environment_block,
    sha256_text,
    software_block,
    write_atomic,
    write_manifest,
)
from slurmtwin.contract.operator_steps import OperatorStep
from slurmtwin.contract.scenario import JobAction, PartitionAction, ReservationAction, Scenario
from slurmtwin.contract.several_clusters import dispatch_of, has_several
from slurmtwin.engine import garbage
from slurmtwin.engine.environment import Environment, RunBudget
from slurmtwin.engine.event_sink import EventSink, detail_text
from slurmtwin.engine.random_streams import RandomStreams
from slurmtwin.models import faults
from slurmtwin.models.slurm_cluster import SlurmCluster
from slurmtwin.models.slurmctld.assemble import Assembly
from slurmtwin.models.slurmctld.compiled import NotPlainError
from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
from slurmtwin.models.slurmctld.states import Reason
from slurmtwin.workload.resolve import resolve
from slurmtwin.workload.slurm_conf import cluster_conf
from slurmtwin.worlds.calibration import load_host_costs, load_host_noise
from slurmtwin.worlds.compiled_run import WORTH_COMPILING, play_compiled, scenario_reason
from slurmtwin.worlds.dispatcher import dispatcher_of
from slurmtwin.worlds.job_feed import JobFeed
from slurmtwin.worlds.request_spool import RequestSpool
from slurmtwin.worlds.run import Run
from slurmtwin.worlds.services import with_services
from slurmtwin.worlds.start_times import StartTimes

if TYPE_CHECKING:
    from slurmtwin.contract.cluster import ClusterConf
    from slurmtwin.contract.jobs import JobRequest
    from slurmtwin.contract.scenario import Fault
    from slurmtwin.models.slurmctld.attempt_trace import AttemptTrace
    from slurmtwin.models.slurmctld.host_costs import HostCosts, HostNoise
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

STALL_NS: Final = 30 * DAY
"""A run in which no job has started or ended for so long, and none runs, will not move any more."""
_FEW: Final = 10_000
_NO_PROGRAMS: Final = ("/bin/true", "/usr/bin/true")
"""Power-saving programs that do nothing: the scenario's own faults stop and start the slurmds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinOptions:
    """How to run, beside what the scenario says."""

    seed: int = 0
    replication: int = 0
    tie_seed: int | None = None
    """Shuffle simultaneous events (a test)."""
    folder: Path | None = None
    """Where events.parquet, manifest.json and the rest go."""
    keep: bool = False
    """Keep all events in memory."""
    times: StartTimes = field(default_factory=StartTimes)
    costs: HostCosts | None = None
    """None: calibrated medians of the version."""
    durations: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """contract.pod_durations name -> equally likely values in ns, drawn from the stream `duration.NAME`; a name that
    is not here has its calibrated median."""
    still: bool = False
    """Hold what quiet runs tell at its median: durations come so, and how often the coarse clock is late."""
    scaled: Mapping[str, float] = field(default_factory=dict)
    """contract.pod_durations.RULES name -> factor of that constant of the models (a verdict's power: 0.5 and 2)."""
    operator: Mapping[str, Any] = field(default_factory=dict)
    """Carrier settings of the operator in pods, such as poll_s, that stand over its design's (studies)."""
    core: Literal["auto", "twin", "compiled"] = "auto"
    """Who plays the run: compiled code where it can and pays, never, or wherever it can (compiled_run.py)."""
    on_start: Callable[[TwinWorld], None] | None = None
    """Told the world before it begins: a soak plans faults of its own there."""
    watch: AttemptTrace | None = None
    """Record every attempt to place one job (worlds/why.py)."""


class TwinWorld:
    """One cluster, its users and its faults on one environment."""

    stall_ns = STALL_NS

    def __init__(
        self, scenario: Scenario, conf: ClusterConf, jobs: Iterable[JobRequest], options: TwinOptions, sink: EventSink
    ) -> None:
        self._scenario = scenario
        self._times = options.times
        streams = RandomStreams(options.seed, options.replication)
        self._assembly = self._assemble(streams, options)
        costs, self.costs_origin = load_host_costs(conf.version)
        self.costs = (options.costs or self._own_costs(costs)).scaled(scenario.host.factor)
        self.env = self._environment(options)
        self.sink = sink
        self.cluster = SlurmCluster(self.env, conf, sink, self.costs, self._times.epoch_ns, self._assembly)
        self.cluster.slurmds.programs_act = scenario.slurm.conf.get("ResumeProgram") not in _NO_PROGRAMS
        dispatcher = dispatcher_of(scenario.workload.dispatch, conf)
        self.feed = JobFeed(self.cluster, iter(jobs), self._times, dispatcher, scenario.workload.users)
        self.feed.on_change = self._maybe_over
        side = self._assembly.side(self.cluster)
        side.job_over = self.feed.job_over
        side.noise = self._noise(streams)
        self._faults_left = len(scenario.faults)
        self._stopping = False
        self._moved_ns = 0

    # what a world of pods has otherwise

    def _environment(self, options: TwinOptions) -> Environment:
        return Environment(start_ns=self._begin_ns(), tie_seed=options.tie_seed)

    def _assemble(self, streams: RandomStreams, options: TwinOptions) -> Assembly:
        return Assembly(streams, options.watch)

    def _own_costs(self, costs: HostCosts) -> HostCosts:
        if self._scenario.host.factor == 1 and not self._times.submit_ns:
            return costs.on_many_machines()  # nothing says that it stands beside a run on one machine
        return costs

    def _begin_ns(self) -> int:
        return min(0, self._times.slurmctld_ns - self.costs.slurmctld_start_ns, self._times.slurmd_ns)

    def _noise(self, streams: RandomStreams) -> HostNoise | None:
        host = self._scenario.host
        return load_host_noise(self._scenario.slurm.version, host.factor, streams) if host.noise else None

    def start(self) -> None:
        """Plan daemons, users and faults."""
        env, times = self.env, self._times
        self.sink.emit(env.now_ns, Kind.RUN_STARTED, "twin")
        env.call_at(times.slurmctld_ns - self.costs.slurmctld_start_ns, self._boot_controllers)
        env.call_at(times.slurmd_ns, self._boot_slurmds)
        for place, fault in enumerate(self._scenario.faults):
            at_ns = times.fault_ns[place] if times.fault_ns else fault.at
            faults.expect(self.cluster, fault, at_ns)
            self.cluster.expect(fault, at_ns)
            env.call_at(at_ns, self._inject, fault)
        env.call_at(max(0, env.now_ns), self._open)
        env.call_at(max(0, env.now_ns) + STALL_NS, self._stalled)

    def _boot_controllers(self, _argument: object) -> None:
        self.cluster.boot_controllers()

    def _boot_slurmds(self, _argument: object) -> None:
        self.cluster.boot_slurmds()

    def _open(self, _argument: object) -> None:
        self.feed.start()

    def finish(self) -> None:
        """The run is over: what is still to be told goes into the sink."""

    # faults

    def _inject(self, fault: Fault) -> None:
        self._faults_left -= 1
        document = {**fault.model_dump(mode="json", exclude_defaults=True), "kind": fault.kind}
        self.sink.emit(
            self.env.now_ns, Kind.FAULT_INJECTED, "fault", None, None, None, None, detail_text(fault=document)
        )
        if isinstance(fault, (JobAction, PartitionAction, ReservationAction)):
            self.cluster.request(lambda ctld: _command(ctld, fault), lambda: None, self.costs.rpc_ns)
        elif not isinstance(fault, (ClusterFault, OperatorStep)):
            faults.inject(self.cluster, fault)
        self._maybe_over()

    # the end

    def _maybe_over(self) -> None:
        """Stop when no job is left that could still do something."""
        self._moved_ns = self.env.now_ns
        if self._stopping or not self.feed.exhausted or self.feed.waiting or self._faults_left:
            return
        ctld = self.cluster.ctld
        if ctld is None or ctld.running or ctld.completing or self._open_jobs(ctld):
            return
        self._stopping = True
        self.env.call_in(self.settle_ns(), self._stop)

    def settle_ns(self) -> int:
        """How long the run goes on behind the last job."""
        return self._scenario.after + SECOND  # what belongs to the last job's end still happens

    def unknown_plans(self) -> str | None:
        """What is planned beside the users and slurmctld's own loops; None: nothing."""
        ctld = self.cluster.ctld
        assert ctld is not None
        loops = (ctld.background, ctld.schedulers, getattr(ctld.schedulers, "backfill", None))
        for action in self.env.planned:
            if action not in (self._open, self._stalled) and getattr(action, "__self__", None) not in loops:
                return f"{getattr(action, '__qualname__', action)} is planned"
        return None

    def _open_jobs(self, ctld: Slurmctld) -> bool:
        """Some job may still run: not held, no dependency that can never be met."""
        lifecycle = ctld.lifecycle
        assert isinstance(lifecycle, Lifecycle)
        open_count = lifecycle.open_count
        if open_count > _FEW:
            return True
        stuck = (Reason.DEPENDENCY_NEVER, Reason.BAD_CONSTRAINTS)
        return open_count > 0 and any(
            not job.state.finished and ((job.priority != 0 and job.reason not in stuck) or not job.pending)
            for job in ctld.jobs.values()
        )

    def _stop(self, _argument: object) -> None:
        ctld = self.cluster.ctld
        if ctld is not None and (ctld.running or ctld.completing or self._open_jobs(ctld)):
            self._stopping = False  # a job came back meanwhile
            return
        self.env.stop("done")

    def _stalled(self, _argument: object) -> None:
        ctld = self.cluster.ctld
        idle_ns = self.env.now_ns - self._moved_ns
        if idle_ns >= STALL_NS and self.feed.exhausted and not self._faults_left and not (ctld and ctld.running):
            self.env.stop("stalled")
        else:
            self.env.call_at(max(self.env.now_ns, self._moved_ns) + STALL_NS, self._stalled)


def _command(ctld: Slurmctld, action: JobAction | PartitionAction | ReservationAction) -> None:
    lifecycle = ctld.lifecycle
    assert isinstance(lifecycle, Lifecycle)
    admin = lifecycle.admin
    if isinstance(action, JobAction):
        admin.job(action)
    elif isinstance(action, PartitionAction):
        admin.partition(action)
    else:
        admin.reservation(action)


def run_scenario(
    scenario: Scenario,
    base_dir: Path | str = ".",
    options: TwinOptions | None = None,
    jobs: Iterable[JobRequest] | None = None,
) -> Run:
    """Run one scenario in the twin. base_dir: what the scenario's file names are relative to.

    `jobs` replaces the scenario's workload. Raises InputError for a wrong scenario; a budget ends the run
    cleanly and is named in stop_reason.
    """
    options = options or TwinOptions()
    base = Path(base_dir)
    scenario = with_services(scenario, options.seed)
    refused = not_modelled(scenario)
    if refused:
        raise UnsupportedError(f"{refused}: the twin does not model it", hint="--world kind runs it for real")
    conf = _configuration(scenario, base)
    stream = resolve(scenario, base, options.seed) if jobs is None else None
    requests: Iterable[JobRequest] = stream if stream is not None else jobs or ()
    folder = options.folder
    written = scenario.model_dump_json(by_alias=True)
    run_id = sha256_text(f"{written}|twin|{options.seed}|{options.replication}")[:16]
    began_ns, began_cpu = wall_clock.monotonic_ns(), wall_clock.process_time_ns()
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with RequestSpool(requests, folder / "jobs.jsonl" if folder else None) as spool:
        world, core = _play(scenario, conf, options, spool, run_id)
    sink, why = world.sink, world.env.stop_reason
    sink.emit(world.env.now_ns, Kind.RUN_ENDED, "twin", None, None, None, None, detail_text(why=why))
    sink.close()
    wall_ns = wall_clock.monotonic_ns() - began_ns
    cpu_ns = wall_clock.process_time_ns() - began_cpu
    manifest = _manifest(scenario, sha256_text(written), conf, options, world, core, wall_ns, cpu_ns)
    run = Run("twin", scenario.name, options.seed, sink.event_hash, sink.count, why, manifest, folder, sink.kept)
    if folder is not None:
        resolved = json.dumps(json.loads(written), indent=1, sort_keys=True)
        write_atomic(folder / "scenario.resolved.json", resolved + "\n")
        write_manifest(folder, manifest)
    return run


_last_read: tuple[Scenario, Path, ClusterConf] | None = None
"""What the last run read: replications of one scenario read its files once."""


def _configuration(scenario: Scenario, base: Path) -> ClusterConf:
    global _last_read
    last = _last_read
    if last is not None and last[0] is scenario and last[1] == base:
        return last[2]
    conf, _warnings = cluster_conf(_rendered(scenario), base)
    _last_read = (scenario, base, conf)
    return conf


def _rendered(scenario: Scenario) -> Scenario:
    """With the slurm.conf that the operator of its pods writes."""
    if scenario.pods is None or not scenario.pods.operator:
        return scenario
    from slurmtwin.worlds.pod_operator import rendered

    return rendered(scenario)


def _world(
    scenario: Scenario, conf: ClusterConf, jobs: Iterable[JobRequest], options: TwinOptions, place: tuple[Any, ...]
) -> tuple[TwinWorld, EventSink]:
    """The world that the scenario wants, and its sink; place: what a sink is made of."""
    if scenario.pods is None:
        sink = EventSink(*place)
        return TwinWorld(scenario, conf, jobs, options, sink), sink
    from slurmtwin.worlds.pod_observer import ObservedSink
    from slurmtwin.worlds.pod_world import PodWorld, with_controllers

    if has_several(scenario):
        from slurmtwin.worlds.several_clusters import SeveralClusters

        several = SeveralClusters(scenario, conf, jobs, options, place)
        return several, several.sink
    observed = ObservedSink(*place)
    return PodWorld(scenario, with_controllers(conf, scenario.pods), jobs, options, observed), observed


def not_modelled(scenario: Scenario) -> str:
    """What the scenario asks for that the twin does not model: leaving it out would change results. "": nothing."""
    pods = scenario.pods
    if has_several(scenario):
        dispatch_of(scenario)
    if not any(isinstance(fault, ClusterFault | OperatorStep) for fault in scenario.faults):
        return ""  # a run without them loads none of the code below
    from slurmtwin.worlds import pod_faults, pod_operator

    for fault in scenario.faults:
        if isinstance(fault, ClusterFault) and (pods is None or not pod_faults.modelled(fault)):
            return fault.kind
        if isinstance(fault, OperatorStep) and (pods is None or not pods.operator or not pod_operator.modelled(fault)):
            return fault.kind
    return ""


def _play(
    scenario: Scenario, conf: ClusterConf, options: TwinOptions, spool: RequestSpool, run_id: str
) -> tuple[TwinWorld, dict[str, str]]:
    """The world at the end of the run, and which core played it and why."""
    first = spool.ahead(WORTH_COMPILING + 1)
    reason = scenario_reason(scenario, options, first)
    if reason is None:
        spool.keep()
    events = options.folder / "events.parquet" if options.folder else None
    place = (run_id, "twin", events, options.keep)
    requests = spool.taken()
    with garbage.run_apart():
        world, sink = _world(scenario, conf, requests, options, place)
        try:
            if options.on_start is not None:
                options.on_start(world)
            world.start()
            if reason is None:
                try:
                    reason = play_compiled(world, first[0], requests)
                except NotPlainError as error:
                    reason = str(error)
                    sink.abandon()
                    world, sink = _world(scenario, conf, spool.again(), options, place)
                    world.start()
            if reason is not None:
                budget = scenario.budget
                world.env.run_within(RunBudget(budget.max_events, budget.max_time, budget.wall_limit))
        except BaseException:
            sink.abandon()
            raise
    world.finish()
    garbage.left(world.sink.count)
    return world, {"name": "compiled" if reason is None else "twin", "why": reason or "a plain run"}


def _manifest(
    scenario: Scenario, scenario_sha256: str, conf: ClusterConf, options: TwinOptions, world: TwinWorld,
    core: dict[str, str], wall_ns: int, cpu_ns: int,
) -> Manifest:  # fmt: skip
    wall_s = wall_ns / SECOND
    events = world.sink.count
    return Manifest(
        world="twin",
        scenario=scenario.name,
        scenario_sha256=scenario_sha256,
        seed=options.seed,
        replication=options.replication,
        software={**software_block(), "slurm": conf.version},
        parameters={
            "cluster": facts_of(conf).to_dict(),
            "host_costs": asdict(world.costs),
            "host_costs_origin": "given" if options.costs is not None else world.costs_origin,
            "factor": scenario.host.factor,
            "epoch_ns": options.times.epoch_ns,
            "slurmctld_ns": options.times.slurmctld_ns,
            "slurmd_ns": options.times.slurmd_ns,
            "tie_seed": options.tie_seed,
            "core": core,
        },
        environment=environment_block(),
        resources={
            "wall_s": round(wall_s, 3),
            "cpu_s": round(cpu_ns / SECOND, 3),
            "max_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "events_per_s": round(events / wall_s) if wall_s else 0,
        },
        results=_results(world, world.env.stop_reason, events),
    )


def _results(world: TwinWorld, why: str, events: int) -> dict[str, Any]:
    return {
        "run_id": world.sink.run_id,
        "event_hash": world.sink.event_hash,
        "events": events,
        "engine_events": world.env.event_count,
        "stop_reason": why,
        "simulated_ns": world.env.now_ns,
    }
