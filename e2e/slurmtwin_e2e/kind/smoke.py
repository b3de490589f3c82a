"""A few scenarios and a new user's first steps on one real cluster, which is proven clean after each."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from slurmtwin.contract.events import Event
from slurmtwin.contract.kubernetes import KubernetesCluster
from slurmtwin.contract.listed_jobs import listed_jobs
from slurmtwin.contract.phases import Phase
from slurmtwin.contract.scenario import Scenario
from slurmtwin_e2e import kind_world
from slurmtwin_e2e.kind import deploy, first_steps, lifecycle, runner
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.programs import Say
from slurmtwin_e2e.run_folder import write_folder

FILES: Final = (
    "scenarios/faults/quiet-pods.yaml",
    "scenarios/faults/x62-slurmd-crash-main.yaml",
    "scenarios/faults/x46-pod-force-deleted.yaml",
)
GOOD: Final = ("done", "max_time")


def missing_milestones(phases: Iterable[Phase], events: Sequence[Event]) -> list[str]:
    """Phases whose end the run does not show; how long they took is judged elsewhere, with all repetitions."""
    seen = {(event.kind, event.job_id) for event in events} | {(event.kind, None) for event in events}
    return [phase.name for phase in phases if not phase.absent and (phase.end.kind, phase.end.job) not in seen]


def run_one(cluster: Cluster, scenario: Scenario, out: Path, say: Say) -> list[str]:
    """Run one scenario into a folder; returns what is wrong with it, [] when all it names happened."""
    jobs = list(listed_jobs(scenario))
    ran = runner.run_once(cluster, scenario, jobs, say)
    manifest = kind_world.build_manifest(scenario, ran, [cluster], 1)
    write_folder(out / scenario.name, manifest, ran.events, kind_world.resolved_text(scenario), jobs)
    wrong = [] if ran.stop_reason in GOOD else [f"ended by {ran.stop_reason}"]
    wrong += ran.fault_errors
    return wrong + [f"phase {name} has no end" for name in missing_milestones(scenario.expect.phases, ran.events)]


def smoke(scenarios: Sequence[Scenario], out: Path, say: Say) -> list[str]:
    """Run all on one cluster of 1 + 3 nodes; returns what went wrong, as SCENARIO: WHAT."""
    for scenario in scenarios:
        runner.check_scenario(scenario)
    wrong: list[str] = []
    section = KubernetesCluster(name="smoke")
    with lifecycle.running([section], say, logs=out / "logs") as clusters:
        for scenario in scenarios:
            start = time.monotonic()
            found = run_one(clusters[0], scenario, out, say)
            deploy.unlabel_nodes(clusters[0])
            found += [f"not clean afterwards: {row}" for row in lifecycle.make_clean(clusters[0])]
            say(f"{scenario.name}: {'ok' if not found else '; '.join(found)} ({time.monotonic() - start:.0f} s)")
            wrong += [f"{scenario.name}: {text}" for text in found]
        start = time.monotonic()
        first_steps.install(clusters[0], say)
        wrong += first_steps.one_user(clusters[0], "first-steps", say)  # the last thing here: all goes with the cluster
        say(f"first steps: {time.monotonic() - start:.0f} s with the operator's image")
    return wrong
