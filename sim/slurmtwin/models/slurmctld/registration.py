"""MESSAGE_NODE_REGISTRATION_STATUS: is the node as configured, and what state does that give (slurm.md 4.3).

Order as in proc_req.c _slurm_rpc_node_registration(): first the jobs (reconciliation.py), then the node
(node_mgr.c validate_node_specs()).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.events import Kind
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.slurmctld.reconciliation import Reconciliation
from slurmtwin.models.slurmctld.states import NodeBase, NodeFlag

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.node_lifecycle import NodeLifecycle
    from slurmtwin.models.slurmctld.node_report import NodeReport
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Node

_WAS_AWAY: Final = NodeFlag.NO_RESPOND | NodeFlag.POWERING_UP | NodeFlag.POWERING_DOWN | NodeFlag.POWERED_DOWN
_OUT: Final = NodeFlag.DRAIN | NodeFlag.FAIL
REBOOTED: Final = "Node unexpectedly rebooted"
CLOUD_MEM_PERCENT: Final = 90
"""node_reg_mem_percent of CLOUD nodes where the option is not set (slurmctld.h DEFAULT_CLOUD_REG_MEM_PERCENT)."""


class Registration:
    """Takes registrations in."""

    def __init__(self, ctld: Slurmctld, nodes: NodeLifecycle) -> None:
        self.ctld = ctld
        self.nodes = nodes
        self.reconciliation = Reconciliation(ctld, nodes)

    def register(self, reports: Iterable[NodeReport]) -> None:
        """The messages of one instant, one after the other; one event row per resulting state."""
        ctld = self.ctld
        index = None
        reports = list(reports)
        if len(reports) > 1:
            index = self.reconciliation.batch_hosts()
        seen = 0
        newly_up = False
        for report in reports:
            node = ctld.nodes.by_name.get(report.name)
            if node is None:
                continue
            seen |= node.bit
            was_avail = ctld.nodes.avail & node.bit
            self._one(node, report, index.get(node.index, ()) if index is not None else None)
            newly_up |= not was_avail and bool(ctld.nodes.avail & node.bit)
        for state, names in self.nodes.describe(seen).items():
            text = ctld.nodes.hostlist(ctld.nodes.bitmap(names))
            ctld.emit(Kind.NODE_REGISTERED, node=text, detail=detail_text(state=state))
        if newly_up:
            ctld.schedulers.queue_pass()

    def _one(self, node: Node, report: NodeReport, jobs_here: Iterable[object] | None) -> None:
        node.boot_time_s = report.boot_s
        nodes = self.nodes
        if nodes.waits_for_power(node):
            return
        job_count = self.reconciliation.validate(node, report, jobs_here)
        self.ctld.nodes.booting &= ~node.bit
        self._validate(node, report, job_count)
        node.last_response_s = self.ctld.now_s()
        node.boot_req_s = node.power_req_s = 0
        nodes.pings.heard(node.bit, late=False)
        nodes.settle(node)

    def _validate(self, node: Node, report: NodeReport, job_count: int) -> None:
        nodes, ctld = self.nodes, self.ctld
        was_powering_up = bool(node.flags & NodeFlag.POWERING_UP)
        was_off = bool(node.flags & NodeFlag.POWERED_DOWN)
        wrong = self._wrong_hardware(node, report)
        if node.flags & _WAS_AWAY:
            self._now_responding(node)
        was_invalid = bool(node.flags & NodeFlag.INVALID_REG)
        node.flags &= ~NodeFlag.INVALID_REG
        if wrong:
            self._invalid(node, wrong, was_invalid, kill=was_powering_up or (was_off and nodes.since_23_02))
            return
        policy = ctld.conf.controller.return_to_service
        rebooted = bool(node.last_response_s) and node.boot_time_s > node.last_response_s
        if node.base in (NodeBase.UNKNOWN, NodeBase.FUTURE):
            node.base = NodeBase.IDLE
            node.last_busy_s = ctld.now_s()
            nodes.touch()
        elif node.base is NodeBase.DOWN and self._returns(node, policy):
            node.flags &= ~NodeFlag.REBOOT_ISSUED
            node.last_busy_s = ctld.now_s()
            nodes.back_to_service(node)
        elif rebooted and policy != 2 and not self._reboot_is_fine(node):
            self._unexpected_reboot(node)
            job_count = 0
        if node.base is NodeBase.IDLE and not nodes.running.some & node.bit:
            node.owner_user = ""
        nodes.sync_bitmaps(node, job_count)

    def _now_responding(self, node: Node) -> None:
        now_s = self.ctld.now_s()
        if node.flags & (NodeFlag.POWERING_UP | NodeFlag.POWERED_DOWN):
            node.last_busy_s = now_s
        if node.flags & NodeFlag.POWERING_UP:
            node.last_response_s = now_s
            if self.nodes.since_23_02:
                node.flags &= ~NodeFlag.REBOOT_ISSUED
        was_silent = bool(node.flags & NodeFlag.NO_RESPOND)
        node.flags &= ~_WAS_AWAY
        self.ctld.nodes.power_down &= ~node.bit
        if was_silent:
            self.ctld.emit(Kind.NODE_RESPONDING, node=node.name)
        self.nodes.touch()

    def _returns(self, node: Node, policy: int) -> bool:
        """slurm.md 4.3 "DOWN returns to service if"."""
        return (
            policy == 2
            or bool(node.flags & NodeFlag.REBOOT_ISSUED)
            or (policy == 1 and node.reason == "Not responding" and node.boot_time_s < node.last_response_s)
        )

    def _reboot_is_fine(self, node: Node) -> bool:
        """Since 23.02 nobody minds the reboot of a node that is drained or in maintenance."""
        drained = node.flags & NodeFlag.DRAIN and not (self.nodes.running.some | self.nodes.leaving.some) & node.bit
        return self.nodes.since_23_02 and bool(drained or node.flags & NodeFlag.MAINT)

    def _unexpected_reboot(self, node: Node) -> None:
        if not node.reason or node.reason == "Not responding":
            self.nodes.set_reason(node, REBOOTED)
        if node.base is not NodeBase.DOWN:
            self.nodes.make_down(node)
        self.nodes.kill_jobs(node, REBOOTED)

    def _invalid(self, node: Node, reason: str, was_invalid: bool, kill: bool) -> None:
        """INVAL and DRAIN; cleared by a good registration, the DRAIN stays."""
        node.flags |= NodeFlag.INVALID_REG
        if not was_invalid:
            self.ctld.emit(Kind.NODE_INVALID, node=node.name, detail=detail_text(reason=reason))
            if kill:
                self.nodes.kill_jobs(node, reason)
        if node.base is not NodeBase.DOWN and not node.flags & _OUT:
            self.nodes.drain(node, reason)
        elif self.nodes.since_23_02 and node.reason != reason:
            self.nodes.set_reason(node, reason)
        self.nodes.touch()

    def _wrong_hardware(self, node: Node, report: NodeReport) -> str:
        """slurm.md 4.3 "Config too small": what is less than configured, or ""."""
        found, conf = report.hardware, node.conf
        if found is None or self.ctld.conf.controller.config_overrides:
            return ""
        faults: list[str] = []
        have = {(g.name, g.type): g.count for g in found.gres}
        for gres in conf.gres:
            count = have.get((gres.name, gres.type), 0)
            if count < gres.count:
                faults.append(f"gres/{gres.name} count reported lower than configured ({count} < {gres.count})")
        threads = conf.sockets * conf.cores_per_socket * conf.threads_per_core
        if found.sockets * found.cores_per_socket * found.threads_per_core < threads:
            faults.append("Low socket*core*thread count")
        if found.cpus < conf.cpus:
            faults.append("Low CPUs")
        cloud = bool(node.flags & NodeFlag.CLOUD)
        percent = self.ctld.conf.controller.node_reg_mem_percent
        if cloud and percent == 100:  # the option's default: CLOUD nodes have their own
            percent = CLOUD_MEM_PERCENT
        if found.real_memory_mib * 100 < conf.real_memory_mib * percent:
            amounts = f"reported:{found.real_memory_mib} < {percent:.2f}% of configured:{conf.real_memory_mib}"
            faults.append(f"Low RealMemory ({amounts})")
        if found.tmp_disk_mib < conf.tmp_disk_mib:
            faults.append("Low TmpDisk")
        return ", ".join(faults)
