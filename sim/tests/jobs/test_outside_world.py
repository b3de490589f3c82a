"""Worlds outside the simulator are called as the twin is."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.manifest import Manifest
from slurmtwin.contract.scenario import Scenario
from slurmtwin.contract.world import RunAnswer, RunOrder
from slurmtwin.worlds import registry
from slurmtwin.worlds.outside import OutsideWorld
from slurmtwin.worlds.registry import find_world
from slurmtwin.worlds.twin import TwinOptions

CONF = """\
ClusterName=site
SlurmctldHost=ctl
NodeName=n[1-2] CPUs=4 RealMemory=1000
PartitionName=main Nodes=ALL Default=YES State=UP
"""
SWF = "; UnixStartTime: 0\n" + "\n".join(
    f"{i} {10 * i} -1 30 2 -1 -1 2 60 -1 1 1 1 -1 1 -1 -1 -1" for i in range(1, 4)
)  # fmt: skip


def a_scenario(**more: object) -> Scenario:
    """One job on two nodes."""
    slurm = {"nodes": [{"NodeName": "n[1-2]", "CPUs": 4}], "partitions": [{"PartitionName": "p", "Nodes": "ALL"}]}
    document = {"schema": "slurmtwin/scenario/1", "name": "one", "slurm": slurm,
                "workload": {"jobs": [{"run": "5s", "time": "1"}]}}  # fmt: skip
    return Scenario.model_validate(document | more)


class Recorder:
    """A world that keeps the order it got and answers with two rows."""

    def __init__(self) -> None:
        self.orders: list[RunOrder] = []

    def __call__(self, order: RunOrder) -> RunAnswer:
        self.orders.append(order)
        manifest = Manifest("far", order.scenario.name, "", order.seed, results={"run_id": "r", "stop_reason": "done"})
        rows = [Event(0, Kind.RUN_STARTED, "far"), Event(7, Kind.RUN_ENDED, "far")]
        return RunAnswer(manifest, rows)


def test_an_answer_becomes_a_run_with_a_hash_and_a_frame() -> None:
    """Rows, reason and hash are there as after a twin run; the same rows give the same hash."""
    runs = [OutsideWorld("far", Recorder())(a_scenario(), ".", TwinOptions(seed=3)) for _ in range(2)]
    assert runs[0].event_hash == runs[1].event_hash != ""
    assert (runs[0].world, runs[0].seed, runs[0].event_count, runs[0].stop_reason) == ("far", 3, 2, "done")
    assert list(runs[0].events["world"]) == ["far", "far"]


def test_files_and_traces_are_resolved_before_the_world_is_called(tmp_path: Path) -> None:
    """A world outside gets literal options and listed jobs, whatever the scenario named."""
    (tmp_path / "slurm.conf").write_text(CONF)
    (tmp_path / "trace.swf").write_text(SWF)
    scenario = a_scenario(
        slurm={"files": {"slurm_conf": "slurm.conf"}}, workload={"file": {"path": "trace.swf", "format": "swf"}}
    )
    world = Recorder()
    OutsideWorld("far", world)(scenario, tmp_path)
    order = world.orders[0]
    assert order.scenario.slurm.files is None
    assert order.scenario.slurm.conf["SlurmctldHost"] == "ctl"
    assert [line["NodeName"] for line in order.scenario.slurm.nodes] == ["n[1-2]"]
    assert [job.job_id for job in order.jobs] == [1, 2, 3]


def test_a_tie_seed_is_refused_where_there_is_no_tie_rule() -> None:
    """A test of the twin's order of ties must not seem to have been made in a real world."""
    with pytest.raises(InputError, match="ties"):
        OutsideWorld("far", Recorder())(a_scenario(), ".", TwinOptions(tie_seed=1))


def test_the_registry_wraps_every_world_but_the_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    """`slurm` is found without the simulator importing the package that holds it."""
    found = find_world("slurm")
    assert isinstance(found, OutsideWorld)
    assert found.name == "slurm"
    monkeypatch.setitem(registry.KNOWN, "far", "slurmtwin.worlds.outside:absent")
    with pytest.raises(Exception, match="far"):
        find_world("far")
