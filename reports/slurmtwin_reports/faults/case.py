"""A fault scenario as a report shows it: its runs, twin beside real, and the verdicts of its phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slurmtwin.contract.phases import Phase
from slurmtwin_reports.faults.milestones import Marks, all_marks
from slurmtwin_reports.faults.phase_verdict import PhaseVerdict
from slurmtwin_reports.history import History, Row


@dataclass(frozen=True, slots=True)
class CaseRun:
    """One run, its rows in order, and the time that figures count from: the first injection, else the start."""

    name: str
    rows: Sequence[Row]
    marks: tuple[Marks, ...]
    zero_ns: int = 0
    is_twin: bool = False

    @property
    def end_ns(self) -> int:
        """The run's last row, since zero."""
        return max((row.t_ns for row in self.rows), default=0) - self.zero_ns


@dataclass(slots=True)
class FaultCase:
    """One scenario. `verdicts` is empty, or has one for each phase."""

    phases: Sequence[Phase]
    runs: Sequence[CaseRun] = ()
    verdicts: Sequence[PhaseVerdict] = field(default_factory=list)
    why_not: str = ""
    """Why its phases were not held against the twin."""

    @property
    def recordings(self) -> Sequence[CaseRun]:
        """The real runs."""
        return [run for run in self.runs if not run.is_twin]

    @property
    def has_fault(self) -> bool:
        """Does anything happen to it?"""
        return any(row.kind == "fault.injected" for run in self.runs for row in run.rows)


def case_run(history: History, phases: Sequence[Phase], name: str) -> CaseRun:
    """A history as one line of a case."""
    rows = list(history.rows())
    zero = next((row.t_ns for row in rows if row.kind == "fault.injected"), 0)
    return CaseRun(name, rows, all_marks(rows, phases), zero, history.world == "twin")


def causes_of(rows: Sequence[Row], row: Row, most: int = 12) -> list[Row]:
    """The chain of causes of a row, nearest first; it ends at a row without one, or after `most`."""
    chain: list[Row] = []
    seen = {row.seq}
    while row.cause_seq is not None and 0 <= row.cause_seq < len(rows) and len(chain) < most:
        row = rows[row.cause_seq]
        if row.seq in seen:
            break
        seen.add(row.seq)
        chain.append(row)
    return chain
