"""Phases are read off the table alone, with their measurement error, and a wrong one turns the verdict."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.manifest import Manifest, write_manifest
from slurmtwin.contract.phases import Phase
from slurmtwin.contract.scenario import Scenario
from slurmtwin_reports import phases
from slurmtwin_reports.history import Row

FAULT = {"kind": "fault.injected"}


def rows(*facts: tuple[float, str, dict[str, Any]]) -> list[Row]:
    """A table of (seconds, kind, other columns)."""
    out = []
    for seq, (t_s, kind, more) in enumerate(facts):
        columns: dict[str, Any] = dict.fromkeys(Row._fields)
        columns |= {"seq": seq, "t_ns": int(t_s * SECOND), "t_err_ns": 0, "kind": kind, "actor": "x"}
        if "detail" in more:
            more = more | {"detail": json.dumps(more["detail"])}
        out.append(Row(**columns | more))
    return out


def phase(end: dict[str, Any], low: str = "1s", high: str | None = "5s", **more: Any) -> Phase:
    """A phase from the injection to `end`."""
    document = {"name": "p", "start": FAULT, "end": end, "low": low, "high": high, "rests_on": "r", "source": "s"}
    return Phase.model_validate(document | more)


def test_a_span_begins_after_the_fault() -> None:
    """What happened before the injection is no milestone of it."""
    table = rows((1, "node.down", {}), (10, "fault.injected", {}), (13, "node.down", {}))
    assert phases.span(table, phase({"kind": "node.down"})).length_ns == 3 * SECOND


@pytest.mark.parametrize(
    ("end", "seconds"),
    [
        ({"kind": "node.down", "node": "w-2"}, 4),
        ({"kind": "node.down", "detail": {"reason": "b"}}, 3),
        ({"kind": "node.down", "nth": 2}, 3),
        ({"kind": "node.down", "node": "*", "nth": 3}, 4),
        ({"kind": "node.down", "actor": "y"}, 3),
    ],
)
def test_milestones_choose_by_column_detail_and_count(end: dict[str, Any], seconds: int) -> None:
    """Node inside a hostlist, keys of detail, the n-th, n different nodes, the actor."""
    table = rows(
        (10, "fault.injected", {}),
        (12, "node.down", {"node": "w-0", "detail": {"reason": "a"}}),
        (13, "node.down", {"node": "w-1", "detail": {"reason": "b"}, "actor": "y"}),
        (14, "node.down", {"node": "w-[2-3]", "detail": {"reason": "c"}}),
    )
    assert phases.span(table, phase(end)).length_ns == seconds * SECOND


@pytest.mark.parametrize(
    ("length_s", "error_s", "said"),
    [(3, 0, phases.AGREE), (6, 0, phases.DIFFER), (6, 1.5, phases.AGREE), (0.5, 0, phases.DIFFER)],
)
def test_a_verdict_minds_the_error_and_can_fail(length_s: float, error_s: float, said: str) -> None:
    """One repetition that cannot lie in the prediction is a difference."""
    one = phases.Span(int(length_s * SECOND), int(error_s * SECOND))
    inside = phases.Span(2 * SECOND)
    assert phases.verdict(phase({"kind": "node.down"}), [inside, one]) == said


def test_what_must_not_happen_differs_when_it_does() -> None:
    """absent: no end in any repetition; without a start there is nothing to judge."""
    one = phase({"kind": "job.requeued"}, high=None, absent=True)
    assert phases.verdict(one, [phases.Span(None)]) == phases.AGREE
    assert phases.verdict(one, [phases.Span(None), phases.Span(SECOND)]) == phases.DIFFER
    assert phases.verdict(one, [phases.Span(None, started=False)]) == phases.UNKNOWN
    assert phases.verdict(one, []) == phases.UNKNOWN


def test_an_end_that_never_came_is_a_difference() -> None:
    """Where an end is predicted, none is no agreement."""
    table = rows((10, "fault.injected", {}))
    one = phase({"kind": "node.down"})
    assert phases.verdict(one, [phases.span(table, one)]) == phases.DIFFER


def test_two_rows_of_one_instant_count_whatever_their_order() -> None:
    """A log may tell the consequence a millisecond before the cause, within the stamps' error."""
    table = rows((10, "fault.injected", {}), (12, "job.requeued", {"t_err_ns": 750_000}),
                 (12.001, "node.down", {"t_err_ns": 750_000}))  # fmt: skip
    one = phase({"kind": "job.requeued"}, start={"kind": "node.down"}, low="0s", high="1s")
    assert phases.verdict(one, [phases.span(table, one)]) == phases.AGREE


def test_a_difference_needs_a_reason_and_a_reason_a_difference(tmp_path: Path) -> None:
    """Exit 1 for a phase that differs unexplained, and for an explanation of nothing."""
    scenarios, recordings, reasons = tmp_path / "scenarios", tmp_path / "recordings", tmp_path / "reasons.yaml"
    scenarios.mkdir()
    (scenarios / "case.yaml").write_text(
        "schema: slurmtwin/scenario/1\nname: case\nslurm: {nodes: [{NodeName: w-0}]}\nexpect:\n  phases:\n"
        "  - {name: p, start: {kind: fault.injected}, end: {kind: node.down}, low: 1s, high: 2s, "
        "rests_on: r, source: s}\n"
    )
    run = recordings / "case" / "26.05" / "pods" / "1"
    run.mkdir(parents=True)
    write_manifest(run, Manifest(world="kind", scenario="case", scenario_sha256="", seed=0))
    table = rows((10, "fault.injected", {}), (19, "node.down", {}))
    with gzip.open(run / "events.jsonl.gz", "wt") as stream:
        stream.write("".join(json.dumps(row._asdict()) + "\n" for row in table))
    out = tmp_path / "phases.md"
    arguments = ["--scenarios", scenarios, "--recordings", recordings, "--out", out, "--reasons", reasons]

    def run_main() -> int:
        return phases.main([str(argument) for argument in arguments])

    assert run_main() == 1
    reasons.write_text("case/p: the host slept\n")
    assert run_main() == 0
    assert "| differ | r | the host slept |" in out.read_text()
    reasons.write_text("case/p: the host slept\ncase/q: of nothing\n")
    assert run_main() == 1


def test_another_version_has_a_table_of_its_own(tmp_path: Path) -> None:
    """Repetitions of two versions are never judged together; reasons name the version."""
    scenario = Scenario.model_validate({"schema": "slurmtwin/scenario/1", "name": "case", "slurm": {}})
    for version in ("22.05", "26.05"):
        folder = tmp_path / "case" / version / "pods" / "1"
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text("{}")
    found = phases.by_version(scenario, tmp_path)
    assert [(name, [path.parts[-3] for path in folders]) for name, folders in found] == [
        ("case", ["26.05"]),
        ("case (22.05)", ["22.05"]),
    ]


def test_the_page_is_as_the_recordings_say_and_every_difference_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/kind-phases.md is made of scenarios, recordings and reasons; stale reasons are findings too."""
    monkeypatch.chdir(Path(__file__).parents[2])
    out = tmp_path / "phases.md"
    assert phases.main(["--out", str(out)]) == 0
    assert out.read_text() == phases.TABLE.read_text(), "run python -m slurmtwin_reports.phases"
