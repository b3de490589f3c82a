"""The results of a study on disk: one small file per run, written whole or not at all, and the table of all.

OUT/study.json          the study with its base scenario, every default written out
OUT/runs/KEY.json       one result; a run whose file is there is never run again
OUT/results.jsonl       all results in the order of the cases, once none is missing
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from slurmtwin.campaign.case_run import Result, heading
from slurmtwin.campaign.cases import Case
from slurmtwin.campaign.study_file import LoadedStudy
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.manifest import write_atomic


class ResultStore:
    """The folder of one study's results. Several processes (shards) may fill it at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"

    def open(self, loaded: LoadedStudy) -> None:
        """Make the folder and say whose it is. Raises InputError when it belongs to another study."""
        self.runs.mkdir(parents=True, exist_ok=True)
        target = self.folder / "study.json"
        document = {"study": loaded.study.model_dump(mode="json", by_alias=True), "scenario": loaded.document}
        if target.exists():
            name = json.loads(target.read_text(encoding="utf-8")).get("study", {}).get("name")
            if name != loaded.study.name:
                raise InputError(f"holds the results of study {name}", Where(str(self.folder)), "name another --out")
        write_atomic(target, json.dumps(document, indent=1, sort_keys=True) + "\n")

    def path(self, case: Case) -> Path:
        """The file of a case's result."""
        return self.runs / f"{case.key}.json"

    def get(self, case: Case) -> Result | None:
        """The result of a case, or None when there is none yet. Raises InputError for a broken file."""
        path = self.path(case)
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise InputError(f"not JSON: {error}", Where(str(path)), "delete it to have the run made again") from error
        # a key says what was run; where it stands among the cases, and by what names, is the study's file of today
        return {**document, **heading(case)}

    def put(self, case: Case, result: Result) -> None:
        """Keep a result; a crash leaves the whole file or none."""
        write_atomic(self.path(case), json.dumps(result, sort_keys=True, separators=(",", ":")) + "\n")

    def missing(self, wanted: Iterable[Case], retry_failed: bool = False) -> Iterator[Case]:
        """The cases without a result; with `retry_failed` those that failed too."""
        for case in wanted:
            result = self.get(case) if self.path(case).exists() else None
            if result is None or (retry_failed and result["status"] == "failed"):
                yield case

    def write_all(self, wanted: Iterable[Case]) -> list[Result] | None:
        """Write results.jsonl and return it, in the order of the cases; None when some run is missing."""
        results = []
        for case in wanted:
            result = self.get(case)
            if result is None:
                return None
            results.append(result)
        lines = [json.dumps(r, sort_keys=True, separators=(",", ":")) + "\n" for r in results]
        write_atomic(self.folder / "results.jsonl", "".join(lines))
        return results


def replay_command(study: str, out: str, case: Case) -> str:
    """The line that runs one case again, alone and in this process."""
    import shlex

    return f"slurmtwin study {shlex.quote(study)} --out {shlex.quote(out)} --only {case.key}"
