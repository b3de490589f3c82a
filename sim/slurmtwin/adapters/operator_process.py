"""The operator's process in simulated time: it carries the pure core as docs/operator.md asks of a carrier.

Each pass looks at lagging caches and at slurmrestd, stores the core's memory, then acts one by one. Passes begin by
watch events, by the core's own time, and by the design's poll; failed ones back off. A crash point ends the process
after so many actions; it is started again a while later with empty caches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.adapters.carrying import Carrying, elected_in_ns
from slurmtwin.adapters.deadlines import Deadlines
from slurmtwin.adapters.manifests import HASH
from slurmtwin.adapters.patches import FINALIZER, PLACED, dated, placed, unready
from slurmtwin.adapters.performing import Performer
from slurmtwin.adapters.pod_info import Chain, Writing, at_the_end
from slurmtwin.adapters.seen_before import Decisions, NodeSetViews, StandingCore, other_states
from slurmtwin.adapters.views import NODE_SET
from slurmtwin.contract.clock import MS
from slurmtwin.engine.daemon_clock import DaemonClock
from slurmtwin.models.api_server.client import Client
from slurmtwin.models.api_server.errors import refused
from slurmtwin.models.api_server.informer import Informer
from slurmtwin.models.api_server.objects import Custom, DisruptionBudget, Meta, Node, Pod, Service
from slurmtwin.models.api_server.work_queue import WorkQueue
from slurmtwin.models.operator_pod import OperatorPod
from slurmtwin_operator.core import actions as a
from slurmtwin_operator.core import plan as own_plan
from slurmtwin_operator.core.observed import (
    Applied,
    Condition,
    Identity,
    KubeNode,
    NodeSetObserved,
    Policy,
    SlurmNode,
)
from slurmtwin_operator.core.observed import Pod as PodView
from slurmtwin_operator.core.power import wanted_up

if TYPE_CHECKING:
    from slurmtwin.adapters.slurm_port import SlurmPort
    from slurmtwin.engine.environment import Call, Environment
    from slurmtwin.engine.event_sink import EventSink
    from slurmtwin.models.api_server.server import ApiServer
    from slurmtwin.models.api_server.work_queue import Finished
    from slurmtwin_operator.core.spec import NodeSetSpec
    from slurmtwin_operator.core.switches import Switches

HEARD_NS: Final = 5 * MS
"""A write to the API server until its watch tells of it."""
_POLICY: Final = Policy()
Looked = tuple[tuple[PodView, ...], tuple[KubeNode, ...]]
"""Pods and machines as a pass sees them."""


class Operator(OperatorPod):
    """One operator of one NodeSet's cluster."""

    def __init__(
        self, env: Environment, server: ApiServer, sink: EventSink, switches: Switches, carrying: Carrying,
        port: Callable[[DaemonClock], SlurmPort], core: Callable[[Any, a.Memory, int], a.Plan] = own_plan,
    ) -> None:  # fmt: skip
        super().__init__(env, carrying.crash_after, carrying.restart)
        self._server = server
        self._sink = sink
        self._switches = switches
        self._carrying = carrying
        self._make_port = port
        self._core = core
        self.passes = 0
        self.lives = 0
        """Processes so far."""
        self.said: tuple[SlurmNode, ...] = ()
        """States of Slurm as they were written on pods last."""
        self.next_poll_ns: int | None = None
        """When all node sets get a pass; None: each pass says when its next is due."""
        self._leader_until_ns = env.now_ns
        """A process that was killed holds the lease in the eyes of its successor."""
        self._losing: Call | None = None
        """When its present process will have lost its lease."""

    def start(self) -> None:
        """exec."""
        if self._processes:
            return
        wait_ns = elected_in_ns(self.env.now_ns, self._leader_until_ns, self._carrying)
        if wait_ns:
            self._leader_until_ns = 0
            self.env.call_in(wait_ns + self._carrying.leads_ns, lambda _: self.start())
            return
        self.began_ns = self.env.now_ns
        self.lives += 1
        self._begun(_Process(self))

    def kill(self) -> None:
        """As any operator's; the lease is taken when it has run out."""
        self._leave(released=False)
        super().kill()

    def replace(self, released: bool = False) -> None:
        """As any operator's; the lease is free (released), or taken when it has run out."""
        self._leave(released)
        super().replace(released)

    def _leave(self, released: bool) -> None:
        if self._processes:
            self._leader_until_ns = 0 if released else self.env.now_ns + self._carrying.lease_ns
        self._renews()

    def hold_caches(self) -> None:
        """As any operator's; renewals of its lease go the same way."""
        super().hold_caches()
        if self._carrying.lease_lost is not None and self._losing is None:
            self._losing = self.env.call_in(self._carrying.lease_lost(), self._lease_lost)

    def release_caches(self) -> None:
        """They catch up, in order, and the lease is renewed."""
        super().release_caches()
        self._renews()

    def _lease_lost(self, _argument: object) -> None:
        self._losing = None
        self.kill()

    def _renews(self) -> None:
        if self._losing is not None:
            self._losing.cancel()
            self._losing = None


@dataclass(frozen=True, slots=True)
class _Deciding:
    """A pass that has decided."""

    item: Custom
    made: a.Plan
    labels: list[a.Action]
    """What it does behind its lists."""
    pods: tuple[PodView, ...]
    """As it found them when it began."""
    status: Mapping[str, Any] | None
    """Where it is to be written behind its lists."""
    chains: list[Chain]
    """What it writes on Slurm nodes before that."""
    failed: bool
    """slurmrestd was away, and the design gives such a pass up."""
    turn: int
    finished: Finished


class _Process:
    """One life of it."""

    def __init__(self, operator: Operator) -> None:
        self._o = operator
        carrying = operator._carrying
        self._carrying = carrying
        self.clock = DaemonClock(operator.env)
        self.client = Client(operator._server, self.clock, carrying.latency, takes=carrying.takes)
        self.clients = (self.client,)
        self._port = operator._make_port(self.clock)
        self.sets: Informer[Custom] = Informer(self.client, Custom, self._set_changed)
        self.pods: Informer[Pod] = Informer(self.client, Pod, self._pod_changed)
        self.nodes: Informer[Node] = Informer(self.client, Node, self._node_changed)
        self.beside: tuple[Informer[Any], ...] = (
            Informer(self.client, DisruptionBudget), Informer(self.client, Service),
        )  # fmt: skip
        self.informers: tuple[Informer[Any], ...] = (*self.beside, self.nodes, self.pods, self.sets)
        self._views: dict[str, NodeSetViews] = {}
        """By uid of a node set."""
        self._decisions = Decisions(StandingCore() if operator._core is own_plan else operator._core)
        self._found: dict[str, tuple[PodView, ...]] = {}
        """uid of a node set -> its pods as the last pass found them."""
        self._not_told: set[str] = set()
        """uids of pods in the cache that say nothing of their place."""
        self._deadlines = Deadlines()
        self._ending: dict[str, Callable[[Finished], None]] = {}
        """Key of a node set -> what a recorded pass has still to do."""
        self._beside: set[str] = set()
        """Keys of node sets whose next pass has the Cluster's own beside it: a poll or their spec wakes both
        (reference_impl shell/cache.py put())."""
        self._told: dict[str, tuple[a.Reason, ...]] = {}
        """uid of a node set -> reasons of the last pass that came to its end."""
        self._turn = 0
        """Passes of an earlier one are given up."""
        self._decided: _Deciding | None = None
        """A pass that has decided and has not come to its end."""
        self._queue = self._new_queue()
        self._performer = Performer(
            self.clock, self.client, operator._server, self._port, operator._sink, carrying, operator._switches,
            operator.acted, lambda key: self._queue.add(key),
        )  # fmt: skip
        for informer in self.informers:
            informer.start()
        if carrying.poll_after_failure:
            # the first process was there long before its cluster: where its polls stand, nobody knows
            phase = carrying.poll_phase if operator.lives == 1 else None
            self._poll_in(carrying.poll_ns if phase is None else phase())
        now_ns, told_ns = self.clock.now_ns, carrying.told_ns
        if operator.lives == 1 and told_ns is not None and told_ns >= now_ns:
            self.clock.call_in(told_ns - now_ns, self._stand)
            for name, at_ns in carrying.taken_back.items():
                if now_ns <= at_ns < told_ns:
                    self.clock.call_in(at_ns - now_ns, self._take_back, frozenset((name,)))

    def _new_queue(self) -> WorkQueue:
        carrying, turn = self._carrying, self._turn

        def begin(key: str, finished: Finished) -> None:
            if turn == self._turn:
                self._pass(key, finished)

        return WorkQueue(self.clock, begin, 1, carrying.back_off_ns, carrying.back_off_most_ns, single=True)

    def _stand(self, _argument: object) -> None:
        """A pass ends that has written a status; one that has decided is that one, one that waits gives way to it.

        Pods were written in it (what protects a busy one), so a pass follows; a last write that is heard of late, one
        more.
        """
        self._turn += 1
        self._queue = self._new_queue()
        machines = {view.name: view.kube_node for item in self.sets for view in self._look(item)[0]}
        self._port.comments_are({name: machines[name] for name in self._carrying.commented if name in machines})
        others, decided = self._other_states(self._port.states()).union(self._carrying.taken_back), self._decided
        for item in self.sets:
            labels: list[a.Action] = []
            if decided is not None and decided.item.meta.uid == item.meta.uid:
                if decided.status is not None:
                    self._write_status(item, decided.status)
                labels = decided.labels
            self._write_conditions(item, self._found_by(item), others)
            self._ending[item.meta.key] = partial(self._end, item, len(others), labels)
            self._queue.add(item.meta.key)

    def _end(self, item: Custom, others: int, labels: list[a.Action], finished: Finished) -> None:
        """A recorded pass whose status is there has its answer, and writes pods one by one."""

        def over(_good: bool) -> None:
            self._queue.add(item.meta.key)
            self._heard_late(item)
            finished(True)

        def answered(_argument: object) -> None:
            self._one_by_one(others, lambda: self._label(item, labels, over))

        took_ns = self._o._server.took_ns(self._carrying.write() // 2)
        self.clock.call_in(took_ns + self._carrying.written(), answered)

    def _take_back(self, names: frozenset[str]) -> None:
        """A recorded pass before that one wrote these pods' conditions as it had found them."""
        for item in self.sets:
            self._write_conditions(item, self._found_by(item), names)

    def _found_by(self, item: Custom) -> tuple[PodView, ...]:
        """The pods as the recorded pass that ends now had found them."""
        taken_back = self._carrying.taken_back
        return tuple([replace(v, ready=v.ready and v.name not in taken_back) for v in self._look(item)[0]])

    def _poll(self, _argument: object) -> None:
        self._port.forget()
        for item in self.sets:
            self._beside.add(item.meta.key)
            self._queue.add(item.meta.key)
        self._poll_in(self._carrying.poll_ns)

    def _poll_in(self, wait_ns: int) -> None:
        self._o.next_poll_ns = self.clock.now_ns + wait_ns
        self.clock.call_in(wait_ns, self._poll)

    def _set_changed(self, old: Custom | None, new: Custom | None) -> None:
        if new is not None and (
            old is None or old.meta.generation != new.meta.generation or old.meta.deleting != new.meta.deleting
        ):  # what the operator itself writes into the status brings no pass
            self._beside.add(new.meta.key)
            self._queue.add_after(new.meta.key, self._carrying.gather())

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for views in self._views.values():
            views.pod_changed(old, new)
        self._deadlines.pod_changed(old, new)
        pod = new or old
        assert pod is not None
        if old is not None:
            self._not_told.discard(old.meta.uid)
        if new is not None and PLACED not in new.meta.annotations:
            self._not_told.add(new.meta.uid)
        name = pod.meta.labels.get(NODE_SET)
        if name:
            self._queue.add_after(f"{pod.meta.namespace}/{name}", self._carrying.gather())

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        for views in self._views.values():
            views.node_changed(old, new)
        if old is None or new is None or old.spec != new.spec or old.ready != new.ready:
            for item in self.sets:
                self._queue.add_after(item.meta.key, self._carrying.gather())

    # a pass

    def _pass(self, key: str, finished: Finished) -> None:
        if key in self._ending:
            self._ending.pop(key)(finished)
            return
        if not all(informer.synced for informer in self.informers):
            self.clock.call_in(100 * MS, lambda _: self._pass(key, finished))
            return
        item = self.sets.get(f"NodeSet/{key}")
        if item is None:
            finished(True)
            return
        if not self._carrying.marks_pods:
            beside = key in self._beside
            self._beside.discard(key)
            self._port.read_lists(beside, lambda slurm: self._decide(item, slurm, finished, self._look(item)))
            return
        self._ask(item, finished)

    def _ask(self, item: Custom, finished: Finished) -> None:
        """slurm-operator reads pods before it asks Slurm, and whether their machines are cordoned behind that
        (nodeset_sync.go: getNodeSetPods(), RefreshNodeCache(), syncCordon()); the reference operator reads both behind.
        """
        turn = self._turn

        def look() -> None:
            self._found[item.meta.uid] = self._look(item)[0]

        def decide(slurm: Any) -> None:
            if turn == self._turn:
                self._decide(item, slurm, finished, (self._found[item.meta.uid], self._look(item)[1]))

        self._port.ask(look, decide)

    def _decide(self, item: Custom, slurm: Any, finished: Finished, looked: Looked) -> None:
        self._o.passes += 1
        observed = self._observe(item, slurm, looked)
        memory: a.Memory = item.status.get("memory", a.Memory())
        made: a.Plan = self._decisions.plan(observed, memory, self.clock.now_ns)
        conditions = made.conditions or item.status.get("conditions", ())
        status = {"memory": made.memory, "status": dict(made.status), "conditions": conditions}
        failed = self._o._switches.rest_down == "stop-pass" and slurm.answer == "away"
        marks_pods, actions = self._carrying.marks_pods, list(made.actions)
        labels: list[a.Action] = [action for action in actions if marks_pods and isinstance(action, a.LabelPod)]
        chains: list[Chain] = []
        if marks_pods:  # slurm-operator undrains the pods it keeps, then takes others (doPodScale()); labels come last
            actions, chains = at_the_end(actions, slurm.nodes)
            actions = [action for action in actions if not isinstance(action, a.LabelPod)]
            actions.sort(key=lambda action: not isinstance(action, a.ResumeNode))
        later = None if dict(item.status) == status else status
        deciding = _Deciding(item, made, labels, looked[0], later, chains, failed, self._turn, finished)
        self._decided = deciding
        acted = partial(self._acted, deciding)

        def stored(answer: Any) -> None:
            if refused(answer):
                acted(False)
            else:
                self._performer.act(item, actions, acted)

        def act() -> None:
            if deciding.turn == self._turn:
                self._performer.act(item, actions, acted)
            else:
                acted(True)

        if marks_pods:  # slurm-operator has no memory to store before it acts
            self._date(item, slurm, looked[0], act)
        elif memory == made.memory:
            self._performer.act(item, actions, acted)
        else:
            self._write_status(item, {**item.status, "memory": made.memory}, stored)

    def _date(self, item: Custom, slurm: Any, found: tuple[PodView, ...], then: Callable[[], None]) -> None:
        """Pods whose node's last job is to end at another time than they say are told so, one by one, behind the list
        of nodes and before all else (syncSlurmDeadline(), GetNodeDeadlines())."""
        wrong = self._deadlines.wrong(item.meta.namespace, slurm.jobs, found)
        late = [(pod.meta, says) for view, says in wrong if (pod := self._cached(item, view)) is not None]

        def tell(_answer: object) -> None:
            if late:
                meta, wanted = late.pop(0)
                self.client.patch(Pod, meta.key, lambda pod: dated(pod, wanted), tell, uid=meta.uid)
            else:
                then()

        tell(None)

    def _acted(self, deciding: _Deciding, good: bool) -> None:
        """All actions but labels are done."""
        if not self._carrying.marks_pods and good:
            self._report(deciding)
        elif not good or deciding.failed or deciding.turn != self._turn:
            self._over(deciding, 0, good and not deciding.failed)
        else:
            self._port.wait_for_change(partial(self._changed, deciding))

    def _report(self, deciding: _Deciding) -> None:
        """An Event for each reason that the pass before did not have, one by one, then the status where it differs."""
        uid, made = deciding.item.meta.uid, deciding.made
        before, self._told[uid] = self._told.get(uid, ()), made.reasons
        new = [reason for reason in made.reasons if reason not in before]
        about, each_ns = f"NodeSet/{deciding.item.meta.name}", self._carrying.event() if new else 0

        def tell(_answer: object) -> None:
            if new:
                reason = new.pop(0)
                self.client.tell(about, (str(reason.why), reason.about or str(reason.why)), each_ns, tell)
            else:
                self._report_status(deciding)

        tell(None)

    def _report_status(self, deciding: _Deciding) -> None:
        over, item, status = partial(self._over, deciding, 0), deciding.item, deciding.status
        now = (self.sets.get(f"NodeSet/{item.meta.key}") or item).status
        if status is None or all(now.get(name) == status[name] for name in ("status", "conditions")):
            over(not deciding.failed)
            return
        self._write_status(item, status, lambda answer: over(not deciding.failed and not refused(answer)))

    def _changed(self, deciding: _Deciding) -> None:
        """The last change of a node is in a list."""
        self._place(deciding.item, deciding.pods)
        writing = Writing(
            self._performer, self._port, deciding.item, deciding.chains, lambda: deciding.turn == self._turn,
            partial(self._settled, deciding),
        )  # fmt: skip
        self._port.settle(writing.begin)

    def _settled(self, deciding: _Deciding, states: tuple[SlurmNode, ...], good: bool) -> None:
        """Nodes were listed anew, as they are here: the status is written, then conditions of pods, one by one, then
        labels. good: their comments were written.

        Status and labels are those of the first list, where slurm-operator looks once more.
        """
        if deciding.turn != self._turn:
            self._over(deciding, 0, True)
            return
        others = self._other_states(states) if self._carrying.marks_pods else frozenset()
        item, status = deciding.item, deciding.status
        if status is not None:
            self._write_status(item, status)
        self._write_conditions(item, deciding.pods, others)
        told = status is not None and item.status.get("status") != status["status"]

        def over(labelled: bool) -> None:
            self._over(deciding, len(others), labelled and good)

        self._one_by_one(len(others) + told, lambda: self._label(item, deciding.labels, over))

    def _one_by_one(self, writes: int, then: Callable[[], None]) -> None:
        """So many writes, each some time behind the answer to the one before, as is what comes then."""
        if writes:
            took_ns = self._o._server.took_ns(self._carrying.write()) + self._carrying.written()
            self.clock.call_in(took_ns, lambda _: self._one_by_one(writes - 1, then))
        else:
            then()

    def _label(self, item: Custom, labels: list[a.Action], over: Finished) -> None:
        """Labels of pods end a pass."""
        wait_ns = self._carrying.written() if labels else 0

        def labelled(good: bool) -> None:
            self.clock.call_in(wait_ns, lambda _: over(good))

        self._performer.act(item, labels, labelled)

    def _over(self, deciding: _Deciding, others: int, good: bool) -> None:
        """The pass has ended; others: nodes whose states were written on pods."""
        if self._decided is deciding:
            self._decided = None
        if good and deciding.turn == self._turn:
            if self._carrying.marks_pods:
                self._hear_of_pods(deciding.item, others)
            self._again(deciding.item.meta.key, deciding.made.requeue_ns)
        deciding.finished(good)

    def _again(self, key: str, wanted_ns: int) -> None:
        """A pass that succeeded says when the next is due: when its core says, or always after the poll."""
        carrying = self._carrying
        core_ns = round(wanted_ns * carrying.requeue_factor)
        self._queue.add_after(key, core_ns if carrying.poll_after_failure else carrying.poll_ns)

    def _other_states(self, states: tuple[SlurmNode, ...]) -> frozenset[str]:
        """Nodes whose state is another one: it is written as conditions of their pods."""
        before, self._o.said = self._o.said, states
        return frozenset() if states is before else other_states(before, states)

    def _write_status(self, item: Custom, status: Mapping[str, Any], done: Callable[[Any], None] | None = None) -> None:
        key = f"NodeSet/{item.meta.key}"
        self.client.patch(Custom, key, lambda c: replace(c, status=status), done, uid=item.meta.uid)

    def _write_conditions(self, item: Custom, found: tuple[PodView, ...], others: frozenset[str]) -> None:
        """With them go all conditions of the pod as the pass found it: one that became ready since is not, until the
        next sweep of its kubelet (updateNodeSetPodConditions(), a merge patch that replaces the list).
        """
        for view in found if others else ():
            if view.ready or view.name not in others:
                continue
            pod = self._cached(item, view)
            if pod is not None and pod.ready:
                self.client.patch(Pod, pod.meta.key, unready, uid=view.uid)

    def _hear_of_pods(self, item: Custom, written: int) -> None:
        """So many pods were written, which brings a pass: what is heard of before this one is over makes the next.

        The last write may be heard of when that has begun, and brings one more.
        """
        late = written > 0 and self._heard_late(item)
        if written > late:
            self._queue.add(item.meta.key)

    def _heard_late(self, item: Custom) -> bool:
        """Whether the last write of a pass is heard of when the next has begun, and so brings one more."""
        late = self._carrying.heard_late()
        if late:
            self.clock.call_in(HEARD_NS, lambda _: self._queue.add(item.meta.key))
        return late

    def _place(self, item: Custom, pods: tuple[PodView, ...]) -> None:
        """Pods that had a machine when the pass began are told of its place, once (syncSlurmTopology()).

        That is behind the changes of nodes; a kubelet syncs a pod whose annotations are other ones.
        """
        for view in pods if self._not_told else ():
            if view.uid in self._not_told and view.kube_node and (pod := self._cached(item, view)) is not None:
                self.client.patch(Pod, pod.meta.key, placed, uid=view.uid)

    def _cached(self, item: Custom, view: PodView) -> Pod | None:
        """The pod that a pass found, as it is now; None: it is gone."""
        pod = self.pods.get(f"{item.meta.namespace}/{view.name}")
        return pod if pod is not None and pod.meta.uid == view.uid else None

    def _look(self, item: Custom) -> Looked:
        """Its pods and machines."""
        meta = item.meta
        spec: NodeSetSpec = item.spec["spec"]
        switches = self._o._switches
        views = self._views.setdefault(meta.uid, NodeSetViews())
        stale = views.stale((self.pods.version, self.nodes.version), spec)
        if stale and (switches.lock != "none" or not views.catch_up(meta.name, spec)):
            pods = [p for p in self.pods if p.meta.labels.get(NODE_SET) == meta.name]
            views.look(meta.name, spec, pods, [(n, self._foreign(n)) for n in self.nodes])
        return views.pods, views.nodes

    def _observe(self, item: Custom, slurm: Any, looked: Looked) -> NodeSetObserved:
        meta = item.meta
        spec: NodeSetSpec = item.spec["spec"]
        me = Identity(meta.namespace, meta.name, meta.uid, meta.generation, meta.deleting, FINALIZER in meta.finalizers)
        switches = self._o._switches
        conditions: tuple[Condition, ...] = item.status.get("conditions", ())
        return NodeSetObserved(
            me, spec, switches, _POLICY, *looked, slurm, self._applied(meta), conditions,
            wanted_up(slurm.nodes, meta.name) if switches.scale_source == "power" else (),
            self._carrying.unreachable_s,
        )  # fmt: skip

    def _foreign(self, node: Node) -> int:
        if self._o._switches.lock == "none":
            return 0
        return sum(p.spec.node_name == node.meta.name and NODE_SET not in p.meta.labels for p in self.pods)

    def _applied(self, meta: Meta) -> tuple[Applied, ...]:
        kinds: dict[type, Any] = {DisruptionBudget: "PodDisruptionBudget", Service: "Service"}
        return tuple(
            Applied(kinds[type(item)], item.meta.name, item.meta.annotations.get(HASH, ""))
            for informer in self.beside
            for item in informer
            if item.meta.labels.get(NODE_SET) == meta.name
        )
