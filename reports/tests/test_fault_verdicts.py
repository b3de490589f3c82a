"""The judge of fault scenarios on generated data whose truth is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.phases import Phase
from slurmtwin_reports.faults import ranks
from slurmtwin_reports.faults.measurement import NEVER, NO_START, measured, spans, stream
from slurmtwin_reports.faults.milestones import Mark, Marks, all_marks, recorded_marks
from slurmtwin_reports.faults.phase_verdict import PhaseVerdict, judge_phases
from slurmtwin_reports.faults.replicated import Repetition
from slurmtwin_reports.history import rows_of_events
from slurmtwin_reports.verdict import Outcome

REPLICATIONS = 200
Draw = Callable[[np.random.Generator, int], Any]
"""(generator, how many) -> spans in seconds."""


def phase(name: str = "p", **more: Any) -> Phase:
    """A phase that rests on pods.toleration."""
    document = {
        "name": name, "start": {"kind": "fault.injected"}, "end": {"kind": "node.down"}, "low": "1s", "high": None,
        "rests_on": "r", "source": "s", "parameter": "pods.toleration",
    }  # fmt: skip
    return Phase.model_validate(document | more)


def times(seconds: Any) -> Any:
    """Replications of one phase that begins at 10 s."""
    out = np.full((len(seconds), 1, 2), 10 * SECOND, dtype=np.int64)
    out[:, 0, 1] += np.round(np.asarray(seconds) * 1e9).astype(np.int64)
    return out


def marks(seconds: float, err_s: float = 0.1) -> Marks:
    """A recorded phase that begins at 10 s."""
    return Marks(Mark(10 * SECOND), Mark(10 * SECOND + round(seconds * SECOND), round(err_s * SECOND)))


def repetitions(recorded: Draw, twin: Draw, count: int = 3, seed: int = 1, err_s: float = 0.1) -> list[Repetition]:
    """Recorded spans from one law, replications from another; the parameter scales the twin's."""
    made = []
    for k in range(count):
        draw = np.random.default_rng([seed, k])
        seen = float(recorded(draw, 1)[0]) + draw.uniform(-err_s, err_s)
        base, half, double = (times(twin(draw, REPLICATIONS) * factor) for factor in (1, 0.5, 2))
        changed = {("pods.toleration", 0.5): half, ("pods.toleration", 2.0): double}
        one = Repetition(recorded=(marks(seen, err_s),), epoch_ns=0, base=base, still=base, changed=changed)
        made.append(one)
    return made


def judged(made: Sequence[Repetition], one: Phase | None = None) -> PhaseVerdict:
    """The verdict of the one phase."""
    return judge_phases([one or phase()], made)[0][0]


def timer(draw: np.random.Generator, many: int) -> Any:
    """A timer of 40 to 50 s."""
    return draw.uniform(40, 50, many)


def test_a_repetition_is_held_against_the_replications_with_noise_of_its_own() -> None:
    """Where there are any: 6 s off in them it differs and stays sharp, 6 s off in the common ones alone it agrees."""
    right = repetitions(timer, timer)
    apart = [replace(one, own=one.base + np.array([0, 6 * SECOND])) for one in right]
    found = judged(apart)
    assert found.outcome is Outcome.DIFFER
    assert found.sharp, "of base and still, which share their draws"
    back = [replace(one, base=one.base + np.array([0, 6 * SECOND]), own=one.base) for one in right]
    assert judged(back).outcome is Outcome.AGREE
    assert judged(back).intervals == judged(right).intervals


@pytest.mark.parametrize("blind", [0.5, 2.0])
def test_power_is_needed_on_both_sides(blind: float) -> None:
    """Halved shows and doubled does not, or the other way round: unknown, and the reason names the blind side."""
    made = [replace(r, changed={**r.changed, ("pods.toleration", blind): r.base}) for r in repetitions(timer, timer)]
    found = judged(made)
    assert found.outcome is Outcome.UNKNOWN
    assert ("half (" in found.reason) == (blind == 0.5)
    assert ("double (" in found.reason) == (blind == 2.0)


def test_a_true_model_with_a_sharp_parameter_agrees() -> None:
    """Recorded and simulated by one law, and half or double of it would show."""
    found = judged(repetitions(timer, timer))
    assert found.outcome is Outcome.AGREE
    assert found.half is not None
    assert found.double is not None
    assert min(found.half, found.double) >= ranks.POWER
    assert found.sharp is True


@pytest.mark.parametrize("off_s", [-15.0, 15.0])
def test_a_shifted_model_is_found(off_s: float) -> None:
    """Three repetitions outside the twin's range are a difference, and the reason names both."""
    found = judged(repetitions(lambda draw, many: timer(draw, many) + off_s, timer))
    assert found.outcome is Outcome.DIFFER
    assert "recorded" in found.reason


def test_a_twin_that_is_surely_too_regular_or_too_wild_is_found() -> None:
    """Not the middle alone: ten repetitions all in the middle of a wide twin, or all at the ends of a narrow one."""

    def evenly(low: float, high: float) -> Draw:
        return lambda draw, many: draw.uniform(low, high, many)

    assert judged(repetitions(evenly(44.9, 45.1), evenly(0, 90), 10)).outcome is Outcome.DIFFER
    ends = repetitions(lambda draw, many: draw.choice([40.0, 50.0], many), evenly(44, 46), 10)
    assert judged(ends).outcome is Outcome.DIFFER


@pytest.mark.parametrize("seed", range(20))
def test_a_vague_model_never_agrees(seed: int) -> None:
    """Whatever three repetitions show, a twin that allows 0 to 90 s cannot tell its parameter from half or double."""
    vague = repetitions(timer, lambda draw, many: draw.uniform(0, 90, many), seed=seed)
    assert judged(vague).outcome is not Outcome.AGREE


def test_a_parameter_that_moves_nothing_leaves_unknown() -> None:
    """The halved and doubled twin is the same: agreement would mean nothing."""
    made = [replace(r, changed=dict.fromkeys(r.changed, r.base)) for r in repetitions(timer, timer)]
    found = judged(made)
    assert found.outcome is Outcome.UNKNOWN
    assert "pods.toleration" in found.reason


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda made: (made[:2], phase()), "2 repetitions"),
        (lambda made: ([replace(r, base=r.base[:150]) for r in made], phase()), "150 replications"),
        (lambda made: (made, phase(parameter="")), "no parameter"),
        (lambda made: ([replace(r, changed={}) for r in made], phase()), "no replications with"),
        (lambda made: ([replace(r, base=r.base[:0]) for r in made], phase()), "no replications"),
        (lambda made: ([], phase()), "no replications"),
    ],
)
def test_what_is_missing_is_said(change: Callable[[Any], Any], word: str) -> None:
    """Too few repetitions or replications, or no parameter: unknown, with the reason."""
    made, one = change(repetitions(timer, timer))
    found = judged(made, one)
    assert found.outcome is Outcome.UNKNOWN
    assert word in found.reason


def test_an_end_that_never_comes_is_no_difference_and_one_that_comes_is() -> None:
    """Never in both: distance 0. Once in three recordings but in no replication: differ. The other way round, too."""
    never = times(np.zeros(REPLICATIONS))
    never[:, 0, 1] = NEVER
    absent = Marks(Mark(10 * SECOND), None)
    same = [Repetition(recorded=(absent,), epoch_ns=0, base=never) for _ in range(3)]
    assert judged(same).p == 1.0
    once = [replace(same[0], recorded=(marks(3),)), *same[1:]]
    assert judged(once).outcome is Outcome.DIFFER
    came = [replace(r, recorded=(absent,)) for r in repetitions(timer, timer)]
    assert judged(came).outcome is Outcome.DIFFER
    unborn = [replace(r, recorded=(Marks(None, None),)) for r in repetitions(timer, timer)]
    assert judged(unborn).outcome is Outcome.DIFFER


def test_a_cut_second_is_cut_in_the_twin_too() -> None:
    """An API stamp of a time is the middle of its Unix second, whatever second the scenario began in."""
    exact = np.array([10_250_000_000, 10_850_000_000, NEVER], dtype=np.int64)
    cut = measured(exact, Mark(900 * MS, SECOND // 2, cut=True), 600_000_000, stream(1, "x"))
    assert cut.tolist() == [9_900_000_000, 10_900_000_000, NEVER]


def test_seconds_begin_where_the_recorded_stamp_has_them() -> None:
    """The API server's clock is 0.2 s off: its stamp of an equal time is equal, to the nanosecond."""
    exact = np.array([10_250_000_000, 10_850_000_000], dtype=np.int64)
    recorded = Mark(12_700_000_000, SECOND // 2, cut=True)
    assert measured(exact, recorded, 0, stream(1, "x")).tolist() == [10_700_000_000, 10_700_000_000]
    before_zero = Mark(-1_300_000_345, SECOND // 2, cut=True)
    assert measured(exact, before_zero, 7, stream(1, "x")).tolist() == [10_699_999_655, 10_699_999_655]


def test_errors_are_drawn_within_their_bounds() -> None:
    """A time known to ± e moves by e at most, and by nothing where e is 0."""
    exact = np.full(1000, 5 * SECOND, dtype=np.int64)
    moved = measured(exact, Mark(0, SECOND), 0, stream(1, "x")) - exact
    assert -SECOND <= moved.min() < -0.9 * SECOND
    assert 0.9 * SECOND < moved.max() <= SECOND
    assert (measured(exact, Mark(0), 0, stream(1, "x")) == exact).all()


def test_a_line_of_a_log_is_cut_to_its_millisecond_in_both() -> None:
    """Known to 0.75 ms, a quarter of one for the line to be written: what came within it is the very same time."""
    recorded = Mark(10 * SECOND + 347_123, 750_000, logged=True)
    exact = recorded.t_ns + np.arange(-3 * MS, 3 * MS, 1_001)
    found = measured(exact, recorded, 5, stream(1, "x")) - recorded.t_ns
    assert set(found.tolist()) == {ms * MS for ms in range(-3, 4)}
    assert (np.abs(found - (exact - recorded.t_ns)) <= 750_000).all()
    assert (found[np.abs(exact - recorded.t_ns) < 250_000] == 0).all()
    assert measured(np.array([NEVER]), recorded, 5, stream(1, "x")).tolist() == [NEVER]


@pytest.mark.parametrize(
    ("actor", "err_us", "logged"),
    [("slurmctld", 750, True), ("slurmd", 750, True), ("slurmctld", 5_500, False), ("collector", 750, False)],
)
def test_lines_of_logs_are_known_by_their_error(actor: str, err_us: int, logged: bool) -> None:
    """A receipt of the same error is none."""
    rows = rows_of_events(
        [Event(SECOND, Kind.FAULT_INJECTED, "fault"), Event(2 * SECOND, Kind.NODE_DOWN, actor, t_err_ns=err_us * 1000)]
    )
    (found,) = all_marks(rows, [phase()])
    assert found.end is not None
    assert found.end.logged is logged


def test_a_receipt_is_late_as_the_runs_leases_were() -> None:
    """Half of them come as the twin's own do, one in twenty is later by more than the run's 95th percentile is above
    the usual 6 ms; none is early. Where leases came as usual nothing is drawn."""
    exact = np.full(20_000, 5 * SECOND, dtype=np.int64)
    late = measured(exact, Mark(0, 106 * MS, received=True), 0, stream(1, "x")) - exact
    assert late.min() == 0
    assert (late == 0).mean() == pytest.approx(0.5, abs=0.02)
    assert (late > 100 * MS).mean() == pytest.approx(0.05, abs=0.01)
    assert (measured(exact, Mark(0, 6 * MS, received=True), 0, stream(1, "x")) == exact).all()
    assert measured(np.array([NEVER]), Mark(0, SECOND, received=True), 0, stream(1, "x")).tolist() == [NEVER]


def test_a_calm_receipt_is_no_later_than_the_twins_own() -> None:
    """Though the run's leases are late by 106 ms."""
    exact = np.array([5 * SECOND, NEVER], dtype=np.int64)
    assert (measured(exact, Mark(0, 106 * MS, received=True, calm=True), 0, stream(1, "x")) == exact).all()


@pytest.mark.parametrize(
    ("before_ms", "calm"), [([], True), ([1001], True), ([1000], False), ([101], False), ([100], True), ([99, 1], True)]
)
def test_a_recorded_receipt_is_calm_where_nothing_else_came_in_the_second_before(
    before_ms: list[int], calm: bool
) -> None:
    """What came along with it, in the last 100 ms, and other sources' rows are nothing else."""
    at_ns = 10 * SECOND
    received = [Event(at_ns - ms * MS, Kind.POD_CREATED, "collector") for ms in before_ms]
    events = [
        Event(SECOND, Kind.FAULT_INJECTED, "fault"),
        Event(at_ns - 500 * MS, Kind.JOB_STARTED, "slurmctld", 1),
        *received,
        Event(at_ns, Kind.POD_DELETED, "collector", t_err_ns=30 * MS),
        Event(at_ns + MS, Kind.POD_CREATED, "collector"),
    ]
    rows = rows_of_events(events)
    wanted = [phase(end={"kind": "pod.deleted"})]
    marks = recorded_marks(rows, wanted, 5.1)[0]
    assert marks.end is not None
    assert marks.start is not None
    assert (marks.end.calm, marks.start.calm) == (calm, False)
    assert replace(marks, end=replace(marks.end, calm=False)) == all_marks(rows, wanted)[0]
    for loaded in (10.1, None):
        assert recorded_marks(rows, wanted, loaded) == all_marks(rows, wanted), (
            "the host has other work, or nobody knows"
        )


def test_the_collectors_rows_are_receipts() -> None:
    """The object's own stamp of the same fact is none."""
    for actor, received in (("collector", True), ("apiserver", False), ("slurmctld", False)):
        events = [
            Event(SECOND, Kind.FAULT_INJECTED, "fault"),
            Event(2 * SECOND, Kind.POD_DELETED, actor, t_err_ns=30 * MS),
        ]
        end = all_marks(rows_of_events(events), [phase(end={"kind": "pod.deleted"})])[0].end
        assert end is not None
        assert end.received is received


def test_a_replication_is_seen_at_the_looks_that_the_recording_shows() -> None:
    """Looks at 9.75, 10.0 and 10.25 s: what came at 10.1 was told as 10.125, and so is 10.24; 9.9 is told as 9.875."""
    exact = np.array([10_100_000_000, 10_240_000_000, 9_900_000_000, 10_260_000_000, NEVER], dtype=np.int64)
    told = measured(exact, Mark(10_125_000_000, 125 * MS, looked=True), 0, stream(1, "x"))
    assert told.tolist() == [10_125_000_000, 10_125_000_000, 9_875_000_000, 10_375_000_000, NEVER]


@pytest.mark.parametrize(
    ("kind", "actor", "detail", "error", "looked"),
    [
        ("client.answered", "observer", {"asked": "livez"}, 126 * MS, True),
        ("client.answered", "observer", {"asked": "nodes"}, 126 * MS, False),
        ("client.answered", "observer", {"asked": "livez"}, 600 * MS, False),
        ("client.answered", "observer", {"asked": "livez"}, 9 * MS, False),
        ("node.state", "observer", {}, 502 * MS, True),
        ("node.state", "slurmctld", {}, 502 * MS, False),
        ("job.ended", "observer", {}, 100 * MS, False),
    ],
)
def test_a_look_is_one_of_many_where_nothing_held_it_up(
    kind: str, actor: str, detail: dict[str, str], error: int, looked: bool
) -> None:
    """A probe that hangs for a second, and a request that says only when it was asked, show no row of looks."""
    events = [
        Event(SECOND, Kind.FAULT_INJECTED, "fault"),
        Event(2 * SECOND, Kind(kind), actor, detail=json.dumps(detail), t_err_ns=error),
    ]
    end = all_marks(rows_of_events(events), [phase(end={"kind": kind})])[0].end
    assert end is not None
    assert end.looked is looked


@pytest.mark.parametrize(
    ("kind", "error", "stopped", "low_ms", "high_ms"),
    [
        ("client.refused", "timed out", False, 10_000, 10_250),
        ("client.refused", "[Errno 111] Connection refused", False, 10_000, 11_250),
        ("client.answered", "", True, 11_000, 11_250),
        ("client.answered", "", False, 10_000, 11_250),
    ],
)
def test_a_probe_that_waited_in_vain_tells_where_its_answer_changed(
    kind: str, error: str, stopped: bool, low_ms: int, high_ms: int
) -> None:
    """One that timed out met nobody from its begin on; one that a stopped process had taken ends with that process."""
    fault = {"fault": {"kind": "process.freeze" if stopped else "pod.delete", "target": "slurmctld"}}
    detail = {"asked": "livez"} | ({"error": error} if error else {})
    events = [
        Event(SECOND, Kind.FAULT_INJECTED, "fault", detail=json.dumps(fault)),
        Event(10_625 * MS, Kind(kind), "observer", detail=json.dumps(detail), t_err_ns=625 * MS),
    ]
    end = all_marks(rows_of_events(events), [phase(end={"kind": kind})])[0].end
    assert end is not None
    assert (end.t_ns - end.err_ns, end.t_ns + end.err_ns) == (low_ms * MS, high_ms * MS)
    assert end.looked is (high_ms - low_ms == 250)


def test_an_injection_keeps_the_recorded_stamp() -> None:
    """The twin's lies where the recorded one may have: its stamp is the recording's, and has no further error."""
    exact = np.array([9_970_000_000, 10_030_000_000, NEVER], dtype=np.int64)
    stamped = measured(exact, Mark(10 * SECOND, 30 * MS, pinned=True), 0, stream(1, "x"))
    assert stamped.tolist() == [10 * SECOND, 10 * SECOND, NEVER]


def test_injections_alone_are_stamped_as_recorded() -> None:
    """What the fault does is measured, though it be at the same time."""
    events = [
        Event(10 * SECOND, Kind.FAULT_INJECTED, "fault", t_err_ns=30 * MS),
        Event(10 * SECOND, Kind.NODE_DOWN, "a"),
    ]
    (found,) = all_marks(rows_of_events(events), [phase()])
    assert found == Marks(Mark(10 * SECOND, 30 * MS, seq=0, pinned=True), Mark(10 * SECOND, seq=1))


def test_an_end_that_a_clock_fixes_is_as_long_as_recorded_wherever_the_twin_injects() -> None:
    """The recorded span errs by its injection's error once, and so does a replication: drawn twice, it would differ."""
    draw, error, end = np.random.default_rng(5), 30 * MS, Mark(37 * SECOND)
    made = []
    for _ in range(12):
        stamp = 10 * SECOND + int(draw.integers(-error, error))
        base = np.full((REPLICATIONS, 1, 2), end.t_ns, dtype=np.int64)
        base[:, 0, 0] = stamp + draw.integers(-error, error, REPLICATIONS)
        recorded = (Marks(Mark(stamp, error, pinned=True), end),)
        made.append(Repetition(recorded=recorded, epoch_ns=0, base=base))
    found = judged(made)
    assert found.outcome is Outcome.UNKNOWN
    assert all(low == span == high for span, (low, high) in zip(found.recorded, found.intervals, strict=True))


def test_spans_know_what_did_not_come() -> None:
    """NEVER without an end, NO_START without a start, 0 at least."""
    start = np.array([5, 5, NEVER, 5], dtype=np.int64)
    end = np.array([7, NEVER, NEVER, 4], dtype=np.int64)
    assert spans(start, end).tolist() == [2, NEVER, NO_START, 0]


def two_phases(first_s: Any, second_s: Any) -> Any:
    """Replications of two phases from 10 s."""
    return np.concatenate([times(first_s), times(second_s)], axis=1)


def ordered_case(seen: tuple[float, float], seed: int = 5) -> list[Repetition]:
    """A twin whose first milestone is always 1 to 2 s before the second."""
    draw = np.random.default_rng(seed)
    out = []
    for _ in range(3):
        first = draw.uniform(0, 20, REPLICATIONS)
        base = two_phases(first, first + draw.uniform(1, 2, REPLICATIONS))
        out.append(Repetition(recorded=(marks(seen[0]), marks(seen[1])), epoch_ns=0, base=base))
    return out


def test_milestones_out_of_order_differ_though_each_span_fits() -> None:
    """Both spans lie inside their intervals, but the second came first; within the error of the stamps it may."""
    phases = [phase("a"), phase("b", end={"kind": "job.requeued"})]
    wrong, order = judge_phases(phases, ordered_case((11.0, 10.0)))
    assert order.broken
    assert [v.outcome for v in wrong] == [Outcome.DIFFER, Outcome.DIFFER]
    assert "out of order" in wrong[0].reason
    assert order.pair == "end of b before end of a"
    for fine in ((10.0, 11.5), (10.0, 9.95)):
        assert not judge_phases(phases, ordered_case(fine))[1].broken


def test_order_is_seldom_broken_by_chance() -> None:
    """Where either order may be, the test's size stays below 5 % and its error."""
    phases = [phase("a"), phase("b", end={"kind": "job.requeued"})]
    broken = 0
    for case in range(100):
        draw = np.random.default_rng([9, case])
        made = []
        for _ in range(3):
            base = two_phases(draw.uniform(0, 20, REPLICATIONS), draw.uniform(15, 35, REPLICATIONS))
            seen = (marks(draw.uniform(0, 20)), marks(draw.uniform(15, 35)))
            made.append(Repetition(recorded=seen, epoch_ns=0, base=base))
        broken += judge_phases(phases, made)[1].broken
    assert broken / 100 <= 0.05 + 3 * (0.05 * 0.95 / 100) ** 0.5


def test_a_calibrated_spread_that_hides_the_timer_is_not_sharp() -> None:
    """The interval is 90 s wide, 10 s with calibrated durations held still."""
    made = [replace(r, base=times(np.linspace(0, 90, REPLICATIONS))) for r in repetitions(timer, timer)]
    found = judged(made)
    assert found.sharp is False
    assert found.width_of_bound == pytest.approx(90 / (1.25 * 10), rel=0.03), "of 95 %, measured without error"
    unknown = judged([replace(r, still=None) for r in made])
    assert (unknown.sharp, unknown.width_of_bound) == (None, None)


def test_equal_laws_are_sharp_however_many_repetitions_there_are() -> None:
    """Of whole seconds the 97.5th percentile is another one by chance in some of 24; the sum of all widths is not."""

    def seconds(number: int) -> Any:
        draw = np.random.default_rng([3, number])
        return times(30 + draw.choice(4, REPLICATIONS, p=[0.4, 0.3, 0.274, 0.026]).astype(float))

    made = [
        replace(r, base=seconds(2 * i), still=seconds(2 * i + 1)) for i, r in enumerate(repetitions(timer, timer, 24))
    ]
    found = judged(made)
    assert (found.sharp, found.sharp_each) == (True, False)
    wider = [replace(r, base=times(np.linspace(28, 36, REPLICATIONS))) for r in made]
    assert judged(wider).sharp is False


def test_equal_input_gives_equal_verdicts() -> None:
    """All draws come from named streams; other phases of the scenario do not move them."""
    made = repetitions(timer, timer)
    twice = [replace(r, recorded=r.recorded * 2, base=np.tile(r.base, (1, 2, 1))) for r in made]
    twice = [replace(r, changed={k: np.tile(t, (1, 2, 1)) for k, t in r.changed.items()}, still=None) for r in twice]
    one = judged(made)
    again = judge_phases([phase(), phase("q")], twice)[0][0]
    assert (one.p, one.half, one.double) == (again.p, again.half, again.double)
    assert judged(made) == one


@pytest.mark.parametrize(
    ("claim", "recorded", "twin", "outcome", "broken"),
    [
        ({"absent": True}, None, None, Outcome.HOLDS, 0),
        ({"absent": True}, 20.0, None, Outcome.BROKEN, 3),
        ({"absent": True}, None, 20.0, Outcome.BROKEN, 1),
        ({"of_kind": True, "high": "3s"}, 2.0, 2.5, Outcome.HOLDS, 0),
        ({"of_kind": True, "high": "3s"}, 3.05, 2.5, Outcome.HOLDS, 0),
        ({"of_kind": True, "high": "3s"}, 3.2, 2.5, Outcome.BROKEN, 3),
        ({"of_kind": True, "high": "3s"}, 2.0, 3.2, Outcome.BROKEN, 1),
        ({"of_kind": True, "high": "3s"}, None, 2.5, Outcome.BROKEN, 3),
        ({"of_kind": True, "low": "1s"}, 0.5, 2.5, Outcome.BROKEN, 3),
    ],
)
def test_a_claim_of_kind_is_held_against_every_run(
    claim: dict[str, Any], recorded: float | None, twin: float | None, outcome: Outcome, broken: int
) -> None:
    """One recording or replication outside its prediction breaks it; a recording may be off by its error."""
    one = phase(parameter="", **claim)
    base = times(np.full(REPLICATIONS, twin or 0.0))
    if twin is None:
        base[:, 0, 1] = NEVER
    seen = Marks(Mark(10 * SECOND), None) if recorded is None else marks(recorded)
    found = judged([Repetition(recorded=(seen,), epoch_ns=0, base=base)] * 3, one)
    assert (found.outcome, found.broken) == (outcome, broken)
    row = found.row("x", "26.05")
    assert (row.subject, row.size) == ("claim p", float(broken) if broken else None)


def test_a_claim_that_never_began_is_unknown() -> None:
    """No run shows anything of it."""
    base = np.full((REPLICATIONS, 1, 2), NEVER, dtype=np.int64)
    nothing = Repetition(recorded=(Marks(None, None),), epoch_ns=0, base=base)
    assert judged([nothing] * 3, phase(parameter="", absent=True)).outcome is Outcome.UNKNOWN


def test_a_claim_names_no_parameter() -> None:
    """What has one is a phase with a vote."""
    with pytest.raises(ValueError, match="names no parameter"):
        phase(of_kind=True)


def test_each_repetition_has_its_place_among_its_replications() -> None:
    """Ties share theirs; an end that never came is longer than any."""
    pool = np.array([1, 2, 2, 2, 5, NEVER, NEVER, NEVER])
    assert [ranks.place(value, pool) for value in (0, 1, 2, 3, NEVER)] == [0, 1 / 16, 5 / 16, 0.5, 13 / 16]
    made = repetitions(lambda draw, n: draw.uniform(20, 30, n), lambda draw, n: draw.uniform(20, 30, n), count=4)
    [found], _ = judge_phases([phase()], made)
    assert found.places == tuple(
        pytest.approx(np.mean((one.base[:, 0, 1] - one.base[:, 0, 0]) / 1e9 < span / 1e9), abs=0.05)
        for one, span in zip(made, found.recorded, strict=True)
    )
