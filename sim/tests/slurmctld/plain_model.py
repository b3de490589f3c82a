"""Slurm's two schedulers for whole one-CPU nodes in one partition, written to be read: the oracle of the fast ones.

One loop over seconds, nothing kept between passes, every job tested at every slot in every cycle. Rules: slurm.md
1.1, 1.2, 2.2 as 26.05 has them (slurmctld/job_scheduler.c, plugins/sched/backfill/backfill.c,
plugins/select/cons_tres/job_test.c _future_run_test()). Daemons cost no time; a job's end frees its nodes at
once. Times are whole seconds from slurmctld's start, which falls on a whole minute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

YEAR_S = 365 * 86_400


@dataclass
class PlainJob:
    number: int
    submit_s: int
    nodes: int
    run_s: int
    limit_s: int
    start_s: int | None = None
    held: int = 0
    """Bitmap of its nodes."""

    @property
    def expected_end_s(self) -> int:
        assert self.start_s is not None
        return self.start_s + self.limit_s

    @property
    def end_s(self) -> int:
        assert self.start_s is not None
        return self.start_s + self.run_s


@dataclass
class PlainSlurm:
    node_count: int
    choose: Callable[[int, int], int]
    """(free nodes, count) -> the nodes a job gets."""
    depth: int = 100
    full_every_s: int = 60
    loop_delay_s: int = 3
    interval_s: int = 30
    resolution_s: int = 60
    window_s: int = 86_400
    max_job_test: int = 500
    table_size: int = 500
    kill_wait_s: int = 30
    backfill: bool = True
    pass_at_end: bool = True
    """A job's end runs a pass at once (epilog message); otherwise it only queues one."""
    reserve_first: int = 0
    """bf_job_part_count_reserve; 0: everybody may reserve."""
    pending: list[PlainJob] = field(default_factory=list)
    running: list[PlainJob] = field(default_factory=list)
    last_update_s: int = -1
    planned: bool = False

    # the loop over time

    def run(self, jobs: list[PlainJob]) -> dict[int, tuple[int, int]]:
        """Start second and node bitmap of every job."""
        arrivals = sorted(jobs, key=lambda j: (j.submit_s, j.number))
        now, queued, loop_called_s = 0, False, 0
        next_look_s, last_cycle_s = self.interval_s, 0
        while arrivals or self.pending or self.running:
            wanted = full = False
            for job in [j for j in self.running if j.end_s == now]:
                self.running.remove(job)
                self.last_update_s = now
                if self.pass_at_end:
                    wanted = True
                else:
                    queued = True
            while arrivals and arrivals[0].submit_s == now:
                self.pending.append(arrivals.pop(0))
                self.last_update_s = now
                queued = True
            if now > 0:
                if now % self.full_every_s == 0:
                    wanted = full = True
                    queued, loop_called_s = False, now
                elif queued and now - loop_called_s >= self.loop_delay_s:
                    wanted, queued, loop_called_s = True, False, now
            if wanted:
                self.main_pass(now, full)
            if self.backfill and now == next_look_s:
                if now - last_cycle_s >= self.interval_s and self.last_update_s >= last_cycle_s:
                    self.cycle(now)
                    last_cycle_s, next_look_s = now, now + self.interval_s
                else:
                    next_look_s = now + 1
            now += 1
        return {j.number: (j.start_s, j.held) for j in jobs}  # type: ignore[misc]

    def free(self) -> int:
        free = (1 << self.node_count) - 1
        for job in self.running:
            free &= ~job.held
        return free

    def start(self, job: PlainJob, nodes: int, now: int) -> None:
        job.start_s, job.held = now, nodes
        self.pending.remove(job)
        self.running.append(job)
        self.last_update_s = now

    # the main pass

    def main_pass(self, now: int, full: bool) -> None:
        closed = False
        for place, job in enumerate(list(self.pending)):
            if not full and place > self.depth:
                return
            if closed:
                self.last_update_s = now
                continue
            free = self.free()
            if free.bit_count() >= job.nodes:
                self.start(job, self.choose(free, job.nodes), now)
            else:
                closed = True

    # backfill

    def cycle(self, now: int) -> None:
        if self.planned:
            self.last_update_s = now
        self.planned = False
        resolution = self.resolution_s
        slots = [
            [
                now // resolution * resolution,
                (now + self.window_s) // resolution * resolution,
                (1 << self.node_count) - 1,
            ]
        ]
        self.records = 1
        tested = reserved = 0
        for job in list(self.pending):
            if tested >= self.max_job_test:
                break
            may_reserve = not self.reserve_first or reserved < self.reserve_first
            outcome, was_tested = self.test(job, slots, now, may_reserve)
            tested += was_tested
            reserved += outcome == "reserved"
            if outcome == "full":
                break
        if self.planned:
            self.last_update_s = now

    def test(self, job: PlainJob, slots: list[list[int]], now: int, may_reserve: bool) -> tuple[str, bool]:
        tested = False
        try_s = now
        while True:
            if slots[-1][1] < try_s:
                return "beyond", tested
            usable, later_s = self.scan(job, slots, try_s)
            if usable.bit_count() >= job.nodes:
                tested = True
                found = self.will_run(job, usable, now, try_s, later_s, may_reserve)
            else:
                found = None
            if found is None:
                if not later_s or not may_reserve:
                    return "never", tested
                try_s = later_s
                continue
            start_s, nodes = max(found[0], try_s), found[1]
            begin = start_s // self.resolution_s * self.resolution_s
            end = (start_s + job.limit_s + self.resolution_s - 1) // self.resolution_s * self.resolution_s
            if start_s > now and any(s[1] > begin and s[0] < end and nodes & ~s[2] for s in slots):
                try_s = start_s + self.resolution_s if start_s == try_s else start_s
                continue
            if start_s <= now:
                self.start(job, self.choose(usable & self.free(), job.nodes), now)
                return "started", tested
            if not may_reserve:
                return "not reserved", tested
            if later_s and start_s > later_s:
                try_s = later_s
                continue
            if start_s > now + self.window_s:
                return "beyond", tested
            if self.records >= self.table_size:
                return "full", tested
            self.reserve(slots, begin, end, nodes)
            self.planned = True
            return "reserved", tested

    def scan(self, job: PlainJob, slots: list[list[int]], try_s: int) -> tuple[int, int]:
        """Nodes free in every slot the job would touch, and when to try next (0: never)."""
        usable = (1 << self.node_count) - 1
        later_s = 0
        for place, (begin, end, free) in enumerate(slots):
            last = place == len(slots) - 1
            if end > try_s and not last and not later_s and slots[place + 1][2] & ~(usable & free):
                later_s = end
            if end <= try_s:
                continue
            if begin > try_s + job.limit_s:
                if not later_s and not last and place + 1 < len(slots) - 1:
                    later_s = slots[place + 1][1]
                break
            usable &= free
        return usable, later_s

    def will_run(
        self, job: PlainJob, usable: int, now: int, try_s: int, until_s: int, future: bool
    ) -> tuple[int, int] | None:
        """Remove running jobs in order of expected end, in groups, until the job fits."""
        free = self.free() & usable
        if try_s <= now and free.bit_count() >= job.nodes:
            return now, self.choose(free, job.nodes)
        if not future:
            return None
        left = []
        for other in self.running:
            if other.expected_end_s <= try_s:
                free |= other.held & usable
            else:
                left.append(other)
        if free.bit_count() >= job.nodes:
            return now, self.choose(free, job.nodes)
        left.sort(key=lambda j: j.expected_end_s)
        if until_s:
            left = [j for j in left if j.expected_end_s <= until_s]
        usable_left = [j for j in left if j.held & usable]
        every_end = [j.expected_end_s for j in left]
        if not usable_left:
            return None
        first_s = usable_left[0].expected_end_s
        base_s = first_s + 30 - first_s % 30
        group_s = 30
        removed: list[PlainJob] = []
        place = 0
        while place < len(left):
            in_group = 0
            took = False
            crowded = False
            while place < len(left):
                other = left[place]
                place += 1
                if not other.held & usable:
                    continue
                free |= other.held & usable
                removed.append(other)
                took = True
                if place < len(left) and every_end[place] > base_s + group_s:
                    break
                if place < len(left) and in_group > 200:
                    crowded = True
                    break
                in_group += 1
            if not took:
                return None
            if crowded:
                continue
            if free.bit_count() >= job.nodes:
                nodes = self.choose(free, job.nodes)
                last = next(j for j in reversed(removed) if j.held & nodes)
                return self.ends_at(last, now), nodes
            while True:
                if group_s > YEAR_S:
                    break
                group_s *= 2
                if place >= len(left) or every_end[place] <= base_s + group_s:
                    break
        return None

    def ends_at(self, job: PlainJob, now: int) -> int:
        end_s = job.expected_end_s
        return end_s if end_s > now else max(end_s + self.kill_wait_s, now + 1)

    def reserve(self, slots: list[list[int]], begin: int, end: int, nodes: int) -> None:
        """Cut the map at begin and end (counting every new record ever made), and take the nodes out between."""
        begin = max(begin, slots[0][0])
        end = max(end, begin + self.resolution_s)
        before = next((i for i, s in enumerate(slots) if s[1] >= begin), None)
        if before is None:
            return
        first_pair = max(0, before - 1)
        if slots[before][1] > begin:
            slots.insert(before + 1, [begin, slots[before][1], slots[before][2]])
            slots[before][1] = begin
            self.records += 1
        place, after = before + 1, None
        while place < len(slots):
            if end < slots[place][1]:
                slots.insert(place + 1, [end, slots[place][1], slots[place][2]])
                slots[place][1] = end
                self.records += 1
            slots[place][2] &= ~nodes
            if slots[place][1] == end:
                after = place + 1
                break
            place += 1
        for i in range(first_pair, len(slots) - 1):
            if i == after:
                break
            if slots[i][2] == slots[i + 1][2]:
                slots[i][1] = slots[i + 1][1]
                del slots[i + 1]
                break
