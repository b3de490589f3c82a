"""Bugs users met in other operators: the default design is free of each, the switch that reproduces it is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from slurmtwin_operator.core.observed import NodeSetFact, SlurmJob
from slurmtwin_operator.core.spec import ClusterSpec
from slurmtwin_operator.core.switches import Switches
from slurmtwin_operator.testing.carrier import Carrier
from slurmtwin_operator.testing.control_plane import ControlPlane
from slurmtwin_operator.testing.disturbance import Disturbance
from slurmtwin_operator.testing.kube import FakeKube
from slurmtwin_operator.testing.scenarios import (
    START,
    STORIES,
    Story,
    admin_drain,
    bad_image,
    faulty,
    job,
    play,
    rest,
    scale,
)
from slurmtwin_operator.testing.slurm import SECOND

BY_NAME = {story.name: story for story in STORIES}


@dataclass(frozen=True)
class Bug:
    """A bug, a story in which it bites, the switches that bring it back, the property it breaks."""

    name: str
    story: Story
    switches: dict[str, Any]
    breaks: str
    disturbances: tuple[Disturbance, ...] = ()


BUGS = (
    Bug(
        "SO#249 and X24: a stale cache wedges a rolling update",
        Story("wedge", (START, (60, scale(3, "slurmd:2", update={"max_unavailable": "3"}))), 900),
        {"remember_deletes": False, "unseen_creation": "wait", "failed_action": "stop"},
        "desired-reached",
        (Disturbance("lag", 60 * SECOND, 30 * SECOND),),
    ),
    Bug(
        "SO#229 and X38: a bad image drains the whole set",
        Story("bad-image", (START, (50, bad_image), (60, scale(3, "slurmd:bad"))), 900),
        {"update_budget": "chosen-only"},
        "update-within-budget",
    ),
    Bug(
        "SO#79 and X20: no REST client means drained",
        Story("fails-open", (START, (30, job(1, 300, 3)), (50, rest("absent")), (60, scale(1)),
                             (120, rest("up"))), 1200),
        {"rest_missing": "open", "recheck": False},
        "no-busy-pod-deleted",
    ),
    Bug(
        "SO#79: a node that Slurm does not list counts as drained",
        Story("partial-list", (START, (15, job(1, 300, 3)), (30, scale(1))), 1200),
        {"unknown_node": "drained", "recheck": False},
        "no-busy-pod-deleted",
        (Disturbance("partial", 30 * SECOND, 25 * SECOND, "slurm", 1),),
    ),
    Bug(
        "SO#3 and X45: an admin's drain is undone",
        Story("foreign", (START, (60, admin_drain("w-1"))), 600),
        {"foreign_drain": "undo"},
        "no-foreign-drain-undone",
    ),
    Bug(
        "SO#239 and X19: a server that accepts and never answers wedges the operator",
        Story("tarpit", (START, (40, rest("tarpit")), (100, rest("up")), (120, scale(1))), 900),
        {"rest_timeout_s": 0},
        "desired-reached",
    ),
    Bug(
        "X14: with its state lost, Slurm knows no node and every pod is deleted",
        Story("state-lost", (START, (60, job(1, 400, 3)),
                             (120, faulty("slurmctld.lose_state", lambda k: k.slurm.lose_state()))), 900),
        {"unregistered_pod": "delete"},
        "no-busy-pod-deleted",
    ),
    Bug(
        "X36: victims are drained and undrained in turn",
        Story("flap", (START, (30, job(1, 500, 3)), (60, scale(1))), 1200),
        {"scale_in_sync": "separate"},
        "eventually-stable",
    ),
    Bug(
        "X33: StatefulSets cut busy nodes",
        BY_NAME["scale-in-busy"],
        {"drain_before_delete": False},
        "no-busy-pod-deleted",
    ),
    Bug(
        "X33: a StatefulSet owns the pods",
        BY_NAME["scale-in-busy"],
        {"workers": "statefulset"},
        "no-busy-pod-deleted",
    ),
    Bug(
        "X48: ghost nodes stay after a scale-in",
        Story("ghosts", (START, (60, scale(1))), 600),
        {"prune": "never"},
        "nothing-leaked",
    ),
    Bug(
        "X18: a pass that stops at the failed refresh replaces no dead pod until Slurm is back",
        Story("dead-while-away", (START, (40, rest("down")), (50, faulty("pod.fail", lambda k: k.fail_pod("w-0")))),
              500),
        {"rest_down": "stop-pass"},
        "dead-pod-left",
    ),
    Bug(
        "X43: kubectl drain evicts busy pods",
        BY_NAME["kubectl-drain"],
        {"pdb": "none"},
        "no-busy-pod-deleted",
    ),
    Bug(
        "deleting a node set takes its busy pods",
        BY_NAME["delete-busy"],
        {"deletion": "at-once"},
        "no-busy-pod-deleted",
    ),
)  # fmt: skip


def judged(kube: FakeKube, judge: Callable[[FakeKube], dict[str, str]]) -> dict[str, str]:
    """Broken properties, and a dead pod that was left lying."""
    found = judge(kube)
    if any(pod.phase == "Failed" for pod in kube.pods.values()):
        found["dead-pod-left"] = "a pod that ended is still there"
    return found


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_default_is_free_of_it(bug: Bug, judge: Callable[[FakeKube], dict[str, str]]) -> None:
    """In the default design every property holds in the story that made the bug known."""
    kube, _ = play(bug.story, Switches(), disturbances=bug.disturbances)
    assert judged(kube, judge) == {}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_switch_brings_it_back(bug: Bug, judge: Callable[[FakeKube], dict[str, str]]) -> None:
    """With the old setting the same story breaks the property."""
    kube, _ = play(bug.story, Switches(**bug.switches), disturbances=bug.disturbances)
    assert bug.breaks in judged(kube, judge)


@pytest.mark.parametrize("bug", [bug for bug in BUGS if len(bug.switches) > 1], ids=lambda bug: bug.name)
def test_each_of_its_switches_is_needed(bug: Bug, judge: Callable[[FakeKube], dict[str, str]]) -> None:
    """The bug is there for its own reason: with any one of its switches at the default the property holds."""
    for name in bug.switches:
        fewer = {key: value for key, value in bug.switches.items() if key != name}
        kube, _ = play(bug.story, Switches(**fewer), disturbances=bug.disturbances)
        assert bug.breaks not in judged(kube, judge), name


def test_all_ten_are_here() -> None:
    """The issues and scenarios that this file answers for."""
    names = " ".join([bug.name for bug in BUGS] + [str(f.__doc__) for f in OF_CLUSTERS])
    for wanted in ("SO#249", "SO#229", "SO#79", "SO#3", "SO#138", "SO#239", "X12", "X14", "X24", "X36"):
        assert re.search(rf"{wanted}\b", names), wanted


def control_plane(*disturbances: Disturbance, **switches: Any) -> ControlPlane:
    """A cluster of two node sets with jobs in both partitions."""
    spec = ClusterSpec(
        image="slurmctld:26.05", switches=Switches(**switches), conf={"KillWait": "20", "MinJobAge": "60"}
    )
    jobs = (SlurmJob(1, "RUNNING", ("a-0",), partition="a"), SlurmJob(2, "PENDING", partition="b"))
    world = ControlPlane(FakeKube(), spec, node_sets=(NodeSetFact("a"), NodeSetFact("b")), jobs=jobs)
    Carrier(world, disturbances=disturbances)
    return world


@pytest.mark.parametrize("config_change", ["restart", "in-place"])
def test_partition_of_a_deleted_set_stays_while_jobs_name_it(config_change: str) -> None:
    """SO#138, X13: the default keeps the partition until its last job record is gone; slurmctld never stops."""
    cluster = control_plane(config_change=config_change)
    cluster.kube.run(60 * SECOND)
    cluster.change(node_sets=cluster.node_sets[:1])
    cluster.kube.run(600 * SECOND)
    assert cluster.crashes == 0
    assert cluster.partitions == ("a", "b")
    cluster.change(jobs=cluster.jobs[:1])
    cluster.kube.run(1200 * SECOND)
    assert cluster.partitions == ("a",)
    assert cluster.crashes == 0


def test_partition_removed_at_once_stops_slurmctld() -> None:
    """SO#138, X13: with partition_removal at-once slurmctld stops at every start."""
    cluster = control_plane(partition_removal="at-once", config_change="restart")
    cluster.kube.run(60 * SECOND)
    cluster.change(node_sets=cluster.node_sets[:1])
    cluster.kube.run(600 * SECOND)
    assert cluster.crashes > 3
    assert not cluster.running


@pytest.mark.parametrize(("order", "restarts"), [("sorted", 1), ("as-given", 5)])
def test_order_of_lists_restarts_slurmctld(
    order: str, restarts: int, judge: Callable[[FakeKube], dict[str, str]]
) -> None:
    """X12: with unsorted rendering the hash flips though nothing changed; sorted, slurmctld starts once."""
    any_order = Disturbance("shuffle", 0, 1800 * SECOND)
    cluster = control_plane(any_order, conf_order=order, config_change="restart")
    cluster.kube.run(1800 * SECOND)
    assert (cluster.restarts == 1) if restarts == 1 else (cluster.restarts >= restarts)
    assert ("eventually-stable" in judge(cluster.kube)) == (restarts > 1)


OF_CLUSTERS = (
    test_partition_of_a_deleted_set_stays_while_jobs_name_it, test_partition_removed_at_once_stops_slurmctld,
    test_order_of_lists_restarts_slurmctld,
)  # fmt: skip
"""The bugs of a Cluster, each with its two sides."""
