"""Memory of containers, and whom the kernel kills when a limit is reached (kubernetes.md 2.1 to 2.7, slurm.md 7).

A memory cgroup has processes with memory of their own and pages of memory-backed volumes that belong to no process.
The kernel's choice is that of mm/oom_kill.c oom_badness(): pages of the process + oom_score_adj / 1000 of the
limit; the largest sum dies. Under cgroup v2 the kubelet sets memory.oom.group, and the container dies whole.
Sizes are bytes. Page tables and swap are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

CgroupVersion = Literal[1, 2]

UNKILLABLE_ADJ: Final = -1000


@dataclass(slots=True, eq=False)
class Process:
    """A process, or a group of equal fate such as the tasks of a job step. `owner` says whose it is."""

    owner: str
    memory: int
    score_adj: int = 0
    main: bool = False
    """PID 1 of its container: with it every process dies (its PID namespace ends)."""


@dataclass(slots=True, eq=False)
class ContainerCgroup:
    """One container's memory cgroup. A limit of 0 is none."""

    name: str
    limit: int = 0
    score_adj: int = 0
    """What the kubelet gives its first process; children inherit it (quality_of_service.py)."""
    processes: list[Process] = field(default_factory=list)
    volume_pages: int = 0
    """Pages of memory-backed volumes that this container wrote."""
    peak: int = 0
    """memory.peak: most that it held at once."""
    group_kill: bool = False
    """Somebody kills all of it after any OOM kill in it: memory.oom.group as the recorded v1 clusters emulate it."""
    oom_kills: int = 0
    """memory.events oom_kill (v2), or the count in memory.oom_control (v1)."""

    @property
    def used(self) -> int:
        """Bytes charged to it."""
        return self.volume_pages + sum(process.memory for process in self.processes)

    def note(self) -> None:
        """Its use changed: keep the peak."""
        self.peak = max(self.peak, self.used)


@dataclass(slots=True, eq=False)
class PodCgroup:
    """A pod's cgroup over those of its containers. Its limit is the sum of theirs, where all have one.

    A container's end leaves the pages of its volumes to the pod: they live as long as the volume (docs/surprises.md).
    """

    containers: dict[str, ContainerCgroup] = field(default_factory=dict)
    orphan_pages: int = 0
    """Volume pages of containers that have ended."""

    @property
    def limit(self) -> int:
        """Bytes; 0: none."""
        limits = [container.limit for container in self.containers.values()]
        return sum(limits) if limits and all(limits) else 0

    @property
    def used(self) -> int:
        """Bytes charged to it, those of its containers included."""
        return self.orphan_pages + sum(container.used for container in self.containers.values())

    def container_ended(self, name: str) -> None:
        """Every process of the container is gone; pages of volumes stay."""
        container = self.containers[name]
        container.processes.clear()
        self.orphan_pages += container.volume_pages
        container.volume_pages = 0


@dataclass(frozen=True, slots=True)
class OomKill:
    """What one OOM did: the processes that died, in the container it was counted in.

    `whole`: the container died, by group kill or because its main process was chosen.
    """

    container: str
    killed: tuple[Process, ...]
    whole: bool


def badness(process: Process, limit: int) -> int | None:
    """Score of oom_badness() in bytes, for an OOM at `limit` bytes; None: never chosen."""
    if process.score_adj <= UNKILLABLE_ADJ:
        return None
    return process.memory + process.score_adj * limit // 1000


def victim(processes: Iterable[Process], limit: int) -> Process | None:
    """The process that the kernel chooses; of equal ones the last it looks at (select_bad_process())."""
    chosen, worst = None, None
    for process in processes:
        points = badness(process, limit)
        if points is not None and (worst is None or points >= worst):
            chosen, worst = process, points
    return chosen


def settle(pod: PodCgroup, version: CgroupVersion, single_process: bool = False) -> list[OomKill]:
    """Kill until every limit holds again or nobody is left to kill; the dead are taken off the account.

    single_process: the kubelet's singleProcessOOMKill (kubernetes.md 2.1); on v1 there is nothing else.
    """
    kills: list[OomKill] = []
    for container in pod.containers.values():
        while container.limit and container.used > container.limit:
            kill = _kill(pod, (container,), container.limit, version == 2 and not single_process)
            if kill is None:
                break
            kills.append(kill)
    while pod.limit and pod.used > pod.limit:
        kill = _kill(pod, tuple(pod.containers.values()), pod.limit, version == 2 and not single_process)
        if kill is None:
            break
        kills.append(kill)
    return kills


def node_oom(pods: Iterable[PodCgroup], node_memory: int, group: bool = False) -> tuple[PodCgroup, OomKill] | None:
    """A machine that has run out: of all processes in containers one dies, with group (cgroup v2) its whole container.

    None: its pods fit, or nobody can be killed.
    """
    places = list(pods)
    if sum(pod.used for pod in places) <= node_memory:
        return None
    chosen = victim((p for pod in places for c in pod.containers.values() for p in c.processes), node_memory)
    for pod in places:
        among = tuple(c for c in pod.containers.values() if chosen in c.processes)
        kill = _kill(pod, among, node_memory, group) if among else None
        if kill is not None:
            return pod, kill
    return None


def _kill(pod: PodCgroup, among: tuple[ContainerCgroup, ...], limit: int, group: bool) -> OomKill | None:
    chosen = victim((process for container in among for process in container.processes), limit)
    if chosen is None:
        return None
    container = next(each for each in among if chosen in each.processes)
    container.note()
    group = group or container.group_kill
    killed = tuple(p for p in container.processes if p.score_adj > UNKILLABLE_ADJ) if group else (chosen,)
    whole = any(process.main for process in killed) or (group and len(killed) == len(container.processes))
    container.oom_kills += len(killed)
    container.processes = [] if whole else [process for process in container.processes if process not in killed]
    if whole:
        pod.container_ended(container.name)
    return OomKill(container.name, killed, whole)
