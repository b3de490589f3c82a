"""Job and node states, flags and pending reasons, in Slurm's words (slurm/slurm.h; slurm.md 4.1)."""

from __future__ import annotations

from enum import IntEnum, IntFlag, StrEnum
from typing import Final


class JobState(IntEnum):
    """Base state of a job."""

    PENDING = 0
    RUNNING = 1
    SUSPENDED = 2
    COMPLETED = 3
    CANCELLED = 4
    FAILED = 5
    TIMEOUT = 6
    NODE_FAIL = 7
    PREEMPTED = 8
    BOOT_FAIL = 9
    DEADLINE = 10
    OUT_OF_MEMORY = 11

    @property
    def finished(self) -> bool:
        """The run is over (COMPLETING may still be set)."""
        return self >= JobState.COMPLETED


class NodeBase(IntEnum):
    """Base state of a node (low four bits)."""

    UNKNOWN = 0
    DOWN = 1
    IDLE = 2
    ALLOCATED = 3
    FUTURE = 6


class NodeFlag(IntFlag):
    """Flags over the base state. Each set of them is one object, which `&` and `|` look up."""

    def __and__(self, other: int) -> NodeFlag:
        """As IntFlag's, which makes it anew each time."""
        value = int.__and__(self, other)
        return _SETS.get(value) or _kept(value)

    def __or__(self, other: int) -> NodeFlag:
        """As IntFlag's."""
        value = int.__or__(self, other)
        return _SETS.get(value) or _kept(value)

    __rand__ = __and__
    __ror__ = __or__

    NONE = 0
    CLOUD = 1
    DRAIN = 2
    COMPLETING = 4
    NO_RESPOND = 8
    POWERED_DOWN = 16
    FAIL = 32
    POWERING_UP = 64
    MAINT = 128
    REBOOT_REQUESTED = 256
    REBOOT_ISSUED = 512
    POWERING_DOWN = 1024
    POWER_DOWN = 2048
    POWER_UP = 4096
    POWER_DRAIN = 8192
    DYNAMIC_NORM = 16384
    INVALID_REG = 32768
    PLANNED = 65536
    RES = 131072
    EXTERNAL = 262144


_SETS: Final[dict[int, NodeFlag]] = {}


def _kept(value: int) -> NodeFlag:
    """The set of flags of that value, made once."""
    made = _SETS.get(value)
    if made is None:
        made = _SETS[value] = NodeFlag(value)
    return made


class Reason(StrEnum):
    """Why a pending job does not run (squeue's REASON), as far as the model sets it."""

    NONE = "None"
    PRIORITY = "Priority"
    RESOURCES = "Resources"
    DEPENDENCY = "Dependency"
    DEPENDENCY_NEVER = "DependencyNeverSatisfied"
    BEGIN_TIME = "BeginTime"
    LICENSES = "Licenses"
    RESERVATION = "Reservation"
    RESERVATION_DELETED = "ReservationDeleted"
    HELD_USER = "JobHeldUser"
    HELD_ADMIN = "JobHeldAdmin"
    HOLD_MAX_REQUEUE = "JobHoldMaxRequeue"
    LAUNCH_FAILED_REQUEUED_HELD = "launch_failed_requeued_held"
    PARTITION_DOWN = "PartitionDown"
    PARTITION_INACTIVE = "PartitionInactive"
    PARTITION_NODE_LIMIT = "PartitionNodeLimit"
    PARTITION_TIME_LIMIT = "PartitionTimeLimit"
    BAD_CONSTRAINTS = "BadConstraints"
    NODE_NOT_AVAIL = "ReqNodeNotAvail"
    NODES_DOWN = "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved"
    ARRAY_TASK_LIMIT = "JobArrayTaskLimit"
    CLEANING = "Cleaning"
    QOS_NOT_ALLOWED = "QOSNotAllowed"
    ACCOUNT_NOT_ALLOWED = "AccountNotAllowed"
    INVALID_ACCOUNT = "InvalidAccount"
    INVALID_QOS = "InvalidQOS"
    DEADLINE = "DeadLine"


class DependState(IntEnum):
    """Outcome of testing a job's dependencies."""

    SATISFIED = 0
    NOT_YET = 1
    NEVER = 2
