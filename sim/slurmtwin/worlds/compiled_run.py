"""Which core plays a run: the twin itself, or compiled code where the run is plain (models/slurmctld/compiled).

Both write the same events. Compiled code takes over when the cluster has booted, before the first job arrives.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.slurm_files import SlurmFiles, parse_conf_text
from slurmtwin.engine.environment import RunBudget
from slurmtwin.workload.slurm_conf import read_slurm_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurmtwin.contract.cluster import ClusterConf
    from slurmtwin.contract.jobs import JobRequest
    from slurmtwin.contract.scenario import Scenario
    from slurmtwin.worlds.twin import TwinOptions, TwinWorld

WORTH_COMPILING: Final = 2000
"""Jobs from which on compiled code pays for being loaded."""


def scenario_reason(scenario: Scenario, options: TwinOptions, first: list[JobRequest]) -> str | None:
    """Why this run is left to the twin, as far as that shows before it begins; None: compiled code may try.

    first: more than WORTH_COMPILING requests, or all there are.
    """
    budget = scenario.budget
    times = options.times
    if options.core == "twin":
        return "asked for"
    if options.core != "compiled" and len(first) <= WORTH_COMPILING:
        return f"no more than {WORTH_COMPILING} jobs"
    if not first:
        return "no jobs"
    if find_spec("numba") is None:
        return "numba is not installed"
    if scenario.faults or scenario.pods is not None or scenario.workload.dispatch is not None:
        return "faults, pods or a dispatcher"
    if scenario.workload.users is not None:
        return "users who react"
    if scenario.host.noise or options.tie_seed is not None or options.watch is not None or options.on_start is not None:
        return "random or watched"
    if options.durations or options.scaled:
        return "durations of its own"
    if (budget.max_events, budget.max_time, budget.wall_limit) != (None, None, None):
        return "a budget"
    if times.submit_ns or times.fault_ns or max(times.slurmctld_ns, times.slurmd_ns) >= 0:
        return "times of a recording"
    return None


@lru_cache(maxsize=4)
def _usual_conf(version: str) -> ClusterConf:
    """What a slurm.conf without any option says."""
    lines = parse_conf_text("NodeName=n CPUs=1\nPartitionName=all Nodes=ALL\n", "slurm.conf")
    return read_slurm_files(SlurmFiles(tuple(lines)), version)[0]


def play_compiled(world: TwinWorld, first: JobRequest, requests: Iterator[JobRequest]) -> str | None:
    """Play a world that has started to its end. The reason why not, as long as nothing but the boot has happened.

    Raises NotPlainError when the run turns out not to be plain later: then it must begin anew.
    """
    from slurmtwin.models.slurmctld.compiled.eligible import JobShapes, cluster_reason

    env, cluster = world.env, world.cluster
    env.run_within(RunBudget(max_time_ns=-1))
    env.stop_reason = ""
    reason = cluster_reason(cluster, world.costs, _usual_conf(cluster.conf.version)) or world.unknown_plans()
    if reason is not None:
        return reason
    assert cluster.ctld is not None
    shapes = JobShapes(cluster.ctld)
    row = shapes.row(first)
    if isinstance(row, str):
        return f"job {first.job_id}: {row}"
    from slurmtwin.models.slurmctld.compiled.core import CompiledRun
    from slurmtwin.models.slurmctld.compiled.handover import boot_of

    boot = boot_of(cluster, shapes.part_index, 0, world.settle_ns(), world.stall_ns)
    if isinstance(boot, str):
        return boot
    run = CompiledRun(boot, shapes, requests, world.sink)
    run.play()
    env.played_elsewhere(run.now_ns, run.event_count)
    return None
