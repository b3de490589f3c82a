"""A scenario's `pods` section: how Slurm's daemons are put into pods, by plain manifests or by an operator (DESIGN 6).

The three controller kinds are those of the plain designs: gke-statefulsets (StatefulSet with a volume of its own),
nersc-restart (Deployment on a shared directory), classic-ha (primary and backup on a shared directory).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from slurmtwin.contract.fields import DurationNs, Strict

QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"


class Probe(Strict):
    """A liveness probe: HTTP GET /livez where the Slurm version serves it, else a TCP connection."""

    period: DurationNs = 10_000_000_000
    timeout: DurationNs = 1_000_000_000
    failures: int = Field(3, ge=1)


class PodsSection(Strict):
    """Slurm in pods, by manifests or by `operator`. Workers are the nodes of `slurm.nodes`, one pod each."""

    operator: str = Field(
        "", pattern=r"^[a-z][a-z0-9-]{0,30}$|^$",
        description="the operator under test, a folder of e2e/operators: it makes the pods; empty: plain manifests",
    )  # fmt: skip
    controller: Literal["statefulset", "deployment", "primary-backup"] = "statefulset"
    state: Literal["claim", "shared", "memory"] = Field("claim", description="where StateSaveLocation lies")
    slurmctld_process: Literal["main", "supervised"] = "main"
    slurmd_process: Literal["main", "supervised"] = "main"
    liveness: Probe | None = Field(None, description="of slurmctld")
    slurmd_liveness: Probe | None = None
    memory: str = Field("", pattern=rf"{QUANTITY}|^$", description="memory limit of a slurmd pod")
    cpu: str = Field("", pattern=rf"{QUANTITY}|^$", description="CPU request and limit of a slurmd pod")
    scratch: str = Field("", pattern=rf"{QUANTITY}|^$", description="size of a memory-backed volume at /scratch")
    toleration: DurationNs | None = Field(None, description="of not-ready and unreachable; default: 300s by admission")
    grace: DurationNs = Field(30_000_000_000, description="terminationGracePeriodSeconds, whole seconds")
    controller_after: DurationNs = Field(0, description="create slurmctld so long after the workers")
    config_poll: DurationNs = Field(
        0, description="slurmctld's container compares the mounted slurm.conf so often, takes a new one and asks for a "
        "reconfigure; 0: only a new container takes it"
    )  # fmt: skip
