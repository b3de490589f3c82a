"""A Cluster against doubles: what its pass makes of slurm.conf, and what slurmctld makes of that.

slurmctld stops at a start when a job record names a partition that slurm.conf lacks (SO#138), and restarts when the
template of its pod changes; in place it reads files that the kubelet has brought, when told to. Of a pair one serves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from slurmtwin.contract.events import Kind
from slurmtwin_operator.core import actions as a
from slurmtwin_operator.core.manifests import short_hash
from slurmtwin_operator.core.observed import (
    Applied,
    ClusterObserved,
    Controller,
    Identity,
    NodeSetFact,
    Policy,
    Slurm,
    SlurmJob,
)  # fmt: skip
from slurmtwin_operator.core.spec import ClusterSpec
from slurmtwin_operator.core.switches import Switches
from slurmtwin_operator.testing.kube import FakeKube, Resource
from slurmtwin_operator.testing.slurm import SECOND, RefusedError

KUBELET_NS: Final = 60 * SECOND
START_NS: Final = 3 * SECOND


@dataclass(slots=True)
class ControlPlane:
    """One Cluster, and the slurmctld that comes of it."""

    kube: FakeKube
    spec: ClusterSpec
    name: str = "c"
    policy: Policy = field(default_factory=Policy)
    node_sets: tuple[NodeSetFact, ...] = ()
    jobs: tuple[SlurmJob, ...] = ()
    controllers: tuple[Controller, ...] = ()
    primary: str = ""
    running: bool = False
    restarts: int = 0
    crashes: int = 0
    keys_made: int = 0
    mounted: str = ""
    loaded: str = ""
    partitions: tuple[str, ...] = ()
    reconfigured: int = 0
    resource: Resource = field(init=False)
    gone: bool = False
    _template: str = ""

    def __post_init__(self) -> None:
        self.resource = Resource(self.name, self.spec, "cluster-uid")

    @property
    def switches(self) -> Switches:
        """Those of the Cluster."""
        return self.resource.spec.switches  # type: ignore[no-any-return]

    def resources(self) -> Mapping[str, Resource]:
        """The one Cluster."""
        return {} if self.gone else {self.name: self.resource}

    # users and faults
    def change(self, **facts: Any) -> None:
        """Change node_sets, jobs, controllers or the primary."""
        for key, value in facts.items():
            setattr(self, key, value)
        self._say()

    def change_spec(self, **spec: Any) -> None:
        """kubectl apply of another spec."""
        self.resource.spec = self.resource.spec.model_copy(update=spec)
        self.resource.generation += 1
        self._say()

    def delete(self) -> None:
        """kubectl delete cluster."""
        self.resource.deleting = True
        self._collect()
        self._say()

    def fail_over(self, primary: str) -> None:
        """The other controller takes over (backup.c)."""
        self.kube.fault("slurmctld.stop", self.primary)
        self.kube.note(Kind.SLURMCTLD_STOPPED, "slurmctld", node=self.primary)
        self.primary = primary
        self.kube.note(Kind.SLURMCTLD_TOOK_OVER, "slurmctld", node=primary)
        self.kube.on_change()

    def _say(self) -> None:
        names = [fact.name for fact in self.node_sets]
        self.kube.note(Kind.OBJECT_CHANGED, "user", resource="clusters", name=self.name, node_sets=names)
        self.kube.on_change()

    # what a carrier asks
    def observe(self, me: Resource) -> ClusterObserved:
        """What a pass may know now."""
        identity = Identity("ns", me.name, me.uid, me.generation, me.deleting, me.finalizer)
        slurm = Slurm("fresh" if self.running else "away", self.kube.now, (), self.jobs)
        applied = tuple(Applied(kind, name, digest) for (kind, name), (digest, _) in self.kube.objects.items())  # type: ignore[arg-type]
        return ClusterObserved(
            identity, me.spec, self.policy, self.node_sets, slurm, self.partitions, applied, self.controllers,
            self.primary, self.mounted, self.loaded, me.conditions,
        )  # fmt: skip

    def skips(self, _resource: Resource, action: a.Action) -> bool:
        """Keys that exist are not made again, and what is gone need not be deleted."""
        if isinstance(action, a.DeleteObject):
            return (action.kind, action.name) not in self.kube.objects
        return isinstance(action, a.EnsureSecret) and ("Secret", action.name) in self.kube.objects

    def holds(self, _resource: Resource, guard: a.Guard) -> bool:
        """The API server has no NodeSet of this Cluster."""
        return not (guard.childless and self.node_sets)

    def perform(self, resource: Resource, action: a.Action) -> None:
        """Apply one action."""
        objects = self.kube.objects
        if isinstance(action, a.Apply):
            objects[(action.kind, action.name)] = (action.hash, json.loads(action.manifest))
        elif isinstance(action, a.EnsureSecret):
            self.keys_made += 1
            objects[("Secret", action.name)] = ("", {})
        elif isinstance(action, a.DeleteObject):
            self.kube.delete_object(action.kind, action.name)
        elif isinstance(action, a.SetFinalizer):
            resource.finalizer = action.on
            self._collect()
        elif isinstance(action, a.LabelPod):
            self._label(action)
        elif isinstance(action, a.Reconfigure):
            self._reconfigure()
        else:
            raise RefusedError(f"{action.do} belongs to another kind of object")
        self._follow()
        self.kube.on_change()

    def end_state(self) -> dict[str, Any]:
        """What must be the same however the way to it was disturbed."""
        return {
            "objects": sorted((key, digest) for key, (digest, _) in self.kube.objects.items()),
            "active": sorted(c.name for c in self.controllers if c.active_label), "gone": self.gone,
            "finalizer": self.resource.finalizer, "keys": self.keys_made, "running": self.running,
            "partitions": self.partitions, "loaded": self.loaded, "crashes": self.crashes,
        }  # fmt: skip

    # what follows
    def _collect(self) -> None:
        """The garbage collector: a Cluster without finalizer goes, with all that it owns."""
        if self.resource.deleting and not self.resource.finalizer:
            self.gone, self.running = True, False
            self.kube.objects.clear()
            self.kube.note(Kind.OBJECT_CHANGED, "apiserver", resource="clusters", name=self.name, gone=True)

    def _label(self, action: a.LabelPod) -> None:
        if not any(c.uid == action.uid for c in self.controllers):
            raise RefusedError(f'pods "{action.name}" not found')
        on = action.value is not None
        changed = (replace(c, active_label=on) if c.uid == action.uid else c for c in self.controllers)
        self.controllers = tuple(changed)
        self.kube.note(Kind.KUBE_EVENT, "apiserver", node=action.name, reason="active label", on=on)

    def _reconfigure(self) -> None:
        if not self.running:
            raise RefusedError("slurmctld does not answer")
        self.reconfigured += 1
        self._load()

    def _conf(self) -> str:
        return str(self.kube.objects[("ConfigMap", f"{self.name}-conf")][1]["data"]["slurm.conf"])

    def _follow(self) -> None:
        """Kubernetes and slurmctld react to what was applied."""
        kinds = [key for key in self.kube.objects if key[1] == f"{self.name}-ctld" and key[0] != "Service"]
        if not kinds or self.gone:
            return
        template = json.dumps(self.kube.objects[kinds[0]][1]["spec"]["template"], sort_keys=True)
        wanted = self._hash()
        if template != self._template:
            self._template, self.restarts, self.running = template, self.restarts + 1, False
            self.mounted = wanted
            self.kube.after(START_NS, self._start)
        elif self.mounted != wanted:
            self.kube.after(KUBELET_NS, self._mount)

    def _mount(self) -> None:
        if not self.gone:
            self.mounted = self._hash()
            self.kube.on_change()

    def _hash(self) -> str:
        return short_hash(self._conf())

    def _start(self) -> None:
        """slurmctld starts with the files that are mounted, and reads its job records; a crash is tried again."""
        if self.running or self.gone:
            return
        self._load()
        known = set(self.partitions)
        host = self.primary or f"{self.name}-ctld-0"
        if any(not known.intersection(job.partition.split(",")) for job in self.jobs):
            self.crashes += 1
            self.kube.note(Kind.SLURMCTLD_CRASHED, "slurmctld", node=host)
            self.kube.after(30 * SECOND, self._start)
        else:
            self.running = True
            self.kube.note(Kind.SLURMCTLD_STARTED, "slurmctld", node=host)
        self.kube.on_change()

    def _load(self) -> None:
        self.loaded = self.mounted
        self.partitions = tuple(re.findall(r"^PartitionName=(\S+)", self._conf(), re.MULTILINE))
