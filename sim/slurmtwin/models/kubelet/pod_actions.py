"""What a sync does with a pod: sandbox, containers to kill, containers to start.

Pure: kuberuntime_manager.go computePodActions() and computeInitContainerActions(), v1.34.2, without ephemeral
containers, in-place resize and changed specifications (a pod's template never changes in place here).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slurmtwin.engine.records import dataclass
from slurmtwin.models.kubelet.pod_status import Run, Seen, restarts
from slurmtwin.models.kubelet.probes import ProbeKind

if TYPE_CHECKING:
    from slurmtwin.models.api_server.objects import Container, Pod

ProbeResult = Callable[[str, ProbeKind], bool | None]
"""(container name, probe) -> its result for the run it last looked at; None: no such probe, or not known yet."""


@dataclass(frozen=True, slots=True)
class Actions:
    """The work of one sync, in its order."""

    kill_pod: bool = False
    """Everything is stopped first."""
    sandbox: bool = False
    """A new one is made."""
    kill: tuple[tuple[str, str], ...] = ()
    """(container, why: liveness or startup)."""
    start: tuple[Container, ...] = ()
    """Init containers, or else regular ones."""


NOTHING = Actions()


def pod_actions(pod: Pod, seen: Seen, result: ProbeResult) -> Actions:
    """What has to be done, given what the last relist saw."""
    spec = pod.spec
    if not seen.sandbox:
        return _new_sandbox(pod, seen)
    init_start, init_kill, over, failed = _init_actions(pod, seen, result)
    if failed:
        return Actions(kill_pod=True)
    if not over:
        return Actions(kill=init_kill, start=init_start)
    kill = list(init_kill)
    start = list(init_start)
    kept = 0
    for container in spec.containers:
        run = seen.newest(container.name)
        if run is None or not run.running:
            if restarts(pod, container, run):
                start.append(container)
            continue
        why = _unhealthy(container, result)
        if not why:
            kept += 1
            continue
        kill.append((container.name, why))
        if spec.restart_policy != "Never":
            start.append(container)
    if not kept and len(start) == len(init_start):
        return Actions(kill_pod=True)
    return Actions(kill=tuple(kill), start=tuple(start))


def _new_sandbox(pod: Pod, seen: Seen) -> Actions:
    """The pod has no sandbox that works: everything is killed, and begins anew if it may."""
    spec = pod.spec
    if spec.restart_policy == "Never" and seen.attempt >= 0 and seen.runs:
        return Actions(kill_pod=True)
    start = tuple(c for c in spec.containers if not _is_over(spec.restart_policy, seen.newest(c.name)))
    if not start and any(seen.newest(c.name) is not None for c in spec.containers):
        return Actions(kill_pod=True)
    if spec.init_containers:
        start = spec.init_containers[:1]
    return Actions(kill_pod=True, sandbox=True, start=start)


def _is_over(policy: str, run: Run | None) -> bool:
    return policy == "OnFailure" and run is not None and not run.running and run.exit_code == 0


def _unhealthy(container: Container, result: ProbeResult) -> str:
    if container.liveness is not None and result(container.name, "liveness") is False:
        return "liveness"
    if container.startup is not None and result(container.name, "startup") is False:
        return "startup"
    return ""


def _init_actions(
    pod: Pod, seen: Seen, result: ProbeResult
) -> tuple[tuple[Container, ...], tuple[tuple[str, str], ...], bool, bool]:
    """(to start, to kill, initialisation is over, it failed for good): from the last init container to the first."""
    containers = pod.spec.init_containers
    if not containers:
        return (), (), True, False
    start: list[Container] = []
    kill: list[tuple[str, str]] = []
    over = any(run is not None and run.running for run in (seen.newest(c.name) for c in pod.spec.containers))
    passed = over
    """This one, or one behind it, has been begun before."""
    last = len(containers) - 1
    for place in range(last, -1, -1):
        container = containers[place]
        run = seen.newest(container.name)
        if run is None:
            if passed and container.restartable:
                start.append(container)
            continue
        if passed and not container.restartable:
            continue
        if run.running:
            if not container.restartable:
                passed = True
                continue
            began = container.startup is None or result(container.name, "startup")
            if began is False:
                kill.append((container.name, "startup"))
                start.append(container)
            elif began:
                if place == last:
                    over = True
                elif not passed:
                    start.append(containers[place + 1])
                if container.liveness is not None and result(container.name, "liveness") is False:
                    kill.append((container.name, "liveness"))
                    start.append(container)
        elif container.restartable:
            start.append(container)
        elif run.exit_code != 0:
            if pod.spec.restart_policy == "Never":
                return (), (), False, True
            start.append(container)
        elif place == last:
            over = True
        else:
            start.append(containers[place + 1])
        passed = True
    if not passed:
        start.append(containers[0])
    return tuple(reversed(start)), tuple(kill), over, False
