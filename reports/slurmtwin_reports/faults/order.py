"""Order of milestones: could the recorded order have come out of the twin?

Two milestones of a run are surely ordered where their intervals do not touch. In the pool of a repetition and its
replications each member has a rarity: the smallest number of members that allow its sure order, over all pairs of
milestones. The share of members at least as rare is a p-value without any assumption; the repetitions are held
together by Bonferroni's rule. Milestones of claims are left out: whether those come is judged by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slurmtwin.contract.phases import Phase
from slurmtwin_reports.faults.measurement import NEVER, measured, stream
from slurmtwin_reports.faults.ranks import LEVEL
from slurmtwin_reports.faults.replicated import Repetition

if TYPE_CHECKING:
    import numpy as np

    Times = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class OrderFound:
    """p: of the rarest repetition, times the number of repetitions. pair: the two milestones that make it rare."""

    p: float
    pair: str = ""
    phases: frozenset[str] = frozenset()
    """The names of the pair's phases."""

    @property
    def broken(self) -> bool:
        """Out of order at the level of the test."""
        return self.p <= LEVEL


def milestone_order(phases: Sequence[Phase], repetitions: Sequence[Repetition], seed: int) -> OrderFound:
    """The order of all the phases' milestones over all repetitions."""
    found = [_one(phases, repetition, seed, number) for number, repetition in enumerate(repetitions)]
    worst = min(found, key=lambda one: one.p, default=OrderFound(1.0))
    return replace(worst, p=min(1.0, worst.p * len(found)))


def _one(phases: Sequence[Phase], repetition: Repetition, seed: int, number: int) -> OrderFound:
    """One repetition: p is the share of members at least as rare as the recording."""
    import numpy as np

    times, errors, names = _columns(phases, repetition, seed, number)
    if not names:
        return OrderFound(1.0)
    count = times.shape[0]
    rarity = np.full(count, count, dtype=np.int64)
    pair, owners = "", frozenset[str]()
    for i in range(times.shape[1]):
        for j in range(i + 1, times.shape[1]):
            sign = _sure(times[:, i], errors[i], times[:, j], errors[j])
            before, after = int((sign < 0).sum()), int((sign > 0).sum())
            allows = np.where(sign < 0, count - after, np.where(sign > 0, count - before, count))
            if allows[0] < rarity[0]:
                first, second = (i, j) if sign[0] < 0 else (j, i)
                pair = " before ".join(f"{side} of {name}" for side, name in (names[first], names[second]))
                owners = frozenset((names[first][1], names[second][1]))
            rarity = np.minimum(rarity, allows)
    return OrderFound(float((rarity <= rarity[0]).mean()), pair, owners)


def _columns(
    phases: Sequence[Phase], repetition: Repetition, seed: int, number: int
) -> tuple[Times, list[int], list[tuple[str, str]]]:
    """Member 0 is the recording, then its replications as measured; one column per milestone."""
    import numpy as np

    columns, errors, names = [], [], []
    known = set()
    for place, (phase, marks) in enumerate(zip(phases, repetition.recorded, strict=True)):
        if phase.is_claim:
            continue
        for side, (milestone, mark) in enumerate(((phase.start, marks.start), (phase.end, marks.end))):
            key = (milestone.model_dump_json(), phase.start.model_dump_json() if side else "")
            if key in known:
                continue
            known.add(key)
            draw = stream(seed, f"order/{number}/{place}/{side}")
            simulated = measured(repetition.base[:, place, side], mark, repetition.epoch_ns, draw)
            columns.append(np.concatenate([[NEVER if mark is None else mark.t_ns], simulated]))
            errors.append(0 if mark is None else mark.err_ns)
            names.append(("end" if side else "start", phase.name))
    return np.stack(columns, axis=1) if columns else np.empty((0, 0), dtype=np.int64), errors, names


def _sure(a: Times, a_error: int, b: Times, b_error: int) -> Times:
    """-1 where a is surely before b, 1 where surely after, else 0; what never came is after all that came."""
    import numpy as np

    apart = np.where(a == NEVER, NEVER // 2, a) - np.where(b == NEVER, NEVER // 2, b)
    return np.where(np.abs(apart) > a_error + b_error, np.sign(apart), 0)
