"""What one process writes behind the answer to what it wrote before (client-go; slurm-operator's syncs)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from replicated_runs import SCENARIOS, still_rows

from slurmtwin.adapters import operator_process, patches
from slurmtwin.adapters.operator_process import _Process
from slurmtwin.contract.clock import MS
from slurmtwin.contract.events import Kind
from slurmtwin.models.api_server.objects import Pod
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin_reports.history import Row

FAULTS = SCENARIOS / "faults"
WRITE_NS = 40 * MS


def run(name: str, times: StartTimes | None = None, **changed_ms: int) -> list[Row]:
    """A fault scenario at the medians."""
    return still_rows(FAULTS / f"{name}.yaml", times, **changed_ms)


def gap_ms(rows: list[Row]) -> float:
    """From the last Unhealthy of slurmctld's pod that is heard of to Killing."""
    heard = [row for row in rows if row.kind == Kind.KUBE_EVENT.value and row.actor == "collector"]
    killing = next(row.t_ns for row in heard if row.details["reason"] == "Killing")
    failed = max(row.t_ns for row in heard if row.details["reason"] == "Unhealthy" and row.t_ns < killing)
    return (killing - failed) / MS


def test_a_kubelets_event_is_written_behind_the_one_before_it() -> None:
    """A third Unhealthy and Killing are of one moment: they are heard of as far apart as an event takes to write."""
    for ms in (10, 110):
        assert gap_ms(run("x2-controller-hang", operator_event=ms)) == pytest.approx(ms, abs=3)


def settled(monkeypatch: pytest.MonkeyPatch, written_ns: int = 0) -> list[tuple[int, float]]:
    """Of each of slurm-operator's passes: how many conditions it wrote, and from its status to its end in times of a
    write, labels included, which take half of one; written_ns: what goes behind each."""
    found: list[tuple[int, float]] = []
    began: dict[int, int] = {}
    begun, over = _Process._settled, _Process._over

    def begin(process: _Process, deciding: Any, states: Any, good: bool) -> None:
        process._carrying = replace(process._carrying, write=lambda: WRITE_NS, written=lambda: written_ns)
        began[id(deciding)] = process.clock.now_ns
        begun(process, deciding, states, good)

    def end(process: _Process, deciding: Any, others: int, good: bool) -> None:
        if id(deciding) in began:
            found.append((others, (process.clock.now_ns - began.pop(id(deciding))) / WRITE_NS))
        over(process, deciding, others, good)

    monkeypatch.setattr(_Process, "_settled", begin)
    monkeypatch.setattr(_Process, "_over", end)
    run("x42-drain-protected")
    return found


def test_slurm_operator_writes_its_pods_conditions_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many writes as there are conditions, and one more for a status."""
    writes = settled(monkeypatch)
    assert max(others for others, _ in writes) >= 2
    assert [one for one in writes if not one[0] <= one[1] < one[0] + 1.5] == []


def test_some_time_goes_behind_each_write_of_slurm_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half as long as a write: before the next one, and before the pass is over."""
    writes = settled(monkeypatch, WRITE_NS // 2)
    assert max(others for others, _ in writes) >= 2
    assert [one for one in writes if not one[0] * 1.5 <= one[1] < (one[0] + 1) * 1.5 + 1] == []


def test_a_pass_is_over_some_time_behind_its_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind its other writes."""
    labelled: list[int] = []
    over: list[float] = []
    label = _Process._label

    def labels(process: _Process, item: Any, actions: list[Any], done: Any) -> None:
        process._carrying = replace(process._carrying, written=lambda: WRITE_NS)
        took_ns = process.clock.now_ns

        def end(good: bool) -> None:
            if some:
                over.append((process.clock.now_ns - took_ns) / WRITE_NS)
            done(good)

        some = bool(actions)
        labelled.extend([took_ns] * some)
        label(process, item, actions, end)

    monkeypatch.setattr(_Process, "_label", labels)
    run("x42-drain-protected")
    assert labelled
    assert all(1 <= times < 1.5 for times in over), over
    assert len(over) == len(labelled)


def test_a_pass_that_is_given_up_while_it_writes_deadlines_does_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass that writes w-1's deadline resumes it, unless a recorded pass took its place: then the next one does,
    which looks first."""
    written: list[int] = []
    begun, dated = _Process._date, patches.dated

    def begin(process: _Process, *arguments: Any) -> None:
        def tell(pod: Pod, deadline: str) -> Pod:
            written.append(process.clock.now_ns)
            return dated(pod, deadline)

        monkeypatch.setattr(operator_process, "dated", tell)
        begun(process, *arguments)

    monkeypatch.setattr(_Process, "_date", begin)

    def resumed(times: StartTimes) -> int:
        return next(r.t_ns for r in run("x34-stale-deadline", times) if r.kind == Kind.NODE_RESUMED.value)

    at_ns = resumed(StartTimes())
    writing = max(written_ns for written_ns in written if written_ns < at_ns)
    assert at_ns - writing < 60 * MS
    assert resumed(StartTimes(told_ns=writing)) - at_ns > 900 * MS
