"""Properties that must hold for a whole run, one file each (after TigerBeetle's cluster checkers).

A check sees the event rows, the manifest, the workload and plain facts of the cluster. It imports no model,
so a bug that twin and operator share cannot hide from it. Times compare as intervals: what may be a
measurement error is no finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from slurmtwin.contract.errors import InputError
from slurmtwin_reports.checks import (
    active_controller,
    capacity,
    causes,
    cpus_once,
    double_run,
    final_state,
    legal_states,
    lost_job,
    order,
    requeue_hold,
    usable_nodes,
)
from slurmtwin_reports.checks.operator import OPERATOR_PROPERTIES
from slurmtwin_reports.history import History
from slurmtwin_reports.verdict import Verdict

Check = Callable[[History], Verdict]

PROPERTIES: Final[dict[str, Check]] = {
    module.NAME: module.check
    for module in (
        order, legal_states, causes, lost_job, double_run, capacity, usable_nodes, requeue_hold, active_controller,
        final_state,
    )
}  # fmt: skip
"""Every property by its name, in the order of a report."""
ASKED_FOR: Final[dict[str, Check]] = PROPERTIES | OPERATOR_PROPERTIES | {cpus_once.NAME: cpus_once.check}
"""Also those that are judged only when they are named: an operator's, of runs that have one; CPUs promised twice."""


def run_checks(history: History, names: Iterable[str] | None = None) -> list[Verdict]:
    """Judge the named properties (all by default). Raises InputError for a name that is none."""
    chosen = list(PROPERTIES) if names is None else list(names)
    out = []
    for name in chosen:
        check = ASKED_FOR.get(name)
        if check is None:
            raise InputError(f"no property is called {name!r}", hint=f"one of {', '.join(ASKED_FOR)}")
        out.append(check(history).about(history.scenario, history.version, history.world))
    return out
