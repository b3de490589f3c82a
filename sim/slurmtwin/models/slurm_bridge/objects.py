"""How slurm-bridge marks objects (internal/wellknown, internal/utils/{taints,tolerations}.go)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from slurmtwin.engine.records import changed
from slurmtwin.models.api_server.objects import NO_EXECUTE, Pod, Taint, Toleration

SCHEDULER: Final = "slurm-bridge-scheduler"
JOB: Final = "scheduler.slinky.slurm.net/slurm-jobid"
"""Label: Slurm's number of the pod's external job."""
NODE: Final = "slinky.slurm.net/slurm-node"
"""Annotation: the Kubernetes node that Slurm chose."""
FINALIZER: Final = "scheduler.slinky.slurm.net/finalizer"
MANAGED: Final = "slinky.slurm.net/managed-node"
GROUP: Final = "scheduling.x-k8s.io/pod-group"
"""Label: the coscheduling PodGroup."""
MEMBERS: Final = "slurmtwin.org/min-member"
"""Annotation in place of the PodGroup object: its minMember."""
TIME_LIMIT: Final = "slurmjob.slinky.slurm.net/timelimit"
"""Annotation, minutes."""
PARTITION: Final = "slurmjob.slinky.slurm.net/partition"
EXCLUSIVE: Final = "slurmjob.slinky.slurm.net/exclusive"

TAINT: Final = Taint(key=MANAGED, value=SCHEDULER, effect=NO_EXECUTE)
TOLERATION: Final = Toleration(key=MANAGED, value=SCHEDULER, exists=False, effect=NO_EXECUTE)


def job_of(pod: Pod) -> int:
    """Slurm's number of the pod's job; 0: none (ParseSlurmJobId())."""
    text = pod.meta.labels.get(JOB, "")
    return int(text) if text.isdigit() else 0


def node_of(pod: Pod) -> str:
    """The node that Slurm chose for it; "": none yet."""
    return str(pod.meta.annotations.get(NODE, ""))


def tolerating(pod: Pod) -> Pod:
    """MergeTolerations()."""
    if TOLERATION in pod.spec.tolerations:
        return pod
    spec = changed(pod.spec, tolerations=(*pod.spec.tolerations, TOLERATION))
    return Pod(meta=pod.meta, spec=spec, status=pod.status)


def labelled(pod: Pod, job: int) -> Pod:
    """labelPodsWithJobId(): the job's number, and the finalizer with it."""
    meta = pod.meta
    finalizers = meta.finalizers if FINALIZER in meta.finalizers else (*meta.finalizers, FINALIZER)
    return Pod(
        meta=changed(meta, labels={**meta.labels, JOB: str(job)}, finalizers=finalizers),
        spec=pod.spec, status=pod.status,
    )  # fmt: skip


def annotated(pod: Pod, node: str) -> Pod:
    """annotatePodsWithNodes(); "": the annotation is emptied."""
    meta = changed(pod.meta, annotations={**pod.meta.annotations, NODE: node})
    return Pod(meta=meta, spec=pod.spec, status=pod.status)


def unmarked(pod: Pod) -> Pod:
    """deleteExternalJob(): neither number nor node."""
    labels = {name: value for name, value in pod.meta.labels.items() if name != JOB}
    notes = {name: value for name, value in pod.meta.annotations.items() if name != NODE}
    return replace(pod, meta=changed(pod.meta, labels=labels, annotations=notes))


def released(pod: Pod) -> Pod:
    """prepareTerminalPod(): without the finalizer."""
    if FINALIZER not in pod.meta.finalizers:
        return pod
    kept = tuple(name for name in pod.meta.finalizers if name != FINALIZER)
    return Pod(meta=changed(pod.meta, finalizers=kept), spec=pod.spec, status=pod.status)
