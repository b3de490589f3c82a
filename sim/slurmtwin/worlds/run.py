"""What a run leaves behind: events, jobs, manifest, in memory or in a folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import COLUMNS, Kind
from slurmtwin.contract.manifest import Manifest

if TYPE_CHECKING:
    import pandas as pd

    from slurmtwin.contract.events import Event


@dataclass(slots=True)
class Run:
    """One execution of a scenario in one world."""

    world: str
    scenario: str
    seed: int
    event_hash: str
    event_count: int
    stop_reason: str
    manifest: Manifest
    folder: Path | None = None
    kept: list[Event] | None = None
    """All events, when they were kept in memory."""
    _frame: Any = field(default=None, repr=False)

    @property
    def events(self) -> pd.DataFrame:
        """The event table as a pandas frame, read at the first use."""
        if self._frame is None:
            self._frame = self._read()
        return self._frame

    def _read(self) -> Any:
        import pandas as pd

        if self.kept is None:
            if self.folder is None:
                raise InputError("the run kept no events", hint="run it with keep=True or with a folder")
            return pd.read_parquet(self.folder / "events.parquet")
        names = [column.name for column in COLUMNS]
        rows = [self._row(place, event) for place, event in enumerate(self.kept)]
        frame = pd.DataFrame(rows, columns=names)
        for column in COLUMNS:
            if column.arrow == "int64" and column.nullable:
                frame[column.name] = frame[column.name].astype("Int64")
        return frame

    def _row(self, place: int, event: Event) -> tuple[Any, ...]:
        values = event._asdict()
        values.update(run_id=self.manifest.results.get("run_id", ""), world=self.world, seq=place)
        values["kind"] = event.kind.value
        return tuple(values[column.name] for column in COLUMNS)

    @property
    def jobs(self) -> pd.DataFrame:
        """One row per run of a job (or array task): who, when submitted, started, ended, where, and how it ended."""
        import pandas as pd

        return pd.DataFrame(self.job_rows(), columns=_JOB_COLUMNS)

    def job_rows(self) -> list[dict[str, Any]]:
        """The rows of `jobs` as dictionaries."""
        import json

        submitted: dict[int, int] = {}
        running: dict[tuple[int, int | None], dict[str, Any]] = {}
        rows: list[dict[str, Any]] = []
        wanted = {Kind.JOB_SUBMITTED, Kind.JOB_STARTED, Kind.JOB_ENDED}
        for kind, t_ns, job_id, node, value, detail in self._job_events():
            if kind not in wanted or job_id is None:
                continue
            more = json.loads(detail) if detail else {}
            key = (job_id, more.get("array_task"))
            if kind is Kind.JOB_SUBMITTED:
                submitted[job_id] = t_ns
            elif kind is Kind.JOB_STARTED:
                running[key] = {
                    "job_id": job_id, "array_task": key[1], "submit_ns": submitted.get(job_id), "start_ns": t_ns,
                    "end_ns": None, "nodes": node, "cpus": value, "state": "RUNNING",
                }  # fmt: skip
                rows.append(running[key])
            elif key in running:
                running.pop(key).update(end_ns=t_ns, state=more.get("state"))
            else:
                rows.append(
                    {"job_id": job_id, "array_task": key[1], "submit_ns": submitted.get(job_id), "start_ns": None,
                     "end_ns": t_ns, "nodes": None, "cpus": None, "state": more.get("state")}
                )  # fmt: skip
        return rows

    def _job_events(self) -> Any:
        if self.kept is not None:
            for e in self.kept:
                yield e.kind, e.t_ns, e.job_id, e.node, e.value, e.detail
            return
        frame = self.events
        columns = ("kind", "t_ns", "job_id", "node", "value", "detail")
        for kind, t_ns, job_id, node, value, detail in zip(*(frame[c] for c in columns), strict=True):
            number = None if job_id != job_id or job_id is None else int(job_id)
            amount = None if value != value or value is None else int(value)
            yield Kind(kind), int(t_ns), number, node, amount, detail


_JOB_COLUMNS = ["job_id", "array_task", "submit_ns", "start_ns", "end_ns", "nodes", "cpus", "state"]
