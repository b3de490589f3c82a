"""Verdicts as terminal rows, JSON and JUnit, and what they say together."""

from __future__ import annotations

import io
import json
from xml.etree import ElementTree

from rich.console import Console

from slurmtwin_reports.compare import compare
from slurmtwin_reports.conformance import judge
from slurmtwin_reports.judge import judge_pairs, judge_runs, make_report, merge_repetitions
from slurmtwin_reports.junit import junit_xml
from slurmtwin_reports.known_differences import KnownDifference
from slurmtwin_reports.tables import (
    comparison_table,
    conformance_table,
    scenario_rows,
    scenario_table,
    verdict_dicts,
    verdict_table,
)
from slurmtwin_reports.testing import queue_run
from slurmtwin_reports.verdict import Outcome, Verdict


def a_verdict(outcome: Outcome, subject: str = "node sets", **more: str) -> Verdict:
    values = {"scenario": "mixed", "version": "26.05", "subject": subject, "reason": "so it is", **more}
    return Verdict(**values, outcome=outcome)


MIXED = [
    a_verdict(Outcome.AGREE), a_verdict(Outcome.DIFFER, "start error, p95", reason="<40 s & [bold]more\x01"),
    a_verdict(Outcome.UNKNOWN, "capacity", world="twin"), a_verdict(Outcome.BROKEN, "no-job-lost", known="a cause"),
    a_verdict(Outcome.HOLDS, "no-job-lost", scenario="serial", world="twin"),
]  # fmt: skip


def shown(table: object) -> str:
    console = Console(file=io.StringIO(), width=140, no_color=True)
    console.print(table)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def test_one_row_per_scenario_with_its_worst_verdict() -> None:
    """A finding outweighs unknown and known ones; a scenario of properties alone holds."""
    rows = scenario_rows(MIXED)
    assert [(r["scenario"], r["verdict"]) for r in rows] == [("mixed", "differ"), ("serial", "holds")]
    assert rows[0]["reason"].startswith("start error, p95: ")


def test_terminal_tables_print_text_as_it_is() -> None:
    """A reason that looks like markup is not read as markup."""
    text = shown(verdict_table(MIXED))
    assert "[bold]more" in text
    assert "broken*" in text
    assert "serial" in shown(scenario_table(MIXED))


def test_json_rows_hold_what_check_promises() -> None:
    """scenario, phase or property, verdict and reason, ready for json.dumps."""
    first = json.loads(json.dumps(verdict_dicts(MIXED)))[1]
    assert {"scenario", "subject", "verdict", "reason", "version", "size", "known"} <= set(first)
    assert first["verdict"] == "differ"


def test_junit_counts_findings_as_failures_and_unknown_as_skipped() -> None:
    """Accepted differences pass; control characters cannot break the file."""
    root = ElementTree.fromstring(junit_xml(MIXED, 1.5))
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("5", "1", "1")
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.get("message") == "differ: <40 s & [bold]more?"
    assert [s.get("name") for s in root.findall("testsuite")] == ["mixed 26.05", "serial 26.05"]


def test_comparison_and_conformance_tables_print() -> None:
    """Both tables carry their numbers."""
    assert "mean_wait_s" in shown(comparison_table(compare([queue_run(30)], [queue_run(30, noise_s=5)])))
    pairs = [(queue_run(30), queue_run(30, world="slurm", noise_seed=i)) for i in range(2)]
    assert "tiny" in shown(conformance_table([judge(pairs)]))


def test_a_property_broken_in_one_repetition_is_broken() -> None:
    """The worst of the repetitions counts, and the reason says in how many."""
    good, bad = a_verdict(Outcome.HOLDS, "capacity"), a_verdict(Outcome.BROKEN, "capacity", reason="n1 is full")
    (found,) = merge_repetitions([[good], [bad], [good]])
    assert found.outcome is Outcome.BROKEN
    assert found.reason == "n1 is full; in 1 of 3 runs"


def test_a_section_judges_phases_and_the_properties_of_both_worlds() -> None:
    """judge_pairs gives every property once for the twin and once for the real runs."""
    section = judge_pairs([(queue_run(30), queue_run(30, world="slurm", noise_seed=i)) for i in range(2)], ["capacity"])
    assert [(v.subject, v.world) for v in section.verdicts][-2:] == [("capacity", "twin"), ("capacity", "slurm")]
    assert judge_runs([queue_run(30)], ["capacity"]).verdicts[0].outcome is Outcome.HOLDS


def test_a_report_holds_its_verdicts_against_the_known_list() -> None:
    """Sections and the whole list carry the same accepted verdicts; a stale entry is added to the list."""
    known = [KnownDifference(scenario="tiny", phase="capacity", size=1, cause="x", world="moon")]
    report = make_report("t", [judge_runs([queue_run(30)], ["capacity"])], known)
    assert [v.subject for v in report.verdicts] == ["capacity", "known-differences"]
    assert len(report.sections[0].verdicts) == 1
