"""topology.conf: switches for topology/tree (man topology.conf; src/plugins/topology/tree/switch_record.c)."""

from __future__ import annotations

from slurmtwin.contract.cluster import SwitchConf
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.slurm_files import ConfLine
from slurmtwin.workload.node_conf import NodeTable, expand_at
from slurmtwin.workload.option_reader import OptionReader


def read_topology(
    lines: tuple[ConfLine, ...], table: NodeTable, plugin: str, reader: OptionReader
) -> tuple[SwitchConf, ...]:
    """The switches, or none when the plugin is not tree. Unknown nodes are left out with a warning, as in Slurm."""
    if plugin != "tree":
        if lines:
            reader.warn(lines[0].where, f"topology.conf is not read: TopologyPlugin is topology/{plugin}")
        return ()
    switches: list[SwitchConf] = []
    seen: set[str] = set()
    for line in lines:
        switch = _switch(line, table, reader)
        if switch.name in seen:
            raise InputError(f"switch {switch.name} is declared twice", line.where)
        seen.add(switch.name)
        switches.append(switch)
    for line, switch in zip(lines, switches, strict=True):
        for name in switch.switches:
            if name not in seen:
                raise InputError(f"switch {switch.name} names unknown switch {name}", line.where)
    _check_tree(switches, lines, table, reader)
    return tuple(switches)


def _switch(line: ConfLine, table: NodeTable, reader: OptionReader) -> SwitchConf:
    known = ("switchname", "nodes", "switches", "linkspeed")
    for key, _ in line.pairs:
        if key.lower() not in known:
            raise InputError(f"unknown option {key} in topology.conf", line.where, "SwitchName, Nodes, Switches")
    name, nodes, switches = line.get("SwitchName"), line.get("Nodes"), line.get("Switches")
    if name is None or (nodes is None) == (switches is None):
        raise InputError("a line of topology.conf names a switch and either its Nodes or its Switches", line.where)
    if switches is not None:
        return SwitchConf(name=name, switches=tuple(expand_at(switches, line.where)))
    names = expand_at(nodes or "", line.where)
    unknown = [node for node in names if node not in table.where]
    if unknown:
        reader.warn(line.where, f"switch {name}: {len(unknown)} unknown nodes left out, the first is {unknown[0]}")
    return SwitchConf(name=name, nodes=tuple(node.name for node in table.nodes if node.name in set(names)))


def _check_tree(
    switches: list[SwitchConf], lines: tuple[ConfLine, ...], table: NodeTable, reader: OptionReader
) -> None:
    """No switch above itself, and a warning for nodes that no leaf switch has."""
    children = {switch.name: switch.switches for switch in switches}
    state: dict[str, int] = {}
    for root, line in zip(children, lines, strict=True):
        stack = [(root, iter(children[root]))]
        if state.get(root):
            continue
        state[root] = 1
        while stack:
            name, rest = stack[-1]
            child = next(rest, None)
            if child is None:
                state[name] = 2
                stack.pop()
            elif state.get(child) == 1:
                raise InputError(f"switch {child} is above itself", line.where)
            elif not state.get(child):
                state[child] = 1
                stack.append((child, iter(children[child])))
    covered = {node for switch in switches for node in switch.nodes}
    missing = [node.name for node in table.nodes if node.name not in covered]
    if missing and lines:
        reader.warn(lines[0].where, f"{len(missing)} nodes are on no switch, the first is {missing[0]}")
