"""Replications that the repository keeps: a small table for each recorded fault scenario and Slurm version.

A table holds the times of milestones and nothing else, beside the hash of what they were asked for, recording by
recording (scenario, recording, design, calibrated durations, seed, counts): a further repetition leaves the others as
they are, and so does a law of durations that came later and that they do not draw. The twin's own source is not part of
the hash: a twin that makes other rows is found out because each check makes two replications of every recording anew.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zipfile import BadZipFile

from slurmtwin.contract.manifest import write_atomic

if TYPE_CHECKING:
    import numpy as np

    Times = np.ndarray[Any, np.dtype[np.int64]]

KEPT: Final = Path("scenarios/replications")
_MADE_FOR: Final = "made_for|"
_LAWS: Final = "laws|"


@dataclass(frozen=True, slots=True)
class Table:
    """Times [replication, phase, start or end] in ns by `variant|factor|recording`, a recording by its folder."""

    made_for: Mapping[str, str]
    """Recording -> hash of what its replications were asked for."""
    times: Mapping[str, Times]
    laws: Mapping[str, tuple[str, ...]]
    """Recording -> names of the calibrated durations that the hash covers."""


def read_table(path: Path | None) -> Table | None:
    """The table in a file; None where there is none that can be read."""
    import numpy as np

    if path is None or not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as found:
            times = {key: found[key] for key in found.files if not key.startswith((_MADE_FOR, _LAWS))}
            made_for, laws = (
                {key.removeprefix(what): str(found[key]) for key in found.files if key.startswith(what)}
                for what in (_MADE_FOR, _LAWS)
            )
            return Table(made_for, times, {name: tuple(text.split()) for name, text in laws.items()})
    except (OSError, ValueError, KeyError, BadZipFile):
        return None


def write_table(path: Path, table: Table) -> None:
    """Write it whole, the same bytes for the same times (zip entries carry no time of day)."""
    import numpy as np

    stream = io.BytesIO()
    asked = {_MADE_FOR + name: np.array(text) for name, text in table.made_for.items()}
    asked |= {_LAWS + name: np.array(" ".join(names)) for name, names in table.laws.items()}
    np.savez_compressed(stream, **asked, **table.times)  # type: ignore[arg-type]
    write_atomic(path, stream.getvalue())
