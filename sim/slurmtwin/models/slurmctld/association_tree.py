"""Associations and QOS with their shares, limits and usage (common/assoc_mgr.c).

The tree is the cluster's: a root account, under it accounts, under them users. The database always holds the
root account and a user root in it with one share each; so do we. Usage is counted in TRES-seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Final

from slurmtwin.contract.clock import MINUTE
from slurmtwin.contract.cluster import AssocConf, ClusterConf, Limits, QosConf
from slurmtwin.models.slurmctld.node_counts import NodeCounts
from slurmtwin.models.slurmctld.tres import ENERGY, NODE, Pairs, TresTable

USE_PARENT: Final = -2
"""Fairshare=parent (SLURMDB_FS_USE_PARENT)."""
NO_TRES: Final[Pairs] = ()
_TRES_LIMITS: Final = (
    "grp_tres", "grp_tres_mins", "grp_tres_run_mins", "max_tres_per_job", "max_tres_per_node", "max_tres_per_user",
    "max_tres_per_account", "max_tres_mins_per_job", "min_tres_per_job",
)  # fmt: skip
_INHERITED: Final = (
    "max_jobs", "max_jobs_accrue", "max_submit_jobs", "max_tres_per_job", "max_tres_per_node",
    "max_tres_mins_per_job", "max_wall_per_job_ns", "min_prio_thresh",
)  # fmt: skip
"""What a child without its own takes from its parent account; the others are group limits (man sacctmgr)."""


class Counters:
    """What the running and submitted jobs of one association, QOS, user or account hold now."""

    __slots__ = ("jobs", "node_bitmap", "nodes", "run_secs", "submit_jobs", "tres")

    def __init__(self, tres_count: int) -> None:
        self.jobs = 0
        self.submit_jobs = 0
        self.tres = [0] * tres_count
        """In use now; a node that several jobs share counts once."""
        self.run_secs = [0] * tres_count
        """TRES-seconds that the running jobs may still use: their limits less what was charged."""
        self.nodes = NodeCounts()
        self.node_bitmap = False
        """slurmctld has made grp_node_bitmap: a job started here once."""

    def take(self, counts: list[int], nodes: int) -> None:
        """A job with that allocation starts."""
        tres = self.tres
        for i, count in enumerate(counts):
            if count and i != ENERGY:
                tres[i] += count
        self.nodes.add(nodes)
        self.node_bitmap = True
        tres[NODE] = self.nodes.some.bit_count()
        self.jobs += 1

    def give_back(self, counts: list[int], nodes: int) -> None:
        """The inverse of take()."""
        tres = self.tres
        for i, count in enumerate(counts):
            if count and i != ENERGY:
                tres[i] = max(0, tres[i] - count)
        self.nodes.take(nodes)
        tres[NODE] = self.nodes.some.bit_count()
        self.jobs = max(0, self.jobs - 1)


@dataclass(slots=True, eq=False)
class ResolvedLimits:
    """Limits with TRES by index and times in minutes; None or () means no limit."""

    grp_jobs: int | None = None
    grp_jobs_accrue: int | None = None
    grp_submit_jobs: int | None = None
    grp_tres: Pairs = NO_TRES
    grp_tres_mins: Pairs = NO_TRES
    grp_tres_run_mins: Pairs = NO_TRES
    grp_wall: int | None = None
    max_jobs: int | None = None
    max_jobs_per_account: int | None = None
    max_jobs_accrue: int | None = None
    max_submit_jobs: int | None = None
    max_submit_jobs_per_account: int | None = None
    max_tres_per_job: Pairs = NO_TRES
    max_tres_per_node: Pairs = NO_TRES
    max_tres_per_user: Pairs = NO_TRES
    max_tres_per_account: Pairs = NO_TRES
    max_tres_mins_per_job: Pairs = NO_TRES
    max_wall: int | None = None
    min_prio_thresh: int | None = None
    min_tres_per_job: Pairs = NO_TRES

    def any(self) -> bool:
        """At least one limit is set."""
        return any(getattr(self, f.name) not in (None, ()) for f in fields(self))

    def usage_bound(self) -> bool:
        """A limit here depends on usage over time, not only on what runs now."""
        return bool(self.grp_tres_mins or self.grp_tres_run_mins or self.grp_wall is not None)

    def limits_nodes(self) -> bool:
        """A limit here counts the nodes of several jobs."""
        several = (self.grp_tres, self.max_tres_per_user, self.max_tres_per_account)
        return any(i == NODE for limits in several for i, _limit in limits)


def _minutes(ns: int) -> int | None:
    return None if ns < 0 else ns // MINUTE


def resolve(limits: Limits, tres: TresTable) -> ResolvedLimits:
    """The limits as the checks want them."""
    out = ResolvedLimits()
    for f in fields(limits):
        value = getattr(limits, f.name)
        if f.name in _TRES_LIMITS:
            setattr(out, f.name, tres.pairs(value))
        elif not f.name.endswith("_ns") and value >= 0:
            setattr(out, f.name, value)
    out.grp_wall = _minutes(limits.grp_wall_ns)
    out.max_wall = _minutes(limits.max_wall_per_job_ns)
    return out


@dataclass(slots=True, eq=False)
class Usage:
    """Decayed usage (slurmdb_assoc_usage_t, slurmdb_qos_usage_t)."""

    raw: float = 0.0
    """Billing TRES-seconds."""
    tres_raw: list[float] = field(default_factory=list)
    wall: float = 0.0
    """grp_used_wall: seconds."""

    def decay(self, factor: float) -> None:
        """All of it times factor."""
        self.raw *= factor
        self.wall *= factor
        self.tres_raw[:] = [x * factor for x in self.tres_raw]

    def reset(self) -> None:
        """PriorityUsageResetPeriod."""
        self.raw = self.wall = 0.0
        self.tres_raw[:] = [0.0] * len(self.tres_raw)


@dataclass(slots=True, eq=False)
class Qos:
    """One QOS with what it has in use."""

    conf: QosConf
    limits: ResolvedLimits
    flags: frozenset[str]
    """In lower case."""
    usage: Usage
    counters: Counters
    by_user: dict[str, Counters] = field(default_factory=dict)
    by_account: dict[str, Counters] = field(default_factory=dict)
    norm_priority: float = 0.0

    @property
    def name(self) -> str:
        """The QOS' name."""
        return self.conf.name

    def user(self, name: str) -> Counters:
        """Counters of one user in this QOS."""
        found = self.by_user.get(name)
        if found is None:
            found = self.by_user[name] = Counters(len(self.counters.tres))
        return found

    def account(self, name: str) -> Counters:
        """Counters of one account in this QOS."""
        found = self.by_account.get(name)
        if found is None:
            found = self.by_account[name] = Counters(len(self.counters.tres))
        return found


@dataclass(slots=True, eq=False)
class Association:
    """One record of the tree."""

    conf: AssocConf
    limits: ResolvedLimits
    usage: Usage
    counters: Counters
    parent: Association | None = None
    fs_parent: Association | None = None
    """The nearest ancestor that is not Fairshare=parent: whose level this one shares."""
    children: list[Association] = field(default_factory=list)
    """By fs_parent, in the order of the table."""
    level_shares: int = 0
    shares_norm: float = 0.0
    priority_norm: float = 0.0
    valid_qos: tuple[str, ...] = ()
    default_qos: str = ""
    usage_norm: float = 0.0
    usage_efctv: float | None = 0.0
    """None: to be computed on demand (classic fair share, users)."""
    level_fs: float = 0.0
    fs_factor: float = 0.0
    line: tuple[Association, ...] = ()
    """Itself and its parents up to root."""

    @property
    def key(self) -> tuple[str, str, str]:
        """(account, user, partition)."""
        return self.conf.account, self.conf.user, self.conf.partition

    @property
    def user(self) -> str:
        """The user; "" for an account."""
        return self.conf.user

    @property
    def account(self) -> str:
        """The account."""
        return self.conf.account

    @property
    def shares_raw(self) -> int:
        """Fairshare= as written; USE_PARENT for parent."""
        return self.conf.fairshare


class AssociationTree:
    """All associations and QOS of the cluster."""

    def __init__(self, conf: ClusterConf, tres: TresTable) -> None:
        self.tres = tres
        self._fair_tree = "NO_FAIR_TREE" not in {f.upper() for f in conf.priority.flags}
        confs = _with_root(conf.assocs)
        inherited = _inherit(confs)
        self.assocs: list[Association] = [
            Association(c, resolve(inherited[i], tres), self._usage(), Counters(len(tres))) for i, c in enumerate(confs)
        ]
        self._by_key: dict[tuple[str, str, str], Association] = {a.key: a for a in self.assocs}
        self.root = self._by_key["root", "", ""]
        self._default_account = {c.user: c.account for c in confs if c.user and c.is_default}
        for c in confs:
            if c.user:
                self._default_account.setdefault(c.user, c.account)
        self.user_count = sum(1 for a in self.assocs if a.user)
        self._join()
        self._shares()
        self._qos_lists()
        top = max((a.conf.priority for a in self.assocs), default=0)
        for a in self.assocs:
            a.priority_norm = a.conf.priority / top if top else 0.0
        self.qos: dict[str, Qos] = {}
        given = conf.qos if any(q.name == "normal" for q in conf.qos) else (QosConf(name="normal"), *conf.qos)
        top = max((q.priority for q in given), default=0)
        for q in given:
            flags = frozenset(f.lower() for f in q.flags)
            self.qos[q.name] = Qos(
                q, resolve(q.limits, tres), flags, self._usage(), Counters(len(tres)),
                norm_priority=q.priority / top if top else 0.0,
            )  # fmt: skip

    def _usage(self) -> Usage:
        return Usage(tres_raw=[0.0] * len(self.tres))

    def _join(self) -> None:
        for a in self.assocs:
            if a is self.root:
                continue
            parent_account = a.conf.account if a.user else a.conf.parent or "root"
            parent = self._by_key.get((parent_account, "", ""), self.root)
            a.parent = parent if parent is not a else self.root
        for a in self.assocs:
            line = [a]
            while (above := line[-1].parent) is not None and above not in line:
                line.append(above)
            a.line = tuple(line)
            holder = a.parent
            while holder is not None and holder.shares_raw == USE_PARENT and holder.parent is not None:
                holder = holder.parent
            a.fs_parent = holder
            if holder is not None:
                holder.children.append(a)

    def _shares(self) -> None:
        for a in self.assocs:
            total = _level_shares(a)
            for child in a.children:
                child.level_shares = total
        for a in sorted(self.assocs, key=lambda x: len(x.line)):
            a.shares_norm = self._norm_fair_tree(a) if self._fair_tree else self._norm_classic(a)

    def _norm_fair_tree(self, a: Association) -> float:
        source = a.fs_parent if a.shares_raw == USE_PARENT and a.fs_parent else a
        return source.shares_raw / source.level_shares if source.level_shares else 0.0

    def _norm_classic(self, a: Association) -> float:
        if a.shares_raw == USE_PARENT and a.fs_parent is not None:
            return a.fs_parent.shares_norm
        norm = 1.0
        for level in a.line[:-1]:
            if level.shares_raw != USE_PARENT:
                norm = norm * (level.shares_raw / level.level_shares) if level.level_shares else 0.0
        return norm

    def _qos_lists(self) -> None:
        for a in sorted(self.assocs, key=lambda x: len(x.line)):
            above = a.parent
            a.valid_qos = _granted(a.conf.qos, above.valid_qos if above else ("normal",))
            a.default_qos = a.conf.default_qos or (above.default_qos if above else "")

    def usage_bound(self) -> bool:
        """Some limit of some association or QOS depends on usage over time."""
        return any(a.limits.usage_bound() for a in self.assocs) or any(
            q.limits.usage_bound() for q in self.qos.values()
        )

    def limits_nodes(self) -> bool:
        """Some association or QOS limits the nodes of its jobs together."""
        return any(a.limits.limits_nodes() for a in self.assocs) or any(
            q.limits.limits_nodes() for q in self.qos.values()
        )

    def find(self, account: str, user: str, partition: str) -> Association | None:
        """assoc_mgr_fill_in_assoc(): the partition's own association first, else the general one."""
        account = account or self._default_account.get(user, "")
        return self._by_key.get((account, user, partition)) or self._by_key.get((account, user, ""))

    def default_qos(self, assoc: Association | None) -> str:
        """assoc_mgr_get_default_qos_info(): the QOS of a job that names none."""
        if assoc is not None and assoc.valid_qos:
            if assoc.default_qos:
                return assoc.default_qos
            if len(assoc.valid_qos) == 1:
                return assoc.valid_qos[0]
        return self.root.default_qos or "normal"


def _granted(own: tuple[str, ...], inherited: tuple[str, ...]) -> tuple[str, ...]:
    """The QOS an association may use: its own list, or the inherited one with +names and -names applied."""
    if own and not own[0].startswith(("+", "-")):
        return own
    out = dict.fromkeys(inherited)
    for word in own:
        if word.startswith("-"):
            out.pop(word[1:], None)
        else:
            out.setdefault(word[1:])
    return tuple(out)


def _level_shares(a: Association) -> int:
    """Shares of the level below `a`; children with Fairshare=parent hand on their own children's."""
    return sum(_level_shares(c) if c.shares_raw == USE_PARENT else c.shares_raw for c in a.children)


def _with_root(confs: tuple[AssocConf, ...]) -> tuple[AssocConf, ...]:
    out = list(confs)
    if not any(c.account == "root" and not c.user for c in out):
        out.insert(0, AssocConf(account="root", parent=""))
    if not any(c.account == "root" and c.user == "root" for c in out):
        out.insert(1, AssocConf(account="root", user="root", is_default=True))
    return tuple(out)


def _inherit(confs: tuple[AssocConf, ...]) -> list[Limits]:
    """Each association's limits with those it takes from its parents (as_mysql_assoc.c get_parent_limits)."""
    accounts = {c.account: c for c in confs if not c.user}
    done: dict[str, Limits] = {}

    def of_account(name: str) -> Limits:
        if name not in done:
            conf = accounts.get(name)
            done[name] = Limits() if conf is None else conf.limits
            if conf is not None and name != "root":
                done[name] = _merge(conf.limits, of_account(conf.parent or "root"))
        return done[name]

    return [_merge(c.limits, of_account(c.account)) if c.user else of_account(c.account) for c in confs]


def _merge(own: Limits, above: Limits) -> Limits:
    changed: dict[str, object] = {}
    for name in _INHERITED:
        mine, theirs = getattr(own, name), getattr(above, name)
        if isinstance(mine, tuple):
            have = {t for t, _ in mine}
            changed[name] = mine + tuple(p for p in theirs if p[0] not in have)
        elif mine < 0:
            changed[name] = theirs
    return replace(own, **changed)  # type: ignore[arg-type]
