"""Options that put a container before the rest of the host, by what the host's cgroups offer."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmtwin_e2e.priority import CONTAINER_RUNTIME_US, PARENT, PARENT_RUNTIME_US, SHARES, options

REAL_TIME = ["--cpu-rt-period", "100000", "--cpu-rt-runtime", str(CONTAINER_RUNTIME_US)]


@pytest.fixture
def cpu(tmp_path: Path) -> Path:
    """A cgroup v1 CPU controller that Docker uses, with real-time groups."""
    (tmp_path / "docker").mkdir()
    (tmp_path / PARENT).mkdir()
    (tmp_path / PARENT / "cpu.rt_runtime_us").write_text("0")
    return tmp_path


def test_without_such_a_controller_only_the_capability_is_asked(tmp_path: Path) -> None:
    """Whether real time is allowed is then tried inside the container."""
    assert options(tmp_path) == ["--cap-add", "SYS_NICE"]
    assert not (tmp_path / PARENT).exists()


def test_the_first_container_sets_up_the_parent(cpu: Path) -> None:
    """Shares and the budget that all of them take from."""
    assert options(cpu)[2:] == ["--cgroup-parent", f"/{PARENT}", *REAL_TIME]
    assert (cpu / PARENT / "cpu.shares").read_text() == str(SHARES)
    assert (cpu / PARENT / "cpu.rt_runtime_us").read_text() == str(PARENT_RUNTIME_US)


@pytest.mark.parametrize(("running", "more"), [(0, True), (1, True), (2, False)])
def test_the_budget_is_never_overdrawn(cpu: Path, running: int, more: bool) -> None:
    """The kernel would refuse the container; beyond the budget it runs by shares alone."""
    (cpu / PARENT / "cpu.rt_runtime_us").write_text(str(PARENT_RUNTIME_US))
    for number in range(running):
        (cpu / PARENT / f"c{number}").mkdir()
        (cpu / PARENT / f"c{number}" / "cpu.rt_runtime_us").write_text(str(CONTAINER_RUNTIME_US))
    assert (options(cpu)[-4:] == REAL_TIME) == more


def test_a_kernel_without_real_time_groups_gets_shares(cpu: Path) -> None:
    """The file is not there at all."""
    (cpu / PARENT / "cpu.rt_runtime_us").unlink()
    assert options(cpu) == ["--cap-add", "SYS_NICE", "--cgroup-parent", f"/{PARENT}"]
