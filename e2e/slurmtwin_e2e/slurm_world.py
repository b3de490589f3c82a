"""The world `slurm`: run_scenario() for the registry of worlds, and a program to try a scenario with.

`python -m slurmtwin_e2e.slurm_world SCENARIO [--version 22.05] [--factor 20]`
prints one line per job run (job, submit, start, end, how started, nodes, state), and with --all every event. Nothing
is recorded; --keep DIR keeps Slurm's own logs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.listed_jobs import listed_jobs
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.contract.world import RunAnswer, RunOrder
from slurmtwin_e2e.docker import sweep
from slurmtwin_e2e.images import make_image, package_versions
from slurmtwin_e2e.recording import Place, read_run, run_events, write_run
from slurmtwin_e2e.run import DEFAULT_FACTOR, run_raw


def factor_of(scenario: Scenario) -> float:
    """host.factor if the scenario says it, else the harness's own."""
    return scenario.host.factor if "factor" in scenario.host.model_fields_set else DEFAULT_FACTOR


def run_scenario(order: RunOrder) -> RunAnswer:
    """Run one scenario on real Slurm (contract.world).

    Raises EnvironmentMissingError without Docker, ModelError when the run did not reach its end.
    """
    scenario = order.scenario
    place = Place(scenario.name, scenario.slurm.version, factor_of(scenario), order.replication)
    sweep()
    make_image(place.version, say=_say)
    packages = package_versions(place.version)
    with tempfile.TemporaryDirectory(prefix="slurmtwin-slurm-") as folder:
        raw = run_raw(scenario, order.jobs, place.version, place.factor, Path(folder, "run"))
        if order.folder is None:
            return RunAnswer(*read_run(place, scenario, order.jobs, raw, packages))
        written = Path(folder, "written")
        answer = RunAnswer(*write_run(written, place, scenario, order.jobs, raw, packages))
        shutil.copytree(written, order.folder, dirs_exist_ok=True)
        return answer


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def job_table(events: Sequence[Event]) -> list[str]:
    """One line per run of a job."""
    submitted: dict[int, int] = {}
    lines: list[str] = []
    open_runs: dict[tuple[int, str], Event] = {}

    def key(event: Event) -> tuple[int, str]:
        parts = json.loads(event.detail or "{}")
        return event.job_id or 0, str(parts.get("array_task", ""))

    def text(ns: int) -> str:
        return f"{ns / SECOND:9.2f}"

    for event in events:
        if event.kind is Kind.JOB_SUBMITTED and event.job_id:
            submitted[event.job_id] = event.t_ns
        elif event.kind is Kind.JOB_STARTED:
            open_runs[key(event)] = event
        elif event.kind is Kind.JOB_ENDED:
            number, task = key(event)
            start = open_runs.pop((number, task), None)
            parts = json.loads(event.detail or "{}")
            by = json.loads(start.detail or "{}").get("by", "") if start else ""
            begun, where = (text(start.t_ns), start.node) if start else (" " * 9, "-")
            asked = text(submitted[number]) if number in submitted else " " * 9
            name = f"{number}_{task}" if task else str(number)
            lines.append(f"{name:>8} {asked} {begun} {text(event.t_ns)} {by:8} {parts.get('state', ''):12} {where}")
    for (number, task), start in open_runs.items():
        name = f"{number}_{task}" if task else str(number)
        lines.append(
            f"{name:>8} {text(submitted.get(number, 0))} {text(start.t_ns)} {'-':>9} {'':8} {'RUNNING':12} {start.node}"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one scenario and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--version", choices=("22.05", "24.11", "26.05"), help="default: the scenario's")
    parser.add_argument("--factor", type=float, default=DEFAULT_FACTOR, help="simulated seconds per real second")
    parser.add_argument("--all", action="store_true", help="print every event, not only the jobs")
    parser.add_argument(
        "--jobs", type=Path, help="the workload as JSON lines of JobRequest instead of the scenario's list"
    )
    parser.add_argument("--keep", type=Path, help="keep Slurm's logs in this folder")
    options = parser.parse_args(arguments)
    scenario = load_scenario(options.scenario)
    version = options.version or scenario.slurm.version
    sweep()
    make_image(version, say=_say)
    if options.jobs:
        jobs = [JobRequest(**json.loads(line)) for line in options.jobs.read_text().splitlines()]
    elif scenario.workload.file or scenario.workload.generate:
        raise InputError(f"{scenario.name}: this workload is generated or read from a trace", hint="give it by --jobs")
    else:
        jobs = list(listed_jobs(scenario))
    with tempfile.TemporaryDirectory(prefix="slurmtwin-slurm-") as folder:
        raw = run_raw(scenario, jobs, version, options.factor, Path(folder, "run"))
        events = run_events(scenario, raw)
        if options.keep:
            shutil.copytree(raw.folder, options.keep, dirs_exist_ok=True)
    for option, change in raw.files.overridden.items():
        print(f"# overridden: {option}={change['asked']} -> {change['used'] or '(left out)'}", file=sys.stderr)
    if options.all:
        for event in events:
            print(
                f"{event.t_ns / SECOND:10.3f} {event.kind.value:24} {event.job_id or '':>5} {event.node or '':20}"
                f" {event.value or ''} {event.detail or ''}"
            )
    else:
        print(f"{'job':>8} {'submit':>9} {'start':>9} {'end':>9} {'by':8} {'state':12} nodes")
        print("\n".join(job_table(events)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
