"""Node states: what an allocation, an answer, a silence and an admin do to them (slurm.md 4.1, 4.2; node_mgr.c).

The base states ALLOCATED and COMPLETING are not stored: `running` and `leaving` count the jobs of each node
and say them (make_node_alloc(), make_node_comp(), make_node_idle()). So a wide job on healthy nodes costs a
few bitmap operations. Only nodes in `odd` (anything but an answering, schedulable node) are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND, UNLIMITED
from slurmtwin.contract.events import Kind
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.slurmctld.node_counts import NodeCounts
from slurmtwin.models.slurmctld.node_update import update_node
from slurmtwin.models.slurmctld.pings import Pings
from slurmtwin.models.slurmctld.power_save import PowerSave
from slurmtwin.models.slurmctld.registration import Registration
from slurmtwin.models.slurmctld.states import JobState, NodeBase, NodeFlag
from slurmtwin.models.slurmctld.tables import bits

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.node_report import NodeReport
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job, Node

NOT_RESPONDING: Final = "Not responding"
_QUIET: Final = (
    NodeFlag.CLOUD
    | NodeFlag.DYNAMIC_NORM
    | NodeFlag.PLANNED
    | NodeFlag.RES
    | NodeFlag.MAINT
    | NodeFlag.COMPLETING
    | NodeFlag.EXTERNAL
)
"""Flags that change neither schedulability nor pings."""
_OUT: Final = NodeFlag.DRAIN | NodeFlag.FAIL
_POWER_OFF: Final = NodeFlag.POWER_DOWN | NodeFlag.POWERING_DOWN
_NO_WAIT: Final = NodeFlag.POWERED_DOWN | NodeFlag.POWERING_UP
AGENT_UPDATE_S: Final = 2
"""Since 24.11 answers wait for a thread that wakes every 2 s (26.05 agent.c _agent_nodes_update())."""


class NodeLifecycle:
    """parts.NodeLifecycle: the one place that changes node states and the node bitmaps."""

    def __init__(self, ctld: Slurmctld) -> None:
        self.ctld = ctld
        self.running = NodeCounts()
        """Running and suspended jobs per node (run_job_cnt, sus_job_cnt)."""
        self.leaving = NodeCounts()
        """Jobs whose end the node has not confirmed (comp_job_cnt)."""
        self.odd = 0
        """Nodes that are anything but answering and schedulable."""
        self.since_23_02 = ctld.conf.version != "22.05"
        """The node records' rules of 23.02 (node_mgr.c): a new reason is added behind the old one, and others."""
        self.late_answers = ctld.conf.version != "22.05"
        """Since 24.11 answers wait for the agent's update thread (update_s())."""
        self.told_at_looks = False
        """The log names silent nodes at the loop's next look (in pods); else in the moment they fall silent."""
        self.power: PowerSave | None = None
        """Power saving, where it is configured (power_save_test())."""
        self._reasoned = 0
        self._agent_s = (ctld.epoch_ns + ctld.env.now_ns - ctld.costs.slurmctld_start_ns * 2 // 3) // SECOND
        """The agent's threads begin a third into the start: their phase in two real runs says so."""
        self.registration = Registration(ctld, self)
        self.pings = Pings(ctld, self)
        for node in ctld.nodes.nodes:
            self._configure(node)
        idle_off = ctld.conf.timers.suspend_time_ns != UNLIMITED
        if ctld.conf.controller.suspend_program and (idle_off or ctld.conf.version != "22.05"):
            self.power = PowerSave(ctld, self, ctld.slurmds)

    @property
    def tracks_busy(self) -> bool:
        """Power saving is on: last_busy matters."""
        return self.power is not None

    def _configure(self, node: Node) -> None:
        """State= of the NodeName line (man slurm.conf; read_config.c _build_bitmaps())."""
        words = node.conf.state.upper().split("+") if node.conf.state else ["UNKNOWN"]
        for word in words:
            if word == "DOWN":
                node.base = NodeBase.DOWN
            elif word == "FUTURE":
                node.base = NodeBase.FUTURE
            elif word == "DRAIN":
                node.flags |= NodeFlag.DRAIN
            elif word == "FAIL":
                node.flags |= NodeFlag.FAIL
            elif word == "CLOUD":
                node.base = NodeBase.IDLE
                node.flags |= NodeFlag.CLOUD | NodeFlag.POWERED_DOWN
            elif word == "EXTERNAL":  # no slurmd is ever asked (node_conf.c)
                node.base = NodeBase.IDLE
                node.flags |= NodeFlag.EXTERNAL
                self.ctld.nodes.external |= node.bit
        if node.conf.reason:
            self.set_reason(node, node.conf.reason)
        self.build_bitmaps(node)

    def build_bitmaps(self, node: Node) -> None:
        """A node's bits as a starting slurmctld sets them (read_config.c _build_bitmaps())."""
        table, bit = self.ctld.nodes, node.bit
        busy = (self.running.some | self.leaving.some) & bit
        flags = node.flags
        table.idle &= ~bit
        if node.base is NodeBase.DOWN or (node.base is NodeBase.IDLE and not busy):
            table.idle |= bit
        table.up &= ~bit
        table.avail &= ~bit
        if node.base is NodeBase.IDLE:
            table.up |= bit
            if not flags & (_OUT | NodeFlag.NO_RESPOND):
                self.make_avail(node)
        if flags & NodeFlag.POWERING_UP:
            table.booting |= bit
        if flags & (NodeFlag.POWERED_DOWN | NodeFlag.POWERING_DOWN):
            table.power_down |= bit
        self.settle(node)

    # states

    def settle(self, node: Node) -> None:
        """The record changed: is the node odd now, and does anyone have to watch it?"""
        bit = node.bit
        if node.base is NodeBase.IDLE and not node.flags & ~_QUIET:
            self.odd &= ~bit
        else:
            self.odd |= bit
        if self.pings.started:
            self.pings.review(node)

    def touch(self) -> None:
        """last_node_update, and a state save."""
        self.ctld.last_node_update_s = self.ctld.now_s()
        self.ctld.store.changed(jobs=False)
        if self.power is not None:
            self.power.node_changed()

    def set_reason(self, node: Node, reason: str) -> None:
        """Overwrite or clear the reason."""
        node.reason = reason
        if reason:
            self._reasoned |= node.bit
        else:
            self._reasoned &= ~node.bit

    def add_reason(self, node: Node, reason: str) -> None:
        """slurmctld's own reason: 22.05 keeps an admin's text, later versions append to it (set_node_reason())."""
        old = node.reason
        if not self.since_23_02:
            if not old or old.startswith(NOT_RESPONDING):
                self.set_reason(node, reason)
        elif not old:
            self.set_reason(node, reason)
        elif f" : {reason}" not in old:
            self.set_reason(node, f"{old} : {reason}")

    def is_allocated(self, node: Node) -> bool:
        """IS_NODE_ALLOCATED: up, with a running job."""
        return node.base is NodeBase.IDLE and bool(self.running.some & node.bit)

    @property
    def held(self) -> tuple[int, int]:
        """Nodes with a running job, and nodes that a job leaves."""
        return self.running.some, self.leaving.some

    def has_jobs(self, node: Node) -> bool:
        """ALLOCATED or COMPLETING."""
        return bool((self.running.some | self.leaving.some) & node.bit)

    def nodes_added(self, nodes: int) -> None:
        """New, deleted or changed records of the node table: their bits follow."""
        for index in bits(nodes):
            self.build_bitmaps(self.ctld.nodes.nodes[index])

    def make_avail(self, node: Node) -> None:
        """make_node_avail(): schedulable, unless it is to power off."""
        if not node.flags & _POWER_OFF:
            self.ctld.nodes.avail |= node.bit

    def state_text(self, node: Node) -> str:
        """The state as sinfo shows it, with its suffix (slurm_protocol_defs.c node_state_string(); slurm.md 4.1)."""
        flags, bit = node.flags, node.bit
        busy = bool((self.running.some | self.leaving.some) & bit)
        if flags & NodeFlag.INVALID_REG:
            text = "INVAL"
        elif flags & NodeFlag.DRAIN and node.base in (NodeBase.IDLE, NodeBase.DOWN, NodeBase.UNKNOWN):
            text = "DRAINING" if busy and node.base is NodeBase.IDLE else "DRAINED"
        elif flags & NodeFlag.FAIL:
            text = "FAILING" if busy else "FAIL"
        elif node.base is NodeBase.IDLE and self.running.some & bit:
            text = "ALLOCATED"
        elif node.base is NodeBase.IDLE and self.leaving.some & bit:
            text = "COMPLETING"
        else:
            text = node.base.name
        for flag, mark in _MARKS:
            if flags & flag:
                return text + mark
        return text

    # jobs come and go

    def job_allocated(self, nodes: int) -> None:
        """A job got the nodes: they are ALLOCATED, no longer idle, and lose their reason (make_node_alloc())."""
        ctld = self.ctld
        self.running.add(nodes)
        ctld.nodes.idle &= ~nodes
        if self._reasoned & nodes:
            for index in bits(self._reasoned & nodes):
                ctld.nodes.nodes[index].reason = ""
            self._reasoned &= ~nodes
        ctld.last_node_update_s = now_s = ctld.now_s()
        batch_host = nodes & -nodes
        if not batch_host & ctld.slurmds.deaf:
            self.pings.note(self.update_s(now_s), batch_host)
        if ctld.accounting is not None:
            ctld.accounting(True)
        if self.power is not None:
            if nodes & ctld.nodes.power_down:
                self.power.node_changed()
            else:
                self.power.stamped()

    def job_completing(self, nodes: int) -> int:
        """The job's run is over there (make_node_comp()): returns the nodes that must confirm the end.

        DOWN nodes and nodes without power are not waited for (node_scheduler.c deallocate_nodes(), slurm.md 4.5).
        """
        ctld = self.ctld
        table = ctld.nodes
        if ctld.accounting is not None:
            ctld.accounting(False)
        self.running.take(nodes)
        silent = 0
        odd = nodes & self.odd
        if odd:
            for index in bits(odd):
                node = table.nodes[index]
                if node.base is NodeBase.DOWN or node.flags & _NO_WAIT:
                    silent |= node.bit
                elif node.base is NodeBase.UNKNOWN:
                    node.base = NodeBase.IDLE
                    self.settle(node)
        waited = nodes & ~silent
        self.leaving.add(waited)
        table.completing |= waited
        if silent:
            table.idle |= silent & ~self.running.some & ~self.leaving.some
        if self.power is not None:
            self._busy_until_now(nodes & ~self.running.some)
            self.power.stamped()
        ctld.last_node_update_s = now_s = ctld.now_s()
        answering = waited & ~ctld.slurmds.deaf
        if answering:
            self.pings.note(self.update_s(now_s), answering)
        return waited

    def job_gone(self, job: Job, nodes: int) -> None:
        """The nodes have confirmed the job's end, or left a job that goes on (make_node_idle())."""
        ctld = self.ctld
        table = ctld.nodes
        if job.state in (JobState.RUNNING, JobState.SUSPENDED):
            self.running.take(nodes)
            done = nodes
        else:
            known = nodes & self.leaving.some
            self.leaving.take(known)
            done = nodes & ~self.leaving.some  # with more jobs completing there nothing else changes
        table.completing &= ~(done & ~self.leaving.some)
        odd = done & self.odd
        fine = done & ~odd
        table.up |= fine
        table.avail |= fine
        table.idle |= fine & ~self.running.some & ~table.completing
        if odd:
            for index in bits(odd):
                self._idle_odd(table.nodes[index])
        if self.power is not None:
            left = done & ~self.running.some & ~self.leaving.some
            self._busy_until_now(left)
            self.power.stamped()
            self.power.nodes_idle_since(left)
        ctld.last_node_update_s = ctld.now_s()

    def _idle_odd(self, node: Node) -> None:
        """make_node_idle() for a node that is not simply well."""
        if node.base in (NodeBase.DOWN, NodeBase.FUTURE):
            return
        table, bit, flags = self.ctld.nodes, node.bit, node.flags
        table.up |= bit
        busy = self.running.some & bit
        if flags & (_OUT | NodeFlag.NO_RESPOND):
            table.avail &= ~bit
        else:
            self.make_avail(node)
        if flags & _OUT:
            if not busy and not self.leaving.some & bit:
                node.base = NodeBase.IDLE
                table.idle |= bit
        elif not busy:
            node.base = NodeBase.IDLE
            if not flags & NodeFlag.NO_RESPOND and not table.completing & bit:
                table.idle |= bit
        else:
            node.base = NodeBase.IDLE
        if not busy and flags & NodeFlag.POWER_DOWN:
            table.avail &= ~bit
        self.settle(node)

    def _busy_until_now(self, nodes: int) -> None:
        now_s = self.ctld.now_s()
        for index in bits(nodes):
            self.ctld.nodes.nodes[index].last_busy_s = now_s

    # answers and silence

    def answered(self, node: Node) -> None:
        """A successful RPC to the node, as the agent reports it: at once in 22.05, later up to 2 s after."""
        ctld = self.ctld
        if not self.late_answers:
            self.did_respond(node)
        else:
            ctld.env.call_at(ctld.at_s(self.update_s(ctld.now_s())), self.did_respond, node)

    def last_response_s(self, node: Node) -> int:
        """When the node was heard last, in Unix seconds."""
        return self.pings.last_response_s(node)

    def answers(self) -> Callable[[int, int], int]:
        """last_response_s() as of now, to be worked out later: of a node's bit and what its record holds."""
        return self.pings.answers()

    def update_s(self, answer_s: int) -> int:
        """The second that an answer received within `answer_s` leaves in last_response."""
        if not self.late_answers:
            return answer_s
        return answer_s + AGENT_UPDATE_S - (answer_s - self._agent_s) % AGENT_UPDATE_S

    def did_respond(self, node: Node) -> None:
        """The node answered: clears NO_RESPOND, may end UNKNOWN and DOWN (_node_did_resp(), slurm.md 4.3)."""
        ctld, flags = self.ctld, node.flags
        if self.waits_for_power(node) or node.base is NodeBase.FUTURE:
            return
        now_s = ctld.now_s()
        node.last_response_s = now_s
        self.pings.heard(node.bit)
        if flags & (NodeFlag.NO_RESPOND | NodeFlag.POWERING_UP):
            self.responding(node)
        if node.base is NodeBase.UNKNOWN:
            node.last_busy_s = now_s
            node.base = NodeBase.IDLE
            self.node_up_record(node)
            self.touch()
        if node.base is NodeBase.DOWN and not node.flags & NodeFlag.INVALID_REG and self.returns_on_answer(node):
            node.last_busy_s = now_s
            self.back_to_service(node)
        table, bit = ctld.nodes, node.bit
        busy = self.running.some & bit
        if node.base is NodeBase.IDLE and not busy and not table.completing & bit:
            table.idle |= bit
        unusable = node.base is NodeBase.DOWN or node.flags & _OUT or (node.flags & NodeFlag.POWER_DOWN and not busy)
        table.avail = table.avail & ~bit if unusable else table.avail | bit
        table.up = table.up & ~bit if node.base is NodeBase.DOWN else table.up | bit
        self.settle(node)

    def returns_on_answer(self, node: Node) -> bool:
        """Does a mere answer end DOWN? (slurm.md 4.3 "ReturnToService=1 extra")"""
        policy = self.ctld.conf.controller.return_to_service
        return policy == 2 or node.boot_req_s != 0 or (policy == 1 and node.reason == NOT_RESPONDING)

    def responding(self, node: Node) -> None:
        """Node now responding: NO_RESPOND and POWERING_UP go."""
        if node.flags & NodeFlag.NO_RESPOND:
            self.ctld.emit(Kind.NODE_RESPONDING, node=node.name)
        node.flags &= ~(NodeFlag.NO_RESPOND | NodeFlag.POWERING_UP)
        self.touch()

    def back_to_service(self, node: Node) -> None:
        """DOWN ends by itself: IDLE (ALLOCATED if jobs are there)."""
        reason = node.reason
        node.base = NodeBase.IDLE
        self.node_up_record(node)
        self.ctld.emit(Kind.NODE_UP, node=node.name, detail=detail_text(reason=reason))
        self.touch()

    def node_up_record(self, node: Node) -> None:
        """clusteracct_storage_g_node_up(): the reason is forgotten unless the node is out of service."""
        if node.base is not NodeBase.DOWN and not node.flags & _OUT:
            self.set_reason(node, "")

    def waits_for_power(self, node: Node) -> bool:
        """waiting_for_node_boot(), waiting_for_node_power_down(): the old life of the node still speaks."""
        flags = node.flags
        if flags & (NodeFlag.POWERING_UP | NodeFlag.REBOOT_ISSUED) and node.boot_time_s < node.boot_req_s:
            return True
        return (
            bool(flags & NodeFlag.POWERING_DOWN)
            and node.power_req_s != 0
            and node.boot_time_s < (node.power_req_s + self.ctld.conf.timers.suspend_timeout_ns // SECOND)
        )

    def register(self, reports: Iterable[NodeReport]) -> None:
        """Registrations arrived (registration.py)."""
        self.registration.register(reports)

    def not_responding(self, node: Node, sent_s: int) -> None:
        """An RPC sent at `sent_s` was lost: NO_RESPOND, out of scheduling, jobs untouched (node_not_resp())."""
        if node.flags & (NodeFlag.NO_RESPOND | NodeFlag.POWERING_DOWN | NodeFlag.POWERED_DOWN):
            return
        self.pings.fix(node)
        if node.last_response_s >= sent_s:
            return
        node.flags |= NodeFlag.NO_RESPOND
        self.ctld.nodes.avail &= ~node.bit
        self.ctld.last_node_update_s = self.ctld.now_s()
        self._tell_silent(node)
        self.settle(node)

    def _tell_silent(self, node: Node) -> None:
        """The log has it at the loop's next look (node_no_resp_msg(), each second at debug level `debug`)."""
        ctld, clock = self.ctld, self.pings.clock
        if not self.told_at_looks:
            ctld.emit(Kind.NODE_NOT_RESPONDING, node=node.name)
            return
        second, shown_ns = 0, 0
        if clock is not None:
            second = ctld.now_s() + 1
            if not clock.late():  # this second's message has gone out: the next look tells it
                second, shown_ns = (second + 1, 0) if clock.late() else (second, clock.lag_ns)
        look_ns = ctld.background.first_look_ns(second, ctld.env.now_ns, shown_ns)

        def tell(_argument: object) -> None:
            if node.flags & NodeFlag.NO_RESPOND:
                ctld.emit(Kind.NODE_NOT_RESPONDING, node=node.name)

        ctld.env.call_at(look_ns, tell)

    # DOWN, DRAIN, and what an admin says

    def set_down(self, node: Node, reason: str, told_ns: int = 0) -> None:
        """set_node_down_ptr(): DOWN, told so much later, and its jobs are requeued or killed (slurm.md 4.5)."""
        self.add_reason(node, reason)
        self.make_down(node, told_ns)
        self.kill_jobs(node, reason)
        self.sync_bitmaps(node, 0)

    def make_down(self, node: Node, told_ns: int = 0) -> None:
        """_make_node_down(): not schedulable, not up, counted as idle."""
        table, bit = self.ctld.nodes, node.bit
        self.pings.fix(node)
        self.make_unavailable(node)
        node.base = NodeBase.DOWN
        node.owner_user = ""
        table.up &= ~bit
        reason = detail_text(reason=node.reason)

        def tell(_argument: object) -> None:
            if node.base is NodeBase.DOWN:
                self.ctld.emit(Kind.NODE_DOWN, node=node.name, detail=reason)

        if told_ns:
            self.ctld.env.call_in(told_ns, tell)
        else:
            tell(None)
        self.touch()
        self.settle(node)

    def make_unavailable(self, node: Node) -> None:
        """_make_node_unavail()."""
        table, bit = self.ctld.nodes, node.bit
        table.avail &= ~bit
        table.completing &= ~bit
        table.idle |= bit
        table.up &= ~bit

    def kill_jobs(self, node: Node, reason: str) -> None:
        """kill_running_job_by_node_name(): afterwards nothing is left on the node."""
        self.ctld.lifecycle.node_failed(node, reason)
        self.leaving.clear(node.bit)

    def sync_bitmaps(self, node: Node, job_count: int) -> None:
        """The bits follow the state after a registration (_sync_bitmaps())."""
        table, bit = self.ctld.nodes, node.bit
        if job_count == 0:
            table.idle |= bit
        if node.base is NodeBase.DOWN or node.flags & (_OUT | NodeFlag.NO_RESPOND):
            table.avail &= ~bit
        else:
            self.make_avail(node)
        table.up = table.up & ~bit if node.base is NodeBase.DOWN else table.up | bit
        self.settle(node)

    def drain(self, node: Node, reason: str) -> None:
        """drain_nodes(): DRAIN unless it is set already."""
        if node.flags & NodeFlag.DRAIN:
            return
        node.flags |= NodeFlag.DRAIN
        self.ctld.nodes.avail &= ~node.bit
        self.add_reason(node, reason)
        self.ctld.emit(Kind.NODE_DRAINED, node=node.name, detail=detail_text(reason=node.reason))
        self.touch()
        self.settle(node)

    def update(self, node: Node, state: str, reason: str) -> str | None:
        """scontrol update nodename=; None, or why it was refused (node_update.py)."""
        return update_node(self, node, state, reason)

    # life of the daemon

    def start(self, first_sweep: bool = True) -> None:
        """slurmctld begins to serve: the first sweep comes 3 s after the loop's first look (slurm.md 4.2 "Tick")."""
        self.pings.start(first_sweep)
        if self.power is not None:
            self.power.start()

    def reach_changed(self, nodes: int) -> None:
        """Slurmds of these nodes fell silent or can be reached again: what pings will find is open."""
        for index in bits(nodes):
            self.pings.review(self.ctld.nodes.nodes[index])

    def describe(self, nodes: int) -> dict[str, list[str]]:
        """Names by shown state, for reports of registrations."""
        out: dict[str, list[str]] = {}
        for index in bits(nodes):
            node = self.ctld.nodes.nodes[index]
            out.setdefault(self.state_text(node), []).append(node.name)
        return out


_MARKS: Final = (
    (NodeFlag.POWER_DOWN, "!"), (NodeFlag.POWERING_DOWN, "%"), (NodeFlag.POWERED_DOWN, "~"),
    (NodeFlag.POWERING_UP, "#"), (NodeFlag.REBOOT_ISSUED, "^"), (NodeFlag.REBOOT_REQUESTED, "@"),
    (NodeFlag.MAINT, "$"), (NodeFlag.NO_RESPOND, "*"), (NodeFlag.PLANNED, "-"),
)  # fmt: skip
