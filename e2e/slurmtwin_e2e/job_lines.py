"""The jobs that a scenario lists (`workload.jobs`) as requests; generators and trace files are not this package's."""

from __future__ import annotations

from slurmtwin.contract.clock import parse_slurm_time
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.quantity import parse_slurm_mib
from slurmtwin.contract.scenario import JobLine, Scenario


def _nodes(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    low, dash, high = text.partition("-")
    return int(low), int(high) if dash else int(low)


def _request(line: JobLine, number: int, submit_ns: int) -> JobRequest:
    low, high = _nodes(line.nodes)
    return JobRequest(
        job_id=number, submit_ns=submit_ns, run_ns=None if line.run == "until-ended" else line.run,
        limit_ns=None if line.time is None else parse_slurm_time(line.time),
        time_min_ns=None if line.time_min is None else parse_slurm_time(line.time_min),
        nodes_min=low, nodes_max=high, ntasks=line.ntasks, ntasks_per_node=line.ntasks_per_node,
        cpus_per_task=line.cpus_per_task, mem_per_node_mib=None if line.mem is None else parse_slurm_mib(line.mem),
        mem_per_cpu_mib=None if line.mem_per_cpu is None else parse_slurm_mib(line.mem_per_cpu), gres=line.gres,
        licenses=line.licenses, constraint=line.constraint, partition=line.partition, nodelist=line.nodelist,
        exclude=line.exclude, contiguous=line.contiguous, switches=line.switches, spread=line.spread,
        exclusive=line.exclusive, oversubscribe=line.oversubscribe, threads_per_core=line.threads_per_core,
        reservation=line.reservation, user=line.user, account=line.account, qos=line.qos, name=line.name,
        nice=line.nice, hold=line.hold, begin_ns=line.begin, deadline_ns=line.deadline, dependency=line.dependency,
        array=line.array, het_group=line.het_group, requeue=line.requeue, no_kill=line.no_kill, signal=line.signal,
        exit_code=line.exit_code, cancel_ns=line.cancel, interactive=line.interactive,
    )  # fmt: skip


def listed_jobs(scenario: Scenario) -> list[JobRequest]:
    """One request per job of `workload.jobs`. Raises InputError when the scenario has other sources of jobs."""
    if scenario.workload.file or scenario.workload.generate:
        raise InputError(f"{scenario.name}: this workload is generated or read from a trace; give it as a job list")
    requests: list[JobRequest] = []
    taken: set[int] = {line.id for line in scenario.workload.jobs if line.id is not None}
    free = 1
    for line in scenario.workload.jobs:
        for copy in range(line.count):
            if line.id is not None:
                number = line.id + copy
            else:
                while free in taken:
                    free += 1
                number = free
            taken.add(number)
            requests.append(_request(line, number, line.submit + copy * line.every))
    return requests
