"""The container runtime of one machine (containerd and its shims): sandboxes, containers, images.

It outlives the kubelet, and its containers outlive it: a restart of containerd changes nothing for what runs, a kill of
the machine ends all. What a call costs is drawn (StartCosts); what happens is the kubelet's to find out by relisting.
Source: kubernetes.md 2.4 to 2.8; containerd 1.6 internal/cri/server, recordings of scenarios/faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.engine.daemon_clock import DaemonClock
from slurmtwin.models.kubelet.container_memory import (
    CgroupVersion,
    ContainerCgroup,
    OomKill,
    PodCgroup,
    node_oom,
    settle,
)
from slurmtwin.models.kubelet.program import SIGKILL_CODE, Place, Program

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Environment
    from slurmtwin.models.api_server.objects import Container, Pod

UNKNOWN_CODE: Final = 255
"""Exit code of containers whose machine went away under them (containerd, task not found)."""

Draw = Callable[[], int]
PodDraw = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class LateMount:
    """A pod whose ConfigMaps and Secrets the API server did not let the kubelet list at first (watch_based_manager.go,
    plugin/pkg/auth/authorizer/node; v1.34.2)."""

    mounted_ns: int
    """From the pod's sync until its volumes are mounted."""
    failed_ns: tuple[int, ...]
    """And until each mount that waited in vain for its object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCosts:
    """Draws, nanoseconds, of what a machine takes for the steps of a pod's life."""

    mount: PodDraw = lambda uid: 350 * MS  # noqa: ARG005  any pod
    """Volumes of a pod whose sources are there: the manager looks each 100 ms, the waiting sync each 300 ms."""
    mount_more: PodDraw = lambda uid: 0  # noqa: ARG005  any pod
    """Asked when that is over: how much longer, 0: all are there. Who came beside the pod is known by then."""
    late_mount: Callable[[], LateMount | None] = lambda: None
    """Asked once of a pod whose volumes' objects nobody else on its machine names: None, their lists are in."""
    sandbox: PodDraw = lambda uid: 300 * MS  # noqa: ARG005  any pod
    """Sandbox with its network, of the pod with that UID."""
    create: Draw = lambda: 45 * MS
    """Container made (the event Created)."""
    start: PodDraw = lambda uid: 110 * MS  # noqa: ARG005  any pod
    """Container of that pod started (the event Started): its main process runs."""
    restart: Draw = lambda: 110 * MS
    """The same of a container that comes back, from its pod's sync on."""
    synced_ns: int = 0
    """Of `restart`, what a sync does before its image is checked; one that has killed the container itself is past that
    (kuberuntime_manager.go SyncPod() kills and starts)."""
    term: Draw = lambda: 0
    """A container is to stop -> its main process has SIGTERM (containerd runs runc for that, and counts the grace from
    then on: internal/cri/server/container_stop.go)."""
    kill: Draw = lambda: 0
    """The grace of a container is over -> its processes have SIGKILL, by runc as well."""
    stop: Draw = lambda: 20 * MS
    """Main process gone -> the runtime says so."""
    unmount: Draw = lambda: 120 * MS
    """Containers of a pod have ended -> its volumes are unmounted, whoever waits for that: the populator's loop and the
    reconciler's see it, 100 ms each (volume_manager.go)."""
    clean_up: Draw = lambda: 40 * MS
    """Volumes are gone -> cgroups are removed, and the pod is told as finished: pods of x10 and x43 were gone 44 to 78
    ms after the relist that let the kubelet end their worker."""
    removed: Draw | None = None
    """Its turn among the kubelet's statuses begins -> the API server has its removal. None: as any other requests."""
    end_told: Draw | None = None
    """A pod whose container has ended is synced -> the API server has its status; the container's restart begins
    beside it. None: as any other status."""
    pull: Callable[[str], int | None] = lambda image: 10 * SECOND  # noqa: ARG005  any image
    """An image that is not there; None: no registry has it."""


@dataclass(slots=True, eq=False)
class Instance:
    """One run of a container."""

    id: str
    name: str
    restart: int
    cgroup: ContainerCgroup
    created_ns: int
    program: Program | None = None
    started_ns: int | None = None
    finished_ns: int | None = None
    exit_code: int = 0
    oom: bool = False
    """The runtime saw an OOM event of its cgroup, whoever died of it (kubernetes.md 2.4)."""
    stopping: bool = False

    @property
    def running(self) -> bool:
        """Started, not ended."""
        return self.started_ns is not None and self.finished_ns is None

    @property
    def reason(self) -> str:
        """As containerd words an end."""
        if self.exit_code == UNKNOWN_CODE:
            return "Unknown"
        if self.oom:
            return "OOMKilled"
        return "Completed" if self.exit_code == 0 else "Error"


@dataclass(slots=True, eq=False)
class RuntimePod:
    """What the runtime holds of one pod."""

    uid: str
    key: str
    """namespace/name: addresses belong to it."""
    cgroup: PodCgroup = field(default_factory=PodCgroup)
    attempt: int = -1
    """Sandboxes made so far, from 0; -1: none."""
    ready: bool = False
    ip: str = ""
    disk: int = 0
    """Bytes of its writable layers, logs and emptyDir volumes on the node's disk."""
    instances: dict[str, list[Instance]] = field(default_factory=dict)
    """Container name -> its last runs, newest last; older ones are collected (at most two are kept)."""

    def newest(self, name: str) -> Instance | None:
        """The last run of a container."""
        runs = self.instances.get(name)
        return runs[-1] if runs else None

    def running(self) -> Iterator[Instance]:
        """Containers that run now."""
        return (runs[-1] for runs in self.instances.values() if runs and runs[-1].running)


Programs = Callable[["Pod", "Container"], Program]
Exit = Callable[[Instance], None]


class ContainerRuntime:
    """containerd on one machine."""

    def __init__(
        self, env: Environment, node: str, programs: Programs, costs: StartCosts, addresses: Callable[[str], str],
        cgroups: CgroupVersion = 2, single_process_oom: bool = False,
    ) -> None:  # fmt: skip
        self.env = env
        self.node = node
        self.clock = DaemonClock(env)
        """Of the machine: what is under way in it stops with it."""
        self.costs = costs
        self.cgroups: CgroupVersion = cgroups
        self.single_process_oom = single_process_oom
        self.machine_memory = 0
        """Bytes that the processes of all containers may have together; 0: nobody looks."""
        self.pods: dict[str, RuntimePod] = {}
        self.images: set[str] = set()
        self.cpu_sets: dict[tuple[str, str], int] = {}
        """(pod uid, container) -> the CPU set in the kernel, where a kubelet sets one (cpu_sets.py)."""
        self.serving = True
        """containerd answers."""
        self.told: Callable[[str], None] = lambda uid: None  # noqa: ARG005
        """Told the pod whose containers changed: a kubelet finds that at its next relist."""
        self.health_changed: Callable[[str, str], None] = lambda uid, name: None  # noqa: ARG005
        self.ended: Callable[[str, Instance], None] = lambda uid, instance: None  # noqa: ARG005
        """Told an end as it happens, for its date; a kubelet acts on it after its next relist only."""
        self.hooked: Callable[[Pod], None] = lambda pod: None  # noqa: ARG005
        """Told a pod whose preStop hook begins."""
        self.use_changed: Callable[[], None] = _nobody
        """Told that pods use more or less memory or disk than before."""
        self.oom_killed: Callable[[str, OomKill], None] = lambda uid, kill: None  # noqa: ARG005
        self._programs = programs
        self._addresses = addresses
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        """Container id -> who waits for its end."""

    # sandboxes

    def pod(self, pod: Pod) -> RuntimePod:
        """What is held of a pod; an empty record if nothing."""
        found = self.pods.get(pod.meta.uid)
        if found is None:
            found = self.pods[pod.meta.uid] = RuntimePod(pod.meta.uid, pod.meta.key)
        return found

    def make_sandbox(self, pod: Pod, done: Callable[[], None]) -> None:
        """RunPodSandbox: a new network address each time."""
        self.clock.call_in(self.costs.sandbox(pod.meta.uid), self._sandbox_made, (self.pod(pod), done))

    def _sandbox_made(self, request: tuple[RuntimePod, Callable[[], None]]) -> None:
        found, done = request
        found.attempt += 1
        found.ready = True
        found.ip = self._addresses(found.key)
        done()

    def remove_pod(self, uid: str) -> None:
        """Sandbox, containers and cgroup of a pod that has ended are removed."""
        self.pods.pop(uid, None)
        self.use_changed()

    # containers

    def start_container(
        self, pod: Pod, container: Container, score_adj: int, done: Callable[[], None], killed: bool = False
    ) -> None:
        """CreateContainer and StartContainer; done() once it has started. killed: this sync ended the run before."""
        self.clock.call_in(self.costs.create(), self._created, (pod, container, score_adj, done, killed))

    def _created(self, request: tuple[Pod, Container, int, Callable[[], None], bool]) -> None:
        pod, container, score_adj, done, killed = request
        found = self.pod(pod)
        before = found.newest(container.name)
        restart = before.restart + 1 if before is not None else 0
        cgroup = ContainerCgroup(container.name, container.memory_limit, score_adj=score_adj)
        found.cgroup.containers[container.name] = cgroup
        instance = Instance(
            f"{pod.meta.uid}/{container.name}/{restart}", container.name, restart, cgroup, self.env.now_ns
        )
        runs = found.instances.setdefault(container.name, [])
        runs.append(instance)
        del runs[:-2]
        takes_ns = self.costs.restart() if restart else self.costs.start(found.uid)
        if killed:
            takes_ns = max(0, takes_ns - self.costs.synced_ns)
        self.clock.call_in(takes_ns, self._started, (pod, container, found, instance, done))

    def _started(self, request: tuple[Pod, Container, RuntimePod, Instance, Callable[[], None]]) -> None:
        pod, container, found, instance, done = request
        if instance.finished_ns is not None:
            done()
            return
        instance.started_ns = self.env.now_ns
        program = instance.program = self._programs(pod, container)
        uid, name = found.uid, instance.name
        place = Place(
            pod, container, self.node, instance.restart, found.ip, self.clock, instance.cgroup,
            lambda code: self._ended(found, instance, code),
            lambda: self.health_changed(uid, name),
            lambda: self.settle_memory(uid),
            lambda pages: self._late_pages(found, instance, pages),
        )  # fmt: skip
        self.told(uid)
        program.start(place)
        self.settle_memory(uid)
        done()

    def _ended(self, found: RuntimePod, instance: Instance, code: int) -> None:
        """The main process has ended, and all others of its PID namespace with it."""
        if not instance.running:
            return
        instance.finished_ns = self.env.now_ns
        instance.exit_code = code
        found.cgroup.container_ended(instance.name)
        self.ended(found.uid, instance)
        self.clock.call_in(self.costs.stop(), self._noticed, (found, instance))

    def _noticed(self, request: tuple[RuntimePod, Instance]) -> None:
        found, instance = request
        self.told(found.uid)
        for waiting in self._waiting.pop(instance.id, ()):
            waiting()

    def stop_container(self, uid: str, instance: Instance, grace_ns: int, done: Callable[[], None]) -> None:
        """StopContainer: SIGTERM, SIGKILL when the grace is over; done() when it has ended."""
        if not instance.running:
            done()
            return
        self._waiting.setdefault(instance.id, []).append(done)
        if instance.stopping:
            self.clock.call_in(grace_ns, self._grace_over, (uid, instance))
            return
        instance.stopping = True
        way_ns = self.costs.term()
        if way_ns:
            self.clock.call_in(way_ns, self._term, (uid, instance, grace_ns))
        else:
            self._term((uid, instance, grace_ns))

    def _term(self, request: tuple[str, Instance, int]) -> None:
        uid, instance, grace_ns = request
        if not instance.running:
            return
        self.clock.call_in(grace_ns, self._grace_over, (uid, instance))
        assert instance.program is not None
        instance.program.terminate()

    def _grace_over(self, request: tuple[str, Instance]) -> None:
        way_ns = self.costs.kill() if request[1].running else 0
        if way_ns:
            self.clock.call_in(way_ns, self._sigkill, request)
        else:
            self._sigkill(request)

    def _sigkill(self, request: tuple[str, Instance]) -> None:
        self.kill_container(*request)

    def kill_container(self, uid: str, instance: Instance, oom: bool = False) -> None:
        """SIGKILL to all its processes."""
        if not instance.running:
            return
        instance.oom = instance.oom or oom
        program = instance.program
        found = self.pods[uid]
        self._ended(found, instance, SIGKILL_CODE)
        assert program is not None
        program.killed()

    # memory

    def _late_pages(self, found: RuntimePod, instance: Instance, pages: int) -> None:
        """Into a container that lives they are pages like all others."""
        if instance.running:
            instance.cgroup.volume_pages += pages
            self.settle_memory(found.uid)
        else:
            found.cgroup.orphan_pages += pages

    def settle_memory(self, uid: str) -> None:
        """The kernel looks at the pod's limits; who it kills dies now (container_memory.py)."""
        found = self.pods.get(uid)
        if found is None:
            return
        self.use_changed()
        for kill in settle(found.cgroup, self.cgroups, self.single_process_oom):
            self._oom(found, kill)
        self._settle_machine()

    def _settle_machine(self) -> None:
        """Pods without limits may take all of the machine's memory: then the kernel looks at every process of it."""
        group = self.cgroups == 2 and not self.single_process_oom
        while self.machine_memory:
            fallen = node_oom((pod.cgroup for pod in self.pods.values()), self.machine_memory, group)
            if fallen is None:
                return
            self._oom(next(pod for pod in self.pods.values() if pod.cgroup is fallen[0]), fallen[1])

    def _oom(self, found: RuntimePod, kill: OomKill) -> None:
        self.oom_killed(found.uid, kill)
        instance = found.newest(kill.container)
        if instance is None or not instance.running:
            return
        instance.oom = True
        if kill.whole:
            self.kill_container(found.uid, instance, oom=True)
        elif instance.program is not None:
            for process in kill.killed:
                instance.program.process_killed(process)

    def write(self, uid: str, size: int) -> None:
        """A pod writes so many bytes to the node's disk (negative: removes them)."""
        self.pods[uid].disk = max(0, self.pods[uid].disk + size)
        self.use_changed()

    # the daemon and the machine

    def freeze(self) -> None:
        """The machine stands still: every process in it."""
        self.clock.freeze()
        for found in self.pods.values():
            for instance in found.running():
                if instance.program is not None:
                    instance.program.freeze()

    def thaw(self) -> None:
        """It goes on: what fell due happens now."""
        for found in list(self.pods.values()):
            for instance in list(found.running()):
                if instance.program is not None:
                    instance.program.thaw()
        self.clock.thaw()

    def stop_serving(self) -> None:
        """containerd is killed or stopped: containers live on under their shims."""
        self.serving = False

    def serve(self) -> None:
        """containerd is back and finds its containers; ends that it missed are known at once."""
        self.serving = True

    def power_off(self) -> None:
        """The machine is gone with everything in it; nobody in it learns of it."""
        self.clock.end()
        now_ns = self.env.now_ns
        for found in self.pods.values():
            found.ready = False
            for instance in list(found.running()):
                instance.finished_ns = now_ns
                instance.exit_code = UNKNOWN_CODE
                if instance.program is not None:
                    instance.program.killed()
            for container in found.cgroup.containers.values():
                container.processes.clear()
                container.volume_pages = 0
            found.cgroup.orphan_pages = 0
        self._waiting.clear()
        self.cpu_sets.clear()
        self.serving = False

    def power_on(self) -> None:
        """The machine boots: records of pods are on its disk, none of them runs, memory-backed volumes are empty."""
        self.clock = DaemonClock(self.env)
        self.serving = True


def _nobody() -> None:
    return None
