"""When the last job of each Slurm node is to end, as slurm-operator's list has it and as the pods say it.

Source: slurm-operator f2ed3fc5, internal/controller/nodeset syncSlurmDeadline() and GetNodeDeadlines(): an annotation
of the node's pod, which a pass writes where it is another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmtwin.adapters.patches import DEADLINE
from slurmtwin_operator.core.nodeset.scale import last_ends

if TYPE_CHECKING:
    from slurmtwin.models.api_server.objects import Pod
    from slurmtwin_operator.core.observed import Pod as PodView
    from slurmtwin_operator.core.observed import SlurmJob


class Deadlines:
    """Those of one operator's process: a thousand pods are looked at where one of them is wrong, and not else."""

    def __init__(self) -> None:
        self._jobs: tuple[SlurmJob, ...] = ()
        """As the last pass knew them: a list that shows nothing new is the same tuple."""
        self._ends: dict[str, int] = {}
        """Slurm node -> when its last job is to end by them, unix ns."""
        self._said: dict[str, dict[str, int]] = {}
        """Namespace -> pod -> what its annotation says; -1: that is no number."""

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """The cache has another version of a pod; one of both is there."""
        pod = new or old
        assert pod is not None
        said = self._said.setdefault(pod.meta.namespace, {})
        date = "" if new is None else new.meta.annotations.get(DEADLINE, "")
        if date:
            said[pod.meta.name] = int(date) if date.isdecimal() else -1
        else:
            said.pop(pod.meta.name, None)

    def wrong(
        self, namespace: str, jobs: tuple[SlurmJob, ...], found: tuple[PodView, ...]
    ) -> list[tuple[PodView, str]]:  # fmt: skip
        """Pods that say another end than these jobs give, in their order, each with what it should say; "": nothing."""
        if jobs is not self._jobs:
            self._jobs, self._ends = jobs, last_ends([job for job in jobs if job.state == "RUNNING"])
        ends, said = self._ends, self._said.get(namespace, {})
        if ends == said:
            return []
        return [(v, str(ends.get(v.name, ""))) for v in found if ends.get(v.name) != said.get(v.name)]
