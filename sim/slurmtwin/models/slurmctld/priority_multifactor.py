"""priority/multifactor: the weighted sum and its periodic recalculation (plugins/priority/multifactor).

slurm.md 3.1. Between two calculations priorities are frozen, age included. The calculation runs in its own
thread, first when slurmctld starts and then every PriorityCalcPeriod, and only with slurmdbd: without it age
and fair share weigh nothing and nothing is ever recalculated. Here the thread is armed only while a job waits
or while charged usage matters; what it would have done meanwhile is done late, period by period.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld.association_tree import Association, AssociationTree, Qos
from slurmtwin.models.slurmctld.fairshare import CHARGED, ClassicFairShare, UsageLedger, fair_tree, next_reset_s
from slurmtwin.models.slurmctld.tables import Job, Partition
from slurmtwin.models.slurmctld.tres import TresTable

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Call
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

MOST: Final = 0xFFFF_FFFF


class PriorityMultifactor:
    """parts.PriorityPlugin."""

    def __init__(self, slurmctld: Slurmctld, tree: AssociationTree | None, tres: TresTable) -> None:
        """tree: None without slurmdbd."""
        self._ctl = slurmctld
        self.tree = tree
        self._tres = tres
        conf = slurmctld.conf
        options = conf.priority
        flags = {f.upper() for f in options.flags}
        self._old = conf.version == "22.05"
        self._weight_age = float(options.weight_age) if tree is not None else 0.0
        self._weight_fs = float(options.weight_fairshare) if tree is not None else 0.0
        self._weight_assoc = float(options.weight_assoc)
        self._weight_js = float(options.weight_job_size)
        self._weight_part = float(options.weight_partition)
        self._weight_qos = float(options.weight_qos)
        self._weight_tres = tres.weights(options.weight_tres)
        self._max_age_s = options.max_age_ns // SECOND
        self._favor_small = options.favor_small
        self._flags = flags
        self._accrue_always = "ACCRUE_ALWAYS" in flags
        self._incr_only = "INCR_ONLY" in flags
        self._period_ns = options.calc_period_ns
        self._reset_period = options.usage_reset_period.upper()
        self._cluster_cpus = sum(n.cpus for n in conf.nodes)
        top = max((p.priority_job_factor for p in conf.partitions), default=1)
        self._part_norm = {p.name: p.priority_job_factor / max(top, 1) for p in conf.partitions}
        self._totals: dict[str, list[int]] = {}
        enforced = "limits" in conf.controller.accounting_enforce or "safe" in conf.controller.accounting_enforce
        self.ledger = UsageLedger(tree, options, enforced) if tree is not None else None
        self._classic = (
            ClassicFairShare(tree, options, conf.version) if tree is not None and "NO_FAIR_TREE" in flags else None
        )
        self._enforced = enforced
        self._keeps_usage = tree is not None and (self._weight_fs > 0 or (enforced and tree.usage_bound()))
        self._changes = bool(self._weight_age or self._weight_fs)
        """A waiting job's priority may differ from one calculation to the next."""
        self._weightless = not (
            self._changes or self._weight_assoc or self._weight_js or self._weight_part or self._weight_qos
            or self._weight_tres
        )  # fmt: skip
        self._started = False
        self._first_ns = 0
        self._done = -1
        """Index of the last calculation that was carried out; -1: none."""
        self._running: dict[int, Job] = {}
        """Jobs whose run is being charged, in start order."""
        self._next_reset_s = 0
        self.last_reset_s = 0
        self._call: Call | None = None

    @property
    def is_constant(self) -> bool:
        """Nothing weighs anything: jobs differ by their nice values alone, for ever."""
        return self._weightless

    # the calculation thread

    def start(self) -> None:
        """slurmctld begins to serve: the thread starts at once, in 22.05 a moment later."""
        delay_ns = self._ctl.costs.decay_start_ns
        if self.tree is not None and delay_ns:
            self._ctl.env.call_in(delay_ns, self._start_thread)
        elif self.tree is not None:
            self._start_thread(None)

    def _start_thread(self, _argument: object) -> None:
        """The first calculation is now, the others follow at the same phase."""
        if self.ledger is not None and self.ledger.last_ran_s:
            self._recover_run_secs(self.ledger.last_ran_s)
        if self._call is not None:
            self._call.cancel()
            self._call = None
        self._started = True
        self._first_ns = self._ctl.env.now_ns
        self._done = -1
        self.last_reset_s = self.last_reset_s or self._ctl.now_s()
        if self._keeps_usage:
            for job in self._ctl.running.values():
                self._running.setdefault(job.slurm_id, job)
        self._calculate(0)
        self._arm()

    def _recover_run_secs(self, last_ran_s: int) -> None:
        """_init_grp_used_tres_run_secs(): jobs were counted with their whole limits; what they ran is taken off."""
        assert self.ledger is not None
        if not (self._enforced and self._keeps_usage):
            return
        for job in self._ctl.running.values():
            if job.start_s <= last_ran_s and isinstance(job.assoc, Association) and job.alloc is not None:
                counts = self._tres.allocated(job)
                self.ledger.take_off(job, self._qos(job.qos), self._part_qos(job.part), counts, last_ran_s)

    def _period_at(self, ns: int) -> int:
        """Index of the last calculation due at or before that time."""
        return (ns - self._first_ns) // self._period_ns

    def _time_s(self, index: int) -> int:
        return (self._ctl.epoch_ns + self._first_ns + index * self._period_ns) // SECOND

    def _arm(self) -> None:
        """Have the next calculation run on time if a waiting job can see it."""
        if not self._started or (self._call is not None and self._call.pending):
            return
        index = max(self._done, self._period_at(self._ctl.env.now_ns)) + 1
        self._call = self._ctl.env.call_at(self._first_ns + index * self._period_ns, self._wake, index)

    def _wake(self, index: int) -> None:
        waiting = [j for j in self._ctl.jobs.values() if j.pending]
        if not waiting:
            return  # set_priority() arms again; what is missed is made up then
        self._catch_up(index - 1)
        self._calculate(index, waiting)
        self._arm()

    def recovered(self, job: Job) -> None:
        """A record was loaded at start: its priority stays until the next calculation."""

    def catch_up(self) -> None:
        """Carry out the calculations that were due before now and that nobody waited for."""
        if self._keeps_usage and self._started:
            self._catch_up(self._period_at(self._ctl.env.now_ns - 1))

    def _catch_up(self, last: int) -> None:
        if self._keeps_usage:
            while self._done < last:
                self._calculate(self._done + 1)
        self._done = max(self._done, last)

    def _calculate(self, index: int, waiting: list[Job] | None = None) -> None:
        """One turn of _decay_thread()."""
        self._done = index
        now_s = self._time_s(index)
        ledger, tree = self.ledger, self.tree
        assert ledger is not None
        assert tree is not None
        self._reset_usage(now_s)
        if self._classic is not None:
            self._calculate_classic(ledger, self._classic, now_s, waiting)
        else:
            if self._keeps_usage:
                if 0 < ledger.last_ran_s < now_s:
                    ledger.decay(now_s)
                for job in self._running.values():
                    self._charge(job, now_s, ended=False)
                fair_tree(tree)
            self._weigh(waiting, now_s)
        ledger.last_ran_s = now_s
        if waiting is not None:
            self._after(sum(1 for j in waiting if j.priority > 0))

    def _calculate_classic(
        self, ledger: UsageLedger, classic: ClassicFairShare, now_s: int, waiting: list[Job] | None
    ) -> None:
        if not self._keeps_usage:
            if ledger.last_ran_s:
                self._weigh(waiting, now_s)
            return
        classic.begin()
        if 0 < ledger.last_ran_s < now_s:
            ledger.decay(now_s)
            # one walk over the job list: running jobs are charged, waiting ones weighed, in list order
            todo = dict(self._running)
            todo.update((j.slurm_id, j) for j in waiting or ())
            for slurm_id in sorted(todo):
                job = todo[slurm_id]
                if slurm_id in self._running:
                    self._charge(job, now_s, ended=False)
                else:
                    self._weigh([job], now_s)
        if not self._old:
            for job in self._ctl.jobs.values():
                if isinstance(job.assoc, Association):
                    classic.store(job.assoc)

    def _weigh(self, waiting: list[Job] | None, now_s: int) -> None:
        if waiting is None or not self._changes:
            return
        for job in waiting:
            if job.priority > 0 and not job.configuring and not job.direct_prio:
                new = self._compute(job, now_s)
                if not self._incr_only or job.priority < new:
                    job.priority = new

    def _after(self, count: int) -> None:
        """The real thread stamps last_job_update whenever a job waits, so that backfill looks again."""
        if not count:
            return
        ctl = self._ctl
        ctl.last_job_update_s = ctl.now_s()
        if self._changes:
            ctl.emit(Kind.SCHED_PRIORITY_PASS, value=count, unit="job")
            ctl.schedulers.reorder()

    def _reset_usage(self, now_s: int) -> None:
        period = self._reset_period
        ledger = self.ledger
        assert ledger is not None
        if period in ("", "NONE"):
            return
        if period == "NOW":
            ledger.reset()
            self._reset_period = "NONE"
            return
        if not self._next_reset_s:
            self._next_reset_s = next_reset_s(period, self.last_reset_s, now_s)
        if now_s >= self._next_reset_s:
            ledger.reset()
            self.last_reset_s = self._next_reset_s
            self._next_reset_s = next_reset_s(period, self.last_reset_s, now_s)

    # usage of runs

    def job_started(self, job: Job) -> None:
        """From now on the job is charged at each calculation."""
        if self._keeps_usage:
            self.catch_up()
            job.usage_mark_s = job.start_s
            self._running[job.slurm_id] = job

    def job_ended(self, job: Job) -> None:
        """priority_p_job_end(): the rest of the run; the real one is only called where limits are enforced."""
        if self._running.pop(job.slurm_id, None) is None:
            return
        self.catch_up_with(job)
        if self._enforced:
            self._charge(job, self._ctl.now_s(), ended=True)

    def catch_up_with(self, job: Job) -> None:
        """catch_up() as it would have been while the job still ran."""
        self._running[job.slurm_id] = job
        self.catch_up()
        del self._running[job.slurm_id]

    def _charge(self, job: Job, now_s: int, *, ended: bool) -> None:
        if job.usage_mark_s == CHARGED or not isinstance(job.assoc, Association) or job.alloc is None:
            return
        if not ended and job.configuring:
            return
        assert self.ledger is not None
        counts = self._tres.allocated(job)
        bill = self._tres.billing(counts, job.part)
        self.ledger.charge(job, self._qos(job.qos), self._part_qos(job.part), counts, bill, now_s, ended)

    def _qos(self, name: str) -> Qos | None:
        return self.tree.qos.get(name) if self.tree is not None and name else None

    def _part_qos(self, part: Partition | None) -> Qos | None:
        return self._qos(part.conf.qos) if part is not None else None

    # the weighted sum

    def set_priority(self, job: Job) -> None:
        """priority_p_set() at submit, requeue, release and update; also orders job.parts by tier, high first."""
        if len(job.parts) > 1:
            job.parts.sort(key=lambda p: -p.conf.priority_tier)
        if job.held:
            job.priority = 0
            return
        if job.direct_prio and job.priority > 0:
            return
        if self._weightless:
            job.priority = max(1, -job.nice)
            job.prio_by_part = [job.priority] * len(job.parts) if len(job.parts) > 1 else None
        else:
            self.catch_up()
            job.priority = self._compute(job, self._ctl.now_s())
        if self._call is None or not self._call.pending:
            self._arm()

    def _compute(self, job: Job, now_s: int) -> int:
        """_get_priority_internal(): Slurm's own order of the double additions."""
        part = job.part or (job.parts[0] if job.parts else None)
        age = self._age(job, now_s) * self._weight_age if self._weight_age else 0.0
        assoc = self._assoc(job) * self._weight_assoc if self._weight_assoc else 0.0
        share = self._fair_share(job) * self._weight_fs if self._weight_fs else 0.0
        size = self._job_size(job, part) * self._weight_js if self._weight_js else 0.0
        tier = self._partition(part) * self._weight_part if self._weight_part else 0.0
        qos = self._qos_factor(job) * self._weight_qos if self._weight_qos else 0.0
        tres = self._tres_sum(job, part)
        if len(job.parts) > 1:
            job.prio_by_part = [
                _whole(
                    (self._partition(p) * self._weight_part if self._weight_part else 0.0)
                    + (age + assoc + share + size + qos + self._tres_sum(job, p) + 0.0 - job.nice)
                )
                for p in job.parts
            ]
        return _whole(age + assoc + share + size + tier + qos + tres + 0.0 - job.nice)

    def factors(self, job: Job, now_s: int) -> dict[str, float]:
        """The unweighted factors, as `sprio -n` shows them."""
        part = job.part or (job.parts[0] if job.parts else None)
        return {
            "age": self._age(job, now_s),
            "assoc": self._assoc(job),
            "fairshare": self._fair_share(job) if self.tree is not None else 0.0,
            "job_size": self._job_size(job, part),
            "partition": self._partition(part),
            "qos": self._qos_factor(job),
        }

    def _age(self, job: Job, now_s: int) -> float:
        """min(1, (now - accrue time) / PriorityMaxAge); it accrues from when the job became eligible."""
        since_s = job.submit_s if self._accrue_always else job.accrue_s or job.eligible_s
        if not since_s:
            return 0.0
        age_s = max(0, now_s - since_s)
        return age_s / self._max_age_s if age_s < self._max_age_s else 1.0

    def _assoc(self, job: Job) -> float:
        if not isinstance(job.assoc, Association):
            return 0.0
        return float(job.assoc.conf.priority) if "NO_NORMAL_ASSOC" in self._flags else job.assoc.priority_norm

    def _fair_share(self, job: Job) -> float:
        if not isinstance(job.assoc, Association):
            return 0.0
        return job.assoc.fs_factor if self._classic is None else self._classic.factor(job.assoc)

    def _qos_factor(self, job: Job) -> float:
        qos = self._qos(job.qos)
        if qos is None:
            return 0.0
        return float(qos.conf.priority) if "NO_NORMAL_QOS" in self._flags else qos.norm_priority

    def _partition(self, part: Partition | None) -> float:
        if part is None:
            return 0.0
        return float(part.conf.priority_job_factor) if "NO_NORMAL_PART" in self._flags else self._part_norm[part.name]

    def _job_size(self, job: Job, part: Partition | None) -> float:
        """Share of nodes and CPUs, or the size over the time limit with SMALL_RELATIVE_TO_TIME."""
        cpus, nodes, all_cpus, all_nodes = job.cpus_min, job.nodes_min, self._cluster_cpus, len(self._ctl.nodes)
        if not all_cpus or not all_nodes:
            return 0.0
        if "SMALL_RELATIVE_TO_TIME" in self._flags:
            size = max(nodes * float(all_cpus) / all_nodes, float(cpus))
            size = size / self._limit_minutes(job, part) / all_cpus
            if self._favor_small:
                size = 1.0 - size
        elif self._favor_small:
            size = ((all_nodes - nodes) / all_nodes + (all_cpus - cpus) / all_cpus) / 2
        else:
            size = (nodes / all_nodes + cpus / all_cpus) / 2
        return min(1.0, max(0.0, size))

    def _limit_minutes(self, job: Job, part: Partition | None) -> int:
        if job.limit_s is not None:
            return MOST if job.limit_s < 0 else max(1, job.limit_s // 60)
        if part is None:
            return 1
        return MOST if part.conf.max_time_ns < 0 else max(1, part.conf.max_time_ns // (60 * SECOND))

    def _tres_sum(self, job: Job, part: Partition | None) -> float:
        """Sum over TRES of weight * requested / what the partition has (or the bare amount)."""
        weights = self._weight_tres
        if weights is None:
            return 0.0
        counts = self._tres.requested(job, part)
        bare = "NO_NORMAL_TRES" in self._flags
        totals = None if bare else self._partition_totals(part)
        total = 0.0
        for i, weight in enumerate(weights):
            if bare:
                total += counts[i] * weight
            elif counts[i] and totals is not None and totals[i]:
                total += counts[i] / totals[i] * weight
        return total

    def _partition_totals(self, part: Partition | None) -> list[int] | None:
        if part is None:
            return None
        found = self._totals.get(part.name)
        if found is None:
            found = self._totals[part.name] = self._tres.partition_totals(part, self._ctl.nodes.nodes)
        return found


def _whole(priority: float) -> int:
    """At least 1 (0 means held), at most 2^32 - 1, fraction cut."""
    return min(MOST, int(max(priority, 1.0)))
