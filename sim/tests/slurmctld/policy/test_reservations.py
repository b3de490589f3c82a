"""Reservations: who gets which nodes when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slurmtwin.contract.clock import HOUR
from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld.reservations import Verdict
from slurmtwin.models.slurmctld.states import NodeFlag

Make = Callable[..., Any]


def reserve(b: Any, name: str = "r", start: int = 0, seconds: int = 3600, nodes: int = 0b11, users: str = "ann",
            accounts: str = "", flags: str = "") -> str | None:  # fmt: skip
    return b.ctl.reservations.create(
        name, b.ctl.now_s() + start, seconds, nodes, tuple(filter(None, users.split(","))),
        tuple(filter(None, accounts.split(","))), frozenset(filter(None, flags.split(","))),
    )  # fmt: skip


def usable(b: Any, job: Any, start: int = 0, seconds: int = 600) -> int:
    now_s = b.ctl.now_s()
    return b.ctl.reservations.usable_nodes(job, 0b1111, now_s + start, now_s + start + seconds)


def test_others_keep_off_reserved_nodes_in_time(bench: Make) -> None:
    """A job without reservation gets the nodes that are free of reservations while it would run.

    slurm.md 9 "Reservations".
    """
    b = bench()
    assert reserve(b, start=1000) is None
    job = b.job(user="bob")
    assert usable(b, job) == 0b1111  # over before it begins
    assert usable(b, job, start=500) == 0b1100
    assert usable(b, job, start=4600) == 0b1111


def test_jobs_inside_get_its_nodes_only(bench: Make) -> None:
    """--reservation: only those nodes, not before the start. slurm.md 9 "Reservations"."""
    b = bench()
    reserve(b, start=1000)
    job = b.job(user="ann", reservation="r")
    assert b.ctl.reservations.access(job) == "Reservation"
    assert b.ctl.reservations.test(job, b.ctl.now_s(), 600, move=True).verdict is Verdict.LATER
    assert b.ctl.reservations.test(job, b.ctl.now_s(), 600, move=True).when_s == b.ctl.now_s() + 1000
    b.until(1001)
    assert b.ctl.reservations.access(job) is None
    assert usable(b, job) == 0b11


@pytest.mark.parametrize(
    ("users", "accounts", "user", "refused"),
    [("ann", "", "ann", False), ("ann", "", "bob", True), ("", "a", "ann", False), ("", "b", "ann", True),
     ("-ann", "", "ann", True), ("-ann", "", "bob", False), ("ann", "b", "ann", True), ("ann", "", "", False)],
)  # fmt: skip
def test_access(bench: Make, users: str, accounts: str, user: str, refused: bool) -> None:
    """By user and account; a name with - is shut out; root may always. slurm.md 9 "Reservations"."""
    b = bench(accounting=["add account a", "add user ann account=a", "add user bob account=a"])
    reserve(b, users=users, accounts=accounts)
    answer = b.ctl.limits.admit(b.job(user=user, reservation="r", enter=False))
    assert (answer == "Access denied to requested reservation") is refused
    assert b.ctl.limits.admit(b.job(reservation="none", enter=False)) == "Requested reservation is invalid"


def test_reservations_do_not_overlap_unless_flagged(bench: Make) -> None:
    """Two reservations on one node at one time: refused, except with OVERLAP or MAINT. slurm.md 9 "Reservations"."""
    b = bench()
    assert reserve(b, "one", start=100) is None
    assert reserve(b, "two", start=200) == "Requested reservation overlaps with another reservation"
    assert reserve(b, "later", start=3700) is None
    assert reserve(b, "elsewhere", start=200, nodes=0b1100) is None
    assert reserve(b, "three", start=200, flags="OVERLAP") is None
    assert reserve(b, "four", start=200, flags="maint") is None
    assert reserve(b, "one", start=90_000) == "Duplicate reservation name"
    assert reserve(b, "nobody", users="") == "Reservation request lacks users, groups or accounts"


def test_running_jobs_stand_in_the_way_unless_ignored(bench: Make) -> None:
    """A running job that may last into the reservation refuses it, except with IGNORE_JOBS."""
    b = bench()
    job = b.job(limit_ns=HOUR)
    b.start(job, nodes=0b1)
    assert reserve(b, "x", start=600) == "Requested nodes are busy"
    assert reserve(b, "y", start=3601) is None
    assert reserve(b, "z", start=600, nodes=0b1, seconds=60, flags="IGNORE_JOBS") is None


def test_maintenance_on_the_whole_partition_blocks_it(bench: Make) -> None:
    """MAINT on all nodes of a partition: its jobs wait for the end; partly covered ones use the rest.

    slurm.md 9 "Reservations".
    """
    parts = [{"PartitionName": "main", "Nodes": "n[1-2]", "Default": "YES"}, {"PartitionName": "o", "Nodes": "ALL"}]
    b = bench(partitions=parts)
    reserve(b, seconds=3600, flags="MAINT")
    now_s = b.ctl.now_s()
    job = b.job(user="bob")
    assert b.ctl.reservations.test(job, now_s, 600, move=False).verdict is Verdict.MAINTENANCE
    moved = b.ctl.reservations.test(job, now_s, 600, move=True)
    assert (moved.verdict, moved.when_s) == (Verdict.OKAY, now_s + 3600)
    other = b.job(user="bob", partition="o")
    assert usable(b, other) == 0b1100


def test_flex_takes_nodes_and_time_outside(bench: Make) -> None:
    """FLEX: its jobs may start early and on nodes outside it; others' reservations still bind them."""
    b = bench()
    reserve(b, "r", start=1000, flags="FLEX")
    reserve(b, "other", start=0, nodes=0b1000, users="bob")
    job = b.job(user="ann", reservation="r")
    assert b.ctl.reservations.access(job) is None
    assert usable(b, job) == 0b0111


def test_required_nodes_of_others_make_the_job_wait(bench: Make) -> None:
    """--nodelist inside somebody else's reservation: busy until it ends."""
    b = bench()
    reserve(b)
    job = b.job(user="bob", nodelist="n1")
    now_s = b.ctl.now_s()
    assert b.ctl.reservations.test(job, now_s, 600, move=False).verdict is Verdict.BUSY
    assert b.ctl.reservations.test(job, now_s, 600, move=True).when_s == now_s + 3600


def test_polls_set_flags_and_queue_a_pass(bench: Make) -> None:
    """Every 5 s: RES and MAINT flags on nodes, a pass when one begins. slurm.md 1.1 "Events that only queue"."""
    b = bench()
    reserve(b, start=7, seconds=60, flags="MAINT")
    b.until(9)
    assert b.ctl.nodes.nodes[0].flags == NodeFlag.NONE
    b.until(11)
    assert b.ctl.nodes.nodes[0].flags == NodeFlag.RES | NodeFlag.MAINT
    assert b.ctl.nodes.nodes[2].flags == NodeFlag.NONE
    assert b.calls.passes == 1
    b.until(71)
    assert b.ctl.nodes.nodes[0].flags == NodeFlag.NONE


def test_an_ended_reservation_is_purged_and_holds_its_waiting_jobs(bench: Make) -> None:
    """The 30 s scan drops it; jobs that wait for it are held, unless NO_HOLD_JOBS_AFTER_END."""
    for flags, held in (("", True), ("NO_HOLD_JOBS_AFTER_END", False)):
        b = bench()
        reserve(b, seconds=62, flags=flags)
        job = b.job(user="ann", reservation="r")
        b.until(89)
        assert len(b.ctl.reservations) == 1
        b.until(95)
        assert len(b.ctl.reservations) == 0
        assert job.held is held
        assert (job.reservation, job.reason == "ReservationDeleted") == ("", held)
        b.sink._flush()
        assert [e.kind for e in b.sink.kept if "reservation" in e.kind] == [
            Kind.RESERVATION_CREATED, Kind.RESERVATION_ENDED,
        ]  # fmt: skip


def test_delete_is_refused_while_jobs_run_in_it(bench: Make) -> None:
    """scontrol delete reservation: in use. Waiting jobs are held."""
    b = bench()
    reserve(b)
    runs, waits = (b.job(user="ann", reservation="r", limit_ns=HOUR) for _ in range(2))
    b.start(runs)
    assert b.ctl.reservations.delete("r") == "Requested reservation is in use"
    b.end(runs)
    assert b.ctl.reservations.delete("r") is None
    assert b.calls.held == [(waits.slurm_id, "ReservationDeleted")]
    assert b.ctl.reservations.delete("r") == "Requested reservation is invalid"


def test_daily_reservations_come_again(bench: Make) -> None:
    """DAILY: after its end it stands a day later. slurm.md 9 "Reservations"."""
    b = bench()
    reserve(b, start=100, seconds=600, flags="DAILY")
    b.until(800)
    now_s = b.ctl.now_s()
    job = b.job(user="bob")
    assert usable(b, job) == 0b1111
    assert usable(b, job, start=86_400 - 700) == 0b1100
    assert b.ctl.reservations.next_change_s(now_s) == now_s - 800 + 100 + 86_400


def test_purge_comp_ends_an_idle_reservation_early(bench: Make) -> None:
    """PURGE_COMP=1: gone at the scan a minute after its last job."""
    b = bench()
    reserve(b, seconds=36_000, flags="PURGE_COMP=1")
    job = b.job(user="ann", reservation="r", limit_ns=HOUR)
    b.start(job)
    b.until(300)
    b.end(job)
    b.until(331)
    assert len(b.ctl.reservations) == 1
    b.until(421)
    assert len(b.ctl.reservations) == 0


def test_magnetic_draws_jobs_of_its_users(bench: Make) -> None:
    """MAGNETIC: jobs with access and without a reservation of their own are queued for it too."""
    b = bench()
    reserve(b, "m", flags="MAGNETIC")
    assert b.ctl.reservations.magnetic(b.job(user="ann")) == ("m",)
    assert b.ctl.reservations.magnetic(b.job(user="bob")) == ()


def test_an_idle_cluster_with_a_reservation_costs_no_polls(bench: Make) -> None:
    """No job waits: only the polls at its begin and end are carried out."""
    b = bench()
    reserve(b, start=3600, seconds=30 * 86_400)
    b.until(40 * 86_400)
    assert b.env.event_count <= 6
    assert len(b.ctl.reservations) == 0
