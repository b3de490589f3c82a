"""What slurmctld's and slurmd's containers have in common: a daemon as main process, or under supervisord."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from slurmtwin.models.kubelet.container_memory import Process
from slurmtwin.models.kubelet.probes import Answer, ProbeKind
from slurmtwin.models.kubelet.program import SIGKILL_CODE, Place
from slurmtwin.models.slurm_pods.settings import DaemonPods
from slurmtwin.models.slurm_pods.supervisor import Supervisor

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Call

ProcessModel = Literal["main", "supervised"]


class DaemonProgram:
    """A Program (kubelet/program.py) around one daemon. A subclass says what the daemon does."""

    role = ""

    def __init__(self, settings: DaemonPods, process: ProcessModel) -> None:
        self.settings = settings
        self.process: ProcessModel = process
        self.place: Place | None = None
        self._stopped = False
        """The daemon has SIGSTOP."""
        self._still = False
        """The machine stands still."""
        self._supervisor: Supervisor | None = None
        self._daemon: Process | None = None
        self._ran = False
        """supervisord has started it before."""
        self._call: Call | None = None
        self._term_waits = False

    # the daemon, by its subclass

    def _memory(self) -> int:
        raise NotImplementedError

    def _begin_ns(self) -> int:
        raise NotImplementedError

    def _again_ns(self) -> int:
        raise NotImplementedError

    def _execute(self) -> None:
        """exec of the daemon."""
        raise NotImplementedError

    def _end_daemon(self, clean: bool) -> None:
        """SIGTERM (clean) or SIGKILL to the daemon alone."""
        raise NotImplementedError

    def _stand_still(self, still: bool) -> None:
        """SIGSTOP or SIGCONT to the daemon."""
        raise NotImplementedError

    def _everything_dies(self) -> None:
        """Every other process of the container dies by SIGKILL."""

    def _serves(self) -> bool:
        """The daemon answers a probe."""
        raise NotImplementedError

    # a program of the container runtime

    def start(self, place: Place) -> None:
        """The container runs."""
        self.place = place
        processes, adj = place.cgroup.processes, place.cgroup.score_adj
        if self.process == "supervised":
            processes.append(Process("supervisord", self.settings.supervisor_memory, adj, main=True))
            self._supervisor = Supervisor(place.clock, self.settings, self._run)
            self._supervisor.begin()
        else:
            self._run()

    def _run(self) -> None:
        place = self.place
        assert place is not None
        self._daemon = Process(self.role, self._memory(), place.cgroup.score_adj, main=self.process == "main")
        place.cgroup.processes.append(self._daemon)
        if self._supervisor is not None:
            self._supervisor.started()
        self._call = place.clock.call_in(self._again_ns() if self._ran else self._begin_ns(), self._begin)
        self._ran = True
        place.memory_changed()

    def _begin(self, _argument: object) -> None:
        self._call = None
        if self._daemon is not None:
            self._daemon.memory = self._memory()
        self._execute()

    def terminate(self) -> None:
        """SIGTERM to the main process. A daemon that stands still meets it when it goes on."""
        if self._holds and self._daemon is not None:
            self._term_waits = True
            return
        if self.place is None:
            return
        heard_ns = 0
        if self._supervisor is not None:
            self._supervisor.stop()
            heard_ns = self.settings.supervisor_hears()
        self._cancel()
        if heard_ns:
            self._call = self.place.clock.call_in(heard_ns, self._told)
        else:
            self._told(None)

    def _told(self, _argument: object) -> None:
        """The daemon gets SIGTERM; the container ends behind it."""
        assert self.place is not None
        after_ns = 0
        if self._daemon is not None:
            self._end_daemon(clean=True)
            if self._supervisor is not None:
                after_ns = self.settings.supervisor_ends(self.role)
        self._call = self.place.clock.call_in(self.settings.stop() + after_ns, self._gone, 0)

    def _gone(self, code: int) -> None:
        """The main process is gone, and with it the container."""
        place, self.place = self.place, None
        self._call = None
        self._daemon = None
        if place is not None:
            self._everything_dies()
            place.exited(code)

    def _cancel(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def killed(self) -> None:
        """SIGKILL to every process of the container."""
        self._cancel()
        if self._supervisor is not None:
            self._supervisor.stop()
        self.place = None
        self._daemon = None
        self._term_waits = False
        self._end_daemon(clean=False)
        self._everything_dies()

    def process_killed(self, process: Process) -> None:
        """The kernel chose one process."""
        if process is self._daemon:
            self._daemon_died(clean=False)

    # signals to the daemon

    def signal(self, name: str) -> None:
        """A signal to the daemon's process: KILL, TERM, STOP, CONT, or another that ends it."""
        if name == "STOP":
            self._hold(stopped=True)
        elif name == "CONT":
            self._hold(stopped=False)
        elif self._daemon is None:
            return
        elif name == "TERM" and self.process == "main":
            self.terminate()
        elif self.process == "main":
            self._cancel()
            self._end_daemon(clean=False)
            self._gone(SIGKILL_CODE)
        else:
            self._end_daemon(clean=name == "TERM")
            self._daemon_died(clean=name == "TERM")

    def daemon_ended(self, clean: bool) -> None:
        """The daemon has ended by itself (slurmctld after a takeover), and the container with its main process."""
        if self._daemon is None or self.place is None:
            return
        if self.process == "main":
            self._gone(0 if clean else 1)
        else:
            self._daemon_died(clean)

    def _daemon_died(self, clean: bool) -> None:
        """Under supervisord."""
        place = self.place
        if self._daemon is None or place is None:
            return
        self._cancel()
        if self._daemon in place.cgroup.processes:
            place.cgroup.processes.remove(self._daemon)
        self._daemon = None
        self._stopped = False
        if not clean:
            self._end_daemon(clean=False)
        assert self._supervisor is not None
        self._supervisor.ended(expected=clean)
        place.health_changed()

    def freeze(self) -> None:
        """The machine stands still."""
        self._hold(still=True)

    def thaw(self) -> None:
        """The machine goes on."""
        self._hold(still=False)

    @property
    def _holds(self) -> bool:
        return self._stopped or self._still

    def _hold(self, stopped: bool | None = None, still: bool | None = None) -> None:
        """The daemon stands still while it is stopped or its machine is; a SIGTERM that came meanwhile waits."""
        before = self._holds
        self._stopped = self._stopped if stopped is None else stopped and self._daemon is not None
        self._still = self._still if still is None else still
        if self._holds == before or self._daemon is None:
            return
        self._stand_still(self._holds)
        if self.place is not None:
            self.place.health_changed()
        if self._term_waits and not self._holds:
            self._term_waits = False
            self.terminate()

    def answer(self, kind: ProbeKind) -> Answer:  # noqa: ARG002  one port answers all probes
        """What its port says."""
        if self._daemon is None:
            return Answer.REFUSED
        if self._holds:
            return Answer.SILENT if self.settings.livez else Answer.OK
        return Answer.OK if self._serves() else Answer.REFUSED
