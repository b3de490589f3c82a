"""A small chart: axes, step lines, areas and blocks as compact inline SVG.

Colours are CSS classes, so one figure serves light, dark and print; coordinates have one decimal, so a figure
of hundreds of jobs stays in the tens of kilobytes; the text depends on the data alone, so equal runs give equal
bytes. A plotting library was weighed: it costs about a quarter of a second and 10 kB more per figure, and a full
check draws some two hundred.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final, Protocol

WIDTH: Final = 440
LEFT: Final = 44
RIGHT: Final = 12
TOP: Final = 8
BOTTOM: Final = 34

Tick = tuple[float, str]
Point = tuple[float, float]

_STEPS_S: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000,
    604800, 1209600, 2592000, 5184000, 7776000, 15552000, 31536000, 63072000, 157680000, 315360000,
)  # fmt: skip
_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_DECADES: Final = (
    (0, "0"), (0.1, "0.1 s"), (1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"),
    (36_000, "10 h"), (345_600, "4 d"), (3_456_000, "40 d"), (34_560_000, "400 d"),
)  # fmt: skip


class Scale(Protocol):
    """Maps a value to 0..1 along an axis, and knows its ticks."""

    @property
    def label(self) -> str:
        """What the axis shows."""
        ...

    def place(self, value: float) -> float:
        """0 at the axis' begin, 1 at its end."""
        ...

    def ticks(self) -> Sequence[Tick]:
        """(value, text) pairs inside the axis."""
        ...


@dataclass(frozen=True, slots=True)
class Linear:
    """Plain numbers from `low` to `high`; percent=True writes 0..1 as percent."""

    low: float
    high: float
    label: str = ""
    percent: bool = False

    def place(self, value: float) -> float:
        """Proportional."""
        return (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0

    def ticks(self) -> Sequence[Tick]:
        """Four to six round numbers."""
        span = self.high - self.low
        if span <= 0:
            return [(self.low, _number(self.low))]
        raw = span / 4
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        values = [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]
        return [(v, f"{100 * v:g} %" if self.percent else _number(v)) for v in values]


@dataclass(frozen=True, slots=True)
class Clock:
    """Simulated time from `low` to `high` seconds, ticks at round minutes, hours or days."""

    low: float
    high: float
    label: str = "time since the scenario's start"

    def place(self, value: float) -> float:
        """Proportional."""
        return (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0

    def ticks(self) -> Sequence[Tick]:
        """At most seven, in one unit."""
        span = max(self.high - self.low, 1e-9)
        step = next((s for s in _STEPS_S if span / s <= 6.5), _STEPS_S[-1])
        size, unit = next(u for u in _UNITS if step >= u[0] and step % u[0] == 0)
        first = math.ceil(self.low / step - 1e-9)
        count = math.floor(self.high / step + 1e-9) - first + 1
        return [((first + i) * step, f"{(first + i) * step / size:g} {unit}") for i in range(max(0, count))]


@dataclass(frozen=True, slots=True)
class Decades:
    """Durations from 0 to `high` seconds on log(1 + x / unit): 0 has a place, days fit beside seconds."""

    high: float
    unit: float = 1.0
    label: str = ""

    def place(self, value: float) -> float:
        """0 at 0 s."""
        return math.log1p(max(value, 0.0) / self.unit) / math.log1p(max(self.high, self.unit) / self.unit)

    def ticks(self) -> Sequence[Tick]:
        """0, and each round duration at or above the unit."""
        return [(v, t) for v, t in _DECADES if v <= self.high * 1.0001 and (v == 0 or v >= self.unit)]


@dataclass(slots=True)
class Chart:
    """Collects marks; `text()` gives the <svg>. `describe` is what a screen reader says."""

    x: Scale
    y: Scale | None
    describe: str
    height: int = 220
    left: int = LEFT
    marks: list[str] = field(default_factory=list)

    def px(self, value: float) -> float:
        """Horizontal place of a value, clipped to the plot."""
        return self.left + min(1.0, max(0.0, self.x.place(value))) * (WIDTH - self.left - RIGHT)

    def py(self, value: float) -> float:
        """Vertical place of a value, clipped to the plot."""
        assert self.y is not None
        low = self.height - BOTTOM
        return low - min(1.0, max(0.0, self.y.place(value))) * (low - TOP)

    def steps(self, points: Sequence[Point], css: str, close: bool = False) -> None:
        """A step line through (x, y from then on); with `close` filled down to the axis."""
        if not points:
            return
        out = [f"M{_c(self.px(points[0][0]))} {_c(self.py(points[0][1]))}"]
        last_x, last_y = _c(self.px(points[0][0])), _c(self.py(points[0][1]))
        for x, y in points[1:]:
            cx, cy = _c(self.px(x)), _c(self.py(y))
            if cy == last_y:
                continue
            out.append(f"H{cx}V{cy}" if cx != last_x else f"V{cy}")
            last_x, last_y = cx, cy
        end = _c(self.px(points[-1][0]))
        if end != last_x:
            out.append(f"H{end}")
        if close:
            out.append(f"V{_c(self.height - BOTTOM)}H{_c(self.px(points[0][0]))}Z")
        self.marks.append(f'<path class="{css}" d="{"".join(out)}"/>')

    def curve(self, points: Sequence[Point], css: str) -> None:
        """Straight lines through the points, each marked."""
        if not points:
            return
        places = [(_c(self.px(x)), _c(self.py(y))) for x, y in points]
        path = "L".join(f"{x} {y}" for x, y in places)
        self.marks.append(f'<path class="line {css}" d="M{path}"/>')
        self.marks += [f'<circle class="dot {css}" cx="{x}" cy="{y}" r="2.6"/>' for x, y in places]

    def level(self, value: float, text: str) -> None:
        """A horizontal dashed line with a word above its right end."""
        y = _c(self.py(value))
        self.marks.append(f'<path class="rule" d="M{self.left} {y}H{WIDTH - RIGHT}"/>')
        place = f'x="{WIDTH - RIGHT}" y="{_c(float(y) - 4)}"'
        self.marks.append(f'<text class="note" {place} text-anchor="end">{escape(text)}</text>')

    def whisker(self, low: float, high: float, row: float, rows: int, css: str) -> None:
        """An interval on one of `rows` equal rows, with its ends marked."""
        y = TOP + (row + 0.5) * (self.height - BOTTOM - TOP) / max(1, rows)
        a, b = _c(self.px(low)), _c(self.px(high))
        self.marks.append(
            f'<path class="line {css}" d="M{a} {_c(y)}H{b}M{a} {_c(y - 4)}V{_c(y + 4)}M{b} {_c(y - 4)}V{_c(y + 4)}"/>'
        )

    def name(self, text: str, row: float, rows: int) -> None:
        """What one of `rows` equal rows is, left of the plot."""
        y = TOP + (row + 0.5) * (self.height - BOTTOM - TOP) / max(1, rows)
        place = f'x="{self.left - 8}" y="{_c(y + 4)}"'
        self.marks.append(f'<text class="note" {place} text-anchor="end">{escape(text)}</text>')

    def rule(self, value: float, text: str) -> None:
        """A vertical dashed line with a word at its top."""
        if not 0 <= self.x.place(value) <= 1:
            return
        x = _c(self.px(value))
        self.marks.append(f'<path class="rule" d="M{x} {TOP}V{self.height - BOTTOM}"/>')
        near_end = self.x.place(value) > 0.75
        anchor, gap = ("end", -4) if near_end else ("start", 4)
        place = f'x="{_c(float(x) + gap)}" y="{self.height - BOTTOM - 6}"'
        self.marks.append(f'<text class="note" {place} text-anchor="{anchor}">{escape(text)}</text>')

    def blocks(self, rows: int, spans: Iterable[tuple[float, float, int, int]], css: str) -> None:
        """Rectangles (from, to, first row, number of rows) on `rows` equal rows, all in one path."""
        size = (self.height - BOTTOM - TOP) / max(1, rows)
        gap = 0.12 if size > 4 else 0.0
        out = []
        for begin, end, first, count in spans:
            x, to = self.px(begin), self.px(end)
            y = TOP + first * size + gap * size / 2
            tall = count * size - gap * size
            out.append(f"M{_c(x)} {_c(y)}h{_c(max(0.4, to - x))}v{_c(tall)}H{_c(x)}z")
        if out:
            self.marks.append(f'<path class="{css}" d="{"".join(out)}"/>')

    def text(self) -> str:
        """The figure."""
        floor = self.height - BOTTOM
        right = WIDTH - RIGHT
        out = [
            f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" aria-label="{escape(self.describe)}">',
            f'<path class="axis" d="M{self.left} {floor}H{right}"/>',
        ]
        if self.y is not None:
            for value, words in self.y.ticks():
                y = _c(self.py(value))
                out.append(f'<path class="grid" d="M{self.left} {y}H{right}"/>')
                out.append(f'<text x="{self.left - 6}" y="{y}" dy=".33em" text-anchor="end">{escape(words)}</text>')
        last = -100.0
        for value, words in self.x.ticks():
            x = self.px(value)
            if x - last < 7 * len(words) + 8:
                continue
            last = x
            anchor = "end" if x + 3.2 * len(words) > WIDTH else "middle"
            out.append(f'<path class="axis" d="M{_c(x)} {floor}v4"/>')
            out.append(f'<text x="{_c(x)}" y="{floor + 15}" text-anchor="{anchor}">{escape(words)}</text>')
        out += self.marks
        place = f'x="{_c((self.left + right) / 2)}" y="{self.height - 4}"'
        out.append(f'<text class="label" {place} text-anchor="middle">{escape(self.x.label)}</text>')
        out.append("</svg>")
        return "".join(out)


def _c(value: float) -> str:
    """A coordinate with one decimal, as short as it gets."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def _number(value: float) -> str:
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:g}"
