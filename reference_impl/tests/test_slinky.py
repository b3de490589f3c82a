"""The switches of `slinky` do what the real slurm-operator f2ed3fc5 did on a cluster (one run each, 21 Nov 2026)."""

from __future__ import annotations

from pathlib import Path

from slurmtwin.contract.events import Kind
from slurmtwin_operator.core.observed import TERMINATING
from slurmtwin_operator.designs import find_design
from slurmtwin_operator.testing.kube import FakeKube
from slurmtwin_operator.testing.scenarios import Step, Story, cordon, job, play, rest, scale
from slurmtwin_operator.testing.slurm import SECOND

SLINKY = find_design("slinky", Path(__file__).parent.parent.parent / "scenarios/designs")
TWO: Step = (0, scale(2))


def run(*steps: Step, end_s: int = 400) -> FakeKube:
    """A story under the slinky design, with its ReturnToService."""
    kube, _ = play(Story("slinky", ((0, _no_return), *steps), end_s, machines=2), SLINKY.switches)
    return kube


def _no_return(kube: FakeKube) -> None:
    kube.slurm.return_to_service = int(SLINKY.slurm_conf["ReturnToService"])


def test_same_machine_stays_down() -> None:
    """X47: a pod replaced on the same machine leaves its Slurm node DOWN with the preStop's reason, for ever."""
    node = run(TWO, (60, lambda k: k.delete_pod("w-0"))).slurm.nodes["w-0"]
    assert (node.down, node.drained, node.reason, node.comment) == (True, False, TERMINATING, "k0")


def test_other_machine_comes_back() -> None:
    """X47: a pod replaced on another machine is resumed, because its comment names the old one."""
    node = run(TWO, (50, cordon("k0")), (60, lambda k: k.delete_pod("w-0")), (90, cordon("k0", False))).slurm.nodes[
        "w-0"
    ]
    assert (node.down, node.drained, node.comment) == (False, False, "k1")


def test_scale_in_takes_the_higher_ordinal_within_seconds() -> None:
    """X32: both idle: DRAIN within 3 s, the pod gone within 6 s; the victim is the higher ordinal."""
    kube = run(TWO, (60, scale(1)))
    drained = next(e for e in kube.events if e.kind is Kind.NODE_DRAINED)
    gone = next(e for e in kube.events if e.kind is Kind.POD_DELETED)
    assert drained.node == "w-1"
    assert drained.t_ns - 60 * SECOND <= 3 * SECOND
    assert gone.t_ns - 60 * SECOND <= 8 * SECOND
    assert sorted(kube.pods) == ["w-0"]


def test_a_ghost_stays() -> None:
    """X48: after the scale-in the record stays, drained, DOWN and in time not responding."""
    node = run(TWO, (60, scale(1))).slurm.nodes["w-1"]
    assert (node.drained, node.silent) == (True, True)


def test_scale_out_again_gains_nothing() -> None:
    """X35, X47, X48: the pod comes back under its old name, undrained, and stays DOWN: no capacity gained."""
    kube = run(TWO, (60, scale(1)), (120, scale(2)))
    node = kube.slurm.nodes["w-1"]
    assert kube.pods["w-1"].ready
    assert (node.drained, node.down) == (False, True)


def test_no_rest_api_fails_open() -> None:
    """X20: RestApi deleted, then scale-in with a job on each worker: one busy worker is deleted, its job requeued."""
    kube = run(TWO, (30, job(1, 300, 1)), (31, job(2, 300, 1)), (60, rest("absent")), (70, scale(1)))
    assert sorted(kube.pods) == ["w-0"]
    requeued = [e for e in kube.events if e.kind is Kind.JOB_REQUEUED]
    assert [(e.job_id, e.t_ns - 70 * SECOND <= 6 * SECOND) for e in requeued] == [(2, True)]
    starts = [e.t_ns for e in kube.events if e.kind is Kind.JOB_STARTED and e.job_id == 2]
    assert starts[1] - requeued[0].t_ns >= 121 * SECOND
