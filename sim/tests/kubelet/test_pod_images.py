"""Images that are pulled, and what a kubelet says of a container whose image nobody has (image_manager.go)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.models.api_server.objects import Container, Pod
from slurmtwin.models.kubelet.container_runtime import StartCosts

STARTED, WAITING = Kind.CONTAINER_STARTED, Kind.CONTAINER_WAITING


def test_an_image_that_nobody_has_is_asked_for_with_back_off(one_node: Any) -> None:
    """ErrImagePull, then ImagePullBackOff; tries 10, 20, 40 s apart or more."""
    node = one_node(costs=StartCosts(pull=lambda image: None))
    node.create(Container(name="c", image="no/such:1"))
    node.run(120)
    said = [said["reason"] for _, said in node.rows(WAITING, "collector")]
    assert said[:2] == ["ErrImagePull", "ImagePullBackOff"]
    assert not node.times(STARTED)


def _told_to_wait_s(node: Any) -> float:
    """slurmd's image is at no registry, its sidecar's is there: seconds from the pod's creation to ErrImagePull."""
    side = Container(name="side", image="ok", restartable=True)
    node.create(Container(name="c", image="no/such:1"), init_containers=(side,))
    node.run(30)
    [told, *_] = [e.t_ns / SECOND for e, said in node.rows(WAITING, "collector") if said["reason"] == "ErrImagePull"]
    return float(told) - 1


def _without_registry() -> StartCosts:
    return StartCosts(pull=lambda image: 0 if image == "ok" else None)


def test_a_pod_that_waits_is_synced_when_its_annotations_change(one_node: Any) -> None:
    """Without news its worker's back-off of 10 to 15 s has to be over (seed 1: the look is one event for it)."""

    def placed(pod: Pod) -> Pod:
        return replace(pod, meta=replace(pod.meta, annotations={"place": ""}))

    left, marked = one_node(costs=_without_registry()), one_node(costs=_without_registry())
    marked.at(5, lambda: marked.client.patch(Pod, "d/a", placed))
    assert 10 < _told_to_wait_s(left) < 20
    assert 4 < _told_to_wait_s(marked) < 6


def test_a_sandbox_and_a_container_seen_by_one_look_may_be_two_syncs(one_node: Any) -> None:
    """Then the second follows at the next look: 40 % of 40 pods, give or take 2.5 deviations."""
    waits = [_told_to_wait_s(one_node(costs=_without_registry(), seed=seed)) for seed in range(40)]
    soon = [wait for wait in waits if wait < 5]
    assert all(wait > 9 for wait in waits if wait not in soon)
    assert 8 <= len(soon) <= 24


def test_images_are_pulled_one_after_the_other(one_node: Any) -> None:
    """serializeImagePulls: two pulls of 10 s take 20."""
    node = one_node(costs=StartCosts(pull=lambda image: 10 * SECOND))
    node.create(Container(name="c", image="x:1"), name="a")
    node.create(Container(name="c", image="y:1"), name="b")
    node.run(60)
    first, second = sorted(node.times(STARTED))
    assert second - first == pytest.approx(10, abs=0.1)


def test_a_pull_policy_never_without_the_image_waits(one_node: Any) -> None:
    """ErrImageNeverPull until somebody loads it; looked at each 10 to 15 s."""
    node = one_node()
    node.create(Container(name="c", image="x:1", pull_policy="Never"))
    node.at(30, lambda: node.runtime.images.add("x:1"))
    node.run(60)
    assert node.rows(WAITING, "collector")[0][1]["reason"] == "ErrImageNeverPull"
    assert 30 <= node.times(STARTED)[0] <= 47
