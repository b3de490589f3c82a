"""The forms of events that a plain run has: all columns but time, job, node, value and one number of the detail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slurmtwin.contract.events import Kind

(
    SUBMITTED, STARTED_BY_MAIN, STARTED_BY_BACKFILL, MAIN_PASS, BACKFILL_CYCLE, SCRIPT_STARTED, SCRIPT_ENDED,
    SCRIPT_KILLED, COMPLETED_WELL, FAILED, TIMED_OUT, COMPLETED, PURGED, PENDING_PRIORITY, PENDING_RESOURCES, PLANNED,
) = range(16)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Form:
    """What is the same in all events of a form. The detail is `before`, a number if `numbered`, `after`."""

    kind: Kind
    actor: str
    unit: str | None = None
    """With a unit there is a value."""
    before: str | None = None
    after: str = ""
    numbered: bool = False
    job: bool = True
    node: bool = False


FORMS: Final = (
    Form(Kind.JOB_SUBMITTED, "slurmctld", None, '{"slurm_id":', "}", numbered=True),
    Form(Kind.JOB_STARTED, "slurmctld", "cpu", '{"by":"main"}', node=True),
    Form(Kind.JOB_STARTED, "backfill", "cpu", '{"by":"backfill"}', node=True),
    Form(Kind.SCHED_MAIN_PASS, "slurmctld", "job", '{"started":', "}", numbered=True, job=False),
    Form(Kind.SCHED_BACKFILL_CYCLE, "backfill", "job", '{"started":', "}", numbered=True, job=False),
    Form(Kind.SCRIPT_STARTED, "slurmd", node=True),
    Form(Kind.SCRIPT_ENDED, "slurmd", None, '{"exit_code":', "}", numbered=True, node=True),
    Form(Kind.SCRIPT_ENDED, "slurmd", None, '{"exit_code":0,"signal":15}', node=True),
    Form(Kind.JOB_ENDED, "slurmctld", None, '{"exit_code":', ',"state":"COMPLETED"}', numbered=True),
    Form(Kind.JOB_ENDED, "slurmctld", None, '{"exit_code":', ',"state":"FAILED"}', numbered=True),
    Form(Kind.JOB_ENDED, "slurmctld", None, '{"exit_code":', ',"state":"TIMEOUT"}', numbered=True),
    Form(Kind.JOB_COMPLETED, "slurmctld"),
    Form(Kind.JOB_PURGED, "slurmctld"),
    Form(Kind.JOB_PENDING, "slurmctld", None, '{"reason":"Priority"}'),
    Form(Kind.JOB_PENDING, "slurmctld", None, '{"reason":"Resources"}'),
    Form(Kind.JOB_PLANNED, "backfill", "ns", node=True),
)  # fmt: skip
"""By number."""
