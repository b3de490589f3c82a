"""Who owns a cluster: labels on a Docker volume, so that Docker alone knows, whatever became of our files.

The volume is also the directory that all nodes share. It is made first and removed last.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slurmtwin_e2e.docker import docker

CLUSTER_LABEL: Final = "org.slurmtwin.kind.cluster"
OWNER_LABEL: Final = "org.slurmtwin.kind.owner"
KEEP_LABEL: Final = "org.slurmtwin.kind.keep"
SPEC_LABEL: Final = "org.slurmtwin.kind.spec"
KIND_LABEL: Final = "io.x-k8s.kind.cluster"
VOLUME_SUFFIX: Final = "-shared"


def process_id() -> str:
    """This process, told apart from a later one with its number: boot, process number, start time in ticks."""
    return identify(os.getpid()) or ""


def identify(pid: int) -> str | None:
    """Identity of a living process; None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    return f"{boot}/{pid}/{stat.rpartition(')')[2].split()[19]}"


def is_alive(owner: str) -> bool:
    """Does the process still run?"""
    parts = owner.split("/")
    return len(parts) == 3 and parts[1].isdigit() and identify(int(parts[1])) == owner


@dataclass(frozen=True, slots=True)
class Owned:
    """A cluster's record: kind's name of it, its owner, whether it is to stay, the digest of what it was made of."""

    name: str
    owner: str
    keep: bool
    spec: str

    @property
    def is_stale(self) -> bool:
        """Nobody uses it and nobody asked to keep it."""
        return not self.keep and not is_alive(self.owner)


def volume_of(name: str) -> str:
    """The volume that carries a cluster's record."""
    return f"{name}{VOLUME_SUFFIX}"


def directory(record: Owned) -> Path:
    """The volume's directory on the host."""
    return Path(docker("volume", "inspect", "-f", "{{.Mountpoint}}", volume_of(record.name)).stdout.strip())


def write(record: Owned) -> Path:
    """Make the labelled volume; returns its directory on the host."""
    docker(
        "volume", "create", "--label", f"{CLUSTER_LABEL}={record.name}", "--label", f"{OWNER_LABEL}={record.owner}",
        "--label", f"{KEEP_LABEL}={str(record.keep).lower()}", "--label", f"{SPEC_LABEL}={record.spec}",
        volume_of(record.name),
    )  # fmt: skip
    return directory(record)


def remove(name: str) -> None:
    """Remove a cluster's volume, and its directory where Docker made that anew without a volume.

    A node that a killed run had asked for may start when the volume is gone: Docker then makes the directory that the
    node wants to mount, and takes it for a volume at its own next start.
    """
    docker("volume", "rm", "-f", volume_of(name), check=False)
    root = docker("info", "-f", "{{.DockerRootDir}}", check=False).stdout.strip()
    if root and docker("volume", "inspect", volume_of(name), check=False).returncode:
        shutil.rmtree(Path(root, "volumes", volume_of(name)), ignore_errors=True)


def without_record(prefix: str) -> list[str]:
    """Clusters of which there is a volume without labels, such as Docker makes of a directory: nobody's."""
    listed = docker("volume", "ls", "-q").stdout.split()
    ours = {name.removesuffix(VOLUME_SUFFIX) for name in listed if name.startswith(prefix)}
    named = {name for name in ours if volume_of(name) in listed}
    return sorted(named - {record.name for record in records()})


def records() -> list[Owned]:
    """Every cluster that has a record, by name."""
    names = docker("volume", "ls", "-q", "--filter", f"label={CLUSTER_LABEL}").stdout.split()
    if not names:
        return []
    found = []
    # a cluster may go between the two calls: what is still there is listed, exit code 1 for the rest
    for entry in json.loads(docker("volume", "inspect", *names, check=False).stdout or "[]"):
        labels = entry["Labels"]
        found.append(
            Owned(labels[CLUSTER_LABEL], labels[OWNER_LABEL], labels[KEEP_LABEL] == "true", labels[SPEC_LABEL])
        )
    return sorted(found, key=lambda record: record.name)


def containers(name: str) -> list[str]:
    """Ids of a cluster's node containers, running or not."""
    return docker("ps", "-aq", "--filter", f"label={KIND_LABEL}={name}").stdout.split()


def clusters_in_docker(prefix: str) -> list[str]:
    """Names of clusters with node containers, whether or not there is a record."""
    out = docker("ps", "-a", "--filter", f"label={KIND_LABEL}", "--format", f'{{{{.Label "{KIND_LABEL}"}}}}').stdout
    return sorted({name for name in out.split() if name.startswith(prefix)})


def end_creators(name: str) -> None:
    """End `docker run` processes that still make nodes of this cluster after the run that wanted them was killed."""
    label = f"{KIND_LABEL}={name}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if words[:2] == [b"docker", b"run"] and label in words:
                os.kill(int(folder.name), signal.SIGKILL)
