"""assoc_limit_stop in a whole run: whom a job over a limit holds back, and whom it does not."""

from __future__ import annotations

from pathlib import Path

from slurmtwin.contract.scenario import load_scenario
from slurmtwin.worlds.twin import TwinOptions, run_scenario

PROBE = Path(__file__).parents[3] / "scenarios" / "probes" / "limit-stop.yaml"


def test_a_job_over_a_limit_from_its_submit_on_closes_no_partition() -> None:
    """The submit RPC asks the limits: job 2 is left out by its reason and job 3 starts in the same pass.

    slurm.md 1.2 "What does not close a partition".
    """
    run = run_scenario(load_scenario(PROBE), PROBE.parent, TwinOptions(seed=1, keep=True))
    rows = {e.job_id: e for e in run.events.itertuples() if e.kind == "job.started"}
    assert rows[3].t_ns < rows[2].t_ns
    assert rows[3].t_ns < 7 * 10**9


def test_an_association_limit_moves_nobody_behind_it_in_backfill() -> None:
    """Job 5 waits for its association's CPUs; job 6, of another account, is backfilled meanwhile."""
    run = run_scenario(load_scenario(PROBE), PROBE.parent, TwinOptions(seed=1, keep=True))
    rows = {e.job_id: e for e in run.events.itertuples() if e.kind == "job.started"}
    assert rows[6].actor == "backfill" or '"by":"backfill"' in rows[6].detail
    assert rows[6].t_ns < rows[5].t_ns
