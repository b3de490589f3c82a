"""A Slurm cluster's configuration, typed: what slurm.conf, gres.conf, topology.conf and sacctmgr say.

Values only: the defaults per Slurm version are data (workload/slurm_defaults.yaml), the reader is
workload/slurm_conf.py. Field names are Slurm's option names in snake case; times are nanoseconds,
memory is MiB, UNLIMITED is clock.UNLIMITED (-1). Sources: man slurm.conf, man sacctmgr of each version.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillOptions:
    """SchedulerParameters that begin with bf_ (slurm.md 2.1)."""

    interval_ns: int
    """-1: off."""
    max_time_ns: int
    window_ns: int
    resolution_ns: int
    max_job_test: int
    node_space_size: int
    max_job_start: int
    max_job_part: int
    max_job_user: int
    max_job_user_part: int
    max_job_assoc: int
    max_job_array_resv: int
    job_part_count_reserve: int
    min_age_reserve_ns: int
    min_prio_reserve: int
    continue_: bool
    yield_interval_ns: int
    yield_sleep_ns: int
    window_linear_ns: int
    """0: unset, the precision step doubles."""
    one_resv_per_job: bool
    busy_nodes: bool
    running_job_reserve: bool
    licenses: bool
    hetjob_immediate: bool
    hetjob_prio: str
    """"", min, avg or max."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOptions:
    """SchedulerType and the SchedulerParameters of the main loop (slurm.md 1)."""

    type: str
    """sched/backfill or sched/builtin."""
    interval_ns: int
    """sched_interval; -1: no periodic full pass."""
    batch_sched_delay_ns: int
    min_interval_ns: int
    default_queue_depth: int
    partition_job_depth: int
    max_job_start: int
    max_sched_time_ns: int
    build_queue_timeout_ns: int
    defer: bool
    defer_batch: bool
    max_rpc_cnt: int
    assoc_limit_stop: bool
    pack_serial_at_end: bool
    preempt_youngest_first: bool
    preempt_reorder_count: int
    preempt_strict_order: bool
    reduce_completing_frag: bool
    requeue_delay_ns: int
    """-1: unset, the credential lifetime + 1 s rules (slurm.md 4.6)."""
    nohold_on_prolog_fail: bool
    time_min_as_soft_limit: bool
    ignore_prefer_validation: bool
    time_slice_ns: int
    """SchedulerTimeSlice."""
    backfill: BackfillOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectOptions:
    """SelectType, SelectTypeParameters and the memory defaults (slurm.md 1.3)."""

    type: str
    """select/linear or select/cons_tres (cons_res is read as cons_tres)."""
    unit: str
    """cpu, core or socket: the consumable unit of cons_tres."""
    memory: bool
    """*_Memory: memory is consumable."""
    lln: bool
    pack_nodes: bool
    core_default_dist_block: bool
    one_task_per_core: bool
    def_mem_per_cpu_mib: int
    def_mem_per_node_mib: int
    """0 in both: a job that names no memory takes all of the node's."""
    max_mem_per_cpu_mib: int
    max_mem_per_node_mib: int
    def_cpu_per_gpu: int = 0
    def_mem_per_gpu_mib: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityOptions:
    """PriorityType and the multifactor settings (slurm.md 3.1)."""

    type: str
    """priority/basic or priority/multifactor."""
    weight_age: int
    weight_assoc: int
    weight_fairshare: int
    weight_job_size: int
    weight_partition: int
    weight_qos: int
    weight_tres: tuple[tuple[str, float], ...]
    """(cpu|mem|node|billing|gres/NAME|license/NAME, weight), as written."""
    max_age_ns: int
    decay_half_life_ns: int
    """0: no decay."""
    calc_period_ns: int
    usage_reset_period: str
    favor_small: bool
    flags: frozenset[str]
    """ACCRUE_ALWAYS, CALCULATE_RUNNING, DEPTH_OBLIVIOUS, NO_FAIR_TREE, NO_NORMAL_ASSOC, ... as written."""
    fair_share_dampening_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptOptions:
    """PreemptType, PreemptMode (slurm.md 3.2)."""

    type: str
    """preempt/none, preempt/partition_prio or preempt/qos."""
    mode: str
    """off, cancel, requeue, suspend or within: without gang."""
    gang: bool
    exempt_time_ns: int
    within: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerOptions:
    """Time-outs and housekeeping of slurmctld and slurmd (slurm.md 0, 4)."""

    message_timeout_ns: int
    tcp_timeout_ns: int
    slurmd_timeout_ns: int
    """0: a node is never set DOWN for silence."""
    slurmctld_timeout_ns: int
    kill_wait_ns: int
    min_job_age_ns: int
    inactive_limit_ns: int
    batch_start_timeout_ns: int
    over_time_limit_ns: int
    """UNLIMITED allowed."""
    complete_wait_ns: int
    unkillable_step_timeout_ns: int
    epilog_msg_time_ns: int
    cred_expire_ns: int
    """AuthInfo cred_expire: the requeue hold is this + 1 s."""
    health_check_interval_ns: int
    health_check_node_state: str
    resume_timeout_ns: int
    suspend_timeout_ns: int
    suspend_time_ns: int
    """UNLIMITED: power saving is off."""
    resume_rate_per_min: int
    suspend_rate_per_min: int
    power_save_interval_ns: int
    power_save_min_interval_ns: int
    suspend_exc_nodes: str = ""
    suspend_exc_parts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """Everything else of slurmctld that changes what happens."""

    cluster_name: str
    hosts: tuple[str, ...]
    """SlurmctldHost in order: primary first."""
    return_to_service: int
    job_requeue: bool
    max_batch_requeue: int
    max_job_count: int
    max_array_size: int
    first_job_id: int
    max_job_id: int
    tree_width: int
    enforce_part_limits: str
    """no, any or all."""
    accounting_storage: bool
    """AccountingStorageType=accounting_storage/slurmdbd."""
    accounting_enforce: frozenset[str]
    """associations, limits, nojobs, nosteps, qos, safe, wckeys."""
    accounting_tres: tuple[str, ...]
    max_dbd_msgs: int
    """0: max(10000, 2*MaxJobCount + 4*nodes) (slurm.md 6)."""
    max_dbd_msg_action: str
    kill_invalid_depend: bool
    max_depend_depth: int
    topology_plugin: str
    """default/flat, tree or block."""
    topology_param: frozenset[str]
    max_node_count: int
    """0: as many as configured."""
    config_overrides: bool
    no_addr_cache: bool
    no_backup_scheduling: bool
    prolog: bool
    """A Prolog is configured (its run time is a host parameter)."""
    epilog: bool
    prolog_flags: frozenset[str]
    gres_types: tuple[str, ...]
    licenses: tuple[tuple[str, int], ...]
    node_reg_mem_percent: int
    reboot_program: bool
    suspend_program: bool
    kill_on_bad_exit: bool = False
    prolog_fails: bool = False
    """The Prolog is the program `false`: every launch fails."""
    epilog_fails: bool = False
    reconfig_on_restart: bool = False
    """SlurmctldParameters=reconfig_on_restart (26.05): a start pushes the configuration to every slurmd."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GresConf:
    """`Gres=` of a node: name, optional type, count."""

    name: str
    type: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConf:
    """One node of a NodeName line. cpus = boards*sockets*cores*threads, or what CPUs= says."""

    name: str
    cpus: int
    boards: int = 1
    sockets: int = 1
    """Sockets of the whole node."""
    cores_per_socket: int = 1
    threads_per_core: int = 1
    real_memory_mib: int = 1
    mem_spec_limit_mib: int = 0
    core_spec_count: int = 0
    tmp_disk_mib: int = 0
    weight: int = 1
    features: tuple[str, ...] = ()
    gres: tuple[GresConf, ...] = ()
    state: str = "UNKNOWN"
    """UNKNOWN, CLOUD, FUTURE, DOWN, DRAIN, FAIL as written in State=."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionConf:
    """One PartitionName line (man slurm.conf)."""

    name: str
    nodes: tuple[str, ...]
    """Names in node-table order."""
    default: bool = False
    state: str = "UP"
    """UP, DOWN, DRAIN or INACTIVE."""
    max_time_ns: int = -1
    default_time_ns: int = -2
    """-2: not given, max_time rules."""
    min_nodes: int = 0
    max_nodes: int = -1
    max_cpus_per_node: int = -1
    priority_tier: int = 1
    priority_job_factor: int = 1
    over_subscribe: str = "NO"
    """NO, EXCLUSIVE, YES or FORCE."""
    over_subscribe_count: int = 1
    preempt_mode: str = ""
    """"": the cluster's."""
    grace_time_ns: int = 0
    lln: bool = False
    def_mem_per_cpu_mib: int = 0
    def_mem_per_node_mib: int = 0
    max_mem_per_cpu_mib: int = 0
    max_mem_per_node_mib: int = 0
    allow_accounts: tuple[str, ...] = ()
    deny_accounts: tuple[str, ...] = ()
    allow_qos: tuple[str, ...] = ()
    deny_qos: tuple[str, ...] = ()
    allow_groups: tuple[str, ...] = ()
    qos: str = ""
    exclusive_user: bool = False
    exclusive_topo: bool = False
    hidden: bool = False
    root_only: bool = False
    req_resv: bool = False
    disable_root_jobs: bool = False
    over_time_limit_ns: int = -2
    """-2: the cluster's."""
    tres_billing_weights: tuple[tuple[str, float], ...] = ()
    power_down_on_idle: bool = False
    suspend_time_ns: int = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchConf:
    """One SwitchName line of topology.conf: leaf switches name nodes, others name switches."""

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """TRES and count limits shared by QOS and associations; -1 or absent: none (man sacctmgr).

    TRES tuples hold (cpu|mem|node|billing|gres/NAME, amount); mem in MiB. Times in ns or TRES-minutes.
    """

    grp_jobs: int = -1
    grp_jobs_accrue: int = -1
    grp_submit_jobs: int = -1
    grp_tres: tuple[tuple[str, int], ...] = ()
    grp_tres_mins: tuple[tuple[str, int], ...] = ()
    grp_tres_run_mins: tuple[tuple[str, int], ...] = ()
    grp_wall_ns: int = -1
    max_jobs: int = -1
    """MaxJobs of an association, MaxJobsPerUser of a QOS."""
    max_jobs_per_account: int = -1
    max_jobs_accrue: int = -1
    max_submit_jobs: int = -1
    max_submit_jobs_per_account: int = -1
    max_tres_per_job: tuple[tuple[str, int], ...] = ()
    max_tres_per_node: tuple[tuple[str, int], ...] = ()
    max_tres_per_user: tuple[tuple[str, int], ...] = ()
    max_tres_per_account: tuple[tuple[str, int], ...] = ()
    max_tres_mins_per_job: tuple[tuple[str, int], ...] = ()
    max_wall_per_job_ns: int = -1
    min_prio_thresh: int = -1
    min_tres_per_job: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QosConf:
    """One QOS as sacctmgr has it."""

    name: str
    priority: int = 0
    limits: Limits = field(default_factory=Limits)
    preempt: tuple[str, ...] = ()
    preempt_mode: str = ""
    grace_time_ns: int = 0
    preempt_exempt_time_ns: int = -1
    usage_factor: float = 1.0
    limit_factor: float = 0.0
    flags: frozenset[str] = frozenset()
    """DenyOnLimit, NoReserve, NoDecay, OverPartQOS, PartitionMaxNodes, ... as written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssocConf:
    """One association: an account (user "") or a user in an account, of one cluster."""

    account: str
    user: str = ""
    partition: str = ""
    parent: str = "root"
    """Parent account; of a user's association its own account."""
    fairshare: int = 1
    """Shares; -2 stands for `parent`."""
    priority: int = 0
    limits: Limits = field(default_factory=Limits)
    qos: tuple[str, ...] = ()
    """QOS it may use; empty: its parent's; all with + or -: its parent's, changed so."""
    default_qos: str = ""
    is_default: bool = False
    """The user's DefaultAccount."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConf:
    """All of it. Nodes are in node-table order (the order that ties are broken by, slurm.md 1.3)."""

    version: str
    controller: ControllerOptions
    scheduler: SchedulerOptions
    select: SelectOptions
    priority: PriorityOptions
    preempt: PreemptOptions
    timers: TimerOptions
    nodes: tuple[NodeConf, ...]
    partitions: tuple[PartitionConf, ...]
    switches: tuple[SwitchConf, ...] = ()
    qos: tuple[QosConf, ...] = ()
    assocs: tuple[AssocConf, ...] = ()
