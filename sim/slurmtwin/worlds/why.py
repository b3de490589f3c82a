"""Why a job waited: its pending reasons over time, and at each attempt which nodes were looked at and refused.

The scenario is run again with a switch that records the attempts of that one job; the run itself is unchanged,
so its event hash is that of any other run of the scenario and seed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurmtwin.contract.clock import format_duration
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld.attempt_trace import Attempt, AttemptTrace
from slurmtwin.worlds.twin import TwinOptions, run_scenario

if TYPE_CHECKING:
    from slurmtwin.contract.events import Event
    from slurmtwin.contract.jobs import JobRequest
    from slurmtwin.contract.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Span:
    """A pending reason and how long it lasted. end_ns None: to the end of the run."""

    reason: str
    start_ns: int
    end_ns: int | None


@dataclass(slots=True)
class Answer:
    """The story of one job."""

    job_id: int
    submit_ns: int | None = None
    start_ns: int | None = None
    started_by: str = ""
    nodes: str = ""
    rejected: str = ""
    spans: list[Span] = field(default_factory=list)
    planned: list[tuple[int, int, str]] = field(default_factory=list)
    """(when backfill planned it, expected start, nodes)."""
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def wait_ns(self) -> int | None:
        """Submit to first start."""
        if self.start_ns is None or self.submit_ns is None:
            return None
        return self.start_ns - self.submit_ns

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; times in nanoseconds since the scenario's start."""
        return {
            "job_id": self.job_id,
            "submit_ns": self.submit_ns,
            "start_ns": self.start_ns,
            "wait_ns": self.wait_ns,
            "started_by": self.started_by,
            "nodes": self.nodes,
            "rejected": self.rejected,
            "reasons": [{"reason": s.reason, "start_ns": s.start_ns, "end_ns": s.end_ns} for s in self.spans],
            "planned": [{"t_ns": t, "start_ns": s, "nodes": n} for t, s, n in self.planned],
            "attempts": [a.to_dict() for a in self.attempts],
        }

    def to_text(self) -> str:
        """For a terminal."""
        if self.rejected:
            return f"job {self.job_id} was refused at submit: {self.rejected}"
        if self.submit_ns is None:
            return f"job {self.job_id} was never submitted"
        lines = [self._headline(), *(self._span_line(span) for span in self.spans)]
        for t_ns, start_ns, nodes in self.planned:
            lines.append(f"  {_at(t_ns):>12}  backfill plans it for {_at(start_ns)} on {nodes}")
        for attempt in self.attempts:
            lines.append(f"  {_at(attempt.t_ns):>12}  {attempt.to_text()}")
        return "\n".join(lines)

    def _headline(self) -> str:
        assert self.submit_ns is not None
        if self.start_ns is None:
            return f"job {self.job_id}, submitted at {_at(self.submit_ns)}, never started"
        wait = format_duration((self.wait_ns or 0) // 1_000_000 * 1_000_000)
        return (
            f"job {self.job_id}, submitted at {_at(self.submit_ns)}, started at {_at(self.start_ns)} by "
            f"{self.started_by} on {self.nodes}, after {wait}"
        )

    def _span_line(self, span: Span) -> str:
        end = "the end" if span.end_ns is None else _at(span.end_ns)
        return f"  {_at(span.start_ns):>12}  {span.reason}, until {end}"


def _at(t_ns: int) -> str:
    return f"{t_ns / 1e9:.3f} s"


def explain(
    scenario: Scenario, base_dir: Path | str, job_id: int, seed: int = 0, jobs: Iterable[JobRequest] | None = None
) -> Answer:
    """Run the scenario and tell the story of one job. InputError when no such job is in the workload."""
    trace = AttemptTrace(job_id)
    options = TwinOptions(seed=seed, watch=trace, keep=True)
    run = run_scenario(scenario, base_dir, options, jobs)
    answer = story(job_id, run.kept or [])
    if answer.submit_ns is None and not answer.rejected:
        raise InputError(f"job {job_id} is not in the workload of scenario {scenario.name}")
    answer.attempts = trace.attempts
    return answer


def story(job_id: int, events: Iterable[Event]) -> Answer:
    """What the events alone say about a job's wait, up to its first start."""
    answer = Answer(job_id)
    for event in events:
        if event.job_id != job_id:
            continue
        _tell(answer, event)
        if answer.start_ns is not None or answer.rejected:
            break
    return answer


def _tell(answer: Answer, event: Event) -> None:
    detail = json.loads(event.detail) if event.detail else {}
    kind, t_ns = event.kind, event.t_ns
    if kind is Kind.JOB_SUBMITTED:
        answer.submit_ns = t_ns
    elif kind is Kind.JOB_REJECTED:
        answer.rejected = detail.get("reason", "")
    elif kind in (Kind.JOB_PENDING, Kind.JOB_HELD):
        _close(answer, t_ns)
        answer.spans.append(Span(detail.get("reason", ""), t_ns, None))
    elif kind is Kind.JOB_PLANNED:
        answer.planned.append((t_ns, event.value or 0, event.node or ""))
    elif kind is Kind.JOB_STARTED:
        answer.start_ns, answer.nodes, answer.started_by = t_ns, event.node or "", detail.get("by", "")
        _close(answer, t_ns)


def _close(answer: Answer, t_ns: int) -> None:
    if answer.spans and answer.spans[-1].end_ns is None:
        last = answer.spans[-1]
        answer.spans[-1] = Span(last.reason, last.start_ns, t_ns)
