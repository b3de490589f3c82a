"""Passes that do not go as planned: conflicts, mistakes, another process, watches that broke; what comes next."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from slurmtwin_operator.core.observed import ClusterObserved
from slurmtwin_operator.designs import CarrierSettings
from slurmtwin_operator.shell.settings import Settings
from slurmtwin_operator.shell.testing import CLUSTER, NODE_SET, Bench, node_set, play, settled


def test_a_conflict_on_apply_ends_only_itself_and_is_tried_again() -> None:
    """409 on the budget: the pods are made all the same, the next pass applies it."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(1))
        b.kube.refuse["PATCH", "poddisruptionbudgets"] = [409]
        await b.step()
        assert b.names("pods") == ["w-0"]
        assert b.names("poddisruptionbudgets") == []
        await b.step(seconds=5)
        assert b.names("poddisruptionbudgets") == ["w-busy"]

    play(story)


def test_with_failed_action_stop_the_pass_ends_there_and_backs_off() -> None:
    """The design's back-off: 100 ms, then 200 ms."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(1))
        b.kube.refuse["PATCH", "poddisruptionbudgets"] = [409, 409]
        await b.step()
        assert b.names("pods") == []
        assert b.operator.queue.due_ns(NODE_SET) == b.now_ns + 100_000_000
        await b.step(seconds=1)
        assert b.operator.queue.due_ns(NODE_SET) == b.now_ns + 200_000_000

    play(story, switches={"failedAction": "stop"})


def test_memory_is_stored_before_the_first_action() -> None:
    """Write-ahead: the status is patched before any pod is made."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(1))
        await b.step()
        writes = [path for method, path in b.kube.calls if method != "GET" and "leases" not in path]
        assert writes[0].endswith("nodesets/w/status")
        assert any(path.endswith("/pods") for path in writes[1:])

    play(story)


def test_another_process_goes_on_with_the_stored_memory() -> None:
    """After a start the memory is read from the object, also one that cannot be read."""

    async def story(b: Bench) -> None:
        await settled(b)
        stored = b.get(NODE_SET)["status"]["memory"]
        b.operator.reconciler.forget_all()
        await b.step(seconds=5)
        assert b.get(NODE_SET)["status"]["memory"] == stored
        b.get(NODE_SET)["status"]["memory"] = "{broken"
        b.operator.reconciler.forget_all()
        await b.step(seconds=5)
        assert b.names("pods") == ["w-0", "w-1"]

    play(story)


def test_an_object_that_went_while_a_watch_was_broken_is_dropped() -> None:
    """No end was shown: comparing with the API server finds it, and the pod is made anew."""

    async def story(b: Bench) -> None:
        await settled(b)
        del b.kube.objects["ns", "pods", "w-1"]
        await b.operator.compare()
        assert b.operator.cache.get("Pod", "ns", "w-1") is None
        assert b.operator.cache.get("Pod", "ns", "w-0") is not None
        b.now_ns += 10**9
        await b.operator.lease.step()
        await b.operator.run_pass(NODE_SET)
        assert b.names("pods") == ["w-0", "w-1"]

    play(story)


@pytest.mark.parametrize(("after_failure", "woken"), [(True, True), (False, False)])
def test_the_poll_wakes_what_failed_only_where_the_design_does(after_failure: bool, woken: bool) -> None:
    """An object that waits for 1000 s is looked at after the next poll, or not before."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(1))
        b.sync()
        for _ in range(20):
            b.operator.queue.failed(NODE_SET, b.now_ns)
        poll = asyncio.create_task(b.operator.poll())
        while not b.operator.turns:
            await asyncio.sleep(0.01)
        b.operator._stopping.set()
        await poll
        due = b.operator.queue.due_ns(NODE_SET)
        assert due is not None
        assert (due == b.now_ns) is woken

    carrier = CarrierSettings(poll_s=1, backoff_base_ms=100, backoff_cap_s=1000, poll_after_failure=after_failure)
    play(story, Settings(namespace="ops", identity="op-1", carrier=carrier))


def test_a_mistake_of_ours_costs_one_object_its_turn() -> None:
    """A pass that breaks is logged and backs off; the next object is looked at."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(1))
        b.sync()
        core = b.operator.reconciler._core

        def broken(observed: Any, *rest: Any) -> Any:
            if isinstance(observed, ClusterObserved):
                raise ZeroDivisionError
            return core(observed, *rest)

        b.operator.reconciler._core = broken
        await b.operator.run_pass(CLUSTER)
        await b.operator.run_pass(NODE_SET)
        assert b.operator.queue.due_ns(CLUSTER) == b.now_ns + 100_000_000
        assert b.names("pods") == ["w-0"]

    assert 'outcome="broken"' in play(story).operator.telemetry.text().decode()


def test_an_event_that_cannot_be_written_ends_nothing() -> None:
    """403 on events: the pass goes on."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(1))
        b.kube.refuse["POST", "events"] = [403] * 9
        await b.step()
        assert b.names("pods") == ["w-0"]

    assert play(story).events() == []
