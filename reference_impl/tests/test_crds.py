"""The CRDs: generated, structural, with what users see in kubectl."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from slurmtwin_operator import crds
from slurmtwin_operator.core.spec import ClusterSpec, NodeSetSpec, to_plain

KINDS = list(crds.KINDS)


def nodes_of(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside a schema."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes_of(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes_of(schema[key], f"{path}[]")


@pytest.mark.parametrize("kind", KINDS)
def test_committed_file_is_fresh(kind: str) -> None:
    """crds/*.yaml is what the types generate."""
    assert (crds.FOLDER / f"{crds.KINDS[kind]['plural']}.yaml").read_text(encoding="utf-8") == crds.text(kind)


def test_check_names_stale_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: Any) -> None:
    """--check fails and says which file is stale; without it the files are written."""
    monkeypatch.setattr(crds, "FOLDER", tmp_path / "crds")
    assert crds.main(["--check"]) == 1
    assert "stale: nodesets.yaml" in capsys.readouterr().err
    assert crds.main([]) == 0
    assert crds.main(["--check"]) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_schema_is_structural(kind: str) -> None:
    """Each part has one type and nothing that a structural schema may not hold."""
    version = crds.crd(kind)["spec"]["versions"][0]
    for path, schema in nodes_of(version["schema"]["openAPIV3Schema"]):
        assert isinstance(schema.get("type"), str), path
        assert not {"$ref", "$defs", "anyOf", "oneOf", "patternProperties", "const", "title"} & schema.keys(), path
        assert not ("properties" in schema and "additionalProperties" in schema), path


@pytest.mark.parametrize("kind", KINDS)
def test_status_is_a_subresource(kind: str) -> None:
    """Status has its subresource, conditions are a map by type, and every column points at a known field."""
    version = crds.crd(kind)["spec"]["versions"][0]
    assert "status" in version["subresources"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    assert properties["status"]["properties"]["conditions"]["x-kubernetes-list-map-keys"] == ["type"]
    for column in version["additionalPrinterColumns"]:
        top, _, rest = column["jsonPath"].lstrip(".").partition(".")
        name = rest.partition("[")[0]
        assert top == "metadata" or name in properties[top]["properties"], column


def test_node_set_scales_by_its_subresource() -> None:
    """HPA and KEDA find replicas, status and selector where the scale subresource says."""
    scale = crds.crd("NodeSet")["spec"]["versions"][0]["subresources"]["scale"]
    spec = crds.structural(NodeSetSpec)
    assert scale["specReplicasPath"] == ".spec.replicas"
    assert spec["properties"]["replicas"]["type"] == "integer"


def test_every_rule_has_a_message() -> None:
    """CEL rules name what is wrong, and stand where the field is."""
    for kind, rules in crds.RULES.items():
        crds.crd(kind)
        assert all(rule and message for _, rule, message in rules)


def test_custom_resources_carry_what_differs_from_the_defaults() -> None:
    """to_plain gives camelCase and leaves defaults out; reading it back gives the same spec."""
    spec = NodeSetSpec(cluster="c", image="i", update={"max_unavailable": "2"}, node_selector={"a": "b"})
    plain = to_plain(spec)
    assert plain == {"cluster": "c", "image": "i", "update": {"maxUnavailable": "2"}, "nodeSelector": {"a": "b"}}
    assert NodeSetSpec.model_validate(plain) == spec
    assert hash(NodeSetSpec.model_validate(plain)) == hash(spec)
    assert ClusterSpec(image="i").switches.controller == "statefulset-rwo"
