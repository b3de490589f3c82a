"""A study as one offline page: which design, by how much, how sure, and when the answer turns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from slurmtwin_reports.metrics import number
from slurmtwin_reports.pages import Block, Figure, Page, Table, listed, span, write_page
from slurmtwin_reports.study_assumptions import conclusions
from slurmtwin_reports.study_statistics import (
    BreakEven,
    Difference,
    Estimate,
    Point,
    StudyTable,
    break_evens,
    differences,
    more_is_better,
)
from slurmtwin_reports.svg import Chart, Linear

GRADES: Final = {
    "A": "run against the real operator", "B": "mechanisms recorded on a cluster", "C": "read only",
}  # fmt: skip
NOWHERE: Final = "nowhere"
ROWS: Final = 60
"""Lines of a figure; a page says where there are more."""
NAME: Final = 38
"""Letters of a line's name."""


WORDS: Final = {
    "scale_in_s": "time that a scale-in takes", "pod_hours": "hours of worker pods",
    "mean_delay_s": "mean wait from the first try", "never_submitted": "jobs never submitted",
    "left_waiting": "jobs whose user left", "service_missed_hours": "machine-hours that services waited for",
}  # fmt: skip
"""Metrics whose names do not speak for themselves."""


class StudyFindings:
    """Everything a page or a table of a study shows, computed once from its results."""

    def __init__(
        self, study: dict[str, Any], results: Sequence[dict[str, Any]], sensitivity: Sequence[dict[str, Any]] = ()
    ) -> None:
        self.study = study
        self.sensitivity = list(sensitivity)
        """Rows of slurmtwin_reports.sensitivity, where that analysis was made."""
        self.reference: str = study.get("baseline") or next(iter(study["designs"]))
        self.metrics: list[str] = study["metrics"]
        self.table = StudyTable(results)
        self.differences = differences(self.table, self.reference, self.metrics)
        self.break_evens = break_evens(self.table, self.reference, self.metrics)
        self.conclusions = conclusions(self.differences)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Name -> rows, for CSV and Parquet: means, differences, break_even, runs."""
        means = []
        for point in self.table.points:
            for design in self.table.designs:
                for metric in self.metrics:
                    found = self.table.estimate(point, design, metric)
                    if found is not None:
                        means.append({**dict(point), "design": design, "metric": metric, "mean": found.mean,
                                      "half_width": found.half, "seeds": found.count})  # fmt: skip
        paired = [
            {**dict(d.point), "design": d.design, "reference": self.reference, "metric": d.metric,
             "reference_mean": d.reference.mean, "mean": d.other.mean, "difference": d.difference.mean,
             "half_width": d.difference.half, "seeds": d.difference.count, "p_value": d.p_value, "stands": d.stands,
             "variance_gain": d.variance_gain}
            for d in self.differences
        ]  # fmt: skip
        turns = [
            {**dict(b.others), "factor": b.factor, "design": b.design, "metric": b.metric, "value": b.value,
             "low": b.low, "high": b.high, "better_below": b.better_below, "equal_to": b.equal_to,
             "better_beyond": b.better_beyond}
            for b in self.break_evens
        ]  # fmt: skip
        held = [
            {"assumption": h.assumption, "design": h.design, "reference": self.reference, "metric": h.metric,
             "guessed_difference": h.guessed.difference.mean, "difference": h.found.difference.mean,
             "half_width": h.found.difference.half, "verdict": h.verdict}
            for h in self.conclusions
        ]  # fmt: skip
        found_tables = {
            "means": means, "differences": paired, "break_even": turns, "assumptions": held,
            "sensitivity": self.sensitivity,
        }  # fmt: skip
        return {name: rows for name, rows in found_tables.items() if rows}


def write_study_report(path: Path, findings: StudyFindings, command: str = "") -> int:
    """Write the page; returns its size in bytes."""
    return write_page(path, study_page(findings, command))


def study_page(findings: StudyFindings, command: str = "") -> Page:
    """The page of a study."""
    table, study = findings.table, findings.study
    first = [d for d in findings.differences if d.metric == findings.metrics[0]]
    standing = [d for d in first if d.stands]
    answer, tone, chip = _answer(findings, first, standing)
    lede = f"{study['question']} {_reading(findings, first, standing)}"
    gains = [d.variance_gain for d in findings.differences if d.variance_gain is not None]
    tiles = [
        (str(len(table.done)), "runs"), (str(len(table.points)), "points"),
        (str(len(table.seeds(table.points[0], table.designs)) if table.points else 0), "seeds each"),
        (f"{sum(d.stands for d in findings.differences)} of {len(findings.differences)}", "differences stand"),
    ]  # fmt: skip
    if gains:
        tiles.append(
            (f"{number(float(f'{sorted(gains)[len(gains) // 2]:.2g}'))} ×", "variance saved by equal jobs, median")
        )
    if table.failed:
        tiles.append((str(table.failed), "runs failed"))
    blocks = [
        _figures(findings), _break_even(findings), _assumptions(findings), _sensitivity(findings),
        _differences(findings), _means(findings), _rests_on(findings),
    ]  # fmt: skip
    if command:
        blocks.append(Block("How to make it again", lines=[command]))
    return Page(f"Study: {study['name']}", answer, tone, chip, lede, tiles, [b for b in blocks if b is not None])


def _answer(
    findings: StudyFindings, first: Sequence[Difference], standing: Sequence[Difference]
) -> tuple[str, str, str]:
    metric = metric_words(findings.metrics[0])
    if not first:
        return f"One design: {metric} by point", "hold", "nothing to compare"
    if not standing:
        return f"No difference in {metric} stands", "hold", "no answer"
    better, worse, turning, points = _sides(first)
    said = [
        f"{listed(names)} {'are' if len(names) > 1 else 'is'} {word} than {findings.reference} "
        f"{_share(sum(len(sides[name]) for name in names), points * len(names), len(names))}"
        for names, word, sides in ((list(better), "better", better), (list(worse), "worse", worse)) if names
    ]  # fmt: skip
    said += [
        f"{name} is better than {findings.reference} at {ups} of {points} points, worse at {downs}"
        for name, (ups, downs) in turning.items()
    ]
    text = f"{'; '.join(said)}, in {metric}{_prices(findings, better)}"
    if turning:
        return f"It depends: {text}", "hold", "turns"
    return text, "good" if len(standing) == len(first) else "hold", "stands"


def _prices(findings: StudyFindings, better: Iterable[str]) -> str:
    """What designs that are better in the first metric pay in others: where they are worse, and nowhere better."""
    paid = {name: _elsewhere(findings, name, False) for name in better}
    return "".join(f"; {name} pays in {listed(metrics)}" for name, metrics in paid.items() if metrics)


def _elsewhere(findings: StudyFindings, design: str, better: bool) -> list[str]:
    """The other metrics in which every difference of a design that stands is for the better, or for the worse."""
    out = []
    for metric in findings.metrics[1:]:
        stands = [d for d in findings.differences if (d.design, d.metric) == (design, metric) and d.stands]
        if stands and all(_is_better(d) == better for d in stands):
            out.append(metric_words(metric))
    return out


def _sides(
    first: Sequence[Difference],
) -> tuple[dict[str, list[Difference]], dict[str, list[Difference]], dict[str, tuple[int, int]], int]:
    """Designs that are better wherever a difference stands, those worse, those that turn (better, worse); points."""
    better: dict[str, list[Difference]] = {}
    worse: dict[str, list[Difference]] = {}
    turning: dict[str, tuple[int, int]] = {}
    for name in dict.fromkeys(d.design for d in first):
        stands = [d for d in first if d.design == name and d.stands]
        ups = sum(map(_is_better, stands))
        if 0 < ups < len(stands):
            turning[name] = ups, len(stands) - ups
        elif stands:
            (better if ups else worse)[name] = stands
    return better, worse, turning, len({d.point for d in first})


def _share(count: int, whole: int, designs: int) -> str:
    if count == whole:
        return "at every point"
    return f"at {count} of {whole} points" if designs == 1 else f"in {count} of {whole} comparisons"


def _is_better(found: Difference) -> bool:
    return (found.difference.mean > 0) == more_is_better(found.metric)


def _reading(findings: StudyFindings, first: Sequence[Difference], standing: Sequence[Difference]) -> str:
    if not standing:
        return f"{len(first)} comparisons were made; none is beyond what chance gives." if first else ""
    largest = max(standing, key=lambda d: abs(d.difference.mean))
    shown = _value(largest.metric, largest.other.mean), _value(largest.metric, largest.reference.mean)
    text = (
        f"The largest difference: {_place(largest.point)}{largest.design} has {shown[0]}, {findings.reference} "
        f"{shown[1]}; the difference is {_value(largest.metric, largest.difference.mean)} ± "
        f"{_value(largest.metric, largest.difference.half or 0.0)}."
    )
    gained = {name: _elsewhere(findings, name, True) for name in _sides(first)[1]}
    gains = "".join(f" {name} gains in {listed(metrics)}." for name, metrics in gained.items() if metrics)
    text = f"{_sizes(standing)}{gains} {text}"
    if findings.study.get("crossing") == "one-at-a-time" and len(findings.table.points) > 1:
        text = f"{_at_base(findings, first)} {text}"
    every = [b for b in findings.break_evens if b.metric == findings.metrics[0] and b.value is not None]
    turns = [b for b in every if b.low is not None]  # without an interval it may as well be noise around no difference
    for one in turns[:3]:
        text += f" {one.better_below} is better than {_other(findings, one)} below {one.factor} = {_turn(one)}."
    starts = [b for b in findings.break_evens if b.metric == findings.metrics[0] and b.equal_to is not None]
    if starts and not every:
        one = starts[0]
        text += f" Up to {one.factor} = {one.equal_to:g} they are equal, beyond it {one.better_beyond} is better."
    return text


def _sizes(standing: Sequence[Difference]) -> str:
    """How large the differences of each design are where they stand: what stands may be small all the same."""
    said = []
    for name in dict.fromkeys(d.design for d in standing):
        sizes = sorted((d.difference.mean for d in standing if d.design == name), key=abs)
        ends = list(dict.fromkeys(_value(standing[0].metric, size) for size in (sizes[0], sizes[-1])))
        said.append(f"{name} {' to '.join(ends)}")
    return f"Where they stand, differences are: {', '.join(said)}."


def _at_base(findings: StudyFindings, first: Sequence[Difference]) -> str:
    """The differences where every factor has its first level."""
    said = [
        f"{d.design} {_value(d.metric, d.difference.mean)} ± {_value(d.metric, d.difference.half or 0.0)}"
        f"{'' if d.stands else ' (within chance)'}"
        for d in first if d.point == findings.table.points[0]
    ]  # fmt: skip
    return f"With every factor at its first level, against {findings.reference}: {listed(said)}."


def _other(findings: StudyFindings, found: BreakEven) -> str:
    return findings.reference if found.better_below == found.design else found.design


def _turn(found: BreakEven) -> str:
    if found.equal_to is not None:
        return f"equal to {found.equal_to:g}"
    if found.value is None:
        return NOWHERE
    if found.low is None or found.high is None:
        return f"{found.value:.3g} (uncertain)"
    return f"{found.value:.3g} ({found.low:.3g} to {found.high:.3g})"


def _place(point: Point) -> str:
    return f"at {listed(f'{name} {level}' for name, level in point)}, " if point else ""


def metric_words(metric: str) -> str:
    """`p95_wait_s:1 CPU` -> `95th percentile of wait of 1 CPU`."""
    name, _, group = metric.partition(":")
    text = WORDS.get(name) or name.removesuffix("_s").replace("_", " ").replace("p95", "95th percentile of")
    return f"{text} of {group}" if group else text


def _value(metric: str, value: float) -> str:
    if not metric.split(":")[0].endswith("_s"):
        return number(value)
    return f"-{span(-value)}" if value < 0 else span(value)


def _shown(metric: str, found: Estimate) -> str:
    half = "" if found.half is None else f" ± {_value(metric, found.half)}"
    return f"{_value(metric, found.mean)}{half}"


def _figures(findings: StudyFindings) -> Block | None:
    """Differences with their intervals, one figure per metric: a row for each point and design."""
    figures = []
    for metric in findings.metrics:
        every = [d for d in findings.differences if d.metric == metric]
        rows = every[:ROWS]
        if not rows:
            continue
        ends = [d.difference.mean + s * (d.difference.half or 0.0) for d in rows for s in (-1, 1)]
        low, high = min(0.0, *ends), max(0.0, *ends)
        if low == high:
            continue
        margin = 0.05 * (high - low)
        names = [_row_name(d, findings.table.points) for d in rows]
        axis = f"difference to {findings.reference}{', s' if metric.split(':')[0].endswith('_s') else ''}"
        chart = Chart(
            Linear(low - margin, high + margin, axis), None,
            f"Paired differences in {metric_words(metric)}", height=max(120, 60 + 16 * len(rows)),
            left=12 + max(40, *(6 * len(name) for name in names)),
        )  # fmt: skip
        chart.rule(0.0, "no difference")
        for place, found in enumerate(rows):
            half = found.difference.half or 0.0
            css = "c1" if found.stands else "c5"
            chart.whisker(found.difference.mean - half, found.difference.mean + half, place, len(rows), css)
            chart.name(names[place], place, len(rows))
        note = f"the first {len(rows)} of {len(every)} rows" if len(rows) < len(every) else ""
        figures.append(Figure(metric_words(metric).capitalize(), note, chart.text()))
    if not figures:
        return None
    hint = (
        "Each line is one design at one point: the mean paired difference's 95 % interval. Levels are named where they "
        "are not the first ones."
    )
    return Block("Differences", hint, figures, [("c1", "stands"), ("c5", "within chance")])


def _row_name(found: Difference, points: Sequence[Point]) -> str:
    """The design, and the levels that are not the first point's; the first point has all of its own."""
    own = [f"{name} {level}" for place, (name, level) in enumerate(found.point) if level != points[0][place][1]]
    return f"{found.design}, {' '.join(own)}"[:NAME] if own else found.design


def _differences(findings: StudyFindings) -> Block | None:
    if not findings.differences:
        return None
    rows, strong = [], set()
    for place, d in enumerate(findings.differences):
        levels = [level for _, level in d.point]
        rows.append([
            d.design, *levels, metric_words(d.metric), _value(d.metric, d.reference.mean),
            _value(d.metric, d.other.mean), _shown(d.metric, d.difference), f"{d.p_value:.2g}",
            "stands" if d.stands else "-",
        ])  # fmt: skip
        if d.stands:
            strong.add(place)
    factors = [name for name, _ in findings.table.points[0]]
    header = ("Design", *factors, "Metric", f"{findings.reference}", "Design's", "Difference", "p", "")
    hint = (
        "Paired by seed: both designs met the same jobs. What stands does so after Benjamini and Hochberg: of all that "
        "stand, at most 5 % are chance."
    )
    return Block("Each comparison", hint, table=Table(header, rows, frozenset(strong)), file="differences")


def _break_even(findings: StudyFindings) -> Block | None:
    if not findings.break_evens:
        return None
    rows = []
    for b in sorted(
        findings.break_evens, key=lambda b: (b.value is None, b.equal_to is None)
    ):  # those that change first
        others = listed(f"{name} {level}" for name, level in b.others) if b.others else "-"
        below = b.better_below if b.value is not None else f"{b.better_beyond}, beyond" if b.better_beyond else "-"
        rows.append([b.design, metric_words(b.metric), b.factor, _turn(b), below, others])
    header = ("Design", "Metric", "Factor", "Changes at", "Better below", "At")
    hint = f"Against {findings.reference}, straight between levels; 95 % by drawing seeds anew."
    return Block(
        "Where the better design changes", hint,
        table=Table(header, rows), file="break_even",
    )  # fmt: skip


def _assumptions(findings: StudyFindings) -> Block | None:
    """Each conclusion under each assumption; those that do not hold first."""
    held = sorted(findings.conclusions, key=lambda h: h.verdict == "holds")
    if not held:
        return None
    rows = [
        [h.assumption, h.design, metric_words(h.metric), _shown(h.metric, h.guessed.difference),
         _shown(h.metric, h.found.difference), h.verdict]
        for h in held
    ]  # fmt: skip
    broken = frozenset(place for place, h in enumerate(held) if h.verdict != "holds")
    hint = (
        f"{len(held) - len(broken)} of {len(held)} conclusions against {findings.reference} hold; fades: no longer "
        "beyond chance, turns: the other way, appears: there was none under the guess."
    )
    header = ("Assumption", "Design", "Metric", "As guessed", "Then", "")
    return Block("If what was guessed is wrong", hint, table=Table(header, rows, broken), file="assumptions")


def _sensitivity(findings: StudyFindings) -> Block | None:
    """What the first metric's difference hangs on; the table file has all metrics."""
    shown = [row for row in findings.sensitivity if row["metric"] == findings.metrics[0]]
    if not shown:
        return None
    metric = findings.metrics[0]
    rows = [
        [
            row["design"], row["parameter"], f"{row['mu']:+.2f}", f"{row['mu_star']:.2f} ± {row['mu_star_half']:.2f}",
            f"{row['sigma']:.2f}",
            *("-" if row[key] is None else f"{row[key]:.2f}" for key in ("sobol_first", "sobol_total")),
        ]
        for row in shown
    ]  # fmt: skip
    lines = []
    for design in dict.fromkeys(row["design"] for row in shown):
        one = next(row for row in shown if row["design"] == design)
        fit = max(0.0, one["surrogate_r2"])
        lines.append(
            f"{design}: in {one['same_sign']:.0%} of {one['samples']} samples the difference has the sign of its mean, "
            f"{one['mean']:+.2f} (from {one['low']:+.2f} to {one['high']:+.2f}). The surrogate behind Sobol's indices, "
            f"a {one['surrogate']}, explains {fit:.0%} of the variance of samples it has not seen"
            f"{'' if one['sobol_first'] is not None else ', so its indices are left out'}"
            f"{'' if one.get('chance') is None else _chance(one['chance'])}."
        )
    hint = (
        f"The difference to {findings.reference} in {metric_words(metric)} as a share of the mean of both, -2 to 2, "
        "all uncertain parameters varied together. Effect: what growing the parameter from its low to its high does, "
        "on average; size: the same without sign; bend: large where it acts through others. First and total: Sobol's "
        "shares of the surrogate's variance, alone and with all it acts through. "
        f"Seeds of a sample: {shown[0]['seeds']}."
    )
    header = ("Design", "Parameter", "Effect", "Size", "Bend", "First", "Total")
    return Block("What it hangs on", hint, table=Table(header, rows), file="sensitivity", lines=lines)


def _chance(share: float) -> str:
    return f"; {share:.0%} of that variance is chance between seeds, which nothing explains"


def _means(findings: StudyFindings) -> Block:
    rows = []
    for point in findings.table.points:
        for design in findings.table.designs:
            shown = [findings.table.estimate(point, design, metric) for metric in findings.metrics]
            cells = ["-" if s is None else _shown(m, s) for m, s in zip(findings.metrics, shown, strict=True)]
            rows.append([design, *(level for _, level in point), *cells])
    factors = [name for name, _ in findings.table.points[0]] if findings.table.points else []
    header = ("Design", *factors, *(metric_words(m) for m in findings.metrics))
    return Block("Means", "With 95 % intervals over seeds.", table=Table(header, rows), file="means")


def _rests_on(findings: StudyFindings) -> Block:
    study, table = findings.study, findings.table
    lines = []
    for design in table.designs:
        grade = study.get("grades", {}).get(design)
        if grade:
            meaning = GRADES.get(grade[:1], "ungraded")
            lines.append(f"{design}: grade {grade}{'' if grade.endswith(meaning) else f', {meaning}'}.")
    lines += study.get("caveats", [])
    if study.get("warm_up") == "mser-5":
        lines.append("Warm-up is cut by MSER-5 on waits, at the latest place that any design of a pair asks for.")
    if table.unsettled:
        lines.append(f"{table.unsettled} runs never settle within their first half: they are read whole.")
    if table.failed:
        lines.append(f"{table.failed} runs failed and are in no figure.")
    return Block("What the answer rests on", lines=lines)
