"""Probes of a pod on a node: when they tick, and what their answers do (kubernetes.md 3.2)."""

from __future__ import annotations

from typing import Any

import pytest

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.models.api_server.objects import Container, Probe
from slurmtwin.models.kubelet.container_runtime import ContainerRuntime, StartCosts
from slurmtwin.models.kubelet.program import Service

STARTED, ENDED = Kind.CONTAINER_STARTED, Kind.CONTAINER_ENDED


def test_a_hung_program_is_found_by_three_probes_and_killed_after_its_grace(one_node: Any) -> None:
    """20 to 31 s + 1 s time-out, then 30 s of grace that SIGTERM is not met in, restart without back-off (X2)."""
    node = one_node()
    node.create(Container(name="c", liveness=Probe()))
    node.at(40, lambda: node.program().freeze())
    node.run(110)
    [killing] = node.times(Kind.KUBE_EVENT, reason="Killing")
    [ended] = node.times(ENDED)
    assert 61 <= killing <= 71.1
    assert ended - killing == pytest.approx(30, abs=0.1)
    assert node.times(STARTED)[1] - ended < 0.4
    assert node.pod().status.containers[0].restart_count == 1


def back_at_ms(node: Any) -> float:
    """When a container runs that has ended once."""
    node.create(Container(name="c", liveness=Probe()))
    node.at(40, lambda: node.program().freeze())
    node.run(110)
    return float(node.times(STARTED)[1]) * 1000


@pytest.mark.parametrize(("run_ns", "sooner_ms"), [(None, 60), (60 * SECOND, 0)])
def test_a_sync_that_kills_a_container_is_past_what_another_does_before_it(
    one_node: Any, run_ns: int | None, sooner_ms: int
) -> None:
    """StartCosts.synced_ns is left out behind a probe's kill, and is not behind an end that a sync finds."""
    usual, shortened = (
        back_at_ms(one_node(lambda pod, container: Service(run_ns=run_ns), costs=StartCosts(synced_ns=synced_ms * MS)))
        for synced_ms in (0, 60)
    )
    assert usual - shortened == pytest.approx(sooner_ms, abs=0.01)


def test_a_later_sync_of_the_same_pod_has_killed_nothing(one_node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program hangs once, and when it is back ends by itself."""
    told: list[bool] = []
    start = ContainerRuntime.start_container

    def noted(runtime: ContainerRuntime, *asked: Any) -> None:
        told.append(asked[-1])
        start(runtime, *asked)

    monkeypatch.setattr(ContainerRuntime, "start_container", noted)
    node = one_node(lambda pod, container: Service(run_ns=75 * SECOND))
    node.create(Container(name="c", liveness=Probe()))
    node.at(40, lambda: node.program().freeze())
    node.run(200)
    assert told == [False, True, False]


def killed_s(one_node: Any, seed: int, has_run: bool = False, begun_s: float | None = None) -> float:
    """When a program that hangs at 40 s is killed by its liveness probe, each 10 s."""
    node = one_node(seed=seed, has_run=has_run)
    node.create(Container(name="c", liveness=Probe()))
    if begun_s is not None:
        probes = node.machine.kubelet.probes
        node.at(30, lambda: probes.begun_at(node.pod().meta.uid, round(begun_s * SECOND)))
    node.at(40, lambda: node.program().freeze())
    node.run(75)
    return float(node.times(Kind.KUBE_EVENT, reason="Killing")[0])


def test_only_a_kubelet_that_has_just_started_spreads_its_probes(one_node: Any) -> None:
    """worker.go run(): a random part of the period, within the first period of the process."""
    assert len({killed_s(one_node, seed) for seed in range(4)}) == 4
    together_s = [killed_s(one_node, seed, has_run=True) for seed in range(4)]
    assert max(together_s) - min(together_s) < 0.005, "closing their connections takes 40 to 44 ms"


def test_probes_tick_as_they_would_from_a_first_image_that_was_there_at_another_time(one_node: Any) -> None:
    """Each period later is the same, and a part of it later moves every tick."""
    usual_s = killed_s(one_node, 1, has_run=True, begun_s=2)
    assert killed_s(one_node, 1, has_run=True, begun_s=12) == usual_s
    moved_s = killed_s(one_node, 1, has_run=True, begun_s=5)
    assert (moved_s - usual_s) % 10 == pytest.approx(3)


def test_a_probe_that_times_out_is_told_when_its_connection_is_closed(one_node: Any) -> None:
    """40 to 44 ms behind its second: the kernel of the process that stands still acknowledges no sooner (X2)."""
    node = one_node(has_run=True)
    node.create(Container(name="c", liveness=Probe()))
    probes = node.machine.kubelet.probes
    node.at(30, lambda: probes.stand(node.pod().meta.uid, "c", "liveness", [32 * SECOND]))
    node.at(40, lambda: node.program().freeze())
    node.run(64)
    told_s = node.times(Kind.KUBE_EVENT, reason="Unhealthy")
    assert len(told_s) == 3
    assert all(0.04 <= at_s - (43 + 10 * place) < 0.06 for place, at_s in enumerate(told_s))


def test_healthy_probes_cost_nothing(one_node: Any) -> None:
    """A day of a healthy pod with three probes is not simulated tick by tick."""
    node = one_node()
    node.create(Container(name="c", liveness=Probe(), readiness=Probe(), startup=Probe()))
    node.run(60)
    before = node.env.event_count
    node.run(86_400)
    assert node.env.event_count - before < 5


def test_a_pod_is_ready_when_its_readiness_probe_says_so(one_node: Any) -> None:
    """Refused for 12 s: the period is 5 s, and one success is enough; three failures take it away again."""
    node = one_node(lambda pod, container: Service(ready_ns=12 * SECOND))
    node.create(Container(name="c", readiness=Probe(period_ns=5 * SECOND)))
    node.at(40, lambda: node.program().freeze())
    node.run(80)
    [started], [ready], [unready] = node.times(STARTED), node.times(Kind.POD_READY), node.times(Kind.POD_UNREADY)
    assert 12 <= ready - started <= 18
    assert 51 <= unready <= 57


def test_a_startup_probe_that_never_succeeds_restarts_the_container(one_node: Any) -> None:
    """failureThreshold x period; liveness is not asked before."""
    node = one_node(lambda pod, container: Service(ready_ns=3600 * SECOND))
    node.create(Container(name="c", startup=Probe(failures=2), liveness=Probe()))
    node.run(25)
    reasons = [said["message"] for _, said in node.rows(Kind.KUBE_EVENT) if said["reason"] == "Killing"]
    assert reasons == ["Container c failed startup probe, will be restarted"]
