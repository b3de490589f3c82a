"""The way to slurmctld through its Service: when a pod is reached by its name, and which one of two."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.engine.environment import Environment, RunBudget
from slurmtwin.models.api_server.objects import Condition, Endpoints, Meta, Pod, Service
from slurmtwin.models.api_server.server import ApiServer
from slurmtwin.worlds.service_ways import ServiceRules
from slurmtwin.worlds.twin import TwinOptions, run_scenario

FAULTS = Path(__file__).parents[3] / "scenarios" / "faults"


@pytest.fixture(scope="module")
def moved() -> list[Event]:
    """slurmctld's host freezes, and its Deployment moves."""
    scenario = load_scenario(FAULTS / "x3-controller-host-deployment.yaml")
    return run_scenario(scenario, FAULTS, TwinOptions(keep=True)).kept or []


def told(rows: list[Event], kind: Kind, after_ns: int = -100 * SECOND, actor: str = "observer") -> list[int]:
    """Times of livez rows, or of another actor's."""
    return [
        r.t_ns for r in rows
        if r.kind is kind and r.actor == actor and r.t_ns >= after_ns and (actor != "observer" or "livez" in r.detail)
    ]  # fmt: skip


def test_a_new_slurmctld_is_reached_once_its_kubelet_has_reported_its_pod() -> None:
    """Its Service has no address before; the collector has the same status 5 to 40 ms after the server."""
    scenario = load_scenario(FAULTS / "x10-config-new-pod.yaml")
    rows = run_scenario(scenario, FAULTS, TwinOptions(keep=True)).kept or []
    _, started = [r.t_ns for r in rows if r.kind is Kind.SLURMCTLD_STARTED]
    _, reported = [
        r.t_ns for r in rows
        if r.kind is Kind.CONTAINER_STARTED and r.actor == "collector" and '"slurmctld"' in (r.detail or "")
    ]  # fmt: skip
    [answered] = told(rows, Kind.CLIENT_ANSWERED, started)
    assert started < reported - 40 * MS <= answered < reported + SECOND


def test_while_a_frozen_pod_keeps_its_address_every_second_question_is_refused(moved: list[Event]) -> None:
    """From the successor's start to the thaw: a question that is not answered takes a second, one that is a quarter."""
    _, second = [r.t_ns for r in moved if r.kind is Kind.SLURMCTLD_STARTED]
    thaw = next(r.t_ns for r in moved if r.kind is Kind.FAULT_CLEARED)
    answered = [t for t in told(moved, Kind.CLIENT_ANSWERED, second) if t < thaw]
    refused = [t for t in told(moved, Kind.CLIENT_REFUSED, second) if t < thaw]
    expected = (thaw - second) / (1.5 * SECOND) / 2  # two questions take 1.5 s, every other one changes the answer
    assert 0.5 * expected < len(answered) < 2 * expected
    assert abs(len(answered) - len(refused)) <= 1


@pytest.mark.parametrize(("rules_ns", "times_s"), [(SECOND, [5.052, 6.102]), (SECOND // 2, [5.052, 5.602, 6.152])])
def test_rules_are_written_a_second_after_the_last_time_at_the_soonest(rules_ns: int, times_s: list[float]) -> None:
    """minSyncPeriod from the end of a writing, whatever Service's slices have changed; a headless one has no rules."""
    env = Environment()
    server = ApiServer(env)
    rules = ServiceRules(env, server, {}, lambda: 2 * MS, lambda: 50 * MS, rules_ns)
    seen: list[tuple[float, dict[str, tuple[str, ...]]]] = []
    rules.changed = lambda: seen.append((env.now_ns / SECOND, dict(rules.pods)))

    def change(name: str, *pods: str) -> None:
        key, addresses = f"ns/{name}", dict.fromkeys(pods, "10.0.0.1")
        if server.find(Endpoints, key) is None:
            server.create(Service(meta=Meta(name=name, namespace="ns"), headless=name == "quiet"))
            server.create(Endpoints(meta=Meta(name=name, namespace="ns"), addresses=addresses))
        else:
            server.patch(Endpoints, key, lambda e: replace(e, addresses=addresses))

    for at_s, name, *pods in ((5, "a", "old"), (5.3, "b", "x"), (5.6, "a", "old", "new"), (9, "quiet", "w")):
        env.call_at(round(at_s * SECOND), lambda mark: change(*mark), (name, *pods))
    env.run_within(RunBudget())
    assert [at_s for at_s, _ in seen] == times_s
    assert seen[0][1] == {"ns/a": ("ns/old",)}
    assert seen[-1][1] == {"ns/a": ("ns/old", "ns/new"), "ns/b": ("ns/x",)}


def test_a_pod_that_begins_to_end_delays_the_rules_of_its_successor() -> None:
    """Its endpoint changes, so rules are written, and not again for a second; a pod behind no address changes none."""
    env = Environment()
    server = ApiServer(env)
    rules = ServiceRules(env, server, {}, lambda: 2 * MS, lambda: 50 * MS)
    seen: list[float] = []
    rules.changed = lambda: seen.append(env.now_ns / SECOND)
    server.create(Service(meta=Meta(name="a", namespace="ns")))
    server.create(Pod(meta=Meta(name="one", namespace="ns")))
    server.create(Pod(meta=Meta(name="other", namespace="ns")))
    server.create(Endpoints(meta=Meta(name="a", namespace="ns"), addresses={"one": "10.0.0.1"}))

    def unready(name: str, ready: bool) -> None:
        conditions = {"Ready": Condition("True" if ready else "False", env.now_ns)}
        server.patch(Pod, f"ns/{name}", lambda pod: replace(pod, status=replace(pod.status, conditions=conditions)))

    def moved() -> None:
        server.patch(Endpoints, "ns/a", lambda e: replace(e, addresses={"two": "10.0.0.2"}))

    env.call_at(5 * SECOND, lambda _: unready("other", True))
    env.call_at(6 * SECOND, lambda _: unready("one", True))
    env.call_at(6500 * MS, lambda _: moved())
    env.run_within(RunBudget())
    assert seen == [0.052, 6.052, 7.102]
