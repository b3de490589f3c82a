"""When an operator polled, from the passes it recorded (plans.jsonl.gz beside a recording's rows).

A poll wakes every object at once (slurmtwin_operator/shell/process.py poll()): a pass of the Cluster and one of the
NodeSet ask slurmrestd within some milliseconds of each other. What else wakes a pass wakes one of the two, but for a
change of their specs, which is the fault itself.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.errors import InputError, Where

PASSES_FILE: Final = "plans.jsonl.gz"
TOGETHER_NS: Final = 10 * MS
"""Two passes that one poll wakes begin so close; those that other causes wake lie further apart."""
IDLE_NS: Final = SECOND
"""A pass has ended so long after its decision. An object that is woken during a pass gets its next one at its end,
which tells nothing of the moment it was woken."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over an object. Times as in the rows."""

    kind: str
    began_ns: int | None
    """It asked slurmrestd then; None: there was no answer, so its begin is not known."""
    decided_ns: int


def read_passes(folder: Path, epoch_ns: int) -> list[Pass]:
    """The passes of a recording in the order of their decisions; [] where none were recorded. Raises InputError."""
    path = folder / PASSES_FILE
    if not path.exists():
        return []
    try:
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            return [_pass(json.loads(line), epoch_ns) for line in list(stream)[1:]]
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"no recorded passes: {error!r}", Where(str(path))) from error


def _pass(document: dict[str, Any], epoch_ns: int) -> Pass:
    slurm = document["observed"].get("slurm") or {}
    began_ns = int(slurm["at_ns"]) - epoch_ns if slurm.get("answer") == "fresh" else None
    return Pass(str(document["kind"]), began_ns, int(str(document["now_ns"])) - epoch_ns)


def last_poll_ns(passes: Iterable[Pass], before_ns: int) -> int | None:
    """The last poll before that time which passes show; None where none does."""
    decided: dict[str, int] = {}
    woken: dict[str, int] = {}
    poll_ns = None
    for one in passes:
        if one.decided_ns >= before_ns:
            break
        idle = one.kind not in decided or one.began_ns is None or one.began_ns - decided[one.kind] >= IDLE_NS
        decided[one.kind] = one.decided_ns
        woken.pop(one.kind, None)
        if one.began_ns is None or not idle:
            continue
        beside = [at for at in woken.values() if abs(at - one.began_ns) <= TOGETHER_NS]
        woken[one.kind] = one.began_ns
        if beside:
            poll_ns = min(one.began_ns, *beside)
    return poll_ns
