"""The dispatcher's process: on a clock of its own beside doubles of clusters, and by slurmrestd's own words."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from http_server import serving

from slurmtwin_operator.core.job_dispatch import COPY
from slurmtwin_operator.shell import job_dispatcher
from slurmtwin_operator.shell.job_dispatcher import (
    DispatchedJob,
    DispatcherFile,
    JobDispatcher,
    cpus_of,
    load_of,
    submit_body,
)
from slurmtwin_operator.shell.slurm_rest import SlurmError

S = 1_000_000_000


class Clock:
    """A clock that stands still but for waits."""

    def __init__(self) -> None:
        self.now_ns = 0

    async def wait(self, stop: asyncio.Event, limit_s: float) -> None:
        """So long, in no time; everything that can run does."""
        for _ in range(20):
            await asyncio.sleep(0)
        self.now_ns += max(1, round(limit_s * S))
        if self.now_ns >= 100 * S:
            stop.set()


class FakeCluster:
    """Two CPUs; silent in the spans `away`; a job runs until it is cancelled."""

    def __init__(self, clock: Clock, away: tuple[int, int] = (0, 0)) -> None:
        self.clock, self.away = clock, away
        self.jobs: dict[int, int] = {}
        self.cancelled: list[int] = []

    def _answer(self) -> None:
        if self.away[0] <= self.clock.now_ns < self.away[1]:
            raise SlurmError("no answer in time", False)

    async def load(self) -> tuple[int, int, dict[int, int]]:
        """Two CPUs, those of its jobs, its jobs."""
        self._answer()
        return 2, len(self.jobs), dict(self.jobs)

    async def submit(self, job: DispatchedJob, copy_number: int) -> int:
        """Taken."""
        self._answer()
        self.jobs[copy_number] = 100 + len(self.jobs)
        return self.jobs[copy_number]

    async def cancel(self, slurm_id: int) -> None:
        """Gone at once."""
        self._answer()
        copy = next(copy for copy, known in self.jobs.items() if known == slurm_id)
        self.cancelled.append(copy)
        del self.jobs[copy]


def document(**more: Any) -> dict[str, Any]:
    """One job at 1 s, asked each 5 s, lost after 20 s."""
    place = {"url": "http://127.0.0.1:1", "key": "/nowhere", "version": "26.05"}
    return {
        "zero_ns": 0, "staleness_ns": 5 * S, "lost_after_ns": 20 * S, "patience_ns": 2 * S, "user": "researcher",
        "clusters": [{"name": name, "partition": name} | place for name in ("a", "b")],
        "jobs": [{"number": 1, "at_ns": S, "cpus": 1, "limit_min": 10, "script": "#!/bin/sh\n"}],
    } | more  # fmt: skip


def run(a: tuple[int, int] = (0, 0)) -> tuple[FakeCluster, FakeCluster, list[dict[str, Any]]]:
    """100 s with cluster a away in a span: both clusters and the notes."""
    clock = Clock()
    clusters = {"a": FakeCluster(clock, a), "b": FakeCluster(clock)}
    notes: list[dict[str, Any]] = []

    def note(what: str, before: int, after: int, **more: Any) -> None:
        notes.append({"what": what, "before": before, "after": after, **more})

    async def story() -> None:
        file = DispatcherFile.model_validate(document())
        one = JobDispatcher(file, dict(clusters), note, lambda: clock.now_ns, clock.wait)
        await one.run(asyncio.Event())

    asyncio.run(story())
    return clusters["a"], clusters["b"], notes


def test_a_job_goes_to_the_first_of_equals_and_stays() -> None:
    """Loads are asked for at every multiple of staleness."""
    a, b, notes = run()
    assert (list(a.jobs), list(b.jobs)) == ([1], [])
    asked = [round(note["before"] / S, 1) for note in notes if note["what"] == "heard" and note["cluster"] == "a"]
    assert asked == [5.0 * k for k in range(20)]


def test_a_lost_cluster_has_its_job_sent_again() -> None:
    """20 s after the request that it answered last, and never cancelled where it never answers again."""
    a, b, notes = run((12 * S, 1000 * S))
    assert (list(a.jobs), list(b.jobs)) == ([1], [1 + COPY])
    (lost,) = (note for note in notes if note["what"] == "lost")
    assert lost["cluster"] == "a"
    assert lost["after"] == pytest.approx(30 * S, abs=S // 100)


def test_a_cluster_that_is_back_has_its_copy_cancelled() -> None:
    """With its first answer; the other copy runs on."""
    a, b, notes = run((12 * S, 48 * S))
    assert (a.jobs, list(b.jobs), a.cancelled) == ({}, [1 + COPY], [1])
    (cancel,) = (note for note in notes if note["what"] == "cancel")
    assert cancel["before"] == pytest.approx(50 * S, abs=S // 100)


def test_a_short_silence_costs_nothing() -> None:
    """Shorter than lost_after."""
    a, b, _ = run((12 * S, 24 * S))
    assert (list(a.jobs), list(b.jobs), a.cancelled) == ([1], [], [])


def test_an_answer_that_nobody_can_read_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than leave a job for ever without a word."""

    async def odd(_: FakeCluster) -> tuple[int, int, dict[int, int]]:
        raise KeyError("job_id")

    monkeypatch.setattr(FakeCluster, "load", odd)
    with pytest.raises(KeyError, match="job_id"):
        run()


NODES = {"nodes": [
    {"name": "a-0", "state": ["IDLE", "DYNAMIC_NORM"], "cpus": 4}, {"name": "a-1", "state": ["DOWN"], "cpus": 4},
    {"name": "a-2", "state": ["MIXED", "DRAIN"], "cpus": 4}, {"name": "a-3", "state": ["ALLOCATED"], "cpus": 1},
]}  # fmt: skip
JOBS = {"jobs": [
    {"job_id": 3, "name": "dispatched-7", "job_state": ["RUNNING"], "cpus": {"set": True, "number": 2}},
    {"job_id": 4, "name": "other", "job_state": ["PENDING"], "cpus": {"set": True, "number": 3}},
    {"job_id": 5, "name": "dispatched-8", "job_state": ["COMPLETED"], "cpus": {"set": True, "number": 1}},
    {"job_id": 6, "name": "dispatched-9", "job_state": ["CANCELLED", "COMPLETING"], "cpus": {"set": True, "number": 1}},
]}  # fmt: skip


def test_only_nodes_that_take_jobs_and_jobs_that_live_count() -> None:
    """Jobs of others count for the load; ours are known by their name."""
    assert cpus_of(NODES) == 5
    assert load_of(JOBS) == (5, {7: 3})


def test_a_job_is_submitted_with_a_name_to_be_found_by() -> None:
    """The copy's number, the cluster's partition."""
    body = submit_body(DispatchedJob(number=7, at_ns=0, cpus=2, limit_min=3, script="#!/bin/sh\n"), 7 + COPY, "b")
    assert body["job"]["name"] == f"dispatched-{7 + COPY}"
    assert (body["job"]["partition"], body["job"]["tasks"]) == ("b", 2)


class Slurmrestd(BaseHTTPRequestHandler):
    """The four calls, with one job at most."""

    submitted: list[dict[str, Any]] = []  # noqa: RUF012

    def _answer(self, document: dict[str, Any], status: int = 200) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def do_GET(self) -> None:
        """Nodes or jobs."""
        listed = [{"job_id": 1, "name": b["job"]["name"], "job_state": ["RUNNING"], "cpus": {"set": True, "number": 1}}
                  for b in self.submitted]  # fmt: skip
        nodes = [{"name": "a-0", "state": ["IDLE"], "cpus": 2}]
        self._answer({"nodes": nodes} if "nodes" in self.path else {"jobs": listed})

    def do_POST(self) -> None:
        """A submit; the script `refuse` is refused, `nobody` finds no slurmctld."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        errors = {"refuse": "Requested node configuration is not available",
                  "nobody": "Unable to contact slurm controller (connect failure)"}  # fmt: skip
        if body["script"] in errors:
            self._answer({"errors": [{"error": errors[body["script"]]}]}, 500)
            return
        body["user"] = self.headers["X-SLURM-USER-NAME"]
        self.submitted.append(body)
        self._answer({"job_id": 1, "errors": []})

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.mark.parametrize(("script", "outcome"), [("#!/bin/sh\n", "taken"), ("refuse", "refused"), ("nobody", "silent")])
def test_the_program_itself_sends_a_job_and_ends_by_sigterm(tmp_path: Path, script: str, outcome: str) -> None:
    """As its user, through slurmrestd's calls; a slurmctld that slurmrestd does not reach is no refusal."""
    (tmp_path / "key").write_bytes(b"x" * 32)
    Slurmrestd.submitted = []
    with serving(Slurmrestd) as url:
        file = document(zero_ns=time.time_ns(), staleness_ns=S // 5)
        file["clusters"] = [{"name": "a", "partition": "a", "url": url, "key": str(tmp_path / "key"),
                             "version": "26.05"}]  # fmt: skip
        file["jobs"] = [file["jobs"][0] | {"at_ns": 0, "script": script}]
        (tmp_path / "dispatcher.json").write_text(json.dumps(file))
        child = subprocess.Popen([sys.executable, "-m", job_dispatcher.__name__, str(tmp_path)])
        try:
            limit = time.monotonic() + 60
            notes: list[dict[str, Any]] = []
            while not any(note["what"] == "submit" for note in notes) and time.monotonic() < limit:
                path = tmp_path / "notes.jsonl"
                text = path.read_text() if path.exists() else ""
                notes = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        finally:
            child.send_signal(signal.SIGTERM)
            assert child.wait(30) == 0
        assert [note["outcome"] for note in notes if note["what"] == "submit"][:1] == [outcome]
        assert [body["user"] for body in Slurmrestd.submitted] == ["researcher"] * (outcome == "taken")
