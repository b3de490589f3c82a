"""Objects, clocks and evidence of a cluster become rows whose intervals hold the true time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.contract.events import Event, Kind
from slurmtwin_e2e.kind.collect import clocks, evidence, pinning, table
from slurmtwin_e2e.kind.collect.clocks import DEFAULT_RECEIPT_NS, from_rounds
from slurmtwin_e2e.kind.collect.informer import Change
from slurmtwin_e2e.kind.collect.kube_rows import KubeRows, stamp_ns
from slurmtwin_e2e.kind.faults.schedule import Step
from slurmtwin_e2e.kind.manifests import keys

SECOND = 1_000_000_000
RUNNING = {"state": {"running": {"startedAt": "2026-01-01T00:00:05Z"}}, "name": "slurmd", "containerID": "c://1"}
OOM = {
    "containerID": "c://1", "finishedAt": "2026-01-01T00:00:09Z", "reason": "OOMKilled", "exitCode": 137,
}  # fmt: skip
DATA = Path(__file__).parent / "data" / "kind"


def pod(version: int, statuses: list[dict[str, Any]] | None = None, **meta: Any) -> dict[str, Any]:
    """A slurmd pod."""
    return {
        "metadata": {
            "uid": "u1", "name": "w-0", "namespace": "x", "resourceVersion": str(version), "labels": {"app": "slurmd"},
            "creationTimestamp": "2026-01-01T00:00:01Z", **meta,
        },
        "spec": {"nodeName": "worker"},
        "status": {"phase": "Running", "containerStatuses": statuses or [], "conditions": []},
    }  # fmt: skip


def rows_of(*objects: dict[str, Any], resource: str = "pods", last: str = "") -> list[tuple[Event, Event | None]]:
    """Rows of an object's versions, received at 1 s, 2 s … after the first."""
    out = KubeRows(1000)
    for number, found in enumerate(objects):
        verb = "ADDED" if not number else last if last and number == len(objects) - 1 else "MODIFIED"
        out.take(Change((number + 1) * SECOND, verb, resource, found))
    return out.rows


def test_an_api_stamp_is_the_middle_of_its_second() -> None:
    """metav1.Time is cut to seconds: + 0.5 s ± 0.5 s; the receipt is a row of its own."""
    (seen, own), *_ = rows_of(pod(1))
    assert seen.kind is Kind.POD_CREATED
    assert own is not None
    assert own.t_ns == (stamp_ns("2026-01-01T00:00:01Z") or 0) + SECOND // 2
    assert own.t_err_ns == SECOND // 2
    assert (seen.actor, own.actor, seen.t_err_ns) == ("collector", "apiserver", 1000)


def test_a_container_that_was_killed_and_restarted_gives_both_facts() -> None:
    """lastState tells the death that a quick restart hid; each container's end is told once."""
    again = {**RUNNING, "containerID": "c://2", "restartCount": 1, "lastState": {"terminated": OOM}}
    rows = [row for row, _ in rows_of(pod(1, [RUNNING]), pod(2, [again]), pod(3, [again]))]
    kinds = [row.kind for row in rows]
    assert kinds.count(Kind.CONTAINER_ENDED) == 1
    assert kinds.count(Kind.CONTAINER_STARTED) == 2
    end = next(row for row in rows if row.kind is Kind.CONTAINER_ENDED)
    assert json.loads(end.detail or "{}")["reason"] == "OOMKilled"
    assert rows[-1].value == 1


def test_a_deletion_time_is_told_without_its_grace() -> None:
    """deletionTimestamp lies the grace after the request."""
    going = pod(2, None, deletionTimestamp="2026-01-01T00:01:00Z", deletionGracePeriodSeconds=30)
    _, (seen, own), (gone, _) = [
        pair for pair in rows_of(pod(1), going, going, last="DELETED") if pair[0].kind is not Kind.POD_SCHEDULED
    ]
    assert own is not None
    assert (seen.kind, gone.kind, seen.value) == (Kind.POD_DELETING, Kind.POD_DELETED, 30)
    assert own.t_ns == (stamp_ns("2026-01-01T00:00:30Z") or 0) + SECOND // 2


def test_objects_that_were_there_before_the_run_are_no_news() -> None:
    """The first list gives no rows, later changes do."""
    out = KubeRows(1)
    out.take(Change(1, "LISTED", "pods", pod(1)))
    assert out.rows == []


@given(
    offset=st.integers(-(10**12), 10**12),
    rounds=st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=9),
)
def test_the_true_offset_lies_in_the_measured_interval(offset: int, rounds: list[tuple[int, int]]) -> None:
    """Whatever the two ways cost, |measured - true| <= error."""
    told, now = [], 0
    for there, back in rounds:
        told.append((now, now + there + offset, now + there + back))
        now += there + back + 5
    found = from_rounds("node", told)
    assert abs(found.value_ns - offset) <= found.error_ns


def lease(t_ns: int, stamp: str, name: str = "worker") -> Change:
    """A renewed lease, received at t_ns."""
    return Change(t_ns, "MODIFIED", "leases", {"metadata": {"uid": name, "name": name}, "spec": {"renewTime": stamp}})


def test_the_error_of_receipts_is_measured_by_leases() -> None:
    """The 95th percentile of receipt minus a lease's own stamp; a frozen node's leases are left out."""
    base = stamp_ns("2026-01-01T00:00:00.000000Z") or 0
    changes = [lease(base + n * SECOND + 5_000_000, f"2026-01-01T00:00:{n:02}.000000Z") for n in range(20)]
    late = lease(base + 90 * SECOND, "2026-01-01T00:00:20.000000Z", "frozen")
    assert clocks.watch_delay_ns([*changes, late], "frozen")[0] == 5_000_000
    assert clocks.watch_delay_ns([*changes, late])[0] > 5_000_000
    assert clocks.watch_delay_ns(changes[:2])[0] == DEFAULT_RECEIPT_NS


def test_a_renewed_lease_tells_how_late_it_was_received() -> None:
    """Receipt less its own stamp, in the row: how late receipts are may change within a run."""
    base = stamp_ns("2026-01-01T00:00:00.000000Z") or 0
    out = KubeRows(1)
    for second, late_ms in ((0, 4), (10, 5), (20, 31)):
        out.take(lease(base + second * SECOND + late_ms * 10**6, f"2026-01-01T00:00:{second:02}.000000Z"))
    rows = [row for row, _ in out.rows]
    assert [(row.t_ns - base, row.value, row.unit) for row in rows] == [
        (0, 4_000_000, "ns"), (10 * SECOND, 5_000_000, "ns"), (20 * SECOND, 31_000_000, "ns"),
    ]  # fmt: skip


def test_receipts_are_tied_to_their_stamps() -> None:
    """cause_seq of a receipt is the place of the object's own row; order is by time."""
    rows = table.merge([Event(5 * SECOND, Kind.RUN_ENDED, "harness")], rows_of(pod(1)), 0)
    seen = [row for row in rows if row.actor == "collector" and row.cause_seq is not None]
    assert seen
    for row in seen:
        assert row.cause_seq is not None
        assert rows[row.cause_seq].kind is row.kind
        assert rows[row.cause_seq].actor == "apiserver"
    assert [row.t_ns for row in rows] == sorted(row.t_ns for row in rows)


def test_a_fault_row_spans_its_call() -> None:
    """injected: the middle of the call ± half of it, with the lateness; proven: the proof."""
    steps = [Step(0, "injected", 90, 100, 300), Step(0, "proven", 90, 300, 500, "gone", "w-0")]
    one, two = table.fault_rows(steps, [{"kind": "process.signal"}], 50)
    assert (one.t_ns, one.t_err_ns, one.value) == (150, 101, 10)
    assert json.loads(two.detail or "{}")["proof"] == "gone"
    assert two.node == "w-0"


def test_a_signal_that_a_fault_sends_is_a_row_of_its_own() -> None:
    """With the signal, and no lateness: nobody planned it."""
    (row,) = table.fault_rows([Step(0, "signalled", 90, 100, 300, "STOP")], [{"kind": "api_server.slow"}], 50)
    assert (row.kind, row.t_ns, row.value, row.unit) == (Kind.FAULT_SIGNALLED, 150, None, None)
    assert json.loads(row.detail or "{}") == {"fault": {"kind": "api_server.slow"}, "signal": "STOP"}


def test_a_token_is_one_that_slurm_accepts() -> None:
    """HS256 over header and claims, base64url without padding, sun names the user."""
    key = b"k" * 32
    head, body, mark = keys.token(key, "slurm", 1_000).split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert claims == {"exp": 1_000 + keys.TOKEN_LIFE_S, "iat": 1_000, "sun": "slurm"}
    good = base64.urlsafe_b64encode(hmac.new(key, f"{head}.{body}".encode(), hashlib.sha256).digest()).rstrip(b"=")
    assert mark == good.decode()


def test_the_kubelets_account_names_pods_by_uid() -> None:
    """cpu_manager_state: default set and exclusive sets."""
    text = json.dumps({"policyName": "static", "defaultCpuSet": "0", "entries": {"u1": {"slurmd": "1"}}})
    assert pinning.account_of(text) == ("0", {"u1": "1"})
    assert pinning.account_of('{"policyName":"none","defaultCpuSet":""}') == ("", {})


@pytest.fixture
def stored() -> tuple[Path, int]:
    """An excerpt of a real run's evidence (slurmd killed as main process, 26.05) and its zero."""
    zero = int(json.loads((DATA / "zero.json").read_text()))
    return DATA, zero


def test_evidence_of_a_killed_slurmd_gives_the_requeue(stored: tuple[Path, int]) -> None:
    """From real logs: the job starts, is missing at registration, is requeued, and starts again after the hold."""
    folder, zero = stored
    rows = evidence.slurm_rows(
        folder, zero, zero + 101 * SECOND, "max_time", ("slurmctld-0",), [], {f"w-{n}": 1 for n in range(4)}, "26.05"
    )
    story = [row.kind for row in rows if row.job_id == 1 and row.kind.value.startswith("job.")]
    assert story == [Kind.JOB_SUBMITTED, Kind.JOB_STARTED, Kind.JOB_ENDED, Kind.JOB_REQUEUED, Kind.JOB_STARTED]
    ends = {row.kind: row for row in rows}
    assert json.loads(ends[Kind.JOB_ENDED].detail or "{}")["state"] == "NODE_FAIL"
    starts = [row for row in evidence.slurmd_rows(folder, zero) if row.kind is Kind.SLURMD_STARTED]
    assert [row.node for row in starts].count("w-0") == 2
    back = max(row.t_ns for row in starts if row.node == "w-0")
    assert 0 <= ends[Kind.JOB_REQUEUED].t_ns - back < SECOND


def test_what_the_observer_saw_lies_between_its_two_requests(stored: tuple[Path, int]) -> None:
    """Rows of polls have the interval since the poll before as their error, and the workload's job numbers."""
    folder, zero = stored
    lines = evidence.read_lines(folder / "observer.jsonl")
    rows = evidence.observer_rows(lines, zero)
    polled = [row for row in rows if row.kind in (Kind.NODE_STATE, Kind.JOB_STATE)]
    assert polled
    assert all(0 < row.t_err_ns < 5 * SECOND for row in polled)
    assert {row.job_id for row in polled if row.kind is Kind.JOB_STATE} == {1}


def test_a_job_that_grew_to_a_size_is_a_row_with_its_cpu_times(tmp_path: Path) -> None:
    """As the job script of 30 November noted it; other notes of scripts are no such rows."""
    note = {"job": 1, "t": 1_796_058_042_560_209_000, "node": "w-0"}
    took = {"mib": 240, "start_ns": 21_180_462, "step_ns": 3_039_032, "exit_ns": 507_959}
    lines = [note | {"what": "started"}, note | took | {"what": "grown"}, note | {"what": "ended", "code": 0}]
    (tmp_path / "scripts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    [row] = evidence.grown_rows(tmp_path, 1_796_058_000 * SECOND)
    assert (row.kind, row.job_id, row.node) == (Kind.SCRIPT_GREW, 1, "w-0")
    assert (row.t_ns, row.value, row.unit) == (42_560_209_000, 240 << 20, "byte")
    assert json.loads(row.detail or "") == {part: ns for part, ns in took.items() if part != "mib"}


def test_a_line_cut_short_is_left_out(tmp_path: Path) -> None:
    """A reader never sees half of a line."""
    path = tmp_path / "observer.jsonl"
    path.write_text('{"what": "probe"}\n{"what": "pro')
    assert evidence.read_lines(path) == [{"what": "probe"}]
