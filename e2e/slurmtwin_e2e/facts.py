"""What a scenario's literal lines say of the cluster: sizes for the event table, facts for the manifest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.cluster_facts import ClusterFacts
from slurmtwin.contract.fields import Scalar
from slurmtwin.contract.hostlist import expand
from slurmtwin.contract.scenario import Scenario
from slurmtwin_e2e.conf import controllers_of

DEFAULT_BF_INTERVAL_S: Final = 30
DEFAULT_CRED_EXPIRE_S: Final = 120
DEFAULT_FORCE_SHARE: Final = 4


def _low(line: Mapping[str, Scalar]) -> dict[str, str]:
    return {key.lower(): str(value) for key, value in line.items()}


def _cpus(line: dict[str, str], default: int) -> int:
    product = 1
    for name in ("boards", "sockets", "socketsperboard", "corespersocket", "threadspercore"):
        product *= int(line.get(name, 1))
    return int(line.get("cpus", line.get("procs", product if product > 1 else default)))


def cpus_of_nodes(scenario: Scenario) -> dict[str, int]:
    """CPUs of each node in table order; NodeName=DEFAULT lines count for those after them."""
    out: dict[str, int] = {}
    default = 1
    for line in map(_low, scenario.slurm.nodes):
        cpus = _cpus(line, default)
        if line["nodename"].upper() == "DEFAULT":
            default = cpus
            continue
        out |= dict.fromkeys(expand(line["nodename"]), cpus)
    return out


def _number(text: str, pattern: str) -> int | None:
    found = re.search(pattern, text, re.IGNORECASE)
    return int(found[1]) if found else None


def _share(partition: dict[str, str]) -> int:
    word, _, count = partition.get("oversubscribe", partition.get("shared", "NO")).partition(":")
    if word.upper() not in ("YES", "FORCE"):
        return 1
    return int(count) if count else DEFAULT_FORCE_SHARE


def cluster_facts(scenario: Scenario) -> ClusterFacts:
    """The facts that every world writes to its manifest, from the scenario's own text."""
    conf = _low(scenario.slurm.conf)
    partitions = [_low(p) for p in scenario.slurm.partitions]
    parameters = conf.get("schedulerparameters", "")
    interval = _number(parameters, r"(?:^|,)bf_interval=(\d+)")
    delay = _number(parameters, r"(?:^|,)requeue_delay=(\d+)")
    expire = _number(conf.get("authinfo", ""), r"cred_expire=(\d+)") or DEFAULT_CRED_EXPIRE_S
    gang = "GANG" in conf.get("preemptmode", "").upper()
    default = next((p["partitionname"] for p in partitions if p.get("default", "").upper() == "YES"), "")
    return ClusterFacts(
        node_cpus=cpus_of_nodes(scenario),
        share=max([2 if gang else 1, *map(_share, partitions)]),
        default_partition=default,
        bf_interval_ns=(DEFAULT_BF_INTERVAL_S if interval is None else interval) * SECOND,
        requeue_hold_ns=(expire + 1 if delay is None else delay) * SECOND,
        controllers=tuple(controllers_of(scenario.slurm.conf)),
    )
