"""Generated plain runs: a slurm.conf and a workload from one number, for both cores to play.

`python sim/tests/worlds/plain_cases.py [CASES] [FIRST]` plays that many cases (300) from that number on and says which
differ.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from slurmtwin.contract.clock import SECOND, UNLIMITED
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import Scenario
from slurmtwin.models.slurmctld.host_costs import HostCosts
from slurmtwin.worlds.replay import replay_scenario
from slurmtwin.worlds.run import Run
from slurmtwin.worlds.twin import TwinOptions, run_scenario

SIZES: Final = (1, 2, 3, 7, 40, 63, 64, 65, 130)
PARAMETERS: Final = {
    "bf_resolution": (1, 30, 60, 600),
    "bf_window": (1, 10, 60, 120, 2880),
    "bf_window_linear": (1, 60, 600),
    "bf_max_job_test": (1, 5, 30, 1000),
    "bf_node_space_size": (2, 4, 8, 100),
    "bf_interval": (1, 5, 11, 60),
    "sched_interval": (1, 7, 60, 300),
    "batch_sched_delay": (0, 1, 3, 20),
    "default_queue_depth": (1, 2, 10, 1000),
    "sched_max_job_start": (1, 3),
    "sched_min_interval": (2, 500_000, 2_000_000),
    "bf_continue": (None,),
    "defer": (None,),
    "bf_yield_interval": (1_000_000,),
    "bf_yield_sleep": (100_000,),
    "bf_max_time": (10,),
    "bf_hetjob_immediate": (None,),
    "max_sched_time": (1,),
    "build_queue_timeout": (1_000_000,),
    "defer_batch": (None,),
    "nohold_on_prolog_fail": (None,),
}  # fmt: skip
SETTINGS: Final = {
    "OverTimeLimit": (0, 1, 5),
    "MinJobAge": (2, 20, 300, 3600),
    "KillWait": (1, 5, 30, 120),
    "Prolog": ("/bin/true",),
    "Epilog": ("/bin/true",),
    "PriorityType": ("priority/basic", "priority/multifactor"),
    "SlurmdTimeout": (60, 300),
    "FirstJobId": (1, 500),
    "MaxJobCount": (10_000, 10_000_000),
    "ReturnToService": (0, 1, 2),
    "JobRequeue": (0, 1),
    "MessageTimeout": (5, 60),
    "InactiveLimit": (0, 120),
    "EnforcePartLimits": ("NO", "ALL"),
    "MaxArraySize": (10,),
    "SchedulerTimeSlice": (10,),
    "SelectTypeParameters": ("CR_CPU", "CR_Core", "CR_CPU_Memory"),
    "TreeWidth": (2, 16),
}  # fmt: skip


def cluster(nodes: int, version: str = "26.05", parameters: str = "", **conf: Any) -> Scenario:
    """Equal one-CPU nodes with these settings."""
    base = replay_scenario([f"{nodes}x1"], version=version)
    settings = {**base.slurm.conf, **conf}
    if parameters:
        settings["SchedulerParameters"] = parameters
    return base.model_copy(update={"slurm": base.slurm.model_copy(update={"conf": settings})})


def crowd(seed: int, nodes: int) -> Iterator[JobRequest]:
    """A random crowded workload: bursts, jobs beyond their limits or without, that fail, as wide as all nodes."""
    draw = random.Random(seed)
    at_s = 0
    for number in range(1, draw.randint(5, 120)):
        at_s += draw.choice((0, 0, 1, draw.randint(1, 90), draw.randint(1, 900)))
        limit_s = 60 * draw.choice((1, 2, 5, 10, 15, 30, 60, 120)) + draw.choice((0, 0, 7))
        run_s = draw.choice((limit_s * draw.random(), limit_s, limit_s + draw.randint(0, 200)))
        limit_ns = draw.choice((limit_s * SECOND, limit_s * SECOND, limit_s * SECOND, None, UNLIMITED))
        width = min(nodes, draw.choice((1, 1, 2, 3, draw.randint(1, nodes), nodes)))
        asked = {"ntasks": width} if draw.random() < 0.8 else {"nodes_min": width}
        submit_ns = at_s * SECOND + draw.choice((0, 0, 994_200_000, 5))
        yield JobRequest(
            job_id=3 * number, submit_ns=submit_ns, run_ns=int(run_s * SECOND),
            limit_ns=limit_ns, user=f"user{number % 3}", exit_code=draw.choice((0, 0, 0, 3)), **asked,
        )  # fmt: skip


def case(number: int) -> tuple[Scenario, list[JobRequest]]:
    """Case `number`: up to four scheduler parameters and three settings; some in a partition of their own."""
    draw = random.Random(number)
    nodes, version = draw.choice(SIZES), draw.choice(("24.11", "26.05", "26.05"))
    words = []
    for name in draw.sample(sorted(PARAMETERS), draw.choice((0, 1, 2, 4))):
        value = draw.choice(PARAMETERS[name])
        words.append(name if value is None else f"{name}={value}")
    settings = {name: draw.choice(SETTINGS[name]) for name in draw.sample(sorted(SETTINGS), draw.choice((0, 1, 3)))}
    scenario = cluster(nodes, version, ",".join(words), **settings)
    seed = draw.getrandbits(30)
    if nodes < 3 or draw.random() < 0.8:
        return scenario, list(crowd(seed, nodes))
    first, last = draw.randint(1, nodes // 2), draw.randint(nodes // 2 + 1, nodes)
    digits = len(str(nodes))
    part = {"PartitionName": "some", "Nodes": f"a[{first:0{digits}}-{last:0{digits}}]", "PriorityTier": 3}
    slurm = scenario.slurm.model_copy(update={"partitions": [*scenario.slurm.partitions, part]})
    jobs = [replace(job, partition="some") for job in crowd(seed, last - first + 1)]
    return scenario.model_copy(update={"slurm": slurm}), jobs


def played(scenario: Scenario, jobs: list[JobRequest], name: Any, costs: HostCosts | None = None) -> Run:
    """A run by that core, its events kept."""
    return run_scenario(scenario, ".", TwinOptions(keep=True, core=name, costs=costs), iter(jobs))


def difference(scenario: Scenario, jobs: list[JobRequest], costs: HostCosts | None = None) -> str:
    """How the compiled run and the twin's differ, or why compiled code did not play it; "": they are equal."""
    compiled, twin = (played(scenario, jobs, name, costs) for name in ("compiled", "twin"))
    if compiled.manifest.parameters["core"]["name"] != "compiled":
        return f"refused: {compiled.manifest.parameters['core']['why']}"
    assert compiled.kept is not None
    assert twin.kept is not None
    for mine, theirs in zip(compiled.kept, twin.kept, strict=False):
        if mine != theirs:
            return f"compiled {mine}\ntwin     {theirs}"
    if compiled.event_hash != twin.event_hash:
        return f"{len(compiled.kept)} events, the twin {len(twin.kept)}"
    for name in ("events", "engine_events", "simulated_ns"):
        if compiled.manifest.results[name] != twin.manifest.results[name]:
            return f"{name}: {compiled.manifest.results[name]}, the twin {twin.manifest.results[name]}"
    return ""


def _sweep(cases: int, first: int) -> int:
    """Play the cases; how many differ."""
    differ = refused = 0
    for number in range(first, first + cases):
        scenario, jobs = case(number)
        found = difference(scenario, jobs)
        if found.startswith("refused: "):
            refused += 1
        elif found:
            differ += 1
        if found:
            print(f"case {number}: {scenario.slurm.conf}\n{found}", flush=True)  # noqa: T201
    print(f"{cases - refused - differ} equal, {differ} differ, {refused} left to the twin")  # noqa: T201
    return differ


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    raise SystemExit(1 if _sweep(*(given + [300, 1][len(given) :])) else 0)
