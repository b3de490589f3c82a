"""When could a job start: groups of ending jobs, the precision lost, who mattered (slurm.md 2.2)."""

import pytest
from selection_bench import CORES, Bench

TEN = CORES + "NodeName=n[0-9] CPUs=1\n"


def _busy(text, version, limits):
    """A bench whose nodes n0.. run one job each, ending after these seconds."""
    bench = Bench(text, version)
    for index, limit_s in enumerate(limits):
        bench.start(nodelist=f"n{index}", limit_s=limit_s)
    return bench


@pytest.mark.parametrize("version", ["22.05", "24.11", "26.05"])
def test_what_fits_now_starts_now(version):
    """slurm.md 2.2 "Expected start": the present comes first."""
    bench = _busy(TEN, version, [100] * 8)
    assert bench.will(nodes_min=2) == (0, "n[8-9]")


@pytest.mark.parametrize(("version", "start_s"), [("22.05", 130), ("24.11", 130), ("26.05", 100)])
def test_a_group_is_removed_at_once(version, start_s):
    """slurm.md 2.2 "Precision loss": up to 24.11 the group's last end counts, in 26.05 the last job on the chosen node.

    The first window ends 30 s after the 30 s boundary behind the first end: 100 s and 130 s fall into one group.
    """
    bench = _busy(TEN, version, [100, 130, *[1000] * 8])
    assert bench.will(ntasks=1) == (start_s, "n0")


def test_windows_double():
    """slurm.md 2.2 "Precision loss": 30 s, 60 s, 120 s ... after the first boundary."""
    bench = _busy(TEN, "22.05", [60, 200, 205, 300, 310, 900, *[5000] * 4])
    # the boundary is 90 s; windows of 30, 120 and 240 s end at 120, 210 and 330 s
    assert bench.will(nodes_min=1) == (60, "n0")
    assert bench.will(nodes_min=2) == (205, "n[0-1]")
    assert bench.will(nodes_min=4) == (310, "n[0-3]")
    assert bench.will(nodes_min=6) == (900, "n[0-5]")


def test_a_linear_window():
    """slurm.md 2.1 "bf_window_linear": the step is added instead of doubled."""
    bench = _busy(TEN + "SchedulerParameters=bf_window_linear=30\n", "22.05", [60, 200, 260, *[5000] * 7])
    # 200 s lies in the window that ends at 210 s, 260 s in the next
    assert bench.will(nodes_min=2) == (200, "n[0-1]")


def test_only_jobs_on_usable_nodes_count():
    """slurm.md 2.2 "Expected start": jobs elsewhere neither end nor shape the groups."""
    bench = _busy(TEN, "26.05", [100, 400, *[1000] * 8])
    assert bench.will(nodes_min=1, exclude="n0") == (400, "n1")


def test_jobs_past_their_end_are_guessed():
    """slurm.md 2.2 "Expected start": end + KillWait when the end is past."""
    bench = _busy(TEN, "22.05", [100] * 10)
    bench.now_s += 110
    assert bench.will(nodes_min=1) == (20, "n0")


def test_a_later_slot_takes_ended_jobs_as_gone():
    """parts.NodeSelection.will_run: from 24.11 the test at a later time starts with those jobs removed."""
    bench = _busy(TEN, "26.05", [100, 400, *[1000] * 8])
    assert bench.will(start_s=bench.now_s + 150, nodes_min=1) == (0, "n0")
    assert bench.will(start_s=bench.now_s + 150, nodes_min=2) == (400, "n[0-1]")
    assert bench.will(start_s=bench.now_s + 150, until_s=bench.now_s + 300, nodes_min=2) == "busy"


@pytest.mark.parametrize(("version", "start_s"), [("24.11", 130), ("26.05", 0)])
def test_a_job_that_ends_in_the_second_tried_is_gone_only_in_the_newest_version(version, start_s):
    """cons_tres job_test.c _build_cr_job_list(): `<` in 24.11, `<=` in 26.05. Before, its whole group counts."""
    bench = _busy(TEN, version, [100, 130, *[1000] * 8])
    assert bench.will(start_s=bench.now_s + 100, nodes_min=1) == (start_s, "n0")


def test_now_only_sees_no_future():
    """slurm.md 2.1 "bf_job_part_count_reserve, bf_min_age_reserve, bf_min_prio_reserve": tested for now alone."""
    bench = _busy(TEN, "26.05", [100] * 10)
    assert bench.will(now_only=True, nodes_min=1) == "busy"


def test_linear_looks_after_every_job():
    """slurm.md 2.2 "Expected start": select/linear tests after each ending job, without groups."""
    bench = _busy("SelectType=select/linear\nNodeName=n[0-9] CPUs=1\n", "22.05", [100, 110, 120, *[1000] * 7])
    assert [bench.will(nodes_min=n)[0] for n in (1, 2, 3)] == [100, 110, 120]


def test_a_completing_node_comes_last_when_the_present_is_tested():
    """cons_tres job_test.c _set_sched_weight(), 24.11 on: completing nodes weigh more than others."""
    bench = Bench(TEN, "26.05")
    bench.ctld.nodes.completing = 0b11
    assert bench.will(ntasks=1) == (0, "n2")


def test_shared_nodes_come_free_core_by_core():
    """slurm.md 2.2 "Expected start": usage is followed per core, not per node."""
    bench = Bench(CORES + "NodeName=n0 CPUs=4 CoresPerSocket=4\n")
    for limit_s in (100, 300, 900, 2000):
        bench.start(ntasks=1, limit_s=limit_s)
    assert bench.will(ntasks=1, nodes_min=1) == (100, "n0")
    assert bench.will(ntasks=2, nodes_min=1) == (300, "n0")
    assert bench.will(ntasks=4, nodes_min=1) == (2000, "n0")


@pytest.mark.parametrize(("version", "start_s"), [("22.05", 900), ("24.11", 0), ("26.05", 0)])
def test_futures_do_not_see_who_shares(version, start_s):
    """cons_tres node_data_dup_use(): since 23.02 the copy has no list of jobs, so no job there counts as sharing."""
    bench = Bench(
        CORES + "NodeName=n0 CPUs=2 CoresPerSocket=2\nPartitionName=main Nodes=n0 Default=YES\n"
        "PartitionName=forced Nodes=n0 OverSubscribe=FORCE:2\n",
        version,
    )
    bench.start(partition="forced", ntasks=1, limit_s=900)
    assert bench.place(bench.job(ntasks=1)).kind == "busy"
    assert bench.will(start_s=bench.now_s, ntasks=1) == (start_s, "n0")
