"""The list of designs: every file, with its grade; one by name."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from slurmtwin.cli import main

FOLDER = Path(__file__).parents[3] / "scenarios" / "designs"


def test_every_design_is_listed_with_its_grade() -> None:
    """As many as there are files; the default first."""
    found = CliRunner().invoke(main, ["designs", "--folder", str(FOLDER), "--json"])
    listed = json.loads(found.stdout)["designs"]
    assert set(listed) == {path.stem for path in FOLDER.glob("*.yaml")}
    text = CliRunner().invoke(main, ["designs", "--folder", str(FOLDER)]).stdout.splitlines()
    assert text[1].startswith("default")
    assert len(text) >= 1 + len(listed)
    assert any(line.startswith("crash") and "slinky" in line for line in text)
    assert any("C, read only" in line for line in text)


def test_a_design_is_shown_by_name_and_an_unknown_one_refused(tmp_path: Path) -> None:
    """With every switch; a folder without designs is an error, too."""
    shown = CliRunner().invoke(main, ["designs", "classic-ha", "--folder", str(FOLDER)])
    assert "switches.controller" in shown.stdout
    assert "slurm_conf.SlurmctldTimeout" in shown.stdout
    for arguments in (["designs", "none", "--folder", str(FOLDER)], ["designs", "--folder", str(tmp_path)]):
        assert CliRunner().invoke(main, arguments).exit_code == 2
