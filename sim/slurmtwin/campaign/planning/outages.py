"""Outages of a plan: nodes fail or are drained, slurmctld is away. Drawn once, the same for all counts."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from slurmtwin.contract.clock import SECOND, format_duration, parse_duration
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.scenario import DaemonFault, Fault, NodeAction
from slurmtwin.engine.random_streams import generator

if TYPE_CHECKING:
    from slurmtwin.campaign.planning.queue_kernel import Outages
    from slurmtwin.contract.jobs import JobRequest

_FORM = re.compile(r"mtbf\s+(\S+)\s+repair\s+(\S+)\Z")


What = Literal["fail", "drain", "controller"]
WORDS: Final[dict[What, str]] = {
    "fail": "each node fails", "drain": "each node is drained", "controller": "slurmctld goes away",
}  # fmt: skip
DRAINED, KILLED, HEADLESS = 0, 1, 2
"""What an outage is to a node: it starts nothing, it loses what it runs, it starts nothing for want of slurmctld."""
RETRY_S: Final = 10
"""A restarted slurmctld answers by then, and who could not submit does."""
Row = tuple[int, int, int, int]
"""(time in s, node, 1 back or 0 gone, DRAINED, KILLED or HEADLESS)."""


@dataclass(frozen=True, slots=True)
class OutageRate:
    """Each node, or slurmctld, goes now and then: on average after `between_s` of service; back after `repair_s`."""

    between_s: float
    repair_s: float
    what: What

    @property
    def text(self) -> str:
        """In words."""
        between, repair = (format_duration(int(value) * SECOND) for value in (self.between_s, self.repair_s))
        return f"{WORDS[self.what]} every {between} on average, back after {repair}"


def parse_rate(text: str, what: What) -> OutageRate:
    """`mtbf 30d repair 4h`. Raises InputError."""
    found = _FORM.match(" ".join(text.split()))
    if not found:
        raise InputError(f"not a rate of outages: {text!r}", hint="mtbf 30d repair 4h")
    between, repair = (parse_duration(word) / SECOND for word in found.groups())
    if between <= 0 or repair <= 0:
        raise InputError("both times are above 0", hint="mtbf 30d repair 4h")
    return OutageRate(between, repair, what)


def draw_outages(rates: list[OutageRate], nodes: int, until_s: int, seed: int) -> list[Row]:
    """In order of time; each node has a stream of its own, and slurmctld has one: while it is away no job starts,
    what runs goes on.
    """
    rows: list[Row] = []
    for kind, rate in enumerate(rates):
        if rate.what == "controller":
            spans = _spans(rate, until_s, seed, 0, kind)
            rows += [row for span in spans for node in range(nodes) for row in _rows(span, node, HEADLESS)]
            continue
        effect = KILLED if rate.what == "fail" else DRAINED
        for node in range(nodes):
            rows += [row for span in _spans(rate, until_s, seed, node, kind) for row in _rows(span, node, effect)]
    return sorted(rows)


def _spans(rate: OutageRate, until_s: int, seed: int, stream: int, kind: int) -> list[tuple[int, int]]:
    """(gone, back) in seconds."""
    draw = generator(seed, stream, f"plan.outages.{kind}")
    spans = []
    at = float(draw.exponential(rate.between_s))
    while at < until_s:
        gone = max(1, int(at))
        back = gone + max(1, int(rate.repair_s))
        spans.append((gone, back))
        at = back + float(draw.exponential(rate.between_s))
    return spans


def _rows(span: tuple[int, int], node: int, effect: int) -> list[Row]:
    return [(span[0], node, 0, effect), (span[1], node, 1, effect)]


def kernel_outages(rows: list[Row]) -> Outages:
    """For the quick model."""
    from slurmtwin.campaign.planning.queue_kernel import Outages

    table: Any = np.array(rows, np.int64).reshape(len(rows), 4)
    return Outages(*(np.ascontiguousarray(column) for column in table.T))


def tried_again(requests: Sequence[JobRequest], rows: list[Row]) -> list[JobRequest]:
    """The requests as slurmctld gets them: sbatch fails while it is away, and is called again once it is back."""
    gone = [at for at, node, up, effect in rows if effect == HEADLESS and node == 0 and not up]
    back = [at for at, node, up, effect in rows if effect == HEADLESS and node == 0 and up]
    if not gone:
        return list(requests)
    out = []
    for job in requests:
        place = bisect_right(gone, job.submit_ns // SECOND + 1) - 1
        if place >= 0 and job.submit_ns < (back[place] + RETRY_S) * SECOND:
            out.append(replace(job, submit_ns=(back[place] + RETRY_S) * SECOND))
        else:
            out.append(job)
    return sorted(out, key=lambda job: job.submit_ns)


def twin_faults(rows: list[Row], names: list[str]) -> list[Fault]:
    """For the twin: slurmd killed with its jobs and started again, scontrol drain and resume, slurmctld killed and
    started.
    """
    faults: list[Fault] = []
    for at, node, up, effect in rows:
        when = format_duration(at * SECOND)
        if effect == DRAINED:
            state = {"state": "RESUME"} if up else {"state": "DRAIN", "reason": "maintenance"}
            faults.append(
                NodeAction.model_validate({"at": when, "kind": "node.update", "target": names[node], **state})
            )
        elif effect == KILLED:
            kind = "slurmd.start" if up else "slurmd.kill_group"
            faults.append(DaemonFault.model_validate({"at": when, "kind": kind, "target": names[node]}))
        elif node == 0:
            kind = "slurmctld.start" if up else "slurmctld.kill"
            faults.append(DaemonFault.model_validate({"at": when, "kind": kind}))
    return faults
