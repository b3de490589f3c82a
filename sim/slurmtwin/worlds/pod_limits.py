"""What limits of a worker's pod make of its processes: durations under a CPU limit (models/kubelet/cpu_quota.py), what
a job writes into a full volume.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

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
    """slurmd's start, of this duration; under a limit what it has of the CPU takes longer."""
    start, phase = _slurmd_start(world, name), _phase(world)
    limit = milli_cpu(pods.cpu) if pods.cpu and not pods.operator else 0
    if not limit:
        return start

    def limited() -> int:
        alone_ns = start()
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
        phase=_phase(world),
    )  # fmt: skip


def _phase(world: PodWorld) -> Draw:
    return world.streams.uniform_ns("cpu.period", 0, PERIOD_NS)
