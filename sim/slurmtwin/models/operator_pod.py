"""The processes of an operator's pod beside the API server, as faults reach them: killed, frozen, cut off, held stale.

They keep nothing but caches. Whoever carries an operator says what a process of it does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Protocol

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.kubelet.back_off import BackOff
from slurmtwin.models.kubelet.defaults import KubeletDefaults

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurmtwin.engine.daemon_clock import DaemonClock
    from slurmtwin.engine.environment import Environment
    from slurmtwin.models.api_server.client import Client
    from slurmtwin.models.api_server.informer import Informer

POD_NS: Final = 2 * SECOND
"""A pod of it is deleted until another one's process runs."""


class OperatorProcess(Protocol):
    """One process from its exec to its end."""

    @property
    def clock(self) -> DaemonClock:
        """Its own clock, which ends with it."""

    @property
    def clients(self) -> tuple[Client, ...]:
        """Its connections to the API server."""

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """Its caches."""


class OperatorPod(ABC):
    """An operator, as often as its processes are started."""

    def __init__(self, env: Environment, crash_at: int = 0, restart: Callable[[], int] = lambda: 0) -> None:
        """restart: the end of its container's process until the next one runs, where no back-off holds it."""
        self.env = env
        self._restart, self._back_off = restart, BackOff.of(KubeletDefaults())
        self.actions = 0
        self.began_ns = env.now_ns
        self._processes: tuple[OperatorProcess, ...] = ()
        """Its present processes."""
        self._crash_at = crash_at
        """They die after so many actions in all; 0: never."""
        self._cut = False

    @abstractmethod
    def start(self) -> None:
        """exec, where they do not run."""

    def _begun(self, *processes: OperatorProcess) -> None:
        """They run, cut off where a fault says so."""
        self._processes = processes
        if self._cut:
            self.cut()

    def kill(self) -> None:
        """Their process dies: what was sent stands, the rest is forgotten; their kubelet starts the container again."""
        if not self._processes:
            return
        now_ns = self.env.now_ns
        rest_ns = self._back_off.rest_ns("", now_ns, now_ns)
        self._back_off.advance("", now_ns, now_ns + rest_ns)
        self._end(rest_ns + self._restart())

    def replace(self, released: bool = False) -> None:  # noqa: ARG002  for those that hold a lease
        """Their pod is deleted, at once or with its grace (released: a lease is given back), and another one made."""
        self._back_off = BackOff.of(KubeletDefaults())
        self._end(POD_NS)

    def _end(self, again_ns: int) -> None:
        processes, self._processes = self._processes, ()
        for process in processes:
            for client in process.clients:
                client.close()
            process.clock.end()
        if processes:
            self.env.call_in(again_ns, lambda _: self.start())

    def crash_after(self, actions: int) -> None:
        """They die when they have done so many more actions."""
        self._crash_at = self.actions + actions

    def acted(self) -> bool:
        """One more action is done. True: it was the last one, the processes are dead."""
        self.actions += 1
        if self.actions != self._crash_at:
            return False
        self.kill()
        return True

    def freeze(self) -> None:
        """SIGSTOP."""
        for process in self._processes:
            process.clock.freeze()

    def thaw(self) -> None:
        """SIGCONT."""
        for process in self._processes:
            process.clock.thaw()

    def cut(self) -> None:
        """No way to the API server: requests wait, caches grow stale."""
        self._cut = True
        for process in self._processes:
            for client in process.clients:
                client.cut()

    def heal(self) -> None:
        """The way is back."""
        self._cut = False
        for process in self._processes:
            for client in process.clients:
                client.heal()

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """The caches of the present processes."""
        return tuple(informer for process in self._processes for informer in process.informers)

    def hold_caches(self) -> None:
        """Watches of the present processes hear nothing more."""
        for informer in self.informers:
            informer.hold()

    def release_caches(self) -> None:
        """They catch up, in order."""
        for informer in self.informers:
            informer.release()
