"""Nodes that come and go: scontrol create and delete, slurmd -Z, slurmd -F (slurm.md 4.7; node_mgr.c).

A created node is appended to the node table, so no bitmap moves. A deleted one leaves a hole: its record stays
in place, FUTURE, without a name and in no partition.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.cluster import GresConf, NodeConf
from slurmtwin.contract.events import Kind
from slurmtwin.contract.hostlist import expand
from slurmtwin.contract.quantity import parse_slurm_mib
from slurmtwin.models.slurmctld.states import NodeBase, NodeFlag
from slurmtwin.models.slurmctld.tables import Node

if TYPE_CHECKING:
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

_NOT_DYNAMIC: Final = "Node is not a dynamic node"
_GOES: Final = NodeFlag.DYNAMIC_NORM | NodeFlag.EXTERNAL
_IN_USE: Final = "Node is busy"


def parse_options(name: str, text: str) -> NodeConf:
    """`CPUs=4 RealMemory=1000 State=CLOUD Features=a,b Gres=gpu:2` as a NodeConf (man scontrol, create node)."""
    given = dict(pair.split("=", 1) for pair in text.split() if "=" in pair)
    options = {key.lower(): value for key, value in given.items()}
    sockets = int(options.get("sockets", "0"))
    cores = int(options.get("corespersocket", "1"))
    threads = int(options.get("threadspercore", "1"))
    cpus = int(options.get("cpus", str(max(1, sockets) * cores * threads)))
    gres = tuple(_gres(word) for word in options.get("gres", "").split(",") if word)
    return NodeConf(
        name=name, cpus=cpus, sockets=sockets or max(1, cpus // (cores * threads)), cores_per_socket=cores,
        threads_per_core=threads, real_memory_mib=parse_slurm_mib(options.get("realmemory", "1")),
        weight=int(options.get("weight", "1")), gres=gres,
        features=tuple(word for word in options.get("features", options.get("feature", "")).split(",") if word),
        state=options.get("state", "IDLE").upper(),
    )  # fmt: skip


def _gres(word: str) -> GresConf:
    parts = word.split(":")
    count = int(parts[-1]) if len(parts) > 1 else 1
    return GresConf(name=parts[0], type=parts[1] if len(parts) > 2 else "", count=count)


def may_create(ctld: Slurmctld, count: int) -> str | None:
    """slurm.md 4.7 "slurmd -Z [--conf "..."]": cons_tres only, and room under MaxNodeCount."""
    if ctld.conf.select.type != "select/cons_tres":
        return "Node names may only be added with select/cons_tres"
    limit = ctld.conf.controller.max_node_count
    if not limit or len(ctld.nodes) + count > limit:
        return "MaxNodeCount reached"
    return None


def create_nodes(cluster: SlurmCluster, ctld: Slurmctld, names: str, options: str) -> str | None:
    """scontrol create nodename=; None, or why it was refused."""
    confs = [parse_options(name, options) for name in expand(names)]
    return _add(cluster, ctld, [conf for conf in confs if conf.name not in ctld.nodes.by_name])


def register_dynamic(cluster: SlurmCluster, ctld: Slurmctld, conf: NodeConf) -> str | None:
    """slurmd -Z registers for the first time: the node appears; a known name only registers."""
    if conf.name in ctld.nodes.by_name:
        return None
    return _add(cluster, ctld, [conf])


def _add(cluster: SlurmCluster, ctld: Slurmctld, confs: list[NodeConf]) -> str | None:
    refused = may_create(ctld, len(confs))
    if refused or not confs:
        return refused
    table = ctld.nodes
    everywhere = [part for part in ctld.partitions.values() if part.nodes == _visible(ctld)]
    new = 0
    for conf in confs:
        node = ctld.node_record(len(table.nodes), conf)
        table.nodes.append(node)
        table.by_name[conf.name] = node
        node.flags |= NodeFlag.DYNAMIC_NORM
        new |= node.bit
        cluster.node_confs.append(conf)
        table.renamed()
        if conf.state == "IDLE":
            node.base = NodeBase.IDLE
            node.flags |= NodeFlag.NO_RESPOND
        elif "CLOUD" in conf.state:
            node.base = NodeBase.IDLE
            node.flags |= NodeFlag.CLOUD | NodeFlag.POWERED_DOWN
    cluster.slurmds.add_nodes(new)
    for part in everywhere:
        part.nodes |= new
        part.total_cpus += sum(conf.cpus for conf in confs)
    _table_changed(ctld, new)
    ctld.emit(Kind.NODE_CREATED, node=cluster.hostlist(new))
    return None


def _visible(ctld: Slurmctld) -> int:
    """Every node that has a name: what Nodes=ALL stands for."""
    out = 0
    for node in ctld.nodes.by_name.values():
        out |= node.bit
    return out


def _table_changed(ctld: Slurmctld, nodes: int) -> None:
    """Select data are rebuilt (slurm.md 4.7 "Cost")."""
    ctld.nodes_lifecycle.nodes_added(nodes)
    ctld.selection.rebuild()
    now_s = ctld.now_s()
    ctld.last_node_update_s = ctld.last_part_update_s = now_s
    ctld.store.changed(jobs=False)
    ctld.schedulers.queue_pass()


def delete_nodes(cluster: SlurmCluster, ctld: Slurmctld, names: str) -> str | None:
    """scontrol delete nodename=: refused while a job is there, since 23.11 also for static nodes."""
    table = ctld.nodes
    chosen = [table.by_name[name] for name in expand(names) if name in table.by_name]
    for node in chosen:
        if ctld.conf.version != "22.05" and not node.flags & _GOES:
            return _NOT_DYNAMIC
        if ctld.nodes_lifecycle.has_jobs(node) or node.flags & NodeFlag.RES:
            return _IN_USE
    gone = 0
    for node in chosen:
        gone |= node.bit
        leave_hole(ctld, node)
    if gone:
        ctld.emit(Kind.NODE_DELETED, node=cluster.hostlist(gone))
        _table_changed(ctld, gone)
    return None


def leave_hole(ctld: Slurmctld, node: Node) -> None:
    """The record keeps its place and loses everything else."""
    table = ctld.nodes
    del table.by_name[node.name]
    table.renamed()
    node.base = NodeBase.FUTURE
    node.flags = NodeFlag.NONE
    for part in ctld.partitions.values():
        if part.nodes & node.bit:
            part.nodes &= ~node.bit
            part.total_cpus -= node.conf.cpus
    table.idle &= ~node.bit
    table.avail &= ~node.bit
    table.up &= ~node.bit


def fill_hole(ctld: Slurmctld, node: Node) -> None:
    """slurmd -Z of a node without a record registers: it is there again, in the partitions of all nodes."""
    everywhere = [part for part in ctld.partitions.values() if part.nodes == _visible(ctld)]
    ctld.nodes.by_name[node.name] = node
    ctld.nodes.renamed()
    node.base = NodeBase.UNKNOWN
    node.flags = NodeFlag.DYNAMIC_NORM
    for part in everywhere:
        part.nodes |= node.bit
        part.total_cpus += node.conf.cpus
    _table_changed(ctld, node.bit)


def restore_dynamic(ctld: Slurmctld, static: int, saved: Container[str]) -> None:
    """At start: nodes beyond slurm.conf's `static` ones come back if node_state has them, else they are unknown.

    slurm.md 4.7 "Restart of slurmctld".
    """
    first = (1 << static) - 1
    everywhere = [part for part in ctld.partitions.values() if part.nodes & first == first]
    for node in ctld.nodes.nodes[static:]:
        if node.name not in saved:
            leave_hole(ctld, node)
            continue
        node.flags |= NodeFlag.DYNAMIC_NORM
        for part in everywhere:
            if not part.nodes & node.bit:
                part.nodes |= node.bit
                part.total_cpus += node.conf.cpus


def map_future(ctld: Slurmctld, hardware: NodeConf, feature: str = "") -> Node | None:
    """slurmd -F[feature]: the first FUTURE node of equal shape becomes this one (_find_avail_future_node())."""
    for node in ctld.nodes.nodes:
        conf = node.conf
        same = (conf.cpus, conf.boards, conf.sockets, conf.cores_per_socket, conf.threads_per_core) == (
            hardware.cpus, hardware.boards, hardware.sockets, hardware.cores_per_socket, hardware.threads_per_core,
        )  # fmt: skip
        if node.base is NodeBase.FUTURE and same and (not feature or feature in conf.features):
            node.base = NodeBase.IDLE
            node.flags |= NodeFlag.NO_RESPOND
            node.conf = replace(conf, state="UNKNOWN")
            ctld.nodes_lifecycle.nodes_added(node.bit)
            return node
    return None
