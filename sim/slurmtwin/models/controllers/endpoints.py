"""Endpoints of Services, and when clients behind kube-proxy and DNS have them (kubernetes.md 3.11).

Source: pkg/controller/endpointslice, endpointslice/utils.go podToEndpoint() v1.34.2. An address serves while its pod is
ready and not terminating; with publishNotReadyAddresses as long as it is there. Two changes of one Service's slices
lie a second apart; each node's kube-proxy follows within its own second.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slurmtwin.models.api_server.errors import ApiError
from slurmtwin.models.api_server.objects import Endpoints, Meta, Pod, Service, fits
from slurmtwin.models.controllers.controller import Controller

if TYPE_CHECKING:
    from slurmtwin.models.api_server.work_queue import Finished
    from slurmtwin.models.controllers.controller_manager import ControllerManager


class EndpointSlices(Controller):
    """The controller; the slices of a Service are one object here."""

    def __init__(self, plane: ControllerManager) -> None:
        super().__init__(plane, workers=5)
        self._services = plane.informer(Service)
        self._changed_ns: dict[str, int] = {}
        self._services.tell(self._service_changed)
        plane.informer(Endpoints)
        plane.pods.informer.tell(self._pod_changed, marks=False)

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        if new is not None:
            self.queue.add(new.meta.key)
        elif old is not None:
            self._changed_ns.pop(old.meta.key, None)
            self.client.delete(Endpoints, old.meta.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        if old is not None and new is not None and _serving(old) == _serving(new):
            return
        for service in self._services:
            mine = service.meta.namespace == pod.meta.namespace and service.selector
            if mine and fits(service.selector, pod.meta.labels):
                self._later(service.meta.key)

    def _later(self, key: str) -> None:
        wait_ns = self._changed_ns.get(key, 0) + self.plane.defaults.endpoints_batch_ns - self.plane.now_ns
        self.queue.add_after(key, wait_ns if key in self._changed_ns else 0)

    def sync(self, key: str, finished: Finished) -> None:
        """The addresses as they should be."""
        service = self._services.get(key)
        if service is None:
            finished(True)
            return
        addresses = {
            pod.meta.name: pod.status.ip
            for pod in self.plane.pods.informer
            if pod.meta.namespace == service.meta.namespace and fits(service.selector, pod.meta.labels)
            and pod.status.ip and not pod.finished
            and (service.publish_not_ready or (pod.ready and not pod.meta.deleting))
        }  # fmt: skip
        known = self.plane.informer(Endpoints).get(key)
        if known is not None and known.addresses == addresses:
            finished(True)
            return
        self._changed_ns[key] = self.plane.now_ns

        def answered(answer: object) -> None:
            finished(not isinstance(answer, ApiError))

        if known is None:
            meta = Meta(name=service.meta.name, namespace=service.meta.namespace)
            self.client.create(Endpoints(meta=meta, addresses=addresses), answered)
        else:
            self.client.patch(Endpoints, key, lambda e: replace(e, addresses=addresses), answered)


def _serving(pod: Pod) -> tuple[bool, bool, str, bool]:
    return pod.ready, pod.meta.deleting, pod.status.ip, pod.finished
