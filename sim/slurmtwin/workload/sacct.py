"""Dumps of `sacct -P` (parsable, with header): any field order, -D duplicates, arrays and hetjobs.

Best taken with: sacct -a -X -P -D -S START -E END --format=ALL (slurm.md 10). Needed are JobIDRaw or JobID,
Submit, and Elapsed, ElapsedRaw or Start with End; the rest is used where it is there.
Times without zone are taken as they stand; all count from the earliest Submit of the file.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.clock import MINUTE, SECOND, UNLIMITED
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.workload.sbatch_options import mib, option_fields, slurm_time, split_options, whole
from slurmtwin.workload.trace_file import MAX_SECONDS, JobStream, ReadAccount, TraceReader, in_submit_order, text_lines

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MEMORY = re.compile(r"(\d{1,18}(?:\.\d{1,6})?[KMGTP]?)([cn]?)\Z", re.IGNORECASE)
_JOB_ID = re.compile(r"(\d{1,10})(?:_(?:(\d{1,10})|\[.*\])|\+(\d{1,6}))?\Z")
_STATES: Final = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "CONFIGURING", "COMPLETING", "DEADLINE", "FAILED", "NODE_FAIL",
    "OUT_OF_MEMORY", "PENDING", "PREEMPTED", "RUNNING", "REQUEUED", "REQUEUE_HOLD", "REVOKED", "RESIZING",
    "SPECIAL_EXIT", "STOPPED", "SUSPENDED", "TIMEOUT",
)  # fmt: skip
_FROM_SUBMIT_LINE: Final = (
    "exclusive", "requeue", "contiguous", "spread", "switches", "signal", "no_kill", "oversubscribe",
    "threads_per_core", "ntasks_per_node", "cpus_per_task", "mem_per_node_mib", "mem_per_cpu_mib", "nodelist",
    "exclude", "licenses", "time_min_ns", "dependency", "nice",
)  # fmt: skip
"""Fields that no column of sacct has, taken from SubmitLine (options in the script are not in it)."""
_NAMES: Final = {
    "user": "user", "account": "account", "partition": "partition", "qos": "qos", "constraint": "constraints",
    "name": "jobname",
}  # fmt: skip
"""Field of JobRequest -> column, lower case."""
Row = dict[str, str]


@lru_cache(maxsize=65_536)
def epoch_seconds(text: str) -> int | None:
    """Seconds since 1970 of `2024-01-31T12:00:00` or a number; None for Unknown and None. Raises InputError."""
    word = text.strip()
    if word in ("", "Unknown", "None", "N/A"):
        return None
    if word.isascii() and word.isdigit() and len(word) <= 12:
        seconds = int(word)
    else:
        try:
            moment = datetime.fromisoformat(word)
        except ValueError as error:
            raise InputError(f"not a time: {word[:40]!r}", hint="2024-01-31T12:00:00 or seconds since 1970") from error
        seconds = int((moment.replace(tzinfo=moment.tzinfo or UTC) - _EPOCH).total_seconds())
    if not 0 <= seconds <= MAX_SECONDS:
        raise InputError(f"out of all bounds: {word[:40]!r}")
    return seconds


def read_sacct(path: Path, lenient: bool = False) -> JobStream:
    """The jobs of a `sacct -P` dump in submit order, numbered by JobIDRaw.

    Raises InputError with file:line for a broken row; with `lenient` the row is dropped and counted.
    """
    account = ReadAccount(str(path), "sacct")
    return JobStream(account, lambda: _Reader(path, lenient, account).jobs())


class _Reader(TraceReader):
    base = 0
    """Seconds since 1970 of the earliest Submit."""

    def jobs(self) -> Iterator[JobRequest]:
        self._first_submit()
        yield from in_submit_order(self._read(), self.account, self.lenient)
        if not self.account.jobs:
            self.account.notes.append("the dump has no jobs")

    def _rows(self) -> Iterator[tuple[Row | InputError, Where]]:
        """Each row as a mapping of lower-case column names, or the error that it is."""
        columns: list[str] = []
        for number, line in enumerate(text_lines(self.path), 1):
            text = line.rstrip("\r\n")
            if not text.strip():
                continue
            where = Where(str(self.path), number)
            values = text.split("|")
            if not columns:
                columns = self._header(values, where)
                continue
            if len(values) == len(columns) + 1 and not values[-1]:
                values.pop()  # -p ends each line with a bar, -P does not
            if len(values) != len(columns):
                hint = "is there a | in a job's name? leave JobName out of --format"
                yield InputError(f"{len(values)} fields instead of {len(columns)}", where, hint), where
                continue
            yield dict(zip(columns, values, strict=True)), where
        if not columns:
            raise InputError("the file is empty", Where(str(self.path)), "a dump of sacct -P begins with its header")

    def _header(self, values: list[str], where: Where) -> list[str]:
        columns = [value.strip().lower() for value in values]
        if columns and not columns[-1]:
            columns.pop()
        hint = "sacct -a -X -P -D --format=ALL"
        if "submit" not in columns or not {"jobid", "jobidraw"} & set(columns):
            raise InputError("not the header of sacct -P: it needs JobIDRaw (or JobID) and Submit", where, hint)
        if not ({"elapsed", "elapsedraw"} & set(columns) or {"start", "end"} <= set(columns)):
            raise InputError("the dump has no run times: Elapsed, ElapsedRaw or Start and End", where, hint)
        if len(set(columns)) != len(columns):
            raise InputError("a column stands twice in the header", where, hint)
        return columns

    def _first_submit(self) -> None:
        """The earliest submission: time zero. One pass of its own, as rows need not be in order."""
        earliest: int | None = None
        for row, _ in self._rows():
            if isinstance(row, InputError):
                continue
            try:
                seconds = epoch_seconds(row["submit"])
            except InputError:
                continue  # told by the second pass
            if seconds is not None and (earliest is None or seconds < earliest):
                earliest = seconds
        self.base = earliest or 0
        self.account.notes.append(f"times count from the earliest Submit, {self.base} seconds after 1970")

    def _read(self) -> Iterator[tuple[JobRequest, int]]:
        held: tuple[int, Row, Where] | None = None
        for row, where in self._rows():
            self.account.rows += 1
            try:
                if isinstance(row, InputError):
                    raise row
                number = self._number(row, where)
                if number is None:
                    continue
                if held is not None and held[0] == number:
                    self.account.drop("earlier run of a requeued job: the last one counts", held[2])
                    held = (number, {**row, "submit": held[1]["submit"]}, where)
                    continue
                if held is not None:
                    yield from self._make(*held)
                held = (number, row, where)
            except InputError as error:
                self.broken(error, where)
        if held is not None:
            yield from self._make(*held)

    def _make(self, number: int, row: Row, where: Where) -> Iterator[tuple[JobRequest, int]]:
        try:
            if not self.numbers.take(number):
                raise InputError(f"job {number} stands twice, with other jobs between", where, "sort by JobIDRaw")
            job = self._job(number, row, where)
        except InputError as error:
            self.broken(error, where)
            return
        if job is not None:
            yield job, where.line

    def _number(self, row: Row, where: Where) -> int | None:
        """The job's number, or None for a step's row."""
        shown = row.get("jobidraw") or row.get("jobid", "")
        if "." in shown or "." in row.get("jobid", ""):
            self.account.drop("step of a job: the job's own row counts", where)
            return None
        found = _JOB_ID.match(row.get("jobidraw", "").strip()) or _JOB_ID.match(row.get("jobid", "").strip())
        if not found:
            raise InputError(f"not a job id: {shown[:40]!r}", where)
        if found[2] and "jobidraw" not in row:
            raise InputError("array tasks need the column JobIDRaw", where, "add JobIDRaw to --format")
        return whole(found[1], 1) + (int(found[3]) if found[3] and "jobidraw" not in row else 0)

    def _job(self, number: int, row: Row, where: Where) -> JobRequest | None:
        submit = epoch_seconds(row["submit"])
        if submit is None:
            raise InputError("Submit is unknown", where)
        state = row.get("state", "COMPLETED").split(" ")[0].rstrip("+")
        if state and not any(known.startswith(state) for known in _STATES):
            raise InputError(f"unknown State {state[:30]!r}", where)
        start, end = epoch_seconds(row.get("start", "")), epoch_seconds(row.get("end", ""))
        fields: dict[str, Any] = {}
        if not self._outcome(fields, row, state, start, end, where):
            return None
        self._requested(fields, row, where)
        fields |= self._submit_line(row, fields, where)
        eligible = epoch_seconds(row.get("eligible", ""))
        if eligible is not None and eligible > submit and not fields.get("dependency"):
            self.account.alter("eligible later than submitted: taken as its begin time", where)
            fields["begin_ns"] = (eligible - self.base) * SECOND
        self._identity(fields, row, where)
        return JobRequest(job_id=number, submit_ns=(submit - self.base) * SECOND, **fields)

    def _outcome(
        self, fields: dict[str, Any], row: Row, state: str, start: int | None, end: int | None, where: Where
    ) -> bool:
        """Run time, exit code, cancellation; False when the row gives no run."""
        elapsed = _elapsed(row, start, end)
        if start is None and state == "CANCELLED" and end is not None:
            self.account.alter("cancelled before it started: cancelled at its End", where)
            fields |= {"run_ns": 0, "cancel_ns": (end - self.base) * SECOND}
            return True
        if elapsed is None or (start is None and "start" in row):
            self.account.drop(f"never started ({state or 'no state'}): run time unknown", where)
            return False
        fields["run_ns"] = elapsed * SECOND
        if state == "TIMEOUT":
            self.account.alter("ended by its time limit: runs until the limit", where)
            fields["run_ns"] = None
        elif state in ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "STOPPED"):
            self.account.alter("still running in the dump: its time so far is its run time", where)
        elif state in ("NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "REQUEUED", "DEADLINE", "REVOKED"):
            self.account.alter(f"ended by the system ({state}): its time so far is its run time", where)
        code = row.get("exitcode", "").partition(":")[0]
        fields["exit_code"] = min(whole(code), 255) if code else 1 if state == "FAILED" else 0
        return True

    def _requested(self, fields: dict[str, Any], row: Row, where: Where) -> None:
        tres = dict(part.partition("=")[::2] for part in row.get("reqtres", "").split(",") if part)
        nodes = _count(row, ("reqnodes",)) or _number_of(tres.get("node", "")) or _count(row, ("nnodes", "allocnodes"))
        cpus = _count(row, ("reqcpus",)) or _number_of(tres.get("cpu", "")) or _count(row, ("ncpus", "alloccpus"))
        if not cpus:
            raise InputError("the number of CPUs is unknown", where, "add ReqCPUS to --format")
        fields["ntasks"] = cpus
        if nodes:
            fields |= {"nodes_min": nodes, "nodes_max": nodes}
        limit = row.get("timelimitraw", "").strip() or row.get("timelimit", "").strip()
        if limit.lower() in ("", "partition_limit"):
            self.account.alter("time limit unknown: the partition's default rules", where)
        elif limit.upper() in ("UNLIMITED", "INFINITE"):
            fields["limit_ns"] = UNLIMITED
        else:
            fields["limit_ns"] = whole(limit) * MINUTE if "timelimitraw" in row else slurm_time(limit)
        self._memory(fields, row.get("reqmem", "").strip() or tres.get("mem", ""), nodes or 1, cpus, where)
        self._gres(fields, tres, nodes or 1, where)

    def _memory(self, fields: dict[str, Any], text: str, nodes: int, cpus: int, where: Where) -> None:
        """ReqMem: 22.05 and later print the job's total; older ones per node (n) or per core (c)."""
        if not text or text in ("0", "0n", "0c", "0M", "?"):
            return
        found = _MEMORY.match(text)
        if not found:
            raise InputError(f"not a memory size: {text[:30]!r}", where)
        amount = mib(found[1].upper().replace("P", "T")) * (1024 if found[1].upper().endswith("P") else 1)
        if found[2].lower() == "c":
            fields["mem_per_cpu_mib"] = amount
        elif found[2].lower() == "n" or nodes == 1:
            fields["mem_per_node_mib"] = amount
        else:
            self.account.alter("ReqMem is the total of several nodes: divided by the CPUs", where)
            fields["mem_per_cpu_mib"] = -(-amount // cpus)

    def _gres(self, fields: dict[str, Any], tres: dict[str, str], nodes: int, where: Where) -> None:
        """gres/NAME[:TYPE]=TOTAL of ReqTRES, per node; the typed entry stands for the plain one."""
        totals = {name.removeprefix("gres/"): text for name, text in tres.items() if name.startswith("gres/")}
        typed = {name.partition(":")[0] for name in totals if ":" in name}
        parts = []
        for name, text in totals.items():
            if name in typed:
                continue
            total = whole(text)
            if total % nodes:
                self.account.alter("GRES do not divide by the nodes: rounded up per node", where)
            parts.append(f"{name}:{-(-total // nodes)}")
        if parts:
            fields["gres"] = ",".join(parts)

    def _submit_line(self, row: Row, fields: dict[str, Any], where: Where) -> dict[str, Any]:
        """What SubmitLine tells beyond the columns."""
        line = row.get("submitline", "").strip()
        if not line:
            return {}
        try:
            words = shlex.split(line)
            found: dict[str, Any] = {}
            for name, value in split_options(words[1:]):
                if name not in ("begin", "deadline"):
                    found |= option_fields(name, value)
        except (InputError, ValueError):
            self.account.alter("SubmitLine is not understood: only the columns are used", where)
            return {}
        out = {name: value for name, value in found.items() if name in _FROM_SUBMIT_LINE}
        per_task = out.get("cpus_per_task")
        if per_task and fields["ntasks"] % per_task == 0:
            out["ntasks"] = fields["ntasks"] // per_task
        else:
            out.pop("cpus_per_task", None)
        if "mem_per_node_mib" in out or "mem_per_cpu_mib" in out:
            fields.pop("mem_per_node_mib", None)
            fields.pop("mem_per_cpu_mib", None)
        if "dependency" in out and not self._known_jobs(out["dependency"]):
            self.account.alter("depends on jobs that are not in the dump: its eligible time is used", where)
            del out["dependency"]
        if Path(words[0]).name in ("salloc", "srun"):
            out["interactive"] = True
        return out

    def _known_jobs(self, dependency: str) -> bool:
        """Whether every job that a dependency names came before."""
        numbers = re.findall(r"(?<=:)\d{1,10}", dependency)
        return bool(numbers) and all(int(number) in self.numbers for number in numbers)

    def _identity(self, fields: dict[str, Any], row: Row, where: Where) -> None:
        uid = row.get("uid", "").strip()
        named = {name: row.get(column, "").strip() for name, column in _NAMES.items()}
        named["user"] = named["user"] or (f"uid{uid}" if uid else "")
        fields |= {name: value for name, value in named.items() if value}
        if row.get("reservation", "").strip():
            self.account.alter("ran in a reservation: submitted without it", where)
        shown = row.get("jobid", "").strip()
        if "_" in shown:
            self.account.alter("array task: a job of its own", where)
        found = _JOB_ID.match(shown)
        if found and found[3]:
            fields["het_group"] = int(found[1])


def _elapsed(row: Row, start: int | None, end: int | None) -> int | None:
    """Seconds that the job ran; None when unknown."""
    raw = row.get("elapsedraw", "").strip()
    if raw:
        return whole(raw)
    text = row.get("elapsed", "").strip()
    if text and text not in ("INVALID", "Unknown"):
        return slurm_time(text) // SECOND
    if start is None or end is None:
        return None
    if end < start:
        raise InputError("End is before Start")
    return end - start


def _number_of(text: str) -> int:
    """A count such as `16` or `1.5K`; 0 for none."""
    word = text.strip()
    return whole(word) if word.isdigit() else 0


def _count(row: Row, names: tuple[str, ...]) -> int:
    """The first column of these that holds a number above 0; 0 for none."""
    return next((n for n in (_number_of(row.get(name, "")) for name in names) if n), 0)
