"""topology/tree: leaf switches by best fit and distance, --switches with its wait."""

import pytest
from mini_cluster import conf_of
from selection_bench import CORES

from slurmtwin.contract.cluster import SwitchConf
from slurmtwin.models.slurmctld.selection.demand import Demand
from slurmtwin.models.slurmctld.selection.node_test import Fit
from slurmtwin.models.slurmctld.selection.pick import Ask
from slurmtwin.models.slurmctld.selection.shapes import Shape
from slurmtwin.models.slurmctld.selection.tree_choice import SwitchTree
from slurmtwin.models.slurmctld.selection.weights import WeightGroups
from slurmtwin.models.slurmctld.tables import NodeTable

VERSIONS = pytest.mark.parametrize("version", [(22, 5), (24, 11), (26, 5)])
NODES = NodeTable(conf_of(CORES + "NodeName=n[0-15] CPUs=4\n").nodes)
LEAVES = tuple(SwitchConf(name=f"s{i}", nodes=tuple(f"n{4 * i + j}" for j in range(4))) for i in range(4))


def demand(**more):
    """A demand of one CPU per task that says nothing else."""
    given = dict.fromkeys(Demand.__slots__, 0) | {"cpus_per_task": 1, "pn_min_cpus": 1, "gres": (), "constraint": ""}
    return Demand(**(given | more))


def choose(version, free, nodes, switches=0, waited_s=0, leaves=3):
    """Node indices chosen for a job of `nodes` whole one-CPU nodes out of the free ones."""
    shape = Shape(1, 1, 1, 1, 1, 1, 1000, 1000, 1, ())
    ask = Ask(demand(switches=switches, switch_wait_s=300), nodes, 500_000, nodes, nodes, 0, True)
    bitmap = sum(1 << i for i in free)
    top = SwitchConf(name="top", switches=tuple(leaf.name for leaf in LEAVES[:leaves]))
    tree = SwitchTree((*LEAVES[:leaves], top), NODES, version)
    found = tree.choose(ask, [(bitmap, Fit(1, 1, 1, 1, shape, 1, 1))], WeightGroups([(1, -1)]), waited_s)
    if found is None:
        return None
    return [i for i in range(16) if found.nodes >> i & 1], found.switch_ok


@VERSIONS
def test_one_leaf_by_best_fit(version):
    """slurm.md 9 "topology/tree": of the leaves that hold the job the one with fewest free nodes."""
    assert choose(version, [0, 1, 2, 3, 5, 6, 8, 9, 10], 2) == ([5, 6], True)


@VERSIONS
def test_the_largest_leaf_first_when_none_holds_the_job(version):
    """slurm.md 9 "topology/tree": the leaf with most free nodes comes first, the rest by best fit again."""
    assert choose(version, [0, 1, 4, 5, 6, 8], 4) == ([4, 5, 6, 8], True)


@VERSIONS
def test_switches_wait(version):
    """slurm.md 9 "topology/tree": --switches=1 refuses two leaves until the wait is over."""
    assert choose(version, [0, 1, 4, 5], 4, switches=1, waited_s=299) == ([0, 1, 4, 5], False)
    assert choose(version, [0, 1, 4, 5], 4, switches=1, waited_s=300) == ([0, 1, 4, 5], True)


@VERSIONS
def test_too_few_nodes(version):
    """slurm.md 9 "topology/tree": nothing is chosen when all leaves together do not suffice."""
    assert choose(version, [0, 4], 3) is None


@VERSIONS
def test_the_fuller_leaf_goes_last_when_none_completes_the_job(version):
    """slurm.md 9 "topology/tree": at equal distance the leaf with more free nodes is the next one."""
    assert choose(version, [0, 1, 2, 3, 4, 8, 9, 12, 13], 8, leaves=4) == ([0, 1, 2, 3, 8, 9, 12, 13], True)
