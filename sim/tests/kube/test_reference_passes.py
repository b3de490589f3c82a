"""What a pass of the reference operator tells at its end, as recorded (reference_impl shell/reconcile.py)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from replicated_runs import SCENARIOS, replicated

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.worlds.pod_durations import still_durations
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


def run(path: Path = OP_DELETE, **changed: int) -> list[Row]:
    """With these durations in ms, the others at their medians."""
    durations = still_durations() | {name.replace("_", "-"): (ms * MS,) for name, ms in changed.items()}
    kept = run_scenario(load_scenario(path), path.parent, TwinOptions(keep=True, durations=durations, still=True)).kept
    return list(rows_of_events(kept or []))


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
    events = [what for _, what in told(run())]
    waits = [what for what in events if what == f"{Why.WAITS_FOR_JOBS} w-0"]
    assert len(waits) == 1
    assert events.count(f"{Why.PRUNED} w-0") == 1


def first(rows: list[Row], kind: Kind, **said: Any) -> int:
    return next(r.t_ns for r in rows if r.kind == kind.value and said.items() <= r.details.items())


def test_the_status_and_the_next_pass_come_behind_its_events() -> None:
    """Events of 100 ms more each: the status is as much later, and so is what the pass asks for 5 s behind its end."""
    seen = {ms: run(operator_event=ms) for ms in (10, 110)}
    count = len([what for what in of_first_pass(seen[10]) if what != STATUS])
    assert count >= 6
    ends = {ms: [at for at, what in told(rows) if what == STATUS and at > 8 * SECOND] for ms, rows in seen.items()}
    assert ends[110][2] - ends[10][2] == pytest.approx(count * 100 * MS, abs=3 * MS)
    deleting = {ms: first(rows, Kind.POD_DELETING, app="slurmd") for ms, rows in seen.items()}
    assert deleting[110] - deleting[10] == pytest.approx(count * 100 * MS, abs=10 * MS)
    drained = {ms: first(rows, Kind.NODE_DRAINED) for ms, rows in seen.items()}
    assert drained[110] == drained[10]
