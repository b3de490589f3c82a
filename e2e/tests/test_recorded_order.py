"""No recorded span that must be positive is negative by more than its errors, in every recording of the repository."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

Row = dict[str, Any]
RECORDINGS = Path(__file__).parents[2] / "scenarios" / "recordings"
IN_PODS = sorted(path.parent for path in RECORDINGS.glob("*/*/pods/*/events.jsonl.gz"))
ON_THE_HOST = sorted(
    path.parent for path in RECORDINGS.glob("*/*/*/*/events.jsonl.gz") if path.parent.parent.name != "pods"
)
LEAST_RUNS = 100
ORDERS = (
    ("pod_uid", "apiserver", ("pod.created", "pod.scheduled", "container.started", "pod.ready")),
    ("pod_uid", "apiserver", ("pod.created", "pod.deleting")),
    ("pod_uid", "collector", ("pod.created", "pod.scheduled", "pod.ready")),
    ("job", "", ("job.submitted", "job.started", "job.ended")),
    ("job", "", ("script.started", "script.ended")),
    ("fault", "", ("fault.injected", "fault.proven", "fault.cleared")),
)
"""(what joins the rows, their actor or any, kinds in the order in which they first happen)."""


def rows_of(folder: Path) -> list[Row]:
    """A run's events."""
    with gzip.open(folder / "events.jsonl.gz", "rt") as stream:
        return [json.loads(line) for line in stream]


def subject(row: Row, joined: str) -> Any:
    """What the row is about: a pod, a job (or a task of an array), a fault of the scenario."""
    if joined == "pod_uid":
        return row.get("pod_uid")
    known = json.loads(row.get("detail") or "{}")
    if joined == "job":
        return row.get("job_id") and (row["job_id"], known.get("array_task"))
    return json.dumps(known["fault"], sort_keys=True) if "fault" in known else None


def numbered_again(rows: list[Row]) -> set[int]:
    """Jobs whose number in Slurm was another's before: a slurmctld that lost its last seconds gives numbers twice.

    Until 22 November 2026 the end of the first one's script was recorded as the second one's.
    """
    submits = [row for row in rows if row["kind"] == "job.submitted"]
    numbers = [json.loads(row.get("detail") or "{}").get("slurm_id") for row in submits]
    return {row["job_id"] for place, row in enumerate(submits) if numbers[place] in numbers[:place]}


def spans(rows: list[Row]) -> Iterator[tuple[Row, Row]]:
    """Pairs of rows of which the first cannot be later than the second."""
    by_seq = {row["seq"]: row for row in rows}
    for row in rows:  # a receipt is tied to the stamp that it is the receipt of
        own = by_seq.get(row.get("cause_seq"))
        if own is not None and row["actor"] == "collector" and own["actor"] == "apiserver":
            yield own, row
    again = numbered_again(rows)
    for joined, actor, kinds in ORDERS:
        first: dict[Any, dict[str, Row]] = {}
        for row in rows:
            if row["kind"] in kinds and actor in ("", row["actor"]):
                about = subject(row, joined)
                if about is not None and not (row["actor"] == "script" and row["job_id"] in again):
                    first.setdefault(about, {}).setdefault(row["kind"], row)
        for found in first.values():
            seen = [found[kind] for kind in kinds if kind in found]
            yield from pairwise(seen)


def negative(rows: list[Row]) -> list[str]:
    """Spans that are negative beyond both errors, as FIRST -> SECOND: LENGTH ± ERROR in ms."""
    out = []
    for first, second in spans(rows):
        length, error = second["t_ns"] - first["t_ns"], first["t_err_ns"] + second["t_err_ns"]
        if length + error < 0:
            out.append(f"{first['kind']} -> {second['kind']}: {length / 1e6:.1f} ± {error / 1e6:.1f} ms")
    return out


def test_there_are_a_hundred_runs() -> None:
    """Pods and host together; each run in pods has spans to look at."""
    assert len(IN_PODS) + len(ON_THE_HOST) >= LEAST_RUNS
    assert min(sum(1 for _ in spans(rows_of(folder))) for folder in IN_PODS[:5]) > 20


@pytest.mark.parametrize("folder", IN_PODS, ids=lambda path: "/".join(path.parts[-4:]))
def test_no_span_of_a_run_in_pods_is_negative(folder: Path) -> None:
    """Stamps of objects, receipts, logs, scripts and faults agree with each other within their t_err_ns."""
    assert negative(rows_of(folder)) == []


def test_no_span_of_a_run_on_the_host_is_negative() -> None:
    """The same for jobs of runs without Kubernetes, as many as make up the hundred."""
    found = {}
    for folder in ON_THE_HOST[:LEAST_RUNS]:
        if wrong := negative(rows_of(folder)):
            found["/".join(folder.parts[-4:])] = wrong
    assert found == {}


def test_a_clock_that_is_off_is_seen() -> None:
    """A receipt half a second before its cut stamp is fine, one of more than both errors is not."""
    own = {"seq": 0, "kind": "pod.ready", "actor": "apiserver", "t_ns": 10_500_000_000, "t_err_ns": 500_000_000}
    good = {"seq": 1, "kind": "pod.ready", "actor": "collector", "t_ns": 10_010_000_000, "t_err_ns": 0, "cause_seq": 0}
    assert negative([own, good]) == []
    assert negative([own, good | {"t_ns": 9_990_000_000}]) == ["pod.ready -> pod.ready: -510.0 ± 500.0 ms"]
