"""The parameter that a phase names moves it in the twin: halved and doubled, its span is another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmtwin.campaign.parameters import change
from slurmtwin.campaign.replications import Batch, Replication, Variant, run_batch, run_twin
from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.phases import Phase
from slurmtwin.contract.pod_durations import RULES
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.workload.resolve import resolve_jobs
from slurmtwin.worlds.pod_durations import drawn_durations
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import not_modelled
from slurmtwin_reports.faults.milestones import marks_of
from slurmtwin_reports.history import rows_of_events

FAULTS = Path("scenarios/faults")
UNMOVED = {
    "x71-disk-fills/requeued": "the pod that is made anew registers before any ping fails",
    "x42-drain-busy/evicted": "not in these three, nor in half of its recorded runs (docs/fault-verdicts.md)",
}


def spans(scenario: Scenario, phase: Phase, factor: float) -> list[int | None]:
    """Of three replications with the parameter times the factor, ns."""
    changed = change(scenario, phase.parameter, factor)
    out = []
    for number in range(3):
        durations = drawn_durations(number)
        for name, by in changed.durations.items():
            durations[name] = tuple(round(value * by) for value in durations[name])
        rows = rows_of_events(run_twin(Replication(
            scenario=changed.scenario, base_dir=FAULTS, jobs=list(resolve_jobs(changed.scenario, FAULTS)),
            times=StartTimes(), seed=1, number=number, durations=durations, scaled=changed.rules,
        )))  # fmt: skip
        out.append(marks_of(rows, phase).length_ns)
    return out


def named() -> list[tuple[Scenario, Phase]]:
    """Phases that name a parameter and do not forbid their end, of scenarios that the twin runs."""
    scenarios = [load_scenario(path) for path in sorted(FAULTS.glob("*.yaml"))]
    return [
        (scenario, phase)
        for scenario in scenarios
        if not not_modelled(scenario)
        for phase in scenario.expect.phases
        if phase.parameter and not phase.absent
    ]


@pytest.mark.parametrize(("scenario", "phase"), named(), ids=lambda one: one.name)
def test_the_parameter_of_a_phase_moves_it(scenario: Scenario, phase: Phase) -> None:
    """Else no verdict about it could say more than `unknown`; those that do not are listed with the reason."""
    halved = spans(scenario, phase, 0.5)
    moved = halved != spans(scenario, phase, 2.0) or halved != spans(scenario, phase, 1.0)
    assert moved != (f"{scenario.name}/{phase.name}" in UNMOVED)


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_rule_that_can_be_scaled_moves_something(rule: str) -> None:
    """A name that the twin does not read would be halved and doubled for nothing."""
    where = {
        "node-monitor-grace-period": "x64-worker-host-lost", "min-checkin-time": "x1-controller-crash",
        "configless-retry": "x16-cold-start", "shutdown-wait": "x9-takeover",
        "supervisor-restart": "x62-slurmd-crash-supervised", "pleg-relist": "x1-controller-crash",
        "message-timeout": "x64-worker-host-lost",
        "config-map-sync": "x10-config-in-place", "operator-poll": "x33-slinky",
        "readiness-period": "../operator/op-scale", "operator-requeue": "../operator/op-scale",
        "operator-lease": "../operator/op-operator-killed", "backfill-interval": "x63-oom-process",
        "resolver-timeout": "x88-dns-outage", "restart-back-off": "x62-crash-loop",
        "batch-sched-delay": "x87-array-memory",
        "slurm-list-period": "x42-drain-busy", "slurm-client-look": "x48-ghost",
        "supervisor-round": "x47-slinky", "proxy-min-sync": "x10-config-new-pod",
    }  # fmt: skip
    scenario = load_scenario(FAULTS / f"{where[rule]}.yaml")
    runs = [
        run_twin(Replication(scenario=scenario, base_dir=FAULTS, jobs=list(resolve_jobs(scenario, FAULTS)),
                             times=StartTimes(), seed=1, number=0, scaled={rule: factor}))
        for factor in (0.5, 1.0, 2.0)
    ]  # fmt: skip
    assert len({tuple((row.t_ns, row.kind) for row in run) for run in runs}) > 1


def test_a_parameter_of_the_workload_reaches_recorded_jobs() -> None:
    """The jobs that a recording keeps lack it: half a run would be judged as a whole one."""
    scenario = FAULTS.parent / "clusters" / "x84-filled-behind-its-back.yaml"
    recording = Path("scenarios/recordings/x84-filled-behind-its-back/26.05/pods/1")

    def first_waits_ns(variant: Variant) -> int:
        one = Batch(
            scenario=scenario, version="26.05", recording=recording, variant=variant, first=0, count=1, seed=1,
            world=run_twin,
        )  # fmt: skip
        (start, end) = run_batch(one)[0, 0]
        return int(end - start)

    whole = first_waits_ns(Variant())
    assert first_waits_ns(Variant("workload.jobs.0.run", 0.5)) == whole - 25 * SECOND
