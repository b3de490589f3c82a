"""Who has to go so that a job can start (slurm.md 3.2)."""

import pytest
from selection_bench import CORES, Bench

TIERS = CORES + (
    "NodeName=n[0-3] CPUs=2 CoresPerSocket=2\nPreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n"
    "PartitionName=low Nodes=ALL Default=YES PriorityTier=1\nPartitionName=mid Nodes=ALL PriorityTier=2\n"
    "PartitionName=high Nodes=ALL PriorityTier=3\n"
)


def _victims(bench, **options):
    found = bench.place(bench.job(**options))
    return [job.id for job in found.victims], bench.ctld.nodes.hostlist(found.allocation.nodes)


def test_a_higher_tier_takes_from_lower_ones_and_the_lowest_first():
    """slurm.md 3.2 "PreemptType"; slurm.md 3.2 "Victim order": low tier before middle tier."""
    bench = Bench(TIERS)
    for index, partition in enumerate(("mid", "low", "mid", "mid")):
        bench.start(partition=partition, nodelist=f"n{index}", ntasks=2)
    assert _victims(bench, partition="high", ntasks=2, nodes_min=1) == ([2], "n1")


def test_small_jobs_go_before_large_ones_of_the_same_tier():
    """slurm.md 3.2 "Victim order": ascending by tier, then by node count."""
    bench = Bench(TIERS)
    bench.start(partition="low", nodes_min=3, ntasks=6)
    bench.start(partition="low", nodelist="n3", ntasks=2)
    assert _victims(bench, partition="high", ntasks=2, nodes_min=1) == ([2], "n3")


def test_the_youngest_first_when_so_set():
    """slurm.md 3.2 "Victim order": preempt_youngest_first sorts by latest start."""
    bench = Bench(TIERS + "SchedulerParameters=preempt_youngest_first\n")
    for index in range(4):
        bench.start(partition="low", nodelist=f"n{index}", ntasks=2)
        bench.now_s += 1
    assert _victims(bench, partition="high", ntasks=2, nodes_min=1) == ([4], "n3")


@pytest.mark.parametrize("parameters", ["", "SchedulerParameters=preempt_reorder_count=0\n"])
def test_the_reordered_list_needs_fewer_victims(parameters):
    """slurm.md 3.2 "Victim order": the job that made room comes first in the second round; a count of 0 has it too."""
    bench = Bench(TIERS.replace("n[0-3] CPUs=2 CoresPerSocket=2", "n0 CPUs=3 CoresPerSocket=3") + parameters)
    bench.start(partition="low", ntasks=1)
    bench.start(partition="mid", ntasks=2)
    assert _victims(bench, partition="high", ntasks=2, nodes_min=1) == ([2], "n0")


def test_equal_tiers_do_not_preempt():
    """slurm.md 3.2 "PreemptType": only a strictly higher PriorityTier may."""
    bench = Bench(TIERS)
    for index in range(4):
        bench.start(partition="high", nodelist=f"n{index}", ntasks=2)
    assert bench.place(bench.job(partition="high", ntasks=1)).kind == "busy"


def test_a_partition_with_preempt_mode_off_is_safe():
    """slurm.md 3.2 "PreemptMode": OFF in the victim's partition."""
    bench = Bench(TIERS.replace("low Nodes=ALL", "low Nodes=ALL PreemptMode=OFF"))
    for index in range(4):
        bench.start(partition="low", nodelist=f"n{index}", ntasks=2)
    assert bench.place(bench.job(partition="high", ntasks=1)).kind == "busy"


def test_young_victims_are_exempt():
    """slurm.md 3.2 "PreemptExemptTime": minimum run time before a job can be a victim."""
    bench = Bench(TIERS + "PreemptExemptTime=00:05:00\n")
    for index in range(4):
        bench.start(partition="low", nodelist=f"n{index}", ntasks=2)
    bench.now_s += 299
    assert bench.place(bench.job(partition="high", ntasks=1)).kind == "busy"
    bench.now_s += 1
    assert _victims(bench, partition="high", ntasks=1, nodes_min=1) == ([1], "n0")


def test_backfill_is_told_now_when_victims_would_make_room():
    """slurm.md 2.2 "Expected start": with all preemptable jobs gone the answer is now."""
    bench = Bench(TIERS)
    for index in range(4):
        bench.start(partition="low", nodelist=f"n{index}", ntasks=2)
    assert bench.will(partition="high", nodes_min=2) == (0, "n[0-1]")
    assert bench.will(partition="low", nodes_min=2) == (600, "n[0-1]")


def test_suspended_jobs_keep_memory_but_not_cores():
    """select/cons_tres job_res_rm_job(): a suspended job's cores are free, its memory is not."""
    bench = Bench(
        "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\n"
        "NodeName=n0 CPUs=2 CoresPerSocket=2 RealMemory=1000\n"
    )
    job = bench.start(ntasks=2, mem_per_node_mib=600)
    bench.selection.suspend(job)
    assert bench.nodes(ntasks=2, mem_per_node_mib=500) == "busy"
    second = bench.start(ntasks=2, mem_per_node_mib=400)
    bench.end(second)
    bench.selection.resume(job)
    assert bench.nodes(ntasks=1, mem_per_node_mib=100) == "busy"
