"""Which nodes and cores a job gets, worked by hand from slurm.md 1.3 and cons_tres/job_test.c."""

import pytest
from selection_bench import CORES, Bench

FOUR = CORES + "NodeName=n[0-7] CPUs=4 CoresPerSocket=4 RealMemory=8000\n"
VERSIONS = pytest.mark.parametrize("version", ["22.05", "24.11", "26.05"])


@VERSIONS
def test_a_job_fills_the_run_that_suffices_with_fewest_cpus(version):
    """slurm.md 1.3 "cons_tres default placement": of two runs that suffice the tighter one is taken."""
    bench = Bench(FOUR, version)
    bench.start(nodelist="n2", exclusive="node")
    # runs: n0-n1 (8 CPUs), n3-n7 (20 CPUs)
    assert bench.nodes(nodes_min=2) == "n[0-1]"


@VERSIONS
def test_without_a_sufficient_run_the_largest_is_used_first(version):
    """slurm.md 1.3 "cons_tres default placement": nothing suffices, so most CPUs first, then what completes it."""
    bench = Bench(FOUR, version)
    bench.start(nodelist="n2", exclusive="node")
    # n3-n7 holds five of the seven wanted; the rest comes from n0-n1
    assert bench.nodes(nodes_min=6) == "n[0,3-7]"


@VERSIONS
def test_a_job_without_task_count_takes_the_node_with_fewest_free_cpus_that_fits(version):
    """slurm.md 1.3 "cons_tres default placement": inside a run the smallest sufficient node, then the first."""
    bench = Bench(FOUR, version)
    bench.start(nodelist="n3", ntasks=2)
    bench.start(nodelist="n5", ntasks=3)
    assert bench.nodes() == "n5"
    # n5 is full now and parts the runs: n6-n7 is tighter than n0-n4
    assert bench.nodes() == "n6"


def test_at_most_one_node_means_the_first_that_fits_since_26_05():
    """slurm.md 1.3 "cons_tres default placement": 26.05 has no best fit for a job that can use one node only."""
    assert [_one_task_beside_a_tighter_node(v) for v in ("22.05", "24.11", "26.05")] == ["n3", "n3", "n0"]


def _one_task_beside_a_tighter_node(version):
    bench = Bench(FOUR, version)
    bench.start(nodelist="n3", ntasks=3)
    return bench.nodes(nodes_min=1, ntasks=1)


@VERSIONS
def test_poor_nodes_are_dropped_when_the_first_choice_fails(version):
    """slurm.md 1.3 "If that fails": filling from n0 cannot give ten CPUs on three nodes, so poor nodes go."""
    bench = Bench(FOUR, version)
    for name in ("n1", "n2", "n4"):
        bench.start(nodelist=name, ntasks=3)
    assert bench.nodes(nodes_min=3, nodes_max=3, ntasks=10) == "n[5-7]"


@VERSIONS
def test_lower_weight_comes_first_and_weights_break_runs(version):
    """slurm.md 1.3 "Weight"; slurm.md 1.3 "select/cons_tres": one call, the plugin prefers lower weights itself."""
    text = CORES + (
        "NodeName=n[0-1] CPUs=4 CoresPerSocket=4 Weight=10\nNodeName=n[2-3] CPUs=4 CoresPerSocket=4 Weight=1\n"
        "NodeName=n[4-5] CPUs=4 CoresPerSocket=4 Weight=10\n"
    )
    bench = Bench(text, version)
    assert bench.nodes(cpus_per_task=4) == "n2"
    # one of weight 1 is left, then weight 10; n0-n1 and n4-n5 are equal runs, the first is taken
    assert bench.nodes(nodes_min=2, cpus_per_task=4) == "n[0,3]"


@VERSIONS
def test_ties_go_to_the_lower_table_index(version):
    """slurm.md 1.3 "Node order": equal nodes are used in the order of the node table."""
    bench = Bench(FOUR, version)
    assert [bench.nodes(exclusive="node") for _ in range(3)] == ["n0", "n1", "n2"]


@VERSIONS
def test_least_loaded_node_first(version):
    """slurm.md 1.3 "CR_LLN or partition LLN=YES": the highest share of free CPUs, not the best fit."""
    bench = Bench(FOUR + "PartitionName=main Nodes=ALL Default=YES LLN=YES\n", version)
    assert [bench.nodes(cpus_per_task=2) for _ in range(9)] == [*(f"n{i}" for i in range(8)), "n0"]
    assert bench.nodes(nodes_min=1, ntasks=1) == "n1"


@VERSIONS
def test_serial_jobs_go_to_the_end(version):
    """slurm.md 1.3 "pack_serial_at_end": one-CPU one-node jobs from the highest index."""
    bench = Bench(FOUR + "SchedulerParameters=pack_serial_at_end\n", version)
    assert [bench.nodes() for _ in range(5)] == ["n7"] * 4 + ["n6"]
    assert [bench.nodes(ntasks=1), bench.nodes(nodes_min=1, ntasks=1)] == ["n6", "n6"]


@VERSIONS
def test_spread_job_uses_as_many_nodes_as_it_has_tasks(version):
    """slurm.md 1.3 "--spread-job / bf_busy_nodes": one task per node."""
    assert Bench(FOUR, version).nodes(ntasks=5, spread=True) == "n[0-4]"


@VERSIONS
def test_contiguous_needs_one_run_that_holds_everything(version):
    """slurm.md 1.3 "cons_tres default placement": no hole is large enough, so the job waits."""
    bench = Bench(FOUR, version)
    bench.start(nodelist="n3", exclusive="node")
    assert bench.nodes(nodes_min=5, contiguous=True) == "busy"
    assert bench.nodes(nodes_min=4, contiguous=True) == "n[4-7]"


@VERSIONS
def test_required_nodes_come_first_and_the_run_around_them_next(version):
    """slurm.md 1.3 "cons_tres default placement": the run with the required node, upwards from it."""
    assert Bench(FOUR, version).nodes(nodes_min=3, nodelist="n4") == "n[4-6]"


def test_more_names_than_nodes_means_any_of_them_in_26_05():
    """job_mgr.c _job_create(): --nodelist with more nodes than wanted becomes an exclusion of all others."""
    assert Bench(FOUR).nodes(nodes_min=2, nodelist="n[3-6]") == "n[3-4]"


@VERSIONS
def test_excluded_nodes_are_never_used(version):
    """man sbatch --exclude: the job waits rather than use one of them."""
    bench = Bench(FOUR, version)
    assert bench.nodes(nodes_min=7, exclude="n[0-1]") == "never"
    assert bench.nodes(nodes_min=6, exclude="n[0-1]") == "n[2-7]"


@pytest.mark.parametrize(("unit", "left"), [("CR_CPU", "busy"), ("CR_Core", "busy"), ("CR_Socket", "busy")])
def test_the_unit_decides_what_one_task_takes(unit, left):
    """slurm.md 1.3 "CR_CPU / CR_Core / CR_Socket": a CPU, both threads of a core, or a whole socket."""
    node = "NodeName=n0 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2\n"
    text = f"SelectType=select/cons_tres\nSelectTypeParameters={unit}\n" + node
    bench = Bench(text)
    count = 0
    while bench.nodes(ntasks=1) == "n0":
        count += 1
    assert count == {"CR_CPU": 4, "CR_Core": 4, "CR_Socket": 2}[unit]
    assert bench.nodes(ntasks=1) == left


def test_cores_are_taken_round_the_sockets():
    """slurm.md 1.3 "Core choice in a node": cyclic by default, block with CR_CORE_DEFAULT_DIST_BLOCK."""
    node = "NodeName=n0 Sockets=2 CoresPerSocket=4\n"
    cyclic = Bench(CORES + node)
    block = Bench("SelectType=select/cons_tres\nSelectTypeParameters=CR_Core,CR_CORE_DEFAULT_DIST_BLOCK\n" + node)
    assert cyclic.cores(ntasks=3) == ["10011"]
    assert block.cores(ntasks=3) == ["111"]


def test_a_task_of_several_cpus_stays_on_one_socket():
    """slurm.md 1.3 "Core choice in a node": cpus_per_task > 1 packs each task on a socket."""
    assert Bench(CORES + "NodeName=n0 Sockets=2 CoresPerSocket=4\n").cores(ntasks=1, cpus_per_task=3) == ["111"]


MEMORY = (
    "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\n"
    "NodeName=n[0-1] CPUs=4 CoresPerSocket=4 RealMemory=4000\n"
)


def test_without_a_memory_request_a_job_takes_all_of_the_node():
    """slurm.md 1.3 "Default memory request": one job per node when DefMemPerCPU and DefMemPerNode are 0."""
    bench = Bench(MEMORY)
    assert [bench.nodes(ntasks=1) for _ in range(3)] == ["n0", "n1", "busy"]


def test_memory_is_consumed_like_cores():
    """slurm.md 1.3 "*_Memory, CR_Memory": free memory is what the running jobs left."""
    bench = Bench(MEMORY + "DefMemPerCPU=100\n")
    assert bench.nodes(ntasks=1, mem_per_node_mib=3000) == "n0"
    assert bench.nodes(ntasks=1, mem_per_node_mib=1001) == "n1"
    assert bench.nodes(ntasks=1, mem_per_cpu_mib=1000) == "n0"
    assert bench.nodes(nodes_min=1, ntasks=3, mem_per_cpu_mib=1000) == "busy"


def test_exclusive_jobs_want_idle_nodes_and_let_nobody_in():
    """slurm.md 1.3 "--exclusive, =user, =mcs": the whole node, all its CPUs."""
    bench = Bench(FOUR)
    bench.start(ntasks=1, nodes_min=1)
    job = bench.start(exclusive="node", ntasks=1)
    assert job.alloc is not None
    assert (job.alloc.nodes, job.alloc.cpu_total, job.alloc.whole_nodes) == (0b10, 4, True)
    assert bench.nodes(ntasks=1, nodelist="n1") == "busy"


def test_exclusive_user_keeps_other_users_off():
    """slurm.md 1.3 "--exclusive, =user, =mcs": nodes are shared with the same user only."""
    bench = Bench(FOUR)
    assert bench.nodes(exclusive="user", user="ann") == "n0"
    assert bench.nodes(user="bob") == "n1"
    assert bench.nodes(user="ann") == "n0"
    assert bench.nodes(exclusive="user", user="ann") == "n0"


@pytest.mark.parametrize(
    ("setting", "count"), [("NO", 1), ("YES:2", 1), ("FORCE:2", 2), ("FORCE:1", 1), ("EXCLUSIVE", 1)]
)
def test_oversubscribe_rows(setting, count):
    """slurm.md 1.3 "OverSubscribe=NO (default) / EXCLUSIVE / YES[:n] / FORCE[:n]": rows of jobs on one core."""
    bench = Bench(CORES + f"NodeName=n0 CPUs=1\nPartitionName=main Nodes=n0 Default=YES OverSubscribe={setting}\n")
    started = 0
    while bench.nodes() == "n0":
        started += 1
    assert started == count


def test_jobs_of_an_exclusive_partition_share_no_row():
    """slurm.md 1.3 "OverSubscribe=NO (default) / EXCLUSIVE / YES[:n] / FORCE[:n]": nor do jobs of
    a forced partition enter their nodes.
    """
    bench = Bench(
        CORES + "NodeName=n0 CPUs=1\nPartitionName=forced Nodes=n0 Default=YES OverSubscribe=FORCE:2\n"
        "PartitionName=shut Nodes=n0 OverSubscribe=EXCLUSIVE\n"
    )
    job = bench.start(partition="shut")
    assert bench.nodes() == "busy"
    bench.end(job)
    assert [bench.nodes(), bench.nodes(partition="shut"), bench.nodes(), bench.nodes()] == ["n0", "busy", "n0", "busy"]


def test_yes_shares_only_with_jobs_that_ask():
    """slurm.md 1.3 "Sharing steps in cons_tres": jobs that do not share end after test 1."""
    bench = Bench(CORES + "NodeName=n0 CPUs=1\nPartitionName=main Nodes=n0 Default=YES OverSubscribe=YES:2\n")
    assert bench.nodes(oversubscribe=True) == "n0"
    assert bench.nodes() == "busy"
    assert bench.nodes(oversubscribe=True) == "n0"
    assert bench.nodes(oversubscribe=True) == "busy"


def test_generic_resources_run_out_by_name_and_type():
    """slurm.md 9 "GRES": per-node counts, typed names."""
    bench = Bench("GresTypes=gpu\n" + CORES + "NodeName=n[0-1] CPUs=8 CoresPerSocket=8 Gres=gpu:a100:2,gpu:v100:1\n")
    assert bench.nodes(ntasks=1, gres="gpu:a100:2") == "n0"
    assert bench.nodes(ntasks=1, gres="gpu:a100:1") == "n1"
    assert bench.nodes(ntasks=1, gres="gpu:2") == "n1"
    assert bench.nodes(ntasks=1, gres="gpu:2") == "busy"
    assert bench.nodes(ntasks=1, gres="gpu:4") == "never"


@VERSIONS
def test_constraints_cut_count_and_match(version):
    """slurm.md 9 "topology/flat or none": and, or, counts and matching sets choose among the runs."""
    text = CORES + (
        "NodeName=n[0-2] CPUs=1 Feature=a,x\nNodeName=n[3-5] CPUs=1 Feature=b,x\nNodeName=n[6-7] CPUs=1 Feature=c\n"
    )
    assert Bench(text, version).nodes(nodes_min=2, constraint="b") == "n[3-4]"
    assert Bench(text, version).nodes(nodes_min=4, constraint="b|c") == "n[3-6]"
    assert Bench(text, version).nodes(nodes_min=2, constraint="(a|c)&x") == "n[0-1]"
    assert Bench(text, version).nodes(nodes_min=3, constraint="[c|b]") == "n[3-5]"
    assert Bench(text, version).nodes(nodes_min=3, constraint="[a*1&c*2]") == "n[0,6-7]"
    assert Bench(text, version).nodes(nodes_min=1, constraint="nope") == "never"


def test_partition_node_limits():
    """slurm.md 1.2 "Queue build": MaxNodes refuses, MinNodes raises the count."""
    bench = Bench(FOUR + "PartitionName=main Nodes=ALL Default=YES MaxNodes=3 MinNodes=2\n")
    assert bench.nodes(nodes_min=4) == "part_limit"
    assert bench.nodes(nodes_min=1, nodes_max=3, ntasks=3) == "n[0-2]"


def test_nodes_that_are_down_are_not_available_and_nodes_that_do_not_exist_never():
    """node_scheduler.c _pick_best_nodes(): not_avail when only the configured nodes could serve the job."""
    bench = Bench(FOUR)
    job = bench.job(nodes_min=3)
    found = bench.place(job, avail=0b11)
    assert (found.kind, bench.nodes(nodes_min=9)) == ("not_avail", "never")


def test_linear_gives_whole_nodes():
    """slurm.md 1.3 "select/linear": whole nodes only, whatever was asked."""
    bench = Bench("SelectType=select/linear\nNodeName=n[0-1] CPUs=4 CoresPerSocket=4\n", "22.05")
    job = bench.start(ntasks=1)
    assert job.alloc is not None
    assert (job.alloc.nodes, job.alloc.cpu_total, job.alloc.whole_nodes) == (1, 4, True)
    assert [bench.nodes(ntasks=1) for _ in range(2)] == ["n1", "busy"]


def test_linear_tries_weight_groups_from_low_to_high():
    """slurm.md 1.3 "select/linear"; slurm.md 1.3 "Weight": the next group is added only when the lower ones fail."""
    bench = Bench("SelectType=select/linear\nNodeName=n[0-1] CPUs=1 Weight=5\nNodeName=n[2-3] CPUs=1\n", "22.05")
    assert bench.nodes() == "n2"
    assert bench.nodes(nodes_min=3) == "n[0-1,3]"
