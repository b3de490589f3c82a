"""Garbage collector: objects whose owner is gone go too (pkg/controller/garbagecollector v1.34.2, in background)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from slurmtwin.models.api_server.objects import Deployment, Job, Object, Owner, Pod, ReplicaSet, StatefulSet

if TYPE_CHECKING:
    from slurmtwin.models.controllers.controller_manager import ControllerManager

OWNERS: Final[tuple[type, ...]] = (StatefulSet, Deployment, ReplicaSet, Job)
OWNED: Final[tuple[type, ...]] = (ReplicaSet, Pod)


class OwnerCollector:
    """Deletes what belonged to a deleted owner, each kind with its own grace."""

    def __init__(self, plane: ControllerManager) -> None:
        self.plane = plane
        self._client = plane.client()
        for kind in OWNERS:
            plane.informer(kind).tell(self._owner_changed)
        for kind in OWNED:
            plane.informer(kind).tell(self._owned_changed)

    def _owner_changed(self, old: Any, new: Any) -> None:
        if new is not None:
            return
        uid = old.meta.uid
        for kind in OWNED:
            for item in owned_by(self.plane, kind, uid):
                self._delete(kind, item)

    def _owned_changed(self, old: Any, new: Any) -> None:
        """An object that appears after its owner has gone."""
        if old is not None or new is None or new.meta.owner is None:
            return
        if self._gone(new.meta.owner, new.meta.namespace):
            self._delete(type(new), new)

    def _gone(self, owner: Owner, namespace: str) -> bool:
        """By the server's word, as attemptToDeleteItem() asks for it."""
        kind = next((k for k in OWNERS if k.__name__ == owner.kind), None)
        if kind is None:
            return False
        found = self.plane.server.find(kind, f"{namespace}/{owner.name}")
        return found is None or found.meta.uid != owner.uid

    def _delete(self, kind: type, item: Object) -> None:
        self._client.delete(kind, item.meta.key, uid=item.meta.uid)


def owned_by(plane: ControllerManager, kind: type, owner_uid: str) -> list[Any]:
    """Cached objects of a kind that an owner controls."""
    if kind is Pod:
        return plane.pods.of_owner(owner_uid)
    cached: list[Any] = list(plane.informer(kind))
    return [item for item in cached if item.meta.owner is not None and item.meta.owner.uid == owner_uid]


def owner_key(item: Object, kind: str) -> str:
    """Key of the object of this kind that controls it; "": none does."""
    owner = item.meta.owner
    return f"{item.meta.namespace}/{owner.name}" if owner is not None and owner.kind == kind else ""
