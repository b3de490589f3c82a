"""An operator under test on a running cluster: its image loaded, its own manifests applied, its objects made, removed.

The image must be in the local Docker: nothing is pulled, and nothing but our own operator is built here. Its manifests
(CRDs, roles, Deployment) are read out of the image, or beside it, and applied as they are.
"""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.errors import EnvironmentMissingError, InputError
from slurmtwin.contract.scenario import Scenario
from slurmtwin_e2e.docker import docker, has_image, image_id
from slurmtwin_e2e.images import Say
from slurmtwin_e2e.kind import slurm_images
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.manifests.objects import Object, Place
from slurmtwin_e2e.operators import image as own_image
from slurmtwin_e2e.operators.form import FOLDER, OperatorForm, load_operator
from slurmtwin_e2e.operators.placeholders import fill
from slurmtwin_e2e.operators.values import create_values

ROOT: Final = FOLDER.parents[1]
READY_LIMIT_S: Final = 120.0
_RENEWING: Final = threading.Lock()
LARGEST: Final = 16 << 20
"""Bytes of an operator's manifests, at most."""


def operator_of(scenario: Scenario) -> OperatorForm | None:
    """The operator that the scenario names; None for plain manifests. Raises InputError for one that has no folder."""
    name = scenario.pods.operator if scenario.pods else ""
    return load_operator(name) if name else None


def slurm_image(form: OperatorForm, version: str) -> str:
    """Name of the pods' image under this operator."""
    return f"slurmtwin/pod-{form.name}:{version}" if form.slurm_image else slurm_images.image_name(version)


def make_slurm_image(form: OperatorForm, version: str, say: Say) -> str:
    """Build the pods' image from the operator's folder on top of ours, unless it is here; returns its name."""
    base = slurm_images.make(version, say)
    if not form.slurm_image:
        return base
    return slurm_images.make_on(base, FOLDER / form.name / form.slurm_image, slurm_image(form, version), say)


def manifests(form: OperatorForm) -> str:
    """The operator's own manifests as one text. Raises EnvironmentMissingError when they or its image are not there."""
    if not has_image(form.image):
        raise EnvironmentMissingError(f"image {form.image} of the operator {form.name} is not in the local Docker")
    return "\n---\n".join(_inside(form.image, one) if one.startswith("/") else _beside(one) for one in form.install)


def _inside(image: str, path: str) -> str:
    """A file of an image, by a container that is never started."""
    made = docker("create", "--network", "none", image, "none").stdout.strip()
    try:
        copied = subprocess.run(["docker", "cp", f"{made}:{path}", "-"], capture_output=True, timeout=60)
    finally:
        docker("rm", made, check=False)
    if copied.returncode:
        raise EnvironmentMissingError(f"image {image} holds no {path}")
    return file_of(copied.stdout, path)


def _beside(path: str) -> str:
    """A file of this repository."""
    found = ROOT / path
    if not found.is_file():
        raise EnvironmentMissingError(f"{path} is missing: operators under test are run from a checkout")
    return found.read_text()


def file_of(archive: bytes, name: str) -> str:
    """The one regular file of a `docker cp` archive. Raises InputError for anything else, or too much of it."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        members = tar.getmembers()
        if len(members) != 1 or not members[0].isreg() or members[0].size > LARGEST:
            raise InputError(f"{name} is no plain file of at most {LARGEST >> 20} MiB")
        stream = tar.extractfile(members[0])
        assert stream is not None
        return stream.read().decode()


def prepare(cluster: Cluster, form: OperatorForm, scenario: Scenario, say: Say) -> tuple[str, str]:
    """Images in the nodes, and the operator running; (image of the pods, the same for a database it has not)."""
    if form.image == own_image.NAME:
        own_image.make(say)
    text = manifests(form)
    if form.record:
        folder = cluster.shared / form.record
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
    pod = make_slurm_image(form, scenario.slurm.version, say)
    for name in slurm_images.load(cluster, [pod]) + slurm_images.load(cluster, [form.image]):
        say(f"copied {name} to {cluster.name}")
    install(cluster, form, text, say)
    return pod, pod


def _pod(cluster: Cluster, form: OperatorForm) -> dict[str, Any] | None:
    """The operator's pod that is not being deleted."""
    listed = cluster.kubectl("-n", form.namespace, "get", "pods", "-o", "json", "--ignore-not-found", check=False)
    beginning = form.pod.partition("/")[2]
    for pod in json.loads(listed or '{"items": []}')["items"]:
        if pod["metadata"]["name"].startswith(beginning) and "deletionTimestamp" not in pod["metadata"]:
            found: dict[str, Any] = pod
            return found
    return None


def _ready(cluster: Cluster, form: OperatorForm) -> bool:
    pod = _pod(cluster, form)
    conditions = pod["status"].get("conditions", []) if pod else []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _wait_ready(cluster: Cluster, form: OperatorForm, limit: float) -> None:
    """Until its pod is ready. Raises EnvironmentMissingError when it is not by `limit` (time.monotonic)."""
    while not _ready(cluster, form):
        if time.monotonic() > limit:
            raise EnvironmentMissingError(f"operator {form.name}: no ready pod after {READY_LIMIT_S:.0f} s")
        time.sleep(0.5)


def restarted(pod: dict[str, Any]) -> bool:
    """Was a container of the pod started again? Its next start would wait in back-off, for an earlier run."""
    return any(status["restartCount"] for status in pod["status"].get("containerStatuses", []))


def renew(cluster: Cluster, form: OperatorForm, say: Say) -> None:
    """Give a run an operator whose containers never ended. Raises EnvironmentMissingError when it does not come up.

    Runs that are beside each other call it together: the first of them does it, the others find it done.
    """
    with _RENEWING:
        pod = _pod(cluster, form)
        if pod is None or not restarted(pod):
            return
        cluster.kubectl("-n", form.namespace, "delete", "pod", pod["metadata"]["name"])
        _wait_ready(cluster, form, time.monotonic() + READY_LIMIT_S)
        say(f"operator {form.name} has a new pod: the old one's container had been started again")


def install(cluster: Cluster, form: OperatorForm, text: str, say: Say) -> None:
    """Apply the operator's manifests, and wait until its pod is ready. Raises EnvironmentMissingError."""
    if _ready(cluster, form):
        return
    limit = time.monotonic() + READY_LIMIT_S
    phase = ("get", "namespace", form.namespace, "--ignore-not-found", "-o", "jsonpath={.status.phase}")
    while cluster.kubectl(*phase) == "Terminating" and time.monotonic() < limit:
        time.sleep(0.5)  # what an earlier run took off is still going
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
    _wait_ready(cluster, form, limit)
    say(f"operator {form.name} runs in {form.namespace}")


def uninstall(cluster: Cluster, form: OperatorForm) -> None:
    """Take the operator's manifests off again; objects that it left are not its own any more."""
    cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", stdin=manifests(form), check=False)


def uninstall_all(cluster: Cluster, scenarios: Sequence[Scenario]) -> None:
    """Take off every operator that these scenarios named."""
    for name in sorted({s.pods.operator for s in scenarios if s.pods and s.pods.operator}):
        uninstall(cluster, load_operator(name))


def slurm_objects(form: OperatorForm, place: Place, scenario: Scenario, compute: int) -> list[Object]:
    """The objects of one Slurm cluster, filled from the scenario."""
    evidence = f"{place.shared}/{place.namespace}/evidence"
    filled: list[Object] = fill(form.create, create_values(scenario, place.namespace, place.image, evidence, compute))
    return filled


def finish(cluster: Cluster, form: OperatorForm, namespace: str) -> None:
    """Delete the run's custom resources while the operator still answers for their finalizers."""
    kinds = sorted({_kind(item) for item in form.create if str(item["apiVersion"]).startswith(f"{form.group}/")})
    if kinds:
        cluster.kubectl("-n", namespace, "delete", ",".join(kinds), "--all", "--wait=false", check=False)


def clear(cluster: Cluster, form: OperatorForm, namespace: str) -> None:
    """Delete what the run made outside its namespace, after the namespace is gone."""
    for item in form.create:
        if "namespace" not in item["metadata"]:
            name = str(fill(item["metadata"]["name"], {"namespace": namespace}))
            cluster.kubectl("delete", item["kind"].lower(), name, "--ignore-not-found", "--wait=false", check=False)


def _kind(item: dict[str, Any]) -> str:
    group, _, version = str(item["apiVersion"]).partition("/")
    return f"{item['kind'].lower()}.{version}.{group}"


def provenance(form: OperatorForm) -> dict[str, Any]:
    """What a manifest tells of the operator: name, source, image and its digest."""
    return {"name": form.name, "source": form.source, "image": form.image, "image_id": image_id(form.image)}


def evidence_folders(form: OperatorForm, evidence: Path) -> None:
    """Log folders that pods without root could not make."""
    for number, _ in enumerate(form.controllers):
        folder = evidence / "logs" / f"slurmctld-{number}"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
