"""A plan for a shipped design: what of the design a plan can carry, and what it cannot, said.

A design's settings of slurm.conf (timeouts, requeue, what brings a node back) decide what an outage costs. Its
Kubernetes side decides how soon a node is back, which a plan takes from --failures and --drains.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slurmtwin.contract.scenario import Scenario
from slurmtwin.worlds.outside import literal_scenario
from slurmtwin.worlds.pod_operator import design_of


def with_design(scenario: Scenario, name: str) -> tuple[Scenario, dict[str, Any]]:
    """The scenario with the design's slurm.conf below its own, and the design for the plan's page.

    Raises InputError when no design has that name.
    """
    design = design_of(name)
    literal = literal_scenario(scenario, Path())
    own = literal.slurm.conf
    given = {word.lower() for word in own}
    added = {word: value for word, value in design.slurm_conf.items() if word.lower() not in given}
    slurm = literal.slurm.model_copy(update={"conf": {**added, **own}})
    return literal.model_copy(update={"slurm": slurm}), {"name": name, "grade": design.grade, "slurm_conf": added}
