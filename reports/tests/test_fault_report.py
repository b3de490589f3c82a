"""A fault scenario in the report: lanes, phases with dots, causes; from recordings alone or with a twin beside."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Event
from slurmtwin.contract.scenario import load_scenario
from slurmtwin_reports.faults.case import CaseRun, FaultCase, case_run, causes_of
from slurmtwin_reports.faults.lanes import LANES, lane_of, said, tone_of
from slurmtwin_reports.faults.phase_figure import phase_intervals
from slurmtwin_reports.faults.phase_verdict import PhaseVerdict
from slurmtwin_reports.faults.section import fault_context, sharpness, suite_counts, suite_line, suite_rows
from slurmtwin_reports.faults.timeline import timeline
from slurmtwin_reports.history import Row, rows_of_events
from slurmtwin_reports.html import Report, Section, render, write_report
from slurmtwin_reports.load import load_run
from slurmtwin_reports.testing import a_history, row
from slurmtwin_reports.verdict import Outcome, Verdict

RECORDINGS = Path("scenarios/recordings")


def lost_worker(world: str = "kind", late_s: float = 0.0) -> list[Event]:
    """An injection, what it led to, and noise; causes are those of the twin."""
    return [
        row(-30, "slurmctld.started"), row(0, "job.started", 1, "w-0"),
        row(10, "fault.injected", fault={"kind": "kube_node.pause", "target": "worker1"}, actor="fault"),
        row(12, "node.pinged", node="w-[0-3]", purpose="ping"),
        row(40 + late_s, "node.not_responding", node="w-0", cause_seq=2, t_err_ns=SECOND // 2),
        row(60 + late_s, "node.down", node="w-0", cause_seq=4, reason="Not <responding>"),
        row(60 + late_s, "job.requeued", 1, cause_seq=5), row(61, "clock.measured", actor="collector"),
        row(90, "run.ended", actor="run", why="done"),
    ]  # fmt: skip


def a_case(twin: bool = True) -> FaultCase:
    """x64's phases on small histories."""
    phases = load_scenario(Path("scenarios/faults/x64-worker-host-lost.yaml")).expect.phases
    runs = [case_run(a_history(lost_worker(late_s=k), world="kind"), phases, f"real {k}") for k in (1, 2)]
    if twin:
        runs.insert(0, case_run(a_history(lost_worker(), world="twin"), phases, "twin"))
    return FaultCase(phases, runs)


def titles(svg: str) -> list[str]:
    """The tooltips of a figure."""
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("title")]


def test_every_mark_says_what_led_to_it() -> None:
    """The requeue's tooltip names the node's DOWN, the silence and the injection, nearest first."""
    tip = next(t for t in titles(timeline(a_case())) if "job.requeued" in t)
    lines = tip.splitlines()
    assert lines[0].startswith("+50.00 s")
    assert [re.sub(r".*s(?: ± \S+)?  ", "", line).split()[0] for line in lines[1:]] == [
        "node.down", "node.not_responding", "fault.injected",
    ]  # fmt: skip
    assert "± 0.5" in lines[2]


def many_recordings(scenario: str, count: int, known: str = "") -> Section:
    """A scenario with a twin and so many recordings."""
    case = a_case()
    case.runs = [case.runs[0], *(replace(case.runs[1], name=f"real {i}") for i in range(1, count + 1))]
    verdict = Verdict(scenario=scenario, subject="phase down", outcome=Outcome.DIFFER, reason="r", known=known)
    return Section(scenario, fault=case, verdicts=[verdict] if known else [])


def test_in_a_report_of_many_scenarios_only_the_last_recordings_have_lanes() -> None:
    """Of nine the last six, in figure and causes, which the page says; phases have all, as has a report of it alone."""
    alone = render(Report("t", [many_recordings("x", 9)]))
    among = render(Report("t", [many_recordings(f"x{i}", 9) for i in range(4)])).split('<details class="run"')[1]
    for text, first in ((alone, 1), (among, 4)):
        names = re.findall(r"<text [^>]*>(real \d+)</text>", text.partition('class="lanes"')[2].partition("</svg>")[0])
        assert names == [f"real {i}" for i in range(first, 10)]
        assert text.count(" ± 0.5<br>") >= 8
    assert "The last 6 of 9 recordings" in among
    assert "of 9 recordings" not in alone


def test_a_timeline_gives_way_before_phases_and_a_known_difference_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one byte less each time: the longest of the good ones, then the other, then their phases, then the known."""
    sections = [many_recordings("known", 5, known="why"), many_recordings("long", 4), many_recordings("short", 2)]
    room, found = 10_000_000, []
    for _ in range(7):
        monkeypatch.setattr("slurmtwin_reports.html.MOST_BYTES", room)
        text = render(Report("t", sections))
        parts = text.split('<details class="run"')[1:]
        found.append([('class="lanes"' in part) + ("<h3>Phases</h3>" in part) for part in parts])
        room = len(text.encode()) - 1
    assert found == [[2, 2, 2], [2, 1, 2], [2, 1, 1], [2, 0, 1], [2, 0, 0], [1, 0, 0], [0, 0, 0]]


def test_a_ring_of_causes_ends() -> None:
    """A broken table cannot hang the report."""
    rows = rows_of_events([row(0, "node.down", cause_seq=1), row(1, "node.up", cause_seq=0)])
    assert [r.seq for r in causes_of(rows, rows[0])] == [1]


@pytest.mark.parametrize(
    ("event", "lane"),
    [
        (row(0, "kube_node.unready", actor="apiserver"), "Kubernetes node"),
        (row(0, "pod.created", actor="apiserver"), "pods, API server"),
        (row(0, "pod.created", actor="collector"), "pods, API server"),
        (row(0, "pod.created", actor="collector", cause_seq=3), None),
        (row(0, "container.ended", actor="apiserver"), "containers"),
        (row(0, "slurmctld.crashed"), "slurmctld"),
        (row(0, "node.down"), "Slurm nodes"),
        (row(0, "script.ended"), "slurmd, scripts"),
        (row(0, "job.requeued", 1), "jobs"),
        (row(0, "client.refused"), "clients"),
        (row(0, "job.state", 1, actor="observer"), None),
    ],
)
def test_rows_have_their_lane(event: Event, lane: str | None) -> None:
    """Polls, and receipts of what has a stamp of its own, have none."""
    found = lane_of(rows_of_events([event])[0])
    assert (None if found is None else LANES[found]) == lane


def test_tones_tell_loss_from_return() -> None:
    """A job that failed is no good end."""
    tones = [row(0, "node.down"), row(0, "slurmd.started"), row(0, "node.pinged"), row(0, "job.updated", 1)]
    tones += [row(0, "job.ended", 1, state=state) for state in ("FAILED", "COMPLETED")]
    assert [tone_of(r) for r in rows_of_events(tones)] == ["bad", "good", "quiet", "plain", "bad", "good"]


def test_text_from_a_run_is_escaped() -> None:
    """A reason with markup in it stays text, in the figure and on the page."""
    case = a_case()
    assert "Not &lt;responding&gt;" in timeline(case)
    assert "<responding>" not in render(Report("r", [Section("x64", fault=case)]))


def test_phases_are_drawn_beside_one_another() -> None:
    """A bar per phase and run; a phase without an end is faded and runs to the end."""
    svg = timeline(a_case())
    assert svg.count('class="bar twin"') == 3
    assert svg.count('class="bar real"') == 6
    assert svg.count(" open") == 3
    assert "not-responding, twin: 30.00 s ± 0.50" in titles(svg)


def test_runs_are_named_once_and_their_names_shown_in_every_band() -> None:
    """A page with a thousand lines is smaller by them; the style sheet's rule finds them in a copy as well."""
    svg = timeline(a_case(), "x<1")
    assert svg.count(">real 1</text>") == 1
    copies = svg.count('<use href="#runs-x&lt;1"')
    assert copies == svg.count('class="grid"') - 1 > 3
    css = files("slurmtwin_reports").joinpath("templates/report.css").read_text()
    assert "}.names text{" in css
    assert ".lanes .names" not in css, "a copy has no ancestors"


def test_dots_lie_where_they_were_measured() -> None:
    """One dot per recording; the twin's interval is a band; what never ended stands at `never`."""
    case = a_case()
    verdict = PhaseVerdict(
        phase=case.phases[0], outcome=Outcome.AGREE, reason="", intervals=((29 * SECOND, 41 * SECOND),)
    )
    case.verdicts = [verdict]
    svg = phase_intervals(case)
    assert svg.count('class="dot"') == 8
    assert titles(svg).count("real 1: no end") == 1
    assert svg.count('class="band') == 1
    assert "real 1: 31.00 s ± 0.50" in titles(svg)


@pytest.mark.parametrize("count", [1, 4, 33])
def test_each_recording_has_a_line_of_its_own_inside_its_phase(count: int) -> None:
    """Its dot lies in the twin's interval of it; phases of 33 recordings do not run into each other."""
    case = many_recordings("x", count).fault
    assert case is not None
    intervals = tuple((k * SECOND, (k + 40) * SECOND) for k in range(1, count + 1))
    case.verdicts = [PhaseVerdict(phase=p, outcome=Outcome.AGREE, reason="", intervals=intervals) for p in case.phases]
    root = ElementTree.fromstring(phase_intervals(case))
    dots = [float(dot.get("cy", "")) for dot in root.iter("circle")]
    bands = [
        (path.get("d") or "").partition(" ")[2].partition("H")[0]
        for path in root.iter("path")
        if (path.get("class") or "").startswith("band")
    ]
    assert dots == sorted(dots)
    assert len(set(dots)) == len(dots) == count * (len(case.phases) - 1), "one phase never began"
    assert set(dots) <= {float(y) for y in bands}
    floor = float((root.get("viewBox") or "").split()[3]) - 34
    assert all(0 < y < floor for y in dots)


def test_the_table_says_what_was_judged_and_why() -> None:
    """Prediction, measured spans, the twin's interval, power, sharpness and the verdict of a phase."""
    case = a_case()
    one = PhaseVerdict(
        phase=case.phases[0], outcome=Outcome.AGREE, reason="p 0.4", intervals=((29 * SECOND, 41 * SECOND),),
        half=0.93, double=1.0, sharp=True,
    )  # fmt: skip
    case.verdicts = [one] * len(case.phases)
    found = fault_context(case)["rows"][0]
    assert found["predicted"] == "1s .. 32s"
    assert found["recorded"] == ["31.0 ± 0.5", "32.0 ± 0.5"]
    assert (found["twin"], found["power"], found["sharp"]) == (["29.0 .. 41.0"], "93, 100", "yes")
    case.verdicts = [replace(one, sharp=False, width_of_bound=2.345)] * len(case.phases)
    assert fault_context(case)["rows"][0]["sharp"] == "no, 2.35 x"
    assert [sharpness(False, width) for width in (1.0866, 99.96, 1234.5, None)] == [
        "no, 1.09 x", "no, 100 x", "no, 1234 x", "no",
    ]  # fmt: skip
    page = render(Report("r", [Section("x64", fault=case)]))
    assert "95 % of the twin" in page
    assert page.count("<td>no, 2.35 x") == 2 * len(case.phases), "in the suite's table and in the scenario's"


def test_the_end_of_each_phase_has_its_chain() -> None:
    """Only of phases that ended; a recording's row without a cause says so."""
    causes = fault_context(a_case())["causes"]
    assert [c["run"] for c in causes if c["phase"] == "down"] == ["twin", "real 1", "real 2"]
    assert len(next(c for c in causes if c["phase"] == "down")["chain"]) == 2
    assert not [c for c in causes if c["phase"] == "return"]


def test_the_suite_table_counts_every_phase() -> None:
    """One row per judged phase with p, power and sharpness; the counts stand above it; no case, no table."""
    case = a_case()
    one = PhaseVerdict(
        phase=case.phases[0],
        outcome=Outcome.AGREE,
        reason="",
        p=0.4,
        half=0.9,
        double=1.0,
        sharp=True,
        width_of_bound=0.87654,
        recordings=("4", "10"),
        places=(0.12345, 1.0),
    )
    two = PhaseVerdict(phase=case.phases[1], outcome=Outcome.DIFFER, reason="", p=0.001)
    more = [PhaseVerdict(phase=phase, outcome=Outcome.UNKNOWN, reason="") for phase in case.phases[2:]]
    case.verdicts = [one, two, *more]
    rows = suite_rows([("x64", "26.05", case)])
    assert [(r["phase"], r["verdict"]) for r in rows[:2]] == [("not-responding", "agree"), ("down", "differ")]
    assert rows[0]["version"] == "26.05"
    assert (rows[0]["recordings"], rows[0]["places"]) == (["4", "10"], [0.123, 1.0])
    assert [r["width_of_bound"] for r in rows[:2]] == [0.877, None]
    counts = suite_counts(rows)
    assert [counts[word] for word in ("phases", "agree", "differ", "unknown", "sharp")] == [4, 1, 1, 2, 1]
    assert [counts[f"claims_{word}"] for word in ("holds", "broken", "unknown")] == [0, 0, 1], "job-lost is absent"
    assert suite_line(rows).startswith(
        "Phases of 1 fault scenarios: 1 of 4 agree (25.0 %), 1 differ, 2 unknown; 1 sharp"
    )
    page = render(Report("r", [Section("x64", fault=case)]))
    assert "4 phases: 1 agree, 1 differ, 2 unknown; 1 sharp, 0 in each repetition" in page
    assert 'id="phases"' not in render(Report("r", [Section("x64", fault=a_case())]))


def recorded_cases() -> list[Section]:
    """Every fault scenario that predicts anything and has recordings in pods."""
    out = []
    for path in sorted(Path("scenarios/faults").glob("*.yaml")):
        scenario = load_scenario(path)
        phases = scenario.expect.phases
        found = sorted((RECORDINGS / scenario.name).glob("*/pods/*/manifest.json")) if phases else []
        runs = [load_run(p.parent) for p in found]
        if runs:
            case = FaultCase(phases, [case_run(run, phases, f"real {i}") for i, run in enumerate(runs, 1)])
            out.append(Section(scenario.name, runs[0].version, scenario.title, runs=runs, fault=case))
    return out


def test_all_recordings_fit_one_file(tmp_path: Path) -> None:
    """Well under 5 MB with every figure in it, and equal input gives equal bytes.

    A check's page, with replications and other worlds, would be 14 MB, and is 4.9 at most (html.MOST_BYTES).
    """
    sections = recorded_cases()
    assert len(sections) >= 15
    size = write_report(tmp_path / "a.html", Report("r", sections))
    write_report(tmp_path / "b.html", Report("r", recorded_cases()))
    text = (tmp_path / "a.html").read_text()
    assert size < 3_900_000
    assert text.count('class="lanes"') == len(sections)
    named = re.findall('id="(runs-[^"]*)"', text)
    assert len(set(named)) == len(named) == len(sections)
    assert text == (tmp_path / "b.html").read_text()


def test_a_long_run_keeps_the_loud_marks() -> None:
    """Thousands of pings do not fill the figure."""
    many: list[Any] = [row(10 + i / 100, "node.pinged", node="w-0") for i in range(3000)]
    events = sorted([*lost_worker(), *many], key=lambda e: e.t_ns)
    phases = a_case().phases
    run: CaseRun = case_run(a_history(events, world="kind"), phases, "real 1")
    svg = timeline(FaultCase(phases, [run]))
    assert 'class="tick"' not in svg
    assert any("node.down" in tip for tip in titles(svg))


def test_a_fault_is_told_in_its_own_words() -> None:
    """Kind and target, as the scenario wrote them."""
    rows: list[Row] = rows_of_events(lost_worker())
    assert said(rows[2]) == "fault.injected kube_node.pause worker1"
