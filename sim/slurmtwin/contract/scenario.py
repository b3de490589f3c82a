"""A scenario file: cluster, Slurm settings, workload, faults, and what must hold (slurmtwin/scenario/1).

Pydantic stands at this edge only. Unknown keys are errors, every message says file:line.
Slurm's own settings are kept in Slurm's own words, so that every world reads the same text.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, ValidationError

from slurmtwin.contract.cluster_faults import ClusterFault
from slurmtwin.contract.demand import Services, Users
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.fields import DurationNs, Scalar, Strict
from slurmtwin.contract.kubernetes import ClusterAutoscaler, Kubelet, KubernetesCluster, NodeGroup, Taint
from slurmtwin.contract.operator_steps import OperatorStep
from slurmtwin.contract.phases import Milestone, Phase
from slurmtwin.contract.pods import Autoscale, BridgedPods, OtherPod, PodsSection, Probe
from slurmtwin.contract.yaml_file import Location, line_of, load_yaml, quick_plain, validated

SCENARIO_SCHEMA: Final = "slurmtwin/scenario/1"


class SlurmFilePaths(Strict):
    """Take Slurm's settings from files; relative paths are relative to the scenario file."""

    slurm_conf: str
    gres_conf: str | None = None
    topology_conf: str | None = None
    sacctmgr: str | None = None


class SlurmSection(Strict):
    """The Slurm cluster, in Slurm's own option names (man slurm.conf of that version)."""

    version: Literal["22.05", "24.11", "26.05"] = "26.05"
    files: SlurmFilePaths | None = None
    conf: dict[str, Scalar] = Field(default_factory=dict, description="slurm.conf options beside nodes and partitions")
    nodes: list[dict[str, Scalar]] = Field(default_factory=list, description="NodeName= lines, one mapping each")
    partitions: list[dict[str, Scalar]] = Field(default_factory=list, description="PartitionName= lines")
    nodesets: list[dict[str, Scalar]] = Field(default_factory=list, description="NodeSet= lines")
    gres: list[dict[str, Scalar]] = Field(default_factory=list, description="gres.conf lines")
    topology: list[dict[str, Scalar]] = Field(default_factory=list, description="topology.conf lines")
    accounting: list[str] = Field(default_factory=list, description="sacctmgr command lines, e.g. 'add account a'")
    waive: list[str] = Field(default_factory=list, description="options known not to be modelled, accepted")


class JobLine(Strict):
    """One job, or `count` equal ones `every` apart, as sbatch options (see contract.jobs.JobRequest)."""

    id: int | None = Field(None, ge=1, description="the job's number; default: the next free one")
    submit: DurationNs = 0
    count: int = Field(1, ge=1, le=1_000_000)
    every: DurationNs = 0
    run: DurationNs | Literal["until-ended"] = 0
    time: str | None = Field(None, description="--time, a Slurm time such as 30 (minutes) or 1:00:00")
    time_min: str | None = None
    nodes: str | None = Field(None, description="--nodes, N or MIN-MAX")
    ntasks: int | None = Field(None, ge=1)
    ntasks_per_node: int | None = Field(None, ge=1)
    cpus_per_task: int | None = Field(None, ge=1)
    mem: str | None = Field(None, description="--mem per node, Slurm memory such as 4000 or 4G")
    mem_per_cpu: str | None = None
    gres: str = ""
    licenses: str = ""
    constraint: str = ""
    partition: str = ""
    nodelist: str = ""
    exclude: str = ""
    contiguous: bool = False
    switches: str = ""
    spread: bool = False
    exclusive: Literal["", "node", "user", "mcs"] = ""
    oversubscribe: bool = False
    threads_per_core: int | None = Field(None, ge=1)
    reservation: str = ""
    user: str = ""
    account: str = ""
    qos: str = ""
    name: str = ""
    nice: int = 0
    hold: bool = False
    begin: DurationNs | None = None
    deadline: DurationNs | None = None
    dependency: str = ""
    array: str = ""
    het_group: int = Field(0, ge=0)
    requeue: bool | None = None
    no_kill: bool = False
    signal: str = ""
    exit_code: int = Field(0, ge=0, le=255)
    cancel: DurationNs | None = None
    interactive: bool = False


class WorkloadFile(Strict):
    """A trace file; relative paths are relative to the scenario file."""

    path: str
    format: Literal["swf", "sacct", "events", "jobs"]
    lenient: bool = False
    first_jobs: int | None = Field(None, ge=1, description="take only so many, in submit order")


class GenerateLublin(Strict):
    """A Lublin-Feitelson-like workload with daily and weekly cycles."""

    model: Literal["lublin"]
    jobs: int = Field(ge=1)
    load: float = Field(gt=0, le=5, description="offered load: work / capacity over the submit span")
    nodes: int = Field(ge=1)
    seed: int = 1
    max_nodes: int | None = Field(None, ge=1)
    median_run: DurationNs = 1_200_000_000_000
    users: int = Field(10, ge=1)
    daily_cycle: bool = True
    cpus_per_node: int = Field(1, ge=1)
    whole_nodes: bool = True


class GenerateBurst(Strict):
    """`jobs` jobs in bursts of mean `burst_size`, exponential gaps, log-normal run times."""

    model: Literal["burst"]
    jobs: int = Field(ge=1)
    seed: int = 1
    burst_size: int = Field(10, ge=1)
    gap: DurationNs = 60_000_000_000
    median_run: DurationNs = 60_000_000_000
    run_sigma: float = Field(0.8, ge=0, le=3)
    over_ask: float = Field(2.0, ge=1, description="mean ratio of asked to used time")
    cpus: list[int] = Field(default_factory=lambda: [1])
    users: int = Field(5, ge=1)


class GenerateFeedback(Strict):
    """Users who think, submit, wait for the end, and think again (closed loop)."""

    model: Literal["feedback"]
    users: int = Field(ge=1)
    sessions: int = Field(ge=1)
    jobs_per_session: int = Field(5, ge=1)
    think: DurationNs = 300_000_000_000
    median_run: DurationNs = 600_000_000_000
    cpus: list[int] = Field(default_factory=lambda: [1])
    seed: int = 1


Generate = Annotated[GenerateLublin | GenerateBurst | GenerateFeedback, Field(discriminator="model")]


COPY: Final = 1_000_000_000
"""Job 7 that a dispatcher sends again, its cluster being lost, is job 1000000007; the time after that 2000000007."""


class LinkCut(Strict):
    """Nothing passes between the dispatcher and one cluster; the cluster itself works on."""

    cluster: str
    at: DurationNs
    lasts: DurationNs = Field(gt=0)


class Dispatch(Strict):
    """Who sends each job to one of several clusters, each a partition with nodes of its own.

    With `pods` and as many entries in `cluster`, each is a Slurm of its own on a Kubernetes cluster of its own
    (contract/several_clusters.py), on world kind as well; else one slurmctld has them all (twin).
    """

    clusters: list[str] = Field(min_length=1, description="the partitions, in the order in which equals are chosen")
    policy: Literal["none", "home", "least-loaded"] = Field(
        "none", description="none: as the job says; home: its user's cluster; least-loaded: by what was last heard"
    )
    staleness: DurationNs = Field(0, description="a cluster tells its load so often; 0: at every job")
    remembers: bool = Field(False, description="counts what it sent itself since it last heard")
    delay: DurationNs = Field(0, description="one way between dispatcher and clusters, for jobs and for news")
    patience: DurationNs = Field(
        2_500_000_000,
        gt=0,
        description="with clusters of their own: a request that is not answered for so long is given up",
    )
    away: DurationNs = Field(0, description="a job away from its user's home runs so much longer: it fetches its data")
    cuts: list[LinkCut] = Field(default_factory=list, description="clusters out of the dispatcher's reach for a time")
    lost_after: DurationNs = Field(
        0, description="jobs of a cluster that is silent for so long are sent again to another, and the first copy is "
        "cancelled when the cluster is back (MultiKueue's workerLostTimeout, 15m there); 0: never"
    )  # fmt: skip


class Workload(Strict):
    """The jobs: listed, read from a file, or generated; all three may be given and are merged by time."""

    jobs: list[JobLine] = Field(default_factory=list)
    file: WorkloadFile | None = None
    generate: Generate | None = None
    dispatch: Dispatch | None = None
    users: Users | None = None
    services: Services | None = None


class DaemonFault(Strict):
    """Stop, kill, freeze or start a Slurm daemon. target: node list for slurmd, host name for slurmctld."""

    at: DurationNs
    kind: Literal[
        "slurmctld.stop",
        "slurmctld.kill",
        "slurmctld.start",
        "slurmctld.freeze",
        "slurmctld.thaw",
        "slurmctld.lose_state",
        "slurmctld.takeover",
        "slurmctld.reconfigure",
        "slurmd.stop",
        "slurmd.kill",
        "slurmd.kill_group",
        "slurmd.start",
        "slurmd.freeze",
        "slurmd.thaw",
        "slurmdbd.stop",
        "slurmdbd.start",
    ]
    target: str = Field("", description="slurmd: node list; slurmctld: host, empty for the primary")


class NodeAction(Strict):
    """scontrol update nodename=TARGET state=STATE reason=REASON, or scontrol create/delete node."""

    at: DurationNs
    kind: Literal["node.update", "node.create", "node.delete"]
    target: str
    state: str = ""
    reason: str = ""


class JobAction(Strict):
    """What a user or admin does to a job: scancel, scontrol hold/release/requeue/suspend/resume/update."""

    at: DurationNs
    kind: Literal[
        "job.cancel",
        "job.hold",
        "job.release",
        "job.requeue",
        "job.requeuehold",
        "job.suspend",
        "job.resume",
        "job.update",
    ]
    job: int = Field(ge=1)
    set: dict[str, Scalar] = Field(default_factory=dict, description="job.update: scontrol's Key=Value pairs")


class PartitionAction(Strict):
    """scontrol update partitionname=TARGET Key=Value."""

    at: DurationNs
    kind: Literal["partition.update"]
    target: str
    set: dict[str, Scalar]


class ReservationAction(Strict):
    """scontrol create/delete reservation; starts `start` after t=0, for `duration`."""

    at: DurationNs
    kind: Literal["reservation.create", "reservation.delete"]
    name: str
    start: DurationNs = 0
    duration: DurationNs = 0
    nodes: str = ""
    users: str = ""
    accounts: str = ""
    flags: str = ""


Fault = Annotated[
    DaemonFault | NodeAction | JobAction | PartitionAction | ReservationAction | ClusterFault | OperatorStep,
    Field(discriminator="kind"),
]


class Budget(Strict):
    """Limits that end a run cleanly and say so."""

    max_events: int | None = Field(None, ge=1)
    max_time: DurationNs | None = None
    wall_limit: DurationNs | None = None


class Host(Strict):
    """The machine a real run was made on, as the twin must know it. None: calibrated defaults of the version."""

    factor: float = Field(1.0, ge=1, description="acceleration: host costs count so many times in simulated time")
    noise: bool = Field(False, description="draw host costs from their calibrated spread instead of the medians")


class Expect(Strict):
    """What must hold: names of properties (reports checks) and tolerances of conformance phases."""

    properties: list[str] = Field(default_factory=list)
    rules: list[str] = Field(default_factory=list, description="rows of the rule table this scenario is evidence for")
    phases: list[Phase] = Field(default_factory=list, description="spans predicted before the recording")

    def of_version(self, version: str) -> Self:
        """With the phases of one Slurm version alone."""
        return self.model_copy(update={"phases": [phase for phase in self.phases if phase.is_of(version)]})


class Scenario(Strict):
    """One scenario file. `schema` must name a version this program reads."""

    schema_: Literal["slurmtwin/scenario/1"] = Field(alias="schema")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    title: str = ""
    source: str = Field("", description="where the expectation was read")
    cluster: KubernetesCluster | list[KubernetesCluster] | None = Field(
        None, description="the Kubernetes cluster, or several; none: Slurm without Kubernetes"
    )
    slurm: SlurmSection
    pods: PodsSection | None = Field(None, description="Slurm in pods by manifests, for the world kind")
    workload: Workload = Workload()
    faults: list[Fault] = Field(default_factory=list)
    host: Host = Host()
    expect: Expect = Expect()
    budget: Budget = Budget()
    after: DurationNs = Field(0, description="go on so long after the last job has ended")

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @property
    def clusters(self) -> tuple[KubernetesCluster, ...]:
        """The Kubernetes clusters, none for a scenario without Kubernetes."""
        if self.cluster is None:
            return ()
        return tuple(self.cluster) if isinstance(self.cluster, list) else (self.cluster,)

    def of_version(self, version: str) -> Self:
        """The same under another version of Slurm, with its phases alone. Raises ValueError for one that is unknown."""
        slurm = self.slurm.model_validate(self.slurm.model_dump(by_alias=True) | {"version": version})
        return self.model_copy(update={"slurm": slurm, "expect": self.expect.of_version(version)})


KEPT: Final = 512
"""Scenarios that a process remembers: to read one takes 15 ms."""


def load_scenario(path: Path | str) -> Scenario:
    """The scenario in a YAML file. Raises InputError with file:line for the first thing that is wrong."""
    path = Path(path)
    return _loaded(path, path.read_bytes() if path.is_file() else b"")


@lru_cache(maxsize=KEPT)
def _loaded(path: Path, written: bytes) -> Scenario:
    quick = quick_plain(written)
    if isinstance(quick, dict) and quick.get("schema") == SCENARIO_SCHEMA:
        with suppress(ValidationError, RecursionError):  # to be read again, for the line
            return Scenario.model_validate(quick)
    document = load_yaml(path)
    if not isinstance(document, dict):
        raise InputError("a scenario is a mapping with the keys schema, name, slurm, workload", Where(str(path), 1))
    version = document.get("schema")
    if version != SCENARIO_SCHEMA:
        hint = f"first line: schema: {SCENARIO_SCHEMA}"
        raise InputError(
            f"schema {version!r} is not one this program reads",
            Where(str(path), line_of(document, ("schema",)) or 1),
            hint,
        )
    try:
        return validated(Scenario, document, path, _hint)
    except RecursionError as error:
        raise InputError("nested too deeply", Where(str(path))) from error


def _hint(kind: str, location: Location) -> str:
    if kind == "extra_forbidden":
        from difflib import get_close_matches

        known = [name for model in _MODELS for name in model.model_fields]
        close = get_close_matches(str(location[-1]), known, n=1)
        return f"unknown key; did you mean {close[0]}?" if close else "unknown key"
    return ""


_MODELS: Final = (
    Scenario,
    KubernetesCluster,
    NodeGroup,
    ClusterAutoscaler,
    Kubelet,
    Taint,
    SlurmSection,
    SlurmFilePaths,
    JobLine,
    Dispatch,
    LinkCut,
    Users,
    Services,
    Workload,
    WorkloadFile,
    GenerateLublin,
    GenerateBurst,
    GenerateFeedback,
    DaemonFault,
    NodeAction,
    JobAction,
    PartitionAction,
    ReservationAction,
    ClusterFault,
    OperatorStep,
    PodsSection,
    Autoscale,
    OtherPod,
    BridgedPods,
    Probe,
    Phase,
    Milestone,
    Budget,
    Host,
    Expect,
)


def scenario_json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a scenario file, for editors and other validators."""
    schema = Scenario.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
