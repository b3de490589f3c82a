"""When an operator polled last before the fault, from the passes it recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slurmtwin.campaign.recorded_passes import Pass, last_poll_ns, lone_looks, read_passes, stored_memories
from slurmtwin.campaign.recordings import with_poll
from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, run_scenario
from slurmtwin_reports.history import Row, rows_of_events

RECORDINGS = Path("scenarios/recordings")
FAULT_NS = 100 * SECOND


def passes(*each: tuple[str, float, float | None]) -> list[Pass]:
    """Kind, decision and begin in seconds; without a begin slurmrestd gave no answer."""
    return [
        Pass(kind, None if began_s is None else round(began_s * SECOND), round(decided_s * SECOND))
        for kind, decided_s, began_s in each
    ]


def read_scenario(folder: str) -> Scenario:
    return load_scenario(Path("scenarios/operator") / f"{Path(folder).parts[0]}.yaml")


POLL = (("NodeSet", 60.03, 60.0), ("Cluster", 60.05, 60.002))


def test_two_kinds_at_once_are_a_poll() -> None:
    """Passes that a change of one object wakes lie alone."""
    alone = ("NodeSet", 80.03, 80.0), ("Cluster", 80.5, 80.4)
    assert last_poll_ns(passes(("Cluster", 20.0, 19.9), *POLL, *alone), FAULT_NS) == 60 * SECOND


def test_a_pair_behind_the_fault_tells_nothing_alone() -> None:
    """It may be what the fault woke."""
    late = ("NodeSet", 100.03, 99.99), ("Cluster", 100.05, 99.995)
    for lives_on in (False, True):
        assert last_poll_ns(passes(*POLL, *late), FAULT_NS, lives_on) == 60 * SECOND
        assert last_poll_ns(passes(*late), FAULT_NS, lives_on) is None


LATER = [("NodeSet", 104.1, 104.05), ("Cluster", 104.2, 104.1), ("NodeSet", 194.03, 194.06), ("Cluster", 194.1, 194.06)]


def test_pairs_behind_the_fault_show_the_clock_of_a_process_that_lives_on() -> None:
    """Three periods apart, so polls came each 30 s before them too, the last one 14 s ago (op-config-change 15)."""
    woken = ("NodeSet", 100.3, 100.12), ("Cluster", 100.3, 100.12)
    assert last_poll_ns(passes(*woken, *LATER), FAULT_NS) is None
    assert last_poll_ns(passes(*woken, *LATER), FAULT_NS, lives_on=True) == round(74.05 * SECOND)
    assert last_poll_ns(passes(*POLL, *woken, *LATER), FAULT_NS, lives_on=True) == 60 * SECOND


def test_two_that_begin_nearly_at_once_are_a_poll_where_two_more_are_a_period_later() -> None:
    """On a busy host a poll's passes begin 40 to 140 ms apart (op-delete 1 to 3): alone they may be anything."""
    nearly = ("Cluster", 60.05, 60.0), ("NodeSet", 60.13, 60.09)
    later = ("NodeSet", 120.1, 120.05), ("Cluster", 120.09, 120.06)
    other = ("NodeSet", 131.1, 131.05), ("Cluster", 131.09, 131.06)
    assert last_poll_ns(passes(*nearly, *later), FAULT_NS) == 60 * SECOND
    assert last_poll_ns(passes(*nearly), FAULT_NS) is None
    assert last_poll_ns(passes(*nearly, *other), FAULT_NS) is None
    assert last_poll_ns(passes(*later), FAULT_NS) is None


def test_passes_that_follow_others_at_once_are_no_poll() -> None:
    """Both objects were woken while slurmrestd did not answer: when, nobody knows (op-kubectl-drain 2)."""
    before = ("Cluster", 59.95, None), ("NodeSet", 59.96, None)
    assert last_poll_ns(passes(*before, *POLL), FAULT_NS) is None


def test_a_pass_without_an_answer_has_no_begin() -> None:
    """Its decision comes when the call is given up."""
    assert last_poll_ns(passes(("NodeSet", 60.0, None), ("Cluster", 60.0, None)), FAULT_NS) is None


FOUND = [
    ("op-scale/26.05/pods/9", 22.362), ("op-kubectl-drain/26.05/pods/3", 2.922),
    ("op-delete/26.05/pods/9", 10.772), ("op-config-change/26.05/pods/15", 28.313),
    ("op-operator-killed/26.05/pods/1", None),
]  # fmt: skip


@pytest.mark.parametrize(("folder", "before_s"), FOUND)
def test_recorded_polls_are_found(folder: str, before_s: float | None) -> None:
    """So long before the fault. In the fourth pairs behind it show it alone; in the last one those are of the operator
    that came for the killed one."""
    from slurmtwin_reports.load import load_run

    run = load_run(RECORDINGS / folder)
    fault_ns = next(int(row.t_ns) for row in run.rows() if row.kind == Kind.FAULT_INJECTED)
    times = StartTimes(epoch_ns=int(run.manifest.parameters["epoch_ns"]), fault_ns=(fault_ns,))
    found = with_poll(times, RECORDINGS / folder, read_scenario(folder)).poll_ns
    assert (found is None) == (before_s is None)
    if found is not None and before_s is not None:
        assert (fault_ns - found) / SECOND == pytest.approx(before_s, abs=0.001)


def test_a_recording_without_passes_or_faults_has_no_poll(tmp_path: Path) -> None:
    """Other operators record none; without a fault nothing is judged."""
    assert read_passes(tmp_path, 0) == []
    quiet = StartTimes(epoch_ns=0)
    assert with_poll(quiet, RECORDINGS / "op-scale/26.05/pods/9", read_scenario("op-scale")) == quiet


def lone(decided_s: float, *, began: bool = True, again_s: float = 5.0, writes: bool = False) -> Pass:
    """A pass of the NodeSet."""
    at_ns = round(decided_s * SECOND)
    return Pass("NodeSet", at_ns - 10 * MS if began else None, at_ns, round(again_s * SECOND), writes)


def test_a_pass_that_the_last_one_asked_for_tells_what_a_look_takes() -> None:
    """From its time to its decision; the Cluster's passes between two tell nothing of them."""
    found = list(lone_looks([lone(1.0), *passes(("Cluster", 3.0, 2.9)), lone(6.016)]))
    assert found == [((6000.0, 6000.0), (6016.0, 6016.0))]


@pytest.mark.parametrize(
    "two",
    [
        (lone(1.0, writes=True), lone(6.016)),
        (lone(1.0), lone(5.99)),
        (lone(1.0), lone(6.25)),
        (lone(1.0), lone(6.016, began=False)),
        (lone(1.0, again_s=10.0), lone(6.016)),
    ],
)
def test_other_passes_tell_nothing_of_a_look(two: tuple[Pass, Pass]) -> None:
    """The last one wrote, which ends behind its decision; another cause woke this one, or kept it waiting; slurmrestd
    was away; its time is another one."""
    assert not list(lone_looks(two))


def test_recorded_passes_that_wait_for_a_job_take_a_lone_look() -> None:
    """op-delete 30, whose wait met no poll: five passes behind each other; those that drain and delete are none of
    them, nor is the first behind the idle workers' end, as that one wrote."""
    read = read_passes(RECORDINGS / "op-delete/26.05/pods/30", 0)
    took_ms = [round(decided[0] - due[0], 1) for due, decided in lone_looks(read)]
    assert took_ms == [18.4, 17.1, 16.9, 18.6, 26.4]


def scaled_rows(kind: str, *changed_ms: int) -> list[Row]:
    """A step, then changes of the node set as a watch tells of them."""
    step = Event(0, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": {"kind": kind}}))
    detail = json.dumps({"resource": "NodeSet"})
    return rows_of_events(
        [step, *(Event(ms * MS, Kind.OBJECT_CHANGED, "collector", detail=detail) for ms in changed_ms)]
    )


def test_a_pass_that_remembers_tells_when_the_api_server_has_it() -> None:
    """A watch takes 1 to 8 ms. Not of a pass that stores nothing, one of which nobody heard within 0.25 s, nor one in
    a run that scales nothing."""
    remembers = replace(lone(1.0, writes=True), remembers=True)
    late = replace(lone(9.0, writes=True), remembers=True)
    rows = scaled_rows("operator.scale", 900, 1012, 1100, 6030)
    assert list(stored_memories([remembers, lone(6.016), late], rows)) == [((1000.0, 1000.0), (1004.0, 1011.0))]
    assert not list(stored_memories([remembers], scaled_rows("operator.configure", 1012)))


def test_broken_passes_are_named(tmp_path: Path) -> None:
    """Not a gzip file: the error says which."""
    (tmp_path / "plans.jsonl.gz").write_text("x")
    with pytest.raises(InputError, match="no recorded passes"):
        read_passes(tmp_path, 0)


@pytest.mark.parametrize(("factor", "first_s"), [(1.0, 58.0), (0.5, 43.0), (2.0, 58.0)])
def test_the_operator_polls_on_from_the_recorded_poll(factor: float, first_s: float) -> None:
    """op-kubectl-drain: jobs end 41 s in; the first poll behind that takes the protection off.

    With the last poll 2 s before zero polls come at 28 and 58 s, halved at 13, 28, 43 s, doubled at 58 s.
    """
    path = Path("scenarios/operator/op-kubectl-drain.yaml")
    times = StartTimes(poll_ns=-2 * SECOND)
    options = TwinOptions(keep=True, seed=1, times=times, scaled={"operator-poll": factor})
    run = run_scenario(load_scenario(path), path.parent, options)
    ended_ns = max(row.t_ns for row in run.kept or () if row.kind is Kind.JOB_ENDED)
    labels = [
        row.t_ns for row in run.kept or ()
        if row.kind is Kind.ACTION_ISSUED and '"label-pod"' in str(row.detail) and row.t_ns > ended_ns
    ]  # fmt: skip
    assert labels[0] / SECOND == pytest.approx(first_s, abs=0.3)
    assert ended_ns < 42 * SECOND + 500 * MS
