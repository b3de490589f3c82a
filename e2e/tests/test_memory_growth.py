"""What a job's growth in a container is counted as."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin_e2e.kind.memory_growth import drop_caches, pod, span, summary


def test_a_span_lies_between_the_two_times_that_were_told() -> None:
    """In unix seconds, as bash has them."""
    assert span("1795371360.250000\n1795371362.000000\n") == pytest.approx(1.75)


def test_a_container_that_was_killed_whole_is_an_error() -> None:
    """It told when it began, and no end: nothing to count."""
    with pytest.raises(EnvironmentMissingError, match=r"told 1 of 2 times: no such image"):
        span("1795371360.250000\n", "no such image\n")


def test_median_and_ends_are_told_in_milliseconds() -> None:
    """And each of them; of nothing, nothing."""
    found = summary([0.2, 0.18, 0.385])
    assert (found["count"], found["median_ms"], found["least_ms"], found["most_ms"]) == (3, 200.0, 180.0, 385.0)
    assert found["each_ms"] == [200.0, 180.0, 385.0]
    assert summary([]) == {"count": 0, "each_ms": []}


def test_a_pod_grows_within_the_limits_that_a_container_has() -> None:
    """Docker's 512m is Kubernetes' 512Mi; with both limits it is Guaranteed, and it is never started again."""
    spec = pod("grows-0", "kind-worker2", "26.05", "hog", "512m", "0.1")["spec"]
    assert (spec["nodeName"], spec["restartPolicy"]) == ("kind-worker2", "Never")
    assert spec["containers"][0]["resources"] == {"limits": {"memory": "512Mi", "cpu": "0.1"}}


def test_a_cold_container_begins_with_no_clean_page_on_the_host(tmp_path: Path) -> None:
    """3 is pages, dentries and inodes (Documentation/admin-guide/sysctl/vm.rst)."""
    control = tmp_path / "drop_caches"
    drop_caches(control)
    assert control.read_text("ascii") == "3\n"


def test_who_may_not_drop_the_cache_is_told_what_to_do(tmp_path: Path) -> None:
    """Where, why and what to try."""
    with pytest.raises(EnvironmentMissingError, match=r"drop_caches: .*\(run as root of the Docker host, or leave out"):
        drop_caches(tmp_path / "nowhere" / "drop_caches")
