"""The engine keeps integer time, its tie rule and its budgets."""

import pytest
import simpy

from slurmtwin.contract.clock import DAY, SECOND
from slurmtwin.contract.errors import ModelError
from slurmtwin.engine.environment import Environment, RunBudget


def test_calls_at_one_instant_run_first_in_first_out() -> None:
    """Without a tie seed the order of asking is the order of running."""
    env, seen = Environment(), []
    for name in "abcdef":
        env.call_at(5, seen.append, name)
    env.run_within(RunBudget())
    assert seen == list("abcdef")


def test_a_tie_seed_shuffles_calls_of_one_instant_and_only_those() -> None:
    """Shuffle mode permutes equal times, repeats itself for one seed, and never reorders time."""

    def order(seed: int | None) -> list[tuple[int, int]]:
        env, seen = Environment(tie_seed=seed), []
        for at in (3, 1, 2):
            for name in range(8):
                env.call_at(at, lambda pair: seen.append(pair), (at, name))
        env.run_within(RunBudget())
        return seen

    plain, shuffled = order(None), order(7)
    assert shuffled != plain
    assert order(7) == shuffled
    assert sorted(shuffled) == sorted(plain)
    assert [at for at, _ in shuffled] == [at for at, _ in plain]


def test_a_process_and_a_call_share_one_integer_clock() -> None:
    """SimPy processes run on the same clock, which stays an int."""
    env, seen = Environment(start_ns=-SECOND), []

    def process() -> simpy.events.ProcessGenerator:
        yield env.timeout(2 * SECOND)
        seen.append(env.now_ns)

    env.process(process())
    env.call_in(SECOND, lambda _: seen.append(env.now_ns))
    env.run_within(RunBudget())
    assert seen == [0, SECOND]
    assert type(env.now_ns) is int


def test_a_float_delay_is_refused() -> None:
    """Floats would make equal times unequal: an error at once, naming the simulated time."""
    env = Environment()
    with pytest.raises(ModelError, match="not integer nanoseconds at 0s"):
        env.timeout(0.5)


def test_a_call_in_the_past_is_refused() -> None:
    """Time never runs backwards."""
    env = Environment(start_ns=10)
    with pytest.raises(ModelError, match="lies before now"):
        env.call_at(9, print)


def test_a_cancelled_call_neither_runs_nor_counts() -> None:
    """Cancelling leaves no trace in the event count."""
    env, seen = Environment(), []
    call = env.call_at(1, seen.append, "cancelled")
    env.call_at(2, seen.append, "kept")
    call.cancel()
    env.run_within(RunBudget())
    assert (seen, env.event_count, call.pending) == (["kept"], 1, False)


@pytest.mark.parametrize(
    ("budget", "reason", "events"),
    [
        (RunBudget(max_events=3), "max_events", 3),
        (RunBudget(max_time_ns=4 * DAY), "max_time", 5),
        (RunBudget(), "done", 10),
    ],
)
def test_a_budget_ends_a_run_cleanly_and_says_why(budget: RunBudget, reason: str, events: int) -> None:
    """The run stops before the event that would break the budget; what ran stays."""
    env, seen = Environment(), []
    for day in range(10):
        env.call_at(day * DAY, seen.append, day)
    assert env.run_within(budget) == reason
    assert (len(seen), env.event_count) == (events, events)


def test_a_wall_limit_ends_an_endless_run() -> None:
    """A model that never comes to an end is stopped by real time."""
    env = Environment()

    def again(_: object) -> None:
        env.call_in(1, again)

    env.call_at(0, again)
    assert env.run_within(RunBudget(wall_limit_ns=1)) == "wall_limit"


def test_stop_ends_the_run_after_the_current_event() -> None:
    """A model may end its own run with a reason of its own."""
    env = Environment()
    env.call_at(1, lambda _: env.stop("interrupted"))
    env.call_at(2, pytest.fail)
    assert env.run_within(RunBudget()) == "interrupted"
