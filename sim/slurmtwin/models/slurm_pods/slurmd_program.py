"""slurmd in a container: with it live and die the steps of its node (slurm.md 4.6, 7, 12 S1).

As main process its end is the container's: every slurmstepd and task dies with it. Under supervisord it comes back
beside them. A machine that stands still holds the tasks too; SIGSTOP to slurmd holds slurmd alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.kubelet.container_memory import Process
from slurmtwin.models.slurm_pods.daemon_program import DaemonProgram, ProcessModel
from slurmtwin.models.slurm_pods.job_memory import JobMemory
from slurmtwin.models.slurm_pods.settings import STEPD_ADJ_PRIVILEGED, DaemonPods

if TYPE_CHECKING:
    from slurmtwin.models.kubelet.program import Place
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurmd.batch_job import BatchJob

CONFIG_TRIES: Final = 10
"""One a second after the first: MessageTimeout's default."""


class SlurmdProgram(DaemonProgram):
    """slurmd of one Slurm node."""

    role = "slurmd"

    def __init__(
        self, cluster: SlurmCluster, index: int, settings: DaemonPods, process: ProcessModel,
        moved: Callable[[int, str], bool], gone: Callable[[SlurmdProgram], None],
    ) -> None:  # fmt: skip
        super().__init__(settings, process)
        self._cluster = cluster
        self._moved = moved
        self._gone_told = gone
        self.index = index
        self.bit = 1 << index
        self.jobs: dict[int, JobMemory] = {}
        """By Slurm job id: what runs here."""
        self._held: list[BatchJob] = []
        """Jobs that stand still with the machine."""
        self.new_address = False
        self._looking = False
        """Its last lookup of a name found nothing."""
        self._tried = 0
        """Tries of the present attempt to get its configuration, the first one left out."""
        self._found = True
        """The attempt has the controller's address."""
        self._began = False
        """Its container has run."""
        self.comes_back = False
        """Its pod has run slurmd before."""
        self.boots = False
        """It registers as freshly booted (slurmd -b): slurmctld believes a node that it powers up only then."""
        self.sees: Callable[[Place], int | None] = _nothing_known
        self.cpus_seen: int | None = None
        """The container's CPUs when slurmd started; None: not known."""

    def _memory(self) -> int:
        return self.settings.slurmd_memory

    def _begin_ns(self) -> int:
        place, since_ns = self.place, self.settings.slurmd_since(self.index)
        begin_ns = self.settings.slurmd_back() if self.comes_back else self.settings.slurmd_begin()
        if place is not None and since_ns is not None and not self._began:
            begin_ns += max(0, since_ns - place.clock.now_ns)
        self._began = True
        return begin_ns

    def _again_ns(self) -> int:
        return self.settings.slurmd_again()

    def start(self, place: Place) -> None:
        """The container runs: its address and its machine are what slurmctld will be told."""
        self.new_address = self._moved(self.index, place.ip)
        super().start(place)

    def _execute(self) -> None:
        """slurmd -Z: without a controller it asks for its configuration again and again.

        An attempt looks the name up once, at its begin, and then tries each second for MessageTimeout, 10 s where
        slurm.conf is still to come; with a name that is not there yet it waits them all the same
        (slurm_protocol_api.c _open_controller() of 26.05: controllers without an address are passed over).
        """
        place = self.place
        assert place is not None
        if not self.settings.resolves():
            wait_ns = self.settings.resolver_ns if self._looking else self.settings.resolver_phase()
            self._looking = True
            self._call = place.clock.call_in(wait_ns, self._ask_again)
            return
        self._looking = False
        if self._tried == 0:
            self._found = self.settings.named()
        if not self._found or self._cluster.ctld is None or not self.settings.reached():
            self._call = place.clock.call_in(self._pause_ns(), self._ask_again)
            return
        self.cpus_seen = self.sees(place)
        boot_s = (self._cluster.epoch_ns + place.clock.now_ns) // SECOND if self.boots else None
        self._cluster.slurmds.start(self.bit, boot_s, new_address=self.new_address)
        place.health_changed()

    def _pause_ns(self) -> int:
        """To the next try of the attempt, or to the next attempt."""
        if self._found and self._tried < CONFIG_TRIES:
            self._tried += 1
            return SECOND
        self._tried = 0
        if self._found:
            return self.settings.config_retry_ns
        tries_ns = sum(SECOND + self.settings.configless_try() for _ in range(CONFIG_TRIES))
        return self.settings.config_retry_ns + tries_ns

    def _ask_again(self, _argument: object) -> None:
        self._call = None
        self._execute()

    def _end_daemon(self, clean: bool) -> None:
        self._tried = 0
        self._cluster.slurmds.stop(self.bit, crashed=not clean)

    def _stand_still(self, still: bool) -> None:
        if still:
            self._cluster.slurmds.freeze(self.bit)
        else:
            self._cluster.slurmds.thaw(self.bit)

    def _everything_dies(self) -> None:
        for job in list(self.jobs.values()):
            job.stop()
        self.jobs.clear()
        self._held.clear()
        self._cluster.slurmds.kill_group(self.bit)
        self._gone_told(self)

    def _serves(self) -> bool:
        slurmds = self._cluster.slurmds
        return not slurmds.dead & self.bit

    # the machine

    def freeze(self) -> None:
        """The machine is paused: slurmd, its slurmstepds and every task."""
        for job in self.jobs.values():
            if not job.work.stopped:
                job.work.stop()
                self._held.append(job.work)
        super().freeze()

    def thaw(self) -> None:
        """The machine goes on."""
        held, self._held = self._held, []
        for work in held:
            work.go_on()
        super().thaw()

    # jobs

    def job_began(self, work: BatchJob) -> None:
        """slurmd has a batch job: its slurmstepd and its script take memory here."""
        place = self.place
        if place is None:
            return
        settings = self.settings
        adj = STEPD_ADJ_PRIVILEGED if settings.privileged else place.cgroup.score_adj
        stepd = Process(f"slurmstepd {work.slurm_id}", settings.stepd_memory, adj)
        script = Process(f"job {work.slurm_id}", settings.script_memory, 0)
        place.cgroup.processes += [stepd, script]
        self.jobs[work.slurm_id] = JobMemory(work, stepd, script, place, settings)
        place.memory_changed()

    def job_over(self, work: BatchJob) -> None:
        """Its processes are gone."""
        job = self.jobs.get(work.slurm_id)
        if job is not None and job.work is work:
            job.leave()
            del self.jobs[work.slurm_id]

    def process_killed(self, process: Process) -> None:
        """The kernel chose slurmd (under supervisord), a slurmstepd, or a job's process."""
        super().process_killed(process)
        for job in list(self.jobs.values()):
            if process is job.script or process is job.child:
                job.process_killed(process)
                return


def _nothing_known(_place: Place) -> int | None:
    return None
