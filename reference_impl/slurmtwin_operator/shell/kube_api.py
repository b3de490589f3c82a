"""Single requests to the API server, as JSON; kopf does the watching. Address and token are those of the pod.

The token is read anew for each request: the kubelet rotates it.
"""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any, Final, Self

import aiohttp

from slurmtwin.contract.errors import EnvironmentMissingError, SlurmtwinError

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MANAGER: Final = "slurmtwin-operator"
REQUEST_S: Final = 15.0
JSON, MERGE, APPLY = "application/json", "application/merge-patch+json", "application/apply-patch+yaml"
GROUPS: Final = {
    "StatefulSet": "apis/apps/v1", "Deployment": "apis/apps/v1", "PodDisruptionBudget": "apis/policy/v1",
    "Job": "apis/batch/v1", "Lease": "apis/coordination.k8s.io/v1", "Cluster": "apis/slurmtwin.dev/v1",
    "NodeSet": "apis/slurmtwin.dev/v1", "PodGroup": "apis/slurmtwin.dev/v1",
}  # fmt: skip
"""Where a kind lives; the others are in api/v1."""
Object = dict[str, Any]


class KubeError(SlurmtwinError):
    """The API server refused a request (status), or did not answer (status 0)."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(f"API server: {status or 'no answer'}: {message}")


class KubeApi:
    """One API server. Use as an async context manager."""

    def __init__(self, base: str, token: Path | None = None, authority: Path | None = None) -> None:
        self._base, self._token = base.rstrip("/"), token
        self._tls = ssl.create_default_context(cafile=str(authority)) if authority else None
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def in_cluster(cls, environment: dict[str, str]) -> Self:
        """The API server of the cluster that this pod runs on. Raises EnvironmentMissingError elsewhere."""
        host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise EnvironmentMissingError("no KUBERNETES_SERVICE_HOST: the operator runs as a pod (deploy/)")
        host = f"[{host}]" if ":" in host else host
        return cls(f"https://{host}:{port}", ACCOUNT / "token", ACCOUNT / "ca.crt")

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_S))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(self, method: str, path: str, body: Any = None, kind: str = JSON) -> Any:
        """One request; the JSON answer. Raises KubeError."""
        assert self._session is not None
        headers = {"Accept": JSON}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.read_text().strip()}"
        data = None
        if body is not None:
            headers["Content-Type"] = kind
            data = json.dumps(body).encode()
        more: dict[str, Any] = {} if self._tls is None else {"ssl": self._tls}
        try:
            async with self._session.request(
                method, f"{self._base}/{path.lstrip('/')}", data=data, headers=headers, **more
            ) as answer:
                raw = await answer.read()
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise KubeError(0, str(error) or type(error).__name__) from error
        if status >= 300:
            raise KubeError(status, _message(raw))
        return json.loads(raw) if raw else None

    async def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """The object, None where there is none. Raises KubeError for anything else."""
        try:
            found: Object = await self.request("GET", path_of(kind, namespace, name))
        except KubeError as error:
            if error.status == 404:
                return None
            raise
        return found

    async def items(self, kind: str, namespace: str, selector: str) -> list[Object]:
        """Objects with these labels, from the API server itself; no namespace: of all of them."""
        query = f"?labelSelector={selector}" if selector else ""
        found = await self.request("GET", f"{path_of(kind, namespace)}{query}")
        return list(found["items"])

    async def create(self, kind: str, namespace: str, body: Object) -> Object:
        """Create an object. Raises KubeError, 409 where it exists."""
        made: Object = await self.request("POST", path_of(kind, namespace), body)
        return made

    async def patch(self, kind: str, namespace: str, name: str, body: Object, part: str = "") -> Object:
        """A merge patch of the object, or of its subresource `part`."""
        done: Object = await self.request("PATCH", path_of(kind, namespace, name, part), body, MERGE)
        return done

    async def apply(self, kind: str, namespace: str, name: str, body: Object) -> Object:
        """Server-side apply: fields that others own become ours."""
        path = f"{path_of(kind, namespace, name)}?fieldManager={MANAGER}&force=true"
        done: Object = await self.request("PATCH", path, body, APPLY)
        return done

    async def delete(self, kind: str, namespace: str, name: str, uid: str = "") -> bool:
        """Delete the object if it still has that uid; False where it is gone or another. Raises KubeError."""
        body: Object = {"propagationPolicy": "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            await self.request("DELETE", path_of(kind, namespace, name), body)
        except KubeError as error:
            if error.status in (404, 409):
                return False
            raise
        return True


def path_of(kind: str, namespace: str = "", name: str = "", part: str = "") -> str:
    """The path of an object, or of all of a kind in a namespace."""
    words = [GROUPS.get(kind, "api/v1")]
    if namespace:
        words += ["namespaces", namespace]
    words.append(kind.lower() + "s")
    return "/".join([*words, *filter(None, (name, part))])


def _message(raw: bytes) -> str:
    try:
        return str(json.loads(raw).get("message", ""))[:400]
    except (ValueError, AttributeError):
        return raw.decode(errors="replace")[:400]
