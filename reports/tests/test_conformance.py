"""Twin against real: verdicts follow the bar, the real runs' own spread, and the measurement error."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from slurmtwin.contract.cluster_facts import ClusterFacts
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Event, Kind
from slurmtwin_reports.conformance import Conformance, judge, judge_one_step, pool
from slurmtwin_reports.history import History, history_of
from slurmtwin_reports.testing import a_history, in_order, job_story, queue_run, row
from slurmtwin_reports.verdict import Outcome, Verdict

SECOND = 1_000_000_000


def changed(history: History, change: Callable[[Event], Event | None], world: str = "twin") -> History:
    """The same run with each row changed, or dropped."""
    events = []
    for r in history.rows():
        event = Event(
            r.t_ns, Kind(r.kind), r.actor, r.job_id, r.node, r.value, r.unit, r.detail, r.cause_seq, r.t_err_ns
        )
        new = change(event)
        if new is not None:
            events.append(new)
    manifest = dataclasses.replace(history.manifest, world=world)
    return history_of(manifest, sorted(events, key=lambda e: e.t_ns), history.jobs, history.facts)


RUN = ("job.started", "job.ended", "job.completed")


def late(by_s: float, kinds: tuple[str, ...] = RUN) -> Callable[[Event], Event]:
    return lambda e: e._replace(t_ns=e.t_ns + round(by_s * SECOND)) if e.kind in kinds else e


def real(noise_s: float = 0.0, repetitions: int = 3, jobs: int = 120) -> list[History]:
    return [queue_run(jobs, world="slurm", noise_s=noise_s, noise_seed=i) for i in range(repetitions)]


def outcomes(verdicts: list[Verdict]) -> dict[str, Outcome]:
    return {v.subject: v.outcome for v in verdicts}


def test_equal_runs_agree_in_every_phase() -> None:
    """A twin that does what real did agrees everywhere."""
    found = judge([(queue_run(120), r) for r in real()])
    assert set(outcomes(found.verdicts).values()) == {Outcome.AGREE}


@pytest.mark.parametrize(
    ("by_s", "outcome"),
    [(1.4, Outcome.AGREE), (1.6, Outcome.DIFFER)],
)
def test_the_median_bar_is_one_second_beyond_measurement_error(by_s: float, outcome: Outcome) -> None:
    """Real times are known to half a second: 1.4 s late is 0.9 s beyond that, 1.6 s is 1.1 s."""
    twin = changed(queue_run(120), late(by_s))
    found = judge([(twin, r) for r in real()])
    assert outcomes(found.verdicts)["start error, median"] is outcome


def test_a_tail_beyond_one_backfill_interval_differs() -> None:
    """One start in ten 40 s late: the median agrees, p95 differs."""
    slow = lambda e: late(40)(e) if (e.job_id or 0) % 10 == 0 else e  # noqa: E731
    found = outcomes(judge([(changed(queue_run(120), slow), r) for r in real()]).verdicts)
    assert found["start error, median"] is Outcome.AGREE
    assert found["start error, p95"] is Outcome.DIFFER


def test_the_spread_of_the_real_runs_widens_the_bar() -> None:
    """Where real runs differ by 4 s among themselves a twin 4 s off agrees; 10 s off it differs."""
    reals = [changed(r, late(4.0 * i), "slurm") for i, r in enumerate(real())]
    near = judge([(changed(r, late(4), "twin"), r) for r in reals])
    far = judge([(changed(r, late(12), "twin"), r) for r in reals])
    assert outcomes(near.verdicts)["start error, median"] is Outcome.AGREE
    assert outcomes(far.verdicts)["start error, median"] is Outcome.DIFFER


def test_other_nodes_in_two_of_a_hundred_starts_differ() -> None:
    """Node sets must be equal in 99 % of starts; the order in which nodes are named does not matter."""

    def moved(share: int) -> Callable[[Event], Event]:
        return lambda e: e._replace(node="n999") if e.kind == "job.started" and (e.job_id or 0) % share == 0 else e

    for share, outcome in ((50, Outcome.DIFFER), (120, Outcome.AGREE)):
        found = judge([(changed(queue_run(120), moved(share)), r) for r in real()])
        assert outcomes(found.verdicts)["node sets"] is outcome


def test_a_start_that_is_missing_differs() -> None:
    """Jobs that start in one world only are counted, and their final states too."""

    def cut(e: Event) -> Event | None:
        return None if e.job_id in (3, 4, 5) and e.kind != "job.submitted" else e

    found = outcomes(judge([(changed(queue_run(120), cut), r) for r in real()]).verdicts)
    assert found["starts on both sides"] is Outcome.DIFFER
    assert found["final states"] is Outcome.DIFFER


def test_a_run_that_takes_longer_differs_in_its_length() -> None:
    """Ends 5 s late with starts in time: only the run length differs."""
    found = outcomes(judge([(changed(queue_run(120), late(5, ("job.ended",))), r) for r in real()]).verdicts)
    assert found.pop("run length error, median") is Outcome.DIFFER
    assert set(found.values()) == {Outcome.AGREE}


def test_one_class_that_waits_longer_differs() -> None:
    """All jobs of one user wait 20 % longer: the mean of all may pass, that class does not."""
    twin = queue_run(120)
    waits = {j: r["submit_ns"] for j, r in twin.jobs.items() if r["user"] == "u1"}

    def slower(e: Event) -> Event:
        if e.kind == "job.started" and e.job_id in waits:
            return e._replace(t_ns=e.t_ns + (e.t_ns - waits[e.job_id]) // 5)
        return e

    found = judge([(changed(twin, slower), r) for r in real()])
    verdict = next(v for v in found.verdicts if v.subject == "mean wait, per class")
    assert verdict.outcome is Outcome.DIFFER
    assert "user u1" in verdict.reason


def test_a_run_cut_short_cannot_be_judged() -> None:
    """A twin ended by its budget leaves every phase unknown, with the reason."""
    cut = changed(queue_run(120), lambda e: e._replace(detail='{"why":"max_events"}') if e.kind == "run.ended" else e)
    found = judge([(cut, r) for r in real()])
    assert set(outcomes(found.verdicts).values()) == {Outcome.UNKNOWN}
    assert "twin run was ended early (max_events)" in found.verdicts[0].reason


@pytest.mark.parametrize(("until_s", "outcome"), [(500, Outcome.AGREE), (300, Outcome.UNKNOWN)])
def test_a_real_run_that_waits_in_vain_is_compared_as_far_as_it_goes(until_s: float, outcome: Outcome) -> None:
    """Twin: done as nothing can happen any more. Real: waits until max_time. Only jobs that move later forbid it."""
    twin = a_history(in_order(job_story(1, 0, 1, 400)))
    rows = [e for e in in_order(job_story(1, 0, 1, 400)) if e.t_ns < until_s * SECOND and e.kind != "run.ended"]
    reals = a_history([*rows, row(until_s, "run.ended", why="max_time")], world="slurm")
    assert outcomes(judge([(twin, reals)]).verdicts)["start error, median"] is outcome


def test_no_recording_is_an_input_error() -> None:
    """Nothing to compare is said, not skipped."""
    with pytest.raises(InputError, match="no real run"):
        judge([])


def test_one_repetition_is_judged_by_the_absolute_bar() -> None:
    """Without a second real run there is no spread, and the bar stands alone."""
    found = judge([(queue_run(120), real(repetitions=1)[0])])
    assert set(outcomes(found.verdicts).values()) == {Outcome.AGREE}
    assert "real against real" not in found.verdicts[0].reason


def test_versions_are_pooled_over_their_congested_scenarios() -> None:
    """Two congested scenarios give one row of their version; one with a fault or an idle one stays out."""

    def result(name: str, **more: float) -> Conformance:
        found = judge([(queue_run(60, scenario=name), queue_run(60, scenario=name, world="slurm"))])
        busy = {"utilisation_loaded": 0.9, "share_wait_over_60s": 0.7, "share_by_backfill": 0.2}
        return dataclasses.replace(found, real_summary={**busy, **more}, one_step=(59, 60))

    idle = result("c", utilisation_loaded=0.5)
    faulty = dataclasses.replace(result("d"), faults=1)
    (pooled,) = pool([result("a"), result("b"), idle, faulty])
    row_ = pooled.row()
    assert (row_["version"], row_["jobs"], row_["starts"]) == ("26.05", 120, 120)
    assert row_["one_step"] == pytest.approx(118 / 120)
    assert set(outcomes(pooled.verdicts).values()) == {Outcome.AGREE}
    assert pool([idle, faulty]) == []


@pytest.mark.parametrize(("down_s", "outcome"), [(300, Outcome.AGREE), (345, Outcome.DIFFER)])
def test_fault_milestones_are_compared(down_s: float, outcome: Outcome) -> None:
    """A node that the twin sets DOWN 45 s later than real differs in its milestone."""

    def faulty(at: float, world: str) -> History:
        fault = row(10, "fault.injected", node="n2", actor="fault")
        down = row(at, "node.down", node="n2", reason="Not responding")
        return a_history(in_order(job_story(1, 0, 1, 400), [fault, down]), world=world)

    pairs = [(faulty(down_s, "twin"), faulty(300 + i, "slurm")) for i in range(3)]
    assert outcomes(judge(pairs).verdicts)["milestones, p95"] is outcome


def test_a_milestone_that_never_comes_differs() -> None:
    """Real sets the node DOWN, the twin does not."""
    fault = [row(10, "fault.injected", node="n2", actor="fault")]
    down = [row(300, "node.down", node="n2", reason="Not responding")]
    twin = a_history(in_order(job_story(1, 0, 1, 400), fault))
    reals = [a_history(in_order(job_story(1, 0, 1, 400), fault, down), world="slurm") for _ in range(3)]
    assert outcomes(judge([(twin, r) for r in reals]).verdicts)["milestones, presence"] is Outcome.DIFFER


def test_a_budget_of_the_scenario_ends_both_worlds() -> None:
    """Twin and real both ended by max_time are compared like any other."""
    ended = lambda e: e._replace(detail='{"why":"max_time"}') if e.kind == "run.ended" else e  # noqa: E731
    pairs = [(changed(queue_run(120), ended), changed(r, ended, "slurm")) for r in real()]
    assert set(outcomes(judge(pairs).verdicts).values()) == {Outcome.AGREE}


@pytest.mark.parametrize(("wait_s", "late_s", "outcome"), [
    (2, 0.9, Outcome.AGREE), (2, 1.1, Outcome.DIFFER), (100, 4.9, Outcome.AGREE), (100, 5.1, Outcome.DIFFER),
])  # fmt: skip
def test_mean_waits_agree_within_five_percent_or_the_grain_of_a_second(
    wait_s: float, late_s: float, outcome: Outcome
) -> None:
    """5 % of 100 s are 5 s; of 2 s they would be less than the second in which slurmctld acts."""

    def run(extra: float, world: str) -> History:
        return a_history(in_order(*(job_story(j, j, j + wait_s + extra, j + 900) for j in range(1, 30))), world=world)

    found = judge([(run(late_s, "twin"), run(0, "slurm"))])
    assert outcomes(found.verdicts)["mean wait, per class"] is outcome


def test_controllers_and_node_lists_are_named_alike() -> None:
    """Twin: one row per node and a controller called localhost; real: one row for all and no name."""
    fault = row(10, "fault.injected", actor="fault")
    story = job_story(1, 0, 1, 400)
    down = [row(300, "node.down", node=n) for n in ("n1", "n2")]
    mine = in_order(story, [fault, *down, row(310, "slurmctld.started", node="localhost")])
    both = row(299, "node.down", node="n[1-2]")
    theirs = in_order(story, [fault, both, down[1], row(310, "slurmctld.started")])
    found = judge([(a_history(mine), a_history(theirs, world="slurm"))])
    assert outcomes(found.verdicts)["milestones, presence"] is Outcome.AGREE


def test_a_takeover_and_a_resume_count_once_however_they_are_written() -> None:
    """took_over and then started of one host is one service; resumed and up of one node is one return."""
    fault, down = row(5, "fault.injected", actor="fault"), row(10, "node.down", node="n1")
    head = [fault, down, row(20, "slurmctld.crashed", node="a")]
    took = row(100, "slurmctld.took_over", node="b")
    story = job_story(1, 0, 1, 400)
    facts = ClusterFacts(node_cpus={"n1": 4}, controllers=("a", "b"))
    mine = [*head, took, row(200, "node.resumed", node="n1"), row(200, "node.up", node="n1")]
    theirs = [*head, took, row(100.1, "slurmctld.started", node="b"), row(200, "node.resumed", node="n1")]
    twin, real_ = (a_history(in_order(story, rows), facts=facts) for rows in (mine, theirs))
    (presence,) = [v for v in judge([(twin, real_)]).verdicts if v.subject == "milestones, presence"]
    assert presence.outcome is Outcome.AGREE
    assert presence.size == 0


def presence(mine: list[Event], theirs: list[Event]) -> Verdict:
    """The verdict on milestones that are missing or too many, of one run each."""
    pair = (a_history(mine), a_history(theirs, world="slurm"))
    (found,) = [v for v in judge([pair]).verdicts if v.subject == "milestones, presence"]
    return found


@pytest.mark.parametrize(("crash", "outcome"), [(False, Outcome.AGREE), (True, Outcome.DIFFER)])
def test_a_controller_that_served_before_the_fault_does_not_begin_to(crash: bool, outcome: Outcome) -> None:
    """`scontrol reconfigure` since 24.11 logs the start of a new process; after a crash a start is a milestone."""
    head = [row(-5, "slurmctld.started"), row(10, "fault.injected", actor="fault")]
    story = job_story(1, 0, 1, 400)
    crashed = [row(11, "slurmctld.crashed")] if crash else []
    theirs = in_order(head, story, crashed, [row(12, "slurmctld.started")])
    down = [row(300, "node.down", node="n2")]
    assert presence(in_order(head, story, down), in_order(theirs, down)).outcome is outcome


@pytest.mark.parametrize("own_row", [True, False])
@pytest.mark.parametrize(("requeued", "outcome"), [(True, Outcome.AGREE), (None, Outcome.DIFFER)])
def test_a_real_end_may_say_itself_that_it_is_a_requeue(requeued: bool | None, own_row: bool, outcome: Outcome) -> None:
    """With a row of its own or without, it is one requeue and the job is pending again; else both are missed."""
    head = [
        row(0, "job.submitted", 1), row(1, "job.started", 1, "n1", value=1, unit="cpu", by="main"),
        row(2, "fault.injected", actor="fault"), row(9, "node.down", node="n1"),
    ]  # fmt: skip
    end = [row(500, "run.ended", why="done")]
    mine = [*head, row(10, "job.ended", 1, state="NODE_FAIL"), row(10, "job.requeued", 1, value=130 * SECOND), *end]
    told = [row(10, "job.requeued", 1)] if own_row and requeued else []
    theirs = [*head, row(10, "job.ended", 1, state="NODE_FAIL", requeued=requeued), *told, *end]
    found = outcomes(judge([(a_history(mine), a_history(theirs, world="slurm"))]).verdicts)
    assert found["milestones, presence"] is outcome
    assert found["final states"] is outcome


def test_a_job_that_slurmctld_forgot_for_good_is_a_lost_one() -> None:
    """Only the twin can write job.lost; in a real table the run ends with the state, or its number is given again."""
    kill = [row(20, "slurmctld.crashed", node="a"), row(30, "slurmctld.started", node="a")]
    loss = row(25, "fault.injected", actor="fault", fault={"kind": "slurmctld.lose_state"})
    started = row(2, "job.started", 1, "n1", value=1, unit="cpu", by="main")
    theirs = [
        row(1, "job.submitted", 1, slurm_id="7"),
        started,
        kill[0],
        loss,
        kill[1],
        row(90, "run.ended", why="done"),
    ]
    mine = [*theirs[:5], row(30, "job.lost", 1), theirs[5]]
    assert outcomes(judge([(a_history(mine), a_history(theirs))]).verdicts)["final states"] is Outcome.AGREE
    again = job_story(2, 40, 41, 60)
    again[0] = row(40, "job.submitted", 2, slurm_id="7")
    real_ = in_order([row(1, "job.submitted", 1, slurm_id="7"), *kill], again, [row(90, "run.ended", why="done")])
    twin = in_order(real_, [row(30, "job.lost", 1)])
    assert outcomes(judge([(a_history(twin), a_history(real_))]).verdicts)["final states"] is Outcome.AGREE
    kept = [e._replace(detail=None) if e.kind == "job.submitted" else e for e in real_]
    assert outcomes(judge([(a_history(twin), a_history(kept))]).verdicts)["final states"] is Outcome.DIFFER


def test_what_a_daemon_does_after_the_end_of_the_run_is_not_the_runs() -> None:
    """A start that is logged while the real cluster is shut down is no start."""
    run = in_order(job_story(1, 0, 1, 50), [row(60, "run.ended", why="done"), row(0, "job.submitted", 2)])
    shut_down = row(61, "job.started", 2, "n1", value=1, unit="cpu", by="main")
    found = judge([(a_history(run), a_history([*run, shut_down], world="slurm"))])
    assert set(outcomes(found.verdicts).values()) == {Outcome.AGREE}


@pytest.mark.parametrize(
    ("same", "total", "outcome"), [(99, 100, Outcome.AGREE), (98, 100, Outcome.DIFFER), (0, 0, Outcome.UNKNOWN)]
)
def test_one_step_needs_99_percent(same: int, total: int, outcome: Outcome) -> None:
    """From recorded states: the same job and node set in at least 99 of 100 starts."""
    assert judge_one_step("mixed", "26.05", same, total).outcome is outcome


def test_the_row_of_figures_has_the_bars_numbers() -> None:
    """Conformance.row() carries every number of the issue's table."""
    row_ = judge([(queue_run(120), r) for r in real()]).row()
    assert row_["median_start_error_s"] == 0
    assert row_["same_nodes"] == 1
    assert 0 < row_["real_utilisation"] <= 1
    assert row_["real_share_by_backfill"] > 0


def test_node_sets_that_real_runs_do_not_share_are_no_verdict() -> None:
    """Where real repetitions choose other nodes nearly always, no bar is left: unknown, not agree."""

    def elsewhere(place: int) -> Callable[[Event], Event]:
        return lambda e: e._replace(node=f"n{900 + place}") if e.kind == "job.started" else e

    reals = [changed(r, elsewhere(place), "slurm") for place, r in enumerate(real())]
    found = judge([(queue_run(120), r) for r in reals])
    assert outcomes(found.verdicts)["node sets"] is Outcome.UNKNOWN
