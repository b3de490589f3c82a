"""One decision per Slurm node and pass: drained, resumed, or left alone. What others drained stays drained."""

from __future__ import annotations

from typing import Final

from slurmtwin_operator.core.actions import CommentNode, DrainNode, Guard, LabelPod, ResumeNode, Why
from slurmtwin_operator.core.nodeset.survey import Member, Pass
from slurmtwin_operator.core.observed import PREFIX, SlurmNode

PROTECT_LABEL: Final = "slurmtwin.dev/protect"
"""Label that the PodDisruptionBudget of a node set selects."""
REBOOTED: Final = "Node unexpectedly rebooted"
"""slurmctld's own reason when a machine came back sooner than expected (node_mgr.c)."""


def cordon_wish(m: Member, p: Pass) -> str:
    """Why Kubernetes wants this node drained; empty: it does not. Our own mirrored cordons do not count."""
    if p.sw.sync == "none":
        return ""
    if m.pod.cordoned:
        return "cordon of the pod"
    if m.kube is not None and m.kube.unschedulable and not m.kube.mirrored:
        return f"cordon of {m.kube.name}"
    return ""


def health_wish(m: Member, p: Pass) -> str:
    """Why the machine's health wants it drained. With `replace` a drain stays until the machine is another one."""
    if p.sw.health == "none" or m.kube is None:
        return ""
    for condition in p.sw.health_conditions:
        if condition in m.kube.conditions:
            return f"health {condition} of {m.kube.instance}"
    if p.sw.health == "replace" and m.slurm is not None and m.slurm.drained:
        held = m.slurm.reason
        if held.startswith(f"{PREFIX}health ") and held.endswith(f" of {m.kube.instance}"):
            return held.removeprefix(PREFIX)
    return ""


def sync_drains(p: Pass) -> None:
    """Drain what shall be drained and resume what was drained by us and shall be no more."""
    if not p.usable:
        return
    for m in p.members:
        node = m.slurm
        if node is None or m.gone:
            continue
        if node.drained:
            p.drained.pop(node.name, None)
        if not m.want:
            m.want = cordon_wish(m, p) or health_wish(m, p)
        if m.want:
            if not node.drained:
                p.actions.append(DrainNode(node.name, PREFIX + m.want))
                p.drained.setdefault(node.name, p.now)
                p.unsettled = True
                p.say(_why(m), node.name)
            elif p.sw.scale_in_sync == "separate" and m.condemned and node.ours and not cordon_wish(m, p):
                p.actions.append(ResumeNode(node.name))
        elif node.drained or node.state == "DOWN":
            _give_back(m, node, p)


def _why(m: Member) -> Why:
    if m.condemned:
        return Why.SCALE_IN
    if m.updating:
        return Why.UPDATE
    return Why.UNHEALTHY if m.want.startswith("health ") else Why.CORDONED


def _give_back(m: Member, node: SlurmNode, p: Pass) -> None:
    """Resume a node that nobody wants drained, if its slurmd is there and the drain is ours."""
    back = m.pod.ready and node.registered_ns >= m.pod.created_ns
    if not back:
        if p.sw.down_return == "moved" and node.drained and node.ours:
            p.actions.append(ResumeNode(node.name, undrain=True))  # slurm-operator does not wait for the new pod
        p.unsettled = True
        return
    undone = node.drained and not node.ours and p.sw.foreign_drain == "undo"
    if undone or (node.drained and node.ours and node.state != "DOWN"):
        why = Why.DRAIN_UNDONE if undone else Why.RESUMED
    elif (
        node.state == "DOWN" and (node.ours or (node.reason == REBOOTED and not node.drained)) and _returns(m, node, p)
    ):
        why = Why.RESUMED
    elif node.drained and node.ours:
        p.actions.append(ResumeNode(node.name, undrain=True))
        return
    else:
        if node.drained:
            p.say(Why.FOREIGN_DRAIN, node.name)
        return
    guard = Guard(node.name, reason=node.reason) if p.sw.recheck and not undone else None
    p.actions.append(ResumeNode(node.name, guard))
    p.say(why, node.name)


def _returns(m: Member, node: SlurmNode, p: Pass) -> bool:
    """Does the design resume this DOWN node? One without a comment has not moved (UpdateNodeWithPodInfo())."""
    if p.sw.down_return == "moved":
        return node.comment not in ("", m.pod.kube_node)
    return p.sw.down_return == "own"


def link_records(p: Pass) -> None:
    """With down_return moved: the comment of a Slurm node names the machine that its pod was last seen on."""
    if p.sw.down_return != "moved" or not p.usable:
        return
    for m in p.members:
        if m.slurm is not None and m.pod.ready and not m.gone and m.slurm.comment != m.pod.kube_node:
            p.actions.append(CommentNode(m.slurm.name, m.pod.kube_node))


def protect(p: Pass) -> None:
    """Keep the label that protects pods from eviction on those that may hold a job."""
    if p.sw.pdb == "none":
        return
    until_drained = p.sw.pdb == "until-drained"
    for m in p.members:
        node = m.slurm
        if not p.usable or m.gone:
            continue
        if node is None:
            wanted = until_drained
        elif until_drained:
            wanted = not node.drained or node.busy
        else:
            wanted = node.busy
        if wanted != m.pod.protected:
            p.actions.append(LabelPod(m.pod.name, m.pod.uid, PROTECT_LABEL, "true" if wanted else None))
