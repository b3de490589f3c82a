"""Steps of a scenario that change the operator's own objects: scale, update, configure, cordon, delete."""

from __future__ import annotations

import json
import time
from typing import Any

from slurmtwin.contract.errors import InputError
from slurmtwin.contract.operator_steps import OperatorStep
from slurmtwin_e2e.kind.api import ApiError
from slurmtwin_e2e.kind.faults.base import Fault, FaultError, Reach, until
from slurmtwin_e2e.operators.form import OperatorForm
from slurmtwin_e2e.operators.placeholders import fill
from slurmtwin_e2e.operators.values import step_values

Patch = dict[str, Any]


def before(item: Any, patch: Patch) -> Patch:
    """The merge patch that takes `patch` back from an object that is now as it was: its own values, or null."""
    out: Patch = {}
    for key, value in patch.items():
        now = item.get(key) if isinstance(item, dict) else None
        out[key] = before(now, value) if isinstance(value, dict) and isinstance(now, dict) else now
    return out


def holds(item: Any, patch: Patch) -> bool:
    """Does the object have every value of the patch?"""
    for key, value in patch.items():
        now = item.get(key) if isinstance(item, dict) else None
        if not (holds(now, value) if isinstance(value, dict) else now == value):
            return False
    return True


def path_of(api: str, namespace: str, resource: str, name: str) -> str:
    """Path of a namespaced object."""
    root = f"/apis/{api}" if "/" in api else f"/api/{api}"
    return f"{root}/namespaces/{namespace}/{resource}/{name}"


class OperatorChange(Fault):
    """One change of one object, through the API, as a user's kubectl would make it."""

    def __init__(self, step: OperatorStep, tools: Reach) -> None:
        if tools.deployed.operator is None:
            raise InputError(f"{step.kind}: no operator runs here", hint="pods.operator")
        self.step, self.tools = step, tools
        self.form: OperatorForm = tools.deployed.operator

    @property
    def kind(self) -> str:
        """The step's kind."""
        return self.step.kind

    def nodes(self) -> str | None:
        """The Slurm node that a step names."""
        return self.step.target.partition(":")[2] or None

    def prepare(self) -> None:
        """Find the object and what it holds now."""
        namespace = self.tools.deployed.namespace
        change = self.form.change(self.step)
        values = step_values(self.tools.deployed.scenario, namespace, self.step, time.time_ns())
        target = change.object
        self.name = str(fill(target.name, values))
        self.path = path_of(target.api, namespace, target.resource, self.name)
        self.patch: Patch | None = fill(change.patch, values) if change.patch is not None else None
        try:
            self.object = self.tools.api.request("GET", self.path)
        except ApiError as error:
            raise FaultError(f"{self.path}: {error}") from error
        self.undone = before(self.object, self.patch) if self.patch is not None else None

    def inject(self) -> None:
        """Patch, or delete as kubectl does (its dependants go in the background)."""
        if self.patch is None:
            self.tools.api.request("DELETE", self.path, {"propagationPolicy": "Background"})
        else:
            self.tools.api.patch(self.path, self.patch)

    def prove(self) -> str:
        """The object holds the new values, or is gone."""

        def seen() -> str:
            try:
                item = self.tools.api.request("GET", self.path)
            except ApiError as error:
                return f"{self.name} is gone" if error.status == 404 and self.patch is None else ""
            if self.patch is None:
                return f"{self.name} has a deletion time" if "deletionTimestamp" in item["metadata"] else ""
            said = f"{self.name} has generation {item['metadata'].get('generation', 0)}"
            return said if holds(item, self.patch) else ""

        return until(seen, f"{self.name} is as before")

    def clear(self) -> None:
        """The old values again; a deleted object is made anew as it was."""
        if self.undone is not None:
            self.tools.api.patch(self.path, self.undone)
            return
        meta = {k: v for k, v in self.object["metadata"].items() if k in ("name", "namespace", "labels", "annotations")}
        item = {k: v for k, v in self.object.items() if k != "status"} | {"metadata": meta}
        self.tools.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(item))
