"""Mutated input files: accepted, or refused with an InputError that has a place; never anything else."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Callable
from itertools import islice, pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurmtwin.contract.errors import InputError
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.workload.resolve import open_trace, resolve
from slurmtwin.workload.slurm_conf import cluster_conf, cluster_conf_of_files

pytestmark = pytest.mark.property

SWF = b"; Version: 2.2\n; MaxProcs: 64\n" + b"".join(
    b"%d %d 3 %d 4 -1 -1 4 600 1024 1 %d 1 1 1 1 -1 -1\n" % (i, 10 * i, 30 + i, i % 3) for i in range(1, 9)
)
SWF_21 = b"".join(
    b"%d %d 0 50 8 1 1024 8 86400 8589934592 1 62 1 1 -1 1 1 1 {12,12} q_1d 2:ppn=4:x86_64#excl\n" % (i, 1356996147 + i)
    for i in range(5)
)
SACCT = (
    b"JobIDRaw|JobID|User|Account|Partition|QOS|Submit|Eligible|Start|End|ElapsedRaw|ReqCPUS|ReqNodes|ReqMem|ReqTRES|"
    b"TimelimitRaw|State|ExitCode|SubmitLine\n"
    b"100|100|u|a|p|normal|2024-03-01T10:00:00|2024-03-01T10:00:00|2024-03-01T10:00:05|2024-03-01T10:01:05|60|2|1|4G|"
    b"cpu=2,mem=4G,node=1,gres/gpu=1|10|COMPLETED|0:0|sbatch --mem=4G -c 2 x.sh\n"
    b"101|101.batch|u|a|p|normal|2024-03-01T10:00:09||2024-03-01T10:00:15|Unknown|7|2|1|2Gc||UNLIMITED|RUNNING|0:0|\n"
    b"102|102+1|u|a|p|normal|2024-03-01T10:00:10|Unknown|None|2024-03-01T10:00:15|0|2|2|9G||5|CANCELLED by 5|0:15|\n"
)
EVENTS = b"".join(
    b"-dt %d.25 -e submit_batch_job | -sim-walltime %d --uid=u%d -J jobid_%d -N 1 -n 4 -t 1-02:03:04 -q q -p p "
    b"--mem=62G --constraint=c --exclusive=user pseudo.job\n" % (i, 7 * i - 7, i, i)
    for i in range(1, 6)
)
TABLE = (
    b"dt;job_id;wall_time;user;wall_limit;n_tasks;ntasks_per_node;account;partition;qos;constraint;mem;gres\n"
    b"0;1001;15;u5;7;12;12;a2;n;q;;;\n49;1002;-1;u1;30;1;1;a1;n;q;CPU-N;500;gpu:1\n"
)
JOBS = (
    b'{"job_id":1,"submit_ns":0,"run_ns":5,"ntasks":2,"user":"u"}\n'
    b'{"job_id":2,"submit_ns":5,"limit_ns":-1,"array":"0-3%2","hold":true,"dependency":"afterok:1"}\n'
)
CONF = (
    b"ClusterName=c # name\nSlurmctldHost=a(1.2.3.4)\nSchedulerParameters=bf_interval=20,bf_continue,defer\\\n"
    b",bf_window=60\nSelectTypeParameters=CR_Core_Memory,CR_LLN\nPriorityWeightTRES=CPU=1,Mem=.5G\nGresTypes=gpu\nLicenses=a:3,b\n"
    b"PreemptType=preempt/qos\nPreemptMode=SUSPEND,GANG\nTopologyPlugin=topology/tree\nPriorityMaxAge=1-0\n"
    b"NodeName=DEFAULT CPUs=4 RealMemory=1000\nNodeName=n[1-4] Sockets=2 CoresPerSocket=2 Feature=x,y Gres=gpu:t:2\n"
    b'NodeSet=s Feature=x\nDownNodes=n1 State=DOWN Reason="no fan"\nPartitionName=DEFAULT MaxTime=1:00:00\n'
    b"PartitionName=p Nodes=s,n[1-2] Default=YES OverSubscribe=FORCE:2 PriorityTier=5 TRESBillingWeights=CPU=1\n"
)
GRES = b"AutoDetect=off\nNodeName=n[1-4] Name=gpu Type=t File=/dev/nvidia[0-1] Cores=0-1\nName=gpu Count=2\n"
TOPOLOGY = b"SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4] LinkSpeed=5\nSwitchName=top Switches=s[1-2]\n"
SACCTMGR = (
    b"add qos high Priority=9 Flags=DenyOnLimit GrpTRES=cpu=4,mem=10G MaxWall=1-0\nadd account name=a Fairshare=3\n"
    b'add user name=u,v account=a DefaultAccount=a qos="normal,high"\nmodify user where name=u set fairshare=parent\n'
    b"Account - 'b':Description='x':Fairshare=1\nParent - 'b'\nUser - 'w':DefaultAccount='b':MaxJobs=3\n"
)
SCENARIO = b"""schema: slurmtwin/scenario/1
name: fuzz
slurm:
  version: "24.11"
  conf: {SchedulerParameters: "bf_interval=20,defer", UsePAM: false, GresTypes: gpu}
  nodes:
    - {NodeName: "n[1-4]", CPUs: 4, Gres: "gpu:2"}
  partitions:
    - {PartitionName: p, Nodes: ALL, MaxTime: "1:00:00"}
  gres: [{Name: gpu, Count: 2}]
  accounting: ["add account a", "add user u account=a"]
  waive: [JobSubmitPlugins]
workload:
  jobs:
    - {id: 5, submit: 1s, count: 3, every: 10s, run: 1h30m, time: "2:00:00", nodes: "1-2", mem: 4G, array: "0-9:3%2"}
    - {submit: 250ms, run: until-ended, ntasks: 4, gres: "gpu:1", begin: 5m}
  generate: {model: burst, jobs: 5, burst_size: 2, gap: 60s, cpus: [1, 2]}
faults:
  - {at: 5s, kind: slurmd.kill, target: n1}
"""

WORDS = [
    b"-1", b"0", b"1e999", b"NaN", b"inf", b"9" * 25, b"9" * 5000, b"0x", b"\0", b"\xff\xfe", "²٣".encode(), b"[", b"]",
    b"{", b"}", b'"', b"'", b"=", b"|", b";", b",", b"\\", b"#", b":", b"-", b" ", b"\t", b"\n", b"\r\n", b"Include x",
    b"UNLIMITED", b"n[0-99999]", b"n[1-2][3-4]", b"*a", b"&a ", b"!!python/object:os", b"<<: ", b"~", b"true", b"1.5",
    b"1_0", b"--", b"(", b"$", b"%", b"null", b"[[[[", b"DEFAULT", b"ALL",
]  # fmt: skip
CHANGE = st.tuples(
    st.sampled_from(["insert", "replace", "delete", "double", "cut", "swap"]), st.integers(0, 10**6),
    st.integers(1, 12), st.one_of(st.sampled_from(WORDS), st.binary(min_size=1, max_size=4)),
)  # fmt: skip


def mutate(data: bytes, changes: list[tuple[str, int, int, bytes]]) -> bytes:
    """The data after insertions, replacements, deletions, doubled or swapped lines, and cuts."""
    for kind, place, size, word in changes:
        at = place % (len(data) + 1)
        lines = data.split(b"\n")
        row = place % len(lines)
        if kind == "insert":
            data = data[:at] + word + data[at:]
        elif kind == "replace":
            data = data[:at] + word + data[at + size :]
        elif kind == "delete":
            data = data[:at] + data[at + size :]
        elif kind == "double":
            data = b"\n".join([*lines[: row + 1], *lines[row:]])
        elif kind == "swap":
            other = (row + size) % len(lines)
            lines[row], lines[other] = lines[other], lines[row]
            data = b"\n".join(lines)
        else:
            data = data[:at]
    return data


def read_scenario(path: Path) -> None:
    """A scenario with its cluster and its first jobs."""
    scenario = load_scenario(path)
    cluster_conf(scenario, path.parent, path)
    list(islice(resolve(scenario, path.parent), 2000))


def read_conf(name: str) -> Callable[[Path], None]:
    """A cluster of good files but one."""

    def read(path: Path) -> None:
        parts = {"slurm_conf": CONF, "gres_conf": GRES, "topology_conf": TOPOLOGY, "sacctmgr": SACCTMGR}
        files: dict[str, Path] = {}
        for part, data in parts.items():
            files[part] = path if part == name else path.with_name(f"good_{part}")
            if part != name:
                files[part].write_bytes(data)
        cluster_conf_of_files(**files)

    return read


def read_trace(path: Path) -> None:
    """A trace, strictly and leniently; the account must hold for what was read."""
    with contextlib.suppress(InputError):
        for form in ("swf", "sacct", "events", "jobs"):
            if path.name == form:
                stream = open_trace(path, form, lenient=True)  # type: ignore[arg-type]
                jobs = list(stream)
                assert all((a.submit_ns, a.job_id) < (b.submit_ns, b.job_id) for a, b in pairwise(jobs))
                assert len({job.job_id for job in jobs}) == len(jobs) == stream.account.jobs
                assert stream.account.rows == stream.account.jobs + stream.account.dropped_rows
    list(open_trace(path, path.name))  # type: ignore[arg-type]


CASES: list[tuple[str, bytes, str, Callable[[Path], None]]] = [
    ("scenario", SCENARIO, "s.yaml", read_scenario),
    ("slurm.conf", CONF, "slurm.conf", read_conf("slurm_conf")),
    ("gres.conf", GRES, "g.conf", read_conf("gres_conf")),
    ("topology.conf", TOPOLOGY, "t.conf", read_conf("topology_conf")),
    ("sacctmgr", SACCTMGR, "a.txt", read_conf("sacctmgr")),
    ("swf", SWF, "swf", read_trace),
    ("swf-21", SWF_21, "swf", read_trace),
    ("sacct", SACCT, "sacct", read_trace),
    ("events", EVENTS, "events", read_trace),
    ("table", TABLE, "events", read_trace),
    ("jobs", JOBS, "jobs", read_trace),
]


@pytest.mark.parametrize(("data", "name", "read"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_file_before_mutation_is_accepted(
    tmp_path: Path, data: bytes, name: str, read: Callable[[Path], None]
) -> None:
    """The starting points are good, so that a mutation matters."""
    path = tmp_path / name
    path.write_bytes(data)
    read(path)


@pytest.mark.parametrize(("data", "name", "read"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(changes=st.lists(CHANGE, min_size=1, max_size=6), zipped=st.booleans())
def test_a_mutated_file_is_accepted_or_refused_with_its_place(
    tmp_path: Path, data: bytes, name: str, read: Callable[[Path], None], changes: list[tuple[str, int, int, bytes]],
    zipped: bool,
) -> None:  # fmt: skip
    """660 files: InputError with a place, or fine."""
    path = tmp_path / name
    mutated = mutate(data, changes)
    if zipped and read is read_trace:
        mutated = mutate(gzip.compress(mutated), changes[:1])
    path.write_bytes(mutated)
    try:
        read(path)
    except InputError as error:
        assert error.where is not None, error  # noqa: PT017
