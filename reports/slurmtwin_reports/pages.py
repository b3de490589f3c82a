"""What the pages of plans and studies share: a template, tables of text cells, the footer. Nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.manifest import write_atomic

FOOTER: Final = "Made by slurmtwin. Nothing in this file is loaded from elsewhere."


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its heading; cells are text, the first column names the row, `numbers` are set to the right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    strong: frozenset[int] = frozenset()
    """Rows that stand out."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawn figure with its title and one line of reading help."""

    title: str
    note: str
    svg: str


@dataclass(frozen=True, slots=True)
class Block:
    """One part of a page below the first screen."""

    title: str
    hint: str = ""
    figures: Sequence[Figure] = ()
    key: Sequence[tuple[str, str]] = ()
    """(CSS class, word) of each line in the figures."""
    table: Table | None = None
    lines: Sequence[str] = ()
    file: str = ""
    """The table's name in the run folder; empty for none."""


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page: what a reader must see without scrolling, then the blocks."""

    title: str
    answer: str
    tone: str
    """good, bad or hold: how much the answer may be relied on."""
    chip: str
    lede: str
    tiles: Sequence[tuple[str, str]] = ()
    blocks: Sequence[Block] = field(default_factory=list)


def render(page: Page) -> str:
    """The HTML text; equal pages give equal bytes."""
    from jinja2 import Environment, PackageLoader
    from markupsafe import Markup

    folder = resources.files("slurmtwin_reports") / "templates"
    environment = Environment(loader=PackageLoader("slurmtwin_reports"), autoescape=True, keep_trailing_newline=True)
    environment.filters["svg"] = Markup
    css = (folder / "report.css").read_text(encoding="utf-8") + (folder / "page.css").read_text(encoding="utf-8")
    template = environment.get_template("page.html")
    return template.render(page=page, title=page.title, css=Markup(css), footer=FOOTER)  # noqa: S704  # our own file


def write_page(path: Path, page: Page) -> int:
    """Write the page; returns its size in bytes."""
    text = render(page)
    write_atomic(path, text)
    return len(text.encode())


def span(seconds: float | None) -> str:
    """A time for people: `0 s`, `42 s`, `12 min`, `3.4 h`, `2.1 d`; nothing known is `never`."""
    if seconds is None:
        return "never"
    for size, unit in ((172_800, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / (86_400 if unit == 'd' else size):.3g} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 or seconds == 0 else "under 1 s"


def listed(items: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    words = list(items)
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def mix(counts: Sequence[int], shapes: Sequence[str]) -> str:
    """`20 x 80x517018M and 48 x 12x91832M`; a shape whose memory is not known is so many CPUs."""
    return listed(f"{count} × {shape}{' CPU' * shape.isdigit()}" for count, shape in zip(counts, shapes, strict=True))


def cells(rows: Iterable[Sequence[Any]]) -> list[list[str]]:
    """Every cell as text."""
    return [[str(cell) for cell in row] for row in rows]
