"""Attempts to place one job, recorded for `why`: node selection with a listener in front, nothing else changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slurmtwin.models.slurmctld.parts import Placement, Refusal

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job, Partition


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call of node selection for the job."""

    t_ns: int
    how: str
    """now (main pass, submit, backfill's start) or later (backfill's look ahead)."""
    partition: str
    offered: str
    """Nodes the caller still had to give, as a hostlist."""
    outcome: str
    """placed, victims must go, or the kind of refusal."""
    reason: str
    considered: str
    """Nodes that were looked at and refused, or chosen."""
    expected_s: int | None = None
    """Seconds from then to the expected start, for a look ahead."""
    held_by: tuple[int, ...] = ()
    """Jobs that hold some of the offered nodes, by the workload's number (the first few)."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {name: getattr(self, name) for name in self.__slots__}

    def to_text(self) -> str:
        """One line for a terminal."""
        text = f"{self.how} in {self.partition}: {self.outcome}"
        if self.reason:
            text += f" ({self.reason})"
        if self.expected_s is not None:
            text += f", could start in {self.expected_s} s"
        text += f"; offered {self.offered or 'no node'}"
        if self.considered:
            text += f", candidates {self.considered}"
        if self.held_by:
            text += f"; held by {', '.join(map(str, self.held_by))}"
        return text


MOST_HOLDERS = 10


class AttemptTrace:
    """Listens to every attempt to place one job."""

    def __init__(self, job_id: int) -> None:
        self.job_id = job_id
        self.attempts: list[Attempt] = []

    def attach(self, ctld: Slurmctld) -> None:
        """Put the listener in front of the controller's node selection."""
        selection: Any = ctld.selection
        select, later = selection.select_nodes, selection.will_run

        def select_nodes(job: Job, part: Partition, avail: int, now_s: int) -> Placement | Refusal:
            found: Placement | Refusal = select(job, part, avail, now_s)
            if job.id == self.job_id:
                self._now(ctld, part, avail, found)
            return found

        def will_run(job: Job, part: Partition, avail: int, now_s: int, *more: Any, **options: Any) -> Any:
            found = later(job, part, avail, now_s, *more, **options)
            if job.id == self.job_id:
                self._later(ctld, part, avail, now_s, found)
            return found

        selection.select_nodes, selection.will_run = select_nodes, will_run

    def _holders(self, ctld: Slurmctld, nodes: int) -> tuple[int, ...]:
        out: list[int] = []
        for job in ctld.running.values():
            if job.alloc is not None and job.alloc.nodes & nodes:
                out.append(job.id)
                if len(out) == MOST_HOLDERS:
                    break
        return tuple(out)

    def _now(self, ctld: Slurmctld, part: Partition, avail: int, found: Placement | Refusal) -> None:
        table = ctld.nodes
        offered = table.hostlist(avail & part.nodes)
        if isinstance(found, Placement):
            outcome = "victims must go" if found.victims else "placed"
            chosen = table.hostlist(found.allocation.nodes)
            holders = tuple(v.id for v in found.victims[:MOST_HOLDERS])
            now_ns = ctld.env.now_ns
            self.attempts.append(Attempt(now_ns, "now", part.name, offered, outcome, "", chosen, None, holders))
            return
        considered = found.considered or avail & part.nodes
        self.attempts.append(
            Attempt(
                ctld.env.now_ns, "now", part.name, offered, found.kind, found.reason, table.hostlist(considered), None,
                self._holders(ctld, part.nodes),
            )
        )  # fmt: skip

    def _later(
        self, ctld: Slurmctld, part: Partition, avail: int, now_s: int, found: tuple[int, int] | Refusal
    ) -> None:
        table = ctld.nodes
        offered = table.hostlist(avail & part.nodes)
        if isinstance(found, Refusal):
            attempt = Attempt(ctld.env.now_ns, "later", part.name, offered, found.kind, found.reason, "")
        else:
            start_s, nodes = found
            attempt = Attempt(
                ctld.env.now_ns, "later", part.name, offered, "placed", "", table.hostlist(nodes), start_s - now_s
            )
        self.attempts.append(attempt)
