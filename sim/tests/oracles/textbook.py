"""Textbook schedulers, slow and independent of the model: FCFS, EASY and conservative backfill on node sets.

At every instant at which a job arrives or ends, all ends count first, then all arrivals, then one decision is
made. A job takes the lowest-numbered nodes it may have. A node is promised to a job for a closed interval: two
jobs may follow each other on a node only if the second begins after the first ends.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Job:
    number: int
    submit: int
    nodes: int
    run: int
    limit: int
    start: int | None = None
    held: tuple[int, ...] = ()

    @property
    def over_by(self) -> int:
        assert self.start is not None
        return self.start + self.limit


class Textbook:
    """The loop over events; `decide` is what the schedulers differ in."""

    def __init__(self, nodes: int, jobs: list[Job]) -> None:
        self.nodes = nodes
        self.jobs = jobs
        self.queue: list[Job] = []
        self.running: list[Job] = []

    def run(self) -> dict[int, tuple[int, tuple[int, ...]]]:
        times = {job.submit for job in self.jobs}
        while times:
            now = min(times)
            times.remove(now)
            self.running = [j for j in self.running if j.start is not None and j.start + j.run != now]
            self.queue += sorted((j for j in self.jobs if j.submit == now), key=lambda j: j.number)
            before = list(self.running)
            self.decide(now)
            times |= {j.start + j.run for j in self.running if j not in before and j.start is not None}
        return {j.number: (j.start or 0, j.held) for j in self.jobs}

    def decide(self, now: int) -> None:
        raise NotImplementedError

    def idle(self) -> list[int]:
        taken = {n for j in self.running for n in j.held}
        return [n for n in range(self.nodes) if n not in taken]

    def begin(self, job: Job, nodes: list[int], now: int) -> None:
        job.start, job.held = now, tuple(nodes)
        self.queue.remove(job)
        self.running.append(job)

    def serve_in_order(self, now: int) -> None:
        """Start the head of the queue as long as it fits."""
        while self.queue and len(self.idle()) >= self.queue[0].nodes:
            self.begin(self.queue[0], self.idle()[: self.queue[0].nodes], now)


class Fcfs(Textbook):
    """First come, first served: nobody overtakes."""

    def decide(self, now: int) -> None:
        self.serve_in_order(now)


class Easy(Textbook):
    """Only the head of the queue has a promise; others may overtake if they do not touch it."""

    def decide(self, now: int) -> None:
        self.serve_in_order(now)
        if not self.queue:
            return
        head = self.queue[0]
        shadow, promised = self.promise(head)
        for job in self.queue[1:]:
            usable = [n for n in self.idle() if now + job.limit < shadow or n not in promised]
            if len(usable) >= job.nodes:
                self.begin(job, usable[: job.nodes], now)

    def promise(self, head: Job) -> tuple[int, set[int]]:
        """When enough nodes will be free by the limits of the running jobs, and which the head gets then."""
        for when in sorted({j.over_by for j in self.running}):
            free = set(self.idle()) | {n for j in self.running if j.over_by <= when for n in j.held}
            if len(free) >= head.nodes:
                return when, set(sorted(free)[: head.nodes])
        raise AssertionError("the head never fits")


class Conservative(Textbook):
    """Everybody has a promise, made in queue order and made anew at every event."""

    def decide(self, now: int) -> None:
        busy: dict[int, list[tuple[int, int]]] = {n: [] for n in range(self.nodes)}
        for job in self.running:
            for node in job.held:
                busy[node].append((now, job.over_by))
        for job in list(self.queue):
            when, nodes = self.earliest(job, busy, now)
            if when == now:
                self.begin(job, nodes, now)
            for node in nodes:
                busy[node].append((when, when + job.limit))

    def earliest(self, job: Job, busy: dict[int, list[tuple[int, int]]], now: int) -> tuple[int, list[int]]:
        for when in sorted({now} | {end for promises in busy.values() for _, end in promises}):
            end = when + job.limit
            free = [n for n, promises in busy.items() if all(b <= when or a > end for a, b in promises)]
            if len(free) >= job.nodes:
                return when, free[: job.nodes]
        raise AssertionError("the job never fits")
