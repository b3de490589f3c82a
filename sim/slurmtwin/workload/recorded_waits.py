"""How long jobs waited when the trace was taken: from submission to start, by the numbers that the readers give.

The readers of workload/ hand on what users asked for; a replay is compared with what they got.
"""

from __future__ import annotations

from pathlib import Path

from slurmtwin.contract.errors import InputError
from slurmtwin.workload.sacct import epoch_seconds
from slurmtwin.workload.trace_file import text_lines

_SWF_FIELDS = 18


def recorded_waits_s(path: Path, form: str) -> dict[int, int]:
    """Job number -> seconds of wait; only jobs whose wait the trace knows. Other formats than these have none."""
    return {"swf": _swf, "sacct": _sacct}.get(form, lambda _path: {})(path)


def _swf(path: Path) -> dict[int, int]:
    """Field 3; job numbers that begin below 1 are moved as workload/swf.py moves them."""
    waits: dict[int, int] = {}
    offset: int | None = None
    for line in text_lines(path):
        parts = line.split(None, _SWF_FIELDS)
        if len(parts) < _SWF_FIELDS or line.startswith(";"):
            continue
        try:
            number, wait = int(float(parts[0])), int(float(parts[2]))
        except ValueError:
            continue
        if offset is None:
            offset = max(0, 1 - number)
        if wait >= 0:
            waits.setdefault(number + offset, wait)
    return waits


def _sacct(path: Path) -> dict[int, int]:
    """Start less Eligible where that is known, else less Submit; of a job that ran more than once the first start."""
    waits: dict[int, int] = {}
    columns: list[str] = []
    for line in text_lines(path):
        values = line.rstrip("\r\n").split("|")
        if not columns:
            columns = [value.strip().lower() for value in values]
            continue
        row = dict(zip(columns, values, strict=False))
        number = row.get("jobidraw") or row.get("jobid", "")
        try:
            start, submit = epoch_seconds(row.get("start", "")), epoch_seconds(row.get("submit", ""))
            eligible = epoch_seconds(row.get("eligible", ""))
        except InputError:
            continue
        if number.isdigit() and start is not None and submit is not None:
            waits.setdefault(int(number), max(0, start - max(submit, eligible or 0)))
    return waits
