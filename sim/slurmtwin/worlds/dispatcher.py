"""Sends each job to one of several clusters by what it last heard of them (design notes 2.7, 5.6 X84).

A cluster is a partition with nodes of its own: its queue is its own, slurmctld is one for all. Each cluster tells its
load at multiples of `staleness` since t = 0: the CPUs asked for by its jobs that wait or run, over those it has. In
between the dispatcher knows no better, unless it remembers what it sent itself. News and jobs take `delay`. Nothing
passes a cut link: a job goes to a cluster within reach, and waits where there is none.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import UNLIMITED
from slurmtwin.contract.errors import InputError

if TYPE_CHECKING:
    from slurmtwin.contract.cluster import ClusterConf
    from slurmtwin.contract.jobs import JobRequest
    from slurmtwin.contract.scenario import Dispatch

_NUMBER: Final = re.compile(r"\d+\Z")


class Dispatcher:
    """The clusters' loads over time, and the choice."""

    def __init__(self, spec: Dispatch, cpus: list[int]) -> None:
        from slurmtwin_operator.core.job_dispatch import least_loaded  # a run without a dispatcher loads no core

        self._least_loaded = least_loaded
        self._spec = spec
        self._cpus = cpus
        self._times: list[list[int]] = [[-1] for _ in cpus]
        self._loads: list[list[int]] = [[0] for _ in cpus]
        """CPUs asked for from that time on."""
        self._where: dict[int, tuple[int, int, JobRequest]] = {}
        """Job -> (cluster, CPUs asked for, as it was before it was placed), while it waits or runs."""
        names = spec.clusters
        self.cuts = sorted((cut.at, cut.at + cut.lasts, names.index(cut.cluster)) for cut in spec.cuts)
        """(from, to, cluster), ns."""
        self._heard_ns = -1
        self._sent = [0 for _ in cpus]
        """CPUs sent since then."""

    @property
    def delay_ns(self) -> int:
        """One way to a cluster."""
        return self._spec.delay

    @property
    def lost_after_ns(self) -> int:
        """Silence after which a cluster's jobs are sent again; 0: never."""
        return self._spec.lost_after

    def name(self, cluster: int) -> str:
        """The partition."""
        return self._spec.clusters[cluster]

    def place(self, request: JobRequest, now_ns: int) -> JobRequest:
        """The request with its cluster; one that names a partition keeps it."""
        if self._spec.policy == "none" or request.partition:
            return request
        asked = cpus_of(request)
        able = self._able(asked)
        able = [i for i in able if not self.cut_until(i, now_ns)] or able
        chosen = self._home(request, able) if self._spec.policy == "home" else self._least(able, now_ns)
        self._change(chosen, asked, now_ns)
        self._sent[chosen] += asked
        self._where[request.job_id] = (chosen, asked, request)
        placed = replace(request, partition=self._spec.clusters[chosen])
        away = self._spec.away and chosen != self._home(request, self._able(asked))
        return self._with_fetch(placed) if away else placed

    def _with_fetch(self, request: JobRequest) -> JobRequest:
        """A job that fetches its data first: it runs longer, and its user asked for that."""
        run_ns, limit_ns = request.run_ns, request.limit_ns
        if run_ns is not None:
            run_ns += self._spec.away
        if limit_ns is not None and limit_ns != UNLIMITED:
            limit_ns += self._spec.away
        return replace(request, run_ns=run_ns, limit_ns=limit_ns)

    def wait_ns(self, request: JobRequest, now_ns: int) -> int:
        """How long no cluster that could take the request is within reach; 0 where one is."""
        if self._spec.policy == "none" or request.partition:
            return 0
        return max(0, min(self.cut_until(i, now_ns) for i in self._able(cpus_of(request))) - now_ns)

    def cut_until(self, cluster: int, now_ns: int) -> int:
        """When the link to a cluster, cut now, is whole again; 0 where it is whole now."""
        return max((to for at, to, cut in self.cuts if cut == cluster and at <= now_ns < to), default=0)

    def sent_to(self, cluster: int) -> list[JobRequest]:
        """What was sent to a cluster and is not over, as it was before it was placed."""
        return [request for where, _, request in self._where.values() if where == cluster]

    def _able(self, asked: int) -> list[int]:
        return [i for i, cpus in enumerate(self._cpus) if asked <= cpus] or [self._largest()]

    def over(self, number: int, now_ns: int) -> None:
        """A job has ended for good."""
        found = self._where.pop(number, None)
        if found is not None:
            self._change(found[0], -found[1], now_ns)

    def _home(self, request: JobRequest, able: list[int]) -> int:
        """The user's own cluster: users are dealt out in turn by the number that ends their name."""
        found = _NUMBER.search(request.user)
        number = int(found[0]) if found else request.job_id
        own = number % len(self._cpus)
        return own if own in able else able[number % len(able)]

    def _least(self, able: list[int], now_ns: int) -> int:
        heard_ns = now_ns // self._spec.staleness * self._spec.staleness if self._spec.staleness else now_ns
        if heard_ns != self._heard_ns:
            self._heard_ns = heard_ns
            self._sent = [0 for _ in self._cpus]
        return self._least_loaded({i: self._known(i, heard_ns) for i in able}, self._cpus, able)

    def _known(self, cluster: int, heard_ns: int) -> int:
        for at, to, cut in self.cuts:
            if cut == cluster and at <= heard_ns < to:
                heard_ns = at
        place = max(0, bisect_right(self._times[cluster], heard_ns - self._spec.delay) - 1)
        sent = self._sent[cluster] if self._spec.remembers and self._spec.staleness else 0
        return self._loads[cluster][place] + sent

    def _change(self, cluster: int, cpus: int, now_ns: int) -> None:
        times, loads = self._times[cluster], self._loads[cluster]
        load = loads[-1] + cpus
        if times[-1] == now_ns:
            loads[-1] = load
        else:
            times.append(now_ns)
            loads.append(load)
        self._forget(cluster, now_ns)

    def _forget(self, cluster: int, now_ns: int) -> None:
        """Drop what is older than anything that can still be heard."""
        times, loads = self._times[cluster], self._loads[cluster]
        if len(times) > 4096:
            longest = max((to - at for at, to, _ in self.cuts), default=0)
            kept = max(0, bisect_right(times, now_ns - self._spec.staleness - self._spec.delay - longest) - 1)
            del times[:kept], loads[:kept]

    def _largest(self) -> int:
        return max(range(len(self._cpus)), key=lambda i: (self._cpus[i], -i))


def cpus_of(request: JobRequest) -> int:
    """CPUs that a job asks for in all."""
    nodes = request.nodes_min or 1
    tasks = request.ntasks or nodes * (request.ntasks_per_node or 1)
    return tasks * (request.cpus_per_task or 1)


def dispatcher_of(spec: Dispatch | None, conf: ClusterConf) -> Dispatcher | None:
    """The dispatcher of a scenario, None for none. Raises InputError for a partition that is not there, or shared."""
    if spec is None or spec.policy == "none":
        return None
    parts = {part.name: part for part in conf.partitions}
    cpus_of_node = {node.name: node.cpus for node in conf.nodes}
    seen: set[str] = set()
    cpus = []
    for name in spec.clusters:
        if name not in parts:
            raise InputError(f"workload.dispatch: no partition {name!r}")
        nodes = list(parts[name].nodes)
        if seen & set(nodes):
            raise InputError(f"workload.dispatch: {name} shares nodes with another cluster")
        seen |= set(nodes)
        cpus.append(sum(cpus_of_node[node] for node in nodes))
    for cut in spec.cuts:
        if cut.cluster not in spec.clusters:
            raise InputError(f"workload.dispatch.cuts: {cut.cluster!r} is none of the clusters")
    return Dispatcher(spec, cpus)
