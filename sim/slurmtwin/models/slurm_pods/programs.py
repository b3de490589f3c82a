"""Which program runs in which container of a Slurm cluster in pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, cast

from slurmtwin.contract.errors import InputError
from slurmtwin.models.kubelet.program import Program, Service
from slurmtwin.models.slurm_pods.cpu_binding import TaskPlugin, task_cpus
from slurmtwin.models.slurm_pods.slurmctld_program import SlurmctldProgram
from slurmtwin.models.slurm_pods.slurmd_program import SlurmdProgram
from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
from slurmtwin.models.slurmctld.states import JobState
from slurmtwin.models.slurmd.batch_job import SIGKILL, BatchJob

if TYPE_CHECKING:
    from slurmtwin.models.api_server.objects import Container, Pod
    from slurmtwin.models.controller import Controller
    from slurmtwin.models.kubelet.program import Place
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurm_pods.cpu_binding import CpuBook
    from slurmtwin.models.slurm_pods.settings import DaemonPods
    from slurmtwin.models.slurmd.parts import Work

LAUNCH_FAILED: Final = "batch job complete failure"


class SlurmPrograms:
    """Makes the programs of one cluster's pods and knows those that run.

    A container named slurmctld or slurmd is that daemon; its env `process` says main or supervised. A slurmd's Slurm
    node has its pod's name; a slurmctld's host is its pod's name, or the only one.
    """

    def __init__(
        self, cluster: SlurmCluster, settings: DaemonPods,
        other: Callable[[Pod, Container], Program] = lambda pod, container: Service(),  # noqa: ARG005
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self._settings = settings
        self._other = other
        self.slurmds: dict[int, SlurmdProgram] = {}
        """Node index -> the slurmd whose container runs."""
        self._pods: dict[int, str] = {}
        """Node index -> the pod that ran slurmd last, by its uid."""
        self.slurmctlds: dict[int, SlurmctldProgram] = {}
        """Controller index -> the same."""
        self._addresses: dict[int, str] = {}
        self.book: CpuBook | None = None
        """Keeps account of CPUs that jobs hold, where the world knows the containers' CPU sets."""
        self.plugin: TaskPlugin = "task/none"
        """TaskPlugin of slurm.conf, as far as it binds tasks to CPUs."""
        cluster.on_serving.append(self._serving_changed)
        cluster.slurmds.on_take = self._job_began
        cluster.slurmds.on_drop = self._job_over

    def __call__(self, pod: Pod, container: Container) -> Program:
        """The program of a container that starts now."""
        process = cast('Literal["main", "supervised"]', container.env.get("process", "main"))
        if container.name == "slurmd":
            index = self._node(pod)
            slurmd = SlurmdProgram(self._cluster, index, self._settings, process, self._moved, self._slurmd_gone)
            slurmd.sees, slurmd.boots = self._sees, container.env.get("boot") == "1"
            slurmd.comes_back = self._pods.get(index) == pod.meta.uid
            self._pods[index] = pod.meta.uid
            self.slurmds[index] = slurmd
            return slurmd
        if container.name == "slurmctld":
            controller = self._controller(pod)
            slurmctld = SlurmctldProgram(controller, self._settings, process)
            self.slurmctlds[controller.index] = slurmctld
            return slurmctld
        return self._other(pod, container)

    def _node(self, pod: Pod) -> int:
        for index, conf in enumerate(self._cluster.node_confs):
            if conf.name == pod.meta.name:
                return index
        raise InputError(f"pod {pod.meta.name} runs slurmd, but no Slurm node has its name")

    def _controller(self, pod: Pod) -> Controller:
        controllers = self._cluster.controllers
        named = [c for c in controllers if c.name in (pod.meta.name, pod.spec.hostname)]
        return (named or controllers)[0]

    def _sees(self, place: Place) -> int | None:
        """The CPUs that slurmd finds at its start."""
        return (
            None if self.book is None else self.book.cpuset(place.node, f"{place.pod.meta.uid}/{place.container.name}")
        )

    def _moved(self, index: int, ip: str) -> bool:
        """Has that Slurm node another address than the last time, wherever its pod ran?"""
        before = self._addresses.get(index, ip)
        self._addresses[index] = ip
        return before != ip

    def _slurmd_gone(self, program: SlurmdProgram) -> None:
        if self.slurmds.get(program.index) is program:
            del self.slurmds[program.index]

    def _serving_changed(self) -> None:
        for program in list(self.slurmctlds.values()):
            program.serving_changed()

    # jobs

    def _job_began(self, work: Work) -> None:
        program = self._batch_host(work)
        if program is None:
            return
        program.job_began(work)  # type: ignore[arg-type]
        if self.book is not None and program.place is not None:
            place = program.place
            container = f"{place.pod.meta.uid}/{place.container.name}"
            self.book.begin(work.slurm_id, place.node, container, self._cpus(work))
            seen, now = program.cpus_seen, self.book.cpuset(place.node, container)
            if seen is not None and task_cpus(self.plugin, self._places(work), seen, now) is None:
                place.clock.call_in(0, self._cannot_bind, work)

    def _cannot_bind(self, work: BatchJob) -> None:
        """No CPU of the job's is in its container any more: the launch fails, slurmctld drains the node and takes the
        job back (proc_req.c _slurm_rpc_complete_batch_script()).
        """
        ctld = self._cluster.ctld
        job = ctld.running.get(work.slurm_id) if ctld is not None else None
        if ctld is None or job is None or job.work is not work:
            return
        node = ctld.nodes.nodes[work.host_bit.bit_length() - 1]
        work.kill(SIGKILL)
        ctld.nodes_lifecycle.drain(node, LAUNCH_FAILED)
        lifecycle = ctld.lifecycle
        assert isinstance(lifecycle, Lifecycle)
        lifecycle.requeues.requeue(job, f"launch failed on {node.name}", JobState.FAILED)

    def _places(self, work: Work) -> int:
        """Positions of the job's CPUs among those of its batch host: its cores, one CPU each (all, where none are)."""
        ctld = self._cluster.ctld
        job = ctld.running.get(work.slurm_id) if ctld is not None else None
        whole = (1 << self._cluster.node_confs[work.host_bit.bit_length() - 1].cpus) - 1
        if job is None or job.alloc is None or job.alloc.cores is None:
            return whole
        return job.alloc.cores[(job.alloc.nodes & work.host_bit - 1).bit_count()]

    def _job_over(self, work: Work) -> None:
        program = self._batch_host(work)
        if program is not None:
            program.job_over(work)  # type: ignore[arg-type]
        if self.book is not None:
            self.book.end(work.slurm_id)

    def _cpus(self, work: Work) -> int:
        """CPUs that Slurm gave the job on its batch host."""
        ctld = self._cluster.ctld
        job = ctld.running.get(work.slurm_id) if ctld is not None else None
        if job is None or job.alloc is None:
            return 0
        if job.alloc.cpus is None:
            return self._cluster.node_confs[work.host_bit.bit_length() - 1].cpus
        return job.alloc.cpus[(job.alloc.nodes & work.host_bit - 1).bit_count()]

    def _batch_host(self, work: Work) -> SlurmdProgram | None:
        return self.slurmds.get(work.host_bit.bit_length() - 1)

    def hog(self, slurm_id: int, size: int = 0) -> None:
        """A process of that job outgrows its container, or takes so many bytes and ends."""
        for program in self.slurmds.values():
            if slurm_id in program.jobs:
                program.jobs[slurm_id].hog(size)

    def fill(self, slurm_id: int, size: int) -> None:
        """That job fills the memory-backed volume of its pod."""
        for program in self.slurmds.values():
            if slurm_id in program.jobs:
                program.jobs[slurm_id].fill(size)
