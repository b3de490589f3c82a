"""What passes of operators take is read off their quiet runs: by neighbours, and within a pass alone."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.campaign import operator_spans
from slurmtwin.campaign.pod_calibration import measure
from slurmtwin.contract.clock import MS
from slurmtwin.contract.events import Event, Kind
from slurmtwin.worlds.pod_durations import OF_OTHERS, POD_DURATIONS_FILE
from slurmtwin_reports.history import rows_of_events


def told_by_operator(node: str, at_ms: int, do: str = "drain", on: str = "") -> Event:
    """An operator's log says that an action is done, to a millisecond; on: what kind of object."""
    detail = json.dumps({"do": do, "outcome": "done", "object": on})
    return Event(at_ms * MS, Kind.ACTION_ISSUED, "operator", node=node, detail=detail, t_err_ns=MS)


def test_drains_behind_each_other_tell_what_slurmrestd_takes() -> None:
    """From the answer to one to slurmctld's line of the next; neither the first, nor one of another pass, nor one that
    follows another action."""
    rows = [
        line
        for place, (node, drained_ms, done_ms) in enumerate(
            [("w-0", 40, 41), ("w-1", 45, 46), ("w-2", 49, 50), ("w-3", 5040, 5041)]
        )
        for line in (
            Event(drained_ms * MS, Kind.NODE_DRAINED, "slurmctld", node=node, t_err_ns=MS // 2),
            told_by_operator(node, done_ms),
            *([told_by_operator(node, 5050, "delete")] if place == 3 else []),
        )
    ]
    rows.append(Event(5060 * MS, Kind.NODE_DRAINED, "slurmctld", node="w-4", t_err_ns=MS // 2))
    found = list(operator_spans.node_changes(rows_of_events(rows)))
    assert found == [((40, 42), (44.5, 45.5)), ((45, 47), (48.5, 49.5))]


def test_pods_that_are_marked_behind_each_other_tell_what_a_patch_takes() -> None:
    """Not the first, nor one of the next pass, which gathers for 100 ms, nor one behind another action."""
    marks = [("w-0", 10, "label-pod"), ("w-1", 22, "label-pod"), ("w-2", 130, "label-pod"), ("w-2", 140, "delete"),
             ("w-3", 150, "label-pod")]  # fmt: skip
    found = operator_spans.pod_patches(rows_of_events([told_by_operator(*mark) for mark in marks]))
    assert list(found) == [((9, 11), (21, 23))]


def test_pods_that_are_deleted_behind_each_other_tell_what_a_deletion_takes() -> None:
    """Likewise; not that of another object."""
    done = [("w-0", 10, "delete", "Pod"), ("w-1", 40, "delete", "Pod"), ("w", 60, "delete", "Service"),
            ("w-2", 70, "delete", "Pod"), ("w-3", 80, "label-pod", ""), ("w-4", 90, "delete", "Pod"),
            ("w-5", 195, "delete", "Pod")]  # fmt: skip
    found = operator_spans.pod_deletions(rows_of_events([told_by_operator(*one) for one in done]))
    assert list(found) == [((9, 11), (39, 41))]


def test_a_scaled_node_set_tells_what_a_look_takes() -> None:
    """A pass gathers for 100 ms, and its memory is at the API server half a request behind its decision: 31 ms of 137.
    A set whose status nobody wrote tells nothing, nor do other objects."""
    fault = {"kind": "operator.scale", "target": "workers"}
    scaled = Event(0, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": fault}))

    def changed(at_ms: int, resource: str) -> Event:
        return Event(at_ms * MS, Kind.OBJECT_CHANGED, "collector", detail=json.dumps({"resource": resource}))

    rows = [scaled, changed(2, "Pod"), changed(4, "NodeSet"), changed(90, "Pod"), changed(141, "NodeSet")]
    assert list(operator_spans.operator_looks(rows_of_events(rows))) == [((104, 104), (133, 137))]
    assert list(operator_spans.operator_looks(rows_of_events(rows[:-1]))) == []


def told_by_kubernetes(at_ms: int, reason: str, about: str) -> Event:
    """An event, as the collector receives it."""
    return Event(at_ms * MS, Kind.KUBE_EVENT, "collector", detail=json.dumps({"reason": reason, "about": about}))


def test_events_that_a_pass_writes_tell_what_one_takes() -> None:
    """Four in 15 ms, on the mean. Neither two, nor those of slurm-operator or a kubelet, nor what comes before the
    first step, behind an action, or so late that it is another pass."""
    step = Event(0, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": {"kind": "operator.scale"}}))
    early = [told_by_kubernetes(-100 + 9 * n, "Created", "NodeSet/w") for n in range(5)]
    chain = [told_by_kubernetes(200 + 5 * n, "ScaleIn", "NodeSet/w") for n in range(4)]
    two = [told_by_kubernetes(400, "Created", "NodeSet/w"), told_by_kubernetes(410, "Created", "NodeSet/w")]
    other = [told_by_kubernetes(500 + n, why, "NodeSet/w") for n, why in enumerate(("NodeCordon",) * 4)]
    kubelets = [told_by_kubernetes(600 + n, "Created", f"Pod/w-{n}") for n in range(4)]
    later = [told_by_kubernetes(ms, "ScaleIn", "NodeSet/w") for ms in (700, 710, 811, 821)]
    acted = [told_by_kubernetes(1100, "ScaleIn", "NodeSet/w"), told_by_operator("w-0", 1105),
             *(told_by_kubernetes(ms, "ScaleIn", "NodeSet/w") for ms in (1110, 1115))]  # fmt: skip
    rows = rows_of_events([*early, step, *chain, *two, *other, *kubelets, *later, *acted])
    assert list(operator_spans.operator_events(rows)) == [((0, 0), (pytest.approx(13 / 3), pytest.approx(17 / 3)))]


def test_a_worker_that_is_made_tells_how_long_slurmd_takes_under_its_limit() -> None:
    """From the kubelet's event, which comes up to 50 ms behind the start. Not one that is made with the cluster."""

    def started(at_ms: int, node: str) -> Event:
        said = {"reason": "Started", "about": f"Pod/{node}", "message": "Started container slurmd"}
        return Event(at_ms * MS, Kind.KUBE_EVENT, "collector", detail=json.dumps(said))

    def serves(at_ms: int, node: str) -> Event:
        return Event(at_ms * MS, Kind.SLURMD_STARTED, "slurmd", node=node, t_err_ns=MS)

    step = Event(0, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": {"kind": "operator.scale"}}))
    rows = [started(-900, "w-0"), step, serves(10, "w-0"), started(100, "w-1"), started(150, "w-2"), serves(700, "w-1")]
    assert list(operator_spans.limited_starts(rows_of_events(rows))) == [((50, 100), (699, 701))]


def test_a_cordon_tells_what_a_pass_takes_beside_its_look() -> None:
    """20 ms until the event, a look of 1 s apart, and 12 until slurmctld's line. Neither a pass that was under way,
    nor one of another event, nor a second event of the same."""
    rows = []
    for begin_ms, event_ms in ((0, 1020), (10_000, 10_700), (20_000, 22_300)):
        rows += [
            Event(begin_ms * MS, Kind.KUBE_NODE_CORDONED, "collector", node="worker1"),
            told_by_kubernetes(begin_ms + 500, "Killing", "Pod/w-0"),
            told_by_kubernetes(event_ms, "NodeCordon", "NodeSet/w"),
            Event((event_ms + 12) * MS, Kind.NODE_DRAINED, "slurmctld", node="w-0", t_err_ns=MS),
            told_by_kubernetes(event_ms + 1000, "NodeCordon", "NodeSet/w"),
        ]
    rows.append(Event(30_000 * MS, Kind.NODE_DRAINED, "slurmctld", node="w-0"))
    seen = rows_of_events(rows)
    assert list(operator_spans.cordons_told(seen)) == [((0, 0), (18, 22))]
    assert list(operator_spans.cordons_done(seen)) == [((1020, 1020), (1031, 1033))]


def test_a_pod_that_ends_alone_tells_what_its_hook_takes() -> None:
    """From the kubelet's word to slurmd's last line, less what SIGTERM takes; two that end beside each other tell
    nothing, nor does a container that nobody hooks."""

    def stopped(at_ms: int, node: str) -> Event:
        return Event(at_ms * MS, Kind.SLURMD_STOPPED, "slurmd", node=node, t_err_ns=MS)

    rows = [
        told_by_kubernetes(100, "Killing", "Pod/w-0"), stopped(500, "w-0"),
        told_by_kubernetes(1000, "Killing", "Pod/w-1"), told_by_kubernetes(1200, "Killing", "Pod/w-2"),
        stopped(1400, "w-1"), stopped(1600, "w-2"), stopped(2000, "w-3"),
    ]  # fmt: skip
    assert list(operator_spans.hooks(rows_of_events(rows))) == [((115, 155), (499, 501))]


def configured(applied_ms: int, marked_ms: int, told_ms: int, kind: str = "operator.configure") -> list[Event]:
    """An option of slurm.conf changes in place: its ConfigMap is there, slurmctld's pod synced, slurmctld told."""

    def did(at_ms: int, do: str, **more: str) -> Event:
        detail = json.dumps({"do": do, "outcome": "done", **more})
        return Event(at_ms * MS, Kind.ACTION_ISSUED, "operator", detail=detail, t_err_ns=MS)

    def synced(at_ms: int, pod: str) -> Event:
        return Event(at_ms * MS, Kind.POD_SYNCED, "kubelet", node="dev-worker", detail=json.dumps({"pod": f"ns/{pod}"}))

    fault = json.dumps({"fault": {"kind": kind, "target": "controller"}})
    return [
        Event(0, Kind.FAULT_INJECTED, "fault", detail=fault, t_err_ns=4 * MS),
        did(applied_ms, "apply", object="ConfigMap"), synced(applied_ms + 10, "w-0"), synced(marked_ms, "slurm-ctld-0"),
        did(told_ms, "reconfigure"),
        Event((told_ms + 24) * MS, Kind.SLURMCTLD_STARTED, "slurmctld", t_err_ns=MS),
    ]  # fmt: skip


def test_an_option_that_changes_in_place_tells_what_its_passes_take() -> None:
    """Beside three gathers of 100 ms and 3 s for the mount: 144 of 3,444 ms. Behind that the new process."""
    seen = rows_of_events(configured(150, 290, 3_444))
    assert list(operator_spans.config_told(seen)) == [((3_296, 3_304), (3_443, 3_445))]
    assert list(operator_spans.reconfigured(seen)) == [((3_443, 3_445), (3_467, 3_469))]


@pytest.mark.parametrize(
    "times", [(84, 290, 3_444), (150, 190, 3_444), (150, 290, 6_200), (150, 290, 3_444, "operator.scale")]
)
def test_a_change_beside_another_pass_tells_nothing(times: tuple[Any, ...]) -> None:
    """One was under way, two came as one, a poll put the last one off, or it was another change."""
    assert list(operator_spans.config_told(rows_of_events(configured(*times)))) == []


def test_changes_in_place_stand_to_a_look_as_the_twin_has_it() -> None:
    """pod_durations.OF_OTHERS: 163 and 26 ms beside 30, 157 and 27 beside 40, 163 and 35 beside 41 on one machine, 151
    and 29 beside 32 on another; the scatter is that of all changes."""
    folders = [Path("scenarios/recordings") / one for one in (
        "quiet-configured/26.05/pods/1", "quiet-configured/26.05/pods/2", "quiet-operated/26.05/pods/15",
    )]  # fmt: skip
    files = [POD_DURATIONS_FILE.with_name(f"pod_durations_2026_11_27{hour}.json") for hour in ("", "_1450", "_2150")]
    on_27 = [json.loads(path.read_text(encoding="utf-8"))["durations"] for path in files]
    machines = [on_27, [measure(folders)["durations"]]]
    for name in ("config-told", "reconfigured"):
        of, ratios, sigma = OF_OTHERS[name]
        hours = [found for machine in machines for found in machine]
        assert [found[name]["count"] for found in hours] == [10, 10, 11, 20]
        shown = [[found[name]["median_ms"] / found[of]["median_ms"] for found in machine] for machine in machines]
        assert [statistics.median(of_hours) for of_hours in shown] == pytest.approx(ratios, rel=0.02)
        pooled = sum(found[name]["count"] * found[name]["sigma"] ** 2 for found in hours) / 51
        assert math.sqrt(pooled) == pytest.approx(sigma, abs=0.01)
