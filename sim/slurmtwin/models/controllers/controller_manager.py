"""The process kube-controller-manager: shared caches and one client per controller (cmd/kube-controller-manager)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slurmtwin.engine.daemon_clock import DaemonClock
from slurmtwin.models.api_server.client import Client, RateLimit
from slurmtwin.models.api_server.informer import Informer
from slurmtwin.models.api_server.objects import AnyObject, Node, Pod

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Environment
    from slurmtwin.engine.random_streams import RandomStreams
    from slurmtwin.models.api_server.server import ApiServer
    from slurmtwin.models.controllers.defaults import ControlPlaneDefaults


class PodIndex:
    """Cached pods by node and by owner, in the order in which they were first seen."""

    def __init__(self, informer: Informer[Pod]) -> None:
        self.informer = informer
        self._by_node: dict[str, dict[str, Pod]] = {}
        self._by_owner: dict[str, dict[str, Pod]] = {}
        informer.tell(self._changed)

    def on_node(self, node: str) -> list[Pod]:
        """Pods bound to a node."""
        return list(self._by_node.get(node, {}).values())

    def of_owner(self, uid: str) -> list[Pod]:
        """Pods whose controller has that uid."""
        return list(self._by_owner.get(uid, {}).values())

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or old.meta.uid != new.meta.uid):
            self._drop(old)
        if new is not None:
            key = new.meta.key
            if new.spec.node_name:
                self._by_node.setdefault(new.spec.node_name, {})[key] = new
            if new.meta.owner is not None:
                self._by_owner.setdefault(new.meta.owner.uid, {})[key] = new

    def _drop(self, pod: Pod) -> None:
        key = pod.meta.key
        owner = pod.meta.owner.uid if pod.meta.owner is not None else ""
        for index, name in ((self._by_node, pod.spec.node_name), (self._by_owner, owner)):
            group = index.get(name)
            if group is not None:
                group.pop(key, None)
                if not group:
                    del index[name]


class ControllerManager:
    """What its controllers share."""

    def __init__(
        self, env: Environment, server: ApiServer, defaults: ControlPlaneDefaults, streams: RandomStreams,
        latency: Callable[[], int] | None = None,
    ) -> None:  # fmt: skip
        self.env = env
        self.server = server
        self.defaults = defaults
        self.streams = streams
        self.clock = DaemonClock(env)
        self._latency = latency
        self._cache_client = Client(server, self.clock, latency)
        self._informers: dict[type, Informer[AnyObject]] = {}  # type: ignore[valid-type]
        self.pods = PodIndex(self.informer(Pod))
        self.nodes: Informer[Node] = self.informer(Node)

    @property
    def now_ns(self) -> int:
        """Simulated time."""
        return self.env.now_ns

    def client(self) -> Client:
        """A client with a rate limit of its own (each controller has one)."""
        limit = RateLimit(self.defaults.requests_per_second, self.defaults.burst)
        return Client(self.server, self.clock, self._latency, limit)

    def informer(self, kind: type[AnyObject]) -> Informer[AnyObject]:
        """The shared cache of a kind."""
        found = self._informers.get(kind)
        if found is None:
            found = self._informers[kind] = Informer(self._cache_client, kind)
        return found

    def start(self) -> None:
        """All caches fill; controllers hear of what there is."""
        for informer in self._informers.values():
            informer.start()
