"""A controller with the policy parts alone: jobs are put in, started and ended by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from slurmtwin.contract.clock import MINUTE, SECOND
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import Scenario
from slurmtwin.engine.environment import Environment, RunBudget
from slurmtwin.engine.event_sink import EventSink
from slurmtwin.engine.random_streams import RandomStreams
from slurmtwin.models.slurmctld.allocation import Allocation
from slurmtwin.models.slurmctld.background import BackgroundLoop
from slurmtwin.models.slurmctld.host_costs import HostCosts
from slurmtwin.models.slurmctld.job_request import limit_seconds, parse_gres, parse_licenses, set_sizes
from slurmtwin.models.slurmctld.policies import attach_policies
from slurmtwin.models.slurmctld.slurmctld import Slurmctld
from slurmtwin.models.slurmctld.states import JobState
from slurmtwin.models.slurmctld.tables import Job
from slurmtwin.workload.slurm_conf import cluster_conf

EPOCH_S = 1_700_000_000


@dataclass
class Recorder:
    """Stands for the parts that policies call back."""

    held: list[tuple[int, str]] = field(default_factory=list)
    passes: int = 0
    reorders: int = 0

    def hold(self, job: Job, reason: str) -> None:
        job.held = True
        job.priority = 0
        job.reason = reason
        self.held.append((job.slurm_id, reason))

    def queue_pass(self) -> None:
        self.passes += 1

    def reorder(self) -> None:
        self.reorders += 1

    def changed(self, jobs: bool = True) -> None:
        pass


class Bench:
    """One controller on a simulated clock whose zero is EPOCH_S."""

    def __init__(
        self, version: str, conf: dict[str, Any], nodes: list[dict[str, Any]], partitions: list[dict[str, Any]],
        accounting: list[str], epoch_s: int,
    ) -> None:  # fmt: skip
        scenario = Scenario.model_validate(
            {
                "schema": "slurmtwin/scenario/1", "name": "bench",
                "slurm": {
                    "version": version, "conf": conf, "nodes": nodes, "partitions": partitions,
                    "accounting": accounting,
                },
            }
        )  # fmt: skip
        self.env = Environment()
        self.sink = EventSink("bench", "twin", keep=True)
        typed, _ = cluster_conf(scenario)
        self.ctl = Slurmctld(self.env, typed, self.sink, HostCosts(), RandomStreams(1), epoch_s * SECOND)
        self.calls = Recorder()
        self.ctl.lifecycle = self.ctl.schedulers = self.ctl.store = self.calls  # type: ignore[assignment]
        self.ctl.background = BackgroundLoop(self.ctl)  # type: ignore[assignment]
        attach_policies(self.ctl)
        self.ctl.background.start()
        self.ctl.priority.start()
        self.ctl.nodes.avail = self.ctl.nodes.up = (1 << len(self.ctl.nodes)) - 1

    def job(self, *, enter: bool = True, eligible: bool = True, **options: Any) -> Job:
        """A job record as the submit RPC makes it; entered in the table with its priority."""
        number = len(self.ctl.jobs) + 1
        request = JobRequest(job_id=number, submit_ns=self.env.now_ns, **options)
        job = Job(request, number, self.ctl.now_s())
        names = request.partition.split(",") if request.partition else []
        default = [p for p in self.ctl.partitions.values() if p.conf.default] or [*self.ctl.partitions.values()][:1]
        job.parts = [self.ctl.partitions[n] for n in names] or default
        job.part = job.parts[0]
        job.limit_s = limit_seconds(request.limit_ns)
        job.time_min_s = limit_seconds(request.time_min_ns) or 0
        job.gres = parse_gres(request.gres)
        job.licenses = parse_licenses(request.licenses)
        job.mem_mib = request.mem_per_cpu_mib or request.mem_per_node_mib or 0
        job.mem_per_cpu = request.mem_per_cpu_mib is not None
        set_sizes(job, request)
        if eligible:
            job.eligible_s = job.submit_s
        if enter:
            assert self.ctl.limits.admit(job) is None
            self.enter(job)
        return job

    def enter(self, job: Job) -> None:
        """The rest of the submit RPC."""
        self.ctl.jobs[job.slurm_id] = job
        self.ctl.priority.set_priority(job)
        self.ctl.limits.job_submitted(job)

    def allocation(self, job: Job, nodes: int | None = None, cpus: int | None = None) -> Allocation:
        """Nodes as a bitmap (default: the first nodes_min of the partition)."""
        if nodes is None:
            nodes = (1 << job.nodes_min) - 1
        return Allocation(nodes=nodes, cpus=None, cpu_total=cpus or max(job.cpus_min, nodes.bit_count()))

    def start(self, job: Job, nodes: int | None = None, cpus: int | None = None) -> None:
        """The job runs from now on."""
        job.state = JobState.RUNNING
        job.start_s = self.ctl.now_s()
        if job.limit_s is None:
            job.limit_s = 3600
        job.end_s = job.start_s + job.limit_s
        job.alloc = self.allocation(job, nodes, cpus)
        self.ctl.running[job.slurm_id] = job
        self.ctl.licenses.take(job)
        self.ctl.limits.job_started(job)
        self.ctl.priority.job_started(job)

    def end(self, job: Job) -> None:
        """The run is over and the record leaves."""
        job.state = JobState.COMPLETED
        job.end_s = self.ctl.now_s()
        self.ctl.running.pop(job.slurm_id)
        self.ctl.licenses.give_back(job)
        self.ctl.limits.job_ended(job)
        self.ctl.limits.job_left(job)

    def until(self, seconds: float) -> None:
        """Let the clock run to that time since the start."""
        done: list[bool] = []
        self.env.call_at(round(seconds * SECOND), lambda _: (done.append(True), self.env.stop("there")))
        self.env.stop_reason = ""
        self.env.run_within(RunBudget())
        assert done


@pytest.fixture
def bench() -> Callable[..., Bench]:
    """Make a Bench: version, slurm.conf options, nodes, partitions, sacctmgr lines."""

    def make(
        version: str = "26.05", conf: dict[str, Any] | None = None, nodes: list[dict[str, Any]] | None = None,
        partitions: list[dict[str, Any]] | None = None, accounting: list[str] | None = None, epoch_s: int = EPOCH_S,
    ) -> Bench:  # fmt: skip
        options: dict[str, Any] = {"ClusterName": "bench", "SlurmctldHost": "ctl"}
        if accounting is not None:
            options["AccountingStorageType"] = "accounting_storage/slurmdbd"
        options |= conf or {}
        return Bench(
            version, options, nodes or [{"NodeName": "n[1-4]", "CPUs": 4, "RealMemory": 1000}],
            partitions or [{"PartitionName": "main", "Nodes": "ALL", "Default": "YES"}], accounting or [], epoch_s,
        )  # fmt: skip

    return make


LIMIT_MINUTES = 10 * MINUTE
