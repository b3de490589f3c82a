"""select_nodes() of node_scheduler.c: which nodes a job gets now, may get later, or could ever get.

Partition and feature limits, reservations, owners and idle or shared nodes cut the table; the select plugin
chooses among the rest (slurm.md 1.3, 3.2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from slurmtwin.models.slurmctld.allocation import Allocation
from slurmtwin.models.slurmctld.parts import Placement, Refusal
from slurmtwin.models.slurmctld.selection import allocate, features
from slurmtwin.models.slurmctld.selection.asked import Asked, Requests
from slurmtwin.models.slurmctld.selection.cluster_view import ClusterView, Sharing
from slurmtwin.models.slurmctld.selection.demand import SHARE_DEFAULT, Demand, version_key
from slurmtwin.models.slurmctld.selection.node_choice import NodeChooser
from slurmtwin.models.slurmctld.selection.node_choice import Placement as PlacementRule
from slurmtwin.models.slurmctld.selection.pick import Ask
from slurmtwin.models.slurmctld.selection.preempt import Preemption
from slurmtwin.models.slurmctld.selection.query import Query
from slurmtwin.models.slurmctld.selection.run_now import RunNow, Start
from slurmtwin.models.slurmctld.selection.select_cons_tres import ConsTres, partition_rows
from slurmtwin.models.slurmctld.selection.select_linear import Linear, LinearQuery
from slurmtwin.models.slurmctld.selection.tree_choice import SwitchTree
from slurmtwin.models.slurmctld.selection.uniform import Choice
from slurmtwin.models.slurmctld.selection.uniform_nodes import UniformNodes
from slurmtwin.models.slurmctld.selection.usage import Groups, Holding, Share, State, Usage
from slurmtwin.models.slurmctld.selection.weights import WeightGroups
from slurmtwin.models.slurmctld.selection.will_run import WillRun
from slurmtwin.models.slurmctld.states import JobState, Reason
from slurmtwin.models.slurmctld.tables import INFINITE_S, Job, Partition, bits

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

_BUSY = Refusal("busy", Reason.RESOURCES)
_NEVER = Refusal("never", Reason.BAD_CONSTRAINTS)


@dataclass(frozen=True, slots=True)
class _Try:
    """One attempt to place a job: who, where, how many nodes, out of which."""

    job: Job
    part: Partition
    asked: Asked
    ask: Ask
    share: int
    shared: bool
    total: int
    """Nodes whose configuration serves the job."""
    avail: int
    """Nodes that are up and not reserved for others."""
    candidates: tuple[Job, ...] = ()
    """Jobs that may be preempted for it."""


class Selection:
    """parts.NodeSelection of one controller."""

    def __init__(self, ctld: Slurmctld) -> None:
        self._ctld = ctld
        conf = ctld.conf
        self._linear = conf.select.type == "select/linear"
        self._version = version_key(conf.version)
        self._preemption = Preemption(ctld)
        self._parts = list(ctld.partitions.values())
        self.usage_version = 0
        self._since: dict[int, int] = {}
        """When jobs with --switches were first tried."""
        self._free_key = -1
        self._free = 0
        self.placement: PlacementRule | None = None
        """A placement rule of one's own for select/cons_tres; rebuild() after setting it (policy.py)."""
        self._make()

    def _make(self) -> None:
        ctld, conf = self._ctld, self._ctld.conf
        self._view = view = ClusterView(ctld)
        self._table, self._size = ctld.nodes.nodes, len(ctld.nodes)
        self._requests = Requests(ctld, view)
        self._sharing = Sharing()
        by_qos = conf.preempt.type == "preempt/qos"
        self._usage = Usage.empty(view.shape_nodes, partition_rows(self._parts, by_qos))
        tree = None
        if conf.controller.topology_plugin.endswith("tree") and conf.switches:
            tree = SwitchTree(conf.switches, ctld.nodes, self._version)
        chooser = NodeChooser(conf, tree)
        chooser.placement = self.placement
        self._plugin = ConsTres(conf, view.shapes, chooser, self._parts)
        self._run_now = RunNow(ctld, self._plugin, self._preemption, view.shapes)
        self._will_run = WillRun(ctld, self._plugin, self._preemption, view.shape_nodes)
        self._lin = Linear(ctld, view.shapes, self._preemption, tree)
        self._wide = conf.preempt.gang or any(rows > 1 for rows in self._usage.rows_of)
        self._uniform = UniformNodes(ctld, self._requests, oversubscribed=self._wide, placed=self.placement is not None)

    def rebuild(self) -> None:
        """Recompute everything from the running jobs (restart, node table change)."""
        self._make()
        for job in self._ctld.jobs.values():
            job.demand = None
        for job in sorted(self._ctld.running.values(), key=lambda j: (j.start_s, j.slurm_id)):
            if job.alloc is not None:
                self.allocate(job, job.alloc)
                if job.state is JobState.SUSPENDED:
                    self.suspend(job)
        self.usage_version += 1

    def _fresh(self) -> None:
        if len(self._table) != self._size:
            self.rebuild()

    # --- questions

    def node_counts(self, job: Job, part: Partition) -> tuple[int, int, int] | Refusal:
        """get_node_cnts(): (min, requested, max) nodes in that partition."""
        return self._requests.counts(job, part)

    def usable_nodes(self, job: Job, part: Partition, avail: int) -> int | None:
        """job_req_node_filter(): the nodes of `avail` the job may use at all; None: --nodelist is not in them."""
        self._fresh()
        asked = self._requests.of(job)
        nodes = avail & self._requests.usable(asked, part)
        return None if asked.demand.required & ~nodes else nodes

    def free_nodes(self) -> int:
        """Nodes on which some job could still get a CPU; too many rather than too few."""
        self._fresh()
        if self._wide:
            return self._view.everything
        if self._free_key != self.usage_version:
            if self._linear:
                full = 0
                for state, members in self._usage.classes.items():
                    full |= members if state.req else 0
            else:
                full = self._plugin.full(self._usage)
            self._free, self._free_key = self._view.everything & ~full, self.usage_version
        return self._free

    def uniform(self, job: Job, part: Partition) -> tuple[int, Choice] | None:
        """(nodes needed, how they are chosen) where each node is free or full for the job; None: not so simple."""
        return self._uniform.choice(job, part)

    def guess_end(self, job: Job, now_s: int) -> int:
        """_guess_job_end(): when a job that is past its expected end goes."""
        return self._will_run.guess_end(job, now_s)

    def can_ever_run(self, job: Job, part: Partition) -> Refusal | None:
        """The test at submit: on all of the partition's nodes as if they were empty."""
        self._fresh()
        if not self._requests.is_plain(job, part):
            return self._can_ever_run(job, part)
        return self._requests.of(job).possible.get(part, lambda: self._can_ever_run(job, part))

    def _can_ever_run(self, job: Job, part: Partition) -> Refusal | None:
        attempt = self._attempt(job, part, self._view.everything, 0)
        if isinstance(attempt, Refusal):
            return attempt
        asked = attempt.asked
        if asked.constraint is not None and asked.constraint.matching_or:
            terms = [features.of_term(t, attempt.total, self._view.having) for _c, t in asked.constraint.terms()]
            possible = any(self._could_run(attempt, nodes) for nodes in terms)
        else:
            possible = self._could_run(attempt, attempt.total)
        return None if possible else _NEVER

    def select_nodes(self, job: Job, part: Partition, avail: int, now_s: int) -> Placement | Refusal:
        """Try to place the job now on nodes of `avail`."""
        self._fresh()
        plainly = self._place_plainly(job, part, avail, now_s)
        if plainly is not None:
            return plainly
        attempt = self._attempt(job, part, avail, now_s)
        if isinstance(attempt, Refusal):
            return attempt
        constraint = attempt.asked.constraint
        if constraint is not None and (constraint.counted or constraint.each_of):
            result = self._by_counts(attempt)
        elif constraint is not None and constraint.matching_or:
            result = self._by_alternatives(attempt)
        else:
            result = self._pick(attempt)
        if isinstance(result, Refusal):
            return result
        groups, cpus, victims = result
        return Placement(self._allocation(attempt, groups, cpus), victims)

    def will_run(
        self, job: Job, part: Partition, avail: int, now_s: int,
        start_s: int = 0, until_s: int = 0, now_only: bool = False,
    ) -> tuple[int, int] | Refusal:  # fmt: skip
        """(expected start, nodes): _try_sched() of backfill.c around select_p_job_test(WILL_RUN)."""
        self._fresh()
        counts = self._requests.counts(job, part)
        if isinstance(counts, Refusal):
            return counts
        asked = self._requests.of(job)
        ask = self._ask(asked, part, counts)
        when = (now_s, start_s, until_s, now_only)
        constraint = asked.constraint
        share = asked.demand.share
        if constraint is None:
            found = self._will(job, part, asked, ask, 0, avail, when)
            if (found is None or found[0] > now_s) and share and self._share_matters(asked, part, share):
                found = self._will(job, part, asked, ask, share, avail, when)
        elif constraint.counted or constraint.each_of:
            found = self._will_each(job, part, asked, ask, avail, when)
        elif constraint.matching_or:
            found = None
            for _count, term in constraint.terms():
                nodes = features.of_term(term, avail, self._view.having)
                other = self._will(job, part, asked, ask, share, nodes, when)
                if other is not None and (found is None or other[0] < found[0]):
                    found = other
        else:
            found = self._will(job, part, asked, ask, share, avail, when)
        return found if found is not None else Refusal("busy", Reason.RESOURCES, avail)

    # --- changes

    def allocate(self, job: Job, allocation: Allocation) -> None:
        """Take the resources."""
        assert job.part is not None
        self._fresh()
        asked = self._requests.of(job)
        part = job.part
        _shared, _whole, share = self._requests.shared(asked.demand, part)
        rules = self._requests.profile(asked, part, share).rules
        groups = self._groups_of(allocation)
        no_share = share == 0
        if self._linear:
            holding = Holding(groups, part.index, int(no_share), True, no_share, allocation.cpu_total)
        else:
            sharing = share == 1 or part.conf.over_subscribe == "FORCE"
            holding = Holding(groups, part.index, rules.req, sharing, no_share, allocation.cpu_total)
        self._usage.add(job.slurm_id, holding)
        self._requests.mark_used(part.index)
        self._sharing.started(allocation.nodes, no_share, self._owner(job, asked.demand))
        self._since.pop(job.slurm_id, None)
        self.usage_version += 1

    def release(self, job: Job, nodes: int) -> None:
        """Give back what the job holds on those nodes."""
        holding = self._usage.held.get(job.slurm_id)
        if holding is None:
            return
        gone = holding.nodes & nodes
        self._usage.remove(job.slurm_id, nodes)
        self._sharing.ended(gone, holding.no_share, self._owner(job, self._requests.of(job).demand))
        self.usage_version += 1

    def suspend(self, job: Job) -> None:
        """The cores become free, memory and generic resources stay taken."""
        self._usage.strip_cores(job.slurm_id)
        self.usage_version += 1

    def resume(self, job: Job) -> None:
        """The cores are taken again."""
        self._usage.return_cores(job.slurm_id)
        self.usage_version += 1

    # --- how

    def _place_plainly(self, job: Job, part: Partition, avail: int, now_s: int) -> Placement | None:
        """The same answer in a few integer operations where each node is free or full; None: not so simple, or busy."""
        uniform = self.uniform(job, part)
        if uniform is None or job.reservation or part.conf.over_subscribe != "NO":
            return None
        if self._ctld.limits.preferred_nodes(job, part):
            return None
        demand = self._requests.of(job).demand
        if demand.whole_node or demand.share != SHARE_DEFAULT or demand.threads_per_core:
            return None
        count, choose = uniform
        ctld = self._ctld
        free = part.nodes & avail & self.free_nodes() & ~ctld.nodes.completing
        free &= ctld.reservations.usable_nodes(job, free, now_s, now_s + self._length_s(job, part))
        if free.bit_count() < count:
            return None
        ones = (1,) * count
        if not ctld.conf.select.memory:
            nodes = choose(free, count)
            return Placement(Allocation(nodes, ones, count, ones, groups=((nodes, Share(1, 1, 0, ())),)))
        mem_mib = self._memory_of_each(free, demand.mem_mib)
        if mem_mib is None:
            return None
        nodes = choose(free, count)
        share = Share(1, 1, mem_mib, ())
        return Placement(Allocation(nodes, ones, count, ones, (mem_mib,) * count, groups=((nodes, share),)))

    def _memory_of_each(self, nodes: int, wanted_mib: int) -> int | None:
        """Memory the job gets of each of these nodes, all of it when it wants 0; None: they are not equal and empty."""
        for place, shape in enumerate(self._view.shapes):
            if nodes & self._view.shape_nodes[place]:
                mem_mib = wanted_mib or shape.mem_mib
                empty = self._usage.classes.get(State(place), 0)
                return mem_mib if mem_mib <= shape.mem_mib and not nodes & ~empty else None
        return None

    def _owner(self, job: Job, demand: Demand) -> str | None:
        owned = demand.exclusive_user or (job.part is not None and job.part.conf.exclusive_user)
        return job.user if owned else None

    def _groups_of(self, allocation: Allocation) -> Groups:
        if allocation.groups:
            return tuple((bitmap, Share(*share)) for bitmap, share in allocation.groups)
        out: list[tuple[int, Share]] = []
        for place, i in enumerate(bits(allocation.nodes)):
            shape = self._view.shapes[self._view.shape_of[i]]
            cores = allocation.cores[place] if allocation.cores else (1 << shape.total_cores) - 1
            cpus = allocation.cpus[place] if allocation.cpus else shape.cpus
            mem = allocation.mem_mib[place] if allocation.mem_mib else 0
            gres: tuple[int, ...] = ()
            if allocation.gres and allocation.gres[place]:
                held = {(n, t): c for n, t, c in allocation.gres[place]}
                gres = tuple(held.get((n, t), 0) for n, t, _total in shape.gres)
            out.append((1 << i, Share(cores, cpus, mem, gres)))
        return tuple(out)

    def _ask(self, asked: Asked, part: Partition, counts: tuple[int, int, int]) -> Ask:
        whole = asked.demand.whole_node or self._linear or part.conf.over_subscribe == "EXCLUSIVE"
        return asked.ask(part.index, counts, whole)

    def _attempt(self, job: Job, part: Partition, avail: int, now_s: int) -> _Try | Refusal:
        """Everything before nodes are picked; now_s 0: at submit, reservations do not count."""
        counts = self._requests.counts(job, part)
        if isinstance(counts, Refusal):
            return counts
        asked = self._requests.of(job)
        total = self._requests.candidates(asked, part)
        required = asked.demand.required
        if now_s:
            end_s = now_s + self._length_s(job, part)
            if job.reservation:
                total &= self._ctld.reservations.usable_nodes(job, self._view.everything, now_s, end_s)
                if not total or required & ~total:
                    return Refusal("reservation", Reason.RESERVATION)
            else:
                avail &= self._ctld.reservations.usable_nodes(job, avail, now_s, end_s)
        if not total or required & ~total:
            return _NEVER
        shared, _whole, share = self._requests.shared(asked.demand, part)
        candidates = tuple(self._preemption.candidates(job, part, now_s)) if now_s else ()
        return _Try(job, part, asked, self._ask(asked, part, counts), share, shared, total, avail, candidates)

    @staticmethod
    def _length_s(job: Job, part: Partition) -> int:
        limit = job.limit_s
        if limit is None or limit < 0:
            most = part.conf.max_time_ns
            return most // 1_000_000_000 if most >= 0 else INFINITE_S
        return limit

    def _query(self, attempt: _Try, ask: Ask, weights: WeightGroups) -> Query:
        profile = self._requests.profile(attempt.asked, attempt.part, attempt.share)
        return profile.query(ask, weights, self._waited(attempt.job, ask.demand))

    def _linear_query(self, part: Partition, ask: Ask, share: int, waited_s: int) -> LinearQuery:
        conf = part.conf
        rows = conf.over_subscribe_count if conf.over_subscribe in ("YES", "FORCE") else 1
        return LinearQuery(ask, max(rows, 1) if share == 1 else 1, waited_s)

    def _waited(self, job: Job, demand: Demand) -> int:
        if not demand.switches:
            return 0
        now_s = self._ctld.now_s()
        return now_s - self._since.setdefault(job.slurm_id, now_s)

    def _could_run(self, attempt: _Try, nodes: int) -> bool:
        ask = attempt.ask
        if ask.required & ~nodes or nodes.bit_count() < ask.min_nodes:
            return False
        waited = 1 << 30  # --switches never makes a job impossible
        if self._linear:
            query = self._linear_query(attempt.part, ask, attempt.share, waited)
            return self._lin.could_run(self._usage, query, nodes)
        profile = self._requests.profile(attempt.asked, attempt.part, attempt.share)
        return self._plugin.could_run(self._usage, Query(profile, ask, self._view.weights(), waited), nodes)

    def _pick(self, attempt: _Try) -> Start | Refusal:
        """_pick_best_nodes(): the job's start, or why there is none."""
        ctld, ask = self._ctld, attempt.ask
        if ask.required.bit_count() > ask.max_nodes:
            return Refusal("part_limit", Reason.PARTITION_NODE_LIMIT)
        if ask.required & ~attempt.avail:
            return Refusal("not_avail", Reason.NODE_NOT_AVAIL, attempt.total)
        table = ctld.nodes
        up = attempt.total & attempt.avail
        nodes = up
        barred = self._sharing.barred | self._owned(attempt)
        if not self._preemption.enabled:
            nodes &= ~barred if attempt.shared else table.idle
        nodes &= ~table.completing
        busy = nodes != up
        start = self._start(attempt, nodes, barred)
        if start is not None:
            return start
        ready = attempt.total & attempt.avail
        if self._could_run(attempt, ready):
            return Refusal("busy", Reason.RESOURCES, nodes)
        if ready != attempt.total and self._could_run(attempt, attempt.total):
            if busy:
                return Refusal("busy", Reason.RESOURCES, nodes)
            return Refusal("not_avail", Reason.NODE_NOT_AVAIL, attempt.total)
        return _NEVER

    def _owned(self, attempt: _Try) -> int:
        """filter_by_node_owner(): nodes of other users, or that other users use when this job wants its own."""
        job, demand = attempt.job, attempt.asked.demand
        if not (demand.exclusive_user or attempt.part.conf.exclusive_user):
            return self._sharing.of_others(job.user)
        taken = 0
        for other in (*self._ctld.running.values(), *self._ctld.completing.values()):
            if other.user != job.user and other.alloc is not None:
                taken |= other.alloc.nodes
        return taken

    def _start(self, attempt: _Try, nodes: int, barred: int) -> Start | None:
        required, candidates = attempt.ask.required, list(attempt.candidates)
        nodes = (nodes | required) & ~barred
        if candidates:
            for victim in candidates:
                holding = self._usage.held.get(victim.slurm_id)
                if victim.state is JobState.RUNNING and holding is not None and holding.no_share:
                    nodes |= holding.nodes
            nodes &= attempt.avail & attempt.total
        if self._linear:
            return self._start_linear(attempt, nodes, candidates)
        if not nodes or nodes.bit_count() < attempt.ask.min_nodes:
            return None
        query = self._query(attempt, attempt.ask, self._weights(attempt.job, attempt.part, attempt.total))
        return self._run_now.start(query, self._usage, nodes & ~self._ctld.nodes.completing, candidates)

    def _weights(self, job: Job, part: Partition, nodes: int) -> WeightGroups:
        preferred = self._ctld.limits.preferred_nodes(job, part)
        return self._view.preferring(preferred, nodes) if preferred & nodes else self._view.weights()

    def _start_linear(self, attempt: _Try, nodes: int, candidates: list[Job]) -> Start | None:
        """Groups of nodes of equal configuration are added by weight until the job fits."""
        ask = attempt.ask
        waited = self._waited(attempt.job, ask.demand)
        query = self._linear_query(attempt.part, ask, attempt.share, waited)
        sets = self._weighted_sets(attempt.total, self._weights(attempt.job, attempt.part, attempt.total))
        usable = ask.required & nodes
        for place, members in enumerate(sets):
            last = place == len(sets) - 1
            usable |= members & nodes
            if usable.bit_count() < max(ask.min_nodes, ask.req_nodes) and not last:
                continue
            found = self._lin.run_now(self._usage, query, usable, candidates if last else [])
            if found is not None:
                groups, cpus = self._lin.groups(self._usage, ask.demand, found[0])
                return groups, cpus, found[1]
        return None

    def _weighted_sets(self, nodes: int, weights: WeightGroups) -> list[int]:
        sets = [part for _weight, bitmap in self._view.config_sets() for part in weights.cut(bitmap)]
        parts = [(weights.of(b & -b), b & nodes) for b in sets if b & nodes]
        parts.sort(key=lambda item: item[0])
        return [bitmap for _weight, bitmap in parts]

    def _by_alternatives(self, attempt: _Try) -> Start | Refusal:
        """`[a|b]`: all nodes with the first feature that serves; only the last may preempt."""
        assert attempt.asked.constraint is not None
        worst: Refusal = _NEVER
        terms = attempt.asked.constraint.terms()
        for place, (_count, term) in enumerate(terms):
            nodes = features.of_term(term, attempt.total, self._view.having)
            last = place == len(terms) - 1
            result = self._pick(replace(attempt, total=nodes, candidates=attempt.candidates if last else ()))
            if not isinstance(result, Refusal):
                return result
            if worst.kind == "never":
                worst = result
        return worst

    def _by_counts(self, attempt: _Try) -> Start | Refusal:
        """_get_req_features(): so many nodes of each feature, then the rest of the job around them."""
        constraint, ask = attempt.asked.constraint, attempt.ask
        assert constraint is not None
        gathered = ask.required
        each = False
        for (count, term), source in zip(constraint.terms(), _term_ends(constraint), strict=True):
            if not count:
                continue
            nodes = features.of_term(term, attempt.total, self._view.having)
            if each:
                nodes &= ~gathered
            some = replace(
                ask, min_nodes=count, req_nodes=count, min_cpus=count, required=0 if each else gathered & nodes
            )
            result = self._pick(replace(attempt, total=nodes, ask=some))
            if isinstance(result, Refusal):
                return result
            each = each or source.op == features.EACH_OF
            for bitmap, _share in result[0]:
                gathered |= bitmap
        number = gathered.bit_count()
        least = max(ask.min_nodes, number)
        final = replace(
            ask,
            min_nodes=least,
            req_nodes=max(least, ask.req_nodes),
            min_cpus=max(ask.min_cpus, number),
            required=gathered,
        )
        if final.req_nodes > final.max_nodes:
            return _NEVER
        return self._pick(replace(attempt, ask=final, total=attempt.total | gathered))

    def _share_matters(self, asked: Asked, part: Partition, share: int) -> bool:
        """Whether the second test of _try_sched(), with the job's own wish to share, can differ from the first."""
        if self._linear:
            return share == 1
        if asked.demand.ntasks_per_node:
            return True
        first = self._requests.profile(asked, part, 0).rules
        return first.req != self._requests.profile(asked, part, share).rules.req

    def _will(
        self, job: Job, part: Partition, asked: Asked, ask: Ask, share: int, nodes: int,
        when: tuple[int, int, int, bool],
    ) -> tuple[int, int] | None:  # fmt: skip
        if nodes.bit_count() < ask.min_nodes:
            return None
        now_s, start_s, until_s, now_only = when
        waited = self._waited(job, ask.demand)
        if self._linear:
            query = self._linear_query(part, ask, share, waited)
            return self._lin.will_run(job, part, self._usage, query, nodes, now_s, now_only, self._view.shape_nodes)
        profile = self._requests.profile(asked, part, share)
        later = self._ctld.nodes.completing if self._version >= (23, 2) and start_s <= now_s else 0
        return self._will_run.test(
            job, part, profile.query(ask, self._view.weights(later & nodes), waited), self._usage,
            self.usage_version, nodes, now_s, start_s, until_s, now_only,
        )  # fmt: skip

    def _will_each(
        self, job: Job, part: Partition, asked: Asked, ask: Ask, avail: int, when: tuple[int, int, int, bool]
    ) -> tuple[int, int] | None:  # fmt: skip
        """Counted features one after another on what the others left; the latest start counts."""
        assert asked.constraint is not None
        taken = latest = 0
        for count, term in asked.constraint.terms():
            least = max(1, count)
            nodes = features.of_term(term, avail & ~taken, self._view.having)
            some = replace(ask, min_nodes=least, req_nodes=least, required=0)
            found = self._will(job, part, asked, some, ask.demand.share, nodes, when)
            if found is None:
                return None
            latest = max(latest, found[0])
            taken |= found[1]
        have = taken.bit_count()
        if have < ask.req_nodes:
            rest = replace(
                ask,
                min_nodes=max(0, ask.min_nodes - have),
                max_nodes=ask.max_nodes - have,
                req_nodes=ask.req_nodes - have,
            )
            found = self._will(job, part, asked, rest, ask.demand.share, avail & ~taken, when)
            if found is None:
                return None
            taken |= found[1]
        return latest, taken

    def _allocation(self, attempt: _Try, groups: Groups, cpus: int) -> Allocation:
        view = self._view
        named = any(share.gres for _b, share in groups)
        shapes_at = {i: view.shapes[view.shape_of[i]] for b, _s in groups for i in bits(b)} if named else {}
        whole = attempt.ask.whole
        return allocate.allocation(groups, cpus, shapes_at, whole=whole, memory=self._ctld.conf.select.memory)


def _term_ends(constraint: features.Constraint) -> list[features.Feature]:
    return [feature for feature in constraint.features if not feature.paren]
