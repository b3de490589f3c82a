"""What a run left in its folder, parsed: the driver's notes, jobcomp's records, the scripts' own lines."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurmtwin_e2e.collect.slurmctld_log import Fact, iso_ns, read_log

Note = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """One line of jobcomp/filetxt: a run of a job that ended (times are whole seconds, as Slurm has them)."""

    slurm_id: int
    state: str
    start_ns: int | None
    end_ns: int
    nodes: str
    cpus: int
    exit_code: str


@dataclass(frozen=True, slots=True)
class ScriptLine:
    """The batch script noting its own start or end."""

    what: str
    slurm_id: int
    array_id: int
    task: int
    restart: int
    t_ns: int
    code: int
    nodes: str
    cpus_per_node: str
    gpus: str
    host: str
    """The node that the script ran on."""


def read_notes(folder: Path) -> list[Note]:
    """driver.jsonl."""
    return [json.loads(line) for line in (folder / "driver.jsonl").read_text().splitlines()]


_FIELD = re.compile(r"(\w+)=(\S*)")


def read_jobcomp(folder: Path, name: str = "slurm_jobcomp.log") -> list[Record]:
    """All records in the order Slurm wrote them; an empty list when no job ended."""
    path = folder / name
    if not path.exists():
        return []
    out = []
    for line in path.read_text(errors="replace").splitlines():
        parts = dict(_FIELD.findall(line))
        end = iso_ns(parts.get("EndTime", ""))
        if "JobId" not in parts or end is None:
            continue
        start = iso_ns(parts.get("StartTime", ""))
        nodes = parts.get("NodeList", "")
        out.append(
            Record(
                int(parts["JobId"]), parts.get("JobState", ""), start if nodes not in ("", "(null)") else None, end,
                nodes, int(parts.get("ProcCnt") or 0), parts.get("ExitCode", "0:0"),
            )
        )  # fmt: skip
    return out


def read_scripts(folder: Path) -> list[ScriptLine]:
    """scripts.log; a line cut short by a crash is left out."""
    out = []
    for line in (folder / "scripts.log").read_text(errors="replace").splitlines():
        words = line.split()
        if len(words) < 7:
            continue
        whole, _, part = words[5].partition(".")
        more = [*words[7:], "", "", "", ""]
        out.append(
            ScriptLine(
                words[0], int(words[1]), int(words[2]), int(words[3]), int(words[4]),
                int(whole) * 1_000_000_000 + int(part.ljust(9, "0")[:9]), int(words[6]), *more[:4],
            )
        )  # fmt: skip
    return out


def read_facts(folder: Path) -> list[tuple[str, Fact]]:
    """The facts of all controllers' logs in time order, each with its controller's host name ("" if there is one)."""
    out: list[tuple[str, Fact]] = []
    for path in sorted([*folder.glob("slurmctld.log"), *folder.glob("*/slurmctld.log")]):
        host = "" if path.parent == folder else path.parent.name
        out.extend((host, fact) for fact in read_log(path))
    out.sort(key=lambda pair: pair[1].t_ns)
    return out


def expand_cpus(text: str) -> list[int]:
    """SLURM_JOB_CPUS_PER_NODE, such as `4(x2),1`: CPUs of each node in hostlist order."""
    out: list[int] = []
    for part in filter(None, text.split(",")):
        found = re.match(r"(\d+)(?:\(x(\d+)\))?\Z", part)
        if not found:
            return []
        out += [int(found[1])] * int(found[2] or 1)
    return out
