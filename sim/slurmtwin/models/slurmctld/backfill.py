"""The backfill agent: when cycles run (backfill.c backfill_agent(); slurm.md 2.2 "Cycle timing").

The real thread sleeps bf_interval after a cycle, then looks each second whether something changed. Here
nothing ticks: a change wakes the agent for the first of those looks that comes after it.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.slurmctld.backfill_cycle import BackfillCycle
from slurmtwin.models.slurmctld.background import BACKFILL
from slurmtwin.models.slurmctld.main_pass import recently_completing
from slurmtwin.models.slurmctld.pending_queue import PendingQueue
from slurmtwin.models.slurmctld.plain_planner import PlainPlanner

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Call
    from slurmtwin.models.slurmctld.healthy_answers import HealthyAnswers
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

_LOOK_NS: Final = SECOND
"""The pause between two looks when there was nothing to do."""

_WORTH_COMPILING: Final = 20_000
"""Jobs tested by a process until compiled code pays for being loaded, or for being compiled on a new machine."""

_COMPILED: Final = "slurmtwin.models.slurmctld.compiled_planner"


@dataclass(frozen=True, slots=True)
class BackfillPhase:
    """Where the agent stands between two cycles (compiled/handover.py)."""

    next_ns: int | None
    """Its next look; None: it sleeps until something changes."""
    anchor_ns: int
    last_s: int


class BackfillAgent:
    """One thread of slurmctld. With sched/builtin, or bf_interval=-1, it never runs a cycle."""

    left_to_test: ClassVar[int] = _WORTH_COMPILING
    """Until compiled code is loaded. Of all agents together, as a slurmctld that is killed each hour would never get
    there; what is planned does not depend on it."""

    def __init__(self, ctld: Slurmctld, queue: PendingQueue) -> None:
        self._ctld = ctld
        self._queue = queue
        self._options = ctld.conf.scheduler.backfill
        self.enabled = ctld.conf.scheduler.type == "sched/backfill" and self._options.interval_ns > 0
        self._look: Call | None = None
        self._anchor_ns = 0
        self._last_s = 0
        self._running: Generator[int, None, None] | None = None
        self._quiet: tuple[object, ...] | None = None
        self._quiet_until_s = 0
        self._planner = PlainPlanner(ctld, queue)
        self._compiled = False
        """Asked for compiled code; it is used where numba is installed."""
        self._took_ns = 0
        self._planned = 0
        """Nodes of the present reservations (planned_bitmap)."""
        self.kept_busy = False
        """Answers to pings, each an update of a node (agent.c reset_node_load()), come more often than cycles: there is
        always more work. The twin sends no healthy pings, so whoever wants these cycles says so."""
        self.answers: HealthyAnswers | None = None
        """Where these cycles are rarer than cycles may be: the answers, followed while jobs wait."""
        self.prune = True
        """Leave out tests that cannot start a job now (see BackfillCycle)."""

    def start(self) -> None:
        """The thread begins with a sleep of bf_interval."""
        if not self.enabled:
            return
        self._sleep_from(self._ctld.env.now_ns)
        self._ctld.on_update = self.wake
        self.wake()

    def stop(self) -> None:
        """The thread ends."""
        self._ctld.on_update = None
        if self._look is not None:
            self._look.cancel()
            self._look = None
        self._running = None

    @property
    def running(self) -> bool:
        """A cycle is under way (it may have released its locks for a moment)."""
        return self._running is not None

    def phase(self) -> BackfillPhase | None:
        """Where it stands; None when it is off, works, or has plans."""
        if not self.enabled or self._running is not None or self._quiet is not None or self._planned:
            return None
        look = self._look
        return BackfillPhase(look.at_ns if look is not None else None, self._anchor_ns, self._last_s)

    def _sleep_from(self, now_ns: int) -> None:
        self._anchor_ns = now_ns + self._options.interval_ns
        self._last_s = (self._ctld.epoch_ns + now_ns) // SECOND

    def cycle_then(self) -> None:
        """A recording has a cycle now, or a start: the sleep begins anew."""
        if not self.enabled or self._running is not None:
            return
        if self._look is not None:
            self._look.cancel()
            self._look = None
        self._sleep_from(self._ctld.env.now_ns)
        self.wake()

    def wake(self) -> None:
        """Something changed: be there at the next look."""
        if self._look is not None or self._running is not None:
            return
        now_ns = self._ctld.env.now_ns
        at_ns = self._anchor_ns
        if at_ns < now_ns:
            at_ns += -((at_ns - now_ns) // _LOOK_NS) * _LOOK_NS
        self._look = self._ctld.env.call_at(at_ns, self._at_look, None, BACKFILL)

    def _at_look(self, _argument: object) -> None:
        self._look = None
        ctld = self._ctld
        if ctld.now_s() - self._last_s < self._options.interval_ns // SECOND or recently_completing(ctld):
            self._anchor_ns = ctld.env.now_ns + _LOOK_NS
            self.wake()
        elif self._more_work():
            self._begin()
        else:
            self._follow_answers()

    def _more_work(self) -> bool:
        """_more_work(): a stamp is not older than the end of the last cycle, in whole seconds."""
        ctld, last_s = self._ctld, self._last_s
        return (
            self.kept_busy
            or ctld.last_job_update_s >= last_s
            or ctld.last_node_update_s >= last_s
            or ctld.last_part_update_s >= last_s
            or ctld.last_resv_update_s >= last_s
        )

    def _begin(self) -> None:
        self._took_ns = 0
        self._running = self._cycle()
        self._resume(None)

    def _resume(self, _argument: object) -> None:
        running = self._running
        assert running is not None
        for wait_ns in running:
            self._look = self._ctld.env.call_in(wait_ns, self._resume)
            return
        self._running = None
        self._look = None
        self._sleep_from(self._ctld.env.now_ns + self._took_ns)
        if self._more_work():
            self.wake()
        self._follow_answers()

    def _follow_answers(self) -> None:
        if self.answers is not None and self._queue.has_pending:
            self.answers.follow(self._queue)

    def run_cycle(self) -> int:
        """One cycle now without its sleeps, whatever the agent's timing says; returns how many jobs started."""
        cycle = BackfillCycle(self._ctld, self._queue, self.prune)
        self._queue.refresh(self._ctld.now_s())
        for _wait_ns in cycle.run():
            pass
        self._planned = cycle.planned
        return cycle.started

    def _compile(self) -> None:
        """Plan with compiled code from now on, where numba is installed: the same plans, sooner."""
        self._compiled = True
        if find_spec("numba") is not None:
            from slurmtwin.models.slurmctld.compiled_planner import CompiledPlanner

            self._planner = CompiledPlanner(self._ctld, self._queue)

    def _state(self) -> tuple[object, ...]:
        ctld = self._ctld
        nodes = ctld.nodes
        return (
            self._queue.version, ctld.selection.usage_version, nodes.avail, nodes.up, nodes.idle, nodes.completing,
            ctld.last_resv_update_s, ctld.last_part_update_s,
        )  # fmt: skip

    def _cycle(self) -> Generator[int, None, None]:
        """_attempt_backfill(), or nothing at all when it would find exactly what the last one found."""
        ctld, queue = self._ctld, self._queue
        now_s = ctld.now_s()
        if self._planned:
            ctld.last_node_update_s = now_s
        queue.refresh(now_s)
        if not queue.entries:
            self._planned = 0
            return
        if self._quiet is not None and now_s < self._quiet_until_s and self._state() == self._quiet:
            self._took_ns = self._host_ns(0)
            return
        cycle: BackfillCycle | PlainPlanner
        if self.prune and self._planner.fits():
            if not self._compiled and (BackfillAgent.left_to_test <= 0 or _COMPILED in sys.modules):
                self._compile()
            cycle = self._planner
            cycle.cycle()
            BackfillAgent.left_to_test -= cycle.tested
            if cycle.cost_ns:
                yield cycle.cost_ns
            yielded = False
        else:
            cycle = BackfillCycle(ctld, queue, self.prune)
            yield from cycle.run()
            yielded = cycle.yielded
        self._planned = cycle.planned
        if cycle.planned:
            ctld.last_node_update_s = ctld.now_s()
        self._quiet = None if cycle.started or yielded else self._state()
        self._quiet_until_s = cycle.valid_until_s
        ctld.emit(
            Kind.SCHED_BACKFILL_CYCLE, actor="backfill", value=cycle.tested, unit="job",
            detail=detail_text(started=cycle.started),
        )  # fmt: skip
        self._took_ns = self._host_ns(cycle.started)

    def _host_ns(self, started: int) -> int:
        """How long the host works on a cycle beyond what was charged in it; the agent's sleep begins after that."""
        costs = self._ctld.costs
        waiting = min(len(self._queue) + started, self._options.max_job_test)
        return costs.backfill_waiting_ns * waiting + costs.backfill_start_ns * started
