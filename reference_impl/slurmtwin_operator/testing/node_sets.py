"""NodeSets as their carrier meets them: caches of the API server's double, answers of Slurm's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slurmtwin_operator.core.actions import Action, CreatePod, DeleteObject, Guard
from slurmtwin_operator.core.observed import Identity, NodeSetObserved, Policy, Slurm
from slurmtwin_operator.core.switches import SAFEST, Switches
from slurmtwin_operator.testing.apply import UnreachableError, perform
from slurmtwin_operator.testing.kube import FakeKube, Resource
from slurmtwin_operator.testing.slurm import summary


@dataclass(slots=True)
class NodeSets:
    """The node sets of one cluster."""

    kube: FakeKube
    switches: Switches = SAFEST
    policy: Policy = field(default_factory=Policy)
    _last_slurm: Slurm = field(default_factory=Slurm)

    def resources(self) -> Mapping[str, Resource]:
        """Those that exist."""
        return self.kube.node_sets

    def perform(self, resource: Resource, action: Action) -> None:
        """What the action does to the doubles."""
        perform(self.kube, resource, action)

    def skips(self, resource: Resource, action: Action) -> bool:
        """The API server has as many pods of the set as there shall be, or none to delete (gone is as good)."""
        if isinstance(action, DeleteObject) and action.kind == "Pod":
            pod = self.kube.pods.get(action.name)
            return pod is None or pod.uid != action.uid
        if not isinstance(action, CreatePod) or action.at_most < 0:
            return False
        return sum(pod.node_set == resource.name for pod in self.kube.pods.values()) >= action.at_most

    def holds(self, _resource: Resource, guard: Guard) -> bool:
        """Read the node again; nothing is done when it cannot be read."""
        if not self.kube.slurm.answers:
            raise UnreachableError
        if guard.no_pod and guard.node in self.kube.pods:
            return False
        record = self.kube.slurm.nodes.get(guard.node)
        if record is None:
            return guard.idle
        if guard.reason is not None and record.reason != guard.reason:
            return False
        return not guard.idle or (record.drained and not record.job)

    def observe(self, me: Resource) -> NodeSetObserved:
        """What the caches and slurmrestd say now."""
        kube = self.kube
        identity = Identity("ns", me.name, me.uid, me.generation, me.deleting, me.finalizer)
        view = kube.slurm.view()
        if kube.slurm.rest == "tarpit":
            view = replace(view, answer="away")
        if view.answer == "fresh":
            self._last_slurm = view
        elif view.answer == "away":
            view = replace(self._last_slurm, answer="away")
        else:
            view = Slurm("absent", kube.now)
        return NodeSetObserved(
            identity, me.spec, self.switches, self.policy, kube.view_pods(me.name), kube.view_machines(), view,
            kube.view_objects(me.name), me.conditions, me.power,
        )  # fmt: skip

    def end_state(self) -> dict[str, Any]:
        """What must be the same however the way to it was disturbed."""
        return end_state(self.kube)


def end_state(kube: FakeKube) -> dict[str, Any]:
    """What must be the same however the way to it was disturbed; names are left out where any will do."""
    return {
        "pods": sorted((p.node_set, p.revision, p.phase, p.ready, p.deleting, "slurmtwin.dev/protect" in p.labels)
                       for p in kube.pods.values()),
        "slurm": summary(kube.slurm),
        "machines": sorted((m.unschedulable, m.mirrored, m.locked, m.ready) for m in kube.machines.values()),
        "objects": sorted((key, digest) for key, (digest, _) in kube.objects.items()),
        "sets": sorted((r.name, r.generation, r.deleting, r.finalizer) for r in kube.node_sets.values()),
        "jobs": sorted((j.id, j.state) for j in kube.slurm.jobs.values()),
        "reservations": sorted(kube.slurm.reservations),
    }  # fmt: skip
