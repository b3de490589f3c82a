"""When an operator polled, from the passes it recorded (plans.jsonl.gz beside a recording's rows).

A poll wakes every object at once (slurmtwin_operator/shell/process.py poll()): a pass of the Cluster and one of the
NodeSet ask slurmrestd within some milliseconds of each other. What else wakes a pass wakes one of the two, but for a
change of their specs, which is the fault itself. A poll is a clock's: nothing but its process's end moves it by more
than a look at all objects takes (each tenth one, 0.1 s), so later ones show where it stood as well.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.campaign.pod_spans import Interval
from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.worlds.pod_faults import WATCH_NS

if TYPE_CHECKING:
    from slurmtwin_reports.history import Row

PASSES_FILE: Final = "plans.jsonl.gz"
TOGETHER_NS: Final = 10 * MS
"""Two passes that one poll wakes begin so close; those that other causes wake lie further apart."""
PERIOD_NS: Final = 30 * SECOND
"""poll_s of the reference operator's designs."""
BUSY_NS: Final = 150 * MS
"""On a busy host they begin so close, and polls are so punctual: others do so too, but not a whole number of periods
apart."""
KINDS: Final = ("Cluster", "NodeSet")
"""Objects that a poll wakes."""
LOOK_NS: Final = 250 * MS
"""A pass that its object's last one asked for has decided by then; one that comes later another cause kept waiting."""
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
    again_ns: int = 0
    """So long behind its end the next one is due."""
    writes: bool = True
    """It remembered, did or told something, so its end lies behind its decision."""
    remembers: bool = False
    """It stored a memory, before it did anything."""


def read_passes(folder: Path, epoch_ns: int) -> list[Pass]:
    """The passes of a recording in the order of their decisions; [] where none were recorded. Raises InputError."""
    path = folder / PASSES_FILE
    if not path.exists():
        return []
    try:
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            told: dict[str, Any] = {}
            return [_pass(json.loads(line), epoch_ns, told) for line in list(stream)[1:]]
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"no recorded passes: {error!r}", Where(str(path))) from error


def _pass(document: dict[str, Any], epoch_ns: int, told: dict[str, Any]) -> Pass:
    """told: by kind what its last pass told."""
    slurm, plan, kind = document["observed"].get("slurm") or {}, document["plan"], str(document["kind"])
    began_ns = int(slurm["at_ns"]) - epoch_ns if slurm.get("answer") == "fresh" else None
    tells = [plan["status"], plan["conditions"], plan["reasons"]]
    remembers = plan["memory"] != document["memory"]
    writes = bool(plan["actions"]) or remembers or tells != told.get(kind)
    told[kind] = tells
    return Pass(kind, began_ns, int(str(document["now_ns"])) - epoch_ns, int(plan["requeue_ns"]), writes, remembers)


def lone_looks(passes: Iterable[Pass]) -> Iterator[tuple[Interval, Interval]]:
    """Of each pass of the NodeSet that its last one asked for: when it was due, and its decision, in ms.

    That one wrote nothing, so it ended at its decision, and the Cluster has no pass then: what wakes both, a poll or a
    change of specs, finds the NodeSet's time no more (shell/work_queue.py: of two times the earlier).
    """
    own = [one for one in passes if one.kind == KINDS[1]]
    for last, one in pairwise(own):
        due_ns = last.decided_ns + last.again_ns
        if not last.writes and one.began_ns is not None and 0 < one.decided_ns - due_ns < LOOK_NS:
            yield (due_ns / MS, due_ns / MS), (one.decided_ns / MS, one.decided_ns / MS)


def stored_memories(passes: Iterable[Pass], rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of each pass of the NodeSet that stores a memory, in a run that scales it: its decision, and when the API server
    had that, in ms, by the receipt of a watch. Times of passes and rows as one epoch has them.
    """
    from slurmtwin_reports.history import fault_of

    if not any(row.kind == "fault.injected" and fault_of(row).get("kind") == "operator.scale" for row in rows):
        return  # one that changes slurm.conf stores three, beside passes of the Cluster
    told = [row.t_ns for row in rows if row.kind == "object.changed" and row.details.get("resource") == KINDS[1]]
    for one in passes:
        if one.kind == KINDS[1] and one.remembers:
            heard_ns = next((at_ns for at_ns in told if at_ns > one.decided_ns), one.decided_ns + LOOK_NS)
            if heard_ns - one.decided_ns < LOOK_NS:
                at_ms = one.decided_ns / MS
                yield (at_ms, at_ms), ((heard_ns - WATCH_NS[1]) / MS, (heard_ns - WATCH_NS[0]) / MS)


def last_poll_ns(passes: Iterable[Pass], before_ns: int, lives_on: bool = False) -> int | None:
    """The last poll before that time which passes show; None where none does.

    Two passes at once are one. So are two that begin nearly at once, or that others kept waiting, where two more do so
    a whole number of periods later. Where nothing before that time is one, and the operator's process lives on, two
    such pairs behind it show its clock: the most punctual ones, taken back by whole periods.
    """
    known = list(passes)
    pairs = _pairs(known)
    early = [at_ns for at_ns in pairs if at_ns < before_ns]
    again = [at_ns for at_ns in early if any(_late_ns(at_ns, later_ns) <= BUSY_NS for later_ns in pairs)]
    shown = max([*again, *_at_once(known, before_ns)], default=None)
    return _by_later_ones(pairs, before_ns) if shown is None and lives_on else shown


def _by_later_ones(pairs: Sequence[int], before_ns: int) -> int | None:
    late = [at_ns for at_ns in pairs if at_ns >= before_ns]
    found = [(_late_ns(one, other), one) for one in late for other in late if _late_ns(one, other) <= BUSY_NS]
    if not found:
        return None
    _, at_ns = min(found)
    return at_ns - PERIOD_NS * ((at_ns - before_ns) // PERIOD_NS + 1)


def _pairs(passes: Sequence[Pass]) -> list[int]:
    """When a pass of the Cluster and one of the NodeSet begin nearly at once."""
    began = {kind: [one.began_ns for one in passes if one.kind == kind and one.began_ns is not None] for kind in KINDS}
    return [min(one, other) for one in began[KINDS[0]] for other in began[KINDS[1]] if abs(one - other) <= BUSY_NS]


def _late_ns(at_ns: int, later_ns: int) -> int:
    """How far from a whole number of periods behind, one at least, as an absolute."""
    periods = max(1, round((later_ns - at_ns) / PERIOD_NS))
    return abs(later_ns - at_ns - periods * PERIOD_NS)


def _at_once(passes: Iterable[Pass], before_ns: int) -> list[int]:
    """Polls by passes at once, of objects that had none under way."""
    decided: dict[str, int] = {}
    woken: dict[str, int] = {}
    polls: list[int] = []
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
            polls.append(min(one.began_ns, *beside))
    return polls
