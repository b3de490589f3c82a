"""Phases of a scenario as intervals with dots in them: what the twin allows, what was predicted, what was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Final

from slurmtwin.contract.clock import SECOND
from slurmtwin_reports.faults.case import FaultCase
from slurmtwin_reports.faults.measurement import NEVER, NO_START
from slurmtwin_reports.faults.milestones import Marks
from slurmtwin_reports.svg import Decades

WIDTH: Final = 470
LEFT: Final = 112
RIGHT: Final = 56
ROW: Final = 34
"""Least height of a phase."""
FEW: Final = 4
"""So many recordings have dots of full size."""
TOP: Final = 6
FLOOR: Final = 34
NEVER_AT: Final = WIDTH - RIGHT + 34
"""Where an end that did not come stands."""


def phase_intervals(case: FaultCase) -> str:
    """The figure as SVG; one row per phase, seconds on a scale of decades."""
    high = max([_largest_s(case), 1.0])
    scale = Decades(high, 0.1, "length of the phase")
    lines = _Lines(len(case.recordings))
    height = TOP + lines.row * len(case.phases) + FLOOR
    floor = height - FLOOR

    def x(ns: float) -> float:
        return LEFT + min(1.0, scale.place(ns / SECOND)) * (WIDTH - LEFT - RIGHT)

    out = [f'<svg class="phases" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Phases with what was measured">',
           f'<path class="axis" d="M{LEFT} {floor}H{WIDTH - RIGHT}"/>']  # fmt: skip
    last = -100.0
    for value, words in scale.ticks():
        at = x(value * SECOND)
        out.append(f'<path class="grid" d="M{at:.1f} {TOP}V{floor}"/>')
        if at - last > 7 * len(words):
            out.append(f'<text x="{at:.1f}" y="{floor + 15}" text-anchor="middle">{escape(words)}</text>')
            last = at
    out.append(f'<text class="label" x="{NEVER_AT}" y="{floor + 15}" text-anchor="middle">never</text>')
    for number in range(len(case.phases)):
        out += _row(case, number, TOP + lines.row * number + lines.row / 2, lines, x)
    out.append("</svg>")
    return "".join(out)


@dataclass(frozen=True, slots=True)
class _Lines:
    """Where recordings of one phase lie under one another."""

    count: int

    @property
    def step(self) -> int:
        return 6 if self.count <= FEW else 4

    @property
    def dot(self) -> float:
        """Radius."""
        return 3.2 if self.count <= FEW else 1.9

    @property
    def row(self) -> int:
        """Height of the phase."""
        return max(ROW, self.count * self.step + 10)

    def at(self, y: float, line: int) -> float:
        return y + (line - (self.count - 1) / 2) * self.step


def _row(case: FaultCase, number: int, y: float, lines: _Lines, x: Callable[[float], float]) -> list[str]:
    """One phase: its name, the prediction, for each recording a dot in the twin's interval of it."""
    phase = case.phases[number]
    if phase.absent:
        low, high = NEVER_AT - 7.0, NEVER_AT + 7.0
    else:
        low, high = x(phase.low), float(WIDTH - RIGHT) if phase.high is None else x(phase.high)
    high = max(high, low + 1)
    top, tall = y - lines.row / 2 + 8, lines.row - 16
    bracket = f"M{low:.1f} {top:g}v{tall:g}M{low:.1f} {top:g}H{high:.1f}v{tall:g}"
    out = [f'<text x="{LEFT - 8}" y="{y:g}" dy=".33em" text-anchor="end">{escape(phase.name)}</text>',
           f'<g><title>predicted before the recording</title><path class="foretold" d="{bracket}"/></g>']  # fmt: skip
    if number < len(case.verdicts):
        css = "band thin" if lines.count > 1 else "band"
        for line, interval in enumerate(case.verdicts[number].intervals):
            begin, end = (NEVER_AT if ns == NEVER else LEFT if ns == NO_START else x(ns) for ns in interval)
            place = f"M{begin:.1f} {lines.at(y, line):g}H{max(end, begin + 2):.1f}"
            out.append(f'<path class="{css}" d="{place}"/>')
    for line, run in enumerate(case.recordings):
        out += _dot(run.name, run.marks[number], lines.at(y, line), lines.dot, x)
    return out


def _dot(name: str, marks: Marks, y: float, size: float, x: Callable[[float], float]) -> list[str]:
    if marks.start is None:
        return []
    length, error = marks.length_ns, marks.error_ns
    if length is None:
        whisker, at, words = "", float(NEVER_AT), "no end"
    else:
        whisker = f'<path class="err" d="M{x(max(0, length - error)):.1f} {y:g}H{x(length + error):.1f}"/>'
        at, words = x(length), f"{length / SECOND:.2f} s ± {error / SECOND:.2f}"
    dot = f'<circle class="dot" cx="{at:.1f}" cy="{y:g}" r="{size}"/>'
    return [f"<g><title>{escape(f'{name}: {words}')}</title>{whisker}{dot}</g>"]


def _largest_s(case: FaultCase) -> float:
    known = [phase.high for phase in case.phases if phase.high is not None and not phase.absent]
    measured = [marks for run in case.runs for marks in run.marks]
    known += [marks.length_ns + marks.error_ns for marks in measured if marks.length_ns is not None]
    known += [high for one in case.verdicts for _, high in one.intervals if high not in (NEVER, NO_START)]
    return max(known, default=SECOND) / SECOND
