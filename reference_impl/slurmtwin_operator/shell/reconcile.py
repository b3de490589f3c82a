"""One pass over one object: observe, decide, remember, act, report (docs/operator.md, what a carrier owes the core)."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from slurmtwin.contract.errors import InputError
from slurmtwin_operator.codec import read_memory, to_json
from slurmtwin_operator.core import plan as own_plan
from slurmtwin_operator.core.actions import Action, Memory, Plan, Reason, Why
from slurmtwin_operator.core.conditions import settle
from slurmtwin_operator.core.observed import ClusterObserved, Condition, NodeSetObserved, Observed
from slurmtwin_operator.replay import Recorder
from slurmtwin_operator.shell.cache import Cache, Key
from slurmtwin_operator.shell.kube_api import MANAGER, KubeApi, KubeError
from slurmtwin_operator.shell.logs import say
from slurmtwin_operator.shell.objects import Object, as_conditions, conditions, stamp
from slurmtwin_operator.shell.observe import Observer, RefusedError, View
from slurmtwin_operator.shell.perform import Performer
from slurmtwin_operator.shell.slurm_rest import SlurmError
from slurmtwin_operator.shell.telemetry import Telemetry

GONE: Final = -1
REFUSED_NS: Final = 30_000_000_000
WARNINGS: Final = (
    Why.REFUSED, Why.UNREGISTERED, Why.WAITS_FOR_SLURM, Why.NODE_LOST, Why.UNHEALTHY, Why.CLUSTER_LOST,
)  # fmt: skip


class NotOursError(Exception):
    """The Lease was lost in the middle of a pass."""


class FailedPassError(Exception):
    """The design ends a pass at an action that failed (failed_action stop), or while Slurm is away (rest_down)."""


def stopped_short(observed: NodeSetObserved) -> bool:
    """Did the pass end at the failed refresh of Slurm's nodes (switch rest_down stop-pass)? It counts as failed."""
    return observed.stops_pass


class Reconciler:
    """Carries the core on a cluster."""

    def __init__(
        self, api: KubeApi, cache: Cache, observer: Observer, telemetry: Telemetry, *, leads: Callable[[], bool],
        recorder: Recorder | None = None, clock: Callable[[], int] = time.time_ns,
        core: Callable[[Observed, Memory, int], Plan] = own_plan,
    ) -> None:  # fmt: skip
        self._api, self._cache, self._observer, self._telemetry = api, cache, observer, telemetry
        self._leads, self._recorder, self._clock, self._core = leads, recorder, clock, core
        self._memories: dict[str, Memory] = {}
        self._told: dict[str, tuple[Reason, ...]] = {}

    async def reconcile(self, key: Key) -> int:
        """One pass; when to look again in ns, GONE for never. Raises KubeError, SlurmError, FailedPassError."""
        item = self._cache.get(*key)
        if item is None:
            self._observer.forget(key)
            return GONE
        uid = item["metadata"]["uid"]
        try:
            view = await self._observer.look(key, item)
        except RefusedError as error:
            await self._refuse(key, item, str(error))
            return REFUSED_NS
        if isinstance(view.observed, ClusterObserved | NodeSetObserved):
            self._telemetry.answers.labels(view.observed.slurm.answer).inc()
        memory = await self._memory(key, uid)
        now = self._clock()
        plan = self._core(view.observed, memory, now)
        if self._recorder is not None:
            self._recorder.write(view.observed, memory, now, plan)
        if plan.actions:
            self._fence()
        if plan.memory != memory:
            await self._remember(key, uid, plan.memory)
        self._log(key, plan)
        await self._act(key, uid, plan, view)
        await self._report(key, item, plan)
        if isinstance(view.observed, NodeSetObserved) and stopped_short(view.observed):
            raise FailedPassError("slurmrestd does not answer, and the design's pass ends there")
        return min(plan.requeue_ns, view.again_ns)

    def _fence(self) -> None:
        if not self._leads():
            raise NotOursError

    # memory
    async def _memory(self, key: Key, uid: str) -> Memory:
        """Our own, or after a start the one that is stored; one that cannot be read counts as lost."""
        if uid not in self._memories:
            found = await self._api.get(*key) or {}
            text = (found.get("status") or {}).get("memory")
            try:
                self._memories[uid] = read_memory(json.loads(text) if text else {})
            except (InputError, ValueError):
                self._memories[uid] = Memory()
        return self._memories[uid]

    async def _remember(self, key: Key, uid: str, memory: Memory) -> None:
        """Write-ahead: stored before the first action."""
        text = json.dumps(to_json(memory), sort_keys=True, separators=(",", ":"))
        await self._patch_status(key, {"memory": text})
        self._memories[uid] = memory

    # acting
    async def _act(self, key: Key, uid: str, plan: Plan, view: View) -> None:
        performer = Performer(self._api, key, uid, view.rest)
        observed = view.observed
        switches = observed.spec.switches if isinstance(observed, ClusterObserved) else observed.switches
        for action in plan.actions:
            self._fence()
            failed = ""
            try:
                outcome = await performer.perform(action)
            except (KubeError, SlurmError) as error:
                outcome = failed = str(error)
            self._note(key, action, outcome, failed)
            if failed and switches.failed_action == "stop":
                raise FailedPassError(failed)

    def _note(self, key: Key, action: Action, outcome: str, failed: str) -> None:
        subject = getattr(action, "node", "") or getattr(action, "name", "")
        self._telemetry.actions.labels(action.do, "failed" if failed else outcome).inc()
        say(
            "action", logging.WARNING if failed else logging.INFO, object=str(key), do=action.do, about=str(subject),
            kind=getattr(action, "kind", ""), outcome=outcome,
        )  # fmt: skip

    # telling
    def _log(self, key: Key, plan: Plan) -> None:
        if plan.actions or plan.reasons != self._told.get(str(key), ()):
            say("pass", object=str(key), reasons=[f"{r.why} {r.about}".strip() for r in plan.reasons],
                actions=len(plan.actions))  # fmt: skip

    async def _report(self, key: Key, item: Object, plan: Plan) -> None:
        """Status where it differs, and an event for each reason that the pass before did not have."""
        before = self._told.get(str(key), ())
        self._told[str(key)] = plan.reasons
        for reason in plan.reasons:
            if reason not in before:
                await self._event(key, item, reason)
        wanted: dict[str, Any] = dict(plan.status)
        if plan.conditions:
            wanted["conditions"] = as_conditions(plan.conditions)
        now = (self._cache.get(*key) or item).get("status") or {}
        if any(now.get(name) != value for name, value in wanted.items()):
            await self._patch_status(key, wanted)

    async def _refuse(self, key: Key, item: Object, why: str) -> None:
        """The object cannot be planned for: its condition and an event say why."""
        self._fence()
        found = settle(conditions(item), self._clock(), (Condition("Available", "False", "Refused", why[:512]),))
        await self._report(key, item, Plan((), Memory(), 0, (), found, (Reason(Why.REFUSED, why[:200]),)))

    async def _patch_status(self, key: Key, status: dict[str, Any]) -> None:
        try:
            await self._api.patch(key.kind, key.namespace, key.name, {"status": status}, "status")
        except KubeError as error:
            if error.status != 404:
                raise

    async def _event(self, key: Key, item: Object, reason: Reason) -> None:
        """An Event object; one that cannot be written ends nothing."""
        now = stamp(self._clock())
        about = {"apiVersion": "slurmtwin.dev/v1", "kind": key.kind, "namespace": key.namespace, "name": key.name,
                 "uid": item["metadata"]["uid"]}  # fmt: skip
        body = {
            "apiVersion": "v1", "kind": "Event", "metadata": {"generateName": f"{key.name}-"}, "involvedObject": about,
            "reason": str(reason.why), "message": reason.about or str(reason.why), "firstTimestamp": now,
            "lastTimestamp": now, "count": 1, "type": "Warning" if reason.why in WARNINGS else "Normal",
            "source": {"component": MANAGER},
        }  # fmt: skip
        try:
            await self._api.create("Event", key.namespace, body)
        except KubeError as error:
            say("event not written", logging.WARNING, object=str(key), error=str(error))

    def forget_all(self) -> None:
        """Another process may have acted since: memories are read anew."""
        self._memories.clear()
