"""Options of accounts, users and QOS in sacctmgr, and what field of contract.cluster each one sets.

Source: src/sacctmgr/association_functions.c and qos_functions.c of 26.05.3 (names, old names, abbreviations);
man sacctmgr. Names may be cut short as sacctmgr allows: any unique beginning of three letters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from slurmtwin.contract.clock import SECOND, UNLIMITED, parse_slurm_time
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.quantity import parse_slurm_mib
from slurmtwin.workload.options import MAX_COUNT, number, slurm_minutes, split_words, tres_name

QOS_FLAGS: Final = (
    "DenyOnLimit", "EnforceUsageThreshold", "PartitionMinNodes", "PartitionMaxNodes", "PartitionTimeLimit",
    "RequiresReservation", "OverPartQOS", "NoReserve", "NoDecay", "Relative", "UsageFactorSafe",
)  # fmt: skip
Tres = tuple[tuple[str, int], ...]


def tres_amounts(text: str) -> Tres:
    """`cpu=4,mem=10G,gres/gpu=2`: amounts per TRES, mem in MiB, -1 for no limit. Raises InputError."""
    out: dict[str, int] = {}
    for part in split_words(text):
        name, equal, value = part.partition("=")
        if not equal:
            raise InputError(f"not a TRES amount: {part!r}", hint="for example cpu=4,mem=10G,gres/gpu=2")
        tres = tres_name(name)
        amount = parse_slurm_mib(value) if tres == "mem" and value.strip() != "-1" else number(value, -1, 2**62)
        out[tres] = amount
    return tuple(out.items())


def _one(tres: str) -> Callable[[str], Tres]:
    def read(text: str) -> Tres:
        return tres_amounts(f"{tres}={text}")

    return read


def _count(text: str) -> int:
    return number(text, -1)


def _wall(text: str) -> int:
    return UNLIMITED if text.strip() == "-1" else slurm_minutes(text)


def _shares(text: str) -> int:
    return -2 if text.strip().lower() == "parent" else number(text, 0, MAX_COUNT)


def _names(text: str) -> tuple[str, ...]:
    return tuple(word for word in split_words(text.lower()) if word != "-1")


def _factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise InputError(f"not a number: {text!r}") from error
    if not 0 <= value <= 1e6:
        raise InputError(f"{text} is outside 0..1000000")
    return value


def _flags(text: str) -> frozenset[str]:
    found = set()
    for word in split_words(text):
        match = [flag for flag in QOS_FLAGS if flag.lower().startswith(word.lower())]
        if word == "-1":
            continue
        if not match:
            raise InputError(f"unknown QOS flag {word!r}", hint=f"one of {', '.join(QOS_FLAGS)}")
        found.add(match[0])
    return frozenset(found)


def _preempt_mode(text: str) -> str:
    word = {"cluster": "", "on": "suspend"}.get(text.strip().lower(), text.strip().lower())
    if word not in ("", "off", "cancel", "requeue", "suspend"):
        raise InputError(f"not a preemption mode of a QOS: {text!r}", hint="CLUSTER, OFF, CANCEL, REQUEUE or SUSPEND")
    return word


def _exempt(text: str) -> int:
    return UNLIMITED if text.strip() == "-1" else parse_slurm_time(text)


Setter = tuple[str, Callable[[str], Any]]
"""Field of Limits (with a leading dot) or of the record itself, and how its text is read."""

_SHARED: Final[dict[str, Setter]] = {
    "GrpCPUMins": (".grp_tres_mins", _one("cpu")),
    "GrpCPURunMins": (".grp_tres_run_mins", _one("cpu")),
    "GrpCPUs": (".grp_tres", _one("cpu")),
    "GrpJobs": (".grp_jobs", _count),
    "GrpJobsAccrue": (".grp_jobs_accrue", _count),
    "GrpMemory": (".grp_tres", _one("mem")),
    "GrpNodes": (".grp_tres", _one("node")),
    "GrpSubmitJobs": (".grp_submit_jobs", _count),
    "GrpTRES": (".grp_tres", tres_amounts),
    "GrpTRESMins": (".grp_tres_mins", tres_amounts),
    "GrpTRESRunMins": (".grp_tres_run_mins", tres_amounts),
    "GrpWall": (".grp_wall_ns", _wall),
    "MaxCPUMinsPerJob": (".max_tres_mins_per_job", _one("cpu")),
    "MaxCPUsPerJob": (".max_tres_per_job", _one("cpu")),
    "MaxNodesPerJob": (".max_tres_per_job", _one("node")),
    "MaxTRES": (".max_tres_per_job", tres_amounts),
    "MaxTRESPerJob": (".max_tres_per_job", tres_amounts),
    "MaxTRESPJ": (".max_tres_per_job", tres_amounts),
    "MaxTRESPerNode": (".max_tres_per_node", tres_amounts),
    "MaxTRESPN": (".max_tres_per_node", tres_amounts),
    "MaxTRESMinsPerJob": (".max_tres_mins_per_job", tres_amounts),
    "MaxTRESMinsPJ": (".max_tres_mins_per_job", tres_amounts),
    "MaxTRESMins": (".max_tres_mins_per_job", tres_amounts),
    "MaxWallDurationPerJob": (".max_wall_per_job_ns", _wall),
    "MinPrioThresh": (".min_prio_thresh", _count),
    "Priority": ("priority", lambda t: max(number(t, -1), 0)),
}
ASSOC_OPTIONS: Final[dict[str, Setter]] = {
    **_SHARED,
    "DefaultQOS": ("default_qos", lambda t: t.strip().lower()),
    "FairShare": ("fairshare", _shares),
    "Shares": ("fairshare", _shares),
    "MaxJobs": (".max_jobs", _count),
    "MaxJobsAccrue": (".max_jobs_accrue", _count),
    "MaxSubmitJobs": (".max_submit_jobs", _count),
    "QosLevel": ("qos", _names),
}
QOS_OPTIONS: Final[dict[str, Setter]] = {
    **_SHARED,
    "Flags": ("flags", _flags),
    "GraceTime": ("grace_time_ns", lambda t: number(t) * SECOND),
    "LimitFactor": ("limit_factor", _factor),
    "MaxCPUsPerUser": (".max_tres_per_user", _one("cpu")),
    "MaxCPUsPU": (".max_tres_per_user", _one("cpu")),
    "MaxJobsPerUser": (".max_jobs", _count),
    "MaxJobsPU": (".max_jobs", _count),
    "MaxJobs": (".max_jobs", _count),
    "MaxJobsPerAccount": (".max_jobs_per_account", _count),
    "MaxJobsPA": (".max_jobs_per_account", _count),
    "MaxJobsAccruePerUser": (".max_jobs_accrue", _count),
    "MaxJobsAccruePU": (".max_jobs_accrue", _count),
    "MaxNodesPerUser": (".max_tres_per_user", _one("node")),
    "MaxNodesPU": (".max_tres_per_user", _one("node")),
    "MaxSubmitJobsPerUser": (".max_submit_jobs", _count),
    "MaxSubmitJobsPU": (".max_submit_jobs", _count),
    "MaxSubmitJobs": (".max_submit_jobs", _count),
    "MaxSubmitJobsPerAccount": (".max_submit_jobs_per_account", _count),
    "MaxSubmitJobsPA": (".max_submit_jobs_per_account", _count),
    "MaxTRESPerUser": (".max_tres_per_user", tres_amounts),
    "MaxTRESPU": (".max_tres_per_user", tres_amounts),
    "MaxTRESPerAccount": (".max_tres_per_account", tres_amounts),
    "MaxTRESPA": (".max_tres_per_account", tres_amounts),
    "MinCPUsPerJob": (".min_tres_per_job", _one("cpu")),
    "MinTRESPerJob": (".min_tres_per_job", tres_amounts),
    "Preempt": ("preempt", _names),
    "PreemptMode": ("preempt_mode", _preempt_mode),
    "PreemptExemptTime": ("preempt_exempt_time_ns", _exempt),
    "UsageFactor": ("usage_factor", _factor),
}
CHANGES: Final[dict[str, str]] = {
    "MaxJobsAccruePerAccount": "limits how many jobs of an account age", "MaxJobsAccruePA": "see the long name",
    "MaxTRESRunMinsPerAccount": "limits running TRES-minutes of an account", "MaxTRESRunMinsPA": "see the long name",
    "MaxTRESRunMinsPerUser": "limits running TRES-minutes of a user", "MaxTRESRunMinsPU": "see the long name",
    "MaxTRESRunMins": "limits running TRES-minutes", "MaxCPURunMins": "limits running CPU-minutes",
    "UsageThreshold": "jobs of low fair share are held", "RawUsage": "usage from before the run",
}  # fmt: skip
"""Options that would change results and are not modelled: why."""
HARMLESS: Final = (
    "AdminLevel", "Classification", "Cluster", "Clusters", "Comment", "Coordinators", "DefaultWCKey", "Description",
    "Organization", "WCKeys", "Federation", "FedState", "Features", "RPCVersions", "MaxTRESPerAcct", "Email", "Ids",
)  # fmt: skip


def match_option(word: str, table: dict[str, Any] | tuple[str, ...]) -> str | None:
    """The option that `word` names: equal in any case, or the only one (up to equal setters) that begins with it."""
    low = word.lower()
    names = [name for name in table if name.lower() == low]
    if names:
        return names[0]
    names = [name for name in table if name.lower().startswith(low)] if len(low) >= 3 else []
    if isinstance(table, dict) and names and len({str(table[name]) for name in names}) > 1:
        plain = [name for name in names if name.lower().removesuffix("s") in (low, low.removesuffix("s"))]
        names = plain or sorted(names, key=len)
    return names[0] if names else None
