"""Pods under Slurm's scheduler, and workloads between clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurmtwin_operator.core import plan
from slurmtwin_operator.core.actions import (
    BindPod,
    CancelJob,
    DeleteObject,
    Guard,
    Memory,
    SetFinalizer,
    SetMirror,
    SubmitJob,
    Why,
)
from slurmtwin_operator.core.observed import (
    DispatchObserved,
    GroupPod,
    Identity,
    Mirror,
    PodGroupObserved,
    Slurm,
    SlurmJob,
)
from slurmtwin_operator.core.pod_group import job_name
from slurmtwin_operator.core.spec import DispatchSpec, PodGroupSpec
from slurmtwin_operator.core.switches import Switches

S = 1_000_000_000
ME = Identity("ns", "g", "0123456789")
PODS = (GroupPod("p0", "u0"), GroupPod("p1", "u1"))


def group(*jobs: SlurmJob, pods: tuple[GroupPod, ...] = PODS, at_ns: int = 10 * S, **more: Any) -> PodGroupObserved:
    """A group of two pods and what Slurm lists."""
    switches = Switches(pod_jobs=more.pop("pod_jobs", "external"))
    slurm = Slurm(more.pop("answer", "fresh"), at_ns, jobs=jobs)
    return PodGroupObserved(replace(ME, **more), PodGroupSpec(nodes=2), switches, pods, slurm)


def placeholder(number: int, state: str, *nodes: str) -> SlurmJob:
    """The group's job."""
    return SlurmJob(number, state, nodes, name=job_name(group()))


def held(node: str, held: bool = True) -> Guard:
    """The group's job runs on the node, or it does not."""
    return Guard(node, job=job_name(group()), held=held)


KNOWN = Memory(since_ns=0)


@pytest.mark.parametrize(("pod_jobs", "external"), [("external", True), ("placeholder", False)])
def test_one_job_for_the_group(pod_jobs: str, external: bool) -> None:
    """The first pass submits one job, and remembers it before it happens."""
    decided = plan(group(pod_jobs=pod_jobs), KNOWN, 11 * S)
    (action,) = decided.actions
    assert isinstance(action, SubmitJob)
    assert (action.nodes, action.external, action.name) == (2, external, "slurmtwin-ns-g-01234567")
    assert action.only_if == Guard(job=action.name)
    assert decided.memory.submitted_ns == 11 * S


def test_no_second_job_from_an_old_answer() -> None:
    """An answer taken before the submit does not lead to another; a younger one without the job does."""
    memory = replace(KNOWN, submitted_ns=11 * S)
    assert plan(group(at_ns=10 * S), memory, 12 * S).actions == ()
    assert isinstance(plan(group(at_ns=12 * S), memory, 13 * S).actions[0], SubmitJob)


def test_lost_memory_waits_for_a_fresh_answer() -> None:
    """With no memory an answer from before is not believed: it may lack the job submitted a moment ago."""
    decided = plan(group(at_ns=10 * S), Memory(), 12 * S)
    assert (decided.actions, decided.memory.since_ns) == ((), 12 * S)
    assert isinstance(plan(group(at_ns=13 * S), decided.memory, 14 * S).actions[0], SubmitJob)


def test_pods_are_bound_to_the_nodes_of_the_running_job() -> None:
    """A waiting job binds nothing; a running one gives its free nodes to the pods without one, in order."""
    assert plan(group(placeholder(7, "PENDING")), KNOWN, 11 * S).actions == ()
    running = placeholder(7, "RUNNING", "n2", "n1")
    first, second = (BindPod(f"p{i}", f"u{i}", node, held(node)) for i, node in enumerate(("n1", "n2")))
    assert plan(group(running), KNOWN, 11 * S).actions == (first, second)
    half = (replace(PODS[0], node="n2", phase="Running"), PODS[1])
    assert plan(group(running, pods=half), KNOWN, 11 * S).actions == (replace(second, node="n1", only_if=held("n1")),)


def test_a_second_job_is_cancelled() -> None:
    """Whatever went wrong before, one job is left."""
    jobs = (placeholder(8, "PENDING"), placeholder(7, "RUNNING", "n1", "n2"))
    assert CancelJob(8) in plan(group(*jobs), KNOWN, 11 * S).actions


def test_bound_pods_go_with_their_job() -> None:
    """slurm-bridge: a bound pod whose job does not run is deleted."""
    bound = (replace(PODS[0], node="n1"), PODS[1])
    gone = DeleteObject("Pod", "p0", "u0", held("n1", False))
    assert plan(group(placeholder(7, "COMPLETED"), pods=bound), KNOWN, 11 * S).actions == (gone,)


@pytest.mark.parametrize("job", [placeholder(7, "PENDING"), placeholder(7, "RUNNING", "n3", "n4")])
def test_pods_leave_nodes_that_a_requeued_job_no_longer_holds(job: SlurmJob) -> None:
    """Its node failed: the job waits, or runs elsewhere; the pod left behind goes, no second job is made."""
    bound = (replace(PODS[0], node="n1"), replace(PODS[1], deleting=True))
    assert plan(group(job, pods=bound), KNOWN, 11 * S).actions == (DeleteObject("Pod", "p0", "u0", held("n1", False)),)


def test_without_recheck_nothing_is_asked_again() -> None:
    """slurm-bridge: decisions rest on its caches."""
    o = group(placeholder(7, "RUNNING", "n1", "n2"))
    switches = o.switches.model_copy(update={"recheck": False})
    made = plan(replace(o, switches=switches), KNOWN, 11 * S).actions
    ended = tuple(replace(pod, phase="Succeeded") for pod in PODS)
    made += plan(replace(o, switches=switches, pods=ended), KNOWN, 11 * S).actions
    assert [type(a) for a in made] == [BindPod, BindPod, CancelJob]
    assert [getattr(a, "only_if", None) for a in made] == [None, None, None]


def test_job_is_held_until_the_last_pod_has_stopped() -> None:
    """SB#16: the nodes are not given back while a pod is still stopping."""
    job = placeholder(7, "RUNNING", "n1", "n2")
    stopping = (GroupPod("p0", "u0", "n1", "Running", deleting=True), GroupPod("p1", "u1", "n2", "Succeeded"))
    assert plan(group(job, pods=stopping), KNOWN, 11 * S).actions == ()
    ended = tuple(replace(pod, phase="Succeeded") for pod in stopping)
    assert plan(group(job, pods=ended), KNOWN, 11 * S).actions == (CancelJob(7, Guard(childless=True)),)


def test_deleted_group_ends_pods_then_job_then_itself() -> None:
    """Pods first, then the job, then the finalizer."""
    job = placeholder(7, "RUNNING", "n1", "n2")
    assert plan(group(job, deleting=True), KNOWN, 11 * S).actions == (
        DeleteObject("Pod", "p0", "u0"),
        DeleteObject("Pod", "p1", "u1"),
    )
    assert plan(group(job, pods=(), deleting=True), KNOWN, 11 * S).actions == (CancelJob(7, Guard(childless=True)),)
    last = Guard(job=job.name, childless=True)
    assert plan(group(pods=(), deleting=True), KNOWN, 11 * S).actions == (SetFinalizer(False, last),)
    assert plan(group(pods=(), deleting=True, finalizer=False), KNOWN, 11 * S).actions == ()


def test_group_waits_for_slurm_and_does_nothing_when_switched_off() -> None:
    """No answer, no action; and none at all where Slurm does not schedule pods."""
    away = plan(group(answer="away"), KNOWN, 11 * S)
    assert (away.actions, away.reasons[0].why) == ((), Why.WAITS_FOR_SLURM)
    assert plan(group(pod_jobs="none"), KNOWN, 11 * S).actions == ()
    first = plan(group(finalizer=False), KNOWN, 11 * S).actions
    assert first[0] == SetFinalizer(True)


def dispatch(*mirrors: Mirror, mode: str = "all-at-once", at_ns: int = 0, **me: Any) -> DispatchObserved:
    """A workload for four clusters that answered at that time."""
    spec = DispatchSpec(clusters=("a", "b", "c", "d"), nominate=2, round_s=300)
    known = {m.cluster: replace(m, seen_ns=at_ns) if m.reachable else m for m in mirrors}
    all_four = tuple(known.get(name, Mirror(name, seen_ns=at_ns)) for name in "abcd")
    return DispatchObserved(replace(ME, **me), spec, Switches(dispatch=mode), all_four)


RUN_B = SetMirror("b", True, run=True)
RUNS = Mirror("b", exists=True, admitted=True, running=True)


def test_all_at_once_offers_everywhere_reachable() -> None:
    """AllAtOnce: a copy in every cluster that answers."""
    decided = plan(dispatch(Mirror("b", reachable=False)), Memory(), 0)
    assert decided.actions == (SetMirror("a", True), SetMirror("c", True), SetMirror("d", True))


def test_incremental_offers_a_few_per_round() -> None:
    """Incremental: two, and after five minutes two more."""
    first = plan(dispatch(mode="incremental"), Memory(), 0)
    assert first.actions == (SetMirror("a", True), SetMirror("b", True))
    there = (Mirror("a", exists=True), Mirror("b", exists=True))
    assert plan(dispatch(*there, mode="incremental", at_ns=299 * S), first.memory, 299 * S).actions == ()
    second = plan(dispatch(*there, mode="incremental", at_ns=300 * S), first.memory, 300 * S)
    assert second.actions == (SetMirror("c", True), SetMirror("d", True))


def test_first_to_admit_runs_and_the_others_go() -> None:
    """Quota alone runs nothing: the job is made for the copy that won, once."""
    mirrors = (Mirror("a", exists=True), Mirror("b", exists=True, admitted=True), Mirror("c", exists=True))
    decided = plan(dispatch(*mirrors), Memory(), 0)
    assert decided.actions == (SetMirror("a", False), SetMirror("c", False), RUN_B)
    assert decided.memory.admitted == "b"
    assert dict(decided.status)["cluster"] == "b"
    assert plan(dispatch(RUNS, at_ns=5 * S), decided.memory, 5 * S).actions == ()


def test_what_was_seen_before_the_last_word_says_nothing() -> None:
    """The view that led to a decision, shown once more, leads to no other."""
    mirrors = (Mirror("a", exists=True, admitted=True), Mirror("b", exists=True, admitted=True))
    memory = plan(dispatch(*mirrors), Memory(), 0).memory
    assert plan(dispatch(*mirrors), memory, 1 * S).actions == ()
    assert plan(dispatch(), memory, 1 * S).actions == ()


def test_after_a_lost_memory_a_copy_that_runs_is_the_winner() -> None:
    """Before one that is only admitted; and one that was cut off a moment ago is waited for."""
    admitted = Mirror("a", exists=True, admitted=True)
    assert plan(dispatch(admitted, RUNS), Memory(), 0).actions == (SetMirror("a", False),)
    cut = replace(RUNS, reachable=False, seen_ns=0)
    assert plan(dispatch(cut, at_ns=60 * S), Memory(), 60 * S).actions == ()


def test_a_cluster_that_is_missing_from_the_list_is_waited_for() -> None:
    """It may hold the copy that runs: nothing is offered, nothing is let go."""
    part = replace(dispatch(), mirrors=(Mirror("a"), Mirror("c"), Mirror("d")))
    decided = plan(part, Memory(), 0)
    assert (decided.actions, decided.reasons[0].why) == ((), Why.WAITS_FOR_CLUSTER)
    assert plan(part, Memory(admitted="b"), 0).actions == ()
    assert plan(replace(part, me=replace(ME, deleting=True)), Memory(), 0).actions == ()


def test_lost_cluster_is_replaced_after_its_timeout() -> None:
    """X83: silent for 15 minutes, the workload is offered elsewhere; not a second earlier."""
    memory = Memory(admitted="b", since_ns=0)
    silent = Mirror("b", reachable=False, seen_ns=0, exists=True, admitted=True, running=True)
    assert plan(dispatch(silent, at_ns=899 * S), memory, 899 * S).actions == ()
    decided = plan(dispatch(silent, at_ns=900 * S), memory, 900 * S)
    assert decided.actions == (SetMirror("a", True), SetMirror("c", True), SetMirror("d", True))
    assert decided.memory.admitted == ""
    assert Why.CLUSTER_LOST in [r.why for r in decided.reasons]


def test_winner_that_lost_its_copy_is_no_winner() -> None:
    """A reachable cluster without the copy: the workload is offered again."""
    decided = plan(dispatch(Mirror("b", exists=False)), Memory(admitted="b"), 0)
    assert len(decided.actions) == 4


def test_dispatch_is_deleted_after_its_copies() -> None:
    """Copies first, then the finalizer; unreachable copies are waited for."""
    there = (Mirror("a", exists=True), Mirror("b", exists=True, reachable=False))
    assert plan(dispatch(*there, deleting=True), Memory(), 0).actions == (SetMirror("a", False),)
    assert plan(dispatch(there[1], deleting=True), Memory(), 0).actions == ()
    assert plan(dispatch(deleting=True), Memory(since_ns=1), 1).actions == ()
    assert plan(dispatch(deleting=True), Memory(), 0).actions == (SetFinalizer(False),)
    assert plan(dispatch(deleting=True, finalizer=False), Memory(), 0).actions == ()
    assert plan(dispatch(mode="none"), Memory(), 0).actions == ()
    assert plan(dispatch(finalizer=False), Memory(), 0).actions[0] == SetFinalizer(True)
