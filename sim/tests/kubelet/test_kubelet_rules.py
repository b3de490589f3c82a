"""Rules of the kubelet by hand: back-off, probes, OOM choice, eviction, heartbeats (kubernetes.md 2 to 4)."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.contract.clock import DAY, MS, SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.quantity import MIB
from slurmtwin.models.api_server.objects import Probe
from slurmtwin.models.kubelet.back_off import BackOff, wake_range_ns
from slurmtwin.models.kubelet.container_memory import (
    ContainerCgroup,
    PodCgroup,
    Process,
    node_oom,
    settle,
    victim,
)
from slurmtwin.models.kubelet.defaults import EVICTION_HARD, kubelet_defaults
from slurmtwin.models.kubelet.eviction import EvictionState, Observation, PodUse, Threshold, rank, read_thresholds
from slurmtwin.models.kubelet.heartbeat import FAR_PERIODS, Rhythm
from slurmtwin.models.kubelet.probes import Probed, ProbeWorker, Step
from slurmtwin.models.kubelet.quality_of_service import Amounts, oom_score_adj, qos_class

GIB = 1024 * MIB


# back-off


def crash_loop() -> BackOff:
    """The kubelet's own: 10 s, doubling to 300 s, reset after 600 s."""
    return BackOff(10 * SECOND, 300 * SECOND, 600 * SECOND)


def test_restarts_wait_0_10_20_40_80_160_300_300_seconds() -> None:
    """A container that dies at once, started as soon as it may: kubernetes.md 2.10."""
    back_off, now_ns, waits = crash_loop(), 0, []
    for _ in range(8):
        rest_ns = back_off.rest_ns("c", now_ns, now_ns)
        waits.append(rest_ns // SECOND)
        back_off.advance("c", now_ns, now_ns + rest_ns)
        now_ns += rest_ns + SECOND
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]


@pytest.mark.parametrize(("ran_s", "wait_s"), [(600, 40), (601, 0)])
def test_a_container_that_ran_longer_than_600_s_begins_anew(ran_s: int, wait_s: int) -> None:
    """The 600 s count from the last start that was allowed (kubernetes.md 2.11)."""
    back_off = crash_loop()
    for at_s in (0, 10, 30):
        back_off.advance("c", at_s * SECOND, at_s * SECOND)
    end_ns = (30 + ran_s) * SECOND
    assert back_off.rest_ns("c", end_ns, end_ns) == wait_s * SECOND


def test_housekeeping_forgets_a_delay_that_somebody_waits_for() -> None:
    """GC() looks at the last start alone: a crash 590 s after it waits 10 s instead of 300 s."""
    back_off = crash_loop()
    back_off.advance("c", 0, 0)
    for _ in range(6):
        back_off.advance("c", 0, 0)
    end_ns = 590 * SECOND
    assert back_off.rest_ns("c", end_ns, end_ns) == 300 * SECOND
    back_off.collect(601 * SECOND)
    assert back_off.rest_ns("c", end_ns, 601 * SECOND) == 0


@pytest.mark.parametrize(
    ("version", "rest_s", "low_s", "high_s"),
    [("1.34", 3, 10, 15), ("1.34", 300, 10, 15), ("1.35", 3, 3, 4.5), ("1.36", 300, 60, 90)],
)
def test_a_pod_that_waits_is_looked_at_again(version: str, rest_s: int, low_s: float, high_s: float) -> None:
    """Every 10 to 15 s up to 1.34; since 1.35 by what is left, 60 s at most (kubernetes.md 2.12)."""
    defaults = kubelet_defaults(version)
    found = wake_range_ns(rest_s * SECOND, defaults.exact_wake, defaults.error_retry_ns)
    assert found == (low_s * SECOND, high_s * SECOND)


def test_an_unknown_kubelet_is_refused() -> None:
    """Before 1.28 the facts were not read."""
    with pytest.raises(InputError, match=r"1\.27"):
        kubelet_defaults("1.27")


# probes


def ticks(worker: ProbeWorker, answers: str, container: str = "a", first_s: int = 0) -> list[bool | None]:
    """Results after each tick; `+` and `-` are answers, one each period."""
    results = []
    for number, answer in enumerate(answers):
        seen = Probed(container, first_s * SECOND, started=worker.kind != "startup")
        if worker.next_step((first_s + number) * worker.spec.period_ns, seen) is Step.ASK:
            worker.answered(answer == "+")
        results.append(worker.result)
    return results


@pytest.mark.parametrize(
    ("kind", "answers", "results"),
    [
        ("liveness", "+--+---", [True, True, True, True, True, True, False]),
        ("readiness", "-+--+---", [False, True, True, True, True, True, True, False]),
        ("startup", "--+", [None, None, True]),
        ("startup", "---", [None, None, False]),
    ],
)
def test_three_failures_in_a_row_fail_and_one_success_heals(
    kind: str, answers: str, results: list[bool | None]
) -> None:
    """Defaults of v1.34: failureThreshold 3, successThreshold 1 (kubernetes.md 3.1)."""
    assert ticks(ProbeWorker(kind, Probe()), answers) == results  # type: ignore[arg-type]


def test_a_failed_liveness_probe_holds_until_there_is_a_new_container() -> None:
    """worker.go onHold: no probe of a container that is being killed; the new one begins healthy."""
    worker = ProbeWorker("liveness", Probe(failures=1))
    assert ticks(worker, "-+") == [False, False]
    assert ticks(worker, "+", container="b") == [True]


def test_failures_before_a_restart_count_after_it() -> None:
    """resultRun is the worker's, not the container's: two failures of the old one and one of the new one kill it."""
    worker = ProbeWorker("liveness", Probe(failures=3))
    ticks(worker, "--")
    assert ticks(worker, "-", container="b") == [False]


def test_no_liveness_probe_while_the_container_starts_or_the_pod_goes() -> None:
    """The startup probe gates the others; a deletion stops liveness and startup, not readiness (kubernetes.md 3.2)."""
    starting = Probed("a", 0, started=False)
    going = Probed("a", 0, started=True, pod_deleting=True)
    assert ProbeWorker("liveness", Probe()).next_step(0, starting) is Step.SKIP
    assert ProbeWorker("startup", Probe()).next_step(0, starting) is Step.ASK
    assert ProbeWorker("liveness", Probe()).next_step(0, going) is Step.STOP
    assert ProbeWorker("readiness", Probe()).next_step(0, going) is Step.ASK


# OOM


def job_pod(slurmd_adj: int, job: int, pages: int = 0) -> PodCgroup:
    """A pod of 256 MiB with slurmd (4 MiB, main process) and a job's process."""
    container = ContainerCgroup("slurmd", 256 * MIB, volume_pages=pages)
    container.processes = [Process("slurmd", 4 * MIB, slurmd_adj, main=True), Process("job", job, 0)]
    return PodCgroup({"slurmd": container})


def test_a_guaranteed_pod_loses_the_job_and_keeps_slurmd() -> None:
    """oom_score_adj -997 on slurmd, 0 on tasks; recorded in x63-oom-process."""
    pod = job_pod(-997, 300 * MIB)
    [kill] = settle(pod, 1)
    assert [p.owner for p in kill.killed] == ["job"]
    assert not kill.whole


def test_a_burstable_pod_loses_slurmd_to_a_job_that_is_sixty_times_larger() -> None:
    """oom_score_adj 990 of 256 MiB outweighs 252 MiB (docs/surprises.md, X63)."""
    pod = job_pod(990, 252 * MIB + 1)
    [kill] = settle(pod, 1)
    assert [p.owner for p in kill.killed] == ["slurmd"]
    assert kill.whole


def test_cgroup_v2_kills_the_whole_container_and_v1_one_process() -> None:
    """memory.oom.group since 1.28 (kubernetes.md 2.1, 2.2)."""
    [group] = settle(job_pod(-997, 300 * MIB), 2)
    assert (len(group.killed), group.whole) == (2, True)
    [single] = settle(job_pod(-997, 300 * MIB), 2, single_process=True)
    assert (len(single.killed), single.whole) == (1, False)


def test_a_full_volume_kills_container_after_container() -> None:
    """Pages of a memory-backed volume belong to no process and outlive the container (recorded in x63-oom-slurmd)."""
    pod = job_pod(990, MIB, pages=254 * MIB)
    assert settle(pod, 1)[0].whole
    assert (pod.orphan_pages, pod.used) == (254 * MIB, 254 * MIB)
    pod.containers["slurmd"] = ContainerCgroup("slurmd", 256 * MIB)
    pod.containers["slurmd"].processes = [Process("slurmd", 4 * MIB, 990, main=True)]
    assert settle(pod, 1)[0].whole


def test_unkillable_processes_leave_the_limit_broken() -> None:
    """slurmstepd has -1000 where it may set it (slurm.md 7): nobody is left to kill."""
    container = ContainerCgroup("c", 10, processes=[Process("stepd", 20, -1000)])
    assert settle(PodCgroup({"c": container}), 1) == []


def test_a_node_that_runs_out_takes_a_best_effort_pod_before_a_larger_one() -> None:
    """1000 thousandths of the node's memory are more than anybody has."""
    small = ContainerCgroup("best-effort", processes=[Process("a", 10 * MIB, 1000)])
    large = ContainerCgroup("guaranteed", processes=[Process("b", 8 * GIB, -997)])
    pods = [PodCgroup({"guaranteed": large}), PodCgroup({"best-effort": small})]
    found = node_oom(pods, 8 * GIB)
    assert found is not None
    assert (found[0], found[1].container) == (pods[1], "best-effort")
    assert node_oom(pods, 9 * GIB) is None


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(-999, 1000)), min_size=1), st.integers(1, 10**6))
def test_the_victim_has_the_largest_sum_of_memory_and_adjustment(found: list[tuple[int, int]], limit: int) -> None:
    """oom_badness() over all processes."""
    processes = [Process(str(n), memory, adj) for n, (memory, adj) in enumerate(found)]
    chosen = victim(processes, limit)
    assert chosen is not None
    assert chosen.memory + chosen.score_adj * limit // 1000 == max(m + a * limit // 1000 for m, a in found)


@pytest.mark.parametrize(
    ("amounts", "quality"),
    [
        ([Amounts()], "BestEffort"),
        ([Amounts(milli_cpu_limit=100, memory_limit=5)], "Guaranteed"),
        ([Amounts(memory_limit=5)], "Burstable"),
        ([Amounts(milli_cpu_limit=100, memory_limit=5), Amounts()], "Burstable"),
        ([Amounts(milli_cpu=50, milli_cpu_limit=100, memory_limit=5)], "Burstable"),
    ],
)
def test_quality_of_service(amounts: list[Amounts], quality: str) -> None:
    """A limit without a request is its request; Guaranteed needs both limits in every container."""
    assert qos_class(amounts) == quality


@pytest.mark.parametrize(
    ("quality", "asked", "adj"),
    [
        ("Guaranteed", 0, -997),
        ("BestEffort", 0, 1000),
        ("Burstable", 0, 999),
        ("Burstable", 80 * MIB, 991),
        ("Burstable", 4 * GIB, 500),
        ("Burstable", 8 * GIB, 3),
    ],
)
def test_oom_score_adj(quality: str, asked: int, adj: int) -> None:
    """1000 - 1000 request / node memory, within 3..999 (kubernetes.md 2.3), on a node of 8 GiB."""
    assert oom_score_adj(quality, asked, 8 * GIB) == adj  # type: ignore[arg-type]


# eviction


def test_any_threshold_of_ones_own_drops_all_defaults() -> None:
    """kubernetes.md 2.15: what kind's configuration does to memory.available; 0% is off."""
    assert read_thresholds({"nodefs.available": "0%"}, {}, {}, {}) == ()
    defaults = {t.signal for t in read_thresholds(EVICTION_HARD, {}, {}, {})}
    assert defaults == {*EVICTION_HARD, "allocatableMemory.available"}


def test_a_soft_threshold_without_a_grace_period_is_refused() -> None:
    """As the kubelet refuses to start."""
    with pytest.raises(InputError, match="evictionSoftGracePeriod"):
        read_thresholds({}, {"memory.available": "1Gi"}, {}, {})


def test_pods_over_their_request_go_first_then_lower_priority_then_the_largest_excess() -> None:
    """helpers.go rankMemoryPressure()."""
    pods = [
        PodUse(uid="inside", memory=900, asked_memory=1000),
        PodUse(uid="over-high", priority=10, memory=5000, asked_memory=10),
        PodUse(uid="over-low", memory=50, asked_memory=10),
        PodUse(uid="over-low-more", memory=90, asked_memory=10),
    ]
    assert [p.uid for p in rank(pods, "memory.available")] == ["over-low-more", "over-low", "over-high", "inside"]


def memory(available: int) -> dict[str, Observation]:
    """A node of 8 GiB with so much left."""
    return {"memory.available": Observation(available, 8 * GIB)}


def test_a_hard_threshold_takes_one_pod_a_pass_and_the_condition_stays_five_minutes() -> None:
    """kubernetes.md 2.16: grace 1 s, MemoryPressure for evictionPressureTransitionPeriod after it was last seen."""
    state = EvictionState(read_thresholds({"memory.available": "100Mi"}, {}, {}, {}), 300 * SECOND)
    pods = [PodUse(uid="a", memory=9, asked_memory=1), PodUse(uid="b", memory=8, asked_memory=1)]
    look = state.look(0, memory(99 * MIB), pods)
    assert [(e.uid, e.grace_ns) for e in look.evictions] == [("a", SECOND)]
    assert look.conditions == ("MemoryPressure",)
    assert state.look(10 * SECOND, memory(GIB), pods[1:]).evictions == ()
    assert state.look(299 * SECOND, memory(GIB), []).conditions == ("MemoryPressure",)
    assert state.look(300 * SECOND, memory(GIB), []).conditions == ()


def test_a_soft_threshold_waits_its_grace_and_starts_again_when_it_was_left() -> None:
    """thresholdsMetGracePeriod(): 30 s in one go; the pod then has min(evictionMaxPodGracePeriod, its own)."""
    soft = read_thresholds({}, {"memory.available": "1Gi"}, {"memory.available": "30s"}, {})
    state = EvictionState(soft, 300 * SECOND, most_grace_ns=20 * SECOND)
    pod = PodUse(uid="a", memory=9)
    seen = [(0, 100), (20, 2048), (30, 100), (50, 100), (60, 100)]
    took = [[e.grace_ns for e in state.look(s * SECOND, memory(m * MIB), [pod]).evictions] for s, m in seen]
    assert took == [[], [], [], [], [20 * SECOND]]


def test_critical_pods_are_not_evicted_and_are_let_in() -> None:
    """Priority 2,000,000,000 and above."""
    state = EvictionState((Threshold("memory.available", GIB),), 300 * SECOND)
    assert state.look(0, memory(0), [PodUse(uid="a", priority=2 * 10**9)]).evictions == ()
    assert state.admits("BestEffort", 2 * 10**9)
    assert not state.admits("BestEffort", 0)
    assert state.admits("Burstable", 0)


def test_disk_pressure_lets_nobody_in_and_is_met_by_removing_images_first() -> None:
    """reclaimNodeLevelResources(): no pod goes when unused images are enough."""
    state = EvictionState(read_thresholds({"nodefs.available": "10%"}, {}, {}, {}), 300 * SECOND)
    full, after = ({"nodefs.available": Observation(n, 100)} for n in (5, 15))
    pods = [PodUse(uid="a", disk=9)]
    assert state.look(0, full, pods, reclaimed=after).evictions == ()
    assert not state.admits("Guaranteed", 0)
    assert state.look(10 * SECOND, full, pods, reclaimed=full).evictions[0].uid == "a"


def test_every_pod_over_a_limit_of_its_own_goes_at_once() -> None:
    """localStorageEviction(): emptyDir sizeLimit and ephemeral-storage limits, without any pressure."""
    state = EvictionState((), 300 * SECOND)
    pods = [PodUse(uid=uid, over_local_limit=True) for uid in "ab"]
    assert [e.uid for e in state.look(0, {}, pods).evictions] == ["a", "b"]


# heartbeats


def test_renewals_follow_each_other_by_10_to_10_4_s_however_far_one_looks() -> None:
    """kubernetes.md 4.1, for near times one by one, for far ones from a phase of their own."""
    draw = Random(1)
    rhythm = Rhythm(0, lambda: draw.randrange(10 * SECOND, 10_400 * MS), lambda: draw.randrange(10 * SECOND))
    near = [rhythm.last_before(s * SECOND) for s in range(0, 600, 3)]
    gaps = {b - a for a, b in pairwise(sorted(set(near)))}
    assert all(10 * SECOND <= gap <= 10_400 * MS for gap in gaps)
    far_ns = 30 * DAY
    assert far_ns // (10 * SECOND) > FAR_PERIODS
    assert far_ns - 10_400 * MS <= rhythm.last_before(far_ns) <= far_ns < rhythm.next_after(far_ns)
