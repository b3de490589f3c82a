"""The slurmd daemons: alive, silent or gone; what slurmctld's RPCs meet; registration (slurm.md 4.2-4.4, 4.6).

A healthy cluster costs nothing here: one bitmap, `deaf`, says which slurmds do not answer, and it is zero.
On bare metal a slurmd may die and its slurmstepds live on; where slurmd is the container's first process
(`kill_group`), every process of the node dies with it (slurm.md 4.6 "slurmd restart, pod").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import DAY, MS, SECOND
from slurmtwin.contract.cluster import NodeConf
from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld.node_report import NodeReport
from slurmtwin.models.slurmctld.states import NodeFlag
from slurmtwin.models.slurmctld.tables import bits
from slurmtwin.models.slurmd.dialing import registration_pauses

if TYPE_CHECKING:
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Node
    from slurmtwin.models.slurmd.parts import Work

_WATCHDOG_FIRST_NS: Final = 1275 * MS
"""Last of the agent watchdog's doubling looks (5 ms, 10 ms, ...); then it looks each second (agent.c _wdog())."""
DEFAULT_UPTIME_NS: Final = DAY
"""A node's kernel has been up so long when the scenario begins."""


@dataclass(slots=True, eq=False)
class _Call:
    """An RPC of slurmctld to a slurmd that does not answer."""

    node: Node
    sent_ns: int
    last_try_ns: int
    answered: Callable[[], None]
    settled: bool = False


class NodeDaemons:
    """All slurmds of a cluster (slurmd/parts.py Slurmds). Node sets are bitmaps over the node table."""

    def __init__(self, cluster: SlurmCluster) -> None:
        self._cluster = cluster
        self.works: dict[int, Work] = {}
        self._forgotten: list[Work] = []
        """Runs that slurmctld forgot in a crash and has started anew: alive until their node reports them."""
        conf = cluster.conf
        self.deaf = (1 << len(conf.nodes)) - 1
        self.dead = self.deaf
        """No slurmd process."""
        self.frozen = 0
        """Stopped by SIGSTOP: connections are taken by the kernel, nothing answers."""
        self.severed = 0
        """Packets between slurmctld and this slurmd are dropped."""
        self.moved = 0
        """The slurmd answers, but at an address that slurmctld does not know (slurm.md 4.2 "Address cache")."""
        self.unwritten = 0
        """A registration is being taken in whose orders go to the node's old address (`orders_first`)."""
        self.registers_in: Callable[[], int] = lambda: 0
        """How long a slurmd that serves takes until it registers."""
        self.orders_first: Callable[[], bool] = lambda: False
        """Whether an agent's thread reads a node's address before its registration has written the new one.

        Both can be: validate_jobs_on_node() queues the order to end what is missing, the address is written at the end
        of validate_node_specs(), and no lock holds the agent (_agent_init() takes the jobs' lock only where it has not
        looked at deferred requests for 2 s, and slurmctld's loop has it look each second; agent.c, proc_req.c, 26.05).
        """
        self._new_address = 0
        """slurmctld learns another address from the next registration."""
        self.on_take: Callable[[Work], None] | None = None
        """Told each run that begins, before it runs, and by on_drop each that is over (slurm_pods: memory)."""
        self.on_drop: Callable[[Work], None] | None = None
        self.programs_act = True
        """False: SuspendProgram and ResumeProgram do nothing; the scenario's faults stop and start slurmds."""
        self._starting: dict[int, int] = {}
        self._hardware: dict[int, NodeConf] = {}
        self._boot_s: dict[int, int] = {}
        self._host_boot_s = (cluster.epoch_ns - DEFAULT_UPTIME_NS) // SECOND
        self._calls: dict[int, list[_Call]] = {}
        self._in_sockets: dict[int, list[Callable[[], None]]] = {}
        """Per frozen slurmd: requests whose sender has given up, still to be read when it thaws."""
        message_s = conf.timers.message_timeout_ns // SECOND
        most = min(message_s, 10)
        self._tries = most if conf.version == "26.05" else most + 1
        """Connects to a refusing slurmd, one a second (slurm_protocol_api.c slurm_send_addr_recv_msgs())."""
        self._reply_ns = conf.timers.message_timeout_ns * (1 if conf.version == "22.05" else 2)
        """How long a taken connection is waited on: since 23.11 twice MessageTimeout (forward.c start_msg_tree())."""
        tcp_s = max(1, conf.timers.tcp_timeout_ns // SECOND)
        self._unanswered_ns = (most if conf.version == "26.05" else -(-(most + 1) // tcp_s) * tcp_s) * SECOND
        """Time-outs of connects to an address where nobody is: TCPTimeout each, counted against the tries."""

    # processes

    def start(self, nodes: int, boot_s: int | None = None, new_address: bool = False) -> None:
        """exec slurmd: it listens and registers slurmd_start_ns later.

        boot_s: the host was booted then. new_address: the pod came back with another IP; slurmctld keeps the old
        one of a static node unless it caches no addresses (slurm.md 12 "S3").
        """
        cluster = self._cluster
        nodes &= self.dead
        for index in bits(nodes):
            self._starting[index] = self._starting.get(index, 0) + 1
            if boot_s is not None:
                self._boot_s[index] = boot_s
        if new_address:
            kept = self._keeps_address(nodes)
            self.moved |= kept
            self._new_address |= nodes & ~kept
        if nodes:
            self._emit(Kind.SLURMD_STARTED, nodes)
            marks = tuple((index, self._starting[index]) for index in bits(nodes))
            cluster.env.call_in(cluster.costs.slurmd_start_ns, self._listening, marks)

    def _listening(self, marks: tuple[tuple[int, int], ...]) -> None:
        nodes = 0
        for index, mark in marks:
            if self._starting.get(index) == mark:
                nodes |= 1 << index
        nodes &= self.dead
        self.dead &= ~nodes
        self.frozen &= ~nodes
        self._hear(nodes & ~self.moved & ~self.severed)
        self._register_later(nodes)

    def _keeps_address(self, nodes: int) -> int:
        """Nodes whose new address slurmctld does not learn from a registration (validate_node_specs() per version)."""
        cluster = self._cluster
        if cluster.conf.controller.no_addr_cache:
            return 0
        learns = 0
        ctld = cluster.ctld
        for index in bits(nodes if ctld is not None and cluster.conf.version != "22.05" else 0):
            assert ctld is not None
            if ctld.nodes.nodes[index].flags & (NodeFlag.CLOUD | NodeFlag.DYNAMIC_NORM):
                learns |= 1 << index
        return nodes & ~learns

    def stop(self, nodes: int, crashed: bool = False) -> None:
        """SIGTERM (or, crashed, SIGKILL) to slurmd alone: slurmstepds and jobs live on."""
        for index in bits(nodes):
            self._starting[index] = self._starting.get(index, 0) + 1
        nodes &= ~self.dead
        if not nodes:
            return
        self.dead |= nodes
        self.frozen &= ~nodes
        for index in bits(nodes):
            self._in_sockets.pop(index, None)
        self._emit(Kind.SLURMD_CRASHED if crashed else Kind.SLURMD_STOPPED, nodes)
        self._fall_silent(nodes)

    def take(self, work: Work) -> None:
        """A run begins; an older one of the same job that nobody ended lives on beside it."""
        before = self.works.get(work.slurm_id)
        if before is not None:
            self._forgotten.append(before)
        self.works[work.slurm_id] = work
        if self.on_take is not None:
            self.on_take(work)

    def drop(self, work: Work) -> None:
        """A run is over and reported, or killed."""
        if self.on_drop is not None:
            self.on_drop(work)
        if self.works.get(work.slurm_id) is work:
            del self.works[work.slurm_id]
        elif work in self._forgotten:
            self._forgotten.remove(work)

    def kill_group(self, nodes: int) -> None:
        """The container dies: slurmd, every slurmstepd and every task on these nodes; nobody reports anything."""
        self.stop(nodes, crashed=True)
        for work in [w for w in (*self.works.values(), *self._forgotten) if w.nodes & nodes]:
            work.lost(nodes)
            for ctld in self._cluster.active:
                ctld.lifecycle.work_lost(work.slurm_id)

    def freeze(self, nodes: int) -> None:
        """SIGSTOP to slurmd."""
        nodes &= ~self.dead & ~self.frozen
        self.frozen |= nodes
        self._fall_silent(nodes)

    def thaw(self, nodes: int) -> None:
        """SIGCONT: what waits in the sockets is served, also requests that slurmctld has given up (probe `frozen`).

        A healed slurmd does not register by itself (slurm.md 4.3 "Healed partition").
        """
        nodes &= self.frozen
        self.frozen &= ~nodes
        self._hear(nodes & ~self.severed)
        for index in bits(nodes):
            for request in self._in_sockets.pop(index, ()):
                self._cluster.on_controller(self._cluster.env.now_ns + self._cluster.costs.rpc_ns, request)

    def cut(self, nodes: int) -> None:
        """The network drops what slurmctld and these slurmds send each other; both sides live on."""
        self.severed |= nodes
        self._fall_silent(nodes & ~self.deaf)

    def heal(self, nodes: int) -> None:
        """Packets pass again: connects that are still tried get through. Nobody registers for that (slurm.md 4.3)."""
        nodes &= self.severed
        self.severed &= ~nodes
        self._hear(nodes & ~self.dead & ~self.frozen & ~self.moved)

    def reconfigured(self) -> None:
        """slurmctld has pushed a new configuration: every slurmd that answers starts itself anew and registers."""
        answering = ~self.deaf & (1 << len(self._cluster.node_confs)) - 1
        if answering:
            self._cluster.env.call_in(self._cluster.costs.slurmd_start_ns, self._register, answering)

    def pushed(self) -> None:
        """slurmctld has started with reconfig_on_restart: every slurmd that answers executes itself anew.

        It registers by itself, so that no node waits for the sweep (controller.c _post_reconfig()).
        """
        answering = ~self.deaf & (1 << len(self._cluster.node_confs)) - 1
        if answering:
            costs = self._cluster.costs
            self._cluster.env.call_in(costs.rpc_ns + costs.slurmd_start_ns, self._executed_anew, answering)

    def _executed_anew(self, nodes: int) -> None:
        nodes &= ~self.deaf
        for index in bits(nodes):
            self._emit(Kind.SLURMD_STARTED, 1 << index)
        if nodes:
            self._register_later(nodes)

    def resume(self, nodes: int) -> None:
        """ResumeProgram ran: these hosts boot now, their slurmds register. A design may put its own in its place."""
        if not self.programs_act:
            return
        now_s = (self._cluster.epoch_ns + self._cluster.env.now_ns) // SECOND
        self.start(nodes, boot_s=now_s)

    def suspend(self, nodes: int) -> None:
        """SuspendProgram ran: these hosts go away."""
        if self.programs_act:
            self.stop(nodes)

    def equip(self, index: int, hardware: NodeConf) -> None:
        """What the slurmd of that node finds, where it is not what slurm.conf says."""
        self._hardware[index] = hardware

    def add_nodes(self, nodes: int) -> None:
        """New places in the node table: no slurmd runs there yet."""
        self.dead |= nodes
        self.deaf |= nodes

    def _emit(self, kind: Kind, nodes: int) -> None:
        self._cluster.sink.emit(self._cluster.env.now_ns, kind, "slurmd", None, self._cluster.hostlist(nodes))

    def _fall_silent(self, nodes: int) -> None:
        self.deaf |= nodes
        self._cluster.reach_changed(nodes)

    def _hear(self, nodes: int) -> None:
        """These slurmds answer again: RPCs that are still tried get through at their next try."""
        self.deaf &= ~nodes
        now_ns = self._cluster.env.now_ns
        for index in bits(nodes):
            for call in self._calls.pop(index, ()):
                steps = -(-(now_ns - call.sent_ns) // SECOND)
                try_ns = call.sent_ns + steps * SECOND
                if not call.settled and try_ns <= call.last_try_ns:
                    call.settled = True
                    self._cluster.on_controller(max(try_ns, now_ns), call.answered)
        self._cluster.reach_changed(nodes)

    # registration

    def _register_later(self, nodes: int) -> None:
        """slurmd serves; it finishes its own start before it registers."""
        wait_ns = self.registers_in()
        if wait_ns:
            self._cluster.env.call_in(wait_ns, self._register, nodes)
        else:
            self._register(nodes)

    def _register(self, nodes: int) -> None:
        """One registration message per slurmd; those of one instant travel together."""
        cluster = self._cluster
        pauses = registration_pauses(cluster.conf.version, cluster.window)

        def arrive(ctld: Slurmctld) -> None:
            there = nodes & ~(self.dead | self.frozen | self.severed)
            moves, self._new_address = there & self._new_address, self._new_address & ~there
            self.unwritten = moves if moves and self.orders_first() else 0
            ctld.nodes_lifecycle.register(self.reports(there))
            self.unwritten = 0

        cluster.send(arrive, pauses, first_delay_ns=cluster.costs.rpc_ns)

    def reports(self, nodes: int) -> list[NodeReport]:
        """What these slurmds would say now, in node order."""
        here: dict[int, list[Work]] = {}
        for work in (*self.works.values(), *self._forgotten):
            for index in bits(work.nodes & nodes):
                here.setdefault(index, []).append(work)
        confs = self._cluster.node_confs
        return [
            NodeReport(
                confs[index].name, self._boot_s.get(index, self._host_boot_s), tuple(here.get(index, ())),
                self._hardware.get(index),
            )
            for index in bits(nodes)
        ]  # fmt: skip

    # RPCs of slurmctld

    def send(self, node: Node, arrived: Callable[[int], None]) -> None:
        """A message that slurmctld does not wait for; dropped when the slurmd cannot be reached in time."""
        cluster, bit = self._cluster, node.bit
        if (self.deaf | self.unwritten) & bit:
            self.call(node, lambda: arrived(bit), lambda: None)
        else:
            cluster.env.call_in(cluster.costs.rpc_ns, arrived, bit)

    def call(
        self, node: Node, answered: Callable[[], None], lost: Callable[[], None], retried: bool = True,
        late: Callable[[], None] | None = None,
    ) -> int:  # fmt: skip
        """See slurmd/parts.py. A refused connection is tried each second, a silent one waits MessageTimeout."""
        now_ns = self._cluster.env.now_ns
        sent_s = (self._cluster.epoch_ns + now_ns) // SECOND
        if self.frozen & node.bit:
            last_ns = fail_ns = now_ns + self._reply_ns
        elif self.severed & node.bit:
            last_ns = fail_ns = now_ns + self._unanswered_ns  # nothing comes back, not even a refusal
        elif (self.moved | self.unwritten) & node.bit & ~self.dead:
            fail_ns = now_ns + self._unanswered_ns  # connects to the old address time out
            last_ns = now_ns - 1
        elif retried:
            last_ns = now_ns + (self._tries - 1) * SECOND
            fail_ns = now_ns + self._tries * SECOND
        else:
            last_ns = fail_ns = now_ns
        call = _Call(node, now_ns, last_ns, answered)
        self._calls.setdefault(node.index, []).append(call)
        notice_ns = watchdog_look_ns(now_ns, fail_ns)

        def give_up() -> None:
            if call.settled:
                return
            call.settled = True
            if self.frozen & node.bit:
                self._in_sockets.setdefault(node.index, []).append(answered if late is None else late)
            waiting = self._calls.get(node.index)
            if waiting is not None and call in waiting:
                waiting.remove(call)
            ctld = self._cluster.ctld
            if ctld is not None:
                ctld.nodes_lifecycle.not_responding(node, sent_s)
            lost()

        self._cluster.on_controller(notice_ns, give_up)
        return notice_ns


def watchdog_look_ns(sent_ns: int, done_ns: int) -> int:
    """When slurmctld's agent notices a result that is there at done_ns (agent.c _wdog())."""
    look = 5 * MS
    step = 10 * MS
    while look < done_ns - sent_ns:
        if look >= _WATCHDOG_FIRST_NS:
            return sent_ns + look + -(-(done_ns - sent_ns - look) // SECOND) * SECOND
        look += step
        step = min(step * 2, SECOND)
    return sent_ns + look
