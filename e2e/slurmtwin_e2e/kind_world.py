"""The world `kind`: a scenario on real Kubernetes with real Slurm pods (worlds/registry.py finds it here)."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.events import Kind
from slurmtwin.contract.kubernetes import KubernetesCluster
from slurmtwin.contract.manifest import Manifest, environment_block, sha256_text, software_block
from slurmtwin.contract.scenario import Scenario
from slurmtwin.contract.several_clusters import has_several
from slurmtwin.contract.world import RunAnswer, RunOrder
from slurmtwin_e2e.docker import docker, image_id
from slurmtwin_e2e.facts import cluster_facts
from slurmtwin_e2e.kind import deploy, lifecycle, operated, slurm_images
from slurmtwin_e2e.kind.attach import attach
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.manifests.slurm_files import controllers_of
from slurmtwin_e2e.kind.pins import pins
from slurmtwin_e2e.kind.runner import RanOnce, check_scenario, run_once
from slurmtwin_e2e.run_folder import write_folder

CLUSTER_VARIABLE: Final = "SLURMTWIN_KIND_CLUSTER"
"""Name of a running cluster of ours to use; unset: one is made of the scenario's section, and removed."""
WORLD: Final = "kind"


def run_scenario(order: RunOrder) -> RunAnswer:
    """Run one scenario on Kubernetes (contract.world).

    Raises InputError before anything is made for an impossible scenario, EnvironmentMissingError without Docker.
    """
    if has_several(order.scenario):
        from slurmtwin_e2e.kind import several  # which builds on this module

        return several.run_scenario(order)
    check_scenario(order.scenario)
    repetition = order.replication or 1
    name = os.environ.get(CLUSTER_VARIABLE, "")
    if name:
        cluster = attach(name)
        try:
            return _run(cluster, order, repetition)
        finally:
            deploy.unlabel_nodes(cluster)
            operated.uninstall_all(cluster, [order.scenario])
    wanted = order.scenario.clusters or (KubernetesCluster(),)
    with lifecycle.running(wanted, say) as clusters:
        return _run(clusters[0], order, repetition)


def _run(cluster: Cluster, order: RunOrder, repetition: int) -> RunAnswer:
    ran = run_once(cluster, order.scenario, order.jobs, say, repetition=repetition)
    manifest = build_manifest(order.scenario, ran, [cluster], repetition)
    if order.folder is not None:
        write_folder(order.folder, manifest, ran.events, resolved_text(order.scenario), order.jobs, ran.passes)
    return RunAnswer(manifest, ran.events)


def say(text: str) -> None:
    """Progress goes to stderr."""
    print(text, file=sys.stderr, flush=True)


def resolved_text(scenario: Scenario) -> str:
    """The scenario with every default written out."""
    return json.dumps(json.loads(scenario.model_dump_json(by_alias=True)), sort_keys=True, separators=(",", ":")) + "\n"


def _image_of(node: str) -> str:
    """The image that the node was made of, whatever its tag names now."""
    return docker("inspect", "-f", "{{.Image}}", node).stdout.strip()


def fingerprint() -> dict[str, Any]:
    """The host, as far as it makes the numbers."""
    model = next(
        (x.split(":", 1)[1].strip() for x in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in x), ""
    )
    return {"kernel": platform.release(), "cpu": model, "cpus": os.cpu_count() or 1}


def build_manifest(scenario: Scenario, ran: RanOnce, clusters: Sequence[Cluster], repetition: int) -> Manifest:
    """Provenance of one run on Kubernetes: images, versions, host, clocks, load, lateness of faults and dispatcher."""
    version = scenario.slurm.version
    facts = cluster_facts(scenario).to_dict() | {"controllers": list(controllers_of(scenario))}
    operator = operated.operator_of(scenario)
    pod_image = operated.slurm_image(operator, version) if operator else slurm_images.image_name(version)
    images = {pod_image: image_id(pod_image)}
    if deploy.needs_database(scenario):
        name = slurm_images.image_name(version, "slurmdbd")
        images[name] = image_id(name)
    delay = ran.watch_delay_ns
    return Manifest(
        world=WORLD, scenario=scenario.name, scenario_sha256=sha256_text(resolved_text(scenario)), seed=0,
        replication=repetition,
        software={
            **software_block(), "slurm": version, "packages": slurm_images.packages(version),
            "kubernetes": pins().kubernetes, "node_image": _image_of(clusters[0].control_plane), "images": images,
            **({"operator": operated.provenance(operator)} if operator else {}),
        },
        parameters={"slurm_version": version, "factor": 1.0, "epoch_ns": ran.zero_ns, "cluster": facts},
        environment={
            **environment_block(), "host": fingerprint(), "kube_nodes": sum(len(one.nodes) for one in clusters),
            **({"clusters": len(clusters)} if len(clusters) > 1 else {}),
        },
        resources={
            "wall_s": round(ran.wall_s, 1), "host_load": round(max(ran.load), 2),
            "host_load_before": round(ran.load[0], 2), "idle_s": round(ran.idle_s, 2),
        },
        results={
            "run_id": f"{scenario.name}-{version}-kind-{repetition}", "events": len(ran.events),
            "stop_reason": ran.stop_reason,
            "jobs_submitted": sum(e.kind is Kind.JOB_SUBMITTED for e in ran.events),
            "job_starts": sum(e.kind is Kind.JOB_STARTED for e in ran.events),
            "fault_late_ms": [round(ms, 2) for ms in ran.late_ms], "fault_errors": ran.fault_errors,
            "watch_delay_ms": {"p95": round(delay[0] / 1e6, 2), "median": round(delay[1] / 1e6, 2), "count": delay[2]},
            "clock_offset_us": {
                o.source: {"value": round(o.value_ns / 1e3, 1), "error": round(o.error_ns / 1e3, 1)}
                for o in ran.offsets
            },
            **({"accounting": ran.accounting} if ran.accounting is not None else {}),
            **({"dispatcher_late_ms": round(late, 2)} if (late := ran.dispatcher_late_ms) is not None else {}),
        },
    )  # fmt: skip
