"""JSON lines of JobRequest: our own exact form of a workload (RUN/jobs.jsonl). Reader and writer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TextIO, get_type_hints

from slurmtwin.contract.clock import SECOND, UNLIMITED
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.jobs import FIELD_DEFAULTS, JobRequest, to_dict
from slurmtwin.workload.trace_file import MAX_SECONDS, JobNumbers, JobStream, ReadAccount, in_submit_order, text_lines

_KINDS: Final[dict[str, tuple[type, ...]]] = {
    name: tuple(kind for kind in (int, str, bool, type(None)) if kind in _args)
    for name, hint in get_type_hints(JobRequest).items()
    for _args in [getattr(hint, "__args__", (hint,))]
}
"""Field -> the JSON types that it takes."""
_MAY_BE_NEGATIVE: Final = ("nice", "limit_ns")
MAX_NUMBER: Final = MAX_SECONDS * SECOND


def write_jobs(jobs: Iterable[JobRequest], stream: TextIO) -> int:
    """Write one JSON object per job, only the options that were given, keys sorted. Returns how many."""
    count = 0
    for job in jobs:
        stream.write(json.dumps(to_dict(job), sort_keys=True, separators=(",", ":")) + "\n")
        count += 1
    return count


def job_of(document: Any) -> JobRequest:
    """The job of one JSON object. Raises InputError for unknown keys, wrong types and numbers out of bounds."""
    if not isinstance(document, dict):
        raise InputError("not a JSON object")
    for key, value in document.items():
        if key not in FIELD_DEFAULTS:
            raise InputError(f"unknown key {key[:40]!r}", hint="the fields of contract.jobs.JobRequest")
        if type(value) not in _KINDS[key]:
            raise InputError(f"{key}: {json.dumps(value)[:40]} is of the wrong type")
        if type(value) is int and key not in _MAY_BE_NEGATIVE and not 0 <= value <= MAX_NUMBER:
            raise InputError(f"{key}: {str(value)[:40]} is out of bounds")
    if not document.get("job_id") or "submit_ns" not in document:
        raise InputError("a job needs job_id, from 1, and submit_ns")
    limit = document.get("limit_ns")
    if limit is not None and not (limit == UNLIMITED or 0 <= limit <= MAX_NUMBER):
        raise InputError(f"limit_ns: {str(limit)[:40]} is out of bounds")
    if abs(document.get("nice", 0)) > 2**31:
        raise InputError("nice is out of bounds")
    return JobRequest(**document)


def read_job_lines(path: Path, lenient: bool = False) -> JobStream:
    """The jobs of a JSON lines file in submit order. Raises InputError with file:line; `lenient` counts instead."""
    account = ReadAccount(str(path), "jobs")

    def read() -> Iterator[tuple[JobRequest, int]]:
        numbers = JobNumbers()
        for number, line in enumerate(text_lines(path), 1):
            if not line.strip():
                continue
            where = Where(str(path), number)
            account.rows += 1
            try:
                job = job_of(_parse(line))
                if not numbers.take(job.job_id):
                    raise InputError(f"job number {job.job_id} is taken")
            except InputError as error:
                if not lenient:
                    raise error.at(where) from error
                account.drop(f"broken line: {error.message.split(':')[0]}", where)
                continue
            yield job, number

    return JobStream(account, lambda: in_submit_order(read(), account, lenient))


def _parse(line: str) -> Any:
    try:
        return json.loads(line.encode("latin-1").decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {str(error)[:60]}") from error
