"""What runs under an operator show while they are still quiet: the rows before their first fault.

The starts of a fault scenario's workers lie before its first fault, and no phase is judged there. Of quiet runs only
quiet-operated has an operator's pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from slurmtwin.campaign.pod_spans import Interval, PodSpans
from slurmtwin.contract.clock import MS
from slurmtwin.models.kubelet.defaults import VOLUME_POLL_NS

if TYPE_CHECKING:
    from slurmtwin_reports.history import Row

PROBED_MS: Final = 10_000.0
"""Startup and readiness probes of an operator's workers look each 10 s (core/manifests.py; Slinky's as well)."""
LOOK_MS: Final = VOLUME_POLL_NS / MS


def quiet_part(rows: Sequence[Row]) -> list[Row]:
    """The rows before the first fault."""
    return list(takewhile(lambda row: row.kind != "fault.injected", rows))


def mounted(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """(bound, probes begin) of each worker's pod that gets ready, both as bounds in ms.

    Probes look first when the volumes are mounted, and from then on each 10 s: the pod is ready a whole number of
    periods behind that. What the probe and its status take is part of it. One look of the kubelet is the least (half a
    one, as clocks differ), and no pod takes a period more than that.
    """
    pods = PodSpans(rows)
    for uid, app in pods.app.items():
        bound, ready = pods.at("pod.scheduled", uid), pods.at("pod.ready", uid)
        if app == "slurmd" and bound is not None and ready is not None:
            periods = (ready[1] - bound[0] - LOOK_MS / 2) // PROBED_MS * PROBED_MS
            last = ready[1] - periods
            if periods >= 0:
                yield bound, (max(ready[0] - periods, min(bound[1] + LOOK_MS, last)), last)
