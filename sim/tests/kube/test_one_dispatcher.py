"""One core on two clocks: the process beside doubles of clusters, and the twin's carrier, send and cancel alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from slurmtwin.adapters.job_dispatch import JobDispatcher as TwinDispatcher
from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import Dispatch
from slurmtwin.engine.environment import Environment, RunBudget
from slurmtwin_operator.core.job_dispatch import COPY
from slurmtwin_operator.shell.job_dispatcher import DispatchedJob, DispatcherFile, JobDispatcher
from slurmtwin_operator.shell.slurm_rest import SlurmError

END_NS = 100 * SECOND
SPEC = Dispatch.model_validate({
    "clusters": ["a", "b"], "policy": "least-loaded", "staleness": "5s", "lost_after": "20s", "patience": "1s",
})  # fmt: skip
JOBS = [JobRequest(job_id=number, submit_ns=at * SECOND, ntasks=1) for number, at in ((1, 1), (2, 7), (3, 23))]
Act = tuple[int, str, str, int]
"""Whole second, submit or cancel, cluster, copy."""
Away = Callable[[str, int], bool]


class Jobs:
    """The jobs of one cluster of four CPUs, and what was done to them."""

    def __init__(self, name: str, acts: list[Act]) -> None:
        self.name, self.acts = name, acts
        self.live: list[int] = []

    def submit(self, copy: int, now_ns: int) -> None:
        """It runs until it is cancelled."""
        self.acts.append((now_ns // SECOND, "submit", self.name, copy))
        self.live.append(copy)

    def cancel(self, copy: int, now_ns: int) -> None:
        """Gone at once."""
        self.acts.append((now_ns // SECOND, "cancel", self.name, copy))
        self.live.remove(copy)


class Rest:
    """A cluster as the process asks it, on a clock that only waits move."""

    def __init__(self, jobs: Jobs, clock: Clock, away: Away) -> None:
        self.jobs, self.clock, self.away = jobs, clock, away

    async def _answer(self) -> None:
        until_ns = self.clock.now_ns + SPEC.patience
        if not self.away(self.jobs.name, self.clock.now_ns):
            return
        while self.clock.now_ns < until_ns:
            await asyncio.sleep(0)
        raise SlurmError("no answer in time", False)

    async def load(self) -> tuple[int, int, dict[int, int]]:
        """Four CPUs, and its jobs by their own numbers."""
        await self._answer()
        return 4, len(self.jobs.live), {copy: copy for copy in self.jobs.live}

    async def submit(self, _job: DispatchedJob, copy_number: int) -> int:
        """Taken."""
        await self._answer()
        self.jobs.submit(copy_number, self.clock.now_ns)
        return copy_number

    async def cancel(self, slurm_id: int) -> None:
        """Gone."""
        await self._answer()
        self.jobs.cancel(slurm_id, self.clock.now_ns)


class Clock:
    """Stands still but for waits."""

    now_ns = 0

    async def wait(self, stop: asyncio.Event, limit_s: float) -> None:
        """So long, in no time, after all that can run."""
        for _ in range(20):
            await asyncio.sleep(0)
        self.now_ns += max(1, round(limit_s * SECOND))
        if self.now_ns >= END_NS:
            stop.set()


def by_process(away: Away) -> list[Act]:
    """What the process does."""
    acts: list[Act] = []
    clock = Clock()
    place = {"url": "http://127.0.0.1:1", "key": "/nowhere", "version": "26.05"}
    file = DispatcherFile.model_validate({
        "zero_ns": 0, "staleness_ns": SPEC.staleness, "lost_after_ns": SPEC.lost_after, "patience_ns": SPEC.patience,
        "user": "researcher", "clusters": [{"name": name, "partition": name} | place for name in SPEC.clusters],
        "jobs": [{"number": j.job_id, "at_ns": j.submit_ns, "cpus": 1, "limit_min": 1, "script": ""} for j in JOBS],
    })  # fmt: skip

    async def story() -> None:
        clusters: dict[str, Any] = {name: Rest(Jobs(name, acts), clock, away) for name in SPEC.clusters}
        one = JobDispatcher(file, clusters, lambda *_, **__: None, lambda: clock.now_ns, clock.wait)
        await one.run(asyncio.Event())

    asyncio.run(story())
    return acts


class Port:
    """A cluster as the twin's carrier asks it: a slurmctld of names and CPUs alone."""

    def __init__(self, jobs: Jobs, env: Environment, away: Away) -> None:
        self.jobs, self.env, self.away = jobs, env, away
        self.nodes = SimpleNamespace(nodes=[])
        self.lifecycle = SimpleNamespace(
            submit=lambda request: jobs.submit(request.job_id, env.now_ns),
            cancel=lambda copy: jobs.cancel(copy, env.now_ns),
        )

    def ask(self, what: Callable[[Any], None], failed: Callable[[], None]) -> None:
        """At once, or silence after `patience`."""
        if self.away(self.jobs.name, self.env.now_ns):
            self.env.call_in(SPEC.patience, lambda _: failed())
        else:
            what(self)


def by_twin(away: Away, monkeypatch: pytest.MonkeyPatch) -> list[Act]:
    """What the twin's carrier does."""
    from slurmtwin_operator.core.job_dispatch import Heard

    acts: list[Act] = []
    env = Environment()
    ports: dict[str, Any] = {name: Port(Jobs(name, acts), env, away) for name in SPEC.clusters}
    one = TwinDispatcher(env, SPEC, ports, JOBS, lambda _: 1, lambda: None)

    def heard(name: str, asked_ns: int, _ctld: Any) -> Heard:
        live = ports[name].jobs.live
        return Heard(name, asked_ns, True, 4, len(live), tuple(sorted(live)))

    monkeypatch.setattr(one, "_heard", heard)
    one.start()
    env.run_within(RunBudget(max_time_ns=END_NS - 1))
    return acts


def spans(*cut: tuple[str, float, float]) -> Away:
    """Clusters out of reach from and to so many seconds."""
    return lambda name, now_ns: any(name == n and a * SECOND <= now_ns < b * SECOND for n, a, b in cut)


CUTS = {
    "none": (), "short": (("a", 11, 29),), "lost": (("a", 12, 1000),), "back": (("a", 12, 48),),
    "both": (("a", 12, 48), ("b", 13, 57)), "one after the other": (("a", 3, 33), ("b", 38, 71)),
    "again and again": (("a", 2, 31), ("a", 36, 66)), "late": (("b", 0, 12),),
}  # fmt: skip


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_process_and_twin_send_and_cancel_alike(
    cut: tuple[tuple[str, float, float], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same acts at the same seconds, whatever is cut off."""
    away = spans(*cut)
    acts = by_twin(away, monkeypatch)
    assert by_process(away) == acts
    assert {copy % COPY for _, what, _, copy in acts if what == "submit"} == {1, 2, 3}


def test_the_cuts_are_of_many_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among them are copies, cancels, and a copy of a copy."""
    acts = [act for cut in CUTS.values() for act in by_twin(spans(*cut), monkeypatch)]
    assert max(copy // COPY for *_, copy in acts) == 2
    assert {what for _, what, _, _ in acts} == {"submit", "cancel"}
