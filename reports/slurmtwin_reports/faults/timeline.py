"""Swim lanes of a fault scenario: twin and each recording under one another in every lane, on one axis of time.

The time is that since the first injection. A mark's whisker is its measurement error; what a mark says, with the chain
of its causes, stands in its tooltip and, for milestones, in the table below the figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Final

from slurmtwin.contract.clock import SECOND
from slurmtwin_reports.faults.case import CaseRun, FaultCase, causes_of
from slurmtwin_reports.faults.lanes import LANES, lane_of, said, tone_of
from slurmtwin_reports.history import Row
from slurmtwin_reports.svg import Clock

WIDTH: Final = 1060
LEFT: Final = 176
RIGHT: Final = 14
TOP: Final = 10
LINE: Final = 12
"""Height of one run in one lane."""
HALF_A_NAME: Final = 2.8
"""From the middle of a run's name down to its base line."""
GAP: Final = 7
FLOOR: Final = 34
BEFORE_NS: Final = 5 * SECOND
"""How much of the time before the injection is shown."""
MOST_MARKS: Final = 260
"""Marks of one run; quiet ones go first."""
TONES: Final = ("bad", "plain", "good")
"""Of loud marks, the worst first."""


def timeline(case: FaultCase, name: str = "") -> str:
    """The figure as SVG; name: its own on a page, where runs are named once and their names used again."""
    begin = -BEFORE_NS / SECOND if case.has_fault else min((_first_s(run) for run in case.runs), default=0.0)
    end = max((run.end_ns / SECOND for run in case.runs), default=1.0)
    return _Lanes(case, Clock(begin, max(end, begin + 1), _axis(case)), f"runs-{name}").text()


def _axis(case: FaultCase) -> str:
    return "time since the injection" if case.has_fault else "time since the scenario's start"


def _first_s(run: CaseRun) -> float:
    shown = [row.t_ns for row in run.rows if lane_of(row) is not None]
    return min(shown, default=0) / SECOND


class _Lanes:
    def __init__(self, case: FaultCase, clock: Clock, runs_id: str) -> None:
        self.case, self.clock, self.out = case, clock, list[str]()
        self.runs_id = escape(runs_id, quote=True)
        self.named_at: float | None = None
        """Where the names of the runs stand in the first band."""
        self.shown = [_shown(run, clock) for run in case.runs]
        self.lanes = [lane for lane in range(len(LANES)) if any(lane in shown for shown in self.shown)]
        self.band = LINE * len(case.runs) + GAP

    def x(self, t_ns: int) -> float:
        place = min(1.0, max(0.0, self.clock.place(t_ns / SECOND)))
        return round(LEFT + place * (WIDTH - LEFT - RIGHT), 1)

    def text(self) -> str:
        y = TOP
        for number, phase in enumerate(self.case.phases):
            self._label(y, phase.name, "phase")
            for line, run in enumerate(self.case.runs):
                self._phase(run, number, y + line * LINE + LINE / 2)
            y += self.band
        for lane in self.lanes:
            self._label(y, LANES[lane], "lane")
            for line, run in enumerate(self.case.runs):
                self._events(run, self.shown[line].get(lane, ()), y + line * LINE + LINE / 2)
            y += self.band
        height = y + FLOOR
        faults = [line for run in self.case.runs[:1] for line in self._faults(run, y)]
        head = f'<svg class="lanes" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Timeline of the runs">'
        return "".join([head, *self._ticks(y), *faults, *self.out, "</svg>"])

    def _label(self, y: float, text: str, css: str) -> None:
        self.out.append(f'<path class="grid" d="M0 {y - GAP / 2:g}H{WIDTH - RIGHT}"/>')
        self.out.append(f'<text class="{css}" x="0" y="{y + 10:g}">{escape(text)}</text>')
        if self.named_at is not None:
            self.out.append(f'<use href="#{self.runs_id}" y="{y - self.named_at:g}"/>')
            return
        self.named_at = y
        self.out.append(f'<g class="names" id="{self.runs_id}" transform="translate({LEFT - 8})">')
        for line, run in enumerate(self.case.runs):
            css = 'class="twin" ' if run.is_twin else ""
            place = f'y="{y + line * LINE + LINE / 2 + HALF_A_NAME:g}"'
            self.out.append(f"<text {css}{place}>{escape(run.name)}</text>")
        self.out.append("</g>")

    def _phase(self, run: CaseRun, number: int, y: float) -> None:
        marks = run.marks[number]
        if marks.start is None:
            return
        css = "twin" if run.is_twin else "real"
        begin = self.x(marks.start.t_ns - run.zero_ns)
        if marks.end is None:
            end, open_end = self.x(run.end_ns), " open"
            tip = "no end in this run"
        else:
            end, open_end = self.x(marks.end.t_ns - run.zero_ns), ""
            tip = f"{(marks.length_ns or 0) / SECOND:.2f} s ± {marks.error_ns / SECOND:.2f}"
        line = f'<path class="bar {css}{open_end}" d="M{begin:g} {y:g}H{max(end, begin + 1.5):g}"/>'
        self.out.append(f"<g><title>{escape(f'{self.case.phases[number].name}, {run.name}: {tip}')}</title>{line}</g>")

    def _events(self, run: CaseRun, rows: Sequence[Row], y: float) -> None:
        """The marks of a run in a lane, about its own line. Loud rows of one pixel are one mark, as the last of them
        would hide the others; quiet ones are one path, as no tooltip is theirs.
        """
        quiet, loud = list[float](), dict[int, list[Row]]()
        for row in rows:
            x = self.x(row.t_ns - run.zero_ns)
            if tone_of(row) == "quiet":
                quiet.append(x)
            else:
                loud.setdefault(round(x), []).append(row)
        if quiet or loud:
            marks = (self._mark(run, beside) for beside in loud.values())
            self.out += [f'<g transform="translate(0 {y:g})">', _tick_marks(quiet), *marks, "</g>"]

    def _mark(self, run: CaseRun, rows: Sequence[Row]) -> str:
        """Rows of one place, at its whole pixel, with the worst of their tones and the widest of their errors."""
        tone = min((tone_of(row) for row in rows), key=TONES.index)
        low = min(self.x(row.t_ns - run.zero_ns - row.t_err_ns) for row in rows)
        high = max(self.x(row.t_ns - run.zero_ns + row.t_err_ns) for row in rows)
        whisker = f'<path class="err" d="M{low:.0f} 0H{high:.0f}"/>' if high - low > 5 else ""
        css = "" if tone == "good" else f' class="{tone}"'  # most marks are: the style sheet's own colour of lanes
        x = self.x(rows[0].t_ns - run.zero_ns)
        return f'<g><title>{escape(_tip(run, rows))}</title>{whisker}<circle{css} cx="{x:.0f}"/></g>'

    def _faults(self, run: CaseRun, floor: float) -> list[str]:
        out = []
        for row in run.rows:
            if row.kind in ("fault.injected", "fault.cleared"):
                line = f'<path class="rule" d="M{self.x(row.t_ns - run.zero_ns):g} {TOP - GAP / 2:g}V{floor}"/>'
                out.append(f"<g><title>{escape(said(row))}, {escape(run.name)}</title>{line}</g>")
        return out

    def _ticks(self, floor: float) -> list[str]:
        out = [f'<path class="axis" d="M{LEFT} {floor}H{WIDTH - RIGHT}"/>']
        for value, words in self.clock.ticks():
            x = self.x(round(value * SECOND))
            out.append(f'<path class="axis" d="M{x:g} {floor}v4"/>')
            out.append(f'<text x="{x:g}" y="{floor + 15}" text-anchor="middle">{escape(words)}</text>')
        middle = f'x="{(LEFT + WIDTH - RIGHT) / 2:g}" y="{floor + 30}"'
        out.append(f'<text class="label" {middle} text-anchor="middle">{escape(self.clock.label)}</text>')
        return out


def _shown(run: CaseRun, clock: Clock) -> dict[int, list[Row]]:
    """The rows inside the figure by their lane; where there are too many, the loud ones."""
    begin_ns = run.zero_ns + clock.low * SECOND
    inside = [(lane, row) for row in run.rows if row.t_ns >= begin_ns and (lane := lane_of(row)) is not None]
    if len(inside) > MOST_MARKS:
        inside = [(lane, row) for lane, row in inside if tone_of(row) != "quiet"]
    lanes: dict[int, list[Row]] = {}
    for lane, row in inside[: 2 * MOST_MARKS]:
        lanes.setdefault(lane, []).append(row)
    return lanes


def _tick_marks(places: Sequence[float]) -> str:
    """One path of upright ticks; those of one place are one tick, and moves are relative, as they are shorter."""
    tenths = sorted({round(10 * x) for x in places})
    moves = (f"m{(at - before) / 10:g}-4v4" for before, at in pairwise(tenths))
    return f'<path class="tick" d="M{tenths[0] / 10:g}-2v4{"".join(moves)}"/>' if tenths else ""


def _tip(run: CaseRun, rows: Sequence[Row]) -> str:
    """The rows, each with the chain of its causes; a cause that two of them have is told once."""
    lines = dict[str, None]()
    for row in rows:
        lines[moment(run, row)] = None
        lines.update((f"<- {moment(run, cause)}", None) for cause in causes_of(run.rows, row))
    return "\n".join(lines)


def moment(run: CaseRun, row: Row) -> str:
    """A row with its time since zero and what that is known to."""
    error = f" ± {row.t_err_ns / SECOND:.3g}" if row.t_err_ns >= SECOND // 100 else ""
    return f"{(row.t_ns - run.zero_ns) / SECOND:+.2f} s{error}  {said(row)}"
