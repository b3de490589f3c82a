"""Tests of worlds may import the modules beside them; compiled code is compiled once, not once per worker."""

import fcntl
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The first worker compiles the event loop; the others wait, and load what it kept."""
    from plain_cases import cluster, crowd, played

    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if folder.name.startswith("popen-") else folder
    with (shared / "compiling.lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        played(cluster(2), list(crowd(1, 2)), "compiled")
