"""Commands about the real thing: record, calibrate, doctor."""

from __future__ import annotations

from pathlib import Path

import click

from slurmtwin.cli.output import command, emit_json, emit_rows
from slurmtwin.contract.errors import ExitCode


@click.command()
@click.option("--recordings", default="scenarios/recordings", show_default=True, help="Folder of recorded runs.")
@command("calibrate")
def calibrate(recordings: str, as_json: bool) -> ExitCode:
    """Measure host costs in the recordings at acceleration 1, beside the values the twin uses."""
    from slurmtwin.campaign.calibration import measure
    from slurmtwin.contract.clock import MS
    from slurmtwin.worlds.calibration import load_host_costs

    folders = sorted(p.parent for p in Path(recordings).glob("*/*/k1/*/manifest.json"))
    costs = measure(folders)
    used = {c.version: load_host_costs(c.version)[0] for c in costs}
    rows = [{**c.to_dict(), "used_ms": getattr(used[c.version], f"{c.name}_ns") / MS} for c in costs]
    if as_json:
        emit_json("calibrate", {"costs": rows})
    else:
        header = ("version", "name", "median_ms", "low_ms", "high_ms", "error_ms", "count", "used_ms")
        emit_rows(header, [[_short(row[name]) for name in header] for row in rows])
    return ExitCode.FINE


def _short(value: object) -> object:
    return f"{value:.4g}" if isinstance(value, float) else value
