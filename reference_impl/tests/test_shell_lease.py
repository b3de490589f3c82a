"""One operator acts: its Lease is taken, kept, lost and given back, and nothing is done without it."""

from __future__ import annotations

import asyncio
from typing import Any

from slurmtwin_operator.shell.kube_api import KubeApi
from slurmtwin_operator.shell.lease import Lease
from slurmtwin_operator.shell.settings import Settings
from slurmtwin_operator.shell.testing import CLUSTER, NODE_SET, Bench, node_set, play
from slurmtwin_operator.testing.servers import KubeServer


def test_a_lease_that_stood_still_is_taken_over_and_the_old_holder_knows() -> None:
    """Not before its duration is over on the new one's own clock; the old one finds itself out."""

    async def story() -> None:
        kube = KubeServer()
        now = [0]
        async with kube.serve() as base, KubeApi(base) as api:
            one = Lease(api, "ops", "one", 15, lambda: now[0])
            two = Lease(api, "ops", "two", 15, lambda: now[0])
            assert await one.step()
            assert not await two.step()
            now[0] += 14 * 10**9
            assert await one.step()
            assert not await two.step()
            now[0] += 14 * 10**9
            assert not await two.step()
            now[0] += 10**9
            assert not one.held
            assert await two.step()
            assert not await one.step()
            assert kube.objects["ops", "leases", "slurmtwin-operator"]["spec"]["leaseTransitions"] == 1

    asyncio.run(story())


def test_of_two_that_take_a_lease_at_once_one_fails() -> None:
    """The write names the version that was read."""

    async def story() -> None:
        kube = KubeServer()
        async with kube.serve() as base, KubeApi(base) as api:
            leases = [Lease(api, "ops", name, 15, lambda: 10**9) for name in ("one", "two", "three")]
            assert sum(await asyncio.gather(*(lease.step() for lease in leases))) == 1

    asyncio.run(story())


def test_of_two_that_take_over_a_free_lease_at_once_one_fails() -> None:
    """Each has read it free; only the first write finds the version that was read."""

    async def story() -> None:
        kube = KubeServer()
        kube.put("leases", {"metadata": {"name": "slurmtwin-operator"}, "spec": {"holderIdentity": ""}}, "ops")
        async with kube.serve() as base, KubeApi(base) as api:
            leases = [Lease(api, "ops", name, 15, lambda: 10**9) for name in ("one", "two", "three")]
            assert sum(await asyncio.gather(*(lease.step() for lease in leases))) == 1

    asyncio.run(story())


def test_a_lease_is_given_back_at_a_graceful_stop() -> None:
    """The next one takes it at once."""

    async def story(b: Bench) -> None:
        await b.operator.stop([])
        assert b.kube.objects["ops", "leases", "slurmtwin-operator"]["spec"]["holderIdentity"] == ""
        assert not b.operator.lease.held

    play(story)


def test_a_pass_without_the_lease_does_nothing() -> None:
    """The lease ran out between deciding and acting."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(2))
        b.sync()
        b.now_ns += 16 * 10**9
        await b.operator.run_pass(NODE_SET)
        assert b.names("pods") == []
        assert "status" not in b.get(NODE_SET)

    play(story)


def test_a_graceful_stop_lets_the_running_pass_end_and_begins_no_other() -> None:
    """Two objects wait; the one that is looked at is finished."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(1))
        b.sync()
        worker = asyncio.create_task(b.operator.work())
        entered, leave = asyncio.Event(), asyncio.Event()
        real = b.operator.reconciler.reconcile
        begun = []

        async def slow(key: Any) -> int:
            begun.append(key)
            entered.set()
            await leave.wait()
            return await real(key)

        b.operator.reconciler.reconcile = slow  # type: ignore[method-assign]
        b.now_ns += 10**9
        b.operator.wake(NODE_SET)
        await entered.wait()
        b.operator.wake(CLUSTER)
        stopping = asyncio.create_task(b.operator.stop([worker]))
        await asyncio.sleep(0)
        leave.set()
        await stopping
        assert len(begun) == 1

    play(story)


def test_a_lease_that_cannot_be_renewed_is_ours_until_it_is_over() -> None:
    """An API server that fails for a moment stops nobody; one that fails for the lease's length does."""

    async def story(b: Bench) -> None:
        b.kube.refuse["GET", "leases"] = [500, 500, 500]
        for seconds, held in ((5, True), (9, True), (1, False)):
            b.now_ns += seconds * 10**9
            assert await b.operator.lease.step() is held

    play(story)


def test_a_lost_lease_ends_the_process() -> None:
    """Another holder is there: nothing more is done here, and the process is told to end."""

    async def story(b: Bench) -> None:
        leading = asyncio.create_task(b.operator.lead())
        while not b.operator._leading:
            await asyncio.sleep(0.01)
        spec = b.kube.objects["ops", "leases", "slurmtwin-operator"]["spec"]
        spec |= {"holderIdentity": "other", "renewTime": "2030-01-01T00:00:00.000000Z"}
        await leading
        assert b.operator.lost.is_set()
        assert not b.operator.lease.held

    play(story, Settings(namespace="ops", identity="op-1", renew_s=0.05))
