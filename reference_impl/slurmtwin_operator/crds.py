"""CustomResourceDefinitions, generated from the types the core reads: `python -m slurmtwin_operator.crds [--check]`.

Structural schemas as apiextensions.k8s.io/v1 asks for: no $ref, no anyOf with types, every object typed. What a
pattern cannot say is said in CEL (x-kubernetes-validations), within the API server's cost budget.
"""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path
from typing import Any, Final

from slurmtwin_operator.core.spec import (
    CONF_OPTIONS,
    PARTITION_OPTIONS,
    ClusterSpec,
    DispatchSpec,
    NodeSetSpec,
    PodGroupSpec,
    Spec,
)

GROUP: Final = "slurmtwin.dev"
FOLDER: Final = Path(__file__).parent.parent / "crds"
INTEGER: Final = {"type": "integer", "format": "int64"}
CONDITIONS: Final = {
    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
    "description": "Conditions by the conventions of Kubernetes.",
    "items": {
        "type": "object", "required": ["type", "status", "lastTransitionTime", "reason"],
        "properties": {
            "type": {"type": "string", "maxLength": 316}, "reason": {"type": "string", "maxLength": 1024},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "message": {"type": "string", "maxLength": 32768},
            "lastTransitionTime": {"type": "string", "format": "date-time"}, "observedGeneration": INTEGER,
        },
    },
}  # fmt: skip
NAME: Final = {"type": "string", "maxLength": 53, "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$"}
MEMORY: Final = {
    "type": "string", "maxLength": 262144,
    "description": "What the operator remembers between passes (JSON). May be deleted at any time.",
}  # fmt: skip


def _numbers(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, INTEGER)


def _texts(*names: str) -> dict[str, Any]:
    return {name: {"type": "string"} for name in names}


def _column(name: str, path: str, kind: str = "integer", priority: int = 0) -> dict[str, Any]:
    return {"name": name, "jsonPath": path, "type": kind, "priority": priority}


AVAILABLE: Final = _column("Available", '.status.conditions[?(@.type=="Available")].status', "string")
AGE: Final = _column("Age", ".metadata.creationTimestamp", "date")
KINDS: Final[dict[str, dict[str, Any]]] = {
    "Cluster": {
        "spec": ClusterSpec, "plural": "clusters", "short": "slurm", "doc": "A Slurm cluster.",
        "status": {**_texts("configHash", "active"), **_numbers("nodeSets", "slurmNodes", "observedGeneration")},
        "columns": [AVAILABLE, _column("NodeSets", ".status.nodeSets"), _column("Nodes", ".status.slurmNodes"),
                    _column("Active", ".status.active", "string", 1), AGE],
    },
    "NodeSet": {
        "spec": NodeSetSpec, "plural": "nodesets", "short": "nss", "doc": "A set of equal Slurm nodes, one pod each.",
        "status": {
            **_numbers("replicas", "desired", "ready", "available", "updated", "unavailable", "slurmIdle",
                       "slurmAllocated", "slurmDown", "slurmDrain", "observedGeneration"),
            **_texts("revision", "selector"),
        },
        "columns": [_column("Desired", ".status.desired"), _column("Available", ".status.available"),
                    _column("Updated", ".status.updated"), _column("Idle", ".status.slurmIdle"),
                    _column("Alloc", ".status.slurmAllocated"), _column("Drain", ".status.slurmDrain"),
                    _column("Down", ".status.slurmDown"), AGE],
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                  "labelSelectorPath": ".status.selector"},
    },
    "PodGroup": {
        "spec": PodGroupSpec, "plural": "podgroups", "short": "spg", "doc": "Pods that Slurm schedules as one job.",
        "status": _numbers("observedGeneration"), "columns": [_column("Nodes", ".spec.nodes"), AGE],
    },
    "Dispatch": {
        "spec": DispatchSpec, "plural": "dispatches", "short": "sdp",
        "doc": "A workload that one of several clusters shall run.",
        "status": {**_texts("cluster"), "finished": {"type": "boolean"}, **_numbers("observedGeneration")},
        "columns": [_column("Cluster", ".status.cluster", "string"), _column("Finished", ".status.finished", "boolean"),
                    AGE],
    },
}  # fmt: skip
"""Kind -> its spec type, names, status fields and columns."""
RULES: Final[dict[str, tuple[tuple[str, str, str], ...]]] = {
    "Cluster": (
        ("conf", f"self.all(k, k.lowerAscii() in {sorted(o.lower() for o in CONF_OPTIONS)})",
         "not an option that may be set here"),
    ),
    "NodeSet": (
        ("", "self.cluster == oldSelf.cluster", "cluster cannot be changed"),
        ("", "self.scaling == oldSelf.scaling", "scaling cannot be changed"),
        ("", "!has(self.update) || self.update.type != 'scheduled' || self.update.startS > 0",
         "update.type scheduled needs update.startS"),
        ("partition.options", f"self.all(k, k.lowerAscii() in {sorted(o.lower() for o in PARTITION_OPTIONS)})",
         "not an option that may be set here"),
    ),
    "PodGroup": (("", "self == oldSelf", "a pod group cannot be changed"),),
    "Dispatch": (("", "self.clusters == oldSelf.clusters", "clusters cannot be changed"),),
}  # fmt: skip
"""Kind -> (place in the spec, CEL, message). A rule with oldSelf is checked at updates."""


def structural(spec: type[Spec]) -> dict[str, Any]:
    """The schema of a spec without references, titles and unions."""
    document = spec.model_json_schema(by_alias=True)
    shared = document.pop("$defs", {})
    found: dict[str, Any] = _plain(document, shared)
    return found


def _plain(node: Any, shared: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_plain(item, shared) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return _plain({**shared[node["$ref"].rpartition("/")[2]], **rest}, shared)
    if "anyOf" in node:  # only of the form X | None
        rest = {key: value for key, value in node.items() if key not in ("anyOf", "default")}
        (chosen,) = [option for option in node["anyOf"] if option.get("type") != "null"]
        return {**_plain({**chosen, **rest}, shared), "nullable": True}
    out: dict[str, Any] = {}
    for key, value in node.items():
        if key in ("title", "x-reproduces", "propertyNames", "patternProperties") and not isinstance(value, list):
            continue
        if key == "additionalProperties" and value is False:
            continue  # the API server prunes unknown fields, and --validate=strict refuses them
        if key == "properties":
            out[key] = {name: _plain(inner, shared) for name, inner in value.items()}
        elif key == "const":
            out["enum"] = [value]
        else:
            out[key] = _plain(value, shared)
    if "patternProperties" in node:
        ((_, inner),) = node["patternProperties"].items()
        out["additionalProperties"] = _plain(inner, shared)
    return out


def _add_rules(kind: str, schema: dict[str, Any]) -> None:
    for place, rule, message in RULES[kind]:
        target = schema
        for part in filter(None, place.split(".")):
            target = target["properties"][part]
        text = rule.replace('"', "'")
        target.setdefault("x-kubernetes-validations", []).append({"rule": text, "message": message})


def crd(kind: str) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind."""
    about = KINDS[kind]
    spec = structural(about["spec"])
    _add_rules(kind, spec)
    status = {"type": "object", "properties": {**about["status"], "conditions": CONDITIONS, "memory": MEMORY}}
    schema = {
        "type": "object", "description": about["doc"], "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"},
            "metadata": {"type": "object", "properties": {"name": NAME}},
            "spec": spec, "status": status,
        },
    }  # fmt: skip
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, **({"scale": about["scale"]} if "scale" in about else {})},
        "additionalPrinterColumns": about["columns"],
    }  # fmt: skip
    names = {
        "kind": kind, "listKind": f"{kind}List", "plural": about["plural"], "singular": kind.lower(),
        "shortNames": [about["short"]], "categories": ["slurm"],
    }  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{about['plural']}.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    }  # fmt: skip


def text(kind: str) -> str:
    """The definition as YAML."""
    from ruamel.yaml import YAML

    writer = YAML()
    writer.default_flow_style = False
    writer.width = 120
    writer.representer.ignore_aliases = lambda _data: True
    stream = StringIO()
    writer.dump(crd(kind), stream)
    return f"# Generated by python -m slurmtwin_operator.crds from core/spec.py; do not edit.\n{stream.getvalue()}"


def main(arguments: list[str]) -> int:
    """Write crds/*.yaml, or with --check say which are stale (exit code 1)."""
    stale = []
    for kind, about in KINDS.items():
        path = FOLDER / f"{about['plural']}.yaml"
        wanted = text(kind)
        if "--check" in arguments:
            stale += [path.name] if not path.exists() or path.read_text(encoding="utf-8") != wanted else []
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(wanted, encoding="utf-8")
    for name in stale:
        sys.stderr.write(f"stale: {name}\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
