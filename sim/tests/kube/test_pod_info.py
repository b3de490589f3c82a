"""slurm-operator writes on a Slurm node where its pod runs, once the pod is ready, and its pass waits for that."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replicated_runs import SCENARIOS, recorded, replicated
from test_taken_back import start_times, under_slurm_operator

from slurmtwin.adapters import operator_process
from slurmtwin.adapters.pod_info import at_the_end, slow_start
from slurmtwin.campaign.recorded_comments import NEVER_NS, TAKEN_BACK_NS, commented, informed_from_ns
from slurmtwin.campaign.recorded_starts import RecordedStarts
from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.worlds.twin import TwinOptions, run_scenario
from slurmtwin_operator.core.actions import CommentNode, DrainNode, ResumeNode
from slurmtwin_operator.core.observed import SlurmNode

FAULTS = SCENARIOS / "faults"


@given(items=st.lists(st.integers(), max_size=40))
def test_batches_double(items: list[int]) -> None:
    """controller_utils SlowStartBatch() of batches of 1: each but the last is twice the one before."""
    batches = slow_start(items)
    assert [item for batch in batches for item in batch] == items
    sizes = [len(batch) for batch in batches]
    assert all(size == 2**place for place, size in enumerate(sizes[:-1]))
    assert all(0 < size <= 2**place for place, size in enumerate(sizes))


def test_comments_and_moved_nodes_come_at_the_end_others_at_once() -> None:
    """A node that is drained is resumed at once, one that is DOWN behind its comment."""
    drain, moved, ours = DrainNode("w-0", "r"), ResumeNode("w-1"), ResumeNode("w-2")
    comments = [CommentNode(f"w-{place}", "worker3") for place in (1, 2)]
    nodes = [SlurmNode("w-1", "DOWN"), SlurmNode("w-2", "IDLE", ("DRAIN",))]
    at_once, chains = at_the_end([moved, ours, drain, *comments], nodes)
    assert at_once == [ours, drain]
    assert chains == [(comments[0], moved), (comments[1],)]


def passes(monkeypatch: pytest.MonkeyPatch, name: str) -> list[tuple[int, int]]:
    """Of each pass: comments that it writes, and nanoseconds from its last change before them to its status."""
    found: list[tuple[int, int]] = []
    changed, settled = operator_process._Process._changed, operator_process._Process._settled
    began_ns: dict[int, int] = {}

    def began(process: Any, deciding: Any) -> None:
        began_ns[id(deciding)] = process.clock.now_ns
        changed(process, deciding)

    def ended(process: Any, deciding: Any, *states: Any) -> None:
        if process._port._last.answer == "fresh" and not process._port._direct(process._port._informing):
            found.append((len(deciding.chains), process.clock.now_ns - began_ns[id(deciding)]))
        settled(process, deciding, *states)

    monkeypatch.setattr(operator_process._Process, "_changed", began)
    monkeypatch.setattr(operator_process._Process, "_settled", ended)
    run_scenario(load_scenario(FAULTS / f"{name}.yaml"), FAULTS, TwinOptions())
    return found


@pytest.mark.parametrize("name", ["x42-drain-protected", "x1-slinky", "x37-slinky"])
def test_a_pass_waits_a_look_for_its_list_and_one_for_each_batch_of_comments(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the operator's own log two looks with one comment, three with two."""
    found = [one for one in passes(monkeypatch, name) if one[1] >= SECOND]
    assert {comments for comments, _ in found} > {0}
    for comments, took_ns in found:
        looks = 1 + len(slow_start(range(comments)))
        assert looks * SECOND <= took_ns < looks * SECOND + 200 * MS


LATE = [("14", 2.429), ("29", 2.579), ("28", 1.874), ("6", 0.748), ("7", 0.312)]
"""Recordings of x42-drain-busy, and when they drained; without comments the first three drain a look earlier."""


@pytest.mark.parametrize(("recording", "drained_s"), LATE)
def test_a_cordon_waits_for_the_pass_that_writes_comments(recording: str, drained_s: float) -> None:
    """Two of four workers had been taken back, and were restored just before the drain."""
    for number in range(3):
        rows = replicated(FAULTS / "x42-drain-busy.yaml", recording, number)
        fault_ns = next(row.t_ns for row in rows if row.kind == "fault.injected")
        drained_ns = next(row.t_ns for row in rows if row.kind == "node.drained")
        assert (drained_ns - fault_ns) / SECOND == pytest.approx(drained_s, abs=0.08)


@pytest.mark.parametrize(
    ("recording", "workers"), [("6", ("w-0", "w-1")), ("14", ("w-1",)), ("28", ()), ("10", ("w-0", "w-1"))]
)
def test_what_a_recorded_pass_had_commented_is_read_off_its_statuses(recording: str, workers: tuple[str, ...]) -> None:
    """#6 had commented w-1 with the pass before its last and w-0 with that, #14 w-1 with its last, #28 none."""
    assert tuple(sorted(start_times("x42-drain-busy", recording).commented)) == workers


def before_fault(name: str, recording: str) -> tuple[RecordedStarts, int]:
    """What replications of a recording read of it, and its first fault."""
    history = recorded(name, recording)
    starts = RecordedStarts(history.manifest.parameters["epoch_ns"], load_scenario(FAULTS / f"{name}.yaml"))
    rows = list(history.rows())
    for row in rows:
        starts.take(row)
    return starts, next(row.t_ns for row in rows if row.kind == "fault.injected")


def test_where_a_ready_worker_has_no_comment_the_next_status_comes_a_pass_later() -> None:
    """docs/surprises.md: 30 times of 32, where no fault comes first."""
    behind: Counter[str] = Counter()
    for run in under_slurm_operator():
        starts, fault_ns = before_fault(*run)
        informed_ns = informed_from_ns(starts._firsts.get("rest_ns"), starts._firsts.get("made_ns"))
        for place, status_ns in enumerate(starts._statuses):
            known = commented(starts._statuses[: place + 1], starts._ready, informed_ns)
            left = [
                pod for pod, times in starts._ready.items()
                if pod not in known and any(a < status_ns and status_ns + TAKEN_BACK_NS < b for a, b in times)
            ]  # fmt: skip
            if left:
                following = [*starts._statuses[place + 1 :], NEVER_NS][0] - status_ns
                looks = next((n for n in (3, 4) if n * SECOND <= following < n * SECOND + 250 * MS), 0)
                over = fault_ns - status_ns < 4 * SECOND
                behind["pass" if looks else "fault" if following > NEVER_NS // 2 and over else "other"] += 1
    assert behind == {"pass": 30, "fault": 10, "other": 2}
