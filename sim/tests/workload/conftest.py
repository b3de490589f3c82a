"""Fixtures of the input tests: small configurations read from text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.cluster import ClusterConf
from slurmtwin.workload.option_reader import ConfWarning
from slurmtwin.workload.slurm_conf import cluster_conf_of_files

NODES = "NodeName=n[1-4] CPUs=4 RealMemory=1000\nPartitionName=main Nodes=ALL Default=YES\n"


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., tuple[ClusterConf, list[ConfWarning]]]:
    """read(text, nodes=, version=, waive=, gres_conf=, topology_conf=, sacctmgr=): the configuration and warnings."""

    def read(
        text: str, *, nodes: str = NODES, version: str = "26.05", waive: tuple[str, ...] = (), **other: str
    ) -> tuple[ClusterConf, list[ConfWarning]]:
        path = tmp_path / "slurm.conf"
        path.write_text(text + "\n" + nodes, encoding="utf-8")
        files: dict[str, Any] = {}
        for name, content in other.items():
            files[name] = tmp_path / f"{name}.txt"
            files[name].write_text(content, encoding="utf-8")
        return cluster_conf_of_files(path, version=version, waive=waive, **files)

    return read
