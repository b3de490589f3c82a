"""What the world and its faults ask of slurmctld and slurmd in containers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from slurmtwin.models.api_server.objects import Container, Pod
    from slurmtwin.models.kubelet.program import Program

Draw = Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStarts:
    """When the daemons of pods come up; draws in ns (contract/pod_durations.py), times in ns of the run."""

    slurmctld_ns: Draw
    """Container runs -> slurmctld serves."""
    slurmd_ns: Draw
    """Container runs, or slurmd has its configuration -> slurmd serves."""
    configless_ns: int
    """Pause between two requests of slurmd -Z for its configuration."""
    shutdown_ns: int
    """supervisord: a process is gone -> it is started again, at the least."""
    first_ns: Mapping[str, int] = field(default_factory=dict)
    """Pod -> when its daemon serves for the first time, where a recording says so and the container runs by then."""


class Daemon(Protocol):
    """The daemon in one pod: what a fault may do to its process (under a supervisor: to that one, not to both)."""

    def signal(self, name: str) -> None:
        """KILL, TERM, STOP or CONT."""
        ...


class Worker(Daemon, Protocol):
    """slurmd's pod: also what its jobs do to memory, and its network."""

    def hog(self, job_id: int) -> None:
        """A process of that job grows until something dies."""
        ...

    def fill(self, job_id: int) -> None:
        """That job fills the memory-backed volume."""
        ...

    def group_kill(self, armed: bool) -> None:
        """From now on an OOM kill takes the whole container (as cgroup v2 does), or no longer."""
        ...

    def cut(self) -> None:
        """Packets between this pod and slurmctld's are dropped."""
        ...

    def heal(self) -> None:
        """They pass again."""
        ...


class SlurmPods(Protocol):
    """All Slurm programs of one cluster."""

    def program(self, pod: Pod, container: Container) -> Program:
        """What a container runs: by the pod's label `app`; env["process"] is main or supervised."""
        ...

    def daemon(self, pod_name: str) -> Daemon | None:
        """The daemon that runs in the pod of that name now."""
        ...
