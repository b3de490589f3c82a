"""Which records have changed since somebody looked: lists and saves of a thousand nodes go by it.

Where many ask (a run in pods: an observer, slurmrestd, each save of the state), records note each write to what is
listed or saved. Elsewhere they are plain and nobody pays for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from slurmtwin.models.slurmctld.tables import Job, Node

if TYPE_CHECKING:
    from slurmtwin.contract.cluster import NodeConf
    from slurmtwin.contract.jobs import JobRequest

Record = TypeVar("Record")
LEFT_OVER: Final = 1000
"""So many records that are in no table any more are remembered before they are forgotten together."""


class Changes(Generic[Record]):
    """Records by their last change."""

    def __init__(self) -> None:
        self.version = 0
        """Changes so far."""
        self._at: dict[Record, int] = {}
        """Record -> the version that it came with; the latest is the last."""

    def note(self, record: Record) -> None:
        """It has changed."""
        self.version = version = self.version + 1
        at = self._at
        at.pop(record, None)
        at[record] = version

    def since(self, version: int) -> list[Record]:
        """Those that changed after that version, the latest first."""
        out = []
        for record, at in reversed(self._at.items()):
            if at <= version:
                break
            out.append(record)
        return out

    def keep(self, records: Iterable[Record], count: int) -> None:
        """Forget all but these, once there are many others. count: how many they are."""
        if len(self._at) > count + LEFT_OVER:
            known = set(records)
            self._at = {record: at for record, at in self._at.items() if record in known}


NODE_FIELDS: Final = frozenset(
    ("conf", "base", "flags", "reason", "last_response_s", "boot_req_s", "power_req_s")
)  # fmt: skip
"""Of a node what is listed or saved."""
JOB_FIELDS: Final = frozenset(Job.__slots__) - {"timers", "work", "prio_key"}
"""Of a job what is listed or saved."""


class TrackedNode(Node):
    """A node that notes its changes."""

    __slots__ = ("changes",)
    changes: Changes[Node]

    def __init__(self, index: int, conf: NodeConf, changes: Changes[Node]) -> None:
        object.__setattr__(self, "changes", changes)
        super().__init__(index, conf)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name in NODE_FIELDS:
            self.changes.note(self)


class TrackedJob(Job):
    """A job that notes its changes. Lists that change in place do not: see `changes_in_place`."""

    __slots__ = ("changes",)
    changes: Changes[Job]

    def __init__(self, request: JobRequest, slurm_id: int, submit_s: int, changes: Changes[Job]) -> None:
        object.__setattr__(self, "changes", changes)
        super().__init__(request, slurm_id, submit_s)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name in JOB_FIELDS:
            self.changes.note(self)


def changes_in_place(job: Job) -> bool:
    """It has a list that may change without a write to the record: nobody can say that it stayed as it was."""
    return bool(job.array_waiting or job.dependency or job.het_job or job.prio_by_part) or len(job.parts) > 1
