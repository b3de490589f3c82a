"""The look at the host names what a run left, and a run that was to be killed must have left something."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from slurmtwin_e2e.kind.clean_up import Ran, added, container_processes, wrong_with

KILLS = {2: signal.SIGKILL, 3: signal.SIGTERM}
GOOD = [
    Ran(1, "end", 0, 30.0, ()),
    Ran(2, "SIGKILL", -9, 9.0, ("containers: a",)),
    Ran(3, "SIGTERM", 1, 9.0, ()),
]


def test_only_what_was_added_is_named() -> None:
    """Things that were there before, or went away, are none of ours."""
    before = {"mounts": frozenset({"/", "/gone"}), "links": frozenset({"lo"})}
    now = {"mounts": frozenset({"/", "/new"}), "links": frozenset({"lo"})}
    assert added(before, now) == ["mounts: /new"]


def test_good_runs_have_no_finding() -> None:
    """A killed run leaves things for the next sweep; the others leave nothing."""
    assert wrong_with(GOOD, KILLS, []) == []


@pytest.mark.parametrize(
    ("place", "ran", "says"),
    [
        (0, Ran(1, "end", 1, 30.0, ()), "run 1 (end) ended with 1"),
        (0, Ran(1, "end", 0, 30.0, ("volumes: v",)), "run 1: volumes: v"),
        (1, Ran(2, "SIGKILL", 0, 30.0, ()), "run 2 was not killed"),
        (1, Ran(2, "SIGKILL", -9, 9.0, ()), "sees nothing"),
        (2, Ran(3, "SIGTERM", 1, 9.0, ("mounts: /m",)), "run 3: mounts: /m"),
        (2, Ran(3, "SIGTERM", 0, 30.0, ()), "run 3 (SIGTERM) ended with 0"),
    ],
)
def test_each_kind_of_wrong_run_is_a_finding(place: int, ran: Ran, says: str) -> None:
    """One run changed from good to wrong."""
    runs = [*GOOD[:place], ran, *GOOD[place + 1 :]]
    assert says in "\n".join(wrong_with(runs, KILLS, []))


def test_what_is_left_at_the_end_is_a_finding() -> None:
    """Also when every run looked good by itself."""
    assert wrong_with(GOOD, KILLS, ["networks: n"]) == ["at the end: networks: n"]


def test_processes_of_containers_and_their_servants_are_seen(tmp_path: Path) -> None:
    """By control group, and by name for those on the host itself; others are none of ours."""
    here = {"1": ("init", "0::/"), "7": ("sleep", "4:cpu:/docker/ab"), "9": ("containerd-shim", "0::/")}
    for pid, (comm, group) in here.items():
        folder = tmp_path / pid
        folder.mkdir()
        (folder / "comm").write_text(f"{comm}\n")
        (folder / "cgroup").write_text(f"{group}\n")
    found = sorted(comm for _, comm in container_processes(tmp_path))
    assert found == ["containerd-shim", "sleep"]
    assert [comm for _, comm in container_processes(tmp_path, ["ab"])] == ["containerd-shim"]
