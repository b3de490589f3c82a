"""One run of a scenario on a running cluster: deploy, submit, inject, watch, and build the event table."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.cluster_faults import ClusterFault
from slurmtwin.contract.errors import InputError, UnsupportedError
from slurmtwin.contract.events import Event
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.operator_steps import OperatorStep
from slurmtwin.contract.scenario import DaemonFault, Fault, NodeAction, Scenario
from slurmtwin_e2e.collect.sources import read_jobcomp
from slurmtwin_e2e.facts import cpus_of_nodes
from slurmtwin_e2e.images import Say
from slurmtwin_e2e.kind import deploy, operated
from slurmtwin_e2e.kind.api import Api
from slurmtwin_e2e.kind.beside import Beside
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.collect import clocks, evidence, kubelet_log, leaks, metrics, pinning, table
from slurmtwin_e2e.kind.collect.collector import Collector
from slurmtwin_e2e.kind.collect.informer import Change
from slurmtwin_e2e.kind.collect.kube_rows import KubeRows
from slurmtwin_e2e.kind.deploy import Deployed
from slurmtwin_e2e.kind.faults.base import FaultError, Reach, reach
from slurmtwin_e2e.kind.faults.kube import ALL_NODES
from slurmtwin_e2e.kind.faults.network import DISPATCHER
from slurmtwin_e2e.kind.faults.schedule import FaultRunner, Planned, Step, planned_ns
from slurmtwin_e2e.kind.manifests.slurm_files import CTLD_PORT, SERVES_PROBES, controllers_of, workers_of
from slurmtwin_e2e.operators import record
from slurmtwin_e2e.plan import job_options

LEAD_NS: Final = 10 * SECOND
"""Time zero lies so long after the plan is written: the first fault's look-ups fit before it."""
ACCOUNTING_LEAD_NS: Final = 8 * SECOND
MAX_ACCOUNTING: Final = 16
DEFAULT_MAX_NS: Final = 600 * SECOND
JOB: Final = "/opt/slurmtwin/job"
ENDED: Final = (
    "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
)  # fmt: skip
FOREVER_S: Final = 10_000_000
HOLE: Final = "hole"
LEAK: Final = "leak"


@dataclass(slots=True)
class RanOnce:
    """What one run left in memory: the table, and what the manifest tells of how it was made."""

    events: list[Event]
    stop_reason: str
    """done, max_time, hole (a watch lost changes), fault (one could not be injected or proven), leak (of a secret)."""
    zero_ns: int
    idle_s: float
    """From the first apply until all workers were idle."""
    wall_s: float
    load: tuple[float, float]
    late_ms: list[float]
    offsets: list[clocks.Offset]
    watch_delay_ns: tuple[int, int, int]
    fault_errors: list[str]
    accounting: dict[str, Any] | None
    """sacct beside jobcomp (evidence.accounting_check); None without slurmdbd."""
    passes: list[str] = field(default_factory=list)
    """Lines of plans.jsonl that the operator recorded; none without one that does."""
    dispatcher_late_ms: float | None = None
    """How late the latest request of the dispatcher before several clusters was; None without one."""

    @property
    def latest_ms(self) -> float:
        """How late the latest call of a fault, or request of the dispatcher, was."""
        return max([*self.late_ms, self.dispatcher_late_ms or 0.0])


def submit_actions(jobs: Sequence[JobRequest]) -> list[dict[str, Any]]:
    """One sbatch call per job for the observer. Raises UnsupportedError for what its plan cannot say."""
    out = []
    for job in sorted(jobs, key=lambda j: (j.submit_ns, j.job_id)):
        options = job_options(job)
        if job.interactive or job.het_group or job.after_job or any("{" in option for option in options):
            raise UnsupportedError(f"job {job.job_id}: the kind world submits plain batch jobs only")
        seconds = str(FOREVER_S) if job.run_ns is None else f"{job.run_ns / SECOND:.3f}"
        tail = [JOB, str(job.job_id), seconds, str(job.exit_code)]
        out.append(
            {"at_ns": job.submit_ns, "do": "submit", "jobs": [job.job_id], "array": 0,
             "argv": ["sbatch", "--parsable", "--output=/dev/null", "--error=/dev/null", *options, *tail]}
        )  # fmt: skip
    return out


def accounting_actions(scenario: Scenario) -> list[dict[str, Any]]:
    """The scenario's sacctmgr lines as the administrator's commands before time zero, one after the other."""
    lines = scenario.slurm.accounting
    if len(lines) > MAX_ACCOUNTING:
        raise UnsupportedError(f"{len(lines)} sacctmgr lines: the kind world takes {MAX_ACCOUNTING}")
    step = ACCOUNTING_LEAD_NS // MAX_ACCOUNTING
    return [
        {"at_ns": place * step - ACCOUNTING_LEAD_NS, "do": "command", "admin": True,
         "argv": ["sacctmgr", "-i", *shlex.split(line)]}
        for place, line in enumerate(lines)
    ]  # fmt: skip


def admin_action(number: int, fault: Fault) -> dict[str, Any]:
    """An administrator's command of the scenario. Raises UnsupportedError for daemons that are pods here."""
    argv: list[str] = []
    if isinstance(fault, DaemonFault) and fault.kind in ("slurmctld.takeover", "slurmctld.reconfigure"):
        argv = ["scontrol", fault.kind.partition(".")[2]]
    elif isinstance(fault, NodeAction) and fault.kind == "node.update":
        argv = ["scontrol", "update", f"nodename={fault.target}", f"state={fault.state}"]
        argv += [f"reason={fault.reason}"] if fault.reason else []
    if not argv:
        raise UnsupportedError(f"{fault.kind}: not a fault of pods", hint="process.signal, process.freeze, pod.delete")
    return {"at_ns": fault.at, "do": "command", "admin": True, "argv": argv, "fault": number}


def plan_faults(scenario: Scenario, repetition: int) -> list[tuple[int, Planned, int]]:
    """(place in the scenario, fault or step, planned time) of what this program does in one repetition."""
    return [
        (number, fault, planned_ns(fault, scenario.name, number, repetition))
        for number, fault in enumerate(scenario.faults)
        if isinstance(fault, Planned)
    ]


def begins_and_ends_ns(planned: Sequence[tuple[int, Planned, int]]) -> list[int]:
    """Times at which a run's faults and steps begin, and end where they last."""
    return [at for _, _, at in planned] + [at + one.lasts for _, one, at in planned if one.lasts]


def namespace_of(scenario: Scenario, repetition: int) -> str:
    """A namespace for the run."""
    return re.sub(r"[^a-z0-9-]", "-", f"st-{scenario.name[:40]}-{repetition}")


def run_once(
    cluster: Cluster, scenario: Scenario, jobs: Sequence[JobRequest], say: Say, *,
    repetition: int = 1, keep: Path | None = None, beside: Beside | None = None,
) -> RanOnce:  # fmt: skip
    """Run the scenario. The namespace is removed whatever happens; `keep`: copy the evidence there first.

    beside: other runs on this cluster; time zero comes when all are up, the end when all are over.
    """
    beside = beside or Beside(1)
    deploy.refuse_impossible(scenario, len(cluster.workers))
    actions = submit_actions(jobs) + accounting_actions(scenario)
    actions += [admin_action(n, f) for n, f in enumerate(scenario.faults) if not isinstance(f, Planned)]
    planned = plan_faults(scenario, repetition)
    namespace = namespace_of(scenario, repetition)
    images = deploy.prepare_images(cluster, scenario, say)
    operator = operated.operator_of(scenario)
    deploy.remove(cluster, namespace, operator)
    api = Api(cluster.kubeconfig)
    collector = Collector(api, namespace, [operator.group] if operator else [])
    collector.start()
    serving = controllers_of(scenario) if scenario.slurm.version in SERVES_PROBES and operator is None else ()
    reader = metrics.MetricsReader(api, metrics.sources(cluster.nodes, namespace, serving, CTLD_PORT))
    begun = time.monotonic()
    load = os.getloadavg()[0]
    tools: Reach | None = None
    try:
        deployed = deploy.deploy(cluster, scenario, namespace, images, say)
        idle_s = (time.time_ns() - deployed.began_ns) / SECOND
        tools = reach(cluster, deployed, api)
        offsets = [clocks.of_node(tools.shell(node)) for node in cluster.nodes]
        pinned = pinned_now(tools)
        beside.wait("up")
        zero_ns = beside.zero_ns(time.time_ns() + LEAD_NS, begins_and_ends_ns(planned))
        deploy.write_plan(deployed.evidence, zero_ns, actions)
        faults = FaultRunner(tools, planned, zero_ns, say)
        faults.start()
        reader.start()
        why, end_ns = wait_for_end(
            scenario, zero_ns, lambda: not faults.alive and jobs_over(deploy.notes(deployed.evidence), len(jobs))
        )
        faults.undo()
        pinned += pinned_now(tools)
        changes = collector.stop()
        beside.wait("over")  # what follows costs CPU time that the others would miss
        sampled = reader.stop()
        skip = next((s.node or "" for s in faults.steps if s.node in cluster.nodes), "")
        delay = clocks.watch_delay_ns(changes, skip)
        steps = sorted(faults.steps, key=lambda step: step.before_ns)
        looked = [*pinned, *sampled, *kubelets_told(tools, steps, offsets)]
        rows, holes = run_rows(scenario, deployed, steps, changes, zero_ns, end_ns, why, delay[0], offsets, looked)
        spoilt, errors = shortcomings(rows, steps, [deployed.files], holes, [*collector.lost, *reader.lost])
        if keep is not None:
            shutil.copytree(deployed.evidence, keep, dirs_exist_ok=True)
        passes: list[str] = []
        if operator is not None and operator.record:
            passes = record.passes(cluster.shared / operator.record, namespace, deployed.began_ns)
        return RanOnce(
            rows, spoilt or why, zero_ns, idle_s, time.monotonic() - begun, (load, os.getloadavg()[0]),
            lateness_ms(steps), offsets, delay, errors, _accounting(scenario, deployed), passes,
        )  # fmt: skip
    finally:
        collector.stop()
        reader.stop()
        if tools is not None:
            tools.close()
        deploy.remove(cluster, namespace, operator)


def _accounting(scenario: Scenario, deployed: Deployed) -> dict[str, Any] | None:
    if not deploy.needs_database(scenario):
        return None
    return evidence.accounting_check(deploy.notes(deployed.evidence), read_jobcomp(deployed.evidence, "jobcomp.log"))


def jobs_over(lines: Sequence[dict[str, Any]], count: int) -> bool:
    """Were `count` jobs submitted by the observer, and is none of those that it knows still to end?"""
    states = {line["name"]: line["state"] for line in lines if line["what"] == "job"}
    answered = [line for line in lines if line["what"] == "action" and line["action"]["do"] == "submit"]
    over = all(state.split("+")[0] in ENDED or state == "GONE" for state in states.values())
    return over and len(answered) >= count and len(states) >= count


def wait_for_end(
    scenario: Scenario, zero_ns: int, over: Callable[[], bool], broken: Callable[[], str] = str
) -> tuple[str, int]:
    """(why, unix ns) of the end: `over` for `after` on end, the budget's time, or a reason that `broken` tells."""
    limit = zero_ns + (scenario.budget.max_time or DEFAULT_MAX_NS)
    over_since: int | None = None
    while True:
        now = time.time_ns()
        if now >= limit:
            return "max_time", now
        if why := broken():
            return why, now
        over_since = (over_since or now) if now > zero_ns and over() else None
        if over_since is not None and now - over_since >= scenario.after:
            return "done", now
        time.sleep(0.5)


def shortcomings(
    rows: Sequence[Event], steps: Sequence[Step], files: Sequence[Mapping[str, bytes]], holes: int,
    lost: Sequence[str] = (),
) -> tuple[str, list[str]]:  # fmt: skip
    """(what spoils a run, each error in words): a secret of these files in a row, a lost watch, a failed fault.

    lost: errors that ended an observer's thread, so that the rows lack what it would have seen.
    """
    errors = [step.text for step in steps if step.what == "failed"]
    shown = [name for secrets in files for name in leaks.leaked(rows, secrets)]
    errors += [f"a row shows a piece of {name}" for name in shown]
    return LEAK if shown else HOLE if holes or lost else "fault" if errors else "", [*errors, *lost]


def lateness_ms(steps: Sequence[Step]) -> list[float]:
    """How late each fault was called."""
    return [(step.before_ns - step.planned_ns) / 1e6 for step in steps if step.what == "injected"]


def pinned_now(tools: Reach) -> list[Event]:
    """CPU sets of the workers' containers now; only with a limit do they say anything."""
    out: list[Event] = []
    for node in tools.cluster.workers:
        names = [
            tools.deployed.reader.name(item)
            for item in tools.api.request("GET", f"/api/v1/namespaces/{tools.deployed.namespace}/pods")["items"]
            if item["spec"].get("nodeName") == node and tools.deployed.reader.app(item) == "slurmd"
        ]
        pods = []
        for name in names:
            try:
                pods.append(tools.pod(f"slurmd:{name}"))
            except FaultError:
                continue
        out += pinning.rows(tools.shell(node), pods)
    return out


def kubelets_told(tools: Reach, steps: Sequence[Step], offsets: Sequence[clocks.Offset]) -> list[Event]:
    """Relists around the faults and syncs of this run's pods, as the workers' kubelets logged them."""
    deployed = tools.deployed
    faults_ns = [step.before_ns for step in steps if step.what == "injected"]
    errors = {offset.source: abs(offset.value_ns) + offset.error_ns for offset in offsets}
    return [
        row
        for node in tools.cluster.workers
        for row in kubelet_log.rows(tools.shell(node), deployed.namespace, deployed.began_ns, faults_ns, errors[node])
    ]


def run_rows(
    scenario: Scenario, deployed: Deployed, steps: Sequence[Step], changes: Sequence[Change], zero_ns: int,
    end_ns: int, why: str, receipt_error_ns: int, offsets: Sequence[clocks.Offset], looked: Sequence[Event],
) -> tuple[list[Event], int]:  # fmt: skip
    """The whole table and the number of holes in it."""
    documents = [f.model_dump(mode="json", exclude_defaults=True) | {"kind": f.kind} for f in scenario.faults]
    own_error = max((abs(o.value_ns) + o.error_ns for o in offsets), default=0)
    kube = KubeRows(receipt_error_ns, own_error, deployed.reader)
    for change in changes:
        kube.take(change)
    lines = deploy.notes(deployed.evidence)
    rows = evidence.slurm_rows(
        deployed.evidence, zero_ns, end_ns, why, controllers_of(scenario), documents, cpus_of_nodes(scenario),
        scenario.slurm.version,
    )  # fmt: skip
    if deployed.operator is not None and deployed.operator.record:
        folder = deployed.cluster.shared / deployed.operator.record
        rows += record.action_rows(folder, deployed.namespace, zero_ns, deployed.began_ns)
    if deployed.operator is not None:
        rows += evidence.updated_node_rows(deployed.evidence, zero_ns)
    rows += evidence.slurmd_rows(deployed.evidence, zero_ns) + evidence.observer_rows(lines, zero_ns)
    rows += evidence.grown_rows(deployed.evidence, zero_ns)
    rows += table.fault_rows(steps, documents, zero_ns) + table.clock_rows(offsets, 0)
    rows += [event._replace(t_ns=event.t_ns - zero_ns) for event in looked]
    rows = [row for row in rows if row.t_ns <= end_ns - zero_ns]
    tied = [pair for pair in kube.rows if pair[0].t_ns <= end_ns]
    return table.merge(rows, tied, zero_ns), kube.holes


def check_scenario(scenario: Scenario) -> None:
    """Raise InputError before anything is made for what no cluster could run."""
    if scenario.pods is None:
        raise InputError(f"{scenario.name} has no `pods` section", hint="pods: {} puts Slurm into pods by manifests")
    if len(scenario.clusters) > 1:
        raise UnsupportedError("Slurm is put on one cluster by these manifests")
    plan_faults(scenario, 1)
    deploy.refuse_impossible(scenario, sum(g.count for c in scenario.clusters for g in c.workers) or 3)
    names = workers_of(scenario).names
    if not scenario.pods.operator and any(isinstance(fault, OperatorStep) for fault in scenario.faults):
        raise InputError("a step of an operator needs one", hint="pods.operator: slinky")
    for fault in scenario.faults:
        if isinstance(fault, ClusterFault):
            if fault.kind == "jwt.rotate" and scenario.pods.operator:
                raise UnsupportedError("jwt.rotate: pods of an operator mount their keys read-only")
            _refuse_target(fault, names)


def _refuse_target(fault: ClusterFault, workers: Sequence[str]) -> None:
    known = ("slurmctld", "slurmd", "slurmrestd", "slurmdbd", "observer", "operator")
    if fault.target == ALL_NODES and fault.kind == "kube_node.pause":
        return
    for target in filter(None, f"{fault.target},{fault.other}".split(",")):
        head, _, name = target.removeprefix("node-of:").partition(":")
        if head == "slurmd" and name and name not in workers:
            raise InputError(f"{fault.kind}: no worker is called {name}", hint=", ".join(workers))
        if (head == "job" and name.isdigit()) or (head == DISPATCHER and target == fault.other):
            continue
        fine = head in known or "@" in head or "/" in head or head.startswith(("worker", "control-plane"))
        if not fine:
            raise InputError(f"{fault.kind}: target {target!r} names nothing", hint=", ".join(known))
