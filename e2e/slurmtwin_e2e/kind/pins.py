"""What the node image is made of: versions in node_image/lock.json, checksums in node_image/go/*/go.sum."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from slurmtwin.contract.errors import EnvironmentMissingError

KUBERNETES_PROGRAMS: Final = (
    "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubeadm", "kubectl", "kubelet",
)  # fmt: skip
CONTROL_PLANE_PROGRAMS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


@dataclass(frozen=True, slots=True)
class Pins:
    """Versions and image names, byte for byte as kubeadm and kind ask for them."""

    kubernetes: str
    kind: str
    etcd_image: str
    coredns_image: str
    local_path_image: str
    pause_image: str
    network_pod_image: str
    debian: str
    go_at_least: tuple[int, ...]
    pulled: str

    @property
    def node_image(self) -> str:
        """Name of the node image in the local Docker."""
        return f"slurmtwin/node:{self.kubernetes}"

    @property
    def archived(self) -> tuple[str, ...]:
        """Images that every node holds from its first start."""
        named = [f"registry.k8s.io/{program}:{self.kubernetes}" for program in CONTROL_PLANE_PROGRAMS]
        named += [f"registry.k8s.io/kube-proxy:{self.kubernetes}", self.etcd_image, self.coredns_image]
        return (*named, self.pause_image, self.network_pod_image, self.local_path_image)


def data_folder() -> Path:
    """The folder node_image: beside the package in a checkout, inside it when installed from a wheel."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package.parent / "node_image", package / "node_image"):
        if (folder / "lock.json").is_file():
            return folder
    raise EnvironmentMissingError("the folder node_image is missing from this installation")


@cache
def pins() -> Pins:
    """The lock file, read once."""
    lock = json.loads((data_folder() / "lock.json").read_text(encoding="utf-8"))
    return Pins(
        kubernetes=lock["kubernetes"], kind=lock["kind"], etcd_image=lock["etcd"]["image"],
        coredns_image=lock["coredns"]["image"], local_path_image=lock["local-path-provisioner"]["image"],
        pause_image=lock["pause"], network_pod_image=lock["network_pod"], debian=lock["debian"],
        go_at_least=tuple(int(part) for part in lock["go_at_least"].split(".")), pulled=lock["pulled"],
    )  # fmt: skip


def digest(*paths: Path) -> str:
    """SHA-256 over names and bytes of files and whole folders, in name order."""
    state = hashlib.sha256()
    for path in paths:
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            state.update(f"{file.relative_to(path.parent)}\0{file.stat().st_mode & 0o111:o}\0".encode())
            state.update(hashlib.sha256(file.read_bytes()).digest())
    return state.hexdigest()


def recipe_digest() -> str:
    """What the node image depends on: every file of node_image."""
    return digest(data_folder())


def cache_folder() -> Path:
    """Where built programs are kept: SLURMTWIN_CACHE, else the user's cache folder."""
    given = os.environ.get("SLURMTWIN_CACHE")
    base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slurmtwin"
    return base / "kind"
