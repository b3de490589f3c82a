"""Soak: many simulated days with random faults of every kind at once; no crash, no property broken, memory flat.

`python sim/tests/bench/soak.py --days 1 --nodes 50 --seed 1 --faults-per-day 200`. Faults are drawn when they come, of
what then exists, from one seeded generator; each lasts a while and may meet others. Memory is read each simulated half
day. Every property is judged on the rows at the end; a job
that ran twice is printed with the fault that hid its first run.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from slurmtwin.contract.clock import DAY, HOUR, MINUTE, SECOND, format_duration
from slurmtwin.contract.cluster_faults import ClusterFault
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import NodeAction, Scenario
from slurmtwin.worlds.pod_world import PodWorld
from slurmtwin.worlds.twin import TwinOptions, TwinWorld, run_scenario
from slurmtwin_reports.checks import run_checks
from slurmtwin_reports.history import Row, fault_of
from slurmtwin_reports.load import load_run

GROUP: Final = 60
"""Machines of one group (a scenario's group has 64 at most)."""
LOOK_NS: Final = DAY // 2
HIDES: Final = ("network.cut", "kube_node.pause", "process.freeze")
"""Faults behind which a worker's steps live on, unseen."""
CONTROLLER: Final = "slurmctld"


def scenario_of(nodes: int, days: float, operator: str) -> Scenario:
    """Workers one by one on machines of their own, and one machine more for slurmctld."""
    counts = [GROUP] * (nodes // GROUP) + ([nodes % GROUP] if nodes % GROUP else [])
    counts[0] += 1
    kubelet = {"eviction_hard": {"nodefs.available": "10%"}}
    document = {
        "schema": "slurmtwin/scenario/1", "name": "soak",
        "cluster": {"workers": [{"count": count, "kubelet": kubelet} for count in counts]},
        "slurm": {
            "version": "26.05",
            "conf": {
                "SlurmdTimeout": 300, "SlurmctldTimeout": 120, "ReturnToService": 2, "KillWait": 30,
                "SelectType": "select/cons_tres", "SelectTypeParameters": "CR_Core", "MinJobAge": 300,
                "MaxNodeCount": nodes + 10,
            },
            "nodes": [{"NodeName": f"w-[0-{nodes - 1}]", "CPUs": 1, "RealMemory": 200}],
            "partitions": [{"PartitionName": "batch", "Nodes": "ALL", "Default": "YES", "MaxTime": "INFINITE"}],
        },
        "pods": {
            "operator": operator, "slurmctld_process": "supervised", "slurmd_process": "supervised",
            "memory": "200Mi", "liveness": {"period": "10s", "failures": 6},
        },
        "budget": {"max_time": format_duration(round(days * DAY))},
    }  # fmt: skip
    return Scenario.model_validate(document)


def jobs_of(nodes: int, days: float, seed: int) -> Iterator[JobRequest]:
    """Poisson arrivals that keep about half of the nodes busy; run times from one minute to two hours."""
    draw = random.Random(f"jobs {seed}")
    mean_run_s, at_s, number = 1500, 60.0, 0
    while at_s < days * DAY / SECOND - 3 * HOUR / SECOND:
        number += 1
        width = draw.choice((1, 1, 1, 2, 4)) if nodes >= 8 else 1
        run_s = min(7200, max(60, round(draw.lognormvariate(6.8, 1.0))))
        yield JobRequest(
            job_id=number, submit_ns=round(at_s * SECOND), run_ns=run_s * SECOND, nodes_min=width, nodes_max=width,
            limit_ns=2 * run_s * SECOND,
        )  # fmt: skip
        at_s += draw.expovariate(nodes * 0.5 / (mean_run_s * 1.8))


class Chaos:
    """The faults."""

    def __init__(self, nodes: int, per_day: float, seed: int, until_ns: int) -> None:
        self._draw = random.Random(f"faults {seed}")
        self._nodes = nodes
        self._gap_s = DAY / SECOND / per_day
        self._until_ns = until_ns
        self.done: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self.memory_mib: list[int] = []

    def attach(self, world: TwinWorld) -> None:
        """Plan the first fault and the looks at memory."""
        assert isinstance(world, PodWorld)
        self._world = world
        world.env.call_at(10 * MINUTE, self._next)
        world.env.call_at(LOOK_NS, self._look)

    def _look(self, _argument: object) -> None:
        self.memory_mib.append(memory_mib())
        now_days = self._world.env.now_ns / DAY
        sys.stderr.write(f"day {now_days:5.1f}: {self.memory_mib[-1]} MiB, {sum(self.done.values())} faults\n")
        self._world.env.call_in(LOOK_NS, self._look)

    def at_the_end(self) -> str:
        """What is left of the cluster."""
        ctld = self._world.cluster.ctld
        if ctld is None:
            return "at the end no slurmctld serves"
        states = Counter(node.base.name for node in ctld.nodes.nodes)
        waiting = sum(job.pending for job in ctld.jobs.values())
        found = ", ".join(f"{count} {name}" for name, count in sorted(states.items()))
        return f"at the end: nodes {found}; {len(ctld.running)} jobs run, {waiting} wait"

    def _next(self, _argument: object) -> None:
        fault = self._fault()
        kind = f"{fault.kind} {fault.target.partition(':')[0].partition('@')[0].rstrip('0123456789')}".strip()
        try:
            self._world.meet(fault)
            self.done[kind] += 1
        except InputError:
            self.missed[kind] += 1
        wait_ns = round(self._draw.expovariate(1 / self._gap_s) * SECOND)
        if self._world.env.now_ns + wait_ns < self._until_ns:
            self._world.env.call_in(wait_ns, self._next)

    def _fault(self) -> ClusterFault | NodeAction:
        draw = self._draw
        worker = f"slurmd:w-{draw.randrange(self._nodes)}"
        machine = f"worker{draw.randrange(1, self._nodes + 2)}"
        lasts = f"{draw.randrange(5, 600)}s"
        brief = f"{draw.randrange(5, 90)}s"
        made: list[dict[str, Any]] = [
            {"kind": "process.signal", "target": worker},
            {"kind": "process.signal", "target": "slurmctld"},
            {"kind": "process.signal", "target": "operator"},
            {"kind": "process.signal", "target": f"kubelet@{machine}"},
            {"kind": "process.signal", "target": f"containerd@{machine}"},
            {"kind": "process.freeze", "target": worker, "lasts": lasts},
            {"kind": "process.freeze", "target": "slurmctld", "lasts": brief},
            {"kind": "process.freeze", "target": "operator", "lasts": lasts},
            {"kind": "process.freeze", "target": f"kubelet@{machine}", "lasts": lasts},
            {"kind": "memory.hog", "target": f"job:{self._running_job()}"},
            {"kind": "memory.group_kill", "target": worker, "lasts": lasts},
            {"kind": "pod.delete", "target": worker, "grace": "0s"},
            {"kind": "pod.delete", "target": worker},
            {"kind": "pod.delete", "target": "slurmctld"},
            {"kind": "pod.delete", "target": "slurmrestd"},
            {"kind": "pod.delete", "target": "operator"},
            {"kind": "kube_node.pause", "target": machine, "lasts": lasts},
            {"kind": "kube_node.stop", "target": machine, "lasts": lasts},
            {"kind": "kube_node.restart", "target": machine},
            {"kind": "kube_node.delete", "target": machine, "lasts": lasts},
            {"kind": "kube_node.cordon", "target": machine, "lasts": lasts},
            {"kind": "kube_node.drain", "target": machine, "lasts": lasts},
            {"kind": "kube_node.taint", "target": machine, "taint": "soak=1:NoExecute", "lasts": lasts},
            {"kind": "network.cut", "target": worker, "lasts": lasts},
            {"kind": "network.cut", "target": machine, "lasts": lasts},
            {"kind": "network.cut", "target": "slurmrestd", "lasts": lasts},
            {"kind": "network.cut", "target": "operator", "lasts": lasts},
            {"kind": "dns.outage", "lasts": brief},
            {"kind": "api_server.stop", "lasts": brief},
            {"kind": "api_server.slow", "offset": "2s", "lasts": lasts},
            {"kind": "slurmrestd.tarpit", "lasts": brief},
            {"kind": "image.pull_fails", "target": "slurmd", "lasts": brief},
            {"kind": "disk.fill", "target": worker, "size": "19Gi", "lasts": brief},
            {"kind": "jwt.rotate", "lasts": brief},
            {"kind": "watch.stale", "target": "operator", "lasts": lasts},
            {"kind": "config.change", "lines": ["SchedulerParameters=bf_interval=31"]},
        ]  # fmt: skip
        chosen = draw.choice([*made, None])
        if chosen is None:
            return NodeAction(at="0s", kind="node.update", target=worker.partition(":")[2], state="RESUME")
        return ClusterFault.model_validate({"at": "0s", **chosen})

    def _running_job(self) -> int:
        ctld = self._world.cluster.ctld
        running = [job.id for job in ctld.running.values()] if ctld is not None else []
        return self._draw.choice(running) if running else 1


def memory_mib() -> int:
    """Resident memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() >> 20


def soak(days: float, nodes: int, per_day: float, seed: int, operator: str, say: Callable[[str], object]) -> int:
    """One soak; 1 when a property is broken or a worker is lost for good."""
    scenario = scenario_of(nodes, days, operator)
    jobs = sum(1 for _ in jobs_of(nodes, days, seed))
    chaos = Chaos(nodes, per_day, seed, round((days - 0.1) * DAY))
    began = time.process_time()
    with TemporaryDirectory() as folder:
        options = TwinOptions(seed=seed, folder=Path(folder), on_start=chaos.attach)
        run = run_scenario(scenario, Path(), options, jobs_of(nodes, days, seed))
        took_s = time.process_time() - began
        say(f"{days:g} d, {nodes} nodes, {jobs} jobs, {run.event_count} rows, {took_s:.1f} s of CPU: {run.stop_reason}")
        say(f"faults done: {sum(chaos.done.values())} of {len(chaos.done)} kinds; targets that were gone: "
            f"{sum(chaos.missed.values())}")  # fmt: skip
        say(chaos.at_the_end())
        if chaos.memory_mib:
            say(f"memory, MiB: {chaos.memory_mib[0]} first, {max(chaos.memory_mib)} most, {chaos.memory_mib[-1]} last")
        history = load_run(Path(folder))
        verdicts = run_checks(history)
        named, unnamed = double_runs(history.rows())
    for verdict in verdicts:
        say(f"{verdict.outcome:9} {verdict.subject}: {verdict.reason}")
    for text in (*named, *unnamed):
        say(text)
    other = [verdict for verdict in verdicts if verdict.is_finding and verdict.subject != "no-double-run"]
    return 1 if other or unnamed else 0


def double_runs(rows: Iterator[Row]) -> tuple[list[str], list[str]]:
    """Jobs that ran twice at once, with the named fault that kept slurmctld from the first run, and those without one.

    A machine or worker that is cut off or stands still is DOWN for slurmctld, its steps live on (design notes X66). A
    slurmctld that crashed before it saved a start has forgotten it (slurm.md 12 S6): the fault is one of its own or of
    its machine since that start, as a kill, or a freeze that its liveness probe ended (seen on the real cluster: x2).
    """
    machine: dict[str, str] = {}
    live: dict[object, tuple[int, str]] = {}
    forgotten: dict[object, str] = {}
    faults: list[tuple[int, str, str]] = []
    saved_ns = 0
    named: list[str] = []
    unnamed: list[str] = []
    for row in rows:
        if row.kind == "pod.scheduled":
            machine[str(row.details.get("pod")).partition("/")[2]] = str(row.node)
        elif row.kind == "fault.injected":
            fault = fault_of(row)
            faults.append((row.t_ns, str(fault.get("kind")), str(fault.get("target", ""))))
        elif row.kind == "slurmctld.saved":
            saved_ns = row.t_ns
        elif row.kind == "slurmctld.crashed":
            places = {CONTROLLER, machine.get(str(row.node))}
            cause = next(((t_ns, kind) for t_ns, kind, target in reversed(faults) if target in places), None)
            if cause is not None:
                forgotten |= {key: cause[1] for key, (t_ns, _) in live.items() if saved_ns <= t_ns <= cause[0]}
        elif row.kind == "script.ended":
            live.pop(row.key, None)
        elif row.kind == "job.requeued":
            forgotten.pop(row.key, None)
        elif row.kind == "script.started":
            node = str(row.node)
            if row.key in live:
                since_ns, first = live[row.key]
                places = {f"slurmd:{first}", machine.get(first, first)}
                why = [kind for t_ns, kind, at in faults if t_ns >= since_ns and kind in HIDES and at in places]
                why += [forgotten[row.key]] if row.key in forgotten else []
                text = f"job {row.job_id} ran on {first} and {node} at {row.t_ns // SECOND} s"
                (named if why else unnamed).append(f"{text}: {', '.join(why) if why else 'no named fault'}")
            live[row.key] = (row.t_ns, node)
            forgotten.pop(row.key, None)
    return named, unnamed


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=1)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--faults-per-day", type=float, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operator", default="default")
    options = parser.parse_args()
    return soak(
        options.days, options.nodes, options.faults_per_day, options.seed, options.operator,
        lambda text: sys.stdout.write(f"{text}\n"),
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
