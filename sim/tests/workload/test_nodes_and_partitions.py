"""NodeName, NodeSet, DownNodes, PartitionName, gres.conf and topology.conf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slurmtwin.contract.clock import DAY, HOUR, MINUTE, UNLIMITED
from slurmtwin.contract.cluster import GresConf, SwitchConf
from slurmtwin.contract.errors import InputError, UnsupportedError
from slurmtwin.workload.node_conf import natural_key

Read = Callable[..., Any]
PART = "PartitionName=p Nodes=ALL\n"


def test_default_lines_add_up_and_a_line_overrides_them(read: Read) -> None:
    """NodeName=DEFAULT accumulates: a later one keeps what it does not say (s_p_hashtbl_merge)."""
    conf, _ = read("", nodes=(
        "NodeName=DEFAULT RealMemory=48 Sockets=2 CoresPerSocket=6 Weight=60\nNodeName=a1\n"
        "NodeName=DEFAULT RealMemory=99 CPUs=12\nNodeName=a[2-3] Weight=7\n" + PART
    ))  # fmt: skip
    assert [(n.name, n.real_memory_mib, n.sockets, n.weight) for n in conf.nodes] == [
        ("a1", 48, 2, 60), ("a2", 99, 2, 7), ("a3", 99, 2, 7),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CPUs=8", (8, 8, 1, 1)),
        ("Procs=8", (8, 8, 1, 1)),
        ("CPUs=16 CoresPerSocket=4 ThreadsPerCore=2", (16, 2, 4, 2)),
        ("Sockets=2 CoresPerSocket=4 ThreadsPerCore=2", (16, 2, 4, 2)),
        ("CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2", (8, 2, 4, 2)),
        ("Boards=2 SocketsPerBoard=2 CoresPerSocket=3", (12, 4, 3, 1)),
        ("CoresPerSocket=5", (5, 1, 5, 1)),
        ("", (1, 1, 1, 1)),
    ],
)
def test_missing_counts_are_inferred_as_slurm_infers_them(read: Read, text: str, expected: tuple[int, ...]) -> None:
    """read_config.c _parse_nodename: CPUs, sockets, cores, threads."""
    conf, warnings = read("", nodes=f"NodeName=a {text}\n{PART}")
    node = conf.nodes[0]
    assert (node.cpus, node.sockets, node.cores_per_socket, node.threads_per_core) == expected
    assert warnings == []


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("CPUs=7 Sockets=2 CoresPerSocket=4", 8), ("CPUs=0", 1), ("CoresPerSocket=0 CPUs=4", 4)],
)
def test_counts_that_contradict_are_repaired_with_a_warning(read: Read, text: str, cpus: int) -> None:
    """Slurm logs an error and goes on with the total; so do we, and say so."""
    conf, warnings = read("", nodes=f"NodeName=a {text}\n{PART}")
    assert conf.nodes[0].cpus == cpus
    assert "as in Slurm" in str(warnings[0])


def test_the_node_table_is_sorted_by_name_with_numbers_as_numbers(read: Read) -> None:
    """slurmctld/read_config.c _sort_nodes_by_name: strnatcmp, whatever the order in the file."""
    conf, _ = read("", nodes=f"NodeName=n[9-11]\nNodeName=b2\nNodeName=n1\n{PART}")
    assert [n.name for n in conf.nodes] == ["b2", "n1", "n9", "n10", "n11"]
    assert conf.partitions[0].nodes == ("b2", "n1", "n9", "n10", "n11")


@pytest.mark.parametrize(
    ("low", "high"),
    [("n2", "n10"), ("n02", "n1"), ("n001", "n002"), ("n1", "n1a"), ("A1", "a1"), ("r1-n9", "r1-n10"), ("n0", "n00")],
)
def test_natural_order_is_that_of_strnatcmp(low: str, high: str) -> None:
    """Numbers compare by value, those with a leading zero digit by digit."""
    assert natural_key(low) < natural_key(high)


def test_node_sets_and_all_name_nodes_of_partitions(read: Read) -> None:
    """NodeSet joins Feature and Nodes; Nodes= takes sets, lists and ALL, in node-table order."""
    conf, _ = read("", nodes=(
        "NodeName=c[1-2] Feature=fast,big\nNodeName=d[1-2] Feature=big\nNodeSet=quick Feature=fast\n"
        "NodeSet=mixed Feature=fast Nodes=d2\nPartitionName=a Nodes=quick,d1\nPartitionName=b Nodes=mixed\n"
    ))  # fmt: skip
    assert [p.nodes for p in conf.partitions] == [("c1", "c2", "d1"), ("c1", "c2", "d2")]


def test_down_nodes_start_in_their_state(read: Read) -> None:
    """DownNodes=LIST State=DRAIN Reason=..."""
    conf, _ = read('DownNodes=a2 State=DRAIN Reason="no fan"', nodes=f"NodeName=a[1-2]\n{PART}")
    assert [(n.state, n.reason) for n in conf.nodes] == [("UNKNOWN", ""), ("DRAIN", "no fan")]


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("MaxTime=1:00:00", "max_time_ns", HOUR),
        ("MaxTime=90", "max_time_ns", 90 * MINUTE),
        ("MaxTime=1-0", "max_time_ns", DAY),
        ("MaxTime=0:30", "max_time_ns", MINUTE),
        ("", "max_time_ns", UNLIMITED),
        ("", "default_time_ns", -2),
        ("DefaultTime=30", "default_time_ns", 30 * MINUTE),
        ("Priority=7", "priority_tier", 7),
        ("Priority=7", "priority_job_factor", 7),
        ("PriorityTier=3", "priority_job_factor", 1),
        ("MaxNodes=UNLIMITED", "max_nodes", -1),
        ("Shared=FORCE:2", "over_subscribe", "FORCE"),
        ("Shared=FORCE:2", "over_subscribe_count", 2),
        ("OverSubscribe=YES", "over_subscribe_count", 4),
        ("OverSubscribe=YES:1", "over_subscribe", "NO"),
        ("OverSubscribe=EXCLUSIVE", "over_subscribe", "EXCLUSIVE"),
        ("Exclusive=NODE", "over_subscribe", "EXCLUSIVE"),
        ("Exclusive=USER", "exclusive_user", True),
        ("Exclusive=TOPO", "over_subscribe", "EXCLUSIVE"),
        ("AllowAccounts=ALL", "allow_accounts", ()),
        ("AllowQos=High,low", "allow_qos", ("high", "low")),
        ("PreemptMode=REQUEUE", "preempt_mode", "requeue"),
        ("PreemptMode=CLUSTER", "preempt_mode", "off"),
        ("OverTimeLimit=5", "over_time_limit_ns", 5 * MINUTE),
        ("DefMemPerCPU=10 DefMemPerNode=20", "def_mem_per_cpu_mib", 0),
        ("TRESBillingWeights=CPU=1.0,Mem=0.25G", "tres_billing_weights", (("cpu", 1.0), ("mem", 0.25 / 1024))),
        ("State=DRAIN", "state", "DRAIN"),
        ("GraceTime=30", "grace_time_ns", 30_000_000_000),
    ],
)
def test_a_partition_option_has_its_meaning(read: Read, text: str, name: str, expected: object) -> None:
    """read_config.c _parse_partitionname: units, old names, words."""
    conf, _ = read("", nodes=f"NodeName=a1\nPartitionName=p Nodes=a1 {text}\n")
    assert getattr(conf.partitions[0], name) == expected


def test_partition_defaults_pass_on_all_but_a_few(read: Read) -> None:
    """PartitionName=DEFAULT does not pass on ExclusiveUser (read only from the own line)."""
    conf, _ = read("", nodes=(
        "NodeName=a1\nPartitionName=DEFAULT Nodes=a1 MaxTime=5 ExclusiveUser=YES\nPartitionName=p\n"
        "PartitionName=q MaxTime=6 ExclusiveUser=YES\n"
    ))  # fmt: skip
    p, q = conf.partitions
    assert (p.max_time_ns, p.exclusive_user, q.max_time_ns, q.exclusive_user) == (5 * MINUTE, False, 6 * MINUTE, True)


@pytest.mark.parametrize(
    "text",
    [
        "NodeName=a1\nNodeName=a1\n" + PART,
        "NodeName=a[1-\n" + PART,
        "NodeName=a[1-99999999]\n" + PART,
        "NodeName=a1 State=IDLING\n" + PART,
        "NodeName=a1 Gres=gpu:2\n" + PART,
        "NodeName=a1 CPUz=2\n" + PART,
        "NodeName=ALL\n" + PART,
        "NodeName=a1\nPartitionName=p Nodes=b1\n",
        "NodeName=a1\nPartitionName=p Nodes=a1\nPartitionName=p Nodes=a1\n",
        "NodeName=a1\nPartitionName=p Nodes=a1 OverSubscribe=MAYBE\n",
        "NodeName=a1\nPartitionName=p Nodes=a1 Priority=70000\n",
        "NodeName=a1\nPartitionName=p Nodes=a1 MaxTime=later\n",
        "NodeName=a1\nNodeSet=a1 Nodes=a1\n" + PART,
        "NodeName=a1\nNodeSet=s\n" + PART,
        "NodeName=a1\nDownNodes=a1 State=ASLEEP\n" + PART,
    ],
)
def test_a_wrong_node_or_partition_line_is_an_error_at_its_line(read: Read, text: str) -> None:
    """Every refusal names the file and the line."""
    with pytest.raises(InputError, match=r"slurm\.conf:\d+: "):
        read("", nodes=text)


@pytest.mark.parametrize("text", ["CPUSpecList=0", "RestrictedCoresPerGPU=1"])
def test_node_options_that_change_results_are_refused(read: Read, text: str) -> None:
    """What jobs may use of a node is not guessed."""
    with pytest.raises(UnsupportedError):
        read("", nodes=f"NodeName=a1 CPUs=4 {text}\n{PART}")


GPU = "GresTypes=gpu,nic"


@pytest.mark.parametrize(
    ("gres", "gres_conf", "expected"),
    [
        ("gpu:2", "", (GresConf(name="gpu", type="", count=2),)),
        ("gpu:a100:2,gpu:v100:1,nic", "", (
            GresConf(name="gpu", type="a100", count=2), GresConf(name="gpu", type="v100", count=1),
            GresConf(name="nic", type="", count=1),
        )),
        ("gpu:4", "Name=gpu Type=a Count=3\nName=gpu Type=b File=/dev/x", (
            GresConf(name="gpu", type="a", count=3), GresConf(name="gpu", type="b", count=1),
        )),
        ("gpu:2", "NodeName=n1 Name=gpu File=/dev/nvidia[0-1]", (GresConf(name="gpu", type="", count=2),)),
        ("gpu:2(S:0-1)", "", (GresConf(name="gpu", type="", count=2),)),
        ("nic:no_consume:1K", "", (GresConf(name="nic", type="", count=1024),)),
    ],
)  # fmt: skip
def test_gres_of_a_node_come_from_slurm_conf_and_types_from_gres_conf(
    read: Read, gres: str, gres_conf: str, expected: tuple[GresConf, ...]
) -> None:
    """NAME[:TYPE][:COUNT]; an untyped entry takes the types of gres.conf when their counts add up."""
    conf, _ = read(GPU, nodes=f"NodeName=n1 Gres={gres}\n{PART}", gres_conf=gres_conf)
    assert conf.nodes[0].gres == expected


def test_gres_conf_that_contradicts_or_names_strangers_is_a_warning(read: Read) -> None:
    """slurm.conf counts; cores and unknown nodes of gres.conf are named."""
    _, warnings = read(
        GPU, nodes=f"NodeName=n1 Gres=gpu:2\n{PART}", gres_conf="NodeName=n[1-3] Name=gpu Count=3 Cores=0-3\n"
    )
    said = " ".join(w.message for w in warnings)
    assert "slurm.conf counts" in said
    assert "unknown nodes" in said
    assert "not modelled" in said


TREE = "TopologyPlugin=topology/tree"


def test_topology_conf_gives_the_switches_of_a_tree(read: Read) -> None:
    """Leaf switches name nodes, others switches; unknown nodes are left out with a warning."""
    conf, warnings = read(
        TREE,
        topology_conf="SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-9]\nSwitchName=top Switches=s[1-2]\n",
    )
    assert conf.switches == (
        SwitchConf(name="s1", nodes=("n1", "n2")), SwitchConf(name="s2", nodes=("n3", "n4")),
        SwitchConf(name="top", switches=("s1", "s2")),
    )  # fmt: skip
    assert "5 unknown nodes" in warnings[0].message


def test_topology_conf_without_the_plugin_is_not_read(read: Read) -> None:
    """And said so."""
    conf, warnings = read("", topology_conf="SwitchName=s1 Nodes=n[1-4]\n")
    assert conf.switches == ()
    assert "not read" in warnings[0].message


@pytest.mark.parametrize(
    "text",
    ["SwitchName=s", "SwitchName=s Nodes=n1 Switches=t", "SwitchName=s Switches=t", "Nodes=n1", "SwitchName=s Speed=1",
     "SwitchName=s Nodes=n1\nSwitchName=s Nodes=n2", "SwitchName=a Switches=b\nSwitchName=b Switches=a"],
)  # fmt: skip
def test_a_wrong_topology_line_is_an_error_at_its_line(read: Read, text: str) -> None:
    """Also a switch above itself."""
    with pytest.raises(InputError, match=r"topology_conf\.txt:\d"):
        read(TREE, topology_conf=text)
