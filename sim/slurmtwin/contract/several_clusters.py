"""A scenario on several Kubernetes clusters, each with a Slurm of its own, as one scenario for each of them.

Entry k of `cluster`, of `slurm.nodes` and of `slurm.partitions` belong together; `workload.dispatch.clusters` are the
clusters' names and the partitions' alike. A job that names its partition is submitted there behind the dispatcher's
back; all others are the dispatcher's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from slurmtwin.contract.cluster_faults import ClusterFault
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import Dispatch, Fault, Scenario

WHOLE: Final = (Kind.RUN_STARTED, Kind.RUN_ENDED)
"""Rows of the whole run: no cluster's, and once in a table."""


def has_several(scenario: Scenario) -> bool:
    """Slurm in pods on more than one cluster."""
    return scenario.pods is not None and len(scenario.clusters) > 1


def dispatch_of(scenario: Scenario) -> Dispatch:
    """Its dispatcher. Raises InputError where clusters, node lines and partitions do not match."""
    spec = scenario.workload.dispatch
    if spec is None:
        raise InputError("several clusters need workload.dispatch", hint="dispatch: {clusters: [a, b], staleness: 5s}")
    names = [cluster.name for cluster in scenario.clusters]
    partitions = [str(line["PartitionName"]) for line in scenario.slurm.partitions]
    if spec.clusters != names or partitions != names or len(scenario.slurm.nodes) != len(names):
        raise InputError(
            f"clusters {', '.join(names)} need one NodeName line and one partition of their name each, in this order",
            hint="workload.dispatch.clusters names them too",
        )
    if scenario.workload.users is not None or scenario.workload.services:
        raise InputError("several clusters take listed, read or generated jobs alone")
    if scenario.slurm.accounting or scenario.pods is None or scenario.pods.operator:
        raise InputError("several clusters have plain manifests and no slurmdbd")
    if spec.policy != "least-loaded" or not spec.staleness or spec.away or spec.cuts:
        raise InputError(
            "several clusters: policy least-loaded with a staleness, without `away` and `cuts`",
            hint="faults: {kind: network.cut, cluster: a, target: slurmrestd, other: dispatcher}",
        )
    return spec


def own_faults(scenario: Scenario, name: str) -> list[Fault]:
    """The faults in one cluster. Raises InputError for one that no cluster is named for."""
    names = [cluster.name for cluster in scenario.clusters]
    found: list[Fault] = []
    for fault in scenario.faults:
        if not isinstance(fault, ClusterFault):
            raise InputError(f"{fault.kind}: several clusters take faults of clusters alone")
        where = fault.cluster or names[0]
        if where not in names:
            raise InputError(f"{fault.kind}: no cluster is called {where!r}", hint=", ".join(names))
        if where == name:
            found.append(fault)
    return found


def member(scenario: Scenario, place: int) -> Scenario:
    """What cluster `place` (from 0) is by itself: its nodes, its partition and its faults, and no workload.

    Nodes register themselves, so that slurm.conf cannot name them: the partition has them all.
    """
    dispatch_of(scenario)
    cluster = scenario.clusters[place]
    slurm = scenario.slurm.model_copy(
        update={
            "nodes": [scenario.slurm.nodes[place]],
            "partitions": [{**scenario.slurm.partitions[place], "Nodes": "ALL", "Default": "YES"}],
        }
    )
    workload = scenario.workload.model_copy(update={"jobs": [], "file": None, "generate": None, "dispatch": None})
    return scenario.model_copy(
        update={"cluster": cluster, "slurm": slurm, "workload": workload, "faults": own_faults(scenario, cluster.name)}
    )


def own_jobs(jobs: list[JobRequest], name: str) -> list[JobRequest]:
    """Those that users submit to a cluster themselves; with "" those of the dispatcher."""
    return [job for job in jobs if job.partition == name]


def one_table(tables: Sequence[tuple[str, Sequence[Event]]], more: Sequence[Event]) -> list[Event]:
    """All clusters' rows, each table in time order with its name, and those of nobody's cluster, in time order.

    Rows name their cluster, the run begins and ends once, causes keep to their rows.
    """
    entries: list[tuple[int, int, int, Event]] = []
    for number, (name, rows) in enumerate(tables):
        entries += [
            (row.t_ns, number, seq, row if row.kind in WHOLE else row._replace(cluster=name))
            for seq, row in enumerate(rows)
            if row.kind not in WHOLE or not number
        ]
    entries += [(row.t_ns, len(tables), seq, row) for seq, row in enumerate(more)]
    entries.sort(key=lambda entry: entry[:3])
    place = {(number, seq): at for at, (_, number, seq, _) in enumerate(entries)}
    return [
        row if row.cause_seq is None else row._replace(cause_seq=place[number, row.cause_seq])
        for _, number, _, row in entries
    ]
