"""Node outages of a plan: failures that kill what runs, and drains that let it end. Drawn once, the same for all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slurmtwin.contract.clock import SECOND, format_duration, parse_duration
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.scenario import DaemonFault, Fault, NodeAction
from slurmtwin.engine.random_streams import generator

if TYPE_CHECKING:
    from slurmtwin.campaign.planning.queue_kernel import Outages

_FORM = re.compile(r"mtbf\s+(\S+)\s+repair\s+(\S+)\Z")


@dataclass(frozen=True, slots=True)
class OutageRate:
    """Each node goes now and then, on average after `between_s` of service, and is back after `repair_s`."""

    between_s: float
    repair_s: float
    kill: bool

    @property
    def text(self) -> str:
        """In words."""
        what = "fails" if self.kill else "is drained"
        between, repair = (format_duration(int(value) * SECOND) for value in (self.between_s, self.repair_s))
        return f"each node {what} every {between} on average, back after {repair}"


def parse_rate(text: str, kill: bool) -> OutageRate:
    """`mtbf 30d repair 4h`. Raises InputError."""
    found = _FORM.match(" ".join(text.split()))
    if not found:
        raise InputError(f"not a rate of outages: {text!r}", hint="mtbf 30d repair 4h")
    between, repair = (parse_duration(word) / SECOND for word in found.groups())
    if between <= 0 or repair <= 0:
        raise InputError("both times are above 0", hint="mtbf 30d repair 4h")
    return OutageRate(between, repair, kill)


def draw_outages(rates: list[OutageRate], nodes: int, until_s: int, seed: int) -> list[tuple[int, int, int, int]]:
    """(time in s, node, 1 back or 0 gone, 1 kills) in order of time; each node has a stream of its own."""
    rows: list[tuple[int, int, int, int]] = []
    for kind, rate in enumerate(rates):
        for node in range(nodes):
            draw = generator(seed, node, f"plan.outages.{kind}")
            at = float(draw.exponential(rate.between_s))
            while at < until_s:
                gone = max(1, int(at))
                back = gone + max(1, int(rate.repair_s))
                rows += [(gone, node, 0, int(rate.kill)), (back, node, 1, int(rate.kill))]
                at = back + float(draw.exponential(rate.between_s))
    return sorted(rows)


def kernel_outages(rows: list[tuple[int, int, int, int]]) -> Outages:
    """For the quick model."""
    from slurmtwin.campaign.planning.queue_kernel import Outages

    table: Any = np.array(rows, np.int64).reshape(len(rows), 4)
    return Outages(*(np.ascontiguousarray(column) for column in table.T))


def twin_faults(rows: list[tuple[int, int, int, int]], names: list[str]) -> list[Fault]:
    """For the twin: slurmd killed with its jobs and started again, or scontrol drain and resume."""
    faults: list[Fault] = []
    for at, node, up, kill in rows:
        when = format_duration(at * SECOND)
        if kill:
            kind = "slurmd.start" if up else "slurmd.kill_group"
            faults.append(DaemonFault.model_validate({"at": when, "kind": kind, "target": names[node]}))
        else:
            state = {"state": "RESUME"} if up else {"state": "DRAIN", "reason": "maintenance"}
            faults.append(
                NodeAction.model_validate({"at": when, "kind": "node.update", "target": names[node], **state})
            )
    return faults
