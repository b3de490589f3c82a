"""Job: pods until enough have succeeded, with a back-off after failures (kubernetes.md 6.20).

Source: pkg/controller/job/{job_controller,backoff_utils}.go v1.34.2. Jobs have no indexes, pods no restart in place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slurmtwin.models.api_server.objects import Job, JobStatus, Meta, Owner, Pod
from slurmtwin.models.controllers.controller import Controller, Request, in_batches
from slurmtwin.models.controllers.expectations import Expectations
from slurmtwin.models.controllers.owners import owner_key
from slurmtwin.models.controllers.replica_set import MOST_AT_ONCE, suffix

if TYPE_CHECKING:
    from slurmtwin.models.api_server.work_queue import Finished
    from slurmtwin.models.controllers.controller_manager import ControllerManager


class Jobs(Controller):
    """The controller."""

    def __init__(self, plane: ControllerManager) -> None:
        super().__init__(plane, workers=5)
        self._jobs = plane.informer(Job)
        self._made: dict[str, int] = {}
        self._expected = Expectations()
        self._ended: dict[str, dict[str, bool]] = {}
        """Job uid -> pod uid -> succeeded: ends are counted once, also of pods whose objects are gone."""
        self._failures: dict[str, tuple[int, int]] = {}
        """Job uid -> (failures since the last success, time of the last)."""
        self._jobs.tell(self._job_changed)
        plane.pods.informer.tell(self._pod_changed)

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        if new is not None:
            self.queue.add(new.meta.key)
        elif old is not None:
            for table in (self._made, self._ended, self._failures):
                table.pop(old.meta.uid, None)
            self._expected.forget(old.meta.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        owner, key = pod.meta.owner, owner_key(pod, "Job")
        if owner is None or not key:
            return
        if old is None:
            self._expected.seen(key, pod.meta.name)
            self.queue.add(key)
            return
        if new is None and not pod.finished:
            self._end(owner.uid, pod.meta.uid, good=False)
        self.queue.add_after(key, self.plane.defaults.job_batch_ns)

    def _end(self, job: str, pod: str, good: bool) -> None:
        """A pod has ended, or its object went away before it did, which counts as a failure."""
        ended = self._ended.setdefault(job, {})
        if pod in ended:
            return
        ended[pod] = good
        count, _ = self._failures.get(job, (0, 0))
        self._failures[job] = (0, 0) if good else (count + 1, self.plane.now_ns)

    def sync(self, key: str, finished: Finished) -> None:
        """syncJob(): count ends, then make or delete pods, then the status."""
        job = self._jobs.get(key)
        if job is None or job.status.condition or job.meta.deleting:
            finished(True)
            return
        pods = self.plane.pods.of_owner(job.meta.uid)
        for pod in pods:
            if pod.finished:
                self._end(job.meta.uid, pod.meta.uid, pod.status.phase == "Succeeded")
        ended = list(self._ended.get(job.meta.uid, {}).values())
        good, bad = sum(ended), len(ended) - sum(ended)
        active = [p for p in pods if p.active]
        condition = "Complete" if good >= job.completions else "Failed" if bad > job.backoff_limit else ""
        requests: list[Request] = []
        if condition or job.suspend:
            requests = [self._deletion(p) for p in active]
        elif not self._expected.pending(key):
            requests = self._creations(job, pods, active, good)
        status = JobStatus(active=len(active), succeeded=good, failed=bad, condition=condition)

        def done(fine: bool) -> None:
            if status == job.status:
                finished(fine)
                return
            self.client.patch(Job, key, lambda j: replace(j, status=status), lambda _: finished(fine))

        in_batches(requests, done)

    def _creations(self, job: Job, pods: list[Pod], active: list[Pod], good: int) -> list[Request]:
        """manageJob(): as many as run beside each other, no sooner than the back-off allows."""
        going = [p for p in pods if p.meta.deleting and not p.finished] if job.replace_failed_only else []
        missing = min(job.parallelism, job.completions - good) - len(active) - len(going)
        if missing <= 0:
            return []
        wait_ns = self.back_off_ns(job.meta.uid)
        if wait_ns > 0:
            self.queue.add_after(job.meta.key, wait_ns)
            return []
        return [self._creation(job) for _ in range(min(missing, MOST_AT_ONCE))]

    def back_off_ns(self, uid: str) -> int:
        """What is left of 10 s * 2**(failures - 1), at most 600 s, after the last failure (backoff_utils.go)."""
        count, last_ns = self._failures.get(uid, (0, 0))
        if not count:
            return 0
        defaults = self.plane.defaults
        whole_ns = min(defaults.job_back_off_ns << min(count - 1, 30), defaults.job_back_off_most_ns)
        return last_ns + whole_ns - self.plane.now_ns

    def _creation(self, job: Job) -> Request:
        number = self._made[job.meta.uid] = self._made.get(job.meta.uid, 0) + 1
        name = f"{job.meta.name}-{suffix(job.meta.uid, number)}"
        owner = Owner("Job", job.meta.name, job.meta.uid)
        labels = {**job.template.labels, "batch.kubernetes.io/job-name": job.meta.name}
        spec = replace(job.template.spec, restart_policy="Never")
        pod = Pod(meta=Meta(name=name, namespace=job.meta.namespace, labels=labels, owner=owner), spec=spec)
        return self._expected.until_seen(job.meta.key, name, lambda done: self.client.create(pod, done))

    def _deletion(self, pod: Pod) -> Request:
        return lambda done: self.client.delete(Pod, pod.meta.key, uid=pod.meta.uid, done=done)
