"""Key figures: each has a test of the twin that exists, and a recording or the word that it is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurmtwin.campaign.key_figures import TABLE, load_figures, recorded_spans, twin_spans
from slurmtwin.contract.errors import InputError

FIGURES = load_figures()


@pytest.mark.parametrize("figure", FIGURES, ids=lambda one: str(one["figure"]))
def test_a_figure_has_its_test_and_its_recording(figure: dict[str, Any]) -> None:
    """A test that was renamed, or a span that nobody recorded, is found here."""
    path, _, name = str(figure["test"]).partition("::")
    assert f"def {name}(" in Path(path).read_text(encoding="utf-8")
    assert "missing" in figure or any(recorded_spans(span) for span in figure["spans"])
    assert str(figure["figure"]) in TABLE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("figure", "place", "low_s", "high_s"),
    [
        ("ghost job", 1, 230, 260), ("hold of 121 s", 0, 120, 137), ("hold of 121 s", 1, 120, 127),
        ("DOWN after a crash", 0, 200, 500), ("change of an operator's leader", 0, 13, 24),
        ("host of slurmctld lost, StatefulSet", 0, 95, 110),
    ],
)  # fmt: skip
def test_the_twin_makes_the_figure_and_so_did_every_recording(figure: str, place: int, low_s: int, high_s: int) -> None:
    """Within what is expected, on every version."""
    span = next(one for one in FIGURES if one["figure"] == figure)["spans"][place]
    real = [ns for spans in recorded_spans(span).values() for ns in spans]
    for ns in [*twin_spans(span, 2), *real]:
        assert ns is not None
        assert low_s <= ns / 1e9 <= high_s


def test_down_counts_from_the_last_ping_that_was_answered() -> None:
    """4P to 5P after it where a cycle is no longer than P = 20 s by more than 1; six P of 10 s where it takes 21."""
    hangs, paused = next(one for one in FIGURES if one["figure"] == "DOWN after the last answer")["spans"][:2]
    found = recorded_spans(hangs)["26.05"] + recorded_spans(paused)["26.05"]
    assert [round(ns / 1e9) for ns in found if ns is not None] == [83, 62, 62, 61, 62, 62, 62]


def test_another_file_is_refused(tmp_path: Path) -> None:
    """The first line says what it is."""
    path = tmp_path / "x.yaml"
    path.write_text("schema: x/1\n")
    with pytest.raises(InputError, match="not a file of key figures"):
        load_figures(path)
