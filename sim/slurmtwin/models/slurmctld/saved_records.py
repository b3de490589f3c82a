"""Records as a save of slurmctld's state leaves them: copies, made anew of what has changed since the last save."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from slurmtwin.contract.cluster import NodeConf
from slurmtwin.models.slurmctld.changes import changes_in_place
from slurmtwin.models.slurmctld.states import NodeBase, NodeFlag
from slurmtwin.models.slurmctld.tables import Job, Node

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld


@dataclass(frozen=True, slots=True)
class SavedNode:
    """One record of node_state (node_mgr.c _dump_node_state())."""

    conf: NodeConf
    base: NodeBase
    flags: NodeFlag
    reason: str
    last_response_s: int
    boot_req_s: int
    power_req_s: int


class SavedRecords:
    """The copies of one slurmctld's records. Where changes are not tracked, all are made anew each time."""

    def __init__(self, ctld: Slurmctld) -> None:
        self._ctld = ctld
        self._nodes: list[SavedNode] = []
        self._nodes_at = 0
        """The change of a node that was taken over last."""
        self._jobs: dict[Job, Job] = {}
        """Record -> its copy."""
        self._jobs_at = 0

    def nodes(self) -> list[SavedNode]:
        """In table order, with the last answer that each record holds."""
        table, changes = self._ctld.nodes.nodes, self._ctld.node_changes
        if changes is None or len(self._nodes) != len(table):
            self._nodes = [_saved(node) for node in table]
        else:
            for node in changes.since(self._nodes_at):
                self._nodes[node.index] = _saved(node)
        self._nodes_at = changes.version if changes is not None else 0
        return list(self._nodes)

    def jobs(self) -> list[Job]:
        """In table order. References among them lead to the records themselves (copy_jobs() leads them to copies)."""
        table, changes = self._ctld.jobs, self._ctld.job_changes
        if changes is None:
            return [_copy(job, Job.__new__(Job)) for job in table.values()]
        for job in changes.since(self._jobs_at):
            self._jobs.pop(job, None)
        self._jobs_at = changes.version
        known, self._jobs = self._jobs, {}
        for job in table.values():
            copy = None if changes_in_place(job) else known.get(job)
            self._jobs[job] = _copy(job, Job.__new__(Job)) if copy is None else copy
        changes.keep(table.values(), len(table))
        return list(self._jobs.values())


def _saved(node: Node) -> SavedNode:
    return SavedNode(
        node.conf, node.base, node.flags, node.reason, node.last_response_s, node.boot_req_s, node.power_req_s
    )


def _copier() -> Callable[[Job, Job], Job]:
    """Copies every field of a record; lists are copied. Written out, as dataclasses writes its methods."""
    lines = ["def copy(job, twin):"]
    for name in Job.__slots__:
        if name in ("timers", "work", "prio_key"):
            lines.append(f"    twin.{name} = None")
        else:
            lines += [f"    value = job.{name}", f"    twin.{name} = value[:] if type(value) is list else value"]
    scope: dict[str, Any] = {}
    exec("\n".join([*lines, "    return twin"]), scope)  # noqa: S102  names of slots alone are in it
    return cast("Callable[[Job, Job], Job]", scope["copy"])


_copy: Final = _copier()


def copy_jobs(jobs: Iterable[Job], ctld: Slurmctld) -> list[Job]:
    """Records for a slurmctld that share nothing that changes with the old ones; references lead to the copies."""
    twins: dict[int, Job] = {}
    out: list[Job] = []
    for job in jobs:
        twin = twins[job.slurm_id] = _copy(job, ctld.job_record(job.request, job.slurm_id, job.submit_s))
        out.append(twin)
    for twin in out:
        for name in ("array_job", "preemptor"):
            other = getattr(twin, name)
            if other is not None:
                setattr(twin, name, twins.get(other.slurm_id))
        if twin.het_job is not None:
            twin.het_job = [twins[part.slurm_id] for part in twin.het_job if part.slurm_id in twins]
    return out
