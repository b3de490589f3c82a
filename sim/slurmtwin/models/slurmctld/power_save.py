"""Power saving: idle nodes are switched off, jobs switch them on again (slurm.md 9; power_save.c).

A thread looks once a second and works when a node changed since its last work, or power_save_interval seconds
have gone. Here it wakes only for a reason: a node that changed, a time-out, an idle time that ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from slurmtwin.contract.clock import MS, SECOND, UNLIMITED
from slurmtwin.contract.events import Kind
from slurmtwin.contract.hostlist import expand
from slurmtwin.models.slurmctld.states import JobState, NodeBase, NodeFlag
from slurmtwin.models.slurmctld.tables import bits

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Call
    from slurmtwin.models.slurmctld.node_lifecycle import NodeLifecycle
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Node

_MINUTE_MS = 60_000
_BUSY_FLAGS = (
    NodeFlag.POWERING_UP | NodeFlag.POWERING_DOWN | NodeFlag.REBOOT_ISSUED | NodeFlag.REBOOT_REQUESTED
    | NodeFlag.POWERED_DOWN
)  # fmt: skip


class PowerPrograms(Protocol):
    """SuspendProgram and ResumeProgram: what really happens to the nodes."""

    def resume(self, nodes: int) -> None:
        """Make these nodes come up and register."""
        ...

    def suspend(self, nodes: int) -> None:
        """Take these nodes away."""
        ...


class RateLimit:
    """ResumeRate or SuspendRate: how many nodes may change state at one work (slurm.md 9 "Rate limiter").

    22.05 counts changes, and the count decays over a minute; since 23.02 a token comes every 60 s / rate, kept up to
    what power_save_interval brings.
    """

    def __init__(self, per_minute: int, interval_s: int, tokens: bool) -> None:
        self.per_minute = per_minute
        self._tokens = tokens
        self._most = max(1, per_minute * interval_s // 60)
        self._period_ms = max(1, _MINUTE_MS // per_minute) if per_minute else 1
        self._left = self._most
        self._count = 0.0
        self._last = 0

    def begin(self, now_ns: int, since_s: int) -> None:
        """A work begins, so many seconds after the last one."""
        if self._tokens:
            periods = now_ns // MS // self._period_ms
            self._left = min(self._most, self._left + periods - self._last)
            self._last = periods
        else:
            self._count *= 0.0 if since_s >= 60 else (60 - since_s) / 60.0

    def take(self) -> bool:
        """One more node now? It is counted."""
        if not self.per_minute:
            return True
        if self._tokens:
            self._left -= 1
            if self._left < 0:
                self._left = 0
                return False
            return True
        if int(self._count + 0.5) >= self.per_minute:
            return False
        self._count += 1
        return True


class PowerSave:
    """The power thread of one slurmctld."""

    def __init__(self, ctld: Slurmctld, nodes: NodeLifecycle, programs: PowerPrograms) -> None:
        self.ctld = ctld
        self.nodes = nodes
        self.programs = programs
        timers = ctld.conf.timers
        self.idle_s = timers.suspend_time_ns // SECOND if timers.suspend_time_ns != UNLIMITED else UNLIMITED
        self.suspend_s = timers.suspend_timeout_ns // SECOND
        self.resume_s = timers.resume_timeout_ns // SECOND
        self.interval_s = timers.power_save_interval_ns // SECOND
        self.min_interval_s = timers.power_save_min_interval_ns // SECOND
        newer = ctld.conf.version != "22.05"
        self._more_s = 1 if newer else 0
        """Since 23.11 times are compared by > where 22.05 has >=: it works a second sooner, and again after a work
        that changed nodes."""
        self._period_ns = SECOND + (0 if newer else ctld.costs.loop_lag_ns)
        spread = max(self.interval_s, self.min_interval_s)
        self._resumes = RateLimit(timers.resume_rate_per_min, spread, newer)
        self._suspends = RateLimit(timers.suspend_rate_per_min, spread, newer)
        self._spared = self._spared_nodes()
        self._last_s = 0
        """Second of the last work, also of one that had nothing to do."""
        self._asked_s = -1
        """A work is wanted from this second on, whatever the interval says."""
        self._began_ns = 0
        self._call: Call | None = None

    def _spared_nodes(self) -> int:
        """SuspendExcNodes and SuspendExcParts."""
        ctld, timers = self.ctld, self.ctld.conf.timers
        names: Iterable[str] = expand(timers.suspend_exc_nodes) if timers.suspend_exc_nodes else ()
        out = ctld.nodes.bitmap(name for name in names if name in ctld.nodes.by_name)
        for word in timers.suspend_exc_parts.split(","):
            part = ctld.partitions.get(word.strip())
            out |= part.nodes if part is not None else 0
        return out

    def start(self) -> None:
        """The thread begins: first work a second later."""
        self._began_ns = self.ctld.env.now_ns
        self._last_s = self.ctld.now_s()
        self._wake_at_s(self._last_s + 1)

    # when

    def node_changed(self) -> None:
        """last_node_update moved: the thread works at its next look."""
        self._asked_s = max(self.ctld.now_s(), self._last_s + self.min_interval_s + self._more_s)
        self._wake_at_s(self._asked_s)

    def stamped(self) -> None:
        """last_node_update moved, but nothing that power saving acts on: the work it brings only counts as one."""
        if self.ctld.now_s() > self._last_s:
            self._last_s = self._next_look_ns(self.ctld.env.now_ns + 1)[1]

    def _next_look_ns(self, wanted_ns: int) -> tuple[int, int]:
        """The thread's first look at or after that time, and its Unix second."""
        steps = max(1, -(-(wanted_ns - self._began_ns) // self._period_ns))
        at_ns = self._began_ns + steps * self._period_ns
        return at_ns, (at_ns + self.ctld.epoch_ns) // SECOND

    def _on_grid_s(self, unix_s: int) -> int:
        """The first second from unix_s on at which the thread works with no node changed."""
        step = self.interval_s + self._more_s
        if self._period_ns != SECOND:
            looks = -(-step * SECOND // self._period_ns)
            step = max(1, looks * self._period_ns // SECOND)
        return self._last_s + max(1, -(-(unix_s - self._last_s) // step)) * step

    def _wake_at_s(self, unix_s: int) -> None:
        """Work at the thread's first look in or after that second, unless one comes earlier."""
        ctld = self.ctld
        at_ns = self._next_look_ns(max(ctld.at_s(unix_s), ctld.env.now_ns + 1))[0]
        if self._call is not None and self._call.pending:
            if self._call.at_ns <= at_ns:
                return
            self._call.cancel()
        self._call = ctld.env.call_at(at_ns, self._look)

    def _look(self, _argument: object) -> None:
        self._call = None
        now_s = self.ctld.now_s()
        asked = 0 <= self._asked_s <= now_s
        if not asked and now_s < self._last_s + self.interval_s + self._more_s:
            self._wake_for_time()
            return
        self._asked_s = -1
        self._work(now_s)
        self._wake_for_time()

    def _wake_for_time(self) -> None:
        """What time alone brings is found at the works of the interval."""
        due_s = self._next_due_s()
        if due_s is not None:
            self._wake_at_s(self._on_grid_s(due_s))

    def _next_due_s(self) -> int | None:
        """The earliest second at which time alone brings work."""
        due: int | None = None
        for node in self.ctld.nodes.nodes:
            moment = self._due_s(node)
            if moment is not None and (due is None or moment < due):
                due = moment
        return due

    def _due_s(self, node: Node) -> int | None:
        flags = node.flags
        if flags & NodeFlag.POWERING_DOWN:
            return node.power_req_s + self.suspend_s + 1
        if flags & NodeFlag.POWERING_UP:
            return node.boot_req_s + self.resume_s + 1
        if flags & (NodeFlag.POWER_UP | NodeFlag.POWER_DOWN):
            return self.ctld.now_s()
        if self._may_suspend(node) and self.idle_s != UNLIMITED and node.last_busy_s and not self._spared & node.bit:
            return node.last_busy_s + self.idle_s + 1
        waits = flags & NodeFlag.POWERED_DOWN and self.nodes.running.some & node.bit
        return self.ctld.now_s() if waits else None

    # what

    def _work(self, now_s: int) -> None:
        """_do_power_work()."""
        now_ns = self.ctld.env.now_ns + self.ctld.epoch_ns
        self._resumes.begin(now_ns, now_s - self._last_s)
        self._suspends.begin(now_ns, now_s - self._last_s)
        self._last_s = now_s
        wanted = self._nodes_of_waiting_jobs()
        awake = asleep = 0
        for node in self.ctld.nodes.nodes:
            if self._resumes_now(node, wanted):
                self._power_up(node, now_s)
                awake |= node.bit
            if self._suspends_now(node, now_s):
                self._power_down(node, now_s)
                asleep |= node.bit
            if node.flags & NodeFlag.POWERING_DOWN and node.power_req_s + self.suspend_s < now_s:
                self._powered_down(node)
            if self._resume_failed(node, now_s):
                self._give_up(node)
        if asleep:
            self._announce(Kind.NODE_POWERING_DOWN, asleep)
            self.programs.suspend(asleep)
        if awake:
            self._announce(Kind.NODE_POWERING_UP, awake)
            self.programs.resume(awake)

    def _announce(self, kind: Kind, nodes: int) -> None:
        ctld = self.ctld
        ctld.last_node_update_s = ctld.now_s()
        ctld.emit(kind, node=ctld.nodes.hostlist(nodes))
        ctld.store.changed(jobs=False)

    def _nodes_of_waiting_jobs(self) -> int:
        """Powered-down nodes of jobs that are CONFIGURING, in start order (resume_job_list)."""
        ctld = self.ctld
        out = 0
        if not ctld.nodes.power_down & self.nodes.running.some:
            return out
        for job in ctld.running.values():
            if job.configuring and job.state is JobState.RUNNING and job.alloc is not None:
                out |= job.alloc.nodes & ctld.nodes.power_down
        return out

    def _resumes_now(self, node: Node, wanted: int) -> bool:
        flags = node.flags
        if flags & NodeFlag.POWERING_DOWN or not flags & NodeFlag.POWERED_DOWN:
            return False
        return bool(wanted & node.bit or flags & NodeFlag.POWER_UP) and self._resumes.take()

    def _may_suspend(self, node: Node) -> bool:
        """Idle or DOWN, nothing going on."""
        if node.flags & _BUSY_FLAGS or (self.nodes.running.some | self.nodes.leaving.some) & node.bit:
            return False
        return node.base in (NodeBase.IDLE, NodeBase.DOWN)

    def _suspends_now(self, node: Node, now_s: int) -> bool:
        if not self._may_suspend(node):
            return False
        asked = bool(node.flags & NodeFlag.POWER_DOWN)
        idle = self.idle_s != UNLIMITED and node.last_busy_s != 0 and node.last_busy_s < now_s - self.idle_s
        return (asked or (idle and not self._spared & node.bit)) and self._suspends.take()

    def _power_up(self, node: Node, now_s: int) -> None:
        node.flags &= ~(NodeFlag.POWER_UP | NodeFlag.POWERED_DOWN)
        node.flags |= NodeFlag.POWERING_UP | NodeFlag.NO_RESPOND
        node.boot_req_s = now_s
        table = self.ctld.nodes
        table.power_down &= ~node.bit
        table.booting |= node.bit
        self.nodes.settle(node)

    def _power_down(self, node: Node, now_s: int) -> None:
        if node.flags & NodeFlag.POWER_DOWN and node.flags & NodeFlag.DRAIN:
            node.flags &= ~NodeFlag.DRAIN
        node.flags &= ~(NodeFlag.POWER_DOWN | NodeFlag.NO_RESPOND)
        node.flags |= NodeFlag.POWERING_DOWN
        node.power_req_s = now_s
        table = self.ctld.nodes
        table.power_down |= node.bit
        table.avail &= ~node.bit
        self.nodes.settle(node)

    def _powered_down(self, node: Node) -> None:
        """SuspendTimeout is over: off, and usable again."""
        node.flags &= ~(NodeFlag.INVALID_REG | NodeFlag.POWERING_DOWN)
        node.flags |= NodeFlag.POWERED_DOWN
        node.last_busy_s = node.power_req_s = 0
        if node.base is not NodeBase.DOWN and not node.flags & (NodeFlag.DRAIN | NodeFlag.FAIL):
            self.nodes.make_avail(node)
        self.nodes.settle(node)
        self._announce(Kind.NODE_POWERED_DOWN, node.bit)
        self.ctld.schedulers.queue_pass()

    def _resume_failed(self, node: Node, now_s: int) -> bool:
        flags = node.flags
        silent = flags & NodeFlag.POWERING_UP and flags & NodeFlag.NO_RESPOND
        return bool(silent and self.ctld.nodes.booting & node.bit) and now_s > node.boot_req_s + self.resume_s

    def _give_up(self, node: Node) -> None:
        """Not there within ResumeTimeout: DOWN, its jobs requeued (slurm.md 9 "Resume")."""
        node.flags &= ~(NodeFlag.DRAIN | NodeFlag.POWER_DOWN | NodeFlag.POWERING_UP)
        if self.nodes.since_23_02:
            node.flags &= ~(NodeFlag.NO_RESPOND | NodeFlag.REBOOT_ISSUED)
        else:
            self.nodes.set_reason(node, "")
        node.flags |= NodeFlag.POWERED_DOWN
        self.nodes.set_down(node, "ResumeTimeout reached")
        table = self.ctld.nodes
        table.power_down |= node.bit
        table.booting &= ~node.bit
        node.last_busy_s = node.boot_req_s = 0
        self.nodes.settle(node)

    def nodes_idle_since(self, nodes: int) -> None:
        """Jobs have left these nodes: their idle time may end one day."""
        if nodes and self.idle_s != UNLIMITED:
            first = next(bits(nodes))
            self._wake_at_s(self._on_grid_s(self.ctld.nodes.nodes[first].last_busy_s + self.idle_s + 1))
