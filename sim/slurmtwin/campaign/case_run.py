"""One run of a study, in whatever process: the case in, its result out as a plain document.

A result holds nothing that differs between machines, workers or days: no time, no place, no wall clock.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slurmtwin.campaign.cases import RESULT_FORMAT, Case, run_options, scenario_of
from slurmtwin.campaign.study_file import LoadedStudy
from slurmtwin.worlds.twin import TwinOptions, run_scenario

Result = dict[str, Any]


def run_case(loaded: LoadedStudy, case: Case) -> Result:
    """Run a case; an error becomes a failed result, which names it."""
    try:
        return {**heading(case), "status": "done", **_measured(loaded, case)}
    except Exception as error:  # a run that fails must not take the campaign with it; it is kept and named
        return failed(case, f"{type(error).__name__}: {error}")


def heading(case: Case) -> Result:
    """What a result begins with: which run it is of."""
    return {
        "format": RESULT_FORMAT, "index": case.index, "key": case.key, "design": case.design,
        "levels": dict(case.levels), "seed": case.seed,
    }  # fmt: skip


def failed(case: Case, why: str) -> Result:
    """The result of a run that came to no end."""
    return {**heading(case), "status": "failed", "error": " ".join(why.split())[:500]}


def _measured(loaded: LoadedStudy, case: Case) -> Result:
    from slurmtwin.contract.jobs import to_dict
    from slurmtwin.workload.resolve import resolve_jobs
    from slurmtwin_reports.history import history_of
    from slurmtwin_reports.study_metrics import run_figures

    scenario = scenario_of(loaded, case)
    jobs = list(resolve_jobs(scenario, Path(loaded.folder), case.seed))
    asked = run_options(case)
    options = TwinOptions(seed=case.seed, tie_seed=asked.tie_seed, operator=asked.operator, keep=True)
    run = run_scenario(scenario, loaded.folder, options, iter(jobs))
    history = history_of(run.manifest, run.kept or [], {job.job_id: to_dict(job) for job in jobs})
    measured = run_figures(history, loaded.study.warm_up)
    return {"event_hash": run.event_hash, "events": run.event_count, "stop_reason": run.stop_reason, **measured}
