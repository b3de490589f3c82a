"""slurm.conf of the real cluster: the scenario's words, and what the harness must change, all of it reported."""

from __future__ import annotations

from typing import Any

import pytest

from slurmtwin.contract.scenario import SlurmSection
from slurmtwin_e2e.conf import FIRST_PORT, FORCED, MAX_NODES, controllers_of, render

PARTITION = {"PartitionName": "main", "Nodes": "ALL", "Default": "YES"}


def section(conf: dict[str, Any] | None = None, **more: Any) -> SlurmSection:
    """Two nodes, one partition."""
    parts: dict[str, Any] = {"nodes": [{"NodeName": "n[1-2]", "CPUs": 4}], "partitions": [PARTITION]}
    return SlurmSection.model_validate({"conf": conf or {}, **parts, **more})


def lines(conf: dict[str, Any] | None = None, version: str = "26.05", **more: Any) -> list[str]:
    """slurm.conf line by line."""
    return render(section(conf, **more), version).files["/etc/slurm/slurm.conf"].splitlines()


def test_a_scenarios_own_options_are_written_literally() -> None:
    """Spelling, order and value are the scenario's."""
    text = lines({"SchedulerParameters": "bf_interval=7", "PriorityWeightAge": 100})
    assert "SchedulerParameters=bf_interval=7" in text
    assert "PriorityWeightAge=100" in text


@pytest.mark.parametrize("option", sorted(FORCED))
def test_every_option_of_the_harness_is_forced_and_reported(option: str) -> None:
    """Whatever the scenario asked for, in any case, is in the list of overridden options and not in the file."""
    files = render(section({option.upper(): "mine"}), "26.05")
    assert files.overridden[option.upper()]["asked"] == "mine"
    assert "mine" not in files.files["/etc/slurm/slurm.conf"]


def test_an_option_asked_as_it_is_forced_is_no_change() -> None:
    """Only real changes are reported."""
    assert render(section({"AuthType": "auth/munge"}), "26.05").overridden == {}


def test_every_node_has_a_port_of_its_own_on_this_host() -> None:
    """All slurmds share one address."""
    node = [{"NodeName": "a[1-3]", "CPUs": 4}, {"NodeName": "b", "CPUs": 2}]
    text = [line for line in lines(nodes=node) if line.startswith("NodeName")]
    assert f"Port={FIRST_PORT}-{FIRST_PORT + 2}" in text[0] or f"Port=[{FIRST_PORT}-{FIRST_PORT + 2}]" in text[0]
    assert f"Port={FIRST_PORT + 3}" in text[1]
    assert render(section(nodes=node), "26.05").nodes == ["a1", "a2", "a3", "b"]


def test_a_default_node_line_is_no_node() -> None:
    """It is kept, without address and port."""
    node = [{"NodeName": "DEFAULT", "CPUs": 12}, {"NodeName": "n1"}]
    text = [line for line in lines(nodes=node) if line.startswith("NodeName")]
    assert text[0] == "NodeName=DEFAULT CPUs=12"
    assert render(section(nodes=node), "26.05").nodes == ["n1"]


def test_more_nodes_than_the_world_can_run_are_refused() -> None:
    """The message says the limit."""
    with pytest.raises(ValueError, match=str(MAX_NODES)):
        render(section(nodes=[{"NodeName": f"n[1-{MAX_NODES + 1}]", "CPUs": 1}]), "26.05")


@pytest.mark.parametrize(("version", "kept"), [("22.05", True), ("24.11", False), ("26.05", False)])
def test_options_that_a_version_stops_at_are_left_out_and_reported(version: str, kept: bool) -> None:
    """FastSchedule is gone since 23.02: slurmctld would refuse to start."""
    files = render(section({"FastSchedule": "1"}), version)
    assert ("FastSchedule=1" in files.files["/etc/slurm/slurm.conf"]) == kept
    assert ("FastSchedule" in files.overridden) != kept


def test_several_controllers_get_addresses_and_logs_of_their_own() -> None:
    """In the order of the scenario, the primary first."""
    conf = {"SlurmctldHost": "ctl1(1.2.3.4),ctl2"}
    assert controllers_of(conf) == ["ctl1", "ctl2"]
    text = lines(conf)
    assert [line for line in text if line.startswith("SlurmctldHost")] == [
        "SlurmctldHost=ctl1(127.0.1.1)", "SlurmctldHost=ctl2(127.0.1.2)",
    ]  # fmt: skip
    assert "CommunicationParameters=NoCtldInAddrAny" in text
    assert "SlurmctldLogFile=/var/log/slurmctld/slurmctld.log" in text


@pytest.mark.parametrize("more", [{"conf": {"AccountingStorageType": "accounting_storage/slurmdbd"}},
                                  {"accounting": ["add account a"]}])  # fmt: skip
def test_accounting_brings_its_daemon(more: dict[str, Any]) -> None:
    """Asked for by option or by sacctmgr lines."""
    files = render(section(**more), "24.11")
    assert files.accounting
    assert "StorageUser=root" in files.files["/etc/slurm/slurmdbd.conf"]
    assert "AccountingStorageType=accounting_storage/slurmdbd" in files.files["/etc/slurm/slurm.conf"]


def test_gpus_get_files_that_exist() -> None:
    """slurmd counts only devices that are there; the count comes from the node line."""
    node = [{"NodeName": "g1", "CPUs": 4, "Gres": "gpu:2"}]
    files = render(section({"GresTypes": "gpu"}, nodes=node, gres=[{"NodeName": "g1", "Name": "gpu"}]), "26.05")
    assert files.files["/etc/slurm/gres.conf"] == "NodeName=g1 Name=gpu File=/dev/slurmtwin-gpu[0-1]\n"


def test_the_log_of_backfill_can_be_left_out() -> None:
    """With thousands of jobs the log itself would slow backfill."""
    quiet = render(section(), "26.05", log_backfill=False).files["/etc/slurm/slurm.conf"]
    assert "DebugFlags=HetJob" in quiet
    assert "DebugFlags=Backfill,HetJob" in lines()
