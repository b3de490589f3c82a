"""A Cluster's pass: configuration, the three forms of slurmctld, keys, accounting, reconfigure, the active label."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from slurmtwin_operator.core import plan
from slurmtwin_operator.core.actions import (
    Action,
    Apply,
    DeleteObject,
    EnsureSecret,
    Guard,
    LabelPod,
    Memory,
    Reconfigure,
    SetFinalizer,
    Why,
)
from slurmtwin_operator.core.manifests import worker_pod
from slurmtwin_operator.core.observed import (
    Applied,
    ClusterObserved,
    Controller,
    Identity,
    NodeSetFact,
    NodeSetObserved,
    Policy,
    Slurm,
    SlurmJob,
)
from slurmtwin_operator.core.slurm_conf import kept_partitions, render
from slurmtwin_operator.core.spec import ClusterSpec, NodeSetSpec
from slurmtwin_operator.testing.carrier import Carrier
from slurmtwin_operator.testing.control_plane import ControlPlane
from slurmtwin_operator.testing.kube import FakeKube
from slurmtwin_operator.testing.slurm import SECOND

ME = Identity("ns", "c", "uid")
NODE_SET = NodeSetObserved(Identity("ns", "w", "uid"), NodeSetSpec(cluster="c", image="i"))


def carried(spec: ClusterSpec, **facts: Any) -> ControlPlane:
    """A Cluster with an operator that looks after it."""
    world = ControlPlane(FakeKube(), spec, **facts)
    Carrier(world)
    return world


def observed(**spec: Any) -> ClusterObserved:
    """A cluster before its first pass."""
    switches = {k: spec.pop(k) for k in ("controller", "config_change", "conf_order", "partition_removal") if k in spec}
    return ClusterObserved(ME, ClusterSpec(image="i", switches=switches, **spec), slurm=Slurm("fresh"))


def manifests(actions: tuple[Action, ...]) -> dict[tuple[str, str], Any]:
    """What was applied."""
    return {(a.kind, a.name): json.loads(a.manifest) for a in actions if isinstance(a, Apply)}


def applied(actions: tuple[Action, ...]) -> tuple[Applied, ...]:
    """The same, as the next pass lists it."""
    keys = [Applied("Secret", a.name, "") for a in actions if isinstance(a, EnsureSecret)]
    return (*keys, *(Applied(a.kind, a.name, a.hash) for a in actions if isinstance(a, Apply)))


@pytest.mark.parametrize(
    ("controller", "kind", "access", "replicas"),
    [
        ("statefulset-rwo", "StatefulSet", "ReadWriteOnce", 1),
        ("deployment-rwx", "Deployment", "ReadWriteMany", 1),
        ("primary-backup", "StatefulSet", "ReadWriteMany", 2),
    ],
)
def test_controller_in_its_three_forms(controller: str, kind: str, access: str, replicas: int) -> None:
    """StatefulSet with a volume of its own, Deployment and pair on a shared one; a second pass does nothing."""
    first = observed(controller=controller, state_class="fast")
    actions = plan(first, Memory(), 0).actions
    found = manifests(actions)
    body = found[(kind, "c-ctld")]["spec"]
    claims = body.get("volumeClaimTemplates") or [found[("PersistentVolumeClaim", "c-state")]]
    assert claims[0]["spec"]["accessModes"] == [access]
    assert claims[0]["spec"]["storageClassName"] == "fast"
    assert body["replicas"] == replicas
    assert plan(replace(first, applied=applied(actions)), Memory(), 0).actions == ()


def test_keys_are_made_before_anything_needs_them() -> None:
    """The Secret comes first and its values are not in the plan."""
    actions = plan(observed(), Memory(), 0).actions
    assert actions[0] == EnsureSecret("c-keys", (("jwt_hs256.key", 32), ("slurm.key", 1024)))


def test_workers_never_get_the_token_key() -> None:
    """slurmrestd mounts the shared key alone; only slurmctld sees both, and nothing else of the Secret.

    One that somebody made may hold more: a munge key stopped the entry point on a read-only root (seen on a cluster).
    """
    found = manifests(plan(observed(), Memory(), 0).actions)
    rest = found[("Deployment", "c-rest")]["spec"]["template"]["spec"]["volumes"]
    ctld = found[("StatefulSet", "c-ctld")]["spec"]["template"]["spec"]["volumes"]
    assert [v["secret"].get("items") for v in rest if "secret" in v] == [[{"key": "slurm.key", "path": "slurm.key"}]]
    (items,) = [v["secret"]["items"] for v in ctld if "secret" in v]
    assert [item["key"] for item in items] == ["jwt_hs256.key", "slurm.key"]


@pytest.mark.parametrize("part", [("StatefulSet", "c-ctld"), ("Deployment", "c-rest"), ("StatefulSet", "c-dbd")])
def test_pods_of_the_control_plane_hold_no_privileges(part: tuple[str, str]) -> None:
    """Read-only root, five capabilities, no way to more, no service account token."""
    spec = observed(accounting={"image": "dbd", "config_secret": "dbd"})
    pod = manifests(plan(spec, Memory(), 0).actions)[part]["spec"]["template"]["spec"]
    context = pod["containers"][0]["securityContext"]
    assert pod["automountServiceAccountToken"] is False
    assert context["readOnlyRootFilesystem"]
    assert context["capabilities"] == {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"]}
    assert context["allowPrivilegeEscalation"] is False


def test_accounting_comes_and_goes() -> None:
    """slurmdbd is applied where asked for, named in slurm.conf, and deleted when it is not asked for any more."""
    asked = observed(accounting={"image": "dbd", "config_secret": "dbd"})
    actions = plan(asked, Memory(), 0).actions
    found = manifests(actions)
    assert ("StatefulSet", "c-dbd") in found
    assert "AccountingStorageHost=c-dbd" in render(asked)
    later = replace(observed(), applied=applied(actions))
    gone = [a for a in plan(later, Memory(), 0).actions if isinstance(a, DeleteObject)]
    assert [(a.kind, a.name) for a in gone] == [("StatefulSet", "c-dbd"), ("Service", "c-dbd")]


def test_user_options_override_defaults_but_not_trust() -> None:
    """The user's word replaces a default; SlurmctldParameters are joined with ours; our own come last."""
    text = render(
        observed(conf={"returntoservice": "2", "SlurmctldParameters": "idle_on_node_suspend,enable_configless"})
    )
    assert "ReturnToService=1" not in text
    assert "returntoservice=2" in text
    assert "SlurmctldParameters=enable_configless,reconfig_on_restart,idle_on_node_suspend" in text
    assert text.index("AuthType=") > text.index("returntoservice=2")


def test_partition_lines_have_their_options_in_order() -> None:
    """Options are sorted; Nodes is the operator's own."""
    fact = NodeSetFact("b", options=(("MaxTime", "60"), ("Default", "YES"), ("nodes", "ALL")))
    text = render(replace(observed(), node_sets=(fact, NodeSetFact("a", partition=False))))
    assert "NodeSet=a Feature=a\nNodeSet=b Feature=b\nPartitionName=b Nodes=b Default=YES MaxTime=60\n" in text


@pytest.mark.parametrize(
    ("answer", "jobs", "kept"),
    [
        ("fresh", (SlurmJob(1, "PENDING", partition="x,old"),), ["old"]),
        ("fresh", (SlurmJob(1, "PENDING", partition="x"),), []),
        ("away", (), ["old"]),
    ],
)
def test_partition_kept_while_named(answer: Any, jobs: tuple[SlurmJob, ...], kept: list[str]) -> None:
    """A partition without a set stays while a job names it, or while nobody can be asked."""
    state = replace(observed(), partitions=("old",), slurm=Slurm(answer, jobs=jobs))
    assert kept_partitions(state) == kept
    decided = plan(state, Memory(), 0)
    (text,) = [
        json.loads(a.manifest)["data"] for a in decided.actions if isinstance(a, Apply) and a.kind == "ConfigMap"
    ]
    assert ("PartitionName=old State=DOWN" in text["slurm.conf"]) == bool(kept)
    assert decided.memory.dropped == (() if kept else ("old",))


def test_a_partition_that_was_let_go_does_not_come_back_while_slurmctld_restarts_for_it() -> None:
    """It does not answer then: to keep the partition again would restart it again, in turn and for ever."""
    away = replace(observed(), partitions=("old",), slurm=Slurm("away"))
    assert kept_partitions(away, ("old",)) == []
    assert plan(away, Memory(dropped=("old",)), 0).memory.dropped == ("old",)
    later = replace(away, partitions=(), slurm=Slurm("fresh"))
    assert plan(later, Memory(dropped=("old",)), 0).memory.dropped == ()


def test_reconfigure_waits_for_the_volume() -> None:
    """In place: slurmctld is told only when its volume shows the new files, once, and only when it answers."""
    base = observed()
    fresh = dict(plan(base, Memory(), 0).status)["configHash"]
    ready = replace(base, mounted_conf=fresh, loaded_conf="old")
    assert Reconfigure(fresh) in plan(ready, Memory(), 0).actions
    for other in (
        replace(ready, mounted_conf="old"),
        replace(ready, loaded_conf=fresh),
        replace(ready, slurm=Slurm("away")),
        replace(ready, spec=observed(config_change="restart").spec),
    ):
        assert not any(isinstance(a, Reconfigure) for a in plan(other, Memory(), 0).actions)


def test_in_place_change_reaches_slurmctld_without_a_restart() -> None:
    """Over time: new file, kubelet brings it, one reconfigure; slurmctld started once."""
    cluster = carried(ClusterSpec(image="i"), node_sets=(NodeSetFact("a"),))
    cluster.kube.run(100 * SECOND)
    cluster.change(node_sets=(NodeSetFact("a"), NodeSetFact("b")))
    cluster.kube.run(400 * SECOND)
    assert (cluster.restarts, cluster.reconfigured, cluster.partitions) == (1, 1, ("a", "b"))


def test_restart_change_replaces_the_pod() -> None:
    """With `restart` the same change starts slurmctld anew (X11)."""
    spec = ClusterSpec(image="i", switches={"config_change": "restart"})
    cluster = carried(spec, node_sets=(NodeSetFact("a"),))
    cluster.kube.run(100 * SECOND)
    cluster.change(node_sets=(NodeSetFact("a"), NodeSetFact("b")))
    cluster.kube.run(400 * SECOND)
    assert (cluster.restarts, cluster.reconfigured) == (2, 0)


def test_active_label_leaves_before_it_arrives() -> None:
    """Never two pods with the service's label (X8)."""
    pods = (Controller("c-ctld-1", "u1"), Controller("c-ctld-0", "u0", active_label=True))
    state = replace(observed(controller="primary-backup"), controllers=pods, primary="c-ctld-1")
    decided = plan(state, Memory(), 0)
    labels = [(a.name, a.value) for a in decided.actions if isinstance(a, LabelPod)]
    assert labels == [("c-ctld-0", None), ("c-ctld-1", "true")]
    assert Why.ACTIVE_MOVED in [r.why for r in decided.reasons]
    silent = replace(state, primary="")
    assert not [a for a in plan(silent, Memory(), 0).actions if isinstance(a, LabelPod)]


def test_active_label_follows_the_primary() -> None:
    """Over time the label ends on the pod whose slurmctld answers as the active one."""
    spec = ClusterSpec(image="i", switches={"controller": "primary-backup"})
    cluster = carried(spec, controllers=(Controller("c-ctld-0", "u0"), Controller("c-ctld-1", "u1")))
    for primary in ("c-ctld-0", "c-ctld-1"):
        cluster.change(primary=primary)
        cluster.kube.run(cluster.kube.now + 60 * SECOND)
        assert [c.name for c in cluster.controllers if c.active_label] == [primary]


def test_external_controller_gets_no_objects() -> None:
    """Somebody else runs slurmctld: nothing is applied."""
    assert plan(observed(controller="external"), Memory(), 0).actions == ()


def test_deletion_waits_for_the_node_sets() -> None:
    """The finalizer stays while a node set needs the controller; then it goes, once."""
    going = replace(observed(), me=replace(ME, deleting=True), node_sets=(NodeSetFact("a"),))
    assert plan(going, Memory(), 0).actions == ()
    last = SetFinalizer(False, Guard(childless=True))  # the API server is asked, a cache may lack one
    assert plan(replace(going, node_sets=()), Memory(), 0).actions == (last,)
    done = replace(going, node_sets=(), me=replace(going.me, finalizer=False))
    assert plan(done, Memory(), 0).actions == ()


def test_policy_and_old_generations_stop_a_pass() -> None:
    """An image the administrator does not allow, or a spec from the past: nothing is written."""
    refused = plan(replace(observed(), policy=Policy(image_prefixes=("registry/",))), Memory(), 7)
    assert refused.actions == ()
    assert (refused.conditions[0].reason, refused.conditions[0].since_ns) == ("Refused", 7)
    stale = plan(observed(), Memory(generation=9), 0)
    assert (stale.actions, stale.reasons[0].why) == ((), Why.STALE)


def test_first_pass_puts_the_finalizer_on() -> None:
    """Before anything is created."""
    state = replace(observed(), me=replace(ME, finalizer=False))
    assert plan(state, Memory(), 0).actions[0] == SetFinalizer(True)


def test_conditions_keep_their_time() -> None:
    """lastTransitionTime moves only when the status does; unready pods are progress."""
    first = plan(observed(), Memory(), 5)
    state = replace(
        observed(), conditions=first.conditions, applied=(Applied("Deployment", "c-rest", "", ready=False),)
    )
    second = plan(state, Memory(), 9)
    since = {c.type: c.since_ns for c in second.conditions}
    assert since == {"Available": 5, "Progressing": 9}


def test_old_releases_share_a_munge_key_and_are_probed_by_port() -> None:
    """22.05 has no auth/slurm and serves no probes; 24.11 has the first and not the second."""
    found = plan(observed(version="22.05"), Memory(), 0).actions
    assert found[0] == EnsureSecret("c-keys", (("jwt_hs256.key", 32), ("munge.key", 1024)))
    assert "AuthType=auth/munge" in render(observed(version="22.05"))
    for version, by in (("22.05", "tcpSocket"), ("24.11", "tcpSocket"), ("26.05", "httpGet")):
        pod = manifests(plan(observed(version=version), Memory(), 0).actions)[("StatefulSet", "c-ctld")]
        assert by in pod["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]


def test_logs_are_kept_on_a_claim_where_one_is_named() -> None:
    """Each pod has a folder of its own on it, and slurmctld writes files there; without it they go with their pod."""
    kept = manifests(plan(observed(log_claim="logs"), Memory(), 0).actions)
    plain = manifests(plan(observed(), Memory(), 0).actions)
    pod = kept[("StatefulSet", "c-ctld")]["spec"]["template"]["spec"]
    assert {"name": "logs", "persistentVolumeClaim": {"claimName": "logs"}} in pod["volumes"]
    (mount,) = [m for m in pod["containers"][0]["volumeMounts"] if m["mountPath"] == "/var/log/slurm"]
    assert mount["subPathExpr"] == "$(POD_NAME)"
    assert "JobCompLoc=/var/log/slurm/jobcomp.log" in kept[("ConfigMap", "c-conf")]["data"]["slurm.conf"]
    assert "JobComp" not in plain[("ConfigMap", "c-conf")]["data"]["slurm.conf"]
    worker = json.loads(worker_pod(replace(NODE_SET, log_claim="logs"), "0"))["spec"]
    assert mount in worker["containers"][0]["volumeMounts"]
    assert [v["name"] for v in worker["volumes"]] == ["secrets", "logs"]


def test_the_control_plane_runs_on_the_nodes_that_are_named() -> None:
    """Controller and REST API; without labels any node will do."""
    chosen = manifests(plan(observed(node_selector={"role": "controller"}), Memory(), 0).actions)
    free = manifests(plan(observed(), Memory(), 0).actions)
    for part in (("StatefulSet", "c-ctld"), ("Deployment", "c-rest")):
        assert chosen[part]["spec"]["template"]["spec"]["nodeSelector"] == {"role": "controller"}
        assert "nodeSelector" not in free[part]["spec"]["template"]["spec"]
