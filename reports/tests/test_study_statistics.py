"""Study statistics against truths known beforehand, and the page made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurmtwin_reports.pages import render
from slurmtwin_reports.study_markdown import write_kept
from slurmtwin_reports.study_report import StudyFindings, study_page, write_study_report
from slurmtwin_reports.study_statistics import (
    StudyTable,
    break_evens,
    crossing,
    differences,
    estimate,
    widest,
)


def _result(design: str, seed: int, load: str, wait: float, cut: float = 0.0) -> dict[str, Any]:
    figures = {f"{c:g}": {"mean_wait_s": wait + c} for c in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)}
    return {"status": "done", "design": design, "levels": {"load": load}, "seed": seed, "cut": cut, "figures": figures}


def _study(
    effect: Any, seeds: int = 20, loads: tuple[str, ...] = ("0.5", "0.7", "0.9"), noise: int = 0
) -> list[dict[str, Any]]:
    """Waits of 100 s, a seed's own part common to both designs, and an effect of design b that depends on the load."""
    draw = np.random.default_rng(noise)
    out = []
    for load in loads:
        for seed in range(seeds):
            common = float(draw.normal(0, 30))
            out.append(_result("a", seed, load, 100 + common + float(draw.normal(0, 3))))
            out.append(_result("b", seed, load, 100 + common + effect(float(load)) + float(draw.normal(0, 3))))
    return out


def test_an_interval_holds_the_true_mean_in_95_of_100() -> None:
    """400 samples of 8 normal values: between 92 and 98 in a hundred."""
    draw = np.random.default_rng(1)
    inside = 0
    for _ in range(400):
        found = estimate(draw.normal(5, 2, 8).tolist())
        assert found.half is not None
        inside += abs(found.mean - 5) <= found.half
    assert 0.92 <= inside / 400 <= 0.98


def test_pairs_find_what_unpaired_runs_would_not() -> None:
    """An effect of 5 s under a spread of 30 s between seeds: the pairs' interval holds 5 and not 0."""
    found = differences(StudyTable(_study(lambda _: 5.0)), "a", ["mean_wait_s"])
    assert len(found) == 3
    for one in found:
        assert one.difference.half is not None
        assert abs(one.difference.mean - 5) < one.difference.half + 1.5
        assert one.stands
        assert one.variance_gain is not None
        assert one.variance_gain > 20


def test_few_false_differences_stand() -> None:
    """No effect at all in 200 studies of three points: something stands in at most one of ten of them."""
    wrong = sum(
        any(d.stands for d in differences(StudyTable(_study(lambda _: 0.0, seeds=8, noise=k)), "a", ["mean_wait_s"]))
        for k in range(200)
    )
    assert wrong <= 20


def test_the_break_even_is_where_the_effect_changes_sign() -> None:
    """The effect is 0 at a load of 0.65: the interval holds it."""
    found = break_evens(StudyTable(_study(lambda load: 100 * (load - 0.65))), "a", ["mean_wait_s"])
    assert len(found) == 1
    one = found[0]
    assert one.value == pytest.approx(0.65, abs=0.03)
    assert one.low is not None
    assert one.high is not None
    assert one.low <= 0.65 <= one.high
    assert one.better_below == "b"


def test_no_break_even_where_one_design_is_always_better() -> None:
    """And a crossing exactly at a level is that level."""
    assert break_evens(StudyTable(_study(lambda _: -50.0)), "a", ["mean_wait_s"])[0].value is None
    assert crossing([1, 2, 3], [-1, 0, 1]) == 2
    assert crossing([1, 2], [-1, 3]) == 1.25
    assert crossing([1, 2], [1, 3]) is None


def test_a_pair_is_read_at_the_later_cut_of_the_two() -> None:
    """The figures carry their cut: design b asks for 0.3, so a is read there too."""
    results = [_result("a", 1, "1", 10.0, cut=0.1), _result("b", 1, "1", 20.0, cut=0.3)]
    table = StudyTable(results)
    point = table.points[0]
    assert (table.value(point, "a", 1, "mean_wait_s"), table.value(point, "b", 1, "mean_wait_s")) == (10.3, 20.3)


def test_the_widest_interval_is_named() -> None:
    """The rule for adding seeds looks at it."""
    share, where = widest(StudyTable(_study(lambda load: 0.0 if load < 0.9 else 900.0)), ["mean_wait_s"])
    assert 0.05 < share < 0.4
    assert "mean_wait_s of" in where


def test_more_of_some_metrics_is_better() -> None:
    """Where b has the higher utilisation it is the better one: above 0.65, not below."""
    rows = [{**r, "figures": {cut: {"utilisation": f["mean_wait_s"]} for cut, f in r["figures"].items()}}
            for r in _study(lambda load: 100 * (load - 0.65))]  # fmt: skip
    assert break_evens(StudyTable(rows), "a", ["utilisation"])[0].better_below == "a"


def _findings(effect: Any) -> StudyFindings:
    study = {"name": "try", "question": "Is b better?", "designs": {"a": {}, "b": {}}, "metrics": ["mean_wait_s"],
             "grades": {"a": "A"}, "warm_up": "mser-5"}  # fmt: skip
    return StudyFindings(study, _study(effect))


def test_the_page_says_who_is_better_and_loads_nothing(tmp_path: Path) -> None:
    """First the answer; equal studies give equal bytes."""
    findings = _findings(lambda _: -20.0)
    page = study_page(findings, "slurmtwin study x.yaml --out o")
    assert page.answer == "b is better than a at every point, in mean wait"
    text = render(page)
    assert text == render(study_page(_findings(lambda _: -20.0), "slurmtwin study x.yaml --out o"))
    assert "://" not in text
    assert write_study_report(tmp_path / "s.html", findings) > 5_000
    assert set(findings.tables()) == {"means", "differences", "break_even"}


@pytest.mark.parametrize(
    ("effect", "says"), [(lambda load: 100 * (load - 0.65), "It depends"), (lambda _: 0.0, "No difference")]
)
def test_the_page_claims_no_more_than_stands(effect: Any, says: str) -> None:
    """Where the answer turns, and where there is none."""
    page = study_page(_findings(effect))
    assert page.answer.startswith(says)
    assert page.tone == "hold"


def test_designs_that_differ_in_opposite_ways_do_not_turn() -> None:
    """c is worse and b is better wherever something stands: that depends on nothing, and neither is lost."""
    rows = _study(lambda _: -20.0)
    rows += [{**r, "design": "c"} for r in _study(lambda _: 20.0) if r["design"] == "b"]
    study = {"name": "try", "question": "Which?", "designs": {"a": {}, "b": {}, "c": {}}, "metrics": ["mean_wait_s"]}
    page = study_page(StudyFindings(study, rows))
    assert page.answer == "b is better than a at every point; c is worse than a at every point, in mean wait"


def test_what_a_better_design_pays_stands_beside_it() -> None:
    """b waits less and loses more: the answer says both; a metric in which nothing stands is not named."""
    rows = []
    for place, row in enumerate(_study(lambda _: -20.0)):
        more = {"lost_core_hours": 5.0 * (row["design"] == "b") + place % 7, "requeues": float(place % 5)}
        rows.append({**row, "figures": {cut: {**figures, **more} for cut, figures in row["figures"].items()}})
    metrics = ["mean_wait_s", "lost_core_hours", "requeues"]
    study = {"name": "try", "question": "Which?", "designs": {"a": {}, "b": {}}, "metrics": metrics}
    page = study_page(StudyFindings(study, rows))
    assert page.answer == "b is better than a at every point, in mean wait; b pays in lost core hours"
    turned = [{**row, "design": "a" if row["design"] == "b" else "b"} for row in rows]
    page = study_page(StudyFindings(study, turned))
    assert "b gains in lost core hours." in page.lede
    assert all(f">b{levels}<" in render(page) for levels in ("", ", load 0.7", ", load 0.9"))


def test_a_turn_without_an_interval_is_not_told_first() -> None:
    """A difference that is noise around nothing passes 0 somewhere; the lede says nothing of where."""
    rows = []
    for load, effect in (("0.5", -40.0), ("0.9", 0.1)):
        for seed in range(20):
            noise = 9.0 if seed % 2 else -9.0
            rows += [_result("a", seed, load, 100.0), _result("b", seed, load, 100.0 + effect + noise)]
    study = {"name": "try", "question": "Is b better?", "designs": {"a": {}, "b": {}}, "metrics": ["mean_wait_s"]}
    noisy = StudyFindings(study, rows)
    assert noisy.break_evens[0].value is not None
    assert "below load" not in study_page(noisy).lede
    turn = study_page(_findings(lambda load: 100 * (load - 0.65)))
    assert "b is better than a below load = 0.6" in turn.lede


def test_a_conclusion_is_held_against_each_assumption() -> None:
    """b is better by 20 s as guessed; it holds, fades and turns under three others, and the page says which do not."""
    effects = {"as-guessed": -20.0, "same": -15.0, "none": 0.0, "other": 20.0}
    results = []
    for level, effect in effects.items():
        for one in _study(lambda _, effect=effect: effect, loads=("0.5",)):
            results.append({**one, "levels": {"assumption": level}})
    study = {"name": "try", "question": "Is b better?", "designs": {"a": {}, "b": {}}, "metrics": ["mean_wait_s"]}
    findings = StudyFindings(study, results)
    verdicts = {h.assumption: h.verdict for h in findings.conclusions}
    assert verdicts == {"same": "holds", "none": "fades", "other": "turns"}
    text = render(study_page(findings))
    assert "1 of 3 conclusions against a hold" in text
    assert len(findings.tables()["assumptions"]) == 3


def test_a_factor_varied_alone_gives_one_break_even() -> None:
    """Points at which only another factor moves are no line along this one."""
    results = [{**r, "levels": {"load": r["levels"]["load"], "size": "1"}} for r in _study(lambda x: 100 * (x - 0.7))]
    results += [{**r, "levels": {"load": "0.5", "size": "2"}} for r in _study(lambda _: 1.0, loads=("0.5",))]
    found = break_evens(StudyTable(results), "a", ["mean_wait_s"])
    assert [(one.factor, one.others) for one in found] == [("load", (("size", "1"),)), ("size", (("load", "0.5"),))]


def test_designs_that_are_equal_everywhere_change_places_nowhere() -> None:
    """A difference of 0 at every level is no break-even, nor is one that begins at 0 or comes back to it."""
    assert crossing([1.0, 2.0], [0.0, 0.0]) is None
    assert crossing([1.0, 2.0, 3.0], [0.0, 4.0, 5.0]) is None
    assert crossing([1.0, 2.0, 3.0], [4.0, 5.0, 0.0]) is None
    assert crossing([1.0, 2.0, 3.0], [4.0, 0.0, 5.0]) is None
    assert crossing([1.0, 2.0, 3.0], [-1.0, 0.0, 1.0]) == 2.0
    assert crossing([1.0, 2.0, 3.0, 4.0], [-1.0, 0.0, 0.0, 1.0]) == 2.5


def test_designs_that_begin_to_differ_say_where() -> None:
    """Equal in every pair at 0.5 and 0.6, b better beyond: no change of places, and the last equal level."""
    results = [
        _result(design, seed, load, 100.0 + seed - (20 if design == "b" and load == "0.9" else 0))
        for load in ("0.5", "0.6", "0.9") for seed in range(5) for design in ("a", "b")
    ]  # fmt: skip
    (one,) = break_evens(StudyTable(results), "a", ["mean_wait_s"])
    assert one.value is None
    assert (one.equal_to, one.better_beyond) == (0.6, "b")


def test_the_kept_page_says_what_the_page_says(tmp_path: Path) -> None:
    """Answer, caveats and tables in Markdown; the CSV files carry every comparison; equal results, equal bytes."""
    study = {
        "name": "kept", "question": "Which?", "designs": {"a": {}, "b": {}}, "metrics": ["mean_wait_s"],
        "grades": {"a": "B, x", "b": "C, y"}, "caveats": ["Waits of those who never came are in no mean."],
    }  # fmt: skip
    findings = StudyFindings(study, _study(lambda x: 100 * (0.65 - x)))
    target = write_kept(tmp_path, findings, "slurmtwin study kept.yaml")
    text = target.read_text()
    assert study_page(findings, "").answer in text
    assert "grade C, y" in text
    assert "- Waits of those who never came are in no mean." in text
    assert "slurmtwin study kept.yaml" in text
    rows = (tmp_path / "kept/tables/differences.csv").read_text().splitlines()
    assert len(rows) == 1 + len(findings.differences)
    before = {p.name: p.read_bytes() for p in tmp_path.rglob("*.*") if p.is_file()}
    write_kept(tmp_path, findings, "slurmtwin study kept.yaml")
    assert {p.name: p.read_bytes() for p in tmp_path.rglob("*.*") if p.is_file()} == before
