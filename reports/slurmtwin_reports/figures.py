"""The figures of a report: waits, start error, utilisation and queue over time, who ran where.

Twin and real share axes in every figure, so that a difference is a distance and not a change of scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from slurmtwin.contract.cluster_facts import ClusterFacts
from slurmtwin_reports.checks.capacity import node_shares
from slurmtwin_reports.difference import Difference
from slurmtwin_reports.history import nodes_of
from slurmtwin_reports.job_table import Attempt, JobTable
from slurmtwin_reports.metrics import Step, busy_steps, mean_level, queue_steps
from slurmtwin_reports.svg import Chart, Clock, Decades, Linear, Point

MOST_JOBS: Final = 2_000
"""Above so many starts the Gantt shows how full groups of nodes were instead of single jobs."""
MOST_POINTS: Final = 220
SHADES: Final = 6
Block = tuple[float, float, int, int]
"""From, to (seconds), first row, number of rows."""
ROWS: Final = 40
MOST_LANES: Final = 640


@dataclass(frozen=True, slots=True)
class Track:
    """One run in a figure: its jobs and its role, `twin`, `real` or `other` (a further repetition)."""

    table: JobTable
    role: str


def span_s(tracks: Sequence[Track]) -> tuple[float, float]:
    """First submit to last end over all runs, seconds."""
    begins, ends = [0.0], [1.0]
    for track in tracks:
        for record in track.table.records.values():
            if record.submit_ns is not None:
                begins.append(record.submit_ns / 1e9)
            ends += [a.end_ns / 1e9 for a in record.attempts if a.end_ns is not None]
        if not any(r.end_ns for r in track.table.records.values()):
            ends.append(track.table.end_ns / 1e9)
    return min(begins), max(ends)


def waits(tracks: Sequence[Track]) -> str:
    """Share of jobs that waited at most so long (ECDF), one line per run."""
    all_waits = [[r.wait_ns / 1e9 for r in t.table.records.values() if r.wait_ns is not None] for t in tracks]
    high = max((max(w) for w in all_waits if w), default=60.0)
    chart = Chart(Decades(max(high, 60.0), 1.0, "wait from submit to first start"), Linear(0, 1, percent=True),
                  "Share of jobs by longest wait")  # fmt: skip
    for track, values in zip(tracks, all_waits, strict=True):
        chart.steps(ecdf(values, high), f"line {track.role}")
    return chart.text()


def start_errors(twin: Difference, real: Difference, bf_interval_s: float) -> str:
    """Share of starts whose error is at most so large: twin against real, and real against real beside it."""
    mine = [e / 1e9 for e in twin.errors_ns]
    among = [e / 1e9 for e in real.errors_ns]
    high = max([*mine, *among, bf_interval_s * 1.5])
    chart = Chart(Decades(high, 0.1, "start error"), Linear(0, 1, percent=True), "Share of starts by largest error")
    chart.rule(1, "1 s")
    chart.rule(bf_interval_s, f"{bf_interval_s:g} s")
    chart.steps(ecdf(among, high), "line real dashed")
    chart.steps(ecdf(mine, high), "line twin")
    return chart.text()


def utilisation(tracks: Sequence[Track], capacity_cpus: int) -> str:
    """Share of the cluster's CPUs in use over time."""
    begin, end = span_s(tracks)
    chart = Chart(Clock(begin, end), Linear(0, 1, percent=True), "Utilisation over time")
    for track in tracks:
        steps = thin(busy_steps(track.table), begin, end)
        chart.steps([(t, level / capacity_cpus) for t, level in steps], f"line {track.role}")
    return chart.text()


def queue(tracks: Sequence[Track]) -> str:
    """Jobs waiting over time."""
    begin, end = span_s(tracks)
    lines = [thin(queue_steps(t.table), begin, end) for t in tracks]
    high = max((level for line in lines for _, level in line), default=1.0)
    chart = Chart(Clock(begin, end), Linear(0, max(high * 1.05, 1)), "Jobs waiting over time")
    for track, line in zip(tracks, lines, strict=True):
        chart.steps(line, f"line {track.role}")
    return chart.text()


def gantt(table: JobTable, facts: ClusterFacts, span: tuple[float, float], describe: str) -> str:
    """Who ran where: nodes from top to bottom, one block per start, coloured by what started or ended it.

    On clusters of up to MOST_LANES CPUs a block is as tall as the CPUs it holds, else as its nodes.
    """
    names = list(facts.node_cpus)
    index = {name: i for i, name in enumerate(names)}
    count = sum(len(r.attempts) for r in table.records.values())
    height = 260 if len(names) > 24 else 120 + 6 * len(names)
    chart = Chart(Clock(*span), None, describe, height, left=8)
    if count > MOST_JOBS:
        _shades(chart, table, facts, span)
        return chart.text()
    cpus = sum(facts.node_cpus.values())
    lanes = _Lanes(facts) if cpus <= MOST_LANES else None
    groups: dict[str, list[Block]] = {"block main": [], "block backfill": [], "block failed": []}
    for attempt in sorted((a for _, _, a in table.attempts()), key=lambda a: a.start_ns):
        end = attempt.end_ns if attempt.end_ns is not None else table.end_ns
        css = "block main"
        if attempt.state not in ("COMPLETED", "TIMEOUT", ""):
            css = "block failed"
        elif attempt.start_by == "backfill":
            css = "block backfill"
        if lanes is not None:
            places = lanes.take(attempt, end)
        else:
            places = sorted(index[n] for n in nodes_of(attempt.nodes) if n in index)
        for first, size in runs(places):
            groups[css].append((attempt.start_ns / 1e9, end / 1e9, first, size))
    for css, blocks in groups.items():
        chart.blocks(cpus if lanes is not None else len(names), blocks, css)
    return chart.text()


class _Lanes:
    """One lane per CPU; a job takes the first lanes of each of its nodes that are free at its start."""

    def __init__(self, facts: ClusterFacts) -> None:
        self.facts = facts
        self.free_at = [0] * sum(facts.node_cpus.values())
        self.first: dict[str, int] = {}
        place = 0
        for name, cpus in facts.node_cpus.items():
            self.first[name] = place
            place += cpus

    def take(self, attempt: Attempt, end_ns: int) -> list[int]:
        """The lanes of one attempt, ascending; shared CPUs go on top of others."""
        out: list[int] = []
        for node, cpus in node_shares(attempt, self.facts)[0].items():
            if node not in self.first:
                continue
            begin = self.first[node]
            own = range(begin, begin + self.facts.node_cpus[node])
            free = [lane for lane in own if self.free_at[lane] <= attempt.start_ns]
            chosen = (free + [lane for lane in own if lane not in free])[:cpus]
            for lane in chosen:
                self.free_at[lane] = end_ns
            out += sorted(chosen)
        return sorted(out)


def _shades(chart: Chart, table: JobTable, facts: ClusterFacts, span: tuple[float, float]) -> None:
    """Which share of its CPUs each group of nodes had in use in each slice of time, in a few shades."""
    names = list(facts.node_cpus)
    bins, rows = 110, min(ROWS, len(names))
    row_of = {name: i * rows // len(names) for i, name in enumerate(names)}
    capacity = [0] * rows
    for name, place in row_of.items():
        capacity[place] += facts.node_cpus[name]
    begin, end = span
    width = (end - begin) / bins or 1.0
    filled = [[0.0] * bins for _ in range(rows)]
    for _, _, attempt in table.attempts():
        a = (attempt.start_ns / 1e9 - begin) / width
        b = ((attempt.end_ns if attempt.end_ns is not None else table.end_ns) / 1e9 - begin) / width
        held: dict[int, int] = {}
        for node, cpus in node_shares(attempt, facts)[0].items():
            if node in row_of:
                held[row_of[node]] = held.get(row_of[node], 0) + cpus
        for slot in range(max(0, int(a)), min(bins, int(b) + 1)):
            part = min(b, slot + 1) - max(a, slot)
            for place, cpus in held.items():
                filled[place][slot] += part * cpus
    for shade in range(1, SHADES + 1):
        blocks = []
        for row_number, row in enumerate(filled):
            levels = [min(SHADES, round(SHADES * v / capacity[row_number])) for v in row]
            slots = [i for i, level in enumerate(levels) if level == shade]
            blocks += [(begin + i * width, begin + (i + n) * width, row_number, 1) for i, n in runs(slots)]
        chart.blocks(rows, blocks, f"shade s{shade}")


def runs(places: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as (first, how many in a row)."""
    out: list[tuple[int, int]] = []
    for place in places:
        if out and out[-1][0] + out[-1][1] == place:
            out[-1] = (out[-1][0], out[-1][1] + 1)
        else:
            out.append((place, 1))
    return out


def ecdf(values: Sequence[float], high: float) -> list[Point]:
    """The empirical distribution up to `high` as steps, at most MOST_POINTS of them: evenly spaced ranks."""
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        return []
    ranks = range(1, count + 1)
    if count > MOST_POINTS:
        ranks_kept = [round(i * (count - 1) / (MOST_POINTS - 1)) + 1 for i in range(MOST_POINTS)]
    else:
        ranks_kept = list(ranks)
    return [(0.0, 0.0), *((ordered[r - 1], r / count) for r in ranks_kept), (high, 1.0)]


def thin(steps: Sequence[Step], begin_s: float, end_s: float) -> list[Point]:
    """Steps in seconds; more than MOST_POINTS become time-averages over equal slices, which keeps the area."""
    if len(steps) <= MOST_POINTS:
        first = [(begin_s, 0.0)] if not steps or steps[0][0] / 1e9 > begin_s else []
        return [*first, *((t / 1e9, float(level)) for t, level in steps)]
    begin, end = round(begin_s * 1e9), round(end_s * 1e9)
    edges = [begin + (end - begin) * i // MOST_POINTS for i in range(MOST_POINTS + 1)]
    out: list[Point] = []
    place, level = 0, 0
    for a, b in pairwise(edges):
        chunk: list[Step] = [(a, level)]
        while place < len(steps) and steps[place][0] < b:
            level = steps[place][1]
            chunk.append((max(a, steps[place][0]), level))
            place += 1
        out.append((a / 1e9, mean_level(chunk, a, b) or 0.0))
    out.append((end / 1e9, out[-1][1]))
    return out
