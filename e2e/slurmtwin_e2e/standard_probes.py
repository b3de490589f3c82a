"""Writes the probes of scenarios/probes/: `python -m slurmtwin_e2e.standard_probes FOLDER`.

A probe is a small scenario that shows one or a few rules of real Slurm. `expect.rules` names them as
"SECTION ROW" of the reference (docs/rules.md), so that each rule can point at the recording that proves it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from slurmtwin_e2e.standard_workloads import ACCOUNTS, Document, Job, cluster, numbered, scenario, write


def probe(name: str, title: str, rules: list[str], slurm: Document, jobs: list[Job], **rest: Any) -> Document:
    """A scenario that names the rules it shows."""
    document = scenario(name, title, slurm, numbered(jobs) if jobs else [], **rest)
    document["expect"] = {"rules": rules}
    return document


def job(submit: float, run: float, time: str = "5", **more: Any) -> Job:
    """One job; ntasks=1 unless it says how large it is."""
    size = {} if {"nodes", "ntasks"} & set(more) else {"ntasks": 1}
    return {"submit": submit, "run": run, **size, "time": time, **more}


def fault(at: str, kind: str, target: str = "", **more: Any) -> Job:
    """One fault line."""
    return {"at": at, "kind": kind, **({"target": target} if target else {}), **more}


def scheduler(parameters: str, **more: Any) -> Document:
    """slurm.conf options with SchedulerParameters."""
    return {"SchedulerParameters": parameters, **more}


def main_pass() -> list[Document]:
    """Probes of the main scheduling pass (section 1)."""
    idle = [job(10 + 37.3 * i, 20) for i in range(12)]
    closing = [
        job(5, 120, "3", ntasks=3), job(6, 100, "2", ntasks=4, partition="small"), job(7, 30, "1", ntasks=1, partition="big"),
        job(8, 30, "1", ntasks=1, partition="small"), job(20, 30, "1", ntasks=1, partition="other"),
    ]  # fmt: skip
    parts = cluster(1, 4, SchedulerParameters="bf_interval=300")
    parts["nodes"] = [{"NodeName": "n[1-3]", "CPUs": 4, "CoresPerSocket": 4, "RealMemory": 8000}]
    base = {"MaxTime": "60", "State": "UP"}
    parts["partitions"] = [
        {"PartitionName": "big", "Nodes": "n[1-2]", "Default": "YES", "PriorityTier": 5, **base},
        {"PartitionName": "small", "Nodes": "n1", "PriorityTier": 5, **base},
        {"PartitionName": "other", "Nodes": "n3", "PriorityTier": 1, **base},
    ]
    depth = [job(1, 240, "5", ntasks=4, nodelist="n1")]
    depth += [job(2 + i * 0.3, 20, "1", ntasks=4, nodelist="n1") for i in range(8)]
    depth += [job(6, 30, "1", ntasks=1, nodelist="n2"), job(70, 30, "1", ntasks=1, nodelist="n2")]
    tier = cluster(1, 4)
    tier["partitions"] = [
        {"PartitionName": "low", "Nodes": "n1", "Default": "YES", "PriorityTier": 1, **base},
        {"PartitionName": "high", "Nodes": "n1", "PriorityTier": 9, **base},
    ]
    tiers = [
        job(1, 60, "2", ntasks=4),
        job(5, 40, "1", ntasks=4),
        job(10, 40, "1", ntasks=4, partition="high"),
        job(15, 40, "1", ntasks=4),
        job(20, 30, "1", ntasks=4, partition="high,low"),
    ]
    salloc = [
        job(10, 40, interactive=True), job(20.5, 40), job(31.2, 40, ntasks=2, interactive=True),
        job(40, 60, ntasks=4, interactive=True), job(50.7, 20, ntasks=1, interactive=True),
    ]  # fmt: skip
    builtin = [
        job(1, 100, "3", ntasks=3),
        job(5, 60, "2", ntasks=4),
        job(10, 30, "1", ntasks=1),
        job(15, 30, "1", ntasks=1),
    ]
    return [
        probe("start-latency", "sbatch on an idle cluster: how long until it starts",
              ["1.1 Start latency on an idle cluster", "1.1 Queued request", "1.1 sbatch itself", "1.1 Periodic full pass"],
              cluster(2, 4), idle),
        probe("partition-closing", "the first blocked job closes its partition and takes its nodes from others",
              ["1.2 First blocked job closes its partition", "1.2 Order", "1.2 Queue build"], parts, closing),
        probe("queue-depth", "default_queue_depth ends the depth-limited pass; the full pass has no such limit",
              ["1.2 Depth cap (not on full pass)", "1.2 What does not close a partition", "1.1 Periodic full pass"],
              cluster(2, 4, SchedulerParameters="default_queue_depth=4,bf_interval=600"), depth),
        probe("priority-tiers", "a higher PriorityTier goes first; a job in two partitions takes the better one",
              ["1.2 Order", "1.2 Queue build", "3.1 Multi-partition"], tier, tiers),
        probe("salloc-at-once", "salloc is tried inside its RPC, sbatch never is",
              ["1.1 salloc / srun", "1.1 sbatch itself"], cluster(1, 4), salloc),
        probe("defer", "defer: salloc waits for the loop, completions only queue a pass",
              ["1.1 defer / defer_batch", "1.1 salloc / srun"], cluster(1, 4, SchedulerParameters="defer"), salloc),
        probe("builtin", "sched/builtin: strict order, no backfill", ["2.2 sched/builtin", "1.2 FIFO shortcut"],
              cluster(1, 4, SchedulerType="sched/builtin"), builtin),
        probe("batch-sched-delay", "queued passes keep batch_sched_delay apart", ["1.1 Queued request", "1.1 Minimum spacing"],
              cluster(2, 4, SchedulerParameters="batch_sched_delay=20,bf_interval=600,sched_interval=120"), idle),
        probe("job-depth", "partition_job_depth and sched_max_job_start cap a pass", ["1.2 Other caps"],
              cluster(4, 4, SchedulerParameters="partition_job_depth=2,sched_max_job_start=1,bf_interval=600"),
              [job(1 + 0.3 * i, 30, "1", ntasks=2) for i in range(10)]),
        probe("complete-wait", "CompleteWait holds passes while a job completes", ["1.1 Whole pass skipped", "4.6 CompleteWait"],
              cluster(1, 4, CompleteWait=20), [job(1, 40, "2", ntasks=2), job(5, 80, "2", ntasks=2), job(10, 20, "1", ntasks=2), job(12, 20, "1", ntasks=2)]),
    ]  # fmt: skip


def node_choice() -> list[Document]:
    """Probes of node selection (1.3): long jobs placed one by one, so that only the choice matters."""

    def placed(*shapes: Job) -> list[Job]:
        return [job(5 + 5 * i, 300, "10", **shape) for i, shape in enumerate(shapes)]

    fits = placed(
        {"ntasks": 3}, {"ntasks": 2}, {"ntasks": 1}, {"ntasks": 1}, {"nodes": "2", "ntasks": 4}, {"ntasks": 2},
        {"ntasks": 6}, {"nodes": "3"}, {"ntasks": 1}, {"ntasks": 5}, {"ntasks": 2, "contiguous": True, "nodes": "2"},
        {"ntasks": 1, "exclude": "n[1-2]"}, {"ntasks": 2, "nodelist": "n7"}, {"ntasks": 4, "spread": True},
    )  # fmt: skip
    weights = cluster(1, 4)
    weights["nodes"] = [
        {"NodeName": "n[1-2]", "CPUs": 4, "CoresPerSocket": 4, "RealMemory": 8000, "Weight": 20, "Feature": "fast,ib"},
        {"NodeName": "n[3-4]", "CPUs": 4, "CoresPerSocket": 4, "RealMemory": 16000, "Weight": 5, "Feature": "slow"},
        {"NodeName": "n[5-6]", "CPUs": 4, "CoresPerSocket": 4, "RealMemory": 8000, "Weight": 10, "Feature": "slow,ib"},
    ]
    weights["partitions"][0]["Nodes"] = "n[1-6]"
    featured = placed(
        {"ntasks": 1}, {"ntasks": 5}, {"ntasks": 1, "constraint": "fast"}, {"ntasks": 1, "constraint": "ib"},
        {"nodes": "2", "constraint": "slow"}, {"ntasks": 2, "constraint": "fast|slow"}, {"ntasks": 2, "constraint": "ib&slow"},
        {"nodes": "3", "ntasks": 3},
    )  # fmt: skip
    threads = cluster(1, 4)
    threads["nodes"] = [
        {"NodeName": "n[1-4]", "Sockets": 2, "CoresPerSocket": 2, "ThreadsPerCore": 2, "CPUs": 8, "RealMemory": 8000}
    ]
    threads["partitions"][0]["Nodes"] = "n[1-4]"
    odd = placed(
        {"ntasks": 1},
        {"ntasks": 3},
        {"ntasks": 1},
        {"ntasks": 2},
        {"ntasks": 5},
        {"ntasks": 1, "cpus_per_task": 3},
        {"ntasks": 7},
        {"ntasks": 2, "threads_per_core": 1},
    )
    threads_cpu = {**threads, "conf": threads["conf"] | {"SelectTypeParameters": "CR_CPU"}}
    lln = cluster(6, 4, select="CR_Core,CR_LLN")
    topology = cluster(8, 4, TopologyPlugin="topology/tree")
    topology["topology"] = [
        {"SwitchName": "s1", "Nodes": "n[1-3]"}, {"SwitchName": "s2", "Nodes": "n[4-6]"}, {"SwitchName": "s3", "Nodes": "n[7-8]"},
        {"SwitchName": "top", "Switches": "s[1-3]"},
    ]  # fmt: skip
    switched = placed({"nodes": "2"}, {"nodes": "2"}, {"nodes": "1"}, {"nodes": "2"}, {"nodes": "1", "ntasks": 1})
    memory = cluster(3, 8, 8000, "CR_CPU_Memory")
    mems = placed(
        {"ntasks": 1, "mem": "5000M"},
        {"ntasks": 1, "mem": "4000M"},
        {"ntasks": 1, "mem_per_cpu": "2500M"},
        {"ntasks": 1},
        {"ntasks": 2, "mem_per_cpu": "2000M"},
        {"ntasks": 1, "mem": "0"},
    )
    sharing = cluster(3, 4)
    sharing["partitions"] = [
        {"PartitionName": "main", "Nodes": "n1", "Default": "YES", "MaxTime": "60", "State": "UP"},
        {"PartitionName": "whole", "Nodes": "n2", "MaxTime": "60", "State": "UP", "OverSubscribe": "EXCLUSIVE"},
        {"PartitionName": "force", "Nodes": "n3", "MaxTime": "60", "State": "UP", "OverSubscribe": "FORCE:2"},
    ]
    shared = placed(
        {"ntasks": 1, "partition": "whole"},
        {"ntasks": 1, "partition": "whole"},
        {"ntasks": 4, "partition": "force"},
        {"ntasks": 4, "partition": "force"},
        {"ntasks": 1, "partition": "force"},
        {"ntasks": 1, "exclusive": "node"},
        {"ntasks": 1},
    )
    pack = cluster(4, 4, SchedulerParameters="pack_serial_at_end")
    linear = cluster(6, 4)
    linear["conf"]["SelectType"] = "select/linear"
    del linear["conf"]["SelectTypeParameters"]
    return [
        probe("node-choice", "best fit inside runs of consecutive nodes", ["1.3 cons_tres default placement", "1.3 Node order", "1.3 --spread-job / bf_busy_nodes", "1.3 If that fails"], cluster(8, 4), fits),
        probe("node-choice-cpu", "the same with CR_CPU and nodes that name CPUs only", ["1.3 CR_CPU / CR_Core / CR_Socket"],
              {**cluster(8, 4, select="CR_CPU"), "nodes": [{"NodeName": "n[1-8]", "CPUs": 4, "RealMemory": 8000}]}, fits),
        probe("node-choice-linear", "select/linear gives whole nodes", ["1.3 select/linear", "0 SelectType default"], linear, placed({"ntasks": 1}, {"nodes": "2"}, {"ntasks": 5}, {"nodes": "1", "ntasks": 2})),
        probe("weights", "lower Weight first; features", ["1.3 Weight", "1.3 select/cons_tres"], weights, featured),
        probe("threads-core", "two threads a core under CR_Core", ["1.3 CR_CPU / CR_Core / CR_Socket", "1.3 Core choice in a node"], threads, odd),
        probe("threads-cpu", "two threads a core under CR_CPU", ["1.3 CR_CPU / CR_Core / CR_Socket"], threads_cpu, odd),
        probe("lln", "least loaded node first", ["1.3 CR_LLN or partition LLN=YES"], lln, placed(*[{"ntasks": n} for n in (1, 1, 2, 1, 1, 1, 3, 1, 2, 1)])),
        probe("pack-serial", "pack_serial_at_end puts serial jobs last", ["1.3 pack_serial_at_end"], pack, placed({"ntasks": 1}, {"ntasks": 2}, {"ntasks": 1}, {"nodes": "2"})),
        probe("topology-tree", "fewest leaf switches, best fit", ["9 topology/tree"], topology, switched),
        probe("memory-rules", "memory asked, default and all of it", ["1.3 *_Memory, CR_Memory", "1.3 Default memory request"], memory, mems),
        probe("sharing", "EXCLUSIVE and FORCE partitions, --exclusive", ["1.3 OverSubscribe=NO (default) / EXCLUSIVE / YES[:n] / FORCE[:n]", "1.3 --exclusive, =user, =mcs", "1.3 Sharing steps in cons_tres"], sharing, shared),
    ]  # fmt: skip


def backfill() -> list[Document]:
    """Probes of the backfill scheduler (section 2)."""
    base = [
        job(1, 170, "3", ntasks=3),
        job(5, 60, "2", ntasks=4),
        job(8, 40, "1", ntasks=1),
        job(12, 160, "4", ntasks=1),
        job(100, 30, "1", ntasks=1),
    ]
    queue = (
        [job(1, 200, "4", ntasks=4)] + [job(4 + i, 30, "2", ntasks=4) for i in range(5)] + [job(15, 20, "1", ntasks=1)]
    )
    small = [job(1, 240, "4", ntasks=15), job(3, 60, "2", ntasks=16)] + [
        job(5 + i * 0.4, 60, "2", ntasks=1) for i in range(6)
    ]
    many = (
        [job(1, 290, "5", ntasks=14)]
        + [job(3, 60, "2", ntasks=16)]
        + [job(6 + i * 0.3, 25, "1", ntasks=1) for i in range(14)]
    )
    timemin = [
        job(1, 240, "4", ntasks=3),
        job(4, 60, "2", ntasks=4),
        job(8, 600, "30", ntasks=1, time_min="2"),
        job(20, 90, "60", ntasks=1, time_min="1"),
    ]
    het = [
        job(10, 60, "2", ntasks=2, het_group=1),
        job(10, 60, "2", ntasks=3, het_group=1),
        job(20, 30, "1", ntasks=1),
        job(60, 60, "2", nodes="1", het_group=2),
        job(60, 60, "2", nodes="2", het_group=2),
    ]
    doubling = [job(1 + 0.5 * i, 60 + 37 * i, str(2 + i), ntasks=1) for i in range(8)] + [
        job(10, 30, "3", ntasks=8),
        job(12, 30, "1", ntasks=4),
    ]
    return [
        probe("bf-cadence", "cycles bf_interval after the end of the last, only when something changed", ["2.1 bf_interval", "2.2 Cycle timing"], cluster(1, 4), [job(1, 20), job(95, 20), job(260, 20), job(263, 100, ntasks=4), job(266, 20, ntasks=2), job(380, 10)]),
        probe("bf-basic", "a later job may start if it delays no reservation", ["2.2 Kind of backfill", "2.2 If start<=now", "2.2 Else", "2.2 Map", "2.2 Job length"], cluster(1, 4), base),
        probe("bf-resolution", "reservations begin at floor(start) in bf_resolution units", ["2.1 bf_resolution", "2.2 Map", "2.2 Else"], cluster(1, 4, SchedulerParameters="bf_resolution=300,bf_interval=10"), base),
        probe("bf-window", "no reservation beyond bf_window", ["2.1 bf_window", "2.2 Else"], cluster(1, 4, SchedulerParameters="bf_window=2,bf_interval=10"), base),
        probe("bf-max-test", "bf_max_job_test ends a cycle", ["2.1 bf_max_job_test", "2.2 Ends when"], cluster(1, 4, SchedulerParameters="bf_max_job_test=4,bf_interval=10"), queue),
        probe("bf-max-start", "bf_max_job_start ends a cycle", ["2.1 bf_max_job_start / _part / _user / _user_part / _assoc", "2.2 Ends when"], cluster(4, 4, SchedulerParameters="bf_max_job_start=2,bf_interval=20,sched_interval=600,default_queue_depth=1"), many),
        probe("bf-max-user", "bf_max_job_user", ["2.1 bf_max_job_start / _part / _user / _user_part / _assoc"], cluster(4, 4, SchedulerParameters="bf_max_job_user=4,bf_interval=20"), many),
        probe("bf-job-part-reserve", "bf_job_part_count_reserve: only the first jobs get reservations", ["2.1 bf_job_part_count_reserve, bf_min_age_reserve, bf_min_prio_reserve"], cluster(1, 4, SchedulerParameters="bf_job_part_count_reserve=1,bf_interval=10"), base),
        probe("bf-min-age", "bf_min_age_reserve: young jobs reserve nothing and close nothing", ["2.1 bf_job_part_count_reserve, bf_min_age_reserve, bf_min_prio_reserve", "1.2 What does not close a partition"], cluster(1, 4, SchedulerParameters="bf_min_age_reserve=120,bf_interval=10"), base),
        probe("bf-whole-nodes", "the map holds whole nodes: a free core of a reserved node is not free", ["2.2 Map", "2.2 Kind of backfill"], cluster(4, 4, SchedulerParameters="bf_interval=10"), small),
        probe("bf-running-reserve", "bf_running_job_reserve and bf_one_resv_per_job", ["2.1 bf_window_linear", "2.1 bf_one_resv_per_job, bf_busy_nodes, bf_running_job_reserve, bf_licenses, bf_hetjob_immediate, bf_hetjob_prio"], cluster(4, 4, SchedulerParameters="bf_running_job_reserve,bf_one_resv_per_job,bf_interval=10"), small),
        probe("bf-expected-start", "expected starts lose precision: the window doubles", ["2.2 Expected start", "2.2 Precision loss", "2.2 Expected StartTime field"], cluster(2, 4, SchedulerParameters="bf_interval=10"), doubling),
        probe("bf-linear", "bf_window_linear steps evenly", ["2.1 bf_window_linear", "2.2 Precision loss"], cluster(2, 4, SchedulerParameters="bf_window_linear=30,bf_interval=10"), doubling),
        probe("bf-continue", "bf_continue and short yields", ["2.1 bf_continue", "2.2 With bf_continue"], cluster(4, 4, SchedulerParameters="bf_continue,bf_interval=15,bf_yield_interval=200000"), many),
        probe("time-min", "--time-min: started short, stretched as far as the map allows", ["2.2 Job length", "2.2 Queue"], cluster(1, 4, SchedulerParameters="bf_interval=10"), timemin),
        probe("het-jobs", "heterogeneous jobs start from backfill only", ["9 Hetjobs", "1.2 Pending hetjob"], cluster(4, 4), het),
        probe("array-reserve", "bf_max_job_array_resv", ["2.1 bf_max_job_array_resv", "9 Job arrays", "1.2 Array"], cluster(2, 4, SchedulerParameters="bf_max_job_array_resv=2,bf_interval=10"), [job(1, 150, "3", ntasks=7), job(4, 40, "1", ntasks=4, array="0-5"), job(8, 30, "1", ntasks=1), job(10, 20, "1", ntasks=1, array="1-6%2")]),
    ]  # fmt: skip


def priorities() -> list[Document]:
    """Probes of priority and limits (3.1)."""

    def multifactor(**weights: Any) -> Document:
        options: Document = {
            "PriorityType": "priority/multifactor",
            "PriorityMaxAge": "00:10:00",
            "PriorityCalcPeriod": "00:01:00",
        }
        return cluster(1, 4, **options | weights)

    mixed = [job(1, 300, "6", ntasks=4)] + [job(5 + 3 * i, 20, str(1 + i % 3), ntasks=1 + i % 4) for i in range(8)]
    nice = [
        job(1, 60, "2", ntasks=4),
        job(5, 20, ntasks=4, nice=100),
        job(6, 20, ntasks=4),
        job(7, 20, ntasks=4, nice=50),
        job(8, 20, ntasks=4, nice=-10),
    ]
    parts = multifactor(PriorityWeightPartition=1000)
    base = {"Nodes": "n1", "MaxTime": "60", "State": "UP"}
    parts["partitions"] = [
        {"PartitionName": "a", "Default": "YES", "PriorityJobFactor": 10, **base},
        {"PartitionName": "b", "PriorityJobFactor": 40, **base},
    ]
    tres = multifactor(PriorityWeightTRES="CPU=1000,Mem=500")
    tres["conf"]["SelectTypeParameters"] = "CR_Core_Memory"
    tres["conf"]["DefMemPerCPU"] = 500
    users = [job(1, 200, "5", ntasks=4, user="ann", account="physics")]
    users += [
        job(5 + 2 * i, 30, "1", ntasks=4, user=u, account=a)
        for i, (u, a) in enumerate(
            [
                ("ann", "physics"),
                ("bob", "physics"),
                ("cyd", "biology"),
                ("ann", "physics"),
                ("dan", "biology"),
                ("bob", "physics"),
            ]
        )
    ]
    share = multifactor(
        PriorityWeightFairshare=100000,
        PriorityDecayHalfLife="00:05:00",
        AccountingStorageEnforce="associations",
        AccountingStorageType="accounting_storage/slurmdbd",
    )
    share["accounting"] = list(ACCOUNTS)
    classic = {**share, "conf": share["conf"] | {"PriorityFlags": "NO_FAIR_TREE"}}
    limits = multifactor(
        PriorityWeightQOS=1000,
        AccountingStorageEnforce="associations,limits,qos",
        AccountingStorageType="accounting_storage/slurmdbd",
    )
    limits["accounting"] = [
        "add qos high Priority=100",
        "add qos one MaxJobsPerUser=1",
        *ACCOUNTS,
        "modify account physics set QOS=normal,high,one",
        "modify account biology set QOS=normal,high,one",
        "modify user ann set MaxJobs=1",
        "modify account biology set GrpTRES=cpu=2",
    ]
    limited = [
        job(1, 40, ntasks=1, user="ann", account="physics"), job(2, 40, ntasks=1, user="ann", account="physics"),
        job(3, 40, ntasks=1, user="cyd", account="biology"), job(4, 40, ntasks=2, user="dan", account="biology"), job(5, 20, ntasks=1, user="dan", account="biology"),
        job(6, 40, ntasks=1, user="bob", account="physics", qos="one"), job(7, 40, ntasks=1, user="bob", account="physics", qos="one"),
        job(8, 60, ntasks=4, user="bob", account="physics"), job(9, 60, ntasks=4, user="bob", account="physics", qos="high"),
    ]  # fmt: skip
    stop = {**limits, "conf": limits["conf"] | {"SchedulerParameters": "assoc_limit_stop"}}
    return [
        probe("priority-age", "age grows only at recalculations", ["3.1 A age", "3.1 Recalculation", "0 PriorityType default"], multifactor(PriorityWeightAge=1000, PriorityWeightJobSize=1500), mixed),
        probe("priority-size", "job size, favouring large", ["3.1 J job size (favour large)"], multifactor(PriorityWeightJobSize=10000), mixed),
        probe("priority-size-small", "job size, favouring small", ["3.1 J job size (favour large)"], multifactor(PriorityWeightJobSize=10000, PriorityFavorSmall="YES"), mixed),
        probe("priority-relative", "SMALL_RELATIVE_TO_TIME", ["3.1 J job size (favour large)"], multifactor(PriorityWeightJobSize=10000, PriorityFlags="SMALL_RELATIVE_TO_TIME"), mixed),
        probe("priority-none", "all weights zero: submit time decides", ["3.1 priority/basic", "0 PriorityType default"], multifactor(), mixed),
        probe("priority-nice", "nice under priority/basic", ["3.1 priority/basic", "1.2 Order"], cluster(1, 4), nice),
        probe("priority-nice-multifactor", "nice under multifactor", ["3.1 P, Q, S"], multifactor(PriorityWeightAge=1000), nice),
        probe("priority-partition", "partition factor", ["3.1 P, Q, S", "3.1 Multi-partition"], parts, [job(1, 60, "2", ntasks=4), job(5, 20, ntasks=4, partition="a"), job(6, 20, ntasks=4, partition="b"), job(7, 20, ntasks=4, partition="a,b")]),
        probe("priority-tres", "TRES weights", ["3.1 T"], tres, mixed),
        probe("fair-tree", "fair tree with usage and decay", ["3.1 F fair tree (default)", "3.1 Usage", "3.1 Decay", "3.1 needs accounting"], share, users),
        probe("fair-classic", "classic fair share", ["3.1 F classic", "3.1 Decay"], classic, users),
        probe("limits", "association and QOS limits are skipped in the main pass", ["1.2 What does not close a partition", "3.1 P, Q, S"], limits, limited),
        probe("limit-stop", "assoc_limit_stop", ["1.2 What does not close a partition"], stop, limited),
    ]  # fmt: skip


def preemptions() -> list[Document]:
    """Probes of preemption (3.2)."""

    def tiers(mode: str, low: Document | None = None, **conf: Any) -> Document:
        slurm = cluster(3, 4, PreemptType="preempt/partition_prio", PreemptMode=mode, **conf)
        base = {"Nodes": "n[1-3]", "MaxTime": "60", "State": "UP"}
        if "GANG" in mode:
            base["OverSubscribe"] = "FORCE:1"
        slurm["partitions"] = [
            {"PartitionName": "low", "Default": "YES", "PriorityTier": 1, **base, **(low or {})},
            {"PartitionName": "high", "PriorityTier": 10, **base},
        ]
        return slurm

    jobs = [
        job(1, 200, ntasks=4),
        job(3, 200, ntasks=2),
        job(5, 200, ntasks=2),
        job(8, 200, ntasks=3),
        job(40, 60, ntasks=4, partition="high"),
        job(120, 40, ntasks=8, partition="high"),
        job(125, 30, ntasks=1),
    ]
    stay = [dict(j) for j in jobs]
    stay[1]["requeue"] = False
    qos = cluster(
        2,
        4,
        PreemptType="preempt/qos",
        PreemptMode="REQUEUE",
        PriorityType="priority/multifactor",
        PriorityWeightQOS=1000,
        AccountingStorageType="accounting_storage/slurmdbd",
        AccountingStorageEnforce="associations,qos",
    )
    qos["accounting"] = [
        "add qos low Priority=1",
        "add qos high Priority=100 Preempt=low,normal",
        *ACCOUNTS,
        "modify account physics set QOS=normal,low,high",
    ]
    who = {"user": "ann", "account": "physics"}
    qjobs = [
        job(1, 150, ntasks=4, qos="low", **who),
        job(3, 150, ntasks=2, qos="normal", **who),
        job(4, 150, ntasks=2, qos="low", **who),
        job(30, 60, ntasks=4, qos="high", **who),
        job(60, 60, ntasks=3, qos="high", **who),
    ]
    return [
        probe("preempt-requeue", "victims are requeued with the hold", ["3.2 PreemptType", "3.2 PreemptMode", "3.2 Victim order", "3.2 Timing", "3.2 Requeued victim", "4.6 Requeue delay"], tiers("REQUEUE"), stay),
        probe("preempt-cancel", "victims are cancelled", ["3.2 PreemptMode"], tiers("CANCEL"), jobs),
        probe("preempt-grace", "GraceTime", ["3.2 GraceTime", "3.2 Timing"], tiers("CANCEL", {"GraceTime": 40}), jobs),
        probe("preempt-suspend", "suspend and resume by gang", ["3.2 PreemptMode", "3.2 Gang"], tiers("SUSPEND,GANG"), jobs),
        probe("preempt-exempt", "PreemptExemptTime", ["3.2 PreemptExemptTime"], tiers("REQUEUE", PreemptExemptTime="00:01:30"), jobs),
        probe("preempt-youngest", "preempt_youngest_first", ["3.2 Victim order"], tiers("REQUEUE", SchedulerParameters="preempt_youngest_first"), jobs),
        probe("preempt-qos", "preemption by QOS", ["3.2 PreemptType", "3.2 Victim order"], qos, qjobs),
    ]  # fmt: skip


def nodes_and_daemons() -> list[Document]:
    """Probes of node states, registration, requeue and daemons (section 4)."""
    long = [
        job(2, 2000, "60", ntasks=2, nodelist="n1"),
        job(3, 2000, "60", ntasks=2, nodelist="n2", requeue=False),
        job(4, 900, "60", ntasks=4, nodelist="n3"),
    ]
    ghosts = [
        job(20, 60, "4", ntasks=4, nodelist="n1"),
        job(25, 60, "4", ntasks=4, nodelist="n2"),
        job(70, 30, "1", ntasks=4, nodelist="n1"),
    ]
    limits = [job(3 + 7.3 * i, 600, "1", ntasks=1) for i in range(8)] + [
        job(90, 20, "1", ntasks=1, exit_code=4),
        job(95, 40, "2", ntasks=1, signal="B:USR1@80"),
    ]
    admin = [
        job(2, 100, ntasks=2),
        job(3, 100, ntasks=2, hold=True),
        job(4, 60, ntasks=1, begin="90s"),
        job(5, 400, "10", ntasks=2),
        job(6, 50, "1", ntasks=2, deadline="80s"),
        job(8, 300, ntasks=4),
        job(9, 60, ntasks=4),
        job(10, 60, ntasks=1),
    ]
    admin_faults = [
        {"at": "30s", "kind": "job.release", "job": 2}, {"at": "40s", "kind": "job.hold", "job": 7}, {"at": "60s", "kind": "job.requeue", "job": 4},
        {"at": "70s", "kind": "job.cancel", "job": 6}, {"at": "80s", "kind": "job.release", "job": 7}, {"at": "100s", "kind": "job.update", "job": 8, "set": {"TimeLimit": "1"}},
        {"at": "210s", "kind": "job.requeuehold", "job": 4}, {"at": "230s", "kind": "job.release", "job": 4},
    ]  # fmt: skip
    suspend = [job(2, 60, "2", ntasks=4), job(5, 40, "2", ntasks=2), job(6, 40, "2", ntasks=2)]
    states = [
        job(2, 120, ntasks=4, nodelist="n1"),
        job(3, 120, ntasks=4, nodelist="n2"),
        job(4, 120, nodes="2", nodelist="n[3-4]", no_kill=True),
        job(50, 30, nodes="4"),
        job(60, 40, ntasks=4, requeue=False, nodelist="n5"),
    ]
    return [
        probe("ping-healthy", "pings and registrations of a healthy idle cluster over 45 minutes", ["4.2 Tick", "4.2 Registration request instead of ping", "4.2 Ping sent if", "4.2 Skipped nodes", "0 MIN_CHECKIN_TIME"], cluster(4, 4), [job(2690, 5)], budget={"max_time": "2720s"}),
        probe("down-default", "slurmd dies with the default SlurmdTimeout: *, then DOWN; ReturnToService=1", ["4.2 DOWN test (runs first)", "4.2 Failed ping", "4.2 Crash to \"*\"", "4.2 Crash to DOWN", "4.2 DOWN and NO_RESPOND nodes", "4.3 DOWN returns to service if", "4.5 batch and Requeue=1 (JobRequeue default 1)", "4.5 otherwise (salloc, --no-requeue)", "12 S2"], cluster(4, 4), [*long, job(1250, 5)], faults=[fault("50s", "slurmd.kill_group", "n[1-2]"), fault("60s", "slurmd.kill", "n4"), fault("900s", "slurmd.start", "n[1-2],n4")], budget={"max_time": "1300s"}),
        probe("down-rts0", "the same with ReturnToService=0 and a resume by hand", ["4.3 DOWN returns to service if", "4.1 RESUME of a DOWN/FUTURE/DRAIN node, or UNDRAIN", "4.2 Scale", "4.2 Extra ticks"], cluster(3, 4, SlurmdTimeout=60, ReturnToService=0), [job(2, 100, nodelist="n1"), job(600, 5)], faults=[fault("40s", "slurmd.kill_group", "n1"), fault("300s", "slurmd.start", "n1"), fault("400s", "node.update", "n1", state="RESUME")], budget={"max_time": "640s"}),
        probe("down-rts2", "ReturnToService=2", ["4.3 DOWN returns to service if"], cluster(3, 4, SlurmdTimeout=60, ReturnToService=2), [job(2, 100, nodelist="n1"), job(500, 5)], faults=[fault("40s", "slurmd.kill_group", "n1"), fault("300s", "slurmd.start", "n1"), fault("350s", "node.update", "n2", state="DOWN", reason="test"), fault("400s", "slurmd.stop", "n2"), fault("410s", "slurmd.start", "n2")], budget={"max_time": "540s"}),
        probe("frozen", "slurmd hangs: connects succeed, nothing answers; it wakes before and after DOWN", ["4.2 Failed ping", "4.3 Healed partition", "4.3 ReturnToService=1 extra"], cluster(3, 4, SlurmdTimeout=60), [job(2, 30), job(580, 5)], faults=[fault("50s", "slurmd.freeze", "n1"), fault("52s", "slurmd.freeze", "n2"), fault("90s", "slurmd.thaw", "n1"), fault("300s", "slurmd.thaw", "n2")], budget={"max_time": "620s"}),
        probe("ghost", "a node's container dies and returns at once: job younger than 20 s becomes a ghost, older one is requeued", ["4.4 nothing / same but younger than 20 s", "4.4 nothing / batch job RUNNING", "4.6 slurmd restart, pod", "12 S1", "12 S1b"], cluster(2, 4), ghosts, faults=[fault("28s", "slurmd.kill_group", "n1"), fault("31s", "slurmd.start", "n1"), fault("60s", "slurmd.kill_group", "n2"), fault("63s", "slurmd.start", "n2")]),
        probe("ghost-no-requeue", "the same with --no-requeue", ["12 S1c", "4.5 otherwise (salloc, --no-requeue)"], cluster(1, 4), [job(5, 200, "6", ntasks=4, requeue=False), job(50, 20)], faults=[fault("40s", "slurmd.kill_group", "n1"), fault("43s", "slurmd.start", "n1")]),
        probe("slurmd-restart", "slurmd alone is killed and restarted: steps go on", ["4.6 slurmd restart, bare metal", "4.4 step / RUNNING/SUSPENDED on this node", "7 slurmd process alone killed, container lives"], cluster(2, 4), [job(5, 90, nodelist="n1"), job(6, 30, nodelist="n2"), job(60, 30, nodelist="n2")], faults=[fault("15s", "slurmd.kill", "n[1-2]"), fault("50s", "slurmd.start", "n[1-2]")]),
        probe("launch-retry", "launch to a node whose slurmd is gone: retry, * and requeue", ["4.2 RPC connect retry", "4.6 Launch RPC not delivered", "4.2 Crash to \"*\""], cluster(2, 4, SlurmdTimeout=300), [job(20, 30, nodes="1", nodelist="n1"), job(60, 30, nodes="2"), job(140, 20, nodes="1", nodelist="n2")], faults=[fault("15s", "slurmd.kill", "n1"), fault("25s", "slurmd.start", "n1"), fault("50s", "slurmd.kill", "n2"), fault("130s", "slurmd.start", "n2")]),
        probe("time-limits", "limits are scanned each 30 s; KillWait; signals; failed jobs", ["4.6 Time limit", "0 PERIODIC_TIMEOUT", "9 Job arrays"], cluster(4, 4), limits),
        probe("over-time-limit", "OverTimeLimit and a short KillWait", ["4.6 Time limit"], cluster(4, 4, OverTimeLimit=1, KillWait=5), [job(3 + 9.1 * i, 400, "1") for i in range(4)]),
        probe("admin", "hold, release, begin, deadline, requeue, cancel, update", ["4.6 Requeue delay", "1.2 Queue build", "1.1 Events that only queue"], cluster(2, 4), admin, faults=admin_faults),
        probe("suspend", "scontrol suspend and resume", ["1.1 Events that only queue"], cluster(1, 4), suspend, faults=[{"at": "20s", "kind": "job.suspend", "job": 1}, {"at": "80s", "kind": "job.resume", "job": 1}]),
        probe("node-states", "DRAIN, DOWN, RESUME, FAIL by hand, with --no-kill", ["4.1 scontrol update state=", "4.1 Schedulable", "4.5 --no-kill and >1 node", "4.1 RESUME of a DOWN/FUTURE/DRAIN node, or UNDRAIN", "1.2 Too few up nodes"], cluster(5, 4), states, faults=[fault("20s", "node.update", "n1", state="DRAIN", reason="t"), fault("30s", "node.update", "n2", state="DOWN", reason="t"), fault("40s", "node.update", "n4", state="DOWN", reason="t"), fault("80s", "node.update", "n5", state="FAIL", reason="t"), fault("150s", "node.update", "n1", state="RESUME"), fault("160s", "node.update", "n[2,4-5]", state="RESUME")]),
        probe("prolog-fails", "a failing Prolog drains the node and holds the job", ["4.6 Prolog fails"], cluster(2, 4, Prolog="/bin/false"), [job(5, 20), job(40, 20)], budget={"max_time": "200s"}),
        probe("epilog-fails", "a failing Epilog drains the node", ["4.6 Epilog fails", "1.1 Immediate pass"], cluster(3, 4, Epilog="/bin/false"), [job(5, 20, ntasks=4), job(6, 40, ntasks=4), job(8, 20, ntasks=12)], budget={"max_time": "200s"}),
        probe("epilog-pass", "with an Epilog the last message starts a pass at once", ["1.1 Immediate pass", "4.6 Epilog message"], cluster(1, 4, Epilog="/bin/true"), [job(2 + 3 * i, 25, ntasks=4) for i in range(8)]),
        probe("no-epilog-pass", "without an Epilog the end of a job only queues a pass", ["1.1 Job with no Epilog and no live step"], cluster(1, 4), [job(2 + 3 * i, 25, ntasks=4) for i in range(8)]),
        probe("min-job-age", "MinJobAge and the purge", ["4.6 MinJobAge", "0 PURGE_JOB_INTERVAL"], cluster(2, 4, MinJobAge=30), [job(2 + 11 * i, 10) for i in range(8)] + [job(240, 5)]),
        probe("licenses", "licences block a job, not its partition", ["9 Licences", "1.2 What does not close a partition"], cluster(2, 4, Licenses="matlab:2"), [job(1, 60, licenses="matlab:2"), job(3, 60, licenses="matlab:1"), job(5, 30), job(7, 60, licenses="matlab:1")]),
        probe("reservations", "reservations: named use, and no overlap in time", ["9 Reservations", "1.2 What does not close a partition"], cluster(2, 4), [job(5, 100, "2", nodes="2"), job(15, 60, "5", nodes="1"), job(20, 60, "1", ntasks=1), job(25, 40, "1", ntasks=4, reservation="res")], faults=[{"at": "2s", "kind": "reservation.create", "name": "res", "start": "120s", "duration": "180s", "nodes": "n1"}]),
        probe("requeue-loop", "a job that is requeued again and again", ["4.6 Requeue delay", "0 Max automatic requeues"], cluster(1, 4), [job(2, 4000, "60", ntasks=1)], faults=[{"at": f"{30 + 160 * i}s", "kind": "job.requeue", "job": 1} for i in range(3)], budget={"max_time": "520s"}),
        probe("requeue-fail-loop", "node failures requeue a job until it is held", ["0 Max automatic requeues", "4.5 batch and Requeue=1 (JobRequeue default 1)"], cluster(2, 4), [job(2, 4000, "60", ntasks=1, nodelist="n1")], faults=[f for i in range(7) for f in (fault(f"{40 + 190 * i}s", "node.update", "n1", state="DOWN", reason="t"), fault(f"{45 + 190 * i}s", "node.update", "n1", state="RESUME"))], budget={"max_time": "1500s"}),
        probe("power-save", "idle nodes are suspended and resumed for a job", ["9 Suspend", "9 Resume", "9 Cadence"], cluster(3, 4, SuspendTime=60, SuspendProgram="/bin/true", ResumeProgram="/bin/true", SuspendTimeout=20, ResumeTimeout=90), [job(5, 20, nodes="3"), job(250, 30, nodes="1")], faults=[fault("262s", "slurmd.stop", "n[1-3]"), fault("266s", "slurmd.start", "n[1-3]")], budget={"max_time": "700s"}),
    ]  # fmt: skip


def controllers() -> list[Document]:
    """Probes of slurmctld's crash, restart, state and backup (sections 5 and 6)."""
    stream = [job(2 + 6 * i, 50, "2", ntasks=2) for i in range(20)]
    ends = [job(5, 60, "4", ntasks=2), job(8, 100, "4", ntasks=2), job(10, 300, "8", ntasks=2)]
    two = cluster(2, 4, SlurmctldHost="ctl1,ctl2")
    fast = cluster(2, 4, SlurmctldHost="ctl1,ctl2", SlurmctldTimeout=60)
    return [
        probe("ctld-stop", "clean stop and restart after 40 s; jobs end meanwhile", ["5.3 SIGTERM", "5.2 default (-r)", "12 S5", "12 S10", "4.6 stepd completion message"], cluster(2, 4), ends, faults=[fault("40s", "slurmctld.stop"), fault("80s", "slurmctld.start")]),
        probe("ctld-kill-submit", "SIGKILL right after a submit and a start: what is lost", ["5.3 Cadence", "5.3 SIGKILL, lost submit", "5.3 SIGKILL, lost start", "5.2 Job ids", "12 S6"], cluster(2, 4), [job(5, 200, "6", ntasks=2), job(30, 60, "3", ntasks=2), job(33, 60, "3", ntasks=1), job(34.2, 60, "3", ntasks=1), job(70, 30, "2", ntasks=1)], faults=[fault("35.5s", "slurmctld.kill"), fault("50s", "slurmctld.start")]),
        probe("ctld-kill-end", "SIGKILL right after completions: ghosts", ["5.3 SIGKILL, lost completion", "5.3 Order vs reply", "4.4 time_last_active at load"], cluster(2, 4), [job(5, 40, "4", ntasks=2), job(6, 41, "4", ntasks=2), job(60, 30, "2", ntasks=6)], faults=[fault("49s", "slurmctld.kill"), fault("55s", "slurmctld.start")]),
        probe("ctld-kill", "SIGKILL in the middle of a queue", ["12 S6", "5.3 Cadence"], cluster(2, 4), stream, faults=[fault("63s", "slurmctld.kill"), fault("75s", "slurmctld.start")]),
        probe("ctld-state-lost", "the state directory is lost: running steps are orphans, ids restart", ["5.2 job_state missing", "4.4 step / job unknown", "12 S8", "5.2 Job ids"], cluster(2, 4), [job(5, 300, "8", ntasks=2), job(8, 300, "8", ntasks=2), job(90, 30, ntasks=1)], faults=[fault("40s", "slurmctld.stop"), fault("42s", "slurmctld.lose_state"), fault("45s", "slurmctld.start")]),
        probe("ctld-node-dies", "a node dies while slurmctld is down", ["4.2 Controller was down meanwhile"], cluster(2, 4, SlurmdTimeout=60), [job(5, 30), job(10, 300, "8", ntasks=4, nodelist="n2")], faults=[fault("40s", "slurmctld.stop"), fault("45s", "slurmd.kill_group", "n2"), fault("60s", "slurmctld.start")], budget={"max_time": "400s"}),
        probe("backup-takeover", "the primary is killed; the backup takes over; the primary returns", ["5.1 Heartbeat", "5.1 Backup poll", "5.1 Takeover test", "5.1 Crash -> takeover", "5.1 Then", "5.1 Primary returns", "12 S7"], two, [job(5, 60, ntasks=2), job(8, 400, "10", ntasks=2), job(330, 30), job(500, 20)], faults=[fault("50s", "slurmctld.kill", "ctl1"), fault("420s", "slurmctld.start", "ctl1")], budget={"max_time": "640s"}),
        probe("backup-clean-stop", "a clean stop does not hand over", ["5.1 Clean stop of the primary", "5.1 24.05+/26.05 guards"], fast, [job(5, 30), job(250, 20)], faults=[fault("40s", "slurmctld.stop", "ctl1")], budget={"max_time": "300s"}),
        probe("backup-scontrol", "scontrol takeover", ["5.1 Clean stop of the primary"], fast, [job(5, 30), job(120, 20)], faults=[fault("40s", "slurmctld.takeover")], budget={"max_time": "200s"}),
        probe("reconfigure", "scontrol reconfigure under load", ["4.7 Reconfigure (23.11+)"], cluster(2, 4), stream, faults=[fault("33s", "slurmctld.reconfigure"), fault("100s", "slurmctld.reconfigure")]),
        probe("dbd-outage", "slurmdbd is away: scheduling goes on", ["6 Scheduling", "6 Queue"], {**cluster(2, 4, AccountingStorageType="accounting_storage/slurmdbd", AccountingStorageEnforce="associations"), "accounting": list(ACCOUNTS)}, [j | {"user": "ann", "account": "physics"} for j in stream], faults=[fault("30s", "slurmdbd.stop"), fault("110s", "slurmdbd.start")]),
        probe("kill-invalid-depend", "dependencies of each kind", ["9 Dependencies"], cluster(2, 4), [job(1, 30), job(2, 30, exit_code=2), job(3, 20, dependency="afterok:1"), job(4, 20, dependency="afterok:2"), job(5, 20, dependency="afternotok:2"), job(6, 20, dependency="afterany:1:2"), job(7, 20, dependency="after:1"), job(8, 20, name="s", dependency="singleton"), job(9, 20, name="s", dependency="singleton"), job(10, 15, array="0-2"), job(11, 15, array="0-2", dependency="aftercorr:10"), job(12, 10, dependency="afterany:10")], budget={"max_time": "300s"}),
    ]  # fmt: skip


def main() -> None:
    """Write all of them."""
    folder = Path(sys.argv[1])
    for group in (
        main_pass(),
        node_choice(),
        backfill(),
        priorities(),
        preemptions(),
        nodes_and_daemons(),
        controllers(),
    ):
        for document in group:
            write(folder, document)


if __name__ == "__main__":
    main()
