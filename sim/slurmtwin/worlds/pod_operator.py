"""An operator in the twin of pods: the node set it keeps, its design, and what a scenario changes in mid run.

slurmctld and slurmrestd are put there by plain objects; the operator makes the workers. Its core is the reference
operator's with the switches of the design that `pods.operator` names (scenarios/designs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

import slurmtwin
from slurmtwin.adapters.carrying import Carrying
from slurmtwin.adapters.operator_process import Operator
from slurmtwin.adapters.slurm_lists import CHECK_NS, PERIOD_NS, ClientLists, ListTimes, batch_in_ns
from slurmtwin.adapters.slurm_port import Informing, RestCalls, SlurmPort
from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.errors import InputError, UnsupportedError
from slurmtwin.contract.operator_steps import OperatorStep
from slurmtwin.models.api_server.client import Client, Takes
from slurmtwin.models.api_server.objects import Custom, Deployment, Meta, Pod, Service
from slurmtwin.models.autoscaler.metric_chain import MetricChain
from slurmtwin.models.slurm_pods.supervisor import ROUND_NS
from slurmtwin.models.slurmctld.states import NodeFlag
from slurmtwin.worlds import pod_objects
from slurmtwin.worlds.kubelet_phases import exit_range_ns
from slurmtwin.worlds.pod_faults import REQUEST_NS, WATCH_NS
from slurmtwin.worlds.pod_scaling import scaled_set, slurm_metric
from slurmtwin.worlds.pod_services import existing
from slurmtwin_operator.core.manifests import GROUP
from slurmtwin_operator.core.observed import TERMINATING
from slurmtwin_operator.core.spec import NodeSetSpec
from slurmtwin_operator.core.switches import Switches
from slurmtwin_operator.designs import Design, find_design

if TYPE_CHECKING:
    from slurmtwin.contract.scenario import Scenario
    from slurmtwin.engine.daemon_clock import DaemonClock
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.worlds.pod_observer import ObservedSink
    from slurmtwin.worlds.pod_world import KubePart, PodWorld
    from slurmtwin.worlds.start_times import StartTimes

STEPS: Final = ("operator.scale", "operator.update", "operator.configure", "operator.cordon", "operator.delete")
TARGETS: Final = ("workers", "rest")
IN_PLACE_NS: Final = 3 * SECOND
"""The pod is marked, so that its kubelet looks; so much later reconfigure (docs/operator.md, slurm.conf in place). The
new process takes its own start.
"""
GATHER_NS: Final = 100 * MS
"""GATHER_NS of the reference operator's process; controller-runtime, which carries Slinky's, waits for nothing."""
IN_PLACE_GATHERS: Final = 3
"""Beside that pause, by the passes that three recordings of op-config-change showed (21 November): the change, what the
first pass wrote and the pod's mark are gathered. Four looks and three writes are config-told, a third of it behind the
pause (quiet-configured: a change, and passes 0.13, 0.15, 0.12 and 3.02 s behind each other).
"""
LEASE_LOST_NS: Final = (15 * SECOND, 17 * SECOND)
"""One HTTP/2 connection carries all that controller-runtime asks. Where it falls silent, the next renewal, at most 2 s
away, waits for RenewDeadline, 10 s, and giving the lease back is given up after 5 s (client-go leaderelection.go,
release()): the process exits 17.0 s after its last renewal (x24-slinky by the operator's own log, 22 November 2026).
"""
OPERATOR_LOOKS_NS: Final = 210 * MS
"""slurm-operator's process runs until it first looks at its lease: six starts by its log, on an idle cluster of
27 November: 177, 200, 207, 211, 234 and 235 ms. The reference operator's is not measured: the same."""
OPERATOR_LEADS_NS: Final = 210 * MS
"""It has taken its lease until its controllers work: 0.20 to 0.22 s in five of these starts, 1.3 in the first."""
LEASE_LOOK_NS: Final = (2 * SECOND, 4400 * MS)
"""Looks at a lease lie 2 s to 2.2 times that apart (kubernetes.md 6.10; client-go leaderelection.go, JitterFactor); the
reference operator's 2 s (shell/process.py)."""
BATCH_LATE_NS: Final = 2 * MS
"""A round of slurm-client's batch timer is late by up to this: the timer's own delay on a busy host."""
LATE: Final = 4
"""Of a request that makes or deletes a pod, one part of so many is left when that is done: a watch, which takes 4 to
5 ms, tells of it 3 and 2 ms before the reference operator has its answer, of a deletion 23 behind the answer to the one
before (quiet-operated, 736 and 278)."""
CLIENT_LATE_NS: Final = 2 * SECOND
"""An operator has its client at most so long behind its RestApi object."""
MADE_NS: Final = 200 * MS
"""A node set is created until its first pod is seen, slurmrestd being there."""
SLINKY_PRE_STOP_NS: Final = 100 * MS
"""Slinky's hook: DOWN comes 0.04 to 0.1 s after the deletion (x47), slurmd's end from 0.1 s on."""
AGAIN_PERCENT: Final = {"slurmctld": 89, "slurmd": 58}
"""Of the ends behind SIGTERM supervisord sees so many only a round of 1 s later: slurmctld 57 of 64, slurmd 37 of 64,
without a cluster (slurmtwin_e2e.kind.supervised_stop)."""
SLINKY_AGAIN_PERCENT: Final = {"slurmctld": 40, "slurmd": 40}
"""The same in Slinky's pods: x20, x32, x33, x34, x47, 5 of 13, slurmd all."""
BOOTS: Final[dict[str, dict[str, str]]] = {"replicas": {}, "power": {"boot": "1"}}
"""Workers that Slurm powers up register as freshly booted (core/power.py)."""
CORDON: Final = f"{GROUP}/cordon"


def modelled(step: OperatorStep) -> bool:
    """The twin makes that change."""
    target = step.target.partition(":")[0]
    if step.kind == "operator.configure":
        return target == "controller"
    return step.kind in STEPS and (target in TARGETS or (step.kind == "operator.cordon" and target == "slurmd"))


def design_of(name: str) -> Design:
    """A shipped design; the reference operator's own is the default. Raises InputError when there is none."""
    name = "default" if name == "reference" else name
    package = Path(slurmtwin.__file__).parent
    for folder in (Path("scenarios/designs"), package.parents[1] / "scenarios/designs", package / "scenarios/designs"):
        if (folder / f"{name}.yaml").exists():
            return find_design(name, folder)
    raise InputError(f"no design is called {name!r}", hint="a file of scenarios/designs")


def switched(design: Design, changed: Mapping[str, object]) -> Switches:
    """The design's switches with those that a scenario sets. Raises InputError for a switch or setting that is none."""
    odd = sorted(set(changed) - set(Switches.model_fields))
    if odd:
        raise InputError(f"pods.switches: no switch is called {odd[0]!r}", hint="docs/operator.md lists them")
    try:
        return Switches.model_validate({**design.switches.model_dump(), **changed})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise InputError(f"pods.switches.{first['loc'][0]}: {first['msg']}") from error


def carried(design: Design, settings: Mapping[str, Any]) -> Design:
    """The design with other carrier settings, such as poll_s. Raises InputError for a name or value that is none."""
    odd = sorted(set(settings) - set(type(design.carrier).model_fields))
    if odd:
        raise InputError(f"the operator's carrier has no setting {odd[0]!r}", hint="poll_s, slurm_cache_s")
    try:
        carrier = type(design.carrier).model_validate({**design.carrier.model_dump(), **settings})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise InputError(f"the operator's {first['loc'][0]}: {first['msg']}") from error
    return design.model_copy(update={"carrier": carrier})


def asks_by_lists(operator: str) -> bool:
    """It is the Slinky operator, with slurm-client: what its recordings alone show is taken from them."""
    return bool(operator) and design_of(operator).carrier.slurm_informer


def reserved_first(times: StartTimes) -> bool:
    """slurm-operator's first pass asked for reservations before its client's first look at what was asked for.

    Then the first list of them comes 30 s behind the client's begin, and no pass hangs from there to the next look,
    as others do: a status is written 32 to 60 s behind it (five of 155 recordings).
    """
    if times.rest_ns is None or times.told_ns is None:
        return False
    return PERIOD_NS + CLIENT_LATE_NS < times.told_ns - times.rest_ns < 2 * PERIOD_NS


def supervised_ends(operator: str, world: PodWorld) -> tuple[Callable[[], int], Callable[[str], int]]:
    """When a supervisord hears SIGTERM, and how much later than its program, of that role, it ends."""
    draw = world.streams.uniform_ns
    again = draw("supervisor.again", 0, 100)
    percent = SLINKY_AGAIN_PERCENT if asks_by_lists(operator) else AGAIN_PERCENT
    return draw("supervisor.hears", 0, SECOND), lambda role: SECOND if again() < percent[role] else 0


def slurmd_again(world: PodWorld) -> Callable[[], int]:
    """slurmd's program is executed by supervisord until it serves; of 24.11 it is not measured in pods."""
    version, own_ns = world.cluster.conf.version, world.own_start_ns[1]
    return (lambda: own_ns) if version == "24.11" else world.draw(_of_version("slurmd-again", version))


def _of_version(name: str, version: str) -> str:
    """The law of that name, which was measured of 22.05 by itself."""
    return f"{name}-2205" if version == "22.05" else name


def supervised_restart(world: PodWorld) -> Callable[[], int]:
    """A program under supervisord has ended until it is started again (models/slurm_pods/supervisor.py)."""
    round_ns = world.scaled("supervisor-restart", ROUND_NS)
    again = world.happens(_of_version("supervisor.crash", world.cluster.conf.version))
    return lambda: 2 * round_ns if again() else round_ns


def operator_restart(world: PodWorld) -> Callable[[], int]:
    """An operator's container has ended until its next process looks at its lease.

    No row tells of its machine's relists, so they stand anywhere in their second.
    """
    draw, restart = world.streams.uniform_ns, world.draw("container-restart", ".operator")
    relisted = draw("operator.relisted", 0, SECOND)
    told = draw("operator.exit", *exit_range_ns(world.start_times, world.middle("container-restart")))
    return lambda: told() + relisted() + restart() + OPERATOR_LOOKS_NS


def own_requests(world: PodWorld) -> dict[tuple[str, type], Takes]:
    """Requests of the reference operator that take something else than a mark on a pod does: a write of its node set's
    status, as long each way; a pod's deletion, whose law has the look before it, and a creation behind another one
    (performing.py).
    """
    stored = world.draw("set-stored")
    looked_ns = world.middle("rest-change")

    def late(draw: Callable[[], int], before_ns: int = 0) -> Takes:
        def took() -> tuple[int, int]:
            took_ns = max(0, draw() - before_ns)
            return took_ns - took_ns // LATE, took_ns // LATE

        return took

    return {
        ("patch", Custom): lambda: (stored(), stored()),
        ("delete", Pod): late(world.draw("pod-delete"), looked_ns),
        ("create", Pod): late(world.draw("pod-create")),
    }


def _at_once() -> int:
    return 0


def _each(count: int, draw: Callable[[], int]) -> Callable[[], int]:
    return lambda: sum(draw() for _ in range(count))


def rendered(scenario: Scenario) -> Scenario:
    """The scenario with the slurm.conf that its operator writes: the design's settings, then the scenario's own."""
    if scenario.pods is None or not scenario.pods.operator:
        return scenario
    conf = {**design_of(scenario.pods.operator).slurm_conf, **scenario.slurm.conf}
    return scenario.model_copy(update={"slurm": scenario.slurm.model_copy(update={"conf": conf})})


class OperatorPart:
    """The operator of a world, its node set, and the scenario's steps."""

    def __init__(
        self, kube: KubePart, world: PodWorld, scenario: Scenario, sink: ObservedSink, settings: Mapping[str, Any]
    ) -> None:
        assert scenario.pods is not None
        self._kube = kube
        self._world = world
        self._scenario = scenario
        self._pods = scenario.pods
        self._design = design = carried(design_of(scenario.pods.operator), settings)
        self._switches = switches = switched(design, scenario.pods.switches)
        if switches.workers != "pods":
            raise UnsupportedError(
                f"design {design.name}: the twin's operator carries workers that are pods of its own"
            )
        self._name = pod_objects.worker_names(scenario)[0].rpartition("-")[0]
        self._client = Client(kube.server, world.env, kube.request)
        self._user = Client(kube.server, world.env)
        """Makes the steps: a recording knows of each between which times its request was under way (t_err_ns), and a
        replication draws in there when the server has it."""
        self._revision = 1
        self._config_told, self._reconfigured = world.draw("config-told"), world.draw("reconfigured")
        self._exec = world.draw("script-launch")
        """The kubelet starts the preStop hook in the container, as slurmd does a script."""
        carrier, lists = design.carrier, self.asks_by_lists
        self._hook_more = _each(2, world.draw("submit")) if lists else _at_once
        """Slinky's hook is a shell with two calls of scontrol, each as long as sbatch's, which quiet runs show."""

        change, mark = world.draw("rest-change"), world.draw("pod-patch")
        # slurm-operator's client is Go: a request without an event beside it took 3.4 to 17 ms by the API server's log
        patch = kube.request if lists else mark
        self._told, done = world.draw("cordon-told"), world.draw("cordon-done")
        own = RestCalls(world.draw("operator-look"), world.draw("operator-look-alone"), change)
        self._calls = RestCalls(change, change, self._marked(done)) if lists else own

        def port(clock: DaemonClock) -> SlurmPort:
            return SlurmPort(
                world.cluster, clock, self._rest, self._name, carrier.slurm_cache_s * SECOND,
                sink.slurmd_started_ns, switches.rest_timeout_s * SECOND,
                self._calls, self._informing(clock.now_ns) if lists else None,
            )  # fmt: skip

        poll_ns = world.scaled("operator-poll", carrier.poll_s * SECOND)
        self.operator = Operator(
            world.env, kube.server, sink, switches,
            Carrying(
                poll_ns=poll_ns, poll_phase=self._poll_phase(poll_ns),
                told_ns=world.start_times.told_ns if lists else None, marks_pods=lists,
                taken_back=world.start_times.taken_back, commented=world.start_times.commented,
                write=patch, written=self._written if lists else _at_once,
                event=world.draw("operator-event"), heard_late=self._heard_late(),
                gather=(lambda: self._told() // 4) if lists else (lambda: GATHER_NS),
                pre_stop=(lambda: SLINKY_PRE_STOP_NS) if lists else world.draw("pre-stop"),
                requeue_factor=world.factor("operator-requeue"),
                readiness_factor=world.factor("readiness-period"),
                poll_after_failure=carrier.poll_after_failure,
                takes={} if lists else own_requests(world),
                back_off_ns=carrier.backoff_base_ms * MS,
                back_off_most_ns=carrier.backoff_cap_s * SECOND, latency=patch,
                env={"process": self._pods.slurmd_process, **BOOTS[switches.scale_source]},
                unreachable_s=design.kubernetes.worker_unreachable_s, sidecars=design.kubernetes.sidecars,
                restart=operator_restart(world), leads_ns=OPERATOR_LEADS_NS if lists else 0,
                lease_ns=world.scaled("operator-lease", carrier.lease_s * SECOND),
                look=world.streams.uniform_ns("operator.lease", *LEASE_LOOK_NS) if lists else lambda: LEASE_LOOK_NS[0],
                lease_lost=world.streams.uniform_ns("operator.lease_lost", *LEASE_LOST_NS) if lists else None,
            ),
            port,
        )  # fmt: skip
        if switches.prestop != "none":
            kube.hooked = self._hooked
        section = scenario.pods.autoscale
        self._chain = None
        if section is not None:
            scaled = scaled_set(
                slurm_metric(world.cluster, section.metric), self._replicas, self._scale, kube.server,
                (f"{GROUP}/nodeset", self._name),
            )  # fmt: skip
            self._chain = MetricChain(world.env, sink, world.streams, section, scaled)

    def _informing(self, now_ns: int) -> Informing:
        """A new process has a new client; of the first one a recording tells when it had it."""
        world, draw = self._world, self._world.streams.uniform_ns
        times = world.start_times
        first = self.operator.lives <= 1
        began_ns = times.rest_ns if times.rest_ns is not None else world.apply_ns
        look_ns = world.scaled("slurm-client-look", CHECK_NS)
        late_ns, batch_ns = draw("slurm_informer.late", 0, BATCH_LATE_NS)(), draw("slurm_informer", 0, look_ns)()
        timers = ListTimes(
            began_ns=began_ns if first else now_ns, asked_ns=times.made_ns if first else None,
            reserved_first=first and reserved_first(times),
            period_ns=world.scaled("slurm-list-period", PERIOD_NS), check_ns=look_ns,
            late_ns=late_ns,
        )  # fmt: skip
        return Informing(
            lists=ClientLists(timers),
            batch=lambda asked_ns: batch_in_ns(asked_ns, now_ns + batch_ns, look_ns + late_ns),
            begin=self._revised, reads=lambda: self._told() // 6,
        )  # fmt: skip

    def _revised(self) -> int:
        """A pass of slurm-operator begins until its revision is answered: a quarter of cordon-told.

        Another quarter goes before the pass, which one that follows another has not, a sixth to its look and a third to
        its event, beside which it goes on (the API server's log of requests, 28 passes of quiet-slinky).
        """
        return self._kube.server.took_ns(self._told() // 4)

    def _written(self) -> int:
        """From the answer to a write at a pass's end to the next one, or to the next pass: a quarter of cordon-told.

        Half of 26 took 3.7 to 12.8 ms, of 22 between two writes 2.8 to 6.2, by the API server's log of an hour whose
        cordons took 25 to 27: a status of the node set brings the operator's pass of its Controller, three patches
        within some 26 ms beside it (docs/surprises.md; slurmtwin_e2e.kind.request_log).
        """
        return self._told() // 4

    def _marked(self, done: Callable[[], int]) -> Callable[[], int]:
        """A change of a node by slurm-operator: an event begins, a mark on its pod beside it, a call of slurmrestd."""

        def took_ns() -> int:
            event_ns, half_ns = self._told() // 3, done() // 2
            return half_ns + self._kube.server.took_ns(half_ns + event_ns)

        return took_ns

    def _heard_late(self) -> Callable[[], bool]:
        """A write is at the server in the middle of its request: its watch against the way back."""
        draw = self._world.streams.uniform_ns
        watch, request = draw("operator.watch", *WATCH_NS), draw("operator.request", *REQUEST_NS)
        return lambda: 2 * watch() > request()

    def _poll_phase(self, poll_ns: int) -> Callable[[], int]:
        """From the first process's begin to its first poll: on the one that recorded passes show, else drawn."""
        known_ns, env = self._world.start_times.poll_ns, self._world.env
        if known_ns is None:
            return self._world.streams.uniform_ns("operator.poll", 0, poll_ns)
        return lambda: (known_ns - env.now_ns) % poll_ns

    @property
    def asks_by_lists(self) -> bool:
        """As above, of the design as this scenario carries it."""
        return self._design.carrier.slurm_informer

    @property
    def applied_ns(self) -> int:
        """When its node set is created; with slurm-client so that pods are made when a recording has them.

        What passes do before lies in that time: they fail until slurmrestd answers.
        """
        made_ns = self._world.start_times.made_ns
        if made_ns is None or not self.asks_by_lists:
            return self._world.apply_ns
        return max(self._world.apply_ns, made_ns - MADE_NS)

    def start(self) -> None:
        """The operator's process, and what scales its node set."""
        self.operator.start()
        if self._chain is not None:
            self._chain.start()

    def _replicas(self) -> int | None:
        item = self._kube.server.find(Custom, self._key)
        return None if item is None else item.spec["spec"].replicas

    def _scale(self, count: int) -> None:
        self._change(self._client, replicas=count)

    @property
    def _key(self) -> str:
        return f"NodeSet/{self._kube.namespace}/{self._name}"

    def _rest(self) -> str:
        """What a client of the REST service finds (SlurmPort)."""
        server, space, faults = self._kube.server, self._kube.namespace, self._kube.faults
        if server.find(Service, f"{space}/slurmrestd") is None:
            return "absent"
        unready_ns, ready_ns = faults.rest_unready_ns
        if unready_ns <= self._world.env.now_ns < ready_ns and not faults.operator_cut:
            return "refused"
        if faults.rest_cut or faults.operator_cut:
            return "cut"
        if faults.tarpit:
            return "tarpit"
        if faults.names is not None and not faults.names.serves():
            return "away"
        if faults.keys is not None and faults.keys.operator_refused(self.operator.began_ns):
            return "away"
        return "fresh" if self._kube.rest_ready() else "away"

    def node_set(self) -> Custom:
        """The custom resource at the beginning."""
        pods = self._pods
        count = len(pod_objects.worker_names(self._scenario)) if pods.replicas is None else pods.replicas
        spec = NodeSetSpec(
            cluster="slurm", replicas=count, image="slurmd", cpu=pods.cpu or "100m", memory=pods.memory or "200Mi",
            node_selector={pod_objects.ROLE: "compute"}, grace_s=max(1, pods.grace // SECOND),
        )  # fmt: skip
        meta = Meta(name=self._name, namespace=self._kube.namespace)
        return Custom(meta=meta, resource="NodeSet", spec={"spec": spec})

    # the preStop hook of its pods

    def _hooked(self, pod: Pod) -> None:
        """Slinky's tells slurmctld between its start and its end, the reference operator's right before its end."""
        if f"{GROUP}/nodeset" in pod.meta.labels:
            hook_ns = max(one.pre_stop_ns for one in pod.spec.containers)
            says_ns = self._exec() + self._hook_more() if self.asks_by_lists else hook_ns
            self._world.env.call_in(says_ns, self._hook, pod)

    def _hook(self, pod: Pod) -> None:
        """scontrol update state=down; a drained node keeps its reason."""
        machine = self._kube.machines[pod.spec.node_name]
        if not machine.on or machine.paused_ns is not None:
            return

        def down(ctld: Slurmctld) -> None:
            node = ctld.nodes.by_name.get(pod.meta.name)
            if node is not None:
                kept = node.reason if node.flags & NodeFlag.DRAIN and node.reason else TERMINATING
                ctld.nodes_lifecycle.update(node, "DOWN", kept)

        self._world.cluster.request(down, _nothing, self._world.costs.rpc_ns)

    # steps

    def step(self, step: OperatorStep) -> Callable[[], None]:
        """Make the change; returns what takes it back."""
        target, _, name = step.target.partition(":")
        space = self._kube.namespace
        if step.kind == "operator.configure":
            return self._configure(step)
        if step.kind == "operator.cordon":
            return self._cordon(f"{space}/{name}")
        if target == "rest":
            return self._rest_step(step, f"{space}/slurmrestd")
        if step.kind == "operator.delete":
            self._user.delete(Custom, self._key)
            return _nothing
        if step.kind == "operator.update":
            self._revision += 1
            return self._change(self._user, image=f"slurmd:{self._revision}")
        return self._change(self._user, replicas=step.count or 0)

    def _configure(self, step: OperatorStep) -> Callable[[], None]:
        """Options of slurm.conf change: the switch config_change says whether slurmctld's pod is replaced."""
        state = self._kube.faults.state
        assert state is not None
        lines = [f"{key}={value}" for key, value in step.set.items()]
        if self._switches.config_change == "restart":
            state.configured_anew(lines, None)
            pod = self._kube.faults.pod("slurmctld")
            self._client.delete(Pod, pod.meta.key, uid=pod.meta.uid)
        else:
            state.configured_anew(lines, self._in_place_ns())
        return _nothing

    def _in_place_ns(self) -> int:
        """From a change of slurm.conf to the process that has read it. The pause begins anew with a poll that comes in
        it: its pass finds the file not yet mounted, and asks for one so much later (shell/observe.py, process.py)."""
        pause_ns, told_ns = self._world.scaled("operator-requeue", IN_PLACE_NS), self._config_told()
        waits_ns = IN_PLACE_GATHERS * GATHER_NS + told_ns * 2 // 3
        next_poll_ns = self.operator.next_poll_ns
        poll_ns = 0 if next_poll_ns is None else next_poll_ns - self._world.env.now_ns
        if waits_ns < poll_ns < waits_ns + pause_ns:
            waits_ns = poll_ns
        return waits_ns + pause_ns + told_ns // 3 + self._reconfigured()

    def _change(self, client: Client, **values: object) -> Callable[[], None]:
        """Other values in the node set's spec."""
        spec: NodeSetSpec = existing(self._kube.server, Custom, self._key).spec["spec"]
        before = {name: getattr(spec, name) for name in values}

        def put(what: dict[str, object]) -> None:
            client.patch(Custom, self._key, lambda c: replace(c, spec={"spec": c.spec["spec"].model_copy(update=what)}))

        put(dict(values))
        return lambda: put(before)

    def _rest_step(self, step: OperatorStep, key: str) -> Callable[[], None]:
        if step.kind == "operator.delete":
            self._user.delete(Deployment, key)
            self._user.delete(Service, key)
            return _nothing
        count = step.count or 0
        self._user.patch(Deployment, key, lambda d: replace(d, replicas=count))
        return lambda: self._user.patch(Deployment, key, lambda d: replace(d, replicas=1))

    def _cordon(self, key: str) -> Callable[[], None]:
        def put(on: bool) -> None:
            def change(pod: Pod) -> Pod:
                notes = {**pod.meta.annotations, CORDON: "true" if on else "false"}
                return replace(pod, meta=replace(pod.meta, annotations=notes))

            self._user.patch(Pod, key, change)

        put(True)
        return lambda: put(False)


def _nothing() -> None:
    return None
