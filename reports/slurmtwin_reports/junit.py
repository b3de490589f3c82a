"""JUnit XML of a check, as CI systems read it: one test suite per scenario, one test case per verdict."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from slurmtwin_reports.verdict import Outcome, Verdict

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(verdicts: Sequence[Verdict], wall_s: float = 0.0) -> str:
    """The document. A finding is a failure, what stayed unknown is skipped with its reason, accepted passes."""
    root = ElementTree.Element("testsuites", name="slurmtwin check", time=f"{wall_s:.3f}")
    totals = {"tests": 0, "failures": 0, "skipped": 0}
    suites: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        suites.setdefault(_clean(f"{verdict.scenario} {verdict.version}".strip()), []).append(verdict)
    for name, rows in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", name=name, errors="0")
        counts = dict.fromkeys(totals, 0)
        for verdict in rows:
            counts["tests"] += 1
            counts["failures"] += verdict.is_finding
            counts["skipped"] += verdict.outcome is Outcome.UNKNOWN and not verdict.known
            _case(suite, name, verdict)
        for key, number in counts.items():
            suite.set(key, str(number))
            totals[key] += number
    for key, number in totals.items():
        root.set(key, str(number))
    ElementTree.indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(suite: ElementTree.Element, name: str, verdict: Verdict) -> None:
    world = f" ({verdict.world})" if verdict.world else ""
    case = ElementTree.SubElement(suite, "testcase", classname=name, name=_clean(verdict.subject + world))
    message = _clean(f"{verdict.outcome}: {verdict.reason}")
    if verdict.is_finding:
        ElementTree.SubElement(case, "failure", message=message, type=str(verdict.outcome)).text = message
    elif verdict.outcome is Outcome.UNKNOWN and not verdict.known:
        ElementTree.SubElement(case, "skipped", message=message)
    else:
        note = f" [known: {_clean(verdict.known)}]" if verdict.known else ""
        ElementTree.SubElement(case, "system-out").text = message + note


def _clean(text: str) -> str:
    """XML 1.0 has no place for control characters."""
    return _FORBIDDEN.sub("?", text)
