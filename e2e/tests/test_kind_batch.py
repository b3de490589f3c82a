"""A recording is made on the cluster that its scenario describes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurmtwin.contract.errors import InputError
from slurmtwin.contract.kubernetes import Kubelet, KubernetesCluster, NodeGroup
from slurmtwin.contract.manifest import read_manifest
from slurmtwin.contract.scenario import load_scenario
from slurmtwin_e2e.kind import batch, lifecycle

FAULTS = Path(__file__).parents[2] / "scenarios" / "faults"
PLAIN = load_scenario(FAULTS / "s1c-no-requeue.yaml")
SMALL_DISK = load_scenario(FAULTS / "x52-failed-pods.yaml")


def test_a_scenario_with_a_cluster_section_gets_a_cluster_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One cluster for all that say nothing of theirs, another one with the eviction threshold of the one that does."""
    made: list[KubernetesCluster] = []
    recorded: list[tuple[str, int, int]] = []

    @contextmanager
    def running(wanted: Sequence[KubernetesCluster], _say: object) -> Iterator[list[Any]]:
        made.extend(wanted)
        yield [SimpleNamespace(number=len(made))]

    def record_one(cluster: Any, one: batch.Wanted, *_rest: object) -> str:
        recorded.append((one.scenario.name, one.repetition, cluster.number))
        return ""

    monkeypatch.setattr(lifecycle, "running", running)
    monkeypatch.setattr(batch, "record_one", record_one)
    for module, name in (
        (batch.deploy, "unlabel_nodes"),
        (batch.deploy, "prepare_images"),
        (batch.operated, "uninstall_all"),
    ):
        monkeypatch.setattr(module, name, lambda *_arguments: None)
    assert batch.record_batch([PLAIN, SMALL_DISK], tmp_path, repetitions=2) == (4, [])
    assert made == [KubernetesCluster(), *SMALL_DISK.clusters]
    assert recorded == [(PLAIN.name, 1, 1), (PLAIN.name, 2, 1), (SMALL_DISK.name, 1, 2), (SMALL_DISK.name, 2, 2)]


def test_a_running_cluster_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A fault that needs a small disk shows nothing on a cluster that was made without it."""
    other = KubernetesCluster(workers=[NodeGroup(count=3, kubelet=Kubelet())])
    monkeypatch.setattr(batch, "is_made_of", lambda _name, section: section == other)
    with pytest.raises(InputError, match="x52-failed-pods asks for another cluster than slurmtwin-main"):
        batch.record_batch([SMALL_DISK], tmp_path, cluster_name="slurmtwin-main")


@pytest.mark.parametrize(("repetition", "told"), [(16, False), (17, True)])
def test_a_run_on_another_processor_than_the_quiet_runs_before_it_is_told(repetition: int, told: bool) -> None:
    """x46 was recorded on the processor of the quiet runs until its sixteenth run, and on another one since."""
    recordings = FAULTS.parent / "recordings"
    manifest = read_manifest(recordings / "x46-pod-force-deleted" / "26.05" / "pods" / str(repetition))
    words = batch.other_processor(manifest, recordings)
    assert ("recorded on Intel(R) Xeon(R) Processor, and quiet-pods on AMD EPYC" in words) is told
    assert bool(words) is told


def test_without_quiet_runs_no_processor_is_another_one(tmp_path: Path) -> None:
    """Somebody's first recording."""
    folder = FAULTS.parent / "recordings" / "x46-pod-force-deleted" / "26.05" / "pods" / "17"
    assert batch.other_processor(read_manifest(folder), tmp_path) == ""
