"""Plans whose true answer theory knows: how further traces are paid for, and the kept table of a hundred cases."""

from __future__ import annotations

import csv
import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

SCRIPT = Path(__file__).with_name("known_answers.py")
TABLE = Path(__file__).with_name("known_answers.csv")


@pytest.fixture(scope="module")
def known() -> ModuleType:
    """The script, as a module."""
    spec = importlib.util.spec_from_file_location("known_answers", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["known_answers"] = module
    spec.loader.exec_module(module)
    return module


def test_all_looks_together_use_up_no_more_than_five_percent(known: ModuleType) -> None:
    """Whoever looks again until the interval is narrow pays for each look."""
    assert math.fsum(known.SPENT) <= 0.05 + 1e-12
    assert len(known.SPENT) == len(known.LOOKS)
    assert list(known.LOOKS) == sorted(set(known.LOOKS))


def test_pooled_traces_hold_the_truth_as_often_as_they_say(known: ModuleType) -> None:
    """300 draws of 16 traces around a known crossing: intervals of 90 % hold it in 86 to 94 %."""
    draw, used = np.random.default_rng(5), np.array([5.0, 1.2, 0.2])
    truth = 3 + math.log(1.2) / (math.log(1.2) - math.log(0.2))
    held = 0
    for _ in range(300):
        _, low, high = known.crossed(used * (1 + 0.1 * draw.standard_normal((16, 1))), 2, 0.9)
        held += low <= truth <= high
    assert 258 <= held <= 282


def test_an_answer_on_its_edge_is_settled_by_more_traces(known: ModuleType) -> None:
    """3.03 nodes are needed: a few traces leave 3 or 4, many leave 4."""
    draw, used = np.random.default_rng(6), np.array([5.0, 1.05, 0.2])
    rows = used * (1 + 0.1 * draw.standard_normal((1024, 1)))
    assert known.pooled(rows[:16], 2, 0.99)[1:] == (3, 4)
    assert known.pooled(rows, 2, 0.99) == (4, 4, 4)


def test_a_crossing_outside_the_counts_is_no_answer(known: ModuleType) -> None:
    """Met at the first count, or at none: neither is guessed at."""
    for used in ([0.5, 0.2], [3.0, 2.0]):
        with pytest.raises(ValueError, match="not among the counts"):
            known.pooled(np.array([used] * 3), 4, 0.95)


def test_further_looks_narrow_a_case(known: ModuleType) -> None:
    """Short traces of an idle queue: one alone leaves two counts, sixteen one, which is the truth."""
    case = known.case_of("idle", 3)
    one, more = (known.find(case, jobs=2_000, looks=looks) for looks in (1, 2))
    assert one.traces == 1
    assert not one.narrow
    assert (more.traces, more.low, more.high) == (16, case.truth, case.truth)


def test_the_kept_table_is_of_all_cases_and_keeps_the_bar(known: ModuleType) -> None:
    """The truth inside in at least 90 of 100, no interval wider than a tenth of its answer.

    A row says what its last look has spent, by the rule that pays for each look.
    """
    rows = list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()))
    assert [int(row["case"]) for row in rows] == list(range(100))
    inside = 0
    for row in rows:
        case = known.case_of(row["kind"], int(row["seed"]))
        assert case.truth == int(row["truth"])
        found = known.Found(case, *(int(row[name]) for name in ("plan", "low", "high", "traces")))
        assert found.narrow, row
        inside += found.inside
        assert float(row["spent"]) == known.SPENT[known.LOOKS.index(found.traces)]
    assert inside >= 90
    page = (Path(__file__).parents[3] / "docs/planning.md").read_text(encoding="utf-8")
    assert f"| truth inside the interval | {inside} |" in page
