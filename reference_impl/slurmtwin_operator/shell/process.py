"""The operator's process: kopf watches and fills the cache; passes run while the Lease is ours."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, cast

import kopf
from aiohttp import web

from slurmtwin_operator.replay import Recorder
from slurmtwin_operator.shell import logs
from slurmtwin_operator.shell.cache import CUSTOM, OWNED, Cache, Key
from slurmtwin_operator.shell.kube_api import GROUPS, KubeApi, KubeError
from slurmtwin_operator.shell.lease import Lease
from slurmtwin_operator.shell.logs import say
from slurmtwin_operator.shell.observe import Endpoint, Observer, service_address
from slurmtwin_operator.shell.reconcile import FailedPassError, NotOursError, Reconciler
from slurmtwin_operator.shell.settings import Settings
from slurmtwin_operator.shell.slurm_rest import SlurmError
from slurmtwin_operator.shell.telemetry import HEALTHY_S, Telemetry, application
from slurmtwin_operator.shell.work_queue import MILLI, SECOND, WorkQueue

COMPARE_EACH: Final = 10
GATHER_NS: Final = 100 * MILLI
"""A change is looked at so much later: those that come together make one pass."""
WATCHED: Final = {"Node": "nodes", **{kind: f"{kind.lower()}s" for kind in (*CUSTOM, *OWNED)}}


class Operator:
    """Cache, queue, Lease and passes of one process."""

    def __init__(
        self, settings: Settings, api: KubeApi, *, recorder: Recorder | None = None,
        endpoint: Endpoint = service_address, clock: Callable[[], int] = time.time_ns,
    ) -> None:  # fmt: skip
        self.settings, self.api, self.clock = settings, api, clock
        self.cache, self.telemetry = Cache(), Telemetry()
        self.queue = WorkQueue(settings.carrier.backoff_base_ms, settings.carrier.backoff_cap_s)
        self.lease = Lease(api, settings.namespace, settings.identity, settings.lease_s, clock)
        observer = Observer(self.cache, api, settings.policy, endpoint, clock)
        self.reconciler = Reconciler(
            api, self.cache, observer, self.telemetry, leads=lambda: self.lease.held, recorder=recorder, clock=clock
        )
        self.filled = False
        self.lost = asyncio.Event()
        """Set when the Lease was lost: the process ends, and starts again as one of those that wait."""
        self._stopping = asyncio.Event()
        self._woken = asyncio.Event()
        self._turned_ns = clock()
        self._leading = False
        self.turns = 0
        """Polls so far."""

    # from the watches
    def changed(self, kind: str, item: dict[str, Any], *, gone: bool = False) -> None:
        """A watch brought a version of an object, or its end."""
        keys = self.cache.drop(kind, item) if gone else self.cache.put(kind, item)
        for key in sorted(keys):
            self.wake(key, GATHER_NS)

    def wake(self, key: Key, delay_ns: int = 0) -> None:
        """A pass soon."""
        self.queue.add(key, self.clock() + delay_ns)
        self._woken.set()

    # loops
    async def lead(self) -> None:
        """Hold the Lease, or wait for it; after it was lost nothing more is done here."""
        while not self._stopping.is_set():
            had = self._leading
            held = await self.lease.step()
            self._turned_ns = self.clock()
            self._leading = held
            self.telemetry.leader.set(held)
            if had and not held:
                say("lease lost", logging.ERROR)
                self.lost.set()
                return
            if held and not had:
                say("leading", identity=self.settings.identity)
                self.reconciler.forget_all()
                for key in self.cache.resources():
                    self.wake(key)
            await self._pause(self.settings.renew_s if held else min(2.0, self.settings.renew_s))

    async def poll(self) -> None:
        """Every object at least so often: what Slurm does wakes nobody. Each tenth time the cache is compared too.

        With poll_after_failure false a good pass itself says when the next is due, and a failed one comes back by its
        back-off alone (controller-runtime's RequeueAfter; measured on Slinky).
        """
        while not self._stopping.is_set():
            await self._pause(self.settings.carrier.poll_s)
            if (self.turns + 1) % COMPARE_EACH == 0:
                await self.compare()
            if self.settings.carrier.poll_after_failure:
                for key in self.cache.resources():
                    self.wake(key)
            self.turns += 1

    async def compare(self) -> None:
        """Drop what the API server no longer has: a watch that began anew after a hole shows no ends (seen: kopf)."""
        for kind in (*CUSTOM, *OWNED):
            before = {
                (i["metadata"].get("namespace", ""), i["metadata"]["name"]): i for i in self.cache.everywhere(kind)
            }
            try:
                there = {item["metadata"]["uid"] for item in await self.api.items(kind, "", "")}
            except KubeError as error:
                say("not compared", logging.WARNING, kind=kind, error=str(error))
                return
            for (namespace, name), item in before.items():
                if item["metadata"]["uid"] not in there and self.cache.get(kind, namespace, name) is item:
                    say("was gone unseen", logging.WARNING, object=f"{kind} {namespace}/{name}")
                    self.changed(kind, item, gone=True)

    async def work(self) -> None:
        """Passes, one object at a time."""
        while not self._stopping.is_set():
            key = self.queue.take(self.clock()) if self.filled and self.lease.held else None
            self.telemetry.waiting.set(len(self.queue))
            if key is None:
                await self._until_woken()
                continue
            await self.run_pass(key)

    async def run_pass(self, key: Key) -> None:
        """One pass with all that may go wrong with it."""
        begun = time.perf_counter()
        outcome = "done"
        try:
            again = await self.reconciler.reconcile(key)
            if not self.settings.carrier.poll_after_failure:
                again = min(again, self.settings.carrier.poll_s * SECOND)
            self.queue.done(key, self.clock(), again)
        except NotOursError:
            outcome = "not-ours"
            self.queue.done(key, self.clock(), -1)
        except (KubeError, SlurmError, FailedPassError) as error:
            outcome = "failed"
            pause = self.queue.failed(key, self.clock())
            say("pass failed", logging.WARNING, object=str(key), error=str(error), again_s=pause / SECOND)
        except Exception:  # our own mistake: this object waits, the others go on
            outcome = "broken"
            self.queue.failed(key, self.clock())
            logs.log.exception("pass broken", extra={"fields": {"object": str(key)}})
        self.telemetry.passes.labels(key.kind, outcome).inc()
        self.telemetry.seconds.labels(key.kind).observe(time.perf_counter() - begun)

    async def _until_woken(self) -> None:
        self._woken.clear()
        due = self.queue.next_ns()
        wait = 1.0 if due is None else min(1.0, max(0.0, (due - self.clock()) / SECOND))
        try:
            await asyncio.wait_for(self._woken.wait(), wait or 0.01)
        except TimeoutError:
            return

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return

    async def stop(self, tasks: list[asyncio.Task[None]]) -> None:
        """Graceful stop: no new pass, those that run may end, then the Lease is given back."""
        self._stopping.set()
        self._woken.set()
        _, late = await asyncio.wait(tasks, timeout=self.settings.stop_s) if tasks else (set(), set())
        for task in late:
            task.cancel()
        await self.lease.release()
        say("stopped", unfinished=len(late))

    # probes
    def alive(self) -> bool:
        """The loop of the Lease turned lately."""
        return self.lost.is_set() or self.clock() - self._turned_ns < HEALTHY_S * SECOND

    def ready(self) -> bool:
        """The caches are filled."""
        return self.filled


def handlers(operator: Operator, access: Callable[[], kopf.ConnectionInfo] | None = None) -> kopf.OperatorRegistry:
    """kopf's side: an index per kind fills the cache before any handler runs; events keep it new.

    access: how to reach the API server; default: as a pod does.
    """
    registry = kopf.OperatorRegistry()

    def watch(kind: str, plural: str) -> None:
        async def fill(body: kopf.Body, **_: Any) -> None:
            operator.changed(kind, dict(body))

        async def follow(type: str | None, event: Any, **_: Any) -> None:  # noqa: A002  kopf's own name
            operator.filled = True
            if type == "DELETED":
                operator.changed(kind, event["object"], gone=True)

        group, _, version = GROUPS.get(kind, "api/v1").removeprefix("apis/").removeprefix("api/").rpartition("/")
        kopf.index(group, version, plural, id=f"fill-{plural}", registry=registry)(fill)
        kopf.on.event(group, version, plural, id=f"follow-{plural}", registry=registry)(follow)

    async def login(**arguments: Any) -> kopf.ConnectionInfo | None:
        return access() if access is not None else kopf.login_with_service_account(**arguments)

    kopf.on.login(id="service-account", registry=registry)(login)
    for kind, plural in WATCHED.items():
        watch(kind, plural)
    return registry


def kopf_settings() -> kopf.OperatorSettings:
    """No peering (a Lease of ours), no events and annotations of kopf's, no look at CRDs as they come."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.watching.server_timeout = 300
    settings.networking.connect_timeout = 10
    return settings


async def run(settings: Settings) -> int:
    """The whole process until it is told to stop; the exit code."""
    folder = logs.folder_of(settings.record, settings.identity)
    logs.configure(folder)
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(KubeApi.in_cluster(dict(os.environ)))
        recorder = None
        if folder is not None:
            path = Path(folder, "plans.jsonl")
            recorder = Recorder(stack.enter_context(path.open("w", buffering=1, encoding="utf-8")))
        operator = Operator(settings, api, recorder=recorder)
        runner = web.AppRunner(application(operator.telemetry, operator.alive, operator.ready), access_log=None)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "0.0.0.0", settings.port).start()  # noqa: S104  probes come from the node
        loops = [operator.lead(), operator.poll(), *(operator.work() for _ in range(settings.carrier.workers))]
        tasks = [asyncio.create_task(loop) for loop in loops]
        say("started", identity=settings.identity, namespaces=list(settings.namespaces) or ["all"])
        await kopf.operator(
            registry=handlers(operator), settings=kopf_settings(), stop_flag=operator.lost, standalone=True,
            identity=cast(Any, settings.identity),
            clusterwide=not settings.namespaces, namespaces=settings.namespaces,
        )  # fmt: skip
        await operator.stop(tasks)
        return 1 if operator.lost.is_set() else 0
