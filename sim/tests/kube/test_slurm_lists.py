"""When slurm-client lists: as recorded of the Slinky slurm-operator, whose passes wait for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.adapters.slurm_lists import CHECK_NS, PERIOD_NS, ClientLists, ListTimes, batch_in_ns
from slurmtwin.adapters.slurm_port import Informing, RestCalls, SlurmPort, Started
from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.engine.environment import Environment, RunBudget
from slurmtwin.models.api_server.work_queue import Finished, WorkQueue
from slurmtwin_operator.core.observed import Slurm

if TYPE_CHECKING:
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin_operator.core.observed import SlurmNode


def lists(began_s: float, asked_s: float | None = None, late_ns: int = 0) -> ClientLists:
    asked_ns = None if asked_s is None else round(asked_s * SECOND)
    return ClientLists(ListTimes(began_ns=round(began_s * SECOND), asked_ns=asked_ns, late_ns=late_ns))


RECORDED = [
    ("x33-slinky 1", -32.02, -14.86, 24.93, 30.0), ("x37-slinky 3", -75.03, -14.43, 24.68, 45.75),
    ("x48-ghost 3", -76.89, -16.73, 26.24, 45.96),
]  # fmt: skip


@pytest.mark.parametrize(("_run", "began_s", "made_s", "fault_s", "drained_s"), RECORDED)
def test_a_pass_hangs_until_the_first_list(
    _run: str, began_s: float, made_s: float, fault_s: float, drained_s: float
) -> None:
    """Recorded: its drain comes within the looks and lists of one pass, or two, behind that list."""
    known = lists(began_s, made_s)
    free_ns = round(fault_s * SECOND) + known.jobs_wait_ns(round(fault_s * SECOND))
    assert 0 <= drained_s * SECOND - free_ns <= 3.2 * SECOND
    assert free_ns - fault_s * SECOND >= 3 * SECOND


def test_jobs_are_as_old_as_the_last_list() -> None:
    """Recorded in x34: job 2 began 25.65 and 25.75 s in; lists at 29.9 s and at 25.1 s, looked at 31.3 s in."""
    for began_s, made_s, started_s, seen in ((-60.09, -44.06, 25.65, True), (-64.92, -33.88, 25.75, False)):
        known = lists(began_s, made_s)
        listed_ns = known.next_list_ns(round(started_s * SECOND))
        assert (listed_ns < 31.3 * SECOND) is seen


@given(asked_ns=st.integers(0, 10**11), some_ns=st.integers(0, 10**11), late_ns=st.integers(0, 2 * MS))
def test_batches_come_in_rounds(asked_ns: int, some_ns: int, late_ns: int) -> None:
    """A refresh waits less than a round, and as long as one that was asked for a whole number of rounds before."""
    round_ns = CHECK_NS + late_ns
    wait_ns = batch_in_ns(asked_ns, some_ns, round_ns)
    assert 0 <= wait_ns < round_ns
    assert (asked_ns + wait_ns - some_ns) % round_ns == 0
    assert batch_in_ns(asked_ns + 7 * round_ns, some_ns, round_ns) == wait_ns


def test_calls_are_direct_until_the_client_looks() -> None:
    """x22: the process that follows drains at once, half a minute later its passes hang for as long."""
    known = lists(0)
    assert known.asked(2 * SECOND)
    assert not known.asked(3 * SECOND)
    assert known.direct(29 * SECOND)
    assert not known.direct(30 * SECOND)
    assert known.reservations_wait_ns(29 * SECOND) == 0
    assert known.reservations_wait_ns(31 * SECOND + 1) == 29 * SECOND
    assert known.jobs_wait_ns(60 * SECOND) == 0


@given(made_s=st.integers(0, 100), now_ns=st.integers(0, 10**12), late_ns=st.integers(0, 2 * MS))
def test_no_list_is_older_than_a_period_and_a_batch(made_s: int, now_ns: int, late_ns: int) -> None:
    """Once there is one; and it lies ahead."""
    known = lists(0, made_s, late_ns)
    after_ns = known.next_list_ns(now_ns) - now_ns
    assert after_ns > 0
    if now_ns >= known.runs_ns:
        assert after_ns <= PERIOD_NS + CHECK_NS


@pytest.mark.parametrize(("single", "passes_s"), [(False, [0, 20, 30, 60]), (True, [0, 20, 50])])
def test_a_key_that_is_wanted_now_is_not_wanted_later(single: bool, passes_s: list[int]) -> None:
    """controller-runtime's queue holds an item once: 30 s run from the end of the last pass."""
    env = Environment()
    passes: list[int] = []

    def reconcile(key: str, finished: Finished) -> None:
        passes.append(env.now_ns // SECOND)
        queue.add_after(key, PERIOD_NS)
        finished(True)

    queue = WorkQueue(env, reconcile, single=single)
    queue.add("w")
    env.call_in(20 * SECOND, queue.add, "w")
    env.run_within(RunBudget(max_time_ns=65 * SECOND))
    assert passes == passes_s


@pytest.mark.parametrize(("changes", "listed_ms", "done_ms"), [(0, 410, 1007), (1, 1410, 2007), (2, 2410, 3007)])
def test_the_end_of_a_pass_has_nodes_of_its_last_list(changes: int, listed_ms: int, done_ms: int) -> None:
    """A list for each change that was not waited for, and one: each is made 0.4 s behind its asking here, answered 10
    ms later, and found by the look a second behind the asking."""
    env = Environment()
    informing = Informing(
        lists=lists(-100, -90), batch=lambda _asked_ns: 400 * MS, begin=lambda: 0, reads=lambda: 7 * MS
    )
    port = SlurmPort(
        cast("SlurmCluster", SimpleNamespace()), env, lambda: "fresh", "", 0, Started(), 0,
        RestCalls(lambda: 10 * MS, lambda: 10 * MS, lambda: 0), informing,
    )  # fmt: skip
    port._last = Slurm("fresh", 0)
    port._behind = changes
    port.states = lambda: (cast("SlurmNode", env.now_ns),)  # type: ignore[method-assign]
    found: list[tuple[object, int]] = []
    port.settle(lambda states: found.append((states[0], env.now_ns)))
    env.run_within(RunBudget(max_time_ns=10 * SECOND))
    assert found == [(listed_ms * MS, done_ms * MS)]
