"""The shipped studies: every case is a scenario, each runs, and what it says makes sense."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.campaign.case_run import run_case
from slurmtwin.campaign.cases import Case, cases, run_options, scenario_of
from slurmtwin.campaign.study_file import LoadedStudy, load_study
from slurmtwin.cli.design_commands import GRADES
from slurmtwin.models.slurmctld.requeue import Requeues
from slurmtwin_reports.study_markdown import EARLIER, PLAYED_AGAIN, runs_hash
from slurmtwin_reports.study_report import StudyFindings

FOLDER = Path(__file__).parents[3] / "scenarios/studies"
KEPT = Path(__file__).parents[3] / "docs/studies"
NAMES = (
    "ha-of-slurmctld", "integrated-vs-multicluster", "many-clusters", "oom-and-exclusive-nodes",
    "pinning-and-fragmentation", "poll-versus-watch", "scale-in-and-deadlines", "shared-machines",
)  # fmt: skip


def test_all_studies_are_tested_here() -> None:
    """A study file that this table lacks would go unrun."""
    found = [p.stem for p in sorted(FOLDER.glob("*.yaml")) if p.read_text().startswith("schema: slurmtwin/study/1")]
    assert tuple(found) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_case_is_a_scenario_and_every_design_has_a_grade(name: str) -> None:
    """No level is found to be wrong in mid campaign; no conclusion comes without how far its model was checked."""
    loaded = load_study(FOLDER / f"{name}.yaml")
    for case in cases(loaded, 1):
        assert scenario_of(loaded, case).name
        assert run_options(case) is not None
    assert set(loaded.study.grades) == set(loaded.study.designs)
    assert {text[:1] for text in loaded.study.grades.values()} <= set(GRADES)
    assert loaded.study.seeds.count >= 20


@pytest.mark.parametrize("page", sorted(KEPT.glob("*.md")), ids=lambda page: page.stem)
def test_a_kept_page_is_of_the_runs_that_its_study_asks_for_today(page: Path) -> None:
    """A study or scenario that has changed since makes its page stale: run it again with --keep."""
    text = page.read_text(encoding="utf-8")
    (seeds,) = re.findall(r", (\d+) seeds each,", text)
    wanted = cases(load_study(FOLDER / f"{page.stem}.yaml"), int(seeds))
    assert f"from runs {runs_hash({'key': case.key} for case in wanted)};" in text
    assert (KEPT / page.stem / "page.html").stat().st_size < 1_000_000


def _stale(page: Path) -> list[str]:
    """What of a kept page's runs comes out otherwise today, each with the command that makes the page again."""
    place = KEPT / page.stem / PLAYED_AGAIN
    if not place.exists():
        return ["no run of it was kept"]
    kept = json.loads(place.read_text(encoding="utf-8"))
    loaded = load_study(FOLDER / f"{page.stem}.yaml")
    every = {case.key: case for case in cases(loaded, max(run["seed"] for run in kept["runs"]))}
    assert {run["design"] for run in kept["runs"]} == set(loaded.study.designs)
    found = []
    for run in kept["runs"]:
        what = f"{run['design']} {run['levels']} seed {run['seed']}"
        case = every.get(run["key"])
        if case is None:
            found.append(f"{what} is no run of the study; again: {kept['again']}")
        elif run_case(loaded, case).get("event_hash") != run["event_hash"]:
            found.append(f"{what} has other events today; again: {kept['again']}")
    return found


@pytest.mark.parametrize("page", sorted(KEPT.glob("*.md")), ids=lambda page: page.stem)
def test_a_kept_page_is_of_the_models_of_today(page: Path) -> None:
    """A run of each design has the events that it had when the page was made; else the page says that it is older.

    Red: make the page again with the command that is told, or put EARLIER below its second line. A page that says so
    and is of today is red too.
    """
    found = _stale(page)
    assert (EARLIER in page.read_text(encoding="utf-8")) == bool(found), found


def test_a_model_that_changed_makes_a_page_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a requeued job is held for a second more; the command that renews the page is named."""
    page = KEPT / "oom-and-exclusive-nodes.md"
    begin = Requeues.__init__

    def later(self: Requeues, *arguments: Any) -> None:
        begin(self, *arguments)
        self._hold_s += 1

    monkeypatch.setattr(Requeues, "__init__", later)
    found = _stale(page)
    assert found
    assert "slurmtwin study scenarios/studies/oom-and-exclusive-nodes.yaml" in found[0]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_each_study_runs_with_two_seeds(name: str) -> None:
    """At the first level of every factor: each run is done and each design has every metric of the study."""
    loaded = load_study(FOLDER / f"{name}.yaml")
    chosen = _first_point(loaded)
    results = [run_case(loaded, case) for case in chosen]
    assert [r.get("error") for r in results] == [None] * len(results)
    findings = StudyFindings(loaded.study.model_dump(mode="json", by_alias=True), results)
    for design in loaded.study.designs:
        for metric in loaded.study.metrics:
            assert findings.table.estimate(findings.table.points[0], design, metric) is not None, (design, metric)


def _first_point(loaded: LoadedStudy) -> list[Case]:
    found = list(cases(loaded, 2))
    return [case for case in found if case.levels == found[0].levels]


def _figures(name: str, design: str, **levels: str) -> dict[str, Any]:
    """One run of a study, at these levels and the first ones of other factors."""
    loaded = load_study(FOLDER / f"{name}.yaml")
    first = {factor.name: factor.choices()[0][0] for factor in loaded.study.factors}
    wanted = tuple({**first, **levels}.items())
    case = next(c for c in cases(loaded, 1) if c.design == design and c.levels == wanted)
    return dict(run_case(loaded, case)["figures"]["0"])


def test_a_backup_ends_an_outage_that_a_restart_leaves_open() -> None:
    """A restart after half an hour leaves submission shut so long; a backup takes over within three minutes."""
    alone = _figures("ha-of-slurmctld", "restarted", restart_s="1800")
    backed = _figures("ha-of-slurmctld", "with-backup", restart_s="1800")
    assert alone["submission_downtime_s"] == pytest.approx(1800, abs=5)
    assert 60 <= backed["submission_downtime_s"] <= 200


def test_users_who_come_back_wait_for_an_outage_that_others_never_see() -> None:
    """Half an hour without slurmctld: who leaves is in no wait, who comes back waits longer than with a backup."""
    leave, back = (_figures("ha-of-slurmctld", "restarted", users=users) for users in ("leave", "come-back"))
    assert leave["never_submitted"] > 0 == back["never_submitted"]
    assert back["mean_delay_s"] > leave["mean_delay_s"]
    assert back["mean_delay_s"] > _figures("ha-of-slurmctld", "with-backup")["mean_delay_s"]


def test_without_a_drain_a_scale_in_loses_work() -> None:
    """At once: jobs are requeued, and what they had computed is lost. After a drain nothing is."""
    drained = _figures("scale-in-and-deadlines", "by-deadline")
    at_once = _figures("scale-in-and-deadlines", "at-once")
    assert drained["lost_core_hours"] == 0
    assert at_once["lost_core_hours"] > 0.5
    assert at_once["scale_in_s"] < drained["scale_in_s"] / 5


def test_a_rarer_poll_holds_pods_longer() -> None:
    """A drained node waits for the next look."""
    watch = _figures("poll-versus-watch", "watch")
    poll = _figures("poll-versus-watch", "poll-180")
    assert watch["scale_in_s"] < poll["scale_in_s"] <= watch["scale_in_s"] + 250


def test_an_outburst_takes_one_job_where_nodes_are_not_shared() -> None:
    """Fewer requeues than where several jobs share the node, and longer waits."""
    shared = _figures("oom-and-exclusive-nodes", "shared", outbursts_per_hour="4")
    exclusive = _figures("oom-and-exclusive-nodes", "exclusive", outbursts_per_hour="4")
    assert exclusive["requeues"] < 1.3 * shared["requeues"]
    assert exclusive["mean_wait_s"] > shared["mean_wait_s"]


def test_coarser_pieces_wait_longer() -> None:
    """Threads, cores, sockets, nodes: the same jobs ask for more of the machine each time."""
    waits = [
        _figures("pinning-and-fragmentation", design, gap_s="300")["mean_wait_s"]
        for design in ("threads", "cores", "sockets", "nodes")
    ]
    assert waits[1] < waits[2] < waits[3]


def test_a_cluster_cut_off_costs_less_wait_and_more_work_when_jobs_are_sent_again() -> None:
    """Some run twice; without sending again none does."""
    waited = _figures("many-clusters", "least-loaded", links="cut-wait")
    again = _figures("many-clusters", "least-loaded", links="cut-again")
    assert waited["lost_core_hours"] == 0
    assert again["moved"] > 0
    assert again["lost_core_hours"] > 0


def test_a_fetch_of_data_makes_work_away_from_home_longer() -> None:
    """An hour of it turns the better design."""
    free, dear = (_figures("many-clusters", "least-loaded", away_min=m)["mean_turnaround_s"] for m in ("0", "60"))
    home = _figures("many-clusters", "home")["mean_turnaround_s"]
    assert free < home < dear


def test_lent_machines_shorten_waits_and_taking_them_back_at_once_costs_work() -> None:
    """More machine-hours for Slurm than apart; the services get theirs late, or jobs are requeued."""
    apart, lent, taken = (
        _figures("shared-machines", design) for design in ("apart", "lent-until-jobs-end", "lent-and-taken-back")
    )
    assert lent["pod_hours"] > apart["pod_hours"] + 20
    assert lent["mean_wait_s"] < apart["mean_wait_s"]
    assert lent["lost_core_hours"] == 0
    assert taken["scale_in_s"] < lent["scale_in_s"]
