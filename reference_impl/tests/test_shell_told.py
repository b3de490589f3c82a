"""What the shell tells: events, metrics, probes and recorded passes, and no secret in any of them."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from slurmtwin_operator.replay import replay
from slurmtwin_operator.shell import logs
from slurmtwin_operator.shell.telemetry import application
from slurmtwin_operator.shell.testing import CLUSTER, NODE_SET, SECRET, Bench, play, settled


def test_events_are_written_once_per_reason() -> None:
    """A node set that waits for a job says so once, not in every pass."""

    async def story(b: Bench) -> None:
        await settled(b, 1)
        b.slurm.nodes["w-0"]["state"] = ["MIXED", "DYNAMIC_NORM"]
        b.get(NODE_SET)["spec"]["replicas"] = 0
        b.get(NODE_SET)["metadata"]["generation"] += 1
        for _ in range(5):
            await b.step(seconds=5)

    assert play(story).events().count("WaitsForJobs") == 1


def test_no_secret_is_in_logs_recordings_events_or_status(caplog: pytest.LogCaptureFixture) -> None:
    """The planted key, its base64 form and every token that was sent are searched for in all that was written."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonLines())
    logs.log.addHandler(handler)
    logs.log.setLevel(logging.INFO)

    async def story(b: Bench) -> None:
        await b.step(CLUSTER)
        await settled(b)
        b.slurm.mode = "error"
        await b.step(seconds=5)
        b.slurm.mode = "answers"
        logs.say("careless", note=f"sent {b.slurm.tokens[-1]}")

    try:
        b = play(story)
    finally:
        logs.log.removeHandler(handler)
    told = (
        stream.getvalue()
        + b.recorded.getvalue()
        + "".join(json.dumps(item) for (_, plural, _), item in b.kube.objects.items() if plural != "secrets")
    )
    assert "careless" in told
    assert logs.STRUCK in told
    for secret in (SECRET.decode(), json.dumps(b.kube.objects["ns", "secrets", "c-keys"]["data"]["slurm.key"])[1:-1]):
        assert secret not in told
    assert b.slurm.tokens
    assert not [token for token in b.slurm.tokens if token in told]


def test_recorded_passes_replay_to_equal_plans(tmp_path: Any) -> None:
    """`slurmtwin check --plans` reads what the shell wrote."""

    async def story(b: Bench) -> None:
        await b.step(CLUSTER)
        await settled(b)

    b = play(story)
    path = tmp_path / "plans.jsonl"
    path.write_text(b.recorded.getvalue())
    found = replay(path)
    assert found.difference is None
    assert found.passes == 3


def test_metrics_tell_of_passes_actions_and_the_lease() -> None:
    """Prometheus' text form."""

    async def story(b: Bench) -> None:
        await settled(b)

    text = play(story).operator.telemetry.text().decode()
    assert 'slurmtwin_passes_total{kind="NodeSet",outcome="done"} 2.0' in text
    assert 'slurmtwin_actions_total{do="create-pod",outcome="done"} 2.0' in text
    assert "slurmtwin_leader" in text


def test_probes_and_metrics_are_served() -> None:
    """200 while the loop of the Lease turns and the caches are full, 503 before and when it stands still."""

    async def story(b: Bench) -> None:
        app = application(b.operator.telemetry, b.operator.alive, b.operator.ready)
        async with TestClient(TestServer(app)) as client:
            assert [(await client.get(path)).status for path in ("/healthz", "/readyz")] == [200, 200]
            b.operator.filled = False
            b.now_ns += 61 * 10**9
            assert [(await client.get(path)).status for path in ("/healthz", "/readyz")] == [503, 503]
            answer = await client.get("/metrics")
            assert answer.headers["Content-Type"].startswith("text/plain")
            assert "slurmtwin_leader" in await answer.text()

    play(story)
