"""--constraint: features with and, or, counts and matching sets (slurm.md 9; job_scheduler.c _feature_string2list()).

`a&b`, `a|b`, `(a|b)&c` cut the nodes. `[a|b]` wants all nodes from one of the features, `a*2`, `[a*2&b*4]` so many
nodes of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

AND: Final = "and"
OR: Final = "or"
MATCHING_OR: Final = "matching or"
EACH_OF: Final = "each of"
END: Final = "end"

Having = Callable[[str], int]
"""The nodes with a feature."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One name of a constraint, the operator after it, and what is still open behind it."""

    name: str
    op: str
    count: int = 0
    paren: bool = False
    """A parenthesis is still open: the next one belongs to the same term."""
    bracket: bool = False


Features = tuple[Feature, ...]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A parsed --constraint."""

    features: Features

    @property
    def counted(self) -> bool:
        """Some feature has a count."""
        return any(f.count for f in self.features)

    @property
    def each_of(self) -> bool:
        """`[a&b]`: some nodes of each."""
        return any(f.op == EACH_OF for f in self.features)

    @property
    def matching_or(self) -> bool:
        """`[a|b]`: all nodes of one."""
        return any(f.op == MATCHING_OR for f in self.features)

    def terms(self) -> list[tuple[int, Features]]:
        """(count, features) of each term in order; what stands in parentheses stays together."""
        out: list[tuple[int, Features]] = []
        term: list[Feature] = []
        for feature in self.features:
            term.append(feature)
            if not feature.paren:
                term[-1] = replace(feature, op=END)
                out.append((feature.count, tuple(term)))
                term = []
        return out


class _Parser:
    """Reads one constraint; `bad` when slurmctld would refuse it."""

    def __init__(self) -> None:
        self.features: list[Feature] = []
        self.name = ""
        self.count = 0
        self.paren = self.bracket = self.bad = False

    def operator(self, char: str) -> None:
        """& or | behind a feature, a closing parenthesis or bracket."""
        self.bad = self.bad or not self.name
        within = self.bracket and not self.paren
        plain, matched = (AND, EACH_OF) if char == "&" else (OR, MATCHING_OR)
        self.put(matched if within else plain)

    def put(self, op: str) -> None:
        """The feature is complete."""
        self.features.append(Feature(self.name, op, self.count, self.paren, self.bracket))
        self.name, self.count = "", 0

    def enclose(self, char: str) -> None:
        """A parenthesis or bracket opens or closes."""
        if char == "[":
            self.bad = self.bad or bool(self.name) or self.bracket or self.paren
            self.bracket = True
        elif char == "]":
            self.bad = self.bad or not self.name or not self.bracket or self.paren
            self.bracket = False
        elif char == "(":
            self.bad = self.bad or bool(self.name) or self.paren
            self.paren = True
        else:
            self.bad = self.bad or not self.name or not self.paren
            self.paren = False


def parse(text: str) -> Constraint | None:
    """The constraint, or None when it is empty or slurmctld would refuse it."""
    reader = _Parser()
    text = text.replace(",", "&")
    place = 0
    while place < len(text) and not reader.bad:
        char = text[place]
        place += 1
        if char == "*":
            end = place
            while end < len(text) and text[end].isdigit():
                end += 1
            reader.bad = end == place or not reader.name or reader.paren
            reader.count = int(text[place:end] or 0)
            place = end
        elif char in "&|":
            reader.operator(char)
        elif char in "[]()":
            reader.enclose(char)
        else:
            reader.name += char
    if reader.bad or reader.paren or reader.bracket:
        return None
    if reader.name:
        reader.put(END)
    return Constraint(tuple(reader.features)) if reader.features else None


def cut(features: Features, nodes: int, having: Having) -> int:
    """valid_feature_counts(): `nodes` as far as and/or decide; counts and matching sets are left to the caller."""
    if any(f.count for f in features):
        return nodes
    whole, inner = nodes, nodes
    inside = False
    last, outer = AND, AND
    for feature in features:
        if feature.paren and not inside:
            outer = EACH_OF if feature.bracket and last not in (EACH_OF, MATCHING_OR) else last
            inner, last = nodes, AND
        opened = inside or feature.paren
        work = inner if opened else whole
        if feature.op not in (MATCHING_OR, EACH_OF):
            if last == AND:
                work &= having(feature.name)
            elif last == OR:
                work |= having(feature.name) & nodes
        if not opened:
            whole = work
        elif feature.paren:
            inner = work
        elif outer == AND:
            whole &= work
        elif outer == OR:
            whole |= work
        inside = feature.paren
        last = feature.op
    return whole


def of_term(features: Features, nodes: int, having: Having) -> int:
    """The nodes of one term: a feature, or features in parentheses."""
    out = nodes & having(features[0].name)
    op = features[0].op
    for feature in features[1:]:
        more = having(feature.name) & nodes
        out = out & more if op == AND else out | more
        op = feature.op
    return out


def names(features: Iterable[Feature]) -> list[str]:
    """The feature names, as written."""
    return [f.name for f in features]
