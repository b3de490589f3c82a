"""What Slurm's pods rest on, and how a fault takes it away: names, keys, images, disks (contract/cluster_faults.py).

| fault | what it does here | read in |
|---|---|---|
| dns.outage | slurmd's configuration, sbatch, observer and operator find no name | recorded x88 |
| jwt.rotate | slurmctld starts anew; who has an old token is refused until its next one | designs.md X21 |
| image.pull_fails | the workload's template names an image that no registry has | designs.md X38 |
| disk.fill | a pod's own layer grows on its machine's disk: the eviction manager decides | kubernetes.md 2.15 |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.contract.clock import MINUTE, SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Kind
from slurmtwin.contract.quantity import quantity_bytes
from slurmtwin.models.api_server.client import Client
from slurmtwin.models.api_server.errors import ApiError, NotFoundError
from slurmtwin.models.api_server.objects import Custom, Deployment, Pod, StatefulSet
from slurmtwin.models.kubelet.node_pressure import NodeUse
from slurmtwin.models.slurm_pods.settings import RESOLVER_NS

if TYPE_CHECKING:
    from slurmtwin.contract.kubernetes import Kubelet
    from slurmtwin.engine.environment import Environment
    from slurmtwin.models.api_server.objects import AnyObject
    from slurmtwin.models.api_server.server import ApiServer
    from slurmtwin.models.kubelet.machine import Machine
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.worlds.job_feed import JobFeed

NO_IMAGE: Final = "registry.invalid/slurmtwin/pod:none"
TOKEN_NS: Final = 12 * MINUTE
"""An operator makes itself a new token so often (designs.md X21: 15 min life)."""
DISK_BYTES: Final = 20 << 30
"""The disk of a machine, for pods' own layers: of a cloud machine's usual size; every recorded one has the host's."""
AGAIN_NS: Final = 5 * SECOND
Undo = Callable[[], None]


class NameService:
    """The cluster's DNS: answers, or not."""

    def __init__(
        self, env: Environment, feed: JobFeed, look: Callable[[], None], resolver_ns: int = RESOLVER_NS
    ) -> None:
        self.out = False
        self._resolver_ns = resolver_ns
        self._env = env
        self._look = look
        self._held: list[Callable[[], None]] = []
        self._since_ns = 0
        feed.hold = self._hold

    def serves(self) -> bool:
        """A name is found."""
        return not self.out

    def stop(self) -> Undo:
        """Queries are dropped in every node."""
        self.out, self._since_ns = True, self._env.now_ns
        self._look()
        return self._back

    def _hold(self, submit: Callable[[], None]) -> bool:
        """sbatch asks for slurmctld's name until it has an answer."""
        if self.out:
            self._held.append(submit)
        return self.out

    def _back(self) -> None:
        """Each resolver's next query, at most RESOLVER_NS later, is answered."""
        self.out = False
        held, self._held = self._held, []
        wait_ns = self._resolver_ns - (self._env.now_ns - self._since_ns) % self._resolver_ns
        self._env.call_in(wait_ns, self._again, held)
        self._look()

    def _again(self, held: list[Callable[[], None]]) -> None:
        self._look()
        for submit in held:
            submit()


class Keys:
    """The JWT key that slurmctld holds, and who has a token of it."""

    def __init__(self, env: Environment, cluster: SlurmCluster, look: Callable[[], None]) -> None:
        self._env = env
        self._cluster = cluster
        self._look = look
        self._changed_ns: int | None = None

    def rotate(self) -> Undo:
        """Another key, in slurmctld (which starts anew) and in the Secret; tokens stay as they are."""
        self._put(self._env.now_ns)
        return lambda: self._put(None)

    def _put(self, changed_ns: int | None) -> None:
        self._changed_ns = changed_ns
        for controller in self._cluster.controllers:
            controller.reconfigure(Kind.SLURMCTLD_STARTED)
        self._look()

    @property
    def old_refused(self) -> bool:
        """Tokens made before the run began are refused."""
        return self._changed_ns is not None

    def operator_refused(self, began_ns: int) -> bool:
        """The token of an operator that lives since then: it makes a new one each TOKEN_NS, of the Secret's key."""
        if self._changed_ns is None:
            return False
        now_ns = self._env.now_ns
        made_ns = now_ns - (now_ns - began_ns) % TOKEN_NS
        return made_ns < self._changed_ns


class Images:
    """Templates of workloads."""

    def __init__(self, server: ApiServer, client: Client) -> None:
        self._server = server
        self._client = client

    def _patch(self, kind: type[Any], key: str, change: Callable[[Any], Any]) -> None:
        patch_until_done(self._client, kind, key, change)

    def lose(self, app: str) -> Undo:
        """Pods of that app are made with an image that is nowhere. Raises InputError for an app without a workload."""
        for each in self._server.list_of(StatefulSet):
            if each.selector.get("app") == app:
                return self._template(StatefulSet, each, app)
        for one in self._server.list_of(Deployment):
            if one.selector.get("app") == app:
                return self._template(Deployment, one, app)
        for custom in self._server.list_of(Custom):
            if custom.resource == "NodeSet" and app == "slurmd":
                return self._node_set(f"NodeSet/{custom.meta.key}")
        raise InputError(f"no workload makes pods of {app}")

    def _template(
        self, kind: type[StatefulSet] | type[Deployment], item: StatefulSet | Deployment, app: str
    ) -> Undo:  # fmt: skip
        before = item.template.spec
        if any(container.image == NO_IMAGE for container in before.containers):
            return _nothing  # another fault has taken it already, and gives it back

        missing = tuple(replace(c, image=NO_IMAGE, pull_policy="IfNotPresent") for c in before.containers)
        goal = [replace(before, containers=missing)]

        def put() -> None:
            self._patch(kind, item.meta.key, lambda i: replace(i, template=replace(i.template, spec=goal[-1])))

        def clear() -> None:
            goal.append(before)
            put()
            for pod in self._stuck(app):
                self._client.delete(Pod, pod.meta.key, uid=pod.meta.uid)

        put()
        return clear

    def _stuck(self, app: str) -> list[Pod]:
        """A StatefulSet leaves a pod that waits for its image: somebody has to delete it."""
        return [
            pod for pod in self._server.list_of(Pod)
            if pod.meta.labels.get("app") == app and any(c.image == NO_IMAGE for c in pod.spec.containers)
        ]  # fmt: skip

    def _node_set(self, key: str) -> Undo:
        before = existing(self._server, Custom, key).spec["spec"]
        if before.image == NO_IMAGE:
            return _nothing

        goal = [NO_IMAGE]

        def put() -> None:
            """The goal of the moment at which the server acts: a change that came late must not undo a later one."""
            self._patch(
                Custom, key, lambda c: replace(c, spec={"spec": c.spec["spec"].model_copy(update={"image": goal[-1]})})
            )

        def clear() -> None:
            goal.append(before.image)
            put()

        put()
        return clear


def fill_disk(machine: Machine, pod: Pod, size: str) -> Undo:
    """The pod's container writes so much into its own layer; what does not fit is not written."""
    if not size:
        raise InputError("disk.fill needs a size", hint="size: 18Gi")
    runtime, uid = machine.runtime, pod.meta.uid
    use = machine.settings.use or NodeUse(0, disk=DISK_BYTES)
    taken = sum(found.disk for found in runtime.pods.values())
    written = min(quantity_bytes(size), max(0, use.disk - use.system_disk - taken))
    runtime.write(uid, written)

    def clear() -> None:
        if uid in runtime.pods:
            runtime.write(uid, -written)

    return clear


def has_disk(section: Kubelet) -> bool:
    """The kubelet looks at its disk: a threshold of the node's file system is set."""
    return any(signal.startswith(("nodefs", "imagefs")) for signal in (*section.eviction_hard, *section.eviction_soft))


def existing(server: ApiServer, kind: type[AnyObject], key: str) -> AnyObject:
    """The object that a fault or a step changes. Raises InputError where it was deleted."""
    found = server.find(kind, key)
    if found is None:
        what = "object" if kind is Custom else kind.__name__.lower()
        raise InputError(f"{key} is no {what} of the cluster now: its object was deleted")
    return found


def patch_until_done(client: Client, kind: type[Any], key: str, change: Callable[[Any], Any]) -> None:
    """A change that somebody insists on: asked for again while the API server is away; one of what is gone is left."""

    def answered(answer: Any) -> None:
        if isinstance(answer, ApiError) and not isinstance(answer, NotFoundError):
            client.clock.call_in(AGAIN_NS, lambda _: patch_until_done(client, kind, key, change))

    client.patch(kind, key, change, answered)


def _nothing() -> None:
    return None
