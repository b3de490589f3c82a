"""Which cluster a job is sent to, when it is sent again, and what becomes of the copy that was left behind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.contract import scenario
from slurmtwin_operator.core import job_dispatch
from slurmtwin_operator.core.job_dispatch import (
    COPY,
    Heard,
    JobPlan,
    Memory,
    Order,
    Outcome,
    Rules,
    Told,
    first_memory,
    plan_jobs,
)

S = 1_000_000_000
RULES = Rules(clusters=("a", "b"), lost_after_ns=20 * S)
FREE = (Heard("a", 1, True, 2, 0), Heard("b", 1, True, 2, 0))


def sent(plan: JobPlan) -> list[tuple[str, int]]:
    """(cluster, copy) of the submits."""
    return [(name, order.copy_number) for name, order in plan.submits]


def after(*arrived: int, rules: Rules = RULES) -> tuple[JobPlan, Memory]:
    """Both clusters answered and are free; these jobs of one CPU came."""
    plan = plan_jobs(rules, first_memory(rules, 0), 2, heard=FREE, arrived=[Order(n, 1) for n in arrived])
    return plan, plan.memory


def taken(memory: Memory, cluster: str, copy: int, outcome: Outcome = "taken", rules: Rules = RULES) -> Memory:
    """The memory once that submit was answered."""
    return plan_jobs(rules, memory, 3, told=[Told(cluster, copy, outcome, 3)]).memory


def test_copies_have_the_numbers_of_the_scenario() -> None:
    """The twin's tables and the real ones name a copy alike."""
    assert COPY == scenario.COPY


def test_without_memory_of_its_own_all_go_where_it_looked_free() -> None:
    """Until it hears again; one that remembers what it sent deals them out."""
    assert sent(after(1, 2, 3)[0]) == [("a", 1), ("a", 2), ("a", 3)]
    remembers = replace(RULES, remembers=True)
    assert sent(after(1, 2, 3, rules=remembers)[0]) == [("a", 1), ("b", 2), ("a", 3)]


def test_a_fuller_cluster_is_not_chosen() -> None:
    """Load counts for the CPUs there are: 2 of 8 is less than 1 of 2; a job goes only where it fits."""
    heard = (Heard("a", 1, True, 2, 1), Heard("b", 1, True, 8, 2))
    plan = plan_jobs(RULES, first_memory(RULES, 0), 2, heard=heard, arrived=[Order(1, 1), Order(2, 4)])
    assert sent(plan) == [("b", 1), ("b", 2)]


def test_a_job_waits_while_no_cluster_answers() -> None:
    """It is sent with the first answer."""
    plan = plan_jobs(RULES, first_memory(RULES, 0), 2, heard=[Heard("a", 1), Heard("b", 1)], arrived=[Order(1, 1)])
    assert not plan.submits
    assert sent(plan_jobs(RULES, plan.memory, 5, heard=[Heard("b", 4, True, 2, 0)])) == [("b", 1)]


def test_a_silent_cluster_loses_its_jobs_when_the_time_is_over_and_not_before() -> None:
    """Another copy goes to the other cluster, once; the plan says when to look."""
    memory = taken(after(1)[1], "a", 1)
    memory = plan_jobs(RULES, memory, 5 * S, heard=[Heard("b", 5 * S, True, 2, 0), Heard("a", 5 * S)]).memory
    before = plan_jobs(RULES, memory, 20 * S)
    assert (before.submits, before.again_ns) == ((), 20 * S + 1)
    lost = plan_jobs(RULES, before.memory, 20 * S + 1)
    assert (lost.lost, sent(lost)) == (("a",), [("b", 1 + COPY)])
    assert not plan_jobs(RULES, lost.memory, 30 * S, heard=[Heard("b", 29 * S, True, 2, 1, (1 + COPY,))]).submits


def test_silence_counts_from_the_last_answer() -> None:
    """One that answered in between keeps its jobs."""
    memory = taken(after(1)[1], "a", 1)
    memory = plan_jobs(RULES, memory, 15 * S, heard=[Heard("a", 15 * S, True, 2, 1, (1,))]).memory
    assert not plan_jobs(RULES, memory, 34 * S).lost
    assert plan_jobs(RULES, memory, 35 * S).lost == ("a",)


def test_the_copy_left_behind_is_cancelled_as_soon_as_its_cluster_answers() -> None:
    """At each answer that still lists it; then it is forgotten."""
    memory = taken(after(1)[1], "a", 1)
    memory = plan_jobs(RULES, memory, 19 * S, heard=[Heard("b", 19 * S, True, 2, 0)]).memory
    memory = plan_jobs(RULES, memory, 25 * S).memory
    back = plan_jobs(RULES, memory, 30 * S, heard=[Heard("a", 30 * S, True, 2, 1, (1,))])
    assert back.cancels == (("a", 1),)
    assert back.submits == ()
    gone = plan_jobs(RULES, back.memory, 35 * S, heard=[Heard("a", 35 * S, True, 2, 0)])
    assert gone.cancels == ()
    assert [held.order.copy_number for held in gone.memory.held] == [1 + COPY]


def test_a_submit_without_an_answer_is_no_second_job() -> None:
    """It may have come through: an answer asked for later tells, an older one does not."""
    memory = taken(after(1)[1], "a", 1, "silent")
    assert not plan_jobs(RULES, memory, 4, heard=[Heard("a", 2, True, 2, 0)]).submits
    came = plan_jobs(RULES, memory, 9, heard=[Heard("a", 8, True, 2, 1, (1,))])
    assert (came.submits, [held.state for held in came.memory.held]) == ((), ["there"])
    lost = plan_jobs(RULES, memory, 9, heard=[Heard("a", 8, True, 2, 0)])
    assert sent(lost) == [("a", 1)]


def test_an_answer_that_passes_a_submit_under_way_says_nothing_of_it() -> None:
    """Asked for after the submit and answered before it: the first recording of x83-cut-and-back ran a copy twice."""
    plan, memory = after(1)
    assert sent(plan) == [("a", 1)]
    passed = plan_jobs(RULES, memory, 5, heard=[Heard("a", 4, True, 2, 0)])
    assert passed.submits == ()
    assert [held.state for held in plan_jobs(RULES, passed.memory, 6, told=[Told("a", 1, "taken", 6)]).memory.held] == [
        "there"
    ]


def test_a_refused_job_is_over() -> None:
    """It is not sent anywhere again."""
    memory = taken(after(1)[1], "a", 1, "refused")
    assert memory.held == memory.waiting == ()


def test_a_cluster_of_silent_submits_is_out_of_reach() -> None:
    """The next job goes elsewhere, though it was equal before."""
    memory = taken(after(1)[1], "a", 1, "silent")
    assert sent(plan_jobs(RULES, memory, 4, arrived=[Order(2, 1)])) == [("b", 2)]


def test_with_lost_after_zero_nothing_is_ever_sent_again() -> None:
    """However long the silence."""
    rules = replace(RULES, lost_after_ns=0)
    memory = taken(after(1, rules=rules)[1], "a", 1, rules=rules)
    plan = plan_jobs(rules, memory, 10_000 * S)
    assert (plan.lost, plan.again_ns) == ((), -1)


steps = st.lists(
    st.tuples(st.sampled_from("ab"), st.booleans(), st.integers(0, 12), st.booleans(), st.booleans()), max_size=30
)


def story(events: list[tuple[str, bool, int, bool, bool]]) -> list[tuple[str, int]]:
    """Five jobs through random answers, silences and lost submits, with clusters that keep what they took.

    Raises AssertionError where a job has two copies that the dispatcher believes in. Returns every submit.
    """
    rules = replace(RULES, remembers=True)
    memory, now = first_memory(rules, 0), 0
    there: dict[str, set[int]] = {"a": set(), "b": set()}
    submits: list[tuple[str, int]] = []
    arrived = [Order(n, 1) for n in range(1, 6)]
    for name, answers, wait_s, comes_through, ends in events:
        now += wait_s * S + 1
        if ends and there[name]:
            there[name].discard(min(there[name]))
        heard = Heard(name, now, answers, 4, len(there[name]), tuple(sorted(there[name]))) if answers else None
        plan = plan_jobs(rules, memory, now, heard=[heard or Heard(name, now)], arrived=arrived)
        arrived, memory = [], plan.memory
        for where, copy in plan.cancels:
            assert copy in there[where]
            there[where].discard(copy)
        for where, order in plan.submits:
            submits.append((where, order.copy_number))
            now += 1
            if comes_through:
                there[where].add(order.copy_number)
            outcome: Outcome = "taken" if comes_through and answers else "silent"
            memory = plan_jobs(rules, memory, now, told=[Told(where, order.copy_number, outcome, now)]).memory
        believed = [held.order.number for held in memory.held if held.state != "left"]
        believed += [order.number for order in memory.waiting]
        assert len(believed) == len(set(believed))
    return submits


@given(steps)
def test_no_job_has_two_copies_that_are_believed_in(events: list[tuple[str, bool, int, bool, bool]]) -> None:
    """Whatever comes through and whoever answers; and a copy's number is sent twice only to where it never came."""
    story(events)


def test_a_dispatcher_that_forgets_its_submits_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted mistake: a job that was sent waits on, and is sent again."""
    real = job_dispatch._place

    def forgetful(rules: Rules, memory: Memory, now: int) -> tuple[Memory, tuple[tuple[str, Order], ...]]:
        made, submits = real(rules, memory, now)
        return replace(made, waiting=(*made.waiting, *(order for _, order in submits))), submits

    monkeypatch.setattr(job_dispatch, "_place", forgetful)
    with pytest.raises(AssertionError):
        story([("a", True, 0, True, False), ("b", True, 1, True, False)])
