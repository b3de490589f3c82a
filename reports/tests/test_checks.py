"""Each property: a good history holds, a history with one planted mistake turns it red and nothing else is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from slurmtwin.contract.cluster_facts import ClusterFacts
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Event
from slurmtwin_reports.checks import PROPERTIES, run_checks
from slurmtwin_reports.history import History, rows_of_events
from slurmtwin_reports.testing import a_history, in_order, job_story, planted, queue_run, row
from slurmtwin_reports.verdict import Outcome


def verdict(name: str, history: History) -> Outcome:
    return PROPERTIES[name](history).outcome


def good() -> list[Event]:
    """Two jobs, one requeued after its node went DOWN, one takeover of the controller."""
    return in_order(
        job_story(1, 0, 2, 50),
        [
            row(0, "slurmctld.started", node="a", role="primary"),
            row(1, "job.submitted", 2),
            row(3, "job.started", 2, "n2", value=4, unit="cpu", by="backfill"),
            row(3, "script.started", 2, "n2"),
            row(10, "fault.injected", fault="slurmd.kill", actor="fault"),
            row(10, "script.ended", 2, "n2", exit_code=9),
            row(30, "node.down", node="n2", reason="Not responding"),
            row(30, "job.ended", 2, state="NODE_FAIL"),
            row(30, "job.requeued", 2, reason="node_fail", value=151_000_000_000, unit="ns"),
            row(30, "job.completed", 2),
            row(60, "slurmctld.stopped", node="a"),
            row(90, "slurmctld.took_over", node="b", role="backup"),
            row(100, "node.registered", node="n2", state="IDLE"),
            row(100, "node.up", node="n2"),
            row(152, "job.started", 2, "n2", value=4, unit="cpu", by="main"),
            row(152, "script.started", 2, "n2"),
            row(160, "script.ended", 2, "n2", exit_code=0),
            row(160, "job.ended", 2, state="COMPLETED"),
            row(161, "job.completed", 2),
        ],
    )[1:]


def first(kind: str, job: int | None = None, at_s: float | None = None) -> Callable[[Event], bool]:
    def is_it(e: Event) -> bool:
        return e.kind == kind and (job is None or e.job_id == job) and (at_s is None or e.t_ns == at_s * 1e9)

    return is_it


def without(events: Sequence[Event], which: Callable[[Event], bool]) -> list[Event]:
    return [e for e in events if not which(e)]


def moved(events: Sequence[Event], which: Callable[[Event], bool], to_s: float) -> list[Event]:
    """The row which() finds, at another time and sorted in there."""
    out = [e._replace(t_ns=round(to_s * 1e9)) if which(e) else e for e in events]
    return sorted(out, key=lambda e: e.t_ns)


def with_row(events: Sequence[Event], *extra: Event) -> list[Event]:
    return sorted([*events, *extra], key=lambda e: e.t_ns)


@pytest.mark.parametrize("name", list(PROPERTIES))
def test_every_property_holds_on_a_run_without_a_mistake(name: str) -> None:
    """A good history with a requeue and a takeover breaks no property."""
    history = a_history(good(), results={"events": len(good()), "job_states": {"COMPLETED": 2}})
    assert verdict(name, history) is Outcome.HOLDS


@pytest.mark.parametrize("name", list(PROPERTIES))
def test_every_property_holds_on_a_congested_run(name: str) -> None:
    """Three hundred jobs served by a plain queue break no property."""
    assert verdict(name, queue_run(300)) is Outcome.HOLDS


BUGS = {
    "a node is given away twice": ("capacity", lambda e: with_row(e, *job_story(3, 4, 5, 9, "n2", 2))),
    "a job starts on a node that is not there": ("capacity", lambda e: with_row(e, *job_story(3, 4, 5, 9, "n9"))),
    "a job starts without nodes": ("capacity", lambda e: with_row(e, *job_story(3, 4, 5, 9, ""))),
    "a job starts on a DOWN node": ("usable-nodes", lambda e: with_row(e, *job_story(3, 31, 40, 45, "n2"))),
    "a job starts on a drained node": (
        "usable-nodes", lambda e: with_row(e, row(1, "node.drained", node="n1", reason="x")),
    ),
    "a job starts on a silent node": (
        "usable-nodes", lambda e: with_row(e, row(1, "node.not_responding", node="n[1-2]")),
    ),
    "a job starts on an INVAL node": ("usable-nodes", lambda e: with_row(e, row(1, "node.invalid", node="n1"))),
    "a job starts on a deleted node": ("usable-nodes", lambda e: with_row(e, row(1, "node.deleted", node="n1"))),
    "the requeue hold is cut short": (
        "requeue-hold", lambda e: moved(e, first("job.started", 2, 152), 150),
    ),
    "a job vanishes": ("no-job-lost", lambda e: without(e, lambda x: x.job_id == 1 and x.kind != "job.submitted")),
    "a job never ends": ("no-job-lost", lambda e: without(e, first("job.ended", 1))),
    "a job is forgotten before any fault": ("no-job-lost", lambda e: with_row(e, row(5, "job.lost", 1))),
    "a script starts twice": ("no-double-run", lambda e: with_row(e, row(20, "script.started", 1, "n2"))),
    "a script outlives its requeue": ("no-double-run", lambda e: moved(e, first("script.ended", 2, 10), 156)),
    "a script never ends": ("no-double-run", lambda e: without(e, first("script.ended", 2, 10))),
    "a script runs again unasked": ("no-double-run", lambda e: with_row(e, row(55, "script.started", 1, "n1"))),
    "two controllers serve": ("one-active-controller", lambda e: without(e, first("slurmctld.stopped"))),
    "a job starts twice": (
        "legal-states", lambda e: with_row(e, row(20, "job.started", 1, "n2", value=1, unit="cpu", by="main")),
    ),
    "a job ends that never started": ("legal-states", lambda e: without(e, first("job.started", 1))),
    "a job starts before it is submitted": ("legal-states", lambda e: moved(e, first("job.started", 2, 3), 0.5)),
    "a job starts while completing": ("legal-states", lambda e: moved(e, first("job.completed", 2, 30), 155)),
    "a job completes twice": ("legal-states", lambda e: with_row(e, row(70, "job.completed", 1))),
    "a job is purged while it runs": ("legal-states", lambda e: with_row(e, row(20, "job.purged", 1))),
    "a job is submitted twice": ("legal-states", lambda e: with_row(e, row(1, "job.submitted", 1))),
    "time goes back": ("rows-in-order", lambda e: [e[9], *e[:9], *e[10:]]),
    "a cause lies ahead": ("causes-point-back", lambda e: [e[0]._replace(cause_seq=3), *e[1:]]),
    "a cause is the row itself": ("causes-point-back", lambda e: [e[0], e[1]._replace(cause_seq=1), *e[2:]]),
    "a cause is negative": ("causes-point-back", lambda e: [e[0], e[1]._replace(cause_seq=-1), *e[2:]]),
    "a row is missing": ("final-state", lambda e: e[:-2] + e[-1:]),
    "the last end is missing": ("final-state", lambda e: without(e, first("job.ended", 1))),
}  # fmt: skip


@pytest.mark.parametrize("bug", list(BUGS))
def test_a_planted_mistake_breaks_its_property(bug: str) -> None:
    """The property named beside the bug turns red, and its reason says something."""
    name, plant = BUGS[bug]
    history = a_history(good(), results={"events": len(good()), "job_states": {"COMPLETED": 2}})
    assert verdict(name, history) is Outcome.HOLDS
    found = PROPERTIES[name](planted(history, plant(good())))
    assert found.outcome is Outcome.BROKEN
    assert found.reason


def test_every_property_has_a_planted_mistake() -> None:
    """No check is without a history that it must refuse."""
    assert sorted({name for name, _ in BUGS.values()}) == sorted(PROPERTIES)


def test_a_gap_in_seq_is_seen() -> None:
    """Rows numbered 0, 1, 3 are not in order."""
    rows = rows_of_events(good())
    history = a_history(good())
    history.rows_of = [*rows[:2], rows[2]._replace(seq=3), *rows[3:]]
    assert verdict("rows-in-order", history) is Outcome.BROKEN


def test_the_event_hash_is_recomputed_from_the_rows() -> None:
    """A manifest whose hash is another run's is caught; the right one is not."""
    from hashlib import blake2b

    from slurmtwin.contract.events import hash_line

    right = blake2b("".join(map(hash_line, good())).encode(), digest_size=16).hexdigest()
    assert verdict("final-state", a_history(good(), results={"event_hash": right})) is Outcome.HOLDS
    assert verdict("final-state", a_history(good(), results={"event_hash": "0" * 32})) is Outcome.BROKEN


@pytest.mark.parametrize("name", list(PROPERTIES))
def test_nothing_to_judge_is_unknown(name: str) -> None:
    """An empty table lets no property hold by silence; only requeues may be none."""
    expected = Outcome.HOLDS if name == "requeue-hold" else Outcome.UNKNOWN
    assert verdict(name, a_history([])) is expected


def test_capacity_without_node_sizes_is_unknown() -> None:
    """A run that does not tell its nodes cannot be judged."""
    assert verdict("capacity", a_history(good(), facts=ClusterFacts())) is Outcome.UNKNOWN


def test_a_job_whose_number_is_given_out_again_holds_nothing() -> None:
    """slurmctld died between its start and the save: the next job got its number, and its CPU."""
    before = [row(1, "job.submitted", 1, slurm_id="7"), row(2, "job.started", 1, "n1", value=4, unit="cpu", by="main")]
    after = [row(5, "job.started", 2, "n1", value=4, unit="cpu", by="main"), row(9, "run.ended", why="done")]
    again, another = row(4, "job.submitted", 2, slurm_id="7"), row(4, "job.submitted", 2, slurm_id="8")
    assert verdict("capacity", a_history([*before, again, *after])) is Outcome.HOLDS
    assert verdict("capacity", a_history([*before, another, *after])) is Outcome.BROKEN


def test_capacity_counts_uneven_cpus_as_the_row_says() -> None:
    """3 + 1 CPUs on two nodes leave one CPU on n1, and a job of two is too much there."""
    wide = row(0, "job.started", 1, "n[1-2]", value=4, unit="cpu", by="main", node_cpus=[3, 1])
    fits = [wide, row(1, "job.started", 2, "n1", value=1, unit="cpu", by="main"), row(9, "run.ended", why="done")]
    over = [wide, row(1, "job.started", 2, "n1", value=2, unit="cpu", by="main"), row(9, "run.ended", why="done")]
    assert verdict("capacity", a_history(fits)) is Outcome.HOLDS
    assert verdict("capacity", a_history(over)) is Outcome.BROKEN


def test_capacity_takes_the_least_when_the_split_is_not_told() -> None:
    """7 CPUs on two nodes of 4 hold at least 3 on each: a job of two beside it cannot fit."""
    wide = row(0, "job.started", 1, "n[1-2]", value=7, unit="cpu", by="main")
    over = [wide, row(1, "job.started", 2, "n1", value=2, unit="cpu", by="main"), row(9, "run.ended", why="done")]
    assert verdict("capacity", a_history(over)) is Outcome.BROKEN


def test_suspended_jobs_hold_no_cpus() -> None:
    """A job may run where another is suspended, and not once that is resumed."""
    base = [
        row(0, "job.started", 1, "n1", value=4, unit="cpu", by="main"), row(5, "job.suspended", 1),
        row(6, "job.started", 2, "n1", value=4, unit="cpu", by="main"),
    ]  # fmt: skip
    end = [row(20, "job.ended", 2, state="COMPLETED"), row(30, "run.ended", why="done")]
    assert verdict("capacity", a_history([*base, *end])) is Outcome.HOLDS
    assert verdict("capacity", a_history([*base, row(10, "job.resumed", 1), *end])) is Outcome.BROKEN


def test_shared_nodes_may_hold_more() -> None:
    """With OverSubscribe=FORCE:2 two jobs may hold the same CPUs, three may not."""
    rows = [row(i, "job.started", i + 1, "n1", value=4, unit="cpu", by="main") for i in range(3)]
    facts = ClusterFacts(node_cpus={"n1": 4}, share=2)
    end = row(9, "run.ended", why="done")
    assert verdict("capacity", a_history([*rows[:2], end], facts=facts)) is Outcome.HOLDS
    assert verdict("capacity", a_history([*rows, end], facts=facts)) is Outcome.BROKEN


def test_what_may_be_measurement_error_is_no_finding() -> None:
    """Ends and starts seen to the second overlap by at most their errors: capacity and usable-nodes hold."""
    rows = [
        row(0, "job.started", 1, "n1", value=4, unit="cpu", by="main", t_err_ns=500_000_000),
        row(9.6, "job.started", 2, "n1", value=4, unit="cpu", by="main", t_err_ns=500_000_000),
        row(10, "job.ended", 1, state="COMPLETED", t_err_ns=500_000_000),
        row(12, "node.down", node="n1", reason="x", t_err_ns=500_000_000),
        row(12.5, "job.started", 3, "n1", value=4, unit="cpu", by="main", t_err_ns=500_000_000),
        row(12.5, "job.ended", 2, state="COMPLETED", t_err_ns=500_000_000),
        row(20, "run.ended", why="done"),
    ]
    assert verdict("capacity", a_history(rows)) is Outcome.HOLDS
    assert verdict("usable-nodes", a_history(rows)) is Outcome.HOLDS


def test_a_run_cut_by_its_budget_may_leave_jobs() -> None:
    """With run.ended saying max_time, running and pending jobs are no finding."""
    rows = [row(0, "job.submitted", 1), row(5, "run.ended", why="max_time")]
    assert verdict("no-job-lost", a_history(rows)) is Outcome.HOLDS
    assert verdict("no-job-lost", a_history([rows[0], row(5, "run.ended", why="done")])) is Outcome.BROKEN


def test_a_job_may_wait_for_ever_if_it_says_why() -> None:
    """A pending job whose reason is a held state is explained; reason Priority is not."""

    def left(reason: str) -> History:
        rows = [row(0, "job.submitted", 1), row(1, "job.pending", 1, reason=reason), row(9, "run.ended", why="done")]
        return a_history(rows)

    assert verdict("no-job-lost", left("DependencyNeverSatisfied")) is Outcome.HOLDS
    assert verdict("no-job-lost", left("Priority")) is Outcome.BROKEN


def test_a_job_of_the_workload_that_never_came_is_lost() -> None:
    """jobs.jsonl has two jobs, the rows know one."""
    history = a_history(in_order(job_story(1, 0, 1, 2)), jobs={1: {"job_id": 1}, 2: {"job_id": 2}})
    assert verdict("no-job-lost", history) is Outcome.BROKEN


def test_array_tasks_are_jobs_of_their_own() -> None:
    """An array submitted by one row: its tasks start each once; a task that never came is missed."""
    tasks = [
        event for task in (0, 1) for event in (
            row(1, "job.started", 7, "n1", value=1, unit="cpu", by="main", array_task=task),
            row(5, "job.ended", 7, state="COMPLETED", array_task=task),
            row(6, "job.completed", 7, array_task=task),
        )
    ]  # fmt: skip
    rows = in_order([row(0, "job.submitted", 7)], tasks)
    complete = a_history(rows, jobs={7: {"job_id": 7, "array": "0-1"}})
    short = a_history(rows, jobs={7: {"job_id": 7, "array": "0-2"}})
    assert [verdict(n, complete) for n in ("legal-states", "no-job-lost", "capacity")] == [Outcome.HOLDS] * 3
    assert verdict("no-job-lost", short) is Outcome.BROKEN


def test_a_crash_may_roll_a_job_back_once() -> None:
    """After slurmctld.crashed a job may start again without an end; without the crash it may not."""

    def run(crash: bool) -> History:
        again = [row(20, "job.started", 1, "n1", value=1, unit="cpu", by="main")]
        crashed = [row(10, "slurmctld.crashed", node="ctl"), row(12, "slurmctld.started", node="ctl")] if crash else []
        return a_history(in_order(job_story(1, 0, 2, 50), crashed, again))

    assert verdict("legal-states", run(True)) is Outcome.HOLDS
    assert verdict("legal-states", run(False)) is Outcome.BROKEN


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ({"kind": "process.signal", "target": "slurmctld"}, Outcome.HOLDS),
        ({"kind": "process.signal", "target": "slurmctld", "signal": "STOP"}, Outcome.BROKEN),
        ({"kind": "process.signal", "target": "slurmd"}, Outcome.BROKEN),
        ({"kind": "kube_node.pause", "target": "node-of:slurmctld"}, Outcome.HOLDS),
        ({"kind": "kube_node.pause", "target": "node-of:slurmd:w-1"}, Outcome.BROKEN),
    ],
)
def test_only_a_killed_slurmctld_forgets(fault: dict[str, str], outcome: Outcome) -> None:
    """In pods the fault's own row tells of the crash; a stopped slurmctld, or a slurmd that goes, forgets no start."""
    again = [row(20, "job.started", 1, "n1", value=1, unit="cpu", by="main")]
    rows = in_order(job_story(1, 0, 2, 50), [row(10, "fault.injected", actor="fault", fault=fault)], again)
    assert verdict("legal-states", a_history(rows)) is outcome


@pytest.mark.parametrize("kind", ["job.state", "job.accounted"])
def test_an_observed_state_is_no_step(kind: str) -> None:
    """What somebody was told when he asked may stand anywhere; a step of the same moment may not."""
    told = [row(at_s, kind, 1, state="RUNNING") for at_s in (0.5, 5, 60)]
    assert verdict("legal-states", a_history(in_order(job_story(1, 0, 2, 50), told))) is Outcome.HOLDS
    asked = [*told, row(60, "job.suspended", 1)]
    assert verdict("legal-states", a_history(in_order(job_story(1, 0, 2, 50), asked))) is Outcome.BROKEN


@pytest.mark.parametrize(
    ("cause_s", "error_s", "outcome"),
    [(10.5, 0.5, Outcome.HOLDS), (10.5, 0.1, Outcome.BROKEN), (10.2, 0.0, Outcome.BROKEN)],
)
def test_a_cause_may_sort_behind_its_effect_within_its_error(cause_s: float, error_s: float, outcome: Outcome) -> None:
    """A stamp of 10.5 s ± 0.5 s may be the cause of its receipt at 10.2 s; ± 0.1 s, or for certain, it may not."""
    receipt = row(10.2, "job.state", 1, cause_seq=1)
    stamp = row(cause_s, "job.submitted", 1, t_err_ns=round(error_s * 1e9))
    assert verdict("causes-point-back", a_history([receipt, stamp])) is outcome


def vague(at_s: float, kind: str, error_s: float, **more: object) -> Event:
    return row(at_s, kind, 1, t_err_ns=round(error_s * 1e9), **more)


@pytest.mark.parametrize(("error_s", "outcome"), [(0.5, Outcome.HOLDS), (0.1, Outcome.BROKEN)])
def test_steps_may_be_reordered_within_their_errors(error_s: float, outcome: Outcome) -> None:
    """An end stored at 10.5 s ± 0.5 s may lie behind a start logged at 10.9 s; ± 0.1 s it may not."""
    start = vague(10.9, "job.started", 0.005, node="n1", value=1, unit="cpu", by="main")
    rows = [vague(0, "job.submitted", 0.005), vague(10.5, "job.ended", error_s, state="COMPLETED", node="n1"), start]
    assert verdict("legal-states", a_history(rows)) is outcome


def test_a_world_that_sees_no_epilog_may_requeue() -> None:
    """Without any job.completed row a requeued job may start again; with such rows it must be complete."""
    again = [
        row(0, "job.submitted", 1), row(1, "job.started", 1, "n1", value=1, unit="cpu", by="main"),
        row(5, "job.ended", 1, state="NODE_FAIL"), row(5, "job.requeued", 1, value=6 * 10**9),
        row(9, "job.started", 1, "n1", value=1, unit="cpu", by="main"), row(12, "job.ended", 1, state="COMPLETED"),
    ]  # fmt: skip
    assert verdict("legal-states", a_history(again)) is Outcome.HOLDS
    assert verdict("legal-states", a_history([*again, row(13, "job.completed", 1)])) is Outcome.BROKEN


@pytest.mark.parametrize(("took_over", "outcome"), [(True, Outcome.BROKEN), (False, Outcome.HOLDS)])
def test_a_thawed_controller_beside_its_successor_is_two(took_over: bool, outcome: Outcome) -> None:
    """A frozen slurmctld serves nobody; thawed after a takeover it makes two."""
    rows = [
        row(0, "slurmctld.started", node="a", role="primary"),
        row(10, "fault.injected", actor="fault", fault={"kind": "slurmctld.freeze", "target": "a"}),
        *([row(200, "slurmctld.took_over", node="b", role="backup")] if took_over else []),
        row(300, "fault.injected", actor="fault", fault={"kind": "slurmctld.thaw", "target": "a"}),
    ]
    assert verdict("one-active-controller", a_history(rows)) is outcome


@pytest.mark.parametrize(
    ("kind", "outcome"), [("slurmctld.lose_state", Outcome.HOLDS), ("slurmctld.kill", Outcome.BROKEN)]
)
def test_a_lost_state_forgets_that_a_node_is_down(kind: str, outcome: Outcome) -> None:
    """DOWN is saved state: after a restart it still bars the node, after a lost state it does not."""
    rows = [
        row(1, "node.down", node="n1", reason="x"), row(5, "fault.injected", actor="fault"),
        row(8, "slurmctld.started", node="ctl"), *job_story(1, 9, 10, 20),
    ]  # fmt: skip
    rows[1] = rows[1]._replace(detail=f'{{"kind":"{kind}"}}')
    assert verdict("usable-nodes", a_history(rows)) is outcome


def test_a_start_forgotten_in_a_crash_holds_no_cpus() -> None:
    """slurmctld starts job 1, crashes, has forgotten it and gives its CPUs to another: no node is overfull."""
    rows = [
        row(0, "job.submitted", 1), row(1, "job.started", 1, "n1", value=4, unit="cpu", by="main"),
        row(2, "slurmctld.crashed", node="ctl"), row(9, "slurmctld.started", node="ctl"),
        row(10, "job.started", 2, "n1", value=4, unit="cpu", by="main"), row(15, "job.ended", 2, state="COMPLETED"),
        row(16, "job.started", 1, "n1", value=4, unit="cpu", by="main"), row(19, "job.ended", 1, state="COMPLETED"),
        row(20, "run.ended", why="done"),
    ]  # fmt: skip
    assert verdict("capacity", a_history(rows)) is Outcome.HOLDS
    assert verdict("capacity", a_history([rows[0], rows[1], *rows[3:]])) is Outcome.BROKEN


@pytest.mark.parametrize(("crash", "outcome"), [(True, Outcome.HOLDS), (False, Outcome.BROKEN)])
def test_a_second_run_after_a_crash_needs_no_requeue(crash: bool, outcome: Outcome) -> None:
    """After a crash a job whose script is over may run again; two scripts at once never may."""
    crashed = [row(12, "slurmctld.crashed", node="ctl")] if crash else []
    first = [row(1, "script.started", 1, "n1"), row(10, "script.ended", 1, "n1")]
    assert verdict("no-double-run", a_history([*first, *crashed, row(20, "script.started", 1, "n2")])) is outcome
    live = [first[0], *crashed, row(20, "script.started", 1, "n2")]
    assert verdict("no-double-run", a_history(live)) is Outcome.BROKEN


def in_world(world: str, rows: Sequence[Event], **more: object) -> History:
    return a_history(rows, world=world, **more)


KILLED = [
    row(0, "job.submitted", 1), row(1, "job.started", 1, "n1", value=1, unit="cpu", by="main"),
    row(1, "script.started", 1), row(5, "job.ended", 1, state="PREEMPTED"), row(5, "job.requeued", 1, value=6 * 10**9),
    row(9, "job.started", 1, "n1", value=1, unit="cpu", by="main"), row(9, "script.started", 1),
    row(19, "script.ended", 1), row(20, "job.ended", 1, state="COMPLETED"), row(20, "run.ended", why="done"),
]  # fmt: skip


def test_a_launch_under_way_at_the_crash_may_be_repeated() -> None:
    """Started, crash, the script begins; the restarted slurmctld starts the job anew: fine if the first is over."""
    rows = [
        row(1, "job.started", 1, "n1", value=1, unit="cpu", by="main"), row(2, "slurmctld.crashed", node="a"),
        row(3, "script.started", 1, "n1"), row(9, "script.ended", 1, "n1"),
        row(20, "job.started", 1, "n1", value=1, unit="cpu", by="main"), row(21, "script.started", 1, "n1"),
    ]  # fmt: skip
    assert verdict("no-double-run", a_history(rows)) is Outcome.HOLDS
    assert verdict("no-double-run", a_history([*rows, row(22, "script.started", 1, "n2")])) is Outcome.BROKEN


@pytest.mark.parametrize(("state", "outcome"), [("NODE_FAIL", Outcome.HOLDS), ("COMPLETED", Outcome.UNKNOWN)])
def test_no_script_ran_where_every_launch_was_taken_back(state: str, outcome: Outcome) -> None:
    """A failing prolog requeues the job before its script; a job that completed must have had one."""
    rows = [
        row(0, "job.submitted", 1), row(1, "job.started", 1, "n1", value=1, unit="cpu", by="main"),
        row(2, "job.ended", 1, state=state, requeued=True if state == "NODE_FAIL" else None),
    ]  # fmt: skip
    assert verdict("no-double-run", in_world("slurm", rows)) is outcome


def test_a_real_script_that_was_killed_writes_no_end() -> None:
    """One end for two starts: unseen in the slurm world, a finding in the twin, which writes every end."""
    assert verdict("no-double-run", in_world("slurm", KILLED)) is Outcome.HOLDS
    assert verdict("no-double-run", in_world("twin", KILLED)) is Outcome.BROKEN


def test_two_real_scripts_that_both_end_surely_overlapped() -> None:
    """Both ends come after the second start: the first script outlived its requeue."""
    both = sorted([*KILLED, row(15, "script.ended", 1)], key=lambda e: e.t_ns)
    assert verdict("no-double-run", in_world("slurm", both)) is Outcome.BROKEN


def test_a_real_row_without_a_split_counts_the_least() -> None:
    """4 CPUs on n[1-2] with 3 CPUs of n1 taken: an even split is too much, 1 + 3 is not; the twin means even."""
    rows = [
        row(0, "job.started", 1, "n1", value=3, unit="cpu", by="main"),
        row(1, "job.started", 2, "n[1-2]", value=4, unit="cpu", by="main"), row(9, "run.ended", why="done"),
    ]  # fmt: skip
    assert verdict("capacity", in_world("slurm", rows)) is Outcome.HOLDS
    assert verdict("capacity", in_world("twin", rows)) is Outcome.BROKEN


def test_real_silence_may_have_ended_unseen() -> None:
    """A start on a node that did not answer is a finding in the twin alone; on a DOWN node in both."""
    silent = [row(1, "node.not_responding", node="n1"), *job_story(1, 2, 3, 5)]
    down = [row(1, "node.down", node="n1"), *job_story(1, 2, 3, 5)]
    assert verdict("usable-nodes", in_world("slurm", silent)) is Outcome.HOLDS
    assert verdict("usable-nodes", in_world("twin", silent)) is Outcome.BROKEN
    assert verdict("usable-nodes", in_world("slurm", down)) is Outcome.BROKEN


def test_a_real_crash_takes_jobs_without_a_word() -> None:
    """A job unseen after a crash is lost in the slurm world; the twin must say job.lost."""
    rows = [row(0, "job.submitted", 1), row(5, "slurmctld.crashed", node="a"), row(9, "run.ended", why="done")]
    late = [rows[1], row(6, "job.submitted", 1), rows[2]]
    assert verdict("no-job-lost", in_world("slurm", rows)) is Outcome.HOLDS
    assert verdict("no-job-lost", in_world("twin", rows)) is Outcome.BROKEN
    assert verdict("no-job-lost", in_world("slurm", late)) is Outcome.BROKEN


def test_what_ran_when_the_state_was_lost_holds_nothing() -> None:
    """After slurmctld.lose_state the CPUs are given away again; a mere stop does not free them."""

    def run(kind: str) -> History:
        lost = row(5, "fault.injected", actor="fault", fault={"kind": kind})
        starts = [row(t, "job.started", t, "n1", value=4, unit="cpu", by="main") for t in (1, 9)]
        return a_history([starts[0], lost, starts[1], row(20, "run.ended", why="done")])

    assert verdict("capacity", run("slurmctld.lose_state")) is Outcome.HOLDS
    assert verdict("capacity", run("slurmctld.stop")) is Outcome.BROKEN


def test_a_takeover_whose_stop_was_not_seen_is_unknown() -> None:
    """scontrol takeover: a twin that writes no stop has two controllers, a real log may just not show it."""
    rows = [
        row(0, "slurmctld.started", node="a"),
        row(10, "fault.injected", actor="fault", fault={"kind": "slurmctld.takeover"}),
        row(13, "slurmctld.took_over", node="b"),
    ]  # fmt: skip
    assert verdict("one-active-controller", in_world("slurm", rows)) is Outcome.UNKNOWN
    assert verdict("one-active-controller", in_world("twin", rows)) is Outcome.BROKEN


def test_later_components_of_a_hetjob_are_submitted_with_the_first() -> None:
    """Only the first component is logged at submit; an unrelated job that was never submitted is a finding."""
    starts = [row(5, "job.started", j, "n1", value=1, unit="cpu", by="backfill") for j in (1, 2)]
    rows = [row(0, "job.submitted", 1), *starts]
    jobs = {1: {"job_id": 1, "het_group": 1}, 2: {"job_id": 2, "het_group": 1}}
    assert verdict("legal-states", a_history(rows, jobs=jobs)) is Outcome.HOLDS
    assert verdict("legal-states", a_history(rows, jobs={1: jobs[1], 2: {"job_id": 2}})) is Outcome.BROKEN


def test_an_end_may_say_that_it_was_a_requeue() -> None:
    """job.ended with requeued: true leads back to pending."""
    rows = [
        row(0, "job.submitted", 1), row(1, "job.started", 1, "n1", value=1, unit="cpu", by="main"),
        row(5, "job.ended", 1, state="NODE_FAIL", requeued=True),
        row(200, "job.started", 1, "n1", value=1, unit="cpu", by="main"),
    ]  # fmt: skip
    assert verdict("legal-states", a_history(rows)) is Outcome.HOLDS
    rows[2] = row(5, "job.ended", 1, state="NODE_FAIL")
    assert verdict("legal-states", a_history(rows)) is Outcome.BROKEN


def test_an_unknown_property_name_is_refused() -> None:
    """A scenario that expects a property nobody checks is wrong, not fine."""
    with pytest.raises(InputError, match="no property is called 'no-magic'"):
        run_checks(a_history(good()), ["no-magic"])


def test_verdicts_name_scenario_version_and_world() -> None:
    """run_checks fills in what the run was."""
    found = run_checks(a_history(good(), scenario="tiny", world="slurm"), ["capacity"])
    assert [(v.scenario, v.version, v.world) for v in found] == [("tiny", "26.05", "slurm")]
