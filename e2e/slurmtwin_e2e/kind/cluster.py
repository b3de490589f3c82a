"""A cluster's life: made from a scenario's section, given images, watched until all runs, removed without a trace."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin.contract.kubernetes import KubernetesCluster
from slurmtwin_e2e.docker import docker, remove
from slurmtwin_e2e.kind import host, owner, programs, spec
from slurmtwin_e2e.kind.owner import Owned
from slurmtwin_e2e.kind.pins import cache_folder, pins, recipe_digest
from slurmtwin_e2e.kind.programs import Say

NETWORK: Final = "slurmtwin-kind"
ADMIN: Final = "/etc/kubernetes/admin.conf"
CREATE_LIMIT_S: Final = 600.0
READY_LIMIT_S: Final = 240.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster: kind's name, its node names in order, the shared directory on the host and in the nodes."""

    name: str
    nodes: tuple[str, ...]
    shared: Path
    shared_inside: str

    @property
    def control_plane(self) -> str:
        """Container name of the control plane, which is also its node name."""
        return self.nodes[0]

    @property
    def workers(self) -> tuple[str, ...]:
        """Node names of the workers."""
        return self.nodes[1:]

    @property
    def kubeconfig(self) -> Path:
        """Private kubeconfig: nothing is ever written to ~/.kube."""
        return folder_of(self.name) / "kubeconfig"

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """kubectl of the node image, as the cluster's admin. Raises EnvironmentMissingError when it fails."""
        done = subprocess.run(
            ["docker", "exec", "-i", self.control_plane, "kubectl", "--kubeconfig", ADMIN, *arguments],
            input=stdin or "", capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        if check and done.returncode:
            raise EnvironmentMissingError(f"kubectl {' '.join(arguments[:3])}: {done.stderr.strip()[-800:]}")
        return done.stdout

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        """Objects that `kubectl get ARGUMENTS` lists."""
        listed: list[dict[str, Any]] = json.loads(self.kubectl("get", *arguments, "-o", "json"))["items"]
        return listed

    def not_running(self) -> list[str]:
        """Pods that do not run with all containers ready, as namespace/name: phase."""
        waiting = []
        for pod in self.items("pods", "-A"):
            statuses = pod["status"].get("containerStatuses", [])
            if pod["status"].get("phase") == "Succeeded" or (statuses and all(s["ready"] for s in statuses)):
                continue
            meta = pod["metadata"]
            waiting.append(f"{meta['namespace']}/{meta['name']}: {pod['status'].get('phase')}")
        return waiting

    def wait_until_running(self, limit_s: float = READY_LIMIT_S) -> None:
        """Wait until every node is Ready and every pod runs. Raises EnvironmentMissingError with what does not."""
        limit = time.monotonic() + limit_s
        while True:
            waiting = self.not_running() + [
                f"node {node['metadata']['name']}" for node in self.items("nodes") if not _is_ready(node)
            ]
            if not waiting:
                return
            if time.monotonic() > limit:
                raise EnvironmentMissingError(f"{self.name}: not running after {limit_s:.0f} s: {', '.join(waiting)}")
            time.sleep(0.5)

    def load(self, images: Sequence[str], nodes: Sequence[str] = ()) -> None:
        """Copy images of the local Docker to the nodes' containerd (all nodes, or those named), at once."""
        targets = nodes or self.nodes
        save = subprocess.Popen(["docker", "save", *images], stdout=subprocess.PIPE)
        importers = [
            subprocess.Popen(
                ["docker", "exec", "-i", node, "ctr", "-n", "k8s.io", "images", "import", "--all-platforms",
                 "--no-unpack", "--digests", "-"],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )
            for node in targets
        ]  # fmt: skip
        assert save.stdout is not None
        while chunk := save.stdout.read(1 << 20):
            for importer in importers:
                assert importer.stdin is not None
                importer.stdin.write(chunk)
        for node, importer in zip(targets, importers, strict=True):
            _, complaint = importer.communicate()
            if importer.returncode:
                raise EnvironmentMissingError(f"{node}: images do not import: {complaint.decode().strip()[-500:]}")
        if save.wait():
            raise EnvironmentMissingError(f"docker save {' '.join(images)} failed")

    def export_logs(self, target: Path) -> None:
        """kind's own collection: journal, containerd, kubelet and pod logs of every node."""
        target.mkdir(parents=True, exist_ok=True)
        _kind("export", "logs", str(target), "--name", self.name, check=False)


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def folder_of(name: str) -> Path:
    """Our files for a cluster: kubeconfig, kind's configuration, kubelet patches."""
    return cache_folder() / "clusters" / name


def _kind(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run kind in a session of its own: Ctrl-C reaches us alone, and we decide what becomes of the cluster."""
    binary = programs.build(lambda _: None, ("kind",))["kind"]
    environment = os.environ | {"KIND_EXPERIMENTAL_DOCKER_NETWORK": NETWORK, "KIND_EXPERIMENTAL_PROVIDER": "docker"}
    child = subprocess.Popen(
        [str(binary), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
        start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = child.communicate(timeout=CREATE_LIMIT_S)
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise
    if check and child.returncode:
        raise EnvironmentMissingError(f"kind {arguments[0]} {arguments[1]} failed: {output.strip()[-2000:]}")
    return subprocess.CompletedProcess(arguments, child.returncode, output, "")


def spec_digest(wanted: KubernetesCluster) -> str:
    """What a cluster is made of: its section, the node image's recipe, and this host's lack of a capability."""
    text = f"{wanted.model_dump_json()}\0{recipe_digest()}\0{host.lacks_capability()}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def create(wanted: KubernetesCluster, say: Say, *, keep: bool = False, logs: Path | None = None) -> Cluster:
    """Make a cluster and wait until all its pods run; on failure its logs go to `logs` and it is removed."""
    name = spec.full_name(wanted)
    folder = folder_of(name)
    folder.mkdir(parents=True, exist_ok=True)
    shared = owner.write(Owned(name, owner.process_id(), keep, spec_digest(wanted)))
    cluster = Cluster(name, tuple(plan.name for plan in spec.nodes(wanted)), shared, wanted.shared_directory)
    try:
        spec.write_patches(wanted, folder / "patches")
        config = spec.kind_config(wanted, folder / "patches", shared, rootless_kubelet=host.lacks_capability())
        (folder / "kind.json").write_text(json.dumps(config, indent=1) + "\n")
        start = time.monotonic()
        _kind(
            "create", "cluster", "--config", str(folder / "kind.json"), "--image", pins().node_image,
            "--kubeconfig", str(cluster.kubeconfig), "--retain",
        )  # fmt: skip
        made = time.monotonic() - start
        cluster.wait_until_running()
        took = time.monotonic() - start
        say(f"cluster {name}: {len(cluster.nodes)} nodes made in {made:.0f} s, all pods running after {took:.0f} s")
    except BaseException:
        if logs is not None and owner.containers(name):
            cluster.export_logs(logs / name)
            say(f"logs of {name}: {logs / name}")
        delete(name)
        raise
    return cluster


def delete(name: str) -> None:
    """Remove a cluster whatever is left of it: containers with their volumes, record, files, the last network."""
    containers = owner.containers(name)
    docker("unpause", *containers, check=False) if containers else None
    if containers:
        docker("rm", "-f", "-v", *containers, check=False)
    docker("volume", "rm", "-f", f"{name}-shared", check=False)
    shutil.rmtree(folder_of(name), ignore_errors=True)
    if not owner.clusters_in_docker(spec.PREFIX):
        docker("network", "rm", NETWORK, check=False)


def sweep(say: Say) -> list[str]:
    """Remove clusters whose owner is gone and which nobody asked to keep; returns their names."""
    known = owner.records()
    unrecorded = set(owner.clusters_in_docker(spec.PREFIX)) - {record.name for record in known}
    stale = sorted({record.name for record in known if record.is_stale} | unrecorded)
    for name in stale:
        say(f"removing {name}, left behind by a run that is gone")
        delete(name)
    return stale


@contextmanager
def _terminated_as_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP end a run as Ctrl-C does, so that its clusters are removed."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def running(
    wanted: Sequence[KubernetesCluster], say: Say, *, keep: bool = False, logs: Path | None = None
) -> Iterator[list[Cluster]]:
    """The clusters of a scenario, made one after the other; removed at the end unless `keep`."""
    spec.refuse_impossible(wanted, host.capacity())
    sweep(say)
    made: list[Cluster] = []
    with _terminated_as_interrupt():
        try:
            for section in wanted:
                made.append(create(section, say, keep=keep, logs=logs))
            yield made
        except BaseException:
            for cluster in made:
                if logs is not None:
                    cluster.export_logs(logs / cluster.name)
            raise
        finally:
            if not keep:
                for cluster in made:
                    delete(cluster.name)
            remove([])
