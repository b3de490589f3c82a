"""What a cleaning deletes and what it leaves to others, on a cluster that only remembers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from slurmtwin_e2e.kind import cleanness
from slurmtwin_e2e.kind.cluster import Cluster

HELPER = "Pod/local-path-storage/helper-pod-delete-pvc-1"
CLAIM = "PersistentVolumeClaim/default/state"
VOLUME = "PersistentVolume/<none>/pvc-1"
DATA = "volume pvc-1_default_state"


@dataclass
class ProvisionedVolume:
    """A claim, its volume, the pod that removes its data, and a clock: each look at the objects takes three seconds.

    The pod is made when the claim is gone and removes data and volume two looks later, if it is still there; where it
    was deleted, its provisioner does not try again (it would 15 s later).
    """

    works: bool = True
    objects: set[str] = field(default_factory=lambda: {CLAIM, VOLUME})
    data: set[str] = field(default_factory=lambda: {DATA})
    deleted: list[str] = field(default_factory=list)
    now_s: float = 0.0
    looks: int = 0

    def look(self, _: Cluster) -> dict[str, str]:
        """The objects now; a step of the provisioner."""
        self.now_s += 3.0
        if CLAIM not in self.objects and VOLUME in self.objects:
            self.looks += 1
            if self.looks == 1:
                self.objects.add(HELPER)
            elif self.looks == 3 and HELPER in self.objects and self.works:
                self.objects -= {HELPER, VOLUME}
                self.data.clear()
        return dict.fromkeys(self.objects, "<none>")

    def kubectl(self, verb: str, *rest: str, **__: object) -> str:
        """Deletes alone are of interest."""
        names = [text.split("/")[1] for text in rest if "/" in text] if verb == "delete" else []
        self.deleted += names
        self.objects = {row for row in self.objects if row.rpartition("/")[2] not in names}
        return ""

    def docker(self, *arguments: str, **_: object) -> CompletedProcess[str]:
        """`rm` in a node."""
        if "rm" in arguments:
            self.data -= {f"volume {Path(path).name}" for path in arguments if path.startswith(cleanness.VOLUMES)}
        return CompletedProcess(arguments, 0, "", "")

    def state(self, _: Cluster) -> cleanness.State:
        """Objects and the node's inside."""
        return {"objects": sorted(self.objects), "n": sorted(self.data)}


def cleaned(provisioned: ProvisionedVolume, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a cleaning leaves."""
    monkeypatch.setattr(cleanness, "_objects", provisioned.look)
    monkeypatch.setattr(cleanness, "_inside", lambda node: sorted(provisioned.data))
    monkeypatch.setattr(cleanness, "docker", provisioned.docker)
    monkeypatch.setattr(cleanness, "state_of", provisioned.state)
    monkeypatch.setattr(Cluster, "kubectl", provisioned.kubectl)
    monkeypatch.setattr("time.monotonic", lambda: provisioned.now_s)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return cleanness.restore(Cluster("c", ("n",), Path(), "/shared"), {"objects": [], "n": []})


def test_a_volume_is_removed_by_its_provisioner(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim alone is deleted: a provisioner whose pod is taken away leaves the data."""
    provisioned = ProvisionedVolume()
    assert cleaned(provisioned, monkeypatch) == []
    assert provisioned.deleted == ["state"]
    assert provisioned.now_s < cleanness.VOLUME_PATIENCE_S


def test_a_provisioner_that_does_not_work_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind its patience a cleaning deletes volume, pod and data itself."""
    provisioned = ProvisionedVolume(works=False)
    assert cleaned(provisioned, monkeypatch) == []
    assert sorted(provisioned.deleted) == ["helper-pod-delete-pvc-1", "pvc-1", "state"]
    assert provisioned.now_s > cleanness.VOLUME_PATIENCE_S
