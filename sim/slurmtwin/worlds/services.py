"""Services beside Slurm: their load over the day, the machines it wants, and the steps that take them from Slurm.

An autoscaler looks at the load now and then, as the HorizontalPodAutoscaler does, and keeps what was wanted within its
stabilization window. What services do not want is the worker pods': each change is an `operator.scale` step, so what a
scale-in does to jobs, and how long services wait for a machine, is the operator's design.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from slurmtwin.contract.clock import DAY
from slurmtwin.contract.operator_steps import OperatorStep
from slurmtwin.engine.random_streams import generator

if TYPE_CHECKING:
    from slurmtwin.contract.demand import Services
    from slurmtwin.contract.scenario import Scenario


def with_services(scenario: Scenario, seed: int) -> Scenario:
    """The scenario with what its services take and give back written out as steps, in order of time."""
    services, pods = scenario.workload.services, scenario.pods
    if services is None or not services.lends:
        return scenario
    begin = pods.replicas if pods is not None and pods.replicas is not None else services.machines
    steps = scale_steps(services, begin, seed)
    faults = sorted([*scenario.faults, *steps], key=lambda fault: fault.at)
    return scenario.model_copy(update={"faults": faults})


def scale_steps(services: Services, begin: int, seed: int) -> list[OperatorStep]:
    """The steps of the worker pods, of which there are `begin` at first; equal seeds give equal steps."""
    count, out = begin, []
    for at_ns, wanted in wanted_machines(services, seed):
        rest = services.machines - wanted
        if rest != count:
            out.append(OperatorStep(at=f"{at_ns}ns", kind="operator.scale", target=services.target, count=rest))
            count = rest
    return out


def wanted_machines(services: Services, seed: int) -> list[tuple[int, int]]:
    """(time in ns, machines that services ask for) at each look."""
    looks = services.lasts // services.look + 1
    noise = generator(seed, 0, "services.load").normal(0.0, 1.0, looks).tolist()
    asked = [
        min(services.machines, math.ceil(load_at(services, i * services.look) * math.exp(services.spread * z)
                                         / services.per_machine))
        for i, z in enumerate(noise)
    ]  # fmt: skip
    kept = services.keep // services.look
    return [(i * services.look, max(asked[max(0, i - kept) : i + 1])) for i in range(looks)]


def load_at(services: Services, at_ns: int) -> float:
    """Requests per second at a time of day, before the draw."""
    swing = (1 + math.cos(2 * math.pi * ((at_ns - services.peak) % DAY) / DAY)) / 2
    return services.low + (services.high - services.low) * swing
