"""Workloads and their copies in several clusters: quota that is reserved, jobs that run, links that break."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from slurmtwin.contract.events import Kind
from slurmtwin_operator.core import actions as a
from slurmtwin_operator.core.observed import DispatchObserved, Identity, Mirror
from slurmtwin_operator.core.spec import DispatchSpec
from slurmtwin_operator.core.switches import Switches
from slurmtwin_operator.testing.kube import FakeKube, Resource
from slurmtwin_operator.testing.slurm import SECOND, RefusedError

RESERVE_NS: Final = 2 * SECOND


@dataclass(slots=True)
class Copy:
    """A workload's copy in one cluster."""

    workload: str
    admitted: bool = False
    running: bool = False
    finished: bool = False


@dataclass(slots=True)
class Remote:
    """A worker cluster, and what was last heard of it."""

    name: str
    free: int
    reachable: bool = True
    seen_ns: int = 0
    copies: dict[str, Copy] = field(default_factory=dict)
    heard: dict[str, Copy] = field(default_factory=dict)


@dataclass(slots=True)
class Copies:
    """Workloads and worker clusters."""

    kube: FakeKube
    switches: Switches
    remotes: dict[str, Remote] = field(default_factory=dict)
    workloads: dict[str, Resource] = field(default_factory=dict)
    needs: dict[str, tuple[int, int]] = field(default_factory=dict)
    """(nodes, how long it runs)."""

    def resources(self) -> Mapping[str, Resource]:
        """Those that exist."""
        return self.workloads

    # users and faults
    def add(self, name: str, run_s: int, nodes: int = 1, **spec: Any) -> None:
        """A workload for every cluster."""
        asked = DispatchSpec(clusters=tuple(sorted(self.remotes)), nodes=nodes, **spec)
        self.workloads[name] = Resource(name, asked, f"uid-{name}")
        self.needs[name] = (nodes, run_s * SECOND)
        self.kube.note(Kind.OBJECT_CHANGED, "user", resource="dispatches", name=name)
        self.kube.on_change()

    def delete(self, name: str) -> None:
        """kubectl delete."""
        self.workloads[name].deleting = True
        self.kube.note(Kind.OBJECT_CHANGED, "user", resource="dispatches", name=name, deleted=True)
        self._collect()
        self.kube.on_change()

    def cut(self, name: str, on: bool = True) -> None:
        """The link to a cluster breaks, or is mended."""
        remote = self.remotes[name]
        self._hear(remote)
        remote.reachable = not on
        self.kube.note(Kind.FAULT_INJECTED if on else Kind.FAULT_CLEARED, "fault", kind="cluster.cut", target=name)
        self.kube.on_change()

    def lose_copy(self, name: str, workload: str) -> None:
        """Somebody deletes the copy in the worker cluster."""
        self.kube.fault("copy.delete", name)
        self._drop(self.remotes[name], workload)

    # what a carrier asks
    def observe(self, me: Resource) -> DispatchObserved:
        """What each cluster last said."""
        identity = Identity("ns", me.name, me.uid, me.generation, me.deleting, me.finalizer)
        spec: DispatchSpec = me.spec
        mirrors = []
        for name in spec.clusters:
            remote = self.remotes[name]
            self._hear(remote)
            copy = remote.heard.get(me.name)
            facts = (copy.admitted, copy.running, copy.finished) if copy else (False, False, False)
            mirrors.append(Mirror(name, remote.reachable, remote.seen_ns, copy is not None, *facts, remote.free))
        return DispatchObserved(identity, spec, self.switches, tuple(mirrors))

    def _hear(self, remote: Remote) -> None:
        if remote.reachable:
            remote.seen_ns = self.kube.now
            remote.heard = {n: Copy(c.workload, c.admitted, c.running, c.finished) for n, c in remote.copies.items()}

    def skips(self, resource: Resource, action: a.Action) -> bool:
        """The copy is as it shall be."""
        if not isinstance(action, a.SetMirror) or not self.remotes[action.cluster].reachable:
            return False
        copy = self.remotes[action.cluster].copies.get(resource.name)
        if copy is None:
            return not action.on
        return action.on and (copy.running or copy.finished or not action.run)

    def holds(self, _resource: Resource, _guard: a.Guard) -> bool:
        """No action of a workload is guarded."""
        return True

    def perform(self, resource: Resource, action: a.Action) -> None:
        """Apply one action."""
        if isinstance(action, a.SetFinalizer):
            resource.finalizer = action.on
            self._collect()
        elif isinstance(action, a.SetMirror):
            remote = self.remotes[action.cluster]
            if not remote.reachable:
                raise RefusedError(f"cluster {action.cluster} does not answer")
            if action.on:
                self._set(remote, resource, action.run)
            else:
                self._drop(remote, resource.name)
        else:
            raise RefusedError(f"{action.do} belongs to another kind of object")
        self.kube.on_change()

    def end_state(self) -> dict[str, Any]:
        """What must be the same however the way to it was disturbed; which cluster ran it may be another."""
        copies = [c for remote in self.remotes.values() for c in remote.copies.values()]
        return {
            "copies": sorted((c.workload, c.admitted, c.finished) for c in copies),
            "workloads": sorted((w.name, w.deleting, w.finalizer) for w in self.workloads.values()),
            "free": sum(remote.free for remote in self.remotes.values()),
        }

    # what follows
    def _set(self, remote: Remote, resource: Resource, run: bool) -> None:
        copy = remote.copies.get(resource.name)
        if copy is None:
            copy = remote.copies[resource.name] = Copy(resource.name)
            self.kube.after(RESERVE_NS, lambda: self._reserve(remote))
        if run and copy.admitted and not copy.running:
            copy.running = True
            self.kube.note(Kind.SCRIPT_STARTED, remote.name, node=remote.name, workload=resource.name)
            self.kube.after(self.needs[resource.name][1], lambda: self._finish(remote, copy))

    def _reserve(self, remote: Remote) -> None:
        """Quota is given in the order of names."""
        for name in sorted(remote.copies):
            copy, need = remote.copies[name], self.needs[name][0]
            if not copy.admitted and remote.free >= need:
                copy.admitted = True
                remote.free -= need
                self.kube.on_change()

    def _finish(self, remote: Remote, copy: Copy) -> None:
        if remote.copies.get(copy.workload) is copy and copy.running:
            copy.running, copy.finished = False, True
            self._end(remote, copy, "finished")

    def _end(self, remote: Remote, copy: Copy, why: str) -> None:
        remote.free += self.needs[copy.workload][0]
        self.kube.note(Kind.SCRIPT_ENDED, remote.name, node=remote.name, workload=copy.workload, why=why)
        self._reserve(remote)
        self.kube.on_change()

    def _drop(self, remote: Remote, workload: str) -> None:
        copy = remote.copies.pop(workload, None)
        if copy is None:
            raise RefusedError(f"no copy of {workload} in {remote.name}")
        if copy.running:
            self._end(remote, copy, "deleted")
        elif copy.admitted and not copy.finished:
            remote.free += self.needs[workload][0]
            self._reserve(remote)
        self.kube.on_change()

    def _collect(self) -> None:
        for name in [w.name for w in self.workloads.values() if w.deleting and not w.finalizer]:
            del self.workloads[name]
            self.kube.note(Kind.OBJECT_CHANGED, "apiserver", resource="dispatches", name=name, gone=True)
