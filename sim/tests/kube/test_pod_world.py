"""Slurm in pods in the twin: the recorded scenarios run, and their milestones come in the recorded order."""

from __future__ import annotations

import inspect
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.errors import UnsupportedError
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.models.slurmctld.coarse_clock import CoarseClock
from slurmtwin.worlds import pod_assembly
from slurmtwin.worlds.pod_durations import OF_ENDS, OF_EVICTIONS, OF_PAIRS, ROUNDS_APART, still_durations
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, run_scenario

FAULTS = Path(__file__).parents[3] / "scenarios" / "faults"
FOLDERS = (FAULTS, FAULTS.parent / "operator")
SEVERAL = {path.stem for path in (FAULTS.parent / "clusters").glob("*.yaml")}
"""Scenarios of several clusters (test_several_clusters.py)."""
RECORDED = sorted({path.parent.parent.name for path in FAULTS.parent.glob("recordings/*/26.05/pods")} - SEVERAL)


def scenario(name: str) -> Scenario:
    return load_scenario(next(path for folder in FOLDERS if (path := folder / f"{name}.yaml").exists()))


def play(name: str, **options: Any) -> list[Event]:
    run = run_scenario(scenario(name), FAULTS, TwinOptions(keep=True, **options))
    assert run.kept is not None
    return run.kept


def first(rows: list[Event], kind: Kind, after_s: float = -100, **said: object) -> float:
    """Seconds of the first row of that kind whose detail holds those values."""
    import json

    for row in rows:
        detail = json.loads(row.detail) if row.detail else {}
        node = said.get("node", row.node)
        actor = said.get("actor", row.actor)
        rest = {k: v for k, v in said.items() if k not in ("node", "actor")}
        found = row.kind is kind and row.t_ns >= after_s * SECOND and row.node == node and row.actor == actor
        if found and rest.items() <= detail.items():
            return row.t_ns / SECOND
    raise AssertionError(f"no {kind.value} {said}")


@pytest.mark.parametrize("name", RECORDED)
def test_every_recorded_scenario_runs_in_the_twin(name: str) -> None:
    """Rows are in order of time, every cause lies before its effect."""
    rows = play(name)
    assert all(a.t_ns <= b.t_ns for a, b in pairwise(rows))
    assert all(row.cause_seq is None or row.cause_seq < place for place, row in enumerate(rows))
    assert {Kind.POD_READY, Kind.CONTAINER_STARTED, Kind.KUBE_NODE_READY, Kind.NODE_STATE} <= {r.kind for r in rows}


REFUSED = ["clock.jump"]


@pytest.mark.parametrize("kind", REFUSED)
def test_a_fault_that_is_not_modelled_is_refused_by_its_name(kind: str) -> None:
    """None is played without it."""
    document = scenario("x14-state-lost").model_dump(mode="json", by_alias=True)
    document["faults"] = [{"at": "20s", "kind": kind, "target": "slurmd:w-0", "lasts": "10s"}]
    with pytest.raises(UnsupportedError, match=kind):
        run_scenario(Scenario.model_validate(document), FAULTS, TwinOptions())


def test_a_slurmctld_whose_state_is_lost_knows_neither_jobs_nor_nodes() -> None:
    """X14: no dynamic node comes back by itself, the orphan runs on, and a job that names a node is refused."""
    rows = play("x14-state-lost")
    lost = first(rows, Kind.FAULT_INJECTED)
    assert [r.job_id for r in rows if r.kind is Kind.JOB_LOST] == [1]
    assert len([r for r in rows if r.kind is Kind.NODE_STATE and "GONE" in str(r.detail)]) == 4
    assert not [r for r in rows if r.kind is Kind.NODE_PINGED and r.t_ns > lost * SECOND]
    assert first(rows, Kind.JOB_REJECTED, lost, reason="Invalid node name specified") > lost


def test_a_slurmd_that_starts_anew_after_the_loss_is_known_again() -> None:
    """slurmd -Z registers when it starts: its node has a record again, in the partition of all nodes."""
    chosen = scenario("x14-state-lost")
    killed = {"at": "30s", "kind": "process.signal", "target": "slurmd:w-1", "signal": "KILL"}
    document = chosen.model_dump(mode="json", by_alias=True)
    document["faults"].append(killed)
    run = run_scenario(Scenario.model_validate(document), FAULTS, TwinOptions(keep=True))
    rows = run.kept or []
    assert [r.node for r in rows if r.kind is Kind.JOB_STARTED and r.job_id == 2] == ["w-1"]


def test_jobs_run_on_while_slurmdbd_stands_still_and_are_accounted_when_it_goes_on() -> None:
    """X15: slurmctld keeps the records in its queue."""
    rows = play("x15-slurmdbd-away")
    stopped, cleared = first(rows, Kind.FAULT_INJECTED), first(rows, Kind.FAULT_CLEARED)
    told = [r for r in rows if r.kind is Kind.JOB_ACCOUNTED]
    assert stopped < first(rows, Kind.JOB_ENDED, stopped, state="COMPLETED") < cleared
    assert not [r for r in told if stopped * SECOND < r.t_ns < cleared * SECOND]
    assert {r.job_id for r in told if r.t_ns == cleared * SECOND} == {1, 2}


def test_a_changed_slurm_conf_is_taken_after_the_kubelets_sync() -> None:
    """X11: within 90 s and the 5 s of the container's own look; the new partition has nodes then, no job is lost."""
    rows = play("x11-nodeset-added")
    changed = first(rows, Kind.FAULT_INJECTED)
    brought = first(rows, Kind.FAULT_PROVEN, changed)
    assert 0 < brought - changed < 90
    assert 0 < first(rows, Kind.SLURMCTLD_STARTED, changed) - brought < 6
    assert [r.job_id for r in rows if r.kind is Kind.JOB_STARTED] == [1, 2]
    assert not [r for r in rows if r.kind in (Kind.JOB_LOST, Kind.JOB_REQUEUED)]


def test_without_a_poll_a_new_pod_alone_has_the_new_slurm_conf() -> None:
    """X10: the pod that was deleted comes back with it, without waiting for the kubelet's sync."""
    chosen = scenario("x10-config-new-pod")
    lines = ["PartitionName=late Nodes=ALL State=UP"]
    document = chosen.model_dump(mode="json", by_alias=True)
    document["faults"] = [{"at": "15s", "kind": "config.change", "lines": lines}, document["faults"][1]]
    document["workload"]["jobs"] = [{"id": 2, "submit": "60s", "run": "5s", "time": "10", "partition": "late"}]
    for faults, kind in ((document["faults"], Kind.JOB_STARTED), (document["faults"][:1], Kind.JOB_REJECTED)):
        run = run_scenario(Scenario.model_validate(document | {"faults": faults}), FAULTS, TwinOptions(keep=True))
        assert [
            r.kind for r in run.kept or [] if r.job_id == 2 and r.kind in (Kind.JOB_STARTED, Kind.JOB_REJECTED)
        ] == [kind]


def test_a_killed_slurmctld_is_back_within_two_seconds_and_loses_no_job() -> None:
    """X1: the kubelet finds it at its next look, the first restart has no back-off."""
    rows = play("x1-controller-crash")
    injected = first(rows, Kind.FAULT_INJECTED)
    assert first(rows, Kind.CONTAINER_STARTED, injected, app="slurmctld") - injected < 2
    assert not [r for r in rows if r.kind is Kind.JOB_REQUEUED]


def test_a_silent_host_holds_a_statefulset_and_moves_a_deployment() -> None:
    """X3: only the Deployment's replacement serves before the thaw."""
    moved = play("x3-controller-host-deployment")
    injected, cleared = first(moved, Kind.FAULT_INJECTED), first(moved, Kind.FAULT_CLEARED)
    assert first(moved, Kind.POD_CREATED, injected, app="slurmctld") < cleared
    assert first(moved, Kind.SLURMCTLD_STARTED, injected) < cleared
    held = play("x3-controller-host-statefulset")
    injected, cleared = first(held, Kind.FAULT_INJECTED), first(held, Kind.FAULT_CLEARED)
    assert first(held, Kind.POD_DELETING, injected, app="slurmctld") < cleared
    assert first(held, Kind.POD_CREATED, injected, app="slurmctld") > cleared


@pytest.mark.parametrize("name", ["x3-controller-host-statefulset", "x63-oom-slurmd"])
def test_the_same_seed_gives_the_same_rows(name: str) -> None:
    """And another replication others."""
    once, again = (run_scenario(scenario(name), FAULTS, TwinOptions(seed=3)).event_hash for _ in range(2))
    other = run_scenario(scenario(name), FAULTS, TwinOptions(seed=3, replication=1)).event_hash
    assert once == again != other


@pytest.mark.parametrize(("factor", "low", "high"), [(0.5, 15, 31), (1.0, 40, 56), (2.0, 90, 106)])
def test_the_grace_of_silent_nodes_makes_the_span_that_rests_on_it(factor: float, low: float, high: float) -> None:
    """A verdict halves and doubles it: leases of 10 s and looks each 5 s stay as they are."""
    rows = play("x3-controller-host-statefulset", scaled={"node-monitor-grace-period": factor})
    injected = first(rows, Kind.FAULT_INJECTED)
    seen = [r.t_ns / SECOND for r in rows if r.kind is Kind.KUBE_NODE_UNREADY]
    spans = [at - injected for at in seen if at > injected]
    assert low <= min(spans) <= high


def test_rows_do_not_depend_on_the_hash_seed_of_python() -> None:
    """Sets of strings must not reach any order."""
    program = (
        "from slurmtwin.contract.scenario import load_scenario\n"
        "from slurmtwin.worlds.twin import TwinOptions, run_scenario\n"
        f"path = {str(FAULTS / 'x33-slinky.yaml')!r}\n"
        f"print(run_scenario(load_scenario(path), {str(FAULTS)!r}, TwinOptions(seed=3)).event_hash)\n"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        ).stdout
        for seed in ("0", "4242")
    }  # fmt: skip
    assert len(hashes) == 1


@pytest.mark.parametrize("tie_seed", [1, 2])
def test_simultaneous_events_in_another_order_change_no_conclusion(tie_seed: int) -> None:
    """X3: taint, deletion, and the replacement only after the thaw."""
    rows = play("x3-controller-host-statefulset", tie_seed=tie_seed)
    injected, cleared = first(rows, Kind.FAULT_INJECTED), first(rows, Kind.FAULT_CLEARED)
    unready = next(r.t_ns / SECOND for r in rows if r.kind is Kind.KUBE_NODE_UNREADY and r.t_ns > injected * SECOND)
    deleting = first(rows, Kind.POD_DELETING, injected, app="slurmctld")
    assert injected < unready < deleting < cleared < first(rows, Kind.POD_CREATED, injected, app="slurmctld")


@pytest.mark.parametrize("status_ms", [40, 160])
def test_a_pod_deleted_without_grace_is_replaced_when_the_status_of_its_set_is_written(status_ms: int) -> None:
    """Marked, gone 20 ms later, and made anew when the controller comes back from its write (quiet-replaced)."""
    durations = {"forced-removal": (20 * MS,), "set-status": (status_ms * MS,)}
    rows = play("x46-pod-force-deleted", durations=durations)
    at = next(row.t_ns for row in rows if row.kind is Kind.FAULT_INJECTED)
    told = {row.kind: (row.t_ns - at) / MS for row in reversed(rows) if row.t_ns >= at and row.actor != "apiserver"}
    assert 20 + 1 <= told[Kind.POD_DELETED] <= 20 + 8, "the collector hears of it 1 to 8 ms later"
    assert told[Kind.POD_DELETING] < told[Kind.POD_DELETED]
    made = first(rows, Kind.POD_CREATED, after_s=at / SECOND, actor="apiserver", node=None)
    assert status_ms <= made * 1000 - at / MS <= status_ms + 15, "its request is on its way 2 to 10 ms"


def test_the_second_pod_of_an_ordered_set_follows_the_first_before_time_zero() -> None:
    """Deployments lie before time zero, where times are negative: no status is held back there."""
    rows = [row for row in play("x9-takeover") if row.kind is Kind.POD_CREATED and row.actor == "apiserver"]
    made = {json.loads(row.detail or "{}")["pod"].rpartition("/")[2]: row.t_ns / SECOND for row in rows}
    assert made["slurmctld-0"] < made["slurmctld-1"] < made["slurmctld-0"] + 10 < 0


def marked_behind_a_drain(durations: Mapping[str, tuple[int, ...]]) -> list[int]:
    """Time of each pod's eviction behind the drain, ns."""
    rows = play("x43-drain-no-budget", durations=durations)
    at = next(row.t_ns for row in rows if row.kind is Kind.FAULT_INJECTED)
    return [row.t_ns - at for row in rows if row.kind is Kind.POD_DELETING and row.actor == "apiserver"]


def test_a_drain_evicts_all_pods_of_its_machine_at_once() -> None:
    """Without a law of evictions two requests behind the order of it: the cordon's answer, and the evictions."""
    marked = set(marked_behind_a_drain({n: v for n, v in still_durations().items() if n != OF_EVICTIONS}))
    assert len(marked) == 1
    assert 8 * MS <= marked.pop() <= 40 * MS


def test_each_eviction_of_a_drain_takes_what_quiet_runs_show() -> None:
    """But for what its request is beside a usual one: 0 to 20 ms for 12."""
    marked = marked_behind_a_drain(still_durations() | {OF_EVICTIONS: (300 * MS,)})
    assert len(marked) == 2
    assert all(288 * MS <= span <= 308 * MS for span in marked)


def told_of_an_end(told_ms: int) -> int:
    """From slurmd's kill until the collector hears of its end, ns; the kubelet looks at the same times."""
    rows = play("x62-slurmd-crash-main", durations=still_durations() | {OF_ENDS: (told_ms * MS,)})
    at = next(row.t_ns for row in rows if row.kind is Kind.FAULT_INJECTED)
    ends = (row for row in rows if row.kind is Kind.CONTAINER_ENDED and row.actor == "collector")
    return next(row.t_ns for row in ends if row.t_ns > at) - at


def test_an_end_is_told_as_late_as_quiet_runs_show() -> None:
    """But for the collector's own watch, whose draw is the same in both."""
    assert told_of_an_end(95) - told_of_an_end(15) == 80 * MS


def test_two_pods_that_start_together_go_by_the_law_of_pairs() -> None:
    """The second of quiet-deleted's pairs takes what a pair takes, one that starts alone what one alone takes."""
    laws = {"-alone": 1000 * MS, "-pair": 2000 * MS, "": 5000 * MS}
    durations = still_durations() | {f"pod-start{name}": (ns,) for name, ns in laws.items()}
    durations |= {f"container-start{name}": (400 * MS,) for name in laws}
    spans = start_spans(play("quiet-deleted", durations=durations))
    assert [spans[f"w-{n}"] for n in range(4)] == pytest.approx([1.0] * 4, abs=0.05)
    assert [max(spans[f"w-{n}"], spans[f"w-{n + 1}"]) for n in (4, 6, 8, 10)] == pytest.approx([2.0] * 4, abs=0.05)


def test_an_operators_pods_are_mounted_by_the_law_of_how_many_are_on_their_way() -> None:
    """quiet-operated makes two at 25 s, one at 90 s and four at 118 s: each of them is ready by its own law, the first
    of several too.
    """
    laws = {"-alone": 1000 * MS, "-pair": 2000 * MS, "": 4000 * MS}
    durations = still_durations() | {f"volumes-mounted{name}": (ns,) for name, ns in laws.items()}
    rows = play("quiet-operated", durations=durations)
    bound: dict[str, int] = {}
    took: list[tuple[float, float]] = []
    for row in rows:
        if row.actor == "apiserver" and row.kind is Kind.POD_SCHEDULED and row.pod_uid:
            bound[row.pod_uid] = row.t_ns
        elif row.actor == "apiserver" and row.kind is Kind.POD_READY and row.pod_uid in bound and row.t_ns > 0:
            took.append((bound[row.pod_uid] / SECOND, (row.t_ns - bound[row.pod_uid]) / SECOND - 10))
    for low, high, law, count in ((25, 27, 2.0, 2), (90, 92, 1.0, 1), (118, 120, 4.0, 4)):
        assert [one for at, one in took if low <= at <= high] == pytest.approx([law] * count, abs=0.15)


def test_without_a_law_of_pairs_two_pods_share_the_host() -> None:
    """A sandbox beside one other has 122 % of 144 % of the law of many; its container starts alone."""
    durations = {name: values for name, values in still_durations().items() if name not in OF_PAIRS}
    durations |= {"pod-start": (1440 * MS,), "container-start": (400 * MS,), "container-start-alone": (400 * MS,)}
    spans = start_spans(play("quiet-deleted", durations=durations))
    assert max(spans.values()) == pytest.approx(0.3 + 0.74 * 1.22 / 1.44 + 0.4, abs=0.05)


def test_a_pod_is_gone_when_its_kubelet_has_cleaned_up() -> None:
    """A clean-up that takes 150 ms more removes the pod 150 ms later."""
    gone = [
        first(play("quiet-deleted", durations={"clean-up": (ms * MS,)}), Kind.POD_DELETED, app="slurmd")
        for ms in (50, 200)
    ]
    assert gone[1] - gone[0] == pytest.approx(0.150, abs=0.001)


def test_a_volume_in_memory_is_full_when_it_is_written() -> None:
    """Of 256 MiB the pod's processes have some already: twice as slow is some 240 ms later, at 1 ms a MiB."""
    ended = [
        first(
            play("x63-oom-slurmd", durations={"volume-fill": (ms * MS,)}), Kind.CONTAINER_ENDED, actor="apiserver",
            app="slurmd",
        )
        for ms in (1, 2)
    ]  # fmt: skip
    assert ended[1] - ended[0] == pytest.approx(0.24, abs=0.02)


def start_spans(rows: list[Event]) -> dict[str, float]:
    """Pod -> seconds from its binding to its container, of the last one of its name."""
    bound, runs = {}, {}
    for row in rows:
        if row.actor == "apiserver" and row.kind in (Kind.POD_SCHEDULED, Kind.CONTAINER_STARTED):
            name = json.loads(row.detail or "{}")["pod"].rpartition("/")[2]
            (bound if row.kind is Kind.POD_SCHEDULED else runs)[name] = row.t_ns / SECOND
    return {name: runs[name] - bound[name] for name in bound}


def test_a_slurmctld_of_22_05_goes_round_as_the_one_before_it_did() -> None:
    """A recording shows rounds of 1.004 s: one near it is drawn for all of a run's loops, whatever quiet runs show."""
    times = StartTimes(slurmctld_ns=-20 * SECOND, fault_ns=(25 * SECOND,), round_ns=1004 * MS)
    drawn_ms = [late_by_ms(times, number, quiet_ms) for number, quiet_ms in ((0, 2), (1, 2), (2, 2), (3, 2), (3, 9))]
    *each, other_quiet_runs = drawn_ms
    assert len(set(each)) == 4
    assert other_quiet_runs == each[-1]
    assert statistics.geometric_mean(each) == pytest.approx(4, rel=2 * ROUNDS_APART / math.sqrt(4))


def late_by_ms(times: StartTimes, replication: int, quiet_ms: int) -> float:
    """What each round of the second slurmctld of x1-controller-crash takes beyond its second."""
    durations = still_durations() | {"loop-round": (quiet_ms * MS,)}
    options = TwinOptions(keep=True, times=times, durations=durations, replication=replication)
    rows = run_scenario(scenario("x1-controller-crash").of_version("22.05"), FAULTS, options).kept or []
    began = [row.t_ns for row in rows if row.kind is Kind.SLURMCTLD_STARTED]
    looks = [row.t_ns for row in rows if row.kind is Kind.NODE_PINGED and row.t_ns > began[1]]
    (behind_ms,) = {
        round((b - a) % SECOND / round((b - a) / SECOND) / MS, 3) for a, b in pairwise(looks) if b - a > SECOND
    }
    return behind_ms


def test_pods_that_are_replaced_are_bound_at_once() -> None:
    """docs/surprises.md: in 6 to 23 ms, median 12, whatever the cluster's first pods took."""
    rows = play("quiet-deleted", durations=still_durations() | {"pod-bind": (2 * SECOND,)})
    bound: dict[bool, list[float]] = {False: [], True: []}
    for row in rows:
        if row.kind is Kind.POD_CREATED and row.actor == "collector" and '"slurmd"' in (row.detail or ""):
            made_s, pod = row.t_ns / SECOND, json.loads(row.detail or "")["pod"]
            bound_s = first(rows, Kind.POD_SCHEDULED, made_s, actor="collector", pod=pod)
            bound[made_s >= 0].append((bound_s - made_s) * SECOND / MS)
    assert len(bound[False]) == len(bound[True]) == 12
    assert min(bound[False]) > 900
    assert all(1 <= ms <= 30 for ms in bound[True]), bound[True]
    assert 8 <= statistics.median(bound[True]) <= 17


def test_supervisord_has_slurmd_back_after_its_round_and_two_laws() -> None:
    """It begins the program, which executes itself once more (26.05); of 22.05 what follows has a law of its own."""

    def back_s(version: str, again_ms: int) -> float:
        law = "slurmd-again" if version == "26.05" else "slurmd-again-2205"
        durations = still_durations() | {"supervisor-spawn": (13 * MS,), law: (again_ms * MS,)}
        crashed = scenario("x62-slurmd-crash-supervised").of_version(version)
        rows = run_scenario(crashed, FAULTS, TwinOptions(keep=True, durations=durations)).kept or []
        crash_ns = next(row.t_ns for row in rows if row.kind is Kind.FAULT_INJECTED)
        return next(
            (row.t_ns - crash_ns) / SECOND for row in rows if row.kind is Kind.SLURMD_STARTED and row.t_ns > crash_ns
        )

    assert back_s("26.05", 50) - back_s("26.05", 16) == pytest.approx(0.034)
    assert back_s("26.05", 16) % 1 == pytest.approx(0.029, abs=0.001)
    assert back_s("22.05", 50) - back_s("22.05", 8) == pytest.approx(0.042)
    assert back_s("22.05", 8) % 1 == pytest.approx(0.021, abs=0.001)


def test_the_loops_clock_knows_the_hosts_load_and_the_runs_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorded run's: how often a tick is late goes by the one, and the end of a cycle is told by the other."""
    known: list[dict[str, Any]] = []

    class Clock(CoarseClock):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            known.append(inspect.signature(CoarseClock).bind(*arguments, **named).arguments)
            super().__init__(*arguments, **named)

    monkeypatch.setattr(pod_assembly, "CoarseClock", Clock)
    times = StartTimes(host_load=5.5, runs_beside=3)
    run_scenario(scenario("x62-slurmd-crash-main"), FAULTS, TwinOptions(durations=still_durations(), times=times))
    assert [(one["host_load"], one["runs_beside"]) for one in known] == [(5.5, 3)]
