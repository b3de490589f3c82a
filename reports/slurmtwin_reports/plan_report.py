"""A capacity plan as one offline page: the answer and how far to trust it first, then what it rests on.

Text, figures and tables all come from the plan's document (`slurmtwin plan --json`), nothing is computed twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from slurmtwin_reports.pages import Block, Figure, Page, Table, listed, mix, span, write_page
from slurmtwin_reports.svg import Chart, Decades, Linear

LINES: Final = ("c1", "c2", "c3", "c4", "c5")
Document = dict[str, Any]


def write_plan_report(path: Path, document: Document) -> int:
    """Write the page; returns its size in bytes."""
    return write_page(path, plan_page(document))


def plan_page(document: Document) -> Page:
    """The page of a plan."""
    answer, replay = document["answer"], document["replay"]
    chips = {True: ("good", "supported"), False: ("bad", "unsupported"), None: ("hold", "unchecked")}
    tone, chip = chips[replay["supported"]]
    if tone == "good" and not document["judge"]["settled"]:
        tone, chip = "hold", "the twin did not settle it"
    target = listed(document["target"])
    low, high = answer["low"], answer["high"]
    lede = (
        f"{mix(answer['counts'], document['shapes'])}. Today there are {document['today']['nodes']}. "
        f"95 % interval over traces like this one: {low} to {high}; {answer['nodes_95']} nodes are enough with 95 % "
        f"confidence. {_trust(replay)}"
    )
    return Page(
        "Capacity plan", f"{answer['nodes']} nodes keep {target}", tone, chip, lede, _tiles(document), _blocks(document)
    )


def _trust(replay: Document) -> str:
    if replay["supported"]:
        return "Replayed on today's nodes, the trace waits as it did on record."
    if replay["supported"] is None:
        return "The trace has no recorded waits: nothing says that capacity alone made its jobs wait."
    return (
        "Do not act on this: replayed on today's nodes, the trace does not wait as it did on record "
        f"({replay['why'].removeprefix('capacity does not explain the recorded waits: ')}). Limits, quotas or closed "
        "nodes made jobs wait, and more nodes will not change that."
    )


def _tiles(document: Document) -> list[tuple[str, str]]:
    answer = document["answer"]
    tiles = [
        (str(answer["nodes"]), "nodes, the answer"), (f"{answer['low']}-{answer['high']}", "95 % interval"),
        (str(answer["nodes_95"]), "enough with 95 % confidence"), (str(document["today"]["nodes"]), "nodes today"),
    ]  # fmt: skip
    first = document["breaks_first"]
    if first:
        tiles.append((first["class"], "misses first when nodes go"))
    explained = document["replay"]["explained"]
    if explained is not None:
        tiles.append((f"{100 * max(0.0, explained):.0f} %", "of recorded waiting explained"))
    costs = document.get("costs", [])
    for key, word in (("per_year", "a year at the price given"), ("mwh_per_year", "MWh a year")):
        if costs and key in costs[1]:
            tiles.append((f"{costs[1][key]:,.0f}", word))
    return tiles


def _blocks(document: Document) -> list[Block]:
    blocks = [_curve(document), _judged(document), _replay(document), _shapes(document), _what_if(document)]
    blocks.append(_power_saving(document))
    if any("per_year" in row or "mwh_per_year" in row for row in document.get("costs", [])):
        blocks.append(_costs(document))
    return [*blocks, _rests_on(document), _again(document)]


def _curve(document: Document) -> Block:
    points = document["curve"]
    names = [row["class"] for row in points[-1]["classes"]]
    bound = _bound(document)
    xs = [p["nodes"] for p in points]
    figures = []
    for key, title in (("p95_s", "95th percentile of waits"), ("mean_s", "Mean wait")):
        values = [row[key] for p in points for row in p["classes"] if row[key] is not None]
        chart = Chart(Linear(min(xs), max(xs), "nodes, in today's mix"), Decades(max([bound, *values]) * 1.2), title)
        for name, css in zip(names, LINES, strict=False):
            line = [
                (float(p["nodes"]), float(row[key])) for p in points for row in p["classes"]
                if row["class"] == name and row[key] is not None
            ]  # fmt: skip
            chart.curve(line, css)
        chart.level(bound, "target")
        chart.rule(document["answer"]["nodes"], "answer")
        figures.append(Figure(title, "by class of job", chart.text()))
    header = ("Nodes", *(f"p95, {name}" for name in names), "Mean, all", "Targets")
    rows, strong = [], set()
    for place, point in enumerate(points):
        by_class = {row["class"]: row for row in point["classes"]}
        shown = [span(by_class[n]["p95_s"]) if n in by_class else "-" for n in names]
        word = "met" if point["met"] else "missed"
        rows.append([str(point["nodes"]), *shown, span(by_class["all"]["mean_s"]), word])
        if point["nodes"] in (document["answer"]["nodes"], document["today"]["nodes"]):
            strong.add(place)
    hint = "By the quick model, over the jobs behind the warm-up. Today's count and the answer stand out."
    return Block(
        "Waits against the number of nodes", hint, figures, list(zip(LINES, names, strict=False)),
        Table(header, rows, frozenset(strong)), file="curve",
    )  # fmt: skip


def _bound(document: Document) -> float:
    """The first target's bound in seconds."""
    from slurmtwin.contract.clock import SECOND, parse_duration

    return parse_duration(document["target"][0].rpartition("<")[2]) / SECOND


def _judged(document: Document) -> Block:
    rows = []
    for point in document["judge"]["points"]:
        for figure in point["figures"]:
            rows.append([
                str(point["nodes"]), figure["target"], span(figure["twin_s"]), span(figure["guide_s"]),
                str(point["jobs"]), "met" if point["met"] else "missed",
            ])  # fmt: skip
    hint = (
        f"A quick model of the queue searches (it says {document['judge']['guide_nodes']}), the full twin of slurmctld "
        "judges the answer and the count below it on the same jobs."
    )
    return Block(
        "What the twin says",
        hint,
        table=Table(("Nodes", "Target", "Twin", "Quick model", "Jobs", ""), rows),
        file="judged",
    )


def _replay(document: Document) -> Block:
    replay = document["replay"]
    rows = [
        [r["class"], str(r["jobs"]),
         *(span(r[f"{who}_{key}_s"]) for key in ("mean", "median", "p95") for who in ("replayed", "recorded"))]
        for r in replay["classes"]
    ]  # fmt: skip
    header = (
        "Class",
        "Jobs",
        "Mean, replay",
        "Mean, record",
        "Median, replay",
        "Median, record",
        "p95, replay",
        "p95, record",
    )
    lines = []
    if replay["by"] != "twin" and replay["twin_mean_s"] is not None:
        lines.append(
            f"Replayed by the quick model. The twin replayed the first {replay['twin_jobs']} jobs beside it: mean wait "
            f"{span(replay['twin_mean_s'])} there, {span(replay['guide_mean_s'])} in the quick model."
        )
    return Block(
        "Today's nodes: the replay against the record", replay["why"][:1].upper() + replay["why"][1:] + ".",
        table=Table(header, rows) if rows else None, lines=lines, file="replay" if rows else "",
    )  # fmt: skip


def _shapes(document: Document) -> Block:
    rows = [
        [r["shape"], str(r["today"]), str(r["fewest"]) if r["fewest"] is not None else f"not even {r['tried_up_to']}"]
        for r in document["by_shape"]
    ]
    return Block(
        "One shape alone", "The fewest of each shape when the others stay as they are today, by the quick model.",
        table=Table(("Shape", "Today", "Fewest that will do"), rows), file="shapes",
    )  # fmt: skip


def _what_if(document: Document) -> Block:
    nodes = document["judge"]["guide_nodes"]
    rows = [
        [r["assumption"][:1].upper() + r["assumption"][1:], str(r["nodes"]) if r["nodes"] is not None else "none",
         *(span(found) for found in r["figures_s"])]
        for r in document["what_if"]
    ]  # fmt: skip
    hint = (
        f"The quick model's answer is {nodes}; this is what it becomes if one thing is wrong by 2 times or nodes and "
        f"daemons go away, and what {nodes} nodes would give then."
    )
    figures = [f"{target.partition(' <')[0]}, {nodes} nodes" for target in document["target"]]
    header = ("If", "Nodes needed", *(text[:1].upper() + text[1:] for text in figures))
    return Block("If an assumption is wrong", hint, table=Table(header, rows), file="what_if")


def _power_saving(document: Document) -> Block:
    found = document["power_saving"]
    hint = (
        f"If a node goes off after {span(found['suspend_s'])} without a job and boots in {span(found['boot_s'])} "
        f"(Slurm's power saving or an autoscaler), the quick model keeps {100 * found['share_on']:.0f} % of the "
        f"node-hours on; {100 * found['jobs_that_boot']:.1f} % of the jobs wait for a boot."
    )
    rows = [[f"{found['node_hours']:,.0f}", f"{found['node_hours_on']:,.0f}", f"{100 * found['jobs_that_boot']:.1f} %"]]
    header = ("Node-hours, always on", "Node-hours, idle nodes off", "Jobs that wait for a boot")
    return Block("Idle nodes off", hint, table=Table(header, rows), file="power_saving")


def _costs(document: Document) -> Block:
    rows = []
    for row in document["costs"]:
        rows.append([
            row["what"], str(row["nodes"]), f"{100 * row['utilisation']:.0f} %",
            f"{row['per_year']:,.0f}" if "per_year" in row else "-",
            f"{row['mwh_per_year']:,.0f}" if "mwh_per_year" in row else "-",
        ])  # fmt: skip
    return Block(
        "Cost and energy", "At the prices and watts given, every node on all year, busy as the trace asks.",
        table=Table(("", "Nodes", "Busy", "Price a year", "MWh a year"), rows), file="costs",
    )  # fmt: skip


def _rests_on(document: Document) -> Block:
    trace, demand = document["trace"], document["demand"]
    lines = [
        f"{demand['jobs']:.0f} jobs over {demand['days']:.1f} days; {demand['mean_cpus']:.0f} CPUs in use on average.",
        (
            "Jobs run as long as on record and are submitted when they were, whatever they wait: users who give up, "
            "or submit more when waits are short, are not in it."
        ),
        "The interval comes from the trace's own days or weeks drawn anew: it covers luck, not a change of users.",
        *_longer(document["answer"]),
        *document["outages"],
        *_design(document),
        *(f"Dropped: {tally['count']} rows, {reason}." for reason, tally in sorted(trace.get("dropped", {}).items())),
        *(f"Altered: {tally['count']} jobs, {reason}." for reason, tally in sorted(trace.get("altered", {}).items())),
        *(f"{note[:1].upper()}{note[1:]}." for note in trace["notes"]),
    ]
    return Block("What the answer rests on", lines=lines)


def _longer(answer: Document) -> list[str]:
    times = answer.get("longer_for_narrow")
    if not times:
        return []
    return [f"A trace {times:.1f} times as long would bring the interval to a tenth of the answer."]


def _design(document: Document) -> list[str]:
    design = document.get("design")
    if not design:
        return []
    conf = ", ".join(f"{name}={value}" for name, value in design["slurm_conf"].items()) or "nothing of its own"
    text = (
        f"Design {design['name']} (grade {design['grade']}): its slurm.conf ({conf}) is in force below your own; "
        "how soon its operator brings a node back is in --failures and --drains, not in the model."
    )
    return [text]


def _again(document: Document) -> Block:
    lines = [
        document.get("command", "slurmtwin plan"),
        f"Slurm {document.get('slurm_version', '')}, seed {document['seed']}.",
    ]
    return Block("How to make it again", lines=lines)
