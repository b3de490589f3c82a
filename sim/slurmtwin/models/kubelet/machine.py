"""A Kubernetes node as a machine: its kubelet, its container runtime, and what faults do to them.

Source: kubernetes.md 4.3, 8.11; recordings of scenarios/faults.

| what happens | containers | what the API server is told |
|---|---|---|
| kubelet killed | run on | nothing more; the lease ends |
| kubelet started again | run on, same ids | its node and pods as they are; back-off counts begin anew |
| containerd stopped | run on, none starts or stops | NotReady after 30 s |
| machine paused | stand still, and go on | nothing; at the thaw the node is NotReady once (docs/surprises.md) |
| machine stopped | die | nothing; when it is back each pod gets a new sandbox and address, its containers restart |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slurmtwin.models.kubelet.cpu_manager import ManagerStartError
from slurmtwin.models.kubelet.kubelet import Draw, Kubelet, KubeletSettings

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Environment
    from slurmtwin.models.api_server.objects import Node, Pod
    from slurmtwin.models.api_server.server import ApiServer
    from slurmtwin.models.kubelet.container_runtime import ContainerRuntime
    from slurmtwin.models.kubelet.node_resources import NodeResources


class Machine:
    """One node. Every method is a fault or its end; what is already so does nothing."""

    def __init__(
        self, env: Environment, server: ApiServer, runtime: ContainerRuntime, node: Node, settings: KubeletSettings,
        draw: Draw, resources: NodeResources | None = None,
        volumes_ready: Callable[[Pod], bool] = lambda pod: True,  # noqa: ARG005
    ) -> None:  # fmt: skip
        self.env = env
        self.name = node.meta.name
        self.runtime = runtime
        self.settings = settings
        self.on = True
        self.paused_ns: int | None = None
        """Since when it stands still."""
        self.cut_off = False
        self.boots = 0
        self._server = server
        self.node = node
        """The object as its kubelet registers it."""
        self._draw = draw
        self._resources = resources
        self._volumes_ready = volumes_ready
        self.kubelet: Kubelet | None = None
        self.refused = ""
        """Why the kubelet did not start the last time; "": it did."""
        self._kubelet_frozen_ns: int | None = None

    # kubelet

    def start_kubelet(self, has_run: bool = False) -> None:
        """exec. The resource managers start on their checkpoints, or refuse to.

        has_run: the scenario begins on a machine whose kubelet has run for long.
        """
        if self.kubelet is not None or not self.on:
            return
        self.refused = self.settings.refuses
        if self._resources is not None and not self.refused:
            try:
                self._resources.start()
            except ManagerStartError as error:
                self.refused = str(error)
        if self.refused:
            return
        kubelet = self.kubelet = Kubelet(
            self.env, self._server, self.runtime, self.node, self.settings, self._draw, self._resources,
            self._volumes_ready, has_run,
        )  # fmt: skip
        if self.cut_off:
            kubelet.client.cut()
        kubelet.start()

    def kill_kubelet(self) -> None:
        """SIGKILL or a stop: it has nothing to save."""
        kubelet, self.kubelet = self.kubelet, None
        self._kubelet_frozen_ns = None
        if kubelet is not None:
            kubelet.end()

    def freeze_kubelet(self) -> None:
        """SIGSTOP."""
        if self.kubelet is not None and self._kubelet_frozen_ns is None and self.paused_ns is None:
            self._kubelet_frozen_ns = self.env.now_ns
            self.kubelet.freeze()

    def thaw_kubelet(self) -> None:
        """SIGCONT."""
        since_ns, self._kubelet_frozen_ns = self._kubelet_frozen_ns, None
        if self.kubelet is not None and since_ns is not None:
            self.kubelet.thaw(self.env.now_ns - since_ns)

    # container runtime

    def stop_runtime(self) -> None:
        """containerd is gone; its shims and containers are not."""
        if self.runtime.serving:
            self.runtime.stop_serving()
            if self.kubelet is not None:
                self.kubelet.runtime_stopped()

    def start_runtime(self) -> None:
        """containerd is back."""
        if self.on and not self.runtime.serving:
            self.runtime.serve()
            if self.kubelet is not None:
                self.kubelet.runtime_serves()

    # network

    def cut(self) -> None:
        """No way between this machine and the API server."""
        if self.cut_off:
            return
        self.cut_off = True
        if self.kubelet is not None:
            self.kubelet.report.silent()
            self.kubelet.client.cut()

    def heal(self) -> None:
        """The way is back."""
        if not self.cut_off:
            return
        self.cut_off = False
        if self.kubelet is not None:
            self.kubelet.client.heal()
            self.kubelet.report.heard()

    # the machine

    def pause(self) -> None:
        """Everything on it stands still (docker pause, a hung hypervisor)."""
        if not self.on or self.paused_ns is not None:
            return
        self.paused_ns = self.env.now_ns
        if self.kubelet is not None and self._kubelet_frozen_ns is None:
            self.kubelet.freeze()
        self.runtime.freeze()

    def unpause(self) -> None:
        """It goes on."""
        since_ns, self.paused_ns = self.paused_ns, None
        if since_ns is None:
            return
        self.runtime.thaw()
        if self.kubelet is not None and self._kubelet_frozen_ns is None:
            self.kubelet.thaw(self.env.now_ns - since_ns)

    def stop(self) -> None:
        """The machine is off: every process is gone at once."""
        if not self.on:
            return
        self.on = False
        self.paused_ns = None
        self.kill_kubelet()
        self.runtime.power_off()

    def boot(self) -> None:
        """The machine is on again; its kubelet starts."""
        if self.on:
            return
        self.on = True
        self.boots += 1
        self.runtime.power_on()
        self.start_kubelet()
