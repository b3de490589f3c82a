"""slurm.conf into ClusterConf: defaults, units, aliases, repairs, refusals (read_config.c)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.clock import DAY, HOUR, MINUTE, MS, SECOND, UNLIMITED
from slurmtwin.contract.errors import InputError, UnsupportedError
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.workload.slurm_conf import cluster_conf

Read = Callable[..., Any]
NODES = "NodeName=n1\nPartitionName=p Nodes=ALL\n"


def field(conf: Any, path: str) -> Any:
    """The value at a dotted path."""
    for name in path.split("."):
        conf = getattr(conf, name)
    return conf


@pytest.mark.parametrize(
    ("version", "path", "expected"),
    [
        ("22.05", "select.type", "select/linear"),
        ("24.11", "select.type", "select/cons_tres"),
        ("26.05", "select.unit", "core"),
        ("26.05", "select.memory", True),
        ("22.05", "priority.type", "priority/basic"),
        ("26.05", "priority.type", "priority/multifactor"),
        ("22.05", "timers.unkillable_step_timeout_ns", 60 * SECOND),
        ("26.05", "timers.unkillable_step_timeout_ns", 60 * SECOND),
        ("26.05", "scheduler.backfill.interval_ns", 30 * SECOND),
        ("26.05", "scheduler.backfill.max_time_ns", 30 * SECOND),
        ("26.05", "scheduler.backfill.window_ns", DAY),
        ("26.05", "scheduler.backfill.node_space_size", 500),
        ("26.05", "scheduler.backfill.yield_sleep_ns", 500 * MS),
        ("26.05", "scheduler.max_sched_time_ns", 2 * SECOND),
        ("26.05", "scheduler.min_interval_ns", 2000),
        ("26.05", "scheduler.default_queue_depth", 100),
        ("26.05", "scheduler.requeue_delay_ns", -1),
        ("26.05", "timers.cred_expire_ns", 120 * SECOND),
        ("26.05", "timers.suspend_time_ns", UNLIMITED),
        ("26.05", "priority.decay_half_life_ns", 7 * DAY),
        ("26.05", "priority.calc_period_ns", 5 * MINUTE),
        ("26.05", "controller.max_dbd_msgs", 0),
        ("26.05", "controller.max_job_id", 0x03FF0000),
        ("26.05", "preempt.mode", "off"),
    ],
)
def test_an_empty_file_gives_the_defaults_of_its_version(read: Read, version: str, path: str, expected: object) -> None:
    """slurm.md 0, 1, 2.1: what holds when nothing is said."""
    conf, warnings = read("", version=version)
    assert field(conf, path) == expected
    assert warnings == []


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("messagetimeout=20", "timers.message_timeout_ns", 20 * SECOND),
        ("KillWait=0x10", "timers.kill_wait_ns", 16 * SECOND),
        ("KillWait=5\nKillWait=7", "timers.kill_wait_ns", 7 * SECOND),
        ("MinJobAge=0", "timers.min_job_age_ns", 2 * SECOND),
        ("OverTimeLimit=2", "timers.over_time_limit_ns", 2 * MINUTE),
        ("OverTimeLimit=UNLIMITED", "timers.over_time_limit_ns", UNLIMITED),
        ("EpilogMsgTime=3000", "timers.epilog_msg_time_ns", 3 * MS),
        ("MessageTimeout=30", "timers.unkillable_step_timeout_ns", 150 * SECOND),
        ("PriorityDecayHalfLife=0-4", "priority.decay_half_life_ns", 4 * HOUR),
        ("PriorityMaxAge=1:30", "priority.max_age_ns", 2 * MINUTE),
        ("PriorityWeightTRES=CPU=1,Mem=.5G,GRES/gpu=2", "priority.weight_tres",
         (("cpu", 1.0), ("mem", 0.5 / 1024), ("gres/gpu", 2.0))),
        ("PriorityFlags=no_normal_all", "priority.flags",
         frozenset({"NO_NORMAL_ALL", "NO_NORMAL_ASSOC", "NO_NORMAL_PART", "NO_NORMAL_QOS", "NO_NORMAL_TRES"})),
        ("PriorityFlags=DEPTH_OBLIVIOUS", "priority.flags", frozenset({"DEPTH_OBLIVIOUS", "NO_FAIR_TREE"})),
        ("SchedulerParameters=bf_window=60,bf_max_job_test=9", "scheduler.backfill.node_space_size", 9),
        ("SchedulerParameters=bf_interval=60", "scheduler.backfill.max_time_ns", 60 * SECOND),
        ("SchedulerParameters=bf_interval=-1", "scheduler.backfill.interval_ns", -1),
        ("SchedulerParameters=bf_interval=60,bf_interval=90", "scheduler.backfill.interval_ns", 60 * SECOND),
        ("SchedulerParameters=sched_interval=-1", "scheduler.interval_ns", -1),
        ("SchedulerParameters=bf_licenses", "scheduler.backfill.running_job_reserve", True),
        ("SchedulerParameters=BF_CONTINUE", "scheduler.backfill.continue_", True),
        ("SchedulerParameters=bf_hetjob_immediate", "scheduler.backfill.hetjob_prio", "min"),
        ("SchedulerParameters=requeue_delay=5", "scheduler.requeue_delay_ns", 5 * SECOND),
        ("SchedulerParameters=max_rpc_count=7", "scheduler.max_rpc_cnt", 7),
        ("PreemptParameters=reorder_count=3\nSchedulerParameters=preempt_reorder_count=2",
         "scheduler.preempt_reorder_count", 3),
        ("AuthInfo=cred_expire=30", "timers.cred_expire_ns", 30 * SECOND),
        ("SlurmctldParameters=max_dbd_msg_action=exit", "controller.max_dbd_msg_action", "exit"),
        ("DependencyParameters=kill_invalid_depend", "controller.kill_invalid_depend", True),
        ("SlurmdParameters=config_overrides", "controller.config_overrides", True),
        ("ControlMachine=a\nBackupController=b", "controller.hosts", ("a", "b")),
        ("SlurmctldHost=a(1.2.3.4)\nSlurmctldHost=b", "controller.hosts", ("a", "b")),
        ("ClusterName=ABC", "controller.cluster_name", "abc"),
        ("EnforcePartLimits=YES", "controller.enforce_part_limits", "all"),
        ("AccountingStorageEnforce=safe", "controller.accounting_enforce",
         frozenset({"associations", "limits", "safe"})),
        ("AccountingStorageType=accounting_storage/slurmdbd", "controller.accounting_storage", True),
        ("Licenses=matlab:5,fluent", "controller.licenses", (("matlab", 5), ("fluent", 1))),
        ("SelectTypeParameters=CR_CPU_Memory,CR_LLN", "select.unit", "cpu"),
        ("SelectTypeParameters=CR_Core,CR_Pack_Nodes", "select.memory", False),
        ("SelectType=select/cons_res\nSelectTypeParameters=CR_Socket", "select.type", "select/cons_tres"),
        ("PreemptType=preempt/partition_prio\nPreemptMode=suspend,gang", "preempt.gang", True),
        ("PreemptType=preempt/qos\nPreemptMode=cancel,within", "preempt.within", True),
        ("PreemptExemptTime=-1", "preempt.exempt_time_ns", 0),
        ("DefMemPerNode=100\nDefMemPerCPU=10", "select.def_mem_per_cpu_mib", 0),
        ("MaxJobId=100\nFirstJobId=91", "controller.max_job_count", 10),
        ("PrologFlags=x11", "controller.prolog_flags", frozenset({"X11", "Contain", "Alloc"})),
        ("TopologyPlugin=topology/default", "controller.topology_plugin", "flat"),
    ],
)  # fmt: skip
def test_an_option_has_its_own_unit_and_meaning(read: Read, text: str, path: str, expected: object) -> None:
    """read_config.c and backfill.c: units, old names, what one option does to another."""
    assert field(read(text)[0], path) == expected


def test_22_05_takes_defer_batch_for_defer(read: Read) -> None:
    """22.05 searches the text `defer` in SchedulerParameters; later versions know both words."""
    old, _ = read("SchedulerParameters=defer_batch", version="22.05")
    new, _ = read("SchedulerParameters=defer_batch", version="26.05")
    assert (old.scheduler.defer, old.scheduler.defer_batch) == (True, False)
    assert (new.scheduler.defer, new.scheduler.defer_batch) == (False, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SchedulerParameters=bf_interval=0", "Slurm takes 30"),
        ("SchedulerParameters=bf_resolution=99999", "Slurm takes 60"),
        ("SchedulerParameters=max_sched_time=60", "above MessageTimeout/2"),
        ("SchedulerParameters=bf_max_job_user=5,bf_max_job_assoc=5", "bf_max_job_user off"),
        ("FrontendName=x", "no option of Slurm 26.05"),
        ("VSizeFactor=3", "not modelled"),
        ("SuspendTime=60", "power saving is off"),
        ("SlurmctldParameters=rl_enable", "not modelled"),
        ("CommunicationParameters=NoAddrCache", "no option of Slurm 26.05"),
    ],
)
def test_what_the_run_goes_on_without_is_named_in_a_warning(read: Read, tmp_path: Path, text: str, said: str) -> None:
    """Options without a model and values that Slurm itself replaces: file:line and what it means."""
    _, warnings = read(text)
    assert any(said in str(w) for w in warnings)
    assert str(warnings[0]).startswith(f"{tmp_path / 'slurm.conf'}:1: ")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("JobSubmitPlugins=lua", "JobSubmitPlugins"),
        ("BurstBufferType=burst_buffer/lua", "BurstBufferType"),
        ("SchedulerParameters=bf_topopt_enable", "bf_topopt_enable"),
        ("SlurmctldParameters=max_powered_nodes=5", "max_powered_nodes"),
        ("MCSPlugin=mcs/user", "MCSPlugin"),
        ("TopologyPlugin=topology/block", "TopologyPlugin"),
        ("SelectTypeParameters=CR_Core,LL_SHARED_GRES", "LL_SHARED_GRES"),
        ("PreemptType=preempt/qos\nPreemptMode=cancel,priority", "PRIORITY"),
        ("TopologyParam=SwitchAsNodeRank", "SwitchAsNodeRank"),
    ],
)
def test_an_option_that_changes_results_is_refused_unless_waived(read: Read, text: str, name: str) -> None:
    """UnsupportedError with file:line; naming it in `waive` turns it into a warning."""
    with pytest.raises(UnsupportedError, match=r"slurm\.conf:\d+: .*not modelled"):
        read(text)
    _, warnings = read(text, waive=(name,))
    assert any("waived" in w.message for w in warnings)


@pytest.mark.parametrize(
    "text", ["MCSPlugin=mcs/none", "JobSubmitPlugins=", "AllowSpecResourcesUsage=no", "ResvOverRun=0"]
)
def test_a_value_that_switches_an_option_off_is_accepted(read: Read, text: str) -> None:
    """mcs/none and the like change nothing."""
    key, _, value = text.partition("=")
    assert read(f'{key}="{value}"')[1] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SchedulerTyp=sched/backfill", "did you mean SchedulerType?"),
        ("SchedulerParameters=bf_windw=5", "did you mean bf_window?"),
        ("KillWait=soon", "not a number"),
        ("KillWait=-1", "negative"),
        ("KillWait=99999999999", "outside"),
        ("SchedulerParameters=bf_window", "needs a value"),
        ("SchedulerType=sched/gang", "not one of"),
        ("SelectTypeParameters=CR_CPU,CR_Core", "more than one consumable unit"),
        ("SelectTypeParameters=CR_Memory", "names no unit"),
        ("PreemptMode=requeue", "does not go with"),
        ("PreemptType=preempt/qos\nPreemptMode=suspend", "needs GANG"),
        ("PriorityDecayHalfLife=0", "PriorityUsageResetPeriod"),
        ("PriorityFlags=FAST", "unknown word"),
        ("AccountingStorageEnforce=most", "unknown word"),
        ("AccountingStorageType=accounting_storage/mysql", "not in slurmctld"),
        ("FirstJobId=10\nMaxJobId=5", "above MaxJobId"),
        ("PriorityWeightTRES=cpu", "TRES weight"),
        ("SelectType=select/linear\nTopologyPlugin=topology/tree", "does not go with"),
    ],
)
def test_a_wrong_value_is_an_error_at_its_line(read: Read, text: str, said: str) -> None:
    """What Slurm refuses is refused, with file:line and what would be right."""
    with pytest.raises(InputError, match=r"slurm\.conf:\d") as caught:
        read(text)
    assert said in str(caught.value)


def test_an_unknown_word_can_be_waived(read: Read) -> None:
    """A site's own patch of Slurm need not stop the twin."""
    assert "waived" in str(read("SiteOption=1", waive=("SiteOption",))[1][0])


def test_places_of_literal_options_are_the_scenario_s_lines(tmp_path: Path) -> None:
    """An error in slurm.conf mappings names the scenario file and line."""
    path = tmp_path / "s.yaml"
    path.write_text(
        "schema: slurmtwin/scenario/1\nname: s\nslurm:\n  conf:\n    KillWait: 5\n    KilWait: 6\n"
        "  nodes: [{NodeName: n1}]\n  partitions: [{PartitionName: p, Nodes: ALL}]\n",
        encoding="utf-8",
    )
    with pytest.raises(InputError, match=r"s\.yaml:6: unknown option KilWait \(did you mean KillWait"):
        cluster_conf(load_scenario(path), tmp_path, path)
    with pytest.raises(InputError, match=r"s: slurm\.conf\.KilWait: unknown option"):
        cluster_conf(load_scenario(path))


@pytest.mark.parametrize("version", ["22.05", "24.11", "26.05"])
def test_reading_is_a_function_of_the_text(read: Read, version: str) -> None:
    """The same text gives the same configuration."""
    text = "SchedulerParameters=defer,bf_continue\nLicenses=a:1,b:2"
    assert read(text, version=version) == read(text, version=version)


def test_a_cluster_without_nodes_or_partitions_is_an_error(read: Read) -> None:
    """Both are needed; an unknown version too is refused."""
    with pytest.raises(InputError, match="no nodes"):
        read("KillWait=1", nodes="")
    with pytest.raises(InputError, match="no partitions"):
        read("KillWait=1", nodes="NodeName=n1")
    with pytest.raises(InputError, match="not known"):
        read("", nodes=NODES, version="21.08")
