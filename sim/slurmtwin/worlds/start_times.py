"""When the daemons start and jobs and faults arrive: the scenario's times, or a recording's own.

A comparison with a recording takes them from it, so that the twin's loops have the phase the real ones had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.slurmctld.coarse_clock import CAUGHT_UP_NS

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Environment

DEFAULT_EPOCH_S: Final = 1_767_225_600
"""2026-01-01T00:00:00Z: the Unix time of t = 0 where nothing else is known."""
DEFAULT_BOOT_NS: Final = -30 * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimes:
    """All times are nanoseconds since the scenario's start; epoch_ns is its Unix time."""

    epoch_ns: int = DEFAULT_EPOCH_S * SECOND
    slurmctld_ns: int = DEFAULT_BOOT_NS
    """slurmctld begins to serve then (its start-up cost lies before)."""
    standby_ns: int | None = None
    """The backup controller stood by first, before the first fault of a run in pods: its rounds count from then."""
    slurmd_ns: int = DEFAULT_BOOT_NS
    """The slurmds are started then."""
    workers_ns: int | None = None
    """The first worker's pod is created then; None: LEAD_NS before its daemons (worlds/pod_world.py)."""
    controller_ns: int | None = None
    """The first controller's pod is created then, behind its Service, where it comes later than the workers."""
    container_ns: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Worker that waits for the controller's name -> between when and when its container began to run."""
    rest_ns: int | None = None
    """An operator's object of slurmrestd was seen first: it has its client since then."""
    made_ns: int | None = None
    """The first worker's pod was seen: its operator had asked for jobs."""
    poll_ns: int | None = None
    """An operator's last poll before the first fault that its recorded passes show."""
    told_ns: int | None = None
    """A pass of its operator ended, the last one before the first fault that wrote a node set's status: then, or when
    the last worker was synced by its labels right behind that."""
    taken_back: Mapping[str, int] = field(default_factory=dict)
    """Worker (named as in pod_node) that is not ready when that pass ends, though it had been -> since when: it or one
    before it wrote the worker's conditions as it had found them."""
    commented: tuple[str, ...] = ()
    """Workers (named as in pod_node) whose Slurm nodes have their comment when that pass ends."""
    swept_ns: Mapping[str, int] = field(default_factory=dict)
    """Kubernetes node -> a sweep of its kubelet over the statuses of its pods, which made such a worker ready again."""
    submit_ns: Mapping[int, int] = field(default_factory=dict)
    """Job number -> when slurmctld had the record. Jobs not named arrive submit_rpc after their own time."""
    fault_ns: tuple[int, ...] = ()
    """When each fault of the scenario was really injected, in file order; (): as written."""
    fault_err_ns: tuple[int, ...] = ()
    """The half-width of each of these."""
    stopped_ns: int | None = None
    """api_server.slow stopped the server first."""
    bursts_ns: tuple[tuple[int, int], ...] = ()
    """By how much each pause of such a server, and each burst behind one, was longer than the scenario has it."""
    lease_ns: Mapping[str, int] = field(default_factory=dict)
    """Kubernetes node (control-plane, worker1 ..) -> a renewal of its lease, the last before the first fault."""
    relist_ns: Mapping[str, int] = field(default_factory=dict)
    """Kubernetes node -> its kubelet's last look at containers before a fault that it may have heard of."""
    sync_ns: Mapping[str, int] = field(default_factory=dict)
    """Pod (named as in pod_node) -> the begin of its last sync before the first fault."""
    image_ns: Mapping[str, int] = field(default_factory=dict)
    """Pod (named as in pod_node) of the scenario's begin -> its first image was there."""
    entered_ns: Mapping[str, int] = field(default_factory=dict)
    """Likewise the begin of its first sync, which waits for its mounts."""
    probed_ns: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    """Pod (named as in pod_node) -> CONTAINER/PROBE -> successes of the probe before the first fault."""
    pings: tuple[tuple[int, str], ...] = ()
    """Ticks of the ping cycle before the first fault of a run in pods, and the nodes that were asked (a hostlist)."""
    full_pass_ns: int | None = None
    """The last full main pass before the first fault of a run in pods; None: not known."""
    called_ns: tuple[int, ...] = ()
    """Likewise when slurmctld's loop had called for a pass, so that a job which came then waited for its next call."""
    cycle_ns: int | None = None
    """Likewise the last backfill cycle."""
    anew_ns: int | None = None
    """Likewise slurmctld's last start where it was not the first: an operator gives it another pod before the scenario
    begins, and its backfill sleeps from then on."""
    look_ns: int | None = None
    """Likewise the last look of slurmctld's loop that a pass or a ping shows."""
    round_ns: int | None = None
    """Likewise what a round of 22.05's loop took; None: not known, or of another version."""
    clock_lag_ns: int = CAUGHT_UP_NS
    """How far time(NULL) of the host was behind the clock that wakes slurmctld's loop (models, coarse_clock.py)."""
    host_load: float | None = None
    """The host's load when a run in pods began; None: not known."""
    runs_beside: int = 1
    """So many runs in pods were on the host at once, this one with them."""
    script_ns: Mapping[int, int] = field(default_factory=dict)
    """Job number -> when its script began for the first time, before the first fault of a run in pods."""
    pod_node: Mapping[str, str] = field(default_factory=dict)
    """Pod (slurmctld-0, w-0 ..; of a Deployment: its app) -> the Kubernetes node it ran on before the first fault."""
    members: Mapping[str, StartTimes] = field(default_factory=dict)
    """Of several clusters: the times of each by its name; those not named have the others above."""

    def injected_within(self, draw: Callable[[int, int], int]) -> StartTimes:
        """These times with each fault where it may have been injected, in the order that was recorded.

        draw(low_ns, high_ns): evenly between these, both included.
        """
        fault_ns = list(self.fault_ns)
        last_ns: int | None = None
        for place in sorted(range(len(self.fault_err_ns)), key=fault_ns.__getitem__):
            at_ns = fault_ns[place] + draw(-self.fault_err_ns[place], self.fault_err_ns[place])
            last_ns = fault_ns[place] = at_ns if last_ns is None else max(at_ns, last_ns)
        members = {name: one.injected_within(draw) for name, one in self.members.items()}
        return replace(self, fault_ns=tuple(fault_ns), members=members)


def begins(env: Environment, known_ns: Sequence[int], draw: Callable[[], int]) -> Callable[[], int]:
    """How long daemons take to begin, one after the other: the first ones until a recording has them."""
    left = list(known_ns)
    return lambda: max(0, left.pop(0) - env.now_ns) if left else draw()
