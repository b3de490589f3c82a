"""A capacity plan: replay check, search, judgement by the twin, interval, curve, what breaks first, what if wrong.

The quick model (queue_kernel.py) searches, the twin judges the answer and the count below it; where it disagrees the
search goes on in the twin. The interval comes from traces like this one: its days or weeks drawn anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from slurmtwin.campaign.planning.guide import Guide
from slurmtwin.campaign.planning.interval import CONFIDENCE, crossing, interval
from slurmtwin.campaign.planning.judge import affordable
from slurmtwin.campaign.planning.judgement import Judgement
from slurmtwin.campaign.planning.plan_work import Bench, Work
from slurmtwin.campaign.planning.replay_check import replay_check
from slurmtwin.campaign.planning.search import LARGEST, by_sweep, fewest, remembered
from slurmtwin.campaign.planning.shapes import Counts
from slurmtwin.campaign.planning.target import classes_of, wait_table
from slurmtwin.campaign.planning.trace import PlanTrace, demand
from slurmtwin.contract.errors import InputError

FURTHEST: Final = 100
"""Whoever needs more than so many times today's nodes does not wait for nodes."""
CURVE: Final = (0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5)
"""Points of the curve, as parts of the answer; today's count is one more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """How a plan is made."""

    resamples: int = 30
    judge_s: float = 45.0
    """Processor seconds, as estimated, that a replay in the twin may take; of a longer one the leading part is run."""
    workers: int = 0
    largest: int = LARGEST
    """No more than so many, nor than FURTHEST times today's."""
    sweep: bool = False
    """Try every count in the quick model instead of bisecting."""


def make_plan(
    trace: PlanTrace, guide: Guide, options: PlanOptions | None = None, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """The plan as a plain document (JSON-ready). Raises InputError when no count up to `largest` will do."""
    options = options or PlanOptions()
    cluster = guide.cluster
    say(f"{len(trace.columns)} jobs over {trace.span_s / 86_400:.1f} days; searching")
    today = sum(cluster.today)
    found = _search(trace, guide, options, today)
    today_guide = guide.waits(trace.columns, cluster.today)
    leading = affordable(trace, today_guide, options.judge_s)
    say(f"the quick model says {found} nodes; the twin judges")
    with Bench(trace, guide, options.workers) as bench:
        judgement = Judgement(trace, guide, bench, options.judge_s, say)
        works = _works(guide, options, found, leading, judgement)
        answers = bench.all([work for _, work in works], say)
        results = {name: answer for (name, _), answer in zip(works, answers, strict=True)}
        verdict = _judged(judgement, found, results)
    answer = verdict["nodes"]
    document: dict[str, Any] = {
        "target": [target.text for target in guide.targets],
        "answer": answer_of(guide, trace, answer, found, [results[f"sample {k}"] for k in range(options.resamples)]),
        "today": {"nodes": today, "counts": list(cluster.today)},
        "shapes": [shape.name for shape in cluster.shapes],
        "judge": verdict,
        "replay": _replay(trace, guide, today_guide, results["today"], leading),
        "curve": _curve(trace, guide, today_guide, results),
        "by_shape": [results[f"shape {i}"] for i in range(len(cluster.shapes))],
        "what_if": [
            {"assumption": name.removeprefix("if "), **results[name]} for name, _ in works if name[:3] == "if "
        ],
        "power_saving": results["power"],
        "demand": demand(trace),
        "trace": {**trace.account, "notes": [*trace.account.get("notes", []), *trace.notes, *cluster.notes]},
        "outages": [rate.text for rate in guide.rates],
        "seed": guide.seed,
    }
    document["breaks_first"] = _breaks_first(guide, document["curve"], answer)
    return document


def _search(trace: PlanTrace, guide: Guide, options: PlanOptions, today: int) -> int:
    meets = remembered(lambda n: guide.meets(trace.columns, trace.counted, guide.cluster.counts(n)))
    largest = min(options.largest, FURTHEST * today)
    found = fewest(meets, today, 1, largest)
    if found is None:
        raise InputError(f"no number of nodes up to {largest} meets {guide.targets[0].text} on this trace")
    if options.sweep:
        found = by_sweep(meets, 1, max(2 * found, today)) or found
    return found


def _works(
    guide: Guide, options: PlanOptions, found: int, leading: int, judgement: Judgement
) -> list[tuple[str, Work]]:
    """Everything that can be computed at once, the longest first."""
    cluster = guide.cluster
    works = [("today", Work("twin", cluster.today, leading=leading))]
    for count in (found, found - 1):
        if count >= 1:
            works.append((f"twin {count}", Work("twin", cluster.counts(count), leading=judgement.leading(count))))
    counts = sorted({max(1, round(part * found)) for part in CURVE} | {found - 1 or 1})
    works += [(f"curve {n}", Work("waits", cluster.counts(n))) for n in counts if n != sum(cluster.today)]
    works += [(f"shape {i}", Work("shape", cluster.today, number=i)) for i in range(len(cluster.shapes))]
    works.append(("power", Work("power", cluster.counts(found))))
    works += [(f"sample {k}", Work("sample", (found,), number=k)) for k in range(options.resamples)]
    works += [
        (f"if {text}", Work("what-if", cluster.counts(found), change=change)) for text, change in _assumptions(guide)
    ]
    return works


USUAL_OUTAGES: Final = (
    ("each node fails every 90 days, back after 4 hours", "+fail mtbf 90d repair 4h"),
    ("each node is drained every 30 days for 8 hours", "+drain mtbf 30d repair 8h"),
    ("slurmctld is away for 5 minutes every 30 days (a backup takes over)", "+controller mtbf 30d repair 5m"),
    ("slurmctld is away for 4 hours every 30 days (somebody has to come)", "+controller mtbf 30d repair 4h"),
)
"""What a cluster without any is asked about: in words, and as a change."""


def _assumptions(guide: Guide) -> list[tuple[str, str]]:
    found = [("users ask for twice the time", "limit*2"), ("users ask for half the time", "limit/2"),
             ("jobs run twice as long", "run*2"), ("jobs run half as long", "run/2")]  # fmt: skip
    if guide.rates:
        found += [("outages come twice as often", "outages*2"), ("outages come half as often", "outages/2"),
                  ("nothing ever goes away", "outages*0")]  # fmt: skip
    known = {rate.what for rate in guide.rates}
    return found + [(text, change) for text, change in USUAL_OUTAGES if change[1:].split()[0] not in known]


def _judged(judgement: Judgement, found: int, results: dict[str, Any]) -> dict[str, Any]:
    """The fewest by the twin, searched from the quick model's answer."""
    for count in (found, found - 1):
        if f"twin {count}" in results:
            judgement.add(count, results[f"twin {count}"])
    answer = judgement.settle(found)
    return {
        "nodes": answer or found,
        "settled": answer is not None,
        "points": [judgement.points[n] for n in sorted(judgement.points)],
        "guide_nodes": found,
    }


def answer_of(
    guide: Guide, trace: PlanTrace, nodes: int, found: int, samples: list[float | None], confidence: float = CONFIDENCE
) -> dict[str, Any]:
    """The count with its 95 % interval, and the count that is enough with 95 % confidence."""
    crossed = crossing(lambda count: guide.used(trace.columns, trace.counted, count), found)
    bounds = interval(nodes, found, crossed, samples, trace.blocks, confidence)
    counts = guide.cluster.counts
    return {"nodes": nodes, "counts": list(counts(nodes)), "counts_95": list(counts(bounds["nodes_95"])), **bounds}


def _replay(trace: PlanTrace, guide: Guide, quick: Any, twin: Any, leading: int) -> dict[str, Any]:
    """The replay on today's nodes against the record: by the twin as far as it went, else by the quick model."""
    counted = trace.counted == 1
    names = classes_of(trace.columns)
    whole = leading >= len(trace.columns)
    waits = twin if whole else quick
    found = replay_check(waits[counted], trace.recorded_s[counted], names[counted], guide.targets)
    part = trace.first(leading)
    both = np.isfinite(twin) & np.isfinite(guide.waits(part.columns, guide.cluster.today))
    start = guide.waits(part.columns, guide.cluster.today)[both]
    found["by"] = "twin" if whole else "quick model"
    found["twin_jobs"] = len(twin)
    found["twin_mean_s"] = float(twin[both].mean()) if both.any() else None
    found["guide_mean_s"] = float(start.mean()) if both.any() else None
    return found


def _curve(trace: PlanTrace, guide: Guide, today: Any, results: dict[str, Any]) -> list[dict[str, Any]]:
    """Waits by class against the number of nodes, in today's mix, by the quick model."""
    counted = trace.counted == 1
    names = classes_of(trace.columns)[counted]
    points: list[tuple[int, Counts, Any]] = [(sum(guide.cluster.today), guide.cluster.today, today)]
    for name, waits in results.items():
        if name.startswith("curve "):
            count = int(name.removeprefix("curve "))
            points.append((count, guide.cluster.counts(count), waits))
    return [
        {"nodes": count, "counts": list(counts), "classes": wait_table(waits[counted], names),
         "met": all(t.met(waits[counted], names) for t in guide.targets)}
        for count, counts, waits in sorted(points, key=lambda point: point[0])
    ]  # fmt: skip


def _breaks_first(guide: Guide, curve: list[dict[str, Any]], answer: int) -> dict[str, Any] | None:
    """As nodes go from the answer down: the class whose figure passes the first bound first."""
    target = guide.targets[0]
    key = (
        "mean_s"
        if target.quantile is None
        else {0.5: "median_s", 0.95: "p95_s", 0.99: "p99_s"}.get(target.quantile, "p95_s")
    )
    for point in sorted((p for p in curve if p["nodes"] <= answer), key=lambda p: -p["nodes"]):
        over = [row for row in point["classes"] if row["class"] != "all" and _over(row[key], target.bound_s)]
        if over:
            worst = max(over, key=lambda row: math.inf if row[key] is None else row[key])
            return {
                "class": worst["class"],
                "nodes": point["nodes"],
                "figure": key,
                "value_s": worst[key],
                "jobs": worst["jobs"],
            }
    return None


def _over(value: float | None, bound: float) -> bool:
    return value is None or value >= bound
