"""`plan`: how many nodes a trace needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from slurmtwin.cli.output import command, emit_json, emit_rows, say, say_warnings
from slurmtwin.cli.trace_options import trace_options
from slurmtwin.contract.errors import ExitCode, InputError


def _growth(text: str) -> float:
    """`20%`, `-10%` or `0.2`. Raises InputError."""
    word = text.strip()
    try:
        value = float(word.rstrip("%")) / (100 if word.endswith("%") else 1)
    except ValueError as error:
        raise InputError(f"not a growth: {text!r}", hint="20% for a fifth more jobs") from error
    if not -1 < value <= 10:
        raise InputError(f"growth of {text!r} is out of bounds", hint="above -100%, at most 1000%")
    return value


@click.command()
@click.argument("trace")
@click.option("--nodes", multiple=True, metavar="COUNTxCPUS[xMEM]", help="Today's nodes of one shape; repeatable.")
@click.option("--slurm-conf", type=click.Path(), help="Today's cluster: a site's slurm.conf and the files beside it.")
@click.option("--slurm-version", type=click.Choice(["22.05", "24.11", "26.05"]), default="26.05", show_default=True)
@click.option("--target", "targets", multiple=True, required=True, metavar="TEXT", help="'p95 wait < 1h'; repeatable, "
              "all must hold. mean, median or pNN; 'of 1 CPU' for a class.")  # fmt: skip
@click.option("--design", default="", metavar="NAME", help="A shipped design: its settings of slurm.conf, under those "
              "that --slurm-conf gives.")  # fmt: skip
@click.option("--growth", default="0%", show_default=True, help="More jobs of the same kind.")
@click.option("--failures", default="", metavar="TEXT", help="'mtbf 90d repair 4h': nodes die with what runs on them.")
@click.option("--drains", default="", metavar="TEXT", help="'mtbf 30d repair 8h': nodes are drained for so long.")
@click.option("--controller", default="", metavar="TEXT", help="'mtbf 30d repair 10m': slurmctld goes and is back (a "
              "restart, a takeover by the backup) after so long.")  # fmt: skip
@click.option("--price", "prices", multiple=True, type=float, help="Per node and hour, one for each shape in order.")
@click.option("--watts", multiple=True, metavar="IDLE/BUSY", help="Per node, one for each shape in order.")
@trace_options
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--resamples", type=click.IntRange(2, 10_000), default=30, show_default=True, help="Traces drawn anew "
              "for the interval.")  # fmt: skip
@click.option("--judge", default=45.0, show_default=True, type=click.FloatRange(0), help="Processor seconds, as "
              "estimated, that one replay in the twin may take.")  # fmt: skip
@click.option("--sweep", is_flag=True, help="Try every count instead of bisecting (slow: it proves the search).")
@click.option("--workers", type=click.IntRange(0), default=0, help="Processes; 0: one per processor.")
@click.option("--out", help="Folder for plan.json and the tables behind the figures (CSV, Parquet).")
@click.option("--report", help="Write the plan as one offline HTML file.")
@command("plan")
def plan(as_json: bool, **options: Any) -> ExitCode:
    """How many nodes keep the waits of TRACE below a target, and how sure that is."""
    document = _plan(options)
    if options["out"]:
        from slurmtwin.campaign.planning.plan_files import write_plan

        write_plan(Path(options["out"]), document)
    if options["report"]:
        from slurmtwin_reports.plan_report import write_plan_report

        write_plan_report(Path(options["report"]), document)
        say(f"report: {options['report']}")
    if as_json:
        emit_json("plan", document)
    else:
        _screen(document)
    return ExitCode.FINE if document["replay"]["supported"] and document["judge"]["settled"] else ExitCode.UNKNOWN


def _plan(options: dict[str, Any]) -> dict[str, Any]:
    import sys

    from slurmtwin.campaign.planning.costs import with_costs
    from slurmtwin.campaign.planning.guide import Guide
    from slurmtwin.campaign.planning.outages import What, parse_rate
    from slurmtwin.campaign.planning.plan import PlanOptions, make_plan
    from slurmtwin.campaign.planning.shapes import cluster_of
    from slurmtwin.campaign.planning.target import parse_target
    from slurmtwin.campaign.planning.trace import plan_trace
    from slurmtwin.workload.resolve import detect_format
    from slurmtwin.workload.slurm_conf import cluster_conf
    from slurmtwin.workload.swf import SwfOptions
    from slurmtwin.worlds.replay import replay_scenario, trace_of

    targets = tuple(parse_target(text) for text in options["targets"])
    path = Path(options["trace"])
    conf_path = Path(options["slurm_conf"]) if options["slurm_conf"] else None
    if conf_path is not None and not conf_path.is_file():
        raise InputError(f"{conf_path}: no such file", hint="--slurm-conf names a slurm.conf")
    scenario = replay_scenario(options["nodes"], conf_path, options["slurm_version"], options["waive"])
    design = None
    if options["design"]:
        from slurmtwin.campaign.planning.plan_design import with_design

        scenario, design = with_design(scenario, options["design"])
    cluster = cluster_of(scenario, Path())
    conf, warnings = cluster_conf(cluster.scenario, Path())
    say_warnings(warnings)
    kinds: tuple[tuple[str, What], ...] = (("failures", "fail"), ("drains", "drain"), ("controller", "controller"))
    rates = [parse_rate(options[name], what) for name, what in kinds if options[name]]
    form = options["form"] or detect_format(path)
    stream = trace_of(path, form, options["lenient"], SwfOptions(memory=options["swf_memory"]))
    trace = plan_trace(stream, path, form, conf, _growth(options["growth"]), options["seed"])
    guide = Guide(cluster, tuple(part.name for part in conf.partitions), targets, rates, options["seed"])
    how = PlanOptions(
        resamples=options["resamples"], judge_s=options["judge"], workers=options["workers"], sweep=options["sweep"]
    )
    document = make_plan(trace, guide, how, say)
    with_costs(document, list(options["prices"]), list(options["watts"]))
    import shlex

    document["command"] = " ".join(["slurmtwin", *(shlex.quote(word) for word in sys.argv[1:])])
    document["slurm_version"] = conf.version
    document["design"] = design
    return document


def _screen(document: dict[str, Any]) -> None:
    answer, replay = document["answer"], document["replay"]
    mix = " + ".join(f"{n} x {shape}" for n, shape in zip(answer["counts"], document["shapes"], strict=True))
    click.echo(
        f"{answer['nodes']} nodes ({mix}) meet {', '.join(document['target'])}; today {document['today']['nodes']}"
    )
    click.echo(
        f"95 % interval {answer['low']} to {answer['high']}; {answer['nodes_95']} nodes are enough with 95 % confidence"
    )
    if answer["longer_for_narrow"]:
        click.echo(f"a trace {answer['longer_for_narrow']:.1f} times as long would bring it to a tenth of the answer")
    word = {True: "supported", False: "UNSUPPORTED", None: "unchecked"}[replay["supported"]]
    click.echo(f"{word}: {replay['why']}")
    rows = [
        (p["nodes"], "twin", p["jobs"], *[_time(f["twin_s"]) for f in p["figures"]], "met" if p["met"] else "missed")
        for p in document["judge"]["points"]
    ]
    click.echo()
    emit_rows(("nodes", "by", "jobs", *document["target"], ""), rows)
    if replay["classes"]:
        click.echo()
        emit_rows(
            ("waits today", "jobs", "replayed mean", "recorded mean", "replayed p95", "recorded p95"),
            [(r["class"], r["jobs"], *(_time(r[f"{who}_{key}"]) for key in ("mean_s", "p95_s") for who in
              ("replayed", "recorded"))) for r in replay["classes"]],
        )  # fmt: skip
    click.echo()
    emit_rows(("shape", "today", "fewest, others as today"), [
        (r["shape"], r["today"], "none will do" if r["fewest"] is None else r["fewest"]) for r in document["by_shape"]
    ])  # fmt: skip
    if document["breaks_first"]:
        first = document["breaks_first"]
        click.echo(f"\nbreaks first: {first['class']}, {_time(first['value_s'])} at {first['nodes']} nodes")
    for note in document["trace"]["notes"]:
        say(f"note: {note}")


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "for ever"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
