"""One step at a time: from the recorded state before each real start, does the twin start the same job there?

The twin is led along the recording (led_twin.py). Before the starts of each recorded pass, the scheduler that made
them (main pass or backfill) runs one pass of its own, which must start these and no more. An equal start is carried
out inside the pass, as what the pass has planned so far is part of the state before its next start. At the first
other choice the twin's pass ends, the recorded start is carried out instead, and a new pass goes on from there: one
wrong choice does not spoil the next comparison, as it does in a free run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.events import Kind
from slurmtwin.contract.hostlist import expand
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import Scenario
from slurmtwin.models.slurmctld.parts import Placement, Refusal
from slurmtwin.models.slurmctld.scheduler import Scheduler
from slurmtwin.models.slurmctld.tables import Job, Partition
from slurmtwin.worlds.led_twin import LedTwin
from slurmtwin.worlds.start_times import StartTimes

BY_SCHEDULER: Final = ("main", "backfill")
LEADING: Final = (Kind.JOB_SUBMITTED, Kind.JOB_STARTED, Kind.JOB_ENDED, Kind.JOB_HELD, Kind.NODE_DRAINED)
"""Rows that the twin is led by."""


@dataclass(frozen=True, slots=True)
class Step:
    """One recorded start beside the twin's choice. Node sets are bitmaps; 0 when nothing would have started."""

    job: tuple[int, int | None] | None
    """None: the recorded pass started nothing more, the twin's did."""
    by: str
    t_ns: int
    nodes: int
    chosen: tuple[int, int | None] | None
    chosen_nodes: int

    @property
    def same(self) -> bool:
        """The same job on the same nodes."""
        return self.job == self.chosen and self.nodes == self.chosen_nodes


@dataclass(frozen=True, slots=True)
class _Start:
    """One recorded start. Nodes as a bitmap."""

    job: tuple[int, int | None]
    by: str
    t_ns: int
    nodes: int


class _PassOverError(Exception):
    """Ends a pass of the twin early; not an error of anybody's."""


class _PassAlong:
    """One pass of the twin beside the starts of a recorded one, as far as they are equal."""

    def __init__(self, twin: LedTwin, starts: Sequence[_Start], by: str) -> None:
        self._twin = twin
        self._starts = starts
        self._by = by
        self._nodes = 0
        """Nodes of the last placement."""
        self._split: Job | None = None
        """The array task that was compared when it was split off."""
        self.steps: list[Step] = []

    def run(self) -> list[Step]:
        """The steps up to the first that differs. One for each recorded start, and one if the twin starts more."""
        twin = self._twin
        schedulers = twin.ctld.schedulers
        assert isinstance(schedulers, Scheduler)
        ask: Callable[[], int] = schedulers.run_pass if self._by == "main" else schedulers.backfill.run_cycle
        selection, lifecycle = twin.ctld.selection, twin.lifecycle
        doubles: tuple[tuple[object, str, Callable[..., Any]], ...] = (
            (selection, "select_nodes", self._select_nodes), (lifecycle, "split_task", self._split_task),
            (lifecycle, "start", self._start), (lifecycle, "preempt", lambda *_: None),
        )  # fmt: skip
        for target, name, double in doubles:
            setattr(target, name, double)
        try:
            ask()
            self._note(None, 0)  # its pass ended before the recorded one
        except _PassOverError:
            pass
        finally:
            for target, name, _ in doubles:
                delattr(target, name)
        return self.steps

    def _note(self, chosen: tuple[int, int | None] | None, nodes: int) -> None:
        place = len(self.steps)
        if place < len(self._starts):
            real = self._starts[place]
            self.steps.append(Step(real.job, real.by, real.t_ns, real.nodes, chosen, nodes))
        elif chosen is not None:
            self.steps.append(Step(None, self._by, self._twin.env.now_ns, 0, chosen, nodes))

    def _compare(self, job: Job, task: int | None, nodes: int) -> None:
        self._note((job.request.job_id, task), nodes)
        if not self.steps[-1].same:
            raise _PassOverError

    def _select_nodes(self, job: Job, part: Partition, avail: int, now_s: int) -> Placement | Refusal:
        selection = self._twin.ctld.selection
        found = type(selection).select_nodes(selection, job, part, avail, now_s)
        if isinstance(found, Placement):
            self._nodes = found.allocation.nodes
        return found

    def _split_task(self, meta: Job) -> Job:
        self._compare(meta, (meta.array_waiting or [0])[0], self._nodes)
        lifecycle = self._twin.lifecycle
        self._split = type(lifecycle).split_task(lifecycle, meta)
        return self._split

    def _start(self, job: Job, part: Partition, placement: Placement, by: str) -> None:
        if job is not self._split:
            self._compare(job, job.array_task, placement.allocation.nodes)
        self._split = None
        lifecycle = self._twin.lifecycle
        type(lifecycle).start(lifecycle, job, part, placement, by)


def steps(
    scenario: Scenario, base_dir: Path, jobs: Iterable[JobRequest], rows: Sequence[Any], times: StartTimes
) -> list[Step]:
    """Every recorded start by a scheduler beside the twin's choice. `rows`: the recording's event rows, in order."""
    twin = LedTwin(scenario, base_dir, jobs, times)
    interval_ns = twin.bf_interval_ns
    out: list[Step] = []
    for group in passes(rows, interval_ns):
        first = group[0]
        twin.advance(first.t_ns)
        for row in group:
            if row.kind == Kind.JOB_SUBMITTED:
                twin.submit(row.job_id)
        started = [row for row in group if row.kind == Kind.JOB_STARTED]
        if first.kind == Kind.JOB_ENDED:
            detail = _detail(first)
            twin.end(first.job_id, detail.get("array_task"), detail)
        elif first.kind == Kind.JOB_HELD:
            twin.hold(first.job_id, _detail(first).get("array_task"))
        elif first.kind == Kind.NODE_DRAINED:
            twin.drain(expand(first.node))
        elif started:
            out += _compare(twin, started)
    return out


def _compare(twin: LedTwin, rows: Sequence[Any]) -> list[Step]:
    """The starts of one recorded pass."""
    starts: list[_Start] = []
    for row in rows:
        detail = _detail(row)
        nodes = twin.ctld.nodes.bitmap(expand(row.node))
        starts.append(_Start((row.job_id, detail.get("array_task")), detail.get("by", "main"), row.t_ns, nodes))
    for start in starts:
        twin.submit(start.job[0])  # a start proves the submission, which slurmctld may log a moment later
        twin.free(start.nodes)
    out: list[Step] = []
    while starts:
        if starts[0].by in BY_SCHEDULER:
            found = _pass_along(twin, starts)
            out += found
            starts = starts[sum(step.same for step in found) :]
            if not starts:
                break
        missed = starts.pop(0)
        twin.start(*missed.job, missed.nodes, missed.by)
    return out


def _pass_along(twin: LedTwin, starts: Sequence[_Start]) -> list[Step]:
    """One pass, or what is left of it in another state that the recording allows as well.

    The log does not say when a node stopped COMPLETING. So where the twin's own guess leads to another choice, that
    choice counts only if it comes in every state in which the recorded pass may have found the nodes.
    """
    by = starts[0].by
    found = _PassAlong(twin, starts, by).run()
    equal = sum(step.same for step in found)
    if equal == len(found):
        return found
    nodes = twin.ctld.nodes
    last = found[-1]
    if last.job is not None and last.chosen is not None and twin.put_before(last.job[0], last.chosen[0]):
        return found[:-1] + _pass_along(twin, starts[equal:])
    modelled, proven = nodes.completing, 0
    for start in starts:
        proven |= start.nodes
    for completing in twin.other_completing(proven):
        nodes.completing = completing
        again = _PassAlong(twin, starts[equal:], by).run()
        nodes.completing = modelled
        if not again or again[0].same:
            return found[:equal] + again
    return found


def passes(rows: Iterable[Any], interval_ns: int) -> Iterator[list[Any]]:
    """Rows in groups: submissions and ends alone; the starts of one pass together, with what was submitted meanwhile.

    A pass holds the locks: no job ends in it, and a submission that is logged in it was made before. Main passes
    are logged as they begin; backfill sleeps bf_interval after each cycle.
    """
    group: list[Any] = []
    by = ""
    begun_ns = 0
    for row in rows:
        if row.kind == Kind.SCHED_MAIN_PASS and by == "main":
            yield from _ungrouped(group)
            group, by = [], ""
        if row.kind not in LEADING or (row.job_id is None and row.kind != Kind.NODE_DRAINED):
            continue
        if row.kind == Kind.JOB_STARTED:
            its = _detail(row).get("by", "main")
            same = bool(by) and its == by and (by == "main" or row.t_ns - begun_ns < interval_ns)
            if not same:
                yield from _ungrouped(group)
                group, by, begun_ns = [], its if its in BY_SCHEDULER else "", row.t_ns
            group.append(row)
            if not by:
                yield group
                group = []
        elif row.kind == Kind.JOB_SUBMITTED and by:
            group.append(row)
        else:
            yield from _ungrouped(group)
            group, by = [], ""
            yield [row]
    yield from _ungrouped(group)


def _ungrouped(group: list[Any]) -> Iterator[list[Any]]:
    """A pass ends with its last start; what is logged behind that stands alone."""
    if not group:
        return
    last = max(i for i, row in enumerate(group) if row.kind == Kind.JOB_STARTED)
    yield group[: last + 1]
    for row in group[last + 1 :]:
        yield [row]


def _detail(row: Any) -> dict[str, Any]:
    return json.loads(row.detail) if row.detail else {}


def replay_starts(
    scenario: Scenario, base_dir: Path, jobs: Iterable[JobRequest], rows: Sequence[Any], times: StartTimes
) -> tuple[int, int]:
    """(starts, those with equal job and nodes in both); what the twin starts beyond a recorded pass counts too.

    Not for scenarios with faults.
    """
    if scenario.faults:
        return 0, 0
    found = steps(scenario, base_dir, jobs, rows, times)
    return len(found), sum(step.same for step in found)
