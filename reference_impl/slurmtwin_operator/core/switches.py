"""Switches: what makes the operator behave as one design or another. Data only; the core never asks a design's name.

The default of each switch is its safest setting. `reproduces` names, for each setting, the real system that behaves
so and where that was read (SL slurm, SO slurm-operator, SB slurm-bridge, NS soperator, SU SUNK, GK slurm-on-gke,
KQ kueue, S4 the NERSC slides: the keys of the design notes, section "Source keys").
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

VictimKey = Literal[
    "pending", "not-ready", "deletion-cost", "condemned", "cordoned", "idle", "deadline", "ordinal", "newest"
]


class Frozen(BaseModel):
    """Base of everything a user writes: frozen, unknown keys refused, camelCase in Kubernetes, hashed once."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


def _switch(default: Any, text: str, **reproduces: str) -> Any:
    """A switch with its meaning and the real systems behind its settings."""
    extra: Any = {"x-reproduces": {name.replace("_", "-"): source for name, source in reproduces.items()}}
    return Field(default, description=text, json_schema_extra=extra)


class Switches(Frozen):
    """Every switch of the operator."""

    # the control plane of Slurm
    controller: Literal["statefulset-rwo", "deployment-rwx", "primary-backup", "external"] = _switch(
        "statefulset-rwo", "How slurmctld runs; external: somebody else runs it.",
        statefulset_rwo="Slinky (SO builders), SUNK (SU), GKE (GK)", deployment_rwx="NERSC (S4)",
        primary_backup="classic HA (SL backup.c), Slinky's unreleased ha (SO 31e87811)",
        external="slurm-bridge (SB), classic HA without Kubernetes",
    )  # fmt: skip
    config_change: Literal["in-place", "restart"] = _switch(
        "in-place", "What a changed slurm.conf does to slurmctld: reconfigure it, or replace its pod.",
        in_place="Slinky inplaceReconfigure (SO), SUNK's Syncer (SU)", restart="Slinky since v1.2 (SO)",
    )  # fmt: skip
    conf_order: Literal["sorted", "as-given"] = _switch(
        "sorted", "Order of node sets and options in slurm.conf; as-given: the order the API happened to list them in.",
        as_given="Slinky before 1.2.1: the configuration hash flipped with nothing changed (X12)",
    )  # fmt: skip
    partition_removal: Literal["when-unused", "at-once"] = _switch(
        "when-unused", "When a deleted node set's partition leaves slurm.conf; when-unused: after its last job record.",
        at_once="Slinky: slurmctld crashes in a loop while job records name the partition (SO#138, X13)",
    )  # fmt: skip
    # how worker pods are held
    workers: Literal["pods", "statefulset", "external"] = _switch(
        "pods", "Who owns slurmd pods: the node set itself, a StatefulSet, or nobody here.",
        pods="Slinky (SO), SUNK (SU)", statefulset="GKE (GK), Soperator by OpenKruise (NS)",
        external="slurm-bridge, NERSC, classic HA: compute nodes are not Slurm pods",
    )  # fmt: skip
    scale_source: Literal["replicas", "power"] = _switch(
        "replicas", "What says how many nodes: spec.replicas (people, HPA, KEDA) or Slurm's power saving by name.",
        replicas="Slinky with HPA or KEDA (SO docs/usage/autoscaling.md)", power="Soperator NodeSetPowerState (NS)",
    )  # fmt: skip
    deletion: Literal["drain", "at-once"] = _switch(
        "drain", "Deleting a node set waits for its jobs, or takes the pods at once.",
        at_once="owner references alone: the garbage collector takes busy pods (SO, GK)",
    )  # fmt: skip
    drain_before_delete: bool = _switch(
        True, "A pod is deleted only when its Slurm node is drained and idle.",
        true="Slinky (SO nodeset_sync.go)", false="GKE and Soperator's StatefulSets: jobs or not (X33)",
    )  # fmt: skip
    victim_order: tuple[VictimKey, ...] = _switch(
        ("pending", "not-ready", "deletion-cost", "condemned", "idle", "deadline", "ordinal"),
        "Order of choice at scale-in: the first key that differs decides.",
        ordinal="StatefulSets: the highest ordinal dies (GK)", deadline="Slinky (SO utils/sort.go)",
        newest="SUNK: not-ready, idle, draining, running, newer first (SU)",
    )  # fmt: skip
    recheck: bool = _switch(
        True, "Just before a delete or resume the shell reads the Slurm node again and does nothing if it changed.",
        false="every operator read: decisions rest on a cache up to 30 s old (X34)",
    )  # fmt: skip
    # answers from Slurm
    rest_down: Literal["go-on", "stop-pass"] = _switch(
        "go-on", "While slurmrestd does not answer: do what needs no Slurm (replace dead pods), or nothing at all.",
        **{"stop-pass": "Slinky: a pass ends at the failed refresh (SO, X18)"},
    )  # fmt: skip
    rest_missing: Literal["closed", "open"] = _switch(
        "closed", "While there is no REST client at all a node counts as busy (closed) or as drained (open).",
        open="Slinky: scale-in deletes busy pods (SO#79, X20; seen on a cluster)",
    )  # fmt: skip
    rest_timeout_s: Annotated[int, Field(ge=0, le=3600)] = _switch(
        10, "Seconds until a call to slurmrestd is given up; 0: never.",
        **{"0": "Slinky to 1.2.0: reconcilers wedge behind a silent server (SO#239, X19)",
           "300": "Slinky since Aug 2026"},
    )  # fmt: skip
    unknown_node: Literal["wait", "drained"] = _switch(
        "wait", "A ready pod whose node Slurm does not know: wait until it registers, or take it for drained.",
        drained="Slinky (SO#79)",
    )  # fmt: skip
    unregistered_pod: Literal["keep", "delete"] = _switch(
        "keep", "A ready pod that Slurm does not know for a minute: report it, or delete it.",
        delete="Slinky syncSlurmNodes: state lost means every pod is replaced (X14, X51)",
    )  # fmt: skip
    # what is remembered between passes, and what a failed action does to the rest
    remember_deletes: bool = _switch(
        True, "A pod that was deleted counts as gone even while a stale cache still shows it.",
        false="Slinky 1.2.1: the next pass treats it as alive (SO#249, X24)",
    )  # fmt: skip
    unseen_creation: Literal["again", "wait"] = _switch(
        "again", "A pod that was asked for and is not seen: ask again (names are fixed), or wait for it.",
        wait="creation expectations of Slinky to 1.2.1 (SO#249, pull 250)",
    )  # fmt: skip
    failed_action: Literal["go-on", "stop"] = _switch(
        "go-on", "An action that fails ends the pass, or only itself.", stop="Slinky (SO#249), Soperator (NS#658)",
    )  # fmt: skip
    update_budget: Literal["unavailable", "chosen-only"] = _switch(
        "unavailable", "What max_unavailable bounds: all pods out of service, or those chosen in one pass.",
        chosen_only="Slinky before 1.2.1: a bad image drains the whole set (SO#229, X38)",
    )  # fmt: skip
    scale_in_sync: Literal["joined", "separate"] = _switch(
        "joined", "One decision about each drain, or a cordon sync that undoes the drains of scale-in.",
        separate="Slinky 1.1.0 and 1.1.1: drain and undrain alternate (X36)",
    )  # fmt: skip
    # node states, both ways
    sync: Literal["none", "kube-to-slurm", "both"] = _switch(
        "kube-to-slurm", "Which cordons and drains are carried over.",
        none="GKE (GK)", kube_to_slurm="Slinky (SO)", both="SUNK's Syncer (SU), Soperator's conditions (NS)",
    )  # fmt: skip
    foreign_drain: Literal["keep", "undo"] = _switch(
        "keep", "A drain that somebody else set.", undo="Slinky 0.1 to 0.2.0 (SO#3, X45)",
    )  # fmt: skip
    down_return: Literal["own", "moved", "never"] = _switch(
        "own", "Which DOWN nodes are resumed when their pod is ready: those with a reason of ours, only after a move "
        "to another Kubernetes node, or none.",
        moved="Slinky: a Comment that names another one (SO; X47 seen on a cluster)",
        never="GKE: ReturnToService decides (GK)",
    )  # fmt: skip
    prestop: Literal["none", "down", "down-delete"] = _switch(
        "down", "What slurmd's preStop hook does to its Slurm node.",
        none="GKE, Soperator", down="Slinky since v1.2 (SO e18ad73f)", down_delete="Slinky to v1.1 (S0 5a)",
    )  # fmt: skip
    prune: Literal["never", "gone", "node-not-found"] = _switch(
        "gone", "Which Slurm node records without a pod are deleted.",
        never="Slinky's default, Soperator (ghost nodes, X48)", node_not_found="Slinky pruneSlurmNodeRecords (SO#173)",
    )  # fmt: skip
    pdb: Literal["until-drained", "busy", "none"] = _switch(
        "until-drained", "Which pods a PodDisruptionBudget of 0 protects from eviction.",
        busy="Slinky workloadDisruptionProtection (SO)", none="GKE, Soperator before NS#2962 (X43)",
    )  # fmt: skip
    # sharing machines, health, machines that go away
    lock: Literal["none", "taint"] = _switch(
        "none", "Slurm's prolog locks the machine: other pods are evicted by a NoExecute taint before the job starts.",
        taint="SUNK's node lock (SU, X76)",
    )  # fmt: skip
    health: Literal["none", "drain", "replace"] = _switch(
        "drain", "What a bad node condition does: nothing, drain, or drain and then delete the machine.",
        none="Slinky, GKE", drain="SUNK fleet checks (SU)", replace="Soperator's rebooter (NS, X68, X69)",
    )  # fmt: skip
    health_conditions: tuple[str, ...] = _switch(
        ("HardwareIssuesSuspected", "K8SNodeDegraded", "K8SNodeMaintenance"), "Node conditions that count as bad.",
        any="Soperator's names (NS)",
    )  # fmt: skip
    lost_node_after_s: Annotated[int, Field(ge=0, le=86_400)] = _switch(
        0, "Delete a Kubernetes node that is NotReady so long, in seconds; 0: never.", **{"900": "Soperator (NS)"},
    )  # fmt: skip
    # pods and jobs between schedulers
    pod_jobs: Literal["none", "external", "placeholder"] = _switch(
        "none", "Whether Slurm schedules pods, by one external job per group or one placeholder job per pod.",
        external="slurm-bridge (SB)", placeholder="SUNK's pod scheduler (SU)",
    )  # fmt: skip
    dispatch: Literal["none", "all-at-once", "incremental"] = _switch(
        "none", "How a workload is offered to several clusters.",
        all_at_once="MultiKueue AllAtOnce (KQ)", incremental="MultiKueue Incremental, 3 clusters per 5 min (KQ)",
    )  # fmt: skip
    worker_lost_after_s: Annotated[int, Field(ge=1, le=86_400)] = _switch(
        900, "Seconds until a silent cluster's workload is requeued elsewhere.", **{"900": "MultiKueue (KQ, X83)"},
    )  # fmt: skip


SAFEST: Final = Switches()
"""What a user gets who names no design."""
