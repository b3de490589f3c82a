"""What a pass of the reference operator tells at its end, as recorded (reference_impl shell/reconcile.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from replicated_runs import SCENARIOS, replicated, still_rows

from slurmtwin.adapters.operator_process import _Process
from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.models.api_server.errors import NotFoundError, UnreachableError, refused
from slurmtwin.worlds.twin import TwinOptions, run_scenario
from slurmtwin_operator.core.actions import Why
from slurmtwin_reports.history import Row, rows_of_events
from slurmtwin_reports.load import load_run

OP_DELETE = SCENARIOS / "operator" / "op-delete.yaml"
STATUS = "status"
Told = list[tuple[int, str]]


def told(rows: Iterable[Row]) -> Told:
    """What a watcher hears of the node set, and when: its events (reason, message), changes of its status."""
    out: Told = []
    for row in rows:
        said = row.details
        if row.kind == "kube.event" and row.actor == "collector" and str(said.get("about", "")).startswith("NodeSet/"):
            out.append((row.t_ns, f"{said['reason']} {said['message']}"))
        elif row.kind == "object.changed" and row.actor == "collector" and said.get("resource") == "NodeSet":
            out.append((row.t_ns, STATUS))
    return out


def of_first_pass(rows: Iterable[Row]) -> list[str]:
    """Of op-delete, behind its step: each event once, however many a watch brings at once."""
    return [what for at_ns, what in told(rows) if 8 * SECOND < at_ns < 9 * SECOND]


@pytest.mark.parametrize("recording", ["10", "11", "12"])
def test_a_pass_tells_what_is_new_between_its_memory_and_its_status_as_recorded(recording: str) -> None:
    """op-delete's step, the memory, four drains, ScaleIn and WaitsForJobs of each worker, then the status."""
    folder = SCENARIOS / "recordings" / "op-delete" / "26.05" / "pods" / recording
    recorded = of_first_pass(load_run(folder).rows())
    workers = [f"w-{n}" for n in range(4)]
    events = [f"{why} {node}" for why in (Why.SCALE_IN, Why.WAITS_FOR_JOBS) for node in workers]
    assert recorded == [STATUS, STATUS, *events, STATUS]
    assert of_first_pass(rows_of_events(replicated(OP_DELETE, recording, 0))) == recorded


def test_a_reason_is_told_once_while_each_pass_has_it() -> None:
    """The busy worker waits for its job in passes of half a minute."""
    events = [what for _, what in told(still_rows(OP_DELETE))]
    waits = [what for what in events if what == f"{Why.WAITS_FOR_JOBS} w-0"]
    assert len(waits) == 1
    assert events.count(f"{Why.PRUNED} w-0") == 1


def first(rows: list[Row], kind: Kind, **said: Any) -> int:
    return next(r.t_ns for r in rows if r.kind == kind.value and said.items() <= r.details.items())


def test_the_status_and_the_next_pass_come_behind_its_events() -> None:
    """Events of 100 ms more each: the status is as much later, and so is what the pass asks for 5 s behind its end."""
    seen = {ms: still_rows(OP_DELETE, operator_event=ms) for ms in (10, 110)}
    count = len([what for what in of_first_pass(seen[10]) if what != STATUS])
    assert count >= 6
    ends = {ms: [at for at, what in told(rows) if what == STATUS and at > 8 * SECOND] for ms, rows in seen.items()}
    assert ends[110][2] - ends[10][2] == pytest.approx(count * 100 * MS, abs=3 * MS)
    deleting = {ms: first(rows, Kind.POD_DELETING, app="slurmd") for ms, rows in seen.items()}
    assert deleting[110] - deleting[10] == pytest.approx(count * 100 * MS, abs=10 * MS)
    drained = {ms: first(rows, Kind.NODE_DRAINED) for ms, rows in seen.items()}
    assert drained[110] == drained[10]


def passes(rest_down: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """When each pass over op-rest-away's node set ended, and whether it was good."""
    path = SCENARIOS / "operator" / "op-rest-away.yaml"
    ended: list[tuple[int, bool]] = []
    begun = _Process._pass

    def noted(process: _Process, key: str, finished: Any) -> None:
        def over(good: bool) -> None:
            ended.append((process.clock.now_ns, good))
            finished(good)

        begun(process, key, over)

    monkeypatch.setattr(_Process, "_pass", noted)
    scenario = load_scenario(path)
    assert scenario.pods is not None
    pods = scenario.pods.model_copy(update={"switches": {**scenario.pods.switches, "rest_down": rest_down}})
    run_scenario(scenario.model_copy(update={"pods": pods}), path.parent, TwinOptions(keep=True, still=True))
    return ended


def test_a_pass_that_ends_where_slurmrestd_is_away_has_failed_whatever_it_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its status is written or the same, and it is tried again by its back-off (rest_down stop-pass)."""
    away = [good for at_ns, good in passes("stop-pass", monkeypatch) if 20 * SECOND < at_ns < 60 * SECOND]
    assert away
    assert not any(away)


def test_a_pass_that_goes_on_without_slurmrestd_is_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """rest_down go-on, as it was recorded."""
    away = [good for at_ns, good in passes("go-on", monkeypatch) if 20 * SECOND < at_ns < 60 * SECOND]
    assert away
    assert all(away)


def test_the_status_of_a_node_set_that_is_gone_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """op-delete: the last pass takes its finalizer away; the API server knows the set no more."""
    ended: list[bool] = []
    over = _Process._over

    def noted(process: _Process, deciding: Any, others: int, good: bool) -> None:
        ended.append(good)
        over(process, deciding, others, good)

    monkeypatch.setattr(_Process, "_over", noted)
    still_rows(OP_DELETE)
    assert ended
    assert all(ended)
    assert not refused(NotFoundError("gone"))
    assert refused(UnreachableError("away"))
