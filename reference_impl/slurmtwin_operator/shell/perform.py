"""What each action of a plan does to the cluster and to Slurm. Every one may be repeated; see core/actions.py."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final

from slurmtwin_operator.core import actions as a
from slurmtwin_operator.core.observed import MIRRORED
from slurmtwin_operator.core.pod_group import ENDED, RUNS, WAITS
from slurmtwin_operator.shell.cache import NODE_SET, POD_GROUP, Key
from slurmtwin_operator.shell.kube_api import KubeApi, KubeError
from slurmtwin_operator.shell.objects import FINALIZER, HASH, LOCK, Object, taints
from slurmtwin_operator.shell.slurm_rest import SlurmError, SlurmRest
from slurmtwin_operator.shell.slurm_view import job as slurm_job
from slurmtwin_operator.shell.slurm_view import node as slurm_node

DONE: Final = "done"
SKIPPED: Final = "skipped"
"""What the action rested on no longer held, or nothing was left to do."""
OWNED_BY_CLUSTER: Final = ("ConfigMap", "Service", "StatefulSet", "Deployment", "PodDisruptionBudget", "Secret")
"""A claim is left out: deleting a Cluster does not take Slurm's state with it (a StatefulSet's claims stay too)."""


class Performer:
    """Applies actions for one custom resource. Raises KubeError or SlurmError when one fails."""

    def __init__(self, api: KubeApi, key: Key, uid: str, rest: SlurmRest | None) -> None:
        self._api, self._key, self._uid, self._rest = api, key, uid, rest
        self._how: dict[type[Any], Callable[[Any], Awaitable[str]]] = {
            a.Apply: self._apply, a.EnsureSecret: self._ensure_secret, a.CreatePod: self._create_pod,
            a.DeleteObject: self._delete, a.LabelPod: self._label_pod, a.BindPod: self._bind, a.LockNode: self._lock,
            a.CordonNode: self._cordon, a.DeleteNode: self._delete_node, a.SetFinalizer: self._finalizer,
        }  # fmt: skip

    async def perform(self, action: a.Action) -> str:
        """Apply one action; DONE or SKIPPED."""
        guard: a.Guard | None = getattr(action, "only_if", None)
        if guard is not None and not await self._holds(guard):
            return SKIPPED
        how = self._how.get(type(action))
        return await (how(action) if how else self._tell_slurm(action))

    async def _holds(self, guard: a.Guard) -> bool:
        """Ask the servers themselves. Raises KubeError or SlurmError when one that matters cannot be asked."""
        if guard.no_pod and await self._api.get("Pod", self._key.namespace, guard.node) is not None:
            return False
        if guard.childless and await self._has_children():
            return False
        if guard.job:
            return await self._job_is(guard)
        return not guard.node or await self._node_is(guard)

    async def _has_children(self) -> bool:
        """A NodeSet names the Cluster, or a pod of the PodGroup has not ended."""
        space, name = self._key.namespace, self._key.name
        if self._key.kind == "Cluster":
            return any(s["spec"].get("cluster") == name for s in await self._api.items("NodeSet", space, ""))
        pods = await self._api.items("Pod", space, f"{POD_GROUP}%3D{name}")
        return any((p.get("status") or {}).get("phase") not in ENDED for p in pods)

    async def _job_is(self, guard: a.Guard) -> bool:
        """Does the placeholder job hold the node (held), not hold it, or (None) is it nowhere?"""
        listed = [slurm_job(item) for item in (await self._slurm().call("GET", "jobs/")).get("jobs") or []]
        mine = [job for job in listed if job.name == guard.job]
        if guard.held is None:
            return not any(job.state == RUNS or job.state in WAITS for job in mine)
        return guard.held == any(job.state == RUNS and guard.node in job.nodes for job in mine)

    async def _node_is(self, guard: a.Guard) -> bool:
        """Is the Slurm node as it was when this was decided?"""
        listed = (await self._slurm().call("GET", "nodes/")).get("nodes") or []
        return guard.met_by(next((slurm_node(item) for item in listed if item.get("name") == guard.node), None))

    def _slurm(self) -> SlurmRest:
        if self._rest is None:
            raise SlurmError("there is no REST API", False)
        return self._rest

    # objects of Kubernetes
    def _owner(self) -> list[Object]:
        return [{"apiVersion": "slurmtwin.dev/v1", "kind": self._key.kind, "name": self._key.name, "uid": self._uid,
                 "controller": True, "blockOwnerDeletion": True}]  # fmt: skip

    async def _apply(self, action: a.Apply) -> str:
        body = json.loads(action.manifest)
        body["metadata"].setdefault("annotations", {})[HASH] = action.hash
        if action.kind in OWNED_BY_CLUSTER:
            body["metadata"]["ownerReferences"] = self._owner()
        await self._api.apply(action.kind, self._key.namespace, action.name, body)
        return DONE

    async def _ensure_secret(self, action: a.EnsureSecret) -> str:
        if await self._api.get("Secret", self._key.namespace, action.name) is not None:
            return SKIPPED
        data = {key: base64.b64encode(secrets.token_bytes(size)).decode() for key, size in action.keys}
        meta = {"name": action.name, "ownerReferences": self._owner(), "labels": {
            "slurmtwin.dev/cluster": self._key.name, "app.kubernetes.io/managed-by": "slurmtwin"}}  # fmt: skip
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "data": data}
        return await self._create("Secret", body)

    async def _create(self, kind: str, body: Object) -> str:
        try:
            await self._api.create(kind, self._key.namespace, body)
        except KubeError as error:
            if error.status == 409:
                return SKIPPED
            raise
        return DONE

    async def _create_pod(self, action: a.CreatePod) -> str:
        if action.at_most >= 0:
            selector = f"{NODE_SET}%3D{self._key.name}"
            if len(await self._api.items("Pod", self._key.namespace, selector)) >= action.at_most:
                return SKIPPED
        return await self._create("Pod", json.loads(action.manifest))

    async def _delete(self, action: a.DeleteObject) -> str:
        gone = await self._api.delete(action.kind, self._key.namespace, action.name, action.uid)
        return DONE if gone else SKIPPED

    async def _label_pod(self, action: a.LabelPod) -> str:
        meta = {"uid": action.uid, "labels": {action.key: action.value}}  # another pod of that name: 409
        await self._api.patch("Pod", self._key.namespace, action.name, {"metadata": meta})
        return DONE

    async def _bind(self, action: a.BindPod) -> str:
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": action.name, "uid": action.uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": action.node}}  # fmt: skip
        await self._api.request("POST", f"api/v1/namespaces/{self._key.namespace}/pods/{action.name}/binding", body)
        return DONE

    async def _finalizer(self, action: a.SetFinalizer) -> str:
        key = self._key
        found = await self._api.get(key.kind, key.namespace, key.name)
        if found is None or found["metadata"]["uid"] != self._uid:
            return SKIPPED
        have = list(found["metadata"].get("finalizers") or ())
        if (FINALIZER in have) == action.on:
            return SKIPPED
        wanted = [*have, FINALIZER] if action.on else [name for name in have if name != FINALIZER]
        meta = {"finalizers": wanted, "resourceVersion": found["metadata"]["resourceVersion"]}
        await self._api.patch(key.kind, key.namespace, key.name, {"metadata": meta})
        return DONE

    # machines
    async def _node(self, name: str) -> Object:
        found = await self._api.get("Node", "", name)
        if found is None:
            raise KubeError(404, f'nodes "{name}" not found')
        return found

    async def _cordon(self, action: a.CordonNode) -> str:
        marks = {MIRRORED: "true" if action.on else None}
        body = {"metadata": {"annotations": marks}, "spec": {"unschedulable": True if action.on else None}}
        await self._api.patch("Node", "", action.node, body)
        return DONE

    async def _lock(self, action: a.LockNode) -> str:
        found = await self._node(action.node)
        kept = [taint for taint in taints(found) if taint["key"] != LOCK]
        if action.state:
            kept.append({"key": LOCK, "value": action.state, "effect": "NoExecute"})
        meta = {"resourceVersion": found["metadata"]["resourceVersion"]}  # a taint of somebody else's is not lost: 409
        await self._api.patch("Node", "", action.node, {"metadata": meta, "spec": {"taints": kept or None}})
        return DONE

    async def _delete_node(self, action: a.DeleteNode) -> str:
        found = await self._node(action.node)
        if found["spec"].get("providerID", "") != action.instance:
            return SKIPPED
        gone = await self._api.delete("Node", "", action.node, found["metadata"]["uid"])
        return DONE if gone else SKIPPED

    # Slurm
    async def _tell_slurm(self, action: a.Action) -> str:
        slurm = self._slurm()
        if isinstance(action, a.DrainNode):
            await slurm.update_node(action.node, state=["DRAIN"], reason=action.reason)
        elif isinstance(action, a.ResumeNode):
            await slurm.update_node(action.node, state=["UNDRAIN" if action.undrain else "RESUME"])
        elif isinstance(action, a.CommentNode):
            await slurm.update_node(action.node, comment=action.comment)
        elif isinstance(action, a.DeleteSlurmNode):
            await slurm.call("DELETE", f"node/{action.node}")
        elif isinstance(action, a.Reconfigure):
            await slurm.call("GET", "reconfigure/")
        elif isinstance(action, a.Reserve):
            await self._reserve(slurm, action)
        elif isinstance(action, a.SubmitJob):
            await slurm.call("POST", "job/submit", _job(action))
        elif isinstance(action, a.CancelJob):
            await slurm.call("DELETE", f"job/{action.id}")
        else:
            raise SlurmError(f"{action.do}: not an action of this operator's shell", False)
        return DONE

    async def _reserve(self, slurm: SlurmRest, action: a.Reserve) -> None:
        if not action.on:
            await slurm.call("DELETE", f"reservation/{action.name}")
            return
        await slurm.call("POST", "reservation", {
            "name": action.name, "node_list": list(action.nodes), "users": ["root"], "flags": ["MAINT", "IGNORE_JOBS"],
            "start_time": {"set": True, "number": action.start_s},
            "duration": {"set": True, "number": action.duration_s // 60},
        })  # fmt: skip


def _job(action: a.SubmitJob) -> Object:
    """The body of job/submit: a placeholder with a name to be found by."""
    job: Object = {
        "name": action.name, "partition": action.partition, "minimum_nodes": action.nodes,
        "maximum_nodes": action.nodes, "cpus_per_task": action.cpus, "tasks": action.nodes,
        "time_limit": {"set": True, "number": max(1, action.time_limit_s // 60)}, "environment": ["PATH=/usr/bin:/bin"],
        "current_working_directory": "/tmp",  # noqa: S108  of the job's node
    }  # fmt: skip
    if action.exclusive:
        job["shared"] = ["none"]
    if action.external:
        job["flags"] = ["EXTERNAL_JOB"]
    return {"job": job, "script": "#!/bin/sh\nexec sleep infinity\n"}
