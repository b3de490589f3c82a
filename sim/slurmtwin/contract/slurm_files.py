"""Slurm's configuration files as text: the line syntax, both ways, and the files of a scenario.

A scenario gives Slurm's settings literally (slurm.conf, slurm.nodes ...) or names files; either way
every world reads the same lines. What the options mean is workload/slurm_conf.py.
Syntax: src/common/parse_config.c (keyvalue_pattern, _get_next_line, _parse_include_directive).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.fields import Scalar
from slurmtwin.contract.scenario import Scenario, SlurmSection
from slurmtwin.contract.yaml_file import line_of, load_yaml

_PAIR = re.compile(r"\s*([A-Za-z0-9_.]+)\s*[-*+/]?=\s*(?:\"([^\"]*)\"|(\S+))(?=\s|\Z)")
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*\Z", re.IGNORECASE)
_NEEDS_QUOTES = re.compile(r"\s|\A\Z")
MAX_INCLUDE_DEPTH: Final = 16
LINE_OPTIONS: Final = ("downnodes", "poweraction")
"""Options of slurm.conf that own the rest of their line and have no list of their own in a scenario."""
FIRST_KEYS: Final = ("NodeName", "PartitionName", "NodeSet", "SwitchName", "BlockName", "BlockSizes", "Name")


@dataclass(frozen=True, slots=True)
class ConfLine:
    """One logical line: its place and its Key=Value pairs in order, keys as written."""

    where: Where
    pairs: tuple[tuple[str, str], ...]

    def get(self, key: str) -> str | None:
        """The last value of a key, any case; None when the line does not have it."""
        found = None
        for name, value in self.pairs:
            if name.lower() == key.lower():
                found = value
        return found


@dataclass(frozen=True, slots=True)
class SlurmFiles:
    """The lines of slurm.conf, gres.conf and topology.conf, and the sacctmgr commands, with their places."""

    slurm_conf: tuple[ConfLine, ...]
    gres_conf: tuple[ConfLine, ...] = ()
    topology_conf: tuple[ConfLine, ...] = ()
    accounting: tuple[tuple[Where, str], ...] = ()


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines without comments, continuations joined, escapes removed; each with its first line's number."""
    out: list[tuple[int, str]] = []
    held, first = "", 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = _strip_comment(raw.rstrip("\r"))
        first = first or number
        body = line.rstrip()
        if (len(body) - len(body.rstrip("\\"))) % 2:
            held += body[:-1]
            continue
        out.append((first, re.sub(r"\\(.?)", r"\1", held + line)))
        held, first = "", 0
    if held:
        out.append((first, re.sub(r"\\(.?)", r"\1", held)))
    return out


def _strip_comment(line: str) -> str:
    """Cut at the first # that no odd number of backslashes precedes."""
    escaped = False
    for i, char in enumerate(line):
        if char == "#" and not escaped:
            return line[:i]
        escaped = char == "\\" and not escaped
    return line


def _pairs(line: str, where: Where) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    end = 0
    while found := _PAIR.match(line, end):
        value = found[2] if found[2] is not None else found[3]
        pairs.append((found[1], value))
        end = found.end()
    if line[end:].strip():
        rest = line[end:].strip()[:60]
        raise InputError(f"cannot read {rest!r}", where, "write Key=Value; quote a value with spaces")
    return tuple(pairs)


Include = Callable[[str, Where], list[ConfLine]]


def parse_conf_text(text: str, path: str, include: Include | None = None) -> list[ConfLine]:
    """The logical lines of a configuration text. Raises InputError with file:line for a line that is none."""
    lines: list[ConfLine] = []
    for number, line in _logical_lines(text):
        where = Where(path, number)
        if "\0" in line:
            raise InputError("not a text file", where)
        if not line.strip():
            continue
        asked = _INCLUDE.match(line)
        if asked:
            if include is None:
                raise InputError("Include needs a file to be relative to", where)
            lines += include(asked[1], where)
            continue
        lines.append(ConfLine(where, _pairs(line, where)))
    return lines


def read_text(path: Path, where: Where | None = None) -> str:
    """A configuration file as text: UTF-8, else Latin-1 (comments of old sites). Raises InputError."""
    try:
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read {path}: {reason}", where or Where(str(path))) from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def read_conf_file(path: Path) -> list[ConfLine]:
    """The logical lines of a file and of those it includes (relative to the first file's folder)."""

    def read(name: Path, asked: Where | None, depth: int) -> list[ConfLine]:
        if depth > MAX_INCLUDE_DEPTH:
            raise InputError(f"Include nested more than {MAX_INCLUDE_DEPTH} deep", asked, "does a file include itself?")

        def include(other: str, where: Where) -> list[ConfLine]:
            if "*" in other:
                raise InputError(f"Include {other}: Slurm reads no patterns", where, "name each file")
            return read(path.parent / other, where, depth + 1)

        return parse_conf_text(read_text(name, asked), str(name), include)

    return read(path, None, 0)


def quote(value: Scalar) -> str:
    """A value as slurm.conf wants it: YES or NO, # escaped, quoted when it holds spaces or nothing."""
    if isinstance(value, bool):
        return "YES" if value else "NO"
    text = str(value).replace("\\", "\\\\").replace("#", "\\#")
    return f'"{text}"' if _NEEDS_QUOTES.search(text) else text


def _ordered(values: Mapping[str, Scalar]) -> list[tuple[str, Scalar]]:
    """The pairs of one line, the key that names the line first."""
    rank = {name.lower(): i for i, name in enumerate(FIRST_KEYS)}
    return sorted(values.items(), key=lambda item: rank.get(item[0].lower(), len(rank)))


def conf_text(lines: Iterable[ConfLine]) -> str:
    """The lines as a file's text."""
    return "".join(" ".join(f"{k}={quote(v)}" for k, v in line.pairs) + "\n" for line in lines)


def scenario_files(scenario: Scenario, base_dir: Path | None = None, path: Path | None = None) -> SlurmFiles:
    """The configuration of a scenario: its files, then what it says literally (the last word counts).

    base_dir: the folder that file names are relative to. path: the scenario file, for places of literal
    options. Raises InputError when a file cannot be read.
    """
    section, named = scenario.slurm, scenario.slurm.files
    places = _Places(scenario.name, path)
    conf: list[ConfLine] = []
    gres: list[ConfLine] = []
    topology: list[ConfLine] = []
    accounting: list[tuple[Where, str]] = []
    if named:
        folder = base_dir or (path.parent if path else Path())
        conf += read_conf_file(folder / named.slurm_conf)
        gres += read_conf_file(folder / named.gres_conf) if named.gres_conf else []
        topology += read_conf_file(folder / named.topology_conf) if named.topology_conf else []
        accounting += read_commands(folder / named.sacctmgr) if named.sacctmgr else []
    for key, value in section.conf.items():
        where = places("conf", key)
        whole = key.lower() in LINE_OPTIONS
        pairs = _pairs(f"{key}={value}", where) if whole else ((key, _plain(value)),)
        conf.append(ConfLine(where, pairs))
    conf += _lines(section.nodesets, places, "nodesets") + _lines(section.nodes, places, "nodes")
    conf += _lines(section.partitions, places, "partitions")
    gres += _lines(section.gres, places, "gres")
    topology += _lines(section.topology, places, "topology")
    accounting += [(places("accounting", i), text) for i, text in enumerate(section.accounting)]
    return SlurmFiles(tuple(conf), tuple(gres), tuple(topology), tuple(accounting))


def read_commands(path: Path) -> list[tuple[Where, str]]:
    """The lines of a sacctmgr script or dump that are not empty and not comments."""
    lines = [(Where(str(path), n), line.strip()) for n, line in enumerate(read_text(path).split("\n"), 1)]
    return [(where, line) for where, line in lines if line and not line.startswith("#")]


class _Places:
    """Where a literal option of a scenario stands: file:line if the file is known, else its key."""

    def __init__(self, name: str, path: Path | None) -> None:
        self._name = name
        self._path = path
        self._document: Any = load_yaml(path) if path else None

    def __call__(self, *keys: int | str) -> Where:
        location = ("slurm", *keys)
        if self._path is None:
            return Where(f"{self._name}: {'.'.join(map(str, location))}")
        return Where(str(self._path), line_of(self._document, location))


def _plain(value: Scalar) -> str:
    return ("YES" if value else "NO") if isinstance(value, bool) else str(value)


def _lines(items: Sequence[Mapping[str, Scalar]], places: _Places, name: str) -> list[ConfLine]:
    lines = [ConfLine(places(name, i), tuple((k, _plain(v)) for k, v in _ordered(d))) for i, d in enumerate(items)]
    for line in lines:
        if not line.pairs:
            raise InputError(f"an empty entry in slurm.{name}", line.where)
    return lines


_LINE_LISTS: Final = {"nodename": "nodes", "partitionname": "partitions", "nodeset": "nodesets"}


def literal_section(files: SlurmFiles, section: SlurmSection) -> SlurmSection:
    """The same configuration with every file's content written out literally, for worlds that render their own.

    Of options given twice the last one counts, as in Slurm. A DownNodes line is kept as its whole text.
    """
    conf: dict[str, Scalar] = {}
    spelled: dict[str, str] = {}
    lists: dict[str, list[dict[str, Scalar]]] = {"nodes": [], "partitions": [], "nodesets": []}
    for line in files.slurm_conf:
        first = line.pairs[0][0].lower()
        if first in _LINE_LISTS:
            lists[_LINE_LISTS[first]].append(dict(line.pairs))
            continue
        if first in LINE_OPTIONS:
            conf[line.pairs[0][0]] = conf_text([line]).strip().partition("=")[2]
            continue
        for key, value in line.pairs:
            name = spelled.setdefault(key.lower(), key)
            hosts = name.lower() == "slurmctldhost" and name in conf
            conf[name] = f"{conf[name]},{value}" if hosts else value
    return SlurmSection.model_validate({
        "version": section.version, "conf": conf, **lists,
        "gres": [dict(line.pairs) for line in files.gres_conf],
        "topology": [dict(line.pairs) for line in files.topology_conf],
        "accounting": [text for _, text in files.accounting], "waive": section.waive,
    })  # fmt: skip
