"""The rows rebuild the final state: what the world reported at its end follows from its rows alone.

`manifest.results` may hold `events` (row count), `event_hash` (blake2b-128 over contract.events.hash_line)
and `job_states` (final state -> number of jobs). A gap in the table shows as a mismatch (TigerBeetle's storage
checker).
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from slurmtwin.contract.events import Event, Kind, hash_line
from slurmtwin_reports.history import History, Row
from slurmtwin_reports.job_table import job_table
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "final-state"
_KINDS: Final = {kind.value: kind for kind in Kind}


def check(history: History) -> Verdict:
    """Broken when a reported result does not follow from the rows; unknown when the manifest reports none."""
    results = history.manifest.results
    findings: list[str] = []
    judged = []
    if "events" in results or "event_hash" in results:
        count, found = _hash(history)
        judged.append(f"{count} rows")
        if results.get("events", count) != count:
            findings.append(f"the manifest reports {results['events']} rows, the table has {count}")
        if results.get("event_hash", found) != found:
            findings.append(f"the manifest reports hash {results['event_hash']}, the rows give {found}")
    if "job_states" in results:
        states = rebuilt_states(history)
        judged.append(f"{sum(states.values())} final job states")
        if dict(results["job_states"]) != states:
            findings.append(f"reported states {_text(results['job_states'])}, rebuilt {_text(states)}")
    if findings:
        return broken(NAME, findings)
    return holds(NAME, ", ".join(judged)) if judged else unknown(NAME, "the manifest reports no results")


def rebuilt_states(history: History) -> dict[str, int]:
    """Final states of all jobs and array tasks, counted from the rows."""
    states: dict[str, int] = {}
    for record in job_table(history).records.values():
        states[record.state] = states.get(record.state, 0) + 1
    return dict(sorted(states.items()))


def _hash(history: History) -> tuple[int, str]:
    digest = hashlib.blake2b(digest_size=16)
    count = 0
    for row in history.rows():
        count += 1
        digest.update(hash_line(_event(row)).encode())
    return count, digest.hexdigest()


def _event(row: Row) -> Event:
    return Event(row.t_ns, _KINDS[row.kind], row.actor, row.job_id, row.node, row.value, row.unit, row.detail,
                 row.cause_seq, row.t_err_ns, row.pod_uid, row.cluster)  # fmt: skip


def _text(states: Any) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(dict(states).items()))
