"""A scenario's workload as one stream of requests in submit order: listed, read from a file, generated.

Numbers stay unique: listed jobs have theirs (contract/listed_jobs.py), a file keeps its own, and generated
jobs are numbered behind the listed ones, or from GENERATED_FROM where a file's numbers are not known ahead.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.listed_jobs import job_numbers, listed_jobs
from slurmtwin.contract.scenario import Scenario, WorkloadFile
from slurmtwin.workload.event_trace import read_events
from slurmtwin.workload.generators import generate
from slurmtwin.workload.job_lines import read_job_lines
from slurmtwin.workload.sacct import read_sacct
from slurmtwin.workload.swf import read_swf
from slurmtwin.workload.trace_file import JobStream, ReadAccount, text_lines

Format = Literal["swf", "sacct", "events", "jobs"]
GENERATED_FROM: Final = 1_000_000_001
_READERS: Final[dict[Format, Callable[[Path, bool], JobStream]]] = {
    "swf": read_swf, "sacct": read_sacct, "events": read_events, "jobs": read_job_lines,
}  # fmt: skip


def open_trace(path: Path, form: Format | None = None, lenient: bool = False) -> JobStream:
    """The jobs of a trace file; its format is found from the first line when it is not said."""
    return _READERS[form or detect_format(path)](path, lenient)


def detect_format(path: Path) -> Format:
    """The format that the first line that says something shows. Raises InputError when it is none of them."""
    for number, line in enumerate(text_lines(path), 1):
        text = line.strip()
        if not text or text.startswith((";", "#")):
            continue
        if text.startswith("{"):
            return "jobs"
        if text.startswith("-") or text.lower().startswith("dt;") or text.count(";") >= 12:
            return "events"
        if "|" in text and "submit" in text.lower():
            return "sacct"
        if len(text.split(None, 18)) >= 18:
            return "swf"
        raise InputError("no trace format begins like this", Where(str(path), number), "SWF, sacct -P, events or jobs")
    raise InputError("the file has no jobs", Where(str(path)))


def resolve(scenario: Scenario, base_dir: Path | None = None, seed: int = 0) -> JobStream:
    """All jobs of a scenario, lazily, in order of (submit_ns, job_id).

    base_dir: the folder that the workload file's name is relative to. seed: the run's; it moves generated
    jobs only. The stream's account is that of the file, if one is read. Raises InputError.
    """
    workload = scenario.workload
    stream = _file_stream(workload.file, base_dir) if workload.file else None
    account = stream.account if stream else ReadAccount(scenario.name, "scenario")

    def produce() -> Iterator[JobRequest]:
        parts: list[Iterator[JobRequest]] = []
        listed = [span for spans in job_numbers(scenario) for span in spans] if workload.jobs else []
        if listed:
            parts.append(listed_jobs(scenario))
        if stream is not None and workload.file is not None:
            jobs = islice(iter(stream), workload.file.first_jobs)
            parts.append(_apart(jobs, listed, bool(workload.generate), stream.account.path))
        if workload.generate:
            first = GENERATED_FROM if stream else max((start + count for start, count in listed), default=1)
            try:
                parts.append(generate(workload.generate, seed, first))
            except InputError as error:
                raise error.at(Where(f"{scenario.name}: workload.generate")) from error
        merged = parts[0] if len(parts) == 1 else heapq.merge(*parts, key=lambda job: (job.submit_ns, job.job_id))
        for job in merged:
            if stream is None:
                account.rows += 1
                account.jobs += 1
            yield job

    return JobStream(account, produce)


def resolve_jobs(scenario: Scenario, base_dir: Path | None = None, seed: int = 0) -> Iterator[JobRequest]:
    """The jobs of `resolve` alone."""
    return iter(resolve(scenario, base_dir, seed))


def _file_stream(file: WorkloadFile, base_dir: Path | None) -> JobStream:
    return open_trace((base_dir or Path()) / file.path, file.format, file.lenient)


def _apart(
    jobs: Iterator[JobRequest], listed: list[tuple[int, int]], generated: bool, path: str
) -> Iterator[JobRequest]:
    """The file's jobs, checked not to carry a number that a listed or generated job has."""
    for job in jobs:
        taken = any(start <= job.job_id < start + count for start, count in listed)
        if taken or (generated and job.job_id >= GENERATED_FROM):
            raise InputError(
                f"job {job.job_id} of the trace has the number of a listed or generated job", Where(path),
                "give the listed jobs an id above the trace's",
            )  # fmt: skip
        yield job
