"""Clock offsets between sources and the collector, and the delay of watches: measured in every run, not assumed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from slurmtwin_e2e.kind.collect.informer import Change
from slurmtwin_e2e.kind.collect.kube_rows import stamp_ns
from slurmtwin_e2e.kind.node_shell import NodeShell

ROUNDS: Final = 9
DEFAULT_RECEIPT_NS: Final = 100_000_000
"""Assumed error of a receipt when a run saw too few leases to measure it."""
MIN_LEASES: Final = 5


@dataclass(frozen=True, slots=True)
class Offset:
    """A source's clock minus ours, ns, and its half-width: true offset lies in value ± error."""

    source: str
    value_ns: int
    error_ns: int


def from_rounds(source: str, rounds: Sequence[tuple[int, int, int]]) -> Offset:
    """The offset from (our time before, its answer, our time after): the shortest round is the sharpest."""
    before, answer, after = min(rounds, key=lambda r: r[2] - r[0])
    return Offset(source, answer - (before + after) // 2, (after - before + 1) // 2)


def of_node(shell: NodeShell) -> Offset:
    """The clock of a node's containers (they all have the node's kernel clock)."""
    rounds = []
    for _ in range(ROUNDS):
        said = shell.run("echo ${EPOCHREALTIME/[.,]/}")
        rounds.append((said.before_ns, int(said.text) * 1000, said.after_ns))
    found = from_rounds(shell.node, rounds)
    return Offset(found.source, found.value_ns, found.error_ns + 500)


def watch_delay_ns(changes: Sequence[Change], skip_node: str = "") -> tuple[int, int, int]:
    """(95th percentile, median, count) of receipt minus a lease's own stamp: the error of receipt times, ns.

    Leases of `skip_node` (frozen in the run) are left out: after a thaw they tell of the freeze.
    """
    delays = []
    for change in changes:
        if change.resource == "leases" and change.verb == "MODIFIED":
            meta: dict[str, Any] = change.object["metadata"]
            own = stamp_ns(change.object["spec"].get("renewTime"))
            if own is not None and meta["name"] != skip_node:
                delays.append(change.t_ns - own)
    if len(delays) < MIN_LEASES:
        return DEFAULT_RECEIPT_NS, DEFAULT_RECEIPT_NS, len(delays)
    cut = statistics.quantiles(delays, n=20)
    return max(int(cut[18]), 1_000_000), int(statistics.median(delays)), len(delays)
