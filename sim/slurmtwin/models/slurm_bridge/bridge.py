"""The processes of slurm-bridge on one cluster: scheduler and controllers (cmd/scheduler, cmd/controllers).

Neither keeps anything but caches: what one of them knew stands in labels and annotations of pods and in the
AdminComment of jobs. The admission webhook only names the scheduler, which the scenario's pods do themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.engine.daemon_clock import DaemonClock
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.api_server.client import RateLimit
from slurmtwin.models.operator_pod import OperatorPod
from slurmtwin.models.slurm_bridge import objects as marks
from slurmtwin.models.slurm_bridge.node_controller import NodeController
from slurmtwin.models.slurm_bridge.pod_controller import PodController
from slurmtwin.models.slurm_bridge.scheduler import BridgeScheduler

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Environment
    from slurmtwin.engine.event_sink import EventSink
    from slurmtwin.engine.random_streams import RandomStreams
    from slurmtwin.models.api_server.objects import Pod
    from slurmtwin.models.api_server.server import ApiServer
    from slurmtwin.models.controllers.defaults import ControlPlaneDefaults
    from slurmtwin.models.slurm_bridge.rest import BridgeRest

REQUESTS: Final = RateLimit(20, 30)
"""controller-runtime's client."""
PERIOD_NS: Final = 30 * SECOND
"""durationStore.Push(30 s) of the controllers, and the tickers of their runnables."""


class Bridge(OperatorPod):
    """slurm-bridge, as often as its processes are started."""

    def __init__(
        self, env: Environment, server: ApiServer, sink: EventSink, rest: BridgeRest, defaults: ControlPlaneDefaults,
        streams: RandomStreams, names: Mapping[str, str], latency: Callable[[], int] | None = None,
        record_events: bool = True, period_ns: int = PERIOD_NS, requests: RateLimit = REQUESTS,
        restart: Callable[[], int] = lambda: 0,
    ) -> None:  # fmt: skip
        super().__init__(env, restart=restart)
        self.server = server
        self.rest = rest
        self.defaults = defaults
        self.latency = latency
        self.record_events = record_events
        self.requests = requests
        """Of each controller."""
        self.period_ns = period_ns
        self.phase = streams.uniform_ns("slurm_bridge.phase", 0, period_ns)
        """How far a process is in its period when the run meets it: when it began is not known."""
        self.name = marks.SCHEDULER
        self._sink = sink
        self._names = dict(names)
        """Kubernetes node -> its name in Slurm."""
        self._slurmd_nodes = not names
        self._order = streams.generator("slurm_bridge.nodes")
        self.scheduler: BridgeScheduler | None = None
        self.pod_controller: PodController | None = None
        self.node_controller: NodeController | None = None

    # names

    def slurm_name(self, kube: str) -> str:
        """The node's name in Slurm (label slinky.slurm.net/slurm-nodename, or its own); "": it is not bridged."""
        return self._names.get(kube, "")

    def slurmd_of(self, pod: Pod) -> str:
        """The Slurm node whose slurmd is this pod, where nodes have one: it is bridged from now on."""
        if not self._slurmd_nodes or pod.meta.labels.get("app") != "slurmd":
            return ""
        if self._names.get(pod.spec.node_name, pod.meta.name) < pod.meta.name:
            return ""  # the label of a machine names one Slurm node: of several the first
        self._names[pod.spec.node_name] = pod.meta.name
        if self.node_controller is not None:
            self.node_controller.look(pod.spec.node_name)
        return pod.meta.name

    def shuffled(self, nodes: list[str]) -> list[str]:
        """In no order: PopAny() of a Go set."""
        if len(nodes) < 2:
            return nodes
        return [nodes[int(place)] for place in self._order.permutation(len(nodes))]

    def tell(self, do: str, about: str, job: int | None, node: str | None = None) -> None:
        """One of its actions is done: a row; and its last one, where a fault says so."""
        detail = detail_text(do=do, object=about, outcome="done")
        self._sink.emit(self.env.now_ns, Kind.ACTION_ISSUED, "operator", job, node, None, None, detail)
        self.acted()

    # life

    def start(self) -> None:
        """exec of both."""
        if self._processes:
            return
        self.began_ns = self.env.now_ns
        self.scheduler = BridgeScheduler(self, DaemonClock(self.env))
        self.pod_controller = PodController(self, DaemonClock(self.env))
        self.node_controller = NodeController(self, DaemonClock(self.env))
        self._begun(self.scheduler, self.pod_controller, self.node_controller)
        self.scheduler.start()
        self.pod_controller.start()
        self.node_controller.start()

    def _end(self, again_ns: int) -> None:
        """Both at once; leases are not modelled, there is one replica of each."""
        self.scheduler = self.pod_controller = self.node_controller = None
        super()._end(again_ns)

    # what Slurm's side tells, so that looks which find nothing need not happen

    def job_over(self, number: int) -> None:
        """A job of the workload is over."""
        slurm_id = self.rest.over(number)
        if slurm_id and self.pod_controller is not None:
            self.pod_controller.job_over(slurm_id)

    def slurmctld_back(self) -> None:
        """A slurmctld serves."""
        if self.pod_controller is not None:
            self.pod_controller.slurmctld_back()
