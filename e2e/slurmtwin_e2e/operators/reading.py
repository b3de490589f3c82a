"""Which of our daemons a pod is, and which Slurm node: the one place where an operator's labels are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slurmtwin_e2e.operators.form import PodsReading


@dataclass(frozen=True, slots=True)
class PodReader:
    """Reads pod objects as the API gives them. The default reads the pods of our own manifests."""

    label: str = "app"
    apps: Mapping[str, str] = field(default_factory=dict)
    """Value of the label -> our daemon; a value that is not listed stands for itself only under our own label."""
    path: tuple[str, ...] = ("metadata", "name")

    def app(self, pod: Mapping[str, Any]) -> str | None:
        """slurmctld, slurmd, slurmrestd …; None for a pod of somebody else."""
        labels = pod["metadata"].get("labels") or {}
        own = labels.get("app")
        return self.apps.get(labels.get(self.label, "")) or (str(own) if own else None)

    def name(self, pod: Mapping[str, Any]) -> str:
        """The name of its Slurm node; of a pod that is none, its own name."""
        found: Any = pod
        for part in self.path:
            found = found.get(part) if isinstance(found, Mapping) else None
        return str(found or pod["metadata"]["name"])

    def named(self, pod: dict[str, Any]) -> dict[str, Any]:
        """The same object with our label `app`: what the rows of pods are made of."""
        app = self.app(pod)
        labels = pod["metadata"].get("labels") or {}
        if app is None or labels.get("app") == app:
            return pod
        return {**pod, "metadata": {**pod["metadata"], "labels": {**labels, "app": app}}}


def reader_of(reading: PodsReading) -> PodReader:
    """The reader that an operator's form describes."""
    return PodReader(reading.label, reading.apps, tuple(reading.name))
