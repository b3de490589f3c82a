"""Memory faults in a job: a process outgrows the pod's limit, a memory-backed volume fills, the whole group dies.

The job's own script does it on a signal (slurm_images/files/job), so the memory is the job's, as in life.
"""

from __future__ import annotations

from slurmtwin.contract.errors import InputError
from slurmtwin.contract.quantity import MIB, quantity_bytes
from slurmtwin_e2e.kind.collect.evidence import read_lines
from slurmtwin_e2e.kind.faults.base import Fault, FaultError, PodPlace, Reach, until

EMULATOR = "/run/slurmtwin-group-kill"


def job_script(tools: Reach, target: str) -> tuple[PodPlace, int]:
    """(pod, process id) of the batch script of `job:NUMBER`. Raises FaultError when it does not run."""
    if not target.startswith("job:") or not target[4:].isdigit():
        raise InputError(f"target {target!r}: a memory fault is done in a job", hint="target: job:1")
    number = int(target[4:])
    lines = read_lines(tools.deployed.evidence / "scripts.jsonl")
    begun = [line for line in lines if line["job"] == number and line["what"] == "started"]
    if not begun:
        raise FaultError(f"job {number} has not started")
    pod = tools.pod(f"slurmd:{begun[-1]['node']}")
    for pid in tools.pids(pod.node, pod.container, "slurm_script"):
        words = tools.shell(pod.node).run(f"tr '\\0' ' ' < /proc/{pid}/cmdline").text.split()
        if f" {number} " in f" {' '.join(words[2:])} ":
            return pod, pid
    raise FaultError(f"job {number} runs no script on {pod.name}")


class JobMemory(Fault):
    """memory.hog: a child of the job grows until the kernel kills the largest process; memory.fill: the job fills
    /scratch, whose pages belong to no process, so the kernel takes the largest one: slurmd. A hog with a size grows so
    far alone and ends, and the job notes what that took.
    """

    kinds = ("memory.hog", "memory.fill")

    def prepare(self) -> None:
        """Find the job's script and the kernel's count of kills in its container."""
        self.pod, self.pid = job_script(self.tools, self.fault.target)
        control = self.tools.shell(self.pod.node).run(
            f"dirname $(find /sys/fs/cgroup/memory /sys/fs/cgroup -path '*{self.pod.container}*' "
            "\\( -name memory.oom_control -o -name memory.events \\) 2>/dev/null | head -1)"
        )
        self.folder = control.text
        self.before = self._kills()
        self.bound = self.tools.deployed.evidence / f"hog-{int(self.fault.target[4:])}"
        self.grown = self._grown()
        if self.fault.size:
            self.bound.write_text(f"{quantity_bytes(self.fault.size) // MIB}\n", "ascii")
        else:
            self.bound.unlink(missing_ok=True)

    def _kills(self) -> str:
        command = f"cat {self.folder}/memory.oom_control {self.folder}/memory.events 2>/dev/null | grep -w oom_kill"
        return self.tools.shell(self.pod.node).run(command, check=False).text

    def _grown(self) -> int:
        lines = read_lines(self.tools.deployed.evidence / "scripts.jsonl")
        return sum(line["what"] == "grown" and line["job"] == int(self.fault.target[4:]) for line in lines)

    def inject(self) -> None:
        """Signal the job's script."""
        name = "USR1" if self.fault.kind == "memory.hog" else "USR2"
        self.tools.shell(self.pod.node).run(f"kill -{name} {self.pid}")

    def prove(self) -> str:
        """The kernel counts a kill in the container, or the container is gone with all its processes; with a size: the
        job noted that it grew so far.
        """
        if self.fault.size:
            return until(lambda: f"grew by {self.fault.size}" if self._grown() > self.grown else "", "no growth", 60)

        def seen() -> str:
            now = self._kills()
            if now and now != self.before:
                return f"kernel: {now} in the container of {self.pod.name}, before: {self.before}"
            if not now and not self.tools.pids(self.pod.node, self.pod.container):
                return f"the container of {self.pod.name} is gone"
            return ""

        return until(seen, "no OOM kill in the container", 60)

    def nodes(self) -> str | None:
        """The worker that the job ran on."""
        return self.pod.name


class GroupKill(Fault):
    """Emulates cgroup v2's memory.oom.group on v1: after any OOM kill in the pod's container, everything in it is
    killed. A watcher in the node looks each 20 ms; reports must say `emulated`.
    """

    kinds = ("memory.group_kill",)

    def prepare(self) -> None:
        """Find the container."""
        self.pod = self.tools.pod(self.fault.target)

    def inject(self) -> None:
        """Start the watcher."""
        script = (
            f"rm -f {EMULATOR}; d=$(dirname $(find /sys/fs/cgroup/memory -path '*{self.pod.container}*' "
            "-name memory.oom_control | head -1)); "
            "setsid bash -c 'd=$0; old=$(grep -w oom_kill $d/memory.oom_control); echo armed > "
            f"{EMULATOR}; while [[ -e {EMULATOR} && -e $d/memory.oom_control ]]; do "
            "now=$(grep -w oom_kill $d/memory.oom_control); "
            'if [[ "$now" != "$old" ]]; then kill -9 $(cat $d/cgroup.procs); echo killed > '
            f'{EMULATOR}; break; fi; sleep 0.02; done\' "$d" > /dev/null 2>&1 &'
        )
        self.tools.shell(self.pod.node).run(script)

    def prove(self) -> str:
        """The watcher is armed: it acts on the next OOM kill."""
        shell = self.tools.shell(self.pod.node)
        return until(
            lambda: f"group kill (emulated) is armed on {self.pod.name}"
            if shell.run(f"cat {EMULATOR} 2>/dev/null", check=False).text else "",
            "the watcher did not start",
        )  # fmt: skip

    def clear(self) -> None:
        """Stop the watcher."""
        self.tools.shell(self.pod.node).run(f"rm -f {EMULATOR}")
