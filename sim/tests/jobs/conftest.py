"""A whole twin with a host that costs nothing: every time in a test follows from Slurm's rules alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import Scenario
from slurmtwin.models.slurmctld.host_costs import HostCosts
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, run_scenario

SERVES_S = -8
"""slurmctld serves then; the nodes register 1 s later, the pass that this asks for comes at -5. So full passes and
purges are at 52, 112, 172 ..., time-limit scans and the first backfill cycle at 22, 52, 82 ... seconds."""


@dataclass(frozen=True)
class Story:
    """The events of a run, asked by job."""

    events: Sequence[Event]

    def of(self, job: int, kind: Kind) -> list[tuple[float, dict[str, Any]]]:
        """(seconds, detail) of every such event of the job."""
        return [
            (e.t_ns / SECOND, json.loads(e.detail) if e.detail else {})
            for e in self.events
            if e.job_id == job and e.kind is kind
        ]

    def times(self, job: int, kind: Kind) -> list[float]:
        """When such an event of the job happened."""
        return [t for t, _ in self.of(job, kind)]

    def starts(self, job: int) -> list[float]:
        """Start times of the job's runs, seconds."""
        return self.times(job, Kind.JOB_STARTED)

    def ends(self, job: int) -> list[tuple[float, str]]:
        """(seconds, state) of each end of a run."""
        return [(t, d["state"]) for t, d in self.of(job, Kind.JOB_ENDED)]

    def nodes(self, job: int) -> list[str | None]:
        """Nodes of each run."""
        return [e.node for e in self.events if e.job_id == job and e.kind is Kind.JOB_STARTED]


def _a_job(
    number: int, submit: float = 0.5, run: float | None = 10, minutes: int | None = 5, **options: Any
) -> JobRequest:
    """One request; seconds and minutes, whole nodes by `nodes=`."""
    nodes = options.pop("nodes", 1)
    return JobRequest(
        job_id=number,
        submit_ns=round(submit * SECOND),
        run_ns=None if run is None else round(run * SECOND),
        limit_ns=None if minutes is None else minutes * 60 * SECOND,
        nodes_min=nodes,
        **options,
    )


@pytest.fixture
def a_job() -> Callable[..., JobRequest]:
    """a_job(number, submit=0.5, run=10, minutes=5, nodes=1, **options of JobRequest)."""
    return _a_job


@pytest.fixture
def run_twin() -> Callable[..., Story]:
    """Run jobs on `nodes` one-CPU nodes n1.. and give the story."""

    def run(
        jobs: Sequence[JobRequest],
        conf: dict[str, Any] | None = None,
        version: str = "26.05",
        nodes: int = 2,
        faults: Sequence[dict[str, Any]] = (),
        partitions: Sequence[dict[str, Any]] = (),
        costs: HostCosts | None = None,
        **slurm: Any,
    ) -> Story:
        main = {"PartitionName": "main", "Nodes": "ALL", "Default": "YES", "MaxTime": "INFINITE", "State": "UP"}
        document = {
            "schema": "slurmtwin/scenario/1",
            "name": "test",
            "slurm": {
                "version": version,
                "conf": {"SelectType": "select/linear", **(conf or {})},
                "nodes": [{"NodeName": f"n[1-{nodes}]", "CPUs": 1, "RealMemory": 1000}],
                "partitions": list(partitions) or [main],
                **slurm,
            },
            "faults": list(faults),
            "budget": {"max_time": "4000s"},
        }
        times = StartTimes(slurmctld_ns=SERVES_S * SECOND, slurmd_ns=(SERVES_S + 1) * SECOND)
        options = TwinOptions(keep=True, times=times, costs=costs or HostCosts())
        result = run_scenario(Scenario.model_validate(document), ".", options, jobs)
        return Story(result.kept or [])

    return run
