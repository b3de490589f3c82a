"""slurm.conf of a cluster: same settings, same bytes, whatever order they are listed in.

The user's options come from a fixed list (spec.CONF_OPTIONS) and override the operator's defaults; what decides who
is trusted and where things are is the operator's own and comes last, where Slurm reads the last word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from slurmtwin_operator.core import power
from slurmtwin_operator.core.manifests import CTLD_PORT, DBD_PORT, JWT_KEY, LOG_DIR, SLURMD_PORT, shared_key
from slurmtwin_operator.core.observed import ClusterObserved, NodeSetFact
from slurmtwin_operator.core.spec import CONF_WORD, DNS_LABEL, PARTITION_OPTIONS

DEFAULTS: Final = {
    "MaxNodeCount": "1024",
    "ProctrackType": "proctrack/linuxproc",
    "ReturnToService": "1",
    "SelectType": "select/cons_tres",
    "TaskPlugin": "task/none",
}
"""What a user may override. ReturnToService 1: silent nodes come back by themselves, a foreign DOWN stays."""
_NAME, _WORD = re.compile(DNS_LABEL), re.compile(CONF_WORD)
_PARTITION: Final = frozenset(name.lower() for name in PARTITION_OPTIONS)
PARAMETERS: Final = ("enable_configless", "reconfig_on_restart")


def controller_hosts(o: ClusterObserved) -> tuple[str, ...]:
    """The values of SlurmctldHost, the primary first."""
    name, service = o.me.name, f"{o.me.name}-ctld"
    if o.spec.switches.controller == "primary-backup":
        return tuple(f"{name}-ctld-{i}({name}-ctld-{i}.{service}-pods)" for i in (0, 1))
    return (
        (f"{name}-ctld-0({service})",)
        if o.spec.switches.controller == "statefulset-rwo"
        else (f"{name}-ctld({service})",)
    )


def _ordered(pairs: Iterable[tuple[str, str]], o: ClusterObserved) -> list[tuple[str, str]]:
    return sorted(pairs) if o.spec.switches.conf_order == "sorted" else list(pairs)


def _settings(o: ClusterObserved) -> list[tuple[str, str]]:
    """All options beside nodes and partitions."""
    lower = {key.lower() for key in o.spec.conf}
    saved = o.spec.switches.scale_source == "power"
    defaults = DEFAULTS | power.DEFAULTS if saved else DEFAULTS
    pairs = [(k, v) for k, v in defaults.items() if k.lower() not in lower]
    pairs += [(k, v) for k, v in o.spec.conf.items() if k.lower() != "slurmctldparameters"]
    wished = next((v.split(",") for k, v in o.spec.conf.items() if k.lower() == "slurmctldparameters"), [])
    parameters = [*PARAMETERS, *(w for w in sorted(set(wished)) if w and w not in PARAMETERS)]
    plugin = "slurm" if shared_key(o.spec.version) == "slurm.key" else "munge"
    fixed = [
        ("AuthType", f"auth/{plugin}"), ("CredType", f"cred/{plugin}"), ("AuthAltTypes", "auth/jwt"),
        ("AuthAltParameters", f"jwt_key=/run/slurm-keys/{JWT_KEY}"), ("ClusterName", o.me.name),
        ("SlurmUser", "slurm"), ("SlurmdUser", "root"), ("SlurmctldPort", str(CTLD_PORT)),
        ("SlurmdPort", str(SLURMD_PORT)), ("SlurmctldParameters", ",".join(parameters)),
        ("StateSaveLocation", "/var/spool/slurmctld"), ("SlurmdSpoolDir", "/var/spool/slurmd"),
        ("SlurmctldPidFile", "/run/slurmctld/slurmctld.pid"), ("SlurmdPidFile", "/run/slurm/slurmd.pid"),
        ("MailProg", "/bin/true"),
    ]  # fmt: skip
    if saved:
        fixed += power.SETTINGS.items()
    if o.spec.accounting is not None:
        fixed += [("AccountingStorageType", "accounting_storage/slurmdbd"),
                  ("AccountingStorageHost", f"{o.me.name}-dbd"), ("AccountingStoragePort", str(DBD_PORT))]  # fmt: skip
    if o.spec.log_claim is not None:
        fixed += [("SlurmctldLogFile", f"{LOG_DIR}/slurmctld.log"), ("SlurmdLogFile", f"{LOG_DIR}/slurmd.log"),
                  ("JobCompType", "jobcomp/filetxt"), ("JobCompLoc", f"{LOG_DIR}/jobcomp.log")]  # fmt: skip
    return _ordered(pairs, o) + fixed


def departed(o: ClusterObserved) -> list[str]:
    """Partitions that slurmctld has and that no node set asks for any more."""
    return sorted(set(o.partitions) - {fact.name for fact in o.node_sets if fact.partition})


def kept_partitions(o: ClusterObserved, dropped: tuple[str, ...] = ()) -> list[str]:
    """Partitions without a node set that some job record still names, or that cannot be asked about.

    dropped: those whose leaving was decided while Slurm answered. slurmctld does not answer while it restarts for that
    very change: to keep them then would change slurm.conf back, and restart it again and again.
    """
    gone = departed(o)
    if o.spec.switches.partition_removal == "at-once":
        return []
    if o.slurm.answer != "fresh":
        return [name for name in gone if name not in dropped]
    named = {name for job in o.slurm.jobs for name in job.partition.split(",")}
    return [name for name in gone if name in named]


def render(o: ClusterObserved, kept: Iterable[str] = ()) -> str:
    """The text of slurm.conf, with these partitions beside those of the node sets."""
    lines = [f"SlurmctldHost={host}" for host in controller_hosts(o)]
    lines += [f"{key}={value}" for key, value in _settings(o)]
    facts = [fact for fact in o.node_sets if _NAME.fullmatch(fact.name)]
    if o.spec.switches.conf_order == "sorted":
        facts.sort(key=lambda fact: fact.name)
    for fact in facts:
        if o.spec.switches.scale_source == "power" and fact.nodes:
            lines.append(power.node_line(fact))
        lines.append(f"NodeSet={fact.name} Feature={fact.name}")
        if fact.partition:
            lines.append(_partition(fact, o))
    lines += [f"PartitionName={name} State=DOWN" for name in kept]
    return "\n".join(lines) + "\n"


def _partition(fact: NodeSetFact, o: ClusterObserved) -> str:
    """Its line. What a schema should have refused is left out: nobody writes another line of slurm.conf."""
    options = [(k, v) for k, v in _ordered(fact.options, o) if k.lower() in _PARTITION and _WORD.fullmatch(v)]
    return " ".join((f"PartitionName={fact.name}", f"Nodes={fact.name}", *(f"{k}={v}" for k, v in options)))
