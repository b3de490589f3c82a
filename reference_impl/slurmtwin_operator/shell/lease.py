"""Leader election by a Lease, by client-go's rules: who holds it renews it; others take over when it stood still.

Another holder's clock is never read: a lease is over when its record did not change for leaseDurationSeconds of our
own clock. Every write carries the version that was read, so of two that try at once one fails (409).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from slurmtwin_operator.shell.kube_api import KubeApi, KubeError
from slurmtwin_operator.shell.objects import Object

NAME: Final = "slurmtwin-operator"
SECOND: Final = 1_000_000_000


class Lease:
    """Our side of one Lease object."""

    def __init__(
        self, api: KubeApi, namespace: str, identity: str, lease_s: float, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._api, self._namespace, self._identity, self._clock = api, namespace, identity, clock
        self._lease_ns = int(lease_s * SECOND)
        self._seen: Any = None
        self._seen_ns = 0
        self._renewed_ns = -1

    @property
    def held(self) -> bool:
        """Ours for sure: renewed less than its duration ago. Nothing is done to the cluster otherwise."""
        return self._renewed_ns >= 0 and self._clock() - self._renewed_ns < self._lease_ns

    async def step(self) -> bool:
        """Renew, or take what is free or stood still; True while it is ours. Errors count as not renewed."""
        begun = self._clock()
        try:
            renewed = await self._try(begun)
        except KubeError:
            return self.held
        self._renewed_ns = begun if renewed else -1
        return renewed

    async def _try(self, now: int) -> bool:
        found = await self._api.get("Lease", self._namespace, NAME)
        if found is None:
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {"name": NAME, "namespace": self._namespace}, "spec": self._spec(now, 0)}  # fmt: skip
            return await self._write("POST", body)
        spec = found.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder and holder != self._identity:
            record = (holder, spec.get("renewTime"))
            if record != self._seen:
                self._seen, self._seen_ns = record, now
            if now - self._seen_ns < int(spec.get("leaseDurationSeconds") or 0) * SECOND:
                return False
        moves = int(spec.get("leaseTransitions") or 0) + (holder != self._identity)
        acquired = spec.get("acquireTime") if holder == self._identity else None
        return await self._write("PUT", {**found, "spec": self._spec(now, moves, acquired)})

    def _spec(self, now: int, moves: int, acquired: str | None = None) -> Object:
        stamp = datetime.fromtimestamp(now / SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": self._identity, "leaseDurationSeconds": max(1, self._lease_ns // SECOND),
            "renewTime": stamp, "acquireTime": acquired or stamp, "leaseTransitions": moves,
        }  # fmt: skip

    async def _write(self, method: str, body: Object) -> bool:
        path = f"apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases"
        try:
            await self._api.request(method, path if method == "POST" else f"{path}/{NAME}", body)
        except KubeError as error:
            if error.status == 409:
                return False
            raise
        return True

    async def release(self) -> None:
        """Graceful stop: the next one need not wait. Failure is no harm: it stands still then."""
        if not self.held:
            return
        self._renewed_ns = -1
        try:
            found = await self._api.get("Lease", self._namespace, NAME)
            if found and found["spec"].get("holderIdentity") == self._identity:
                await self._write("PUT", {**found, "spec": {**found["spec"], "holderIdentity": ""}})
        except KubeError:
            return
