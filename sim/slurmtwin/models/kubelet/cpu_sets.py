"""The CPU sets that the kernel holds containers to, beside those that the CPU manager wants.

A container gets its set when it is created; later changes of the shared pool reach it with the reconcile loop, each 10
s. So for up to 10 s a pod with exclusive CPUs shares them with the containers that were there before. A loop that would
change nothing is not simulated. Source: kubernetes.md 1.4, 1.6, 1.7; cpu_manager.go reconcileState(), v1.34.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import Clock
    from slurmtwin.models.kubelet.node_resources import NodeResources
    from slurmtwin.models.kubelet.relist import Ticks

Told = Callable[[str, str, int], None]
"""told(pod uid, container, cpuset)."""


class CpuSets:
    """Of the containers of one kubelet. `applied` is the kernel's and outlives it."""

    def __init__(
        self, clock: Clock, ticks: Ticks, resources: NodeResources, applied: dict[tuple[str, str], int],
        running: Callable[[], Iterable[tuple[str, str]]], told: Told,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._ticks = ticks
        self._resources = resources
        self._applied = applied
        self._running = running
        self._told = told
        self._armed = False

    def created(self, uid: str, container: str) -> None:
        """A container is created, or created again: the same key, the same set."""
        self._apply(uid, container)

    def changed(self) -> None:
        """Pods came or went: the next loop may find other sets."""
        if not self._armed:
            self._armed = True
            self._clock.call_at(self._ticks.next_after(self._clock.now_ns), self._reconcile)

    def _reconcile(self, _argument: object) -> None:
        self._armed = False
        self._resources.reconcile()
        running = list(self._running())
        for key in [key for key in self._applied if key not in running]:
            del self._applied[key]
        for uid, container in running:
            self._apply(uid, container)

    def _apply(self, uid: str, container: str) -> None:
        cpu = self._resources.cpu
        if cpu is None:
            return
        cpus = cpu.cpuset(uid, container)
        if self._applied.get((uid, container)) != cpus:
            self._applied[uid, container] = cpus
            self._told(uid, container, cpus)
