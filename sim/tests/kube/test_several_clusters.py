"""Several clusters on one clock: the shipped scenarios as foretold, and each claim red for a planted mistake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurmtwin.adapters import job_dispatch
from slurmtwin.campaign.parameters import change
from slurmtwin.campaign.recordings import start_times
from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.manifest import Manifest
from slurmtwin.contract.phases import Phase
from slurmtwin.contract.scenario import COPY, Scenario, load_scenario
from slurmtwin.contract.several_clusters import one_table
from slurmtwin.engine.environment import Environment, RunBudget
from slurmtwin.worlds.run import Run
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, run_scenario
from slurmtwin_operator.core.job_dispatch import JobPlan
from slurmtwin_reports.faults.milestones import all_marks
from slurmtwin_reports.history import rows_of_events
from slurmtwin_reports.load import load_run

CLUSTERS = Path(__file__).parents[3] / "scenarios" / "clusters"
NAMES = sorted(path.stem for path in CLUSTERS.glob("*.yaml"))


def shipped(name: str) -> Scenario:
    """One of the scenario files."""
    return load_scenario(CLUSTERS / f"{name}.yaml")


def played(scenario: Scenario, **options: Any) -> Run:
    """A run of it in the twin."""
    return run_scenario(scenario, CLUSTERS, TwinOptions(**({"seed": 1, "keep": True} | options)))


def outside(scenario: Scenario, rows: Sequence[Event]) -> set[str]:
    """Phases that are not as foretold."""
    phases = scenario.expect.phases
    marks = all_marks(rows_of_events(rows), phases)
    return {p.name for p, m in zip(phases, marks, strict=True) if m.start is None or not p.allows(m.length_ns)}


def lengths(scenario: Scenario, phase: Phase, **options: Any) -> int | None:
    """The span of one phase."""
    return all_marks(rows_of_events(played(scenario, **options).kept or []), [phase])[0].length_ns


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("late_s", [0, 2, 4.9])
def test_the_twin_is_as_foretold_wherever_the_fault_falls(name: str, late_s: float) -> None:
    """Between two requests of the dispatcher, all of `within`."""
    scenario = shipped(name)
    late_ns = round(late_s * SECOND)
    times = StartTimes(fault_ns=tuple(fault.at + late_ns for fault in scenario.faults[:1]))
    run = played(scenario, times=replace(times, members={"b": StartTimes()}))
    assert outside(scenario, run.kept or []) == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_the_same_again_and_in_another_order_of_ties_no_phase_leaves_its_bounds(name: str) -> None:
    """Event for event; with simultaneous events shuffled the claims stand."""
    scenario = shipped(name)
    assert played(scenario).event_hash == played(scenario).event_hash
    for seed in (1, 2, 3):
        assert outside(scenario, played(scenario, tie_seed=seed).kept or []) == set()


def named() -> list[Any]:
    """(scenario, phase) of those that name a parameter."""
    found = [(shipped(name), phase) for name in NAMES for phase in shipped(name).expect.phases if phase.parameter]
    return [pytest.param(scenario, phase, id=f"{scenario.name}/{phase.name}") for scenario, phase in found]


@pytest.mark.parametrize(("scenario", "phase"), named())
def test_the_parameter_of_a_phase_moves_it(scenario: Scenario, phase: Phase) -> None:
    """Else no verdict about it could say more than `unknown`. The fault falls 1 s after a request."""

    def length(factor: float) -> int | None:
        changed = change(scenario, phase.parameter, factor).scenario
        at = tuple(fault.at + SECOND for fault in changed.faults)
        return lengths(changed, phase, times=StartTimes(fault_ns=at, members={"b": StartTimes()}))

    assert length(0.5) != length(2.0)


def without_giving_up(plan: JobPlan) -> JobPlan:
    """A dispatcher that never sends a copy."""
    return replace(plan, submits=tuple(one for one in plan.submits if one[1].copies == 0), lost=())


def without_cancel(plan: JobPlan) -> JobPlan:
    """A dispatcher that leaves the first copy."""
    return replace(plan, cancels=())


def cancels_the_wrong_one(plan: JobPlan) -> JobPlan:
    """It ends the copy that it sees, in the cluster that it sees."""
    return replace(plan, cancels=tuple(("b", copy + COPY) for _, copy in plan.cancels))


def sends_all_to(name: str) -> Callable[[JobPlan], JobPlan]:
    """A dispatcher with one cluster in mind."""
    return lambda plan: replace(plan, submits=tuple((name, order) for _, order in plan.submits))


@pytest.mark.parametrize(
    ("name", "mistake", "red"),
    [
        ("x83-cluster-lost", without_giving_up, {"given-up", "sent-again", "starts-at-once"}),
        ("x83-cluster-lost", sends_all_to("a"), {"sent-again", "starts-at-once"}),
        ("x83-cluster-lost", sends_all_to("b"), {"first-copy-is-gone", "starts-at-once"}),
        ("x83-cut-and-back", without_giving_up, {"sent-again", "run-twice", "copy-completes"}),
        ("x83-cut-and-back", without_cancel, {"first-copy-goes", "works-on-meanwhile", "run-twice"}),
        ("x83-cut-and-back", cancels_the_wrong_one, {"copy-completes", "first-copy-goes", "run-twice"}),
        ("x84-filled-behind-its-back", sends_all_to("b"), {"first-waits", "second-waits"}),
        ("x84-filled-behind-its-back", sends_all_to("a"), {"later-one-goes-elsewhere"}),
    ],
)
def test_a_planted_mistake_turns_its_claims_red(
    name: str, mistake: Callable[[JobPlan], JobPlan], red: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that no mistake breaks would say nothing."""
    real = job_dispatch.plan_jobs
    monkeypatch.setattr(job_dispatch, "plan_jobs", lambda *args, **more: mistake(real(*args, **more)))
    scenario = shipped(name)
    assert red <= outside(scenario, played(scenario).kept or [])


def test_what_must_not_happen_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is sent again though its cluster answers, and one that ends in a frozen cluster."""
    scenario = shipped("x83-cluster-lost")
    rows = list(played(scenario).kept or [])
    last = rows[-2]
    for claim, more in (
        ("other-job-stays", Event(last.t_ns, Kind.JOB_SUBMITTED, "slurmctld", 2 + COPY, cluster="a")),
        ("first-copy-is-gone", Event(last.t_ns, Kind.JOB_ENDED, "slurmctld", 1, cluster="a")),
    ):
        assert outside(scenario, rows) == set()
        assert outside(scenario, [*rows, more]) == {claim}


def test_every_row_of_a_cluster_names_it_and_its_causes_are_its_own() -> None:
    """The dispatcher's rows name the cluster that it dealt with; the run begins and ends once."""
    rows = played(shipped("x83-cut-and-back")).kept or []
    whole = [row.kind for row in rows if row.cluster is None]
    assert whole == [Kind.RUN_STARTED, Kind.RUN_ENDED]
    for row in rows:
        if row.cause_seq is not None:
            assert rows[row.cause_seq].cluster == row.cluster
    nodes = {row.node for row in rows if row.kind is Kind.JOB_STARTED}
    assert nodes == {"a-0", "b-0", "b-1"}


def test_a_frozen_cluster_says_nothing_until_it_goes_on() -> None:
    """Neither its daemons nor its control plane; then it answers, and its job ends."""
    document = shipped("x83-cluster-lost").model_dump(mode="json", by_alias=True)
    document["faults"][0] |= {"lasts": "80s", "within": "0s"}
    document["workload"]["dispatch"]["lost_after"] = "0s"
    document["budget"]["max_time"] = "200s"
    rows = played(Scenario.model_validate(document)).kept or []
    frozen = [row for row in rows if row.cluster == "a" and 20 * SECOND < row.t_ns < 100 * SECOND]
    assert {row.actor for row in frozen} <= {"dispatcher", "observer"}
    later = {row.kind for row in rows if row.cluster == "a" and row.t_ns >= 100 * SECOND}
    assert {Kind.JOB_ENDED, Kind.CLIENT_ANSWERED} <= later


def test_causes_point_at_their_rows_in_one_table() -> None:
    """However the tables interleave."""

    def table(at: int) -> list[Event]:
        return [Event(at, Kind.POD_CREATED, "x", node="n"), Event(at + 2, Kind.POD_READY, "y", cause_seq=0)]

    rows = one_table([("a", table(0)), ("b", table(1))], [Event(1, Kind.CLIENT_ANSWERED, "dispatcher", cluster="a")])
    assert [row.t_ns for row in rows] == [0, 1, 1, 2, 3]
    assert [rows[row.cause_seq].cluster for row in rows if row.cause_seq is not None] == ["a", "b"]


def test_a_recordings_clusters_have_their_own_starts() -> None:
    """Daemons, submits and faults of each; a fault of the other one is none of it."""
    scenario = shipped("x83-cut-and-back")
    rows = [row._replace(t_ns=row.t_ns - (SECOND if row.cluster == "b" else 0)) for row in played(scenario).kept or []]
    manifest = Manifest("kind", "t", "", 0, parameters={"epoch_ns": 5})
    times = start_times(manifest, scenario, rows)
    a, b = times.members["a"], times.members["b"]
    assert (len(a.fault_ns), b.fault_ns) == (1, ())
    assert a.slurmctld_ns == b.slurmctld_ns + SECOND
    assert (set(a.submit_ns), set(b.submit_ns)) == ({1}, {2, 1 + COPY})
    assert outside(scenario, played(scenario, times=times).kept or []) == set()


def test_a_dispatcher_that_is_none_of_theirs_is_refused() -> None:
    """Several clusters in pods without one, and one that knows other names."""
    document = shipped("x83-cut-and-back").model_dump(mode="json", by_alias=True)
    for dispatch in (None, {"clusters": ["a", "c"], "policy": "least-loaded", "staleness": "5s"}):
        document["workload"]["dispatch"] = dispatch
        with pytest.raises(InputError, match=r"workload\.dispatch|clusters a, b"):
            played(Scenario.model_validate(document))


def test_a_run_is_written_and_read(tmp_path: Path) -> None:
    """Its folder has every row."""
    run = played(shipped("x84-filled-behind-its-back"), folder=tmp_path)
    found = list(load_run(tmp_path).rows())
    assert len(found) == run.event_count
    assert {row.cluster for row in found} == {"a", "b", None}


class Link:
    """A link that is whole from a time on, on a clock that is stepped by hand."""

    def __init__(self, whole_s: float, late_ns: int = 0) -> None:
        self.env = Environment()
        self.log: list[tuple[str, float]] = []
        cluster: Any = SimpleNamespace(ctld=object())
        port = job_dispatch.ClusterPort(
            self.env, cluster, lambda: self.env.now_ns >= whole_s * SECOND, round(2.5 * SECOND), lambda: 0,
            lambda: late_ns,
        )  # fmt: skip
        port.ask(lambda _: self._note("answer"), lambda: self._note("silence"))
        self.env.run_within(RunBudget())

    def _note(self, what: str) -> None:
        self.log.append((what, self.env.now_ns / SECOND))


@pytest.mark.parametrize(
    ("whole_s", "told"), [(0, ("answer", 0)), (0.5, ("answer", 1)), (1.5, ("answer", 2)), (2.1, ("silence", 2.5))]
)
def test_a_request_over_a_cut_link_is_tried_again_each_second_and_given_up(
    whole_s: float, told: tuple[str, float]
) -> None:
    """As the kernel does with a connection's first packet."""
    assert Link(whole_s).log == [told]


def test_a_time_out_is_as_late_as_asyncio_is() -> None:
    """An answer is not."""
    assert Link(9, late_ns=700_000).log == [("silence", 2.5007)]
    assert Link(1.5, late_ns=700_000).log == [("answer", 2)]


def test_a_dispatcher_wakes_some_ms_late_and_gives_up_later_still() -> None:
    """Loads are asked for each 5 s and given up after 2.5: the loop wakes 1.5 ms late for each of the two."""
    rows = played(shipped("x83-cluster-lost")).kept or []
    refused = next(row for row in rows if row.kind == Kind.CLIENT_REFUSED and row.actor == "dispatcher")
    assert refused.t_ns % (5 * SECOND) / MS - 2500 == 3
