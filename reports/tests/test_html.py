"""The HTML report: complete, escaped, the same bytes each time, and nothing in it points elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from slurmtwin.contract.cluster_facts import ClusterFacts
from slurmtwin_reports.conformance import judge_one_step
from slurmtwin_reports.figures import MOST_JOBS, ecdf, gantt, runs, thin
from slurmtwin_reports.html import Report, card, render, write_report
from slurmtwin_reports.job_table import job_table
from slurmtwin_reports.judge import judge_pairs, judge_runs, make_report
from slurmtwin_reports.metrics import mean_level
from slurmtwin_reports.svg import Chart, Clock, Decades, Linear, Scale
from slurmtwin_reports.testing import a_history, queue_run, row
from slurmtwin_reports.verdict import Outcome, Verdict

NASTY = "<script>alert(1)</script>&\"'{{ 7*7 }}"


def a_report(jobs: int = 80) -> Report:
    pairs = [(queue_run(jobs), queue_run(jobs, world="slurm", noise_s=2, noise_seed=i)) for i in range(3)]
    return make_report("slurmtwin check", [judge_pairs(pairs, title="a queue")])


CELL: Final = ("td", "th")
ROW: Final = (*CELL, "tr")
ENDS: Final = {"td": CELL, "th": CELL, "tr": ROW, "thead": ROW, "tbody": ROW, "table": (*ROW, "tbody")}
"""Tag -> what it ends without a word: a cell or row that begins, the part of a table that ends."""


class Tags(HTMLParser):
    """Collects tags and attributes; complains about a tag closed out of order, but cells and rows may be left open."""

    void = ("meta", "link", "br", "path", "i")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag in ("td", "th", "tr"):
            self._end_before(tag)
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("thead", "tbody", "table"):
            self._end_before(tag)
        assert self.open.pop() == tag

    def _end_before(self, tag: str) -> None:
        while self.open and self.open[-1] in ENDS[tag]:
            self.open.pop()


def parsed(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    tags.close()
    assert tags.open == []
    return tags


def test_the_page_is_well_formed_and_has_its_parts() -> None:
    """Verdicts come first, then the figures of twin and real, then the run card."""
    text = render(a_report())
    tags = parsed(text)
    assert [t for t, _ in tags.seen].count("svg") == 6
    parts = ('id="verdicts"', 'id="figures"', 'id="runs"', "Start error</b>", "Run card")
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_equal_input_gives_equal_bytes() -> None:
    """No time, no random id, no set order in the page."""
    assert render(a_report()) == render(a_report())


def test_the_one_step_score_is_among_the_figures() -> None:
    """118 of 120 recorded starts made equally: 98.33 %."""
    section = judge_pairs([(queue_run(60), queue_run(60, world="slurm", noise_seed=i)) for i in range(2)])
    section.verdicts = [*section.verdicts, judge_one_step("tiny", "26.05", 118, 120)]
    text = render(Report("t", [section]))
    assert '<td class="n">98.33</td>' in text


def test_nothing_in_the_page_points_elsewhere() -> None:
    """No script, no URL but data: and anchors, and a policy that would forbid them."""
    text = render(a_report())
    tags = parsed(text)
    for tag, attributes in tags.seen:
        assert tag not in ("script", "iframe", "object", "embed", "img")
        for name in ("src", "href", "action", "data"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:"))
    assert not re.search(r"https?:|url\(|@import", text)
    assert "default-src 'none'" in text


def test_names_from_files_are_escaped() -> None:
    """Scenario, titles, reasons and causes cannot become markup or template code."""
    history = queue_run(20, scenario=NASTY)
    history.manifest.parameters["factor"] = NASTY
    section = judge_runs([history], ["capacity"], title=NASTY)
    verdict = Verdict(scenario=NASTY, subject=NASTY, outcome=Outcome.DIFFER, reason=NASTY, known=NASTY, world=NASTY)
    section.verdicts = [*section.verdicts, verdict]
    text = render(Report(NASTY, [section]))
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "{{ 7*7 }}" in text
    parsed(text)


def test_every_link_has_its_target() -> None:
    """The rows of the verdict table lead to their sections."""
    tags = parsed(render(a_report()))
    ids = [a["id"] for _, a in tags.seen if a.get("id")]
    assert len(ids) == len(set(ids))
    links = [a["href"] for t, a in tags.seen if t == "a"]
    assert links
    assert all(href is not None and href[1:] in ids for href in links)


def test_a_report_of_one_run_needs_nothing_real() -> None:
    """`report RUN` shows the run alone, without comparison tables."""
    text = render(Report("one run", [judge_runs([queue_run(40)])]))
    assert "Twin against real" not in text
    assert parsed(text)


def test_a_run_without_any_start_still_gives_a_page() -> None:
    """An empty run is shown as what it is."""
    text = render(Report("nothing", [judge_runs([a_history([row(0, "run.ended", why="done")])])]))
    assert parsed(text)


def test_a_full_check_stays_below_5_mb(tmp_path: Path) -> None:
    """36 sections of 500 jobs with all their figures fit."""
    pairs = [(queue_run(500), queue_run(500, world="slurm", noise_s=1, noise_seed=i)) for i in range(3)]
    section = judge_pairs(pairs)
    size = write_report(tmp_path / "report.html", Report("check", [section]))
    assert size * 36 < 5_000_000


def test_shades_show_the_share_of_cpus() -> None:
    """A node whose jobs hold half of its CPUs all the time is drawn in the middle shade, not as full."""
    starts = [row(10 * j, "job.started", j, "n1", value=2, unit="cpu", by="main") for j in range(1, MOST_JOBS + 2)]
    ends = [row(10 * j + 10, "job.ended", j, state="COMPLETED") for j in range(1, MOST_JOBS + 2)]
    submits = [row(0, "job.submitted", j) for j in range(1, MOST_JOBS + 2)]
    events = sorted([*submits, *starts, *ends], key=lambda e: e.t_ns)
    table = job_table(a_history(events, {"n1": 4}))
    svg = gantt(table, ClusterFacts(node_cpus={"n1": 4}), (10, 10 * MOST_JOBS), "")
    assert 'class="shade s3"' in svg
    assert 'class="shade s6"' not in svg


def test_cells_and_rows_of_sections_have_no_end_tags() -> None:
    """HTML does not need them; in a check of everything they are 0.7 of 4.9 MB."""
    text = render(Report("r", [judge_pairs([(queue_run(30), queue_run(30, world="slurm", noise_seed=1))])]))
    sections = text.partition('<details class="run"')[2]
    assert sections.count("<td") > 50
    assert not any(tag in sections for tag in ("</td>", "</th>", "</tr>"))


def test_figures_give_way_before_the_file_grows_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """With too little room good sections lose their figures, the largest first; a finding keeps its own."""
    good = [judge_runs([queue_run(jobs, scenario=f"s{jobs}")], ["capacity"]) for jobs in (60, 61, 62, 90)]
    bad = judge_runs([queue_run(60, scenario="bad")], ["capacity"])
    bad.verdicts = [Verdict(scenario="bad", version="26.05", subject="capacity", outcome=Outcome.BROKEN, reason="r")]
    full = render(Report("t", [good[0], bad, *good[1:]]))
    most = len(full.encode()) * 3 // 4
    monkeypatch.setattr("slurmtwin_reports.html.MOST_BYTES", most)
    small = render(Report("t", [good[0], bad, *good[1:]]))
    drawn = ["<svg" in part for part in small.split('<details class="run"')[1:]]
    assert len(small.encode()) <= most
    assert drawn[:2] == [True, True]
    assert not drawn[-1]
    assert "The figures are left out" in small


def test_values_that_runs_beside_each_other_share_are_one_cell_of_the_run_card() -> None:
    """Three runs, the last of another world: two cells for the world, and as many columns as runs in every line."""
    runs = [queue_run(5), queue_run(5), queue_run(5, world="slurm")]
    lines = dict(card([run.manifest for run in runs]))
    assert lines["World"] == [("twin", 2), ("slurm", 1)]
    assert all(sum(count for _, count in cells) == 3 for cells in lines.values())
    text = render(Report("run", [judge_runs(runs, ["rows-in-order"])]))
    assert '<th>World<td colspan="2">twin<td>slurm' in text


@pytest.mark.parametrize(("jobs", "aggregated"), [(MOST_JOBS, False), (MOST_JOBS + 1, True)])
def test_the_gantt_aggregates_above_two_thousand_starts(jobs: int, aggregated: bool) -> None:
    """Single jobs up to the limit, shades of groups beyond it."""
    text = render(Report("run", [judge_runs([queue_run(jobs, nodes=40)], ["rows-in-order"])]))
    assert ('class="shade s6"' in text) is aggregated
    assert ('class="block main"' in text) is not aggregated


def test_thinning_keeps_the_area() -> None:
    """Averages over slices hold the same total as the steps."""
    steps = [(i * 7_000_000_000, (i * 37) % 11) for i in range(1000)]
    points = thin(steps, 0, 7000)
    area = sum(y * (b - a) for (a, y), (b, _) in pairwise(points))
    assert area == pytest.approx((mean_level(steps, 0, 7_000_000_000_000) or 0) * 7000, rel=1e-9)


def test_the_ecdf_begins_at_nothing_and_ends_at_all() -> None:
    """Thousands of values become few points, with the first, the last and equal ranks between."""
    points = ecdf([float(i) for i in range(5000)], 6000)
    assert points[0] == (0.0, 0.0)
    assert points[-1] == (6000, 1.0)
    assert len(points) < 250


def test_neighbours_join_to_one_block() -> None:
    """Nodes 1, 2, 3 and 7 are two blocks."""
    assert runs([1, 2, 3, 7]) == [(1, 3), (7, 1)]


@pytest.mark.parametrize(
    ("scale", "texts"),
    [
        (Linear(0, 1, percent=True), ["0 %", "25 %", "50 %", "75 %", "100 %"]),
        (Linear(0, 87), ["0", "25", "50", "75"]),
        (Linear(0, 48_000), ["0", "20k", "40k"]),
        (Clock(0, 50), ["0 s", "10 s", "20 s", "30 s", "40 s", "50 s"]),
        (Clock(0, 5400), ["0 min", "15 min", "30 min", "45 min", "60 min", "75 min", "90 min"]),
        (Clock(-10, 400_000), ["0 d", "1 d", "2 d", "3 d", "4 d"]),
        (Decades(100, 0.1), ["0", "0.1 s", "1 s", "10 s", "1 min"]),
        (Linear(3, 3), ["3"]),
    ],
)
def test_ticks_are_round(scale: Scale, texts: list[str]) -> None:
    """Axes carry few round numbers in one unit."""
    assert [t for _, t in scale.ticks()] == texts


def test_chart_text_is_escaped() -> None:
    """A describing text cannot leave its attribute."""
    assert "<script" not in Chart(Linear(0, 1), Linear(0, 1), NASTY).text()


def test_what_must_be_looked_at_comes_first() -> None:
    """Findings, then what could not be judged, then the rest in its order; a row says how many more are not good."""

    def judged(scenario: str, *outcomes: Outcome) -> list[Verdict]:
        return [Verdict(scenario=scenario, subject=f"p{i}", outcome=o, reason="r") for i, o in enumerate(outcomes)]

    verdicts = [
        *judged("calm", Outcome.HOLDS), *judged("dark", Outcome.UNKNOWN),
        *judged("loud", Outcome.DIFFER, Outcome.BROKEN, Outcome.AGREE), *judged("last", Outcome.AGREE),
    ]  # fmt: skip
    text = render(Report("t", [], verdicts))
    places = [text.index(f">{name}<") for name in ("loud", "dark", "calm", "last")]
    assert places == sorted(places)
    assert "p1: r; 1 more of 3 verdicts is not good" in text
