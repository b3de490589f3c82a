"""`check --live`: real runs made now take the place of recordings; a run that fails is never a silent skip."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slurmtwin.cli import main
from slurmtwin_e2e import record as real

ROOT = Path(__file__).parents[3]
SCENARIO = ROOT / "scenarios" / "probes" / "partition-closing.yaml"
RECORDED = ROOT / "scenarios" / "recordings" / "partition-closing" / "26.05" / "k1" / "1"


def check(*arguments: str) -> Any:
    """The command as a user calls it."""
    return CliRunner().invoke(main, ["check", "--json", "--workers", "1", *arguments])


def stand_in(monkeypatch: pytest.MonkeyPatch, made: Callable[[Path], None], failed: list[str]) -> list[str]:
    """Instead of real Slurm; returns the list of runs that are asked for."""
    asked: list[str] = []

    def record(wanted: Sequence[real.Wanted], root: Path, budget_s: float, say: object) -> real.Outcome:
        for one in wanted:
            asked.append(one.place.run_id)
            made(one.place.folder(root))
        return real.Outcome(made=len(wanted), failed=failed)

    monkeypatch.setattr(real, "record", record)
    return asked


def copied(source: Path, target: Path) -> None:
    """A recording as if it had just been made."""
    shutil.copytree(source, target)


@pytest.mark.conformance
def test_the_twin_is_judged_by_the_run_made_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, in the scenario's own version; no other recording is read."""
    asked = stand_in(monkeypatch, lambda folder: copied(RECORDED, folder), [])
    done = check("--live", str(SCENARIO))
    assert [name.rpartition("-k")[0] for name in asked] == ["partition-closing-26.05"]
    document = json.loads(done.stdout)
    assert [row["version"] for row in document["conformance"]] == ["26.05"]
    assert any("start error" in str(verdict) for verdict in document["verdicts"])
    assert done.exit_code == document["code"]


def test_a_real_run_that_fails_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the scenario would be judged by the twin alone."""
    stand_in(monkeypatch, lambda folder: None, ["the driver said no"])
    done = check("--live", str(SCENARIO))
    assert done.exit_code not in (0, 1, 3)
    assert "the driver said no" in done.stderr


def test_live_needs_paths() -> None:
    """All shipped scenarios would run for hours."""
    done = check("--live")
    assert done.exit_code == 2
    assert "--live needs the scenarios" in done.stderr
