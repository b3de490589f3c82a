"""PartitionName lines (src/common/read_config.c _parse_partitionname)."""

from __future__ import annotations

from typing import Any

from slurmtwin.contract.cluster import PartitionConf
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.slurm_files import ConfLine
from slurmtwin.workload.node_conf import NodeTable
from slurmtwin.workload.option_reader import OptionReader
from slurmtwin.workload.options import find_option, number

Given = dict[str, tuple[str, Where]]
OWN_LINE_ONLY = ("disablerootjobs", "exclusiveuser", "exclusivetopo", "powerdownonidle", "suspendtime")
"""Options that PartitionName=DEFAULT does not pass on."""


def read_partitions(
    lines: list[ConfLine], table: NodeTable, settings: dict[str, Any], reader: OptionReader
) -> tuple[PartitionConf, ...]:
    """The partitions in the order written. Raises InputError with the line."""
    defaults: Given = {}
    out: list[PartitionConf] = []
    seen: dict[str, Where] = {}
    for line in lines:
        name = line.pairs[0][1]
        given: Given = {}
        for key, value in line.pairs[1:]:
            if reader.look_up("PartitionName", key, value, line.where) is not None:
                given[key.lower()] = (value, line.where)
        if name.upper() == "DEFAULT":
            defaults |= {k: v for k, v in given.items() if k not in OWN_LINE_ONLY}
            continue
        if name in seen:
            raise InputError(f"partition {name} is declared twice", line.where, f"first at {seen[name]}")
        seen[name] = line.where
        out.append(PartitionConf(name=name, **_fields({**defaults, **given}, given, line, table, settings, reader)))
    return tuple(out)


def _fields(
    given: Given, own: Given, line: ConfLine, table: NodeTable, settings: dict[str, Any], reader: OptionReader
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, (text, where) in given.items():
        option = find_option("PartitionName", name)
        if option is not None and option.field:
            values[option.field] = reader.value(option, text, where)
    for kind in ("def", "max"):
        if values.get(f"{kind}_mem_per_node_mib"):
            values.pop(f"{kind}_mem_per_cpu_mib", None)
    for kind in ("accounts", "qos"):
        if values.get(f"allow_{kind}") and values.pop(f"deny_{kind}", ()):
            reader.warn(line.where, f"both Allow and Deny for {kind}: Deny is ignored, as in Slurm")
    if "priority" in given:
        level = number_at(given["priority"])
        values |= {"priority_job_factor": level, "priority_tier": level}
    values |= _sharing(given, values, line.where)
    mode = given.get("preemptmode", ("", line.where))
    values["preempt_mode"] = _preempt_mode(mode, reader)
    values["nodes"] = table.resolve(given["nodes"][0], given["nodes"][1]) if "nodes" in given else ()
    if "suspendtime" in own and settings["timers.suspend_time_ns"] == -1 and not settings["controller.suspend_program"]:
        values.pop("suspend_time_ns", None)
    return values


def number_at(given: tuple[str, Where]) -> int:
    """A 16-bit number. Raises InputError with its place."""
    try:
        return number(given[0], 0, 65_535)
    except InputError as error:
        raise InputError(error.message, given[1], error.hint) from error


def _preempt_mode(given: tuple[str, Where], reader: OptionReader) -> str:
    words = [w.strip().lower() for w in given[0].split(",") if w.strip()]
    if "gang" in words:
        reader.warn(given[1], "PreemptMode=GANG is for the whole cluster: ignored on a partition, as in Slurm")
        words.remove("gang")
    if not words or words == ["cluster"]:
        return "off" if words else ""
    if "priority" in words or "within" in words:
        reader.refuse("PartitionName", "PreemptMode", given[0], given[1], "preemption inside a partition")
        return ""
    mode = {"on": "suspend"}.get(words[0], words[0])
    if len(words) > 1 or mode not in ("off", "cancel", "requeue", "suspend"):
        raise InputError(f"PreemptMode={given[0]} is not a preemption mode", given[1], "OFF, CANCEL, REQUEUE, SUSPEND")
    return mode


def _sharing(given: Given, values: dict[str, Any], where: Where) -> dict[str, Any]:
    """OverSubscribe (older: Shared) and, from 26.05, Exclusive."""
    text, where = given.get("oversubscribe") or given.get("shared") or ("NO", where)
    word, colon, count = text.strip().upper().partition(":")
    if word not in ("NO", "EXCLUSIVE", "YES", "FORCE") or (colon and word in ("NO", "EXCLUSIVE")):
        raise InputError(f"OverSubscribe={text}", where, "NO, EXCLUSIVE, YES[:COUNT] or FORCE[:COUNT]")
    shares = 4 if word in ("YES", "FORCE") else 1
    if colon:
        shares = number_at((count, where))
        if shares < 1 or (word == "YES" and shares < 2):
            word, shares = "NO", 1
    out = {"over_subscribe": word, "over_subscribe_count": shares}
    if "exclusive" in given:
        asked = given["exclusive"][0].strip().upper()
        if asked not in ("NO", "NONE", "NODE", "USER", "TOPO"):
            raise InputError(f"Exclusive={asked}", given["exclusive"][1], "NO, NODE, USER or TOPO")
        values |= {"exclusive_user": asked == "USER", "exclusive_topo": asked == "TOPO"}
        if asked in ("NODE", "TOPO"):
            out = {"over_subscribe": "EXCLUSIVE", "over_subscribe_count": 1}
        elif asked in ("NO", "NONE") and word == "EXCLUSIVE":
            out = {"over_subscribe": "NO", "over_subscribe_count": 1}
    if values.get("exclusive_topo"):
        out = {"over_subscribe": "EXCLUSIVE", "over_subscribe_count": 1}
        values["exclusive_user"] = False
    return out
