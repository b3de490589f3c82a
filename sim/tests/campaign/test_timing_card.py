"""The timing card: its page is what the twin and the recordings say today, and a wrong twin would show on it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from slurmtwin.campaign.timing_card import card_times, made_for, scenario_of_cell
from slurmtwin.cli.design_commands import GRADES, grades_in_words, load_designs
from slurmtwin.contract.errors import InputError
from slurmtwin_reports import timing_card
from slurmtwin_reports.timing_card import (
    SHARP,
    UNIT,
    Card,
    CellTimes,
    Line,
    Spans,
    lines,
    load_card,
    load_times,
    page,
    summary,
)

ROOT = Path(__file__).parents[3]
DESIGNS, RECORDINGS = ROOT / "scenarios/designs", ROOT / "scenarios/recordings"


@pytest.fixture(scope="module")
def card() -> Card:
    """The shipped card."""
    return load_card(ROOT / timing_card.CELLS)


@pytest.fixture(scope="module")
def kept() -> dict[str, CellTimes]:
    """The twin's spans that the repository keeps."""
    return load_times(ROOT / timing_card.TIMES)


@pytest.fixture(scope="module")
def told(card: Card, kept: dict[str, CellTimes]) -> list[Line]:
    """The card's lines beside all recordings."""
    return lines(card, kept, RECORDINGS)


def test_the_page_says_what_is_kept_and_recorded(card: Card, told: list[Line]) -> None:
    """docs/timing-card.md is generated: `slurmtwin designs --renew` writes it."""
    grades = grades_in_words(load_designs(DESIGNS))
    assert page(card, told, grades) == (ROOT / timing_card.PAGE).read_text(encoding="utf-8")


def test_the_kept_spans_are_those_of_todays_twin(card: Card, kept: dict[str, CellTimes]) -> None:
    """The first replication of every cell and recording, made anew, is the kept one; nothing asked for has changed.

    Equal to the second in which the card counts: another draw moves a span by tenths, another mechanism by more.
    """
    first = card_times(card, DESIGNS, RECORDINGS, workers=1, count=1)
    assert set(first) == set(kept)
    for cell in card.cells:
        if cell.reason:
            continue
        assert kept[cell.key].made_for == made_for(card, cell, DESIGNS), cell.key
        assert len(kept[cell.key].own) == card.replications
        # a cell's fault is spread over all replications, so the first is the same whatever their number
        assert _near(first[cell.key].own, kept[cell.key].own), cell.key
        assert set(first[cell.key].recorded) == set(kept[cell.key].recorded)
        for name, spans in kept[cell.key].recorded.items():
            assert _near(first[cell.key].recorded[name], spans), (cell.key, name)


def _near(one: Spans, other: Spans) -> bool:
    """The first of each: both never came, or they lie within the card's unit."""
    a, b = one[0], other[0]
    return a is b is None or (a is not None and b is not None and abs(a - b) <= UNIT)


def test_spans_are_near_within_a_second_and_never_is_near_never_alone() -> None:
    """A change of two seconds, or an end that came before and does not now, makes the page stale."""
    assert _near([10**9], [2 * 10**9])
    assert _near([None], [None])
    assert not _near([10**9], [3 * 10**9])
    assert not _near([10**9], [None])


def test_every_cell_has_numbers_or_a_reason_and_fifteen_are_confirmed(
    card: Card, kept: dict[str, CellTimes], told: list[Line]
) -> None:
    """Ten events of seven designs; a confirmed cell names a recording and has spans of the twin from its start."""
    assert len(told) == len(card.events) * len(card.columns) == 80
    assert all(bool(line.twin) != bool(line.cell.reason) for line in told)
    assert summary(told)["confirmed by recordings"] >= 15
    assert summary(told)["of these under the cell's own settings"] >= 8
    for line in told:
        if line.is_confirmed:
            assert line.cell.recorded is not None
            assert all(len(spans) == card.replications for spans in kept[line.cell.key].recorded.values())


def test_what_is_not_as_expected_says_why(told: list[Line]) -> None:
    """No cell disagrees with the design notes or a recording in silence."""
    assert all(line.remark for line in told if "no" in (line.as_expected, line.confirmed))


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_twin_that_is_wrong_by_two_times_loses_its_sharp_cells(
    card: Card, kept: dict[str, CellTimes], told: list[Line], factor: float
) -> None:
    """Every sharp cell turns to "no" under half and twice the spans; and there are enough of them."""
    wrong = {
        key: replace(
            one, recorded={name: [s and round(factor * s) for s in ours] for name, ours in one.recorded.items()}
        )
        for key, one in kept.items()
    }
    sharp = {line.cell.key for line in told if line.confirmed == SHARP}
    assert len(sharp) >= 12
    alone = card.model_copy(update={"cells": [cell for cell in card.cells if cell.key in sharp]})
    assert {line.cell.key for line in lines(alone, wrong, RECORDINGS) if line.confirmed == "no"} == sharp


def test_a_cell_that_came_where_never_is_expected_is_told(card: Card, kept: dict[str, CellTimes]) -> None:
    """`absent` is a prediction like another."""
    cell = next(cell for cell in card.cells if cell.key == "hang/gke")
    assert cell.absent
    came = {**kept, cell.key: replace(kept[cell.key], own=[*kept[cell.key].own[:-1], 10**9])}
    (line,) = lines(card.model_copy(update={"cells": [cell]}), came, RECORDINGS)
    assert line.as_expected == "no"


def test_the_faults_of_a_cell_lie_evenly_over_its_timers(card: Card) -> None:
    """Replication r of n stands in the middle of the r-th of n parts."""
    cell = next(cell for cell in card.cells if cell.key == "hang/slinky")
    at = [scenario_of_cell(card, cell, DESIGNS, number).faults[0].at for number in range(card.replications)]
    steps = {later - sooner for sooner, later in itertools.pairwise(at)}
    assert len(steps) == 1
    assert at[0] == 40 * 10**9 + steps.pop() // 2


def test_a_card_that_lacks_a_cell_or_kept_spans_is_refused(card: Card, kept: dict[str, CellTimes]) -> None:
    """Neither is passed over."""
    with pytest.raises(ValueError, match="missing"):
        Card.model_validate({**card.model_dump(by_alias=True, mode="json"), "cells": []})
    with pytest.raises(InputError, match="--renew"):
        lines(card, {}, RECORDINGS)


@pytest.mark.parametrize("path", sorted(DESIGNS.glob("*.yaml")), ids=lambda path: path.stem)
def test_each_design_has_a_grade(path: Path) -> None:
    """A, B or C; a conclusion of a study stands no higher than its design."""
    design = next(d for d in load_designs(DESIGNS).values() if d["name"] == path.stem)
    assert str(design["grade"])[:1] in GRADES
