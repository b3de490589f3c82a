"""A handle on a running cluster: its nodes, kubectl, images, logs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin_e2e.kind import programs
from slurmtwin_e2e.kind.pins import cache_folder

NETWORK: Final = "slurmtwin-kind"
ADMIN: Final = "/etc/kubernetes/admin.conf"
CREATE_LIMIT_S: Final = 600.0
READY_LIMIT_S: Final = 240.0
IMPORT: Final = ("ctr", "-n", "k8s.io", "images", "import", "--all-platforms", "--digests", "-")
"""Images are unpacked on their way in: else a machine's first container of one waits for it, 2.3 s (quiet-single)."""


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
        """Pods whose containers are not all ready, as namespace/name: phase; nodes not Ready or without a lease yet."""
        leased = {lease["metadata"]["name"] for lease in self.items("leases", "-n", "kube-node-lease")}
        nodes = [(node["metadata"]["name"], is_ready(node)) for node in self.items("nodes")]
        waiting = [f"node {name}" for name, ready in nodes if not ready or name not in leased]
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
        while waiting := self.not_running():
            if time.monotonic() > limit:
                raise EnvironmentMissingError(f"{self.name}: not running after {limit_s:.0f} s: {', '.join(waiting)}")
            time.sleep(0.5)

    def load(self, images: Sequence[str], nodes: Sequence[str] = ()) -> None:
        """Copy images of the local Docker to the nodes' containerd (all nodes, or those named), at once."""
        targets = nodes or self.nodes
        save = subprocess.Popen(["docker", "save", *images], stdout=subprocess.PIPE)
        importers = [
            subprocess.Popen(
                ["docker", "exec", "-i", node, *IMPORT],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )
            for node in targets
        ]  # fmt: skip
        assert save.stdout is not None
        while chunk := save.stdout.read(1 << 20):
            for importer in importers:
                assert importer.stdin is not None
                with suppress(BrokenPipeError):  # an importer that gave up says why below
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
        run_kind("export", "logs", str(target), "--name", self.name, check=False)


def is_ready(node: dict[str, Any]) -> bool:
    """Does a Node object carry Ready=True?"""
    conditions = node["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def folder_of(name: str) -> Path:
    """Our files for a cluster: kubeconfig, kind's configuration, kubelet patches, the record of its first state."""
    return cache_folder() / "clusters" / name


def run_kind(*arguments: str, check: bool = True) -> str:
    """Run kind in a session of its own: Ctrl-C reaches us alone, and we decide what becomes of the cluster.

    When this process is killed, kind is too. Raises EnvironmentMissingError with kind's last words.
    """
    binary = programs.build(lambda _: None, ("kind",))["kind"]
    environment = os.environ | {"KIND_EXPERIMENTAL_DOCKER_NETWORK": NETWORK, "KIND_EXPERIMENTAL_PROVIDER": "docker"}
    bound = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    child = subprocess.Popen(
        [*bound, str(binary), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = child.communicate(timeout=CREATE_LIMIT_S)
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise
    if check and child.returncode:
        raise EnvironmentMissingError(f"kind {arguments[0]} {arguments[1]} failed: {output.strip()[-2000:]}")
    return output
