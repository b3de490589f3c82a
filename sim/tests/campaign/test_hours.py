"""Whether places of one batch hang together: worked by hand, and found where a batch has a share of its own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

from slurmtwin.campaign.hours import hang_together, main, pairs_of
from slurmtwin.campaign.recordings import RECORDINGS
from slurmtwin.contract.errors import InputError


def test_a_pair_says_twelve_times_its_product_about_the_middle() -> None:
    """Two at the upper end: 3; two in one batch, one in another: one pair together and two apart."""
    together, apart = pairs_of([1.0, 1.0, 0.0], ["a", "a", "b"])
    assert (together.count, together.correlation) == (1, 3.0)
    assert (apart.count, apart.correlation) == (2, -3.0)
    assert pairs_of([0.3], ["a"])[0].correlation is None


@pytest.mark.parametrize("shared", [0.0, 0.5])
def test_what_a_batch_shares_is_found_again(shared: float) -> None:
    """Normal errors of which that share is the batch's: ranks have 6/pi asin(shared/2) of it, other pairs nothing."""
    draw = np.random.default_rng(7)
    places, batches = list[float](), list[str]()
    for batch in range(600):
        errors = np.sqrt(shared) * draw.standard_normal() + np.sqrt(1 - shared) * draw.standard_normal(4)
        places += ndtr(errors).tolist()
        batches += [f"{batch}"] * 4
    together, apart = pairs_of(places, batches)
    assert together.correlation == pytest.approx(6 / np.pi * np.arcsin(shared / 2), abs=0.06)
    assert apart.correlation == pytest.approx(0, abs=0.01)


def phase(**more: object) -> dict[str, object]:
    """Of a check's phases, two runs of one scenario that one batch has, and one of another."""
    return {
        "scenario": "x9-takeover", "version": "26.05", "recordings": ["49", "50", "7"], "places": [0.9, 0.9, 0.1],
        "claim": False, "sharp": False, **more,
    }  # fmt: skip


def test_batches_are_those_of_the_recordings_and_claims_are_left_out() -> None:
    found = hang_together([phase(), phase(claim=True), phase(sharp=None)], Path(RECORDINGS))
    assert found["not sharp"] == {
        "pairs_of_one_batch": 1, "correlation_of_one_batch": 1.92,
        "pairs_of_two_batches": 2, "correlation_of_two_batches": -1.92,
    }  # fmt: skip
    assert found["sharp"]["pairs_of_one_batch"] == 0
    assert found["sharp"]["correlation_of_one_batch"] is None
    assert found["phases"] == [], "one pair is too few"
    more = phase(recordings=["49", "50", "51", "46"], places=[0.5, 0.5, 0.5, 0.5])
    assert not hang_together([more], Path(RECORDINGS))["phases"], "three"
    four = phase(recordings=["49", "50", "51", "49"], places=[0.9, 0.9, 0.9, 0.9], phase="takeover")
    (told,) = hang_together([four], Path(RECORDINGS))["phases"]
    assert (told["phase"], told["pairs_of_one_batch"], told["correlation_of_one_batch"]) == ("takeover", 6, 1.92)


def test_a_file_that_is_no_document_of_check_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("{", "[]", "{}"):
        path = tmp_path / "verdicts.json"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match="no document of check"):
            main([str(path)])
    path.write_text(json.dumps({"phases": [phase()]}), encoding="utf-8")
    assert main([str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["not sharp"]["pairs_of_one_batch"] == 1
