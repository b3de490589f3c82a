"""When a lost SYN is sent again, and how many refusals a node sends: Linux's rules."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.adapters.lost_calls import BURST, Refusals, given_up_ns, syn_again_ns
from slurmtwin.contract.clock import SECOND


def test_a_syn_is_sent_again_each_second_four_times_then_ever_more_rarely() -> None:
    """tcp_syn_linear_timeouts is 4: one more second, then doubled."""
    assert [syn_again_ns(0, again) // SECOND for again in range(7)] == [1, 2, 3, 4, 5, 7, 11]


def test_six_at_once_are_refused_and_then_one_a_second() -> None:
    """Eight calls of two passes: two of them wait."""
    refusals = Refusals()
    assert refusals.sent(0, 8) == BURST
    assert [refusals.sent(n * SECOND, 2) for n in (1, 2, 4)] == [1, 1, 2]


@given(st.lists(st.tuples(st.integers(0, 5 * SECOND), st.integers(0, 9)), max_size=40))
def test_never_more_refusals_than_the_burst_and_one_a_second(asked: list[tuple[int, int]]) -> None:
    """Whatever is asked, and when."""
    refusals, now_ns, sent = Refusals(), 0, 0
    for pause_ns, wanted in asked:
        now_ns += pause_ns
        got = refusals.sent(now_ns, wanted)
        sent += got
        assert 0 <= got <= wanted
    assert sent <= BURST + now_ns // SECOND


def test_a_call_without_a_limit_ends_when_its_syn_is_given_up() -> None:
    """Eleven SYNs in 131 s: an outage of any length is over for the caller then."""
    assert given_up_ns(0, 0) == syn_again_ns(0, 10) == syn_again_ns(0, 99) == 131 * SECOND
    assert given_up_ns(5 * SECOND, 10 * SECOND) == 15 * SECOND
    assert given_up_ns(0, 600 * SECOND) == 131 * SECOND
    times = [syn_again_ns(0, again) for again in range(11)]
    assert times == sorted(set(times))
