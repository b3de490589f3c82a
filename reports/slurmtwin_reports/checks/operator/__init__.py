"""Properties of an operator of Slurm on Kubernetes, judged from the rows of pods, nodes, jobs and its own actions.

Whose operator it was does not matter, as long as its drains begin with its prefix (`slurmtwin: ` or, for Slinky,
`slurm-operator:`) and its actions are rows (`action.issued`) or name it as actor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from slurmtwin_reports.checks.operator import (
    budget,
    busy_pods,
    explained,
    foreign_drains,
    leaks,
    reached,
    settled,
)
from slurmtwin_reports.history import History
from slurmtwin_reports.verdict import Verdict

OPERATOR_PROPERTIES: Final[dict[str, Callable[[History], Verdict]]] = {
    module.NAME: module.check for module in (busy_pods, foreign_drains, budget, settled, explained, leaks, reached)
}
"""Every property of an operator by its name."""
