"""slurmdbd as slurmctld meets it: a queue of accounting messages and a connection that may be away (slurm.md 6).

Scheduling does not wait for it. While it is away messages pile up in slurmctld; each job leaves one at its start
and one at its end (and a few more that a full queue drops first). The agent tries to reconnect every 10 s.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind

if TYPE_CHECKING:
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

RECONNECT_NS: Final = 10 * SECOND
MIN_QUEUE: Final = 10_000
"""Floor of MaxDBDMsgs where it is not set (slurmdbd_agent.c)."""


def queue_limit(max_dbd_msgs: int, max_job_count: int, nodes: int) -> int:
    """MaxDBDMsgs, or max(10000, 2*MaxJobCount + 4*nodes) (slurm.md 6 "Size")."""
    return max_dbd_msgs or max(MIN_QUEUE, 2 * max_job_count + 4 * nodes)


class Slurmdbd:
    """The database daemon and the queue of slurmctld's agent to it."""

    def __init__(self, cluster: SlurmCluster) -> None:
        self._cluster = cluster
        controller = cluster.conf.controller
        self.used = controller.accounting_storage
        self.limit = queue_limit(controller.max_dbd_msgs, controller.max_job_count, len(cluster.conf.nodes))
        self.exits_when_full = controller.max_dbd_msg_action.lower() == "exit"
        self.running = False
        self.starts: int = 0
        """Queued job-start records."""
        self.others: int = 0
        """Queued records of other kinds."""
        self.dropped = 0
        self._last_try_ns = 0
        self._full = False

    @property
    def queued(self) -> int:
        """Messages that wait in slurmctld's memory."""
        return self.starts + self.others

    def start(self) -> None:
        """slurmdbd runs: the queue is sent at slurmctld's next attempt to connect, at most 10 s later."""
        if self.running or not self.used:
            return
        self.running = True
        for ctld in self._cluster.active:
            ctld.accounting = None
        self._emit(Kind.SLURMDBD_STARTED)
        if self.queued:
            now_ns = self._cluster.env.now_ns
            tries = -(-(now_ns - self._last_try_ns) // RECONNECT_NS)
            self._cluster.env.call_at(self._last_try_ns + tries * RECONNECT_NS, self._drain)

    def stop(self) -> None:
        """slurmdbd ends: slurmctld queues from now on and schedules from its cache."""
        if not self.running:
            return
        self.running = False
        self._last_try_ns = self._cluster.env.now_ns
        for ctld in self._cluster.active:
            self.attach(ctld)
        self._emit(Kind.SLURMDBD_STOPPED)

    def attach(self, ctld: Slurmctld) -> None:
        """This slurmctld's records wait in its memory while slurmdbd is away."""
        if self.used and not self.running:
            ctld.accounting = partial(self.job_record, ctld)

    def _drain(self, _argument: object) -> None:
        if self.running:
            self.starts = self.others = 0
            self._full = False

    def _emit(self, kind: Kind) -> None:
        self._cluster.sink.emit(self._cluster.env.now_ns, kind, "slurmdbd")

    def job_record(self, ctld: Slurmctld, start: bool) -> None:
        """slurmctld has an accounting record of a job: sent, or queued while slurmdbd is away."""
        if self.running or not self.used:
            return
        if self.queued >= self.limit and not self._make_room(ctld):
            self.dropped += 1
            return
        if start:
            self.starts += 1
        else:
            self.others += 1

    def _make_room(self, ctld: Slurmctld) -> bool:
        """The queue is full: max_dbd_msg_action (slurm.md 6 "Full"). False: the new record is refused."""
        if not self._full:
            self._full = True
            ctld.emit(Kind.SLURMDBD_QUEUE_FULL, value=self.queued)
            if self.exits_when_full:
                self._cluster.env.call_in(0, self._exit)
        if self.starts and not self.exits_when_full:
            self.dropped += self.starts
            self.starts = 0
            return True
        return False

    def _exit(self, _argument: object) -> None:
        """max_dbd_msg_action=exit: slurmctld saves the queue and ends."""
        for controller in self._cluster.controllers:
            if controller.ctld is not None:
                controller.stop()

    def controller_killed(self) -> None:
        """SIGKILL of slurmctld: what was queued in its memory is gone (slurm.md 5.3 "SIGKILL, slurmdbd queue")."""
        self.dropped += self.queued
        self.starts = self.others = 0
        self._full = False
