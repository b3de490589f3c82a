"""Commands about the real thing: record, calibrate, doctor."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from slurmtwin.cli.file_commands import scenario_files, since_ns
from slurmtwin.cli.output import command, emit_json, emit_rows, say
from slurmtwin.contract.clock import SECOND, parse_duration
from slurmtwin.contract.errors import ExitCode, InputError
from slurmtwin.contract.scenario import Scenario, load_scenario

if TYPE_CHECKING:
    from slurmtwin_e2e.doctor import Finding
    from slurmtwin_e2e.kind.doctor import Fact

VERSIONS = ("22.05", "24.11", "26.05")
QUIET: Final = (
    "quiet-pods",
    "quiet-single",
    "quiet-restarts",
    "quiet-replaced",
    "quiet-deleted",
    "quiet-drained",
    "quiet-operated",
    "quiet-ended",
    "quiet-slinky",
    "quiet-rested",
    "quiet-protected",
    "quiet-shrunk",
    "quiet-configured",
    "quiet-grown",
    "quiet-array",
)
"""Scenarios that a batch's durations are measured on."""


@click.command()
@click.argument("paths", nargs=-1)
@click.option("--missing", "only_missing", is_flag=True, help="Only what is not recorded yet (the default).")
@click.option("--version", "versions", multiple=True, type=click.Choice(VERSIONS), help="Default: all three.")
@click.option("--factor", type=click.FloatRange(1, 100), help="Acceleration k. Default: that of the "
              "recordings which are there, else the harness's.")  # fmt: skip
@click.option("--repetitions", type=click.IntRange(1), default=3, show_default=True)
@click.option("--budget", default="120m", show_default=True, help="Start no further run after this time.")
@click.option("--recordings", default="scenarios/recordings", show_default=True)
@command("record")
def record(
    paths: tuple[str, ...], only_missing: bool, versions: tuple[str, ...], factor: float | None, repetitions: int,
    budget: str, recordings: str, as_json: bool,
) -> ExitCode:  # fmt: skip
    """Record scenarios (files or folders; default: the workloads) on real Slurm; goes on where it stopped.

    Scenarios with a `pods` section are recorded on Kubernetes, in their own version and without acceleration. What
    is recorded already stays: delete a recording's folder to have it made again.
    """
    del only_missing  # recorded runs are never replaced
    from slurmtwin.workload.resolve import resolve_jobs
    from slurmtwin.worlds.outside import literal_scenario
    from slurmtwin_e2e.record import missing
    from slurmtwin_e2e.record import record as record_all

    scenarios = []
    for path in scenario_files(paths, "scenarios/workloads"):
        scenario = load_scenario(path)
        scenarios.append((literal_scenario(scenario, path.parent), list(resolve_jobs(scenario, path.parent))))
    root = Path(recordings)
    in_pods = [scenario for scenario, _ in scenarios if scenario.pods is not None]
    plain = [pair for pair in scenarios if pair[0].pods is None]
    if in_pods:
        return _record_pods(in_pods, root, repetitions, parse_duration(budget) / SECOND, bool(plain), as_json)
    wanted = list(missing(plain, versions or VERSIONS, factor, repetitions, root))
    done = record_all(wanted, root, parse_duration(budget) / SECOND, say)
    left = len(wanted) - done.made
    if as_json:
        emit_json("record", {"made": done.made, "late": done.late, "failed": done.failed, "missing": left})
    else:
        emit_rows(
            ("", ""), [("made", done.made), ("too late", done.late), ("failed", len(done.failed)), ("missing", left)]
        )
    return ExitCode.FINDING if done.failed else ExitCode.FINE


def _record_pods(
    scenarios: list[Scenario], root: Path, repetitions: int, budget_s: float, mixed: bool, as_json: bool
) -> ExitCode:  # fmt: skip
    """Record on Kubernetes. Raises InputError when scenarios without pods are named beside."""
    from slurmtwin_e2e.kind.batch import record_batch

    if mixed:
        raise InputError("scenarios with and without pods are recorded by two calls", hint="name one kind at a time")
    made, failed = record_batch(scenarios, root, repetitions=repetitions, budget_s=budget_s)
    if as_json:
        emit_json("record", {"made": made, "failed": failed})
    else:
        emit_rows(("", ""), [("made", made), ("failed", len(failed))])
    return ExitCode.FINDING if failed else ExitCode.FINE


@click.command()
@click.option("--world", type=click.Choice(("slurm", "kind", "all")), default="all", show_default=True)
@click.option("--scenarios", default="scenarios", show_default=True, help="Say which of these can run here.")
@command("doctor")
def doctor(world: str, scenarios: str, as_json: bool) -> ExitCode:
    """Say what the real worlds need, what is here, and the command that gets the rest. Changes nothing."""
    from slurmtwin_e2e import doctor as slurm_doctor
    from slurmtwin_e2e.kind import doctor as kind_doctor

    rows = [("slurm", need) for need in slurm_doctor.examine() if world != "kind"]
    if world != "slurm":
        rows += [("kind", need) for need in kind_doctor.examine()]
    facts = kind_doctor.facts()
    files = scenario_files((scenarios,), scenarios) if Path(scenarios).exists() else []
    refused = kind_doctor.refusals(map(load_scenario, files)) if world != "slurm" else {}
    if as_json:
        needs = [{"world": w, "need": f.need, "met": f.met, "remedy": f.remedy, "takes": f.takes} for w, f in rows]
        host = [{"name": fact.name, "value": fact.value, "means": fact.means} for fact in facts]
        runs = [{"scenario": name, "runs": not why, "why": why} for name, why in sorted(refused.items())]
        emit_json("doctor", {"needs": needs, "host": host, "scenarios": runs})
    else:
        _doctor_screen(rows, facts, refused)
    return ExitCode.FINE if all(f.met for _, f in rows) else ExitCode.ENVIRONMENT


def _doctor_screen(rows: list[tuple[str, Finding]], facts: list[Fact], refused: dict[str, str]) -> None:
    emit_rows(
        ("world", "need", "", "takes", "to get it"),
        [(w, f.need, "ok" if f.met else "MISSING", *(("", "") if f.met else (f.takes, f.remedy))) for w, f in rows],
    )
    click.echo()
    emit_rows(("this host", "", "so"), [(fact.name, fact.value, fact.means) for fact in facts])
    if refused:
        bad = {name: why for name, why in refused.items() if why}
        click.echo(f"\n{len(refused) - len(bad)} of {len(refused)} scenarios with a cluster can run here")
        for name, why in sorted(bad.items()):
            click.echo(f"  {name}: {why}")


@click.command()
@click.option("--recordings", default="scenarios/recordings", show_default=True, help="Folder of recorded runs.")
@click.option("--pods", is_flag=True, help="Durations of a Kubernetes cluster, from its quiet runs.")
@click.option("--out", metavar="FILE", help="With --pods: write the fits here.")
@click.option("--recorded-since", "since", type=click.DateTime(("%Y-%m-%dT%H:%M",)), help="With --pods: only runs "
              "whose time zero is not before this minute (UTC).")  # fmt: skip
@click.option("--recorded-before", "before", type=click.DateTime(("%Y-%m-%dT%H:%M",)), help="With --pods: only runs "
              "whose time zero is before this minute (UTC).")  # fmt: skip
@click.option(
    "--cpu", default="", help="With --pods: only runs on hosts of this processor, as their manifests name it."
)
@command("calibrate")
def calibrate(
    recordings: str, pods: bool, out: str | None, since: datetime | None, before: datetime | None, cpu: str,
    as_json: bool,
) -> ExitCode:  # fmt: skip
    """Measure host costs in the recordings at acceleration 1, beside the values the twin uses."""
    if pods:
        folders = _batch(Path(recordings), since_ns(since), None if before is None else since_ns(before), cpu)
        return _calibrate_pods(folders, out, as_json)
    from slurmtwin.campaign.calibration import measure
    from slurmtwin.contract.clock import MS
    from slurmtwin.worlds.calibration import load_host_costs

    folders = sorted(p.parent for p in Path(recordings).glob("*/*/k1/*/manifest.json"))
    costs = measure(folders)
    used = {c.version: load_host_costs(c.version)[0] for c in costs}
    rows = [{**c.to_dict(), "used_ms": getattr(used[c.version], f"{c.name}_ns") / MS} for c in costs]
    if as_json:
        emit_json("calibrate", {"costs": rows})
    else:
        header = ("version", "name", "median_ms", "low_ms", "high_ms", "error_ms", "count", "used_ms")
        emit_rows(header, [[_short(row[name]) for name in header] for row in rows])
    return ExitCode.FINE


def _batch(recordings: Path, begin_ns: int, end_ns: int | None, cpu: str) -> list[Path]:
    """Recorded runs in pods of that time and, where `cpu` names one, of hosts with this processor."""
    from slurmtwin.contract.manifest import read_manifest

    folders = sorted(p.parent for p in recordings.glob("*/*/pods/*/manifest.json"))
    manifests = {folder: read_manifest(folder) for folder in folders}
    return [
        folder
        for folder, manifest in manifests.items()
        if begin_ns <= manifest.parameters["epoch_ns"]
        and (end_ns is None or manifest.parameters["epoch_ns"] < end_ns)
        and cpu in ("", manifest.environment.get("host", {}).get("cpu"))
    ]


def _calibrate_pods(recorded: list[Path], out: str | None, as_json: bool) -> ExitCode:
    from slurmtwin.campaign.pod_calibration import document_text, measure, under_operator
    from slurmtwin.contract.manifest import write_atomic
    from slurmtwin.worlds.pod_durations import still_durations

    quiet = [folder for folder in recorded if folder.parents[2].name in QUIET]
    document = measure(quiet, [folder for folder in recorded if folder not in quiet and under_operator(folder)])
    if out:
        write_atomic(Path(out), document_text(document))
    header = ("median_ms", "low_ms", "high_ms", "sigma", "known_to_ms", "runs", "count")
    used = still_durations()
    rows = [
        {"name": name, **{key: entry[key] for key in header}, "used_ms": used[name][0] / 1e6 if name in used else None}
        for name, entry in document["durations"].items()
    ]
    if as_json:
        emit_json("calibrate", {"origin": document["origin"], "durations": rows})
    else:
        emit_rows(("name", *header, "used_ms"), [[_short(value) for value in row.values()] for row in rows])
    return ExitCode.FINE


def _short(value: object) -> object:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else value
