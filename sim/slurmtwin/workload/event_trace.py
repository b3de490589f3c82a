"""Event traces of the UB Slurm simulator: `-dt 10.5 -e submit_batch_job | -sim-walltime 60 --uid=u -n 1 ... job`.

Also its table forms: `dt;job_id;wall_time;user;wall_limit;n_tasks;...` (wall_limit in minutes), and 18 columns
in the order of SWF with ; between.
-dt is seconds since the log's start. Wall time: how long the script runs; 0: it ends at once (a job that
was cancelled or failed at its start); -1 or none: until its time limit. -cancel-in: scancel so many
seconds after the submission. The job's number is that of its name jobid_N.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.clock import MINUTE, SECOND
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.workload.sbatch_options import begin_after, mib, option_fields, split_options, whole
from slurmtwin.workload.trace_file import MAX_SECONDS, JobStream, ReadAccount, TraceReader, in_submit_order, text_lines

COLUMNS: Final = (
    "dt", "job_id", "wall_time", "user", "wall_limit", "n_tasks", "ntasks_per_node", "account", "partition", "qos",
    "constraint", "mem", "gres",
)  # fmt: skip
SWF_LIKE: Final = (
    "job_id", "dt", "wait", "wall_time", "n_tasks", "cpu_time", "mem", "requested", "limit_seconds", "requested_mem",
    "status", "user", "account", "executable", "partition", "qos", "preceding", "think_time",
)  # fmt: skip
"""Columns of the simulator's SWF-like table: 18 as in SWF, with names for numbers; mem is MiB per node."""
_JOB_NAME = re.compile(r"jobid_(\d{1,12})\Z")
_OWN = ("-sim-walltime", "-cancel-in", "-jid", "-sleep")
"""Options of the simulator, not of sbatch, each with a value."""
_NUMBER = re.compile(r"[+-]?\d{1,15}(?:\.\d{0,15})?\Z")


def seconds_ns(text: str) -> int:
    """Nanoseconds of a number of seconds with decimals, exact. Raises InputError."""
    word = text.strip()
    if not _NUMBER.match(word):
        raise InputError(f"not a number of seconds: {text[:40]!r}")
    whole_part, _, part = word.lstrip("+-").partition(".")
    value = int(whole_part) * SECOND + int((part + "000000000")[:9])
    if value > MAX_SECONDS * SECOND:
        raise InputError(f"out of all bounds: {text[:40]!r}")
    return -value if word.startswith("-") else value


def read_events(path: Path, lenient: bool = False) -> JobStream:
    """The jobs of an event trace (either form) in submit order.

    Raises InputError with file:line for a broken line; with `lenient` it is dropped and counted.
    """
    account = ReadAccount(str(path), "events")
    return JobStream(account, lambda: _Reader(path, lenient, account).jobs())


class _Reader(TraceReader):
    columns: list[str] | None = None
    """Of a table; None: one event a line."""

    def jobs(self) -> Iterator[JobRequest]:
        yield from in_submit_order(self._read(), self.account, self.lenient)
        if not self.account.rows:
            self.account.notes.append("the file has no jobs")

    def _read(self) -> Iterator[tuple[JobRequest, int]]:
        for number, line in enumerate(text_lines(self.path), 1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            where = Where(str(self.path), number)
            first = self.account.rows == 0 and self.columns is None
            if first and ";" in text.partition("|")[0] and self._header(text, where):
                continue
            self.account.rows += 1
            try:
                job = self._row(text) if self.columns else self._event(text, where)
                if job is not None:
                    job = self._numbered(job, where)
            except InputError as error:
                self.broken(error, where)
                continue
            if job is not None:
                self._wall_time(job, where)
                yield job, number

    def _header(self, text: str, where: Where) -> bool:
        """Whether the first line is a table's header; a table without one is the SWF-like form."""
        if text[0].isdigit():
            self.columns = list(SWF_LIKE)
            self.account.notes.append("a table with ; between in the order of SWF: no constraint and no GRES in it")
            return False
        self.columns = [name.strip().lower() for name in text.split(";")]
        unknown = [name for name in self.columns if name not in COLUMNS]
        if unknown or len(set(self.columns)) != len(self.columns):
            raise InputError(f"unknown column {unknown[0] if unknown else 'twice'}", where, ";".join(COLUMNS))
        if not {"dt", "wall_time"} <= set(self.columns):
            raise InputError("the table needs the columns dt and wall_time", where)
        self.account.notes.append("a table with ; between: wall_limit is minutes")
        return True

    def _event(self, text: str, where: Where) -> JobRequest | None:
        head, bar, tail = text.partition("|")
        words = head.split()
        if not bar or len(words) != 4 or {words[0], words[2]} != {"-dt", "-e"}:
            raise InputError(f"not an event: {text[:50]!r}", hint="-dt SECONDS -e submit_batch_job | sbatch options")
        given = {words[0]: words[1], words[2]: words[3]}
        if given["-e"] != "submit_batch_job":
            self.account.drop(f"event {given['-e'][:30]} is not modelled", where)
            return None
        try:
            options = shlex.split(tail)
        except ValueError as error:
            raise InputError(f"cannot read the options: {error}") from error
        own, rest = _own_options(options)
        submit = seconds_ns(given["-dt"])
        fields: dict[str, Any] = {"requeue": None}
        for name, value in split_options(rest):
            if name == "begin":
                fields["begin_ns"] = submit + begin_after(value)
            else:
                fields |= option_fields(name, value)
        wall = own.get("-sim-walltime", "-1")
        fields["run_ns"] = _run(wall)
        if "-cancel-in" in own and (after := seconds_ns(own["-cancel-in"])) >= 0:
            fields["cancel_ns"] = submit + after
        number = whole(own["-jid"], 1) if "-jid" in own else 0
        named = _JOB_NAME.match(fields.get("name", ""))
        if named and not number:
            number = whole(named[1], 1)
            fields.pop("name")
        return JobRequest(job_id=number, submit_ns=submit, **fields)

    def _row(self, text: str) -> JobRequest:
        assert self.columns is not None
        values = text.split(";")
        if self.columns == list(SWF_LIKE) and len(values) == len(SWF_LIKE) + 1 and not values[-1]:
            values.pop()
        if len(values) != len(self.columns):
            raise InputError(f"{len(values)} columns instead of {len(self.columns)}")
        row = dict(zip(self.columns, (v.strip() for v in values), strict=True))
        fields: dict[str, Any] = {"run_ns": _run(row.get("wall_time", "-1"))}
        for column, field in (("n_tasks", "ntasks"), ("ntasks_per_node", "ntasks_per_node")):
            if row.get(column):
                fields[field] = whole(row[column], 1)
        if row.get("wall_limit"):
            fields["limit_ns"] = whole(row["wall_limit"], 1) * MINUTE
        if row.get("limit_seconds"):
            fields["limit_ns"] = whole(row["limit_seconds"], 1) * SECOND
        if row.get("mem") not in (None, "", "-1"):
            fields["mem_per_node_mib"] = mib(row["mem"])
        for column in ("user", "account", "partition", "qos", "constraint", "gres"):
            if row.get(column):
                fields[column] = row[column]
        number = whole(row["job_id"], 1) if row.get("job_id") else 0
        return JobRequest(job_id=number, submit_ns=seconds_ns(row["dt"]), **fields)

    def _numbered(self, job: JobRequest, where: Where) -> JobRequest:
        if job.submit_ns < 0:
            raise InputError("the submit time is negative")
        if job.job_id:
            if not self.numbers.take(job.job_id):
                raise InputError(f"job number {job.job_id} is taken")
            return job
        number = self.numbers.highest + 1
        self.numbers.take(number)
        self.account.alter("no job number: the next free one is given", where)
        return replace(job, job_id=number)

    def _wall_time(self, job: JobRequest, where: Where) -> None:
        if job.run_ns is None:
            self.account.alter("no wall time or -1: runs until its time limit", where)
        elif job.run_ns == 0:
            self.account.alter("wall time 0: ends at once", where)
        elif job.limit_ns is not None and 0 <= job.limit_ns < job.run_ns:
            self.account.alter("runs beyond its time limit: Slurm will end it there", where)


def _run(text: str) -> int | None:
    """Run time from a wall time; -1 (until the limit) is None. Raises InputError."""
    value = seconds_ns(text)
    if value < 0:
        if not math.isclose(value, -SECOND):
            raise InputError(f"wall time {text[:20]} is negative", hint="-1 stands for until the time limit")
        return None
    return value


def _own_options(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Split the simulator's own options from those of sbatch."""
    own: dict[str, str] = {}
    rest: list[str] = []
    at = 0
    while at < len(words):
        if words[at] in _OWN:
            if at + 1 >= len(words):
                raise InputError(f"{words[at]} has no value")
            own[words[at]] = words[at + 1]
            at += 2
            continue
        rest.append(words[at])
        at += 1
    return own, rest
