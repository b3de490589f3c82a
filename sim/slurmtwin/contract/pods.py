"""A scenario's `pods` section: how Slurm's daemons are put into pods, by plain manifests or by an operator (DESIGN 6).

The three controller kinds are those of the plain designs: gke-statefulsets (StatefulSet with a volume of its own),
nersc-restart (Deployment on a shared directory), classic-ha (primary and backup on a shared directory).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from slurmtwin.contract.fields import DurationNs, Scalar, Strict

QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"


class Probe(Strict):
    """A liveness probe: HTTP GET /livez where the Slurm version serves it, else a TCP connection."""

    period: DurationNs = 10_000_000_000
    timeout: DurationNs = 1_000_000_000
    failures: int = Field(3, ge=1)


class Autoscale(Strict):
    """Who changes the number of workers: KEDA with the HorizontalPodAutoscaler it makes, or the latter alone.

    The chain is slurmctld's /metrics, Prometheus, KEDA, the autoscaler, the node set's scale (design notes 2.2).
    """

    keda: bool = Field(True, description="false: a HorizontalPodAutoscaler alone, which cannot scale from or to 0")
    metric: Literal["pending-jobs", "pending-nodes", "busy-nodes"] = "pending-jobs"
    target: int = Field(1, ge=1, description="the metric's value per worker (AverageValue) or in all (Value)")
    form: Literal["Value", "AverageValue"] = "AverageValue"
    least: int = Field(0, ge=0, description="minReplicaCount")
    most: int = Field(100, ge=1, description="maxReplicaCount")
    scrape: DurationNs = Field(30_000_000_000, description="Prometheus reads the metric so often")
    poll: DurationNs = Field(30_000_000_000, description="KEDA's pollingInterval")
    sync: DurationNs = Field(15_000_000_000, description="--horizontal-pod-autoscaler-sync-period")
    cooldown: DurationNs = Field(300_000_000_000, description="KEDA's cooldownPeriod, before it scales to 0")
    stabilization: DurationNs = Field(300_000_000_000, description="before fewer replicas are asked for")
    renamed: DurationNs | None = Field(None, description="from then on nobody serves a metric of that name")


class OtherPod(Strict):
    """A pod that is not Slurm's, beside slurmd on a machine: a service, a batch pod, another tenant."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,40}$")
    at: DurationNs
    run: DurationNs = Field(0, description="it ends by itself after so long; 0: it runs until it is deleted")
    node: str = Field("", description="worker2, or node-of:slurmd:w-0; empty: kube-scheduler chooses")
    cpu: str = Field("100m", pattern=QUANTITY)
    memory: str = Field("64Mi", pattern=QUANTITY)
    guaranteed: bool = Field(False, description="limits equal to the requests: whole CPUs are its own")
    grace: DurationNs = Field(30_000_000_000, description="terminationGracePeriodSeconds, whole seconds")
    stubborn: bool = Field(False, description="it does not end by SIGTERM, only when the grace is over")


class BridgedPods(Strict):
    """Pods of schedulerName slurm-bridge-scheduler: Slurm chooses their nodes by one external job for each group."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,40}$", description="label app; pods are NAME, or NAME-0, NAME-1 ...")
    at: DurationNs
    count: int = Field(1, ge=1, le=1_000_000, description="so many groups, `every` apart")
    every: DurationNs = 0
    gang: int = Field(1, ge=1, le=1024, description="pods of one group (a PodGroup with minMember), a node for each")
    run: DurationNs = Field(0, description="a pod ends by itself after so long; 0: it runs until it is deleted")
    cpu: str = Field("100m", pattern=QUANTITY)
    memory: str = Field("64Mi", pattern=QUANTITY)
    time: str | None = Field(None, description="time limit of the external job, a Slurm time such as 30 (minutes)")
    partition: str = ""
    exclusive: bool = Field(True, description="whole nodes; false: what the pod asks for")
    grace: DurationNs = Field(30_000_000_000, description="terminationGracePeriodSeconds, whole seconds")
    stubborn: bool = Field(False, description="a pod does not end by SIGTERM, only when the grace is over")


class PodsSection(Strict):
    """Slurm in pods, by manifests or by `operator`. Workers are the nodes of `slurm.nodes`, one pod each."""

    operator: str = Field(
        "", pattern=r"^[a-z][a-z0-9-]{0,30}$|^$",
        description="the operator under test, a folder of e2e/operators: it makes the pods; empty: plain manifests",
    )  # fmt: skip
    switches: dict[str, Scalar | list[str]] = Field(
        default_factory=dict, description="the reference operator's switches beside those of the design (twin)"
    )
    replicas: int | None = Field(None, ge=0, le=1024, description="workers at the beginning; default: one per node")
    autoscale: Autoscale | None = Field(None, description="what scales the operator's workers (twin)")
    bridged: list[BridgedPods] = Field(
        default_factory=list, description="pods that slurm-bridge schedules, where it is the operator (twin)"
    )
    others: list[OtherPod] = Field(default_factory=list, description="pods beside Slurm's (twin)")
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
