"""The nodes that slurm-bridge names to Slurm: those that every other filter passes and that Slurm knows.

Its profile has VolumeBinding, TaintToleration and NodeResourcesFit besides its own plugin. What passes is kept by what
pods ask for, and looked at again only for nodes that change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slurmtwin.contract.hostlist import compress
from slurmtwin.models.api_server.objects import NO_EXECUTE, NO_SCHEDULE, tolerates
from slurmtwin.models.kube_scheduler.node_info import NodeInfo, requests_of

if TYPE_CHECKING:
    from slurmtwin.models.api_server.objects import Node, Pod, Toleration

_MOST_TEXTS: Final = 64
Asked = tuple[int, int, "tuple[Toleration, ...]"]


def asked_of(pod: Pod) -> Asked:
    """What of a pod the filters look at: CPU, memory, tolerations."""
    cpu, memory = requests_of(pod)
    return cpu, memory, pod.spec.tolerations


def passes(asked: Asked, info: NodeInfo) -> bool:
    """TaintToleration and NodeResourcesFit. (The profile has no NodeUnschedulable: a cordon drains the Slurm node.)"""
    cpu, memory, tolerations = asked
    for taint in info.node.spec.taints:
        if taint.effect in (NO_SCHEDULE, NO_EXECUTE) and tolerates(tolerations, taint) is None:
            return False
    return info.room_for(cpu, memory)


class Nodes:
    """Kubernetes nodes with their pods, their names in Slurm, and who passes."""

    def __init__(self) -> None:
        self.infos: dict[str, NodeInfo] = {}
        self.slurm_names: dict[str, str] = {}
        """Kubernetes node -> its name in Slurm, for those that Slurm knows."""
        self.kube_names: dict[str, str] = {}
        self._refused: dict[Asked, dict[str, None]] = {}
        """What is asked -> bridged nodes that do not pass."""
        self._texts: dict[tuple[str, ...], str] = {}

    def bridge(self, kube: str, slurm: str) -> None:
        """The node is known to Slurm under that name."""
        self.kube_names.pop(self.slurm_names.get(kube, ""), None)
        self.slurm_names[kube] = slurm
        self.kube_names[slurm] = kube
        self._texts.clear()
        self.changed(kube)

    def put(self, node: Node) -> NodeInfo:
        """A node appears, or changes."""
        name = node.meta.name
        info = self.infos.get(name)
        if info is None:
            info = self.infos[name] = NodeInfo(node)
        info.node = node
        self.changed(name)
        return info

    def drop(self, name: str) -> None:
        """A node object is gone."""
        self.infos.pop(name, None)
        self.changed(name)

    def changed(self, name: str) -> None:
        """Pods or taints of a node are others than before."""
        if name not in self.slurm_names:
            return
        info = self.infos.get(name)
        for asked, refused in self._refused.items():
            if info is not None and passes(asked, info):
                refused.pop(name, None)
            else:
                refused[name] = None

    def named(self, pod: Pod) -> tuple[str, int]:
        """(hostlist of the nodes in Slurm that pass, how many)."""
        asked = asked_of(pod)
        refused = self._refused.get(asked)
        if refused is None:
            refused = self._refused[asked] = {}
            for name in self.slurm_names:
                info = self.infos.get(name)
                if info is None or not passes(asked, info):
                    refused[name] = None
        key = tuple(sorted(refused))
        text = self._texts.get(key)
        if text is None:
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            text = compress(slurm for kube, slurm in self.slurm_names.items() if kube not in refused)
            self._texts[key] = text
        return text, len(self.slurm_names) - len(refused)
