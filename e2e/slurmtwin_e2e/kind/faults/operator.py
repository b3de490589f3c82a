"""Steps of a scenario that change the operator's own objects: scale, update, configure, cordon, delete."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slurmtwin.contract.errors import InputError
from slurmtwin.contract.operator_steps import OperatorStep
from slurmtwin_e2e.kind.api import ApiError
from slurmtwin_e2e.kind.faults.base import Fault, FaultError, Reach, until
from slurmtwin_e2e.operators.form import Change, OperatorForm
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


@dataclass(frozen=True, slots=True)
class Aim:
    """One object of the API as it was found, the merge patch for it and the one back; no patch: it is deleted."""

    name: str
    path: str
    found: dict[str, Any]
    patch: Patch | None
    undone: Patch | None


def aim(tools: Reach, change: Change, values: Mapping[str, Any]) -> Aim:
    """What a change of an operator's form is about in this run. Raises FaultError when there is no such object."""
    target = change.object
    name = str(fill(target.name, values))
    path = path_of(target.api, tools.deployed.namespace, target.resource, name)
    try:
        found = tools.api.request("GET", path)
    except ApiError as error:
        raise FaultError(f"{path}: {error}") from error
    patch: Patch | None = fill(change.patch, values) if change.patch is not None else None
    return Aim(name, path, found, patch, before(found, patch) if patch is not None else None)


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
        deployed = self.tools.deployed
        values = step_values(deployed.scenario, deployed.namespace, self.step, time.time_ns())
        self.aim = aim(self.tools, self.form.change(self.step), values)

    def inject(self) -> None:
        """Patch, or delete as kubectl does (its dependants go in the background)."""
        if self.aim.patch is None:
            self.tools.api.request("DELETE", self.aim.path, {"propagationPolicy": "Background"})
        else:
            self.tools.api.patch(self.aim.path, self.aim.patch)

    def prove(self) -> str:
        """The object holds the new values, or is gone."""

        def seen() -> str:
            try:
                item = self.tools.api.request("GET", self.aim.path)
            except ApiError as error:
                return f"{self.aim.name} is gone" if error.status == 404 and self.aim.patch is None else ""
            if self.aim.patch is None:
                return f"{self.aim.name} has a deletion time" if "deletionTimestamp" in item["metadata"] else ""
            said = f"{self.aim.name} has generation {item['metadata'].get('generation', 0)}"
            return said if holds(item, self.aim.patch) else ""

        return until(seen, f"{self.aim.name} is as before")

    def clear(self) -> None:
        """The old values again; a deleted object is made anew as it was."""
        if self.aim.undone is not None:
            self.tools.api.patch(self.aim.path, self.aim.undone)
            return
        meta = {
            k: v for k, v in self.aim.found["metadata"].items() if k in ("name", "namespace", "labels", "annotations")
        }
        item = {k: v for k, v in self.aim.found.items() if k != "status"} | {"metadata": meta}
        self.tools.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(item))
