"""The rule table: each rule of the model with the tests that claim it and the real runs that prove it.

    python -m slurmtwin_reports.rules           write docs/rules.md
    python -m slurmtwin_reports.rules --check   exit 1 when docs/rules.md is stale or something names no rule
    ... --verdicts FILE                         take the verdicts of `slurmtwin check --json`

Rules are data (scenarios/rules.yaml). A test names one in its docstring, as `slurm.md 2.2 "Map"`; a scenario in
expect.rules, as `2.2 Map`. A rule is proven when such a scenario was recorded on real Slurm and every verdict of
`check` on that scenario and version is agree or holds. Without --verdicts they are taken from
scenarios/known-differences.yaml: whatever is not listed there agrees, or `check` fails. CI gives --verdicts.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.errors import ExitCode, InputError, Where
from slurmtwin.contract.yaml_file import line_of, load_yaml, plain
from slurmtwin_reports.known_differences import load_known_differences
from slurmtwin_reports.verdict import Outcome

SCHEMA: Final = "slurmtwin/rules/1"
RULES_FILE: Final = Path("scenarios/rules.yaml")
TABLE_FILE: Final = Path("docs/rules.md")
RECORDINGS: Final = Path("scenarios/recordings")
TEST_FOLDERS: Final = ("sim/tests", "reports/tests", "e2e/tests")
_NOT_SCENARIOS: Final = ("recordings", "schema")
_IN_TEST: Final = re.compile(r'slurm\.md\s+(\d+(?:\.\d+)?)\s+"((?:[^"]|"\*")+)"')
"""A row's name may hold the "*" of a node that does not answer."""
_IN_SCENARIO: Final = re.compile(r"(\d+(?:\.\d+)?)\s+(.+)\Z")
_KINDS: Final = ("rule", "fact", "outside")


@dataclass(slots=True)
class Rule:
    """One row of the specification and what speaks for it."""

    section: str
    row: str
    says: str
    kind: str = "rule"
    why: str = ""
    tests: list[str] = field(default_factory=list)
    recordings: list[str] = field(default_factory=list)
    """`scenario (versions)` of real runs that agree."""
    differing: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    """Scenarios that name it and were not recorded yet."""

    @property
    def proven(self) -> bool:
        """A real run shows it."""
        return bool(self.recordings)


@dataclass(frozen=True, slots=True)
class RuleTable:
    """All rules, and references that lead to none."""

    rules: tuple[Rule, ...]
    problems: tuple[str, ...]


def load_rules(path: Path) -> list[Rule]:
    """Read scenarios/rules.yaml. Raises InputError with file:line."""
    document = load_yaml(path)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise InputError("not a file of rules", Where(str(path), 1), f"first key: schema: {SCHEMA}")
    out: list[Rule] = []
    seen: set[tuple[str, str]] = set()
    for place, entry in enumerate(document.get("rules") or []):
        where = Where(str(path), line_of(document, ("rules", place)))
        rule = _rule(plain(entry), where)
        if (rule.section, rule.row) in seen:
            raise InputError(f"the rule {rule.section} {rule.row} stands twice", where)
        seen.add((rule.section, rule.row))
        out.append(rule)
    return out


def _rule(entry: Any, where: Where) -> Rule:
    if not isinstance(entry, dict) or not all(isinstance(v, str) for v in entry.values()):
        raise InputError("a rule is a mapping of texts", where)
    try:
        rule = Rule(**entry)
    except TypeError as error:
        raise InputError(f"not a rule: {error}", where, "keys: section, row, says, kind, why") from error
    if rule.kind not in _KINDS:
        raise InputError(f"kind {rule.kind!r}", where, f"one of {', '.join(_KINDS)}")
    return rule


Judged = tuple[str, str]
"""A scenario's name and a version."""


@dataclass(frozen=True, slots=True)
class Judgements:
    """What `check` says about recordings: which do not agree in everything, and which it has judged (None: all)."""

    differing: frozenset[Judged]
    judged: frozenset[Judged] | None = None

    def agrees(self, scenario: str, version: str) -> bool:
        """Every verdict about the scenario's recordings on that version is a good one, and there is one."""
        key = (scenario, version)
        return key not in self.differing and (self.judged is None or key in self.judged)


def judgements_of_check(path: Path) -> Judgements:
    """From the document that `slurmtwin check --json` prints. Raises InputError when it is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        rows = [(_plain_name(v["scenario"]), v["version"], v["verdict"]) for v in document["verdicts"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"not the output of slurmtwin check --json: {error}", Where(str(path))) from error
    good = (Outcome.AGREE, Outcome.HOLDS)
    return Judgements(
        frozenset((name, version) for name, version, outcome in rows if outcome not in good),
        frozenset((name, version) for name, version, _ in rows),
    )


def judgements_of_known(root: Path, versions: Sequence[str]) -> Judgements:
    """From the known differences: an entry without a version is about all of them."""
    known = load_known_differences(root / "scenarios/known-differences.yaml")
    return Judgements(
        frozenset((_plain_name(k.scenario), v) for k in known for v in ([k.version] if k.version else versions))
    )


def _plain_name(label: str) -> str:
    return label.removesuffix(" (k=1)")


def build_table(root: Path, judgements: Judgements | None = None) -> RuleTable:
    """Scan tests, scenarios and recordings under the project's root."""
    rules = load_rules(root / RULES_FILE)
    index = {(r.section, r.row): r for r in rules}
    problems: list[str] = []
    for section, row, test in _tests(root):
        rule = _find(index, section, row)
        if rule is None:
            problems.append(f'{test}: no rule {section} "{row}"')
        elif test not in rule.tests:
            rule.tests.append(test)
    if judgements is None:
        judgements = judgements_of_known(root, sorted({p.name for p in (root / RECORDINGS).glob("*/*")}))
    for path, name, texts in _scenarios(root):
        for text in texts:
            found = _IN_SCENARIO.match(text)
            rule = _find(index, found[1], found[2]) if found else None
            if rule is None:
                problems.append(f"{path}: no rule {text}")
            else:
                _add_evidence(rule, name, _versions(root, name), judgements)
    return RuleTable(tuple(rules), tuple(problems))


def _find(index: dict[tuple[str, str], Rule], section: str, row: str) -> Rule | None:
    """The rule of that name; predictions (section 12) go by their number, with or without the words behind it."""
    row = row.replace("**", "")
    return index.get((section, row)) or (index.get((section, row.split()[0])) if section == "12" else None)


def _add_evidence(rule: Rule, scenario: str, versions: Sequence[str], judgements: Judgements) -> None:
    good = [v for v in versions if judgements.agrees(scenario, v)]
    bad = [v for v in versions if v not in good]
    if good:
        rule.recordings.append(f"{scenario} ({', '.join(good)})")
    if bad:
        rule.differing.append(f"{scenario} ({', '.join(bad)})")
    if not versions:
        rule.waiting.append(scenario)


def _tests(root: Path) -> Iterator[tuple[str, str, str]]:
    """(section, row, file::test) for each rule named in a docstring of a test."""
    for folder in TEST_FOLDERS:
        for path in sorted((root / folder).rglob("test_*.py")):
            try:
                tree = ast.parse(path.read_text(encoding="utf-8"))
            except SyntaxError as error:
                raise InputError(f"not Python: {error.msg}", Where(str(path), error.lineno or 0)) from error
            for node in ast.walk(tree):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
                    text = re.sub(r"\s+", " ", ast.get_docstring(node) or "")
                    name = path.stem if isinstance(node, ast.Module) else f"{path.stem}::{node.name}"
                    for section, row in _IN_TEST.findall(text):
                        yield section, row, name


def _scenarios(root: Path) -> Iterator[tuple[str, str, list[str]]]:
    """(path, scenario name, expect.rules) of each scenario file; only those keys are parsed, workloads are long."""
    base = root / "scenarios"
    for path in sorted(base.rglob("*.yaml")):
        if path.relative_to(base).parts[0] in _NOT_SCENARIOS:
            continue
        text = path.read_text(encoding="utf-8")
        if not re.search(r"^schema: *slurmtwin/scenario/", text, re.MULTILINE):
            continue
        name = re.search(r"^name: *(\S+)", text, re.MULTILINE)
        block = re.search(r"^expect:.*\n(?:[ -].*\n|\n|#.*\n)*", text, re.MULTILINE)
        expect = plain(_parse(block[0], path))["expect"] if block else None
        yield str(path.relative_to(root)), name[1] if name else path.stem, list((expect or {}).get("rules") or [])


def _parse(text: str, path: Path) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise InputError("expect: is not YAML", Where(str(path))) from error


def _versions(root: Path, scenario: str) -> list[str]:
    """Slurm versions that the scenario was recorded on."""
    found = (root / RECORDINGS / scenario).glob("*/k*/*/manifest.json")
    return sorted({path.parents[2].name for path in found})


def render(table: RuleTable) -> str:
    """docs/rules.md."""
    counted = [r for r in table.rules if r.kind == "rule"]
    proven = sum(r.proven for r in counted)
    tested = sum(bool(r.tests) for r in counted)
    neither = sum(not r.tests and not r.proven for r in counted)
    summary = (
        f"**{proven} of {len(counted)} rules are proven by real Slurm ({_percent(proven, len(counted))}); "
        f"{tested} have tests ({_percent(tested, len(counted))}); {neither} have neither.** "
        f"{sum(r.kind == 'fact' for r in table.rules)} rows are facts without behaviour, "
        f"{sum(r.kind == 'outside' for r in table.rules)} are outside the model."
    )
    lines = [
        "# Rules",
        "",
        "Generated by `python -m slurmtwin_reports.rules`; do not edit. Rules: `scenarios/rules.yaml`.",
        "",
        "Proven: runs of unmodified Slurm show it, and every verdict of `slurmtwin check` on them is a good one.",
        "Differs: recorded, but some verdict is not (`scenarios/known-differences.yaml` has the cause).",
        "Tested: a hand-worked test claims it. Unproven: no real run shows it yet.",
        "",
        summary,
        "",
        "| section | rules | proven | tested |",
        "|---|---|---|---|",
    ]
    sections = list(dict.fromkeys(r.section for r in counted))
    for section in sections:
        mine = [r for r in counted if r.section == section]
        by_run, by_test = sum(r.proven for r in mine), sum(bool(r.tests) for r in mine)
        lines.append(f"| {section} | {len(mine)} | {by_run} | {by_test} |")
    for section in sections:
        lines += ["", f"## {section}", "", "| rule | says | real runs | tests |", "|---|---|---|---|"]
        lines += [_row(r) for r in counted if r.section == section]
    outside = [r for r in table.rules if r.kind == "outside"]
    if outside:
        lines += ["", "## Outside the model", "", "| section | rule | why |", "|---|---|---|"]
        lines += [f"| {r.section} | {_cell(r.row)} | {_cell(r.why)} |" for r in outside]
    return "\n".join(lines) + "\n"


def _row(rule: Rule) -> str:
    runs = list(rule.recordings)
    runs += [f"differs: {name}" for name in rule.differing]
    if not runs:
        runs = ["unproven" + (f" (to record: {', '.join(rule.waiting)})" if rule.waiting else "")]
    tests = "<br>".join(f"`{name}`" for name in rule.tests)
    return f"| {_cell(rule.row)} | {_cell(rule.says)} | {_cell('; '.join(runs))} | {tests} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def _percent(part: int, whole: int) -> str:
    return f"{100 * part // whole} %" if whole else "0 %"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the table, or check it; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m slurmtwin_reports.rules")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--verdicts", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        table = build_table(Path(), judgements_of_check(options.verdicts) if options.verdicts else None)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return ExitCode.USAGE
    for problem in table.problems:
        sys.stderr.write(f"{problem}\n")
    text = render(table)
    stale = not TABLE_FILE.exists() or TABLE_FILE.read_text(encoding="utf-8") != text
    if options.check:
        if stale:
            sys.stderr.write(f"{TABLE_FILE} is stale: run python -m slurmtwin_reports.rules\n")
        return ExitCode.FINDING if stale or table.problems else ExitCode.FINE
    TABLE_FILE.parent.mkdir(exist_ok=True)
    TABLE_FILE.write_text(text, encoding="utf-8")
    return ExitCode.FINDING if table.problems else ExitCode.FINE


if __name__ == "__main__":
    sys.exit(main())
