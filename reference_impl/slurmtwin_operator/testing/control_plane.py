"""A Cluster against doubles: what its pass makes of slurm.conf, and what slurmctld makes of that.

slurmctld stops at a start when a job record names a partition that slurm.conf lacks (SO#138), and restarts when the
template of its pod changes; in place it reads files that the kubelet has brought, when told to.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from slurmtwin.contract.events import Kind
from slurmtwin_operator.core import actions as a
from slurmtwin_operator.core import plan as own_plan
from slurmtwin_operator.core.manifests import short_hash
from slurmtwin_operator.core.observed import (
    Applied,
    ClusterObserved,
    Controller,
    Identity,
    NodeSetFact,
    Policy,
    Slurm,
    SlurmJob,
)  # fmt: skip
from slurmtwin_operator.core.spec import ClusterSpec
from slurmtwin_operator.testing.kube import FakeKube
from slurmtwin_operator.testing.slurm import SECOND

PASS_NS: Final = 30 * SECOND
KUBELET_NS: Final = 60 * SECOND


@dataclass(slots=True)
class ControlPlane:
    """One Cluster and its carrier."""

    kube: FakeKube
    spec: ClusterSpec
    name: str = "c"
    core: Callable[[Any, a.Memory, int], a.Plan] = own_plan
    policy: Policy = field(default_factory=Policy)
    node_sets: tuple[NodeSetFact, ...] = ()
    jobs: tuple[SlurmJob, ...] = ()
    controllers: tuple[Controller, ...] = ()
    primary: str = ""
    shuffle_seed: int = -1
    """List node sets and options in another order at each pass; -1: always the same."""
    running: bool = False
    restarts: int = 0
    crashes: int = 0
    deleting: bool = False
    finalizer: bool = False
    memory: a.Memory = field(default_factory=a.Memory)
    plans: list[a.Plan] = field(default_factory=list)
    mounted: str = ""
    loaded: str = ""
    partitions: tuple[str, ...] = ()
    reconfigured: int = 0
    _template: str = ""

    def __post_init__(self) -> None:
        self._pass()

    def observe(self) -> ClusterObserved:
        """What a pass may know now."""
        facts, spec = self.node_sets, self.spec
        if self.shuffle_seed >= 0:
            draw = random.Random(self.shuffle_seed + len(self.plans))  # noqa: S311  a test's choice
            facts = tuple(draw.sample(facts, len(facts)))
            conf = dict(draw.sample(sorted(spec.conf.items()), len(spec.conf)))
            spec = spec.model_copy(update={"conf": conf})
        me = Identity("ns", self.name, "cluster-uid", deleting=self.deleting, finalizer=self.finalizer)
        slurm = Slurm("fresh" if self.running else "away", self.kube.now, (), self.jobs)
        applied = tuple(Applied(kind, name, digest) for (kind, name), (digest, _) in self.kube.objects.items())  # type: ignore[arg-type]
        return ClusterObserved(
            me, spec, self.policy, facts, slurm, self.partitions, applied, self.controllers, self.primary,
            self.mounted, self.loaded,
        )  # fmt: skip

    def _pass(self) -> None:
        plan = self.core(self.observe(), self.memory, self.kube.now)
        self.memory = plan.memory
        self.plans.append(plan)
        for action in plan.actions:
            self._perform(action)
            subject = str(getattr(action, "name", ""))
            self.kube.note(Kind.ACTION_ISSUED, "operator", node=subject, do=action.do, outcome="done")
        self._follow()
        self.kube.after(PASS_NS, self._pass)

    def _perform(self, action: a.Action) -> None:
        if isinstance(action, a.Apply):
            self.kube.objects[(action.kind, action.name)] = (action.hash, json.loads(action.manifest))
        elif isinstance(action, a.EnsureSecret):
            self.kube.objects[("Secret", action.name)] = ("", {})
        elif isinstance(action, a.DeleteObject):
            del self.kube.objects[(action.kind, action.name)]
        elif isinstance(action, a.SetFinalizer):
            self.finalizer = action.on
        elif isinstance(action, a.LabelPod):
            self.controllers = tuple(
                replace(c, active_label=action.value is not None) if c.uid == action.uid else c
                for c in self.controllers
            )
        elif isinstance(action, a.Reconfigure):
            self.reconfigured += 1
            self._load()

    def _conf(self) -> str:
        return str(self.kube.objects[("ConfigMap", f"{self.name}-conf")][1]["data"]["slurm.conf"])

    def _follow(self) -> None:
        """Kubernetes and slurmctld react to what was applied."""
        kinds = [key for key in self.kube.objects if key[1] == f"{self.name}-ctld" and key[0] != "Service"]
        if not kinds:
            return
        template = json.dumps(self.kube.objects[kinds[0]][1]["spec"]["template"], sort_keys=True)
        wanted = self._hash()
        if template != self._template:
            self._template, self.restarts = template, self.restarts + 1
            self.mounted = wanted
            self._start()
        elif self.mounted != wanted:
            self.kube.after(KUBELET_NS, self._mount)
        if not self.running:
            self._start()

    def _mount(self) -> None:
        self.mounted = self._hash()

    def _hash(self) -> str:
        return short_hash(self._conf())

    def _start(self) -> None:
        """slurmctld starts with the files that are mounted, and reads its job records."""
        self._load()
        known = set(self.partitions)
        if any(not known.intersection(job.partition.split(",")) for job in self.jobs):
            self.running, self.crashes = False, self.crashes + 1
            self.kube.note(Kind.SLURMCTLD_CRASHED, "slurmctld", node="c-ctld-0")
        else:
            self.running = True
            self.kube.note(Kind.SLURMCTLD_STARTED, "slurmctld", node="c-ctld-0")

    def _load(self) -> None:
        self.loaded = self.mounted
        self.partitions = tuple(re.findall(r"^PartitionName=(\S+)", self._conf(), re.MULTILINE))
