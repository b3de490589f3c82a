"""The core's test set beside node sets: short stories of a Cluster, of PodGroups and of Dispatches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from slurmtwin_operator.core.observed import Controller, NodeSetFact, SlurmJob
from slurmtwin_operator.core.spec import ClusterSpec
from slurmtwin_operator.core.switches import Switches
from slurmtwin_operator.testing.control_plane import ControlPlane
from slurmtwin_operator.testing.copies import Copies, Remote
from slurmtwin_operator.testing.kube import FakeKube
from slurmtwin_operator.testing.pod_groups import PodGroups
from slurmtwin_operator.testing.scenarios import STORIES, Story

Step = Callable[[Any], None]
A, B = NodeSetFact("a", options=(("MaxTime", "60"), ("Default", "YES"))), NodeSetFact("b")
JOBS: Final = (SlurmJob(1, "RUNNING", ("a-0",), partition="a"), SlurmJob(2, "PENDING", partition="b"))
PAIR: Final = (Controller("c-ctld-0", "u0"), Controller("c-ctld-1", "u1"))


def cluster(_story: Story, switches: Switches) -> tuple[ControlPlane, ControlPlane]:
    """A Cluster that was applied a moment ago."""
    spec = ClusterSpec(image="slurmctld:26.05", switches=switches, conf={"KillWait": "20", "MinJobAge": "60"})
    world = ControlPlane(FakeKube(), spec)
    return world, world


def groups(_story: Story, switches: Switches) -> tuple[PodGroups, PodGroups]:
    """Four nodes that Slurm gives to pods."""
    world = PodGroups(FakeKube(), switches)
    for number in range(4):
        world.kube.slurm.register(f"n{number}", "main")
    return world, world


def copies(_story: Story, switches: Switches) -> tuple[Copies, Copies]:
    """Four clusters of two nodes."""
    world = Copies(FakeKube(), switches, {name: Remote(name, 2) for name in "abcd"})
    return world, world


def set_to(**facts: Any) -> Step:
    """Node sets, jobs, controllers or the primary of the Cluster."""
    return lambda world: world.change(**facts)


def conf(**options: str) -> Step:
    """kubectl apply with other options of slurm.conf."""
    return lambda world: world.change_spec(conf=options)


def rest(state: str) -> Step:
    """slurmrestd goes away, or comes back."""

    def step(world: PodGroups) -> None:
        world.kube.fault(f"rest.{state}")
        world.kube.slurm.rest = state

    return step


BOTH: Final = (0, set_to(node_sets=(A, B), jobs=JOBS))


def _of_cluster(name: str, *steps: tuple[int, Step], end_s: int = 1200, **switches: Any) -> Story:
    return Story(name, (BOTH, *steps), end_s, Switches(**switches), kind="Cluster", build=cluster)


def _of_groups(name: str, *steps: tuple[int, Step], end_s: int = 1500, pod_jobs: Any = "external") -> Story:
    return Story(name, steps, end_s, Switches(pod_jobs=pod_jobs), kind="PodGroup", build=groups)


def _of_copies(name: str, *steps: tuple[int, Step], end_s: int = 2500, dispatch: Any = "all-at-once") -> Story:
    return Story(name, steps, end_s, Switches(dispatch=dispatch), kind="Dispatch", build=copies)


DBD: Final = {"image": "dbd", "config_secret": "dbd"}
CLUSTER_STORIES: Final = (
    _of_cluster("cluster-create"),
    _of_cluster("cluster-deployment", controller="deployment-rwx"),
    _of_cluster("cluster-pair", (10, set_to(controllers=PAIR, primary="c-ctld-0")),
                (200, lambda w: w.fail_over("c-ctld-1")), (400, lambda w: w.fail_over("c-ctld-0")),
                controller="primary-backup"),
    _of_cluster("cluster-external", controller="external"),
    _of_cluster("cluster-conf-in-place", (100, conf(KillWait="30")), (300, conf(KillWait="40", MinJobAge="90"))),
    _of_cluster("cluster-conf-restart", (100, conf(KillWait="30")), (300, conf(KillWait="40", MinJobAge="90")),
                config_change="restart"),
    _of_cluster("cluster-node-set-leaves", (100, set_to(node_sets=(B,))), (400, set_to(jobs=JOBS[1:]))),
    _of_cluster("cluster-node-set-leaves-restart", (100, set_to(node_sets=(B,))), (400, set_to(jobs=JOBS[1:])),
                config_change="restart"),
    _of_cluster("cluster-accounting",
                (60, lambda w: w.change_spec(accounting=ClusterSpec(image="i", accounting=DBD).accounting)),
                (300, lambda w: w.change_spec(accounting=None))),
    _of_cluster("cluster-deleted", (60, lambda w: w.delete()), (200, set_to(node_sets=(B,), jobs=JOBS[1:])),
                (300, set_to(node_sets=(), jobs=()))),
)  # fmt: skip
GROUP_STORIES: Final = (
    _of_groups("group-runs", (5, lambda w: w.add("g", 60, 100))),
    _of_groups("group-of-one", (5, lambda w: w.add("g", 60)), pod_jobs="placeholder"),
    _of_groups("groups-take-turns", (5, lambda w: w.add("g", 60, 100, 90)), (10, lambda w: w.add("h", 50, 50)),
               (20, lambda w: w.add("i", 30))),
    _of_groups("group-cancelled", (5, lambda w: w.add("g", 200, 100)), (60, lambda w: w.cancel("g"))),
    _of_groups("group-node-down", (5, lambda w: w.add("g", 200, 100)), (60, lambda w: w.fail_node("n0"))),
    _of_groups("group-pod-deleted", (5, lambda w: w.add("g", 200, 100)), (60, lambda w: w.delete_pod("g-0"))),
    _of_groups("group-deleted", (5, lambda w: w.add("g", 400, 400)), (60, lambda w: w.delete("g"))),
    _of_groups("group-deleted-waiting", (5, lambda w: w.add("g", 400, 400, 400)), (8, lambda w: w.add("h", 50, 50)),
               (60, lambda w: w.delete("h"))),
    _of_groups("group-rest-away", (2, rest("down")), (5, lambda w: w.add("g", 60, 100)), (90, rest("up")),
               (140, rest("down")), (240, rest("up"))),
)  # fmt: skip
COPY_STORIES: Final = (
    _of_copies("copies-all", (5, lambda w: w.add("j", 100))),
    _of_copies("copies-incremental", (5, lambda w: w.add("j", 100, nominate=2)), dispatch="incremental"),
    _of_copies("copies-incremental-full", (0, lambda w: w.add("i", 700, 2, nominate=1)),
               (5, lambda w: w.add("j", 100, 2, nominate=1)), dispatch="incremental"),
    _of_copies("copies-two", (5, lambda w: w.add("i", 300, 2)), (6, lambda w: w.add("j", 200, 2))),
    _of_copies("copies-short-cut", (5, lambda w: w.add("j", 600)), (60, lambda w: w.cut("a")),
               (300, lambda w: w.cut("a", False))),
    _of_copies("copies-cluster-lost", (5, lambda w: w.add("j", 1600)), (60, lambda w: w.cut("a")),
               (1500, lambda w: w.cut("a", False)), end_s=3000),
    _of_copies("copies-copy-lost", (5, lambda w: w.add("j", 400)), (100, lambda w: w.lose_copy("a", "j"))),
    _of_copies("copies-deleted", (5, lambda w: w.add("j", 900)), (60, lambda w: w.cut("b")),
               (100, lambda w: w.delete("j")), (300, lambda w: w.cut("b", False))),
    _of_copies("copies-deleted-while-cut", (5, lambda w: w.add("j", 900)), (60, lambda w: w.cut("a")),
               (100, lambda w: w.delete("j")), (300, lambda w: w.cut("a", False))),
)  # fmt: skip
OTHER_STORIES: Final = (*CLUSTER_STORIES, *GROUP_STORIES, *COPY_STORIES)
ALL_STORIES: Final = (*STORIES, *OTHER_STORIES)
"""The whole test set of the core. Each story ends at rest."""
