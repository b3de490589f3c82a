"""What quiet runs show of slurmctld's loop and of those whom its ticks ask to register."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from slurmtwin.campaign.pod_spans import Interval, bounds
from slurmtwin.campaign.recorded_starts import clock_lag_ns
from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.models.slurmctld.coarse_clock import seen_late

if TYPE_CHECKING:
    from slurmtwin_reports.history import Row

ANSWER_MS: Final = (2, 100)
"""An answer sooner than that is another registration, which the slurmd made itself; a later one may be."""


def behind_second(row: Row, epoch_ns: int) -> tuple[Interval, Interval]:
    """The whole second before a row and the row, in ms; one within its error before a second is of that second."""
    second = (row.t_ns + row.t_err_ns + epoch_ns) // SECOND * SECOND - epoch_ns
    return (second / MS, second / MS), bounds(row)


def wakes(rows: Sequence[Row], epoch_ns: int) -> Iterator[tuple[Interval, Interval]]:
    """Whole seconds and the ticks that come sooner behind them than time(NULL) shows them: a second late, with the
    loop's first look (models/slurmctld/coarse_clock.py). The others wait for the clock. Behind a kill they may wait for
    a silent node as well, so the clock is that of the ticks before, as in a fault run.
    """
    ticks = [row for row in rows if row.kind == "node.pinged" and row.value]
    fault_ns = next((row.t_ns for row in rows if row.kind == "fault.injected"), rows[-1].t_ns + 1)
    looks: tuple[list[int], list[int]] = [], []
    for row in ticks:
        looks[row.t_ns >= fault_ns].append(row.t_ns)
    lag_ns = clock_lag_ns(looks[0], epoch_ns, looks[1])
    for row in ticks:
        if seen_late(row.t_ns + row.t_err_ns + epoch_ns, lag_ns + row.t_err_ns):
            yield behind_second(row, epoch_ns)


def registered(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Requests to one silent node to register, and its registration."""
    answers = [row for row in rows if row.kind == "node.responding"]
    soonest_ns, latest_ns = (ms * MS for ms in ANSWER_MS)
    for row in rows:
        if row.kind == "node.pinged" and row.value and row.details.get("purpose") == "registration":
            own = (one for one in answers if one.node == row.node)  # a request to several names none of them
            for answer in own:
                if soonest_ns <= answer.t_ns - row.t_ns <= latest_ns:
                    yield bounds(row), bounds(answer)
