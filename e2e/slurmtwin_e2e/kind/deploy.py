"""Slurm put on a running cluster: images, objects, and the wait until every worker is idle; and taken off again."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import EnvironmentMissingError, InputError
from slurmtwin.contract.pods import PodsSection
from slurmtwin.contract.scenario import Scenario
from slurmtwin_e2e.images import Say
from slurmtwin_e2e.kind import operated, slurm_images
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.collect.evidence import read_lines
from slurmtwin_e2e.kind.manifests import keys, objects
from slurmtwin_e2e.kind.manifests.objects import Place
from slurmtwin_e2e.kind.manifests.slurm_files import (
    CTLD_PORT,
    REST_API,
    REST_PORT,
    SERVES_PROBES,
    controllers_of,
    workers_of,
)
from slurmtwin_e2e.operators.form import OperatorForm
from slurmtwin_e2e.operators.reading import PodReader, reader_of
from slurmtwin_e2e.operators.values import refuse_unsaid

IDLE_LIMIT_S: Final = 180.0
OBSERVER_REST: Final = "observer-rest"
GONE_LIMIT_S: Final = 120.0
SACCT_COMMON: Final = ("JobIDRaw", "State", "Start", "End", "NodeList")
SACCT_FIELDS: Final = {
    "22.05": SACCT_COMMON, "24.11": (*SACCT_COMMON, "Restarts"), "26.05": (*SACCT_COMMON, "Restarts"),
}  # fmt: skip
"""What sacct is asked for, in the observer's order; 22.05 does not keep the number of restarts."""


@dataclass(frozen=True, slots=True)
class Deployed:
    """Slurm on a cluster: where, and the evidence folder as this host sees it."""

    cluster: Cluster
    place: Place
    evidence: Path
    began_ns: int
    """Unix time when the first pod was asked for."""
    files: dict[str, bytes]
    scenario: Scenario
    operator: OperatorForm | None = None
    """Who made the pods; None: our plain manifests."""
    reader: PodReader = field(default_factory=PodReader)

    @property
    def namespace(self) -> str:
        """The namespace of all its objects."""
        return self.place.namespace


def needs_database(scenario: Scenario) -> bool:
    """Does the scenario ask for slurmdbd?"""
    conf = {key.lower(): str(value) for key, value in scenario.slurm.conf.items()}
    return bool(scenario.slurm.accounting) or conf.get("accountingstoragetype", "").endswith("slurmdbd")


def refuse_impossible(scenario: Scenario, cluster_workers: int) -> None:
    """Raise InputError, before anything is created, for what these manifests cannot put on a cluster."""
    workers_of(scenario)
    pods = scenario.pods or PodsSection()
    operator = operated.operator_of(scenario)
    if operator is not None:
        refuse_unsaid(operator, scenario)
    refuse_twins_own(scenario, pods)
    if pods.controller == "primary-backup" and pods.state != "shared":
        raise InputError("a primary and a backup need one state directory", hint="pods.state: shared")
    if pods.controller == "deployment" and pods.state == "claim":
        raise InputError("a Deployment that may move needs a state that moves with it", hint="pods.state: shared")
    if cluster_workers < 2:
        raise InputError(f"{cluster_workers} Kubernetes workers: one for slurmctld and one for slurmd are needed")


def refuse_twins_own(scenario: Scenario, pods: PodsSection) -> None:
    """Raise InputError for what only the twin makes: nothing is left out silently."""
    asked = {
        "pods.switches": bool(pods.switches), "pods.autoscale": pods.autoscale is not None,
        "pods.others": bool(pods.others),
        "cluster.autoscaler": any(cluster.autoscaler is not None for cluster in scenario.clusters),
        "workload.users": scenario.workload.users is not None,
        "workload.services": scenario.workload.services is not None,
        "a fault's actions": any(getattr(fault, "actions", 0) for fault in scenario.faults),
    }  # fmt: skip
    for name, wanted in asked.items():
        if wanted:
            raise InputError(f"{name}: a cluster has nobody who does it", hint="--world twin")


def prepare_images(cluster: Cluster, scenario: Scenario, say: Say) -> tuple[str, str]:
    """The images of the scenario's version, built where missing, in the nodes that need them."""
    version = scenario.slurm.version
    operator = operated.operator_of(scenario)
    if operator is not None:
        return operated.prepare(cluster, operator, scenario, say)
    pod = database = slurm_images.make(version, say)
    copied = slurm_images.load(cluster, [pod])
    if needs_database(scenario):
        database = slurm_images.make(version, say, "slurmdbd")
        copied += slurm_images.load(cluster, [database], [cluster.control_plane])
    for name in copied:
        say(f"copied {name} to {cluster.name}")
    return pod, database


def label_nodes(cluster: Cluster) -> None:
    """The first worker is for slurmctld, the others are for slurmd; slurmctld may move to any of them."""
    for number, node in enumerate(cluster.workers):
        role = "compute" if number else "controller"
        cluster.kubectl("label", "--overwrite", "node", node, f"{objects.ROLE_LABEL}={role}")


def unlabel_nodes(cluster: Cluster) -> None:
    """Take the labels off again: the cluster is as it was."""
    cluster.kubectl("label", "node", *cluster.workers, f"{objects.ROLE_LABEL}-", check=False)


def _observer_settings(scenario: Scenario, operator: OperatorForm | None) -> dict[str, Any]:
    """Whom the observer asks; the names of controllers in its notes are ours, whoever made them."""
    version = scenario.slurm.version
    names = controllers_of(scenario)
    hosts = [re.sub(r".*\((.*)\)", r"\1", host) for host in operator.controllers] if operator else names
    path = "/livez" if version in SERVES_PROBES else ""
    return {
        "rest_host": server_name(operator), "rest_port": REST_PORT, "rest_version": REST_API[version],
        "probes": [
            {"name": name, "host": host, "port": CTLD_PORT, "path": path}
            for name, host in zip(names, hosts, strict=False)
        ],
        "accounting": SACCT_FIELDS[version] if needs_database(scenario) else [],
    }  # fmt: skip


def server_name(operator: OperatorForm | None) -> str:
    """The observer's own slurmrestd: under an operator it is beside that one's, and no fault means it."""
    return OBSERVER_REST if operator else "slurmrestd"


def apply(cluster: Cluster, items: list[objects.Object]) -> None:
    """Create or change objects."""
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(objects.as_list(items)))


def deploy(cluster: Cluster, scenario: Scenario, namespace: str, images: tuple[str, str], say: Say) -> Deployed:
    """Create everything and wait until all workers are idle. Raises EnvironmentMissingError with what is not."""
    pods = scenario.pods or PodsSection()
    place = Place(namespace, images[0], images[1], cluster.shared_inside)
    folder = cluster.shared / namespace
    evidence = folder / "evidence"
    (evidence / "logs").mkdir(parents=True)
    for path in (folder, evidence, evidence / "logs"):
        path.chmod(0o777)
    operator = operated.operator_of(scenario)
    (evidence / "observer.json").write_text(json.dumps(_observer_settings(scenario, operator)))
    label_nodes(cluster)
    files = keys.new_keys()
    apply(cluster, objects.base(place, scenario, operator.controllers if operator else ()))
    watching = objects.observer(place, scenario.slurm.version, server_name(operator))
    apply(cluster, [keys.secret(namespace, files), *watching])
    if needs_database(scenario):
        apply(cluster, objects.database(place, scenario))
    began = time.time_ns()
    reader = reader_of(operator.pods) if operator else PodReader()
    found = Deployed(cluster, place, evidence, began, files, scenario, operator, reader)
    if operator is not None:
        operated.renew(cluster, operator, say)
        operated.evidence_folders(operator, evidence)
        apply(cluster, operated.slurm_objects(operator, place, scenario, len(cluster.workers) - 1))
    elif pods.controller_after:
        apply(cluster, objects.worker_set(place, scenario))
        time.sleep(max(0.0, (began + pods.controller_after - time.time_ns()) / SECOND))
        apply(cluster, objects.controller(place, scenario))
    else:
        apply(cluster, [*objects.controller(place, scenario), *objects.worker_set(place, scenario)])
    wait_until_idle(found, scenario)
    say(f"{namespace}: {workers_of(scenario).count} workers idle {(time.time_ns() - began) / SECOND:.1f} s after apply")
    return found


def notes(evidence: Path) -> list[dict[str, Any]]:
    """The observer's lines so far; a last line that is still being written is left out."""
    return read_lines(evidence / "observer.jsonl")


def write_plan(evidence: Path, zero_ns: int, actions: Sequence[dict[str, Any]]) -> None:
    """What the observer is to do, and when time zero is; it finds the whole plan or none."""
    part = evidence / "plan.part"
    part.write_text(json.dumps({"zero_ns": zero_ns, "actions": actions}))
    part.rename(evidence / "plan.json")


def node_states(evidence: Path) -> dict[str, str]:
    """The last state of every Slurm node that the observer noted."""
    return {line["name"]: line["state"] for line in notes(evidence) if line["what"] == "node"}


def wait_until_idle(deployed: Deployed, scenario: Scenario, limit_s: float = IDLE_LIMIT_S) -> None:
    """Wait for IDLE of every worker. Raises EnvironmentMissingError with the states found."""
    wanted = workers_of(scenario).names
    limit = time.monotonic() + limit_s
    while True:
        states = node_states(deployed.evidence)
        if all(states.get(name, "").split("+")[0] == "IDLE" and "DOWN" not in states[name] for name in wanted):
            return
        if time.monotonic() > limit:
            seen = {name: states.get(name, "unknown to Slurm") for name in wanted}
            raise EnvironmentMissingError(f"{deployed.namespace}: not idle after {limit_s:.0f} s: {seen}")
        time.sleep(0.2)


def remove(cluster: Cluster, namespace: str, operator: OperatorForm | None = None) -> None:
    """Delete the namespace and its folder, and wait until its pods are gone."""
    if operator is not None:
        operated.finish(cluster, operator, namespace)
    cluster.kubectl("delete", "namespace", namespace, "--wait=false", "--ignore-not-found", check=False)
    cluster.kubectl(
        "-n", namespace, "delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false", check=False
    )
    limit = time.monotonic() + GONE_LIMIT_S
    while cluster.kubectl("get", "namespace", namespace, "--ignore-not-found", "-o", "name").strip():
        if time.monotonic() > limit:
            raise EnvironmentMissingError(f"namespace {namespace} does not go away")
        time.sleep(0.5)
    if operator is not None:
        operated.clear(cluster, operator, namespace)
    shutil.rmtree(cluster.shared / namespace, ignore_errors=True)
