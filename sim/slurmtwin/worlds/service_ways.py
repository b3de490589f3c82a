"""The way from the control plane to slurmctld: a Service with a fixed address, and the pods behind it.

A pod is reached once its address is in a slice of the Service, after its kubelet has reported it, and kube-proxy has
written its rules: when a slice has changed, at least a second after the last writing was over (proxy/runner,
minSyncPeriod). A slice changes with the conditions of a pod too: ready, and terminating. Quiet runs show it: the first
answer comes with the pod's status, up to a second after slurmctld serves.

The Service publishes addresses that are not ready (Slurm needs that to start), so a Deployment's pod on a frozen host
keeps its own until it has ended, beside its successor's (endpointslice utils.go podToEndpoint()). A new connection goes
to one of n addresses, each as likely (iptables proxier.go, --probability). Sources: v1.34.2. Of that the observer's
probes alone are modelled: Slurm's own clients and slurmrestd find the pod that serves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.models.api_server.objects import Endpoints, Pod, Service
from slurmtwin.models.api_server.watch import DELETED
from slurmtwin.models.kubelet.probes import Answer

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Environment
    from slurmtwin.engine.random_streams import RandomStreams
    from slurmtwin.models.api_server.server import ApiServer
    from slurmtwin.models.kubelet.machine import Machine
    from slurmtwin.worlds.pod_observer import Observer

RULES_NS: Final = SECOND
"""kube-proxy's minSyncPeriod (pkg/proxy/apis/config/v1alpha1/defaults.go; kind sets the same)."""
WRITE_NS: Final = (40 * MS, 130 * MS)
"""How long kube-proxy writes its rules: of 90 times on the control plane of a recording cluster, 26 took 32 to 64 ms,
13 took 64 to 128; what took longer did so while pods were deployed (kubeproxy_sync_proxy_rules_duration_seconds)."""
WATCH_NS: Final = (1 * MS, 8 * MS)
"""kube-proxy's watch (pod_world.py WATCH_NS)."""
PAUSE_NS: Final = 250 * MS
LIMIT_NS: Final = SECOND
"""The observer's probe: its pause, and how long it waits for an answer (e2e/slurm_images/files/observer.py)."""

Draw = Callable[[], int]


class ServiceRules:
    """kube-proxy on the control plane: the pods behind each Service's address. A headless one has none."""

    def __init__(
        self, env: Environment, server: ApiServer, machines: dict[str, Machine], watch: Draw, writing: Draw,
        rules_ns: int = RULES_NS,
    ) -> None:  # fmt: skip
        self.pods: dict[str, tuple[str, ...]] = {}
        """Key of a Service -> keys of the pods whose addresses are in the rules."""
        self.changed: Callable[[], None] = _nothing
        self._env = env
        self._server = server
        self._machines = machines
        self._watch = watch
        self._writing = writing
        self._rules_ns = rules_ns
        self._slices: dict[str, tuple[str, ...]] = {}
        self._due = False
        """A writing is to come."""
        self._free_ns = env.now_ns
        """From then on the next one may begin."""
        server.on_write.append(self._changed)

    def _changed(self, verb: str, old: Any, new: Any) -> None:
        if isinstance(new, Endpoints):
            self._slice_changed(verb, new)
        elif (
            isinstance(new, Pod)
            and old is not None
            and self._has(new.meta.key)
            and _conditions(old) != _conditions(new)
        ):
            self._ask()

    def _has(self, pod: str) -> bool:
        """The pod's address is in some slice."""
        return any(pod in pods for pods in self._slices.values())

    def _slice_changed(self, verb: str, new: Endpoints) -> None:
        key, space = new.meta.key, new.meta.namespace
        service = self._server.find(Service, key)
        if service is None or service.headless:
            return
        self._slices[key] = () if verb == DELETED else tuple(f"{space}/{name}" for name in new.addresses)
        self._ask()

    def _ask(self) -> None:
        """BoundedFrequencyRunner: what changes while rules are written waits for the next time."""
        if not self._due:
            self._due = True
            self._env.call_at(max(self._env.now_ns + self._watch(), self._free_ns), self._write)

    def _write(self, _argument: object) -> None:
        self._due = False
        takes_ns = self._writing()
        self._free_ns = self._env.now_ns + takes_ns + self._rules_ns
        self._env.call_in(takes_ns, self._written, dict(self._slices))

    def _written(self, slices: dict[str, tuple[str, ...]]) -> None:
        self.pods |= slices
        self.changed()

    def answers(self, key: str) -> list[Answer]:
        """What the daemon behind each address says; the address of a pod that has ended is closed."""
        return [self._answer(pod) for pod in self.pods.get(key, ())]

    def _answer(self, key: str) -> Answer:
        pod = self._server.find(Pod, key)
        machine = self._machines.get(pod.spec.node_name) if pod is not None else None
        if pod is None or machine is None or pod.meta.uid not in machine.runtime.pods:
            return Answer.REFUSED
        instance = machine.runtime.pods[pod.meta.uid].newest(pod.spec.containers[0].name)
        if instance is None or not instance.running or instance.program is None:
            return Answer.REFUSED
        return instance.program.answer("liveness")


class ProbeTurns:
    """The observer's probes of one name while it leads to several pods: each meets one of them.

    A changed answer lies between the question that had the last one and its own, and is noted half way, as a recording
    is read (milestones.py). So a question stands here half way from the begin of the one before to its own.
    """

    def __init__(
        self, env: Environment, answers: Callable[[], list[Answer]], pick: Draw, phase: Draw,
        note: Callable[[bool | None], None],
    ) -> None:  # fmt: skip
        self.asking = False
        """The name leads to several pods."""
        self._env = env
        self._answers = answers
        self._pick = pick
        self._phase = phase
        self._note = note
        """Told each answer; None: one way alone is left."""

    def look(self) -> None:
        """The rules have changed."""
        if len(self._answers()) > 1 and not self.asking:
            self.asking = True
            turn_ns = PAUSE_NS + LIMIT_NS
            begins_ns = self._phase() % turn_ns
            self._env.call_in(max(0, begins_ns - turn_ns // 2), self._ask, turn_ns)

    def _ask(self, before_ns: int) -> None:
        """before_ns: from the begin of the last question to that of this one."""
        answers = self._answers()
        if len(answers) < 2:
            self.asking = False
            self._note(None)
            return
        answer = answers[self._pick() % len(answers)]
        self._note(answer is Answer.OK)
        turn_ns = PAUSE_NS + (LIMIT_NS if answer is Answer.SILENT else 0)
        self._env.call_in((before_ns + turn_ns) // 2, self._ask, turn_ns)


class Ways:
    """How the controllers' names are reached from the control plane."""

    def __init__(
        self, env: Environment, server: ApiServer, machines: dict[str, Machine], namespace: str,
        streams: RandomStreams, rules_ns: int = RULES_NS,
    ) -> None:  # fmt: skip
        self._env = env
        self._server = server
        self._namespace = namespace
        self._streams = streams
        self.rules = ServiceRules(
            env, server, machines, streams.uniform_ns("kube_proxy.watch", *WATCH_NS),
            streams.uniform_ns("kube_proxy.write", *WRITE_NS), rules_ns,
        )  # fmt: skip

    def named(self, controller: str) -> bool:
        """Its Service is there, and so its name."""
        return self._server.find(Service, f"{self._namespace}/{controller}") is not None

    def reaches(self, controller: str) -> bool:
        """Some pod behind its name answers."""
        return Answer.OK in self.rules.answers(f"{self._namespace}/{controller}")

    def tell(self, observer: Observer, names: Iterable[str]) -> None:
        """The observer asks for these controllers."""
        for name in names:
            observer.turns[name] = self._turns(observer, name)

        def changed() -> None:
            for turns in observer.turns.values():
                turns.look()
            observer.look()

        self.rules.changed = changed

    def _turns(self, observer: Observer, name: str) -> ProbeTurns:
        streams = self._streams
        return ProbeTurns(
            self._env, partial(self.rules.answers, f"{self._namespace}/{name}"),
            streams.uniform_ns(f"kube_proxy.pick.{name}", 0, 1 << 30),
            streams.uniform_ns(f"observer.probe.{name}", 0, PAUSE_NS + LIMIT_NS), partial(observer.probed, name),
        )  # fmt: skip


def _conditions(pod: Pod) -> tuple[bool, bool, bool]:
    """Of its endpoint: a change is one of its slice (endpointslice utils.go podEndpointsChanged())."""
    return pod.ready, bool(pod.meta.deleting), pod.finished


def _nothing() -> None:
    return None
