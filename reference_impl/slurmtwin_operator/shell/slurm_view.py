"""slurmrestd's JSON as the core's observations. Field names are those of data parser v0.0.42 to v0.0.45."""

from __future__ import annotations

from typing import Any, Final

from slurmtwin.contract.hostlist import expand
from slurmtwin_operator.core.observed import SlurmJob, SlurmNode

SECOND: Final = 1_000_000_000
BASE_STATES: Final = ("IDLE", "ALLOCATED", "MIXED", "DOWN", "UNKNOWN", "ERROR", "FUTURE")
DYNAMIC: Final = ("DYNAMIC_NORM", "DYNAMIC_FUTURE")


def number(value: Any) -> int:
    """A number, or one as {set, infinite, number}; 0 where it is not set."""
    if isinstance(value, dict):
        return int(value.get("number") or 0) if value.get("set", True) and not value.get("infinite") else 0
    return int(value or 0)


def _words(value: Any) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list) else [w for w in str(value or "").split("+") if w]


def node(item: dict[str, Any]) -> SlurmNode:
    """A node record. The time of registration is that of slurmd's start: it is told when slurmd registers."""
    words = _words(item.get("state"))
    base = next((word for word in words if word in BASE_STATES), "UNKNOWN")
    features = item.get("features") or []
    if isinstance(features, str):
        features = features.split(",")
    return SlurmNode(
        name=str(item["name"]), state=base, flags=tuple(sorted(word for word in words if word != base)),
        reason=str(item.get("reason") or ""), comment=str(item.get("comment") or ""),
        features=tuple(str(f) for f in features if f), dynamic=any(word in DYNAMIC for word in words),
        registered_ns=number(item.get("slurmd_start_time")) * SECOND,
    )  # fmt: skip


def job(item: dict[str, Any]) -> SlurmJob:
    """A job record; a pending one has no nodes and no end."""
    states = _words(item.get("job_state")) or ["UNKNOWN"]
    nodes = str(item.get("nodes") or "")
    names = tuple(expand(nodes)) if nodes and nodes not in ("(null)", "None") else ()
    return SlurmJob(
        id=number(item["job_id"]), state=states[0], nodes=names, end_ns=number(item.get("end_time")) * SECOND,
        partition=str(item.get("partition") or ""), name=str(item.get("name") or ""),
    )  # fmt: skip


def conf_hash(text: str) -> int:
    """What slurmctld tells as HashValue of this slurm.conf (parse_config.c _compute_hash_val, 32 bits)."""
    value = 0
    for byte in text.encode():
        value = (value ^ byte << 8) & 0xFFFFFFFF
        for _ in range(8):
            high = value & 0x8000
            value = value << 1 & 0xFFFFFFFF
            if high:
                value ^= 4129
    return value


def loaded_hash(document: dict[str, Any]) -> int | None:
    """HashValue in the answer to GET conf; None where it is missing."""
    for part in (document.get("slurm_conf_meta"), document.get("slurm_conf"), document):
        if isinstance(part, dict) and "HashValue" in part:
            return number(part["HashValue"])
    return None
