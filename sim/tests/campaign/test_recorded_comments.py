"""What slurm-operator has written on Slurm nodes is read off the statuses of its node set."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.campaign.recorded_comments import NEVER_NS, TAKEN_BACK_NS, Times, commented, informed_from_ns
from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.scenario import load_scenario
from slurmtwin_reports.load import load_run

FAULTS = Path("scenarios/faults")


def ns(*seconds: float) -> list[int]:
    """Nanoseconds."""
    return [round(at * SECOND) for at in seconds]


@pytest.mark.parametrize(
    ("ready_s", "statuses_s", "known"),
    [
        ((1.0, 1.5), (4.03,), ["a"]),
        ((1.0, 1.5), (4.03, 7.06), ["a", "b"]),
        ((1.0, 1.02), (4.05,), ["a"]),
        ((1.0, 1.005), (5.04,), ["a", "b"]),
        ((1.0, 1.05), (5.03,), ["a"]),
        ((1.0, 9.0), (8.0, 12.03), ["a", "b"]),
        ((3.0, 3.5), (4.0,), []),
    ],
)  # fmt: skip
def test_a_pass_with_a_comment_began_three_looks_before_its_status(
    ready_s: tuple[float, float], statuses_s: tuple[float, ...], known: list[str]
) -> None:
    """Two that become ready beside each other take four looks, or three and three."""
    ready = {pod: [(at_ns, NEVER_NS)] for pod, at_ns in zip("ab", ns(*ready_s), strict=True)}
    assert list(commented(ns(*statuses_s), ready, -NEVER_NS)) == known


def test_without_informers_nothing_waits_for_looks() -> None:
    """A pod that is ready 0.1 s before a status has its comment, where the client asks directly."""
    ready = {"a": [(5 * SECOND, NEVER_NS)]}
    assert commented(ns(5.1), ready, 30 * SECOND) == ("a",)
    assert commented(ns(5.1), ready, 5 * SECOND) == ()
    assert informed_from_ns(0, 40 * SECOND) == 60 * SECOND
    assert informed_from_ns(None, 40 * SECOND) < -(10**18)


def test_a_pod_that_is_taken_back_was_found_not_ready() -> None:
    """However long it had been ready: its pass hung."""
    ready: dict[str, Times] = {"a": [(0, 30 * SECOND + TAKEN_BACK_NS // 2), (34 * SECOND, NEVER_NS)]}
    assert commented(ns(30), ready, -NEVER_NS) == ()
    assert commented(ns(30, 37.05), ready, -NEVER_NS) == ("a",)


def test_a_pass_right_behind_may_not_have_heard_that_its_pods_were_taken_back() -> None:
    """x22-slinky #15: it took four looks, as two comments do, and the passes behind it two."""
    ready: dict[str, Times] = {
        "a": [(0, 30_010 * MS), (30_940 * MS, NEVER_NS)],
        "b": [(0, 30_030 * MS), (31_060 * MS, NEVER_NS)],
    }
    assert commented(ns(30, 34.14), ready, -NEVER_NS) == ("a", "b")
    assert commented(ns(30, 34.34), ready, -NEVER_NS) == ("a",)


def before_faults() -> Iterator[tuple[list[int], dict[str, list[tuple[int, int]]], int, int]]:
    """Of each run under slurm-operator with a fault: statuses, workers' readiness, informers, and the first fault."""
    for path in sorted(FAULTS.glob("*.yaml")):
        pods = load_scenario(path).pods
        if pods is not None and pods.operator == "slinky" and not path.stem.startswith("quiet"):
            for folder in sorted(Path("scenarios/recordings").glob(f"{path.stem}/26.05/pods/*")):
                yield seen(list(load_run(folder).rows()))


def seen(rows: list[Any]) -> tuple[list[int], dict[str, list[tuple[int, int]]], int, int]:
    """The same of one."""
    fault_ns = next(row.t_ns for row in rows if row.kind == "fault.injected")
    statuses: list[int] = []
    ready: dict[str, list[tuple[int, int]]] = {}
    generations: dict[str, int] = {}
    firsts: dict[str, int] = {}
    for row in rows:
        if row.actor != "collector" or row.t_ns >= fault_ns:
            continue
        said = json.loads(row.detail) if row.detail else {}
        if said.get("resource") == "RestApi" or '"RestApi/' in (row.detail or "") or said.get("app") == "slurmrestd":
            firsts.setdefault("rest", row.t_ns)
        if said.get("resource") == "NodeSet":
            if generations.get(said["name"]) == said["generation"]:
                statuses.append(row.t_ns)
            generations[said["name"]] = said["generation"]
        elif said.get("app") == "slurmd":
            if row.kind == "pod.created":
                firsts.setdefault("made", row.t_ns)
            elif row.kind == "pod.ready":
                ready.setdefault(said["pod"], []).append((row.t_ns, NEVER_NS))
            elif row.kind == "pod.unready" and said["pod"] in ready:
                ready[said["pod"]][-1] = ready[said["pod"]][-1][0], row.t_ns
    return statuses, ready, informed_from_ns(firsts.get("rest"), firsts.get("made")), fault_ns


def test_where_a_ready_worker_has_no_comment_the_next_status_comes_a_pass_later() -> None:
    """docs/surprises.md: 21 times of 27, where no fault comes first."""
    behind: Counter[str] = Counter()
    for statuses, ready, informed_ns, fault_ns in before_faults():
        for place, status_ns in enumerate(statuses):
            known = commented(statuses[: place + 1], ready, informed_ns)
            left = [
                pod for pod, times in ready.items()
                if pod not in known and any(a < status_ns and status_ns + TAKEN_BACK_NS < b for a, b in times)
            ]  # fmt: skip
            if left:
                following = [*statuses[place + 1 :], NEVER_NS][0] - status_ns
                looks = next((n for n in (3, 4) if n * SECOND <= following < n * SECOND + 250 * MS), 0)
                over = fault_ns - status_ns < 4 * SECOND
                behind["pass" if looks else "fault" if following > NEVER_NS // 2 and over else "other"] += 1
    assert behind == {"pass": 21, "fault": 9, "other": 6}
