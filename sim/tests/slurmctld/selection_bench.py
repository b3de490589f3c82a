"""A bench for node selection: a configuration, jobs that start on it one after another, no schedulers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mini_cluster import EPOCH_S, OpenLimits, conf_of

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.engine.environment import Environment
from slurmtwin.engine.event_sink import EventSink
from slurmtwin.engine.random_streams import RandomStreams
from slurmtwin.models.slurmctld.host_costs import HostCosts
from slurmtwin.models.slurmctld.job_request import parse_gres, set_memory, set_sizes
from slurmtwin.models.slurmctld.parts import Placement, Refusal
from slurmtwin.models.slurmctld.selection.select_nodes import Selection
from slurmtwin.models.slurmctld.slurmctld import Slurmctld
from slurmtwin.models.slurmctld.states import JobState
from slurmtwin.models.slurmctld.tables import Job

CORES = "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n"


class Bench:
    """Nodes n0.. of the configuration; time stands at `now_s`."""

    def __init__(self, text: str, version: str = "26.05") -> None:
        conf = conf_of(text, version)
        self.ctld = ctld = Slurmctld(
            Environment(0), conf, EventSink("test", "twin"), HostCosts(), RandomStreams(1), EPOCH_S * SECOND
        )
        ctld.limits = OpenLimits()  # type: ignore[assignment]
        ctld.reservations = SimpleNamespace(usable_nodes=lambda job, avail, start_s, end_s: avail)  # type: ignore[assignment]
        self.everything = (1 << len(ctld.nodes)) - 1
        ctld.nodes.avail = ctld.nodes.idle = ctld.nodes.up = self.everything
        self.selection = ctld.selection = Selection(ctld)
        self.now_s = EPOCH_S
        self._next = 0

    def job(self, partition: str = "", **options: Any) -> Job:
        """A pending job with those sbatch options."""
        self._next += 1
        attributes = {name: options.pop(name) for name in ("qos_name", "priority", "limit_s") if name in options}
        job = Job(JobRequest(job_id=self._next, submit_ns=0, partition=partition, **options), self._next, self.now_s)
        part = self.ctld.partitions[partition] if partition else next(iter(self.ctld.partitions.values()))
        job.parts, job.part = [part], part
        set_sizes(job, job.request)
        set_memory(job, job.request, part.conf, self.ctld.conf)
        job.gres = parse_gres(job.request.gres)
        job.whole_node = job.request.exclusive == "node"
        job.limit_s = attributes.get("limit_s", 600)
        job.priority = attributes.get("priority", 1)
        job.qos = attributes.get("qos_name", "")
        return job

    def place(self, job: Job, avail: int | None = None) -> Placement | Refusal:
        """What select_nodes says."""
        assert job.part is not None
        return self.selection.select_nodes(job, job.part, self.everything if avail is None else avail, self.now_s)

    def start(self, **options: Any) -> Job:
        """Start a job; it must fit."""
        job = self.job(**options)
        found = self.place(job)
        assert isinstance(found, Placement), found
        return self.run(job, found)

    def run(self, job: Job, found: Placement) -> Job:
        """The job runs from now on."""
        job.alloc, job.state = found.allocation, JobState.RUNNING
        job.start_s, job.end_s = self.now_s, self.now_s + (job.limit_s or 0)
        self.ctld.running[job.slurm_id] = job
        self.ctld.nodes.idle &= ~found.allocation.nodes
        self.selection.allocate(job, found.allocation)
        return job

    def end(self, job: Job) -> None:
        """The job and its nodes are done."""
        assert job.alloc is not None
        del self.ctld.running[job.slurm_id]
        self.selection.release(job, job.alloc.nodes)
        busy = 0
        for other in self.ctld.running.values():
            assert other.alloc is not None
            busy |= other.alloc.nodes
        self.ctld.nodes.idle = self.everything & ~busy

    def nodes(self, **options: Any) -> str:
        """Start a job; the nodes it got, or the kind of refusal."""
        job = self.job(**options)
        found = self.place(job)
        if isinstance(found, Refusal):
            return found.kind
        self.run(job, found)
        return self.ctld.nodes.hostlist(found.allocation.nodes)

    def cores(self, **options: Any) -> list[str]:
        """Start a job; its core bitmaps per node as text, core 0 on the right."""
        job = self.start(**options)
        assert job.alloc is not None
        assert job.alloc.cores is not None
        return [f"{cores:b}" for cores in job.alloc.cores]

    def will(self, start_s: int = 0, until_s: int = 0, now_only: bool = False, **options: Any) -> tuple[int, str] | str:
        """(seconds from now, nodes) when the job could start, or the kind of refusal."""
        job = self.job(**options)
        assert job.part is not None
        usable = self.selection.usable_nodes(job, job.part, self.everything)
        assert usable is not None
        found = self.selection.will_run(job, job.part, usable, self.now_s, start_s, until_s, now_only)
        if isinstance(found, Refusal):
            return found.kind
        return found[0] - self.now_s, self.ctld.nodes.hostlist(found[1])
