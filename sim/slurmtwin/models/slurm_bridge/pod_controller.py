"""slurm-bridge's controllers of pods and jobs (internal/controller/pod, internal/runnable/slurmjob).

| who | looks | does |
|---|---|---|
| pod controller | at each change of a pod, and 30 s after its last look | deletes a bound pod whose job does not run; cancels the job of a pod that has ended, when no other pod of it lives; takes the finalizer off |
| job runnable | each 30 s | has the pods of every external job looked at; cancels a job whose pods' objects are gone |

Looks that find nothing cost nothing here: a pod that runs is looked at when its job has ended or slurmctld has come
back, at the time at which one of the two would have looked next.
"""  # noqa: E501  a table

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from slurmtwin.models.api_server.client import Client
from slurmtwin.models.api_server.informer import Informer
from slurmtwin.models.api_server.objects import Pod
from slurmtwin.models.api_server.watch import DELETED
from slurmtwin.models.api_server.work_queue import WorkQueue
from slurmtwin.models.slurm_bridge import objects as marks
from slurmtwin.models.slurmctld.states import JobState

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import DaemonClock
    from slurmtwin.models.api_server.work_queue import Finished
    from slurmtwin.models.slurm_bridge.bridge import Bridge
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld


class PodController:
    """One life of both."""

    def __init__(self, bridge: Bridge, clock: DaemonClock) -> None:
        self.bridge = bridge
        self.clock = clock
        self.rest = bridge.rest
        self.client = Client(bridge.server, clock, bridge.latency, bridge.requests)
        caches = Client(bridge.server, clock, bridge.latency)
        self.pods: Informer[Pod] = Informer(caches, Pod, self._pod_changed, wanted=self._matters)
        self.clients = (self.client, caches)
        self.informers = (self.pods,)
        self.queue = WorkQueue(clock, self._sync)
        self.period_ns = bridge.period_ns
        self._began_ns = clock.now_ns - bridge.phase()
        self._looked_ns: dict[str, int] = {}
        """Live pod -> the last look at it."""
        self._of_job: dict[int, dict[str, None]] = {}
        """Slurm's number -> the pods with that label."""

    def start(self) -> None:
        """Caches first."""
        self.pods.start()
        self._sweep_at_tick()

    def _matters(self, verb: str, _old: Pod | None, pod: Pod) -> bool:
        """A pod that waits is not looked at (syncKubernetes() skips it), and nobody else's is."""
        return pod.spec.scheduler == self.bridge.name and bool(pod.spec.node_name or pod.finished or verb == DELETED)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        if pod.spec.scheduler != self.bridge.name:
            return
        key = pod.meta.key
        before, slurm_id = marks.job_of(old) if old is not None else 0, marks.job_of(new) if new is not None else 0
        if slurm_id != before:
            if before:
                self._leave(before, key)
            if slurm_id:
                self._of_job.setdefault(slurm_id, {})[key] = None
        if new is not None and not new.finished and self.rest.runs(slurm_id):
            self._looked_ns[key] = self.clock.now_ns  # a look that finds nothing
            return
        if new is None:
            self._looked_ns.pop(key, None)
            for named in self.rest.jobs_naming(key):
                if self.rest.is_open(named):
                    self._call_at_tick(named)
            self.rest.forget(key)
        self.queue.add(key)

    def _leave(self, slurm_id: int, key: str) -> None:
        members = self._of_job.get(slurm_id)
        if members is not None:
            members.pop(key, None)
            if not members:
                del self._of_job[slurm_id]

    # the times of looks that may find something

    def job_over(self, slurm_id: int) -> None:
        """The job runs no more: its pods are looked at when their next look is due."""
        for key in self._of_job.get(slurm_id, ()):
            self._arm(key)

    def slurmctld_back(self) -> None:
        """A slurmctld serves again, which may not know the jobs: all live pods."""
        for key in self._looked_ns:
            self._arm(key)
        self._sweep_at_tick()

    def _arm(self, key: str) -> None:
        last_ns = self._looked_ns.get(key)
        if last_ns is None:
            return
        now_ns = self.clock.now_ns
        own_ns = last_ns + -(-(now_ns - last_ns) // self.period_ns) * self.period_ns
        self.queue.add_after(key, min(own_ns, self._tick_ns()) - now_ns)

    def _tick_ns(self) -> int:
        """The next tick of the runnable."""
        now_ns = self.clock.now_ns
        return self._began_ns + ((now_ns - self._began_ns) // self.period_ns + 1) * self.period_ns

    def _sweep_at_tick(self) -> None:
        self.clock.call_at(self._tick_ns(), self._sweep)

    def _sweep(self, _argument: object) -> None:
        """Every external job: pods may have gone while nobody looked."""

        def done(jobs: list[int] | None) -> None:
            if jobs is None:
                self._sweep_at_tick()
            for slurm_id in jobs or ():
                self._clean(slurm_id)

        self.rest.call(self.clock, 1, self.rest.external, done, lists=True)

    def _call_at_tick(self, slurm_id: int) -> None:
        self.clock.call_at(self._tick_ns(), self._clean, slurm_id)

    def _clean(self, slurm_id: int) -> None:
        """cleanDanglingJob(): no object of its pods is there any more."""

        def act(ctld: Slurmctld) -> bool:
            keys = self.rest.pods_of(ctld, slurm_id)
            if not keys or any(self.bridge.server.find(Pod, key) is not None for key in keys):
                return False
            gone = self.rest.cancel(ctld, slurm_id)
            if gone:
                self.bridge.tell("CancelJob", keys[0], self.rest.number(slurm_id))
            return gone

        def done(answer: bool | None) -> None:
            if answer is None:
                self._call_at_tick(slurm_id)

        self.rest.call(self.clock, 1, act, done, lists=True)

    # a look at one pod

    def _sync(self, key: str, finished: Finished) -> None:
        pod = self.pods.get(key)
        if pod is None:
            finished(True)
        elif pod.finished:
            self._looked_ns.pop(key, None)
            self._end_job(pod, finished)
        else:
            self._looked_ns[key] = self.clock.now_ns
            if pod.spec.node_name:
                self._check(pod, finished)
            else:
                finished(True)

    def _check(self, pod: Pod, finished: Finished) -> None:
        """syncKubernetes(): a bound pod lives as long as its job runs."""
        slurm_id = marks.job_of(pod)

        def runs(ctld: Slurmctld) -> bool:
            job = self.rest.read(ctld, slurm_id)
            return job is not None and job.state is JobState.RUNNING

        def done(answer: bool | None) -> None:
            if answer is False and not pod.meta.deleting:
                self.bridge.tell("DeletePod", pod.meta.key, self.rest.number(slurm_id), pod.spec.node_name)
                self.client.delete(Pod, pod.meta.key, uid=pod.meta.uid)
            if answer is None:
                self.queue.add_after(pod.meta.key, self.period_ns)
            finished(answer is not None)

        self.rest.call(self.clock, 1, runs, done)

    def _end_job(self, pod: Pod, finished: Finished) -> None:
        """syncSlurm(): the last pod of a job has ended, so the job is cancelled; one that still stops keeps it."""
        slurm_id = marks.job_of(pod)
        others = self._of_job.get(slurm_id, {})
        live = any(p is not None and not p.finished for p in (self.pods.get(key) for key in others))
        if not slurm_id or live or not self.rest.is_open(slurm_id):
            self._release(pod, finished, True)
            return

        def act(ctld: Slurmctld) -> bool:
            gone = self.rest.cancel(ctld, slurm_id)
            if gone:
                self.bridge.tell("CancelJob", pod.meta.key, self.rest.number(slurm_id))
            return gone

        self.rest.call(self.clock, 2, act, lambda answer: self._release(pod, finished, answer is not None))

    def _release(self, pod: Pod, finished: Finished, good: bool) -> None:
        """prepareTerminalPod(), which waits for neither of the others."""
        if marks.FINALIZER not in pod.meta.finalizers:
            finished(good)
        elif self.clock.alive:
            self.client.patch(Pod, pod.meta.key, marks.released, partial(_then, finished, good), uid=pod.meta.uid)


def _then(finished: Finished, good: bool, _answer: object) -> None:
    finished(good)
