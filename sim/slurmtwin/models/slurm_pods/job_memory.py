"""A job's processes in a container's memory, and how a job outgrows it (fault kinds memory.hog and memory.fill).

The growing process is a child of the script, as in the recorded runs: when the kernel takes it, the script ends with
its exit code (137). Pages that a job writes into a memory-backed volume belong to the volume.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from slurmtwin.contract.quantity import MIB
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.kubelet.container_memory import Process
from slurmtwin.models.kubelet.cpu_quota import CpuQuota
from slurmtwin.models.kubelet.program import SIGKILL_CODE

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Call
    from slurmtwin.models.kubelet.program import Place
    from slurmtwin.models.slurm_pods.settings import DaemonPods
    from slurmtwin.models.slurmd.batch_job import BatchJob


class Grown(NamedTuple):
    """One growth: CPU time of Python's start, of a step and of giving it back, and when the process is gone."""

    start_ns: int
    step_ns: int
    exit_ns: int
    over_ns: int
    """Since it began."""


class JobMemory:
    """One job on its batch host."""

    def __init__(self, work: BatchJob, stepd: Process, script: Process, place: Place, settings: DaemonPods) -> None:
        self.work = work
        self.stepd = stepd
        self.script = script
        self.child: Process | None = None
        """The process that grows."""
        self._place = place
        self._settings = settings
        self._call: Call | None = None
        self._quota = CpuQuota(0, 0)
        self._took = Grown(0, 0, 0, 0)

    def hog(self, size: int = 0) -> None:
        """A child grows without end: until a limit, or the machine's memory, is met, in one go to that moment.

        size: so many bytes, where these are free, and it ends.
        """
        if self.child is not None:
            return
        self._fork(self._settings.grower_memory)
        free = max(0, self._limit() - self._place.cgroup.used)
        step, clock = self._settings.growth.step, self._place.clock
        if size and (size <= free or not self._limit()):
            over_ns = self._takes_ns(-(-size // step))
            self._call = clock.call_in(over_ns, self._grew, size)
            self.work.busy(over_ns, self._tells_ns)
        elif self._limit():
            steps = free // step + 1
            self._call = clock.call_in(self._takes_ns(steps), self._grown, steps * step)

    def _fork(self, memory: int) -> None:
        self.child = Process(self.script.owner, memory, self.script.score_adj)
        self._place.cgroup.processes.append(self.child)

    def _takes_ns(self, steps: int) -> int:
        """Python's start, so many steps with the sleeps between them, and its end, within the container's CPU limit."""
        growth = self._settings.growth
        self._quota = quota = CpuQuota(self._place.container.milli_cpu_limit, growth.phase())
        start_ns, step_ns, exit_ns = growth.start(), growth.work(), growth.exit()
        rests_ns = growth.pause_ns + growth.wake()
        at_ns = quota.done_ns(0, start_ns + step_ns)
        for _ in range(steps - 1):
            at_ns = quota.done_ns(at_ns + rests_ns, step_ns)
        self._took = Grown(start_ns, step_ns, exit_ns, quota.done_ns(at_ns, steps * exit_ns))
        return self._took.over_ns

    def _limit(self) -> int:
        return self._place.cgroup.limit or self._settings.machine_memory

    def _grown(self, size: int) -> None:
        self._call = None
        if self.child is not None:
            self.child.memory = self._settings.grower_memory + size
            self._place.memory_changed()

    def _grew(self, size: int) -> None:
        self._call = None
        self._child_leaves()
        start_ns, step_ns, exit_ns, _ = self._took
        self.work.grew(size, detail_text(start_ns=start_ns, step_ns=step_ns, exit_ns=exit_ns))

    def _tells_ns(self, alone_ns: int) -> int:
        """What slurmstepd takes to tell the end, of what the growth has left of the CPU."""
        over_ns, work_ns = self._took.over_ns, round(alone_ns * self._settings.growth.tells_on_cpu)
        return alone_ns - work_ns + self._quota.done_ns(over_ns, work_ns) - over_ns

    def fill(self, size: int) -> None:
        """The job writes so many bytes into the pod's memory-backed volume, at the speed of memory.

        It stops where the volume is full, or where the kernel acts: then it has filled some of what was freed.
        """
        self._fork(self._settings.filler_memory)
        cgroup = self._place.cgroup
        limit = self._limit()
        free = max(0, limit - cgroup.used) if limit else size
        reached = min(size, free + 1)
        takes_ns = reached * self._settings.fill() // MIB
        self._call = self._place.clock.call_in(takes_ns, self._filled, size)

    def _filled(self, size: int) -> None:
        self._call = None
        cgroup = self._place.cgroup
        limit = self._limit()
        free = max(0, limit - cgroup.used) if limit else size
        if free >= size:
            cgroup.volume_pages += size
            self._child_leaves()
        else:
            cgroup.volume_pages += free + 1
        self._place.memory_changed()
        if free < size:
            self._place.late_pages(min(size - free - 1, self._settings.late_fill()))

    def _child_leaves(self) -> None:
        processes, child = self._place.cgroup.processes, self.child
        processes[:] = [process for process in processes if process is not child]
        self.child = None

    def process_killed(self, process: Process) -> None:
        """SIGKILL to its child: the script ends with 137. To the script itself: it ends by the signal."""
        self.stop()
        if process is self.child:
            self.child = None
            self.work.end_with(SIGKILL_CODE, self._tells_ns)
        else:
            self.work.raise_signal(9)

    def stop(self) -> None:
        """Nothing grows any more."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def leave(self) -> None:
        """The processes are gone from the account."""
        self.stop()
        gone = (self.stepd, self.script, self.child)
        processes = self._place.cgroup.processes
        processes[:] = [process for process in processes if process not in gone]
