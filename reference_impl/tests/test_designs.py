"""Designs are data: all load, the default is the safest setting, the core never asks for a name, the docs are fresh."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.errors import InputError
from slurmtwin_operator import designs
from slurmtwin_operator.core import switches as switches_module
from slurmtwin_operator.core.switches import SAFEST, Switches
from slurmtwin_operator.designs import all_designs, find_design, load_design, main, renewed, tables
from slurmtwin_operator.testing.scenarios import STORIES, play

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "scenarios/designs"
DESIGNS = all_designs(FOLDER)
NAMES = ("default", "classic-ha", "gke-statefulsets", "multi-cluster", "nersc-restart", "sunk", "slinky",
         "slurm-bridge", "soperator")  # fmt: skip
HEAD = "schema: slurmtwin/design/1\nname: x\ntitle: t\ngrade: C\nsource: s\n"


def test_all_nine_are_there() -> None:
    """Eight designs and the default; each file has its design's name."""
    assert sorted(d.name for d in DESIGNS) == sorted(NAMES)
    assert DESIGNS[0].name == "default"
    assert all(find_design(name, FOLDER).name == name for name in NAMES)


def test_default_is_every_switch_at_its_safest() -> None:
    """Who names no design gets exactly the defaults of the switches."""
    assert find_design("default", FOLDER).switches == Switches() == SAFEST


def test_designs_differ() -> None:
    """No two designs have the same switches and settings of Slurm."""
    seen = {(str(d.switches), str(d.slurm_conf)) for d in DESIGNS}
    assert len(seen) == len(DESIGNS)


@pytest.mark.parametrize("name", list(Switches.model_fields))
def test_every_switch_says_what_it_reproduces(name: str) -> None:
    """A description, and for a setting beside the default the real system and where it was read."""
    field = Switches.model_fields[name]
    extra: Any = field.json_schema_extra
    assert field.description
    assert extra["x-reproduces"]


def test_the_core_never_asks_for_a_design() -> None:
    """No design's name is a value that the core compares with."""
    core = Path(switches_module.__file__).parent
    for path in sorted(core.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert ".design" not in text, path.name
        assert not [name for name in NAMES if f'"{name}"' in text or f"'{name}'" in text], path.name


@pytest.mark.parametrize("design", DESIGNS, ids=lambda d: d.name)
def test_every_design_plays_every_story(design: designs.Design) -> None:
    """No story stops the core under any design."""
    for story in STORIES:
        kube, _ = play(story, design.switches)
        assert kube.events


def test_the_page_is_fresh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/operator.md holds the generated tables; --check says when it does not."""
    page = ROOT / "docs/operator.md"
    text = page.read_text(encoding="utf-8")
    assert renewed(text, FOLDER) == text
    assert set(tables(FOLDER)) == {"designs", "switches"}
    other = tmp_path / "operator.md"
    other.write_text(text.replace("| slinky | A |", "| slinky | C |"), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        assert main([str(other), "--check"]) == 1
        assert "stale" in capsys.readouterr().err
        assert main([str(other)]) == 0
        assert main([str(other), "--check"]) == 0
    with pytest.raises(InputError, match="no place"):
        renewed("a page", FOLDER)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n", "a design is a mapping"),
        (HEAD + "switches: {sync: sometimes}\n", r"x\.yaml:6: switches\.sync"),
        (HEAD + "switches: {unknown: 1}\n", r"x\.yaml:6: switches\.unknown"),
        (HEAD.replace("grade: C", "grade: D"), r"x\.yaml:4: grade"),
        (HEAD.replace("design/1", "design/9"), r"x\.yaml:1: schema"),
        (HEAD + "carrier: {poll_s: 0}\n", r"x\.yaml:6: carrier\.poll_s"),
        ("a: [", "x.yaml"),
    ],
)
def test_bad_designs_are_named(tmp_path: Path, text: str, message: str) -> None:
    """An unknown switch, setting or grade is an error with file:line."""
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load_design(path)


def test_an_unknown_design_lists_the_known() -> None:
    """The message names those that exist."""
    with pytest.raises(InputError, match="slinky"):
        find_design("other", FOLDER)
