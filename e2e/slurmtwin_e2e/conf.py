"""slurm.conf of a real cluster in one container: the scenario's own options, and the few that the harness needs.

Whatever the scenario says is written literally. Options of FORCED are the harness's own: authentication, paths, logs,
accounting of processes (there is one kernel for all nodes). Each of them that the scenario set otherwise is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from slurmtwin.contract.fields import Scalar
from slurmtwin.contract.hostlist import compress, expand
from slurmtwin.contract.scenario import SlurmSection

STATE_DIR: Final = "/var/spool/slurmctld"
JOBCOMP: Final = "/var/log/slurm_jobcomp.log"
FIRST_PORT: Final = 7001
DEVICE: Final = "/dev/slurmtwin-gpu"
"""Stand-ins for GPUs: device files that boot.py makes."""
MAX_NODES: Final = 256

FORCED: Final[dict[str, str]] = {
    "AuthType": "auth/munge",
    "SlurmUser": "root",
    "SlurmdUser": "root",
    "StateSaveLocation": STATE_DIR,
    "SlurmdSpoolDir": "/var/spool/slurmd/%n",
    "SlurmctldPidFile": "/run/slurmctld/slurmctld.pid",
    "SlurmdPidFile": "/run/slurm/slurmd.%n.pid",
    "SlurmctldPort": "6817",
    "SlurmdLogFile": "/out/slurmd.%n.log",
    "SlurmctldDebug": "debug",
    "SlurmdDebug": "info",
    "LogTimeFormat": "iso8601_ms",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "JobAcctGatherType": "jobacct_gather/none",
    "JobCompType": "jobcomp/filetxt",
    "JobCompLoc": JOBCOMP,
    "MpiDefault": "none",
    "MailProg": "/bin/true",
    "SwitchType": "",
    "CryptoType": "",
    "CredType": "",
    "JobCredentialPrivateKey": "",
    "JobCredentialPublicCertificate": "",
    "ControlMachine": "",
    "ControlAddr": "",
    "BackupController": "",
    "BackupAddr": "",
    "FrontEndName": "",
    "SlurmSchedLogFile": "",
    "SlurmSchedLogLevel": "",
    "UsePAM": "",
    "AccountingStorageHost": "",
    "AccountingStoragePass": "",
    "AccountingStorageLoc": "",
    "AccountingStorageUser": "",
}
"""Option -> the harness's value; an empty value means that the option is left out."""

GONE: Final[dict[str, tuple[str, ...]]] = {
    "24.11": ("AccountingStorageLoc", "AccountingStorageUser", "FastSchedule", "CryptoType", "CheckpointType"),
    "26.05": (
        "AccountingStorageLoc", "AccountingStorageUser", "FastSchedule", "CryptoType", "CheckpointType",
        "JobCheckpointDir", "UsePAM",
    ),
}  # fmt: skip
"""Options that a version no longer reads and stops at."""


@dataclass(slots=True)
class ClusterFiles:
    """What the container needs to know of the cluster."""

    files: dict[str, str]
    nodes: list[str]
    controllers: list[str]
    accounting: bool
    overridden: dict[str, dict[str, str]] = field(default_factory=dict)
    """Option -> {asked, used} for every option that the harness changed."""


def _line(first: str, values: Mapping[str, Scalar]) -> str:
    ordered = {first: values[first], **{k: v for k, v in values.items() if k != first}}
    return " ".join(f"{key}={value}" for key, value in ordered.items())


def _lookup(conf: Mapping[str, Scalar], name: str, default: str = "") -> str:
    for key, value in conf.items():
        if key.lower() == name.lower():
            return str(value)
    return default


def _node_lines(nodes: Sequence[Mapping[str, Scalar]]) -> tuple[list[str], list[str]]:
    """NodeName lines with a port of its own for each node, and all names in table order."""
    names: list[str] = []
    lines: list[str] = []
    port = FIRST_PORT
    for given in nodes:
        values = dict(given)
        if str(values["NodeName"]).upper() != "DEFAULT":
            members = expand(str(values["NodeName"]))
            ports = [str(port + i) for i in range(len(members))]
            port += len(members)
            names.extend(members)
            values["NodeHostname"] = "localhost"
            values["NodeAddr"] = "127.0.0.1"
            values["Port"] = compress(ports) if len(ports) > 1 else ports[0]
        lines.append(_line("NodeName", values))
    return lines, names


def controllers_of(conf: Mapping[str, Scalar]) -> list[str]:
    """Host names of SlurmctldHost, primary first; `ctl1` where none is named."""
    text = _lookup(conf, "SlurmctldHost")
    names = [part.split("(")[0].strip() for part in text.replace(";", ",").split(",") if part.strip()]
    return names or ["ctl1"]


def render(section: SlurmSection, version: str, log_backfill: bool = True) -> ClusterFiles:
    """All configuration files of a scenario's cluster for one Slurm version.

    log_backfill: with DebugFlags=Backfill each test of each job is logged, which makes long queues slower.
    """
    conf = section.conf
    controllers = controllers_of(conf)
    accounting = _lookup(conf, "AccountingStorageType").endswith("slurmdbd") or bool(section.accounting)
    forced = dict(FORCED)
    slurmd_parameters = _lookup(conf, "SlurmdParameters")
    if "config_overrides" not in slurmd_parameters:
        forced["SlurmdParameters"] = ",".join(filter(None, (slurmd_parameters, "config_overrides")))
    flags = _lookup(conf, "DebugFlags")
    forced["DebugFlags"] = ",".join(
        dict.fromkeys(filter(None, (*flags.split(","), "Backfill" * log_backfill, "HetJob")))
    )
    communication = _lookup(conf, "CommunicationParameters")
    if len(controllers) > 1:
        forced["CommunicationParameters"] = ",".join(filter(None, (communication, "NoCtldInAddrAny")))
    forced["SlurmctldLogFile"] = "/out/slurmctld.log" if len(controllers) == 1 else "/var/log/slurmctld/slurmctld.log"
    if accounting:
        forced["AccountingStorageType"] = "accounting_storage/slurmdbd"
        forced["AccountingStorageHost"] = "localhost"
    overridden: dict[str, dict[str, str]] = {}
    lines: list[str] = []
    if not _lookup(conf, "ClusterName"):
        lines.append("ClusterName=twin")
    known = {key.lower(): key for key in forced}
    gone = {name.lower() for name in GONE.get(version, ())}
    for key, value in conf.items():
        low = key.lower()
        if low == "slurmctldhost":
            continue
        if low in known:
            if str(value) != forced[known[low]]:
                overridden[key] = {"asked": str(value), "used": forced[known[low]]}
        elif low in gone:
            overridden[key] = {"asked": str(value), "used": ""}
        else:
            lines.append(f"{key}={value}")
    for number, name in enumerate(controllers):
        address = "127.0.0.1" if len(controllers) == 1 else f"127.0.1.{number + 1}"
        lines.append(f"SlurmctldHost={name}({address})")
    lines.extend(f"{key}={value}" for key, value in forced.items() if value)
    node_lines, names = _node_lines(section.nodes)
    if len(names) > MAX_NODES:
        raise ValueError(f"{len(names)} nodes; the slurm world takes at most {MAX_NODES}")
    lines += node_lines
    lines += [_line("NodeSet", n) for n in section.nodesets]
    lines += [_line("PartitionName", p) for p in section.partitions]
    files = {"/etc/slurm/slurm.conf": "\n".join(lines) + "\n"}
    if section.gres:
        files["/etc/slurm/gres.conf"] = _gres_text(section.gres, section.nodes)
    if section.topology:
        files["/etc/slurm/topology.conf"] = "\n".join(_topology_line(t) for t in section.topology) + "\n"
    if accounting:
        files["/etc/slurm/slurmdbd.conf"] = slurmdbd_conf()
    return ClusterFiles(files, names, controllers, accounting, overridden)


def _gres_of_node(nodes: Sequence[Mapping[str, Scalar]], wanted: str, name: str) -> int:
    """The count that the NodeName line of a node gives for one GRES name."""
    for line in nodes:
        if wanted in expand(str(line["NodeName"])):
            for part in _lookup(line, "Gres").split(","):
                head, *rest = part.split(":")
                if head == name and rest and rest[-1].split("(")[0].isdigit():
                    return int(rest[-1].split("(")[0])
    return 0


def _gres_text(lines: Sequence[Mapping[str, Scalar]], nodes: Sequence[Mapping[str, Scalar]]) -> str:
    """gres.conf; GPUs without File= get stand-in device files, because slurmd counts only devices that exist."""
    out = []
    for line in lines:
        values = dict(line)
        first = "NodeName" if "NodeName" in values else "Name" if "Name" in values else next(iter(values))
        if _lookup(values, "Name") == "gpu" and not _lookup(values, "File"):
            here = expand(str(values["NodeName"])) if "NodeName" in values else []
            count = int(_lookup(values, "Count") or (_gres_of_node(nodes, here[0], "gpu") if here else 0))
            values = {k: v for k, v in values.items() if k.lower() != "count"}
            values["File"] = f"{DEVICE}[0-{count - 1}]" if count > 1 else f"{DEVICE}0"
        out.append(_line(first, values))
    return "\n".join(out) + "\n"


def _topology_line(values: Mapping[str, Scalar]) -> str:
    first = next((k for k in ("SwitchName", "BlockName") if k in values), next(iter(values)))
    return _line(first, values)


def slurmdbd_conf() -> str:
    """slurmdbd.conf of the container: root owns the database through the local socket."""
    return "\n".join(
        (
            "AuthType=auth/munge", "DbdHost=localhost", "SlurmUser=root", "StorageType=accounting_storage/mysql",
            "StorageHost=localhost", "StorageUser=root", "StorageLoc=slurm_acct_db", "LogFile=/out/slurmdbd.log",
            "PidFile=/run/slurm/slurmdbd.pid", "DebugLevel=info", "LogTimeFormat=iso8601_ms", "",
        )
    )  # fmt: skip
