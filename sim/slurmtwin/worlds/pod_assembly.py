"""The parts of a slurmctld in a pod: its nodes have registered themselves, and its volume is its pod's."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.contract.hostlist import compress
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.slurmctld.assemble import Assembly
from slurmtwin.models.slurmctld.coarse_clock import CoarseClock
from slurmtwin.models.slurmctld.healthy_answers import HealthyAnswers
from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
from slurmtwin.models.slurmctld.node_lifecycle import NodeLifecycle
from slurmtwin.models.slurmctld.pings import MIN_CHECKIN_S
from slurmtwin.models.slurmctld.scheduler import Scheduler
from slurmtwin.models.slurmctld.states import NodeFlag

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurmtwin.engine.daemon_clock import DaemonClock
    from slurmtwin.engine.random_streams import RandomStreams
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurmctld.attempt_trace import AttemptTrace
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Node
    from slurmtwin.worlds.pod_state import PodState


class PodAssembly(Assembly):
    """slurmctld of pods: its nodes have registered themselves (slurmd -Z)."""

    first_tick_ns = MIN_CHECKIN_S * SECOND
    state: PodState | None = None
    """What its pod has from outside; None before the world is there."""

    def __init__(
        self, streams: RandomStreams, watch: AttemptTrace | None, still: bool, clock_lag_ns: int,
        registers_ns: Callable[[], int], host_load: float | None, runs_beside: int,
    ) -> None:  # fmt: skip
        super().__init__(streams, watch)
        self._clock = CoarseClock(streams.generator("coarse_clock"), still, clock_lag_ns, host_load, runs_beside)
        self._registers_ns = registers_ns

    def build(self, cluster: SlurmCluster, clock: DaemonClock, index: int) -> Slurmctld:
        """As Assembly.build(), every node a dynamic one."""
        if self.state is not None:
            self.state.configure()
        ctld = super().build(cluster, clock, index)
        for node in ctld.nodes.nodes:
            node.flags |= NodeFlag.DYNAMIC_NORM
        if self.state is not None:
            self.state.built(ctld)
        lifecycle = ctld.nodes_lifecycle
        assert isinstance(lifecycle, NodeLifecycle)
        lifecycle.told_at_looks = True
        lifecycle.late_answers = False  # the update thread, which means to sleep 2 s, wakes each second
        jobs = ctld.lifecycle
        assert isinstance(jobs, Lifecycle)
        jobs.requeues.told_at_end = True
        lifecycle.pings.told = partial(_asked, ctld)
        lifecycle.pings.registers_ns = self._registers_ns
        lifecycle.pings.first_tick_s = -(-self.first_tick_ns // SECOND)
        scheduler = ctld.schedulers
        assert isinstance(scheduler, Scheduler)
        timers, interval_ns = ctld.conf.timers, ctld.conf.scheduler.backfill.interval_ns
        backfill = scheduler.backfill
        backfill.kept_busy = 0 < 2 * timers.slurmd_timeout_ns // 3 <= interval_ns
        if ctld.background.steady:
            # the first look is at the start's second
            lifecycle.pings.clock = self._clock
            lifecycle.pings.first_tick_s -= 1
            scheduler.clock = self._clock
            if not backfill.kept_busy:
                backfill.answers = HealthyAnswers(ctld, lifecycle.pings, self._clock)
        return ctld


def _asked(ctld: Slurmctld, nodes: list[Node], register: bool) -> None:
    """As slurmctld's log says it: whom a tick asks, those that will answer."""
    answering = [node.name for node in nodes if not ctld.slurmds.deaf & node.bit]
    if answering:
        said = detail_text(purpose="registration" if register else "ping")
        ctld.emit(Kind.NODE_PINGED, node=compress(answering), value=1, detail=said)
