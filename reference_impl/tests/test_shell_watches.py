"""kopf against an API server in memory: the caches fill before any pass, changes wake passes, a stop is graceful."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any, cast

import kopf
import pytest

from slurmtwin_operator.core.spec import NodeSetSpec
from slurmtwin_operator.shell.process import handlers, kopf_settings
from slurmtwin_operator.shell.settings import Settings
from slurmtwin_operator.shell.testing import Bench, bench, node_set

LIMIT_S = 30.0


async def until(what: Callable[[], Any]) -> None:
    """Wait for a condition."""
    end = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < end, "it does not come true"
        await asyncio.sleep(0.02)


def play(story: Callable[[Bench], Any]) -> Bench:
    """Run a whole operator with kopf while a story goes on."""

    async def run() -> Bench:
        async with bench(Settings(namespace="ops", identity="op-1"), watched=True) as b:
            operator = b.operator
            stop, ready = asyncio.Event(), asyncio.Event()
            loops = [operator.lead(), operator.poll(), operator.work()]
            tasks = [asyncio.create_task(loop) for loop in loops]
            registry = handlers(operator, lambda: kopf.ConnectionInfo(server=b.api_base))
            watching = asyncio.create_task(
                kopf.operator(registry=registry, settings=kopf_settings(), stop_flag=stop, ready_flag=ready,
                              standalone=True, clusterwide=True, identity=cast(Any, "op-1"))
            )  # fmt: skip
            try:
                await story(b)
            finally:
                stop.set()
                await operator.stop(tasks)
                await asyncio.wait([watching], timeout=LIMIT_S)
            return b

    played = asyncio.run(run())
    gc.collect()  # kopf may leave connections open: found here, where that is ignored, and in no later test
    return played


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_node_set_that_is_there_at_the_start_gets_no_pod_twice() -> None:
    """One of two pods exists: the first pass knows it, because the cache was full before it."""

    async def story(b: Bench) -> None:
        revision = NodeSetSpec.model_validate(node_set(2)["spec"]).revision
        labels = {"slurmtwin.dev/nodeset": "w", "slurmtwin.dev/cluster": "c", "slurmtwin.dev/revision": revision}
        notes = {"slurmtwin.dev/slot": "0"}
        meta = {"name": "w-0", "labels": labels, "annotations": notes}
        b.kube.put("pods", {"metadata": meta, "spec": {}, "status": {"phase": "Running"}})
        b.kube.put("nodesets", node_set(2))
        await until(lambda: b.names("pods") == ["w-0", "w-1"])
        made = [body for (method, path), body in zip(b.kube.calls, b.kube.bodies, strict=True)
                if method == "POST" and path.endswith("/pods")]  # fmt: skip
        assert len(made) == 1

    play(story)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_changes_of_objects_wake_a_pass() -> None:
    """A deleted pod is replaced, a changed number is followed, without waiting for the poll."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(1))
        await until(lambda: b.names("pods") == ["w-0"])
        first = b.kube.objects["ns", "pods", "w-0"]["metadata"]["uid"]
        b.kube._delete(("ns", "pods", "w-0"), b.kube.objects["ns", "pods", "w-0"], {})
        place = ("ns", "pods", "w-0")
        await until(lambda: b.kube.objects.get(place, {"metadata": {"uid": first}})["metadata"]["uid"] != first)
        await until(lambda: "replicas" in b.get_status())

    play(story)
