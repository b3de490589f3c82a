"""What slurm-operator has written on Slurm nodes is read off the statuses of its node set."""

from __future__ import annotations

import pytest

from slurmtwin.campaign.recorded_comments import NEVER_NS, TAKEN_BACK_NS, Times, commented, informed_from_ns
from slurmtwin.contract.clock import MS, SECOND


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
