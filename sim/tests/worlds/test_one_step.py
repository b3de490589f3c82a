"""One step from the recorded state: equal to real slurmctld, and red as soon as a rule is broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurmtwin.campaign.recordings import factor_of, recorded_jobs, recorded_scenario, start_times
from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.contract.hostlist import expand
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import Scenario
from slurmtwin.models.slurmctld.backfill_cycle import BackfillCycle
from slurmtwin.models.slurmctld.main_pass import MainPass
from slurmtwin.models.slurmctld.node_space import NodeSpace
from slurmtwin.worlds.led_twin import EPILOG_DOUBT_NS, LedTwin
from slurmtwin.worlds.one_step import passes, replay_starts
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin_reports.load import load_run

ROOT = Path(__file__).parents[3] / "scenarios"
RECORDINGS = [
    pytest.param(f"mixed/{version}/k1/1", id=f"mixed-{version}-k1") for version in ("22.05", "24.11", "26.05")
]
INTERVAL_NS = 30 * SECOND


def recorded(recording: str) -> tuple[Scenario, list[JobRequest], list[Any], StartTimes]:
    folder = ROOT / "recordings" / recording
    real, scenario = load_run(folder), recorded_scenario(folder)
    host = scenario.host.model_copy(update={"factor": factor_of(folder)})
    scenario = scenario.of_version(real.version).model_copy(update={"host": host})
    rows = list(real.rows())
    return scenario, recorded_jobs(folder), rows, start_times(real.manifest, scenario, rows)


def equal_share(recording: str) -> float:
    scenario, jobs, rows, times = recorded(recording)
    starts, same = replay_starts(scenario, ROOT / "workloads", jobs, rows, times)
    assert starts > 200
    return same / starts


@pytest.mark.parametrize("recording", RECORDINGS)
def test_the_twin_starts_the_same_job_on_the_same_nodes_as_recorded(recording: str) -> None:
    """At least 99 % of the starts of a congested workload, each from the recorded state before it."""
    assert equal_share(recording) >= 0.99


@pytest.mark.parametrize("recording", ["22.05/k20/3", "24.11/k20/1", "26.05/k20/1"])
def test_under_limits_of_many_kinds_the_twin_starts_what_was_recorded(recording: str) -> None:
    """Associations and QOS with limits on jobs, nodes, TRES and TRES minutes: every recorded start."""
    scenario, jobs, rows, times = recorded(f"limit-kinds/{recording}")
    starts, same = replay_starts(scenario, ROOT / "probes", jobs, rows, times)
    assert (starts >= 68, starts - same) == (True, 0)


def no_reservation(_space: NodeSpace, *_arguments: object) -> tuple[int, int]:
    return 0, 0


def nothing_closes(_main: MainPass, *_arguments: object) -> bool:
    return True


def not_up_to_the_end(cycle: BackfillCycle) -> bool:
    return cycle.tested > 20


BROKEN: list[tuple[type, str, Callable[..., object]]] = [
    (NodeSpace, "reserve", no_reservation),
    (MainPass, "_close", nothing_closes),
    (BackfillCycle, "_out_of_time", not_up_to_the_end),
]


@pytest.mark.parametrize(("owner", "name", "double"), BROKEN, ids=[name for _, name, _ in BROKEN])
def test_a_broken_rule_is_seen(
    owner: type, name: str, double: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Backfill without reservations, a main pass that never closes, a cycle that stops early: all below the bar."""
    monkeypatch.setattr(owner, name, double)
    assert equal_share("mixed/26.05/k1/1") < 0.99


def row(kind: Kind, t_s: float, job: int | None = None, by: str = "") -> SimpleNamespace:
    detail = f'{{"by":"{by}"}}' if by else None
    return SimpleNamespace(kind=kind, t_ns=round(t_s * SECOND), job_id=job, detail=detail)


def grouped(*rows: SimpleNamespace) -> list[list[int]]:
    return [[r.job_id for r in group] for group in passes(rows, INTERVAL_NS)]


def test_starts_of_one_cycle_stand_together() -> None:
    """Backfill sleeps bf_interval after a cycle, so starts closer than that are of one cycle."""
    first, near, far = (row(Kind.JOB_STARTED, t, job, "backfill") for job, t in ((1, 100), (2, 101), (3, 131)))
    assert grouped(first, near, far) == [[1, 2], [3]]


def test_main_passes_are_told_apart_by_their_log_line() -> None:
    """Each main pass is logged as it begins."""
    a, b, c = (row(Kind.JOB_STARTED, 100, job, "main") for job in (1, 2, 3))
    assert grouped(a, b, row(Kind.SCHED_MAIN_PASS, 100), c) == [[1, 2], [3]]


def test_an_end_divides_passes_and_a_submission_does_not() -> None:
    """A pass holds the locks: nothing ends in it, and what is submitted meanwhile was there before."""
    a, b, c = (row(Kind.JOB_STARTED, 100, job, "backfill") for job in (1, 2, 3))
    assert grouped(a, row(Kind.JOB_SUBMITTED, 100, 7), b, row(Kind.JOB_ENDED, 100, 8), c) == [[1, 7, 2], [8], [3]]


def test_a_submission_behind_the_last_start_of_a_pass_stands_alone() -> None:
    """It came when the pass was over."""
    a = row(Kind.JOB_STARTED, 100, 1, "backfill")
    assert grouped(a, row(Kind.JOB_SUBMITTED, 101, 7), row(Kind.JOB_ENDED, 102, 8)) == [[1], [7], [8]]


def led(recording: str) -> tuple[LedTwin, list[Any]]:
    scenario, jobs, rows, times = recorded(recording)
    return LedTwin(scenario, ROOT / "workloads", jobs, times), rows


def test_only_a_moment_ago_ended_runs_leave_their_nodes_in_doubt() -> None:
    """The log hides when COMPLETING ends, but not for longer than the host needs for it."""
    twin, rows = led("mixed/26.05/k1/1")
    end = next(row for row in rows if row.kind == Kind.JOB_ENDED)
    for row in rows[: rows.index(end)]:
        if row.kind == Kind.JOB_SUBMITTED:
            twin.advance(row.t_ns)
            twin.submit(row.job_id)
        elif row.kind == Kind.JOB_STARTED:
            twin.advance(row.t_ns)
            twin.start(row.job_id, None, twin.ctld.nodes.bitmap(expand(row.node)), "main")
    job = twin.record(end.job_id, None)
    assert job is not None
    assert job.alloc is not None
    nodes = job.alloc.nodes
    twin.advance(end.t_ns)
    twin.end(end.job_id, None, {"state": "COMPLETED"})
    assert twin.ctld.nodes.completing == nodes
    assert twin.other_completing(0) == [0]
    assert twin.other_completing(nodes) == []
    twin.advance(end.t_ns + EPILOG_DOUBT_NS + MS)
    assert twin.other_completing(0) == []
