"""Images: present, pulled, or refused; one pull at a time, with back-off per image (kubernetes.md 3.10).

Source: pkg/kubelet/images/image_manager.go EnsureImageExists(), v1.34.2; serializeImagePulls is on by default. The
registry's own limits (QPS 5) are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.kubelet.back_off import BackOff

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import Clock
    from slurmtwin.models.api_server.objects import Container
    from slurmtwin.models.kubelet.container_runtime import ContainerRuntime
    from slurmtwin.models.kubelet.defaults import KubeletDefaults

PULL_REFUSED_NS = SECOND
"""How long a registry takes to say that it has no such image."""
Told = Callable[[str], None]
"""told(reason): "" when the image is there, else why the container cannot start."""


class ImagePulls:
    """Of one kubelet."""

    def __init__(self, clock: Clock, runtime: ContainerRuntime, defaults: KubeletDefaults) -> None:
        self._clock = clock
        self._runtime = runtime
        self._back_off = BackOff.of(defaults)
        self._queue: list[tuple[str, str, Told]] = []
        self._busy = False

    def ensure(self, uid: str, container: Container, told: Told) -> None:
        """Have the image of a container of that pod, as its pull policy says."""
        image = container.image
        present = not image or image in self._runtime.images
        if present and container.pull_policy != "Always":
            told("")
            return
        if container.pull_policy == "Never":
            told("ErrImageNeverPull")
            return
        key = f"{uid}_{image}"
        if self._back_off.rest_since_last_ns(key, self._clock.now_ns):
            told("ImagePullBackOff")
            return
        self._queue.append((key, image, told))
        self._next()

    def _next(self) -> None:
        if self._busy or not self._queue:
            return
        self._busy = True
        key, image, told = self._queue.pop(0)
        takes_ns = self._runtime.costs.pull(image)
        wait_ns = PULL_REFUSED_NS if takes_ns is None else takes_ns
        self._clock.call_in(wait_ns, self._pulled, (key, image, takes_ns is not None, told))

    def _pulled(self, request: tuple[str, str, bool, Told]) -> None:
        key, image, found, told = request
        self._busy = False
        if found:
            self._runtime.images.add(image)
            self._back_off.collect(self._clock.now_ns)
            told("")
        else:
            self._back_off.advance(key, self._clock.now_ns, self._clock.now_ns)
            told("ErrImagePull")
        self._next()
