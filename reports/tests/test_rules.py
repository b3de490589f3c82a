"""The rule table: what counts as proof, and that references lead somewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurmtwin.contract.errors import InputError
from slurmtwin_reports.rules import Rule, build_table, judgements_of_check, load_rules, main, render

ROOT = Path(__file__).parents[2]
RULES = """schema: slurmtwin/rules/1
rules:
- {section: '1.1', row: Locks, says: all of them}
- {section: '4.2', row: 'Crash to "*"', says: soon}
- {section: '8', row: Auth, says: by token, kind: outside, why: no REST}
"""


def project(root: Path, *, rules: str = RULES, test: str = "", scenario: str = "", known: str = "") -> Path:
    """A small project folder."""
    for folder in ("scenarios/probes", "sim/tests", "docs"):
        (root / folder).mkdir(parents=True)
    (root / "scenarios/rules.yaml").write_text(rules, encoding="utf-8")
    (root / "sim/tests/test_x.py").write_text(f'def test_it():\n    """\n    {test}\n    """\n', encoding="utf-8")
    text = f"schema: slurmtwin/scenario/1\nname: probe\nexpect:\n  rules: [{scenario}]\n"
    (root / "scenarios/probes/probe.yaml").write_text(text, encoding="utf-8")
    if known:
        (root / "scenarios/known-differences.yaml").write_text(known, encoding="utf-8")
    return root


def record(root: Path, version: str) -> None:
    """A recorded run of the probe."""
    folder = root / "scenarios/recordings/probe" / version / "k20/1"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}", encoding="utf-8")


def rule(root: Path, row: str) -> Rule:
    return next(r for r in build_table(root).rules if r.row == row)


def test_the_committed_table_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/rules.md is what the files of this repository give, and every reference leads to a rule."""
    monkeypatch.chdir(ROOT)
    assert main(["--check"]) == 0


def test_tests_are_found_by_their_docstrings(tmp_path: Path) -> None:
    """Also over a line break and with a "*" in the name."""
    root = project(tmp_path, test='slurm.md 1.1\n    "Locks", and slurm.md 4.2 "Crash to "*"".')
    assert rule(root, "Locks").tests == ["test_x::test_it"]
    assert rule(root, 'Crash to "*"').tests == ["test_x::test_it"]


def test_a_scenario_alone_proves_nothing(tmp_path: Path) -> None:
    """Without a recording the rule is unproven, and the table says what to record."""
    root = project(tmp_path, scenario="1.1 Locks")
    assert not rule(root, "Locks").proven
    assert "unproven (to record: probe)" in render(build_table(root))


def test_a_recording_proves_it_version_by_version(tmp_path: Path) -> None:
    """The table names the versions."""
    root = project(tmp_path, scenario="1.1 Locks")
    record(root, "22.05")
    record(root, "26.05")
    assert rule(root, "Locks").recordings == ["probe (22.05, 26.05)"]
    assert "**1 of 2 rules are proven by real Slurm (50 %)" in render(build_table(root))


def test_a_known_difference_is_no_proof(tmp_path: Path) -> None:
    """A recording that the twin is known not to agree with does not count."""
    known = """schema: slurmtwin/known-differences/1
differences:
- {scenario: probe, version: "22.05", phase: nodes, size: "3", cause: not understood}
"""
    root = project(tmp_path, scenario="1.1 Locks", known=known)
    record(root, "22.05")
    assert not rule(root, "Locks").proven
    assert "differs: probe (22.05)" in render(build_table(root))
    record(root, "26.05")
    assert rule(root, "Locks").recordings == ["probe (26.05)"]


@pytest.mark.parametrize(
    ("label", "verdict", "proven"),
    [
        ("probe", "agree", True), ("probe", "differ", False), ("probe", "broken", False), ("probe", "unknown", False),
        ("probe (k=1)", "differ", False), ("other", "agree", False),
    ],
)  # fmt: skip
def test_the_verdicts_of_check_decide(tmp_path: Path, label: str, verdict: str, proven: bool) -> None:
    """One verdict that is not a good one, listed or not, or a recording that nobody judged: no proof."""
    root = project(tmp_path, scenario="1.1 Locks")
    record(root, "22.05")
    good = {"scenario": label, "version": "22.05", "verdict": "holds"}
    path = tmp_path / "check.json"
    path.write_text(json.dumps({"verdicts": [good, {**good, "verdict": verdict}, good]}), encoding="utf-8")
    table = build_table(root, judgements_of_check(path))
    assert next(r for r in table.rules if r.row == "Locks").proven is proven


def test_ci_checks_the_table_against_the_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that counts a recording which differs is stale; a file that is no check is a usage error."""
    root = project(tmp_path, scenario="1.1 Locks")
    record(root, "22.05")
    monkeypatch.chdir(root)
    assert main([]) == 0
    path = tmp_path / "check.json"
    path.write_text('{"verdicts": [{"scenario": "probe", "version": "22.05", "verdict": "differ"}]}', encoding="utf-8")
    assert main(["--check", "--verdicts", str(path)]) == 1
    path.write_text("{}", encoding="utf-8")
    assert main(["--check", "--verdicts", str(path)]) == 2


@pytest.mark.parametrize(
    ("test", "scenario", "problem"),
    [
        ('slurm.md 9.9 "Nothing"', "", 'no rule 9.9 "Nothing"'),
        ("", "1.1 Lock", "no rule 1.1 Lock"),
        ("", "Locks", "no rule Locks"),
    ],
)
def test_a_reference_to_no_rule_is_a_problem(tmp_path: Path, test: str, scenario: str, problem: str) -> None:
    """A typo would silently leave a rule unproven."""
    (found,) = build_table(project(tmp_path, test=test, scenario=scenario)).problems
    assert problem in found


def test_a_stale_table_fails_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--check writes nothing and exits 1 until the table was generated again."""
    root = project(tmp_path, scenario="1.1 Locks")
    monkeypatch.chdir(root)
    assert main(["--check"]) == 1
    assert main([]) == 0
    assert main(["--check"]) == 0
    record(root, "22.05")
    assert main(["--check"]) == 1


@pytest.mark.parametrize(
    "text",
    ["rules: []", "schema: slurmtwin/rules/1\nrules: [1]", RULES + "- {section: '1.1', row: Locks, says: again}\n",
     RULES + "- {section: '1.1', row: More, says: x, kind: maybe}\n", RULES + "- {section: '1.1', rule: x}\n"],
)  # fmt: skip
def test_broken_rule_files_say_where(tmp_path: Path, text: str) -> None:
    """file:line in every refusal."""
    path = tmp_path / "rules.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"rules\.yaml:\d+"):
        load_rules(path)
