"""A world outside the simulator, called in the twin's way: its scenario made literal, its workload resolved."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from slurmtwin.contract.errors import InputError
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import Scenario
from slurmtwin.contract.slurm_files import literal_section, scenario_files
from slurmtwin.contract.world import RunAnswer, RunOrder
from slurmtwin.engine.event_sink import EventSink
from slurmtwin.workload.resolve import resolve_jobs
from slurmtwin.worlds.run import Run
from slurmtwin.worlds.twin import TwinOptions


def literal_scenario(scenario: Scenario, base_dir: Path) -> Scenario:
    """The scenario with the Slurm files that it names written out. Raises InputError when one cannot be read."""
    if scenario.slurm.files is None:
        return scenario
    return scenario.model_copy(
        update={"slurm": literal_section(scenario_files(scenario, base_dir), scenario.slurm)}
    )  # fmt: skip


class OutsideWorld:
    """`run_scenario` of the twin, for a world that takes a RunOrder."""

    def __init__(self, name: str, world: Callable[[RunOrder], RunAnswer]) -> None:
        self.name = name
        self._world = world

    def __call__(
        self,
        scenario: Scenario,
        base_dir: Path | str = ".",
        options: TwinOptions | None = None,
        jobs: Iterable[JobRequest] | None = None,
    ) -> Run:
        """Run one scenario there.

        Raises InputError for a wrong scenario or a tie seed, EnvironmentMissingError when the machine lacks something.
        """
        options = options or TwinOptions()
        if options.tie_seed is not None:
            raise InputError(f"world {self.name} has no order of ties to shuffle", hint="--tie-seed is for the twin")
        base = Path(base_dir)
        requests = tuple(resolve_jobs(scenario, base, options.seed) if jobs is None else jobs)
        answer = self._world(
            RunOrder(
                scenario=literal_scenario(scenario, base), jobs=requests, folder=options.folder,
                seed=options.seed, replication=options.replication,
            )
        )  # fmt: skip
        results = answer.manifest.results
        sink = EventSink(str(results.get("run_id", "")), self.name, keep=True)
        for event in answer.events:
            sink.add(event)
        return Run(
            self.name, scenario.name, options.seed, sink.event_hash, sink.count, str(results.get("stop_reason", "")),
            answer.manifest, options.folder, sink.kept,
        )  # fmt: skip
