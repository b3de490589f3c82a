"""A CPU limit of 50m is a quota: slurmd's start, a job's launch and a script's first sleep under the reference
operator (worlds/pod_limits.py)."""

from __future__ import annotations

import statistics
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from replicated_runs import SCENARIOS, replicated

from slurmtwin.campaign import pod_calibration
from slurmtwin.campaign.operator_spans import limited_starts
from slurmtwin.contract.clock import MS
from slurmtwin.contract.pods import PodsSection
from slurmtwin.contract.quantity import milli_cpu
from slurmtwin.engine.random_streams import RandomStreams
from slurmtwin.worlds.pod_durations import SHARES
from slurmtwin.worlds.pod_limits import (
    LIMITED,
    WAITS_NS,
    WORKER_MILLI_CPU,
    limited_launch,
    limited_script,
    limited_start,
)
from slurmtwin_reports.history import rows_of_events
from slurmtwin_reports.load import load_run

E2E = Path(__file__).parents[3] / "e2e" / "operators" / LIMITED / "operator.yaml"
ALONE_MS = {"script-launch": 33, "slurmd-start": 50, "slurmd-limited": 600}


def world() -> Any:
    return SimpleNamespace(
        streams=RandomStreams(7),
        cluster=SimpleNamespace(conf=SimpleNamespace(version="26.05")),
        draw=lambda name: lambda: ALONE_MS[name] * MS,
        happens=lambda name: lambda: name == "script.waits",
    )


def test_the_limit_is_that_of_the_recorded_workers() -> None:
    """e2e/operators/reference/operator.yaml."""
    made = yaml.safe_load(E2E.read_text(encoding="utf-8"))["create"]
    [workers] = [one for one in made if one["kind"] == "NodeSet"]
    assert milli_cpu(workers["spec"]["cpu"]) == WORKER_MILLI_CPU


def test_a_launch_of_33_ms_takes_two_to_three_periods_more_under_the_limit() -> None:
    """20 ms of CPU, 5 of them in each 100 ms; recorded 118 to 506 ms. Without the limit it is as it was."""
    limited, usual = (limited_launch(world(), PodsSection(operator=name)) for name in (LIMITED, "slinky"))
    drawn = [limited() / MS for _ in range(400)]
    assert 215 <= min(drawn) <= max(drawn) <= 320
    assert usual() == 33 * MS


def test_slurmds_start_is_measured_under_it() -> None:
    """Without a limit, and under that of a pod without an operator, it goes by slurmd's own."""
    starts = {name: limited_start(world(), PodsSection(operator=name)) for name in (LIMITED, "slinky")}
    assert (starts[LIMITED](), starts["slinky"]()) == (600 * MS, 50 * MS)


def test_a_script_waits_now_and_then_for_the_next_period() -> None:
    """34 of 122, by 97 ms; elsewhere none does."""
    waits = limited_script(world(), PodsSection(operator=LIMITED))
    assert waits is not None
    assert waits() == WAITS_NS
    assert limited_script(world(), PodsSection(operator="slinky")) is None
    assert SHARES["script.waits"] == (34, 122)


def test_new_workers_serve_as_late_as_recorded() -> None:
    """op-rolling-update #14 to #17, 16 workers: 459 to 971 ms."""
    recorded, twins = [], []
    for number in ("14", "15", "16", "17"):
        folder = SCENARIOS / "recordings" / "op-rolling-update" / "26.05" / "pods" / number
        seen = rows_of_events(replicated(SCENARIOS / "operator" / "op-rolling-update.yaml", number))
        for rows, out in ((load_run(folder).rows(), recorded), (seen, twins)):
            out += [(sum(serves) - sum(runs)) / 2 for runs, serves in limited_starts(list(rows))]
    assert len(recorded) == 16
    assert statistics.median(twins) == pytest.approx(statistics.median(recorded), rel=0.15)


def test_scripts_of_replications_last_their_time_or_97_ms_more() -> None:
    """op-delete's job of 40 s, in 30 replications: about as many wait as recorded."""
    lasted_ms = []
    for number in range(30):
        rows = rows_of_events(replicated(SCENARIOS / "operator" / "op-delete.yaml", "10", number))
        ends = {row.kind: row.t_ns for row in rows if row.job_id == 1 and row.kind.startswith("script.")}
        lasted_ms.append((ends["script.ended"] - ends["script.started"]) // MS)
    assert set(lasted_ms) == {40_000, 40_097}
    assert 3 <= lasted_ms.count(40_097) <= 15


def test_workers_of_slurm_operator_tell_nothing_of_that_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever starts its quiet runs show; those of quiet-operated count."""
    monkeypatch.setattr(pod_calibration, "limited_starts", lambda _rows: iter([((0.0, 50.0), (600.0, 602.0))]))
    for name, number, told in (("quiet-shrunk", "1", False), ("quiet-operated", "17", True)):
        folder = SCENARIOS / "recordings" / name / "26.05" / "pods" / number
        assert ("slurmd-limited" in pod_calibration.measure([folder])["durations"]) is told
