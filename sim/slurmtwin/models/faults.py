"""Faults and admin commands of a scenario, done to a cluster's daemons and nodes (contract/scenario.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slurmtwin.contract.errors import InputError
from slurmtwin.contract.hostlist import expand
from slurmtwin.contract.scenario import DaemonFault, NodeAction
from slurmtwin.models.slurmctld.dynamic_nodes import create_nodes, delete_nodes

if TYPE_CHECKING:
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

_LOSES_MEMORY = ("slurmctld.kill", "slurmctld.freeze", "slurmctld.stop", "slurmctld.takeover", "slurmctld.reconfigure")


def expect(cluster: SlurmCluster, fault: object, at_ns: int) -> None:
    """Tell the state volume what is coming: saves are only played out, and copied, when a later start reads them."""
    if isinstance(fault, DaemonFault) and fault.kind in _LOSES_MEMORY:
        cluster.volume.kept = True
        if fault.kind == "slurmctld.kill":
            cluster.volume.expect_kill(at_ns)


def inject(cluster: SlurmCluster, fault: DaemonFault | NodeAction) -> None:
    """Do it now. Raises InputError for a host or node that the cluster does not have."""
    if isinstance(fault, NodeAction):
        _node_action(cluster, fault)
        return
    daemon, verb = fault.kind.split(".")
    if daemon == "slurmctld":
        _slurmctld(cluster, verb, fault.target)
    elif daemon == "slurmd":
        _slurmd(cluster, verb, fault.target)
    elif verb == "start":
        cluster.slurmdbd.start()
    else:
        cluster.slurmdbd.stop()


def _slurmctld(cluster: SlurmCluster, verb: str, target: str) -> None:
    try:
        controller = cluster.controller(target)
    except KeyError:
        raise InputError(f"no SlurmctldHost is called {target!r}") from None
    if verb == "takeover":
        backup = controller if controller.index else next(iter(cluster.controllers[1:]), None)
        if backup is not None:
            backup.takeover_command()
        return
    if verb == "lose_state":
        cluster.volume.lose()
        return
    actions = {
        "start": controller.start, "stop": controller.stop, "kill": controller.kill, "freeze": controller.freeze,
        "thaw": controller.thaw, "reconfigure": controller.reconfigure,
    }  # fmt: skip
    actions[verb]()


def _slurmd(cluster: SlurmCluster, verb: str, target: str) -> None:
    nodes = cluster.node_bitmap(expand(target)) if target else (1 << len(cluster.node_confs)) - 1
    slurmds = cluster.slurmds
    if verb == "kill":
        slurmds.stop(nodes, crashed=True)
        return
    actions: dict[str, Callable[[int], None]] = {
        "start": slurmds.start, "stop": slurmds.stop, "kill_group": slurmds.kill_group, "freeze": slurmds.freeze,
        "thaw": slurmds.thaw,
    }  # fmt: skip
    actions[verb](nodes)


def _node_action(cluster: SlurmCluster, action: NodeAction) -> None:
    """scontrol: one attempt to reach the controller, as any client's (slurm.md 5.4)."""

    def run(ctld: Slurmctld) -> None:
        if action.kind == "node.create":
            create_nodes(cluster, ctld, action.target, action.state)
        elif action.kind == "node.delete":
            delete_nodes(cluster, ctld, action.target)
        else:
            _update(ctld, action)

    cluster.request(run, lambda: None, cluster.costs.rpc_ns)


def _update(ctld: Slurmctld, action: NodeAction) -> None:
    reason = action.reason
    if not reason and action.state.upper() in ("DOWN", "DRAIN", "FAIL"):
        reason = "scenario"  # scontrol refuses these states without a reason
    for name in expand(action.target):
        node = ctld.nodes.by_name.get(name)
        if node is None:
            raise InputError(f"no node is called {name!r}")
        ctld.nodes_lifecycle.update(node, action.state, reason)
