"""The twin of Slurm in pods: a control plane, machines and Slurm's daemons on one clock, and a scenario's faults.

The objects are those that the world kind applies, the rows those of its collector and observer. Slurm's side is the
twin's own: a pod's container starts and ends its daemons (models/slurm_pods).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.contract.clock import SECOND, US
from slurmtwin.contract.cluster_faults import ClusterFault
from slurmtwin.contract.events import Kind
from slurmtwin.contract.hostlist import expand
from slurmtwin.contract.kubernetes import KubernetesCluster
from slurmtwin.contract.operator_steps import OperatorStep
from slurmtwin.contract.slurm_files import parse_conf_text, scenario_files
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.api_server.client import Client
from slurmtwin.models.api_server.collector import Collector
from slurmtwin.models.api_server.objects import Node as KubeNode
from slurmtwin.models.api_server.objects import Object, Pod
from slurmtwin.models.api_server.server import ApiServer
from slurmtwin.models.controllers.assemble import control_plane
from slurmtwin.models.controllers.defaults import defaults_of
from slurmtwin.models.kubelet.admission import NodeCapacity
from slurmtwin.models.kubelet.configuration import eviction_state, flat_host, node_resources, refuses_to_start
from slurmtwin.models.kubelet.container_runtime import ContainerRuntime
from slurmtwin.models.kubelet.cpu_topology import list_form
from slurmtwin.models.kubelet.defaults import kubelet_defaults
from slurmtwin.models.kubelet.kubelet import KubeletSettings
from slurmtwin.models.kubelet.machine import Machine
from slurmtwin.models.kubelet.node_pressure import NodeUse
from slurmtwin.models.slurm_pods.cpu_binding import CpuBook
from slurmtwin.models.slurm_pods.programs import SlurmPrograms
from slurmtwin.models.slurm_pods.settings import RESOLVER_NS, DaemonPods
from slurmtwin.models.slurm_pods.supervisor import ROUND_NS
from slurmtwin.models.slurmctld.background import BackgroundLoop, steady_loop
from slurmtwin.models.slurmctld.host_costs import HostCosts, HostNoise
from slurmtwin.models.slurmctld.node_lifecycle import NodeLifecycle
from slurmtwin.models.slurmctld.scheduler import Scheduler
from slurmtwin.workload.slurm_conf import read_slurm_files
from slurmtwin.worlds import pod_objects, standby
from slurmtwin.worlds.kubelet_phases import KubeletPhases, LastSync, exit_range_ns
from slurmtwin.worlds.pod_assembly import PodAssembly
from slurmtwin.worlds.pod_bridge import BridgePart, is_bridge
from slurmtwin.worlds.pod_durations import OF_BURSTS, ROUNDS_APART, possible_shares, usual_durations
from slurmtwin.worlds.pod_faults import REQUEST_NS, WATCH_NS, ClusterFaults
from slurmtwin.worlds.pod_limits import growth, late_fill, limited_launch, limited_script, limited_start
from slurmtwin.worlds.pod_observer import ObservedSink, Observer
from slurmtwin.worlds.pod_operator import (
    OperatorPart,
    design_of,
    rendered,
    slurmd_again,
    supervised_ends,
    supervised_restart,
)
from slurmtwin.worlds.pod_others import IMAGE, other_pod, other_program
from slurmtwin.worlds.pod_scaling import Machines
from slurmtwin.worlds.pod_services import DISK_BYTES, Keys, NameService, has_disk
from slurmtwin.worlds.pod_starts import Sharing, binds, daemon_stop, less, start_costs
from slurmtwin.worlds.pod_state import PodState
from slurmtwin.worlds.service_ways import RULES_NS, Ways
from slurmtwin.worlds.start_times import StartTimes, begins
from slurmtwin.worlds.twin import TwinOptions, TwinWorld

if TYPE_CHECKING:
    from slurmtwin.contract.cluster import ClusterConf
    from slurmtwin.contract.jobs import JobRequest
    from slurmtwin.contract.kubernetes import Kubelet
    from slurmtwin.contract.pods import OtherPod, PodsSection
    from slurmtwin.contract.scenario import Fault, Scenario
    from slurmtwin.engine.random_streams import RandomStreams
    from slurmtwin.models.kubelet.defaults import KubeletDefaults
    from slurmtwin.models.kubelet.eviction import EvictionState
    from slurmtwin.models.slurmctld.assemble import Assembly

Draw = Callable[[], int]
LEAD_NS: Final = 14 * SECOND
"""Pods are created so long before their daemons are to serve: quiet runs need 5 to 13 s (docs/kind-slurm.md)."""
SETTLED_NS: Final = 2 * SECOND
"""The cluster itself is there so long before anything is created in it."""
GRACE: Final = "node-monitor-grace-period"
API_BACK_NS: Final = (2 * SECOND, 5 * SECOND)
"""The kubelet hears of a manifest at once (pkg/kubelet/config/file_linux.go watches the folder by inotify; each 20 s it
looks besides); the container and the server take the rest."""
CONFIGLESS_NS: Final = 10 * SECOND
"""slurmd -Z: pause between two requests for its configuration (slurmd.c _establish_configuration())."""


class PodWorld(TwinWorld):
    """One Slurm cluster in pods of one Kubernetes cluster."""

    def __init__(
        self, scenario: Scenario, conf: ClusterConf, jobs: Iterable[JobRequest], options: TwinOptions,
        sink: ObservedSink,
    ) -> None:  # fmt: skip
        assert scenario.pods is not None
        self._pods: PodsSection = scenario.pods
        self._durations = usual_durations(options.durations)
        self._still = options.still
        self._scaled = options.scaled
        self._lag = "loop-wake" if steady_loop(conf.version) else "loop-round"
        """The duration that slurmctld's loop is late by."""
        message_ns = self.scaled("message-timeout", conf.timers.message_timeout_ns)
        backfill = conf.scheduler.backfill
        backfill = replace(backfill, interval_ns=self.scaled("backfill-interval", backfill.interval_ns))
        delay_ns = self.scaled("batch-sched-delay", conf.scheduler.batch_sched_delay_ns)
        conf = replace(
            conf, timers=replace(conf.timers, message_timeout_ns=message_ns),
            scheduler=replace(conf.scheduler, backfill=backfill, batch_sched_delay_ns=delay_ns),
        )  # fmt: skip
        super().__init__(scenario, conf, jobs, options, sink)
        self.kube = KubePart(self, scenario, options, sink)
        self.cluster.shutdown_wait_ns = self.scaled("shutdown-wait", self.cluster.shutdown_wait_ns)
        standby.begin(self)
        self.cluster.volume.kept = self.cluster.volume.copies_all = True  # nobody announces when a pod is killed
        self._attach_state(scenario, conf, sink)
        self.observer = Observer(self.cluster, sink, self.kube.reached, self.kube.listed)
        self.kube.ways.tell(self.observer, (controller.name for controller in self.cluster.controllers))
        faults, look = self.kube.faults, self.observer.look
        faults.look = look
        faults.drain_ended = self._maybe_over
        faults.names = NameService(self.env, self.feed, look, self.scaled("resolver-timeout", RESOLVER_NS))
        faults.keys = Keys(self.env, self.cluster, look)
        if self.kube.bridge is not None:
            self._assembly.side(self.cluster).job_over = self._job_over

    def _attach_state(self, scenario: Scenario, conf: ClusterConf, sink: ObservedSink) -> None:
        """What slurmctld's pod has from outside, where faults reach it."""
        pods = self._pods
        state = PodState(
            self.cluster, self.streams, pods.config_poll, self.kube.controller_pod, self.factor("config-map-sync"),
            partial(configured, scenario, conf.version, pods),
        )  # fmt: skip
        assert isinstance(self._assembly, PodAssembly)
        self._assembly.state = self.kube.faults.state = state
        sink.slurmd_starts = lambda names: state.slurmd_started(self.cluster.node_bitmap(expand(names)))
        if conf.controller.accounting_storage:
            sink.recorded = state.recorded

    # what differs from Slurm on bare machines

    def _assemble(self, streams: RandomStreams, options: TwinOptions) -> Assembly:
        self.streams = streams
        assembly = PodAssembly(
            streams, options.watch, options.still, options.times.clock_lag_ns, self.draw("register-answer"),
            options.times.host_load, options.times.runs_beside,
        )  # fmt: skip
        assembly.first_tick_ns = self.scaled("min-checkin-time", assembly.first_tick_ns)
        return assembly

    def _own_costs(self, costs: HostCosts) -> HostCosts:
        """Costs of this host: drawn once where the models take one value, else by `_noise`."""
        lag_ns = self._round_lag_ns(self.draw(self._lag)())
        self.own_start_ns = costs.slurmctld_start_ns, costs.slurmd_start_ns
        return replace(
            costs.on_many_machines(), submit_rpc_ns=self.draw("submit")(), loop_lag_ns=lag_ns,
            slurmctld_start_ns=0, slurmd_start_ns=0, launch_ns=self.middle("script-launch"),
            exit_notice_ns=self.middle("exit-notice"), node_down_ns=self.draw("node-down")(),
        )  # fmt: skip

    def middle(self, name: str) -> int:
        """The median of a duration, as this replication's fit has it."""
        values = sorted(self._durations[name])
        return values[len(values) // 2]

    def _noise(self, streams: RandomStreams) -> HostNoise | None:  # noqa: ARG002  its streams have names
        one_host = self._times.submit_ns and self.has(OF_BURSTS)  # else nothing says that nodes share a machine
        among_ns = self.draw(OF_BURSTS) if one_host else None
        notice, lingers = self.draw("exit-notice"), self.happens("stepd.lingers")
        launch, waits = limited_launch(self, self._pods), limited_script(self, self._pods)
        return HostNoise(launch, notice, lingers, among_ns, waits, dict(self._times.script_ns))

    def happens(self, name: str) -> Callable[[], bool]:
        """What comes now and then: how often is drawn once, whether each time."""
        *shares, own = possible_shares(name)
        drawn = self.streams.uniform_ns(f"{name.partition('.')[0]}.share", 0, len(shares))
        share = own if self._still else shares[drawn()]
        part = self.streams.uniform_ns(name, 0, SECOND)
        return lambda: part() < share * SECOND

    def has(self, *names: str) -> bool:
        """Whether the batch's quiet runs show all of these durations."""
        return all(name in self._durations for name in names)

    def draw(self, name: str, by: str = "") -> Draw:
        """A duration of contract/pod_durations.py; by: who draws it for himself."""
        return self.streams.choice_ns(f"duration.{name}{by}", list(self._durations[name]))

    def scaled(self, name: str, value_ns: int) -> int:
        """A rule of contract/pod_durations.py, as a verdict wants it."""
        return round(value_ns * self.factor(name))

    def factor(self, name: str) -> float:
        """How much of a rule a verdict wants: 0.5, 1 or 2."""
        return self._scaled.get(name, 1)

    def _begin_ns(self) -> int:
        return self.apply_ns - SETTLED_NS

    @property
    def start_times(self) -> StartTimes:
        """What a recording fixes."""
        return self._times

    @property
    def apply_ns(self) -> int:
        """When the workers, or all, are created: where slurmctld comes later, as the recording has it."""
        return applied_ns(self._pods, self._times)

    def _boot_controllers(self, _argument: object) -> None:
        """Their pods do that."""

    def _boot_slurmds(self, _argument: object) -> None:
        """Their pods do that."""

    def start(self) -> None:
        """The cluster, then as ever."""
        super().start()
        times = self._times
        stood: tuple[tuple[int | None, Callable[[Any], None], object], ...] = (
            *((at, self._pinged_then, nodes) for at, nodes in times.pings),
            *((at, self._passed_then, Scheduler.called_then) for at in times.called_ns),
            (times.look_ns, self._look_then, None), (times.full_pass_ns, self._passed_then, Scheduler.full_pass_then),
            (times.anew_ns, self._cycle_then, None), (times.cycle_ns, self._cycle_then, None),
        )  # fmt: skip
        for at, then, what in stood:
            if at is not None and at >= self.env.now_ns:
                self.env.call_at(at, then, what)
        self.kube.start()

    def _pinged_then(self, nodes: str) -> None:
        """A tick that the recording has."""
        ctld = self.cluster.ctld
        lifecycle = ctld.nodes_lifecycle if ctld is not None else None
        if isinstance(lifecycle, NodeLifecycle):
            lifecycle.pings.asked_now(self.cluster.node_bitmap(expand(nodes)), self._times.clock_lag_ns)

    def _look_then(self, _argument: object) -> None:
        """A look of slurmctld's loop that the recording has."""
        loop = self.cluster.ctld.background if self.cluster.ctld is not None else None
        if isinstance(loop, BackgroundLoop):
            loop.look_then()

    def _round_lag_ns(self, drawn_ns: int) -> int:
        """What the loop is late by, of this slurmctld and of those after it. A round of 22.05's is as long as those
        before the first fault, give or take what lies between one tick's rounds and the next one's.

        What it takes beyond its second is how late ten sleeps end, which is the host's load: 1.1 to 7 ms. That stays
        drawn where durations are held still: no quiet run tells the load of another minute.
        """
        known_ns = self._times.round_ns
        if known_ns is None:
            return drawn_ns
        times = math.exp(ROUNDS_APART * self.streams.generator("loop_round").normal())
        return round((known_ns - SECOND) * times / US) * US

    def _passed_then(self, what: Callable[[Scheduler, int], None]) -> None:
        """A full main pass that the recording has, or a call of the loop for a pass."""
        schedulers = self.cluster.ctld.schedulers if self.cluster.ctld is not None else None
        if isinstance(schedulers, Scheduler):
            what(schedulers, self._times.clock_lag_ns)

    def _cycle_then(self, _argument: object) -> None:
        """A backfill cycle that the recording has, or a start: backfill sleeps from then on."""
        schedulers = self.cluster.ctld.schedulers if self.cluster.ctld is not None else None
        if isinstance(schedulers, Scheduler):
            schedulers.backfill.cycle_then()

    def _inject(self, fault: Fault) -> None:
        if not isinstance(fault, (ClusterFault, OperatorStep)):
            super()._inject(fault)
            return
        self._faults_left -= 1
        document = {**fault.model_dump(mode="json", exclude_defaults=True), "kind": fault.kind}
        where = self.kube.where(fault)
        said = detail_text(fault=document)
        self.sink.emit(self.env.now_ns, Kind.FAULT_INJECTED, "fault", None, where, None, None, said)
        clear = self.kube.inject(fault)
        if fault.lasts:
            self._faults_left += 1
            self.env.call_in(fault.lasts, self._clear, (clear, where, said))
        self._maybe_over()

    def meet(self, fault: Fault) -> None:
        """A fault that the scenario does not name happens now. Raises InputError for a target that is not there."""
        if isinstance(fault, ClusterFault):
            self.kube.where(fault)
        self._faults_left += 1
        self._inject(fault)

    def _job_over(self, number: int) -> None:
        assert self.kube.bridge is not None
        self.kube.bridge.over(number)
        self.feed.job_over(number)

    def part_over(self) -> None:
        """A part of the world has nothing left to do."""
        self._maybe_over()

    def _maybe_over(self) -> None:
        """Not while a script or a bridged pod runs, though slurmctld may have lost its job, nor during a drain."""
        if self.kube.faults.drains or (self.kube.bridge is not None and self.kube.bridge.busy):
            return
        if not any(work.nodes for work in self.cluster.slurmds.works.values()):
            super()._maybe_over()

    def _clear(self, order: tuple[Callable[[], None], str | None, str]) -> None:
        clear, where, said = order
        self._faults_left -= 1
        self.sink.emit(self.env.now_ns, Kind.FAULT_CLEARED, "fault", None, where, None, None, said)
        clear()
        self._maybe_over()


class KubePart:
    """The Kubernetes cluster under it."""

    def __init__(self, world: PodWorld, scenario: Scenario, options: TwinOptions, sink: ObservedSink) -> None:
        self._world = world
        self._scenario = scenario
        self._times = options.times
        env, streams = world.env, world.streams
        self._cluster = (scenario.clusters or (KubernetesCluster(),))[0]
        self.namespace = f"st-{scenario.name}"
        self._sharing = Sharing(env)
        self._rest_pod = ""
        """The slurmrestd pod that served last."""
        request = streams.uniform_ns("api_server.request", *REQUEST_NS)
        self.server = ApiServer(env, streams.uniform_ns("api_server.watch", *WATCH_NS), world.draw("forced-removal"))
        Collector(env, self.server, world.sink, streams.uniform_ns("collector.watch", *WATCH_NS))
        version = self.kubernetes = self._cluster.kubernetes
        self.plane = control_plane(
            env, self.server, defaults_of(version, options.scaled.get(GRACE, 1)), streams, request,
            binds(world, self._sharing), world.draw("claim-bind"),
            world.draw("set-status"), dict(options.times.pod_node),
        )  # fmt: skip
        self.slurm = SlurmPrograms(world.cluster, self._settings(options), other_program)
        world.cluster.slurmds.orders_first = world.happens("slurmctld.orders_first")
        world.cluster.slurmds.registers_in = less(world.draw("registration"), world.cluster.costs.rpc_ns)
        self.slurm.book = CpuBook(env, world.sink, self._cpus)
        if "task/affinity" in str(scenario.slurm.conf.get("TaskPlugin", "")):
            self.slurm.plugin = "task/affinity"
        self.request = request
        self.event = world.draw("operator-event", ".kubelet")
        self._costs = start_costs(world, self._sharing, "" if scenario.pods is None else scenario.pods.operator)
        self.hooked: Callable[[Pod], None] = lambda _: None
        nodes = pod_objects.kube_nodes(self._cluster)
        self.machines = {node.meta.name: self._machine(place, node) for place, node in enumerate(nodes)}
        rules_ns = world.scaled("proxy-min-sync", RULES_NS)
        self.ways = Ways(env, self.server, self.machines, self.namespace, streams, rules_ns)
        exit_ns = exit_range_ns(options.times, world.middle("container-restart"))
        self.phases = KubeletPhases(self.machines, options.times, world.draw("relist"), exit_ns, streams)
        self.operator: OperatorPart | None = None
        self.bridge: BridgePart | None = None
        if is_bridge(scenario):
            self.bridge = BridgePart(self, world, scenario, options.operator)
        elif scenario.pods is not None and scenario.pods.operator:
            self.operator = OperatorPart(self, world, scenario, sink, options.operator)
        self.faults = ClusterFaults(
            env, self.server, self.machines, self.slurm, world.cluster, self.namespace,
            streams.uniform_ns("api_server.back", *API_BACK_NS),
            self.bridge.bridge if self.bridge else self.operator.operator if self.operator else None,
        )  # fmt: skip
        self.faults.plane = self.plane
        self.faults.draw_from(world, options.times)

    def _settings(self, options: TwinOptions) -> DaemonPods:
        """Daemons serve for the first time when a recording says so, where their container runs by then."""
        world, times = self._world, options.times
        pods = self._scenario.pods
        assert pods is not None
        now = world.env
        slurmctld, slurmd = world.draw("slurmctld-start"), limited_start(world, pods)
        slurmd_ns = max(times.slurmd_ns, times.slurmctld_ns + SECOND)
        pinned = 0 if pods.controller_after else len(pod_objects.worker_names(self._scenario))
        resolver_ns = world.scaled("resolver-timeout", RESOLVER_NS)
        hears, ends = supervised_ends(pods.operator, world)
        spawn, again, (slurmctld_own_ns, _) = world.draw("supervisor-spawn"), slurmd_again(world), world.own_start_ns
        standby_ns = () if times.standby_ns is None else (times.standby_ns,)
        return DaemonPods(
            livez=self._scenario.slurm.version >= "26.05",
            slurmctld_begin=begins(now, (times.slurmctld_ns,), slurmctld),
            standby_begin=begins(now, standby_ns, slurmctld),
            slurmd_begin=self._later(begins(now, (slurmd_ns,) * pinned, slurmd), pods.operator),
            slurmd_back=self._later(limited_start(world, pods, "slurmd-back"), pods.operator),
            config_retry_ns=world.scaled("configless-retry", CONFIGLESS_NS), slurmd_since=self._since(times),
            configless_try=world.draw("configless-try"),
            named=lambda: self.ways.named(self._world.cluster.controllers[0].name),
            reached=lambda: not pods.controller_after or self.ways.reaches(self._world.cluster.controllers[0].name),
            supervisor_begin=world.draw("supervisor-start"),
            supervisor_round_ns=world.scaled("supervisor-round", ROUND_NS),
            supervisor_look=supervised_restart(world), supervisor_hears=hears, supervisor_ends=ends,
            stop=daemon_stop(world, times),
            slurmctld_again=lambda: spawn() + slurmctld_own_ns, slurmd_again=lambda: spawn() + again(),
            growth=growth(world), fill=world.draw("volume-fill"),
            late_fill=late_fill(world),
            machine_memory=pod_objects.NODE_MEMORY,
            resolver_ns=resolver_ns, resolver_phase=world.streams.uniform_ns("resolver", 0, resolver_ns),
            resolves=lambda: self.faults.resolves(),
        )  # fmt: skip

    def _later(self, begin: Draw, operator: str) -> Draw:
        """With the random wait that a design's workers have before they register (start_jitter_s)."""
        jitter_s = design_of(operator).carrier.start_jitter_s if operator else 0
        if not jitter_s:
            return begin
        wait = self._world.streams.uniform_ns("slurmd.jitter", 0, jitter_s * SECOND)
        return lambda: begin() + wait()

    def _machine(self, place: int, node: KubeNode) -> Machine:
        world, name = self._world, node.meta.name
        generator = world.streams.generator(f"kubelet.{name}")
        addresses = iter(range(2, 65_000))

        def draw(low_ns: int, high_ns: int) -> int:
            return int(generator.integers(low_ns, high_ns)) if high_ns > low_ns else low_ns

        runtime = ContainerRuntime(
            world.env, name, self.slurm, self._costs, lambda _: f"10.244.{place}.{next(addresses)}", cgroups=1
        )
        runtime.hooked = lambda pod: self.hooked(pod)
        runtime.machine_memory = node.status.memory
        runtime.images |= {"slurmctld", "slurmd", "slurmrestd", "observer", IMAGE}
        defaults = kubelet_defaults(self._cluster.kubernetes)
        defaults = replace(
            defaults, relist_ns=world.scaled("pleg-relist", defaults.relist_ns),
            back_off_base_ns=world.scaled("restart-back-off", defaults.back_off_base_ns),
        )  # fmt: skip
        sections = pod_objects.kubelets(self._cluster)
        section = sections[min(place, len(sections) - 1)]
        cpus, memory = node.status.milli_cpu // 1000, node.status.memory
        settings = KubeletSettings(
            defaults=defaults, latency=self.request, event=self.event,
            capacity=NodeCapacity(milli_cpu=node.status.milli_cpu, memory=memory, pods=node.status.pods),
            eviction=_fresh(section, defaults), refuses=refuses_to_start(section, defaults, runtime.cgroups),
            on_cpus=partial(self._pinned, name), use=NodeUse(memory, disk=DISK_BYTES) if has_disk(section) else None,
        )  # fmt: skip
        resources = node_resources(section, flat_host(cpus, memory))
        return Machine(world.env, self.server, runtime, node, settings, draw, resources)

    def _pinned(self, node: str, uid: str, container: str, cpus: int) -> None:
        """A container's CPU set, as the collector reads it from the kernel."""
        said = detail_text(container=container, cpuset=list_form(cpus), by="cgroup")
        self._world.sink.emit_pod(self._world.env.now_ns, Kind.CONTAINER_PINNED, "kubelet", uid, node, detail=said)
        assert self.slurm.book is not None
        self.slurm.book.look(node)

    def _cpus(self, node: str, container: str) -> int:
        """The CPUs of a container: its set where the kubelet gives one, else all of the machine."""
        uid, _, name = container.partition("/")
        machine = self.machines[node]
        whole = (1 << machine.settings.capacity.milli_cpu // 1000) - 1
        return machine.runtime.cpu_sets.get((uid, name), whole)

    def start(self) -> None:
        """Machines and control plane now, the objects at their times."""
        env, world = self._world.env, self._world
        for machine in list(self.machines.values()):
            machine.start_kubelet(has_run=True)
        self.plane.start()
        if self._cluster.autoscaler is not None:
            make = partial(self._machine, len(self.machines))
            Machines(env, self.server, self._cluster, self.machines, make).start()
        for name, at_ns in self._times.lease_ns.items():
            if name in self.machines and at_ns >= env.now_ns:
                env.call_at(at_ns, self._lease, (name, at_ns))
        self.phases.start(env)
        pods = self._scenario.pods
        assert pods is not None
        client = Client(self.server, env, self.request)

        def apply(objects: list[Object]) -> None:
            for item in objects:
                client.create(item)

        env.call_at(world.apply_ns - SECOND, lambda _: apply(pod_objects.onlookers(self.namespace)))
        operator, bridge = self.operator, self.bridge
        if bridge is not None:
            bridge.start(world.apply_ns - SECOND)
            env.call_at(world.apply_ns, lambda _: apply(bridge.workers()))
        elif operator is None:
            env.call_at(world.apply_ns, lambda _: apply(pod_objects.workers(self.namespace, self._scenario, pods)))
        else:
            env.call_at(world.apply_ns - SECOND, lambda _: operator.start())
            env.call_at(operator.applied_ns, lambda _: apply([operator.node_set()]))
        for item in pods.others:
            env.call_at(max(item.at, env.now_ns), self._beside, item)
        later_ns = world.apply_ns + pods.controller_after
        if pods.controller_after and self._times.controller_ns is not None:
            later_ns = self._times.controller_ns
        env.call_at(later_ns, lambda _: apply(pod_objects.controller(self.namespace, pods)))

    def _beside(self, item: OtherPod) -> None:
        """A pod that is not Slurm's is created."""
        Client(self.server, self._world.env, self.request).create(other_pod(item, self.namespace, self.faults.node))

    def _since(self, times: StartTimes) -> Callable[[int], int | None]:
        """When a worker's container began to run: evenly between what the recording tells."""
        streams, names = self._world.streams, pod_objects.worker_names(self._scenario)
        spans = [times.container_ns.get(name) for name in names]
        drawn = [streams.uniform_ns(f"container.{i}", *span)() if span else None for i, span in enumerate(spans)]
        return lambda index: drawn[index] if drawn else None

    def _lease(self, mark: tuple[str, int]) -> None:
        """A renewal that the recording has: the node's rhythm goes on from it."""
        kubelet = self.machines[mark[0]].kubelet
        if kubelet is not None:
            kubelet.report.lease.begin_anew(mark[1])

    @property
    def stopping(self) -> list[int]:
        """When hooks of pods whose containers are being stopped now are over; 0 where they have none."""
        kubelets = (machine.kubelet for machine in self.machines.values())
        return [w.hooks_over_ns for one in kubelets if one is not None for w in one.workers.values() if w.stopping]

    def controller_pod(self) -> LastSync:
        """The first controller's pod that is not being deleted, and its last sync."""
        first_ns = self._times.slurmctld_ns
        for pod in self.server.list_of(Pod):
            if pod.meta.labels.get("app") == "slurmctld" and not pod.meta.deleting:
                up_ns = max([first_ns, *(c.running_ns or first_ns for c in pod.status.containers)])
                return self.phases.last_sync(pod, up_ns)
        return LastSync("", 0)

    def where(self, fault: ClusterFault | OperatorStep) -> str | None:
        """The node column of a fault's rows."""
        if isinstance(fault, ClusterFault):
            return self.faults.where(fault)
        return fault.target.partition(":")[2] or None

    def inject(self, fault: ClusterFault | OperatorStep) -> Callable[[], None]:
        """Do it; returns what ends it."""
        if isinstance(fault, ClusterFault):
            return self.faults.inject(fault)
        if self.bridge is not None:
            return self.bridge.step(fault)
        assert self.operator is not None
        return self.operator.step(fault)

    def reached(self, controller: str) -> bool:
        """Whether the observer reaches a controller's pod (a paused machine shows as a controller that hangs)."""
        return self.faults.resolves() and self.ways.reaches(controller)

    def rest_ready(self) -> bool:
        """A slurmrestd pod serves."""
        known = self.server.find(Pod, self._rest_pod)
        if known is not None and known.ready and not known.meta.deleting:
            return True
        for pod in self.server.list_of(Pod):
            if pod.meta.labels.get("app") == "slurmrestd" and pod.ready and not pod.meta.deleting:
                self._rest_pod = pod.meta.key
                return True
        return False

    def listed(self) -> bool:
        """Whether slurmrestd answers the observer."""
        faults = self.faults
        return not (faults.rest_cut or (faults.keys is not None and faults.keys.old_refused))


def applied_ns(pods: PodsSection, times: StartTimes) -> int:
    """When the workers, or all, are created: where slurmctld comes later, as the recording has it."""
    if pods.controller_after and times.container_ns:
        return min(low for low, _ in times.container_ns.values()) - LEAD_NS
    if pods.controller_after and times.workers_ns is not None:
        return times.workers_ns
    return min(0, times.slurmctld_ns, times.slurmd_ns) - LEAD_NS - pods.controller_after


def _fresh(section: Kubelet, defaults: KubeletDefaults) -> Callable[[], EvictionState] | None:
    """A maker of the eviction manager's memory, for each start of the kubelet; None: it has no threshold."""
    if eviction_state(section, defaults) is None:
        return None

    def make() -> EvictionState:
        state = eviction_state(section, defaults)
        assert state is not None
        return state

    return make


def configured(scenario: Scenario, version: str, pods: PodsSection, lines: Sequence[str]) -> ClusterConf:
    """The scenario's configuration with more lines at the end of slurm.conf. Raises InputError for a wrong one."""
    files = scenario_files(rendered(scenario))
    more = parse_conf_text("\n".join(lines), "config.change")
    files = replace(files, slurm_conf=(*files.slurm_conf, *more))
    return with_controllers(read_slurm_files(files, version)[0], pods)


def with_controllers(conf: ClusterConf, pods: PodsSection) -> ClusterConf:
    """The configuration that the pods are given: the controllers' host names are those of their pods."""
    return replace(conf, controller=replace(conf.controller, hosts=pod_objects.controller_names(pods)))
