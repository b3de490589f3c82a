"""The manifests and the image's recipe: least rights, no way to more, the same locked packages as everywhere."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from slurmtwin_operator.core import actions
from slurmtwin_operator.shell.process import WATCHED

ROOT = Path(__file__).parents[1]
FILES = ("account.yaml", "operator.yaml")
DOCUMENTS = [d for name in FILES for d in YAML(typ="safe").load_all((ROOT / "deploy" / name).read_text())]
RIGHTS = {
    (group, resource): set(rule["verbs"])
    for document in DOCUMENTS
    if document["kind"] == "ClusterRole"
    for rule in document["rules"]
    for group in rule["apiGroups"]
    for resource in rule["resources"]
}


def of(kind: str) -> dict[str, Any]:
    """The one document of a kind."""
    (found,) = [document for document in DOCUMENTS if document["kind"] == kind]
    return dict(found)


def test_no_rule_has_a_wildcard() -> None:
    """Groups, resources and verbs are named one by one."""
    rules = [rule for document in DOCUMENTS for rule in document.get("rules", ())]
    assert rules
    for rule in rules:
        words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"], *rule.get("resourceNames", ())]
        assert not [word for word in words if "*" in word]


def test_secrets_can_be_read_by_name_and_made_but_never_listed_or_changed() -> None:
    """Listing shows contents; so would a watch."""
    assert RIGHTS["", "secrets"] == {"get", "create"}


def test_nothing_gives_the_operator_more_rights_than_it_has() -> None:
    """No roles, no impersonation, no exec, no tokens."""
    forbidden = ("roles", "rolebindings", "clusterroles", "clusterrolebindings", "users", "groups", "pods/exec",
                 "serviceaccounts", "serviceaccounts/token", "nodes/proxy", "pods/ephemeralcontainers")  # fmt: skip
    assert not [resource for _, resource in RIGHTS if resource in forbidden]
    assert not [verbs for verbs in RIGHTS.values() if verbs & {"escalate", "bind", "impersonate", "deletecollection"}]


def test_everything_that_is_watched_may_be_watched() -> None:
    """A missing right shows as an empty cache, and an empty cache as missing pods."""
    groups = {"statefulsets": "apps", "deployments": "apps", "poddisruptionbudgets": "policy"}
    for kind, plural in WATCHED.items():
        group = "slurmtwin.dev" if kind in ("Cluster", "NodeSet", "PodGroup") else groups.get(plural, "")
        assert RIGHTS[group, plural] >= {"get", "list", "watch"}


def test_every_kind_that_the_core_applies_may_be_applied_and_deleted() -> None:
    """Server-side apply needs create and patch; Job and Secret are never applied."""
    groups = {"StatefulSet": "apps", "Deployment": "apps", "PodDisruptionBudget": "policy"}
    for kind in ("ConfigMap", "Service", "StatefulSet", "Deployment", "PodDisruptionBudget", "PersistentVolumeClaim"):
        verbs = {"create", "patch"} if kind == "PersistentVolumeClaim" else {"create", "patch", "delete"}
        assert RIGHTS[groups.get(kind, ""), f"{kind.lower()}s"] >= verbs
    assert actions.Apply


def test_the_pod_runs_without_root_and_writes_nowhere() -> None:
    """Restricted pod security, enforced by the namespace too."""
    pod = of("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert "hostNetwork" not in pod
    assert not pod.get("volumes")
    assert of("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_network_policy_lets_out_what_the_operator_calls_and_nothing_else() -> None:
    """Names, the API server, slurmrestd; in: probes and metrics."""
    spec = of("NetworkPolicy")["spec"]
    assert {p["port"] for rule in spec["egress"] for p in rule["ports"]} == {53, 443, 6443, 6820}
    assert {p["port"] for rule in spec["ingress"] for p in rule["ports"]} == {8080}


def test_the_image_is_made_of_the_locked_packages() -> None:
    """Every pin of the image's lock, with its hashes, is one of the project's."""
    project = (ROOT.parent / "requirements.lock").read_text()
    mine = (ROOT / "requirements.lock").read_text()
    for block in mine.split("\n\n")[-1].replace(" \\\n", " ").splitlines():
        assert block.split()[0] in project
    assert "--hash" in mine


@pytest.mark.parametrize("package", ["slurmtwin_operator"])
def test_the_image_holds_every_package_that_the_shell_imports(package: str) -> None:
    """Of slurmtwin the contract alone is in it."""
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [n for n in names if n.startswith("slurmtwin.") and not n.startswith("slurmtwin.contract")]


def test_the_recorded_operator_is_the_shipped_one_with_a_claim() -> None:
    """Beside where it runs, its pull policy and the record, the harness changes nothing of the pod."""
    path = ROOT.parent / "e2e" / "operators" / "reference" / "recording.yaml"
    (recorded,) = [d for d in YAML(typ="safe").load_all(path.read_text()) if d["kind"] == "Deployment"]
    pod = recorded["spec"]["template"]["spec"]
    for key in ("nodeSelector", "tolerations", "volumes"):
        del pod[key]
    (container,) = pod["containers"]
    assert [e["name"] for e in container["env"]][-1] == "SLURMTWIN_RECORD"
    container["env"].pop()
    del container["volumeMounts"]
    container["imagePullPolicy"] = "IfNotPresent"
    assert recorded == of("Deployment")
