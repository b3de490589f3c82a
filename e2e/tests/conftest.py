"""What several tests of the harness share."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def observer() -> ModuleType:
    """The program of the pods' image, as a module of its own for each file of tests."""
    path = Path(__file__).parents[1] / "slurm_images" / "files" / "observer.py"
    spec = importlib.util.spec_from_file_location("observer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
