"""Gres= of nodes and gres.conf (src/interfaces/gres.c; man gres.conf).

The count of a node is what slurm.conf says; gres.conf adds types and is checked against it.
Devices, cores and links of gres.conf are not modelled: a warning names them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.cluster import GresConf
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.hostlist import expand
from slurmtwin.contract.slurm_files import ConfLine
from slurmtwin.workload.option_reader import OptionReader
from slurmtwin.workload.options import split_words

if TYPE_CHECKING:
    from slurmtwin.workload.node_conf import NodeTable

KEYS: Final = (
    "autodetect", "count", "cpus", "cores", "file", "files", "flags", "link", "links", "multiplefiles", "name", "type",
    "nodename",
)  # fmt: skip
_MULTIPLE: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4, "p": 1024**5}
_COUNT = re.compile(r"(\d{1,18})([kmgtpKMGTP]?)\Z")
_RANGE = re.compile(r"\[([\d,-]+)\]")


def gres_count(text: str, where: Where) -> int:
    """`4`, `2K`: a count with Slurm's 1024-based suffixes. Raises InputError."""
    found = _COUNT.match(text.strip())
    if not found:
        raise InputError(f"not a GRES count: {text!r}", where)
    return int(found[1]) * _MULTIPLE[found[2].lower()]


def parse_gres(text: str, where: Where) -> tuple[GresConf, ...]:
    """`gpu:a100:2,craynetwork:4,gpu` as name, type, count; equal entries are added up."""
    found: dict[tuple[str, str], int] = {}
    for part in split_words(re.sub(r"\([^)]*\)", "", text)):
        name, *rest = part.split(":")
        rest = [word for word in rest if word != "no_consume"]
        count = gres_count(rest.pop(), where) if rest and rest[-1][:1].isdigit() and _COUNT.match(rest[-1]) else 1
        if not name or len(rest) > 1 or (rest and not rest[0]):
            raise InputError(f"not a GRES: {part!r}", where, "NAME[:TYPE][:COUNT]")
        key = (name, rest[0] if rest else "")
        found[key] = found.get(key, 0) + count
    return tuple(GresConf(name=name, type=kind, count=count) for (name, kind), count in found.items())


def apply_gres(
    table: NodeTable, lines: tuple[ConfLine, ...], gres_types: tuple[str, ...], reader: OptionReader
) -> NodeTable:
    """Check nodes' Gres= against GresTypes, and take types from gres.conf where slurm.conf names none."""
    for node in table.nodes:
        for gres in node.gres:
            if gres.name not in gres_types:
                where = table.where[node.name]
                raise InputError(f"GRES {gres.name} is not in GresTypes", where, f"GresTypes={gres.name}")
    found = _by_node(lines, table, reader)
    nodes = []
    for node in table.nodes:
        typed = tuple(g for want in node.gres for g in _typed(want, found.get(node.name, []), node.name, reader))
        nodes.append(replace(node, gres=typed) if typed != node.gres else node)
    table.nodes = tuple(nodes)
    return table


Entry = tuple[str, str, int, Where]
"""Name, type, count and place of one line of gres.conf."""


def _by_node(lines: tuple[ConfLine, ...], table: NodeTable, reader: OptionReader) -> dict[str, list[Entry]]:
    out: dict[str, list[Entry]] = {}
    noted: set[str] = set()
    for line in lines:
        for key, value in line.pairs:
            if key.lower() not in KEYS:
                raise InputError(f"unknown option {key} in gres.conf", line.where)
            ignored = key.lower() in ("cores", "cpus", "link", "links", "flags")
            if ignored and key.lower() not in noted:
                noted.add(key.lower())
                reader.warn(line.where, f"gres.conf {key}={value[:40]} is not modelled: which cores lie near a device")
        name = line.get("Name")
        if name is None:
            continue
        entry = (name, line.get("Type") or "", _line_count(line), line.where)
        for node in _nodes_of(line, table, reader):
            out.setdefault(node, []).append(entry)
    return out


def _nodes_of(line: ConfLine, table: NodeTable, reader: OptionReader) -> list[str]:
    text = line.get("NodeName")
    if text is None:
        return [node.name for node in table.nodes]
    try:
        names = expand(text)
    except InputError as error:
        raise InputError(error.message, line.where, error.hint) from error
    unknown = [name for name in names if name not in table.where]
    if unknown:
        reader.warn(line.where, f"gres.conf names unknown nodes, left out: {unknown[0]} and {len(unknown) - 1} more")
    return [name for name in names if name in table.where]


def _line_count(line: ConfLine) -> int:
    """Count=, else the number of files, else 1."""
    count, files = line.get("Count"), line.get("File") or line.get("Files") or line.get("MultipleFiles")
    if count is not None:
        return gres_count(count, line.where)
    if not files:
        return 1
    try:
        return len(expand(files)) if _RANGE.search(files) else len(split_words(files))
    except InputError as error:
        raise InputError(error.message, line.where, error.hint) from error


def _typed(want: GresConf, entries: list[Entry], node: str, reader: OptionReader) -> list[GresConf]:
    """An untyped GRES split by the types that gres.conf gives it, when their counts add up."""
    mine = [entry for entry in entries if entry[0] == want.name and want.type in ("", entry[1])]
    if not mine:
        return [want]
    total = sum(count for _, _, count, _ in mine)
    if total != want.count:
        said = f"gres.conf has {total} {want.name} on {node}, slurm.conf {want.count}: slurm.conf counts"
        reader.warn(mine[0][3], said)
        return [want]
    types: dict[str, int] = {}
    for _, kind, count, _ in mine:
        types[kind] = types.get(kind, 0) + count
    if want.type or "" in types:
        return [want]
    return [GresConf(name=want.name, type=kind, count=count) for kind, count in types.items()]
