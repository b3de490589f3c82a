"""What runs in a container, as the container runtime and the kubelet see it: a program with a main process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from slurmtwin.engine.records import dataclass
from slurmtwin.models.kubelet.container_memory import ContainerCgroup, Process
from slurmtwin.models.kubelet.probes import Answer, ProbeKind

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import Clock
    from slurmtwin.engine.environment import Call
    from slurmtwin.models.api_server.objects import Container, Pod

SIGTERM_CODE = 143
SIGKILL_CODE = 137
"""128 + the signal: what the runtime reports of a main process that died of it (kubernetes.md 2.4)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a program runs, and whom it tells."""

    pod: Pod
    container: Container
    node: str
    restart: int
    ip: str
    clock: Clock
    """Of the machine: it stands still while the machine does."""
    cgroup: ContainerCgroup
    exited: Callable[[int], None]
    """exited(code): the main process has ended by itself, and everything in the container with it."""
    health_changed: Callable[[], None]
    """What a probe would meet is different from now on."""
    memory_changed: Callable[[], None]
    """Memory in the container grew: limits may be passed."""
    late_pages: Callable[[int], None]
    """So many pages more were written into the pod's volumes while its container died."""


class Program(Protocol):
    """One run of a container's image: begun by the runtime, ended by itself or by a signal."""

    def start(self, place: Place) -> None:
        """exec: the main process runs from now on."""
        ...

    def terminate(self) -> None:
        """SIGTERM to the main process; it may end later by `place.exited`, or never."""
        ...

    def killed(self) -> None:
        """Every process in the container has died by SIGKILL; the runtime knows that already."""
        ...

    def process_killed(self, process: Process) -> None:
        """The kernel killed one process, not the main one (OOM)."""
        ...

    def freeze(self) -> None:
        """The machine, or the container's cgroup, stands still."""
        ...

    def thaw(self) -> None:
        """It goes on."""
        ...

    def answer(self, kind: ProbeKind) -> Answer:
        """What a probe meets now."""
        ...


class Service:
    """A plain program: it runs until it is told to end, or for `run_ns`; TERM ends it after `stop_ns`.

    stop_ns None: it ignores SIGTERM. ready_ns: probes are refused until it has run so long.
    """

    def __init__(
        self, run_ns: int | None = None, exit_code: int = 0, stop_ns: int | None = 0, memory: int = 0, ready_ns: int = 0
    ) -> None:
        self.run_ns = run_ns
        self.exit_code = exit_code
        self.stop_ns = stop_ns
        self.memory = memory
        self.ready_ns = ready_ns
        self.place: Place | None = None
        self.frozen = False
        """Its main process has SIGSTOP: signals but KILL wait, probes meet silence."""
        self._began_ns = 0
        self._end: Call | None = None
        self._term_waits = False

    def start(self, place: Place) -> None:
        """Begin."""
        self.place = place
        self._began_ns = place.clock.now_ns
        if self.memory:
            place.cgroup.processes.append(Process(place.container.name, self.memory, main=True))
        if self.run_ns is not None:
            self._end = place.clock.call_in(self.run_ns, self._over, self.exit_code)
        if self.ready_ns:
            place.clock.call_in(self.ready_ns, self._ready)

    def _ready(self, _argument: object) -> None:
        if self.place is not None:
            self.place.health_changed()

    def _over(self, code: int) -> None:
        place, self.place = self.place, None
        if place is not None:
            place.exited(code)

    def terminate(self) -> None:
        """SIGTERM."""
        if self.frozen:
            self._term_waits = True
        elif self.place is not None and self.stop_ns is not None:
            self._cancel()
            self._end = self.place.clock.call_in(self.stop_ns, self._over, 0)

    def _cancel(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None

    def killed(self) -> None:
        """SIGKILL."""
        self._cancel()
        self.place = None

    def process_killed(self, process: Process) -> None:
        """It has one process only."""

    def freeze(self) -> None:
        """SIGSTOP."""
        self.frozen = True
        if self.place is not None:
            self.place.health_changed()

    def thaw(self) -> None:
        """SIGCONT: a SIGTERM that came meanwhile is met now."""
        self.frozen = False
        if self.place is not None:
            self.place.health_changed()
        if self._term_waits:
            self._term_waits = False
            self.terminate()

    def answer(self, kind: ProbeKind) -> Answer:  # noqa: ARG002  it answers all probes alike
        """Silent while frozen, refused while it starts."""
        if self.frozen:
            return Answer.SILENT
        if self.place is None or self.place.clock.now_ns - self._began_ns < self.ready_ns:
            return Answer.REFUSED
        return Answer.OK
