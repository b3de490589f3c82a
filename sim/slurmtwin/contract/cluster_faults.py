"""Faults of the Kubernetes cluster and of processes in its pods: what a scenario may ask the world `kind` to do.

`at` is the earliest time; with `within`, repetitions are spread evenly over so long after it, so that they sample the
phase of the longest timer the scenario rests on.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field, model_validator

from slurmtwin.contract.clock import MS
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.fields import DurationNs, Strict
from slurmtwin.contract.quantity import MIB, quantity_bytes

ClusterFaultKind = Literal[
    "process.signal",
    "process.freeze",
    "memory.hog",
    "memory.fill",
    "memory.group_kill",
    "pod.delete",
    "kube_node.pause",
    "kube_node.stop",
    "kube_node.restart",
    "kube_node.delete",
    "kube_node.cordon",
    "kube_node.drain",
    "kube_node.taint",
    "network.cut",
    "dns.outage",
    "api_server.stop",
    "api_server.slow",
    "slurmrestd.tarpit",
    "image.pull_fails",
    "disk.fill",
    "volume.lost",
    "jwt.rotate",
    "clock.jump",
    "watch.stale",
    "config.change",
]

BURST_NS: Final = 100 * MS
"""api_server.slow lets the server run so long between two pauses."""
GROWTH_STEP: Final = 4 * MIB
"""A job of memory.hog takes so much at a time (e2e/slurm_images/files/job)."""
WAITING: Final = frozenset({"memory.group_kill"})
"""Kinds that change nothing by themselves: a watcher is set up, and acts on another fault's OOM kill."""


class ClusterFault(Strict):
    """One fault. Targets: slurmctld, slurmctld:1 (backup), slurmd:w-0, slurmrestd, slurmdbd, observer, operator,
    kubelet@NODE, containerd@NODE; NODE is worker1.., control-plane, or node-of:POD-TARGET; a job is job:7.
    kube_node.pause takes `all` as well; the other side of a network.cut may be `dispatcher`.
    """

    at: DurationNs
    within: DurationNs = Field(0, description="spread the repetitions over so long after `at`")
    kind: ClusterFaultKind
    cluster: str = Field("", description="in which of several clusters; empty: the first, or the only one")
    target: str = ""
    other: str = Field("", description="network.cut: the other side; empty: everything")
    signal: str = Field("KILL", pattern=r"^[A-Z]+[0-9]?$", description="process.signal")
    lasts: DurationNs = Field(0, description="cleared so long after; 0: not cleared by the harness")
    actions: int = Field(
        0, ge=0, description="process.signal of the operator: not at once, but after so many more actions of it (twin)"
    )
    grace: DurationNs | None = Field(None, description="pod.delete: grace period; 0s: forced")
    size: str = Field("", description="disk.fill, memory.hog: so much, a Kubernetes quantity; else to the limit")
    offset: DurationNs = Field(0, description="clock.jump: by how much; api_server.slow: added delay")
    taint: str = Field("", description="kube_node.taint: KEY=VALUE:EFFECT")
    lines: list[str] = Field(default_factory=list, description="config.change: lines put at the end of slurm.conf")

    @model_validator(mode="after")
    def _grows_by_steps(self) -> ClusterFault:
        """A job's memory grows by 4 MiB a step; what memory.fill writes is the volume's size."""
        if self.size and self.kind == "memory.fill":
            raise ValueError("memory.fill fills its volume: it has no size")
        if self.size and self.kind == "memory.hog":
            try:
                size = quantity_bytes(self.size)
            except InputError as error:
                raise ValueError(str(error)) from error
            if size < GROWTH_STEP:
                raise ValueError(f"memory.hog grows by 4Mi a step: size {self.size} is less")
        return self
