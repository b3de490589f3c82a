"""A new user's first steps: what counts as a working sinfo, and what the user applies."""

from __future__ import annotations

import pytest

from slurmtwin_e2e.kind.first_steps import FILE, idle_nodes


@pytest.mark.parametrize(
    ("told", "idle"),
    [
        ("w-0 idle\nw-1 idle", 2),
        ("w-0 idle\nw-0 idle", 1),
        ("w-0 idle\nw-1 idle*", 1),
        ("w-0 down\nw-1 unknown*", 0),
        ("slurm_load_partitions: Unable to contact slurm controller (connect failure)", 0),
        ("", 0),
    ],
)
def test_only_nodes_that_answer_and_are_idle_count(told: str, idle: int) -> None:
    """A node in two partitions counts once; one with a mark, another state or an error's words does not."""
    assert idle_nodes(told) == idle


def test_the_file_is_as_short_as_promised() -> None:
    """A Cluster of at most 15 lines and one NodeSet."""
    cluster, node_set = (part.strip().splitlines() for part in FILE.read_text().split("---"))
    assert len(cluster) <= 15
    assert len(node_set) <= 15
    assert "kind: Cluster" in cluster
    assert "kind: NodeSet" in node_set
