"""Writes the conformance workloads of scenarios/workloads/: `python -m slurmtwin_e2e.standard_workloads FOLDER`.

Each is drawn once from a fixed seed and then stored job by job, so that the files, not this program, are the
workload. All fit in 15 to 40 simulated minutes; every one keeps a queue, because an empty queue proves little.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any, Final

import ruamel.yaml

Job = dict[str, Any]
Document = dict[str, Any]

MINUTE: Final = 60.0


def write(folder: Path, document: Document) -> None:
    """One scenario file, jobs in flow style, one a line."""
    yaml = ruamel.yaml.YAML()
    yaml.width = 4096
    yaml.default_flow_style = False

    def flow(items: list[Any]) -> list[Any]:
        out = []
        for item in items:
            line = ruamel.yaml.comments.CommentedMap(item)
            line.fa.set_flow_style()
            out.append(line)
        return out

    slurm = document["slurm"]
    for key in ("nodes", "partitions", "nodesets", "gres", "topology"):
        if key in slurm:
            slurm[key] = flow(slurm[key])
    if "jobs" in document.get("workload", {}):
        document["workload"]["jobs"] = flow(document["workload"]["jobs"])
    if "faults" in document:
        document["faults"] = flow(document["faults"])
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{document['name']}.yaml").open("w") as stream:
        yaml.dump(document, stream)


def scenario(name: str, title: str, slurm: Document, jobs: list[Job], **rest: Any) -> Document:
    """The frame around a workload."""
    return {
        "schema": "slurmtwin/scenario/1",
        "name": name,
        "title": title,
        "slurm": slurm,
        "workload": {"jobs": jobs},
        **rest,
    }


def cluster(nodes: int, cpus: int, memory: int = 8000, select: str = "CR_Core", **conf: Any) -> Document:
    """A homogeneous cluster with one partition and FIFO priority; conf adds or replaces options."""
    options: Document = {
        "SelectType": "select/cons_tres", "SelectTypeParameters": select, "SchedulerType": "sched/backfill",
        "PriorityType": "priority/basic", "ReturnToService": 1,
    }  # fmt: skip
    return {
        "conf": options | conf,
        "nodes": [{"NodeName": f"n[1-{nodes}]", "CPUs": cpus, "CoresPerSocket": cpus, "RealMemory": memory}],
        "partitions": [{"PartitionName": "main", "Nodes": f"n[1-{nodes}]", "Default": "YES", "MaxTime": "60", "State": "UP"}],
    }  # fmt: skip


def arrivals(draw: random.Random, count: int, span_s: float) -> list[float]:
    """Submit times in tenths of a second: bursts with gaps, spread over the span, at least 0.2 s apart."""
    times = sorted(round(draw.random() ** 1.1 * span_s, 1) for _ in range(count))
    out: list[float] = []
    for moment in times:
        out.append(round(max(moment, out[-1] + 0.2 if out else 0.0), 1))
    return out


def runtime(draw: random.Random, median_s: float, sigma: float = 0.7, most_s: float = 600.0) -> float:
    """A log-normal run time, whole tenths of a second."""
    return round(min(max(draw.lognormvariate(0, sigma) * median_s, 8.0), most_s), 1)


def limit(draw: random.Random, run_s: float) -> str:
    """--time in minutes as users ask: 1 to 4 times what is needed, now and then exact."""
    return str(max(1, int(run_s * draw.choice((1.1, 1.5, 2.0, 3.0, 4.0)) / MINUTE) + 1))


def numbered(jobs: list[Job]) -> list[Job]:
    """Jobs in submit order with numbers from 1, times as text."""
    out = []
    for number, job in enumerate(sorted(jobs, key=lambda j: float(j["submit"])), 1):
        out.append({"id": number} | job | {"submit": f"{job['submit']:g}s", "run": f"{job['run']:g}s"})
    return out


def serial() -> Document:
    """One-CPU jobs at 1.4 times the capacity."""
    draw = random.Random(11)
    jobs = []
    for moment in arrivals(draw, 150, 780):
        run = runtime(draw, 150)
        jobs.append({"submit": moment, "run": run, "ntasks": 1, "time": limit(draw, run)})
    return scenario("serial", "one-CPU jobs, FIFO", cluster(6, 4), numbered(jobs))


def wide() -> Document:
    """Whole-node jobs of 1..32 nodes on 32 nodes: the classic backfill picture."""
    draw = random.Random(12)
    jobs = []
    for moment in arrivals(draw, 90, 900):
        run = runtime(draw, 42)
        nodes = draw.choice((1, 1, 2, 2, 3, 4, 6, 8, 8, 12, 16, 24, 32))
        jobs.append({"submit": moment, "run": run, "nodes": str(nodes), "time": limit(draw, run)})
    return scenario("wide", "whole-node jobs of 1..32 nodes, select/linear", _linear(cluster(32, 1)), numbered(jobs))


def _linear(slurm: Document) -> Document:
    slurm["conf"]["SelectType"] = "select/linear"
    del slurm["conf"]["SelectTypeParameters"]
    return slurm


def mixed(name: str, seed: int, nodes: int = 12, cpus: int = 4) -> Document:
    """Serial, threaded and multi-node jobs together at twice the capacity, FIFO with backfill.

    A burst at the beginning fills the cluster; the last jobs are small, so that it empties evenly.
    """
    draw = random.Random(seed)
    jobs = []
    count, burst = 260, 40
    times = [round(0.5 + 0.7 * i, 1) for i in range(burst)]
    times += [round(moment + 40, 1) for moment in arrivals(draw, count - burst, 900)]
    for place, moment in enumerate(times):
        late = place > count * 0.8
        kind = draw.random()
        job: Job
        if kind < 0.5 or late:
            run = runtime(draw, 62 if not late else 45, 0.6)
            job = {"ntasks": 1, "cpus_per_task": draw.choice((1, 1, 2))}
        elif kind < 0.8:
            run = runtime(draw, 52)
            job = {"ntasks": draw.choice((2, 3, 4, 6, 8))}
        else:
            run = runtime(draw, 42)
            job = {"nodes": str(draw.choice((2, 2, 3, 4, 6))), "ntasks_per_node": cpus}
        jobs.append({"submit": moment, "run": run, **job, "time": limit(draw, run)})
    return scenario(name, "serial, threaded and multi-node jobs, congested", cluster(nodes, cpus), numbered(jobs))


def arrays() -> Document:
    """Job arrays, some throttled, between ordinary jobs."""
    draw = random.Random(14)
    jobs: list[Job] = []
    for place, moment in enumerate(arrivals(draw, 24, 720)):
        run = runtime(draw, 60, 0.5)
        if place % 3 == 0:
            tasks = draw.choice((6, 10, 16, 20))
            text = draw.choice(
                (f"0-{tasks - 1}", f"1-{tasks}", f"0-{tasks * 2 - 2}:2", f"0-{tasks - 1}%4", f"0-{tasks - 1}%6")
            )
            jobs.append(
                {
                    "submit": moment,
                    "run": run,
                    "ntasks": draw.choice((1, 1, 2)),
                    "array": text,
                    "time": limit(draw, run),
                }
            )
        else:
            jobs.append({"submit": moment, "run": run, "ntasks": draw.choice((2, 4, 8)), "time": limit(draw, run)})
    return scenario("arrays", "job arrays, some with %n", cluster(6, 4), numbered(jobs))


def dependencies() -> Document:
    """Chains, fans and singletons, some of them never satisfiable."""
    draw = random.Random(15)
    jobs: list[Job] = []
    times = arrivals(draw, 70, 720)
    for number, moment in enumerate(times, 1):
        run = runtime(draw, 60, 0.5)
        job: Job = {"submit": moment, "run": run, "ntasks": draw.choice((1, 2, 4)), "time": limit(draw, run)}
        if number % 9 == 0:
            job["exit_code"] = 3
        pick = draw.random()
        earlier = list(range(max(1, number - 8), number))
        if earlier and pick < 0.55:
            other = draw.choice(earlier)
            kind = draw.choice(("after", "afterany", "afterany", "afterok", "afternotok"))
            job["dependency"] = f"{kind}:{other}"
            if kind == "afterany" and len(earlier) > 2:
                job["dependency"] = "afterany:" + ":".join(str(n) for n in sorted(draw.sample(earlier, 2)))
        elif pick < 0.7:
            job["dependency"] = "singleton"
            job["name"] = draw.choice(("alpha", "beta"))
        jobs.append(job)
    slurm = cluster(4, 4, DependencyParameters="kill_invalid_depend")
    return scenario("dependencies", "dependency chains, fans, singletons", slurm, numbered(jobs))


def memory() -> Document:
    """Memory runs out long before CPUs do."""
    draw = random.Random(16)
    jobs: list[Job] = []
    for moment in arrivals(draw, 140, 780):
        run = runtime(draw, 90)
        job: Job = {"submit": moment, "run": run, "ntasks": draw.choice((1, 1, 2, 4)), "time": limit(draw, run)}
        if draw.random() < 0.7:
            job["mem_per_cpu"] = f"{draw.choice((500, 1000, 2000, 3000, 4000))}M"
        else:
            job["nodes"] = "1"
            job["mem"] = f"{draw.choice((1000, 4000, 6000, 12000, 16000))}M"
        jobs.append(job)
    slurm = cluster(6, 8, 16000, "CR_Core_Memory", DefMemPerCPU=1000)
    return scenario("memory", "memory is what runs out", slurm, numbered(jobs))


def gres() -> Document:
    """GPU nodes beside CPU nodes; GPU jobs, CPU jobs, and jobs for either."""
    draw = random.Random(17)
    jobs: list[Job] = []
    for moment in arrivals(draw, 110, 780):
        run = runtime(draw, 100)
        job: Job = {"submit": moment, "run": run, "time": limit(draw, run)}
        if draw.random() < 0.6:
            job |= {"nodes": "1", "ntasks": draw.choice((1, 2)), "gres": f"gpu:{draw.choice((1, 1, 2, 4))}"}
            if draw.random() < 0.2:
                job |= {"nodes": "2", "ntasks": 2}
        else:
            job |= {"ntasks": draw.choice((1, 2, 4, 8))}
        jobs.append(job)
    slurm = cluster(4, 8, GresTypes="gpu")
    slurm["nodes"] = [
        {"NodeName": "n[1-4]", "CPUs": 8, "CoresPerSocket": 8, "RealMemory": 8000, "Weight": 1},
        {"NodeName": "g[1-3]", "CPUs": 8, "CoresPerSocket": 8, "RealMemory": 8000, "Gres": "gpu:4", "Weight": 10},
    ]
    slurm["partitions"][0]["Nodes"] = "n[1-4],g[1-3]"
    slurm["gres"] = [{"NodeName": "g[1-3]", "Name": "gpu", "Count": 4}]
    return scenario("gres", "GPU and CPU jobs on two kinds of nodes", slurm, numbered(jobs))


def preemption() -> Document:
    """Two partitions on the same nodes; the upper one makes room by requeueing jobs of the lower one."""
    draw = random.Random(18)
    jobs: list[Job] = []
    for moment in arrivals(draw, 90, 720):
        high = draw.random() < 0.3
        run = runtime(draw, 60 if high else 110)
        jobs.append(
            {
                "submit": moment, "run": run, "partition": "high" if high else "low",
                "ntasks": draw.choice((1, 2, 4, 8) if high else (1, 2, 4)), "time": limit(draw, run),
            }
        )  # fmt: skip
    slurm = cluster(6, 4, PreemptType="preempt/partition_prio", PreemptMode="REQUEUE")
    base = {"Nodes": "n[1-6]", "MaxTime": "60", "State": "UP"}
    slurm["partitions"] = [
        {"PartitionName": "low", **base, "Default": "YES", "PriorityTier": 1},
        {"PartitionName": "high", **base, "PriorityTier": 10, "PreemptMode": "OFF"},
    ]
    return scenario("preemption", "partition_prio preemption by requeue", slurm, numbered(jobs))


ACCOUNTS: Final = (
    "add account physics Fairshare=60 Description=p Organization=o",
    "add account biology Fairshare=30 Description=b Organization=o",
    "add user ann Account=physics Fairshare=10",
    "add user bob Account=physics Fairshare=20",
    "add user cyd Account=biology Fairshare=10",
    "add user dan Account=biology Fairshare=10",
)
USERS: Final = (("ann", "physics"), ("bob", "physics"), ("cyd", "biology"), ("dan", "biology"))


def fair_share() -> Document:
    """Four users of two accounts with unequal shares; usage decays fast, priorities are recomputed each minute."""
    draw = random.Random(19)
    jobs: list[Job] = []
    for moment in arrivals(draw, 130, 900):
        user, account = draw.choices(USERS, weights=(6, 2, 3, 1))[0]
        run = runtime(draw, 65)
        jobs.append(
            {
                "submit": moment, "run": run, "ntasks": draw.choice((1, 2, 4)), "user": user, "account": account,
                "time": limit(draw, run),
            }
        )  # fmt: skip
    slurm = cluster(
        5, 4, PriorityType="priority/multifactor", PriorityWeightFairshare=100000, PriorityWeightAge=1000,
        PriorityMaxAge="0-1", PriorityDecayHalfLife="00:10:00", PriorityCalcPeriod="00:01:00",
        AccountingStorageType="accounting_storage/slurmdbd", AccountingStorageEnforce="associations",
    )  # fmt: skip
    slurm["accounting"] = list(ACCOUNTS)
    return scenario("fair-share", "fair tree, two accounts, four users", slurm, numbered(jobs))


def qos_limits() -> Document:
    """QOS and association limits hold jobs back while nodes are free."""
    draw = random.Random(20)
    jobs: list[Job] = []
    for moment in arrivals(draw, 110, 720):
        user, account = draw.choice(USERS)
        run = runtime(draw, 80)
        job = {
            "submit": moment, "run": run, "ntasks": draw.choice((1, 2, 4)), "user": user, "account": account,
            "qos": draw.choice(("normal", "short", "capped")), "time": limit(draw, run),
        }  # fmt: skip
        jobs.append(job)
    slurm = cluster(
        6, 4, PriorityType="priority/multifactor", PriorityWeightQOS=10000, PriorityWeightAge=1000,
        PriorityMaxAge="0-1", AccountingStorageType="accounting_storage/slurmdbd",
        AccountingStorageEnforce="associations,limits,qos",
    )  # fmt: skip
    slurm["accounting"] = [
        "add qos short Priority=100 MaxJobsPerUser=3",
        "add qos capped Priority=10 GrpTRES=cpu=8 MaxTRESPerUser=cpu=6",
        *ACCOUNTS,
        "modify account physics set GrpJobs=9",
        "modify user dan set MaxJobs=2",
        "modify account physics set QOS=normal,short,capped",
        "modify account biology set QOS=normal,short,capped",
    ]
    return scenario("qos-limits", "QOS and association limits", slurm, numbered(jobs))


def node_failure() -> Document:
    """Nodes die with and without their steps, hang, are drained, and come back."""
    draw = random.Random(21)
    jobs: list[Job] = []
    for moment in arrivals(draw, 80, 780):
        run = runtime(draw, 70)
        job: Job = {"submit": moment, "run": run, "ntasks": draw.choice((1, 2, 4, 8)), "time": limit(draw, run)}
        if draw.random() < 0.15:
            job["requeue"] = False
        jobs.append(job)
    faults = [
        {"at": "130s", "kind": "slurmd.kill_group", "target": "n2"},
        {"at": "138s", "kind": "slurmd.start", "target": "n2"},
        {"at": "200s", "kind": "slurmd.kill", "target": "n3"},
        {"at": "230s", "kind": "slurmd.start", "target": "n3"},
        {"at": "300s", "kind": "slurmd.kill_group", "target": "n4"},
        {"at": "520s", "kind": "slurmd.start", "target": "n4"},
        {"at": "420s", "kind": "node.update", "target": "n1", "state": "DRAIN", "reason": "maintenance"},
        {"at": "560s", "kind": "node.update", "target": "n1", "state": "RESUME"},
        {"at": "600s", "kind": "slurmd.freeze", "target": "n5"},
        {"at": "640s", "kind": "slurmd.thaw", "target": "n5"},
        {"at": "700s", "kind": "node.update", "target": "n6", "state": "DOWN", "reason": "broken"},
        {"at": "820s", "kind": "node.update", "target": "n6", "state": "RESUME"},
    ]
    slurm = cluster(6, 4, SlurmdTimeout=90)
    return scenario("node-failure", "slurmd killed, frozen, drained, set down", slurm, numbered(jobs), faults=faults)


def slurmctld_restart() -> Document:
    """A clean restart and a crash of slurmctld in the middle of a queue."""
    draw = random.Random(22)
    jobs: list[Job] = []
    for moment in arrivals(draw, 110, 840):
        if 295 <= moment <= 330 or 595 <= moment <= 625:
            continue
        run = runtime(draw, 58)
        jobs.append({"submit": moment, "run": run, "ntasks": draw.choice((1, 2, 4, 8)), "time": limit(draw, run)})
    faults = [
        {"at": "300s", "kind": "slurmctld.stop"},
        {"at": "325s", "kind": "slurmctld.start"},
        {"at": "600s", "kind": "slurmctld.kill"},
        {"at": "620s", "kind": "slurmctld.start"},
    ]
    return scenario("slurmctld-restart", "clean restart, then a crash", cluster(6, 4), numbered(jobs), faults=faults)


def main() -> None:
    """Write all of them."""
    folder = Path(sys.argv[1])
    for document in (
        serial(), wide(), mixed("mixed", 13), mixed("mixed-b", 33), arrays(), dependencies(), memory(), gres(), preemption(),
        fair_share(), qos_limits(), node_failure(), slurmctld_restart(),
    ):  # fmt: skip
        write(folder, document)


if __name__ == "__main__":
    main()
