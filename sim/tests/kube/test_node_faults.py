"""Faults of Kubernetes nodes that meet each other: what was deleted is not there, and who uncordons drains no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.cluster_faults import ClusterFault
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.worlds.twin import TwinOptions, run_scenario

FAULTS = Path(__file__).parents[3] / "scenarios" / "faults"


def played(name: str, *faults: dict[str, Any]) -> tuple[str, list[Event]]:
    """Why a scenario ended with these faults in place of its own, and its rows."""
    scenario = load_scenario(FAULTS / f"{name}.yaml")
    made = [ClusterFault.model_validate(fault) for fault in faults]
    run = run_scenario(scenario.model_copy(update={"faults": made}), FAULTS, TwinOptions(keep=True))
    return run.stop_reason, run.kept or []


@pytest.mark.parametrize("kind", ["kube_node.delete", "kube_node.cordon", "kube_node.drain"])
def test_a_node_that_was_deleted_is_no_target(kind: str) -> None:
    """It is registered again when that fault ends; until then the message names it."""
    target = {"target": "node-of:slurmd:w-0"}
    deleted = {"at": "20s", "kind": "kube_node.delete", "lasts": "60s", **target}
    with pytest.raises(InputError, match=r"worker[0-9] is no node of the cluster now"):
        played("x42-drain-protected", deleted, {"at": "30s", "kind": kind, **target})


@pytest.mark.parametrize(("lasts", "evicted"), [("20s", False), ("100s", True)])
def test_a_drain_is_given_up_where_its_machine_is_uncordoned(lasts: str, evicted: bool) -> None:
    """A busy worker is protected for longer than 20 s: its pod stays, and the run is over with its job. One that is
    drained for longer goes when its job has ended."""
    fault = {"at": "45s", "kind": "kube_node.drain", "target": "node-of:slurmd:w-0", "lasts": lasts}
    why, rows = played("x42-drain-protected", fault)
    gone = [row for row in rows if row.kind is Kind.POD_DELETING and '"app":"slurmd"' in row.detail]
    assert (why, bool(gone)) == ("done", evicted)
