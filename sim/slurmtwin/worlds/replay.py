"""A trace on a cluster: `slurmtwin replay`. The trace's own starts are not used, only what users asked for."""

from __future__ import annotations

import csv
import json
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.quantity import parse_slurm_mib
from slurmtwin.contract.scenario import SCENARIO_SCHEMA, Budget, Scenario, SlurmFilePaths, SlurmSection
from slurmtwin.workload.resolve import detect_format, open_trace
from slurmtwin.workload.swf import SwfOptions, read_swf
from slurmtwin.workload.trace_file import JobStream
from slurmtwin.worlds.run import Run
from slurmtwin.worlds.twin import TwinOptions, run_scenario

MAX_NODES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Replay:
    """A finished replay: the run, and what the reader made of the trace."""

    run: Run
    jobs: int
    account: dict[str, Any]
    mean_wait_s: float | None
    rejected: dict[str, int] = field(default_factory=dict)
    """Jobs that slurmctld refused at submission, by the error it gave."""


def trace_of(path: Path, form: str = "", lenient: bool = False, swf: SwfOptions | None = None) -> JobStream:
    """The jobs of a trace file in submit order; `swf` says how to read what that format leaves open."""
    found = form or detect_format(path)
    return read_swf(path, lenient, swf) if found == "swf" else open_trace(path, found, lenient)  # type: ignore[arg-type]


def node_lines(shapes: Iterable[str]) -> list[dict[str, str | int | float | bool]]:
    """NodeName lines of `COUNTxCPUS[xMEM]` texts, MEM in Slurm's memory form. Raises InputError."""
    lines: list[dict[str, str | int | float | bool]] = []
    for place, text in enumerate(shapes):
        parts = text.lower().split("x")
        if len(parts) not in (2, 3) or not all(p.isdigit() and len(p) < 10 and int(p) > 0 for p in parts[:2]):
            raise InputError(f"not a node shape: {text!r}", hint="COUNTxCPUS[xMEM], for example 1000x64x256G")
        count, cpus = int(parts[0]), int(parts[1])
        if count > MAX_NODES:
            raise InputError(f"{count} nodes are more than {MAX_NODES}")
        letter = chr(ord("a") + place % 26) * (1 + place // 26)
        line: dict[str, str | int | float | bool] = {
            "NodeName": f"{letter}[{1:0{len(str(count))}d}-{count}]",
            "CPUs": cpus,
        }
        if cpus > 1:
            line["CoresPerSocket"] = cpus
        if len(parts) == 3:
            line["RealMemory"] = parse_slurm_mib(parts[2])
        lines.append(line)
    return lines


def replay_scenario(
    nodes: Iterable[str] = (), slurm_conf: Path | None = None, version: str = "26.05", waive: Iterable[str] = ()
) -> Scenario:
    """The scenario around a replay: nodes of given shapes under the version's defaults, or a site's slurm.conf."""
    shapes = list(nodes)
    if bool(shapes) == (slurm_conf is not None):
        raise InputError("say the cluster with --nodes or with --slurm-conf", hint="one of the two")
    slurm: dict[str, Any] = {"version": version, "waive": list(waive)}
    if slurm_conf is not None:

        def beside(name: str) -> str | None:
            neighbour = slurm_conf.with_name(name)
            return str(neighbour.resolve()) if neighbour.is_file() else None

        slurm["files"] = SlurmFilePaths(
            slurm_conf=str(slurm_conf.resolve()), gres_conf=beside("gres.conf"), topology_conf=beside("topology.conf"),
            sacctmgr=beside("sacctmgr.script"),
        )  # fmt: skip
    else:
        slurm["conf"] = {"MaxJobCount": 10_000_000}
        slurm["nodes"] = node_lines(shapes)
        slurm["partitions"] = [{"PartitionName": "all", "Nodes": "ALL", "Default": "YES", "MaxTime": "INFINITE"}]
    return Scenario(schema_=SCENARIO_SCHEMA, name="replay", slurm=SlurmSection(**slurm), budget=Budget())


def replay(
    trace: JobStream | Iterable[JobRequest], scenario: Scenario, seed: int = 0, folder: Path | None = None,
    starts: Path | None = None, tie_seed: int | None = None,
) -> Replay:  # fmt: skip
    """Run a trace. `folder` keeps the run; `starts` gets one CSV row per run of a job."""
    with tempfile.TemporaryDirectory(prefix="slurmtwin-replay-") as scratch:
        where = folder or Path(scratch)
        run = run_scenario(scenario, ".", TwinOptions(seed=seed, folder=where, tie_seed=tie_seed), iter(trace))
        mean_wait_s, jobs, rejected = _outcomes(where)
        if starts is not None:
            _write_starts(run, where, starts)
    account = trace.account.as_dict() if isinstance(trace, JobStream) else {}
    return Replay(run, jobs, account, mean_wait_s, rejected)


def _outcomes(folder: Path) -> tuple[float | None, int, dict[str, int]]:
    """(mean wait of the first starts in seconds, jobs that were submitted, refused jobs by error).

    The events are read once, by columns and not by rows.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    found: dict[str, list[Any]] = {"job.submitted": [], "job.started": []}
    refused: Counter[str] = Counter()
    reader = pq.ParquetFile(folder / "events.parquet")
    for batch in reader.iter_batches(columns=["kind", "job_id", "t_ns", "detail"]):
        for kind, parts in found.items():
            parts.append(batch.filter(pc.equal(batch["kind"], kind)).select(["job_id", "t_ns"]))
        details = batch.filter(pc.equal(batch["kind"], "job.rejected"))["detail"].to_pylist()
        refused.update(json.loads(detail or "{}").get("reason", "no reason given") for detail in details)
    rejected = dict(sorted(refused.items()))
    submitted, started = (_first_times(pa, parts) for parts in found.values())
    if submitted is None or started is None or not started.num_rows:
        return None, 0 if submitted is None else submitted.num_rows, rejected
    both = started.join(submitted, "job_id", right_suffix="_submit")
    total = pc.sum(pc.subtract(both["t_ns_min"], both["t_ns_min_submit"])).as_py()
    return total / both.num_rows / SECOND, submitted.num_rows, rejected


def _first_times(pa: Any, parts: list[Any]) -> Any:
    """A table of each job's first time; None for a run without rows."""
    if not parts:
        return None
    return pa.Table.from_batches(parts).combine_chunks().group_by("job_id").aggregate([("t_ns", "min")])


def _write_starts(run: Run, folder: Path, target: Path) -> None:
    """job id, array task, submit, start, end (seconds since the trace's start), nodes."""
    part = target.with_name(f".{target.name}.part")
    run = Run(run.world, run.scenario, run.seed, run.event_hash, run.event_count, run.stop_reason, run.manifest, folder)
    with part.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(("job_id", "array_task", "submit_s", "start_s", "end_s", "nodes", "cpus", "state"))
        for row in run.job_rows():
            times = [_seconds(row[name]) for name in ("submit_ns", "start_ns", "end_ns")]
            task = "" if row["array_task"] is None else row["array_task"]
            writer.writerow((row["job_id"], task, *times, row["nodes"] or "", row["cpus"] or "", row["state"]))
    part.replace(target)


def _seconds(ns: int | None) -> str:
    if ns is None:
        return ""
    whole, rest = divmod(ns, SECOND)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")
