"""A Slurm cluster over the life of its daemons: controllers, state volume, slurmds, database daemon.

A slurmctld process is a `Slurmctld` with its parts on a clock of its own. When it dies the object is left
behind; a restart or a takeover builds another one from what the state volume holds (state_store.py). The nodes
and what runs on them go on meanwhile, and their messages look for a controller (slurm.md 5.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.hostlist import compress
from slurmtwin.models import faults
from slurmtwin.models.controller import Controller
from slurmtwin.models.slurmctld.state_store import StateVolume
from slurmtwin.models.slurmctld.tables import bits
from slurmtwin.models.slurmd.daemon import NodeDaemons
from slurmtwin.models.slurmd.dialing import Message, stepd_pauses, window_s
from slurmtwin.models.slurmdbd.slurmdbd import Slurmdbd

if TYPE_CHECKING:
    from slurmtwin.contract.cluster import ClusterConf, NodeConf
    from slurmtwin.contract.scenario import DaemonFault, NodeAction
    from slurmtwin.engine.daemon_clock import DaemonClock
    from slurmtwin.engine.environment import Environment
    from slurmtwin.engine.event_sink import EventSink
    from slurmtwin.models.slurmctld.host_costs import HostCosts
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld


class Assembly(Protocol):
    """How a slurmctld is put together, started and stopped (slurmctld/assemble.py)."""

    def build(self, cluster: SlurmCluster, clock: DaemonClock, index: int) -> Slurmctld:
        """A Slurmctld with all its parts on that clock, its tables as slurm.conf says; its `cluster`, `slurmds` and
        `store` (StateStore(ctld, cluster.volume, index)) are this cluster's. It does not serve yet.
        """
        ...

    def serve(self, ctld: Slurmctld) -> None:
        """The state is loaded: start the loop, then every part, `ctld.store.serve()` included, in slurmctld's order."""
        ...

    def stop(self, ctld: Slurmctld) -> None:
        """The process ends, or is no longer in charge: every part stops."""
        ...


NO_CONTROLLER: Final = "Unable to contact slurm controller (connect failure)"


def _no_pauses() -> Iterator[int]:
    while True:
        yield 0


SHUTDOWN_WAIT_NS: Final = 2 * SECOND
"""scontrol takeover: pause of the backup after the primary was asked to stop (controller.c SHUTDOWN_WAIT)."""


class SlurmCluster:
    """All daemons of one Slurm cluster."""

    def __init__(
        self, env: Environment, conf: ClusterConf, sink: EventSink, costs: HostCosts, epoch_ns: int,
        assembly: Assembly,
    ) -> None:  # fmt: skip
        self.env = env
        self.conf = conf
        self.sink = sink
        self.costs = costs
        self.epoch_ns = epoch_ns
        self.assembly = assembly
        self.window = window_s(conf.version, conf.timers.message_timeout_ns // SECOND)
        """Seconds from first to last try of an attempt to reach a controller."""
        self.shutdown_wait_ns = SHUTDOWN_WAIT_NS
        self.standby_round: Callable[[], int] = lambda: 0
        """What a round of a standby takes beyond its second."""
        self.standby_ping: Callable[[], int] = lambda: 0
        """What its poll of controllers that answer, or refuse, takes."""
        self.hung_ping: Callable[[], int] = lambda: 0
        """What its ping of a controller that hangs takes beyond MessageTimeout."""
        self.takeover_load: Callable[[], int] = lambda: 0
        """What it takes from its last poll until it serves."""
        self.node_confs: list[NodeConf] = list(conf.nodes)
        self._places: dict[str, int] = {}
        """Node -> its place there, as it was when somebody asked."""
        self.volume = StateVolume(self)
        self.slurmds = NodeDaemons(self)
        self.slurmdbd = Slurmdbd(self)
        hosts = conf.controller.hosts or ("slurmctld",)
        self.controllers = [Controller(self, name, index) for index, name in enumerate(hosts)]
        self.on_serving: list[Callable[[], None]] = []
        """Told that a controller began or ceased to answer (slurm_pods: what probes and containers notice)."""
        self._waiting: list[Message] = []
        self._ctld: Slurmctld | None = None
        self.last_ctld: Slurmctld | None = None
        """The tables of the slurmctld that was in charge before: what users had been told."""

    # life

    def boot(self, slurmds: int | None = None) -> None:
        """Start everything now: database daemon, controllers in order, the slurmds (None: all that should run)."""
        self.boot_controllers()
        if slurmds is None:
            self.boot_slurmds()
        else:
            self.slurmds.start(slurmds)

    def boot_controllers(self) -> None:
        """Start the database daemon and the controllers in order."""
        self.slurmdbd.start()
        for controller in self.controllers:
            controller.start()

    def boot_slurmds(self) -> None:
        """Start every slurmd that should run: none of FUTURE and CLOUD nodes yet, of EXTERNAL ones never."""
        nodes = 0
        for index, conf in enumerate(self.node_confs):
            if not {"FUTURE", "CLOUD", "EXTERNAL"} & set(conf.state.upper().split("+")):
                nodes |= 1 << index
        self.slurmds.start(nodes)

    def controller(self, host: str = "") -> Controller:
        """The controller of that SlurmctldHost; "": the primary. KeyError for an unknown name."""
        if not host:
            return self.controllers[0]
        for controller in self.controllers:
            if controller.name == host:
                return controller
        raise KeyError(host)

    @property
    def ctld(self) -> Slurmctld | None:
        """The slurmctld that serves now (the lowest SlurmctldHost, were there two); None when none answers."""
        return self._ctld

    @property
    def active(self) -> list[Slurmctld]:
        """Every slurmctld that believes it is in charge, frozen ones included."""
        return [c.ctld for c in self.controllers if c.ctld is not None]

    def serving_changed(self) -> None:
        """A controller began or ceased to answer: waiting messages find their next try."""
        self._ctld = next((c.ctld for c in self.controllers if c.ctld is not None and not c.frozen), None)
        for controller in self.controllers:
            if controller.watch is not None:
                controller.watch.primary_changed()
        if self._ctld is not None or self._standby_listens():
            waiting, self._waiting = self._waiting, []
            for message in waiting:
                self._plan(message)
        for told in self.on_serving:
            told()

    def _standby_listens(self) -> bool:
        return any(c.standby and not c.frozen for c in self.controllers)

    def reach_changed(self, nodes: int) -> None:
        """Slurmds fell silent or answer again: every controller in charge will meet that."""
        for ctld in self.active:
            ctld.nodes_lifecycle.reach_changed(nodes)

    def inject(self, fault: DaemonFault | NodeAction) -> None:
        """Do a fault of the scenario now (faults.py)."""
        faults.inject(self, fault)

    def expect(self, fault: object, at_ns: int) -> None:
        """The scenario will do this then: what must be kept for it is kept (faults.py)."""
        faults.expect(self, fault, at_ns)

    def node_bitmap(self, names: Iterable[str]) -> int:
        """Bitmap of node names. Raises InputError for an unknown one."""
        confs, places = self.node_confs, self._places
        out = 0
        for name in names:
            place = places.get(name, -1)
            if not 0 <= place < len(confs) or confs[place].name != name:
                places = self._places = {conf.name: index for index, conf in enumerate(confs)}
                place = places.get(name, -1)
            if place < 0:
                raise InputError(f"no node is called {name!r}")
            out |= 1 << place
        return out

    def hostlist(self, nodes: int) -> str:
        """Canonical hostlist of a bitmap over the node table."""
        return compress(self.node_confs[index].name for index in bits(nodes))

    def on_controller(self, at_ns: int, action: Callable[[], None]) -> None:
        """Run `action` at that time if the slurmctld that now is in charge lives then."""
        ctld = self._ctld
        if ctld is not None:
            ctld.env.call_at(at_ns, _run, action)

    # messages to the controller

    def deliver(self, message: Callable[[Slurmctld], None], retry_ns: int, tries: int = -1) -> None:
        """slurmd/parts.py ToController: a daemon's message; the pause between attempts is retry_ns."""

        def pauses() -> Iterator[int]:
            while True:
                yield retry_ns

        self.send(message, stepd_pauses() if retry_ns == 0 else pauses(), tries)

    def request(self, message: Callable[[Slurmctld], None], failed: Callable[[], None], delay_ns: int = 0) -> None:
        """A client's command (sbatch, scancel, scontrol): one attempt, then it fails (slurm.md 5.4)."""
        self.send(message, _no_pauses(), tries=1, first_delay_ns=delay_ns, failed=failed)

    def send(
        self, deliver: Callable[[Slurmctld], None], pauses: Iterator[int], tries: int = -1,
        first_delay_ns: int = 0, failed: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """Hand a message to the controller in charge, `first_delay_ns` from now or at its first try that is heard."""
        now_ns = self.env.now_ns
        begun_ns = now_ns + first_delay_ns
        message = Message(deliver, failed or _nothing, begun_ns, self.window, pauses, tries, first_ns=begun_ns)
        self.env.call_at(begun_ns, self._try, message)

    def _try(self, message: Message) -> None:
        """One try: a controller in charge takes it, a standby sends it to sleep, nobody lets it wait."""
        if message.given_up:
            return
        ctld = self._ctld
        if ctld is not None:
            message.given_up = True
            message.deliver(ctld)
        elif self._standby_listens():
            self._meets_standby(message)
        else:
            self._waiting.append(message)
            end_ns = message.gives_up_ns
            if end_ns is not None:
                self.env.call_at(max(end_ns, self.env.now_ns), self._give_up, message)

    def _meets_standby(self, message: Message) -> None:
        """slurm.md 5.4 "Standby answers": sleep C/2, again until 1.5 C after the first try; then it fails for good."""
        now_ns, timeout_ns = self.env.now_ns, self.conf.timers.slurmctld_timeout_ns
        if now_ns - message.first_ns < timeout_ns + timeout_ns // 2:
            message.begun_ns = now_ns + timeout_ns // 2
            self.env.call_at(message.begun_ns, self._try, message)
        else:
            message.given_up = True
            message.failed()

    def _plan(self, message: Message) -> None:
        """Somebody listens again: the message's next try."""
        if message.given_up:
            return
        try_ns = message.next_try_ns(self.env.now_ns)
        if try_ns is not None:
            self.env.call_at(try_ns, self._try, message)

    def _give_up(self, message: Message) -> None:
        if not message.given_up and message in self._waiting:
            message.given_up = True
            self._waiting.remove(message)
            message.failed()


def _run(action: Any) -> None:
    action()


def _nothing() -> None:
    return None
