"""select/linear: whole nodes only (22.05's default). Follows plugins/select/linear/select_linear.c.

No CPUs are kept back and no single node is preferred: runs of consecutive nodes by best fit, filled in order.
In Usage a job's `req` counts jobs that share with nobody and `sharing` counts running ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmtwin.models.slurmctld.selection import gres_count
from slurmtwin.models.slurmctld.selection.bitmaps import runs
from slurmtwin.models.slurmctld.selection.demand import Demand, version_key
from slurmtwin.models.slurmctld.selection.future import FutureChain
from slurmtwin.models.slurmctld.selection.node_test import Fit
from slurmtwin.models.slurmctld.selection.pick import Ask, Offers, Pick, fit_at
from slurmtwin.models.slurmctld.selection.preempt import Preemption
from slurmtwin.models.slurmctld.selection.shapes import Shape
from slurmtwin.models.slurmctld.selection.tree_choice import SwitchTree
from slurmtwin.models.slurmctld.selection.usage import Groups, Share, State, Usage
from slurmtwin.models.slurmctld.selection.weights import WeightGroups
from slurmtwin.models.slurmctld.states import JobState
from slurmtwin.models.slurmctld.tables import Job, Partition, bits

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

_NO_LIMIT = 0xFFFE


@dataclass(frozen=True, slots=True)
class LinearQuery:
    """What is asked of select/linear."""

    ask: Ask
    max_share: int
    """Jobs per node: the OverSubscribe count when the job may share, else 1."""
    waited_s: int = 0


class Linear:
    """The plugin's tests; usage is passed in."""

    def __init__(
        self, ctld: Slurmctld, shapes: Sequence[Shape], preemption: Preemption, tree: SwitchTree | None
    ) -> None:
        self._ctld = ctld
        self._shapes = shapes
        self._preemption = preemption
        self._tree = tree
        self._memory = ctld.conf.select.memory
        self._flat = WeightGroups([(0, -1)])
        self._version = version_key(ctld.conf.version)

    def could_run(self, usage: Usage, query: LinearQuery, nodes: int) -> bool:
        """_test_only(): on those nodes, if they were empty."""
        fitting = 0
        for state, members in usage.classes.items():
            if members & nodes and gres_count.fits(query.ask.demand.gres, self._shapes[state.shape].gres, ()):
                fitting |= members & nodes
        if fitting.bit_count() < query.ask.min_nodes:
            return False
        return self.choose(usage, query, fitting) is not None

    def usable(self, usage: Usage, demand: Demand, nodes: int, run_jobs: int, all_jobs: int) -> int:
        """_job_count_bitmap(): nodes with room for memory and gres, no exclusive job and few enough jobs."""
        out = 0
        for state, members in usage.classes.items():
            here = members & nodes
            if not here or state.req or state.sharing > run_jobs or state.jobs > all_jobs:
                continue
            shape = self._shapes[state.shape]
            if demand.gres and not gres_count.fits(demand.gres, shape.gres, state.gres):
                continue
            if self._memory and state.mem_mib + self._job_mem(demand, shape) > shape.mem_mib:
                continue
            out |= here
        return out

    def _job_mem(self, demand: Demand, shape: Shape) -> int:
        if not demand.mem_mib:
            return shape.real_mem_mib
        return demand.mem_mib * (shape.config_cpus if demand.mem_per_cpu else 1)

    def choose(self, usage: Usage, query: LinearQuery, nodes: int) -> int | None:
        """_job_test(): the nodes out of `nodes`, or None."""
        ask = query.ask
        if nodes.bit_count() < ask.min_nodes or ask.required & ~nodes:
            return None
        offers = self._offers(usage, ask.demand, nodes)
        if self._tree is not None:
            found = self._tree.choose(ask, offers, self._flat, query.waited_s)
            return found.nodes if found is not None and found.switch_ok else None
        return _consecutive(ask, offers, nodes)

    def _offers(self, usage: Usage, demand: Demand, nodes: int) -> list[tuple[int, Fit]]:
        by_shape: dict[int, int] = {}
        for state, members in usage.classes.items():
            here = members & nodes
            if here:
                by_shape[state.shape] = by_shape.get(state.shape, 0) | here
        out: list[tuple[int, Fit]] = []
        for place, bitmap in by_shape.items():
            shape = self._shapes[place]
            cpus = shape.config_cpus
            if demand.ntasks_per_node:
                cpus = min(cpus, demand.ntasks_per_node * demand.cpus_per_task)
            out.append((bitmap, Fit(cpus, cpus, shape.core_map, cpus, shape, 1, 0)))
        return out

    def run_now(
        self, usage: Usage, query: LinearQuery, nodes: int, candidates: list[Job]
    ) -> tuple[int, tuple[Job, ...]] | None:
        """_run_now(): (nodes, victims), empty nodes first, then shared ones, then with victims gone."""
        demand = query.ask.demand
        before = -1
        for most in range(query.max_share):
            last = most == query.max_share - 1
            for suspended in (_NO_LIMIT,) if last else (0, 4):
                fitting = self.usable(usage, demand, nodes, most, most + suspended)
                count = fitting.bit_count()
                if count == before or count < query.ask.min_nodes:
                    continue
                before = count
                chosen = self._mate(query, fitting) if most else None
                chosen = chosen or self.choose(usage, query, fitting)
                if chosen is not None:
                    return chosen, ()
        return self._with_victims(usage, query, nodes, candidates) if candidates else None

    def _mate(self, query: LinearQuery, fitting: int) -> int | None:
        """_find_job_mate(): a running job of just the right size to share with."""
        ask = query.ask
        for job in sorted(self._ctld.running.values(), key=lambda j: j.slurm_id):
            if job.state is not JobState.RUNNING or job.alloc is None:
                continue
            nodes = job.alloc.nodes
            if (
                nodes.bit_count() == ask.req_nodes
                and job.alloc.cpu_total >= ask.min_cpus
                and not nodes & ~fitting
                and job.request.contiguous == ask.demand.contiguous
                and not ask.required & ~nodes
                and not ask.demand.excluded & nodes
            ):
                return nodes
        return None

    def _with_victims(
        self, usage: Usage, query: LinearQuery, nodes: int, candidates: list[Job]
    ) -> tuple[int, tuple[Job, ...]] | None:
        order = list(candidates)
        sized: dict[int, int] = {}
        for again in (False, True):
            future = usage.copy()
            for place, victim in enumerate(order):
                if self._preemption.mode(victim) in ("cancel", "requeue"):
                    future.remove(victim.slurm_id)
                else:
                    future.strip_cores(victim.slurm_id)
                fitting = self.usable(future, query.ask.demand, nodes, query.max_share - 1, _NO_LIMIT)
                held = victim.alloc.nodes if victim.alloc is not None else 0
                sized[victim.slurm_id] = (fitting & held).bit_count()
                if fitting.bit_count() < query.ask.min_nodes:
                    continue
                chosen = self.choose(future, query, fitting)
                if chosen is None:
                    continue
                if again or len(order) == 1:
                    return chosen, _victims(order, sized, chosen)
                sized[victim.slurm_id] = 9999
                for later in order[place + 1 :]:
                    sized[later.slurm_id] = 0
                order.sort(key=lambda j: -sized.get(j.slurm_id, 0))
                break
            else:
                return None
        return None

    def will_run(
        self, job: Job, part: Partition, usage: Usage, query: LinearQuery, nodes: int, now_s: int, now_only: bool,
        shape_nodes: Sequence[int],
    ) -> tuple[int, int] | None:  # fmt: skip
        """_will_run_test(): now, with victims gone, or when running jobs end one by one."""
        most = max(query.max_share - 1, 1)
        chosen = self._try(usage, query, nodes, most)
        if chosen is not None:
            return now_s, chosen
        candidates = self._preemption.candidates(job, part, now_s)
        leaving = {c.slurm_id: None for c in candidates}
        if candidates:
            usage = usage.copy()
            for victim in candidates:
                if self._preemption.mode(victim) in ("cancel", "requeue"):
                    usage.remove(victim.slurm_id)
                else:
                    usage.strip_cores(victim.slurm_id)
            chosen = self._try(usage, query, nodes, most)
            if chosen is not None:
                return now_s, chosen
        if now_only:
            return None
        jobs = sorted((j for j in self._ctld.running.values() if j.slurm_id not in leaving), key=lambda j: j.end_s)
        chain = FutureChain(usage, jobs, [j.end_s for j in jobs], shape_nodes, 0)

        def room(count: int) -> bool:
            fitting = self.usable(chain.after(count), query.ask.demand, nodes, most, _NO_LIMIT)
            return fitting.bit_count() >= query.ask.min_nodes

        first = bisect_left(range(1, len(jobs) + 1), True, key=room)
        for count in range(first + 1, len(jobs) + 1):
            chosen = self._try(chain.after(count), query, nodes, most)
            if chosen is not None:
                end_s = jobs[count - 1].end_s
                return (end_s if end_s > now_s else now_s + 1), chosen
        return None

    def _try(self, usage: Usage, query: LinearQuery, nodes: int, most: int) -> int | None:
        fitting = self.usable(usage, query.ask.demand, nodes, most, _NO_LIMIT)
        return self.choose(usage, query, fitting)

    def groups(self, usage: Usage, demand: Demand, nodes: int) -> tuple[Groups, int]:
        """What the job gets of those nodes: all CPUs (_build_select_struct())."""
        out: list[tuple[int, Share]] = []
        total = 0
        for state, members in usage.classes.items():
            here = members & nodes
            if here:
                out.append((here, self._share(state, demand)))
                total += here.bit_count() * self._shapes[state.shape].config_cpus
        return tuple(out), total

    def _share(self, state: State, demand: Demand) -> Share:
        shape = self._shapes[state.shape]
        mem = self._job_mem(demand, shape) if self._memory else 0
        gres = gres_count.take(demand.gres, shape.gres, state.gres, whole=False) if demand.gres else ()
        return Share((1 << shape.total_cores) - 1, shape.config_cpus, mem, gres)


def _victims(order: list[Job], sized: dict[int, int], chosen: int) -> tuple[Job, ...]:
    return tuple(job for job in order if job.alloc is not None and job.alloc.nodes & chosen and sized.get(job.slurm_id))


def _consecutive(ask: Ask, offers: Offers, nodes: int) -> int | None:
    """Best fit over runs of consecutive nodes; unequal nodes that are too small on average: the largest first."""
    pick = Pick(ask)
    for index in bits(ask.required):
        fit = fit_at(offers, 1 << index)
        assert fit is not None
        if pick.max_nodes > 0:
            pick.book(1 << index, 1, fit.usable)
    left = nodes & ~pick.taken
    least = min(fit.usable for _bitmap, fit in offers)
    if len({fit.usable for _bitmap, fit in offers}) > 1 and pick.rem_cpus > least * pick.rem_nodes:
        return _largest(pick, offers, left)
    spans = [(run, _first(run & ask.required)) for run in runs(nodes) if run & left]
    while spans and pick.max_nodes > 0:
        place = _best(spans, offers, left, pick)
        if place < 0:
            break
        run, required = spans[place]
        if ask.demand.contiguous and not _suffices(offers, run & left, pick):
            break
        _fill(pick, offers, run, left, required)
        if ask.demand.contiguous or pick.done:
            return pick.taken
        left &= ~run
        del spans[place]
    return pick.taken if pick.acceptable else None


def _largest(pick: Pick, offers: Offers, left: int) -> int | None:
    """Nodes with most CPUs first, the last of equals."""
    while pick.max_nodes > 0 and not pick.done and left:
        cpus, index = max((fit.usable, i) for bitmap, fit in offers for i in bits(bitmap & left))
        pick.book(1 << index, 1, cpus)
        left ^= 1 << index
    return pick.taken if pick.acceptable else None


def _suffices(offers: Offers, run: int, pick: Pick) -> bool:
    return _cpus(offers, run) >= pick.rem_cpus and pick.ask.enough(run.bit_count(), pick.rem_nodes)


def _best(spans: list[tuple[int, int]], offers: Offers, left: int, pick: Pick) -> int:
    pinned = bool(pick.ask.demand.contiguous and pick.ask.required)
    best, best_cpus, best_required, best_suffices = -1, 0, -1, False
    for place, (run, required) in enumerate(spans):
        if pinned and required < 0:
            continue
        cpus = _cpus(offers, run & left)
        suffices = cpus >= pick.rem_cpus and pick.ask.enough((run & left).bit_count(), pick.rem_nodes)
        if (
            best < 0
            or (best_required < 0 <= required)
            or (suffices and not best_suffices)
            or (suffices and cpus < best_cpus)
            or (not suffices and cpus > best_cpus)
        ):
            best, best_cpus, best_required, best_suffices = place, cpus, required, suffices
        if pinned and any(other >= 0 for _run, other in spans[place + 1 :]):
            return -1
    return best


def _fill(pick: Pick, offers: Offers, run: int, left: int, required: int) -> None:
    if required < 0:
        _fill_up(pick, offers, run & left)
        return
    _fill_up(pick, offers, run & left & ~((1 << required) - 1))
    for index in reversed(list(bits(run & left & ((1 << required) - 1)))):
        if pick.max_nodes <= 0 or pick.done:
            return
        fit = fit_at(offers, 1 << index)
        assert fit is not None
        pick.book(1 << index, 1, fit.usable)


def _fill_up(pick: Pick, offers: Offers, nodes: int) -> None:
    while nodes and pick.max_nodes > 0 and not pick.done:
        first = nodes & -nodes
        for bitmap, fit in offers:
            if bitmap & first:
                other = nodes & ~bitmap
                block = nodes & bitmap & ((other & -other) - 1) if other else nodes
                nodes ^= block
                pick.take(block, fit.usable, 0)
                break


def _cpus(offers: Offers, nodes: int) -> int:
    return sum((bitmap & nodes).bit_count() * fit.usable for bitmap, fit in offers)


def _first(nodes: int) -> int:
    return (nodes & -nodes).bit_length() - 1
