"""The floor: what SimPy alone costs for the same jobs under bare EASY counts: no Slurm, no nodes, no events."""

from __future__ import annotations

from bisect import insort

import simpy


def easy_starts(jobs: list[tuple[int, int, int, int]], nodes: int) -> list[int]:
    """Start times of (submit, size, run, limit) jobs under EASY, by SimPy callbacks: one timer per arrival and end."""
    env = simpy.Environment()
    starts = [0] * len(jobs)
    queue: list[int] = []
    ends: list[tuple[int, int, int]] = []
    free = nodes

    def begin(place: int) -> None:
        nonlocal free
        _, size, run, limit = jobs[place]
        now = int(env.now)
        free -= size
        starts[place] = now
        insort(ends, (now + limit, place, size))
        env.timeout(run, place).callbacks.append(end)

    def end(event: simpy.events.Event) -> None:
        nonlocal free
        place = event.value
        _, size, _, limit = jobs[place]
        ends.remove((starts[place] + limit, place, size))
        free += size
        schedule()

    def schedule() -> None:
        while queue and jobs[queue[0]][1] <= free:
            begin(queue.pop(0))
        if len(queue) < 2 or not free:
            return
        head, spare, shadow = jobs[queue[0]][1], free, 0
        for shadow, _, size in ends:  # noqa: B007  the last one reached is wanted
            spare += size
            if spare >= head:
                break
        spare -= head
        for place in queue[1:]:
            _, size, _, limit = jobs[place]
            if size > free or (env.now + limit > shadow and size > spare):
                continue
            if env.now + limit > shadow:
                spare -= size
            queue.remove(place)
            begin(place)
            if not free:
                return

    def arrive(event: simpy.events.Event) -> None:
        place = event.value
        queue.append(place)
        if place + 1 < len(jobs):
            env.timeout(jobs[place + 1][0] - jobs[place][0], place + 1).callbacks.append(arrive)
        schedule()

    env.timeout(jobs[0][0], 0).callbacks.append(arrive)
    env.run()
    return starts
