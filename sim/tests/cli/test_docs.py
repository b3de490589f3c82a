"""The docs say what the code does: tutorials are run as they stand, the reference names everything."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from slurmtwin.campaign.study_file import Study
from slurmtwin.cli.main import COMMANDS
from slurmtwin.cli.reference import MECHANISMS, pages
from slurmtwin.contract.events import Kind
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.contract.yaml_file import load_yaml, plain
from slurmtwin.worlds.twin import run_scenario
from slurmtwin_operator.designs import load_design

DOCS = Path(__file__).parents[3] / "docs"
_BLOCK = re.compile(r"^```\{code-block\} (\w+)\n(?::caption: ([^\n]+)\n)?(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["first-run", "first-plan"])
def test_a_tutorial_runs_as_it_stands(name: str, tmp_path: Path) -> None:
    """Files are written, commands are called, each gives the exit code that its caption says (0 without)."""
    text = (DOCS / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    ran = 0
    for kind, caption, body in _BLOCK.findall(text):
        if kind != "sh":
            (tmp_path / caption).write_text(body)
            continue
        expected = int(caption.removeprefix("exit code ")) if caption else 0
        for line in body.strip().splitlines():
            words = shlex.split(line)
            program = {
                "slurmtwin": [sys.executable, "-c", "from slurmtwin.cli import main; main()"],
                "python": [sys.executable],
            }
            done = subprocess.run(
                [*program[words[0]], *words[1:]], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True
            )
            assert done.returncode == expected, f"{line}\n{done.stdout}\n{done.stderr}"
            ran += 1
    assert ran >= 2


def models_rooms() -> list[str]:
    """Packages of models: a new one has its title on the page of mechanisms."""
    import slurmtwin.models as models

    root = Path(next(iter(models.__path__)))
    return sorted(p.name for p in root.iterdir() if p.is_dir() and (p / "__init__.py").exists())


def test_the_reference_names_every_command_key_and_kind() -> None:
    """It is generated: what is missing there is missing in the code's own words."""
    found = pages()
    for command in COMMANDS:
        assert f"## {command}\n" in found["commands.md"]
    for key, field in Scenario.model_fields.items():
        assert f"| `{field.alias or key}` |" in found["scenario.md"]
    for room in models_rooms():
        assert room in MECHANISMS
    assert "\n### back off\n" in found["mechanisms.md"]
    for kind in Kind:
        assert f"| `{kind.value}` |" in found["events.md"]


@pytest.mark.parametrize("page", sorted((DOCS / "how-to").glob("*.md")), ids=lambda page: page.stem)
def test_every_document_of_a_how_to_is_a_valid_one(page: Path, tmp_path: Path) -> None:
    """What begins with `schema:` is read as such a file; scenarios run in the twin, if only for a while."""
    for place, body in enumerate(re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)):
        path = tmp_path / f"{place}.yaml"
        path.write_text(body)
        kind = body.split("\n", 1)[0].removeprefix("schema: ")
        if kind == "slurmtwin/scenario/1":
            assert run_scenario(load_scenario(path), tmp_path).event_count > 10
        elif kind == "slurmtwin/design/1":
            assert load_design(path).name
        elif kind == "slurmtwin/study/1":
            assert Study.model_validate(plain(load_yaml(path))).metrics


def test_every_page_is_reached_from_the_index() -> None:
    """A page that no list names is a page nobody reads."""
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    named = {line.strip() for line in index.splitlines()}
    here = {str(p.relative_to(DOCS).with_suffix("")) for p in DOCS.rglob("*.md") if "_build" not in p.parts}
    assert {page for page in here if page not in named and page != "index"} == set()
