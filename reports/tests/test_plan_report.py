"""The page of a plan: the answer and its standing first, every figure from the document, nothing loaded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from slurmtwin_reports.pages import listed, render, span
from slurmtwin_reports.plan_report import plan_page, write_plan_report


def _waits(scale: float) -> list[dict[str, Any]]:
    names = ("all", "1 CPU", "<script>")
    return [
        {"class": n, "jobs": 100 * k, "never": 0, "mean_s": 10 * scale * k, "median_s": 1.0, "p95_s": 300 * scale * k,
         "p99_s": None}
        for k, n in enumerate(names, 1)
    ]  # fmt: skip


@pytest.fixture
def document() -> dict[str, Any]:
    """A plan as `slurmtwin plan --json` gives it."""
    return {
        "target": ["p95 wait < 1h"], "shapes": ["80x1M", "12x1M"], "seed": 3, "slurm_version": "26.05",
        "command": "slurmtwin plan a.swf", "outages": ["each node fails every 90d on average, back after 4h"],
        "answer": {"nodes": 76, "counts": [22, 54], "low": 70, "high": 82, "nodes_95": 81, "counts_95": [24, 57],
                   "standard_error": 3.0, "resamples": 30, "met_in_resamples": 0.6, "blocks": 17, "crossing": 75.4,
                   "longer_for_narrow": 2.5},
        "today": {"nodes": 68, "counts": [20, 48]},
        "judge": {"nodes": 76, "settled": True, "guide_nodes": 75, "points": [
            {"nodes": 76, "jobs": 100, "met": True, "counts": [22, 54], "classes": _waits(1),
             "figures": [{"target": "p95 wait < 1h", "twin_s": 3500.0, "guide_s": 3400.0}]}]},
        "replay": {"supported": False, "why": "capacity does not explain the recorded waits: p95", "explained": 0.1,
                   "by": "quick model", "twin_jobs": 50, "twin_mean_s": 10.0, "guide_mean_s": 11.0, "figures": [],
                   "classes": [{"class": "all", "jobs": 3, **{f"{w}_{k}_s": 60.0 for w in ("replayed", "recorded")
                                                              for k in ("mean", "median", "p95")}}]},
        "curve": [{"nodes": n, "counts": [n, 0], "met": n > 70, "classes": _waits(80 / n)} for n in (68, 76, 90)],
        "by_shape": [{"shape": "80x1M", "today": 20, "fewest": 25, "tried_up_to": 100},
                     {"shape": "12x1M", "today": 48, "fewest": None, "tried_up_to": 100}],
        "what_if": [{"assumption": "jobs run twice as long", "nodes": 150, "figures_s": [7200.0]}],
        "power_saving": {"suspend_s": 600, "boot_s": 300, "node_hours": 1000.0, "node_hours_on": 400.0,
                         "share_on": 0.4, "jobs_that_boot": 0.125},
        "breaks_first": {"class": "1 CPU", "nodes": 70, "figure": "p95_s", "value_s": 4000.0, "jobs": 7},
        "demand": {"jobs": 300.0, "days": 12.0, "mean_cpus": 900.0},
        "costs": [{"what": "today", "nodes": 68, "counts": [20, 48], "utilisation": 0.5, "per_year": 1e6},
                  {"what": "answer", "nodes": 76, "counts": [22, 54], "utilisation": 0.4, "per_year": 1.2e6}],
        "trace": {"notes": ["warm-up: 2 days"], "dropped": {"run time unknown": {"count": 2}}, "altered": {}},
    }  # fmt: skip


def test_the_answer_stands_first_and_says_what_it_is_worth(document: dict[str, Any]) -> None:
    """An unsupported answer says so in its first lines."""
    page = plan_page(document)
    assert page.answer == "76 nodes keep p95 wait < 1h"
    assert (page.tone, page.chip) == ("bad", "unsupported")
    assert "Do not act on this" in page.lede
    document["replay"]["supported"] = True
    assert plan_page(document).chip == "supported"
    document["judge"]["settled"] = False
    assert plan_page(document).tone == "hold"


def test_the_page_loads_nothing_and_escapes_what_it_shows(document: dict[str, Any], tmp_path: Path) -> None:
    """No script, no address, equal bytes for equal plans; the class's name is text."""
    text = render(plan_page(document))
    assert text == render(plan_page(document))
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert not re.search(r"(?:src|href)=\"(?!data:)", text)
    assert write_plan_report(tmp_path / "p.html", document) == len(text.encode())


def test_each_table_names_its_file_and_holds_the_document_s_numbers(document: dict[str, Any]) -> None:
    """Curve, judged, replay, shapes, what-if, costs."""
    blocks = {block.file: block for block in plan_page(document).blocks if block.file}
    assert set(blocks) == {"curve", "judged", "replay", "shapes", "what_if", "power_saving", "costs"}
    table = blocks["shapes"].table
    assert table is not None
    assert table.rows[1][2] == "not even 100"
    what_if = blocks["what_if"].table
    assert what_if is not None
    assert what_if.rows == [["Jobs run twice as long", "150", "2 h"]]
    assert "40 % of the node-hours on; 12.5 % of the jobs" in blocks["power_saving"].hint
    curve = blocks["curve"].table
    assert curve is not None
    assert curve.strong == {0, 1}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "under 1 s"),
        (42, "42 s"),
        (90, "1.5 min"),
        (5400, "1.5 h"),
        (400_000, "4.63 d"),
        (None, "never"),
    ],
)
def test_times_are_for_people(seconds: float | None, text: str) -> None:
    """Three digits and a unit."""
    assert span(seconds) == text


def test_a_list_reads_as_a_sentence() -> None:
    """With commas and an and."""
    assert [listed(["a"]), listed("ab"), listed("abc")] == ["a", "a and b", "a, b and c"]
