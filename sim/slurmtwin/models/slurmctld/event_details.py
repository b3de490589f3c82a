"""The `detail` texts of the events that every job causes, made once for each distinct value."""

from __future__ import annotations

from functools import lru_cache

from slurmtwin.engine.event_sink import detail_text


@lru_cache(maxsize=4096)
def started(by: str) -> str:
    """job.started: which scheduler started it."""
    return detail_text(by=by)


@lru_cache(maxsize=4096)
def ended(state: str, exit_code: int, signal: int) -> str:
    """job.ended."""
    if signal:
        return detail_text(state=state, exit_code=exit_code, signal=signal)
    return detail_text(state=state, exit_code=exit_code)


@lru_cache(maxsize=4096)
def reason(text: str) -> str:
    """job.pending, job.held and others that carry a reason only."""
    return detail_text(reason=text)


def of_task(detail: str | None, task: int | None) -> str | None:
    """The same detail with the task index, for a task of an array."""
    if task is None:
        return detail
    own = f'"array_task":{task}'
    return f"{{{own}}}" if detail is None else f"{{{own},{detail[1:]}"
