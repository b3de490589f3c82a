"""A cluster of ours that runs already, found by its name."""

from __future__ import annotations

from slurmtwin.contract.errors import EnvironmentMissingError, InputError
from slurmtwin.contract.kubernetes import KubernetesCluster
from slurmtwin_e2e.docker import docker
from slurmtwin_e2e.kind import lifecycle, owner
from slurmtwin_e2e.kind.cluster import Cluster


def _place(name: str) -> tuple[bool, int]:
    """kind's order: the control plane, worker, worker2, worker3 …"""
    tail = name.rpartition("-worker")[2] if "-worker" in name else ""
    return "-worker" in name, int(tail or 1)


def is_made_of(name: str, section: KubernetesCluster) -> bool:
    """Was the cluster of this name made of this section?"""
    return any(record.name == name and record.spec == lifecycle.spec_digest(section) for record in owner.records())


def attach(name: str, shared_inside: str = "/shared") -> Cluster:
    """The running cluster. InputError when it is not ours, EnvironmentMissingError when it does not run."""
    record = next((r for r in owner.records() if r.name == name), None)
    if record is None:
        raise InputError(f"cluster {name!r} was not made by slurmtwin", hint="only its own clusters are used")
    listed = docker("ps", "--filter", f"label={owner.KIND_LABEL}={name}", "--format", "{{.Names}}").stdout.split()
    if not listed:
        raise EnvironmentMissingError(f"cluster {name} does not run")
    return Cluster(name, tuple(sorted(listed, key=_place)), owner.directory(record), shared_inside)
