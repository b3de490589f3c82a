"""A run folder of the real worlds: manifest.json, events.jsonl.gz and, where they are kept, the run's other files."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slurmtwin.contract.events import COLUMNS, Event
from slurmtwin.contract.jobs import JobRequest, to_dict
from slurmtwin.contract.manifest import Manifest, write_manifest


def write_folder(
    target: Path, manifest: Manifest, events: Sequence[Event], resolved: str = "", jobs: Sequence[JobRequest] = (),
    passes: Sequence[str] = (),
) -> None:  # fmt: skip
    """Write one run folder, whole or not at all.

    resolved: text of scenario.resolved.json, beside which jobs.jsonl stands; "": neither is kept.
    passes: lines of plans.jsonl, where the operator recorded them.
    """
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    if resolved:
        (part / "scenario.resolved.json").write_text(resolved)
        with (part / "jobs.jsonl").open("w") as stream:
            for job in sorted(jobs, key=lambda j: (j.submit_ns, j.job_id)):
                stream.write(json.dumps(to_dict(job), sort_keys=True, separators=(",", ":")) + "\n")
    text = "".join(_row(manifest, seq, event) + "\n" for seq, event in enumerate(events))
    files = {"events.jsonl.gz": text} | ({"plans.jsonl.gz": "\n".join((*passes, ""))} if passes else {})
    for name, content in files.items():
        with (part / name).open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as zipped:
            zipped.write(content.encode())
    write_manifest(part, manifest)
    shutil.rmtree(target, ignore_errors=True)
    part.replace(target)


def _row(manifest: Manifest, seq: int, event: Event) -> str:
    """One line of events.jsonl: columns in the table's order, empty ones left out."""
    row: dict[str, Any] = {"run_id": manifest.results["run_id"], "world": manifest.world, "seq": seq}
    values = event._asdict()
    for column in COLUMNS[3:]:
        if values[column.name] is not None:
            row[column.name] = values[column.name]
    return json.dumps(row, separators=(",", ":"))
