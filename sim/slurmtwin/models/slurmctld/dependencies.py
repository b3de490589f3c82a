"""--dependency: after, afterany, afterok, afternotok, aftercorr, singleton (job_scheduler.c, slurm.md 9).

They are tested when a queue is built for a pass, and in the 60 s purge: a job whose dependency is met becomes
eligible at the next pass, one whose dependency can never be met is cancelled there under kill_invalid_depend.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from slurmtwin.models.slurmctld.states import DependState, JobState, Reason

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job

KINDS: Final = ("after", "afterany", "afterok", "afternotok", "aftercorr", "afterburstbuffer")
_TARGET = re.compile(r"(\d+)(?:_(\d+|\*))?(?:\+(\d+))?\Z")


@dataclass(slots=True)
class Dependency:
    """One term. `alternative`: joined with `?`, any one suffices."""

    kind: str
    target: int = 0
    """The workload's number of the job it waits for; 0 for singleton."""
    task: int | None = None
    delay_s: int = 0
    alternative: bool = False
    state: DependState = DependState.NOT_YET


def parse(text: str) -> list[Dependency] | None:
    """The terms of a --dependency text; None when slurmctld would refuse it (update_job_dependency())."""
    if text.strip() in ("", "0"):
        return []
    found: list[Dependency] = []
    alternative = "?" in text
    for term in re.split(r"[,?]", text.strip()):
        name, _, rest = term.strip().partition(":")
        lower = name.lower()
        if lower == "singleton" and not rest:
            found.append(Dependency("singleton", alternative=alternative))
            continue
        if not rest and _TARGET.match(name):
            lower, rest = "afterany", name  # the old form: a bare job id
        if lower not in KINDS or not rest:
            return None
        for target in rest.split(":"):
            match = _TARGET.match(target)
            if match is None or (match[3] and lower != "after"):
                return None
            task = int(match[2]) if match[2] and match[2] != "*" else None
            found.append(Dependency(lower, int(match[1]), task, int(match[3] or 0) * 60, alternative))
    return found


class Dependencies:
    """Who waits for whom in one slurmctld."""

    def __init__(self, ctld: Slurmctld, lifecycle: Lifecycle) -> None:
        self._ctld = ctld
        self._lifecycle = lifecycle

    def attach(self, job: Job) -> bool:
        """Parse the request's dependency into the record. False: refused."""
        terms = parse(job.request.dependency)
        if terms is None or any(t.target == job.request.job_id for t in terms):
            return False
        job.dependency = list(terms)
        return True

    def state(self, job: Job) -> DependState:
        """test_job_dependency(): all terms, or one of those joined by `?`."""
        if not job.dependency:
            return DependState.SATISFIED
        any_met = and_failed = unmet = alternatives = False
        for term in job.dependency:
            assert isinstance(term, Dependency)
            if term.state is DependState.NOT_YET:
                term.state = self._test(job, term)
            alternatives = term.alternative
            if term.alternative:
                any_met |= term.state is DependState.SATISFIED
            else:
                and_failed |= term.state is DependState.NEVER
            unmet |= term.state is DependState.NOT_YET
        if any_met or not (alternatives or and_failed or unmet):
            job.dependency = []
            return DependState.SATISFIED
        return DependState.NEVER if and_failed or (alternatives and not unmet) else DependState.NOT_YET

    def _test(self, job: Job, term: Dependency) -> DependState:
        if term.kind == "singleton":
            return DependState.NOT_YET if self._another_of_that_name(job) else DependState.SATISFIED
        other = self._lifecycle.by_number(term.target)
        if other is None:
            return DependState.SATISFIED  # the record is gone: the dependency is lifted
        arrays = self._lifecycle.arrays
        task = job.array_task if term.kind == "aftercorr" and job.array_task is not None else term.task
        if task is not None:
            other = arrays.task_of(other, task)
            if other is None:
                return DependState.NOT_YET if arrays.has_waiting(term.target, task) else DependState.SATISFIED
            pending, done, well = _outcome(other)
        else:
            pending, done, well = arrays.outcome(other) if other.request.array else _outcome(other)
        return self._judge(term, other, pending, done, well)

    def _judge(self, term: Dependency, other: Job, pending: bool, done: bool, well: bool) -> DependState:
        if term.kind == "after":
            if pending:
                return DependState.NOT_YET
            due_s = other.start_s + term.delay_s
            late = not term.delay_s or (other.start_s and self._ctld.now_s() >= due_s)
            return DependState.SATISFIED if late else DependState.NOT_YET
        if not done:
            return DependState.NOT_YET
        if term.kind in ("afterany", "afterburstbuffer"):
            return DependState.SATISFIED
        met = well is not (term.kind == "afternotok")
        return DependState.SATISFIED if met else DependState.NEVER

    def _another_of_that_name(self, job: Job) -> bool:
        """A job of the same user and name runs, or is pending with a lower number (_find_singleton_job())."""
        name = job.request.name
        for other in self._ctld.jobs.values():
            if other is job or other.user != job.user or other.request.name != name:
                continue
            if other.state in (JobState.RUNNING, JobState.SUSPENDED):
                return True
            if other.pending and other.slurm_id < job.slurm_id:
                return True
        return False

    def test(self, job: Job) -> DependState:
        """The state now; a dependency that can never be met may end the job (handle_invalid_dependency())."""
        state = self.state(job)
        if state is DependState.NEVER and self._ctld.conf.controller.kill_invalid_depend:
            self._lifecycle.ends.cancel_pending(job, JobState.CANCELLED, Reason.DEPENDENCY_NEVER)
        return state


def _outcome(job: Job) -> tuple[bool, bool, bool]:
    """(pending, completed: over with no node left, complete: well) of a job by itself."""
    done = job.state.finished and not job.completing
    return job.pending, done, job.state is JobState.COMPLETED
