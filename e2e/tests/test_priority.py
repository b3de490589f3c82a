"""Options that put a container before the rest of the host, by what the host's cgroups offer."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmtwin_e2e.priority import CONTAINER_RUNTIME_US, PARENT, PARENT_RUNTIME_US, PERIOD_US, SHARES, options

REAL_TIME = ["--cpu-rt-period", str(PERIOD_US), "--cpu-rt-runtime", str(CONTAINER_RUNTIME_US)]


@pytest.fixture
def cpu(tmp_path: Path) -> Path:
    """A cgroup v1 CPU controller that Docker uses, with real-time groups."""
    (tmp_path / "docker").mkdir()
    write(tmp_path / PARENT, 0, 1_000_000)
    return tmp_path


def write(group: Path, runtime_us: int, period_us: int = PERIOD_US) -> None:
    """A cgroup's real-time budget."""
    group.mkdir(exist_ok=True)
    (group / "cpu.rt_runtime_us").write_text(str(runtime_us))
    (group / "cpu.rt_period_us").write_text(str(period_us))


def test_without_such_a_controller_only_the_capability_is_asked(tmp_path: Path) -> None:
    """Whether real time is allowed is then tried inside the container."""
    assert options(tmp_path) == ["--cap-add", "SYS_NICE"]
    assert not (tmp_path / PARENT).exists()


def test_the_first_container_sets_up_the_parent(cpu: Path) -> None:
    """Shares and the budget that all of them take from."""
    assert options(cpu)[2:] == ["--cgroup-parent", f"/{PARENT}", *REAL_TIME]
    assert (cpu / PARENT / "cpu.shares").read_text() == str(SHARES)
    assert (cpu / PARENT / "cpu.rt_runtime_us").read_text() == str(PARENT_RUNTIME_US)


@pytest.mark.parametrize(("running", "more"), [(0, True), (1, False)])
def test_the_budget_is_never_overdrawn(cpu: Path, running: int, more: bool) -> None:
    """The kernel would refuse the container; beyond the budget it runs by shares alone."""
    write(cpu / PARENT, PARENT_RUNTIME_US)
    for number in range(running):
        write(cpu / PARENT / f"c{number}", CONTAINER_RUNTIME_US)
    assert (options(cpu)[-4:] == REAL_TIME) == more


def test_a_budget_set_up_otherwise_is_only_changed_when_nobody_uses_it(cpu: Path) -> None:
    """The kernel compares parts of a period, whatever the period is."""
    write(cpu / PARENT, 950_000, 1_000_000)
    write(cpu / PARENT / "old", 40_000, 1_000_000)
    assert options(cpu)[-4:] == REAL_TIME
    assert (cpu / PARENT / "cpu.rt_period_us").read_text() == "1000000"
    write(cpu / PARENT / "older", 40_000, 1_000_000)
    assert options(cpu)[-4:] != REAL_TIME


def test_a_kernel_without_real_time_groups_gets_shares(cpu: Path) -> None:
    """The file is not there at all."""
    (cpu / PARENT / "cpu.rt_runtime_us").unlink()
    assert options(cpu) == ["--cap-add", "SYS_NICE", "--cgroup-parent", f"/{PARENT}"]
