"""Standard Workload Format 2.2 (Parallel Workloads Archive, swf.html): reader and writer.

Fields and units: slurm.md 10. Quirks handled, each counted in the account: unknown (-1) processors and
times, partial rows of checkpointed jobs, epoch submit times, job number 0, rows out of order, numbers with
decimals, headers that contradict the rows, and MetaCentrum's dialect (21 columns: memory in bytes per
node, think-time columns that are not the archive's, a PBS request string).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TextIO

from slurmtwin.contract.clock import SECOND, UNLIMITED
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.workload.trace_file import (
    EPOCH_SECONDS,
    MAX_SECONDS,
    JobNumbers,
    JobStream,
    ReadAccount,
    RequestFactory,
    in_submit_order,
    text_lines,
)

FIELDS: Final = 18
MAX_PROCESSORS: Final = 10**8
MAX_KIB_PER_PROCESSOR: Final = 2**31
"""2 TiB per processor: above it field 10 is not in KiB."""
_HEADER = re.compile(r";\s*([A-Za-z][A-Za-z0-9]*)\s*:\s*(.*?)\s*\Z")
_PBS_CHUNK = re.compile(r"(\d{1,9})(?::ppn=(\d{1,9}))?((?::(?!ppn=)[\w=.^-]+)*)(#excl)?\Z")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d{1,2})?\Z")

Memory = Literal["auto", "kib-per-processor", "bytes-per-node", "bytes-per-job", "ignore"]
Row = list[int]


@dataclass(frozen=True, slots=True)
class SwfOptions:
    """How to read what the format leaves open."""

    memory: Memory = "auto"
    """Unit of field 10. auto: KiB per processor as the format says; an amount that cannot be KiB is an error
    unless the dialect is known."""
    processors: Literal["cpus", "nodes"] = "cpus"
    """What a processor of the file is: one task of one CPU, or one whole node."""
    feedback: bool = False
    """Use fields 17 and 18: submit only when the preceding job has ended, plus the think time."""
    users: bool = True
    """Hand on user numbers as user names `userN`."""


def read_swf(path: Path, lenient: bool = False, options: SwfOptions | None = None) -> JobStream:
    """The jobs of an SWF file in submit order; submit times count from 0 or from the log's start.

    Raises InputError with file:line for a broken row; with `lenient` the row is dropped and counted.
    """
    account = ReadAccount(str(path), "swf")
    return JobStream(account, lambda: _Reader(path, lenient, options or SwfOptions(), account).jobs())


class _UserNames(dict[int, str]):
    """User number -> name, made once each."""

    def __missing__(self, number: int) -> str:
        name = self[number] = f"user{number}"
        return name


class _Reader:
    """One pass over one file."""

    def __init__(self, path: Path, lenient: bool, options: SwfOptions, account: ReadAccount) -> None:
        self.path = str(path)
        self.lenient = lenient
        self.options = options
        self.account = account
        self.lines = text_lines(path)
        self.header: dict[str, str] = {}
        self.base: int | None = None
        self.offset = 0
        self.numbers = JobNumbers()
        self.metacentrum: bool | None = None
        self.memory: Memory = options.memory
        self.largest = 0
        self.user_names = _UserNames()

    def jobs(self) -> Iterator[JobRequest]:
        """All jobs in submit order; the account is complete at the end."""
        yield from in_submit_order(self._read(), self.account, self.lenient)
        self._end()

    def _rows(self) -> Iterator[tuple[int, Row, str]]:
        """(line number, 18 numbers, line) of each job row."""
        account, get = self.account, self._row
        number = 0
        for line in self.lines:
            number += 1
            try:
                row = list(map(int, line.split()))
            except ValueError:
                row = []
            if len(row) != FIELDS:
                try:
                    row = get(line)
                except InputError as error:
                    account.rows += 1
                    self._broken(error, Where(self.path, number))
                    continue
                if not row:
                    continue
            account.rows += 1
            yield number, row, line

    def _read(self) -> Iterator[tuple[JobRequest, int]]:
        make, take, names = self._job, self.numbers.take, self.user_names
        build = RequestFactory("job_id", "submit_ns", "run_ns", "limit_ns", "ntasks", "user")
        plain = self.options.processors == "cpus" and self.options.users
        for number, row, line in self._rows():
            job, submit, _, run, _, _, _, procs, limit, memory, status, user, _, _, _, _, before, _ = row
            base = self.base
            # The plain row, nothing filled in or altered: the fast way. The other one is `_job`.
            if (
                plain and status == 1 and memory < 0 and before < 0 < user and base is not None and not self.metacentrum
                and 0 <= run <= limit <= MAX_SECONDS and base <= submit <= MAX_SECONDS and 0 < procs <= self.largest
                and take(job + self.offset)
            ):  # fmt: skip
                yield build(
                    job + self.offset, (submit - base) * SECOND, run * SECOND, limit * SECOND, procs, names[user]
                ), number  # fmt: skip
                continue
            try:
                request = make(row, line, number)
            except InputError as error:
                self._broken(error, error.where or Where(self.path, number))
                continue
            if request is not None:
                yield request, number

    def _broken(self, error: InputError, where: Where) -> None:
        if not self.lenient:
            raise error.at(where)
        self.account.drop(f"broken row: {error.message.split(':')[0]}", where)

    def _row(self, line: str) -> Row:
        """A row that is not 18 plain integers: a comment, decimals, more columns, or an error. Empty for no row."""
        text = line.strip()
        if not text:
            return []
        if text.startswith(";"):
            found = _HEADER.match(text)
            if found:
                self.header.setdefault(found[1].lower(), found[2])
            return []
        parts = line.split(None, FIELDS)
        if len(parts) < FIELDS:
            hint = "an SWF row is 18 numbers with spaces between"
            if text.count(";") >= FIELDS - 1:
                hint = "a table of the UB simulator: its format is events"
            raise InputError(f"{len(parts)} fields instead of {FIELDS}: {text[:40]!r}", hint=hint)
        return [_whole(part) for part in parts[:FIELDS]]

    def _job(self, row: Row, text: str, line: int) -> JobRequest | None:
        job, submit, wait, run, alloc, _, _, procs, limit, memory, status, user, *_ = row
        if status in (2, 3, 4):
            self._drop("partial execution of a checkpointed job: its summary row counts", line)
            return None
        if max(submit, wait, run, limit) > MAX_SECONDS or procs > MAX_PROCESSORS or alloc > MAX_PROCESSORS:
            raise InputError("a time or a processor count is out of all bounds")
        if self.base is None:
            self._first_row(row, text)
        assert self.base is not None
        job += self.offset
        if submit < 0:
            raise InputError(f"submit time {submit} is negative")
        if submit < self.base:
            self._alter("submitted before the first row: at time 0", line)
            submit = row[1] = self.base
        if job < 1 or not self.numbers.take(job):
            raise InputError(f"job number {row[0]} {'is not above 0' if job < 1 else 'is taken'}")
        if procs <= 0:
            if alloc <= 0:
                self._drop("neither requested nor allocated processors are known", line)
                return None
            self._alter("requested processors unknown: the allocated ones are taken", line)
            procs = alloc
        cancel_ns = None
        if run <= 0 and status == 5 and alloc <= 0 and wait >= 0:
            self._alter("cancelled before it started: cancelled after its wait", line)
            cancel_ns = (submit - self.base + wait) * SECOND
        elif run < 0:
            self._drop("run time unknown", line)
            return None
        if limit <= 0:
            self._alter("requested time unknown: the partition's default rules", line)
        elif run > limit:
            self._alter("ran beyond its requested time: Slurm will end it at its limit", line)
        if procs > self.largest:
            self.largest = procs
        return self._request(row, text, line, job, procs, memory, cancel_ns, user, status)

    def _request(
        self, row: Row, text: str, line: int, job: int, procs: int, memory: int, cancel_ns: int | None,
        user: int, status: int,
    ) -> JobRequest:  # fmt: skip
        assert self.base is not None
        submit, run, limit = row[1], row[3], row[8]
        more: dict[str, int | str] = {}
        if self.metacentrum:
            self._pbs(text, procs, more, line)
        if memory > 0 and self.memory != "ignore":
            self._memory(memory, procs, more)
        if self.options.processors == "nodes":
            more["nodes_min"] = more["nodes_max"] = procs
        else:
            more["ntasks"] = procs
        if user > 0 and self.options.users:
            more["user"] = self.user_names[user]
        if row[16] > 0 and not self.metacentrum:
            self._preceding(row, more, line)
        return JobRequest(
            job_id=job, submit_ns=(submit - self.base) * SECOND, run_ns=max(run, 0) * SECOND,
            limit_ns=limit * SECOND if limit > 0 else None, exit_code=1 if status == 0 else 0, cancel_ns=cancel_ns,
            **more,  # type: ignore[arg-type]
        )  # fmt: skip

    def _preceding(self, row: Row, more: dict[str, int | str], line: int) -> None:
        before = row[16] + self.offset
        if not self.options.feedback:
            self._alter("preceding job and think time are not used (open loop)", line)
        elif before in self.numbers and before != row[0] + self.offset:
            more["after_job"] = before
            more["think_ns"] = max(row[17], 0) * SECOND
        else:
            self._alter("preceding job is not in the file so far: submitted at its own time", line)

    def _memory(self, amount: int, procs: int, more: dict[str, int | str]) -> None:
        if self.memory == "kib-per-processor":
            if amount > MAX_KIB_PER_PROCESSOR:
                hint = "state the unit: memory bytes-per-node, bytes-per-job or ignore"
                raise InputError(f"field 10 asks for {amount} KiB per processor", hint=hint)
            more["mem_per_cpu_mib"] = -(-amount // 1024)
        elif self.memory == "bytes-per-node":
            more["mem_per_node_mib"] = -(-amount // 2**20)
        else:
            more["mem_per_cpu_mib"] = max(-(-amount // (2**20 * procs)), 1)
        if max(v for k, v in more.items() if k.startswith("mem") and isinstance(v, int)) > 2**40:
            raise InputError(f"field 10 asks for {amount}: out of all bounds")

    def _pbs(self, text: str, procs: int, more: dict[str, int | str], line: int) -> None:
        """Nodes and tasks per node of a PBS request such as 2:ppn=8:x86_64#excl (last column)."""
        found = _PBS_CHUNK.match(text.split()[-1])
        nodes, per_node = (int(found[1]), int(found[2] or 1)) if found else (0, 0)
        if not found or nodes * per_node != procs:
            self._alter("PBS request does not give the processors: only their number is used", line)
            return
        more["nodes_min"] = more["nodes_max"] = nodes
        more["ntasks_per_node"] = per_node
        if found[3]:
            self._alter("node properties of the PBS request are not used", line)
        if found[4]:
            more["exclusive"] = "node"

    def _first_row(self, row: Row, text: str) -> None:
        """Time base, numbering, dialect and unit, found at the first job and written into the account."""
        note = self.account.notes.append
        submit = row[1]
        self.base = submit if submit > EPOCH_SECONDS else 0
        if self.base:
            note(f"submit times are seconds since 1970, the first is {submit}: counted from there")
        if row[0] < 1:
            self.offset = 1 - row[0]
            note(f"job numbers start at {row[0]}: {self.offset} added to each")
        extra = text.split()[FIELDS:]
        self.metacentrum = len(extra) == 3 and extra[0].startswith("{") and extra[2][0].isdigit()
        if self.metacentrum:
            note("21 columns with a PBS request: MetaCentrum's dialect; fields 17 and 18 are not used")
        elif extra:
            note(f"{len(extra)} columns beyond the 18 of the format are not used")
        if self.memory == "auto":
            self.memory = "bytes-per-node" if self.metacentrum else "kib-per-processor"
            if self.metacentrum:
                note("field 10 is bytes per node in this dialect")

    def _drop(self, reason: str, line: int) -> None:
        self.account.drop(reason, Where(self.path, line))

    def _alter(self, reason: str, line: int) -> None:
        self.account.alter(reason, Where(self.path, line))

    def _end(self) -> None:
        """Compare the header with what was read."""
        note = self.account.notes.append
        for key in ("maxjobs", "maxrecords"):
            said = _header_number(self.header.get(key, ""))
            if said is not None and said > 0 and said != self.account.rows:
                note(f"the header says {key}={said}, the file has {self.account.rows} rows")
        sizes = [_header_number(self.header.get(key, "")) for key in ("maxprocs", "maxnodes")]
        limit = max((size for size in sizes if size), default=0)
        if limit and self.largest > limit:
            note(f"the header says at most {limit} processors, a job asks for {self.largest}")
        if not self.account.rows:
            note("the file has no jobs")


def _whole(text: str) -> int:
    """An integer from a number with decimals; -1 stays unknown. Raises InputError for anything else."""
    if not _NUMBER.match(text[:40]) or len(text) > 40:
        raise InputError(f"not a number: {text[:40]!r}")
    value = float(text)
    if not math.isfinite(value) or abs(value) > 1e18:
        raise InputError(f"out of all bounds: {text[:40]!r}")
    return round(value)


def _header_number(text: str) -> int | None:
    found = re.match(r"\d{1,12}", text)
    return int(found[0]) if found else None


def write_swf(jobs: Iterable[JobRequest], stream: TextIO, header: dict[str, str] | None = None) -> int:
    """Write jobs as SWF and return how many. Kept: number, submit, run, processors, limit, memory per CPU, user.

    Raises InputError for a job whose processors SWF cannot say (no ntasks and no nodes) or that has no run time.
    """
    for key, value in {"Version": "2.2", **(header or {})}.items():
        stream.write(f"; {key}: {value}\n")
    count = 0
    users: dict[str, int] = {}
    for job in jobs:
        procs = (job.ntasks or job.nodes_min or 0) * (job.cpus_per_task or 1)
        if procs < 1 or job.run_ns is None:
            raise InputError(f"job {job.job_id}: SWF needs a number of processors and a run time")
        limit = -1 if job.limit_ns in (None, UNLIMITED) else -(-(job.limit_ns or 0) // SECOND)
        memory = job.mem_per_cpu_mib * 1024 if job.mem_per_cpu_mib else -1
        user = _user_number(job.user, users)
        status = 1 if job.exit_code == 0 else 0
        before, think = (job.after_job, job.think_ns // SECOND) if job.after_job else (-1, -1)
        stream.write(
            f"{job.job_id} {job.submit_ns // SECOND} -1 {job.run_ns // SECOND} {procs} -1 -1 {procs} {limit} {memory} "
            f"{status} {user} -1 -1 -1 -1 {before} {think}\n"
        )
        count += 1
    return count


def _user_number(user: str, users: dict[str, int]) -> int:
    found = re.fullmatch(r"user(\d{1,9})", user)
    if found:
        return int(found[1])
    return users.setdefault(user, 1_000_000 + len(users)) if user else -1
