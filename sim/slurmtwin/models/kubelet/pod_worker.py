"""One pod on one kubelet: synced until it ends, then stopped, then cleaned up (pkg/kubelet/pod_workers.go, v1.34.2).

A worker does one sync at a time. A sync goes by what the last relist saw; the next one waits for a relist that began
after it (podCache.GetNewerThan()). The three kinds of sync are kubelet.go SyncPod(), SyncTerminatingPod() and
SyncTerminatedPod(). The periodic resync of a pod without news (60 to 90 s) finds nothing new and is left out, but
where the kubelet stood still: there the next sync waits for a relist behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from slurmtwin.contract.quantity import MIB
from slurmtwin.models.api_server.objects import Condition, PodStatus
from slurmtwin.models.kubelet.back_off import wake_range_ns
from slurmtwin.models.kubelet.pod_actions import Actions, pod_actions
from slurmtwin.models.kubelet.pod_status import Seen, finally_ended, pod_quality
from slurmtwin.models.kubelet.quality_of_service import oom_score_adj
from slurmtwin.models.kubelet.termination import Termination

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Call
    from slurmtwin.models.api_server.objects import Container, Pod
    from slurmtwin.models.kubelet.container_runtime import Instance
    from slurmtwin.models.kubelet.kubelet import Kubelet

Stage = Literal["sync", "terminating", "terminated", "finished"]
CRASH_LOOP = "CrashLoopBackOff"


class PodWorker:
    """A pod's life on a node."""

    def __init__(self, kubelet: Kubelet, pod: Pod) -> None:
        self._kubelet = kubelet
        self.pod = pod
        self.uid = pod.meta.uid
        self.quality = pod_quality(pod)
        self.stage: Stage = "sync"
        self.gone = False
        """Its object is no longer there."""
        self._termination: Termination | None = None
        self._working = False
        self._pending = False
        self._once_more = False
        """Something else happens while the next sync is under way."""
        self._last_sync_ns: int | None = None
        self._unmounted_ns = 0
        """From then on none of the ended pod's volumes is mounted."""
        self._timer: Call | None = None
        self._mounted = False
        self._mount_since_ns: int | None = None
        self._mounted_ns: int | None = None
        """Not before then are its volumes mounted; None: nothing holds them."""
        self.waiting: dict[str, str] = {}
        """Container -> why it could not be started (the kubelet's reason cache)."""
        self._error = False
        self._rest_ns = 0
        """Of the longest back-off that this sync met."""
        self._killed = False
        """This sync has ended a container that failed its probe."""
        self._grace_ns: int | None = None
        """Overrides the pod's own grace period."""
        self._verdict: Callable[[PodStatus], PodStatus] | None = None
        """Eviction writes its reason into the status."""

    @property
    def stopping(self) -> bool:
        """Its containers are being stopped."""
        return self.stage == "terminating" and self._working

    @property
    def hooks_over_ns(self) -> int:
        """When its preStop hooks are over, its containers being stopped; 0: they have none."""
        return 0 if self._termination is None else self._termination.hooks_over_ns

    # what is asked of it

    def update(self, pod: Pod) -> None:
        """A new version of the object."""
        deleting = pod.meta.deletion_ns is not None
        sooner = deleting and self.pod.meta.deletion_ns is not None and pod.meta.grace_ns < self.pod.meta.grace_ns
        self.pod = pod
        if deleting and self.stage == "sync":
            self._end()
        elif sooner and self.stage == "terminating":
            self._hurry()
        else:
            self.request()

    def marked(self) -> None:
        """Other labels or annotations: a sync now, or with the next relist, that finds nothing to do.

        What comes behind it waits for one more relist, so an operator's deletion right behind its label does (config.go
        podsDifferSemantically(); docs/surprises.md).
        """
        if self.stage != "sync" or self._working:
            return
        self._last_sync_ns = self._may_sync_ns()

    def removed(self) -> None:
        """The object is gone: what still runs is stopped (a forced deletion)."""
        self.gone = True
        if self.stage == "sync":
            self._end()
        elif self.stage == "finished":
            self._kubelet.forget(self.uid)

    def evict(self, grace_ns: int, verdict: Callable[[PodStatus], PodStatus]) -> None:
        """The kubelet itself ends the pod."""
        if self.stage == "sync":
            self._grace_ns = grace_ns
            self._verdict = verdict
            self._end()

    def _end(self) -> None:
        self.stage = "terminating"
        self.request()

    def request(self) -> None:
        """Something happened: sync as soon as it may be."""
        if self.stage == "finished":
            return
        if self._working:
            self._pending = True
            return
        self._arm(self._may_sync_ns())

    def _may_sync_ns(self) -> int:
        """Now, where the last relist is newer than the last sync; else at the next one."""
        now_ns, ticks, last_ns = self._kubelet.clock.now_ns, self._kubelet.relist.ticks, self._last_sync_ns
        return now_ns if last_ns is None or ticks.last_before(now_ns) > last_ns else ticks.next_after(now_ns)

    def again(self) -> None:
        """A second event of the look that has just been told: it is read when the sync for the first is under way.

        Where an earlier sync is, one more follows for both.
        """
        self._once_more = not self._working

    def overdue(self, stood_ns: int, resync_ns: int, age_ns: int) -> None:
        """The kubelet goes on after so long: a pod without news whose resync fell due meanwhile is synced at once.

        resync_ns: its pause. age_ns: of the last one when the kubelet was stopped, at most: resyncs without news are
        not simulated, but a sync that brought some is later than that.
        """
        now_ns, last_ns = self._kubelet.clock.now_ns, self._last_sync_ns
        idle = self.stage == "sync" and not self._working and self._kubelet.relist.sees(self.uid)
        if idle and last_ns is not None and min(now_ns - last_ns, stood_ns + age_ns) >= resync_ns:
            self._last_sync_ns = now_ns

    def _arm(self, at_ns: int) -> None:
        timer = self._timer
        if timer is not None and timer.pending:
            if timer.at_ns <= at_ns:
                return
            timer.cancel()
        self._timer = self._kubelet.clock.call_at(at_ns, self._sync, None, 1)

    def _sync(self, _argument: object) -> None:
        self._timer = None
        self._working = True
        self._pending, self._once_more = self._once_more, False
        self._error = False
        self._rest_ns = 0
        self._killed = False
        if self.stage == "sync":
            self._sync_pod()
        elif self.stage == "terminating":
            self._sync_terminating()
        else:
            self._sync_terminated()

    def _done(self) -> None:
        """completeWork(): when the next sync comes."""
        kubelet = self._kubelet
        self._working = False
        self._last_sync_ns = kubelet.clock.now_ns
        if self.stage == "finished":
            return
        if self._error:
            low_ns, high_ns = wake_range_ns(
                self._rest_ns, kubelet.defaults.exact_wake and self._rest_ns > 0, kubelet.defaults.error_retry_ns
            )
            self._arm(kubelet.sync_ticks.next_after(kubelet.clock.now_ns + kubelet.draw(low_ns, high_ns)))
        if self._pending or self.stage != "sync":
            self.request()

    # SyncPod

    def _status(self, seen: Seen, terminal: bool = False) -> PodStatus:
        status = self._kubelet.status_of(self.pod, seen, self.waiting, terminal)
        return status if self._verdict is None else self._verdict(status)

    def _sync_pod(self) -> None:
        kubelet = self._kubelet
        seen = kubelet.relist.seen(self.uid)
        status = self._status(seen)
        kubelet.tell(self.pod, status, way_ns=self._end_told(status))
        if status.phase in ("Succeeded", "Failed"):
            self.stage = "terminating"
            self._done()
        elif self._mounted:
            self._work(seen)
        else:
            self._mount()

    def _end_told(self, status: PodStatus) -> int | None:
        """A container has ended since the last status: until the API server has this one, where that was measured."""
        told = self._kubelet.runtime.costs.end_told
        if told is None:
            return None
        before = self._kubelet.last_status(self.uid)
        known = {one.ended for one in before.containers} if before is not None else set()
        return told() if any(one.ended is not None and one.ended not in known for one in status.containers) else None

    def _mount(self) -> None:
        """Wait for volumes: looked at each 300 ms; after 123 s the sync fails and begins again."""
        kubelet = self._kubelet
        now_ns = kubelet.clock.now_ns
        if self._mount_since_ns is None:
            self._mount_since_ns = now_ns
        if self.stage != "sync":
            self._mount_since_ns = None
            self._done()
        elif kubelet.volumes_ready(self.pod):
            self._list()
            kubelet.clock.call_in(kubelet.runtime.costs.mount(self.uid), self._mounts_made)
        elif now_ns - self._mount_since_ns >= kubelet.defaults.mount_timeout_ns:
            self._mount_since_ns = None
            self._error = True
            kubelet.record(self.pod, "FailedMount", "Unable to attach or mount volumes")
            self._done()
        else:
            kubelet.clock.call_in(kubelet.defaults.volume_poll_ns, self._mount_again)

    def _mount_again(self, _argument: object) -> None:
        self._mount()

    def _list(self) -> None:
        """An object that nobody else here names is listed anew (watch_based_manager.go): that may be refused."""
        kubelet = self._kubelet
        late = kubelet.runtime.costs.late_mount() if kubelet.names_anew(self.pod) else None
        if late is not None:
            self._mounted_ns = kubelet.clock.now_ns + late.mounted_ns
            for failed_ns in late.failed_ns:
                kubelet.clock.call_in(failed_ns, self._mount_failed)

    def _mount_failed(self, _argument: object) -> None:
        self._kubelet.record(self.pod, "FailedMount", "failed to sync cache: timed out waiting for the condition")

    def _mounts_made(self, _argument: object) -> None:
        kubelet = self._kubelet
        late = self._mounted_ns is not None and kubelet.clock.now_ns < self._mounted_ns
        more_ns = kubelet.defaults.volume_poll_ns if late else kubelet.runtime.costs.mount_more(self.uid)
        if more_ns:
            kubelet.clock.call_in(more_ns, self._mounts_made)
            return
        self._mounted = True
        if self.stage != "sync":
            self._done()
            return
        self._work(self._kubelet.relist.seen(self.uid))

    def _work(self, seen: Seen) -> None:
        """kuberuntime_manager.go SyncPod()."""
        kubelet = self._kubelet
        kubelet.probes.add(self.pod)
        if not kubelet.runtime.serving:
            self._error = True
            self._done()
            return
        self.waiting = {}
        actions = pod_actions(self.pod, seen, lambda name, kind: kubelet.probe_of(self.uid, name, kind))
        if actions.kill_pod:
            running = list(kubelet.runtime.pod(self.pod).running())
            self._stop(running, None, lambda: self._after_kill(actions, seen))
        else:
            self._kill_next(list(actions.kill), actions, seen)

    def _after_kill(self, actions: Actions, seen: Seen) -> None:
        kubelet = self._kubelet
        if not actions.sandbox:
            kubelet.runtime.pod(self.pod).ready = False
            kubelet.runtime.told(self.uid)
            self._done()
        else:
            kubelet.runtime.make_sandbox(self.pod, lambda: self._start_next(list(actions.start), seen))

    def _kill_next(self, kill: list[tuple[str, str]], actions: Actions, seen: Seen) -> None:
        """Unhealthy containers, one after the other."""
        if not kill:
            self._start_next(list(actions.start), seen)
            return
        self._killed = True
        name, why = kill.pop(0)
        instance = self._kubelet.runtime.pod(self.pod).newest(name)
        restarts = any(container.name == name for container in actions.start)
        message = f"Container {name} failed {why} probe" + (", will be restarted" if restarts else "")
        self._stop([instance] if instance is not None else [], message, lambda: self._kill_next(kill, actions, seen))

    def _stop(self, instances: list[Instance], message: str | None, done: Callable[[], None]) -> None:
        kubelet = self._kubelet
        if not instances:
            done()
            return
        for instance in instances:
            if instance.running:
                kubelet.record(self.pod, "Killing", message or f"Stopping container {instance.name}")
        self._termination = Termination(
            kubelet.clock, kubelet.runtime, self.pod, self._grace(), kubelet.defaults.least_grace_ns, done
        )
        self._termination.begin(instances)

    def _grace(self) -> int:
        """setTerminationGracePeriod(). An object that is gone was deleted without grace."""
        if self._grace_ns is not None:
            return self._grace_ns
        if self.gone and self.pod.meta.deletion_ns is None:
            return 0
        return self.pod.meta.grace_ns if self.pod.meta.deletion_ns is not None else self.pod.spec.grace_ns

    def _start_next(self, start: list[Container], seen: Seen) -> None:
        """Containers, one after the other; an init container that cannot start holds up those behind it."""
        if not start or self.stage != "sync":
            self._done()
            return
        container = start.pop(0)
        init = container in self.pod.spec.init_containers
        rest_ns = self._backed_off(container, seen)
        if rest_ns:
            self._rest_ns = max(self._rest_ns, rest_ns)
            self._refused(container, CRASH_LOOP, [] if init else start, seen)
            return

        def image(reason: str) -> None:
            if reason:
                self._refused(container, reason, [] if init else start, seen)
            else:
                self._start(container, start, seen)

        self._kubelet.images.ensure(self.uid, container, image)

    def _backed_off(self, container: Container, seen: Seen) -> int:
        """doBackOff(): counts from the last end that this sync knows of."""
        last = seen.last_exit(container.name)
        if last is None or last.finished_ns is None:
            return 0
        kubelet = self._kubelet
        key, now_ns = f"{self.uid}_{container.name}", kubelet.clock.now_ns
        kubelet.crash_loops.collect(now_ns)  # housekeeping does it each 2 s
        rest_ns = kubelet.crash_loops.rest_ns(key, last.finished_ns, now_ns)
        if rest_ns:
            kubelet.record(self.pod, "BackOff", f"Back-off restarting failed container {container.name}")
        else:
            kubelet.crash_loops.advance(key, last.finished_ns, now_ns)
        return rest_ns

    def _refused(self, container: Container, reason: str, start: list[Container], seen: Seen) -> None:
        self.waiting[container.name] = reason
        self._error = True
        self._start_next(start, seen)

    def _start(self, container: Container, start: list[Container], seen: Seen) -> None:
        kubelet, pod = self._kubelet, self.pod
        others = [c.memory or c.memory_limit for c in pod.spec.containers]
        adj = oom_score_adj(
            self.quality, container.memory or container.memory_limit, max(kubelet.memory, MIB), pod.spec.priority,
            min(others, default=0) if container.restartable else None,
        )  # fmt: skip
        kubelet.container_begins(pod, container)

        def started() -> None:
            kubelet.container_started(pod, container)
            self._start_next(start, seen)

        kubelet.runtime.start_container(pod, container, adj, started, self._killed)

    # the end

    def _hurry(self) -> None:
        """The grace was shortened while the containers are being stopped."""
        for instance in list(self._kubelet.runtime.pod(self.pod).running()):
            self._kubelet.runtime.stop_container(self.uid, instance, self._grace(), lambda: None)

    def _sync_terminating(self) -> None:
        kubelet = self._kubelet
        seen = kubelet.relist.seen(self.uid)
        if not self.gone:
            kubelet.tell(self.pod, self._status(seen))
        kubelet.probes.stop_liveness_and_startup(self.uid)
        if not kubelet.runtime.serving:
            self._error = True
            self._done()
            return
        found = kubelet.runtime.pods.get(self.uid)
        running = list(found.running()) if found is not None else []
        self._stop(running, None, self._stopped)

    def _stopped(self) -> None:
        kubelet = self._kubelet
        kubelet.probes.remove(self.uid)
        found = kubelet.runtime.pods.get(self.uid)
        if found is not None:
            found.ready = False
        seen = kubelet.relist.look_now(self.uid)
        if not self.gone:
            kubelet.tell(self.pod, self._status(seen, terminal=True))
        kubelet.resources_free(self.uid)
        self.stage = "terminated"
        self._unmounted_ns = kubelet.clock.now_ns + kubelet.runtime.costs.unmount()
        self._done()

    def _sync_terminated(self) -> None:
        """kubelet.go SyncTerminatedPod(): waits for the volumes, which it looks at now and each 300 ms."""
        kubelet = self._kubelet
        if kubelet.clock.now_ns < self._unmounted_ns:
            kubelet.clock.call_in(kubelet.defaults.volume_poll_ns, self._unmount_again)
        else:
            kubelet.clock.call_in(kubelet.runtime.costs.clean_up(), self._cleaned)

    def _unmount_again(self, _argument: object) -> None:
        self._sync_terminated()

    def _cleaned(self, _argument: object) -> None:
        kubelet = self._kubelet
        self.stage = "finished"
        status = kubelet.last_status(self.uid)
        kubelet.runtime.remove_pod(self.uid)
        if self.gone:
            kubelet.forget(self.uid)
        else:
            removed = kubelet.runtime.costs.removed
            way_ns = removed() if removed is not None else None
            kubelet.tell(self.pod, finally_ended(status or self.pod.status), finished=True, way_ns=way_ns)
        self._done()


def evicted(message: str, now_ns: int) -> Callable[[PodStatus], PodStatus]:
    """The verdict on a pod that the node evicts."""

    def write(status: PodStatus) -> PodStatus:
        conditions = dict(status.conditions)
        conditions.setdefault("DisruptionTarget", Condition("True", now_ns, "TerminationByKubelet"))
        return replace(status, phase="Failed", reason="Evicted", message=message, conditions=conditions)

    return write
