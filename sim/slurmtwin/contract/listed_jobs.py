"""The jobs that a scenario lists (workload.jobs), as requests with their numbers: the same in every world.

A line with `id` takes that number and the following ones (count); the others take the lowest free numbers
in the order of the file. Lines are expanded lazily: a million equal jobs need no memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

from slurmtwin.contract.clock import parse_slurm_time
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.jobs import JobRequest, parse_array
from slurmtwin.contract.quantity import parse_slurm_mib
from slurmtwin.contract.scenario import JobLine, Scenario

Span = tuple[int, int]
"""First number and how many."""
MAX_NODES: Final = 10**7
_PLAIN: Final = (
    "ntasks", "ntasks_per_node", "cpus_per_task", "gres", "licenses", "constraint", "partition", "nodelist", "exclude",
    "contiguous", "switches", "spread", "exclusive", "oversubscribe", "threads_per_core", "reservation", "user",
    "account", "qos", "name", "nice", "hold", "dependency", "array", "het_group", "requeue", "no_kill", "signal",
    "exit_code", "interactive",
)  # fmt: skip
"""Fields that a JobLine and a JobRequest share by name."""


def listed_jobs(scenario: Scenario) -> Iterator[JobRequest]:
    """The listed jobs in submit order. Raises InputError with the line's index."""
    lines = scenario.workload.jobs
    spans = job_numbers(scenario)
    requests = [_first_request(line, i, scenario.name) for i, line in enumerate(lines)]
    streams = [_copies(request, line, spans[i]) for i, (line, request) in enumerate(zip(lines, requests, strict=True))]
    if len(streams) == 1:
        return streams[0]
    return heapq.merge(*streams, key=lambda job: (job.submit_ns, job.job_id))


def job_numbers(scenario: Scenario) -> list[list[Span]]:
    """The numbers of each line. Raises InputError when two lines claim the same one."""
    lines = scenario.workload.jobs
    claimed = sorted((line.id, line.count, i) for i, line in enumerate(lines) if line.id is not None)
    for (first, count, _), (second, _, i) in pairwise(claimed):
        if second < first + count:
            raise InputError(f"job number {second} is taken by another line", _where(scenario.name, i))
    out: list[list[Span]] = []
    free = 1
    at = 0
    for line in lines:
        if line.id is not None:
            out.append([(line.id, line.count)])
            continue
        spans: list[Span] = []
        left = line.count
        while left:
            while at < len(claimed) and claimed[at][0] <= free:
                free = max(free, claimed[at][0] + claimed[at][1])
                at += 1
            room = min(left, claimed[at][0] - free) if at < len(claimed) else left
            spans.append((free, room))
            free += room
            left -= room
        out.append(spans)
    return out


def _where(name: str, index: int) -> Where:
    return Where(f"{name}: workload.jobs.{index}")


def _copies(first: JobRequest, line: JobLine, spans: list[Span]) -> Iterator[JobRequest]:
    submit_ns = line.submit
    for start, count in spans:
        for number in range(start, start + count):
            yield replace(first, job_id=number, submit_ns=submit_ns)
            submit_ns += line.every


def _first_request(line: JobLine, index: int, name: str) -> JobRequest:
    where = _where(name, index)
    if line.submit < 0 or line.every < 0 or (isinstance(line.run, int) and line.run < 0):
        raise InputError("submit, every and run are not negative", where)
    try:
        low, high = _nodes(line.nodes)
        if line.array:
            parse_array(line.array)
        return JobRequest(
            job_id=1, submit_ns=line.submit, run_ns=None if line.run == "until-ended" else line.run,
            limit_ns=None if line.time is None else parse_slurm_time(line.time),
            time_min_ns=None if line.time_min is None else parse_slurm_time(line.time_min),
            nodes_min=low, nodes_max=high, begin_ns=line.begin, deadline_ns=line.deadline, cancel_ns=line.cancel,
            mem_per_node_mib=None if line.mem is None else parse_slurm_mib(line.mem),
            mem_per_cpu_mib=None if line.mem_per_cpu is None else parse_slurm_mib(line.mem_per_cpu),
            **{field: getattr(line, field) for field in _PLAIN},
        )  # fmt: skip
    except InputError as error:
        raise error.at(where) from error


def _nodes(text: str | None) -> tuple[int | None, int | None]:
    """`N` or `MIN-MAX` of --nodes."""
    if text is None:
        return None, None
    low, dash, high = text.strip().partition("-")
    words = (low, high) if dash else (low, low)
    if not all(word.isascii() and word.isdigit() and len(word) <= 8 for word in words):
        raise InputError(f"not a node count: {text[:40]!r}", hint="N or MIN-MAX")
    least, most = int(words[0]), int(words[1])
    if not 1 <= least <= most <= MAX_NODES:
        raise InputError(f"not a node count: {text[:40]!r}", hint="1 <= MIN <= MAX")
    return least, most
