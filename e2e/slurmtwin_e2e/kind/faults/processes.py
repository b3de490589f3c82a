"""Faults of processes: killed by a signal, or frozen (which is also how slurmrestd becomes a tarpit)."""

from __future__ import annotations

from slurmtwin_e2e.kind.faults.base import Fault, until


class ProcessSignal(Fault):
    """A signal to a daemon. To the first process of a container the kernel delivers from outside only KILL, STOP
    and what it handles (pid_namespaces(7)): a crash there is a KILL.
    """

    kinds = ("process.signal",)

    def prepare(self) -> None:
        """Find the process and when it started."""
        self.node, (self.pid, *_) = self.tools.daemon(self.fault.target)
        self.born = self._born()

    def _born(self) -> str:
        return self.tools.shell(self.node).run(f"cut -d' ' -f22 /proc/{self.pid}/stat 2>/dev/null", check=False).text

    def inject(self) -> None:
        """Send it."""
        self.tools.shell(self.node).run(f"kill -{self.fault.signal} {self.pid}")

    def prove(self) -> str:
        """The process is gone (or another one has its number)."""
        said = f"process {self.pid} of {self.fault.target} on {self.node} is gone"
        return until(lambda: "" if self._born() == self.born else said, f"process {self.pid} lives on")


class ProcessFreeze(Fault):
    """SIGSTOP, and SIGCONT to clear: connections are still accepted by the kernel, nothing is ever answered."""

    kinds = ("process.freeze", "slurmrestd.tarpit")

    def prepare(self) -> None:
        """Find the process."""
        target = self.fault.target or "slurmrestd"
        self.node, (self.pid, *_) = self.tools.daemon(target)

    def _state(self) -> str:
        text = self.tools.shell(self.node).run(f"cat /proc/{self.pid}/stat 2>/dev/null", check=False).text
        return text.rpartition(")")[2].split()[0] if ")" in text else ""

    def inject(self) -> None:
        """Stop it."""
        self.tools.shell(self.node).run(f"kill -STOP {self.pid}")

    def prove(self) -> str:
        """The kernel says T (stopped); for the tarpit also: a connection opens and no byte comes back."""
        said = f"process {self.pid} on {self.node} is in state T"
        until(lambda: said if self._state() == "T" else "", f"process {self.pid} is not stopped", 5)
        if self.fault.kind == "slurmrestd.tarpit":
            pod = self.tools.pod(self.fault.target or "slurmrestd")
            script = (
                f'timeout 2 bash -c \'exec 3<>/dev/tcp/{pod.address}/6820; printf "GET / HTTP/1.0\\r\\n\\r\\n" >&3; '
                "echo open; head -c1 <&3'; true"
            )
            answer = self.tools.shell(pod.node).run(script).text
            return until(lambda: said + "; a connection opens, no answer in 2 s" if answer == "open" else "", answer, 0)
        return said

    def clear(self) -> None:
        """Let it go on, if it still lives."""
        self.tools.shell(self.node).run(f"kill -CONT {self.pid}", check=False)
