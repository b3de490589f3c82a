"""What the requests of an operator change of an object."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from slurmtwin.adapters.views import LOCK
from slurmtwin.engine.records import changed
from slurmtwin.models.api_server.objects import Custom, Node, Pod, Taint
from slurmtwin_operator.core.manifests import GROUP
from slurmtwin_operator.core.observed import MIRRORED

if TYPE_CHECKING:
    from slurmtwin_operator.core import actions as a

PLACED: Final = f"{GROUP}/topology"
"""slurm-operator's annotation topology.slinky.slurm.net/spec of a pod: its machine's place, "" where that says none."""
DEADLINE: Final = f"{GROUP}/deadline"
"""slurm-operator's annotation nodeset.slinky.slurm.net/pod-deadline of a pod: when its node's last job is to end."""
FINALIZER: Final = f"{GROUP}/operator"
READY: Final = ("Ready", "ContainersReady")


def labelled(pod: Pod, action: a.LabelPod) -> Pod:
    """Another value of a label; None: it goes."""
    labels = dict(pod.meta.labels)
    labels.pop(action.key, None)
    if action.value is not None:
        labels[action.key] = action.value
    return changed(pod, meta=changed(pod.meta, labels=labels))


def unready(pod: Pod) -> Pod:
    """Not ready, and its containers neither."""
    conditions = dict(pod.status.conditions)
    conditions |= {name: changed(conditions[name], status="False") for name in READY if name in conditions}
    return changed(pod, status=changed(pod.status, conditions=conditions))


def placed(pod: Pod) -> Pod:
    """Told of its machine's place."""
    return changed(pod, meta=changed(pod.meta, annotations={**pod.meta.annotations, PLACED: ""}))


def dated(pod: Pod, deadline: str) -> Pod:
    """Told when its node's last job is to end; "": nothing runs there."""
    notes = {key: value for key, value in pod.meta.annotations.items() if key != DEADLINE}
    if deadline:
        notes[DEADLINE] = deadline
    return changed(pod, meta=changed(pod.meta, annotations=notes))


def cordoned(node: Node, on: bool) -> Node:
    """Cordoned or uncordoned, and marked as mirrored."""
    notes = {key: value for key, value in node.meta.annotations.items() if key != MIRRORED}
    if on:
        notes[MIRRORED] = "true"
    return replace(node, meta=replace(node.meta, annotations=notes), spec=replace(node.spec, unschedulable=on))


def locked(node: Node, state: str, now_ns: int) -> Node:
    """With a lock in this state; "": without."""
    kept = tuple(t for t in node.spec.taints if t.key != LOCK)
    mark = (Taint(key=LOCK, effect="NoExecute", value=state, since_ns=now_ns),) if state else ()
    return replace(node, spec=replace(node.spec, taints=kept + mark))


def with_finalizer(item: Custom, on: bool) -> Custom:
    """With the operator's finalizer, or without."""
    kept = tuple(name for name in item.meta.finalizers if name != FINALIZER)
    return replace(item, meta=replace(item.meta, finalizers=(*kept, FINALIZER) if on else kept))
