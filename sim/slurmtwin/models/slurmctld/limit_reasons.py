"""squeue's reasons for a limit that holds a job back: which limit, of which TRES (job_state_reason.c)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class LimitKind(StrEnum):
    """A kind of TRES limit; the value is the reason's pattern with %s for the TRES."""

    ASSOC_GRP = "AssocGrp%s"
    ASSOC_GRP_MINS = "AssocGrp%sMinutes"
    ASSOC_GRP_RUN_MINS = "AssocGrp%sRunMinutes"
    ASSOC_MAX_PER_JOB = "AssocMax%sPerJob"
    ASSOC_MAX_PER_NODE = "AssocMax%sPerNode"
    ASSOC_MAX_MINS_PER_JOB = "AssocMax%sMinutesPerJob"
    QOS_GRP = "QOSGrp%s"
    QOS_GRP_MINS = "QOSGrp%sMinutes"
    QOS_GRP_RUN_MINS = "QOSGrp%sRunMinutes"
    QOS_MAX_PER_JOB = "QOSMax%sPerJob"
    QOS_MAX_PER_NODE = "QOSMax%sPerNode"
    QOS_MAX_PER_USER = "QOSMax%sPerUser"
    QOS_MAX_PER_ACCOUNT = "Max%sPerAccount"
    QOS_MAX_MINS_PER_JOB = "QOSMax%sMinutesPerJob"
    QOS_MIN = "QOSMin%s"


_WORDS: Final = {
    "cpu": "Cpu", "mem": "Memory", "energy": "Energy", "node": "Node", "billing": "Billing", "gres": "GRES",
    "license": "License",
}  # fmt: skip
_WITH_LIMIT: Final = frozenset(
    {
        (LimitKind.ASSOC_GRP, "cpu"), (LimitKind.ASSOC_GRP, "mem"), (LimitKind.ASSOC_GRP, "node"),
        (LimitKind.QOS_GRP, "cpu"), (LimitKind.QOS_GRP, "mem"), (LimitKind.QOS_GRP, "node"),
        (LimitKind.ASSOC_GRP_MINS, "cpu"), (LimitKind.ASSOC_GRP_RUN_MINS, "cpu"),
        (LimitKind.QOS_GRP_MINS, "cpu"), (LimitKind.QOS_GRP_RUN_MINS, "cpu"),
        (LimitKind.ASSOC_MAX_PER_JOB, "cpu"), (LimitKind.ASSOC_MAX_PER_JOB, "node"),
        (LimitKind.QOS_MAX_PER_JOB, "cpu"), (LimitKind.QOS_MAX_PER_JOB, "node"),
        (LimitKind.ASSOC_MAX_MINS_PER_JOB, "cpu"), (LimitKind.QOS_MAX_MINS_PER_JOB, "cpu"),
        (LimitKind.QOS_MAX_PER_USER, "cpu"), (LimitKind.QOS_MAX_PER_USER, "node"),
    }
)  # fmt: skip
"""Reasons of the first generation end in Limit."""
_CPU_IN_CAPITALS: Final = (
    LimitKind.ASSOC_GRP_MINS, LimitKind.ASSOC_GRP_RUN_MINS, LimitKind.QOS_GRP_MINS, LimitKind.QOS_GRP_RUN_MINS,
)  # fmt: skip
_PER_NODE: Final = (LimitKind.ASSOC_MAX_PER_NODE, LimitKind.QOS_MAX_PER_NODE)

GRP_JOBS: Final = "GrpJobsLimit"
GRP_SUBMIT_JOBS: Final = "GrpSubmitJobsLimit"
GRP_WALL: Final = "GrpWallLimit"
MAX_WALL: Final = "MaxWallDurationPerJobLimit"
"""These four follow Assoc or QOS."""
ASSOC_MAX_JOBS: Final = "AssocMaxJobsLimit"
ASSOC_MAX_SUBMIT: Final = "AssocMaxSubmitJobLimit"
QOS_MAX_JOBS_USER: Final = "QOSMaxJobsPerUserLimit"
QOS_MAX_JOBS_ACCOUNT: Final = "MaxJobsPerAccount"
QOS_MAX_SUBMIT_USER: Final = "QOSMaxSubmitJobPerUserLimit"
QOS_MAX_SUBMIT_ACCOUNT: Final = "MaxSubmitJobsPerAccount"


def tres_reason(kind: LimitKind, tres: str) -> str:
    """The reason for a limit on one TRES kind, e.g. (QOS_MAX_PER_USER, cpu) -> QOSMaxCpuPerUserLimit."""
    word = _WORDS.get(tres, "Unknown")
    if kind in _PER_NODE and tres in ("node", "license"):
        word = "Unknown"
    if tres == "mem" and (kind.startswith("Assoc") or kind is LimitKind.QOS_GRP):
        word = "Mem"
    if tres == "cpu" and kind in _CPU_IN_CAPITALS:
        word = "CPU"
    if tres == "cpu" and kind is LimitKind.QOS_MIN:
        return "QOSMinCpuNotSatisfied"
    return kind.value % word + ("Limit" if (kind, tres) in _WITH_LIMIT else "")
