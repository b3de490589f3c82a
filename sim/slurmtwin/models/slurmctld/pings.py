"""The ping cycle: who is asked when, and who goes DOWN for silence (slurm.md 4.2; ping_nodes.c ping_nodes()).

A tick asks answering nodes about every second time, and nothing of that changes anything. So ticks are only
played out while some node is watched: silent, not registered yet, DOWN but able to return, or with a ghost job.
For all others the ticks that would have been are worked out later, as bitmaps, when somebody needs to know
when a node was last heard (`fix`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld.background import Duty
from slurmtwin.models.slurmctld.coarse_clock import CAUGHT_UP_NS, seen_late
from slurmtwin.models.slurmctld.health_check import HealthChecks
from slurmtwin.models.slurmctld.states import NodeBase, NodeFlag
from slurmtwin.models.slurmctld.tables import bits

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.coarse_clock import CoarseClock
    from slurmtwin.models.slurmctld.node_lifecycle import NodeLifecycle
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Node

REGISTRATION_ROUND: Final = 20
"""Ticks until the registration window comes round in a small cluster (ping_nodes.c MAX_REG_FREQUENCY)."""
WINDOW_CAP: Final = 50
"""Most nodes asked to register per tick since 23.02."""
REGISTERING_BESIDE: Final = 0.2
"""What each other node that is asked to register at once adds to an answer: of quiet runs on one host (26.05) 238
answers of one node take 6 ms on the median, 238 of two 7, 51 of three 8, 56 of four 8 and 27 of eight 16."""
MOST_BESIDE: Final = 8
MIN_CHECKIN_S: Final = 3
"""First tick so long after the loop's first look (controller.c MIN_CHECKIN_TIME)."""
TIMEOUT_OFF_TICK_S: Final = 100
_SKIPPED: Final = (
    NodeFlag.POWERED_DOWN | NodeFlag.POWERING_DOWN | NodeFlag.POWERING_UP
    | NodeFlag.INVALID_REG | NodeFlag.REBOOT_ISSUED | NodeFlag.EXTERNAL
)  # fmt: skip
_LOG_LIMIT: Final = 512


class Pings:
    """Ticks, the registration window, and last_response of every node."""

    def __init__(self, ctld: Slurmctld, nodes: NodeLifecycle) -> None:
        self.ctld = ctld
        self.nodes = nodes
        self.started = False
        self.timeout_s = ctld.conf.timers.slurmd_timeout_ns // SECOND
        self.interval_s = self.timeout_s // 3 if self.timeout_s else TIMEOUT_OFF_TICK_S
        width = max(ctld.conf.controller.tree_width, 1)
        self.window = width if ctld.conf.version == "22.05" else min(width, WINDOW_CAP)
        self.offset = 0
        self.checks = HealthChecks(ctld, self)
        self.ghosts = 0
        """Nodes with a running batch job that they did not report: their next registration matters."""
        self.told: Callable[[list[Node], bool], None] | None = None
        """Told of the watched nodes that a tick asks, and whether to register."""
        self.first_tick_s = MIN_CHECKIN_S
        """Seconds from the loop's first look to the first tick."""
        self.clock: CoarseClock | None = None
        """The host's coarse clock, where it is known: ticks are then seen in their second or a second later."""
        self.registers_ns: Callable[[], int] | None = None
        """How long a slurmd takes to answer a request to register; None: as long as two small RPCs."""
        self._behind = (0, 0)
        """(due second, seconds by which its tick is seen late)."""
        self._told_end = (0, 0, 0)
        """(end of the last cycle in ns, the second from which it counts as done, how long behind that)."""
        self._watched = 0
        """Nodes that a tick may change: looked at one by one."""
        self._well = 0
        """Nodes that answer whenever asked and that no tick changes: their last_response is worked out."""
        self._last_tick_s = 0
        """last_ping_time; 0 before the first tick."""
        self._next_due_s = 0
        self._asked_now = False
        self._cycle_end_ns = -ctld.epoch_ns
        self._heard_s: list[int] = []
        """Seconds left in last_response by answers, ascending, and in _heard_nodes who left them."""
        self._heard_nodes: list[int] = []
        self._pinged: deque[tuple[int, int]] = deque(maxlen=4)
        """(second left in last_response, nodes) of the last ticks' answers from unwatched nodes."""

    @property
    def busy(self) -> bool:
        """Some node is watched, so that ticks are played out."""
        return bool(self._watched or self.ghosts or self._asked_now)

    # life

    def start(self, first_sweep: bool) -> None:
        """The loop has begun: the first tick comes first_tick_s after its first look.

        Without `first_sweep` the cluster is taken as registered long ago, its ticks on the same grid.
        """
        ctld = self.ctld
        loop = ctld.background
        first_look_s = (loop.first_look_ns(0, ctld.env.now_ns) + ctld.epoch_ns) // SECOND
        self.started = True
        self._next_due_s = first_look_s + self.first_tick_s
        loop.register(Duty.PING, self._look)
        self.checks.start()
        for node in ctld.nodes.nodes:
            self.review(node)
        if first_sweep:
            self._arm_due()

    # what is known of answers

    def heard(self, nodes: int, late: bool = True) -> None:
        """The nodes answered an RPC in this second; `late`: the agent's update thread may note it later."""
        second = self.ctld.now_s()
        self.note(self.nodes.update_s(second) if late else second, nodes)

    def note(self, second: int, nodes: int) -> None:
        """`second` is what the answer leaves in last_response."""
        seconds, heard = self._heard_s, self._heard_nodes
        place = len(seconds) - 1
        while place >= 0 and seconds[place] > second:
            place -= 1
        if place >= 0 and seconds[place] == second:
            heard[place] |= nodes
            return
        seconds.insert(place + 1, second)
        heard.insert(place + 1, nodes)
        if len(seconds) > _LOG_LIMIT:
            self._catch_up()

    def last_response_s(self, node: Node) -> int:
        """last_response of the node, answers included that the update thread has not noted yet."""
        bit = node.bit
        if not self._well & bit:
            return node.last_response_s
        self._catch_up()
        best = max(node.last_response_s, self._checked_s())
        for second, nodes in (*zip(self._heard_s, self._heard_nodes, strict=True), *self._pinged):
            if nodes & bit and best < second:
                best = second
        return best

    def answers(self) -> Callable[[int, int], int]:
        """last_response_s() of all nodes as of now, to be worked out later: takes a node's bit and its record's own."""
        well = self._well
        if not well:
            return lambda _bit, noted_s: noted_s
        self._catch_up()
        checked_s = self._checked_s()
        known = (*zip(self._heard_s, self._heard_nodes, strict=True), *self._pinged)

        def last_s(bit: int, noted_s: int) -> int:
            if not well & bit:
                return noted_s
            return max(noted_s, checked_s, *(second for second, nodes in known if nodes & bit))

        return last_s

    def _checked_s(self) -> int:
        """What the last health check left in last_response of every well node."""
        checked_s = self.checks.last_s(self.ctld.now_s())
        return self.nodes.update_s(checked_s) if checked_s else 0

    def fix(self, node: Node) -> None:
        """Write down the node's last_response: from here on it may be silent."""
        node.last_response_s = self.last_response_s(node)

    def review(self, node: Node) -> None:
        """Something about the node changed: does a tick have to look at it, and does it answer ticks?"""
        bit = node.bit
        self._catch_up()
        matters = self._matters(node)
        well = not matters and self._answers(node)
        if self._well & bit and not well:
            self.fix(node)
            self._well &= ~bit
        elif well and not self._well & bit:
            self._well |= bit
            self.note(node.last_response_s, bit)
        if matters:
            self._watched |= bit
            self._arm()
            if self.ctld.slurmds.deaf & bit and not node.flags & NodeFlag.NO_RESPOND:
                self.checks.arm()
        else:
            self._watched &= ~bit

    def _answers(self, node: Node) -> bool:
        """Is it asked from time to time, and there?"""
        if node.base is NodeBase.FUTURE or node.flags & _SKIPPED or self.ctld.slurmds.deaf & node.bit:
            return False
        return not (node.base is NodeBase.DOWN and node.flags & NodeFlag.NO_RESPOND)

    def _matters(self, node: Node) -> bool:
        """Can a tick change anything about this node?"""
        bit, flags, base = node.bit, node.flags, node.base
        if base is NodeBase.FUTURE or flags & _SKIPPED:
            return False
        deaf = bool(self.ctld.slurmds.deaf & bit)
        silent = bool(flags & NodeFlag.NO_RESPOND)
        if base is NodeBase.DOWN:
            if deaf:  # a frozen slurmd still collects the requests of the window's ticks
                return (not silent and self.timeout_s > 0) or bool(self.ctld.slurmds.frozen & bit)
            return silent or self.nodes.returns_on_answer(node) or bool(self.ghosts & bit)
        if deaf and silent:
            return self.timeout_s > 0 and node.last_response_s != 0
        return deaf or silent or base is NodeBase.UNKNOWN or node.boot_time_s == 0 or bool(self.ghosts & bit)

    def mark_ghost(self, node: Node, ghost: bool) -> None:
        """A registration found (or no longer found) a running job missing that is too young to be given up."""
        if ghost:
            self.ghosts |= node.bit
        else:
            self.ghosts &= ~node.bit

    # ticks that nobody watched

    def _catch_up(self) -> None:
        """Play the ticks up to now for unwatched nodes, as bitmaps: nobody else can have changed by them.

        While a node is watched every tick is real, and may come late: nothing to catch up with.
        """
        now_s = self.ctld.now_s()
        while self.started and not self._watched and not self._asked_now and self._next_due_s < now_s:
            tick_s = self._tick_second(self._next_due_s)
            if tick_s >= now_s:
                break
            self._tick_of_the_well(tick_s)
        horizon = self._last_tick_s - 2 * self.interval_s - 4
        old = min(bisect_left(self._heard_s, horizon), len(self._heard_s) - 1)
        if old > 0:
            if not self.timeout_s:
                for second, nodes in zip(self._heard_s[:old], self._heard_nodes[:old], strict=True):
                    self._write_down(second, nodes)
            del self._heard_s[:old], self._heard_nodes[:old]

    def asked_now(self, nodes: int, lag_ns: int = CAUGHT_UP_NS) -> None:
        """A recording has a tick that asked these well nodes now: its grid and its seconds hold from here.

        A row sooner behind a whole second than `lag_ns`, the lag of its time(NULL), is of a tick that was seen a second
        late, which last_ping_time does not show (coarse_clock.py); the answers come in the second that the row has.
        """
        if not self.started or self.busy:
            return
        self._catch_up()
        unix_ns = self.ctld.env.now_ns + self.ctld.epoch_ns
        second = unix_ns // SECOND
        tick_s = second - seen_late(unix_ns, lag_ns)
        if self._next_due_s <= tick_s + self.interval_s // 2:
            self._step_window()
        while self._pinged and self._pinged[-1][0] > tick_s - self.interval_s // 2:
            self._pinged.pop()
        self._last_tick_s, self._next_due_s = tick_s, tick_s + self.interval_s
        self._pinged.append((self.nodes.update_s(second), nodes & self._well))

    def _write_down(self, second: int, nodes: int) -> None:
        """Without SlurmdTimeout no tick asks well nodes: their newest answer is kept in the record."""
        for index in bits(nodes):
            node = self.ctld.nodes.nodes[index]
            node.last_response_s = max(node.last_response_s, second)

    def _tick_second(self, due_s: int) -> int:
        """The second of the look at which a tick due at `due_s` really comes."""
        loop, ctld = self.ctld.background, self.ctld
        if loop.steady:
            return due_s
        return (loop.first_look_ns(due_s, ctld.at_s(due_s) - 1) + ctld.epoch_ns) // SECOND

    def due_s(self) -> int:
        """The Unix second in which the next tick is due."""
        self._catch_up()
        return self._next_due_s

    def asks_the_well(self, tick_s: int) -> bool:
        """Whether some well node is asked in the tick of that second, which is this one or the one before."""
        self._catch_up()
        if tick_s == self._last_tick_s:
            return bool(self._pinged and self._pinged[-1][1])
        return bool(self.timeout_s and self._asked_of_the_well(tick_s, self.offset + self.window))

    def _tick_of_the_well(self, tick_s: int) -> None:
        """One tick for the well nodes: who is asked, and so answers (slurm.md 4.2 "Ping sent if")."""
        self._step_window()
        self._last_tick_s = tick_s
        self._next_due_s = tick_s + self.interval_s
        if self.timeout_s:
            self._pinged.append((self.nodes.update_s(tick_s), self._asked_of_the_well(tick_s, self.offset)))

    def _asked_of_the_well(self, tick_s: int, offset: int) -> int:
        live_s = tick_s - self.timeout_s // 3
        recent = 0
        seconds = self._heard_s
        for nodes in self._heard_nodes[bisect_left(seconds, live_s) : bisect_left(seconds, tick_s)]:
            recent |= nodes
        for second, nodes in self._pinged:
            if second >= live_s:
                recent |= nodes
        if self.checks.last_s(tick_s - 1) >= live_s:
            recent = self._well
        window = ((1 << self.window) - 1) << offset
        return self._well & (~recent | window)

    def _step_window(self) -> None:
        """The window of nodes asked to register slides by its width."""
        self.offset += self.window
        if self.offset > len(self.ctld.nodes) and self.offset >= self.window * REGISTRATION_ROUND:
            self.offset = 0

    # ticks that matter

    def ping_now(self) -> None:
        """ping_nodes_now: a tick at the next look, for all nodes (slurm.md 4.2 "Extra ticks")."""
        self._catch_up()
        self._asked_now = True
        if self.started:
            self.ctld.background.arm(Duty.PING)

    def _arm(self) -> None:
        if not self.started or not self._watched:
            return
        self._catch_up()
        if self._asked_now:
            self.ctld.background.arm(Duty.PING)
        else:
            self._arm_due()

    def _arm_due(self) -> None:
        """A tick that is seen late comes with the look of a whole second, any other when its own is shown."""
        late_s = self._lateness()
        shown_ns = 0 if self.clock is None or late_s else self.clock.lag_ns
        self.ctld.background.arm(Duty.PING, self._next_due_s + late_s, shown_ns)

    def _lateness(self) -> int:
        """Seconds after its own in which the coming tick is seen; drawn once for each."""
        if self.clock is None:
            return 0
        if self._behind[0] != self._next_due_s:
            self._behind = (self._next_due_s, int(self.clock.late_in(self._next_due_s)))
        return self._behind[1]

    def _look(self) -> None:
        """The loop's look at the ping timer."""
        ctld = self.ctld
        self._catch_up()
        now_s = ctld.now_s()
        if not self._asked_now and now_s < self._next_due_s + self._lateness():
            self._arm()
            return
        done_s, shown_ns = self._cycle_done()
        if ctld.env.now_ns < max(ctld.at_s(done_s) + shown_ns, self._cycle_end_ns):
            ctld.background.arm(Duty.PING, done_s, shown_ns)
            return
        clock = self.clock
        if clock is not None and now_s > self._next_due_s and ctld.env.now_ns < ctld.at_s(now_s) + clock.lag_ns:
            now_s -= 1  # seen at the whole second, which time(NULL) does not show yet
        dead_s = self._last_tick_s - self.timeout_s if self._last_tick_s and self.timeout_s else 0
        self._asked_now = False
        self._tick_of_the_well(now_s)
        pings, registrations = self._ask_watched(dead_s, now_s)
        self._send(pings, registrations)
        if pings or registrations:
            self._cycle_end_ns = max(self._cycle_end_ns, ctld.env.now_ns)
        self._arm()

    def _cycle_done(self) -> tuple[int, int]:
        """From which second on a new cycle may begin (ping_nodes.c is_ping_done()), and how long behind its begin.

        26.05 also waits until the agent's update thread has run after the last answer (ping_updated). 22.05, which
        looks within seconds, may look in that second before the cycle ends.
        """
        unix_ns = self._cycle_end_ns + self.ctld.epoch_ns
        if not self.ctld.background.steady:
            return unix_ns // SECOND, 0
        if self.clock is not None and self._last_tick_s:
            if self._told_end[0] != unix_ns:
                late_s, told_ns = divmod(self.clock.told_ns(), SECOND)
                self._told_end = (unix_ns, unix_ns // SECOND + 1 + late_s, told_ns)
            return self._told_end[1:]
        if self.ctld.conf.version == "26.05" and self._last_tick_s:
            return self.nodes.update_s(unix_ns // SECOND), 0
        return -(-unix_ns // SECOND), 0

    def _ask_watched(self, dead_s: int, now_s: int) -> tuple[list[Node], list[Node]]:
        """The rules of ping_nodes() for each watched node: DOWN, asked to register, pinged, or left alone."""
        table = self.ctld.nodes.nodes
        live_s = now_s - self.timeout_s // 3
        pings: list[Node] = []
        registrations: list[Node] = []
        for index in bits(self._watched):
            node = table[index]
            flags, base = node.flags, node.base
            if base is NodeBase.FUTURE or flags & _SKIPPED:
                continue
            silent = bool(flags & NodeFlag.NO_RESPOND)
            in_window = self.offset <= index < self.offset + self.window
            if node.last_response_s and node.last_response_s <= dead_s and base is not NodeBase.DOWN:
                self.nodes.set_down(node, "Not responding", self.ctld.costs.node_down_ns)
            elif base is NodeBase.UNKNOWN or node.boot_time_s == 0 or in_window:
                registrations.append(node)
            elif not silent and node.last_response_s >= live_s:
                continue
            elif not (silent and base is NodeBase.DOWN):
                pings.append(node)
        return pings, registrations

    def _send(self, pings: list[Node], registrations: list[Node]) -> None:
        ctld = self.ctld
        width = ctld.conf.controller.tree_width
        for batch, register in ((pings, False), (registrations, True)):
            heads = _tree_heads(len(batch), width)
            if batch and self.told is not None:
                self.told(batch, register)
            for place, node in enumerate(batch):
                if ctld.slurmds.deaf & node.bit:
                    self.ask_deaf(node, place in heads, register)
                else:
                    self._answered(node, register, len(batch))

    def ask_deaf(self, node: Node, retried: bool, register: bool) -> None:
        """An RPC to a silent slurmd: it comes back within the retries, or is lost."""
        ctld = self.ctld

        def answered() -> None:
            self._answered(node, register)

        def lost() -> None:
            ctld.emit(Kind.NODE_PINGED, node=node.name, value=0)
            self.review(node)

        def late() -> None:
            if register:
                self.nodes.register(ctld.slurmds.reports(node.bit))

        end_ns = ctld.slurmds.call(node, answered, lost, retried, late)
        self._cycle_end_ns = max(self._cycle_end_ns, end_ns)

    def _answered(self, node: Node, register: bool, asked: int = 1) -> None:
        """A ping is answered; a request to register also brings the registration (req.c _rpc_ping()).

        Both come after the look that sent the request, so its scheduling pass does not see them. `asked`: nodes of the
        same request.
        """
        back_ns = max(1, 2 * self.ctld.costs.rpc_ns)
        if register and self.registers_ns is not None:
            back_ns = round(self.registers_ns() * (1 + REGISTERING_BESIDE * (min(asked, MOST_BESIDE) - 1)))
        self.ctld.env.call_in(back_ns, self._register if register else self.nodes.answered, node)

    def _register(self, node: Node) -> None:
        if not self.ctld.slurmds.deaf & node.bit:
            self.nodes.register(self.ctld.slurmds.reports(node.bit))
            self.nodes.answered(node)


def _tree_heads(count: int, width: int) -> range | frozenset[int]:
    """Places of the nodes that slurmctld contacts itself: with more nodes than TreeWidth the rest hang behind them.

    Only a head's refused connection is retried; a leaf's is reported at once (forward.c _forward_thread()).
    """
    if count <= width:
        return range(count)
    size, more = divmod(count, width)
    heads: list[int] = []
    place = 0
    for group in range(width):
        heads.append(place)
        place += size + (group < more)
    return frozenset(heads)
