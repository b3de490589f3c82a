"""slurm.conf, gres.conf, topology.conf and sacctmgr into contract.cluster.ClusterConf.

Follows src/common/read_config.c (_validate_and_set_defaults) of Slurm 22.05.8, 24.11.5 and 26.05.3.
Options and defaults are data: slurm_defaults.yaml. Left out: options that it lists as not modelled.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.clock import SECOND, UNLIMITED
from slurmtwin.contract.cluster import (
    BackfillOptions,
    ClusterConf,
    ControllerOptions,
    PreemptOptions,
    PriorityOptions,
    SchedulerOptions,
    SelectOptions,
    TimerOptions,
)  # fmt: skip
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.scenario import Scenario
from slurmtwin.contract.slurm_files import ConfLine, SlurmFiles, read_commands, read_conf_file, scenario_files
from slurmtwin.workload.gres_conf import apply_gres
from slurmtwin.workload.node_conf import NodeTable, read_nodes
from slurmtwin.workload.option_reader import ConfWarning, OptionReader
from slurmtwin.workload.options import DERIVED, VERSIONS, convert, option_table, split_words
from slurmtwin.workload.partition_conf import read_partitions
from slurmtwin.workload.sacctmgr import read_accounting
from slurmtwin.workload.topology_conf import read_topology

Settings = dict[str, Any]
"""Dotted field of ClusterConf -> value."""
Given = dict[str, tuple[str, Where]]
"""Lower-case option name -> its last text and place."""

LINES: Final = ("nodename", "partitionname", "nodeset", "downnodes", "slurmctldhost", "poweraction", "frontendname")
"""Options whose line is one record: all further keys on it belong to it."""
PARAMETERS: Final = (
    "SchedulerParameters", "PreemptParameters", "SlurmctldParameters", "SlurmdParameters", "DependencyParameters",
    "AuthInfo", "CommunicationParameters",
)  # fmt: skip


def cluster_conf(
    scenario: Scenario, base_dir: Path | None = None, path: Path | None = None
) -> tuple[ClusterConf, list[ConfWarning]]:
    """The configuration of a scenario's cluster and what of it is not modelled.

    base_dir: folder of the files it names; path: the scenario file, for file:line in messages.
    Raises InputError, or UnsupportedError for options that change results and are not in slurm.waive.
    """
    files = scenario_files(scenario, base_dir, path)
    return read_slurm_files(files, scenario.slurm.version, scenario.slurm.waive)


def cluster_conf_of_files(
    slurm_conf: Path,
    gres_conf: Path | None = None,
    topology_conf: Path | None = None,
    sacctmgr: Path | None = None,
    version: str = "26.05",
    waive: Collection[str] = (),
) -> tuple[ClusterConf, list[ConfWarning]]:
    """The configuration of a site's own files. gres.conf and topology.conf default to slurm.conf's neighbours."""
    neighbour = {name: slurm_conf.with_name(name) for name in ("gres.conf", "topology.conf")}
    gres = gres_conf or (neighbour["gres.conf"] if neighbour["gres.conf"].is_file() else None)
    topology = topology_conf or (neighbour["topology.conf"] if neighbour["topology.conf"].is_file() else None)
    files = SlurmFiles(
        tuple(read_conf_file(slurm_conf)),
        tuple(read_conf_file(gres)) if gres else (),
        tuple(read_conf_file(topology)) if topology else (),
        tuple(read_commands(sacctmgr)) if sacctmgr else (),
    )
    return read_slurm_files(files, version, waive)


def read_slurm_files(
    files: SlurmFiles, version: str, waive: Collection[str] = ()
) -> tuple[ClusterConf, list[ConfWarning]]:
    """The typed configuration of these lines for one Slurm version, and the warnings."""
    if version not in VERSIONS:
        raise InputError(f"Slurm {version} is not known", hint=f"one of {', '.join(VERSIONS)}")
    reader = OptionReader(version, tuple(waive))
    given, records, hosts = _collect(files.slurm_conf, reader)
    settings = _defaults(version)
    _apply(settings, given, reader)
    _derive(settings, given, reader)
    settings["controller.hosts"] = hosts or ("localhost",)
    settings["controller.cluster_name"] = settings["controller.cluster_name"] or "cluster"
    if files.accounting and not settings["controller.accounting_storage"]:
        reader.warn(files.accounting[0][0], "there are sacctmgr lines: AccountingStorageType is taken as slurmdbd")
        settings["controller.accounting_storage"] = True
    nodes = read_nodes(records, reader)
    nodes = apply_gres(nodes, files.gres_conf, settings["controller.gres_types"], reader)
    partitions = read_partitions(records["partitionname"], nodes, settings, reader)
    if not partitions:
        raise InputError("no partitions: the cluster needs PartitionName lines", files.slurm_conf[0].where)
    switches = read_topology(files.topology_conf, nodes, settings["controller.topology_plugin"], reader)
    qos, assocs = read_accounting(files.accounting, settings["controller.cluster_name"], reader)
    conf = _build(version, settings, nodes, partitions, switches, qos, assocs)
    _check(conf, given, reader)
    return conf, reader.warnings


Records = dict[str, list[ConfLine]]


def _collect(lines: tuple[ConfLine, ...], reader: OptionReader) -> tuple[Given, Records, tuple[str, ...]]:
    """Split lines into plain options (the last one counts) and records such as NodeName lines."""
    given: Given = {}
    records: Records = {name: [] for name in LINES}
    for line in lines:
        pairs = list(line.pairs)
        while pairs:
            key, value = pairs[0]
            if key.lower() in LINES:
                records[key.lower()].append(ConfLine(line.where, tuple(pairs)))
                break
            given[key.lower()] = (value, line.where)
            reader_option = reader.look_up("slurm.conf", key, value, line.where)
            if reader_option is None:
                del given[key.lower()]
            pairs.pop(0)
    for line in records["frontendname"] + records["poweraction"]:
        reader.look_up("slurm.conf", line.pairs[0][0], line.pairs[0][1], line.where)
    return given, records, _hosts(given, records["slurmctldhost"])


def _hosts(given: Given, lines: list[ConfLine]) -> tuple[str, ...]:
    """Names of the controllers, primary first; ControlMachine and BackupController are the old names."""
    names: list[str] = []
    for line in lines:
        names += [part.partition("(")[0].strip() for part in split_words(line.pairs[0][1].replace(";", ","))]
    if not names:
        for key in ("controlmachine", "backupcontroller"):
            names += split_words(given[key][0]) if key in given else []
    for name in ("controlmachine", "backupcontroller"):
        given.pop(name, None)
    return tuple(names)


def _defaults(version: str) -> Settings:
    """Every field's default in that version; fields with a derived default are left out."""
    settings: Settings = {}
    for section in ("slurm.conf", *PARAMETERS):
        for option in option_table()[section].values():
            if option.effect != "modelled" or not option.field or option.default(version) == DERIVED:
                continue
            default = option.default(version)
            if option.type == "flag":
                settings[option.field] = False
            elif option.field not in settings:
                settings[option.field] = convert_default(option, default)
    return settings


def convert_default(option: Any, default: Any) -> Any:
    """A default as written in the data file, converted; limits are not applied (0 may stand for unset)."""
    plain = type(option)(option.section, option.name, option.effect, option.versions, option.type,
                         alternative=option.alternative)  # fmt: skip
    return convert(plain, str(default))


def _apply(settings: Settings, given: Given, reader: OptionReader) -> None:
    """Overwrite defaults by what the file says."""
    # PreemptParameters last: it wins over the same words of SchedulerParameters
    for name, (text, where) in sorted(given.items(), key=lambda item: item[0] == "preemptparameters"):
        option = option_table()["slurm.conf"][name]
        if option.type == "parameters":
            settings.update(reader.words(option.name, split_words(text), where))
        elif option.field:
            settings[option.field] = reader.value(option, text, where)


def _derive(settings: Settings, given: Given, reader: OptionReader) -> None:
    """Rules between options: defaults that follow others, and words that switch others."""
    message = settings["timers.message_timeout_ns"]
    settings.setdefault("timers.unkillable_step_timeout_ns", max(60 * SECOND, 5 * message))
    half = message // SECOND // 2
    asked = settings.get("scheduler.max_sched_time_ns")
    if asked is None or asked > half * SECOND:
        settings["scheduler.max_sched_time_ns"] = min(max(half, 1), 2) * SECOND
        if asked is not None:
            where = given["schedulerparameters"][1]
            reader.warn(where, "max_sched_time is above MessageTimeout/2: Slurm takes its default")
    settings["timers.min_job_age_ns"] = max(settings["timers.min_job_age_ns"], 2 * SECOND)
    settings["preempt.exempt_time_ns"] = max(settings["preempt.exempt_time_ns"], 0)
    for script in ("prolog", "epilog"):
        program = given[script][0] if script in given else ""
        settings[f"controller.{script}_fails"] = program.rpartition("/")[2] == "false"
    _derive_backfill(settings, given, reader)
    if settings["scheduler.defer_batch"] is False and reader.version == "22.05" and "schedulerparameters" in given:
        # 22.05 looks for the text "defer" anywhere in the value
        settings["scheduler.defer"] |= "defer" in given["schedulerparameters"][0].lower()
    if settings["scheduler.defer_batch"]:
        settings["scheduler.defer"] = False
    for kind in ("def", "max"):
        if settings[f"select.{kind}_mem_per_node_mib"]:
            settings[f"select.{kind}_mem_per_cpu_mib"] = 0
    if settings["timers.suspend_time_ns"] != UNLIMITED and not {"suspendprogram", "resumeprogram"} <= given.keys():
        where = given["suspendtime"][1]
        reader.warn(where, "SuspendTime without SuspendProgram and ResumeProgram: power saving is off")
        settings["timers.suspend_time_ns"] = UNLIMITED
    _derive_select(settings, given, reader)
    _derive_preempt(settings, given, reader)
    if settings["priority.usage_reset_period"] == "NONE" and not settings["priority.decay_half_life_ns"]:
        where = given["prioritydecayhalflife"][1]
        raise InputError("PriorityDecayHalfLife=0 needs a PriorityUsageResetPeriod", where, "Slurm refuses this too")
    span = settings["controller.max_job_id"] - settings["controller.first_job_id"] + 1
    if span < 1:
        raise InputError("FirstJobId is above MaxJobId", given.get("firstjobid", given.get("maxjobid", ("", None)))[1])
    settings["controller.max_job_count"] = min(settings["controller.max_job_count"], span)


def _derive_backfill(settings: Settings, given: Given, reader: OptionReader) -> None:
    """Backfill's own rules (backfill.c _load_config)."""
    at = "scheduler.backfill."
    settings.setdefault(at + "max_time_ns", settings[at + "interval_ns"])
    settings.setdefault(at + "node_space_size", settings[at + "max_job_test"])
    if settings[at + "licenses"]:
        settings[at + "running_job_reserve"] = True
    if settings[at + "hetjob_immediate"] and not settings[at + "hetjob_prio"]:
        settings[at + "hetjob_prio"] = "min"
    if settings[at + "max_job_assoc"] and settings[at + "max_job_user"]:
        reader.warn(given["schedulerparameters"][1], "bf_max_job_assoc switches bf_max_job_user off, as in Slurm")
        settings[at + "max_job_user"] = 0


_UNITS: Final = {"CR_CPU": "cpu", "CR_CORE": "core", "CR_SOCKET": "socket"}
_SELECT_FLAGS: Final = {
    "CR_ONE_TASK_PER_CORE": "one_task_per_core", "CR_CORE_DEFAULT_DIST_BLOCK": "core_default_dist_block",
    "CR_LLN": "lln", "CR_PACK_NODES": "pack_nodes",
}  # fmt: skip
_SELECT_CHANGES: Final = (
    "LL_SHARED_GRES", "MULTIPLE_SHARING_GRES_PJ", "ENFORCE_BINDING_GRES", "ONE_TASK_PER_SHARING_GRES",
    "CR_NO_DIST_TOPO_BLOCK",
)  # fmt: skip
_SELECT_IGNORED: Final = ("OTHER_CONS_RES", "OTHER_CONS_TRES")


def _derive_select(settings: Settings, given: Given, reader: OptionReader) -> None:
    """SelectType and SelectTypeParameters (read_config.c _parse_select_type_param)."""
    linear = settings["select.type"] == "select/linear"
    settings["select.type"] = "select/linear" if linear else "select/cons_tres"
    settings |= {f"select.{name}": False for name in _SELECT_FLAGS.values()}
    text, where = given.get("selecttypeparameters", ("", Where("")))
    unit, memory = "", False
    for word in split_words(text):
        name = word.upper()
        base, tail = name.removesuffix("_MEMORY"), name.endswith("_MEMORY")
        if base in _UNITS or name == "CR_MEMORY":
            if unit or memory:
                raise InputError(f"SelectTypeParameters={text}: more than one consumable unit", where)
            unit, memory = _UNITS.get(base, ""), tail
        elif name in _SELECT_FLAGS:
            settings[f"select.{_SELECT_FLAGS[name]}"] = True
        elif name in _SELECT_CHANGES:
            reader.refuse("SelectTypeParameters", name, "", where, "how shared GRES or blocks are handed out")
        elif name not in _SELECT_IGNORED:
            raise InputError(f"SelectTypeParameters: unknown word {word!r}", where, "for example CR_Core_Memory")
    if not text and not linear:
        unit, memory = "core", True
    if not linear and not unit:
        raise InputError(f"SelectTypeParameters={text} names no unit", where, "CR_CPU, CR_Core or CR_Socket")
    if unit == "cpu" and settings["select.one_task_per_core"]:
        raise InputError("CR_ONE_TASK_PER_CORE does not go with CR_CPU", where, "use CR_Core")
    settings["select.unit"], settings["select.memory"] = unit or "cpu", memory


def _derive_preempt(settings: Settings, given: Given, reader: OptionReader) -> None:
    """PreemptType with PreemptMode (read_config.c; slurm_protocol_defs.c preempt_mode_num)."""
    text, where = given.get("preemptmode", ("OFF", Where("")))
    names = {"on": "suspend", "cluster": "off"}
    words = [names.get(w.lower(), w.lower()) for w in split_words(text)]
    modes = [w for w in words if w in ("off", "cancel", "requeue", "suspend")]
    unknown = [w for w in words if w not in ("gang", "within", "priority", *modes)]
    if unknown or len(modes) > 1 or ("gang" in words and ("within" in words or "priority" in words)):
        hint = "OFF, CANCEL, REQUEUE, GANG or SUSPEND,GANG"
        raise InputError(f"PreemptMode={text} is not a preemption mode", where, hint)
    if "priority" in words:
        reader.refuse("PreemptMode", "PRIORITY", "", where, "only jobs of lower priority are preempted")
    mode = modes[0] if modes else "off"
    if mode == "suspend" and "gang" not in words:
        raise InputError("PreemptMode=SUSPEND needs GANG", where, "PreemptMode=SUSPEND,GANG")
    if (settings["preempt.type"] == "preempt/none") != (mode == "off"):
        where = given.get("preempttype", (text, where))[1]
        raise InputError(f"PreemptType={settings['preempt.type']} does not go with PreemptMode={text}", where)
    settings |= {"preempt.mode": mode, "preempt.gang": "gang" in words, "preempt.within": "within" in words}


def _part(settings: Settings, prefix: str, cls: type[Any], **more: Any) -> Any:
    names = {f.name for f in fields(cls)}
    values = {k.removeprefix(prefix): v for k, v in settings.items() if k.startswith(prefix)}
    return cls(**{k: v for k, v in values.items() if k in names}, **more)


def _build(
    version: str, settings: Settings, nodes: NodeTable, partitions: Any, switches: Any, qos: Any, assocs: Any
) -> ClusterConf:
    backfill = _part(settings, "scheduler.backfill.", BackfillOptions)
    return ClusterConf(
        version=version,
        controller=_part(settings, "controller.", ControllerOptions),
        scheduler=_part(settings, "scheduler.", SchedulerOptions, backfill=backfill),
        select=_part(settings, "select.", SelectOptions),
        priority=_part(settings, "priority.", PriorityOptions),
        preempt=_part(settings, "preempt.", PreemptOptions),
        timers=_part(settings, "timers.", TimerOptions),
        nodes=nodes.nodes, partitions=partitions, switches=switches, qos=qos, assocs=assocs,
    )  # fmt: skip


_RANK_PARAMS: Final = ("SwitchAsNodeRank", "BlockAsNodeRank", "Dragonfly", "TopoOptional")


def _check(conf: ClusterConf, given: Given, reader: OptionReader) -> None:
    """Combinations that Slurm refuses or that the model does not know."""
    topology = conf.controller.topology_plugin
    where = given.get("topologyplugin", ("", Where("slurm.conf")))[1]
    if topology in ("block", "3d_torus", "hypercube"):
        reader.refuse("slurm.conf", "TopologyPlugin", f"topology/{topology}", where, "only tree and flat are")
    if topology == "tree" and conf.select.type == "select/linear" and conf.version != "22.05":
        raise InputError("select/linear does not go with topology/tree", where, "Slurm refuses this since 23.11")
    for name in _RANK_PARAMS:
        if any(word.lower().startswith(name.lower()) for word in conf.controller.topology_param):
            reader.refuse("TopologyParam", name, "", given["topologyparam"][1], "how nodes are ordered or chosen")
