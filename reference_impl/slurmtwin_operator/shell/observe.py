"""Observations of the core, from the cache of watches and the answers of slurmrestd."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError

from slurmtwin.contract.yaml_file import first_error
from slurmtwin_operator.core.manifests import GROUP, JWT_KEY, REST_PORT, short_hash
from slurmtwin_operator.core.observed import (
    Applied,
    ClusterObserved,
    GroupPod,
    NodeSetFact,
    NodeSetObserved,
    Observed,
    PodGroupObserved,
    Policy,
    Slurm,
)  # fmt: skip
from slurmtwin_operator.core.power import wanted_up
from slurmtwin_operator.core.spec import ClusterSpec, NodeSetSpec, PodGroupSpec
from slurmtwin_operator.core.switches import SAFEST, Switches
from slurmtwin_operator.shell import objects as o
from slurmtwin_operator.shell.cache import CLUSTER, NODE_SET, POD_GROUP, Cache, Key
from slurmtwin_operator.shell.kube_api import KubeApi
from slurmtwin_operator.shell.slurm_rest import SlurmError, SlurmRest
from slurmtwin_operator.shell.slurm_view import conf_hash, job, loaded_hash, node

SECOND: Final = 1_000_000_000
CONF_SEEN: Final = f"{GROUP}/conf"
"""Annotation of a controller pod: the configuration it should show. Its change makes the kubelet look at once."""
MOUNT_NS: Final = 3 * SECOND
"""The kubelet had time to bring the files; should they be late, the loaded hash says so and it is tried again."""
OWNED: Final = ("ConfigMap", "Service", "StatefulSet", "Deployment", "PersistentVolumeClaim")
PART: Final = f"{GROUP}/part"
Endpoint = Callable[[str, str], str]


class RefusedError(Exception):
    """The object cannot be looked at; the text says why and goes into its status."""


@dataclass(slots=True)
class Answer:
    """What slurmrestd said in one pass, and what of it only a Cluster asks."""

    slurm: Slurm
    partitions: tuple[str, ...] = ()
    loaded: int | None = None


@dataclass(frozen=True, slots=True)
class View:
    """An observation and the client that its actions may use."""

    observed: Observed
    rest: SlurmRest | None
    again_ns: int = 300 * SECOND
    """Look again after so long at the latest: something is under way that no watch will show."""


def service_address(namespace: str, cluster: str) -> str:
    """Base of the REST service's URL inside the cluster."""
    return f"http://{cluster}-rest.{namespace}.svc:{REST_PORT}"


class Observer:
    """Looks at one custom resource at a time. Keeps the last answers of each cluster's slurmrestd."""

    def __init__(
        self, cache: Cache, api: KubeApi, policy: Policy, endpoint: Endpoint = service_address,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:  # fmt: skip
        self._cache, self._api, self._policy = cache, api, policy
        self._endpoint, self._clock = endpoint, clock
        self._last: dict[Key, Answer] = {}
        self._rest: dict[Key, tuple[tuple[str, str, int], SlurmRest]] = {}
        self._shown: dict[str, tuple[str, int]] = {}

    async def look(self, key: Key, item: o.Object) -> View:
        """The observation of an object. Raises RefusedError, KubeError."""
        look: dict[str, Callable[[Key, o.Object], Awaitable[View]]] = {
            "Cluster": self._cluster, "NodeSet": self._node_set, "PodGroup": self._pod_group,
        }  # fmt: skip
        try:
            return await look[key.kind](key, item)
        except ValidationError as error:
            raise RefusedError(first_error(error)) from error

    # the three kinds
    async def _cluster(self, key: Key, item: o.Object) -> View:
        spec = ClusterSpec.model_validate(item["spec"])
        space = key.namespace
        pods = [p for p in self._of(key, "Pod") if o.labels(p).get(PART) == "ctld"]
        applied = [o.applied(i) for kind in OWNED for i in self._of(key, kind)]
        secret = await self._api.get("Secret", space, f"{key.name}-keys")
        if secret is not None:
            applied.append(Applied("Secret", f"{key.name}-keys", ""))
        rest = self._client(key, spec, secret)
        answer = await self._ask(key, rest, more=True)
        controllers = tuple(o.controller(p) for p in pods)
        active = [c.name for c in controllers if c.ready]
        facts = tuple(_fact(s) for s in self._cache.node_sets(space, key.name))
        text = self._conf_text(key)
        mounted = short_hash(text) if text and await self._shows(space, pods, short_hash(text)) else ""
        observed = ClusterObserved(
            o.identity(item), spec, self._policy, facts, answer.slurm, answer.partitions, tuple(applied), controllers,
            active[0] if len(active) == 1 else "", mounted, _loaded(answer.loaded, text), o.conditions(item),
        )  # fmt: skip
        on_its_way = bool(text) and not mounted and bool(pods)
        return View(observed, rest, MOUNT_NS) if on_its_way else View(observed, rest)

    async def _node_set(self, key: Key, item: o.Object) -> View:
        spec = NodeSetSpec.model_validate(item["spec"])
        place = Key("Cluster", key.namespace, spec.cluster)
        found = self._cache.get(*place)
        switches, rest, cluster = SAFEST, None, None
        if found is not None:
            cluster = ClusterSpec.model_validate(found["spec"])
            switches = cluster.switches
            rest = self._client(place, cluster, await self._api.get("Secret", key.namespace, f"{spec.cluster}-keys"))
        elif "deletionTimestamp" not in item["metadata"]:
            raise RefusedError(f"there is no Cluster {spec.cluster}")
        else:  # no Slurm is left that could have jobs
            switches = switches.model_copy(update={"drain_before_delete": False})
        answer = await self._ask(place, rest)
        pods = [p for p in self._cache.items("Pod", key.namespace) if o.labels(p).get(NODE_SET) == key.name]
        beside = [
            item
            for kind in ("PodDisruptionBudget", "Service", "StatefulSet")
            for item in self._cache.items(kind, key.namespace)
            if o.labels(item).get(NODE_SET) == key.name
        ]
        observed = NodeSetObserved(
            o.identity(item), spec, switches, self._policy, tuple(o.pod(p, key.name) for p in pods),
            self._machines(spec, pods, switches), answer.slurm, tuple(o.applied(b) for b in beside),
            o.conditions(item), wanted_up(answer.slurm.nodes, key.name),
            cluster.worker_unreachable_s if cluster else 300,
            cluster.version if cluster else "26.05", (cluster.log_claim or "") if cluster else "",
        )  # fmt: skip
        return View(observed, rest)

    async def _pod_group(self, key: Key, item: o.Object) -> View:
        spec = PodGroupSpec.model_validate(item["spec"])
        here = list(self._cache.items("Cluster", key.namespace))
        if len(here) != 1:
            raise RefusedError(f"a PodGroup needs one Cluster in its namespace, there are {len(here)}")
        place = Key("Cluster", key.namespace, here[0]["metadata"]["name"])
        cluster = ClusterSpec.model_validate(here[0]["spec"])
        rest = self._client(place, cluster, await self._api.get("Secret", key.namespace, f"{place.name}-keys"))
        answer = await self._ask(place, rest)
        pods = tuple(
            GroupPod(p["metadata"]["name"], p["metadata"]["uid"], p["spec"].get("nodeName", ""),
                     (p.get("status") or {}).get("phase", "Pending"), "deletionTimestamp" in p["metadata"])
            for p in self._cache.items("Pod", key.namespace) if o.labels(p).get(POD_GROUP) == key.name
        )  # fmt: skip
        return View(PodGroupObserved(o.identity(item), spec, cluster.switches, pods, answer.slurm), rest)

    # parts
    def _of(self, key: Key, kind: str) -> list[o.Object]:
        """Objects of a Cluster itself, those of its node sets left out."""
        mine = self._cache.items(kind, key.namespace)
        return [i for i in mine if o.labels(i).get(CLUSTER) == key.name and NODE_SET not in o.labels(i)]

    def _machines(self, spec: NodeSetSpec, pods: list[o.Object], switches: Switches) -> tuple[Any, ...]:
        hosts = {p["spec"].get("nodeName") for p in pods}
        foreign: dict[str, int] = {}
        if switches.lock != "none":
            for p in self._cache.everywhere("Pod"):
                name = p["spec"].get("nodeName")
                foreign[name] = foreign.get(name, 0) + (CLUSTER not in o.labels(p) and o.is_foreign(p))
        seen = [o.kube_node(n, spec, foreign.get(n["metadata"]["name"], 0)) for n in self._cache.items("Node")]
        return tuple(n for n in seen if n.selected or n.name in hosts)

    def _client(self, key: Key, spec: ClusterSpec, secret: o.Object | None) -> SlurmRest | None:
        """The REST client; None while its service or its key is not there. A new key makes a new client."""
        data = (secret or {}).get("data") or {}
        if JWT_KEY not in data or self._cache.get("Service", key.namespace, f"{key.name}-rest") is None:
            return None
        made_of = (short_hash(data[JWT_KEY]), spec.version, spec.switches.rest_timeout_s)
        have = self._rest.get(key)
        if have is None or have[0] != made_of:
            self._hang_up(key)
            base = self._endpoint(key.namespace, key.name)
            rest = SlurmRest(base, spec.version, base64.b64decode(data[JWT_KEY]), made_of[2])
            have = self._rest[key] = (made_of, rest)
        return have[1]

    async def _ask(self, key: Key, rest: SlurmRest | None, *, more: bool = False) -> Answer:
        """Ask slurmrestd now; while it does not answer, its last answer as `away`."""
        now = self._clock()
        if rest is None:
            return Answer(Slurm("absent", now))
        names = ["nodes/", "jobs/", "reservations/"]
        if more:
            names += ["partitions/", "conf"] if rest.tells_conf else ["partitions/"]
        answers = await asyncio.gather(*(rest.call("GET", name) for name in names), return_exceptions=True)
        said: dict[str, dict[str, Any]] = {}
        for name, document in zip(names, answers, strict=True):
            if isinstance(document, SlurmError):
                last = self._last.get(key, Answer(Slurm("away", 0)))
                return replace(last, slurm=replace(last.slurm, answer="away"))
            if isinstance(document, BaseException):
                raise document
            said[name] = document
        slurm = Slurm(
            "fresh", now, tuple(node(n) for n in said["nodes/"].get("nodes") or ()),
            tuple(job(j) for j in said["jobs/"].get("jobs") or ()),
            tuple(str(r["name"]) for r in said["reservations/"].get("reservations") or ()),
        )  # fmt: skip
        last = self._last.get(key, Answer(slurm))
        answer = replace(last, slurm=slurm)
        if more:
            partitions = tuple(str(p["name"]) for p in said["partitions/"].get("partitions") or ())
            answer = Answer(slurm, partitions, loaded_hash(said.get("conf", {})))
        self._last[key] = answer
        return answer

    def _conf_text(self, key: Key) -> str:
        found = self._cache.get("ConfigMap", key.namespace, f"{key.name}-conf")
        return str(((found or {}).get("data") or {}).get("slurm.conf", ""))

    async def _shows(self, namespace: str, pods: list[o.Object], wanted: str) -> bool:
        """Should every controller's volume show this configuration by now? A mark on the pod makes its kubelet look."""
        now, shown = self._clock(), bool(pods)
        for pod in pods:
            uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
            if o.notes(pod).get(CONF_SEEN) != wanted and self._shown.get(uid, ("", 0))[0] != wanted:
                body = {"metadata": {"uid": uid, "annotations": {CONF_SEEN: wanted}}}
                await self._api.patch("Pod", namespace, name, body)
                self._shown[uid] = (wanted, now)
            shown = shown and now - self._shown.get(uid, (wanted, 0))[1] >= MOUNT_NS
        return shown

    def forget(self, key: Key) -> None:
        """The object is gone."""
        self._last.pop(key, None)
        self._hang_up(key)

    def _hang_up(self, key: Key) -> None:
        if key in self._rest:
            self._rest.pop(key)[1].close()


def _fact(item: o.Object) -> NodeSetFact:
    """What its Cluster needs to know; of a set that is refused no more than its name."""
    name = item["metadata"]["name"]
    try:
        spec = NodeSetSpec.model_validate(item["spec"])
    except ValidationError:
        return NodeSetFact(name)
    options = tuple(spec.partition.options.items())
    return NodeSetFact(name, spec.partition.enabled, options, spec.replicas, spec.cpu, spec.memory, spec.features)


def _loaded(said: int | None, text: str) -> str:
    """The hash of the configuration that slurmctld has read, as the core hashes it; "" where it does not tell."""
    if said is None or not text:
        return ""
    return short_hash(text) if said == conf_hash(text) else f"slurm-{said:x}"
