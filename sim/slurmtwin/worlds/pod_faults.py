"""Faults of the cluster and of processes in pods (contract/cluster_faults.py), done to the twin's parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.cluster_faults import BURST_NS
from slurmtwin.contract.errors import InputError, UnsupportedError
from slurmtwin.contract.quantity import quantity_bytes
from slurmtwin.models.api_server.bursts import SLOWER_PERCENT, Bursts
from slurmtwin.models.api_server.client import Client
from slurmtwin.models.api_server.objects import Node, Pod, Taint
from slurmtwin.models.controllers.disruption import evict
from slurmtwin.models.slurmctld.tables import bits
from slurmtwin.worlds.pod_durations import OF_EVICTIONS
from slurmtwin.worlds.pod_services import Images, existing, fill_disk, patch_until_done
from slurmtwin.worlds.start_times import StartTimes

if TYPE_CHECKING:
    from slurmtwin.contract.cluster_faults import ClusterFault
    from slurmtwin.engine.environment import Environment
    from slurmtwin.models.api_server.server import ApiServer
    from slurmtwin.models.controllers.assemble import ControlPlane
    from slurmtwin.models.kubelet.machine import Machine
    from slurmtwin.models.operator_pod import OperatorPod
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurm_pods.daemon_program import DaemonProgram
    from slurmtwin.models.slurm_pods.programs import SlurmPrograms
    from slurmtwin.worlds.pod_services import Keys, NameService
    from slurmtwin.worlds.pod_state import PodState
    from slurmtwin.worlds.pod_world import PodWorld

KUBELET_RESTART_NS: Final = 10 * SECOND
"""kubelet.service: Restart=always, RestartSec=10 (kubeadm's unit)."""
RUNTIME_RESTART_NS: Final = 5 * SECOND
"""containerd.service: Restart=always, RestartSec=5."""
FILL_BYTES: Final = 1 << 30
"""What a recorded job writes into its volume (e2e/slurm_images/files/job)."""
SHUTDOWN_NS: Final = 15 * SECOND
"""docker restart waits so long for systemd (docs/kind-slurm.md)."""
NOT_MODELLED: Final = ("clock.jump",)
"""A daemon's own clock: all timers of a run stand on one, and what slurmctld makes of a jump was never seen."""
ALL_NODES: Final = "all"
"""As the target of a pause: every machine of the cluster."""
EVICT_AGAIN_NS: Final = 5 * SECOND
"""kubectl drain asks again for an eviction that a budget forbids (kubernetes.md 6.21)."""
WATCH_NS: Final = (1 * MS, 8 * MS)
"""A watch of a component, and the collector's from outside, of a cluster on one host. A receipt comes 5 to 6 ms behind
a kubelet's stamp of its lease, the kubelet's request included (median of runs since 22 November 2026, 18:16 UTC;
watch_delay_ms of their manifests; about 10 in the twin), and of a pod's binding 4 to 5 ms before its kubelet syncs
it."""
REQUEST_NS: Final = (4 * MS, 20 * MS)
"""A request to the API server of a cluster on one host."""
REST_PROBED_NS: Final = 10 * SECOND
REST_UNREADY_NS: Final = 21 * SECOND
"""slurmrestd is probed each 10 s by TCP, with 1 s to answer; the third failure makes its pod unready
(core/control_plane.py)."""
LOOKED_NS: Final = (0, 55 * MS)
"""kubectl drain, as the harness carries it, looks at its pods each 50 ms, a request of some 5 ms later, and asks again
at the first look that comes 5 s after it asked last: later by any part of one look, each time anew (e2e kind/faults/
kube.py). In eight runs of x42-drain-protected 14 or 15 times took 20 to 37 ms each beyond 5 s."""
FORK_NS: Final = 5 * MS
"""A shell starts in that: api_server.slow stops the server first so long behind its call, where it is not recorded."""
OPERATORS: Final = ("operator", "slurmtwin-system/slurmtwin-operator", "slinky/slurm-operator")
"""Targets that name the operator's pod."""


def modelled(fault: ClusterFault) -> bool:
    """The twin does what the fault does.

    slurmdbd has no pod in the twin and can be frozen alone. The operator is a process beside the API server: it is
    killed, frozen, cut off, and its pod deleted.
    """
    app = fault.target.partition(":")[0]
    if app == "slurmdbd":
        return fault.kind == "process.freeze"
    if fault.target in OPERATORS:
        return fault.kind in ("process.signal", "process.freeze", "pod.delete", "network.cut", "watch.stale")
    if "/" in fault.target or fault.actions:
        return False
    if fault.kind == "disk.fill":
        return app == "slurmd"
    if fault.kind == "volume.lost":
        return app == "slurmctld"
    if fault.kind == "watch.stale":
        return False
    if fault.kind == "network.cut":
        between = app == "slurmctld" and fault.other.startswith("slurmctld")
        return between or fault.target.startswith(("slurmd:", "slurmrestd", "worker", "node-of:"))
    return fault.kind not in NOT_MODELLED


class ClusterFaults:
    """Injects and clears them."""

    def __init__(
        self, env: Environment, server: ApiServer, machines: dict[str, Machine], pods: SlurmPrograms,
        cluster: SlurmCluster, namespace: str, api_back_ns: Callable[[], int], operator: OperatorPod | None = None,
    ) -> None:  # fmt: skip
        self.names: NameService | None = None
        self.keys: Keys | None = None
        """What is there once the world's users are."""
        self.state: PodState | None = None
        """State directory, slurm.conf and database, once they are there."""
        self.drains: dict[int, dict[str, str]] = {}
        """Calls of kubectl drain that have not ended, by number: pods that are not evicted yet -> their uids."""
        self._numbers = count()
        self.drain_ended: Callable[[], None] = _nothing
        self.look: Callable[[], None] | None = None
        """Tells the observer that somebody is reached who was not, or the other way round."""
        self.plane: ControlPlane | None = None
        """Controllers and kube-scheduler, once they are there."""
        self.operator_cut = False
        self.rest_cut = False
        """No packet reaches the operator, or slurmrestd."""
        self.rest_probes: Callable[[], int] = lambda: 0
        """Where a probe of slurmrestd's stands when it is cut off, in its period."""
        self.rest_unready_ns = (0, 0)
        """Its pod is not ready from then on, until."""
        self.dispatcher_cut = False
        """No packet passes between slurmrestd and the dispatcher of several clusters."""
        self.asks: Callable[[], int] = lambda: 0
        """What a request of kubectl takes."""
        self.marked: Callable[[], int] | None = None
        """A drain is asked for until one of its pods is marked, where the batch's quiet runs show it."""
        self.tarpit = False
        """slurmrestd takes connections and answers nobody."""
        self._api_back_ns = api_back_ns
        self._operator = operator
        self._env = env
        self._server = server
        self._machines = machines
        self._pods = pods
        self._cluster = cluster
        self._namespace = namespace
        self._client = Client(server, env)
        self._taints: dict[str, tuple[Taint, ...]] = {}
        self.wakes: Callable[[], int] = lambda: 0
        """An API server that runs in bursts goes on until it begins with what waited."""
        self.cycles: Callable[[], int] = lambda: 0
        """What such a server's pause and burst have beyond their time, together."""
        self.recorded = StartTimes()
        self.arrives: Callable[[], int] = lambda: 0
        """Until the server has a drain's first request: a drain only begins when it is injected."""
        self.looked: Callable[[], int] = lambda: 0
        """Beyond EVICT_AGAIN_NS, until a refused eviction is asked for again."""

    def draw_from(self, world: PodWorld, times: StartTimes) -> None:
        """What requests and looks take is drawn from the world's streams and durations; signals are as recorded."""
        streams = world.streams
        self.rest_probes = streams.uniform_ns("slurmrestd.probe", 0, REST_PROBED_NS)
        self.looked = streams.uniform_ns("kubectl.looked", *LOOKED_NS)
        self.wakes, self.cycles = world.draw("burst-wake"), world.draw("burst-cycle")
        self.recorded = times
        self.asks = streams.uniform_ns("kubectl.request", *REQUEST_NS)
        self.arrives = streams.uniform_ns("kubectl.cordon", *(ns // 2 for ns in REQUEST_NS))
        self.marked = world.draw(OF_EVICTIONS) if world.has(OF_EVICTIONS) else None

    def resolves(self) -> bool:
        """Names are found."""
        return self.names is None or self.names.serves()

    # targets

    def pod(self, target: str) -> Pod:
        """The running pod that a target names (kind/faults/base.py). Raises InputError when there is none."""
        app, _, name = target.partition(":")
        if app == "slurmctld" and name.isdigit():
            name = f"slurmctld-{name}"
        for pod in self._server.list_of(Pod):
            good = pod.meta.labels.get("app") == app and (not name or pod.meta.name == name)
            if good and pod.status.phase == "Running" and not pod.meta.deleting:
                return pod
        raise InputError(f"no running pod is called {target}")

    def node(self, target: str) -> str:
        """worker1, control-plane, or node-of:POD-TARGET."""
        name = self.pod(target.removeprefix("node-of:")).spec.node_name if target.startswith("node-of:") else target
        if name not in self._machines:
            raise InputError(f"no node is called {target!r}", hint="worker1, node-of:slurmctld")
        return name

    def _daemon(self, target: str) -> DaemonProgram:
        """The daemon in a pod."""
        name = self.pod(target).meta.name
        for index, slurmd in self._pods.slurmds.items():
            if self._cluster.node_confs[index].name == name:
                return slurmd
        for slurmctld in self._pods.slurmctlds.values():
            if slurmctld.place is not None and slurmctld.place.pod.meta.name == name:
                return slurmctld
        raise InputError(f"no daemon runs in {target}")

    def _job_pod(self, target: str) -> tuple[str, int]:
        """(node, Slurm's job id) of job:N: where its script runs."""
        number = int(target.partition(":")[2])
        ctld = self._cluster.ctld or self._cluster.last_ctld
        for job in ctld.jobs.values() if ctld is not None else ():
            if job.id == number and job.slurm_id in self._cluster.slurmds.works:
                nodes = self._cluster.slurmds.works[job.slurm_id].nodes
                return self._cluster.node_confs[next(iter(bits(nodes)))].name, job.slurm_id
        raise InputError(f"{target} does not run")

    def where(self, fault: ClusterFault) -> str | None:
        """What the rows of a fault name in their node column, as on a real cluster."""
        if fault.kind.startswith("kube_node."):
            return None if fault.target == ALL_NODES else self.node(fault.target)
        if fault.target.startswith("job:"):
            return self._job_pod(fault.target)[0]
        return fault.target.partition(":")[2] or None if fault.target.startswith("slurmd:") else None

    # acts

    def inject(self, fault: ClusterFault) -> Callable[[], None]:
        """Do it now; returns what ends it. Raises InputError for a target that is not there."""
        group, _, verb = fault.kind.partition(".")
        act = {"process": self._process, "memory": self._memory, "kube_node": self._kube_node,
               "api_server": self._api_server}.get(group)  # fmt: skip
        if act is not None:
            return act(verb, fault)
        if fault.target in OPERATORS and fault.kind in ("pod.delete", "network.cut"):
            return self._operator_pod(fault)
        if fault.kind == "pod.delete":
            pod = self.pod(fault.target)
            self._client.delete(Pod, pod.meta.key, fault.grace, uid=pod.meta.uid)
            return _nothing
        service = self._service(fault)
        if service is not None:
            return service
        if fault.kind in ("volume.lost", "config.change"):
            assert self.state is not None
            if fault.kind == "config.change":
                return self.state.change(fault)
            daemon = self._daemon(fault.target)
            return self.state.lose(lambda: daemon.signal("KILL"))
        if fault.kind == "network.cut":
            return self._cut(fault)
        if fault.kind == "slurmrestd.tarpit":
            self.tarpit = True
            return lambda: setattr(self, "tarpit", False)
        if fault.kind == "watch.stale" and self._operator is not None:
            operator = self._operator
            operator.hold_caches()
            return operator.release_caches
        raise UnsupportedError(f"{fault.kind}: the twin does not model it", hint="--world kind runs it for real")

    def _service(self, fault: ClusterFault) -> Callable[[], None] | None:
        """What pods rest on (pod_services.py); None: another kind."""
        if fault.kind == "dns.outage":
            assert self.names is not None
            return self.names.stop()
        if fault.kind == "jwt.rotate":
            assert self.keys is not None
            return self.keys.rotate()
        if fault.kind == "image.pull_fails":
            return Images(self._server, self._client).lose(fault.target.partition(":")[0])
        if fault.kind == "disk.fill":
            pod = self.pod(fault.target)
            return fill_disk(self._machines[pod.spec.node_name], pod, fault.size)
        return None

    def _operator_pod(self, fault: ClusterFault) -> Callable[[], None]:
        """Its pod is deleted, or no packet leaves it: requests to API server and slurmrestd wait."""
        operator = self._operator
        if operator is None:
            raise InputError(f"{fault.kind}: no operator runs here", hint="pods.operator")
        if fault.kind == "pod.delete":
            operator.replace(released=fault.grace != 0)
            return _nothing
        operator.cut()
        self.operator_cut = True

        def clear() -> None:
            self.operator_cut = False
            operator.heal()

        return clear

    def _process(self, verb: str, fault: ClusterFault) -> Callable[[], None]:
        name, _, where = fault.target.partition("@")
        signal = "STOP" if verb == "freeze" else fault.signal
        if where:
            return self._system_daemon(name, self._machines[self.node(where)], signal)
        if name == "slurmdbd" and self.state is not None:
            return self.state.freeze_database()
        if fault.target in OPERATORS and self._operator is not None:
            return self._operator_process(self._operator, signal, fault.actions)
        daemon = self._daemon(fault.target)
        daemon.signal(signal)
        return lambda: daemon.signal("CONT") if signal == "STOP" else None

    def _operator_process(self, operator: OperatorPod, signal: str, actions: int) -> Callable[[], None]:
        if actions:
            operator.crash_after(actions)
            return _nothing
        if signal == "STOP":
            operator.freeze()
            return operator.thaw
        operator.kill()
        return _nothing

    def _system_daemon(self, name: str, machine: Machine, signal: str) -> Callable[[], None]:
        if name == "containerd":
            machine.stop_runtime()
            self._env.call_in(RUNTIME_RESTART_NS, lambda _: machine.start_runtime())
        elif signal == "STOP":
            machine.freeze_kubelet()
            return machine.thaw_kubelet
        else:
            machine.kill_kubelet()
            self._env.call_in(KUBELET_RESTART_NS, lambda _: machine.start_kubelet())
        return _nothing

    def _memory(self, verb: str, fault: ClusterFault) -> Callable[[], None]:
        if verb == "group_kill":
            pod = self.pod(fault.target)
            runtime = self._machines[pod.spec.node_name].runtime
            before, runtime.cgroups = runtime.cgroups, 2
            return lambda: setattr(runtime, "cgroups", before)
        _, slurm_id = self._job_pod(fault.target)
        if verb == "hog":
            self._pods.hog(slurm_id, quantity_bytes(fault.size) if fault.size else 0)
        else:
            self._pods.fill(slurm_id, FILL_BYTES)
        return _nothing

    def _kube_node(self, verb: str, fault: ClusterFault) -> Callable[[], None]:
        if fault.target == ALL_NODES and verb == "pause":
            return self._pause_all()
        name = self.node(fault.target)
        machine = self._machines[name]
        if verb == "pause":
            machine.pause()
            return machine.unpause
        if verb in ("stop", "restart"):
            machine.stop()
            if verb == "restart":
                self._env.call_in(SHUTDOWN_NS, lambda _: machine.boot())
            return machine.boot if verb == "stop" else _nothing
        if verb == "delete":
            labels = existing(self._server, Node, name).meta.labels
            self._client.delete(Node, name)
            return lambda: self._register_again(name, machine, dict(labels))
        return self._mark(verb, name, fault)

    def _pause_all(self) -> Callable[[], None]:
        """Every machine of the cluster stands still, its control plane as well."""
        assert self.plane is not None
        plane = self.plane
        plane.freeze()
        for machine in self._machines.values():
            machine.pause()

        def clear() -> None:
            plane.thaw()
            for machine in self._machines.values():
                machine.unpause()

        return clear

    def _register_again(self, name: str, machine: Machine, labels: dict[str, str]) -> None:
        machine.kill_kubelet()
        machine.start_kubelet()
        self._client.patch(Node, name, lambda n: replace(n, meta=replace(n.meta, labels=labels)))

    def _mark(self, verb: str, name: str, fault: ClusterFault) -> Callable[[], None]:
        """Cordon, taint, or drain: cordon, then one eviction of each of the run's pods there."""
        before = existing(self._server, Node, name).spec
        if verb == "taint":
            pair, _, effect = fault.taint.rpartition(":")
            key, _, value = pair.partition("=")
            mark = Taint(key=key, value=value, effect=effect, since_ns=self._env.now_ns)
            self._client.patch(Node, name, lambda n: replace(n, spec=replace(n.spec, taints=(*n.spec.taints, mark))))
        elif verb == "drain":
            self._env.call_in(self.arrives(), self._cordon, name)
        else:
            self._cordon(name)

        def undo() -> None:
            patch_until_done(self._client, Node, name, lambda n: replace(n, spec=before))

        if verb != "drain":
            return undo
        number = self._begin_drain(name)

        def give_up() -> None:
            undo()
            self._drained(number)

        return give_up

    def _cordon(self, name: str) -> None:
        self._client.patch(Node, name, lambda n: replace(n, spec=replace(n.spec, unschedulable=True)))

    def _begin_drain(self, name: str) -> int:
        """Its number; the first evictions come when the cordon is answered."""
        here = [p for p in self._server.list_of(Pod, node=name) if p.meta.namespace == self._namespace]
        number = next(self._numbers)
        self.drains[number] = {pod.meta.key: pod.meta.uid for pod in here}
        if self.marked is None:
            self._env.call_in(self.asks() + self.asks(), self._drain, number)  # the cordon's answer, then the rest
        else:
            for pod in here:
                self._env.call_in(max(0, self.marked() - sum(REQUEST_NS) // 2), self._evict, pod.meta.key)
            self._env.call_in(EVICT_AGAIN_NS + self.looked(), self._drain, number)
        return number

    def _drain(self, number: int) -> None:
        """kubectl drain: all are evicted at once; those that a budget keeps are asked for again and again, until that
        is given up."""
        left: dict[str, str] = {}
        for key, uid in self.drains.get(number, {}).items():
            pod = self._server.find(Pod, key)
            if pod is not None and pod.meta.uid == uid and not pod.meta.deleting:
                left[key] = uid
                self._evict(key)
        if left:
            self.drains[number] = left
            self._env.call_in(EVICT_AGAIN_NS + self.looked(), self._drain, number)
        else:
            self._drained(number)

    def _drained(self, number: int) -> None:
        if self.drains.pop(number, None) is not None:
            self.drain_ended()

    def _evict(self, key: str) -> None:
        self._client.call(f"evict Pod {key}", lambda: evict(self._server, key))

    def _api_server(self, verb: str, fault: ClusterFault) -> Callable[[], None]:
        if verb == "stop":
            self._server.stop()
            return self._api_back
        stopped_ns = self.recorded.stopped_ns
        since_ns = self._env.now_ns + FORK_NS if stopped_ns is None else max(self._env.now_ns, stopped_ns)
        bursts = Bursts(
            since_ns, fault.offset, BURST_NS, wake=self.wakes, beyond=self._beyond(), slower_percent=SLOWER_PERCENT
        )  # fmt: skip
        self._server.slow(bursts)
        return lambda: self._server.quick(bursts)

    def _beyond(self) -> Callable[[], tuple[int, int]]:
        left = iter(self.recorded.bursts_ns)

        def beyond() -> tuple[int, int]:
            known = next(left, None)
            if known is not None:
                return known
            cycle_ns = self.cycles()
            return cycle_ns // 2, cycle_ns - cycle_ns // 2

        return beyond

    def _api_back(self) -> None:
        """The static pod's manifest is there again: the kubelet looks each 20 s, then the container starts."""
        self._env.call_in(self._api_back_ns(), lambda _: self._server.start())

    def _cut(self, fault: ClusterFault) -> Callable[[], None]:
        """A worker from its controller, controllers from each other, slurmrestd or a node from everything."""
        if fault.target.startswith("slurmctld"):
            return self._cut_controllers(fault)
        if fault.other == "dispatcher":
            self.dispatcher_cut = True
            return lambda: setattr(self, "dispatcher_cut", False)
        if fault.target.startswith("slurmrestd"):
            return self._cut_rest()
        if fault.target.startswith("slurmd"):
            slurmds, node = self._cluster.slurmds, self._cluster.node_bitmap([fault.target.partition(":")[2]])
            slurmds.cut(node)
            return lambda: slurmds.heal(node)
        name = self.node(fault.target)
        machine = self._machines[name]
        machine.cut()
        return machine.heal

    def _cut_controllers(self, fault: ClusterFault) -> Callable[[], None]:
        """They do not hear each other; both reach the shared state directory, workers and users reach both."""
        number = min(int(t.partition(":")[2] or 0) for t in (fault.target, fault.other))
        controller = self._cluster.controllers[number]

        def put(unheard: bool) -> None:
            controller.unheard = unheard
            for other in self._cluster.controllers:
                if other.watch is not None:
                    other.watch.primary_changed()

        put(True)
        return lambda: put(False)

    def _cut_rest(self) -> Callable[[], None]:
        """Its pod is unready at the third failed probe; the next one of readiness or liveness finds it again."""
        self.rest_cut = True
        cut_ns, phases = self._env.now_ns, (self.rest_probes(), self.rest_probes())
        unready_ns = cut_ns + phases[0] + REST_UNREADY_NS
        self.rest_unready_ns = (unready_ns, 1 << 62)
        if self.look is not None:
            self.look()

        def clear() -> None:
            self.rest_cut = False
            gone_ns = self._env.now_ns - cut_ns
            again_ns = min((phase - gone_ns) % REST_PROBED_NS for phase in phases)
            self.rest_unready_ns = (unready_ns, self._env.now_ns + again_ns)
            if self.look is not None:
                self.look()

        return clear


def _nothing() -> None:
    return None
