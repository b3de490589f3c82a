"""Which lane of a timeline a row belongs to, how loud it is, and what it says."""

from __future__ import annotations

from typing import Final

from slurmtwin_reports.history import Row, fault_of

LANES: Final = (
    "Kubernetes node", "pods, API server", "containers", "slurmctld", "Slurm nodes", "slurmd, scripts", "jobs",
    "clients",
)  # fmt: skip
_BY_KIND: Final = {
    "lease.renewed": 0, "pod.ready": 2, "pod.unready": 2, "pod.ended": 2, "reservation.created": 3,
    "reservation.ended": 3, "node.registered": 4,
}  # fmt: skip
_BY_SUBJECT: Final = {
    "kube_node": 0, "pod": 1, "claim": 1, "object": 1, "action": 1, "container": 2, "slurmctld": 3, "slurmdbd": 3,
    "sched": 3, "node": 4, "slurmd": 5, "script": 5, "job": 6, "client": 7,
}  # fmt: skip
_LEFT_OUT: Final = (
    "kube.event", "kubelet.relisted", "pod.synced", "pod.probed", "clock.measured", "container.pinned", "node.state",
    "job.state", "job.pending",
)  # fmt: skip
_QUIET: Final = ("lease.renewed", "sched.main_pass", "sched.backfill_cycle", "sched.priority_pass", "node.pinged",
                 "slurmctld.saved", "job.planned")  # fmt: skip
_BAD: Final = (
    "container.ended", "container.waiting", "pod.unready", "pod.deleting", "pod.deleted", "pod.ended",
    "kube_node.unready", "kube_node.deleted", "node.down", "node.not_responding", "node.drained", "node.invalid",
    "slurmctld.crashed", "slurmctld.stopped", "slurmd.crashed", "slurmd.stopped", "job.requeued", "job.lost",
    "job.held", "client.refused", "claim.lost", "action.failed",
)  # fmt: skip
_GOOD: Final = (
    "container.started", "pod.ready", "pod.created", "kube_node.ready", "node.up", "node.responding", "node.resumed",
    "node.registered", "slurmctld.started", "slurmctld.took_over", "slurmd.started", "job.started", "script.started",
    "client.answered", "claim.bound",
)  # fmt: skip
_TOLD: Final = ("asked", "state", "reason", "by", "status", "taints", "purpose")


def lane_of(row: Row) -> int | None:
    """Place in LANES; None for what a timeline leaves out: polls, and receipts of what has a stamp of its own."""
    if row.kind in _LEFT_OUT or (row.actor == "collector" and row.cause_seq is not None):
        return None
    if row.kind in _BY_KIND:
        return _BY_KIND[row.kind]
    return _BY_SUBJECT.get(row.kind.partition(".")[0])


def tone_of(row: Row) -> str:
    """CSS class of its mark: quiet, bad, good or plain. A job's end is bad unless it completed."""
    if row.kind in _QUIET:
        return "quiet"
    if row.kind == "job.ended":
        return "good" if row.details.get("state") == "COMPLETED" else "bad"
    if row.kind in _BAD:
        return "bad"
    return "good" if row.kind in _GOOD else "plain"


def said(row: Row) -> str:
    """The row in words: kind, whom it is about, what its detail says."""
    detail = row.details
    if row.kind.startswith("fault."):
        fault = fault_of(row)
        parts = [row.kind, str(fault.get("kind", "")), str(fault.get("target", ""))]
        return " ".join(part for part in parts if part)
    about = [f"job {row.job_id}"] if row.job_id is not None else []
    about += [str(detail["pod"]).rpartition("/")[2]] if "pod" in detail else []
    about += [row.node] if row.node and "pod" not in detail else []
    more = [
        str(detail[key]) for key in ("asked", "state", "reason", "by", "status", "taints", "purpose") if detail.get(key)
    ]
    return f"{row.kind} {' '.join(about)}{' (' + ', '.join(more) + ')' if more else ''}".strip()
