"""slurmtwin: a discrete-event twin of Slurm on Kubernetes, checked against the real thing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurmtwin.contract.scenario import Scenario
    from slurmtwin.worlds.run import Run

__all__ = ["__version__", "run"]

__version__ = "0.1.0"


def run(scenario: Scenario | Path | str, seed: int = 0, *, keep: bool = True, folder: Path | None = None) -> Run:
    """Run a scenario (or the scenario file of that name) in the twin.

    The result has `events` and `jobs` as pandas frames, `event_hash` and the manifest. keep=False keeps no event
    in memory; `folder` takes the run folder. Raises contract.errors.InputError for a wrong scenario.
    """
    from slurmtwin.contract.scenario import Scenario, load_scenario
    from slurmtwin.worlds.twin import TwinOptions, run_scenario

    base = Path()
    if not isinstance(scenario, Scenario):
        base = Path(scenario).parent
        scenario = load_scenario(scenario)
    return run_scenario(scenario, base, TwinOptions(seed=seed, keep=keep, folder=folder))
