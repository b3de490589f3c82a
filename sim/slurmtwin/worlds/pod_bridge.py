"""slurm-bridge in the twin of pods: its processes, the nodes it bridges, and the pods that a scenario gives it.

Slurm's nodes are the machines themselves (State=EXTERNAL, no slurmd), or the slurmd pods on them, one to a machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.errors import InputError, UnsupportedError
from slurmtwin.contract.hostlist import expand
from slurmtwin.contract.quantity import milli_cpu, quantity_bytes
from slurmtwin.models.api_server.client import Client
from slurmtwin.models.api_server.objects import Container, Meta, Object, Pod, PodSpec, Service
from slurmtwin.models.api_server.watch import DELETED
from slurmtwin.models.controllers.defaults import defaults_of
from slurmtwin.models.slurm_bridge import objects as marks
from slurmtwin.models.slurm_bridge.bridge import Bridge
from slurmtwin.models.slurm_bridge.rest import BridgeRest, RestCosts
from slurmtwin.worlds import pod_objects
from slurmtwin.worlds.pod_operator import carried, design_of, operator_restart, switched
from slurmtwin.worlds.pod_others import IMAGE

if TYPE_CHECKING:
    from slurmtwin.contract.operator_steps import OperatorStep
    from slurmtwin.contract.pods import BridgedPods
    from slurmtwin.contract.scenario import Scenario
    from slurmtwin.worlds.pod_world import KubePart, PodWorld

EXTERNAL: Final = "EXTERNAL"


def is_bridge(scenario: Scenario) -> bool:
    """The operator of its pods is slurm-bridge: Slurm schedules pods, and nobody makes workers."""
    pods = scenario.pods
    return pods is not None and bool(pods.operator) and design_of(pods.operator).switches.pod_jobs == "external"


def external_nodes(scenario: Scenario) -> list[str]:
    """Slurm's nodes that are machines without slurmd."""
    out: list[str] = []
    for line in scenario.slurm.nodes:
        if str(line.get("State", "")).upper() == EXTERNAL:
            out += expand(str(line["NodeName"]))
    return out


class BridgePart:
    """slurm-bridge of a world, and its pods."""

    def __init__(self, kube: KubePart, world: PodWorld, scenario: Scenario, settings: Mapping[str, Any]) -> None:
        assert scenario.pods is not None
        self._kube = kube
        self._world = world
        self._scenario = scenario
        self._pods = scenario.pods
        design = carried(design_of(scenario.pods.operator), settings)
        switched(design, scenario.pods.switches)
        if scenario.pods.switches:
            raise UnsupportedError("slurm-bridge in the twin has no switches: it is a model of its source")
        carrier = design.carrier
        defaults = replace(
            defaults_of(kube.kubernetes), back_off_first_ns=carrier.backoff_base_ms * MS,
            back_off_most_ns=carrier.backoff_cap_s * SECOND,
        )  # fmt: skip
        rest = BridgeRest(world.cluster, self._serves, RestCosts())
        names = {name: name for name in external_nodes(scenario)}
        odd = sorted(set(names) - set(kube.machines))
        if odd:
            raise InputError(f"node {odd[0]}: State=EXTERNAL in pods is a machine of the cluster", hint="worker1")
        self.bridge = Bridge(
            world.env, kube.server, world.sink, rest, defaults, world.streams, names, kube.request,
            period_ns=world.scaled("operator-poll", carrier.poll_s * SECOND), restart=operator_restart(world),
        )  # fmt: skip
        self._client = Client(kube.server, world.env, kube.request)
        self._to_come = sum(line.count * line.gang for line in self._pods.bridged)
        self._live: dict[str, None] = {}
        kube.server.on_write.append(self._written)
        world.cluster.on_serving.append(self._serving)

    @property
    def busy(self) -> bool:
        """Pods are still to come, wait, run or stop."""
        return bool(self._to_come or self._live)

    def start(self, at_ns: int) -> None:
        """The processes now, the pods at their times."""
        env = self._world.env
        env.call_at(at_ns, lambda _: self.bridge.start())
        for line in self._pods.bridged:
            env.call_at(max(line.at, env.now_ns), self._group, (line, 0))

    def workers(self) -> list[Object]:
        """What runs slurmd beside the pods: nothing where the nodes are EXTERNAL."""
        if external_nodes(self._scenario):
            return []
        return pod_objects.workers(self._kube.namespace, self._scenario, self._pods, (marks.TOLERATION,))

    def over(self, number: int) -> None:
        """A job of the workload is over."""
        self.bridge.job_over(number)

    def step(self, step: OperatorStep) -> Callable[[], None]:
        """No step of an operator is one of the bridge."""
        raise UnsupportedError(f"{step.kind}: slurm-bridge keeps no workers")

    # the pods

    def _group(self, mark: tuple[BridgedPods, int]) -> None:
        line, number = mark
        alone = line.count == line.gang == 1
        for member in range(line.gang):
            place = number * line.gang + member
            self._client.create(bridged_pod(line, line.name if alone else f"{line.name}-{place}", number, self._space))
        if number + 1 < line.count:
            self._world.env.call_in(line.every, self._group, (line, number + 1))

    @property
    def _space(self) -> str:
        return self._kube.namespace

    def _written(self, verb: str, old: object, new: object) -> None:
        if type(new) is not Pod or new.spec.scheduler != marks.SCHEDULER:
            return
        key = new.meta.key
        if old is None:
            self._to_come -= 1
            self._live[key] = None
        elif (verb == DELETED or new.finished) and key in self._live:
            del self._live[key]
            if not self.busy:
                self._world.part_over()

    # slurmrestd

    def _serves(self) -> bool:
        """A slurmrestd pod serves, and the bridge reaches it."""
        server, faults = self._kube.server, self._kube.faults
        if faults.tarpit or faults.rest_cut or faults.operator_cut or not faults.resolves():
            return False
        if server.find(Service, f"{self._space}/slurmrestd") is None:
            return False
        if faults.keys is not None and faults.keys.operator_refused(self.bridge.began_ns):
            return False
        return self._kube.rest_ready()

    def _serving(self) -> None:
        if self._world.cluster.ctld is not None:
            self.bridge.slurmctld_back()


def bridged_pod(line: BridgedPods, name: str, group: int, namespace: str) -> Pod:
    """One pod of a line, as the admission webhook leaves it."""
    container = Container(
        name=IMAGE, image=IMAGE, pull_policy="Never", milli_cpu=milli_cpu(line.cpu),
        memory=quantity_bytes(line.memory), env={"run_ns": str(line.run), "stubborn": str(int(line.stubborn))},
    )  # fmt: skip
    labels, notes = {"app": line.name}, {}
    if line.gang > 1:
        labels[marks.GROUP] = f"{line.name}-{group}"
        notes[marks.MEMBERS] = str(line.gang)
    for key, value in ((marks.TIME_LIMIT, line.time), (marks.PARTITION, line.partition)):
        if value:
            notes[key] = value
    if not line.exclusive:
        notes[marks.EXCLUSIVE] = "false"
    spec = PodSpec(
        containers=(container,), restart_policy="Never", grace_ns=line.grace // SECOND * SECOND,
        scheduler=marks.SCHEDULER,
    )  # fmt: skip
    return Pod(meta=Meta(name=name, namespace=namespace, labels=labels, annotations=notes), spec=spec)
