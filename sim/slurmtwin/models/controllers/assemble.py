"""The control plane put together: admission, kube-controller-manager's controllers, kube-scheduler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmtwin.models.controllers.admission import admit
from slurmtwin.models.controllers.attach_detach import AttachDetach
from slurmtwin.models.controllers.claims import Provisioner
from slurmtwin.models.controllers.controller_manager import ControllerManager
from slurmtwin.models.controllers.deployment import Deployments
from slurmtwin.models.controllers.disruption import Disruption
from slurmtwin.models.controllers.endpoints import EndpointSlices
from slurmtwin.models.controllers.job import Jobs
from slurmtwin.models.controllers.node_lifecycle import NodeLifecycle
from slurmtwin.models.controllers.owners import OwnerCollector
from slurmtwin.models.controllers.pod_gc import PodGarbageCollector
from slurmtwin.models.controllers.replica_set import ReplicaSets
from slurmtwin.models.controllers.stateful_set import StatefulSets
from slurmtwin.models.controllers.taint_eviction import TaintEviction
from slurmtwin.models.kube_scheduler.scheduler import KubeScheduler

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Environment
    from slurmtwin.engine.random_streams import RandomStreams
    from slurmtwin.models.api_server.server import ApiServer
    from slurmtwin.models.controllers.defaults import ControlPlaneDefaults

Draw = Callable[[], int]


@dataclass(slots=True)
class ControlPlane:
    """The processes beside the API server."""

    manager: ControllerManager
    scheduler: KubeScheduler
    lifecycle: NodeLifecycle
    controllers: tuple[object, ...]

    def start(self) -> None:
        """All of them begin."""
        self.manager.start()
        self.scheduler.start()

    def freeze(self) -> None:
        """Their machine stands still."""
        self.manager.clock.freeze()
        self.scheduler.clock.freeze()

    def thaw(self) -> None:
        """It goes on: what fell due meanwhile happens now."""
        self.manager.clock.thaw()
        self.scheduler.clock.thaw()


def control_plane(
    env: Environment, server: ApiServer, defaults: ControlPlaneDefaults, streams: RandomStreams,
    latency: Draw | None = None, bind_ns: Draw = lambda: 0, claim_ns: Draw = lambda: 0, set_status: Draw = lambda: 0,
    placements: Mapping[str, str] | None = None, attachable: frozenset[str] = frozenset(),
) -> ControlPlane:  # fmt: skip
    """Everything on one store. latency: of a request; the other draws: see contract.pod_durations."""
    server.admissions += admit(defaults)
    manager = ControllerManager(env, server, defaults, streams, latency)
    lifecycle = NodeLifecycle(manager)
    others = (
        TaintEviction(manager), PodGarbageCollector(manager), StatefulSets(manager, set_status),
        ReplicaSets(manager), Deployments(manager), Jobs(manager), OwnerCollector(manager), Disruption(manager),
        EndpointSlices(manager), AttachDetach(manager), Provisioner(manager, claim_ns, attachable),
    )  # fmt: skip
    scheduler = KubeScheduler(env, server, defaults, streams, latency, bind_ns, placements)
    return ControlPlane(manager, scheduler, lifecycle, (lifecycle, *others))
