"""Replications that the repository keeps: a small table for each recorded fault scenario and Slurm version.

A table holds the times of milestones and nothing else, beside the hash of what they were asked for (scenario,
recordings, design, calibrated durations, seed, counts). The twin's own source is not part of the hash: a twin that
makes other rows is found out because each check makes one replication of every recording anew.
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
_MADE_FOR: Final = "made_for"


@dataclass(frozen=True, slots=True)
class Table:
    """Times [replication, phase, start or end] in ns by `variant|factor|recording`."""

    made_for: str
    times: Mapping[str, Times]


def read_table(path: Path | None) -> Table | None:
    """The table in a file; None where there is none that can be read."""
    import numpy as np

    if path is None or not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as found:
            times = {key: found[key] for key in found.files if key != _MADE_FOR}
            return Table(str(found[_MADE_FOR]), times)
    except (OSError, ValueError, KeyError, BadZipFile):
        return None


def write_table(path: Path, table: Table) -> None:
    """Write it whole, the same bytes for the same times (zip entries carry no time of day)."""
    import numpy as np

    stream = io.BytesIO()
    np.savez_compressed(stream, **{_MADE_FOR: np.array(table.made_for)}, **table.times)  # type: ignore[arg-type]
    write_atomic(path, stream.getvalue())
