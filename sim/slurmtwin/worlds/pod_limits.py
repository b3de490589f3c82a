"""What limits of a worker's pod make of its processes: durations under a CPU limit (models/kubelet/cpu_quota.py), what
a job writes into a full volume.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import MS
from slurmtwin.contract.quantity import KIB, milli_cpu
from slurmtwin.models.kubelet.cpu_quota import PERIOD_NS, CpuQuota
from slurmtwin.models.slurm_pods.settings import Growth
from slurmtwin.worlds.pod_durations import SLURMD_START_PARTS

if TYPE_CHECKING:
    from slurmtwin.contract.pods import PodsSection
    from slurmtwin.worlds.pod_world import PodWorld

Draw = Callable[[], int]
ON_CPU: Final = 0.6
"""The part of a start that is CPU time. Twelve jobs that started under 100m, before the fault of x63-oom-process and
x63-oom-group, had their script 31 to 321 ms later (median 125) where the quiet ones without a limit have it after 33:
so much of that gives a median of 124."""
LIMITED: Final = "reference"
"""Operator whose workers have a CPU limit; those of slurm-operator have none where it was recorded."""
WORKER_MILLI_CPU: Final = 50
"""That limit (e2e/operators/reference/operator.yaml)."""
WAITS_NS: Final = 97 * MS
"""A script writes when it began and then starts its sleep. 34 of 122 under that limit were 83 to 112 ms longer than
their time (quartiles 96 and 98), as a period of 100 ms that had given its 5 ms of CPU just then; without a limit 4 of
1,300 were 85 ms longer."""
LATE_MIB: Final = (
    0.0, 0.0, 0.02, 0.02, 0.04, 0.08, 0.1, 0.14, 0.16, 0.27, 0.38, 0.74, 0.83, 0.87, 0.96, 1.14, 1.22, 1.23, 1.43, 1.51,
    1.64, 1.73, 1.92, 2.03, 2.17, 2.27, 2.29, 2.93, 3.07, 3.65,
)  # fmt: skip
"""What a job had still written when its container was gone, in 30 containers without a cluster (AMD EPYC, 24 November
2026, `python -m slurmtwin_e2e.kind.full_volume`)."""


def late_fill(world: PodWorld) -> Draw:
    """Bytes that a job writes beyond the limit which kills it."""
    return world.streams.choice_ns("volume.late", [round(mib * 1024) * KIB for mib in LATE_MIB])


def limited_start(world: PodWorld, pods: PodsSection, name: str = "slurmd-start") -> Draw:
    """slurmd's start, of this duration; under a limit what it has of the CPU takes longer. Of the reference operator's
    workers that is measured.
    """
    if pods.operator == LIMITED:
        return world.draw("slurmd-limited")
    return _under_limit(world, milli_cpu(pods.cpu) if pods.cpu and not pods.operator else 0, _slurmd_start(world, name))


def limited_launch(world: PodWorld, pods: PodsSection) -> Draw:
    """A job's launch: under the limit of the reference operator's workers what it has of the CPU takes longer."""
    return _under_limit(world, WORKER_MILLI_CPU if pods.operator == LIMITED else 0, world.draw("script-launch"))


def limited_script(world: PodWorld, pods: PodsSection) -> Draw | None:
    """How much later a script that began goes on: none of its period's CPU may be left. None: never."""
    if pods.operator != LIMITED:
        return None
    waits = world.happens("script.waits")
    return lambda: WAITS_NS if waits() else 0


def _under_limit(world: PodWorld, limit: int, alone: Draw) -> Draw:
    phase = _phase(world)
    if not limit:
        return alone

    def limited() -> int:
        alone_ns = alone()
        work_ns = round(alone_ns * ON_CPU)
        return alone_ns - work_ns + CpuQuota(limit, phase()).done_ns(0, work_ns)

    return limited


def _slurmd_start(world: PodWorld, name: str) -> Draw:
    start, part = world.draw(name), SLURMD_START_PARTS.get(world.cluster.conf.version, 1)
    return lambda: round(part * start())


def growth(world: PodWorld) -> Growth:
    """How a job outgrows its pod."""
    return Growth(
        start=world.draw("growth-start"), work=world.draw("growth-step"), wake=world.draw("growth-wake"),
        exit=world.draw("growth-exit"), tells_on_cpu=ON_CPU, phase=_phase(world),
    )  # fmt: skip


def _phase(world: PodWorld) -> Draw:
    return world.streams.uniform_ns("cpu.period", 0, PERIOD_NS)
