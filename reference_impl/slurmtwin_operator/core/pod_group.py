"""One pass over pods that Slurm schedules: submit a placeholder job, bind the pods to its nodes, clean up behind it.

slurm-bridge makes one external job for a group, SUNK one sleeping placeholder job per pod (a PodGroup of one pod
here). slurmrestd has no idempotent submit: the memory, stored before the submit, and an answer that is younger than
it decide whether the job exists; after a lost memory the first answer taken since is waited for. With `recheck` each
action is guarded by what Slurm and the API server say just before it: a view that is late or lacks an object costs
time, never a second job, a pod outside its job, or a job ended under its pods.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from slurmtwin_operator.core.actions import (
    Action,
    BindPod,
    CancelJob,
    DeleteObject,
    Guard,
    Memory,
    Plan,
    Reason,
    SetFinalizer,
    SubmitJob,
    Why,
)  # fmt: skip
from slurmtwin_operator.core.observed import GroupPod, PodGroupObserved, SlurmJob

SOON_NS: Final = 5_000_000_000
LATE_NS: Final = 30_000_000_000
"""slurm-bridge looks at each pod every 30 s (SB)."""
ENDED: Final = ("Succeeded", "Failed")
RUNS: Final = "RUNNING"
WAITS: Final = ("PENDING", "CONFIGURING")


def job_name(o: PodGroupObserved) -> str:
    """The name by which the job is found again; the uid keeps a re-created group apart."""
    return f"slurmtwin-{o.me.namespace}-{o.me.name}-{o.me.uid[:8]}"


def plan_pod_group(o: PodGroupObserved, memory: Memory, now: int) -> Plan:
    """The decision of one pass over a PodGroup."""
    since = memory.since_ns if memory.since_ns >= 0 else now
    memory = replace(memory, since_ns=since)
    if o.switches.pod_jobs == "none":
        return Plan((), memory, LATE_NS)
    if o.slurm.answer != "fresh" or o.slurm.at_ns < since:
        return Plan((), memory, SOON_NS, reasons=(Reason(Why.WAITS_FOR_SLURM, o.me.name),))
    pods = sorted(o.pods, key=lambda pod: pod.name)
    live = [pod for pod in pods if pod.phase not in ENDED and not pod.deleting]
    jobs = sorted((j for j in o.slurm.jobs if j.name == job_name(o)), key=lambda j: j.id)
    current = [j for j in jobs if j.state == RUNS or j.state in WAITS]
    actions: list[Action] = [CancelJob(job.id) for job in current[1:]]  # one job a group, whatever went wrong before
    reasons: list[Reason] = []
    if not live or o.me.deleting:
        _close(o, pods, current, actions)
    else:
        nodes = current[0].nodes if current and current[0].state == RUNS else ()
        outside = [pod for pod in live if pod.node and pod.node not in nodes]
        _evict(o, outside, actions, reasons)
        if nodes:
            _bind(o, live, nodes, actions, reasons)
        elif not current and not outside and (memory.submitted_ns < 0 or o.slurm.at_ns > memory.submitted_ns):
            if not o.me.finalizer:
                actions.append(SetFinalizer(True))
            actions.append(_submit(o))
            memory = replace(memory, submitted_ns=now)
            reasons.append(Reason(Why.SUBMITTED, o.me.name))
    waiting = bool(actions) or any(not pod.node for pod in live)
    return Plan(tuple(actions), memory, SOON_NS if waiting else LATE_NS, reasons=tuple(reasons))


def _guard(o: PodGroupObserved, node: str = "", *, held: bool | None = None, childless: bool = False) -> Guard | None:
    """What must still be true of the group's job, where the design asks again."""
    return Guard(node, job=job_name(o), held=held, childless=childless) if o.switches.recheck else None


def _submit(o: PodGroupObserved) -> SubmitJob:
    spec, external = o.spec, o.switches.pod_jobs == "external"
    return SubmitJob(
        job_name(o), spec.nodes, spec.cpus, spec.partition, spec.time_limit_s, spec.exclusive, external, _guard(o)
    )


def _evict(o: PodGroupObserved, outside: list[GroupPod], actions: list[Action], reasons: list[Reason]) -> None:
    """A pod on a node that its job does not hold, or holds no more, goes: the node is another job's (SB)."""
    for pod in outside:
        actions.append(DeleteObject("Pod", pod.name, pod.uid, _guard(o, pod.node, held=False)))
        reasons.append(Reason(Why.JOB_ENDED, pod.name))


def _bind(
    o: PodGroupObserved, live: list[GroupPod], nodes: tuple[str, ...], actions: list[Action], reasons: list[Reason]
) -> None:
    """The nodes of the running job are given to the pods that have none, in order."""
    taken = {pod.node for pod in live}
    free = sorted(node for node in nodes if node not in taken)
    for pod, node in zip((p for p in live if not p.node), free, strict=False):
        actions.append(BindPod(pod.name, pod.uid, node, _guard(o, node, held=True)))
        reasons.append(Reason(Why.BOUND, pod.name))


def _close(o: PodGroupObserved, pods: list[GroupPod], current: list[SlurmJob], actions: list[Action]) -> None:
    """The last pod ended, or the group is deleted: the job ends only when no pod is stopping any more (SB#16)."""
    stopping = [pod for pod in pods if pod.phase not in ENDED]
    if o.me.deleting:
        actions += [DeleteObject("Pod", pod.name, pod.uid) for pod in stopping if not pod.deleting]
    if not stopping:
        childless = Guard(childless=True) if o.switches.recheck else None
        actions += [CancelJob(job.id, childless) for job in current[:1]]
        if o.me.deleting and not current and o.me.finalizer:
            actions.append(SetFinalizer(False, _guard(o, childless=True)))
