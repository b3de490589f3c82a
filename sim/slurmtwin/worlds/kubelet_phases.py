"""Where a recording's kubelets stood before its first fault: their looks at containers, syncs and probes of pods.

Nothing in the API tells of either; a recording has them from the kubelets' own logs, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from slurmtwin.contract.clock import MS
from slurmtwin.models.api_server.objects import Pod
from slurmtwin.models.kubelet.defaults import RESYNC_NS, VOLUME_POLL_NS
from slurmtwin.models.kubelet.relist import MovingTicks
from slurmtwin.worlds.pod_durations import EARLIER_BATCHES

if TYPE_CHECKING:
    import numpy as np

    from slurmtwin.engine.environment import Environment
    from slurmtwin.engine.random_streams import RandomStreams
    from slurmtwin.models.kubelet.machine import Machine
    from slurmtwin.models.kubelet.probe_loop import ProbeLoops
    from slurmtwin.models.kubelet.relist import Ticks
    from slurmtwin.worlds.start_times import StartTimes

Seen = TypeVar("Seen")

LOOKS_BEGIN_NS: Final = 12 * MS
"""From a pod's first sync until its mounts are waited for: cgroups and folders. Refused probes of 29 pods of
op-rest-away and x9-takeover: 22 ticked a whole number of looks behind their sync and 6 to 41 ms, median 13."""
LEAST_SANDBOX_NS: Final = 100 * MS
"""No sandbox of theirs took less."""
REMOUNT_NS: Final = 100 * MS
"""A sync asks for the pod's volumes anew: the populator's loop takes that up, the reconciler's mounts, each within so
long (volume_manager.go, desiredStateOfWorldPopulatorLoopSleepPeriod and reconcilerLoopSleepPeriod)."""
EXIT_NS: Final = (50 * MS, 80 * MS)
"""containerd deletes the task, which runs runc, before it calls a container ended (internal/cri/server/events.go,
handleContainerExit): relists see containers that only sleep as ended 50 to 68 ms after a SIGKILL (slurmtwin_e2e,
exit_delay.py), and all of 27 daemons of quiet-restarts 80 ms and more after it. Where the looks are drawn
StartCosts.stop stands."""
EXIT_RESTART_NS: Final = 123 * MS
"""container-restart of that host. Elsewhere an exit takes as much more or less as that does: where it took 66 ms, one
of 60 containers was still missed after 32 ms and the next seen after 58 (25 November)."""
ROUNDS_EXIT_NS: Final = (60 * MS, 260 * MS)
"""In the earlier batches the harness read long pages each 10 s, and some faults fell on such a round
(docs/fault-verdicts.md): of that time's runs relists 89, 105 and 212 ms after a SIGKILL still saw the process
run, those 133, 159 and 211 ms after it did not."""


def exit_range_ns(times: StartTimes, restart_ns: int) -> tuple[int, int]:
    """A container's end until its runtime says so, in the hour of this recording; restart_ns: its container-restart."""
    if times.epoch_ns < EARLIER_BATCHES[-1][0]:
        return ROUNDS_EXIT_NS
    low_ns, high_ns = (exit_ns * restart_ns // EXIT_RESTART_NS for exit_ns in EXIT_NS)
    return low_ns, high_ns


def mounts_looks_ns(entered_ns: int, image_ns: int) -> list[int]:
    """The looks at a pod's mounts that may have found them made, between its first sync and its first image.

    The first one of all comes before anything is mounted (WaitForAttachAndMount(), volume_manager.go).
    """
    begin_ns = entered_ns + LOOKS_BEGIN_NS
    return list(range(begin_ns + VOLUME_POLL_NS, image_ns - LEAST_SANDBOX_NS, VOLUME_POLL_NS))


@dataclass(frozen=True, slots=True)
class LastSync:
    """The last sync of a pod that is known."""

    uid: str
    """Of the pod; "": there is none."""
    at_ns: int
    looks: Ticks | None = None
    """Of its kubelet's syncLoop, where a recording has the sync; None: it is taken for that of the container's start.
    """


class Resync:
    """When a pod without news is synced again, and with it its mounted ConfigMaps."""

    def __init__(self, generator: np.random.Generator, factor: float) -> None:
        self._generator = generator
        low_ns, high_ns = RESYNC_NS
        self._range_ns = (round(factor * low_ns), round(factor * high_ns))

    def mounted_ns(self, last: LastSync, now_ns: int) -> int:
        """When a ConfigMap that changes now is in the pod.

        After a recorded sync no other one was seen until now, so what is due was not due at syncLoop's last look. Where
        that leaves nothing of the range it is due now. So it is with a pause that a verdict has halved: it would have
        shown a later sync, and brought the file before the range of that one.
        """
        looks, sync_ns = last.looks, last.at_ns
        low_ns, high_ns = self._range_ns
        if looks is None:
            while sync_ns <= now_ns:
                sync_ns += self._draw(low_ns, high_ns)
            return sync_ns
        due_ns = looks.last_before(now_ns)
        if sync_ns + high_ns > due_ns:
            due_ns = sync_ns + self._draw(max(low_ns, due_ns - sync_ns), high_ns)
        return looks.next_after(due_ns) + self._draw(0, REMOUNT_NS) + self._draw(0, REMOUNT_NS)

    def _draw(self, low_ns: int, high_ns: int) -> int:
        return int(self._generator.integers(low_ns, high_ns))


class KubeletPhases:
    """What a recording says of them; without rows of the kubelets nothing."""

    def __init__(
        self, machines: Mapping[str, Machine], times: StartTimes, relist: Callable[[], int],
        exit_ns: tuple[int, int], streams: RandomStreams,
    ) -> None:  # fmt: skip
        self._machines = machines
        self._times = times
        self._relist = relist
        """Draws what one takes."""
        self._looks = streams.generator("volumes.looks")
        self._exit = streams.uniform_ns("runtime.exit", *exit_ns)

    def start(self, env: Environment) -> None:
        """Each kubelet that the recording has stands on its last relist from then on."""
        for name, last_ns in self._times.relist_ns.items():
            if name in self._machines and last_ns >= env.now_ns:
                env.call_at(last_ns, self._relisted, name)
        for name, swept_ns in self._times.swept_ns.items():
            if name in self._machines:
                period_ns = self._machines[name].settings.defaults.status_sweep_ns
                env.call_at(max(env.now_ns, swept_ns - period_ns), self._swept, name)
        if self._times.image_ns or self._times.probed_ns:
            env.call_at(max(0, env.now_ns), self._probed)

    def _probed(self, _: object) -> None:
        for machine in self._machines.values():
            if machine.kubelet is not None:
                for uid, worker in machine.kubelet.workers.items():
                    self._stand(machine.kubelet.probes, uid, worker.pod)

    def _stand(self, probes: ProbeLoops, uid: str, pod: Pod) -> None:
        """A pod's probes tick from the end of its mounts on (prober_manager.go AddPod, called by SyncPod), which
        nothing shows where its kubelet logs no probes.

        The mounts are looked at each 300 ms from the first sync on, and the first image is there a sandbox later: the
        looks between the two are equally likely. Without the sync the sandbox is as the twin draws it.
        """
        image_ns, entered_ns = self._of_pod(self._times.image_ns, pod), self._of_pod(self._times.entered_ns, pod)
        if image_ns is not None:
            looks = [] if entered_ns is None else mounts_looks_ns(entered_ns, image_ns)
            if looks:
                probes.stand_on(uid, looks[int(self._looks.integers(len(looks)))])
            else:
                probes.begun_at(uid, image_ns)
        for probe, times_ns in (self._of_pod(self._times.probed_ns, pod) or {}).items():
            container, _, kind = probe.rpartition("/")
            probes.stand(uid, container, kind, times_ns)

    def _relisted(self, name: str) -> None:
        """The pause begins when a relist has ended (generic.go, wait.Until): what it takes moves the next ones."""
        machine = self._machines[name]
        if machine.kubelet is not None:
            last_ns, pause_ns = self._times.relist_ns[name], machine.settings.defaults.relist_ns
            machine.kubelet.relist.stand(MovingTicks(last_ns, pause_ns, self._relist))
            machine.runtime.costs = replace(machine.runtime.costs, stop=self._exit)

    def _swept(self, name: str) -> None:
        """Sweeps over statuses are a plain ticker's (status_manager.go Start())."""
        machine = self._machines[name]
        if machine.kubelet is not None:
            machine.kubelet.statuses.stand(self._times.swept_ns[name])

    def last_sync(self, pod: Pod, came_up_ns: int) -> LastSync:
        """Of a pod whose containers came up then; a recorded sync before that is not the last one."""
        at_ns = self._of_pod(self._times.sync_ns, pod)
        machine = self._machines.get(pod.spec.node_name)
        if at_ns is None or at_ns < came_up_ns or machine is None or machine.kubelet is None:
            return LastSync(pod.meta.uid, came_up_ns)
        return LastSync(pod.meta.uid, at_ns, machine.kubelet.sync_ticks)

    @staticmethod
    def _of_pod(times_ns: Mapping[str, Seen], pod: Pod) -> Seen | None:
        return times_ns.get(pod.meta.name, times_ns.get(pod.meta.labels.get("app", "")))
