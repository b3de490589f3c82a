"""The evidence folder of a run to rows: what slurmctld logged, jobs did, the observer asked, and slurmd said.

Jobs, nodes and daemons as slurmctld tells them are read by the same reader as those of the slurm world.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.hostlist import expand
from slurmtwin.contract.quantity import MIB
from slurmtwin_e2e.collect.run_events import build_events, detail
from slurmtwin_e2e.collect.slurmctld_log import stamp_ns
from slurmtwin_e2e.collect.sources import Record

MILLI: Final = 1_000_000
SECOND: Final = 1_000_000_000
LOG_ERROR_NS: Final = 750_000
"""Half-width of a log stamp cut to milliseconds: half of one, and a quarter of one for the line to be written."""
_LINE = re.compile(r"\[(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{3})\] (.*)")
_UPDATE = re.compile(r"update_node: node (\S+) (reason|state) set to:? (.*)")
SLURMD_LINES: Final = (
    (re.compile(r"slurmd version (?P<version>\S+) started"), Kind.SLURMD_STARTED),
    (re.compile(r"Slurmd shutdown completing"), Kind.SLURMD_STOPPED),
)

Line = dict[str, Any]


def read_lines(path: Path) -> list[Line]:
    """JSON lines; a last one that was cut short is left out."""
    if not path.exists():
        return []
    text = path.read_text(errors="replace")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def _job_id(line: Line) -> int | None:
    """Slurm's number in sbatch's answer."""
    found = re.search(r"\d+", line["out"])
    return int(found[0]) if found and line["code"] == 0 else None


def _driver_notes(lines: Iterable[Line], zero_ns: int, end_ns: int, why: str) -> list[Line]:
    """The observer's actions in the form of the slurm world's driver."""
    notes: list[Line] = [{"what": "zero", "zero": zero_ns}]
    for line in lines:
        if line["what"] != "action":
            continue
        action = line["action"]
        note = {
            "what": "action", "action": action, "before": line["before"], "t": line["after"],
            "returncode": line["code"], "stderr": line["err"],
        }  # fmt: skip
        if action["do"] == "submit":
            note["slurm_id"] = _job_id(line)
        notes.append(note)
    notes.append({"what": "drained" if why == "done" else "time.up", "t": end_ns})
    return notes


def _script_text(lines: Iterable[Line]) -> str:
    """The scripts' notes in the form of the slurm world's job script."""
    out = []
    for line in lines:
        if line["what"] not in ("started", "ended"):
            continue
        what = {"started": "start", "ended": "end"}[line["what"]]
        seconds, rest = divmod(int(line["t"]), 1_000_000_000)
        code = line.get("code", 143 if "signal" in line else 0)
        more = f"{line['nodes']} {line['cpus']} -" if what == "start" else "- - -"
        out.append(
            f"{what} {line['slurm_id']} {line['array']} {line['restart']} {seconds}.{rest:09} {code} {more} "
            f"{line['node']}\n"
        )
    return "".join(out)


def slurm_rows(
    evidence: Path, zero_ns: int, end_ns: int, why: str, controllers: Sequence[str],
    faults: list[dict[str, Any]], node_cpus: dict[str, int], version: str,
) -> list[Event]:  # fmt: skip
    """Rows of jobs, nodes and controllers, relative to zero."""
    with tempfile.TemporaryDirectory(prefix="slurmtwin-evidence-") as folder:
        raw = Path(folder)
        notes = _driver_notes(read_lines(evidence / "observer.jsonl"), zero_ns, end_ns, why)
        (raw / "driver.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))
        logs = sorted((evidence / "logs").glob("*/slurmctld.log"))
        for path in logs:
            target = raw / "slurmctld.log" if len(controllers) == 1 else raw / path.parent.name / "slurmctld.log"
            target.parent.mkdir(exist_ok=True)
            with target.open("a") as stream:
                stream.write(path.read_text(errors="replace"))
        completions = [evidence / "jobcomp.log", *sorted((evidence / "logs").glob("*/jobcomp.log"))]
        for path in completions:
            if path.exists():
                with (raw / "slurm_jobcomp.log").open("a") as stream:
                    stream.write(path.read_text())
        (raw / "scripts.log").write_text(_script_text(read_lines(evidence / "scripts.jsonl")))
        return build_events(raw, {"factor": 1, "version": version}, faults, node_cpus)


def slurmd_rows(evidence: Path, zero_ns: int) -> list[Event]:
    """Starts and clean stops of every slurmd, from its own log."""
    out = []
    for path in sorted((evidence / "logs").glob("*/slurmd.log")):
        for text in path.read_text(errors="replace").splitlines():
            head = _LINE.match(text)
            for pattern, kind in SLURMD_LINES if head else ():
                assert head is not None
                if pattern.match(head[8]):
                    t = stamp_ns(head.groups()[:6], head[7]) - zero_ns + MILLI // 2
                    out.append(Event(t, kind, "slurmd", None, path.parent.name, t_err_ns=LOG_ERROR_NS))
    return out


def grown_rows(evidence: Path, zero_ns: int) -> list[Event]:
    """What jobs tell that grew to a size (memory.hog) and ended, by their own clock of microseconds."""
    return [
        Event(
            line["t"] - zero_ns, Kind.SCRIPT_GREW, "script", line["job"], line["node"], line["mib"] * MIB, "byte",
            detail(start_ns=line["start_ns"], step_ns=line["step_ns"], exit_ns=line["exit_ns"]), t_err_ns=MILLI,
        )
        for line in read_lines(evidence / "scripts.jsonl") if line["what"] == "grown"
    ]  # fmt: skip


def _unix_ns(head: re.Match[str]) -> int:
    """Unix time of a log line, cut to milliseconds."""
    return stamp_ns(head.groups()[:6], head[7])


def _administrators(lines: Iterable[Line]) -> Iterable[tuple[Sequence[str], int, int]]:
    """(nodes, from, to) of each `scontrol update nodename=` of the plan, in unix ns."""
    for line in lines:
        argv = line["action"].get("argv", []) if line["what"] == "action" else []
        names = [word.partition("=")[2] for word in argv if word.startswith("nodename=")]
        if names:
            yield expand(names[0]), line["before"] - MILLI, line["after"] + MILLI


def updated_node_rows(evidence: Path, zero_ns: int) -> list[Event]:
    """Drains, DOWNs and resumes that others asked of slurmctld (an operator, a preStop hook), from its own log.

    slurmctld names the state that the node has then: DRAINING and DRAINED are drains; any state that takes jobs, after
    one that takes none, is a resume. What the scenario's administrator asks is told by the driver's rows instead.
    An operator names its controller's folder as it likes (slurm-ctld-0): the file tells whose log it is.
    """
    out: list[Event] = []
    asked = list(_administrators(read_lines(evidence / "observer.jsonl")))
    for path in sorted((evidence / "logs").glob("*/slurmctld.log")):
        reasons: dict[str, str] = {}
        barred: set[str] = set()
        for text in path.read_text(errors="replace").splitlines():
            head = _LINE.match(text)
            found = _UPDATE.match(head[8]) if head else None
            if head is None or found is None:
                continue
            node, what, value = found.groups()
            if any(node in names and low <= _unix_ns(head) <= high for names, low, high in asked):
                continue
            if what == "reason":
                reasons[node] = value
                continue
            kind = Kind.NODE_DRAINED if value.startswith("DRAIN") else Kind.NODE_DOWN
            if not value.startswith(("DRAIN", "DOWN")):
                if node not in barred:
                    continue
                kind = Kind.NODE_RESUMED
            (barred.discard if kind is Kind.NODE_RESUMED else barred.add)(node)
            t = _unix_ns(head) - zero_ns + MILLI // 2
            reason = reasons.pop(node, None) if kind is not Kind.NODE_RESUMED else None
            out.append(Event(t, kind, "slurmctld", None, node, detail=detail(reason=reason), t_err_ns=LOG_ERROR_NS))
    return out


def observer_rows(lines: Sequence[Line], zero_ns: int) -> list[Event]:
    """Rows of what the observer saw: each true time lies between the request before and the answer."""
    numbers = {}
    for line in lines:
        if line["what"] == "action" and line["action"]["do"] == "submit":
            numbers[str(_job_id(line))] = line["action"]["jobs"][0]
    out = []
    last: dict[tuple[str, str], tuple[Any, ...]] = {}
    for line in lines:
        what = line["what"]
        if what in ("node", "job"):  # Slurm moves a job's expected times each second: no news
            told = tuple(line.get(key) for key in ("state", "reason", "address", "nodes", "restarts"))
            if last.get((what, line["name"])) == told:
                continue
            last[what, line["name"]] = told
        middle, half = (line["before"] + line["after"]) // 2 - zero_ns, (line["after"] - line["before"]) // 2 + 1
        if what in ("probe", "answer"):
            kind = Kind.CLIENT_ANSWERED if line["good"] else Kind.CLIENT_REFUSED
            node = line["asked"] if what == "probe" else None
            text = detail(asked="livez" if what == "probe" else line["asked"], error=line["error"])
            out.append(Event(middle, kind, "observer", None, node, detail=text, t_err_ns=half))
        elif what == "node":
            text = detail(state=line["state"], reason=line["reason"], address=line.get("address"))
            out.append(Event(middle, Kind.NODE_STATE, "observer", None, line["name"], detail=text, t_err_ns=half))
        elif what == "job":
            text = detail(state=line["state"], reason=line["reason"], restarts=line.get("restarts") or None)
            out.append(
                Event(middle, Kind.JOB_STATE, "observer", numbers.get(line["name"]), line.get("nodes") or None,
                      detail=text, t_err_ns=half)
            )  # fmt: skip
        elif what == "sacct":
            text = detail(state=line["state"], start=line["start"] or None, end=line["end"] or None,
                          restarts=line["restarts"] or None)  # fmt: skip
            job = numbers.get(line["name"])
            out.append(
                Event(middle, Kind.JOB_ACCOUNTED, "slurmdbd", job, line["nodes"] or None, detail=text, t_err_ns=half)
            )
    return out


def accounting_check(lines: Sequence[Line], records: Sequence[Record]) -> dict[str, Any]:
    """sacct's last word on every ended job beside jobcomp's: {jobs, equal, differ: [JOB: WHAT ...]}.

    Compared: state and end time, in whole seconds of unix time. A job that was requeued is compared by its last end.
    """
    told = {line["name"]: line for line in lines if line["what"] == "sacct"}
    kept = {str(record.slurm_id): (record.state, record.end_ns // SECOND) for record in records}
    differ = []
    for name, ended in kept.items():
        line = told.get(name)
        said = (line["state"], line["end"]) if line else None
        if said != ended:
            differ.append(f"{name}: sacct {said}, jobcomp {ended}")
    return {"jobs": len(kept), "equal": len(kept) - len(differ), "differ": differ}
