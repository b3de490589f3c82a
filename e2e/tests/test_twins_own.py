"""What only the twin makes is refused by a cluster before anything is created: nothing is left out silently."""

from __future__ import annotations

from typing import Any

import pytest

from slurmtwin.contract.errors import InputError
from slurmtwin.contract.scenario import Scenario
from slurmtwin_e2e.kind.deploy import refuse_impossible
from slurmtwin_e2e.operators.values import create_values


def scenario(pods: dict[str, Any], **more: Any) -> Scenario:
    """Two workers of an operator."""
    document = {
        "schema": "slurmtwin/scenario/1", "name": "case", "pods": pods,
        "slurm": {"nodes": [{"NodeName": "w-[0-1]", "CPUs": 1}]},
    }  # fmt: skip
    return Scenario.model_validate(document | more)


@pytest.mark.parametrize(
    ("pods", "more", "name"),
    [
        ({"switches": {"prune": "never"}}, {}, "pods.switches"),
        ({"autoscale": {}}, {}, "pods.autoscale"),
        ({"others": [{"name": "web", "at": "5s"}]}, {}, "pods.others"),
        ({}, {"cluster": {"autoscaler": {"most": 4}}}, "cluster.autoscaler"),
        ({}, {"workload": {"users": {"try_again": "1m"}}}, "workload.users"),
        ({}, {"workload": {"services": {"machines": 2, "low": 1, "high": 2, "peak": "14h", "per_machine": 1,
                                        "lasts": "1d"}}}, "workload.services"),
        ({}, {"faults": [{"at": "5s", "kind": "process.signal", "target": "operator", "actions": 2}]}, "actions"),
    ],
)  # fmt: skip
def test_a_cluster_refuses_it_by_name(pods: dict[str, Any], more: dict[str, Any], name: str) -> None:
    """And takes the scenario without it."""
    with pytest.raises(InputError, match=name):
        refuse_impossible(scenario(pods, **more), 3)
    refuse_impossible(scenario({}), 3)


@pytest.mark.parametrize(("given", "count"), [(None, 2), (0, 0), (1, 1)])
def test_a_cluster_begins_with_the_workers_that_are_asked_for(given: int | None, count: int) -> None:
    """pods.replicas, else one per node of slurm.conf."""
    values = create_values(scenario({"operator": "slinky", "replicas": given}), "n", "i", "/e", 3)
    assert values["replicas"] == count
