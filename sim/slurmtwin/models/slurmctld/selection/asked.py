"""A job's demand seen from one partition: counts of nodes, and the rules that hold there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from slurmtwin.contract.cluster import PartitionConf
from slurmtwin.models.slurmctld.parts import Refusal
from slurmtwin.models.slurmctld.selection import features
from slurmtwin.models.slurmctld.selection.cluster_view import ClusterView
from slurmtwin.models.slurmctld.selection.demand import Demand, of_job, version_key, words_of
from slurmtwin.models.slurmctld.selection.features import Constraint
from slurmtwin.models.slurmctld.selection.node_test import NodeRules, node_req
from slurmtwin.models.slurmctld.selection.pick import Ask
from slurmtwin.models.slurmctld.selection.query import Profile
from slurmtwin.models.slurmctld.selection.uniform import Choice
from slurmtwin.models.slurmctld.states import Reason
from slurmtwin.models.slurmctld.tables import Job, Partition

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

_MOST_NODES: Final = 500_000
_MOST_REMEMBERED: Final = 50_000

T = TypeVar("T")


class ByPartition(Generic[T]):
    """One answer per partition, which holds as long as its configuration and its nodes are the same."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, tuple[PartitionConf, int, T]] = {}

    def get(self, part: Partition, find: Callable[[], T]) -> T:
        """The answer for `part`; find() where none is known."""
        known = self._known.get(part.index)
        if known is None or known[0] is not part.conf or known[1] != part.nodes:
            known = self._known[part.index] = (part.conf, part.nodes, find())
        return known[2]


@dataclass(slots=True)
class Asked:
    """One demand with everything derived from it. Jobs that ask the same share it."""

    demand: Demand
    constraint: Constraint | None
    profiles: dict[tuple[int, int], Profile] = field(default_factory=dict)
    """By partition index and share_res."""
    candidates: ByPartition[int] = field(default_factory=ByPartition)
    """Nodes whose hardware and features could serve the job."""
    usable: ByPartition[int] = field(default_factory=ByPartition)
    """The same by job_req_node_filter(), which counts memory per CPU."""
    counts: dict[int, tuple[PartitionConf, str, tuple[int, str] | None, tuple[int, int, int] | Refusal]] = field(
        default_factory=dict
    )
    """By partition index: the last node counts, and the configuration, QOS and limit they hold for."""
    possible: ByPartition[Refusal | None] = field(default_factory=ByPartition)
    """Why such a job can never run there, of the same jobs."""
    uniform: ByPartition[tuple[int, Choice] | None] = field(default_factory=ByPartition)
    """Selection.uniform() of the same jobs."""
    asks: dict[tuple[int, bool], tuple[tuple[int, int, int], Ask]] = field(default_factory=dict)
    """By partition index and whole nodes: the last ask and the counts it was made of."""

    def ask(self, part: int, counts: tuple[int, int, int], whole: bool) -> Ask:
        """The ask for these counts."""
        known = self.asks.get((part, whole))
        if known is not None and known[0] == counts:
            return known[1]
        demand = self.demand
        ask = Ask(demand, counts[0], counts[2], counts[1], demand.min_cpus, demand.required, whole)
        self.asks[part, whole] = (counts, ask)
        return ask


class Requests:
    """The demands of one controller's jobs."""

    def __init__(self, ctld: Slurmctld, view: ClusterView) -> None:
        self._ctld = ctld
        self._view = view
        self._version = version_key(ctld.conf.version)
        self._linear = ctld.conf.select.type == "select/linear"
        self._known: dict[Demand, Asked] = {}
        self._by_words: dict[tuple[object, ...], Asked] = {}
        """The same by what a demand is made of."""
        self._part_used: set[int] = set()
        self._qos_flags = {q.name: frozenset(f.lower() for f in q.flags) for q in ctld.conf.qos}
        self._sockets = ctld.conf.select.unit == "socket"

    def of(self, job: Job) -> Asked:
        """What the job asks; kept on the record until its sizes change."""
        asked = job.demand
        if isinstance(asked, Asked):
            return asked
        words = words_of(job)
        found = self._by_words.get(words)
        if found is None:
            found = self._by_words[words] = self._of(of_job(job, self._ctld.conf, self._ctld.nodes))
        job.demand = found
        return found

    def _of(self, demand: Demand) -> Asked:
        found = self._known.get(demand)
        if found is None:
            if len(self._known) > _MOST_REMEMBERED:
                self._known.clear()
                self._by_words.clear()
            constraint = features.parse(demand.constraint) if demand.constraint else None
            found = self._known[demand] = Asked(demand, constraint)
        return found

    def is_plain(self, job: Job, part: Partition) -> bool:
        """No QOS and no limit on nodes: what holds for the job there holds for all that ask the same."""
        return not job.qos and self._ctld.limits.max_nodes(job, part) is None

    def shared(self, demand: Demand, part: Partition) -> tuple[bool, bool, int]:
        """_resolve_shared_status(): (may use nodes that run something, whole nodes, share_res)."""
        conf = part.conf
        mode = conf.over_subscribe
        if mode == "EXCLUSIVE":
            return False, True, 0
        if mode == "FORCE" and conf.over_subscribe_count > 1:
            return True, demand.whole_node, 1
        if self._linear:
            share = 1 if demand.share == 1 and mode != "NO" else 0
            return bool(share), True, share
        if demand.share == 0 or demand.whole_node:
            return False, demand.whole_node, 0
        return True, False, demand.share

    def profile(self, asked: Asked, part: Partition, share: int) -> Profile:
        """The rules for the demand in a partition with that share_res."""
        key = (part.index, share)
        profile = asked.profiles.get(key)
        if profile is not None and profile.part_conf is part.conf:
            return profile
        demand, conf = asked.demand, part.conf
        cores_matter = self._sockets or conf.max_cpus_per_node >= 0
        rules = NodeRules(
            demand=demand,
            select=self._ctld.conf.select,
            version=self._version,
            part=part.index,
            max_cpus_per_node=conf.max_cpus_per_node,
            whole=demand.whole_node or conf.over_subscribe == "EXCLUSIVE",
            req=node_req(conf, share),
            share=share,
            part_used=cores_matter and part.index in self._part_used,
        )
        profile = asked.profiles[key] = Profile(rules, conf)
        return profile

    def mark_used(self, part: int) -> None:
        """A job runs in the partition: from now on its core maps exist."""
        if part not in self._part_used:
            self._part_used.add(part)
            for asked in self._known.values():
                asked.profiles = {key: p for key, p in asked.profiles.items() if key[0] != part}

    def counts(self, job: Job, part: Partition) -> tuple[int, int, int] | Refusal:
        """get_node_cnts(): (min, requested, max) nodes."""
        asked, conf = self.of(job), part.conf
        limit = self._ctld.limits.max_nodes(job, part)
        known = asked.counts.get(part.index)
        if known is not None and known[0] is conf and known[1] == job.qos and known[2] == limit:
            return known[3]
        counts = self._counts(asked.demand, job.qos, conf, limit)
        asked.counts[part.index] = (conf, job.qos, limit, counts)
        return counts

    def _counts(
        self, demand: Demand, qos: str, conf: PartitionConf, limit: tuple[int, str] | None
    ) -> tuple[int, int, int] | Refusal:
        flags = self._qos_flags.get(qos, frozenset())
        least = demand.min_nodes if "partitionminnodes" in flags else max(demand.min_nodes, conf.min_nodes)
        part_most = conf.max_nodes if conf.max_nodes >= 0 else _MOST_NODES
        if not demand.max_nodes:
            most = part_most
        elif "partitionmaxnodes" in flags:
            most = demand.max_nodes
        else:
            most = min(demand.max_nodes, part_most)
        if demand.required and demand.max_nodes and demand.required.bit_count() > demand.max_nodes:
            return Refusal("never", Reason.BAD_CONSTRAINTS)
        if limit is not None:
            most = min(most, limit[0])
        most = min(most, _MOST_NODES)
        requested = most if demand.max_nodes and not demand.implicit_max else least
        if limit is not None and limit[0] < least:
            return Refusal("limit", limit[1])
        if most < least:
            return Refusal("part_limit", Reason.PARTITION_NODE_LIMIT)
        return least, requested, most

    def candidates(self, asked: Asked, part: Partition) -> int:
        """_build_node_list(): the partition's nodes whose hardware and features could do, less --exclude."""
        return asked.candidates.get(part, lambda: self.fitting(asked, part.nodes, per_cpu=False))

    def usable(self, asked: Asked, part: Partition) -> int:
        """job_req_node_filter() on all of the partition's nodes."""
        return asked.usable.get(part, lambda: self.fitting(asked, part.nodes, per_cpu=True))

    def fitting(self, asked: Asked, nodes: int, *, per_cpu: bool) -> int:
        """Nodes with enough CPUs, memory and threads and the right features. per_cpu: as job_req_node_filter()."""
        demand, view = asked.demand, self._view
        out = 0
        for place, members in enumerate(view.shape_nodes):
            here = members & nodes
            if not here:
                continue
            shape = view.shapes[place]
            least_mib = demand.mem_mib * (demand.pn_min_cpus if per_cpu and demand.mem_per_cpu else 1)
            if (
                demand.pn_min_cpus <= shape.config_cpus
                and least_mib <= shape.real_mem_mib
                and demand.threads_per_core <= shape.threads
            ):
                out |= here
        out &= ~demand.excluded
        if demand.constraint:
            if asked.constraint is None:
                return 0
            out = features.cut(asked.constraint.features, out, view.having)
        return out
