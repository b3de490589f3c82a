"""`check --recorded-since`: a fresh set is a part of the recordings, so no known difference ages by it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurmtwin.campaign import fault_judging
from slurmtwin.cli import main
from slurmtwin.contract.scenario import load_scenario
from slurmtwin_reports.html import Section
from slurmtwin_reports.verdict import Outcome, Verdict

KNOWN = """\
schema: slurmtwin/known-differences/1
differences:
- {scenario: case, phase: phase hold, size: 45s, cause: seen in older recordings}
"""


@pytest.mark.parametrize(("asked", "stale"), [((), 1), (("--recorded-since", "2026-11-22T04:30"), 0)])
def test_a_difference_that_fresh_runs_do_not_show_stays_known(
    asked: tuple[str, ...], stale: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judged by all recordings it is gone, and its entry is a finding; by the fresh ones it says nothing."""
    agrees = Verdict(scenario="case", version="26.05", subject="phase hold", outcome=Outcome.AGREE, reason="alike")
    section = Section("case", "26.05", verdicts=[agrees])
    monkeypatch.setattr(fault_judging, "judge_faults", lambda groups, options: [section])
    known, path = tmp_path / "known.yaml", tmp_path / "case.yaml"
    known.write_text(KNOWN)
    path.write_text("schema: slurmtwin/scenario/1\nname: case\nslurm: {}\npods: {}\n")
    group = fault_judging.FaultGroup(path, load_scenario(path), "26.05", ())
    monkeypatch.setattr(fault_judging, "find_fault_groups", lambda files, root, since_ns: [group])
    more = ("--known", str(known), "--cache", str(tmp_path))
    done = CliRunner().invoke(main, ["check", str(path), "--json", *more, *asked])
    verdicts = json.loads(done.stdout)["verdicts"]
    assert sum(one["subject"] == "known-differences" for one in verdicts) == stale
    assert done.exit_code == stale
