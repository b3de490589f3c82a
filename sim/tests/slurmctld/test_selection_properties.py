"""The bitmap forms of node selection give the same answers as the plain ones, on generated cases."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection_bench import Bench
from test_tree_choice import demand

from slurmtwin.models.slurmctld.selection import consecutive
from slurmtwin.models.slurmctld.selection.bitmaps import longest_run, lowest, runs, shortest_run
from slurmtwin.models.slurmctld.selection.node_test import Fit
from slurmtwin.models.slurmctld.selection.pick import Ask, Pick
from slurmtwin.models.slurmctld.selection.shapes import Shape
from slurmtwin.models.slurmctld.selection.weights import WeightGroups
from slurmtwin.models.slurmctld.tables import bits

pytestmark = pytest.mark.property
BITMAPS = st.integers(min_value=0, max_value=2**90 - 1)


@given(BITMAPS, st.integers(1, 12))
def test_runs_are_found_without_looking_at_each_bit(bitmap, least):
    """Shortest, longest and lowest by integer operations are what a walk over the bits finds."""
    found = [run.bit_count() for run in runs(bitmap)]
    assert sum(found) == bitmap.bit_count()
    enough = [size for size in found if size >= least]
    short = shortest_run(bitmap, least)
    assert short.bit_count() == (min(enough) if enough else 0)
    assert longest_run(bitmap).bit_count() == max(found, default=0)
    if enough:
        first = next(run for run in runs(bitmap) if run.bit_count() == min(enough))
        assert short == first
    assert list(bits(lowest(bitmap, least))) == list(bits(bitmap))[:least]


@st.composite
def _cases(draw):
    size = draw(st.integers(1, 40))
    sizes = draw(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=3, unique=True))
    random = Random(draw(st.integers(0, 10**9)))
    offers: dict[int, int] = {}
    for index in range(size):
        if random.random() < 0.8:
            cpus = random.choice(sizes)
            offers[cpus] = offers.get(cpus, 0) | 1 << index
    weights = WeightGroups((w, sum(1 << i for i in range(size) if i % 7 % draw(st.just(3)) == w)) for w in range(3))
    fits = [
        (b, Fit(c, c, (1 << c) - 1, c, Shape(c, c, 1, c, 1, 1, 1, 1, (1 << c) - 1, ()), 1, 1))
        for c, b in offers.items()
    ]
    nodes = draw(st.integers(1, 12))
    most = draw(st.sampled_from([nodes, nodes + 3, 500_000]))
    requested = most if most < 500_000 and draw(st.booleans()) else nodes
    cpus = draw(st.integers(1, 60))
    whole = draw(st.booleans())
    return Ask(demand(pn_min_cpus=1), nodes, most, requested, cpus, 0, whole), fits, weights


@settings(max_examples=400, deadline=None)
@given(_cases())
def test_whole_runs_at_a_time_choose_the_nodes_of_the_node_by_node_form(case):
    """consecutive.by_bitmaps == consecutive.by_index: same nodes, same CPUs of each."""
    ask, offers, weights = case
    fast, plain = consecutive.by_bitmaps(ask, offers, weights), consecutive.by_index(ask, offers, weights)
    assert (fast is None) == (plain is None)
    if fast is not None and plain is not None:
        assert fast.nodes == plain.nodes
        assert _per_node(fast) == _per_node(plain)


def _per_node(chosen):
    return {i: cpus for bitmap, cpus in chosen.given for i in bits(bitmap)}


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 30), st.integers(1, 9), st.integers(1, 3), st.integers(1, 60), st.integers(1, 12), st.integers(1, 4)
)
def test_equal_nodes_are_taken_in_one_step_as_one_by_one(count, cpus, reserve, wanted, nodes, least):
    """Pick.take on a block of equal nodes leaves the counters that taking them singly leaves."""
    ask = Ask(demand(pn_min_cpus=min(least, cpus)), nodes, 500_000, nodes, wanted, 0, False)
    block, single = Pick(ask), Pick(ask)
    block.take((1 << count) - 1, cpus, reserve)
    for index in range(count):
        single.take(1 << index, cpus, reserve)
    for name in ("rem_cpus", "rem_nodes", "min_rem", "max_nodes", "rem_max_cpus", "taken"):
        assert getattr(block, name) == getattr(single, name), name
    assert _per_node(block) == _per_node(single)


TEXT = (
    "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nDefMemPerCPU=100\n"
    "NodeName=n[0-11] CPUs=4 CoresPerSocket=4 RealMemory=2000\n"
)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**9))
def test_usage_returns_to_what_it_was(seed):
    """Whatever starts, gets suspended, resumed and ends: at the end every node is in its first state again."""
    random = Random(seed)
    bench = Bench(TEXT)
    before = dict(bench.selection._usage.classes)
    running = []
    for _ in range(40):
        if running and random.random() < 0.4:
            job = running.pop(random.randrange(len(running)))
            if random.random() < 0.3:
                bench.selection.suspend(job)
                if random.random() < 0.5:
                    bench.selection.resume(job)
            bench.end(job)
            continue
        job = bench.job(ntasks=random.randint(1, 9), limit_s=random.randint(60, 3000))
        found = bench.place(job)
        if hasattr(found, "allocation"):
            running.append(bench.run(job, found))
    for job in running:
        bench.end(job)
    assert bench.selection._usage.classes == before


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from(["22.05", "24.11", "26.05"]))
def test_the_chain_of_futures_is_the_usage_without_those_jobs(seed, version):
    """FutureChain.after(k) == the present with the first k jobs removed one by one."""
    random = Random(seed)
    bench = Bench(TEXT, version)
    for _ in range(30):
        job = bench.job(ntasks=random.randint(1, 7), limit_s=60 * random.randint(1, 40))
        found = bench.place(job)
        if hasattr(found, "allocation"):
            bench.run(job, found)
    bench.will(nodes_min=12, ntasks=48)
    chain = bench.selection._will_run._chain
    assert chain is not None
    for count in (len(chain.jobs), 1, len(chain.jobs) // 2):
        plain = bench.selection._usage.copy()
        for job in chain.jobs[:count]:
            plain.remove(job.slurm_id)
        assert _states(chain.after(count)) == _states(plain)


def _states(usage):
    return {state: bitmap for state, bitmap in usage.classes.items() if bitmap}
