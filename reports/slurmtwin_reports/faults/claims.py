"""Claims of kind: phases that say what happens or does not, and of which no parameter can be halved.

`Steps live without slurmctld`, `the first restart has no back-off`: such a phase has no power to show, so it has no
vote among the phases. It is a property of the scenario instead: its prediction (an end that must not come, or a span
within [low, high]) is held against every recorded repetition and every replication; one that breaks it is a finding.
"""

from __future__ import annotations

from collections.abc import Sequence

from slurmtwin.contract.phases import Phase
from slurmtwin_reports.faults.measurement import NEVER, NO_START, recorded_span, spans, words
from slurmtwin_reports.faults.replicated import Repetition
from slurmtwin_reports.verdict import Outcome


def holds(phase: Phase, span_ns: int, error_ns: int = 0) -> bool | None:
    """May this span be as the claim says, given its error? None: the phase did not begin, so nothing was shown."""
    if span_ns == NO_START:
        return None
    return phase.allows(None if span_ns == NEVER else span_ns, error_ns)


def claim_found(phase: Phase, repetitions: Sequence[Repetition], place: int) -> tuple[Outcome, str, int]:
    """(holds, broken or unknown; in how many runs it was looked at or broken; how many recordings break it).

    Replications that break it count as one more.
    """
    marks = [repetition.recorded[place] for repetition in repetitions]
    recorded = [holds(phase, recorded_span(one), one.error_ns) for one in marks]
    replicated = [
        holds(phase, int(span))
        for repetition in repetitions
        for span in spans(repetition.base[:, place, 0], repetition.base[:, place, 1])
    ]
    bad = [words(recorded_span(one)) for one, held in zip(marks, recorded, strict=True) if held is False]
    bad_twin = sum(held is False for held in replicated)
    if bad or bad_twin:
        real = f"broken in {len(bad)} of {len(recorded)} recordings" + (f" ({', '.join(bad)} s)" if bad else "")
        return Outcome.BROKEN, f"{real}, in {bad_twin} of {len(replicated)} replications", len(bad) + bool(bad_twin)
    shown, shown_twin = (sum(held is not None for held in found) for found in (recorded, replicated))
    if not shown or not shown_twin:
        return Outcome.UNKNOWN, f"it began in {shown} recordings and {shown_twin} replications", 0
    return Outcome.HOLDS, f"in {shown} recordings and {shown_twin} replications", 0
