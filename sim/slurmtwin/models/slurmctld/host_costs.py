"""What the host charges: durations that Slurm's rules do not fix, calibrated on quiet real runs.

In simulated nanoseconds. At acceleration k the host's own work costs k times as much simulated time
(DESIGN 5): `scaled` does that, and only for costs of the host, never for Slurm's timers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCosts:
    """Medians of one Slurm version on one host; calibrated data lives in worlds/host_costs.yaml."""

    submit_rpc_ns: int = 0
    """sbatch sends -> slurmctld has the record."""
    launch_ns: int = 0
    """slurmctld starts the job -> the batch script runs."""
    launch_each_ns: int = 0
    """Where one machine runs all slurmds: how much longer each of several launches takes for each of the others."""
    exit_notice_ns: int = 0
    """The script ends -> slurmctld has its completion message."""
    epilog_ns: int = 0
    """slurmctld sends TERMINATE to one node -> it knows that the job is over there."""
    epilog_each_ns: int = 0
    """What every further node adds to that."""
    epilog_by_message: bool = False
    """The batch host's slurmd finds the slurmstepd of an ended script still there: it answers TERMINATE later, by
    MESSAGE_EPILOG_COMPLETE, which starts a scheduling pass at once (slurm.md 1.1). False: "already complete"."""
    kill_ns: int = 0
    """What a live script adds to epilog_ns: signals, the end of the processes, slurmd's wait for them."""
    node_down_ns: int = 0
    """Jobs of a silent node are requeued -> the log has it DOWN, behind all nodes of that look (ping_nodes.c)."""
    rpc_ns: int = 0
    """Any other small RPC, one way."""
    main_pass_ns: int = 0
    """Fixed cost of one main scheduling pass."""
    main_test_ns: int = 0
    """One job tested in the main pass."""
    backfill_cycle_ns: int = 0
    backfill_test_ns: int = 0
    """One job tested in backfill."""
    backfill_waiting_ns: int = 0
    """What each waiting job (bf_max_job_test at most) adds to a cycle. This and the next are charged behind the cycle,
    which moves all later ones: bf_interval is a sleep."""
    backfill_start_ns: int = 0
    """What each job that it starts adds."""
    loop_lag_ns: int = 0
    """What a round of 22.05's background loop takes beyond its second of sleep; since 24.11: how late after a whole
    second the loop looks."""
    slurmctld_start_ns: int = 0
    """exec -> serving."""
    decay_start_ns: int = 0
    """Serving -> the priority calculation thread runs for the first time."""
    slurmd_start_ns: int = 0
    """exec -> first registration sent."""
    prolog_ns: int = 0
    epilog_script_ns: int = 0

    def scaled(self, factor: float) -> HostCosts:
        """The same host as seen from a clock that runs `factor` times as fast."""
        names = [f.name for f in fields(self) if f.name.endswith("_ns")]
        return replace(self, **{name: round(getattr(self, name) * factor) for name in names})

    def on_many_machines(self) -> HostCosts:
        """The same where each node is a machine of its own: they do not wait for each other."""
        return replace(self, launch_each_ns=0, epilog_each_ns=0)


@dataclass(frozen=True, slots=True)
class HostNoise:
    """Draws in place of the medians that differ from job to job."""

    launch_ns: Callable[[], int]
    exit_notice_ns: Callable[[], int]
    lingers: Callable[[], bool] | None = None
    """A run that shared its node has ended, and TERMINATE still finds its slurmstepd; None: never."""
    among_ns: Callable[[], int] | None = None
    """Launches that begin together take so many times their number on the mean; None: as one alone."""
    waits_ns: Callable[[], int] | None = None
    """A script that has begun goes on so much later; None: at once."""
    script_ns: dict[int, int] = field(default_factory=dict)
    """Job -> when its next script begins, where a recording tells; each is taken once."""
