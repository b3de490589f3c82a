"""Properties of an operator: a good history holds, one planted mistake turns the right one red."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from slurmtwin.contract.events import Event
from slurmtwin_reports.checks import ASKED_FOR, PROPERTIES, cpus_once, run_checks
from slurmtwin_reports.checks.operator import OPERATOR_PROPERTIES
from slurmtwin_reports.history import History
from slurmtwin_reports.testing import a_history, in_order, row
from slurmtwin_reports.verdict import Outcome

SCALE_IN = "slurmtwin: scale-in"
UPDATE = "slurmtwin: update"


def pod(at_s: float, kind: str, name: str, actor: str = "apiserver", uid: str = "", **detail: object) -> Event:
    """A row about a pod."""
    event = row(at_s, kind, actor=actor, pod=f"ns/{name}", **detail)
    return event._replace(pod_uid=uid or f"uid-{name}")


def a_pod(name: str, at_s: float = 0, revision: str = "r1", uid: str = "") -> list[Event]:
    """A pod that becomes a Slurm node."""
    return [
        pod(at_s, "pod.created", name, "operator", uid, node_set="w", revision=revision),
        pod(at_s + 1, "pod.scheduled", name, uid=uid)._replace(node=f"k-{name}"),
        row(at_s + 5, "node.created", node=name, actor="slurmctld"),
        row(at_s + 5, "node.registered", node=name, actor="slurmctld"),
        pod(at_s + 7, "pod.ready", name, uid=uid),
    ]


def a_set(at_s: float, replicas: int, revision: str = "r1", **more: object) -> Event:
    """A change of the node set by a user."""
    return row(at_s, "object.changed", actor="user", resource="nodesets", name="w", replicas=replicas,
               revision=revision, max_unavailable="1", update="rolling", **more)  # fmt: skip


def act(at_s: float, do: str, node: str, **detail: object) -> Event:
    """An action of the operator."""
    return row(at_s, "action.issued", node=node, actor="operator", do=do, outcome="done", **detail)


def leave(at_s: float, name: str, reason: str) -> list[Event]:
    """A pod drained, deleted and pruned."""
    return [
        act(at_s, "drain", name),
        row(at_s, "node.drained", node=name, actor="operator", reason=reason),
        act(at_s + 2, "delete", name, object="Pod"),
        pod(at_s + 2, "pod.deleting", name, "operator"),
        row(at_s + 2, "node.down", node=name, actor="slurmctld", reason="slurmtwin: pod is terminating"),
        pod(at_s + 4, "pod.deleted", name, "kubelet"),
    ]


def good() -> list[Event]:
    """Three nodes; one job; an admin's drain; a scale-in of an idle node; an update of one node."""
    return in_order(
        [a_set(0, 3)],
        *[a_pod(name) for name in ("w-0", "w-1", "w-2")],
        [
            row(20, "job.submitted", 1, actor="user"),
            row(20, "job.started", 1, "w-0", value=1, unit="cpu"),
            row(90, "job.ended", 1, "w-0", state="COMPLETED"),
            a_set(200, 2),
        ],
        leave(201, "w-2", SCALE_IN),
        [act(270, "delete-slurm-node", "w-2"), row(270, "node.deleted", node="w-2", actor="operator")],
        [a_set(400, 2, "r2")],
        leave(401, "w-1", UPDATE),
        a_pod("w-1", 406, "r2", "uid-new"),
        [
            act(415, "resume", "w-1"),
            row(415, "node.resumed", node="w-1", actor="operator"),
            row(500, "node.drained", node="w-0", actor="admin", reason="bad disk"),
            row(700, "node.resumed", node="w-0", actor="admin"),
            a_set(701, 2, "r1"),
            row(1500, "run.ended", actor="world", why="done"),
        ],
    )


def outcome(name: str, events: Sequence[Event]) -> Outcome:
    """The verdict of one property."""
    history: History = a_history(in_order(events))
    return OPERATOR_PROPERTIES[name](history).outcome


BUGS: dict[str, tuple[str, Callable[[list[Event]], list[Event]]]] = {
    "a busy pod is deleted": (
        "no-busy-pod-deleted",
        lambda events: [*events, act(50, "delete", "w-0", object="Pod")],
    ),
    "a machine with a job on it is deleted": (
        "no-busy-pod-deleted",
        lambda events: [*events, row(50, "kube_node.deleted", node="k-w-0", actor="operator")],
    ),
    "a controller deletes a busy pod": (
        "no-busy-pod-deleted",
        lambda events: [*events, pod(50, "pod.deleting", "w-0", "statefulset")],
    ),
    "an admin's drain is undone": (
        "no-foreign-drain-undone",
        lambda events: [*events, row(600, "node.resumed", node="w-0", actor="operator")],
    ),
    "an admin's drain is undone, as slurmctld reports it": (
        "no-foreign-drain-undone",
        lambda events: [*events, act(600, "resume", "w-0"), row(601, "node.resumed", node="w-0", actor="slurmctld")],
    ),
    "an admin's drain is forgotten with the record": (
        "no-foreign-drain-undone",
        lambda events: [*events, row(600, "node.deleted", node="w-0", actor="operator")],
    ),
    "two nodes are updated at once": (
        "update-within-budget",
        lambda events: [*events, row(403, "node.drained", node="w-0", actor="operator", reason=UPDATE)],
    ),
    "it goes on acting": (
        "eventually-stable",
        lambda events: [*events, act(1450, "apply", "c-conf")],
    ),
    "it changes its mind": (
        "eventually-stable",
        lambda events: [
            *events,
            *[row(202 + i, "node.drained", node="w-1", actor="operator", reason=SCALE_IN) for i in range(3)],
        ],
    ),
    "a job is killed without a fault": (
        "killed-jobs-explained",
        lambda events: [*events, row(60, "job.requeued", 1, "w-0", reason="w-0 is DOWN")],
    ),
    "a record stays without its pod": (
        "nothing-leaked",
        lambda events: [e for e in events if e.kind != "node.deleted"],
    ),
    "a drain of ours stays": (
        "nothing-leaked",
        lambda events: [
            *[e for e in events if e.t_ns < 700e9],
            a_set(701, 2, "r2"),
            row(710, "node.resumed", node="w-0", actor="admin"),
            *leave(711, "w-0", UPDATE),
            *a_pod("w-0", 716, "r2", "uid-w0b"),
            row(1500, "run.ended", actor="world", why="done"),
        ],
    ),
    "a pod outlives its set": (
        "nothing-leaked",
        lambda events: [*events, row(702, "object.changed", actor="user", resource="nodesets", name="w", deleted=True)],
    ),
    "the record of a living pod is deleted": (
        "nothing-leaked",
        lambda events: [*events, row(710, "node.deleted", node="w-0", actor="operator")],
    ),
    "a pod is missing at the end": (
        "desired-reached",
        lambda events: [*events, pod(1000, "pod.deleting", "w-0", "operator")],
    ),
    "a pod too many is created": (
        "desired-reached",
        lambda events: [*events, pod(690, "pod.created", "w-9", "operator", node_set="w", revision="r2")],
    ),
}


@pytest.mark.parametrize("name", list(OPERATOR_PROPERTIES))
def test_good_history_holds(name: str) -> None:
    """Every property holds, none is unknown, in a history without a mistake."""
    assert outcome(name, good()) is Outcome.HOLDS


@pytest.mark.parametrize("bug", list(BUGS))
def test_planted_mistake_is_found(bug: str) -> None:
    """The property that stands for the mistake is broken."""
    name, plant = BUGS[bug]
    assert outcome(name, plant(good())) is Outcome.BROKEN


def test_every_property_has_a_planted_mistake() -> None:
    """A check that cannot fail is a bug."""
    assert {name for name, _ in BUGS.values()} == set(OPERATOR_PROPERTIES)


@pytest.mark.parametrize("name", list(OPERATOR_PROPERTIES))
def test_a_run_without_pods_is_unknown(name: str) -> None:
    """Nothing is said about an operator where none was."""
    assert outcome(name, [row(0, "run.started", actor="world")]) is Outcome.UNKNOWN


def test_a_fault_explains_and_a_person_may() -> None:
    """A job lost after a fault is explained; a pod that a user deletes is no finding; a lost machine may go."""
    fault = row(55, "fault.injected", actor="fault", fault="slurmd.kill")
    requeued = row(60, "job.requeued", 1, "w-0", reason="w-0 is DOWN")
    assert outcome("killed-jobs-explained", [*good(), fault, requeued]) is Outcome.HOLDS
    by_user = pod(50, "pod.deleting", "w-0", "user")
    assert outcome("no-busy-pod-deleted", [*good(), by_user]) is Outcome.HOLDS
    lost = row(45, "kube_node.unready", node="k-w-0", actor="kubelet")
    gone = row(50, "kube_node.deleted", node="k-w-0", actor="operator")
    assert outcome("no-busy-pod-deleted", [*good(), lost, gone]) is Outcome.HOLDS


def test_what_broke_by_itself_is_not_charged_to_the_budget() -> None:
    """A node that went down seconds before the update began may not have been seen yet."""
    broken = row(400.5, "node.not_responding", node="w-0", actor="slurmctld")
    assert outcome("update-within-budget", [*good(), broken]) is Outcome.HOLDS


def test_an_end_that_is_not_quiet_is_unknown() -> None:
    """Leaks are judged only after three quiet minutes."""
    cut = [e for e in good() if e.t_ns < 800e9]
    assert outcome("nothing-leaked", cut) is Outcome.UNKNOWN
    assert outcome("desired-reached", cut) is Outcome.UNKNOWN


def test_operator_properties_are_asked_for_by_name() -> None:
    """They run when named; by default a run is judged by Slurm's properties alone."""
    history = a_history(good())
    named = run_checks(history, ["no-busy-pod-deleted"])
    assert [v.subject for v in named] == ["no-busy-pod-deleted"]
    assert not set(PROPERTIES) & set(OPERATOR_PROPERTIES)
    assert set(ASKED_FOR) == {*PROPERTIES, *OPERATOR_PROPERTIES, cpus_once.NAME}
