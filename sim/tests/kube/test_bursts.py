"""An API server that runs in bursts: what waits, what is served, and when that is over."""

from __future__ import annotations

import bisect
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.campaign.recordings import start_times
from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.pod_durations import DURATIONS
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.engine.environment import Environment
from slurmtwin.models.api_server.bursts import SLOWER_PERCENT, Bursts
from slurmtwin.models.api_server.client import Client
from slurmtwin.models.api_server.objects import Meta, Node
from slurmtwin.models.api_server.server import ApiServer
from slurmtwin.worlds import pod_faults
from slurmtwin.worlds.pod_durations import still_durations
from slurmtwin.worlds.twin import TwinOptions, run_scenario
from slurmtwin_reports.load import load_run

SCENARIOS = Path(__file__).parents[3] / "scenarios"

PAUSE_NS, RUN_NS = 2 * SECOND, 100 * MS


def slow_server() -> tuple[Environment, ApiServer, Bursts, list[int]]:
    """Slow from 1 s on; times of answers to one request of 10 ms, begun at 0.995 s, and of two begun at 1.5 s."""
    env = Environment()
    server, answers = ApiServer(env, lambda: 4 * MS), []
    server.create(Node(meta=Meta(name="n")))
    bursts = Bursts(SECOND, PAUSE_NS, RUN_NS)
    client = Client(server, env, lambda: 10 * MS)

    def ask(again: int) -> None:
        def answered(_node: object) -> None:
            answers.append(env.now_ns)
            if again:
                ask(again - 1)

        client.get(Node, "n", answered)

    env.call_at(SECOND - 15 * MS, ask, 0)
    env.call_at(SECOND, server.slow, bursts)
    env.call_at(SECOND + 500 * MS, ask, 1)
    return env, server, bursts, answers


def test_what_waits_is_served_when_the_server_goes_on_and_more_within_the_same_burst() -> None:
    """Before the pause 10 ms; behind it 10 ms from its end, and the next request 10 ms more."""
    env, _, _, answers = slow_server()
    env.run(10 * SECOND)
    assert answers == [SECOND - 5 * MS, 3 * SECOND + 10 * MS, 3 * SECOND + 20 * MS]


def test_a_watch_tells_of_a_change_in_the_burst_that_makes_it() -> None:
    """Told 4 ms later; what is written 2 ms before the burst's end is told in the next."""
    env = Environment()
    server, heard = ApiServer(env, lambda: 4 * MS), []

    class Handler:
        def happened(self, verb: str, item: object) -> None:
            heard.append(env.now_ns)

        def broken(self) -> None:
            raise AssertionError

    server.watch(Node, Handler())
    server.slow(Bursts(0, PAUSE_NS, RUN_NS))
    for name, at_ns in (("a", 2 * SECOND + 50 * MS), ("b", 2 * SECOND + 98 * MS)):
        env.call_at(at_ns, server.create, Node(meta=Meta(name=name)))
    env.run(10 * SECOND)
    assert heard == [2 * SECOND + 54 * MS, 4 * SECOND + 100 * MS + 2 * MS]


def test_what_waited_is_served_later_by_what_waking_takes() -> None:
    """Not what comes while the server runs; of two cycles each has its own lengths, asked for in any order."""
    more = iter([(3 * MS, 2 * MS), (5 * MS, 0)])
    bursts = Bursts(0, PAUSE_NS, RUN_NS, wake=lambda: 30 * MS, beyond=lambda: next(more))
    second_ns = 2 * PAUSE_NS + RUN_NS + 10 * MS
    assert bursts.done_ns(PAUSE_NS + RUN_NS + SECOND, 10 * MS) == second_ns + 40 * MS
    assert bursts.done_ns(SECOND, 10 * MS) == PAUSE_NS + 43 * MS
    assert bursts.done_ns(PAUSE_NS + 4 * MS, 10 * MS) == PAUSE_NS + 14 * MS
    assert bursts.runs_ns(PAUSE_NS + RUN_NS + 6 * MS) == second_ns


def test_a_change_is_made_at_the_end_of_its_request() -> None:
    """Of a server that always runs half-way: what a request takes was measured until its answer."""
    made = []
    for in_bursts in (False, True):
        env = Environment()
        server = ApiServer(env, lambda: 4 * MS)
        server.on_write.append(lambda *_, env=env: made.append(env.now_ns))
        if in_bursts:
            server.slow(Bursts(0, PAUSE_NS, RUN_NS))
        env.call_at(SECOND, Client(server, env, lambda: 10 * MS).create, Node(meta=Meta(name="n")))
        env.run(10 * SECOND)
    assert made == [SECOND + 5 * MS, PAUSE_NS + 10 * MS]


def test_a_server_that_catches_up_is_slower() -> None:
    """In its bursts alone: 10 ms of 20 are done before the first pause, the others take 15 behind it."""
    bursts = Bursts(SECOND, PAUSE_NS, RUN_NS, slower_percent=150)
    assert bursts.done_ns(SECOND - 30 * MS, 20 * MS) == SECOND - 10 * MS
    assert bursts.done_ns(SECOND - 30 * MS, 0) == SECOND - 30 * MS
    assert bursts.done_ns(SECOND - 10 * MS, 20 * MS) == SECOND + PAUSE_NS + 15 * MS
    assert bursts.done_ns(SECOND + PAUSE_NS + MS, 20 * MS) == SECOND + PAUSE_NS + 31 * MS
    bursts.end(SECOND + PAUSE_NS + 2 * MS)
    assert bursts.done_ns(3 * SECOND + PAUSE_NS, 20 * MS) == 3 * SECOND + PAUSE_NS + 20 * MS


def test_a_server_that_is_quick_again_ends_its_pause_first() -> None:
    """Cleared in a pause: it goes on at that pause's end, and stays."""
    env, server, bursts, answers = slow_server()
    env.call_at(2 * SECOND, server.quick, bursts)
    env.run(3 * SECOND + 500 * MS)
    assert answers[1:] == [3 * SECOND + 10 * MS, 3 * SECOND + 20 * MS]
    assert not server.bursts
    assert server.took_ns(5 * SECOND) == 5 * SECOND


@given(
    st.integers(0, 20 * SECOND), st.integers(0, 500 * MS), st.integers(1, 3 * SECOND), st.integers(10 * MS, SECOND),
    st.none() | st.integers(0, 20 * SECOND),
)  # fmt: skip
def test_work_takes_so_much_of_the_time_in_which_the_server_runs(
    at_ns: int, work_ns: int, pause_ns: int, run_ns: int, cleared_ns: int | None
) -> None:
    """From 5 s on it runs in bursts, at the speed of one that always runs."""
    bursts = Bursts(5 * SECOND, pause_ns, run_ns)
    if cleared_ns is not None and cleared_ns >= bursts.since_ns:
        bursts.end(cleared_ns)
    done_ns = bursts.done_ns(at_ns, work_ns)
    assert run_time(bursts, done_ns) - run_time(bursts, at_ns) == work_ns
    assert bursts.runs_ns(done_ns) == done_ns or run_time(bursts, done_ns - 1) == run_time(bursts, done_ns) - 1


def run_time(bursts: Bursts, at_ns: int) -> int:
    """For how long the server had run by then, since 0."""
    if at_ns <= bursts.since_ns:
        return at_ns
    if bursts.until_ns is not None and at_ns > bursts.until_ns:
        return run_time(bursts, bursts.until_ns) + at_ns - bursts.until_ns
    cycles, into_ns = divmod(at_ns - bursts.since_ns, bursts.pause_ns + bursts.run_ns)
    return bursts.since_ns + cycles * bursts.run_ns + max(0, into_ns - bursts.pause_ns)


@pytest.fixture
def replicated(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[Event], Bursts]:
    """x25-slow-api 7: the signals that it recorded, one replication with each duration 10 ms, and its bursts."""
    made: list[Bursts] = []

    def noted(*places: int, **fields: Any) -> Bursts:
        made.append(Bursts(*places, **fields))
        return made[-1]

    monkeypatch.setattr(pod_faults, "Bursts", noted)
    run = load_run(SCENARIOS / "recordings/x25-slow-api/26.05/pods/7")
    scenario = load_scenario(SCENARIOS / "faults/x25-slow-api.yaml")
    times = start_times(run.manifest, scenario, run.rows())
    durations = {**dict.fromkeys(DURATIONS, (10 * MS,)), **still_durations(), "burst-wake": (30 * MS,)}
    rows = run_scenario(scenario, SCENARIOS, TwinOptions(keep=True, times=times, durations=durations)).kept or []
    (bursts,) = made
    return [row.t_ns for row in run.rows() if row.kind == Kind.FAULT_SIGNALLED], rows, bursts


def test_a_replication_has_the_bursts_that_were_recorded(
    replicated: tuple[list[int], list[Event], Bursts],
) -> None:
    """29 pauses, each of another length; of the last the server is let go on by the clearing."""
    signals_ns, _, bursts = replicated
    assert len(signals_ns) == 58
    assert bursts.since_ns == signals_ns[0]
    for stopped_ns, goes_ns in list(zip(signals_ns[::2], signals_ns[1::2], strict=True))[:-1]:
        assert (bursts.runs_ns(stopped_ns - 1), bursts.runs_ns(stopped_ns)) == (stopped_ns - 1, goes_ns)
    assert bursts.done_ns(signals_ns[0], 0) == signals_ns[1] + 30 * MS
    burst_ns = signals_ns[1] + MS
    assert bursts.done_ns(burst_ns, 10 * MS) == burst_ns + 10 * MS * SLOWER_PERCENT // 100


def test_a_replication_hears_of_pods_only_in_these_bursts(replicated: tuple[list[int], list[Event], Bursts]) -> None:
    """The order itself is made within its recorded call."""
    signals_ns, rows, _ = replicated
    heard = [row.t_ns for row in rows if row.actor == "collector" and row.kind is not Kind.OBJECT_CHANGED]
    heard = [at_ns for at_ns in heard if signals_ns[0] < at_ns < signals_ns[-1]]
    places = [bisect.bisect_right(signals_ns, at_ns) for at_ns in heard]
    assert len(heard) >= 8
    assert [place for place in places if place % 2] == []
