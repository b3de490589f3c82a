"""Planted mistakes of the shell: each replaces one piece of it, and the test that is named must turn red."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from slurmtwin_operator.core.observed import Slurm
from slurmtwin_operator.shell import cache, logs, reconcile, slurm_rest
from slurmtwin_operator.shell.kube_api import MERGE, KubeApi, path_of
from slurmtwin_operator.shell.lease import Lease
from slurmtwin_operator.shell.objects import FINALIZER
from slurmtwin_operator.shell.observe import Answer, Observer
from slurmtwin_operator.shell.perform import DONE, Performer
from slurmtwin_operator.shell.process import Operator
from slurmtwin_operator.shell.reconcile import Reconciler
from slurmtwin_operator.shell.work_queue import WorkQueue

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutation:
    """A mistake, and the test (module, function) that must fail with it."""

    name: str
    plant: Plant
    module: str
    test: str


def _set(owner: Any, name: str, value: Any) -> Plant:
    return lambda patch: patch.setattr(owner, name, value)


def _answers(value: Any) -> Callable[..., Any]:
    """A coroutine function that does nothing and returns the value."""

    async def answer(*_: Any, **__: Any) -> Any:
        return value

    return answer


async def _write_without_version(self: Any, _method: str, body: Any) -> bool:
    """The Lease is written whatever version was read."""
    body["metadata"].pop("resourceVersion", None)
    path = "apis/coordination.k8s.io/v1/namespaces/ops/leases"
    if await self._api.get("Lease", "ops", body["metadata"]["name"]) is None:
        await self._api.request("POST", path, body)
    else:
        await self._api.request("PUT", f"{path}/{body['metadata']['name']}", body)
    return True


def _same_pause(self: Any, key: Any, now_ns: int) -> int:
    self._running.discard(key)
    self._due[key] = now_ns + self._base
    return int(self._base)


def _told_nothing(self: Any, *_: Any) -> None:
    self._told.clear()


async def _finalizer_alone(self: Any, action: Any) -> str:
    """Our finalizer is written over those of others."""
    meta = {"finalizers": [FINALIZER] if action.on else []}
    await self._api.patch(self._key.kind, self._key.namespace, self._key.name, {"metadata": meta})
    return DONE


async def _delete_any(self: Any, kind: str, namespace: str, name: str, _uid: str = "") -> bool:
    """Whatever object has that name."""
    await self.request("DELETE", path_of(kind, namespace, name), {})
    return True


async def _create_any(self: Any, action: Any) -> str:
    return str(await self._create("Pod", json.loads(action.manifest)))


async def _fresh_without_answer(self: Any, _key: Any, _rest: Any, *, more: bool = False) -> Answer:
    """Fails open: no answer counts as an empty one."""
    return Answer(Slurm("fresh", self._clock(), ()))


async def _patched_always(self: Any, key: Any, item: Any, plan: Any) -> None:
    await self._api.request("PATCH", path_of(key.kind, key.namespace, key.name, "status"),
                            {"status": dict(plan.status)}, MERGE)  # fmt: skip


async def _remembered_here_alone(self: Any, _key: Any, uid: str, memory: Any) -> None:
    self._memories[uid] = memory


async def _keys_made_anew(self: Any, action: Any) -> str:
    place = (self._key.namespace, action.name)
    await self._api.patch("Secret", *place, {"data": {key: "bmV3" for key, _ in action.keys}})
    return DONE


def _raw(original: Callable[..., None]) -> Callable[..., None]:
    def record(self: Any, observed: Any, *rest: Any) -> None:
        original(self, observed, *rest)
        self._write({"key": "planted-secret-of-the-test-planted-secret"})

    return record


SHELL, ACTIONS, READING = "test_shell", "test_shell_actions", "test_shell_reading"
LEASE, PASSES, SLURM, TOLD = "test_shell_lease", "test_shell_passes", "test_shell_slurm", "test_shell_told"


def _shared_threads() -> Callable[..., ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(6)
    return lambda *_: pool


MUTATIONS = (
    Mutation("all slurmrestd share six threads", _set(slurm_rest, "ThreadPoolExecutor", _shared_threads()),
             "test_shell_rest", "test_a_silent_slurmrestd_holds_up_no_other_cluster"),
    Mutation("the fence of the Lease is dropped", _set(Reconciler, "_fence", lambda self: None), LEASE,
             "test_a_pass_without_the_lease_does_nothing"),
    Mutation("a Lease is held for ever", _set(Lease, "held", property(lambda self: self._renewed_ns >= 0)), LEASE,
             "test_a_lease_that_stood_still_is_taken_over_and_the_old_holder_knows"),
    Mutation("the Lease is written whatever was read", _set(Lease, "_write", _write_without_version), LEASE,
             "test_of_two_that_take_over_a_free_lease_at_once_one_fails"),
    Mutation("the Lease is kept at a stop", _set(Lease, "release", _answers(None)), LEASE,
             "test_a_lease_is_given_back_at_a_graceful_stop"),
    Mutation("back-off does not double", _set(WorkQueue, "failed", _same_pause), READING,
             "test_failures_double_up_to_the_cap_and_hold_off_other_wishes"),
    Mutation("a pass without Slurm is a good one", _set(reconcile, "stopped_short", lambda o: False), SLURM,
             "test_with_stop_pass_a_silent_slurm_backs_off_and_an_answer_ends_it"),
    Mutation("events repeat in each pass", _set(Reconciler, "_log", _told_nothing), TOLD,
             "test_events_are_written_once_per_reason"),
    Mutation("tokens are not struck out", _set(logs, "TOKEN", re.compile("x{999}")), TOLD,
             "test_no_secret_is_in_logs_recordings_events_or_status"),
    Mutation("a secret is recorded",
             lambda patch: patch.setattr(reconcile.Recorder, "write", _raw(reconcile.Recorder.write)), TOLD,
             "test_no_secret_is_in_logs_recordings_events_or_status"),
    Mutation("the finalizers of others are lost", _set(Performer, "_finalizer", _finalizer_alone), ACTIONS,
             "test_finalizers_and_taints_of_others_stay"),
    Mutation("the finalizer goes early", _set(Performer, "_has_children", _answers(False)), ACTIONS,
             "test_a_cluster_goes_only_when_the_api_server_has_no_node_set_of_it"),
    Mutation("status is written in each pass", _set(Reconciler, "_report", _patched_always), SHELL,
             "test_nothing_is_written_once_all_is_settled"),
    Mutation("memory is not stored", _set(Reconciler, "_remember", _remembered_here_alone), PASSES,
             "test_memory_is_stored_before_the_first_action"),
    Mutation("a delete has no uid", _set(KubeApi, "delete", _delete_any), ACTIONS,
             "test_a_pod_of_that_name_with_another_uid_is_left_alone"),
    Mutation("guards are not asked", _set(Performer, "_holds", _answers(True)), SLURM,
             "test_a_node_that_became_busy_is_not_deleted"),
    Mutation("jobs are not asked for again", _set(Performer, "_job_is", _answers(True)), ACTIONS,
             "test_slurm_is_asked_again_about_a_placeholder_job"),
    Mutation("pods are not counted", _set(Performer, "_create_pod", _create_any), ACTIONS,
             "test_no_pod_is_made_beyond_the_number_that_the_api_server_counts"),
    Mutation("no answer is an empty answer", _set(Observer, "_ask", _fresh_without_answer), SLURM,
             "test_while_slurm_does_not_answer_no_pod_is_deleted"),
    Mutation("keys are made anew", _set(Performer, "_ensure_secret", _keys_made_anew), SHELL,
             "test_a_cluster_becomes_its_control_plane_and_keys_are_made_once"),
    Mutation("pods of others are kept whole", _set(cache, "_slim", lambda kind, item: item), READING,
             "test_our_own_writes_of_status_wake_nobody_and_pods_of_others_are_kept_small"),
    Mutation("our own status wakes us", _set(cache, "_told", lambda kind, item: object()), READING,
             "test_our_own_writes_of_status_wake_nobody_and_pods_of_others_are_kept_small"),
    Mutation("/healthz is always well", _set(Operator, "alive", lambda self: True), TOLD,
             "test_probes_and_metrics_are_served"),
    Mutation("what went unseen stays", _set(Operator, "compare", _answers(None)), PASSES,
             "test_an_object_that_went_while_a_watch_was_broken_is_dropped"),
)  # fmt: skip


def arguments(test: Callable[..., Any]) -> dict[str, Any]:
    """Those of the second case of a parametrized test; a fixture that is only asked for is None."""
    found: dict[str, Any] = {}
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
            values = mark.args[1][1] if len(names) > 1 else (mark.args[1][1],)
            found |= dict(zip(names, values, strict=True))
    return dict.fromkeys(inspect.signature(test).parameters) | found
