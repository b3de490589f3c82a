"""The copy of the packages with compiled modules (compiled_copy.py) gives the events of the sources.

SLURMTWIN_COMPILED names a copy that was made beforehand, which takes minutes; what needs one is skipped without it.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "sim/slurmtwin"
COPY = os.environ.get("SLURMTWIN_COMPILED", "")
PACKAGES = ("sim", "reports", "e2e", "reference_impl")
RENEW = ROOT / "sim/tests/golden/renew.py"
SCENARIOS = sorted(
    f"{folder}/{path.stem}" for folder in ("faults", "probes") for path in (ROOT / "scenarios" / folder).glob("*.yaml")
)
needs_copy = pytest.mark.skipif(not COPY, reason="SLURMTWIN_COMPILED names no copy (python compiled_copy.py FOLDER)")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """compiled_copy.py."""
    spec = importlib.util.spec_from_file_location("compiled_copy", ROOT / "compiled_copy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of(folder: Path, *arguments: str) -> str:
    """What Python prints with the packages of that folder."""
    path = os.pathsep.join(str(folder / name) for name in PACKAGES)
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_every_module_that_is_compiled_is_there_once(script: ModuleType) -> None:
    """A module that was renamed would leave the list behind."""
    names = script.sources()
    assert sorted(names) == sorted(set(names))
    assert all((ROOT / "sim" / name).is_file() for name in names)


def test_classes_that_derive_from_a_compiled_class_are_compiled_too(script: ModuleType) -> None:
    """An interpreted class cannot derive from a compiled one."""
    compiled = {str(Path("sim") / name) for name in script.sources()}
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in SOURCES.rglob("*.py")}
    for path, text in texts.items():
        for bases in re.findall(r"^class \w+\(([^)]*)\)", text, re.MULTILINE):
            for base in re.findall(r"\w+", bases):
                home = re.search(rf"^from slurmtwin\.(\S+) import .*\b{base}\b", text, re.MULTILINE)
                owner = f"sim/slurmtwin/{home[1].replace('.', '/')}.py" if home else ""
                assert owner not in compiled or path in compiled, (path, base)


def test_no_compiled_class_passes_a_list_of_arguments_to_its_base(script: ModuleType) -> None:
    """mypyc 2.4.1 hands `super().method(*these)` the tuple as the first argument."""
    for name in script.sources():
        assert not re.search(r"super\(\)\.\w+\([^)]*\*", (ROOT / "sim" / name).read_text()), name


def test_types_of_a_compiled_dataclass_s_fields_are_there_when_it_runs(script: ModuleType) -> None:
    """mypyc looks up the names of those that are not compiled themselves: importing the module fails without them."""
    compiled = {name.removesuffix(".py").replace("/", ".") for name in script.sources()}
    for name in script.sources():
        tree = ast.parse((ROOT / "sim" / name).read_text())
        unseen = {
            alias.asname or alias.name
            for block in tree.body if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
            for line in block.body if isinstance(line, ast.ImportFrom) and line.module not in compiled
            for alias in line.names
        }  # fmt: skip
        for made in tree.body:
            if isinstance(made, ast.ClassDef) and any("dataclass" in ast.unparse(mark) for mark in made.decorator_list):
                fields = [field.annotation for field in made.body if isinstance(field, ast.AnnAssign)]
                used = {part.id for field in fields for part in ast.walk(field) if isinstance(part, ast.Name)}
                assert not used & unseen, (name, made.name, used & unseen)


@needs_copy
def test_the_copy_runs_compiled_code_of_these_sources(script: ModuleType) -> None:
    """Else the comparison would be of the sources with themselves, or with older ones."""
    asked = "import slurmtwin.models.kubelet.kubelet as k; print(k.__file__)"
    assert of(Path(COPY), "-c", asked).strip().endswith(".so")
    assert not of(ROOT, "-c", asked).strip().endswith(".so")
    for path in SOURCES.rglob("*.py"):
        assert (Path(COPY) / "sim/slurmtwin" / path.relative_to(SOURCES)).read_bytes() == path.read_bytes(), path


@needs_copy
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_fault_scenario_and_probe_has_equal_events_in_both() -> None:
    """Row for row: event hashes of all scenarios in pods and of all probes."""
    compiled, plain = (json.loads(of(folder, str(RENEW), *SCENARIOS)) for folder in (Path(COPY), ROOT))
    assert compiled == plain


@needs_copy
def test_scenarios_without_pods_have_their_stored_hashes() -> None:
    """The golden scenarios."""
    stored = json.loads(RENEW.with_name("hashes.json").read_text())
    assert json.loads(of(Path(COPY), str(RENEW), *sorted(stored))) == stored


REPLICATE = """
from pathlib import Path
from slurmtwin.campaign.fault_judging import find_fault_groups
from slurmtwin.campaign.replications import Variant, batches, run_batch
group = find_fault_groups([Path("scenarios/faults/x62-slurmd-crash-supervised.yaml")])[0]
(batch,) = batches(group.path, group.folders[0], group.version, Variant(), 2)
print(run_batch(batch).tolist())
"""


@needs_copy
def test_replications_keep_their_rows_and_are_equal_in_both() -> None:
    """Rows that are kept have two lengths, those of pods and the others."""
    assert of(Path(COPY), "-c", REPLICATE) == of(ROOT, "-c", REPLICATE)
