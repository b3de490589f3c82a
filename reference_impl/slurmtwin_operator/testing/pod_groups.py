"""PodGroups against doubles: pods that a controller owns and makes again, and placeholder jobs in Slurm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from slurmtwin.contract.events import Kind
from slurmtwin_operator.core import actions as a
from slurmtwin_operator.core.observed import GroupPod, Identity, PodGroupObserved, Slurm
from slurmtwin_operator.core.spec import PodGroupSpec
from slurmtwin_operator.core.switches import Switches
from slurmtwin_operator.testing.apply import UnreachableError
from slurmtwin_operator.testing.kube import FakeKube, Resource
from slurmtwin_operator.testing.slurm import SECOND, Job, RefusedError

START_NS: Final = 2 * SECOND
STOP_NS: Final = 3 * SECOND
AGAIN_NS: Final = SECOND
LIVE_STATES: Final = ("PENDING", "RUNNING")


@dataclass(slots=True)
class Member:
    """A pod of a group; it runs for so long, and its owner makes it again unless it succeeded."""

    name: str
    uid: str
    group: str
    run_ns: int
    node: str = ""
    phase: Any = "Pending"
    deleting: bool = False


@dataclass(slots=True)
class PodGroups:
    """The groups of one namespace, on the nodes that Slurm has."""

    kube: FakeKube
    switches: Switches
    groups: dict[str, Resource] = field(default_factory=dict)
    pods: dict[str, Member] = field(default_factory=dict)
    _last_slurm: Slurm = field(default_factory=lambda: Slurm("away", -1))
    _serial: int = 0

    def resources(self) -> Mapping[str, Resource]:
        """Those that exist."""
        return self.groups

    # users and faults
    def add(self, name: str, *runs_s: int, **spec: Any) -> None:
        """A group with a pod for each number of seconds."""
        asked = PodGroupSpec(nodes=len(runs_s), **spec)
        self.groups[name] = Resource(name, asked, f"{name}0123456789")
        self.kube.note(Kind.OBJECT_CHANGED, "user", resource="podgroups", name=name)
        for number, run_s in enumerate(runs_s):
            self._make(f"{name}-{number}", name, run_s * SECOND)
        self.kube.on_change()

    def delete(self, name: str) -> None:
        """kubectl delete podgroup, and what owns its pods."""
        self.groups[name].deleting = True
        self.kube.note(Kind.OBJECT_CHANGED, "user", resource="podgroups", name=name, deleted=True)
        self._collect()
        self.kube.on_change()

    def delete_pod(self, name: str) -> None:
        """kubectl delete pod: its owner makes it again."""
        self.kube.fault("pod.delete", name)
        self._stop(self.pods[name], "user")

    def cancel(self, group: str) -> None:
        """scancel of the group's job by a person."""
        self.kube.fault("job.cancel", group)
        for job in self._jobs(group):
            self.kube.slurm.cancel(job.id, "admin")
        self.kube.on_change()

    def fail_node(self, name: str) -> None:
        """The node goes DOWN, its job is requeued; a minute later it is back."""
        self.kube.fault("node.down", name)
        self.kube.slurm.set_down(name, "fault")
        self.kube.after(60 * SECOND, lambda: self.kube.slurm.resume(name, "admin"))
        self.kube.on_change()

    def _jobs(self, group: str) -> list[Job]:
        return [j for j in self.kube.slurm.jobs.values() if f"-{group}-" in j.name and j.state in LIVE_STATES]

    # what a carrier asks
    def observe(self, me: Resource) -> PodGroupObserved:
        """The group, its pods, and what slurmrestd lists."""
        view = self.kube.slurm.view()
        if view.answer == "fresh":
            self._last_slurm = view
        else:
            view = replace(self._last_slurm, answer="away")
        pods = tuple(
            GroupPod(p.name, p.uid, p.node, p.phase, p.deleting) for p in self.pods.values() if p.group == me.name
        )
        identity = Identity("ns", me.name, me.uid, me.generation, me.deleting, me.finalizer)
        return PodGroupObserved(identity, me.spec, self.switches, pods, view)

    def skips(self, _resource: Resource, action: a.Action) -> bool:
        """The pod to delete is gone, or another one has its name."""
        pod = self.pods.get(action.name) if isinstance(action, a.DeleteObject) else None
        return isinstance(action, a.DeleteObject) and (pod is None or pod.uid != action.uid)

    def holds(self, resource: Resource, guard: a.Guard) -> bool:
        """Read jobs and pods again."""
        if guard.childless and any(p.group == resource.name and p.phase != "Succeeded" for p in self.pods.values()):
            return False
        if not guard.job:
            return True
        if not self.kube.slurm.answers:
            raise UnreachableError
        jobs = [job for job in self.kube.slurm.jobs.values() if job.name == guard.job]
        if guard.held is None:
            return not any(job.state in LIVE_STATES for job in jobs)
        return guard.held == any(job.state == "RUNNING" and guard.node in job.on for job in jobs)

    def perform(self, resource: Resource, action: a.Action) -> None:
        """Apply one action."""
        if isinstance(action, a.SubmitJob | a.CancelJob):
            self._tell_slurm(action)
        elif isinstance(action, a.SetFinalizer):
            resource.finalizer = action.on
            self._collect()
        elif isinstance(action, a.BindPod):
            self._bind(self._pod(action.name, action.uid), action.node)
        elif isinstance(action, a.DeleteObject):
            self._stop(self._pod(action.name, action.uid), "operator")
        else:
            raise RefusedError(f"{action.do} belongs to another kind of object")
        self.kube.on_change()

    def end_state(self) -> dict[str, Any]:
        """What must be the same however the way to it was disturbed."""
        return {
            "pods": sorted((p.name, p.phase, p.deleting) for p in self.pods.values()),
            "groups": sorted((g.name, g.deleting, g.finalizer) for g in self.groups.values()),
            "jobs": sorted(job.name for job in self.kube.slurm.jobs.values() if job.state in LIVE_STATES),
        }

    # what follows
    def _tell_slurm(self, action: a.SubmitJob | a.CancelJob) -> None:
        slurm = self.kube.slurm
        if not slurm.answers:
            raise UnreachableError
        if isinstance(action, a.CancelJob):
            slurm.cancel(action.id, "operator")
            return
        self._serial += 1
        limit_ns = action.time_limit_s * SECOND
        slurm.submit(Job(self._serial, action.nodes, limit_ns, action.partition, action.name), "operator")

    def _pod(self, name: str, uid: str) -> Member:
        pod = self.pods.get(name)
        if pod is None or pod.uid != uid:
            raise RefusedError(f'pods "{name}" not found')
        return pod

    def _make(self, name: str, group: str, run_ns: int) -> None:
        self._serial += 1
        pod = self.pods[name] = Member(name, f"uid-{self._serial}", group, run_ns)
        self.kube.note(Kind.POD_CREATED, "owner", pod_uid=pod.uid, pod=f"ns/{name}", group=group)
        self.kube.on_change()

    def _bind(self, pod: Member, node: str) -> None:
        if pod.node:
            raise RefusedError(f"pod {pod.name} is already assigned to node {pod.node!r}")
        pod.node = node
        self.kube.note(Kind.POD_SCHEDULED, "operator", node=node, pod_uid=pod.uid, pod=f"ns/{pod.name}",
                       group=pod.group)  # fmt: skip
        self.kube.after(START_NS, lambda: self._run(pod))

    def _run(self, pod: Member) -> None:
        if self.pods.get(pod.name) is pod and not pod.deleting:
            pod.phase = "Running"
            self.kube.after(pod.run_ns, lambda: self._succeed(pod))
            self.kube.on_change()

    def _succeed(self, pod: Member) -> None:
        if self.pods.get(pod.name) is pod and not pod.deleting:
            pod.phase = "Succeeded"
            self.kube.note(Kind.POD_ENDED, "kubelet", node=pod.node, pod_uid=pod.uid, pod=f"ns/{pod.name}")
            self.kube.on_change()

    def _stop(self, pod: Member, actor: str) -> None:
        if not pod.deleting:
            pod.deleting = True
            self.kube.note(Kind.POD_DELETING, actor, node=pod.node, pod_uid=pod.uid, pod=f"ns/{pod.name}")
            self.kube.after(STOP_NS, lambda: self._gone(pod))
            self.kube.on_change()

    def _gone(self, pod: Member) -> None:
        del self.pods[pod.name]
        self.kube.note(Kind.POD_DELETED, "kubelet", node=pod.node, pod_uid=pod.uid, pod=f"ns/{pod.name}")
        owner = self.groups.get(pod.group)
        if owner is not None and not owner.deleting:
            self.kube.after(AGAIN_NS, lambda: self._make(pod.name, pod.group, pod.run_ns))
        self.kube.on_change()

    def _collect(self) -> None:
        for name in [g.name for g in self.groups.values() if g.deleting and not g.finalizer]:
            del self.groups[name]
            self.kube.note(Kind.OBJECT_CHANGED, "apiserver", resource="podgroups", name=name, gone=True)
            for pod in [p for p in self.pods.values() if p.group == name]:
                if pod.phase == "Succeeded":
                    del self.pods[pod.name]
