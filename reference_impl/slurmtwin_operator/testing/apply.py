"""What each action does to the doubles; what the shell does to a cluster."""

from __future__ import annotations

from slurmtwin_operator.core import actions as a
from slurmtwin_operator.testing.kube import FakeKube, Resource
from slurmtwin_operator.testing.slurm import RefusedError

WHO = "operator"


class UnreachableError(RefusedError):
    """slurmrestd does not answer."""

    def __init__(self) -> None:
        super().__init__("slurmrestd does not answer")


def perform(kube: FakeKube, resource: Resource, action: a.Action) -> None:
    """Apply one action to the doubles. Raises RefusedError when it fails."""
    if isinstance(action, a.DrainNode | a.ResumeNode | a.CommentNode | a.DeleteSlurmNode | a.Reserve):
        _tell_slurm(kube, action)
    elif isinstance(action, a.CreatePod):
        kube.create_pod(action.manifest)
    elif isinstance(action, a.DeleteObject):
        if action.kind == "Pod":
            kube.delete_pod(action.name, action.uid, WHO)
        else:
            kube.delete_object(action.kind, action.name)
    elif isinstance(action, a.Apply):
        kube.apply(action.kind, action.name, action.manifest, action.hash)
    elif isinstance(action, a.SetFinalizer):
        kube.set_finalizer(resource.name, action.on)
    elif isinstance(action, a.LabelPod):
        _label(kube, action)
    else:
        _machine(kube, action)


def _tell_slurm(
    kube: FakeKube, action: a.DrainNode | a.ResumeNode | a.CommentNode | a.DeleteSlurmNode | a.Reserve
) -> None:
    slurm = kube.slurm
    if not slurm.answers:
        raise UnreachableError
    if isinstance(action, a.DrainNode):
        slurm.drain(action.node, action.reason, WHO)
    elif isinstance(action, a.ResumeNode):
        slurm.resume(action.node, WHO, undrain=action.undrain)
    elif isinstance(action, a.DeleteSlurmNode):
        slurm.delete_node(action.node, WHO)
    elif isinstance(action, a.CommentNode):
        record = slurm.nodes.get(action.node)
        if record is None:
            raise RefusedError(f"slurmctld knows no node {action.node}")
        record.comment = action.comment
    elif action.on:
        slurm.reservations.add(action.name)
    else:
        slurm.reservations.discard(action.name)


def _label(kube: FakeKube, action: a.LabelPod) -> None:
    pod = kube.pods.get(action.name)
    if pod is None or pod.uid != action.uid:
        raise RefusedError(f'pods "{action.name}" not found')
    pod.relabelled = (kube.now, "slurmtwin.dev/protect" in pod.labels)
    if action.value is None:
        pod.labels.pop(action.key, None)
    else:
        pod.labels[action.key] = action.value
    kube.on_change()


def _machine(kube: FakeKube, action: a.Action) -> None:
    if isinstance(action, a.CordonNode):
        if action.node not in kube.machines:
            raise RefusedError(f'nodes "{action.node}" not found')
        kube.change_machine(action.node, WHO, unschedulable=action.on, mirrored=action.on)
    elif isinstance(action, a.LockNode):
        machine = kube.machines.get(action.node)
        if machine is None:
            raise RefusedError(f'nodes "{action.node}" not found')
        machine.locked = action.state
        if action.state == "pending":
            machine.foreign_pods = 0
        kube.slurm.schedule()
        kube.on_change()
    elif isinstance(action, a.DeleteNode):
        kube.delete_machine(action.node, action.instance)
    else:
        raise RefusedError(f"{action.do} belongs to another kind of object")
