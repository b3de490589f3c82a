"""Which CPUs a job's tasks really get in a container, where Slurm and the kubelet have their own ideas.

slurmctld hands out CPUs of the node that slurm.conf describes. In the container the kernel has the last word: the
container's cpuset, the kubelet's own exclusive set or what its shared pool is at the moment.

| TaskPlugin | a task's CPUs |
|---|---|
| task/none | the container's cpuset, whatever Slurm gave: jobs share it |
| task/affinity | of the CPUs that slurmd saw at its start those still in the cpuset; none left: the launch fails |

Source: task/affinity dist_tasks.c, slurmd xcpuinfo.c of 26.05 (hwloc, read at slurmd's start; without CPUs outside its
cpuset); kernel sched_setaffinity(), which takes the part of a mask that the cpuset allows and says EINVAL when there is
none; designs.md X79. CPU sets are bitmaps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from slurmtwin.contract.events import Kind
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.kubelet.cpu_topology import list_form

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Environment
    from slurmtwin.engine.event_sink import EventSink

TaskPlugin = Literal["task/none", "task/affinity"]


def task_cpus(plugin: TaskPlugin, places: int, seen: int, now: int) -> int | None:
    """CPUs of a task; None: the launch fails.

    places: the CPUs that Slurm gave, as positions among those that the node has. seen: the container's cpuset when
    slurmd started. now: its cpuset at the launch.
    """
    if plugin == "task/none":
        return now
    mask = _at(places, seen) & now
    return mask or None


def _at(places: int, seen: int) -> int:
    """The CPUs at these positions of a set, in ascending order."""
    mask, position = 0, 0
    while seen:
        cpu = seen & -seen
        if places >> position & 1:
            mask |= cpu
        seen ^= cpu
        position += 1
    return mask


@dataclass(slots=True)
class _Held:
    """CPUs that a job holds in Slurm's eyes, in a container."""

    machine: str
    container: str
    job: int
    cpus: int


class CpuBook:
    """How many CPUs jobs hold on each machine, beside how many their containers have: a row when they are too many, and
    when they no longer are.

    cpuset: (machine, container) -> the container's CPUs now. Containers of one machine with the same set share it.
    """

    def __init__(self, env: Environment, sink: EventSink, cpuset: Callable[[str, str], int]) -> None:
        self._env = env
        self._sink = sink
        self.cpuset = cpuset
        self._held: dict[int, _Held] = {}
        self._over: dict[tuple[str, int], int] = {}

    def begin(self, job: int, machine: str, container: str, cpus: int) -> None:
        """A job holds so many CPUs in that container from now on."""
        self._held[job] = _Held(machine, container, job, cpus)
        self.look(machine)

    def end(self, job: int) -> None:
        """The job is gone from there."""
        held = self._held.pop(job, None)
        if held is not None:
            self.look(held.machine)

    def look(self, machine: str) -> None:
        """Jobs or CPU sets of a machine changed."""
        wanted: dict[int, list[_Held]] = {}
        for held in self._held.values():
            if held.machine == machine:
                wanted.setdefault(self.cpuset(machine, held.container), []).append(held)
        for cpus in [cpus for name, cpus in self._over if name == machine and cpus not in wanted]:
            self._tell(machine, cpus, 0, [])
        for cpus, holders in wanted.items():
            excess = sum(held.cpus for held in holders) - cpus.bit_count()
            self._tell(machine, cpus, max(0, excess), holders)

    def _tell(self, machine: str, cpus: int, excess: int, holders: list[_Held]) -> None:
        mark = (machine, cpus)
        if self._over.get(mark, 0) == excess:
            return
        if excess:
            self._over[mark] = excess
        else:
            del self._over[mark]
        jobs = sorted(held.job for held in holders)
        said = detail_text(cpuset=list_form(cpus), jobs=jobs)
        self._sink.emit(self._env.now_ns, Kind.CPU_OVERBOOKED, "kernel", None, machine, excess, "cpu", said)
