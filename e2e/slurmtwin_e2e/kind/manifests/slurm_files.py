"""slurm.conf of pods: the scenario's own options, and the few that the harness needs (as slurmtwin_e2e.conf does)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slurmtwin.contract.errors import InputError
from slurmtwin.contract.fields import Scalar
from slurmtwin.contract.hostlist import expand
from slurmtwin.contract.scenario import Scenario

CTLD_PORT: Final = 6817
SLURMD_PORT: Final = 6818
DBD_PORT: Final = 6819
REST_PORT: Final = 6820
STATE_DIR: Final = "/var/spool/slurmctld"
LOG_DIR: Final = "/var/log/slurm"
EVIDENCE: Final = "/evidence"
JWT_KEY: Final = "/run/slurm-keys/jwt_hs256.key"

FORCED: Final[dict[str, str]] = {
    "AuthAltTypes": "auth/jwt",
    "AuthAltParameters": f"jwt_key={JWT_KEY}",
    "SlurmUser": "slurm",
    "SlurmdUser": "root",
    "StateSaveLocation": STATE_DIR,
    "SlurmdSpoolDir": "/var/spool/slurmd",
    "SlurmctldPidFile": "/run/slurmctld/slurmctld.pid",
    "SlurmdPidFile": "/run/slurm/slurmd.pid",
    "SlurmctldPort": str(CTLD_PORT),
    "SlurmdPort": str(SLURMD_PORT),
    "SlurmctldLogFile": f"{LOG_DIR}/slurmctld.log",
    "SlurmdLogFile": f"{LOG_DIR}/slurmd.log",
    "SlurmctldDebug": "debug",
    "SlurmdDebug": "debug",
    "LogTimeFormat": "iso8601_ms",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "JobAcctGatherType": "jobacct_gather/none",
    "JobCompType": "jobcomp/filetxt",
    "JobCompLoc": f"{EVIDENCE}/jobcomp.log",
    "MpiDefault": "none",
    "MailProg": "/bin/true",
}
AUTH: Final = {
    "22.05": {"AuthType": "auth/munge", "CredType": "cred/munge"},
    "24.11": {"AuthType": "auth/slurm", "CredType": "cred/slurm"},
    "26.05": {"AuthType": "auth/slurm", "CredType": "cred/slurm"},
}
MERGED: Final = {"SlurmctldParameters": "enable_configless", "DebugFlags": "HetJob"}
"""Options of which the harness needs one word beside the scenario's."""
REST_API: Final = {"22.05": "v0.0.38", "24.11": "v0.0.42", "26.05": "v0.0.44"}
REST_PLUGIN: Final = {"22.05": "openapi/v0.0.38", "24.11": "openapi/slurmctld", "26.05": "openapi/slurmctld"}
"""What slurmrestd is told to load: it stops at a plugin that wants slurmdbd where there is none."""
SERVES_PROBES: Final = ("26.05",)
"""Versions whose slurmctld and slurmd serve /livez and /readyz on their main port, and slurmctld /metrics."""


@dataclass(frozen=True, slots=True)
class Workers:
    """The worker pods: the StatefulSet's name, how many, and the NodeName line's own settings."""

    name: str
    count: int
    settings: Mapping[str, Scalar]

    @property
    def names(self) -> tuple[str, ...]:
        """Pod names, which are Slurm's node names."""
        return tuple(f"{self.name}-{i}" for i in range(self.count))


def workers_of(scenario: Scenario) -> Workers:
    """The workers, from the scenario's one NodeName line. Raises InputError when no StatefulSet can make its names."""
    lines = scenario.slurm.nodes
    if len(lines) != 1:
        raise InputError(f"{len(lines)} NodeName lines: pods need exactly one", hint="NodeName: w-[0-3]")
    settings = dict(lines[0])
    names = expand(str(settings.pop("NodeName")))
    found = re.fullmatch(r"([a-z]([a-z0-9-]{0,20}[a-z0-9])?)-0", names[0])
    if not found or names != [f"{found[1]}-{i}" for i in range(len(names))]:
        raise InputError(
            f"NodeName {lines[0]['NodeName']}: a StatefulSet names its pods NAME-0, NAME-1 ...",
            hint="NodeName: w-[0-3]",
        )
    return Workers(found[1], len(names), settings)


def controllers_of(scenario: Scenario) -> tuple[str, ...]:
    """Host names of the controllers, primary first."""
    pods = scenario.pods
    return ("slurmctld-0", "slurmctld-1") if pods and pods.controller == "primary-backup" else ("slurmctld-0",)


def _value(conf: Mapping[str, Scalar], name: str) -> str:
    return next((str(v) for k, v in conf.items() if k.lower() == name.lower()), "")


def slurm_conf(scenario: Scenario, hosts: Sequence[str] = ()) -> str:
    """slurm.conf for every pod; hosts: values of SlurmctldHost where somebody else makes the controllers.

    Nodes register themselves (slurmd -Z), so no NodeName line is in it.
    """
    section = scenario.slurm
    forced = FORCED | AUTH[section.version]
    for name, word in MERGED.items():
        forced[name] = ",".join(filter(None, (_value(section.conf, name), word)))
    if section.version in SERVES_PROBES:
        forced["MetricsType"] = "metrics/openmetrics"
    if not _value(section.conf, "ClusterName"):
        forced["ClusterName"] = "twin"
    if not _value(section.conf, "MaxNodeCount"):
        forced["MaxNodeCount"] = "64"
    if section.version == "22.05" and not _value(section.conf, "SelectType"):
        forced["SelectType"] = "select/cons_tres"  # dynamic nodes need it, later versions have it by default
    if section.accounting or _value(section.conf, "AccountingStorageType").endswith("slurmdbd"):
        forced |= {"AccountingStorageType": "accounting_storage/slurmdbd", "AccountingStorageHost": "slurmdbd"}
    taken = {key.lower() for key in forced} | {"slurmctldhost"}
    lines = [f"{key}={value}" for key, value in section.conf.items() if key.lower() not in taken]
    lines += [f"SlurmctldHost={host}" for host in hosts or [f"{name}({name})" for name in controllers_of(scenario)]]
    lines += [f"{key}={value}" for key, value in forced.items()]
    for first, group in (("NodeSet", section.nodesets), ("PartitionName", section.partitions)):
        for values in group:
            rest = " ".join(f"{k}={v}" for k, v in values.items() if k != first)
            lines.append(f"{first}={values[first]} {rest}".rstrip())
    if not section.partitions:
        lines.append("PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
    return "\n".join(lines) + "\n"


def config_files(scenario: Scenario, hosts: Sequence[str] = ()) -> dict[str, str]:
    """Files of the ConfigMap: slurm.conf, cgroup.conf where the version can do without cgroups, slurmdbd.conf."""
    files = {"slurm.conf": slurm_conf(scenario, hosts)}
    if scenario.slurm.version != "22.05":
        files["cgroup.conf"] = "CgroupPlugin=disabled\n"
    return files


def slurmdbd_conf(version: str) -> str:
    """slurmdbd.conf: the database lies in the same container, reached by its socket."""
    lines = {
        "AuthType": AUTH[version]["AuthType"], "AuthAltTypes": "auth/jwt", "AuthAltParameters": f"jwt_key={JWT_KEY}",
        "DbdHost": "slurmdbd", "SlurmUser": "slurm", "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost", "StorageUser": "slurm", "StorageLoc": "slurm_acct_db",
        "LogFile": f"{LOG_DIR}/slurmdbd.log", "PidFile": "/run/slurmdbd/slurmdbd.pid", "DebugLevel": "info",
        "LogTimeFormat": "iso8601_ms",
    }  # fmt: skip
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def slurmd_options(scenario: Scenario) -> list[str]:
    """Options of slurmd: a dynamic node that takes its configuration from slurmctld."""
    workers = workers_of(scenario)
    servers = ",".join(f"{name}:{CTLD_PORT}" for name in controllers_of(scenario))
    settings = " ".join(f"{key}={value}" for key, value in workers.settings.items() if key.lower() != "state")
    return ["-Z", "-N", "$(POD_NAME)", "--conf-server", servers, "--conf", settings or "CPUs=1"]
