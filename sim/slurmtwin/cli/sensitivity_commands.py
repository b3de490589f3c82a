"""`sensitivity`: what a study's conclusion hangs on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from slurmtwin.cli.output import command, emit_json, emit_rows, say
from slurmtwin.cli.study_commands import Teller
from slurmtwin.contract.errors import ExitCode

FILE = "sensitivity.json"
"""In the folder of a study's results: its page takes the tables from there."""


@click.command()
@click.argument("file")
@click.option("--out", required=True, help="Folder of the study's results; the samples' runs go to OUT/sensitivity.")
@click.option("--trajectories", type=click.IntRange(2), default=6, show_default=True, help="Morris' walks.")
@click.option("--samples", type=click.IntRange(8), default=80, show_default=True, help="Further samples.")
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True, help="Replications of each sample.")
@click.option("--design", default="", metavar="NAME", help="Only this design against the baseline.")
@click.option("--workers", type=click.IntRange(0), default=0, help="Processes here; 0: one per processor.")
@command("sensitivity")
def sensitivity(
    file: str, out: str, trajectories: int, samples: int, seeds: int, design: str, workers: int, as_json: bool
) -> ExitCode:
    """Vary the `uncertain` parameters of a study FILE: Morris' effects and Sobol's indices of each difference."""
    from slurmtwin.campaign.campaign import Split
    from slurmtwin.campaign.planning.plan_files import write_tables
    from slurmtwin.campaign.sensitivity import Sampling, run_sensitivity
    from slurmtwin.campaign.study_file import load_study
    from slurmtwin.cli.output import json_text
    from slurmtwin.contract.manifest import write_atomic

    loaded, folder = load_study(file), Path(out)
    sampling = Sampling(trajectories, samples, seeds, design)
    campaign, found = run_sensitivity(
        loaded, folder / "sensitivity", sampling, Split(workers=workers), Teller().tell
    )  # fmt: skip
    rows = [row for one in found for row in one.rows()]
    if rows:
        write_tables(folder / "tables", {"sensitivity": rows})
        write_atomic(folder / FILE, json_text("sensitivity", {"rows": rows}))
    for case, why in campaign.failed:
        say(f"failed: {case.design} {case.point} seed {case.seed}: {why}")
    if as_json:
        emit_json("sensitivity", {"runs": campaign.total, "ran": campaign.ran, "rows": rows})
    else:
        header = (
            "design",
            "metric",
            "parameter",
            "mu",
            "mu*",
            "sigma",
            "Sobol first",
            "Sobol total",
            "R2",
            "same sign",
        )
        emit_rows(header, [_texts(row) for row in rows])
    return ExitCode.FINDING if campaign.failed else ExitCode.FINE if rows else ExitCode.UNKNOWN


def _texts(row: dict[str, Any]) -> tuple[str, ...]:
    effects = f"{row['mu']:.3g}", f"{row['mu_star']:.3g} ± {row['mu_star_half']:.2g}", f"{row['sigma']:.3g}"
    shares = (
        *(("-" if row[k] is None else f"{row[k]:.2f}") for k in ("sobol_first", "sobol_total")),
        f"{row['surrogate_r2']:.2f}",
    )
    return row["design"], row["metric"], row["parameter"], *effects, *shares, f"{row['same_sign']:.0%}"
