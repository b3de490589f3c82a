"""NodeName, NodeSet and DownNodes lines into the node table (src/common/read_config.c _parse_nodename).

The node table is sorted by name with numbers compared as numbers (slurmctld/read_config.c
_sort_nodes_by_name, strnatcmp), whatever the order in slurm.conf.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Final

from slurmtwin.contract.cluster import NodeConf
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.hostlist import MAX_HOSTS, expand
from slurmtwin.contract.slurm_files import ConfLine
from slurmtwin.workload.gres_conf import parse_gres
from slurmtwin.workload.option_reader import OptionReader
from slurmtwin.workload.options import split_words

NODE_STATES: Final = ("UNKNOWN", "CLOUD", "FUTURE", "DOWN", "DRAIN", "FAIL", "FAILING", "IDLE", "EXTERNAL")


@dataclass(slots=True)
class NodeTable:
    """The nodes in node-table order, where each was declared, and the named node sets."""

    nodes: tuple[NodeConf, ...]
    where: dict[str, Where] = field(default_factory=dict)
    sets: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def resolve(self, text: str, where: Where) -> tuple[str, ...]:
        """Names of a `Nodes=` value: ALL, node sets and node lists; in node-table order. Raises InputError."""
        if text.strip().upper() == "ALL":
            return tuple(node.name for node in self.nodes)
        names: set[str] = set()
        for name in expand_at(re.sub(r"\s+", ",", text.strip()), where):
            if name in self.sets:
                names.update(self.sets[name])
            elif name in self.where:
                names.add(name)
            else:
                raise InputError(f"unknown node or node set {name!r}", where, "declare it with NodeName= or NodeSet=")
        return tuple(node.name for node in self.nodes if node.name in names)


def expand_at(text: str, where: Where) -> list[str]:
    """hostlist.expand with the place in its errors."""
    try:
        return expand(text)
    except InputError as error:
        raise InputError(error.message, where, error.hint) from error


_NATURAL = re.compile(r"\d+|\D")


def natural_key(name: str) -> tuple[tuple[int, Any, Any], ...]:
    """Order of strnatcmp: numbers by value when neither starts with 0, else digit by digit."""
    out: list[tuple[int, Any, Any]] = []
    for part in _NATURAL.findall(name):
        if not part.isdigit():
            out.append((ord(part), "", ""))
        elif part.startswith("0"):
            out.append((ord("0"), "", part))  # compared left-aligned, before any number that starts 1..9
        else:
            out.append((ord("1"), int(part), part))
    return tuple(out)


def read_nodes(records: dict[str, list[ConfLine]], reader: OptionReader) -> NodeTable:
    """The node table of NodeName, DownNodes and NodeSet lines. Raises InputError with the line."""
    defaults: dict[str, tuple[str, Where]] = {}
    nodes: list[NodeConf] = []
    declared: dict[str, Where] = {}
    for line in records["nodename"]:
        name = line.pairs[0][1]
        given = _given(line, reader)
        if name.upper() == "DEFAULT":
            defaults |= given
            continue
        if name.upper() == "ALL":
            raise InputError("NodeName=ALL is reserved", line.where)
        fields = node_fields({**defaults, **given}, line.where, reader)
        for one in expand_at(name, line.where):
            if one in declared:
                raise InputError(f"node {one} is declared twice", line.where, f"first at {declared[one]}")
            declared[one] = line.where
            nodes.append(NodeConf(name=one, **fields))
    if not nodes:
        raise InputError("no nodes: the cluster needs NodeName lines", _anywhere(records))
    if len(nodes) > MAX_HOSTS:
        raise InputError(f"{len(nodes)} nodes; Slurm takes at most {MAX_HOSTS}", _anywhere(records))
    nodes.sort(key=lambda node: natural_key(node.name))
    table = NodeTable(tuple(nodes), declared)
    _down_nodes(table, records["downnodes"])
    for line in records["nodeset"]:
        _node_set(table, line)
    return table


def _anywhere(records: dict[str, list[ConfLine]]) -> Where:
    lines = [line for group in records.values() for line in group]
    return lines[0].where if lines else Where("slurm.conf")


def _given(line: ConfLine, reader: OptionReader) -> dict[str, tuple[str, Where]]:
    """Lower-case key -> (text, place) of a NodeName line's modelled options."""
    given: dict[str, tuple[str, Where]] = {}
    for key, value in line.pairs[1:]:
        option = reader.look_up("NodeName", key, value, line.where)
        if option is not None:
            low = {"feature": "features", "procs": "cpus"}.get(key.lower(), key.lower())
            given[low] = (value, line.where)
    return given


def node_fields(given: dict[str, tuple[str, Where]], where: Where, reader: OptionReader) -> dict[str, Any]:
    """Fields of NodeConf from a line's options; counts that contradict are repaired as Slurm does, with a warning."""

    def value(name: str, default: Any) -> Any:
        found = given.get(name)
        if found is None:
            return default
        option = reader.look_up("NodeName", name, found[0], found[1])
        return reader.value(option, found[0], found[1]) if option else default

    counts = {n: value(n, 1) for n in ("boards", "corespersocket", "threadspercore", "socketsperboard")}
    for name, count in counts.items():
        if count == 0:
            reader.warn(where, f"{name}=0 is taken as 1, as in Slurm")
            counts[name] = 1
    cpus, sockets = _sockets_and_cpus(counts, value("cpus", None), value("sockets", None),
                                      "socketsperboard" in given, where, reader)  # fmt: skip
    state = value("state", "UNKNOWN").split("+")[0]
    if state not in NODE_STATES:
        hint = "UNKNOWN, CLOUD, FUTURE, DOWN, DRAIN or FAIL"
        raise InputError(f"node state {state!r} is not for slurm.conf", where, hint)
    if state == "EXTERNAL" and reader.version < "25.11":
        raise InputError("node state EXTERNAL is one of Slurm 25.11 and later", where)
    memory, reserved = value("realmemory", 1), value("memspeclimit", 0)
    if reserved and reserved >= memory:
        reader.warn(where, "MemSpecLimit is not below RealMemory: taken as 0, as in Slurm")
        reserved = 0
    cores, special = counts["corespersocket"], value("corespeccount", 0)
    if special and special >= sockets * cores:
        reader.warn(where, f"CoreSpecCount={special} is not below the number of cores: taken as 1, as in Slurm")
        special = 1
    boards = counts["boards"] if sockets >= counts["boards"] else 1
    return {
        "cpus": cpus, "boards": boards, "sockets": sockets, "cores_per_socket": cores,
        "threads_per_core": counts["threadspercore"], "real_memory_mib": memory, "mem_spec_limit_mib": reserved,
        "core_spec_count": special, "tmp_disk_mib": value("tmpdisk", 0), "weight": value("weight", 1),
        "features": value("features", ()), "gres": parse_gres(value_text(given, "gres"), where), "state": state,
        "reason": value("reason", ""),
    }  # fmt: skip


def value_text(given: dict[str, tuple[str, Where]], name: str) -> str:
    """The text of an option, or "" when it is not given."""
    return given[name][0] if name in given else ""


def _sockets_and_cpus(
    counts: dict[str, int], cpus: int | None, sockets: int | None, per_board: bool, where: Where, reader: OptionReader
) -> tuple[int, int]:
    """(CPUs, sockets) as _parse_nodename infers them."""
    cores, threads, boards = counts["corespersocket"], counts["threadspercore"], counts["boards"]
    if cpus == 0 or sockets == 0:
        reader.warn(where, "CPUs=0 or Sockets=0 is taken as 1, as in Slurm")
        cpus, sockets = (cpus if cpus is None else max(cpus, 1)), (sockets if sockets is None else max(sockets, 1))
    if per_board:
        if sockets is not None:
            reader.warn(where, "both Sockets and SocketsPerBoard: SocketsPerBoard counts, as in Slurm")
        sockets = boards * counts["socketsperboard"]
    elif sockets is None:
        whole = cpus is not None and cpus >= cores * threads and cpus % (cores * threads) == 0
        sockets = cpus // (cores * threads) if whole and cpus is not None else boards
    total = sockets * cores * threads
    if cpus is None:
        return total, sockets
    if cpus not in (sockets, sockets * cores, total):
        reader.warn(where, f"CPUs={cpus} fits no Sockets*CoresPerSocket*ThreadsPerCore: taken as {total}, as in Slurm")
        return total, sockets
    return cpus, sockets


def _down_nodes(table: NodeTable, lines: list[ConfLine]) -> None:
    """DownNodes=LIST State=DOWN|DRAIN|FAIL Reason=TEXT: the state at slurmctld's first start."""
    for line in lines:
        for key, _ in line.pairs[1:]:
            if key.lower() not in ("state", "reason"):
                raise InputError(f"unknown option {key} on a DownNodes line", line.where, "State= and Reason=")
        state = (line.get("State") or "DOWN").upper()
        if state not in ("DOWN", "DRAIN", "FAIL", "FAILING", "UNKNOWN"):
            raise InputError(f"DownNodes State={state}", line.where, "DOWN, DRAIN or FAIL")
        names = set(table.resolve(line.pairs[0][1], line.where))
        reason = line.get("Reason") or ""
        table.nodes = tuple(
            replace(n, state=state, reason=reason or n.reason) if n.name in names else n for n in table.nodes
        )


def _node_set(table: NodeTable, line: ConfLine) -> None:
    """NodeSet=NAME Feature=WORD Nodes=LIST: the union of both."""
    name = line.pairs[0][1]
    if name in table.where or name in table.sets:
        raise InputError(f"NodeSet={name} is the name of a node or another node set", line.where)
    feature, listed = line.get("Feature"), line.get("Nodes")
    for key, _ in line.pairs[1:]:
        if key.lower() not in ("feature", "nodes"):
            raise InputError(f"unknown option {key} on a NodeSet line", line.where, "Feature= and Nodes=")
    members = set(table.resolve(listed, line.where)) if listed else set()
    members |= {node.name for node in table.nodes if feature and feature in split_words(",".join(node.features))}
    if feature is None and listed is None:
        raise InputError(f"NodeSet={name} names neither Feature nor Nodes", line.where)
    table.sets[name] = tuple(node.name for node in table.nodes if node.name in members)
