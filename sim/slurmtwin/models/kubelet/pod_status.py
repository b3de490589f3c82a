"""A pod's status as the kubelet words it from what its containers do (pkg/kubelet/kubelet_pods.go, v1.34.2).

Pure: getPhase(), convertToAPIContainerStatuses() and the conditions of status/generate.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from slurmtwin.engine.records import changed, dataclass
from slurmtwin.models.api_server.objects import Condition, Container, ContainerEnd, ContainerStatus, Pod, PodStatus
from slurmtwin.models.kubelet.container_runtime import Instance, RuntimePod
from slurmtwin.models.kubelet.quality_of_service import Amounts, QosClass, qos_class


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a container as a relist saw it."""

    id: str
    restart: int
    started_ns: int
    finished_ns: int | None = None
    exit_code: int = 0
    reason: str = ""

    @property
    def running(self) -> bool:
        """It had not ended."""
        return self.finished_ns is None

    def end(self) -> ContainerEnd:
        """As a terminated state."""
        assert self.finished_ns is not None
        return ContainerEnd(
            container_id=self.id, exit_code=self.exit_code, reason=self.reason, started_ns=self.started_ns,
            finished_ns=self.finished_ns,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seen:
    """A pod's containers at one relist (the kubelet's pod cache): what a sync goes by, whatever happened since."""

    at_ns: int
    sandbox: bool = False
    attempt: int = -1
    ip: str = ""
    runs: Mapping[str, tuple[Run, ...]] = field(default_factory=dict)
    """Container name -> its last runs, newest last."""

    def newest(self, name: str) -> Run | None:
        """The last run of a container."""
        runs = self.runs.get(name)
        return runs[-1] if runs else None

    def last_exit(self, name: str) -> Run | None:
        """The newest run that had ended."""
        for run in reversed(self.runs.get(name, ())):
            if not run.running:
                return run
        return None

    @property
    def running(self) -> bool:
        """Some container runs."""
        return any(runs[-1].running for runs in self.runs.values())


def look_at(found: RuntimePod | None, now_ns: int) -> Seen:
    """What a relist finds now."""
    if found is None:
        return Seen(now_ns)
    runs: dict[str, tuple[Run, ...]] = {}
    for name, instances in found.instances.items():
        each = tuple([_run(i) for i in instances if i.started_ns is not None])
        if each:
            runs[name] = each
    return Seen(now_ns, found.ready, found.attempt, found.ip, runs)


def _run(instance: Instance) -> Run:
    assert instance.started_ns is not None
    if instance.finished_ns is None:
        return Run(instance.id, instance.restart, instance.started_ns)
    return Run(
        instance.id, instance.restart, instance.started_ns, instance.finished_ns, instance.exit_code, instance.reason
    )


def amounts_of(container: Container) -> Amounts:
    """Requests and limits of a container."""
    return Amounts(
        milli_cpu=container.milli_cpu, memory=container.memory, milli_cpu_limit=container.milli_cpu_limit,
        memory_limit=container.memory_limit,
    )  # fmt: skip


def pod_quality(pod: Pod) -> QosClass:
    """The pod's QoS class."""
    return qos_class(amounts_of(c) for c in (*pod.spec.init_containers, *pod.spec.containers))


def restarts(pod: Pod, container: Container, run: Run | None) -> bool:
    """Does a container that has not started, or has ended, run (again)? (container/helpers.go
    ShouldContainerBeRestarted())
    """
    if pod.meta.deletion_ns is not None:
        return False
    if run is None:
        return True
    if run.running:
        return False
    if container.restartable or pod.spec.restart_policy == "Always":
        return True
    return pod.spec.restart_policy == "OnFailure" and run.exit_code != 0


def initialised(pod: Pod, seen: Seen) -> bool:
    """Every init container is over, or, if restartable, has begun; a regular container that exists proves it."""
    if not pod.spec.init_containers:
        return True
    if any(seen.newest(container.name) is not None for container in pod.spec.containers):
        return True
    for container in pod.spec.init_containers:
        run = seen.newest(container.name)
        if run is None or (not container.restartable and (run.running or run.exit_code != 0)):
            return False
    return True


def generate(
    pod: Pod, seen: Seen, waiting: Mapping[str, str], started: Callable[[str, Run], bool],
    ready: Callable[[str, Run], bool], now_ns: int, terminal: bool, old: PodStatus, quality: QosClass,
) -> PodStatus:  # fmt: skip
    """The status of a pod.

    waiting: reasons why containers could not be started at the last sync. started and ready: what the probes say of a
    container that runs. terminal: its containers have been stopped for good.
    """
    spec = pod.spec
    init = tuple([_container(pod, c, seen, waiting, started, ready, "PodInitializing") for c in spec.init_containers])
    default = "PodInitializing" if init else "ContainerCreating"
    containers = tuple([_container(pod, c, seen, waiting, started, ready, default) for c in spec.containers])
    done = initialised(pod, seen)
    phase = _phase(pod, containers, init, done, terminal)
    if old.phase in ("Succeeded", "Failed"):
        phase = old.phase
    is_ready = phase == "Running" and all(c.ready for c in containers)
    conditions = dict(old.conditions)
    _set(conditions, "PodReadyToStartContainers", seen.sandbox, now_ns)
    _set(conditions, "Initialized", done or phase == "Succeeded", now_ns)
    _set(conditions, "ContainersReady", is_ready, now_ns)
    _set(conditions, "Ready", is_ready, now_ns)
    return PodStatus(
        phase=phase, reason=old.reason, message=old.message, conditions=conditions, containers=containers,
        init_containers=init, ip=seen.ip or old.ip, started_ns=old.started_ns if old.started_ns is not None else now_ns,
        nominated_node=old.nominated_node, qos=quality,
    )  # fmt: skip


def _set(conditions: dict[str, Condition], name: str, value: bool, now_ns: int) -> None:
    word = "True" if value else "False"
    before = conditions.get(name)
    if before is None or before.status != word:
        conditions[name] = Condition(word, now_ns)


def _container(
    pod: Pod, container: Container, seen: Seen, waiting: Mapping[str, str], started: Callable[[str, Run], bool],
    ready: Callable[[str, Run], bool], default: str,
) -> ContainerStatus:  # fmt: skip
    name = container.name
    run = seen.newest(name)
    if run is None:
        return ContainerStatus(name=name, waiting=waiting.get(name, default))
    runs = seen.runs[name]
    last = runs[-2].end() if len(runs) > 1 and not runs[-2].running else None
    if run.running:
        is_started = started(name, run)
        return ContainerStatus(
            name=name, container_id=run.id, running_ns=run.started_ns, last_ended=last, restart_count=run.restart,
            started=is_started, ready=is_started and ready(name, run),
        )  # fmt: skip
    status = ContainerStatus(
        name=name, container_id=run.id, ended=run.end(), last_ended=last, restart_count=run.restart,
        ready=container in pod.spec.init_containers and run.exit_code == 0,
    )  # fmt: skip
    if name in waiting and restarts(pod, container, run):
        return changed(status, waiting=waiting[name], ended=None, last_ended=run.end())
    return status


def _phase(
    pod: Pod, containers: Sequence[ContainerStatus], init: Sequence[ContainerStatus], done: bool, terminal: bool
) -> str:
    """getPhase(). A container that never ran counts as waiting."""
    policy = pod.spec.restart_policy
    pending = False
    for container, status in zip(pod.spec.init_containers, init, strict=True) if init else ():
        end = status.ended or (status.last_ended if status.waiting else None)
        if container.restartable:
            pending = pending or (end is None and not status.started and not done)
            continue
        if end is not None and end.exit_code != 0 and policy == "Never":
            return "Failed"
        pending = pending or end is None
    running = fresh = False
    succeeded = True
    for status in containers:
        end = status.ended or (status.last_ended if status.waiting else None)
        running = running or status.running_ns is not None
        fresh = fresh or (end is None and status.running_ns is None)
        succeeded = succeeded and end is not None and end.exit_code == 0
    if pending or fresh:
        return "Pending"
    if running:
        return "Running"
    if terminal or policy == "Never":
        return "Succeeded" if succeeded else "Failed"
    return "Succeeded" if succeeded and policy == "OnFailure" else "Running"


def finally_ended(status: PodStatus) -> PodStatus:
    """The last word on a pod whose containers are gone: a phase that is final, and an end for each container of a pod
    that had begun (status_manager.go TerminatePod()).
    """
    containers = status.containers
    if any(c.running_ns is not None or c.ended is not None or c.last_ended is not None for c in containers):
        containers = tuple(c if c.ended is not None else changed(c, waiting="", running_ns=None, ended=_LOST)
                           for c in containers)  # fmt: skip
    phase = status.phase if status.phase in ("Succeeded", "Failed") else "Failed"
    if phase == status.phase and containers == status.containers:
        return status
    return changed(status, phase=phase, containers=containers)


_LOST = ContainerEnd(container_id="", exit_code=137, reason="ContainerStatusUnknown")
