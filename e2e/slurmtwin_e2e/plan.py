"""From a scenario to the plan that the driver inside the container runs: daemons, files, actions by time."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any, Final

from slurmtwin.contract.clock import SECOND, UNLIMITED
from slurmtwin.contract.cluster_faults import ClusterFault
from slurmtwin.contract.errors import UnsupportedError
from slurmtwin.contract.hostlist import expand
from slurmtwin.contract.jobs import JobRequest, parse_array
from slurmtwin.contract.operator_steps import OperatorStep
from slurmtwin.contract.scenario import (
    DaemonFault,
    JobAction,
    NodeAction,
    PartitionAction,
    ReservationAction,
    Scenario,
)
from slurmtwin_e2e.conf import STATE_DIR, ClusterFiles, render

JOB_SCRIPT: Final = "/opt/slurmtwin/job.sh"
FIRST_UID: Final = 2001
FOREVER_S: Final = 10_000_000
SETTLE_S: Final = 5
LOG_BACKFILL_JOBS: Final = 200
"""Up to so many jobs the log names every job that backfill tests."""
TAIL_NS: Final = 3600 * SECOND
"""How long a run may go on without any job ending, beyond the longest job's own time (a held job never ends)."""

Action = dict[str, Any]


def limit_text(ns: int) -> str:
    """--time with seconds, which Slurm rounds up to minutes itself."""
    if ns == UNLIMITED:
        return "UNLIMITED"
    minutes, seconds = divmod(-(-ns // SECOND), 60)
    return f"{minutes}:{seconds:02}"


def _seconds(ns: int | None) -> str:
    return str(FOREVER_S) if ns is None else f"{ns / SECOND:.3f}"


def _dependency(text: str) -> str:
    """Workload numbers become placeholders that the driver fills with Slurm's numbers."""
    clauses = []
    for clause in text.replace("?", ",?,").split(","):
        head, *rest = clause.split(":")
        out = [head]
        for part in rest:
            number, plus, delay = part.partition("+")
            base, under, task = number.partition("_")
            out.append(f"{{job:{base}}}{under}{task}{plus}{delay}")
        clauses.append(":".join(out))
    return ",".join(clauses).replace(",?,", "?")


def job_options(job: JobRequest) -> list[str]:
    """The options of sbatch or salloc for one request."""
    nodes = ""
    if job.nodes_min is not None or job.nodes_max is not None:
        low, high = job.nodes_min or 1, job.nodes_max
        nodes = f"{low}" if high in (None, low) else f"{low}-{high}"
    pairs: list[tuple[str, Any]] = [
        ("nodes", nodes), ("ntasks", job.ntasks), ("ntasks-per-node", job.ntasks_per_node),
        ("cpus-per-task", job.cpus_per_task),
        ("mem", None if job.mem_per_node_mib is None else f"{job.mem_per_node_mib}M"),
        ("mem-per-cpu", None if job.mem_per_cpu_mib is None else f"{job.mem_per_cpu_mib}M"),
        ("time", None if job.limit_ns is None else limit_text(job.limit_ns)),
        ("time-min", None if job.time_min_ns is None else limit_text(job.time_min_ns)),
        ("gres", job.gres), ("licenses", job.licenses), ("constraint", job.constraint),
        ("partition", job.partition), ("nodelist", job.nodelist), ("exclude", job.exclude),
        ("switches", job.switches), ("threads-per-core", job.threads_per_core), ("reservation", job.reservation),
        ("account", job.account), ("qos", job.qos), ("job-name", job.name or f"j{job.job_id}"),
        ("nice", job.nice or None),
        ("begin", None if job.begin_ns is None else f"{{time:{job.begin_ns}}}"),
        ("deadline", None if job.deadline_ns is None else f"{{time:{job.deadline_ns}}}"),
        ("dependency", _dependency(job.dependency) if job.dependency else ""),
        ("signal", job.signal),
    ]  # fmt: skip
    options = [f"--{name}={value}" for name, value in pairs if value not in (None, "")]
    flags = [
        ("contiguous", job.contiguous), ("spread-job", job.spread), ("oversubscribe", job.oversubscribe),
        ("no-kill", job.no_kill),
    ]  # fmt: skip
    options += [f"--{name}" for name, on in flags if on]
    if job.exclusive:
        options.append("--exclusive" if job.exclusive == "node" else f"--exclusive={job.exclusive}")
    if not job.interactive:
        options += [f"--array={job.array}"] if job.array else []
        options += ["--hold"] if job.hold else []
        if job.requeue is not None:
            options.append("--requeue" if job.requeue else "--no-requeue")
    return options


def submit_actions(jobs: Sequence[JobRequest]) -> list[Action]:
    """One action per sbatch or salloc call, and one per scancel of the user's."""
    actions: list[Action] = []
    groups: dict[int, Action] = {}
    for job in sorted(jobs, key=lambda j: (j.submit_ns, j.job_id)):
        options = job_options(job)
        tail = [JOB_SCRIPT, _seconds(job.run_ns), str(job.exit_code)]
        batch = ["--output=/dev/null", "--error=/dev/null"]
        if job.het_group and job.het_group in groups:
            action = groups[job.het_group]
            action["argv"][-3:-3] = [":", *options]
            action["jobs"].append(job.job_id)
        else:
            argv = [*options, *tail] if job.interactive else [*batch, *options, *tail]
            action = {
                "t_ns": job.submit_ns, "do": "salloc" if job.interactive else "submit", "argv": argv,
                "jobs": [job.job_id], "user": job.user, "array": len(parse_array(job.array)[0]) if job.array else 0,
            }  # fmt: skip
            if job.after_job:
                action |= {"after_job": job.after_job, "think_ns": job.think_ns}
            if job.het_group:
                groups[job.het_group] = action
            actions.append(action)
        if job.cancel_ns is not None:
            actions.append(_command(job.cancel_ns, "scancel", f"{{job:{job.job_id}}}"))
    return actions


def _command(t_ns: int, *argv: str) -> Action:
    return {"t_ns": t_ns, "do": "command", "argv": list(argv)}


def _daemon_actions(fault: DaemonFault, files: ClusterFiles) -> list[Action]:
    daemon, verb = fault.kind.split(".")
    if verb == "takeover":
        return [_command(fault.at, "scontrol", "takeover")]
    if verb == "reconfigure":
        return [_command(fault.at, "scontrol", "reconfigure")]
    if verb == "lose_state":
        return [{"t_ns": fault.at, "do": "lose_state"}]
    if daemon == "slurmd":
        names = [f"slurmd:{n}" for n in (expand(fault.target) if fault.target else files.nodes)]
    elif daemon == "slurmctld":
        names = [f"slurmctld:{fault.target or files.controllers[0]}"]
    else:
        names = ["slurmdbd"]
    signals = {
        "stop": signal.SIGTERM, "kill": signal.SIGKILL, "kill_group": signal.SIGKILL, "freeze": signal.SIGSTOP,
        "thaw": signal.SIGCONT,
    }  # fmt: skip
    if verb == "start":
        return [{"t_ns": fault.at, "do": "start", "daemon": name} for name in names]
    return [
        {
            "t_ns": fault.at, "do": "signal", "daemon": name, "signal": int(signals[verb]),
            "whole_node": verb == "kill_group",
        }
        for name in names
    ]  # fmt: skip


def _node_actions(fault: NodeAction) -> list[Action]:
    if fault.kind == "node.delete":
        return [_command(fault.at, "scontrol", "delete", f"nodename={fault.target}")]
    if fault.kind == "node.create":
        return [_command(fault.at, "scontrol", "create", f"nodename={fault.target}", *fault.state.split())]
    state = fault.state.upper()
    argv = ["scontrol", "update", f"nodename={fault.target}", f"state={state}"]
    if fault.reason or state in ("DOWN", "DRAIN", "FAIL"):
        argv.append(f"reason={fault.reason or 'scenario'}")
    return [_command(fault.at, *argv)]


def _job_actions(fault: JobAction) -> list[Action]:
    verb = fault.kind.split(".")[1]
    job = f"{{job:{fault.job}}}"
    if verb == "cancel":
        return [_command(fault.at, "scancel", job)]
    if verb == "update":
        pairs = [f"{key}={value}" for key, value in fault.set.items()]
        return [_command(fault.at, "scontrol", "update", f"jobid={job}", *pairs)]
    return [_command(fault.at, "scontrol", verb, job)]


def _reservation_actions(fault: ReservationAction) -> list[Action]:
    if fault.kind == "reservation.delete":
        return [_command(fault.at, "scontrol", "delete", f"reservationname={fault.name}")]
    argv = [
        "scontrol", "create", f"reservationname={fault.name}", f"starttime={{time:{fault.start}}}",
        f"duration={limit_text(fault.duration)}",
    ]  # fmt: skip
    for key in ("nodes", "users", "accounts", "flags"):
        value = getattr(fault, key)
        if value:
            argv.append(f"{key}={value}")
    if not fault.users and not fault.accounts:
        argv.append("users=root")
    return [_command(fault.at, *argv)]


def fault_actions(scenario: Scenario, files: ClusterFiles) -> list[Action]:
    """Every fault of the scenario as actions, each carrying the fault's place in the scenario."""
    actions: list[Action] = []
    for number, fault in enumerate(scenario.faults):
        if isinstance(fault, DaemonFault):
            made = _daemon_actions(fault, files)
        elif isinstance(fault, NodeAction):
            made = _node_actions(fault)
        elif isinstance(fault, JobAction):
            made = _job_actions(fault)
        elif isinstance(fault, PartitionAction):
            pairs = [f"{key}={value}" for key, value in fault.set.items()]
            made = [_command(fault.at, "scontrol", "update", f"partitionname={fault.target}", *pairs)]
        elif isinstance(fault, ClusterFault | OperatorStep):
            raise UnsupportedError(f"{fault.kind}: the slurm world has no Kubernetes", hint="--world kind")
        else:
            made = _reservation_actions(fault)
        for action in made:
            action["fault"] = number
        actions += made
    return actions


def job_spans(jobs: Sequence[JobRequest]) -> tuple[int, int]:
    """(the longest job's time, all jobs' times one after the other), by what each is known to need at most."""
    spans = []
    for job in jobs:
        known = [ns for ns in (job.run_ns, job.limit_ns) if ns is not None and ns != UNLIMITED]
        tasks = len(parse_array(job.array)[0]) if job.array else 1
        spans += [min(known, default=0)] * tasks
    return max(spans, default=0), sum(spans)


def make_plan(
    scenario: Scenario, jobs: Sequence[JobRequest], version: str, factor: float
) -> tuple[dict[str, Any], ClusterFiles]:
    """The plan.json of one run, and the files behind it (with the list of overridden options)."""
    files = render(scenario.slurm, version, len(jobs) <= LOG_BACKFILL_JOBS)
    actions = [*submit_actions(jobs), *fault_actions(scenario, files)]
    last = max((int(a["t_ns"]) for a in actions), default=0)
    users = sorted({job.user for job in jobs if job.user})
    longest, work = job_spans(jobs)
    plan = {
        "version": version, "factor": factor, "files": files.files, "nodes": files.nodes,
        "controllers": files.controllers, "accounting": files.accounting, "state_dir": STATE_DIR,
        "sacctmgr": _sacctmgr(scenario), "users": {name: FIRST_UID + i for i, name in enumerate(users)},
        "settle_s": SETTLE_S, "actions": actions, "max_ns": scenario.budget.max_time or last + TAIL_NS + work,
        "tail_ns": TAIL_NS + longest, "min_ns": last + scenario.after,
    }  # fmt: skip
    return plan, files


def _sacctmgr(scenario: Scenario) -> dict[str, list[str]]:
    """Lines before slurmctld starts; the cluster itself is added unless a line does it."""
    name = next((str(v) for k, v in scenario.slurm.conf.items() if k.lower() == "clustername"), "twin")
    lines = list(scenario.slurm.accounting)
    if not any(line.lower().startswith("add cluster") for line in lines):
        lines.insert(0, f"add cluster {name}")
    return {"before": lines, "after": []}
