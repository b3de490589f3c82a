"""The eviction manager of a running kubelet: it looks each 10 s while something is, or was, short.

A node with plenty is not looked at: a look is armed when memory or disk in use grows past a threshold, and looks go on
while a condition stands. After an eviction the manager waits until the pod is gone, 30 s at most, and looks again at
once (eviction_manager.go Start()). Its rules are in eviction.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.kubelet.admission import asked
from slurmtwin.models.kubelet.eviction import EvictionState, Look, Observation, PodUse

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import Clock
    from slurmtwin.models.kubelet.container_runtime import ContainerRuntime
    from slurmtwin.models.kubelet.defaults import KubeletDefaults
    from slurmtwin.models.kubelet.pod_worker import PodWorker
    from slurmtwin.models.kubelet.relist import Ticks


@dataclass(slots=True)
class NodeUse:
    """What a machine has and what is used of it beside its pods; bytes. Disk 0: it is not looked at."""

    memory: int
    system_memory: int = 0
    disk: int = 0
    system_disk: int = 0
    reclaimable_disk: int = 0
    """Unused images and dead containers: removed before a pod has to go."""
    inodes: int = 0
    used_inodes: int = 0


class NodePressure:
    """Of one kubelet."""

    def __init__(
        self, clock: Clock, ticks: Ticks, defaults: KubeletDefaults, state: EvictionState, use: NodeUse,
        runtime: ContainerRuntime, workers: dict[str, PodWorker], evict: Callable[[str, int, str], None],
        changed: Callable[[], None],
    ) -> None:  # fmt: skip
        self._clock = clock
        self._ticks = ticks
        self._defaults = defaults
        self.state = state
        self.use = use
        self._runtime = runtime
        self._workers = workers
        self._evict = evict
        self._changed = changed
        """Told that the node's conditions are others."""
        self._armed = False
        self._waits: dict[str, int] = {}
        """Evicted pods that are not gone: until when they are waited for."""

    def touched(self) -> None:
        """Use of memory or disk is different."""
        if not self._armed and not self._waits and (self._short() or self.state.conditions):
            self._arm(self._ticks.next_after(self._clock.now_ns))

    def _short(self) -> bool:
        observed = self.observe()
        return any(
            seen.available < threshold.value(seen.capacity)
            for threshold in self.state.thresholds
            if (seen := observed.get(threshold.signal)) is not None
        ) or any(self._over_local_limit(uid) for uid in self._runtime.pods)

    def _arm(self, at_ns: int) -> None:
        self._armed = True
        self._clock.call_at(at_ns, self._look)

    def observe(self) -> dict[str, Observation]:
        """Every signal that this machine has."""
        use = self.use
        memory = sum(found.cgroup.used for found in self._runtime.pods.values())
        free = max(0, use.memory - use.system_memory - memory)
        found = {"memory.available": Observation(free, use.memory)}
        if use.disk:
            disk = use.system_disk + sum(pod.disk for pod in self._runtime.pods.values())
            for signal in ("nodefs.available", "imagefs.available"):
                found[signal] = Observation(max(0, use.disk - disk), use.disk)
        if use.inodes:
            for signal in ("nodefs.inodesFree", "imagefs.inodesFree"):
                found[signal] = Observation(max(0, use.inodes - use.used_inodes), use.inodes)
        return found

    def _pods(self) -> list[PodUse]:
        found = []
        for uid, worker in self._workers.items():
            runtime = self._runtime.pods.get(uid)
            if runtime is None or worker.stage != "sync":
                continue
            found.append(
                PodUse(
                    uid=uid, priority=worker.pod.spec.priority, quality=worker.quality, memory=runtime.cgroup.used,
                    asked_memory=asked(worker.pod)[1], disk=runtime.disk, grace_ns=worker.pod.spec.grace_ns,
                    over_local_limit=self._over_local_limit(uid),
                )
            )  # fmt: skip
        return found

    def _over_local_limit(self, uid: str) -> bool:
        """An emptyDir on disk is over its sizeLimit. (A volume in memory cannot be: its file system ends there.)"""
        worker, found = self._workers.get(uid), self._runtime.pods.get(uid)
        if worker is None or found is None:
            return False
        return any(
            volume.size and not volume.memory and not volume.claim and found.disk > volume.size
            for volume in worker.pod.spec.volumes
        )

    def _look(self, _argument: object) -> None:
        """One pass; reclaiming is done where it is enough."""
        self._armed = False
        now_ns = self._clock.now_ns
        before = self.state.conditions
        look = self.state.look(now_ns, self.observe(), self._pods(), self._after_reclaim())
        if look.conditions != before:
            self._changed()
        for eviction in look.evictions:
            self._waits[eviction.uid] = now_ns + self._defaults.eviction_clean_up_ns
            self._evict(eviction.uid, eviction.grace_ns, f"The node was low on resource: {eviction.resource}. ")
        if look.evictions:
            self._clock.call_in(SECOND, self._wait)
        elif self._goes_on(look):
            self._arm(now_ns + self._defaults.eviction_ns)

    def _goes_on(self, look: Look) -> bool:
        return bool(look.conditions) or self._short()

    def _after_reclaim(self) -> dict[str, Observation] | None:
        """What disk there would be without unused images; removing them is at once where that is enough."""
        use = self.use
        if not use.reclaimable_disk or not use.disk:
            return None
        free = self.observe()["nodefs.available"].available
        use.system_disk -= use.reclaimable_disk
        freed, use.reclaimable_disk = use.reclaimable_disk, 0
        return {name: Observation(free + freed, use.disk) for name in ("nodefs.available", "imagefs.available")}

    def _wait(self, _argument: object) -> None:
        """Each second until the evicted are gone, or long enough; then the next pass."""
        now_ns = self._clock.now_ns
        gone = [uid for uid, until_ns in self._waits.items() if self._clean(uid) or now_ns >= until_ns]
        for uid in gone:
            del self._waits[uid]
        if self._waits:
            self._clock.call_in(SECOND, self._wait)
        elif not self._armed:
            self._look(None)

    def _clean(self, uid: str) -> bool:
        worker = self._workers.get(uid)
        return worker is None or worker.stage == "finished"
