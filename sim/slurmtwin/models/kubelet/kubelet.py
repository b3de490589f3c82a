"""The kubelet: one process on one node, from its start to its end (kubernetes.md 1 to 4).

It watches the pods that are bound to its node, admits them, and has a worker for each (pod_worker.py). What it knows of
containers it learns by relisting (relist.py). All that it remembers but the resource managers' checkpoints ends with
it: back-off counts, probe results, statuses. Source: pkg/kubelet/kubelet.go v1.34.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.engine.daemon_clock import DaemonClock
from slurmtwin.models.api_server.client import Client
from slurmtwin.models.api_server.collector import Fact, container_ended, container_started, pod_fact
from slurmtwin.models.api_server.informer import Informer
from slurmtwin.models.api_server.objects import Container, Node, Pod, PodStatus
from slurmtwin.models.api_server.watch import more_than_marks_of_running, waits
from slurmtwin.models.kubelet.admission import NodeCapacity, Room, resources_of
from slurmtwin.models.kubelet.back_off import BackOff
from slurmtwin.models.kubelet.cpu_sets import CpuSets
from slurmtwin.models.kubelet.defaults import RESYNC_NS, KubeletDefaults
from slurmtwin.models.kubelet.eviction import EvictionState
from slurmtwin.models.kubelet.image_pulls import ImagePulls
from slurmtwin.models.kubelet.node_pressure import NodePressure, NodeUse
from slurmtwin.models.kubelet.node_status import NodeReport
from slurmtwin.models.kubelet.pod_status import Run, Seen, generate, pod_quality
from slurmtwin.models.kubelet.pod_worker import PodWorker, evicted
from slurmtwin.models.kubelet.probe_loop import ProbeLoops
from slurmtwin.models.kubelet.probes import Answer, Probed, ProbeKind
from slurmtwin.models.kubelet.quality_of_service import QosClass
from slurmtwin.models.kubelet.relist import APART_PERCENT, Relist, Ticks
from slurmtwin.models.kubelet.status_sender import StatusSender

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Call, Environment
    from slurmtwin.models.api_server.server import ApiServer
    from slurmtwin.models.kubelet.container_runtime import ContainerRuntime, Instance
    from slurmtwin.models.kubelet.node_resources import NodeResources

STALE_THAWS: Final = 4
OF_THAWS: Final = 9
"""Of nine recorded thaws of a machine, four told NotReady first (x3, x64)."""

THAWED_NS: Final = (30 * MS, 130 * MS)
"""Behind a thaw of its machine a kubelet syncs its pods: 39 to 128 ms in six runs (x3, x4)."""
RESYNCS_BEHIND: Final = 5
OF_RESYNCS: Final = 6
"""In five of these the sync came behind the overdue look at containers, so that the deletion which the kubelet then
heard of waited for the next look (podCache.GetNewerThan()); in one before it."""

JUST_GONE_NS: Final = SECOND
"""A pod that comes so soon behind the one before it may find its objects' lists refused: 16 of 84 of
quiet-controller, 10 to 60 ms behind; of 132 lone ones that came seconds behind (quiet-operated, -drained) none."""

Draw = Callable[[int, int], int]
"""draw(low_ns, high_ns): uniform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSettings:
    """What a kubelet is started with."""

    defaults: KubeletDefaults
    capacity: NodeCapacity
    eviction: Callable[[], EvictionState] | None = None
    """A fresh state of the eviction manager; None: no thresholds."""
    use: NodeUse | None = None
    """What the machine has, for the eviction manager; None: memory alone, nothing used beside pods."""
    latency: Callable[[], int] | None = None
    """Of a request to the API server."""
    event: Callable[[], int] | None = None
    """From one of its Events to the next that waits behind it; None: as any request."""
    refuses: str = ""
    """Why the kubelet exits at its start (configuration.py refuses_to_start())."""
    on_cpus: Callable[[str, str, int], None] | None = None
    """Told the CPU set that the kernel holds a container to: pod uid, container, set."""
    record_events: bool = True
    """Event objects (Killing, BackOff ...) are written."""


class Kubelet:
    """One life of a kubelet; the next one is a new object on the same runtime and resource managers."""

    def __init__(
        self, env: Environment, server: ApiServer, runtime: ContainerRuntime, node: Node, settings: KubeletSettings,
        draw: Draw, resources: NodeResources | None = None,
        volumes_ready: Callable[[Pod], bool] = lambda pod: True,  # noqa: ARG005
        has_run: bool = False,
    ) -> None:  # fmt: skip
        self.clock = DaemonClock(env)
        self.runtime = runtime
        self.node = node
        self.name = node.meta.name
        self.settings = settings
        self.defaults = settings.defaults
        self.draw = draw
        self.resources = resources
        self.volumes_ready = volumes_ready
        self._let_go: dict[str, int] = {}
        """Namespace -> when a pod of it that ran here was gone."""
        self.memory = settings.capacity.memory_capacity or settings.capacity.memory
        self.client = Client(server, self.clock, settings.latency, event=settings.event)
        self.started_ns = env.now_ns
        self._has_run = has_run
        """For longer than any probe's period; else it has started now."""
        defaults = self.defaults
        now_ns = env.now_ns
        self.relist = Relist(
            self.clock, runtime, Ticks(now_ns + draw(0, defaults.relist_ns), defaults.relist_ns), self._pod_changed
        )
        self.sync_ticks = Ticks(now_ns + draw(0, defaults.sync_tick_ns), defaults.sync_tick_ns)
        self.crash_loops = BackOff.of(defaults)
        self.images = ImagePulls(self.clock, runtime, defaults)
        self.probes = ProbeLoops(self.clock, self, self._first_probe_ns)
        self.statuses = StatusSender(
            self.clock, self.client, Ticks(now_ns + draw(0, defaults.status_sweep_ns), defaults.status_sweep_ns),
            self._object_gone,
        )  # fmt: skip
        self.workers: dict[str, PodWorker] = {}
        self.pressure = self._new_pressure()
        self.report = NodeReport(
            self.clock, self.client, node, defaults, draw, self._health,
            lambda: self.pressure.state.conditions if self.pressure is not None else (),
        )  # fmt: skip
        self.room = Room(settings.capacity)
        self.cpu_sets = self._new_cpu_sets()
        self._runtime_silent_ns: int | None = None
        self._wakes: Call | None = None
        """After a thaw."""
        self._informer: Informer[Pod] = Informer(self.client, Pod, self._told, self.name, self._wanted)

    def _new_pressure(self) -> NodePressure | None:
        settings = self.settings
        if settings.eviction is None:
            return None
        period_ns = self.defaults.eviction_ns
        return NodePressure(
            self.clock, Ticks(self.started_ns + self.draw(0, period_ns), period_ns), self.defaults,
            settings.eviction(), settings.use or NodeUse(self.memory), self.runtime, self.workers, self.evict,
            lambda: self.report.changed(),
        )  # fmt: skip

    def _new_cpu_sets(self) -> CpuSets | None:
        if self.resources is None:
            return None
        period_ns = self.defaults.reconcile_ns
        return CpuSets(
            self.clock, Ticks(self.started_ns + self.draw(0, period_ns), period_ns), self.resources,
            self.runtime.cpu_sets, self._running, self.settings.on_cpus or _nobody,
        )  # fmt: skip

    def _running(self) -> list[tuple[str, str]]:
        return [(uid, instance.name) for uid, found in self.runtime.pods.items() for instance in found.running()]

    # its life

    def start(self) -> None:
        """exec: it takes over what the runtime has, registers the node and watches its pods."""
        runtime = self.runtime
        runtime.told = self._touched
        runtime.health_changed = self.probes.wake
        runtime.ended = self._container_ended
        if self.pressure is not None:
            runtime.use_changed = self.pressure.touched
        self.relist.begin()
        self.report.begin()
        self._informer.on_synced.append(self._adopt)
        self._informer.start()

    def end(self) -> None:
        """The process is gone; its containers run on."""
        self.report.silent()
        self.client.close()
        self.clock.end()

    def freeze(self) -> None:
        """It stands still: nothing is renewed, nothing is synced."""
        if self._wakes is not None:
            self._wakes.cancel()
        self.report.silent()
        self.clock.freeze()

    def thaw(self, stood_ns: int) -> None:
        """It goes on after so long: what fell due happens when its threads run again, THAWED_NS behind that.

        All timers are overdue at once. Where the node's status is computed before the runtime was asked again, it says
        "container runtime is down" after 30 s, and the next one puts that right (docs/surprises.md).
        """
        self._wakes = self.clock.environment.call_in(self.draw(*THAWED_NS), self._wake, stood_ns)

    def _wake(self, stood_ns: int) -> None:
        stale = stood_ns >= self.defaults.runtime_silent_ns and self.draw(0, OF_THAWS) < STALE_THAWS
        if stale:
            self._runtime_silent_ns = self.clock.now_ns - stood_ns
        self.report.heard()
        if self.clock.alive:
            self._overdue(stood_ns)
            self.clock.thaw()
            self.report.now()
        if stale and self.runtime.serving:
            self._runtime_silent_ns = None
            self.report.changed()

    def _overdue(self, stood_ns: int) -> None:
        """Its look at containers and its pods' resyncs, before it has read what the API server sent meanwhile."""
        if self.relist.ticks.next_after(self.clock.now_ns - stood_ns) <= self.clock.now_ns:
            self.relist.again()
        if self.draw(0, OF_RESYNCS) < RESYNCS_BEHIND:
            for worker in self.workers.values():
                resync_ns = self.draw(*RESYNC_NS)
                worker.overdue(stood_ns, resync_ns, self.draw(0, resync_ns))

    def runtime_stopped(self) -> None:
        """The runtime does not answer: after 30 s the node is NotReady."""
        self._runtime_silent_ns = self.clock.now_ns
        self.clock.call_in(self.defaults.runtime_silent_ns, self._runtime_still_silent)

    def _runtime_still_silent(self, _argument: object) -> None:
        if self._runtime_silent_ns is not None:
            self.report.changed()

    def runtime_serves(self) -> None:
        """The runtime answers again."""
        self._runtime_silent_ns = None
        self.report.changed()
        for uid in self.runtime.pods:
            self.relist.touched(uid)

    def _health(self) -> str:
        since_ns = self._runtime_silent_ns
        if since_ns is not None and self.clock.now_ns - since_ns >= self.defaults.runtime_silent_ns:
            return "KubeletNotReady"
        return ""

    # pods

    def _wanted(self, verb: str, old: Pod | None, new: Pod) -> bool:
        """Marks of a pod whose containers run are not worth an event: they sync it, which changes nothing but when the
        next sync may come."""
        if more_than_marks_of_running(verb, old, new):
            return True
        worker = self.workers.get(new.meta.uid)
        if worker is not None and old is not None and old.meta is not new.meta:
            worker.marked()
        return False

    def _told(self, old: Pod | None, new: Pod | None) -> None:
        """The informer: a pod was bound here, changed, or is gone."""
        if new is None:
            assert old is not None
            worker = self.workers.get(old.meta.uid)
            self.statuses.forget(old.meta.uid)
            if worker is not None:
                worker.removed()
            return
        if old is not None and old.meta.uid != new.meta.uid:
            self._told(old, None)
        worker = self.workers.get(new.meta.uid)
        if worker is None:
            self._add(new)
            return
        self.statuses.look(new)
        before, now = worker.pod.meta, new.meta
        marked = before.annotations != now.annotations or before.labels != now.labels
        if before.deletion_ns != now.deletion_ns or worker.pod.spec is not new.spec or (marked and waits(new)):
            worker.update(new)
        else:
            worker.pod = new

    def _add(self, pod: Pod) -> None:
        """HandlePodAdditions()."""
        uid = pod.meta.uid
        if pod.finished and uid not in self.runtime.pods:
            if pod.meta.deletion_ns is not None:
                self.client.delete(Pod, pod.meta.key, grace_ns=0, uid=uid)
            return
        reason = "" if pod.meta.deletion_ns is not None or pod.finished else self._admit(pod)
        if reason:
            self.reject(pod, reason)
            return
        worker = self.workers[uid] = PodWorker(self, pod)
        if pod.meta.deletion_ns is not None:
            worker.update(pod)
        else:
            worker.request()

    def _admit(self, pod: Pod) -> str:
        """canAdmitPod(): the reason of a refusal, or ""."""
        if self.pressure is not None and not self.pressure.state.admits(pod_quality(pod), pod.spec.priority):
            return "Evicted"
        if self.resources is not None and pod.meta.uid not in self.resources.pods:
            answer = self.resources.admit(resources_of(pod))
            if not answer.admitted:
                return answer.reason
        if self.cpu_sets is not None:
            self.cpu_sets.changed()
        refused = self.room.take(pod)
        if refused and self.resources is not None:
            self.resources.remove(pod.meta.uid)
        return refused

    def names_anew(self, pod: Pod) -> bool:
        """The last one of its namespace here has just gone, with its watches of their ConfigMaps and Secrets.

        Pods of one namespace name the same. What the first of all waits for is in the laws of starts.
        """
        namespace = pod.meta.namespace
        gone_ns = self._let_go.get(namespace)
        return (
            gone_ns is not None
            and self.clock.now_ns - gone_ns < JUST_GONE_NS
            and not any(
                worker.uid != pod.meta.uid and worker.stage != "finished"
                for worker in self.workers.values()
                if worker.pod.meta.namespace == namespace
            )
        )

    def reject(self, pod: Pod, reason: str) -> None:
        """rejectPod(): Failed for good; the object stays, its owner makes another (kubernetes.md 1.12)."""
        self.record(pod, reason, "Pod was rejected")
        status = PodStatus(
            phase="Failed", reason=reason, message="Pod was rejected", qos=pod_quality(pod),
            conditions=pod.status.conditions,
        )  # fmt: skip
        self.statuses.set(pod, status, finished=True)

    def _adopt(self) -> None:
        """The first list is in: what runs here and has no object is stopped (HandlePodCleanups())."""
        for uid in list(self.runtime.pods):
            if uid not in self.workers:
                running = list(self.runtime.pods[uid].running())
                for instance in running:
                    ended = partial(self._orphan_ended, uid)
                    self.runtime.stop_container(uid, instance, self.defaults.least_grace_ns, ended)
                if not running:
                    self.runtime.remove_pod(uid)

    def _orphan_ended(self, uid: str) -> None:
        """A container of a pod without an object has ended: with the last one its sandbox goes."""
        found = self.runtime.pods.get(uid)
        if found is not None and uid not in self.workers and not any(True for _ in found.running()):
            self.runtime.remove_pod(uid)

    def forget(self, uid: str) -> None:
        """The pod is gone, in the API and here."""
        worker = self.workers.pop(uid, None)
        if worker is not None:
            self._let_go[worker.pod.meta.namespace] = self.clock.now_ns
        self.relist.forget(uid)
        self.statuses.forget(uid)
        self.probes.remove(uid)
        self.resources_free(uid)
        self.crash_loops.collect(self.clock.now_ns)

    def _object_gone(self, uid: str) -> None:
        worker = self.workers.get(uid)
        if worker is not None:
            worker.removed()

    def resources_free(self, uid: str) -> None:
        """What the pod held is free; its CPUs return with the next admission or reconcile."""
        self.room.leave(uid)
        if self.cpu_sets is not None:
            self.cpu_sets.changed()
        if self.resources is not None:
            self.resources.remove(uid)

    def evict(self, uid: str, grace_ns: int, message: str) -> None:
        """The eviction manager's choice."""
        worker = self.workers.get(uid)
        if worker is not None:
            self.record(worker.pod, "Evicted", message)
            worker.evict(grace_ns, evicted(message, self.clock.now_ns))

    # containers

    def _touched(self, uid: str) -> None:
        self.relist.touched(uid)

    def _pod_changed(self, uid: str, several: bool) -> None:
        worker = self.workers.get(uid)
        if worker is not None:
            worker.request()
            if several and self.draw(0, 100) < APART_PERCENT:
                worker.again()

    def container_begins(self, pod: Pod, container: Container) -> None:
        """The image is there; the container is made."""
        self.probes.container_begins(pod.meta.uid)
        self.record(pod, "Pulled", f'Container image "{container.image}" already present on machine')

    def container_started(self, pod: Pod, container: Container) -> None:
        """It runs, unless it has died at once: then nobody ever sees it run (recorded in x63-oom-slurmd)."""
        self.record(pod, "Created", f"Created container: {container.name}")
        self.record(pod, "Started", f"Started container {container.name}")
        if self.resources is not None and pod.meta.uid in self.resources.pods:
            self.resources.container_started(pod.meta.uid, container.name)
        if self.cpu_sets is not None:
            self.cpu_sets.created(pod.meta.uid, container.name)
        instance = self.runtime.pod(pod).newest(container.name)
        if instance is not None and instance.running and container in pod.spec.containers:
            self._stamp(lambda: container_started(pod, container.name, instance.restart))

    def _container_ended(self, uid: str, instance: Instance) -> None:
        """The runtime dates an end; the API server will learn of it unless the object is gone."""
        worker = self.workers.get(uid)
        if worker is not None and not worker.gone and any(c.name == instance.name for c in worker.pod.spec.containers):
            pod = worker.pod
            self._stamp(lambda: container_ended(pod, instance.name, instance.reason, instance.exit_code))

    def _stamp(self, fact: Callable[[], Fact]) -> None:
        """Date something now, where somebody writes rows."""
        server = self.client.server
        if server.on_stamp:
            server.stamp(fact())

    # statuses

    def status_of(self, pod: Pod, seen: Seen, waiting: dict[str, str], terminal: bool) -> PodStatus:
        """The status of a pod now."""
        uid = pod.meta.uid
        old = self.statuses.status(uid) or pod.status
        return generate(
            pod, seen, waiting, lambda name, run: self._is_started(uid, name, run),
            lambda name, run: self._is_ready(pod, name, run), self.clock.now_ns, terminal, old, self.quality(pod),
        )  # fmt: skip

    def quality(self, pod: Pod) -> QosClass:
        """The pod's QoS class."""
        worker = self.workers.get(pod.meta.uid)
        return worker.quality if worker is not None else pod_quality(pod)

    def _is_started(self, uid: str, name: str, run: Run) -> bool:
        if not self.probes.has(uid, name, "startup"):
            return True
        return self.probes.result(uid, name, "startup", run.id) is True

    def _is_ready(self, pod: Pod, name: str, run: Run) -> bool:
        uid = pod.meta.uid
        if not self.probes.has(uid, name, "readiness"):
            return True
        result = self.probes.result(uid, name, "readiness", run.id)
        if result is True:
            return True
        self.probes.run_now(uid, name)
        if result is None and not self.defaults.restart_unreadies:
            return any(c.container_id == run.id and c.ready for c in pod.status.containers)
        return False

    def last_status(self, uid: str) -> PodStatus | None:
        """The last status that was set."""
        return self.statuses.status(uid)

    def tell(self, pod: Pod, status: PodStatus, finished: bool = False, way_ns: int | None = None) -> None:
        """Set a pod's status; it goes out at once. way_ns: measured, until the API server has it."""
        before = self.statuses.status(pod.meta.uid) or pod.status
        was, now = before.conditions.get("Ready"), status.conditions.get("Ready")
        if now is not None and (was is None or was.status != now.status) and (now.status == "True" or was is not None):
            kind = Kind.POD_READY if now.status == "True" else Kind.POD_UNREADY
            self._stamp(lambda: pod_fact(kind, pod))
        if self.statuses.set(pod, status, finished, way_ns):
            self.probes.wake(pod.meta.uid)

    # probes

    def _first_probe_ns(self, period_ns: int) -> int:
        """A kubelet that has just started spreads its probes over their period."""
        spreads = not self._has_run and self.clock.now_ns - self.started_ns < period_ns
        return self.draw(0, period_ns) if spreads else 0

    def probe_of(self, uid: str, name: str, kind: ProbeKind) -> bool | None:
        """The result of a probe for the run that the last relist saw."""
        run = self.relist.seen(uid).newest(name)
        return self.probes.result(uid, name, kind, run.id) if run is not None else None

    def probed(self, uid: str, name: str) -> Probed:
        """The container as the last status has it."""
        status, worker = self.statuses.status(uid), self.workers.get(uid)
        if status is None or worker is None:
            return Probed("", None, started=False)
        found = next((c for c in (*status.containers, *status.init_containers) if c.name == name), None)
        if found is None:
            return Probed("", None, started=False)
        return Probed(
            found.container_id, found.running_ns, found.started,
            will_restart=worker.pod.spec.restart_policy != "Never",
            pod_finished=status.phase in ("Succeeded", "Failed"),
            pod_deleting=worker.pod.meta.deletion_ns is not None,
        )  # fmt: skip

    def answer(self, uid: str, name: str, kind: ProbeKind) -> Answer | None:
        """What the container's program answers now."""
        found = self.runtime.pods.get(uid)
        instance = found.newest(name) if found is not None else None
        if instance is None or not instance.running or instance.program is None:
            return None
        return instance.program.answer(kind)

    def probe_close_ns(self) -> int:
        """How long the connection of a probe that timed out takes to close."""
        return self.draw(*self.defaults.probe_close_ns)

    def probe_result(self, uid: str, kind: ProbeKind, ok: bool) -> None:
        """A probe has its result: readiness and startup show at once, a failure is synced."""
        worker = self.workers.get(uid)
        if worker is None:
            return
        if kind != "liveness" and worker.stage == "sync":
            self.tell(worker.pod, self.status_of(worker.pod, self.relist.seen(uid), worker.waiting, terminal=False))
        if kind != "liveness" or not ok:
            worker.request()

    def probe_failed(self, uid: str, kind: ProbeKind, answer: Answer) -> None:
        """One attempt failed."""
        worker = self.workers.get(uid)
        if worker is not None:
            said = "no answer in time" if answer is Answer.SILENT else "refused"
            self.record(worker.pod, "Unhealthy", f"{kind.capitalize()} probe failed: {said}")

    def record(self, pod: Pod, reason: str, message: str) -> None:
        """An Event about a pod."""
        if self.settings.record_events:
            self.client.event(f"Pod/{pod.meta.name}", reason, message)


def _nobody(_uid: str, _container: str, _cpus: int) -> None:
    return None
