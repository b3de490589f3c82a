"""Conditions by Kubernetes' conventions: the time changes only when the status does."""

from __future__ import annotations

from dataclasses import replace

from slurmtwin_operator.core.observed import Condition


def settle(before: tuple[Condition, ...], now: int, wanted: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """The wanted conditions, each with the time of its last change of status (nanoseconds)."""
    since = {(c.type, c.status): c.since_ns for c in before}
    return tuple(replace(c, since_ns=since.get((c.type, c.status), now)) for c in wanted)
