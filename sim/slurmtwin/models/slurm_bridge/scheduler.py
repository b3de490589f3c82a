"""The scheduler of slurm-bridge: kube-scheduler with the plugin SlurmBridge (internal/scheduler/plugins/slurmbridge).

An attempt for a pod either finds the node that Slurm chose and binds the pod, or submits or updates its external job
and ends without a node. So a pod takes two attempts at least, and as many as its back-off allows while it waits for
Slurm. Attempts are one after the other, each with several calls to slurmrestd; bindings are not waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.contract.clock import parse_slurm_time
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.engine.records import changed
from slurmtwin.models.api_server.client import Client, RateLimit
from slurmtwin.models.api_server.errors import ApiError, ConflictError
from slurmtwin.models.api_server.informer import Informer
from slurmtwin.models.api_server.objects import Condition, Node, Pod
from slurmtwin.models.api_server.watch import DELETED
from slurmtwin.models.kube_scheduler.node_info import requests_of
from slurmtwin.models.slurm_bridge import objects as marks
from slurmtwin.models.slurm_bridge.feasible import Nodes, asked_of, passes
from slurmtwin.models.slurm_bridge.queue import BridgeQueue
from slurmtwin.models.slurmctld.states import JobState

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import DaemonClock
    from slurmtwin.models.kube_scheduler.queue import Waiting
    from slurmtwin.models.slurm_bridge.bridge import Bridge
    from slurmtwin.models.slurm_bridge.rest import ExternalJob
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

GONE: Final = (JobState.CANCELLED, JobState.COMPLETED)
"""GetJob() takes such a job for none; one that failed or ran out of time it takes for the pod's."""
MIB: Final = 1 << 20
_FEW: Final = "0/{} nodes are available"


@dataclass(frozen=True, slots=True)
class _Seen:
    """What PreFilter asked of Slurm: the job whose comment names the pod, and the job of its label."""

    named: ExternalJob | None
    own: ExternalJob | None


class BridgeScheduler:
    """One life of the process."""

    def __init__(self, bridge: Bridge, clock: DaemonClock) -> None:
        self.bridge = bridge
        self.clock = clock
        self.rest = bridge.rest
        defaults = bridge.defaults
        self.client = Client(
            bridge.server, clock, bridge.latency,
            RateLimit(defaults.schedule_requests_per_second, defaults.schedule_burst),
        )  # fmt: skip
        self.queue = BridgeQueue(clock, defaults, self._wake)
        self.nodes = Nodes()
        self._busy = False
        self._woken = False
        self._groups: dict[str, dict[str, Pod]] = {}
        caches = Client(bridge.server, clock, bridge.latency)
        self.pods: Informer[Pod] = Informer(caches, Pod, self._pod_changed, wanted=_matters)
        self.kube: Informer[Node] = Informer(caches, Node, self._node_changed)
        self.clients = (self.client, caches)
        self.informers: tuple[Informer[Any], ...] = (self.kube, self.pods)

    def start(self) -> None:
        """Caches first."""
        self.kube.start()
        self.pods.start()

    # what changes

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            self.nodes.drop(old.meta.name)
            return
        if old is None:
            name = new.meta.name
            slurm = self.bridge.slurm_name(name)
            if slurm:
                self.nodes.bridge(name, slurm)
            self.nodes.put(new)
            self.queue.moved()
        elif old.spec != new.spec or old.status.milli_cpu != new.status.milli_cpu:
            self.nodes.put(new)
            self.queue.moved()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        meta, uid, node = pod.meta, pod.meta.uid, pod.spec.node_name
        group = meta.labels.get(marks.GROUP)
        if group:
            members = self._groups.setdefault(f"{meta.namespace}/{group}", {})
            if new is None or new.finished:
                members.pop(meta.key, None)
            else:
                members[meta.key] = new
        if new is None or new.finished:
            self.queue.forget(uid)
            info = self.nodes.infos.get(node) if node else None
            if info is not None and uid in info.pods:
                info.remove(uid)
                self.nodes.changed(node)
                self.queue.moved()
        elif node:
            if old is None or not old.spec.node_name:
                self._bound(new)
        elif new.spec.scheduler == self.bridge.name and not meta.deleting:
            self._unbound(old, new)
        else:
            self.queue.forget(uid)

    def _bound(self, pod: Pod) -> None:
        self.queue.forget(pod.meta.uid)
        node = pod.spec.node_name
        slurm = self.bridge.slurmd_of(pod)
        if slurm:
            self.nodes.bridge(node, slurm)
            self.queue.moved()
        info = self.nodes.infos.get(node)
        if info is not None:
            info.add(pod)
            self.nodes.changed(node)

    def _unbound(self, old: Pod | None, new: Pod) -> None:
        """PreEnqueue() gives it the toleration of bridged nodes before it enters the queue."""
        if marks.TOLERATION in new.spec.tolerations:
            self.queue.add(new)
        elif old is None:
            self.client.patch(Pod, new.meta.key, marks.tolerating, uid=new.meta.uid)

    # the cycle

    def _wake(self) -> None:
        if not self._busy and not self._woken:
            self._woken = True
            self.clock.call_in(0, self._cycle)

    def _cycle(self, _argument: object) -> None:
        self._woken = False
        if self._busy:
            return
        found = self.queue.pop()
        if found is None:
            return
        self._busy = True
        pod = found.pod
        labelled = marks.job_of(pod)
        calls = 2 if labelled and not marks.node_of(pod) else 1
        self.rest.call(self.clock, calls, partial(self._see, found), partial(self._seen, found), lists=True)

    def _over(self) -> None:
        """The next pod's turn."""
        self._busy = False
        if len(self.queue) and not self._woken:
            self._cycle(None)

    def _see(self, found: Waiting, ctld: Slurmctld) -> _Seen:
        rest, pod = self.rest, found.pod
        named = rest.job_of_pod(ctld, pod.meta.key)
        own = marks.job_of(pod)
        if named is not None and own:
            own = named.slurm_id  # validatePodToJob() puts the label right
        job = named if named is not None and own == named.slurm_id else rest.read(ctld, own)
        return _Seen(named, None if job is None or job.state in GONE else job)

    def _seen(self, found: Waiting, seen: _Seen | None) -> None:
        """PreFilter()."""
        pod = found.pod
        if found.state != "busy":
            self._over()
            return
        if seen is None:
            self._error(found)
            return
        node = marks.node_of(pod)
        if seen.named is not None and marks.job_of(pod):
            if seen.named.slurm_id != marks.job_of(pod):
                self.client.patch(Pod, pod.meta.key, partial(marks.labelled, job=seen.named.slurm_id))
            if node and self.bridge.slurm_name(node) not in seen.named.nodes and node not in seen.named.nodes:
                self.client.patch(Pod, pod.meta.key, partial(marks.annotated, node=""))
                node = ""
        pods = self._together(pod)
        if node and marks.job_of(pod):
            self._place(found, node)
        elif not self._enough(pod, pods):
            self._incomplete(found, pods)
        elif seen.own is None or not seen.own.nodes:
            self._post_filter(found, pods)
        else:
            self._annotate(found, pods, seen.own)

    def _together(self, pod: Pod) -> list[Pod]:
        """The pods of its external job: its group, or itself alone."""
        group = pod.meta.labels.get(marks.GROUP)
        if not group:
            return [pod]
        return list(self._groups.get(f"{pod.meta.namespace}/{group}", {pod.meta.key: pod}).values())

    def _enough(self, pod: Pod, pods: list[Pod]) -> bool:
        """PreFilterPodGroupCoscheduling(): minMember pods wait with the same label."""
        wanted = int(pod.meta.annotations.get(marks.MEMBERS, "1"))
        return sum(marks.job_of(p) == marks.job_of(pod) for p in pods) >= wanted

    def _incomplete(self, found: Waiting, pods: list[Pod]) -> None:
        """Too few pods: an error; a job that was submitted for more is no longer valid and goes."""
        slurm_id = marks.job_of(found.pod)
        if not slurm_id:
            self._error(found)
            return
        for pod in pods:
            if marks.job_of(pod) == slurm_id:
                self.client.patch(Pod, pod.meta.key, marks.unmarked)
        cancel: Callable[[Slurmctld], bool] = partial(self.rest.cancel, slurm_id=slurm_id)
        self.rest.call(self.clock, 1, cancel, lambda _: self._error(found))

    def _error(self, found: Waiting) -> None:
        self.queue.errored(found)
        self._refused(found.pod)
        self._over()

    # the job has nodes

    def _annotate(self, found: Waiting, pods: list[Pod], job: ExternalJob) -> None:
        """annotatePodsWithNodes(): each pod with the job's label gets one of its nodes, whichever."""
        nodes = [self.nodes.kube_names.get(name, "") for name in job.nodes]
        if "" in nodes:  # "slurm node matches no Kube nodes"
            self._error(found)
            return
        nodes = self.bridge.shuffled(nodes)
        own = ""
        mine = [pod for pod in pods if marks.job_of(pod) in (job.slurm_id, 0) or pod is found.pod]
        for pod, node in zip(mine, nodes, strict=False):
            last = pod.meta.key == found.pod.meta.key
            own = node if last else own
            done = partial(self._annotated, found, node) if last else None
            self.client.patch(Pod, pod.meta.key, partial(marks.annotated, node=node), done, uid=pod.meta.uid)
        if not own:
            self._error(found)

    def _annotated(self, found: Waiting, node: str, answer: Any) -> None:
        if isinstance(answer, ApiError) or found.state != "busy":
            self._error(found)
        else:
            self._place(found, node)

    def _place(self, found: Waiting, node: str) -> None:
        """Filter, Reserve, PreBind and Bind on the one node."""
        pod, info = found.pod, self.nodes.infos.get(node)
        if info is None or not passes(asked_of(pod), info):
            self.rest.call(self.clock, 2, _nothing, lambda _: self._unschedulable(found))
            return
        info.add(Pod(meta=pod.meta, spec=changed(pod.spec, node_name=node), status=pod.status))
        self.nodes.changed(node)
        self.rest.call(self.clock, 1, _nothing, partial(self._bind, found, node))
        self._over()

    def _bind(self, found: Waiting, node: str, answered: object) -> None:
        """PreBind() has the resource layout; then the DefaultBinder."""
        pod = found.pod
        if answered is None:
            self._not_bound(found, node)
            return

        def done(answer: Any) -> None:
            if isinstance(answer, ApiError):
                self._not_bound(found, node)

        condition = Condition("True", self.clock.now_ns)
        bind = partial(self.bridge.server.patch, Pod, pod.meta.key, partial(_bound, node, condition), pod.meta.uid)
        self.client.call(f"bind Pod {pod.meta.key}", bind, done)
        if self.bridge.record_events:
            self.client.event(f"Pod/{pod.meta.name}", "Scheduled", f"Successfully assigned {pod.meta.key} to {node}")

    def _not_bound(self, found: Waiting, node: str) -> None:
        info = self.nodes.infos.get(node)
        if info is not None:
            info.remove(found.pod.meta.uid)
            self.nodes.changed(node)
        self.queue.errored(found)

    # it has none

    def _post_filter(self, found: Waiting, pods: list[Pod]) -> None:
        """PostFilter(): the external job is submitted with the nodes that will do, or gets those that will do now."""
        names, count = self.nodes.named(found.pod)
        calls = 2 + bool(marks.job_of(found.pod))
        if count < len(pods):
            self.rest.call(self.clock, calls - 1, _nothing, lambda _: self._unschedulable(found))
            return
        submit = partial(self._submit, found, pods, names)
        self.rest.call(self.clock, calls, submit, partial(self._asked, found, pods))

    def _submit(self, found: Waiting, pods: list[Pod], names: str, ctld: Slurmctld) -> int:
        """Slurm's number of a job that is pending; 0: refused; -1: it has just got nodes, or ended; -2: an error."""
        rest, pod = self.rest, found.pod
        job = rest.read(ctld, marks.job_of(pod))
        if job is None or job.state in GONE:
            request = _request(pod, pods, names, rest.next_number, self.clock.now_ns)
            slurm_id = rest.submit(ctld, request, tuple(pod.meta.key for pod in pods))
            self.bridge.tell("SubmitJob", pod.meta.key, request.job_id if slurm_id else None)
            return slurm_id
        done = False if job.nodes else rest.update(ctld, job.slurm_id, names)
        return -2 if done is None else job.slurm_id if done else -1

    def _asked(self, found: Waiting, pods: list[Pod], slurm_id: int | None) -> None:
        if slurm_id is None or slurm_id == -2:
            self._error(found)
            return
        if slurm_id == 0:  # "Requested node configuration is not available": unschedulable until something changes
            self._unschedulable(found)
            return
        if not self.clock.alive:  # it has died with its last action
            return
        left = [pod for pod in pods if marks.job_of(pod) != slurm_id] if slurm_id > 0 else []
        for pod in left:
            done = partial(self._labelled, found) if pod is left[-1] else None
            self.client.patch(Pod, pod.meta.key, partial(marks.labelled, job=slurm_id), done, uid=pod.meta.uid)
        if not left:
            self._labelled(found, None)

    def _labelled(self, found: Waiting, answer: Any) -> None:
        """labelPodsWithJobId() is through; an error of it leaves the job without its pod's label."""
        if isinstance(answer, ApiError):
            self._error(found)
            return
        self.queue.activated(found)
        self._refused(found.pod)
        self._over()

    def _unschedulable(self, found: Waiting) -> None:
        self.queue.failed(found)
        self._refused(found.pod)
        self._over()

    def _refused(self, pod: Pod) -> None:
        """handleSchedulingFailure(): the condition, once, and an Event."""
        if self.bridge.record_events:
            self.client.event(f"Pod/{pod.meta.name}", "FailedScheduling", _FEW.format(len(self.nodes.infos)))
        if "PodScheduled" not in pod.status.conditions:
            condition = Condition("False", self.clock.now_ns, "Unschedulable")
            self.client.patch(Pod, pod.meta.key, partial(_not_scheduled, condition), uid=pod.meta.uid)


def _matters(verb: str, _old: Pod | None, pod: Pod) -> bool:
    """What a kubelet says of a pod that runs changes no attempt, nor does what comes after its end."""
    if pod.status.phase == "Running":
        return verb == DELETED
    return verb == DELETED or not pod.finished or bool(pod.meta.finalizers) or pod.spec.scheduler != marks.SCHEDULER


def _nothing(_ctld: Slurmctld) -> bool:
    """A read whose answer decides nothing here."""
    return True


def _request(pod: Pod, pods: list[Pod], names: str, number: int, now_ns: int) -> JobRequest:
    """The external job of these pods (internal/utils/slurmjobir, slurmcontrol.go submitJob())."""
    asked = [requests_of(p) for p in pods]
    cpu, memory = max(a[0] for a in asked), max(a[1] for a in asked)
    notes = pod.meta.annotations
    limit = notes.get(marks.TIME_LIMIT)
    return JobRequest(
        job_id=number, submit_ns=now_ns, run_ns=None, external=True, nodes_min=len(pods), nodes_max=len(pods),
        ntasks_per_node=1, cpus_per_task=-(-cpu // 1000) or None, mem_per_node_mib=memory // MIB or None,
        limit_ns=parse_slurm_time(limit) if limit else None, partition=notes.get(marks.PARTITION, ""),
        exclusive="" if notes.get(marks.EXCLUSIVE) == "false" else "node", nodelist=names,
    )  # fmt: skip


def _not_scheduled(condition: Condition, pod: Pod) -> Pod:
    conditions = pod.status.conditions
    if "PodScheduled" in conditions:
        return pod
    status = changed(pod.status, conditions={**conditions, "PodScheduled": condition})
    return Pod(meta=pod.meta, spec=pod.spec, status=status)


def _bound(node: str, condition: Condition, pod: Pod) -> Pod:
    """pods/binding: refused for a pod that has a node or is being deleted (registry/core/pod/storage)."""
    if pod.spec.node_name or pod.meta.deletion_ns is not None:
        raise ConflictError(f"Pod {pod.meta.key} is bound or going")
    status = changed(pod.status, conditions={**pod.status.conditions, "PodScheduled": condition})
    return Pod(meta=pod.meta, spec=changed(pod.spec, node_name=node), status=status)
