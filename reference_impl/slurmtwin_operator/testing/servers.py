"""An API server and a slurmrestd in memory, over real HTTP: what the shell's clients are tested against.

Kept are the rules that the shell rests on: versions and conflicts, uid preconditions, finalizers, the status
subresource, server-side apply with replacement of what it names, JSON errors. Admission and schemas are left out.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

Object = dict[str, Any]


class RefusalError(Exception):
    """An answer with an error status."""

    def __init__(self, status: int, message: str) -> None:
        self.status, self.message = status, message
        super().__init__(message)


@asynccontextmanager
async def _served(route: str, answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """The address under which `answer` is asked while the body runs."""
    app = web.Application()
    app.router.add_route("*", route, answer)
    server = TestServer(app)
    await server.start_server()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        await server.close()


class KubeServer:
    """Objects by (namespace, plural, name). `refuse` maps (method, plural) to a status that the next call gets."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.calls: list[tuple[str, str]] = []
        self.bodies: list[str] = []
        self.refuse: dict[tuple[str, str], list[int]] = {}
        self._watchers: list[tuple[str, asyncio.Queue[Object]]] = []
        self._count = itertools.count(1)

    def serve(self) -> AbstractAsyncContextManager[str]:
        """Its address while the body runs."""
        return _served("/{path:.*}", self._answer)

    def put(self, plural: str, body: Object, namespace: str = "ns") -> Object:
        """Place an object as it is; what is missing of its metadata is made."""
        meta = body.setdefault("metadata", {})
        number = next(self._count)
        if namespace:
            meta["namespace"] = namespace
        meta.setdefault("uid", f"uid-{number}")
        meta.setdefault("generation", 1)
        meta.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        meta["resourceVersion"] = str(number)
        verb = "MODIFIED" if (namespace, plural, meta["name"]) in self.objects else "ADDED"
        self.objects[namespace, plural, meta["name"]] = body
        self._tell(plural, verb, body)
        return body

    def _tell(self, plural: str, verb: str, body: Object) -> None:
        for watched, queue in self._watchers:
            if watched == plural:
                queue.put_nowait({"type": verb, "object": json.loads(json.dumps(body))})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.text()
        body = json.loads(raw) if raw else None
        parts = request.path.strip("/").split("/")
        found = discovery(parts)
        if found is not None:
            return web.json_response(found)
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        plural, name, part = (*parts, "", "")[:3]
        if request.query.get("watch") == "true":
            return await self._watch(request, plural)
        self.calls.append((request.method, request.path))
        self.bodies.append(raw)
        try:
            queue = self.refuse.get((request.method, plural), [])
            if queue:
                raise RefusalError(queue.pop(0), "refused by the test")
            found = self._serve(request, namespace, plural, name, part, body)
        except RefusalError as refusal:
            return web.json_response({"message": refusal.message}, status=refusal.status)
        return web.json_response(found)

    def _serve(
        self, request: web.Request, namespace: str, plural: str, name: str, part: str, body: Any
    ) -> Object:  # fmt: skip
        if request.method == "POST":
            return self._create(namespace, plural, name, part, body)
        if not name:
            items = self._listed(namespace, plural, request.query.get("labelSelector", ""))
            return {"metadata": {"resourceVersion": str(next(self._count))}, "items": items}
        place = (namespace, plural, name)
        have = self.objects.get(place)
        if have is None and not (request.method == "PATCH" and "apply" in request.content_type):
            raise RefusalError(404, f'{plural} "{name}" not found')
        if request.method == "GET" and have is not None:
            return have
        if request.method == "DELETE" and have is not None:
            return self._delete(place, have, body or {})
        have = have or {"metadata": {"name": name}}
        version = (body.get("metadata") or {}).get("resourceVersion")
        if version and version != have["metadata"].get("resourceVersion"):
            raise RefusalError(409, "the object has been modified")
        uid = (body.get("metadata") or {}).get("uid")
        if uid and uid != have["metadata"].get("uid"):
            raise RefusalError(409, "the UID in the precondition does not match")
        changed: Object = merged(have, {"status": body.get("status")} if part == "status" else body)
        if part != "status" and changed.get("spec") != have.get("spec"):
            changed["metadata"]["generation"] = have["metadata"].get("generation", 0) + 1
        self.put(plural, changed, namespace)
        self._finish(place)
        return changed

    def _create(self, namespace: str, plural: str, name: str, part: str, body: Object) -> Object:
        if part == "binding":
            self.objects[namespace, plural, name]["spec"]["nodeName"] = body["target"]["name"]
            return body
        meta = body["metadata"]
        if "generateName" in meta:
            meta["name"] = f"{meta['generateName']}{next(self._count)}"
        if (namespace, plural, meta["name"]) in self.objects:
            raise RefusalError(409, f'{plural} "{meta["name"]}" already exists')
        return self.put(plural, body, namespace)

    def _listed(self, namespace: str, plural: str, selector: str) -> list[Object]:
        wanted = dict(pair.split("=") for pair in filter(None, selector.split(",")))
        return [
            item
            for (space, kind, _), item in sorted(self.objects.items())
            if (space == namespace or not namespace) and kind == plural
            and wanted.items() <= (item["metadata"].get("labels") or {}).items()
        ]  # fmt: skip

    def _delete(self, place: tuple[str, str, str], have: Object, body: Object) -> Object:
        uid = (body.get("preconditions") or {}).get("uid")
        if uid and uid != have["metadata"]["uid"]:
            raise RefusalError(409, "the UID in the precondition does not match")
        have["metadata"].setdefault("deletionTimestamp", "2026-01-01T00:00:00Z")
        self._finish(place)
        return have

    def _finish(self, place: tuple[str, str, str]) -> None:
        meta = self.objects[place]["metadata"]
        if "deletionTimestamp" in meta and not meta.get("finalizers"):
            self._tell(place[1], "DELETED", self.objects.pop(place))

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        """Changes from now on, one JSON object per line, until the client goes."""
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        queue: asyncio.Queue[Object] = asyncio.Queue()
        self._watchers.append((plural, queue))
        try:
            while True:
                await answer.write(json.dumps(await queue.get()).encode() + b"\n")
        finally:
            self._watchers.remove((plural, queue))


def discovery(parts: list[str]) -> Object | None:
    """Answers to a client that asks which resources there are; None for any other path."""
    if parts == ["api"]:
        return {"versions": ["v1"]}
    if parts == ["apis"]:
        versions = {name: {"groupVersion": f"{name}/v1", "version": "v1"} for name in RESOURCES if name}
        return {"groups": [{"name": n, "versions": [v], "preferredVersion": v} for n, v in versions.items()]}
    group = "" if parts == ["api", "v1"] else parts[1] if parts[0] == "apis" and len(parts) == 3 else None
    if group is None:
        return None
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    cluster_wide = ("Node", "Namespace", "CustomResourceDefinition")
    return {"resources": [
        {"name": f"{kind.lower()}s", "singularName": kind.lower(), "kind": kind, "verbs": verbs,
         "namespaced": kind not in cluster_wide}
        for kind in RESOURCES.get(group, ())
    ]}  # fmt: skip


RESOURCES: dict[str, tuple[str, ...]] = {
    "": ("Pod", "Node", "ConfigMap", "Service", "Secret", "PersistentVolumeClaim", "Event", "Namespace"),
    "apiextensions.k8s.io": ("CustomResourceDefinition",),
    "apps": ("StatefulSet", "Deployment"), "policy": ("PodDisruptionBudget",), "coordination.k8s.io": ("Lease",),
    "slurmtwin.dev": ("Cluster", "NodeSet", "PodGroup"),
}  # fmt: skip
"""API group -> kinds that the server has."""


def merged(have: Any, change: Any) -> Any:
    """A merge patch (RFC 7386): null removes, lists are replaced."""
    if not isinstance(change, dict):
        return change
    out = dict(have) if isinstance(have, dict) else {}
    for key, value in change.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), value)
    return out


class SlurmServer:
    """slurmrestd: node records, jobs, partitions. mode: answers, tarpit (accepts and says nothing), error."""

    def __init__(self) -> None:
        self.nodes: dict[str, Object] = {}
        self.jobs: list[Object] = []
        self.partitions: list[str] = []
        self.mode = "answers"
        self.hash_value = 0
        self.calls: list[tuple[str, str, Any]] = []
        self.tokens: list[str] = []
        self.held: list[web.Request] = []

    def serve(self) -> AbstractAsyncContextManager[str]:
        """Its address while the body runs."""
        return _served("/slurm/{version}/{path:.*}", self._answer)

    def add_node(self, name: str, *states: str, **more: Any) -> None:
        """A record of a dynamic node."""
        self.nodes[name] = {
            "name": name, "state": [*(states or ("IDLE",)), "DYNAMIC_NORM"], "reason": "", "comment": "",
            "features": ["w"], "slurmd_start_time": {"set": True, "infinite": False, "number": 4_000_000_000}, **more,
        }  # fmt: skip

    async def _answer(self, request: web.Request) -> web.Response:
        raw = await request.text()
        path = request.match_info["path"].strip("/")
        self.tokens.append(request.headers.get("X-SLURM-USER-TOKEN", ""))
        self.calls.append((request.method, path, json.loads(raw) if raw else None))
        if self.mode == "tarpit":
            self.held.append(request)
            await _forever(request)
        if self.mode == "error":
            return await twice(request, 500, {"errors": [{"error": "Unable to contact slurm controller"}]})
        return web.json_response({"errors": [], "warnings": [], **self._serve(request.method, path, raw)})

    def _serve(self, method: str, path: str, raw: str) -> Object:
        kind, _, name = path.partition("/")
        if kind == "node" and method == "POST":
            self._update(self.nodes[name], json.loads(raw))
        elif kind == "node" and method == "DELETE":
            self.nodes.pop(name, None)
        elif kind == "conf":
            return {"slurm_conf_meta": {"HashValue": self.hash_value}}
        elif kind == "partitions":
            return {"partitions": [{"name": name} for name in self.partitions]}
        return {"nodes": list(self.nodes.values()), "jobs": self.jobs, "reservations": []}

    def _update(self, record: Object, change: Object) -> None:
        for word in change.get("state", ()):
            states = [s for s in record["state"] if s != "DRAIN"]
            record["state"] = [*states, "DRAIN"] if word == "DRAIN" else states
            if word == "RESUME":
                record["state"] = ["IDLE" if s == "DOWN" else s for s in states]
        record |= {key: value for key, value in change.items() if key != "state"}


async def twice(request: web.Request, status: int, document: Object) -> web.Response:
    """An error as slurmrestd sends it: a whole answer, and after `Connection: Close` once more as plain text."""
    assert request.transport is not None
    for kind, body in (("application/json", json.dumps(document)), ("text/plain", "once more")):
        head = f"HTTP/1.1 {status} ERROR\r\nConnection: Close\r\nContent-Length: {len(body)}\r\n"
        request.transport.write(f"{head}Content-Type: {kind}\r\n\r\n{body}".encode())
    request.transport.close()
    raise asyncio.CancelledError


async def _forever(request: web.Request) -> None:
    """Until the client gives up."""
    while request.transport is not None and not request.transport.is_closing():
        await asyncio.sleep(0.01)
    raise ConnectionResetError
