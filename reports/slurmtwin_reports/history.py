"""A run as the checkers see it: rows in order, the manifest, the workload, facts of the cluster. Nothing else.

Rows come from a run folder (load.py) or from events in memory; both are walked the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from slurmtwin.contract.cluster_facts import ClusterFacts
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Event
from slurmtwin.contract.hostlist import expand
from slurmtwin.contract.manifest import Manifest

JobKey = tuple[int, int]
"""(workload job number, array task or -1)."""


SHORT_DETAIL: Final = 200
"""Characters of a detail that is parsed once: of 220,000 in 300 recordings 213,000 come more than once."""
_parsed = lru_cache(maxsize=4096)(json.loads)


class Row(NamedTuple):
    """One row of the event table, as plain values; `kind` is the text of a contract.events.Kind."""

    seq: int
    t_ns: int
    t_err_ns: int
    kind: str
    actor: str
    job_id: int | None
    node: str | None
    cause_seq: int | None
    value: int | None
    unit: str | None
    detail: str | None
    pod_uid: str | None = None
    cluster: str | None = None

    @property
    def details(self) -> dict[str, Any]:
        """The detail column, parsed; empty when there is none. Raises InputError when it is not a JSON object."""
        if not self.detail:
            return {}
        try:
            document = _parsed(self.detail) if len(self.detail) <= SHORT_DETAIL else json.loads(self.detail)
        except (ValueError, RecursionError) as error:
            raise InputError(f"row {self.seq}: detail is not JSON: {self.detail[:60]!r}") from error
        if not isinstance(document, dict):
            raise InputError(f"row {self.seq}: detail is not a JSON object: {self.detail[:60]!r}")
        return dict(document)

    @property
    def key(self) -> JobKey:
        """Which job this row is about; only for rows with a job_id."""
        assert self.job_id is not None
        if self.detail and '"array_task"' in self.detail:
            task = self.details["array_task"]
            if isinstance(task, int):
                return self.job_id, task
            raise InputError(f"row {self.seq}: array_task is not a number: {task!r}")
        return self.job_id, -1


@dataclass(slots=True)
class History:
    """One run to be judged. `jobs` is the workload by job number, each as contract.jobs.to_dict gives it."""

    manifest: Manifest
    rows_of: Any
    """Iterable of Row that can be walked again and again."""
    jobs: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    facts: ClusterFacts | None = None
    folder: str = ""
    memo: dict[str, Any] = field(default_factory=dict, repr=False)
    """What was derived from the rows once, for those who ask again."""

    @property
    def world(self) -> str:
        """twin, slurm or kind."""
        return self.manifest.world

    @property
    def sees_all(self) -> bool:
        """True for the twin, which writes every fact. A real world's rows are what its logs let through."""
        return self.world == "twin"

    @property
    def scenario(self) -> str:
        """The scenario's name."""
        return self.manifest.scenario

    @property
    def version(self) -> str:
        """The Slurm release the run is about, such as 24.11."""
        given = self.manifest.parameters.get("slurm_version") or self.manifest.software.get("slurm") or ""
        return ".".join(str(given).split(".")[:2])

    def rows(self) -> Iterator[Row]:
        """All rows in the table's order."""
        return iter(self.rows_of)


def rows_of_events(events: Iterable[Event]) -> list[Row]:
    """Rows of events in memory, numbered in their order."""
    return [
        Row(seq, e.t_ns, e.t_err_ns, str(e.kind), e.actor, e.job_id, e.node, e.cause_seq, e.value, e.unit, e.detail,
            e.pod_uid, e.cluster)
        for seq, e in enumerate(events)
    ]  # fmt: skip


def history_of(
    manifest: Manifest,
    events: Iterable[Event],
    jobs: Mapping[int, Mapping[str, Any]] | None = None,
    facts: ClusterFacts | None = None,
) -> History:
    """A history from events in memory; facts default to those in the manifest."""
    return History(manifest, rows_of_events(events), jobs or {}, facts or facts_in(manifest))


def facts_in(manifest: Manifest) -> ClusterFacts | None:
    """The cluster facts that a world wrote to the manifest, or None."""
    document = manifest.parameters.get("cluster")
    return ClusterFacts.from_dict(document) if isinstance(document, dict) else None


@lru_cache(maxsize=65_536)
def nodes_of(text: str) -> Sequence[str]:
    """Node names of a hostlist, cached: the same sets come back many times."""
    return tuple(expand(text))


def fault_of(row: Row) -> dict[str, Any]:
    """The fault of a fault.injected row as the scenario wrote it."""
    details = row.details
    inner = details.get("fault")
    return inner if isinstance(inner, dict) else details


def forgets(row: Row) -> bool:
    """May slurmctld have forgotten something at this row: a crash (slurm.md 5.3), its host gone, or its state lost."""
    if row.kind != "fault.injected":
        return row.kind == "slurmctld.crashed"
    return kills_slurmctld(row) or loses_state(row) or takes_its_host(row)


HOST_FAULTS: Final = ("kube_node.pause", "kube_node.stop", "kube_node.restart", "kube_node.delete")


def takes_its_host(row: Row) -> bool:
    """slurmctld's machine goes: whoever serves next begins with the last save (seen: x4, a start is made again)."""
    if row.kind != "fault.injected":
        return False
    fault = fault_of(row)
    return fault.get("kind") in HOST_FAULTS and fault.get("target") == "node-of:slurmctld"


def kills_slurmctld(row: Row) -> bool:
    """slurmctld's process is killed in its pod; the fault's signal is KILL where none is named."""
    if row.kind != "fault.injected":
        return False
    fault = fault_of(row)
    killed = fault.get("kind") == "process.signal" and fault.get("signal", "KILL") == "KILL"
    return killed and fault.get("target") == "slurmctld"


def loses_state(row: Row) -> bool:
    """The saved state is gone: every job is forgotten (slurm.md 5.2 "job_state missing")."""
    return row.kind == "fault.injected" and fault_of(row).get("kind") == "slurmctld.lose_state"


def label(key: JobKey) -> str:
    """`12` or `12_3`, as squeue prints an array task."""
    return str(key[0]) if key[1] < 0 else f"{key[0]}_{key[1]}"


def at(t_ns: int) -> str:
    """A time for messages: seconds since the scenario's start."""
    return f"{t_ns / 1e9:.9g} s"
