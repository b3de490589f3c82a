"""Small histories for tests: single rows by hand, and whole runs of a plain first-fit queue.

The queue here is deliberately simple; it only has to give histories that are legal, so that a planted mistake
is the one thing wrong with them.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.cluster_facts import ClusterFacts
from slurmtwin.contract.events import Event, Kind, arrow_schema
from slurmtwin.contract.hostlist import compress
from slurmtwin.contract.manifest import Manifest, environment_block, software_block, write_manifest
from slurmtwin_reports.checks.final_state import rebuilt_states
from slurmtwin_reports.history import History, history_of, rows_of_events


def row(at_s: float, kind: str, job: int | None = None, node: str | None = None, **more: Any) -> Event:
    """One event at `at_s` seconds. Keys that are columns go there, all others into detail."""
    columns = {k: more.pop(k) for k in ("value", "unit", "cause_seq", "t_err_ns", "actor") if k in more}
    detail = json.dumps(more, sort_keys=True, separators=(",", ":")) if more else None
    actor = columns.pop("actor", "slurmctld")
    return Event(round(at_s * SECOND), Kind(kind), actor, job, node, detail=detail, **columns)


def a_manifest(scenario: str = "tiny", world: str = "twin", **more: Any) -> Manifest:
    """A manifest with the blocks a report shows."""
    parameters = {"slurm_version": "26.05", **more.pop("parameters", {})}
    return Manifest(
        world=world, scenario=scenario, scenario_sha256="0" * 64, seed=more.pop("seed", 1), parameters=parameters,
        software=software_block(), environment=environment_block(), **more,
    )  # fmt: skip


def a_history(
    events: Iterable[Event],
    cpus: Mapping[str, int] | None = None,
    jobs: Mapping[int, Mapping[str, Any]] | None = None,
    **more: Any,
) -> History:
    """A history of hand-written rows on nodes `cpus` (two of 4 CPUs by default)."""
    sizes = dict(cpus or {"n1": 4, "n2": 4})
    facts = more.pop("facts", None) or ClusterFacts(node_cpus=sizes, default_partition="batch")
    return history_of(a_manifest(**more), list(events), jobs, facts)


def job_story(job: int, submit: float, start: float, end: float, nodes: str = "n1", cpus: int = 1) -> list[Event]:
    """The rows of one job that runs once."""
    return [
        row(submit, "job.submitted", job), row(start, "job.started", job, nodes, value=cpus, unit="cpu", by="main"),
        row(start, "script.started", job, nodes), row(end, "script.ended", job, nodes, exit_code=0),
        row(end, "job.ended", job, state="COMPLETED"), row(end + 1, "job.completed", job),
    ]  # fmt: skip


def in_order(*stories: Iterable[Event]) -> list[Event]:
    """Stories merged by time, closed by run.ended."""
    events = sorted((e for story in stories for e in story), key=lambda e: e.t_ns)
    last = events[-1].t_ns / SECOND if events else 0
    return [row(0, "slurmctld.started", actor="slurmctld"), *events, row(last, "run.ended", why="done", actor="run")]


def queue_run(
    jobs: int = 200,
    nodes: int = 16,
    cpus: int = 8,
    seed: int = 1,
    noise_s: float = 0.0,
    noise_seed: int = 0,
    **more: Any,
) -> History:
    """A congested run of `jobs` jobs, first fit in submit order with short jobs let past; noise delays each start.

    Equal seeds give the same workload; `noise_seed` makes repetitions differ.
    """
    draw, noise = random.Random(seed), random.Random(noise_seed)  # noqa: S311  # test data, not secrets
    names = [f"n{i:03d}" for i in range(1, nodes + 1)]
    requests: dict[int, dict[str, Any]] = {}
    t = 0.0
    for number in range(1, jobs + 1):
        t += draw.expovariate(nodes / 900)
        requests[number] = {
            "job_id": number, "submit_ns": round(t * SECOND), "run_ns": round(draw.lognormvariate(5.6, 0.9) * SECOND),
            "nodes_min": min(nodes, draw.choice((1, 1, 1, 2, 2, 4, 8))), "user": f"u{draw.randrange(5)}",
            "qos": draw.choice(("normal", "normal", "high")), "partition": draw.choice(("batch", "long")),
        }  # fmt: skip
    error = 0 if more.get("world", "twin") == "twin" else SECOND // 2
    events = _serve(requests, names, cpus, noise, noise_s, error)
    facts = ClusterFacts(node_cpus=dict.fromkeys(names, cpus), default_partition="batch", controllers=("ctl",))
    history = history_of(a_manifest(parameters={"cluster": facts.to_dict()}, **more), events, requests, facts)
    history.manifest.results.update(events=len(events), job_states=rebuilt_states(history))
    history.manifest.resources.update(wall_s=0.25, max_rss_mb=90.0, events_per_s=len(events) / 0.25)
    return history


def _serve(
    requests: Mapping[int, Mapping[str, Any]],
    names: Sequence[str],
    cpus: int,
    noise: random.Random,
    noise_s: float,
    error: int,
) -> list[Event]:
    free, waiting, running = list(names), list[int](), list[tuple[int, int, list[str]]]()
    rows = [Event(0, Kind.SLURMCTLD_STARTED, "slurmctld", node="ctl", detail='{"role":"primary"}')]
    arrivals = sorted((r["submit_ns"], n) for n, r in requests.items())
    place = now = 0
    while place < len(arrivals) or running:
        ends = running[0][0] if running else None
        if place < len(arrivals) and (ends is None or arrivals[place][0] < ends):
            now, number = arrivals[place]
            place += 1
            rows.append(Event(now, Kind.JOB_SUBMITTED, "slurmctld", number, t_err_ns=error))
            waiting.append(number)
        else:
            now, number, given = heapq.heappop(running)
            free = sorted([*free, *given])
            rows += _end_rows(now, number, given, error)
        for rank, number in enumerate(list(waiting)):
            size = requests[number]["nodes_min"]
            if size <= len(free) and (rank == 0 or requests[number]["run_ns"] < 240 * SECOND):
                waiting.remove(number)
                given, free = free[:size], free[size:]
                start = now + round(abs(noise.gauss(0, noise_s)) * SECOND)
                rows += _start_rows(start, number, given, cpus * size, "main" if rank == 0 else "backfill", error)
                heapq.heappush(running, (start + requests[number]["run_ns"], number, given))
    rows.sort(key=lambda e: e.t_ns)
    return [*rows, Event(rows[-1].t_ns, Kind.RUN_ENDED, "run", detail='{"why":"done"}')]


def _start_rows(t: int, number: int, nodes: list[str], cpus: int, by: str, error: int) -> list[Event]:
    text = compress(nodes)
    return [
        Event(t, Kind.JOB_STARTED, "slurmctld", number, text, cpus, "cpu", f'{{"by":"{by}"}}', t_err_ns=error),
        Event(t, Kind.SCRIPT_STARTED, "slurmd", number, nodes[0], t_err_ns=error),
    ]


def _end_rows(t: int, number: int, nodes: list[str], error: int) -> list[Event]:
    state = '{"exit_code":0,"state":"COMPLETED"}'
    return [
        Event(t, Kind.SCRIPT_ENDED, "slurmd", number, nodes[0], detail='{"exit_code":0}', t_err_ns=error),
        Event(t, Kind.JOB_ENDED, "slurmctld", number, detail=state, t_err_ns=error),
        Event(t, Kind.JOB_COMPLETED, "slurmctld", number, t_err_ns=error),
    ]


def write_run(folder: Path, history: History, name: str = "events.parquet") -> Path:
    """Write a history as a run folder, as a world does; returns the folder."""
    import gzip

    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"run_id": "test", "world": history.world, **r._asdict()} for r in history.rows()]
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema()), folder / name, compression="zstd")
    else:
        opener: Any = gzip.open if name.endswith(".gz") else open
        with opener(folder / name, "wt", encoding="utf-8") as stream:
            stream.writelines(json.dumps(r) + "\n" for r in rows)
    write_manifest(folder, history.manifest)
    (folder / "jobs.jsonl").write_text("".join(json.dumps(j) + "\n" for j in history.jobs.values()), encoding="utf-8")
    return folder


def planted(history: History, events: Iterable[Event]) -> History:
    """The same run with other rows: a mutant."""
    return History(history.manifest, rows_of_events(events), history.jobs, history.facts)
