"""Rank histograms of all phases: flat for a twin that is right, and not for one that is wrong in any of three ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurmtwin.contract.scenario import load_scenario
from slurmtwin_reports.faults import ranks
from slurmtwin_reports.faults.case import FaultCase
from slurmtwin_reports.faults.phase_verdict import PhaseVerdict
from slurmtwin_reports.faults.rank_histogram import (
    FEWEST,
    calibration_figures,
    calibration_line,
    rank_histogram,
    rank_histograms,
    tenths,
)
from slurmtwin_reports.faults.section import suite_rows
from slurmtwin_reports.html import Report, Section, render
from slurmtwin_reports.verdict import Outcome

SCENARIO = Path("scenarios/faults/x64-worker-host-lost.yaml")


def row(places: list[float], p: float | None, claim: bool = False) -> dict[str, Any]:
    """Of the suite's rows what counts here."""
    return {"claim": claim, "places": places, "p": p}


def judged(width: float, late: float, seed: int = 1) -> list[dict[str, Any]]:
    """Rows of 200 phases of eight recordings each; the twin's spans have `width` times the recorded scatter."""
    draw = np.random.default_rng(seed)
    rows = []
    for _ in range(200):
        recorded = (1e9 + 1e7 * draw.standard_normal(8)).astype(np.int64)
        pools = (1e9 - 1e7 * late + 1e7 * width * draw.standard_normal((8, 200))).astype(np.int64)
        places = [ranks.place(int(span), pool) for span, pool in zip(recorded, pools, strict=True)]
        rows.append(row(places, ranks.p_value(recorded, pools, draw, 199)))
    return rows


def test_tenths_take_their_lower_end_and_the_last_one_both() -> None:
    assert tenths([0.0, 0.0999, 0.1, 0.55, 0.999, 1.0]) == [2, 1, 0, 0, 0, 1, 0, 0, 0, 2]


def test_claims_and_phases_without_p_have_no_part_in_it() -> None:
    rows = [row([0.05, 0.95], 0.3), row([0.5], None), row([0.5] * 9, None, claim=True)]
    assert rank_histograms(rows) == {
        "places": [1, 0, 0, 0, 0, 1, 0, 0, 0, 1], "p": [0, 0, 0, 1, 0, 0, 0, 0, 0, 0],
    }  # fmt: skip
    line = calibration_line(rows * FEWEST)
    assert line.startswith(
        "Of 90 recorded spans 67 % lie in the lowest or highest tenth of their replications, of 30 p"
    )
    assert calibration_line(rows * (FEWEST - 1)) == ""
    assert calibration_line([row([], 0.3)] * FEWEST) == ""


def test_a_twin_that_is_right_has_flat_ones() -> None:
    """Within what 1,600 places and 200 p scatter by chance (four standard deviations)."""
    found = rank_histograms(judged(1.0, 0.0))
    assert found["places"] == pytest.approx([160] * 10, abs=4 * 12)
    assert found["p"] == pytest.approx([20] * 10, abs=4 * 4.3)


@pytest.mark.parametrize(
    ("width", "late", "full"),
    [(0.5, 0.0, (0, 9)), (2.0, 0.0, (3, 4, 5, 6)), (1.0, 0.7, (8, 9))],
    ids=["intervals too narrow", "intervals too wide", "recordings later"],
)
def test_a_twin_that_is_wrong_fills_the_tenths_that_say_how(width: float, late: float, full: tuple[int, ...]) -> None:
    """The tenths named have a third more places than their share, and each has more than any other."""
    found = rank_histograms(judged(width, late))
    places = found["places"]
    assert sum(places[tenth] for tenth in full) / sum(places) > 1.3 * len(full) / 10
    assert min(places[tenth] for tenth in full) > max(places[tenth] for tenth in range(10) if tenth not in full)


def test_intervals_that_are_too_wide_are_seen_though_every_phase_agrees() -> None:
    """Twice as wide: hardly a phase is rejected, and the places stand in the middle. That is what it is for."""
    rows = judged(2.0, 0.0)
    assert sum(one["p"] <= ranks.LEVEL for one in rows) < 20
    outer = [rank_histograms(rows)["places"][tenth] for tenth in (0, 9)]
    assert sum(outer) < 0.5 * 320


def test_the_figure_has_a_block_for_each_tenth_and_the_level_of_a_flat_one() -> None:
    """Heights go by the counts; a tenth without any has none."""
    svg = rank_histogram([10, 0, 0, 0, 0, 0, 0, 0, 0, 10], "p of a phase")
    assert 'aria-label="Rank histogram, p of a phase"' in svg
    assert "a twin that is right" in svg
    floor, top = "136", "19.6"  # ten of at most eleven
    assert f'd="M44 {top}H82.4V{floor}H389.6V{top}H428V{floor}H44Z"' in svg


@pytest.mark.parametrize(("phases", "drawn"), [(FEWEST, True), (FEWEST - 1, False)])
def test_a_report_has_both_figures_from_thirty_phases_on(phases: int, drawn: bool) -> None:
    """Fewer show chance, in figures and in words."""
    phase = next(one for one in load_scenario(SCENARIO).expect.phases if not one.is_claim)
    one = PhaseVerdict(phase=phase, outcome=Outcome.AGREE, reason="", p=0.4, places=(0.2, 0.9))
    case = FaultCase([phase] * phases, [], [one] * phases)
    assert len(calibration_figures(suite_rows([("x64", "26.05", case)]))) == (2 if drawn else 0)
    page = render(Report("r", [Section("x64", fault=case)]))
    assert ("a twin that is right" in page) is drawn
    assert (f"Of {2 * phases} recorded spans" in page) is drawn
