"""What a pod's start takes is drawn once, its container's part is a part of it, and another start makes it longer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.models.kubelet.defaults import VOLUME_POLL_NS
from slurmtwin.worlds.pod_durations import still_durations
from slurmtwin.worlds.pod_starts import Sharing, start_costs
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, run_scenario

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Environment
    from slurmtwin.models.kubelet.container_runtime import StartCosts
    from slurmtwin.worlds.pod_world import PodWorld

FAULTS = Path(__file__).parents[3] / "scenarios" / "faults"
ALONE_NS = 1200 * MS
PARTS_NS = tuple(100 * MS + 200 * MS * place for place in range(5))
DELETED_NS = 26 * SECOND


def rows(replication: int, part_ns: Iterable[int]) -> list[Event]:
    """A worker's pod is deleted, and the next one starts alone; `part_ns`: equally likely parts of its container."""
    durations = {**still_durations(), "pod-start-alone": (ALONE_NS,), "container-start-alone": tuple(part_ns)}
    times = StartTimes(slurmctld_ns=-20 * SECOND, fault_ns=(DELETED_NS,))
    options = TwinOptions(keep=True, times=times, durations=durations, replication=replication)
    return run_scenario(load_scenario(FAULTS / "x46-pod-force-deleted.yaml"), FAULTS, options).kept or []


def spans(replication: int) -> tuple[int, int]:
    """From the new pod's binding, and from its sandbox (the event Pulled), until its container runs, ns."""
    found = [row for row in rows(replication, PARTS_NS) if row.t_ns > DELETED_NS and row.actor == "apiserver"]
    bound = next(row for row in found if row.kind is Kind.POD_SCHEDULED)
    checked = next(row for row in found if row.kind is Kind.KUBE_EVENT and '"Pulled"' in (row.detail or ""))
    runs = next(row for row in found if row.kind is Kind.KUBE_EVENT and '"Started"' in (row.detail or ""))
    return runs.t_ns - bound.t_ns, runs.t_ns - checked.t_ns


def test_the_part_of_the_container_moves_no_pods_start() -> None:
    """A request to the API server and a watch are all that is left of a spread; the container's own part differs."""
    found = [spans(replication) for replication in range(6)]
    whole, parts = zip(*found, strict=True)
    assert all(abs(span - ALONE_NS) < 50 * MS for span in whole)
    assert max(parts) - min(parts) > 200 * MS


def costs_by(clock: SimpleNamespace, operator: str = "") -> StartCosts:
    """A start takes 1 s alone, 2 s of two and 3 s of more, 0.4 of that its container; one that comes back 0.2 s."""
    durations = {
        "pod-start": 3000, "container-start": 1200, "pod-start-alone": 1000, "container-start-alone": 400,
        "pod-start-pair": 2000, "container-start-pair": 800, "container-restart": 200, "volumes-mounted": 100,
        "clean-up": 60, "container-start-behind": 500,
    }  # fmt: skip
    world = SimpleNamespace(
        env=clock, has=lambda *names: set(names) <= set(durations), middle=lambda name: durations[name] * MS,
        draw=lambda name: lambda: durations[name] * MS,
        happens=lambda _: lambda: False,
        streams=SimpleNamespace(uniform_ns=lambda *_: lambda: 0, choice_ns=lambda *_: lambda: 0),
    )  # fmt: skip
    return start_costs(cast("PodWorld", world), Sharing(cast("Environment", clock)), operator)


def test_the_first_of_two_starts_loses_to_the_second_from_its_coming_on() -> None:
    """When the other comes, 0.2 s of its sandbox's 0.6 are left: they count twice, as its container does."""
    clock = SimpleNamespace(now_ns=0)
    costs = costs_by(clock)
    first_ns = costs.sandbox("first")
    clock.now_ns = first_ns - 200 * MS
    second_ns = costs.sandbox("second")
    clock.now_ns = first_ns
    assert first_ns == 600 * MS - VOLUME_POLL_NS
    assert costs.start("first") == 200 * MS + 800 * MS
    clock.now_ns = first_ns - 200 * MS + second_ns
    assert second_ns + costs.start("second") == 2000 * MS - VOLUME_POLL_NS


def test_a_container_that_comes_back_slows_a_start_from_its_coming_on() -> None:
    """It comes 0.1 s before the sandbox stands, and is still on its way then."""
    clock = SimpleNamespace(now_ns=0)
    costs = costs_by(clock)
    sandbox_ns = costs.sandbox("first")
    clock.now_ns = sandbox_ns - 100 * MS
    assert costs.restart() == 200 * MS
    clock.now_ns = sandbox_ns
    assert costs.start("first") == 100 * MS + 800 * MS


def test_a_container_behind_slurm_operators_sidecar_has_a_law_of_its_own() -> None:
    """0.5 s alone where another one takes 0.4, and twice that beside one more start."""
    clock = SimpleNamespace(now_ns=0)
    costs = costs_by(clock, "slinky")
    clock.now_ns = costs.sandbox("first")
    clock.now_ns += costs.start("first")
    assert costs.start("first") == 500 * MS
    costs.sandbox("second")
    clock.now_ns += 500 * MS
    costs = costs_by(clock, "slinky")
    costs.sandbox("second")
    assert costs.start("first") == 1000 * MS
    assert costs_by(clock).start("first") == 400 * MS
