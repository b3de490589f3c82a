"""What an operator itself recorded on the shared directory, cut to one run: its actions as rows, its passes as text.

A folder per process holds log.jsonl (one JSON object per line; actions have `do`) and plans.jsonl (a header, then one
pass per line), as the reference operator writes them (docs/operator.md). An operator without them has no such rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.events import Event, Kind
from slurmtwin_e2e.collect.run_events import detail

LOG: Final = "log.jsonl"
PLANS: Final = "plans.jsonl"
STAMP_ERROR_NS: Final = 1_000_000
"""A line is stamped when the action was answered; the stamp is a float of seconds."""
FINE: Final = ("done", "skipped")


def _whole_lines(path: Path) -> list[str]:
    """Lines of a file that may still be written; one that was cut short is left out."""
    if not path.exists():
        return []
    text = path.read_text(errors="replace")
    return text[: text.rfind("\n") + 1].splitlines()


def _log(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob(f"*/{LOG}")):
        for line in _whole_lines(path):
            yield json.loads(line)


def action_rows(folder: Path, namespace: str, zero_ns: int, since_ns: int) -> list[Event]:
    """Every action of the operator on objects of this namespace since then (unix ns), relative to zero."""
    out = []
    for line in _log(folder):
        place = str(line.get("object", "")).partition(" ")[2]
        if "do" not in line or not place.startswith(f"{namespace}/") or int(line["t_ns"]) < since_ns:
            continue
        outcome = str(line.get("outcome", ""))
        kind = Kind.ACTION_ISSUED if outcome in FINE else Kind.ACTION_FAILED
        text = detail(do=line["do"], object=line.get("kind"), outcome=outcome[:160])
        out.append(
            Event(int(line["t_ns"]) - zero_ns, kind, "operator", None, line.get("about") or None, detail=text,
                  t_err_ns=STAMP_ERROR_NS)
        )  # fmt: skip
    return out


def passes(folder: Path, namespace: str, since_ns: int) -> list[str]:
    """The header and the passes over objects of this namespace since then, process by process; [] for none.

    An earlier run that was given up may have left passes of a namespace of the same name.
    """
    header, out = "", []
    mark = f'"namespace":"{namespace}"'
    for path in sorted(folder.glob(f"*/{PLANS}")):
        lines = _whole_lines(path)
        header = header or (lines[0] if lines else "")
        for line in lines[1:]:
            found = json.loads(line) if mark in line else None
            if found and found["observed"]["me"]["namespace"] == namespace and found["now_ns"] >= since_ns:
                out.append(line)
    return [header, *out] if out else []
