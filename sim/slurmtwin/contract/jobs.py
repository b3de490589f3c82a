"""A job as the user asks for it: the options of `sbatch`, and what its script will do.

One JobRequest serves every world: the twin simulates it, the slurm and kind worlds hand it to sbatch.
Times are integer nanoseconds since the scenario's start, memory is mebibytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final

from slurmtwin.contract.errors import InputError

MAX_ARRAY_TASKS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What one sbatch (or salloc) call says. None or "" means: option not given (man sbatch 22.05)."""

    job_id: int
    """The workload's own number, unique in it, >= 1. One request per array; one per component of a hetjob."""
    submit_ns: int
    """When the user submits, since the scenario's start."""
    run_ns: int | None = 0
    """How long the script runs once started; None: until something ends it (its limit, scancel)."""
    limit_ns: int | None = None
    """--time; clock.UNLIMITED allowed."""
    time_min_ns: int | None = None
    """--time-min."""
    nodes_min: int | None = None
    """--nodes=MIN[-MAX]."""
    nodes_max: int | None = None
    ntasks: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    mem_per_node_mib: int | None = None
    """--mem; 0 asks for all memory of each node."""
    mem_per_cpu_mib: int | None = None
    """--mem-per-cpu."""
    gres: str = ""
    """--gres, per node: `gpu:2,gpu:a100:1`."""
    licenses: str = ""
    constraint: str = ""
    partition: str = ""
    """--partition, one or a comma-separated list."""
    nodelist: str = ""
    exclude: str = ""
    contiguous: bool = False
    switches: str = ""
    """--switches=COUNT[@MAX-WAIT]."""
    spread: bool = False
    exclusive: str = ""
    """--exclusive: "" not given, "node", "user" or "mcs"."""
    oversubscribe: bool = False
    threads_per_core: int | None = None
    reservation: str = ""
    user: str = ""
    account: str = ""
    qos: str = ""
    name: str = ""
    nice: int = 0
    hold: bool = False
    begin_ns: int | None = None
    """--begin, since the scenario's start."""
    deadline_ns: int | None = None
    dependency: str = ""
    """--dependency with the workload's own job numbers: `afterok:12:13,singleton`."""
    array: str = ""
    """--array: `0-9%2`."""
    het_group: int = 0
    """Components of one heterogeneous job share a number > 0 and follow each other in the workload."""
    requeue: bool | None = None
    no_kill: bool = False
    signal: str = ""
    """--signal=[B:]SIGNUM[@SECONDS]."""
    exit_code: int = 0
    """What the script returns at its own end, 0..255."""
    cancel_ns: int | None = None
    """The user's scancel, since the scenario's start."""
    interactive: bool = False
    """salloc instead of sbatch: tried at once inside the submit RPC (slurm.md 1.1)."""
    after_job: int = 0
    """SWF field 17: submitted only when that job has ended, plus think_ns (user feedback); 0: none."""
    think_ns: int = 0
    external: bool = False
    """An external job (25.11 and later): no script, nothing is sent to a slurmd, and its end frees its nodes at once.
    Of more --nodelist names than nodes it takes any."""


FIELD_DEFAULTS: Final[dict[str, Any]] = {f.name: f.default for f in fields(JobRequest)}
_all_fields: Final = attrgetter(*FIELD_DEFAULTS)


def to_dict(job: JobRequest) -> dict[str, Any]:
    """The options that were given, by name: the form scenario files and recordings store."""
    values = zip(FIELD_DEFAULTS.items(), _all_fields(job), strict=True)
    return {name: value for (name, default), value in values if value is not default and value != default}


_ARRAY_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?\Z")


def parse_array(text: str) -> tuple[list[int], int]:
    """`0-9:2,20%3` -> (sorted task indices, most tasks at once or 0). Raises InputError (man sbatch --array)."""
    body, percent, most = text.strip().partition("%")
    if percent and not re.fullmatch(r"[0-9]{1,9}", most):
        raise InputError(f"not an array: {text!r}", hint="the part after % is a number")
    found: set[int] = set()
    for part in body.split(","):
        match = _ARRAY_PART.match(part.strip())
        if not match:
            raise InputError(f"not an array: {text!r}", hint="for example 0-9, 1,3,5, 0-20:4, 0-99%10")
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        step = int(match[3]) if match[3] else 1
        if last < first or step < 1 or (last - first) // step >= MAX_ARRAY_TASKS:
            raise InputError(f"bad range {part!r} in array {text!r}")
        found.update(range(first, last + 1, step))
    return sorted(found), int(most) if percent else 0
