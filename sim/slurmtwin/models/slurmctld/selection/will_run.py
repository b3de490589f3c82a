"""When could a pending job start: the present, then without preemptable jobs, then as running jobs end.

Follows _will_run_test() and _future_run_test() of cons_tres job_test.c (slurm.md 2.2 "Expected start" and
"Precision loss"). Jobs leave in groups by end time; start is the end of the last one that mattered.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.slurmctld.selection import allocate
from slurmtwin.models.slurmctld.selection.demand import version_key
from slurmtwin.models.slurmctld.selection.future import FutureChain
from slurmtwin.models.slurmctld.selection.preempt import Preemption, parts_of
from slurmtwin.models.slurmctld.selection.query import Query
from slurmtwin.models.slurmctld.selection.select_cons_tres import ConsTres, Found
from slurmtwin.models.slurmctld.selection.usage import Usage
from slurmtwin.models.slurmctld.states import JobState
from slurmtwin.models.slurmctld.tables import INFINITE_S, Job, Partition
from slurmtwin.models.slurmctld.uniform_search import widened_s

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

_FIRST_WINDOW_S: Final = 30
_PRESENT: Final = -1
_MOST_PER_GROUP: Final = 201
"""A group ends untested at the 202nd job (rm_job_cnt++ > 200)."""


class WillRun:
    """The search of one controller, with its chain of futures kept between equal states."""

    def __init__(self, ctld: Slurmctld, plugin: ConsTres, preemption: Preemption, shape_nodes: Sequence[int]) -> None:
        self._ctld = ctld
        self._plugin = plugin
        self._preemption = preemption
        self._shape_nodes = shape_nodes
        self._version = version_key(ctld.conf.version)
        self._early = self._version < (23, 2)
        self._soft = ctld.conf.scheduler.time_min_as_soft_limit and self._version >= (23, 2)
        linear_ns = ctld.conf.scheduler.backfill.window_linear_ns
        self._linear_s = linear_ns // SECOND if linear_ns > 0 else 0
        self._busy_first = ctld.conf.scheduler.backfill.busy_nodes
        self._chain: FutureChain | None = None
        self._chain_key: tuple[int, int] = (-1, 0)

    def test(
        self, job: Job, part: Partition, query: Query, usage: Usage, version: int, nodes: int, now_s: int,
        start_s: int, until_s: int, now_only: bool,
    ) -> tuple[int, int] | None:  # fmt: skip
        """(expected start, nodes) or None. Arguments as parts.NodeSelection.will_run; version: of the usage."""
        candidates = self._preemption.candidates(job, part, now_s) if self._preemption.enabled else []
        when = (now_s, start_s, until_s, now_only)
        if candidates:
            return self._search(None, candidates, usage, query, nodes, *when)
        chain = self._chain_of(usage, version, now_s)
        if self._busy_first or not self._plugin.remembers(query):
            return self._search(chain, candidates, usage, query, nodes, *when)
        known = chain.answers(query).starts
        key = (nodes, *when)
        if key not in known:
            known[key] = self._search(chain, candidates, usage, query, nodes, *when)
        return known[key]

    def _search(
        self, chain: FutureChain | None, candidates: list[Job], usage: Usage, query: Query, nodes: int,
        now_s: int, start_s: int, until_s: int, now_only: bool,
    ) -> tuple[int, int] | None:  # fmt: skip
        """test() as it is without memory; candidates: preemptable jobs, gone from the start once the present failed."""
        early, least = self._early, query.ask.min_nodes
        present = early or start_s <= now_s
        if present and (chain is None or (nodes & ~chain.full(0)).bit_count() >= least):
            found = self._try_at(chain, _PRESENT, usage, query, nodes) if chain else self._try(usage, query, nodes)
            if found is not None:
                return now_s, found.chosen.nodes
        if now_only and not candidates:
            return None
        if chain is None:
            chain = self._chain_without(usage, candidates, nodes, now_s)
        ahead = 0 if early else start_s
        # a job that ends in the very second tried is gone only since 26.05 (_build_cr_job_list())
        over = bisect_right if self._version >= (26, 5) else bisect_left
        gone = over(chain.ends_s, ahead) if ahead else 0
        if (candidates or ahead) and (gone or candidates or not present or chain.differs):
            if (nodes & ~chain.full(gone)).bit_count() >= least:
                found = self._try_at(chain, gone, None, query, nodes)
                if found is not None:
                    return now_s, found.chosen.nodes
            if early and now_only:
                return None
        return self._as_jobs_end(chain, gone, query, nodes, now_s, 0 if early else until_s)

    def _try(self, usage: Usage, query: Query, nodes: int, busy_first: bool = False) -> Found | None:
        found = self._plugin.job_test(usage, query, nodes, self._ctld.nodes.idle, busy_first=busy_first)
        return found if found is not None and allocate.tasks_fit(found) else None

    def _try_at(
        self, chain: FutureChain, gone: int, usage: Usage | None, query: Query, nodes: int, busy_first: bool = False
    ) -> Found | None:  # fmt: skip
        """The test once the first `gone` jobs are; usage: that of the present, where it is meant."""
        if not self._plugin.remembers(query):
            return self._try(usage or chain.after(gone), query, nodes, busy_first)
        memory = chain.answers(query)
        serving = memory.serving.get(gone)
        if serving is None:
            serving = memory.serving[gone] = self._plugin.serving(usage or chain.after(gone), query)
        if (nodes & serving[1]).bit_count() < query.ask.min_nodes:
            return None
        if busy_first:  # idle nodes count as well
            return self._try(usage or chain.after(gone), query, nodes, busy_first)
        key = (gone, nodes & serving[0])
        if key not in memory.found:
            memory.found[key] = self._try(usage or chain.after(gone), query, nodes)
        return memory.found[key]

    def _as_jobs_end(
        self, chain: FutureChain, first: int, query: Query, nodes: int, now_s: int, until_s: int
    ) -> tuple[int, int] | None:
        ends, held = chain.ends_s, chain.nodes
        total = bisect_right(ends, until_s) if until_s else len(ends)
        least = query.ask.min_nodes
        if (nodes & ~chain.full(total)).bit_count() < least:
            return None
        place = first
        window_s, base_s = _FIRST_WINDOW_S, 0
        while place < total:
            stop, last, base_s, tested = self._group(chain, place, total, nodes, base_s, window_s)
            if last < 0:
                return None
            place = stop
            if not tested:
                continue
            found = None
            if (nodes & ~chain.full(place)).bit_count() >= least:
                found = self._try_at(chain, place, None, query, nodes, self._busy_first)
            if found is not None:
                if self._version >= (26, 5):
                    while last >= first and not held[last] & found.chosen.nodes:
                        last -= 1
                return self._start(chain, max(last, first), now_s), found.chosen.nodes
            if place >= total:
                return None
            window_s = widened_s(window_s, ends[place] - base_s, self._linear_s)
        return None

    def _group(
        self, chain: FutureChain, place: int, total: int, nodes: int, base_s: int, window_s: int
    ) -> tuple[int, int, int, bool]:
        """(end of the group, its last job on `nodes` or -1, base of the windows, whether it is tested)."""
        ends, held = chain.ends_s, chain.nodes
        last, removed = -1, 0
        while place < total:
            if not held[place] & nodes:
                place += 1
                continue
            if not base_s:
                base_s = ends[place] + window_s - ends[place] % window_s
            last = place
            place += 1
            if place >= len(ends) or ends[place] > base_s + window_s:
                return place, last, base_s, True
            removed += 1
            if removed > _MOST_PER_GROUP:
                return place, last, base_s, False
        return place, last, base_s, True

    def _start(self, chain: FutureChain, place: int, now_s: int) -> int:
        end_s = chain.ends_s[place]
        return end_s if end_s > now_s else self.guess_end(chain.jobs[place], now_s)

    def guess_end(self, job: Job, now_s: int) -> int:
        """_guess_job_end(): a job past its end goes at its end + KillWait, + OverTimeLimit."""
        timers = self._ctld.conf.timers
        over_ns = timers.over_time_limit_ns
        if job.part is not None and job.part.conf.over_time_limit_ns != -2:
            over_ns = job.part.conf.over_time_limit_ns
        kill_wait_s = timers.kill_wait_ns // SECOND
        if over_ns < 0:
            return now_s + (job.limit_s if job.limit_s is not None and job.limit_s > 0 else INFINITE_S)
        return max(job.end_s + kill_wait_s + over_ns // SECOND, now_s + 1)

    def _end(self, job: Job, now_s: int) -> int:
        """_soft_job_end(): --time-min as the limit when it is a soft one."""
        if not self._soft or not job.time_min_s:
            return job.end_s
        end_s = job.start_s + job.time_min_s
        return now_s + (job.end_s - now_s) // 2 if end_s < now_s else end_s

    def _chain_of(self, usage: Usage, version: int, now_s: int) -> FutureChain:
        if self._chain is not None and self._chain_key == (version, now_s):
            return self._chain
        same = self._chain is not None and self._chain_key[0] == version and not self._soft and self._ends_hold()
        if self._chain is None or not same:
            self._chain = self._new_chain(usage, list(self._ctld.running.values()), now_s)
        self._chain_key = (version, now_s)
        return self._chain

    def _ends_hold(self) -> bool:
        """End times may move without a change of usage (a new limit, grace time)."""
        assert self._chain is not None
        return all(j.end_s == e for j, e in zip(self._chain.jobs, self._chain.ends_s, strict=True))

    def _new_chain(self, usage: Usage, jobs: list[Job], now_s: int) -> FutureChain:
        differs = not self._early and usage.shared()
        if differs:
            usage = usage.blind()
        if self._soft:
            jobs.sort(key=lambda j: self._end(j, now_s))
            ends_s = [self._end(j, now_s) for j in jobs]
        else:
            jobs.sort(key=_end_s)
            ends_s = [j.end_s for j in jobs]
        return FutureChain(usage, jobs, ends_s, self._shape_nodes, self._plugin.full(usage), differs)

    def _chain_without(self, usage: Usage, candidates: list[Job], nodes: int, now_s: int) -> FutureChain:
        """Preemptable jobs are gone from the start: with their memory, unless they only get suspended."""
        usage = usage.copy()
        leaving: dict[int, None] = {}
        for leader in candidates:
            mode = self._preemption.mode(leader)
            for part in parts_of(leader):
                leaving[part.slurm_id] = None
                if mode == "off" or part.state not in (JobState.RUNNING, JobState.SUSPENDED):
                    continue
                if mode == "suspend":
                    usage.strip_cores(part.slurm_id, nodes)
                else:
                    usage.remove(part.slurm_id, nodes)
        jobs = [j for j in self._ctld.running.values() if j.slurm_id not in leaving]
        return self._new_chain(usage, jobs, now_s)


def _end_s(job: Job) -> int:
    return job.end_s
