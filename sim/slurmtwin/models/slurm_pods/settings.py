"""What Slurm's daemons in containers take and weigh. Times are draws in nanoseconds, sizes bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from slurmtwin.contract.clock import MS, SECOND, US
from slurmtwin.contract.cluster_faults import GROWTH_STEP
from slurmtwin.contract.quantity import KIB, MIB

Draw = Callable[[], int]

RESOLVER_NS: Final = 5 * SECOND
"""A resolver without an answer asks again after so long (resolv.conf timeout); slurmd's attempts follow one another, so
it finds its controller's name at the first query after an outage (recorded in x88: 0.8, 4.3 and 5.3 s)."""

STEPD_ADJ_PRIVILEGED: Final = -999
"""slurmstepd's oom_score_adj since 25.11, where it may lower it (slurm.md 7); -1000 before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How a job outgrows its limit (e2e/slurm_images/files/job): its script starts Python, which grows by a step and
    sleeps, again and again. One draw of each for all steps of a run.
    """

    step: int = GROWTH_STEP
    pause_ns: int = 20 * MS
    start: Draw = lambda: 14 * MS
    """CPU time of Python's start."""
    work: Draw = lambda: 3 * MS
    """CPU time of a step: the kernel clears its pages."""
    exit: Draw = lambda: MS // 2
    """CPU time for each step as the process ends: the kernel takes its pages back."""
    wake: Draw = lambda: MS
    """The way back to the CPU after a sleep."""
    tells_on_cpu: float = 0.6
    """The part of slurmstepd's word of an end that is CPU time."""
    phase: Draw = lambda: 0
    """Until the next period of the container's CPU quota."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonPods:
    """Settings of all Slurm pods of one cluster.

    Sizes are what the container's cgroup counts (docs/surprises.md X63, `python -m slurmtwin_e2e.kind.full_volume`):
    a worker with a job needs 7.4 to 7.6 MiB, and slurmd alone 4.6 to 4.8. They decide who is killed, and who finds room
    to start again, only where a limit is of their own order.
    """

    slurmctld_begin: Draw = lambda: 0
    """Container runs -> slurmctld is executed (its entry script)."""
    standby_begin: Draw = lambda: 0
    """The same of a backup's."""
    slurmd_begin: Draw = lambda: 60 * MS
    """The same of slurmd."""
    slurmd_back: Draw = lambda: 60 * MS
    """The same where its container comes back in its pod."""
    stop: Draw = lambda: 250 * MS
    """A daemon has logged its end -> its process is gone."""
    config_retry_ns: int = 10 * SECOND
    """slurmd -Z without an answer asks again after so long (slurmd.c _establish_configuration())."""
    configless_try: Draw = lambda: 0
    """A try to reach a controller whose name is not there yet, beyond its second: several lookups."""
    slurmd_since: Callable[[int], int | None] = lambda _index: None
    """When the container of this slurmd ran for the first time, where a recording tells; None: not known."""
    named: Callable[[], bool] = lambda: True
    """The controller's name is known: its Service is there."""
    reached: Callable[[], bool] = lambda: True
    """The controller's pod is reached by its name."""
    resolver_ns: int = RESOLVER_NS
    resolver_phase: Draw = lambda: RESOLVER_NS
    """Where slurmd's lookups stand when it begins them: it asks for several names, one after the other."""
    resolves: Callable[[], bool] = lambda: True
    """Names of the cluster are found."""
    supervisor_begin: Draw = lambda: 130 * MS
    """supervisord's own start, a Python program, before its first round."""
    supervisor_round_ns: int = SECOND
    """What it waits for that round."""
    supervisor_look: Draw = lambda: SECOND
    """supervisord: a process has ended -> it is started again, one round of 1 s later or two (supervisor.py)."""
    slurmctld_again: Draw = lambda: 50 * MS
    """supervisord begins to start slurmctld again -> it serves: its entry script does not run again."""
    slurmd_again: Draw = lambda: 30 * MS
    """The same of slurmd."""
    supervisor_hears: Draw = lambda: 0
    """SIGTERM to supervisord until it tells its program: it waits in poll(), which Python takes up again after a signal
    (PEP 475), up to 1 s."""
    supervisor_ends: Callable[[str], int] = lambda _role: 0
    """Its program, of that role, has ended until supervisord does: at once, or a round later where it looked before the
    exit. One whose program was down before does not wait."""
    supervisor_start_ns: int = SECOND
    """startsecs: a process that ends sooner counts as a failed start."""
    supervisor_retries: int = 3
    """startretries: then it stays down (FATAL). The n-th retry waits n s."""
    slurmd_memory: int = 4_813 * KIB
    slurmctld_memory: int = 12 * MIB
    livez: bool = True
    """slurmctld and slurmd serve /livez, as 26.05 does. Before it, a probe only opens a TCP connection, and the kernel
    accepts that for a process that stands still, too (recorded in x2 on 22.05)."""
    supervisor_memory: int = 22 * MIB
    stepd_memory: int = 1_741 * KIB
    script_memory: int = 1_126 * KIB
    grower_memory: int = 9 * MIB // 2
    """The Python process that outgrows a pod, before it does."""
    filler_memory: int = 358 * KIB
    """The shell and its `head` that fill a volume, which are gone when the job runs again."""
    machine_memory: int = 0
    """What a job without a limit can take of its machine; 0: it grows no further than it may."""
    privileged: bool = False
    """Containers may lower oom_score_adj (CAP_SYS_RESOURCE): slurmstepd is then as good as unkillable."""
    growth: Growth = field(default_factory=Growth)
    fill: Draw = lambda: 960 * US
    """What a job takes to write a MiB into a memory-backed volume."""
    late_fill: Draw = lambda: 2 * MIB
    """Bytes that such a job still writes into what the first victim freed, before it is killed with its container.
    They decide whether the next slurmd, and then the job, finds room (recorded in x63-oom-slurmd).
    """
