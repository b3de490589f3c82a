"""What slurmctld and the nodes may ask of each other: reach, work on nodes, and the way back.

The nodes outlive slurmctld: what runs on them is kept here by Slurm job id, whatever the controller
believes. Timers of the nodes belong to the environment, timers of slurmctld to its own clock (`ctld.env`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.node_report import NodeReport
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Node


class Work(Protocol):
    """One job's processes on its nodes, with the slurmstepd that watches them (models/slurmd/batch_job.py)."""

    slurm_id: int
    start_s: int
    """time(NULL) when slurmctld started this run: tells a requeued job's runs apart."""
    nodes: int
    """Bitmap of the nodes with a live slurmstepd: the batch host, every node under PrologFlags=Contain."""
    host_bit: int
    """The batch host: where the script runs."""

    def lost(self, nodes: int) -> None:
        """The containers of these nodes died with every process in them: nobody reports anything."""
        ...

    def abort(self, nodes: int) -> None:
        """REQUEST_ABORT_JOB arrived there: processes are killed at once, slurmctld hears no completion."""
        ...


class Slurmds(Protocol):
    """The slurmd daemons of a cluster (models/slurmd/daemon.py)."""

    deaf: int
    """Bitmap of nodes whose slurmd does not answer now. `nodes & deaf == 0` is the fast path of every RPC."""
    frozen: int
    """Those of them that are only stopped (SIGSTOP)."""
    unwritten: int
    """Bitmap of the node whose registration is being taken in, where its orders go to the node's old address."""
    works: dict[int, Work]
    """What runs on the nodes, by Slurm job id, in start order: of each job its latest run."""

    def take(self, work: Work) -> None:
        """A run of a job begins on the nodes."""
        ...

    def drop(self, work: Work) -> None:
        """It is over there for good."""
        ...

    def send(self, node: Node, arrived: Callable[[int], None]) -> None:
        """A message slurmctld has sent and does not wait for: `arrived(node.bit)` when the slurmd takes it;
        dropped when it cannot be reached.
        """
        ...

    def call(
        self, node: Node, answered: Callable[[], None], lost: Callable[[], None], retried: bool = True,
        late: Callable[[], None] | None = None,
    ) -> int:  # fmt: skip
        """One RPC slurmctld -> slurmd of a deaf node: `answered` runs when the slurmd takes it after all,
        `lost` when the connect retries or the message time-out are over (slurm.md 4.2 "RPC connect retry");
        one of them, on slurmctld's clock. NO_RESPOND is set before `lost` runs; `answered` has to report the
        answer itself (NodeLifecycle.answered). Without `retried` a refused connection is lost at once (a leaf of
        the forwarding tree). `late` (None: `answered`) runs when a frozen slurmd reads the request after `lost`:
        its sender no longer listens. Returns the latest nanosecond at which it is settled.
        """
        ...

    def resume(self, nodes: int) -> None:
        """ResumeProgram ran: these hosts boot, their slurmds register."""
        ...

    def suspend(self, nodes: int) -> None:
        """SuspendProgram ran: these hosts go away."""
        ...

    def reports(self, nodes: int) -> list[NodeReport]:
        """What the slurmds of these nodes would say in a registration now."""
        ...


class ToController(Protocol):
    """How the nodes' messages find the controller in charge (models/slurm_cluster.py)."""

    @property
    def ctld(self) -> Slurmctld | None:
        """The slurmctld that serves now; None when none does, or it is frozen."""
        ...

    def deliver(self, message: Callable[[Slurmctld], None], retry_ns: int, tries: int = -1) -> None:
        """Hand `message` to the controller in charge, now or, while none answers, every `retry_ns` after a
        failed attempt (its own length included) until `tries` are used up (-1: for ever). For slurmstepd:
        15 s (slurm.md 4.6 "stepd completion message").
        """
        ...
