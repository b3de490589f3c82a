"""The twin of several Kubernetes clusters on one clock, each with a Slurm of its own in pods, and a dispatcher.

Each cluster is the world of pods that it would be by itself (contract/several_clusters.py); rows name their cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.adapters.job_dispatch import ClusterPort, JobDispatcher
from slurmtwin.contract.several_clusters import dispatch_of, member, one_table, own_jobs
from slurmtwin.engine.environment import Environment
from slurmtwin.engine.event_sink import EventSink
from slurmtwin.workload.slurm_conf import cluster_conf
from slurmtwin.worlds.dispatcher import cpus_of
from slurmtwin.worlds.pod_observer import ObservedSink
from slurmtwin.worlds.pod_world import SETTLED_NS, PodWorld, applied_ns, with_controllers
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, TwinWorld

if TYPE_CHECKING:
    from slurmtwin.contract.cluster import ClusterConf
    from slurmtwin.contract.jobs import JobRequest
    from slurmtwin.contract.scenario import Scenario

NEXT_SEED: Final = 1_000_003
"""Clusters draw from streams of their own: each has its own seed, so far from the last one's."""


class MemberWorld(PodWorld):
    """One of the clusters: on the clock of all, and never the end of the run by itself."""

    def __init__(self, env: Environment, over: Callable[[], None], *rest: Any) -> None:
        self._shared, self._over = env, over
        super().__init__(*rest)

    def _environment(self, options: TwinOptions) -> Environment:  # noqa: ARG002  it is made for all
        return self._shared

    def _maybe_over(self) -> None:
        self._over()

    def _stalled(self, _argument: object) -> None:
        """All together are never still: the dispatcher asks."""

    @property
    def request(self) -> Callable[[], int]:
        """How long a request of the dispatcher is on its way to slurmctld."""
        return self.draw("dispatch")

    @property
    def quiet(self) -> bool:
        """Its users' jobs have come, its faults are over, and nothing of its jobs is left to happen."""
        ctld = self.cluster.ctld
        if not self.feed.exhausted or self.feed.waiting or self._faults_left or ctld is None:
            return False
        scripts = any(work.nodes for work in self.cluster.slurmds.works.values())
        return not (scripts or ctld.running or ctld.completing or self._open_jobs(ctld))

    def answers(self) -> bool:
        """Does its slurmrestd answer the dispatcher?"""
        faults, plane = self.kube.faults, self.kube.machines["control-plane"]
        away = faults.rest_cut or faults.dispatcher_cut or faults.tarpit
        controllers = any(c.ctld is not None and not c.frozen for c in self.cluster.controllers)
        return plane.on and plane.paused_ns is None and controllers and not away


class SeveralClusters(TwinWorld):
    """All of them, with the dispatcher; to who runs it a world like any other."""

    def __init__(
        self, scenario: Scenario, conf: ClusterConf, jobs: Iterable[JobRequest], options: TwinOptions,
        place: tuple[Any, ...],
    ) -> None:  # fmt: skip
        assert scenario.pods is not None
        spec = dispatch_of(scenario)
        run_id, world, events, keep = place
        self._scenario, self.conf = scenario, conf
        self.sink = EventSink(run_id, world, _as_lines(events), keep)
        all_jobs = list(jobs)
        times = [options.times.members.get(name, replace(options.times, members={})) for name in spec.clusters]
        begin_ns = min(applied_ns(scenario.pods, one) for one in times) - SETTLED_NS
        self.env = Environment(start_ns=begin_ns, tie_seed=options.tie_seed)
        self.members: dict[str, MemberWorld] = {}
        for number, name in enumerate(spec.clusters):
            self.members[name] = self._member(number, own_jobs(all_jobs, name), times[number], options)
        first = next(iter(self.members.values()))
        self.costs, self.costs_origin = first.costs, first.costs_origin
        wake = first.draw("dispatcher-wake")  # a time-out as well: it is a timer of the same loop
        ports = {
            name: ClusterPort(self.env, one.cluster, one.answers, spec.patience, one.request, wake)
            for name, one in self.members.items()
        }
        self.dispatcher = JobDispatcher(self.env, spec, ports, own_jobs(all_jobs, ""), cpus_of, self._maybe_over, wake)
        self._ending = False

    def _member(self, number: int, jobs: list[JobRequest], times: StartTimes, options: TwinOptions) -> MemberWorld:
        scenario = member(self._scenario, number)
        assert scenario.pods is not None
        conf = with_controllers(cluster_conf(scenario, Path())[0], scenario.pods)
        own = replace(options, seed=options.seed + number * NEXT_SEED, times=times, folder=None)
        sink = ObservedSink(self.sink.run_id, self.sink.world, None, True)
        return MemberWorld(self.env, self._maybe_over, scenario, conf, jobs, own, sink)

    def start(self) -> None:
        """Every cluster, and the dispatcher."""
        for one in self.members.values():
            one.start()
        self.dispatcher.start()

    def _maybe_over(self) -> None:
        """Some time after the last job has ended, where nothing happens in between."""
        if not self._ending and self._quiet:
            self._ending = True
            self.env.call_in(self.settle_ns(), self._end)

    @property
    def _quiet(self) -> bool:
        return self.dispatcher.idle and all(one.quiet for one in self.members.values())

    def _end(self, _argument: object) -> None:
        self._ending = False
        if self._quiet:
            self.env.stop("done")

    def finish(self) -> None:
        """One table of all clusters' rows, in time order; causes keep to theirs."""
        for one in self.members.values():
            one.sink.close()
        tables = [(name, one.sink.kept or []) for name, one in self.members.items()]
        for event in one_table(tables, self.dispatcher.rows):
            self.sink.add(event)


def _as_lines(events: Path | None) -> Path | None:
    """Rows of several clusters are written one by one, which a Parquet file does not take."""
    return None if events is None else events.with_name("events.jsonl.gz")
