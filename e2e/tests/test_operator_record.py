"""An operator's own record, cut to one run."""

from __future__ import annotations

import json
from pathlib import Path

from slurmtwin.contract.events import Kind
from slurmtwin_e2e.operators.record import action_rows, passes


def write(folder: Path, name: str, lines: list[object], tail: str = "") -> None:
    """A file of JSON lines, with an end that was cut short."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines) + tail)


def test_actions_of_this_run_become_rows_with_their_outcome(tmp_path: Path) -> None:
    """Lines without an action, of another namespace, or cut short are left out; a failure is another kind."""
    say = {"t_ns": 1_000_000_050, "say": "action", "object": "NodeSet ns/w", "do": "drain", "about": "w-0"}
    write(tmp_path / "op-1", "log.jsonl", [
        {"t_ns": 1, "say": "started"}, say | {"outcome": "done"}, say | {"outcome": "API server: 409: conflict"},
        say | {"object": "NodeSet other/w", "outcome": "done"}, say | {"t_ns": 9, "outcome": "done"},
    ], '{"t_ns": 12')  # fmt: skip
    rows = action_rows(tmp_path, "ns", 1_000_000_000, 10)
    assert [(row.t_ns, row.kind, row.node) for row in rows] == [
        (50, Kind.ACTION_ISSUED, "w-0"), (50, Kind.ACTION_FAILED, "w-0"),
    ]  # fmt: skip
    assert "409" in str(rows[1].detail)


def test_passes_of_all_processes_follow_one_header(tmp_path: Path) -> None:
    """Two processes, one after the other; those of another namespace, or of a run before, are not this run's."""
    mine = {"observed": {"me": {"namespace": "ns", "name": "w"}}, "now_ns": 10}
    other = {"observed": {"me": {"namespace": "ns2", "name": "w"}}, "now_ns": 10}
    for name in ("op-1", "op-2"):
        write(tmp_path / name, "plans.jsonl", [{"schema": "slurmtwin/plans/1"}, mine | {"now_ns": 9}, mine, other])
    found = passes(tmp_path, "ns", 10)
    assert json.loads(found[0]) == {"schema": "slurmtwin/plans/1"}
    assert [json.loads(line) for line in found[1:]] == [mine, mine]
    assert passes(tmp_path, "none", 10) == []
