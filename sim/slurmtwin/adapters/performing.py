"""What a pass does, one action behind the other (reference_impl shell/perform.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from slurmtwin.adapters.manifests import applied_of, pod_of
from slurmtwin.adapters.patches import cordoned, labelled, locked, with_finalizer
from slurmtwin.adapters.views import NODE_SET
from slurmtwin.contract.events import Kind
from slurmtwin.engine.event_sink import text_of
from slurmtwin.models.api_server.errors import AlreadyExistsError, ApiError
from slurmtwin.models.api_server.objects import Custom, DisruptionBudget, Node, Pod, Service
from slurmtwin_operator.core import actions as a

if TYPE_CHECKING:
    from slurmtwin.adapters.carrying import Carrying
    from slurmtwin.adapters.slurm_port import SlurmPort
    from slurmtwin.engine.daemon_clock import DaemonClock
    from slurmtwin.engine.event_sink import EventSink
    from slurmtwin.models.api_server.client import Client
    from slurmtwin.models.api_server.server import ApiServer
    from slurmtwin.models.api_server.work_queue import Finished
    from slurmtwin_operator.core.observed import SlurmNode
    from slurmtwin_operator.core.switches import Switches

Done = Callable[[str], None]
"""Called with "" or the error of an action."""


@dataclass(frozen=True, slots=True)
class Performer:
    """Acts for one process of the operator."""

    _clock: DaemonClock
    _client: Client
    _server: ApiServer
    _port: SlurmPort
    _sink: EventSink
    _carrying: Carrying
    _switches: Switches
    _acted: Callable[[], bool]
    """Told of each action; True: the process died of it."""
    _woken: Callable[[str], None]
    """A node set wants a pass."""

    def act(
        self, item: Custom, actions: list[a.Action], finished: Finished, behind: a.Action | None = None
    ) -> None:  # fmt: skip
        """One behind the other; finished(False) where one failed and the design ends its pass there. behind: the one
        that was last."""
        if not actions:
            finished(True)
            return
        action = actions.pop(0)

        def done(error: str) -> None:
            skipped = error == "skipped"
            self._tell(action, error)
            if self._acted():
                return
            if error and not skipped and self._switches.failed_action == "stop":
                finished(False)
            else:
                self.act(item, actions, finished, action)

        guard = getattr(action, "only_if", None)
        if guard is None:
            self._perform(item, action, done, behind)
        else:
            self._guarded(guard, item, action, done)

    def _tell(self, action: a.Action, error: str) -> None:
        kind = Kind.ACTION_FAILED if error not in ("", "skipped") else Kind.ACTION_ISSUED
        subject = str(getattr(action, "node", "") or getattr(action, "name", ""))
        detail = _said(action.do, error or "done", str(getattr(action, "kind", "")))
        self._sink.emit(self._clock.now_ns, kind, "operator", None, subject or None, None, None, detail)

    def _guarded(self, guard: a.Guard, item: Custom, action: a.Action, done: Done) -> None:
        """Read the node again just before; nothing is done when it cannot be read."""
        space = item.meta.namespace
        if guard.no_pod and self._server.find(Pod, f"{space}/{guard.node}") is not None:
            done("skipped")
            return

        def looked(record: SlurmNode | None, answered: bool) -> None:
            if not answered:
                done("slurmrestd does not answer")
            elif guard.met_by(record):
                self._perform(item, action, done)
            else:
                done("skipped")

        self._port.look(guard.node, looked)

    def _perform(self, item: Custom, action: a.Action, done: Done, behind: a.Action | None = None) -> None:
        """One action; done("") or its error."""
        if self._carrying.marks_pods and isinstance(action, (a.DrainNode, a.ResumeNode)):
            self._woken(item.meta.key)
        if isinstance(action, a.DrainNode):
            self._port.update(action.node, "DRAIN", action.reason, done)
        elif isinstance(action, a.ResumeNode):
            self._port.update(action.node, "UNDRAIN" if action.undrain else "RESUME", "", done)
        elif isinstance(action, a.CommentNode):
            self._port.comment(action.node, action.comment, done)
        elif isinstance(action, a.DeleteSlurmNode):
            self._port.delete(action.node, done)
        elif isinstance(action, a.CreatePod):
            self._make(item, action, _answer(done), isinstance(behind, a.CreatePod))
        else:
            self._ask_kube(item, action, _answer(done))

    def _ask_kube(self, item: Custom, action: a.Action, done: Callable[[Any], None]) -> None:
        client, space = self._client, item.meta.namespace
        if isinstance(action, a.DeleteObject):
            kind = {"Pod": Pod, "PodDisruptionBudget": DisruptionBudget, "Service": Service}.get(action.kind, Pod)
            client.delete(kind, f"{space}/{action.name}", uid=action.uid, done=done)
        elif isinstance(action, a.LabelPod):
            client.patch(Pod, f"{space}/{action.name}", lambda p: labelled(p, action), done, uid=action.uid)
        elif isinstance(action, a.CordonNode):
            client.patch(Node, action.node, lambda n: cordoned(n, action.on), done)
        elif isinstance(action, a.LockNode):
            client.patch(Node, action.node, lambda n: locked(n, action.state, self._clock.now_ns), done)
        elif isinstance(action, a.DeleteNode):
            client.delete(Node, action.node, uid=action.instance, done=done)
        elif isinstance(action, a.SetFinalizer):
            key = f"NodeSet/{item.meta.key}"
            client.patch(Custom, key, lambda c: with_finalizer(c, action.on), done, uid=item.meta.uid)
        elif isinstance(action, a.Apply):
            self._apply(item, action, done)
        else:
            done(ApiError(f"{action.do}: not carried here"))

    def _make(self, item: Custom, action: a.CreatePod, done: Callable[[Any], None], behind: bool) -> None:
        """A pod; behind: another one was made right before."""
        how = self._carrying
        pod = pod_of(action.manifest, how.env, how.readiness_factor, how.pre_stop(), how.sidecars)
        takes = how.takes.get(("create", Pod)) if behind else None
        self._client.call(f"create Pod {pod.meta.key}", lambda: self._create(item, pod, action.at_most), done, takes)

    def _create(self, item: Custom, pod: Pod, at_most: int) -> Pod:
        """At the server: no more pods of the set than the core counted with."""
        mine = [
            p for p in self._server.list_of(Pod)
            if p.meta.namespace == item.meta.namespace and p.meta.labels.get(NODE_SET) == item.meta.name
        ]  # fmt: skip
        if 0 <= at_most <= len(mine):
            raise AlreadyExistsError("there are as many pods as there shall be")
        return self._server.create(pod)

    def _apply(self, item: Custom, action: a.Apply, done: Callable[[Any], None]) -> None:
        """A budget or a Service, as a patch or a creation."""
        made = applied_of(action, item.meta.namespace, item.meta.name)
        self._client.create(made, lambda answer: done(None if isinstance(answer, AlreadyExistsError) else answer))


@lru_cache(maxsize=256)
def _said(do: str, outcome: str, about: str) -> str:
    said = {"do": do, "outcome": outcome}
    return text_of(said | ({"object": about} if about else {}))


def _answer(done: Done) -> Callable[[Any], None]:
    return lambda answer: done(str(answer) if isinstance(answer, ApiError) else "")
