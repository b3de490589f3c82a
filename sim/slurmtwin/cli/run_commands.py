"""Commands that simulate: run, replay, why."""

from __future__ import annotations

from pathlib import Path

import click

from slurmtwin.cli.output import command, emit_json, emit_rows, say, say_warnings
from slurmtwin.cli.trace_options import trace_options
from slurmtwin.contract.errors import ExitCode, InputError
from slurmtwin.contract.scenario import load_scenario


def _free_folder(out: str | None, force: bool) -> Path | None:
    """The folder to write to; InputError when it holds something and --force was not given."""
    if out is None:
        return None
    folder = Path(out)
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise InputError(f"{folder} is not empty", hint="--force writes into it all the same")
    return folder


def _drawn_seed(seed: int | None) -> int:
    """The seed given, or one drawn and said, so that the run can be made again."""
    if seed is not None:
        return seed
    import secrets

    drawn = secrets.randbits(31)
    say(f"seed {drawn} (drawn; --seed {drawn} makes this run again)")
    return drawn


@click.command()
@click.argument("scenario")
@click.option("--seed", type=click.IntRange(0), help="Root of all random streams; drawn and printed when not given.")
@click.option("--world", default="twin", show_default=True, help="twin, slurm or kind.")
@click.option("--factor", type=click.FloatRange(1, 100), help="Acceleration k of a real world, or of the host that the "
              "twin stands for. Default: the scenario's, else the world's.")  # fmt: skip
@click.option("--tie-seed", type=int, help="Shuffle events of one instant (a test of the conclusion).")
@click.option("--out", help="Run folder: events.parquet, manifest.json, jobs.jsonl, scenario.resolved.json.")
@click.option("--force", is_flag=True, help="Write into --out even if it is not empty.")
@command("run")
def run(
    scenario: str, seed: int | None, world: str, factor: float | None, tie_seed: int | None, out: str | None,
    force: bool, as_json: bool,
) -> ExitCode:  # fmt: skip
    """Run one scenario once."""
    from slurmtwin.worlds.registry import find_world
    from slurmtwin.worlds.twin import TwinOptions

    path = Path(scenario)
    document = load_scenario(path)
    if factor is not None:
        document = document.model_copy(update={"host": document.host.model_copy(update={"factor": factor})})
    run_world = find_world(world)
    options = TwinOptions(seed=_drawn_seed(seed), folder=_free_folder(out, force), tie_seed=tie_seed)
    result = run_world(document, path.parent, options)
    resources = result.manifest.resources
    if as_json:
        emit_json("run", {
            "scenario": result.scenario, "world": result.world, "seed": result.seed, "event_hash": result.event_hash,
            "events": result.event_count, "stop_reason": result.stop_reason, "out": out, **resources,
        })  # fmt: skip
    else:
        pairs = [("scenario", result.scenario), ("world", result.world), ("seed", result.seed),
                 ("events", result.event_count), ("event hash", result.event_hash), ("ended", result.stop_reason),
                 ("wall", f"{resources['wall_s']} s")]  # fmt: skip
        emit_rows(("", ""), pairs)
    return ExitCode.FINE if result.stop_reason == "done" else ExitCode.UNKNOWN


@click.command()
@click.argument("workload")
@click.option("--nodes", multiple=True, metavar="COUNTxCPUS[xMEM]", help="Nodes of one shape; repeatable.")
@click.option("--slurm-conf", type=click.Path(), help="A site's slurm.conf; gres.conf, topology.conf and "
              "sacctmgr.script beside it are read too.")  # fmt: skip
@click.option("--slurm-version", type=click.Choice(["22.05", "24.11", "26.05"]), default="26.05", show_default=True)
@trace_options
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--starts", metavar="FILE.csv", help="One row per run of a job: id, submit, start, end, nodes.")
@click.option("--out", help="Keep the run in this folder.")
@click.option("--force", is_flag=True, help="Write into --out even if it is not empty.")
@command("replay")
def replay(
    workload: str, nodes: tuple[str, ...], slurm_conf: str | None, slurm_version: str, form: str | None,
    swf_memory: str, lenient: bool, waive: tuple[str, ...], seed: int, starts: str | None, out: str | None,
    force: bool, as_json: bool,
) -> ExitCode:  # fmt: skip
    """Replay a trace (SWF, sacct -P, event trace, JSON lines) on a cluster."""
    from slurmtwin.workload.slurm_conf import cluster_conf
    from slurmtwin.workload.swf import SwfOptions
    from slurmtwin.worlds import replay as replays

    conf = Path(slurm_conf) if slurm_conf else None
    if conf is not None and not conf.is_file():
        raise InputError(f"{conf}: no such file", hint="--slurm-conf names a slurm.conf")
    scenario = replays.replay_scenario(nodes, conf, slurm_version, waive)
    warnings = [str(w) for w in cluster_conf(scenario, Path())[1]]
    swf = SwfOptions(memory=swf_memory)  # type: ignore[arg-type]
    trace = replays.trace_of(Path(workload), form or "", lenient, swf)
    folder = _free_folder(out, force)
    done = replays.replay(trace, scenario, seed, folder, Path(starts) if starts else None)
    resources = done.run.manifest.resources
    rate = round(done.jobs / resources["wall_s"], 1) if resources["wall_s"] else None
    document = {
        "jobs": done.jobs, "dropped": trace.account.dropped_rows, "rejected": done.rejected, "account": done.account,
        "wall_s": resources["wall_s"], "jobs_per_s": rate, "max_rss_mb": resources["max_rss_mb"],
        "mean_wait_s": done.mean_wait_s, "event_hash": done.run.event_hash, "events": done.run.event_count,
        "stop_reason": done.run.stop_reason, "seed": seed, "starts": starts, "out": out,
        "core": done.run.manifest.parameters["core"], "warnings": warnings,
    }  # fmt: skip
    if as_json:
        emit_json("replay", document)
    else:
        say_warnings(warnings)
        shown = ("jobs", "dropped", "wall_s", "jobs_per_s", "max_rss_mb", "mean_wait_s", "event_hash", "stop_reason")
        emit_rows(("", ""), [(name, document[name]) for name in shown])
        for title in ("dropped", "altered"):
            for reason, tally in done.account.get(title, {}).items():
                say(f"{title} {tally['count']}: {reason} (first: {', '.join(tally['first'][:2])})")
        for reason, count in done.rejected.items():
            say(f"rejected at submission {count}: {reason}")
        for note in done.account.get("notes", []):
            say(f"note: {note}")
    return ExitCode.FINE if done.run.stop_reason == "done" else ExitCode.UNKNOWN


@click.command()
@click.argument("scenario")
@click.argument("job", type=int)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@command("why")
def why(scenario: str, job: int, seed: int, as_json: bool) -> ExitCode:
    """Explain why JOB of SCENARIO waited: which reason, when, which candidates were refused."""
    from slurmtwin.worlds.why import explain

    path = Path(scenario)
    answer = explain(load_scenario(path), path.parent, job, seed)
    if as_json:
        emit_json("why", answer.to_dict())
    else:
        click.echo(answer.to_text())
    return ExitCode.FINE
