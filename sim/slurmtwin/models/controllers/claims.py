"""Claims and their volumes: a provisioner that waits for the first pod, as kind's local-path does (kubernetes.md 4.22).

The scheduler names the node; the volume is made there (or, of an attachable class, anywhere) and the claim is bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slurmtwin.models.api_server.objects import Claim, Meta, PersistentVolume

if TYPE_CHECKING:
    from slurmtwin.models.controllers.controller_manager import ControllerManager

SELECTED_NODE = "volume.kubernetes.io/selected-node"


class Provisioner:
    """Makes a volume for each claim that a pod waits for."""

    def __init__(
        self, plane: ControllerManager, takes_ns: Callable[[], int], attachable: frozenset[str] = frozenset()
    ) -> None:
        self.plane = plane
        self._client = plane.client()
        self._takes_ns = takes_ns
        self._attachable = attachable
        """Storage classes whose volumes are attached over the network; those of others lie on one node."""
        self._begun: dict[str, None] = {}
        plane.informer(Claim).tell(self._changed)

    def _changed(self, old: Claim | None, new: Claim | None) -> None:
        if new is None:
            if old is not None:
                self._begun.pop(old.meta.uid, None)
            return
        if new.phase == "Pending" and SELECTED_NODE in new.meta.annotations and new.meta.uid not in self._begun:
            self._begun[new.meta.uid] = None
            self.plane.clock.call_in(self._takes_ns(), self._provision, new)

    def _provision(self, claim: Claim) -> None:
        attachable = claim.storage_class in self._attachable
        node = "" if attachable else claim.meta.annotations[SELECTED_NODE]
        name = f"pvc-{claim.meta.uid}"
        volume = PersistentVolume(
            meta=Meta(name=name), claim=claim.meta.key, node=node, attachable=attachable, access=claim.access
        )

        def made(_answer: Any) -> None:
            self._client.patch(
                Claim, claim.meta.key, lambda c: replace(c, volume=name, phase="Bound"), uid=claim.meta.uid
            )

        self._client.create(volume, made)
