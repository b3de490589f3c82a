"""Which nodes of Slurm a recorded slurm-operator had commented: no row tells, but its statuses do.

A pass that finds a pod ready for the first time writes a status that says so, and the node's comment before it; so it
began two looks of slurm-client before its status, and one more for each batch of comments (adapters/pod_info.py). While
its client has no informers yet, nothing waits for looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from slurmtwin.adapters.pod_info import slow_start
from slurmtwin.adapters.slurm_lists import NEVER_NS, ClientLists, ListTimes
from slurmtwin.contract.clock import MS, SECOND

LISTS: Final = 2
"""A pass waits for so many lists of nodes beside those of its changes."""
DIRECT_NS: Final = 50 * MS
"""Without informers a status stands so long behind the begin of its pass, at the least."""
TAKEN_BACK_NS: Final = 150 * MS
"""A pod that a pass had found not ready is so again within that of its status."""
STALE_NS: Final = 250 * MS
"""A pass right behind one that took a pod back may not have heard of it (x22-slinky #15, x33-slinky #26)."""
Times = Sequence[tuple[int, int]]
"""From when to when a pod was ready, nanoseconds."""


def informed_from_ns(client_ns: int | None, asked_ns: int | None) -> int:
    """When the operator's client has informers of nodes, where it and the first worker were seen then; else always."""
    if client_ns is None or asked_ns is None:
        return -NEVER_NS
    return ClientLists(ListTimes(began_ns=client_ns, asked_ns=asked_ns)).runs_ns


def commented(statuses_ns: Sequence[int], ready: Mapping[str, Times], informed_ns: int) -> tuple[str, ...]:
    """Workers (keys of ready) whose nodes have a comment when the last of these statuses is written."""
    known: set[str] = set()
    for status_ns in statuses_ns:
        fresh = {pod: times for pod, times in ready.items() if pod not in known and not _unready(times, status_ns)}
        if status_ns < informed_ns:
            known.update(_ready(fresh, status_ns - DIRECT_NS))
        else:
            known.update(_found(fresh, status_ns))
    return tuple(sorted(known))


def _found(fresh: Mapping[str, Times], status_ns: int) -> Sequence[str]:
    """Pods that the pass of that status found ready: as many as its looks tell.

    Two that become ready beside each other wake it together, and it may have seen the first alone.
    """
    first: Sequence[str] = ()
    for comments in range(1, len(slow_start(list(fresh))) + 1):
        begin_ns = status_ns - (LISTS + comments) * SECOND
        heard, unheard = _ready(fresh, begin_ns), _ready(fresh, begin_ns, STALE_NS)
        for pods in (heard, unheard):
            if len(slow_start(pods)) == comments:
                return pods
        first = first or heard[:1]
    return first


def _ready(fresh: Mapping[str, Times], at_ns: int, stale_ns: int = 0) -> list[str]:
    """Pods that are ready then, or were so long before, the first one first."""
    since = {pod: begin for pod, times in fresh.items() for begin, end in times if begin <= at_ns < end + stale_ns}
    return sorted(since, key=lambda pod: (since[pod], pod))


def _unready(times: Times, status_ns: int) -> bool:
    return any(status_ns <= end <= status_ns + TAKEN_BACK_NS for _, end in times)
