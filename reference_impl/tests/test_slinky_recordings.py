"""The `slinky` switches beside the recorded slurm-operator: the same milestones in the same order, spans that overlap.

Each recorded scenario is told to the core as a story, with the pause before its step swept over the poll of 30 s. The
doubles stand for Kubernetes and Slurm with pod times of their own; what is compared is what the operator decides.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from slurmtwin.contract.events import Event, Kind
from slurmtwin_operator.designs import find_design
from slurmtwin_operator.testing.kube import FakeKube
from slurmtwin_operator.testing.scenarios import Step, Story, cordon, job, play, rest, scale
from slurmtwin_operator.testing.slurm import SECOND

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT / "scenarios" / "recordings"
SLINKY = find_design("slinky", ROOT / "scenarios/designs")
QUEUE = {
    "backoff_base_ns": SLINKY.carrier.backoff_base_ms * SECOND // 1000,
    "backoff_cap_ns": SLINKY.carrier.backoff_cap_s * SECOND,
    "poll_after_failure": SLINKY.carrier.poll_after_failure,
}
"""How the design's queue comes back after a failed pass."""
REST_START_S = 11
"""From the new replica of slurmrestd to its first answer, as x18 shows it (pod.ready)."""
SILENCE_S = (5, 31)
"""So long the first pass that found slurmrestd gone lasted in the operator's log of x18: a new connection was given up
after 5 s, an open one after 31 s. Stories take them in turn."""
START_S = 60
"""When a story's scenario begins: its two workers are idle long since."""
PHASES = tuple(range(0, 30, 3))
"""Seconds by which the step is put off: they sample the poll."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A milestone: a name, the row's kind, and the Slurm node, job or pod it is about ("" or 0: any)."""

    name: str
    kind: Kind
    node: str = ""
    job: int = 0


Row = tuple[float, str, int, str | None, str]
"""(seconds, kind, job, node, pod)."""


def fits(row: Row, wanted: Wanted) -> bool:
    """Is the row this milestone?"""
    _, kind, number, node, pod = row
    if kind != wanted.kind.value or (wanted.job and number != wanted.job):
        return False
    return not wanted.node or wanted.node == node or pod.endswith(f"/{wanted.node}")


def times(rows: Sequence[Row], after_s: float, milestones: Iterable[Wanted]) -> dict[str, float]:
    """When each milestone first came, seconds after the step; those that did not come are left out."""
    out = {}
    for wanted in milestones:
        found = next((row[0] for row in rows if row[0] >= after_s - 0.6 and fits(row, wanted)), None)
        if found is not None:
            out[wanted.name] = found - after_s
    return out


def told(events: Iterable[Event]) -> list[Row]:
    """A story's rows."""
    return [
        (e.t_ns / SECOND, e.kind.value, e.job_id or 0, e.node, json.loads(e.detail or "{}").get("pod", ""))
        for e in events
    ]


def recorded(folder: Path) -> list[Row]:
    """A recording's rows."""
    with gzip.open(folder / "events.jsonl.gz", "rt") as stream:
        lines = [json.loads(line) for line in stream]
    return [
        (line["t_ns"] / SECOND, line["kind"], line.get("job_id") or 0, line.get("node"),
         str(json.loads(line.get("detail") or "{}").get("pod", "")))
        for line in lines
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A recorded scenario as a story, and its milestones."""

    name: str
    steps: Callable[[int], tuple[Step, ...]]
    """Steps of the story, the deciding one put off by so many seconds."""
    at_s: int
    """When the deciding step of the story falls, without the pause."""
    step: tuple[str, int]
    """The same step in a recording: kind of its row, and which of them."""
    milestones: tuple[Wanted, ...]
    absent: tuple[Wanted, ...] = ()


def _busy(first_s: int, second_s: int) -> tuple[Step, ...]:
    return (20, job(1, first_s)), (21, job(2, second_s))


def _delete(pod: str, *, force: bool = False) -> Callable[[FakeKube], None]:
    return lambda kube: kube.delete_pod(pod, force=force)


TWO: Step = (0, scale(2))
DRAINED = Wanted("drained", Kind.NODE_DRAINED)
RESUMED = Wanted("resumed", Kind.NODE_RESUMED)
DOWN = Wanted("down", Kind.NODE_DOWN)
REQUEUED = Wanted("requeued", Kind.JOB_REQUEUED)


def _pod(name: str, kind: Kind, of: str) -> Wanted:
    return Wanted(name, kind, of)


CASES = (
    Case("x18-slinky",
         lambda p: (TWO, (START_S + p, rest("down")), (START_S + p + 10 + p // 3, _delete("w-1", force=True)),
                    (START_S + p + 60 + REST_START_S, rest("up"))),
         START_S + 60, ("fault.cleared", 1), (_pod("created", Kind.POD_CREATED, "w-1"),)),
    Case("x20-slinky",
         lambda p: (TWO, *_busy(400, 400), (START_S, rest("absent")), (START_S + 25 + p, scale(1))),
         START_S + 25, ("fault.injected", 2),
         (_pod("deleting", Kind.POD_DELETING, "w-1"), DOWN, REQUEUED), (DRAINED,)),
    Case("x32-slinky", lambda p: (TWO, (START_S + p, scale(1))), START_S, ("fault.injected", 1),
         (Wanted("drained", Kind.NODE_DRAINED, "w-1"), _pod("deleting", Kind.POD_DELETING, "w-1"),
          _pod("gone", Kind.POD_DELETED, "w-1")),
         (Wanted("record", Kind.NODE_DELETED, "w-1"), RESUMED)),
    Case("x33-slinky", lambda p: (TWO, *_busy(100, 500), (START_S + p, scale(1))), START_S, ("fault.injected", 1),
         (Wanted("drained", Kind.NODE_DRAINED, "w-0"), Wanted("ended", Kind.JOB_ENDED, job=1),
          _pod("deleting", Kind.POD_DELETING, "w-0")),
         (REQUEUED,)),
    Case("x35-slinky",
         lambda p: (TWO, *_busy(400, 400), (START_S + p, scale(1)), (START_S + p + 20, scale(2))), START_S,
         ("fault.injected", 1), (DRAINED, RESUMED), (REQUEUED, Wanted("deleting", Kind.POD_DELETING))),
    Case("x41-slinky",
         lambda p: (TWO, (20, job(1, 400)), (START_S + p, cordon("k0")), (START_S + p + 40, cordon("k0", False))),
         START_S, ("fault.injected", 1),
         (Wanted("drained", Kind.NODE_DRAINED, "w-0"), Wanted("resumed", Kind.NODE_RESUMED, "w-0")), (REQUEUED,)),
    Case("x47-slinky", lambda p: (TWO, (START_S + p, _delete("w-0"))), START_S, ("fault.injected", 1),
         (Wanted("down", Kind.NODE_DOWN, "w-0"), _pod("gone", Kind.POD_DELETED, "w-0"),
          _pod("created", Kind.POD_CREATED, "w-0")),
         (Wanted("up", Kind.NODE_UP, "w-0"), Wanted("resumed", Kind.NODE_RESUMED, "w-0"))),
)  # fmt: skip
"""X1 is not among them: no decision of an operator is in it (test_a_crash_is_none_of_its_business)."""


def folders(name: str) -> list[Path]:
    """The recorded repetitions."""
    return sorted(path for path in (RECORDINGS / name).glob("*/pods/*") if (path / "manifest.json").exists())


@cache
def played(name: str) -> tuple[tuple[dict[str, float], tuple[str, ...]], ...]:
    """(times of milestones, absent ones that came) of every swept story."""
    case = next(case for case in CASES if case.name == name)
    out = []
    for place, pause in enumerate(PHASES):
        story = Story(name, ((0, _no_return), *case.steps(pause)), 400, machines=2)
        silence_ns = SILENCE_S[place % len(SILENCE_S)] * SECOND
        kube, _ = play(story, SLINKY.switches, silence_ns=silence_ns, **QUEUE)
        rows = told(kube.events)
        at = case.at_s + pause
        out.append((times(rows, at, case.milestones), tuple(times(rows, at, case.absent))))
    return tuple(out)


def _no_return(kube: FakeKube) -> None:
    kube.slurm.return_to_service = int(SLINKY.slurm_conf["ReturnToService"])


@cache
def seen(name: str) -> tuple[tuple[dict[str, float], tuple[str, ...]], ...]:
    """The same of every recording."""
    case = next(case for case in CASES if case.name == name)
    out = []
    for folder in folders(name):
        rows = recorded(folder)
        kind, number = case.step
        at = [row[0] for row in rows if row[1] == kind][number - 1]
        out.append((times(rows, at, case.milestones), tuple(times(rows, at, case.absent))))
    return tuple(out)


TIE_S = 1.0
"""Two milestones nearer than that may stand in either order: stamps of the API are whole seconds."""
KNOWN: dict[tuple[str, str], str] = {}
"""(scenario, milestone) that did not come within the recording, or whose spans do not overlap, and why.

A stale entry fails.
"""

NAMES = [case.name for case in CASES]


def needs(name: str) -> Case:
    """The case; skipped while it is not recorded."""
    if not folders(name):
        pytest.skip(f"{name} has no recording")
    return next(case for case in CASES if case.name == name)


@pytest.mark.conformance
@pytest.mark.parametrize("name", NAMES)
def test_the_same_milestones_come(name: str) -> None:
    """What came in every recording comes in every story, and what never came in one never comes in the other."""
    needs(name)
    real, core = seen(name), played(name)
    listed = {milestone for scenario, milestone in KNOWN if scenario == name}
    assert {frozenset(one[0]) - listed for one in core} == {frozenset(one[0]) - listed for one in real}
    assert {one[1] for one in core} == {one[1] for one in real} == {()}


@pytest.mark.conformance
@pytest.mark.parametrize("name", NAMES)
def test_in_the_same_order(name: str) -> None:
    """Of two milestones that are more than a second apart in every recording, no story has the later one first."""
    needs(name)
    real, core = seen(name), played(name)
    for one in real[0][0]:
        for other in real[0][0]:
            if all(times_[0][other] - times_[0][one] > TIE_S for times_ in real):
                assert all(times_[0][other] > times_[0][one] for times_ in core), f"{one} before {other}"


@pytest.mark.conformance
@pytest.mark.parametrize("name", NAMES)
def test_spans_overlap(name: str) -> None:
    """From the deciding step to each milestone: recorded and played intervals meet, or the difference is listed."""
    needs(name)
    real, core = seen(name), played(name)
    for milestone in core[0][0]:
        recorded_s = [one[0][milestone] for one in real if milestone in one[0]]
        played_s = [one[0][milestone] for one in core]
        meet = bool(recorded_s) and (
            min(recorded_s) - TIE_S <= max(played_s) and min(played_s) <= max(recorded_s) + TIE_S
        )
        text = f"{milestone}: recorded {recorded_s} s, played {min(played_s):.1f}..{max(played_s):.1f} s"
        assert meet is not ((name, milestone) in KNOWN), text


def test_another_victim_is_found() -> None:
    """The comparison can fail: with the order of a StatefulSet the busy scale-in takes another node."""
    case = next(case for case in CASES if case.name == "x33-slinky")
    wrong = SLINKY.switches.model_copy(update={"victim_order": ("ordinal",)})
    kube, _ = play(Story("wrong", ((0, _no_return), *case.steps(0)), 400, machines=2), wrong)
    assert "drained" not in times(told(kube.events), START_S, case.milestones)


@pytest.mark.conformance
def test_a_crash_is_none_of_its_business() -> None:
    """X1: while supervisord restarts slurmctld the operator deletes no pod and drains no node."""
    if not folders("x1-slinky"):
        pytest.skip("x1-slinky has no recording")
    for folder in folders("x1-slinky"):
        rows = recorded(folder)
        at = next(row[0] for row in rows if row[1] == "fault.injected")
        assert {row[1] for row in rows if row[0] > at} & {"pod.deleting", "node.drained", "node.down"} == set()
