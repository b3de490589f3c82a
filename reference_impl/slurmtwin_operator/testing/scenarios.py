"""The core's test set: short stories of one node set, each from an empty cluster to rest."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from slurmtwin.contract.events import Kind
from slurmtwin_operator.core.spec import NodeSetSpec
from slurmtwin_operator.core.switches import SAFEST, Switches
from slurmtwin_operator.testing.carrier import Carrier, World
from slurmtwin_operator.testing.kube import FakeKube
from slurmtwin_operator.testing.node_sets import NodeSets
from slurmtwin_operator.testing.slurm import SECOND, Job, RefusedError

SET: Final = "w"
Step = tuple[int, Callable[[FakeKube], None]]
"""(seconds, what happens)."""


@dataclass(frozen=True, slots=True)
class Story:
    """A named scenario of the core's test set."""

    name: str
    steps: tuple[tuple[int, Callable[[Any], None]], ...]
    end_s: int = 1500
    switches: Switches = SAFEST
    machines: int = 4
    kind: str = "NodeSet"
    build: Callable[[Story, Switches], tuple[World, Any]] = lambda story, switches: node_sets(story, switches)
    """The world, and what its steps act on."""


def node_sets(story: Story, switches: Switches) -> tuple[NodeSets, FakeKube]:
    """A cluster without node sets, and its API server."""
    kube = FakeKube()
    kube.slurm.lock_first = switches.lock == "taint"
    kube.add_machines(story.machines)
    return NodeSets(kube, switches), kube


def spec(replicas: int = 3, image: str = "slurmd:1", **more: Any) -> NodeSetSpec:
    """A node set of plain settings; max_unavailable 1 unless said."""
    more.setdefault("update", {"max_unavailable": "1"})
    return NodeSetSpec(cluster="c", replicas=replicas, image=image, **more)


def scale(replicas: int, image: str = "slurmd:1", **more: Any) -> Callable[[FakeKube], None]:
    """kubectl scale, or a change of the template."""
    return lambda kube: kube.set_node_set(SET, spec(replicas, image, **more))


def job(number: int, run_s: int, nodes: int = 1, partition: str = "") -> Callable[[FakeKube], None]:
    """sbatch."""
    return lambda kube: kube.slurm.submit(Job(number, nodes, run_s * SECOND, partition))


def cordon(machine: str, on: bool = True) -> Callable[[FakeKube], None]:
    """kubectl cordon or uncordon."""
    return lambda kube: kube.change_machine(machine, unschedulable=on)


def admin_drain(node: str) -> Callable[[FakeKube], None]:
    """scontrol update state=drain by a person."""
    return lambda kube: kube.slurm.drain(node, "bad disk", "admin")


def admin_resume(node: str) -> Callable[[FakeKube], None]:
    """scontrol update state=resume by a person."""
    return lambda kube: kube.slurm.resume(node, "admin")


def rest(state: str) -> Callable[[FakeKube], None]:
    """slurmrestd goes away, comes back, hangs, or its object is deleted."""

    def step(kube: FakeKube) -> None:
        kube.fault(f"rest.{state}")
        kube.slurm.rest = state

    return step


def faulty(kind: str, step: Callable[[FakeKube], None]) -> Callable[[FakeKube], None]:
    """A step that is a fault and is noted as one."""

    def both(kube: FakeKube) -> None:
        kube.fault(kind)
        step(kube)

    return both


def bad_image(kube: FakeKube) -> None:
    """The image slurmd:bad cannot be pulled."""
    kube.bad_images.add("slurmd:bad")


def blink(kube: FakeKube) -> None:
    """slurmctld starts anew: for half a minute no node responds, as far as it knows."""
    kube.fault("slurmctld.restart")
    for record in kube.slurm.nodes.values():
        record.silent = True
        kube.note(Kind.NODE_NOT_RESPONDING, "slurmctld", node=record.name)

    def answer() -> None:
        for record in kube.slurm.nodes.values():
            if not record.dead:
                record.silent = False
                kube.note(Kind.NODE_RESPONDING, "slurmctld", node=record.name)
        kube.slurm.schedule()

    kube.after(30 * SECOND, answer)


START: Final[Step] = (0, scale(3))
STORIES: Final = (
    Story("create", (START,)),
    Story("scale-in-idle", (START, (60, scale(1))), 400),
    Story("scale-in-busy", (START, (30, job(1, 200)), (31, job(2, 400)), (32, job(3, 90)), (60, scale(1)))),
    Story("scale-in-cancelled", (START, (30, job(1, 500, 3)), (60, scale(1)), (120, scale(3))), 900),
    Story("scale-out-in-out", ((0, scale(1)), (30, scale(4)), (60, job(1, 50, 4)), (90, scale(0)), (200, scale(2)))),
    Story("update", (START, (30, job(1, 200)), (60, scale(3, "slurmd:2")), (70, job(2, 100)))),
    Story("update-bad-image", (START, (30, bad_image), (60, scale(3, "slurmd:bad")), (400, scale(3, "slurmd:3"))),
          1200),
    Story("update-with-jobs", (START, (30, job(1, 150, 2)), (60, scale(4, "slurmd:2")), (100, job(2, 60)),
                               (300, job(3, 100)))),
    Story("update-while-silent", (START, (30, job(1, 300)), (60, blink), (65, scale(3, "slurmd:2")),
                                  (110, blink)), 1500),
    Story("on-delete", (START, (60, scale(3, "slurmd:2", update={"type": "on-delete"})),
                        (90, lambda k: k.delete_pod("w-1"))), 500),
    Story("scheduled", (START, (30, job(1, 300)), (60, scale(3, "slurmd:2", update={
        "type": "scheduled", "start_s": 200, "duration_s": 600}))), 1800),
    Story("cordon", (START, (30, job(1, 100)), (60, cordon("k0")), (300, cordon("k0", False))), 900),
    Story("kubectl-drain", (START, (30, job(1, 200)), (60, lambda k: k.drain_machine("k0")),
                            (400, cordon("k0", False))), 900),
    Story("admin-drain", (START, (40, admin_drain("w-1")), (60, scale(2)), (200, scale(3)), (400, admin_resume("w-1"))),
          900),
    Story("rest-away", (START, (40, rest("down")), (50, scale(1)), (110, rest("up"))), 600),
    Story("rest-away-dead-pod", (START, (40, rest("down")), (50, faulty("pod.fail", lambda k: k.fail_pod("w-0"))),
                                 (200, rest("up"))), 900),
    Story("pod-deleted", (START, (30, job(1, 300)), (60, faulty("pod.delete", lambda k: k.delete_pod("w-0"))))),
    Story("pod-forced", (START, (30, job(1, 300)), (60, faulty("pod.delete", lambda k: k.delete_pod(
        "w-0", force=True))))),
    Story("machine-lost", (START, (30, job(1, 100)),
                           (60, faulty("node.lost", lambda k: k.change_machine("k0", "kubelet", ready=False))),
                           (700, lambda k: k.change_machine("k0", "kubelet", ready=True))), 1800),
    Story("health", (START, (30, job(1, 100)),
                     (60, faulty("node.bad", lambda k: k.change_machine("k0", conditions={"K8SNodeDegraded"}))),
                     (400, lambda k: k.change_machine("k0", conditions=set()))), 900),
    Story("delete-busy", (START, (30, job(1, 200)), (60, lambda k: k.delete_node_set("w"))), 800),
    Story("per-node", ((0, scale(1, scaling="per-node")), (40, lambda k: k.add_machines(2)), (60, cordon("k1")),
                       (90, scale(1, "slurmd:2", scaling="per-node")), (200, cordon("k1", False))), 900),
    Story("both-ways", (START, (40, admin_drain("w-1")), (200, admin_resume("w-1"))), 500,
          Switches(sync="both")),
    Story("lock", (START, (20, lambda k: k.change_machine("k0", foreign_pods=2)), (40, job(1, 100))), 500,
          Switches(lock="taint")),
    Story("replace", (START, (30, job(1, 100)),
                      (60, faulty("node.bad", lambda k: k.change_machine("k0", conditions={"K8SNodeDegraded"})))), 900,
          Switches(health="replace", lost_node_after_s=900)),
    Story("moved", (START, (40, cordon("k0")), (60, faulty("pod.delete", lambda k: k.delete_pod("w-0"))),
                    (200, cordon("k0", False))), 900, Switches(down_return="moved")),
    Story("power", (START, (30, lambda k: k.set_power("w", ("1", "4"))), (90, job(1, 60, 2)),
                    (200, lambda k: k.set_power("w", ("4",)))), 900, Switches(scale_source="power")),
)  # fmt: skip
"""All stories. Each ends at rest: its last steps leave nothing broken."""


def play(story: Story, switches: Switches | None = None, **carrier: Any) -> tuple[FakeKube, Carrier]:
    """Run a story with its switches, or with others."""
    world, stage = story.build(story, story.switches if switches is None else switches)
    operator = Carrier(world, **carrier)
    for at_s, step in story.steps:
        world.kube.after(at_s * SECOND, partial(_try, step, stage))
    world.kube.run(story.end_s * SECOND)
    world.kube.note(Kind.RUN_ENDED, "world", why="done")
    return world.kube, operator


def _try(step: Callable[[Any], None], stage: Any) -> None:
    """A command that is refused is a message for the person who gave it."""
    with suppress(RefusedError):
        step(stage)
