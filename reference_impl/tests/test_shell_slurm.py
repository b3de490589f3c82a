"""Slurm as the shell asks it: silence and errors delete nothing, guards are read again, tokens are renewed."""

from __future__ import annotations

from typing import Any

import pytest

from slurmtwin_operator.designs import CarrierSettings
from slurmtwin_operator.shell.settings import Settings
from slurmtwin_operator.shell.slurm_rest import SlurmError, sign
from slurmtwin_operator.shell.testing import CLUSTER, NODE_SET, Bench, play, settled


def slinky_carrier(**more: Any) -> Settings:
    """Polls and back-off as Slinky's, from 100 ms."""
    carrier = CarrierSettings(poll_s=30, backoff_base_ms=100, backoff_cap_s=1000, **more)
    return Settings(namespace="ops", identity="op-1", carrier=carrier)


@pytest.mark.parametrize("mode", ["tarpit", "error"])
def test_while_slurm_does_not_answer_no_pod_is_deleted(mode: str) -> None:
    """Fails closed: a scale-in waits until slurmrestd answers again."""

    async def story(b: Bench) -> None:
        await settled(b)
        b.slurm.mode = mode
        b.get(NODE_SET)["spec"]["replicas"] = 0
        b.get(NODE_SET)["metadata"]["generation"] += 1
        await b.step(seconds=5)
        await b.step(seconds=5)
        assert b.names("pods") == ["w-0", "w-1"]
        status = {c["type"]: c["reason"] for c in b.get(NODE_SET)["status"]["conditions"]}
        assert status["SlurmReachable"] == "NoAnswer"
        b.slurm.mode = "answers"
        await b.step(seconds=5)
        await b.step(seconds=5)
        assert b.names("pods") == []

    play(story, switches={"restTimeoutS": 1})


def test_a_tarpit_is_given_up_after_rest_timeout() -> None:
    """The client gives up by itself, the error says that nothing was answered."""

    async def story(b: Bench) -> None:
        b.slurm.mode = "tarpit"
        rest = (await b.operator.reconciler._observer.look(CLUSTER, b.get(CLUSTER))).rest
        assert rest is not None
        with pytest.raises(SlurmError) as caught:
            await rest.call("GET", "nodes/")
        assert caught.value.answered is False

    play(story, switches={"restTimeoutS": 1})


def test_a_node_that_became_busy_is_not_deleted() -> None:
    """The guard is read again just before: the pass decided on an idle node, the action finds a busy one."""

    async def story(b: Bench) -> None:
        await settled(b)
        b.slurm.nodes["w-1"]["state"] = ["IDLE", "DRAIN", "DYNAMIC_NORM"]
        b.slurm.nodes["w-1"]["reason"] = "slurmtwin: scale-in"
        b.get(NODE_SET)["spec"]["replicas"] = 1
        b.get(NODE_SET)["metadata"]["generation"] += 1
        core = b.operator.reconciler._core

        def late(*arguments: Any) -> Any:
            plan = core(*arguments)
            b.slurm.nodes["w-1"]["state"] = ["MIXED", "DRAIN", "DYNAMIC_NORM"]
            return plan

        b.operator.reconciler._core = late
        await b.step(seconds=5)
        assert b.names("pods") == ["w-0", "w-1"]

    play(story)


def test_an_error_that_is_answered_twice_is_read_once() -> None:
    """Its text is slurmrestd's own, and it counts as an answer."""

    async def story(b: Bench) -> None:
        b.slurm.mode = "error"
        rest = (await b.operator.reconciler._observer.look(CLUSTER, b.get(CLUSTER))).rest
        assert rest is not None
        with pytest.raises(SlurmError, match="Unable to contact slurm controller") as caught:
            await rest.call("GET", "nodes/")
        assert caught.value.answered is True

    play(story)


def test_tokens_are_signed_for_slurm_and_renewed() -> None:
    """HS256 over head and claims; the same key and second make the same token."""
    head, claims, _ = sign(b"key", 1000).split(".")
    assert (head, claims) == (sign(b"other", 1000).split(".")[0], sign(b"other", 1000).split(".")[1])
    assert sign(b"key", 1000) != sign(b"other", 1000)


def test_with_stop_pass_a_silent_slurm_backs_off_and_an_answer_ends_it() -> None:
    """X18: each pass without an answer waits twice as long as the last; a good one comes back after the poll."""
    waits: list[int] = []

    async def story(b: Bench) -> None:
        await settled(b)
        b.slurm.mode = "error"
        for _ in range(8):
            b.operator.queue._due.clear()
            await b.step(seconds=waits[-1] / 1000 if waits else 5)
            due = b.operator.queue.due_ns(NODE_SET)
            assert due is not None
            waits.append((due - b.now_ns) // 1_000_000)
        b.slurm.mode = "answers"
        b.operator.queue._due.clear()
        await b.step(seconds=waits[-1] / 1000)
        assert b.operator.queue.due_ns(NODE_SET) == b.now_ns + 30 * 10**9

    b = play(story, slinky_carrier(poll_after_failure=False), switches={"restDown": "stop-pass"})
    assert waits == [100, 200, 400, 800, 1600, 3200, 6400, 12800]
    assert 'slurmtwin_passes_total{kind="NodeSet",outcome="failed"} 8.0' in b.operator.telemetry.text().decode()


def test_by_default_a_silent_slurm_fails_no_pass() -> None:
    """What needs no Slurm goes on, every few seconds."""

    async def story(b: Bench) -> None:
        await settled(b)
        b.slurm.mode = "error"
        b.get(NODE_SET)["spec"]["replicas"] = 1
        b.get(NODE_SET)["metadata"]["generation"] += 1
        for _ in range(4):
            b.operator.queue._due.clear()
            await b.step(seconds=5)
            assert b.operator.queue.due_ns(NODE_SET) == b.now_ns + 5 * 10**9

    assert 'outcome="failed"' not in play(story).operator.telemetry.text().decode()
