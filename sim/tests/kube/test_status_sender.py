"""Whose turn it is among a kubelet's statuses (models/kubelet/status_sender.py; status_manager.go syncPod())."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from slurmtwin.models.api_server.errors import ApiError
from slurmtwin.models.api_server.objects import Meta, Pod, PodStatus
from slurmtwin.models.kubelet.status_sender import StatusSender

FAILED = PodStatus(phase="Failed")


class Api:
    """What the kubelet asks for; each request waits until the test answers it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.answers: list[Callable[[Any], None]] = []

    def patch(self, _: Any, key: str, change: Any, done: Callable[[Any], None], **__: Any) -> None:
        self.asked.append(("patch", key))
        self.answers.append(lambda pod: done(pod if isinstance(pod, ApiError) else change(pod)))

    def delete(self, _: Any, key: str, done: Callable[[Any], None], **__: Any) -> None:
        self.asked.append(("delete", key))
        self.answers.append(done)


def ending(name: str) -> Pod:
    """A pod whose end was asked for."""
    return Pod(meta=Meta(name=name, namespace="slurm", uid=name, deletion_ns=1))


def sender(api: Api) -> StatusSender:
    """Of a kubelet that asks there; its sweep never comes."""
    nothing: Any = None
    client: Any = api
    return StatusSender(nothing, client, nothing, gone=lambda _: None)


def test_a_pods_removal_is_answered_before_the_next_pods_turn() -> None:
    """A status that says something new is sent, and the removal behind its answer; the second pod waits for both."""
    api = Api()
    tells = sender(api)
    one, two = ending("one"), ending("two")
    for pod in (one, two):
        tells.set(pod, FAILED, finished=True)
    assert api.asked == [("patch", one.meta.key)]
    api.answers.pop(0)(one)
    assert api.asked[1:] == [("delete", one.meta.key)]
    api.answers.pop(0)(one)
    assert api.asked[2:] == [("patch", two.meta.key)]


def test_a_status_the_server_has_is_not_sent_again_with_the_removal() -> None:
    """PatchPodStatus() sends nothing that changes nothing: the removal comes alone."""
    api = Api()
    tells = sender(api)
    pod = replace(ending("one"), status=FAILED)
    tells.set(pod, FAILED)
    api.answers.pop(0)(pod)
    tells.set(pod, FAILED, finished=True)
    assert api.asked == [("patch", pod.meta.key), ("delete", pod.meta.key)]
