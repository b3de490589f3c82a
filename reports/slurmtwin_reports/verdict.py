"""Verdicts: what a check or a comparison says. Never a silent skip: what could not be judged is `unknown`.

A phase (twin against real) agrees or differs; a property of one run holds or is broken (after Jepsen's
valid, invalid, unknown).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from slurmtwin.contract.errors import ExitCode


class Outcome(StrEnum):
    """The closed list of verdict words."""

    AGREE = "agree"
    DIFFER = "differ"
    HOLDS = "holds"
    BROKEN = "broken"
    UNKNOWN = "unknown"


FINDINGS = (Outcome.DIFFER, Outcome.BROKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One row of the verdict table."""

    scenario: str
    subject: str
    """The phase or property judged, e.g. `start error, median` or `no-double-run`."""
    outcome: Outcome
    reason: str
    version: str = ""
    """Slurm version, empty where it does not matter."""
    world: str = ""
    """Which run a property was judged on; empty for phases, which compare two worlds."""
    size: float | None = None
    """How large the difference is, in `unit`; what a known difference is held against."""
    unit: str = ""
    """s, ratio or count."""
    bar: float | None = None
    """What size had to stay under, in the same unit."""
    known: str = ""
    """Cause of an accepted difference, from scenarios/known-differences.yaml."""

    @property
    def is_finding(self) -> bool:
        """True for a difference or a broken property that nobody has accepted."""
        return self.outcome in FINDINGS and not self.known

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, stable keys."""
        return {
            "scenario": self.scenario, "version": self.version, "world": self.world, "subject": self.subject,
            "verdict": str(self.outcome), "reason": self.reason, "size": self.size, "unit": self.unit,
            "bar": self.bar, "known": self.known,
        }  # fmt: skip

    def about(self, scenario: str, version: str = "", world: str = "") -> Verdict:
        """The same verdict with its scenario filled in."""
        return replace(self, scenario=scenario, version=version or self.version, world=world or self.world)


def holds(subject: str, reason: str) -> Verdict:
    """A property that holds."""
    return Verdict(scenario="", subject=subject, outcome=Outcome.HOLDS, reason=reason)


def unknown(subject: str, reason: str) -> Verdict:
    """A property or phase that could not be judged."""
    return Verdict(scenario="", subject=subject, outcome=Outcome.UNKNOWN, reason=reason)


def broken(subject: str, findings: Iterable[str]) -> Verdict:
    """A broken property: the first three findings in words, and how many there are."""
    found = list(findings)
    more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
    return Verdict(
        scenario="", subject=subject, outcome=Outcome.BROKEN, reason="; ".join(found[:3]) + more,
        size=float(len(found)), unit="count", bar=0.0,
    )  # fmt: skip


def exit_code(verdicts: Iterable[Verdict]) -> ExitCode:
    """1 when there is a finding, else 3 when something stayed unknown and unaccepted, else 0."""
    code = ExitCode.FINE
    for verdict in verdicts:
        if verdict.is_finding:
            return ExitCode.FINDING
        if verdict.outcome is Outcome.UNKNOWN and not verdict.known:
            code = ExitCode.UNKNOWN
    return code
