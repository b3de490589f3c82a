"""Attach and detach of network volumes: one node at a time, and by force after 6 min (kubernetes.md 4.10, 4.21).

Source: pkg/controller/volume/attachdetach/reconciler/reconciler.go v1.34.2. Detaching waits until the node says that
the volume is no longer in use; an unhealthy node is not waited for longer than 6 min from when the detach was wanted,
and one that is out of service not at all. A driver's attach and detach take the durations that are given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from slurmtwin.models.api_server.objects import Claim, Meta, Node, PersistentVolume, Pod, VolumeAttachment
from slurmtwin.models.controllers.node_lifecycle import OUT_OF_SERVICE

if TYPE_CHECKING:
    from slurmtwin.models.controllers.controller_manager import ControllerManager

Draw = Callable[[], int]


class AttachDetach:
    """The controller: wanted pairs of volume and node against attachments."""

    def __init__(self, plane: ControllerManager, attach_ns: Draw = lambda: 0, detach_ns: Draw = lambda: 0) -> None:
        self.plane = plane
        self._client = plane.client()
        self._attach_ns = attach_ns
        self._detach_ns = detach_ns
        self._attached: dict[tuple[str, str], bool] = {}
        """(volume, node) -> attached for good, or still being attached."""
        self._wanted_ns: dict[tuple[str, str], int] = {}
        """When the detach of a pair was first wanted."""
        self._leaving: dict[tuple[str, str], None] = {}
        self._armed = False
        self._phase_ns = plane.streams.uniform_ns("attach_detach.phase", 0, plane.defaults.attach_loop_ns)()
        self._claims = plane.informer(Claim)
        self._volumes = plane.informer(PersistentVolume)
        plane.informer(VolumeAttachment)
        for informer in (self._claims, self._volumes, plane.nodes, plane.pods.informer):
            informer.tell(self._changed)

    def _changed(self, _old: object, new: object) -> None:
        if self._attached or any(v.attachable for v in self._volumes) or isinstance(new, PersistentVolume):
            self._arm()

    def _arm(self) -> None:
        if not self._armed:
            self._armed = True
            period, now_ns = self.plane.defaults.attach_loop_ns, self.plane.now_ns
            self.plane.clock.call_at(now_ns + (self._phase_ns - now_ns) % period, self._reconcile)

    def wanted(self) -> dict[tuple[str, str], None]:
        """Pairs that pods need: bound to the node, not finished; a terminating pod counts until it is gone."""
        out: dict[tuple[str, str], None] = {}
        for pod in self.plane.pods.informer:
            if not pod.spec.node_name or pod.finished:
                continue
            for name in self._network_volumes(pod):
                out[name, pod.spec.node_name] = None
        return out

    def _network_volumes(self, pod: Pod) -> list[str]:
        names = []
        for volume in pod.spec.volumes:
            claim = self._claims.get(f"{pod.meta.namespace}/{volume.claim}") if volume.claim else None
            found = self._volumes.get(claim.volume) if claim is not None and claim.volume else None
            if found is not None and found.attachable:
                names.append(found.meta.name)
        return names

    def _reconcile(self, _argument: object) -> None:
        self._armed = False
        wanted = self.wanted()
        for pair in list(self._attached):
            if pair in wanted or pair in self._leaving:
                self._wanted_ns.pop(pair, None)
            elif self._attached[pair]:
                self._try_detach(pair)
        for pair in wanted:
            if pair not in self._attached and self._may_attach(pair[0]):
                self._attached[pair] = False
                self.plane.clock.call_in(self._attach_ns(), self._attach, pair)
        if self._wanted_ns or any(pair not in self._attached for pair in wanted):
            self.plane.clock.call_in(1, lambda _: self._arm())

    def _may_attach(self, volume: str) -> bool:
        """ReadWriteOnce: on no other node (isMultiAttachForbidden())."""
        found = self._volumes.get(volume)
        return found is None or found.access != "ReadWriteOnce" or not any(name == volume for name, _ in self._attached)

    def _try_detach(self, pair: tuple[str, str]) -> None:
        now_ns, defaults = self.plane.now_ns, self.plane.defaults
        since_ns = self._wanted_ns.setdefault(pair, now_ns)
        node = self.plane.nodes.get(pair[1])
        in_use = node is not None and pair[0] in node.status.volumes_in_use
        unhealthy = node is not None and node.ready != "True"
        out = node is not None and any(t.key == OUT_OF_SERVICE for t in node.spec.taints)
        late = now_ns - since_ns > defaults.force_detach_ns and unhealthy
        if in_use and not late and not out:
            return
        del self._wanted_ns[pair]
        self._leaving[pair] = None
        self.plane.clock.call_in(self._detach_ns(), self._detach, pair)

    def _attach(self, pair: tuple[str, str]) -> None:
        volume, node = pair
        self._attached[pair] = True
        made = VolumeAttachment(meta=Meta(name=f"{volume}.{node}"), volume=volume, node=node, attached=True)
        self._client.create(made)
        self._client.patch(Node, node, lambda n: _with_volume(n, volume, there=True))

    def _detach(self, pair: tuple[str, str]) -> None:
        volume, node = pair
        self._attached.pop(pair, None)
        self._leaving.pop(pair, None)
        self._client.delete(VolumeAttachment, f"{volume}.{node}")
        self._client.patch(Node, node, lambda n: _with_volume(n, volume, there=False))
        self._arm()


def _with_volume(node: Node, volume: str, there: bool) -> Node:
    kept = tuple(name for name in node.status.volumes_attached if name != volume)
    attached = (*kept, volume) if there else kept
    return replace(node, status=replace(node.status, volumes_attached=attached))
