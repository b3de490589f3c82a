"""How an operator's core is carried: the design's carrier settings, and what a test or a fault disturbs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.models.api_server.client import Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrying:
    """Settings of one carrier; as they are without a word: the reference operator's, undisturbed."""

    poll_ns: int = 30 * SECOND
    poll_after_failure: bool = True
    """False: a pass asks for the next after poll_ns when it succeeded, whatever its core would like; a failed one comes
    back by its back-off alone (controller-runtime's RequeueAfter; slurm-operator keeps the greatest wish, 30 s)."""
    poll_phase: Callable[[], int] | None = None
    """Where the first process's polls stand, up to poll_ns; with poll_after_failure false nowhere: each pass sets when
    the next one is due."""
    marks_pods: bool = False
    """A drain or its end is also written on the pod (slurm-operator's cordon annotation), so a pass follows at once.
    Its pass undrains first; behind its lists it writes the status, states of Slurm on pods, which brings a pass too,
    and labels; and a machine's place on each pod."""
    told_ns: int | None = None
    """The first process ended a pass that wrote a status then, as recorded: its queue stands on that one."""
    taken_back: Mapping[str, int] = field(default_factory=dict)
    """Pod's name -> when it was written to be not ready, by that pass or one before it, which had found it so."""
    commented: tuple[str, ...] = ()
    """Pods whose Slurm nodes had a comment when that pass ended."""
    write: Callable[[], int] = lambda: 0
    """A write of such a status or state, one behind the other at a pass's end."""
    written: Callable[[], int] = lambda: 0
    """From the answer to such a write to the next one, or to the next pass."""
    event: Callable[[], int] = lambda: 0
    """The reference operator writes an Event, one of those that a pass writes one by one."""
    heard_late: Callable[[], bool] = lambda: False
    """Of a pass's last write: whether its watch tells of it behind its answer."""
    gather: Callable[[], int] = lambda: 0
    """A watched change is looked at so much later: those that come together make one pass (shell/process.py)."""
    requeue_factor: float = 1.0
    """Of the pause that the core asks for (a verdict halves and doubles it)."""
    readiness_factor: float = 1.0
    """Of the period of its pods' readiness probes."""
    pre_stop: Callable[[], int] = lambda: 0
    """The preStop hook of each of its pods runs so long."""
    back_off_ns: int = 5 * MS
    back_off_most_ns: int = 1000 * SECOND
    latency: Callable[[], int] | None = None
    takes: Mapping[tuple[str, type], Takes] = field(default_factory=dict)
    """Of requests that take something else than latency (api_server/client.py), by verb and kind; a creation's is that
    of a pod made right behind another one."""
    sidecars: tuple[str, ...] = ()
    """Restartable init containers of each of its pods (KubernetesSettings)."""
    env: dict[str, str] = field(default_factory=dict)
    """Environment of worker containers: process is main or supervised."""
    crash_after: int = 0
    """The process dies after so many actions, once; 0: never."""
    restart: Callable[[], int] = lambda: 0
    """Its container's process ends until its kubelet has started the next one."""
    lease_ns: int = 0
    """A process that begins waits until nobody renewed its lease for so long (kubernetes.md 6.10); 0: no election."""
    leads_ns: int = 0
    """A process has taken the lease until it looks at anything."""
    look: Callable[[], int] | None = None
    """Pause of a process that waits for the lease, between two looks at it."""
    lease_lost: Callable[[], int] | None = None
    """Its connections fall silent until it has given up its lease, and ends; None: its lease goes another way."""
    unreachable_s: int = 300


def elected_in_ns(now_ns: int, held_until_ns: int, carrying: Carrying) -> int:
    """How long a process that begins now waits for the lease of one that was killed (leaderelection.go).

    It counts from its own first look at the record, whatever the record says, and takes the lease at the first look
    that finds it over (acquire(), JitterUntil); 0: it is free, or there is no election.
    """
    if held_until_ns <= 0 or not carrying.lease_ns:
        return 0
    if now_ns >= held_until_ns:
        return 0
    if carrying.look is None:
        return carrying.lease_ns
    waited_ns = 0
    while waited_ns < carrying.lease_ns:
        waited_ns += carrying.look()
    return waited_ns
