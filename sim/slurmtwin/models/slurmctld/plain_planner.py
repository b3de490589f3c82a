"""Backfill cycles over queues of plain jobs, with what is still right of the last cycle kept.

Most queues hold nothing but jobs that ask for nodes and time, on nodes that are free or full for them. For
those this does exactly what BackfillCycle does, record by record, but remembers of each record which slots of the
map were tried and what came out (`Plan`). As long as all records before it got the same plans, the map before it is the
same; then a few counts show whether its own plan would come out the same, and only from the first that would not is
the rest planned anew. Equality with BackfillCycle and with the plain model is tested.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld.node_space import FAR_S, NodeSpace
from slurmtwin.models.slurmctld.parts import Refusal
from slurmtwin.models.slurmctld.start_attempt import attempt_start
from slurmtwin.models.slurmctld.states import JobState
from slurmtwin.models.slurmctld.uniform_search import UniformSearch

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.pending_queue import PendingQueue, QueueRecord
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

_MOST_KEPT: Final = 32
"""Plans that are kept: few cycles find more than some that still hold."""

Slots = tuple[list[int], list[int], list[int], int]
"""begin, end, free, records of a NodeSpace."""


@dataclass(slots=True)
class Plan:
    """What came out for one record, and what that rests on."""

    record: QueueRecord
    refused: list[tuple[int, int]] = field(default_factory=list)
    """(nodes, second or 0): too few of these nodes were free by then."""
    answers: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """(nodes, tried from or 0 for now, tried until, start, nodes chosen): what the search said."""
    bound_s: int = FAR_S
    """From then on the passing of time alone may change it."""
    open_ended: bool = False
    """Its first slot is the map's last, which ends later from cycle to cycle: in bound_s it counts as of then."""
    lasts_s: int = FAR_S
    """bound_s without that."""
    tested: bool = False
    reserved: int = 0
    """Nodes."""
    after: Slots = ([], [], [], 0)
    """The map behind it."""


class PlainPlanner:
    """The plans of one slurmctld from cycle to cycle."""

    def __init__(self, ctld: Slurmctld, queue: PendingQueue) -> None:
        self._ctld = ctld
        self._queue = queue
        conf, options = ctld.conf, ctld.conf.scheduler.backfill
        self._options = options
        caps = (
            options.max_job_start, options.max_job_part, options.max_job_user, options.max_job_user_part,
            options.max_job_assoc, options.job_part_count_reserve, options.min_age_reserve_ns, options.min_prio_reserve,
        )  # fmt: skip
        flags = (
            options.licenses, options.running_job_reserve, options.one_resv_per_job, conf.scheduler.assoc_limit_stop,
            conf.controller.accounting_enforce, conf.preempt.type != "preempt/none", conf.version == "22.05",
        )  # fmt: skip
        self.allowed = not any(caps) and not any(flags)
        """The configuration is plain enough."""
        self._latest = conf.version == "26.05"
        self._resolution_s = options.resolution_ns // SECOND
        self._window_s = options.window_ns // SECOND
        self._everything = (1 << len(ctld.nodes)) - 1
        self._plans: list[Plan] = []
        self._base: tuple[int, int, int, bool] | None = None
        self._search: UniformSearch | None = None
        self._search_key: tuple[int, list[int]] = (-1, [])
        self._hints_of: tuple[NodeSpace, UniformSearch] | None = None
        self._grows: list[bool] = []
        self._caps: list[int] = []
        self._alive: list[tuple[int, int]] = []
        """Lengths with the fewest nodes wanted for so long that still might start in this cycle."""
        self._alive_at = -1
        self._skipped: list[int] = []
        """Tries of the present record that were over before all their slots were looked at."""
        self._idle = 0
        self._map_end_s = 0
        self.started = 0
        self.tested = 0
        self.planned = 0
        self.valid_until_s = 0
        self.cost_ns = 0

    def fits(self) -> bool:
        """The present queue and the present moment are plain enough."""
        ctld, queue = self._ctld, self._queue
        if not self.allowed or queue.odd or ctld.reservations.next_change_s(ctld.now_s()) is not None:
            return False
        if sum(1 for records in queue.in_part if records) != 1 or len(ctld.nodes) != self._everything.bit_length():
            return False
        most_ns = ctld.costs.backfill_cycle_ns + len(queue) * ctld.costs.backfill_test_ns
        options = self._options
        into_second_ns = (ctld.epoch_ns + ctld.env.now_ns) % SECOND
        return most_ns < min(options.yield_interval_ns, options.max_time_ns, SECOND - into_second_ns)

    def cycle(self) -> None:
        """One cycle; afterwards started, tested, planned, valid_until_s and cost_ns say what came of it."""
        ctld, queue = self._ctld, self._queue
        part = queue.entries[0][-1].part
        now_s = ctld.now_s()
        exact = len(queue) > self._options.max_job_test  # which jobs count as tested decides where the cycle ends
        base = (part.index, part.nodes & ctld.nodes.up, ctld.nodes.avail, exact)
        if base != self._base:
            self._base = base
            self._plans.clear()
        self.started = self.tested = self.planned = 0
        self._alive_at = -1
        self.valid_until_s = FAR_S
        self._map_end_s = (now_s + self._window_s) // self._resolution_s * self._resolution_s
        queue.lock()
        try:
            self._plan_all(now_s)
        finally:
            queue.unlock()
        for job in ctld.running.values():
            end_s = job.end_s
            if end_s < self.valid_until_s:
                self.valid_until_s = end_s if end_s > now_s else now_s + 1
        self.cost_ns = ctld.costs.backfill_cycle_ns + ctld.costs.backfill_test_ns * min(
            max(len(queue), self.tested), self._options.max_job_test
        )

    def _plan_all(self, now_s: int) -> None:
        """The walk over the queue."""
        kept = self._keep(now_s)
        if kept is not None:
            self._plan_anew(kept, now_s)

    # --- what can stay

    def _keep(self, now_s: int) -> int | None:
        """How many plans still hold; None: they do, and show that nothing behind them can start."""
        plans, entries = self._plans, self._queue.entries
        most = self._options.max_job_test
        search = self._chain() if plans else None
        kept, end = 0, min(len(plans), len(entries))
        reserved = False
        while kept < end:
            plan = plans[kept]
            if self.tested >= most:
                return None
            if plan.record is not entries[kept][-1] or search is None or not self._holds(plan, search, now_s):
                break
            kept += 1
            self._count(plan)
            if plan.reserved:
                reserved = True
            if reserved and self._nothing_can_start(plan.after, now_s):
                return None
        del plans[kept:]
        return kept

    def _holds(self, plan: Plan, search: UniformSearch, now_s: int) -> bool:
        """The same tries would end the same."""
        if now_s >= plan.bound_s:
            return False
        uniform = plan.record.uniform
        assert isinstance(uniform, tuple)
        count, choose = uniform
        freed, ends = search.freed, search.ends
        for nodes, until_s in plan.refused:
            free = freed[bisect_right(ends, until_s)] if until_s else freed[-1]
            if (free & nodes).bit_count() >= count:
                return False
        for usable, from_s, until_s, start_s, nodes in plan.answers:
            if start_s <= now_s:
                return False  # what was to come has come
            found = search.will_run(usable, count, choose, now_s, from_s or now_s, until_s, False)
            if found is None or found[1] != nodes or max(found[0], from_s) != start_s:
                return False
        return True

    def _count(self, plan: Plan) -> None:
        self.tested += plan.tested
        self.planned |= plan.reserved
        bound_s = min(plan.lasts_s, self._map_end_s) if plan.open_ended else plan.bound_s
        if bound_s < self.valid_until_s:
            self.valid_until_s = bound_s

    def _chain(self) -> UniformSearch:
        ctld = self._ctld
        running = list(ctld.running.values())
        key = (ctld.selection.usage_version, [job.end_s for job in running])
        if self._search is None or key != self._search_key:
            linear_s = self._options.window_linear_ns // SECOND
            self._search = UniformSearch(
                running, self._everything, linear_s, not self._latest, ctld.selection.guess_end
            )
            self._search_key = key
        return self._search

    def _nothing_can_start(self, slots: Slots, now_s: int) -> bool:
        """As BackfillCycle._nothing_can_start(), on a map kept from before."""
        begin, end, unreserved, _records = slots
        if self._alive_at != self._queue.version:
            self._alive_at = self._queue.version
            ((part, self._alive),) = self._queue.demand()
            self._idle = self._ctld.selection.free_nodes() & self._ctld.nodes.avail & part.nodes
        free, alive, last = self._idle, self._alive, len(begin)
        place = bisect_right(end, now_s)
        for number, (length_s, fewest) in enumerate(alive):
            over_s = now_s + length_s
            while place < last and begin[place] <= over_s:
                free &= unreserved[place]
                place += 1
            if free.bit_count() >= fewest:
                if number:
                    self._alive = alive[number:]
                return False
        return True

    # --- what must be planned anew

    def _plan_anew(self, kept: int, now_s: int) -> None:
        """Plan the records from number `kept` on."""
        plans, entries, options = self._plans, self._queue.entries, self._options
        self._chain()
        space = self._map(plans[kept - 1].after if kept else None, now_s)
        reserved = any(plan.reserved for plan in plans)
        for place in range(kept, len(entries)):
            if self.tested >= options.max_job_test:
                return
            plan = Plan(entries[place][-1])
            outcome = self._test(plan, space, now_s)
            plan.lasts_s = plan.bound_s
            if plan.open_ended:
                plan.bound_s = min(plan.bound_s, self._map_end_s)
            if outcome == "end":
                return
            if not plan.tested and self._skipped:
                plan.tested = self._had_nodes(plan.record, space)
            if outcome == "started":
                self._chain()
                self._alive_at = -1
                self.started += 1
                self.tested += plan.tested
                continue
            if not self.started and len(plans) < _MOST_KEPT:
                # behind a start the order of the queue no longer is that of the plans
                plan.after = (
                    (space.begin[:], space.end[:], space.free[:], space.records)
                    if plan.reserved or not plans
                    else plans[-1].after
                )
                plans.append(plan)
            self._count(plan)
            reserved = reserved or bool(plan.reserved)
            if reserved and self._nothing_can_start((space.begin, space.end, space.free, 0), now_s):
                return

    def _map(self, slots: Slots | None, now_s: int) -> NodeSpace:
        """The map as it was, its end moved on with the time; or an empty one."""
        space = NodeSpace(now_s, self._window_s, self._resolution_s, self._ctld.nodes.avail, None)
        if slots is not None:
            over_s = space.end[0]
            space.begin, space.end, space.free = slots[0][:], slots[1][:], slots[2][:]
            space.end[-1] = over_s
            space.records = slots[3]
            space.licenses = [None] * len(space.begin)
        return space

    def _test(self, plan: Plan, space: NodeSpace, now_s: int) -> str:
        """TRY_LATER: ... for one record: started, reserved, skip or end. See BackfillCycle._try_uniform()."""
        record, search = plan.record, self._search
        assert search is not None
        uniform = record.uniform
        assert isinstance(uniform, tuple)
        assert self._base is not None
        count, choose = uniform
        everywhere = self._base[1]
        begin, end, free = space.begin, space.end, space.free
        last, length_s = len(begin) - 1, record.shortest_s
        freed, ends = search.freed, search.ends
        exact, recorded = self._base[3], len(self._plans) < _MOST_KEPT
        skipped = self._skipped = []
        grows, caps = self._hints(space, search)
        start_s = now_s
        place = bisect_right(end, start_s)
        plan.open_ended = place == last
        if place < last and end[place] < plan.bound_s:
            plan.bound_s = end[place]
        while True:
            if end[-1] < start_s:
                self._bound_by_window(plan, space)
                return "skip"
            end_s = start_s + length_s
            ahead = place
            while ahead < last:  # on to the slot behind which more nodes are free; that one bounds this try
                if grows[ahead]:
                    if caps[ahead] >= count or begin[ahead] > end_s:
                        break
                    if exact:
                        skipped.append(start_s)
                    start_s = end[ahead]
                    if recorded:
                        plan.refused.append((free[ahead] & everywhere, start_s))
                    end_s = start_s + length_s
                    place = ahead + 1
                elif begin[ahead] > end_s:
                    break
                ahead += 1
            later_s = end[ahead] if ahead < last and grows[ahead] else 0
            avail = everywhere
            free_then = freed[bisect_right(ends, later_s)] if later_s else freed[-1]
            fits = True
            while place <= last and begin[place] <= end_s:
                avail &= free[place]
                place += 1
                if later_s and (avail & free_then).bit_count() < count:
                    fits = False
                    if exact:
                        skipped.append(start_s)
                    break
            if fits and place <= last:
                if not later_s and place + 1 < last:
                    later_s = end[place + 1]
                if start_s <= now_s and begin[place] - length_s < plan.bound_s:
                    plan.bound_s = begin[place] - length_s
            if not fits:
                plan.refused.append((avail, later_s))
            elif avail.bit_count() >= count:
                plan.tested = True
                found = search.will_run(avail, count, choose, now_s, start_s, later_s, False)
                if found is None:
                    plan.refused.append((avail, later_s))
                else:
                    from_s = start_s if start_s > now_s else 0
                    plan.answers.append((avail, from_s, later_s, max(found[0], from_s), found[1]))
                    outcome, again_s = self._with_start(plan, space, now_s, start_s, later_s, avail, found)
                    if outcome:
                        return outcome
                    later_s = again_s
            if not later_s:
                return "skip"
            start_s = later_s
            place = bisect_right(end, start_s)

    def _had_nodes(self, record: QueueRecord, space: NodeSpace) -> bool:
        """Some try cut short had as many unreserved nodes as the job needs, free or not: the job counts as tested."""
        uniform = record.uniform
        assert isinstance(uniform, tuple)
        assert self._base is not None
        for start_s in self._skipped:
            nodes = self._base[1]
            for place in range(bisect_right(space.end, start_s), len(space.end)):
                if space.begin[place] > start_s + record.shortest_s:
                    break
                nodes &= space.free[place]
            if nodes.bit_count() >= uniform[0]:
                return True
        return False

    def _hints(self, space: NodeSpace, search: UniformSearch) -> tuple[list[bool], list[int]]:
        """Per slot: whether nodes become free behind it, and how many can be free in it at most by its end."""
        if self._hints_of != (space, search):
            self._hints_of = (space, search)
            self._caps = []
            self._grows, self._caps = self._mended(space, search, 0, 0)
        return self._grows, self._caps

    def _mended(self, space: NodeSpace, search: UniformSearch, low: int, tail: int) -> tuple[list[bool], list[int]]:
        """The hints of all slots, computed only where the map changed."""
        assert self._base is not None
        everywhere = self._base[1]
        end, free = space.end, space.free
        count = len(end)
        known = bool(self._caps)
        begin_at = max(0, low - 1) if known else 0
        end_at = count - tail if known else count
        grows, caps = self._grows[:begin_at], self._caps[:begin_at]
        freed, ends = search.freed, search.ends
        for place in range(begin_at, end_at):
            here = free[place] & everywhere
            grows.append(place + 1 < count and bool(free[place + 1] & everywhere & ~here))
            caps.append((here & freed[bisect_right(ends, end[place])]).bit_count())
        if known and tail:
            grows += self._grows[-tail:]
            caps += self._caps[-tail:]
        return grows, caps

    def _with_start(
        self, plan: Plan, space: NodeSpace, now_s: int, tried_s: int, later_s: int, usable: int, found: tuple[int, int]
    ) -> tuple[str, int]:
        """(outcome, 0) or ("", where to try next). See BackfillCycle._with_start()."""
        record, nodes = plan.record, found[1]
        start_s = max(found[0], tried_s)
        begin_s, over_s = space.slot(start_s, record.shortest_s, True)
        if start_s > now_s:
            if space.overlaps(begin_s, over_s, nodes):
                return "", start_s + (space.resolution_s if start_s == tried_s and self._latest else 0)
        else:
            plan.bound_s = min(plan.bound_s, now_s + 1)
            later_s = 0
            if nodes & self._ctld.nodes.completing:
                start_s = now_s + 1
                begin_s, over_s = space.slot(start_s, record.shortest_s, True)
            elif not isinstance(attempt_start(self._ctld, record.job, record.part, usable, "backfill"), Refusal):
                self._ctld.last_job_update_s = self._ctld.now_s()
                return "started", 0
            if space.overlaps(begin_s, over_s, nodes):
                return "", start_s
        if later_s and start_s > later_s:
            return "", later_s
        if start_s > now_s + self._window_s:
            plan.bound_s = min(plan.bound_s, start_s - self._window_s)
            return "skip", 0
        if space.records >= self._options.node_space_size:
            return "end", 0
        if over_s >= space.end[-1]:
            self._bound_by_window(plan, space)
        unchanged = space.reserve(begin_s, over_s, nodes)
        assert self._search is not None
        self._grows, self._caps = self._mended(space, self._search, *unchanged)
        plan.reserved = nodes
        self._tell(record, start_s, nodes)
        return "reserved", 0

    def _bound_by_window(self, plan: Plan, space: NodeSpace) -> None:
        plan.bound_s = min(plan.bound_s, space.end[-1] + space.resolution_s - self._window_s)

    def _tell(self, record: QueueRecord, start_s: int, nodes: int) -> None:
        job, ctld = record.job, self._ctld
        first = not job.planned_start_s
        job.planned_start_s = start_s
        if first and job.state is JobState.PENDING:
            ctld.emit(Kind.JOB_PLANNED, "backfill", job.id, ctld.nodes.hostlist(nodes), ctld.at_s(start_s), "ns")
