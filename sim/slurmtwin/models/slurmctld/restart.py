"""A slurmctld begins from what its state volume holds (slurm.md 5.2; read_config.c read_slurm_conf()).

Nodes: by default only DOWN, DRAIN, FAIL, power flags and reasons come back, the rest is UNKNOWN until the node
answers; a takeover and `-R` take everything. Jobs come back as saved; each is taken as just seen, so the sweep
3 s later cannot give up a missing one (slurm.md 4.4): it lives on as a ghost.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.events import Kind
from slurmtwin.contract.hostlist import expand
from slurmtwin.models.slurmctld.policies import restore_state
from slurmtwin.models.slurmctld.saved_records import copy_jobs
from slurmtwin.models.slurmctld.states import JobState, NodeBase, NodeFlag
from slurmtwin.models.slurmctld.tables import bits

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.node_lifecycle import NodeLifecycle
    from slurmtwin.models.slurmctld.saved_records import SavedNode
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.state_store import Snapshot
    from slurmtwin.models.slurmctld.tables import Job, Node
    from slurmtwin.models.slurmd.parts import Work


class Recover(StrEnum):
    """slurmctld's options for its state files (man slurmctld; slurm.md 5.2)."""

    STATE = "-r"
    """The default: jobs, and of nodes only what took them out of service."""
    ALL = "-R"
    """Also nodes' full state: what a takeover and a reconfigure by re-execution do."""
    NOTHING = "-c"


_OUT: Final = NodeFlag.DRAIN | NodeFlag.FAIL
_POWER: Final = NodeFlag.POWERED_DOWN | NodeFlag.POWERING_DOWN | NodeFlag.POWERING_UP
_STATE_FLAGS: Final = _OUT | NodeFlag.MAINT | NodeFlag.REBOOT_REQUESTED | NodeFlag.REBOOT_ISSUED


def recover(ctld: Slurmctld, nodes: NodeLifecycle, saved: Snapshot | None, mode: Recover) -> None:
    """Fill the tables of a slurmctld that does not serve yet."""
    controller = ctld.conf.controller
    if saved is None or mode is Recover.NOTHING:
        ctld.store.next_job_id = controller.first_job_id
        return
    ctld.store.next_job_id = saved.next_job_id
    for record in saved.nodes:
        node = ctld.nodes.by_name.get(record.conf.name)
        if node is not None:
            _load_node(ctld, node, record, mode)
    restore_state(ctld, saved.policy)
    jobs = copy_jobs(saved.jobs, ctld)
    for job in jobs:
        _load_job(ctld, job, ctld.slurmds.works)
    for job in jobs:
        _sync_nodes(ctld, nodes, job)
    ctld.selection.rebuild()
    for node in ctld.nodes.nodes:
        nodes.build_bitmaps(node)
    dead = [node for node in ctld.nodes.nodes if node.base is NodeBase.DOWN and nodes.running.some & node.bit]
    for job in jobs:
        ctld.lifecycle.recovered(job)
    for job in jobs:
        _check_nodelist(ctld, job)
    for node in dead:  # _sync_nodes_to_active_job(): "Killing job on DOWN node"
        nodes.kill_jobs(node, node.reason)


def _load_node(ctld: Slurmctld, node: Node, record: SavedNode, mode: Recover) -> None:
    """load_all_node_state(). The boot time is not saved: every node is asked to register."""
    node.last_response_s = record.last_response_s
    node.boot_req_s, node.power_req_s = record.boot_req_s, record.power_req_s
    saving = ctld.conf.controller.suspend_program
    flags = record.flags if saving else record.flags & ~_POWER
    if mode is Recover.ALL or node.flags & (NodeFlag.CLOUD | NodeFlag.DYNAMIC_NORM):
        node.base, node.flags = record.base, flags
        ctld.nodes_lifecycle.set_reason(node, record.reason)
    elif node.base is NodeBase.UNKNOWN:
        if record.base is NodeBase.DOWN:
            node.base = NodeBase.DOWN
        node.flags |= flags & _STATE_FLAGS
        if flags & (NodeFlag.POWERED_DOWN | NodeFlag.POWERING_DOWN) and node.base is NodeBase.UNKNOWN:
            node.base = NodeBase.IDLE
        node.flags |= flags & _POWER
        if not node.reason:
            ctld.nodes_lifecycle.set_reason(node, record.reason)
    if not node.flags & NodeFlag.POWERED_DOWN:
        node.last_busy_s = ctld.now_s()


def _load_job(ctld: Slurmctld, job: Job, works: dict[int, Work]) -> None:
    """load_all_job_state(): the record enters the table; it counts as seen now (slurm.md 4.4)."""
    job.last_active_s = ctld.now_s()
    job.parts = [ctld.partitions[part.name] for part in job.parts if part.name in ctld.partitions]
    job.part = ctld.partitions.get(job.part.name) if job.part is not None else None
    work = works.get(job.slurm_id)
    job.work = work if work is not None and work.start_s == job.start_s else None
    ctld.jobs[job.slurm_id] = job
    if job.state.finished and not job.completing:
        return
    ctld.limits.admit(job)
    ctld.limits.job_submitted(job)
    if job.state in (JobState.RUNNING, JobState.SUSPENDED):
        ctld.running[job.slurm_id] = job
        ctld.limits.job_started(job)
        ctld.priority.job_started(job)
        if job.licenses:
            ctld.licenses.take(job)
    elif job.completing:
        ctld.completing[job.slurm_id] = job


def _check_nodelist(ctld: Slurmctld, job: Job) -> None:
    """_sync_detail_bitmaps(): an external job that names a node which is gone ends NODE_FAIL, pending or running."""
    request = job.request
    if not request.external or job.state.finished or not request.nodelist:
        return
    if any(name not in ctld.nodes.by_name for name in expand(request.nodelist)):
        ctld.lifecycle.end(job, JobState.NODE_FAIL, "NodeDown")
        job.exit_code = 1


def _sync_nodes(ctld: Slurmctld, nodes: NodeLifecycle, job: Job) -> None:
    """_sync_nodes_to_jobs(): nodes count the jobs they have."""
    if job.alloc is None:
        return
    if job.state in (JobState.RUNNING, JobState.SUSPENDED):
        nodes.running.add(job.alloc.nodes)
    elif job.completing:
        waiting = 0
        for index in bits(job.completing_nodes):
            node = ctld.nodes.nodes[index]
            if node.base is NodeBase.DOWN:
                continue
            waiting |= node.bit
            if node.base is NodeBase.UNKNOWN:  # make_node_comp() calls it IDLE
                node.base = NodeBase.IDLE
        job.completing_nodes = waiting
        nodes.leaving.add(waiting)
        ctld.nodes.completing |= waiting


def report_lost(before: Slurmctld, after: Slurmctld) -> None:
    """Jobs that users were told of and that the new slurmctld does not know: job.lost (slurm.md 5.3)."""
    for slurm_id, job in before.jobs.items():
        if job.state.finished and not job.completing:
            continue
        kept = after.jobs.get(slurm_id)
        if kept is None or kept.request.job_id != job.request.job_id:
            after.emit(Kind.JOB_LOST, job_id=job.request.job_id)
