"""Slurm's job numbers to the workload's: by what sbatch answered, by time (a lost state reuses numbers)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from slurmtwin_e2e.collect.slurmctld_log import Fact

UNANSWERED: Final = "Socket timed out on send/recv operation"
"""sbatch's last word when slurmctld took its request and did not answer within MessageTimeout (slurm_errno.c)."""
_NAME = re.compile(r"(\d+)(?:_(\d+|\*|\[[^\]]*\]))?(?:\+(\d+))?(?:\((\d+)\))?")


class JobNumbers:
    """Knows for each Slurm job number at each time the workload's job and, for arrays, the task."""

    def __init__(self) -> None:
        self._submits: dict[int, list[tuple[int, int]]] = {}
        self._tasks: dict[int, list[tuple[int, int, int]]] = {}
        self._groups: dict[int, list[tuple[int, list[int]]]] = {}

    def submitted(self, t_ns: int, slurm_id: int, numbers: list[int]) -> None:
        """sbatch answered slurm_id for these workload jobs (several: a heterogeneous job)."""
        self._groups.setdefault(slurm_id, []).append((t_ns, numbers))
        for offset, number in enumerate(numbers):
            self._submits.setdefault(slurm_id + offset, []).append((t_ns, number))

    def components(self, slurm_id: int, t_ns: int) -> list[tuple[int, int]]:
        """(Slurm's number, workload's job) of every component of the heterogeneous job that this number leads."""
        rows = self._groups.get(slurm_id)
        if not rows:
            return []
        numbers = rows[max(bisect_right(rows, t_ns, key=lambda row: row[0]) - 1, 0)][1]
        return [(slurm_id + offset, number) for offset, number in enumerate(numbers)]

    def task(self, t_ns: int, slurm_id: int, array_id: int, task: int) -> None:
        """A log or a script said that slurm_id is that task of that array."""
        known = self._tasks.setdefault(slurm_id, [])
        if not known or known[-1][1:] != (array_id, task):
            known.append((t_ns, array_id, task))

    def _number(self, slurm_id: int, t_ns: int) -> int | None:
        rows = self._submits.get(slurm_id)
        if not rows:
            return None
        place = bisect_right(rows, (t_ns, 1 << 62))
        return rows[max(place - 1, 0)][1]

    def resolve(self, slurm_id: int, t_ns: int) -> tuple[int, int | None] | None:
        """(workload job, task or None) for a plain number as jobcomp and scripts have it."""
        rows = self._tasks.get(slurm_id)
        if rows:
            place = bisect_right(rows, (t_ns, 1 << 62, 0))
            _, array_id, task = rows[max(place - 1, 0)]
            number = self._number(array_id, t_ns)
            return None if number is None else (number, task)
        number = self._number(slurm_id, t_ns)
        return None if number is None else (number, None)

    def resolve_text(self, text: str, t_ns: int) -> tuple[int, int | None] | None:
        """The same for the text of a log: `12`, `10_3(13)`, `20+1(21)`."""
        found = _NAME.match(text)
        if not found:
            return None
        leader, task, component, real = found.groups()
        if task is not None and task.isdigit():
            if real is not None:
                self.task(t_ns, int(real), int(leader), int(task))
            number = self._number(int(leader), t_ns)
            return None if number is None else (number, int(task))
        if component is not None:
            return self.resolve(int(real) if real else int(leader) + int(component), t_ns)
        return self.resolve(int(leader), t_ns)


def learn(numbers: JobNumbers, notes: list[dict[str, Any]]) -> None:
    """Take in the answers that the driver noted."""
    for note in notes:
        if note["what"] == "action" and note["action"]["do"] in ("submit", "salloc") and note.get("slurm_id"):
            numbers.submitted(note["before"], note["slurm_id"], note["action"]["jobs"])


def answer_from_log(notes: list[dict[str, Any]], facts: Iterable[Fact]) -> None:
    """Give submissions that sbatch gave up the number under which slurmctld's log took them in afterwards.

    Only where one submission alone can be meant: begun before the line of the log, and not answered otherwise.
    """
    submits = [note for note in notes if note["what"] == "action" and note["action"]["do"] == "submit"]
    answered = {note["slurm_id"] for note in submits if note.get("slurm_id")}
    open_ = [note for note in submits if not note.get("slurm_id") and UNANSWERED in (note.get("stderr") or "")]
    for fact in facts:
        if fact.what != "submit" or not fact.parts["job"].isdigit() or int(fact.parts["job"]) in answered:
            continue
        meant = [note for note in open_ if note["before"] <= fact.t_ns]
        if len(meant) == 1:
            meant[0]["slurm_id"] = int(fact.parts["job"])
            open_.remove(meant[0])
