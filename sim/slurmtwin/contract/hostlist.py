"""Slurm's node lists: `n[001-003,7]`, `a[1-2]b[1-2]` (src/common/hostlist.c)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from slurmtwin.contract.errors import InputError

_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_NUMBERED = re.compile(r"(.*?)(\d+)\Z")
MAX_HOSTS = 65_536
MAX_DIGITS = 18
MAX_NAME = 255
"""Length of a host name (RFC 1035)."""


def _split(text: str) -> list[str]:
    """Split at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        if char == "[":
            depth += 1
            if depth > 1:
                raise InputError(f"brackets inside brackets in node list {text!r}")
        elif char == "]":
            depth -= 1
            if depth < 0:
                raise InputError(f"unbalanced brackets in node list {text!r}")
        elif char == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    if depth:
        raise InputError(f"unbalanced brackets in node list {text!r}")
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip()]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS


def _numbers(text: str) -> list[str]:
    out: list[str] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not _is_number(low) or (dash and not _is_number(high)):
            raise InputError(f"not a range in a node list: [{text}]", hint="for example n[1-4,7]")
        first, last = int(low), int(high) if dash else int(low)
        if last < first or last - first >= MAX_HOSTS:
            raise InputError(f"bad range {part!r} in a node list")
        out.extend(f"{n:0{len(low)}d}" for n in range(first, last + 1))
    return out


def expand(text: str) -> list[str]:
    """The names in the order written: `n[1-2],m` gives n1, n2, m. Raises InputError on bad syntax."""
    names: list[str] = []
    for part in _split(text):
        heads = [""]
        end = 0
        for bracket in _BRACKET.finditer(part):
            fixed = part[end : bracket.start()]
            numbers = _numbers(bracket[1])
            if len(heads) * len(numbers) > MAX_HOSTS:
                raise InputError(f"node list {part!r} names more than {MAX_HOSTS} hosts")
            heads = [h + fixed + n for h in heads for n in numbers]
            end = bracket.end()
        if len(heads[0]) + len(part) - end > MAX_NAME:
            raise InputError(f"a name in a node list is longer than {MAX_NAME} characters: {part[:40]!r}")
        names.extend(h + part[end:] for h in heads)
    return names


@lru_cache(maxsize=MAX_HOSTS)
def _key(name: str) -> tuple[str, int, int, str]:
    """(prefix, digits, number, name) of a name that ends in digits; digits 0 and number -1 of another."""
    found = _NUMBERED.match(name)
    return (found[1], len(found[2]), int(found[2]), name) if found else (name, 0, -1, name)


def compress(names: Iterable[str]) -> str:
    """The canonical short form: sorted by prefix and number, ranges in one bracket per prefix."""
    groups: dict[tuple[str, int], list[int]] = {}
    plain: dict[tuple[str, int], None] = {}
    for prefix, width, number, name in sorted(map(_key, set(names))):
        if 0 < width <= 18:
            group = groups.get((prefix, width))
            if group is None:
                group = groups[prefix, width] = []
                plain[prefix, width] = None
            group.append(number)
        else:
            plain[name, -1] = None
    out: list[str] = []
    for prefix, width in plain:
        if width < 0:
            out.append(prefix)
            continue
        out.append(prefix + _ranges(groups[(prefix, width)], width))
    return ",".join(out)


def _ranges(numbers: list[int], width: int) -> str:
    spans: list[list[int]] = []
    for n in numbers:
        if spans and spans[-1][1] == n - 1:
            spans[-1][1] = n
        else:
            spans.append([n, n])
    parts = [f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in spans]
    return parts[0] if len(parts) == 1 and "-" not in parts[0] else f"[{','.join(parts)}]"
