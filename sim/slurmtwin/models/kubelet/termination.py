"""Containers are stopped: preStop, SIGTERM, SIGKILL, and who goes before whom (kubernetes.md 3.5).

Source: kuberuntime_container.go killContainer(), killContainersWithSyncResult(); kuberuntime_termination_order.go,
v1.34.2. All regular containers go at once; restartable init containers go after them, the last one first. preStop hooks
run at once, and eat the grace period, as waiting for one's turn does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from slurmtwin.contract.clock import SECOND

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import Clock
    from slurmtwin.models.api_server.objects import Container, Pod
    from slurmtwin.models.kubelet.container_runtime import ContainerRuntime, Instance


class Termination:
    """The stopping of some containers of one pod; done() when all have ended."""

    def __init__(
        self, clock: Clock, runtime: ContainerRuntime, pod: Pod, grace_ns: int, least_ns: int, done: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._runtime = runtime
        self._pod = pod
        self._grace_ns = grace_ns
        self._least_ns = least_ns
        """Every container gets so long between SIGTERM and SIGKILL."""
        self._done = done
        self.hooks_over_ns = 0
        """When the last of their hooks is over, so that all have SIGTERM; 0: they have none."""
        self._left: dict[str, Instance] = {}
        self._waiting: list[tuple[Container, Instance, int]] = []
        """Sidecars that wait for their turn: since when."""

    def begin(self, instances: Sequence[Instance]) -> None:
        """Stop these."""
        specs = {c.name: c for c in (*self._pod.spec.init_containers, *self._pod.spec.containers)}
        self._left = {instance.name: instance for instance in instances if instance.running}
        if not self._left:
            self._done()
            return
        for instance in list(self._left.values()):
            container = specs[instance.name]
            hook_ns = min(container.pre_stop_ns, self._grace_ns) if self._grace_ns > 0 else 0
            if hook_ns:
                self.hooks_over_ns = max(self.hooks_over_ns, self._clock.now_ns + hook_ns)
                self._runtime.hooked(self._pod)
                self._clock.call_in(hook_ns, self._hook_over, (container, instance, hook_ns // SECOND * SECOND))
            else:
                self._hook_over((container, instance, 0))

    def _hook_over(self, request: tuple[Container, Instance, int]) -> None:
        container, instance, used_ns = request
        if not container.restartable or not self._before(container):
            self._stop(instance, used_ns)
            return
        self._waiting.append((container, instance, self._clock.now_ns - used_ns))
        self._clock.call_in(max(0, self._grace_ns - used_ns), self._turn_over, instance)

    def _before(self, sidecar: Container) -> bool:
        """Somebody has to end before this sidecar: a regular container, or a sidecar behind it."""
        order = [c.name for c in self._pod.spec.init_containers]
        place = order.index(sidecar.name)
        return any(name not in order or order.index(name) > place for name in self._left if name != sidecar.name)

    def _turn_over(self, instance: Instance) -> None:
        """It has waited as long as there was grace."""
        if any(waits is instance for _, waits, _ in self._waiting):
            self._waiting = [entry for entry in self._waiting if entry[1] is not instance]
            self._stop(instance, self._grace_ns)

    def _stop(self, instance: Instance, used_ns: int) -> None:
        grace_ns = max(self._grace_ns - used_ns, self._least_ns)
        self._runtime.stop_container(self._pod.meta.uid, instance, grace_ns, lambda: self._ended(instance))

    def _ended(self, instance: Instance) -> None:
        if self._left.pop(instance.name, None) is None:
            return
        if not self._left:
            self._done()
            return
        waiting, self._waiting = self._waiting, []
        for entry in waiting:
            container, other, since_ns = entry
            if self._before(container):
                self._waiting.append(entry)
            else:
                self._stop(other, (self._clock.now_ns - since_ns) // SECOND * SECOND)
