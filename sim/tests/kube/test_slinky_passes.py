"""Passes of the Slinky operator hang, and see old jobs, where the recordings' own times say so."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from replicated_runs import SCENARIOS, replicated

from slurmtwin.adapters import operator_process
from slurmtwin.adapters.patches import DEADLINE
from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.models.api_server.objects import Pod
from slurmtwin.worlds import pod_durations
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, run_scenario
from slurmtwin_operator.core.nodeset.scale import last_ends

FAULTS = SCENARIOS / "faults"


def recorded(slurmctld: float, slurmd: float, rest: float, made: float, *faults: float) -> StartTimes:
    """In seconds: slurmctld and slurmd serve, the RestApi object and the first worker's pod are seen, faults come."""
    slurmctld_ns, slurmd_ns, rest_ns, made_ns, *fault_ns = (
        round(at * SECOND) for at in (slurmctld, slurmd, rest, made, *faults)
    )
    return StartTimes(
        slurmctld_ns=slurmctld_ns, slurmd_ns=slurmd_ns, rest_ns=rest_ns, made_ns=made_ns, fault_ns=tuple(fault_ns)
    )


SEED = 3
"""What no row shows is drawn as it was there: in x34 no pod's Ready is taken back when the pass looks."""


def after_fault(name: str, times: StartTimes, kind: Kind, node: str) -> float | None:
    """Seconds from the first fault to that of a node; None: never."""
    run = run_scenario(load_scenario(FAULTS / f"{name}.yaml"), FAULTS, TwinOptions(keep=True, seed=SEED, times=times))
    assert run.kept is not None
    found = [row.t_ns for row in run.kept if row.kind is kind and row.node == node and row.t_ns >= times.fault_ns[0]]
    return (found[0] - times.fault_ns[0]) / SECOND if found else None


CASES = [
    ("x34-stale-deadline", (-50.0, -12.98, -60.09, -44.06, 31.17), Kind.NODE_DRAINED, "w-1", None),
    ("x34-stale-deadline", (-56.91, -10.84, -64.92, -33.88, 31.34), Kind.NODE_DRAINED, "w-1", 2.15),
    ("x42-drain-busy", (-23.45, -11.18, -29.91, -14.26, 20.84), Kind.NODE_DRAINED, "w-0", None),
    ("x42-drain-busy", (-43.85, -11.46, -50.73, -34.58, 24.29), Kind.NODE_DRAINED, "w-0", 1.03),
    ("x37-slinky", (-66.67, -10.86, -75.03, -14.43, 24.68), Kind.NODE_DRAINED, "w-1", 21.07),
    ("x22-slinky", (-23.9, -11.47, -30.54, -14.41, 15.01, 19.07), Kind.NODE_DRAINED, "w-0", 23.3),
]  # fmt: skip
"""Scenario, times of a recording, what happened to which node, and how long after the fault there."""
LOOKS_S = 3.2
"""A look, a refresh and a lease's look that no row shows."""


@pytest.mark.parametrize(("name", "times", "kind", "node", "recorded_s"), CASES)
def test_a_pass_acts_when_it_did(
    name: str, times: tuple[float, ...], kind: Kind, node: str, recorded_s: float | None
) -> None:
    """A node that was spared there is spared; one that was drained 21 s late is so late."""
    found = after_fault(name, recorded(*times), kind, node)
    if recorded_s is None:
        assert found is None
    else:
        assert found == pytest.approx(recorded_s, abs=LOOKS_S)


def test_pods_that_stay_are_undrained_before_others_are_drained() -> None:
    """Recorded in x34 five times of five: w-1 is resumed, and 1.03 to 1.07 s later (2.03 s once) w-0 is drained.

    Each change waits for a list that shows it (slurm-operator doPodScale(), slurm-client Update()).
    """
    times = recorded(-56.91, -10.84, -64.92, -33.88, 31.34)
    resumed = after_fault("x34-stale-deadline", times, Kind.NODE_RESUMED, "w-1")
    drained = after_fault("x34-stale-deadline", times, Kind.NODE_DRAINED, "w-0")
    assert resumed is not None
    assert drained is not None
    assert drained - resumed == pytest.approx(1.05, abs=0.06) or drained - resumed == pytest.approx(2.05, abs=0.06)


def rows_of(name: str, recording: str, number: int = 0) -> list[Event]:
    """One replication of a recording."""
    return replicated(FAULTS / f"{name}.yaml", recording, number)


def first_ns(rows: Sequence[Event], kind: Kind, since_ns: int = 0, actor: str = "") -> int:
    """When the first row of a kind comes."""
    return next(row.t_ns for row in rows if row.kind is kind and row.t_ns >= since_ns and row.actor.startswith(actor))


def test_the_pod_that_stays_is_undrained_by_the_poll_behind_its_drain() -> None:
    """x34 19: drained by old deadlines, and resumed 36.2 s behind the fault."""
    rows = rows_of("x34-stale-deadline", "19")
    fault_ns = first_ns(rows, Kind.FAULT_INJECTED)
    assert (first_ns(rows, Kind.NODE_RESUMED, fault_ns) - fault_ns) / SECOND == pytest.approx(37.2, abs=LOOKS_S)


FLAPS = [("x25-slow-api", "1", 2), ("x25-slow-api", "2", 0), ("x22-slinky", "10", 2), ("x42-drain-protected", "8", 0)]
"""Scenario, recording, and how many workers were not ready for a while there behind a pass that had hung."""


@pytest.mark.parametrize(("name", "recording", "count"), FLAPS)
def test_a_pass_that_hung_takes_back_that_its_pods_are_ready(name: str, recording: str, count: int) -> None:
    """It writes conditions as it had found them; the kubelet puts them right at its next sweep, 10 s apart."""
    quiet_ns = 10 * SECOND if name == "x25-slow-api" else 14 * SECOND
    rows = rows_of(name, recording)
    heard = [row for row in rows if row.actor == "collector" and row.t_ns < quiet_ns + 12 * SECOND]
    unready = [row for row in heard if row.kind is Kind.POD_UNREADY and row.detail and '"slurmd"' in row.detail]
    assert len(unready) == count
    for row in unready if name == "x42-drain-protected" else ():
        again_ns = first_ns(rows, Kind.POD_READY, row.t_ns, "collector")
        assert again_ns - row.t_ns <= 10 * SECOND + 100 * MS


def cordons_ms(number: int = 0) -> list[float]:
    """From each change of the machine to slurmctld's line, in quiet-slinky: nine cordons and their ends."""
    rows = rows_of("quiet-slinky", "1", number)
    pairs = ((Kind.KUBE_NODE_CORDONED, Kind.NODE_DRAINED), (Kind.KUBE_NODE_UNCORDONED, Kind.NODE_RESUMED))
    return [
        (first_ns(rows, line, row.t_ns) - row.t_ns) / MS
        for asked, line in pairs
        for row in rows
        if row.kind is asked and row.actor == "collector"
    ]


def test_a_cordon_is_carried_over_a_look_and_what_quiet_runs_show_behind_it() -> None:
    """Recorded 1.021 to 1.043 s, mean 1.031, cordons and their ends alike."""
    spans = cordons_ms()
    assert len(spans) == 18
    assert all(1005 <= span <= 1070 for span in spans)
    assert 1026 <= sum(spans) / len(spans) <= 1037
    assert sum(spans[:9]) / 9 == pytest.approx(sum(spans[9:]) / 9, abs=6)


def test_a_drains_cordon_is_on_its_way_when_the_drain_begins() -> None:
    """x42-drain-protected #6, #9, #10 and #11 heard of it 9.4 to 10.6 ms behind the begin, which they know to 2 ms."""
    heard_ms = []
    for number in range(24):
        rows = rows_of("x42-drain-protected", "10", number)
        begun_ns = first_ns(rows, Kind.FAULT_INJECTED)
        heard_ms.append((first_ns(rows, Kind.KUBE_NODE_CORDONED, begun_ns, "collector") - begun_ns) / MS)
    assert 3 <= min(heard_ms) <= max(heard_ms) <= 18
    assert sum(heard_ms) / len(heard_ms) == pytest.approx(10, abs=1.5)


PASSES = ("cordon-told", "cordon-done")


def beside_ms(count: int = 6) -> float:
    """What replications of x42-drain-protected #10 take from the cordon to the drain beyond the look, the median."""
    spans_ns = []
    for number in range(count):
        rows = rows_of("x42-drain-protected", "10", number)
        cordoned_ns = first_ns(rows, Kind.KUBE_NODE_CORDONED)
        spans_ns.append(first_ns(rows, Kind.NODE_DRAINED, cordoned_ns) - cordoned_ns - SECOND)
    return statistics.median(spans_ns) / MS


@pytest.fixture
def ratios(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[dict[str, tuple[tuple[float, ...], float]]], None]]:
    """Give laws of slurm-operator other ratios to slurmctld's start."""

    def put(changed: dict[str, tuple[tuple[float, ...], float]]) -> None:
        of_starts = {name: ("slurmctld-start", *law) for name, law in changed.items()}
        monkeypatch.setattr(pod_durations, "OF_OTHERS", {**pod_durations.OF_OTHERS, **of_starts})
        pod_durations._read.cache_clear()

    yield put
    pod_durations._read.cache_clear()


def test_what_a_pass_takes_beside_its_look_goes_by_slurmctlds_start_in_its_hour(ratios: Any) -> None:
    """Until the event, and behind it: with twice as many the drain comes twice as late behind the look."""
    laws = {name: pod_durations.OF_OTHERS[name][1] for name in PASSES}
    ratios({name: (hours, 0.0) for name, hours in laws.items()})
    usual_ms = beside_ms()
    ratios({name: (tuple(2 * one for one in hours), 0.0) for name, hours in laws.items()})
    assert beside_ms() / usual_ms == pytest.approx(2, abs=0.15)


@pytest.mark.parametrize("name", PASSES)
def test_each_part_of_it_counts_whole(monkeypatch: pytest.MonkeyPatch, ratios: Any, name: str) -> None:
    """A quarter of cordon-told before the pass, one for its revision, a sixth at the look, a third for the event: with
    200 ms more of one law the drain comes 200 ms later."""

    def own(_: object, ms: tuple[float], sigma: float) -> dict[str, object]:
        return {"median_ms": ms[0], "fits": [[ms[0], sigma]]}

    monkeypatch.setattr(pod_durations, "_as_in_hours", own)
    found_ms = []
    for ms in (24.0, 224.0):
        ratios({"cordon-told": ((24.0,), 0.0), "cordon-done": ((24.0,), 0.0), name: ((ms,), 0.0)})
        found_ms.append(beside_ms(2))
    assert found_ms[1] - found_ms[0] == pytest.approx(200, abs=3)


@pytest.mark.parametrize(("recording", "recorded_s"), [("6", 0.741), ("7", 0.305), ("10", 1.027)])
def test_a_pass_that_waits_for_its_list_sees_the_cordon_that_came_meanwhile(recording: str, recorded_s: float) -> None:
    """Machines are read behind the list of nodes (syncCordon()): the drain comes less than a look behind the cordon.

    x42's passes began 0.3 and 0.7 s before the cordon in 6 and 7, and with it in 10. In one of four replications that
    began two passes behind the last status it may be another one.
    """
    found = []
    for number in range(4):
        rows = rows_of("x42-drain-busy", recording, number)
        cordoned_ns = first_ns(rows, Kind.KUBE_NODE_CORDONED)
        found.append((first_ns(rows, Kind.NODE_DRAINED, cordoned_ns) - cordoned_ns) / SECOND)
    assert sum(one == pytest.approx(recorded_s, abs=0.06) for one in found) >= 3, found


@pytest.mark.parametrize(
    ("name", "recording"), [("x42-drain-protected", "7"), ("x41-slinky", "5"), ("x42-drain-busy", "10")]
)
def test_a_status_is_written_behind_the_lists_of_its_pass(name: str, recording: str) -> None:
    """Recorded 2.01 to 2.02 s behind a drain in 17 of 19 runs: a list that shows it, and one for the status."""
    rows = rows_of(name, recording)
    drained_ns = first_ns(rows, Kind.NODE_DRAINED, first_ns(rows, Kind.KUBE_NODE_CORDONED))
    told_ns = first_ns(rows, Kind.OBJECT_CHANGED, drained_ns - 500 * MS, "collector")
    assert (told_ns - drained_ns) / SECOND == pytest.approx(2.02, abs=0.04)


def test_a_refused_eviction_is_asked_for_again_at_a_look() -> None:
    """Recorded: each of 14 or 15 times 20 to 37 ms beyond 5 s, in one run another mean than in the next."""
    late = []
    for number in range(6):
        rows = rows_of("x42-drain-protected", "7", number)
        drained_ns = first_ns(rows, Kind.FAULT_INJECTED)
        tries, beyond_ns = divmod(first_ns(rows, Kind.POD_DELETING, drained_ns, "apiserver") - drained_ns, 5 * SECOND)
        late.append(beyond_ns / tries / MS)
    assert all(15 <= ms <= 42 for ms in late)
    assert 20 <= sum(late) / len(late) <= 35
    assert len(set(late)) == 6


STANDS = [("x42-drain-protected", 8, 1.30), ("x42-drain-protected", 14, 0.67), ("x22-slinky", 9, 3.06)]


@pytest.mark.parametrize(("name", "number", "drained_s"), STANDS)
def test_a_fault_meets_the_pass_that_was_under_way(name: str, number: int, drained_s: float) -> None:
    """The node set's last status before it says where passes stood: 33.9, 32.5 and 0.15 s before these drains."""
    rows = rows_of(name, str(number))
    fault_ns = next(row.t_ns for row in rows if row.kind is Kind.FAULT_INJECTED)
    found = next(row.t_ns for row in rows if row.kind is Kind.NODE_DRAINED and row.t_ns >= fault_ns)
    assert (found - fault_ns) / SECOND == pytest.approx(drained_s, abs=0.15)


def test_a_pass_whose_status_was_told_has_labelled_its_pods_then() -> None:
    """x42-drain-busy #24: 1.0 s before the drain, so the busy pod was protected, as recorded, each time. The pass
    behind it reads its nodes as the machine is drained (recorded 0.03 s), or began later."""
    drained_s = []
    for number in range(8):
        rows = rows_of("x42-drain-busy", "24", number)
        fault_ns = first_ns(rows, Kind.FAULT_INJECTED)
        assert (first_ns(rows, Kind.POD_DELETING, fault_ns) - fault_ns) / SECOND > 60
        drained_s.append((first_ns(rows, Kind.NODE_DRAINED, fault_ns) - fault_ns) / SECOND)
    assert sum(at_s < 0.1 for at_s in drained_s) >= 6, drained_s


def test_a_pod_is_told_when_its_last_job_is_to_end_and_that_none_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """syncSlurmDeadline(): once for a job of 10 minutes on w-0, by the pass that sees it, before that pass drains."""
    told: list[tuple[str, str]] = []
    dated = operator_process.dated

    def tell(pod: Pod, deadline: str) -> Pod:
        told.append((pod.meta.name, deadline))
        return dated(pod, deadline)

    monkeypatch.setattr(operator_process, "dated", tell)
    rows = rows_of("x42-drain-protected", "7")
    began_ns = first_ns(rows, Kind.JOB_STARTED)
    assert [name for name, _ in told] == ["w-0", "w-0"]
    assert int(told[0][1]) - began_ns == pytest.approx(600 * SECOND, abs=SECOND)
    assert told[1][1] == ""


def waits_s(recording: str, numbers: range) -> list[float]:
    """From the job's end to the deletion of its pod, in replications of a run of x33-slinky."""
    found = []
    for number in numbers:
        rows = replicated(FAULTS / "x33-slinky.yaml", recording, number)
        ended_ns = next(row.t_ns for row in rows if row.kind is Kind.JOB_ENDED and row.job_id == 1)
        deleting = (row for row in rows if row.kind is Kind.POD_DELETING and row.actor == "collector")
        found.append((next(row.t_ns for row in deleting if row.t_ns > ended_ns) - ended_ns) / SECOND)
    return found


def test_a_pass_ends_with_nodes_as_its_list_had_them() -> None:
    """docs/surprises.md: where x33-slinky #43's job ends between the list and the look that finds it, no pass follows
    until the next poll, as recorded (31.3 s); where it ends before the list, one follows at once, or the pass that
    is under way decides at its look, 0.2 s behind."""
    found = waits_s("43", range(6))
    assert all(0.15 <= wait_s <= 0.25 or 1 <= wait_s <= 2.5 or 31 <= wait_s <= 31.5 for wait_s in found), found
    assert {wait_s > 30 for wait_s in found} == {True, False}, found


def test_a_pass_finds_pods_that_say_another_end_as_a_look_at_all_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes by what changed (docs/speed.md); each is told once, one by one, in the order of the cache."""
    wrong: list[str] = []
    told: list[str] = []
    date, put = operator_process._Process._date, operator_process.dated

    def look(process: Any, item: Any, slurm: Any, found: Any, then: Any) -> None:
        ends = last_ends([job for job in slurm.jobs if job.state == "RUNNING"])
        for view in found:
            pod = process._cached(item, view)
            says = "" if pod is None else pod.meta.annotations.get(DEADLINE, "")
            if pod is not None and says != str(ends.get(view.name, "")):
                wrong.append(view.name)
        date(process, item, slurm, found, then)

    def tell(pod: Pod, deadline: str) -> Pod:
        told.append(pod.meta.name)
        return put(pod, deadline)

    monkeypatch.setattr(operator_process._Process, "_date", look)
    monkeypatch.setattr(operator_process, "dated", tell)
    path = SCENARIOS / "faults" / "x41-slinky.yaml"
    scenario = load_scenario(path)
    jobs = [job.model_copy(update={"id": n, "run": 25 * SECOND}) for n in (1, 2, 3) for job in scenario.workload.jobs]
    workload = scenario.workload.model_copy(update={"jobs": jobs})  # one node's, one behind the other
    run_scenario(scenario.model_copy(update={"workload": workload, "faults": []}), path.parent, TwinOptions(keep=True))
    for name, recording in (("x37-slinky", "12"), ("x33-slinky", "29"), ("x34-stale-deadline", "13")):
        rows_of(name, recording)
    assert len(wrong) >= 12
    assert told == wrong
