"""Durations of a cluster come from quiet runs alone, with their interval, and a known law is found again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from slurmtwin.campaign import pod_calibration, pod_spans
from slurmtwin.campaign.loop_spans import registered, wakes
from slurmtwin.campaign.pod_calibration import document_text, measure
from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.manifest import Manifest
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.worlds.pod_durations import UNSEEN_MS
from slurmtwin_reports.history import history_of, rows_of_events
from slurmtwin_reports.testing import write_run

MEDIAN_MS, SIGMA = 1500.0, 0.3


def stamped(t_ns: int, kind: Kind, uid: str, receipt_ns: int, place: int, late_ns: int = SECOND) -> list[Event]:
    """An object's cut stamp and the collector's receipt of it, as the collector of the world kind writes them."""
    detail = json.dumps({"app": "slurmd", "pod": f"ns/{uid}"})
    cut = t_ns // SECOND * SECOND + SECOND // 2
    return [
        Event(cut, kind, "apiserver", node="dev-worker", detail=detail, t_err_ns=SECOND // 2, pod_uid=uid),
        Event(receipt_ns, kind, "collector", node="dev-worker", detail=detail, t_err_ns=late_ns, pod_uid=uid,
              cause_seq=place),
    ]  # fmt: skip


def told(t_ns: int, uid: str, receipt_ns: int, place: int) -> list[Event]:
    """The event that the kubelet sends of a container's start."""
    detail = json.dumps({"about": f"Pod/{uid}", "reason": "Started"})
    cut = t_ns // SECOND * SECOND + SECOND // 2
    return [
        Event(cut, Kind.KUBE_EVENT, "apiserver", detail=detail, t_err_ns=SECOND // 2),
        Event(receipt_ns, Kind.KUBE_EVENT, "collector", detail=detail, t_err_ns=20 * MS, cause_seq=place),
    ]


def quiet_run(
    folder: Path,
    seed: int,
    pods: int = 40,
    extra: list[Event] | None = None,
    apart: int = 0,
    events: bool = False,
    p95_ms: float = 20.0,
) -> Path:
    """A run whose pods start after a log-normal time, together or one by one, seen through stamps and late receipts."""
    draw = np.random.default_rng(seed)
    rows: list[Event] = []
    for number in range(pods):
        bound = int(draw.integers(-60 * SECOND, -59 * SECOND)) + apart * number
        runs = bound + int(MEDIAN_MS * MS * np.exp(SIGMA * draw.standard_normal()))
        for kind, t_ns in ((Kind.POD_SCHEDULED, bound), (Kind.CONTAINER_STARTED, runs)):
            prompt = events and kind is Kind.POD_SCHEDULED
            receipt_ns = t_ns + int(draw.integers(10 * MS, (20 if prompt else 300) * MS))
            rows += stamped(t_ns, kind, f"w-{number}", receipt_ns, len(rows), 20 * MS if prompt else SECOND)
        if events:
            rows += told(runs, f"w-{number}", runs + int(draw.integers(5 * MS, 20 * MS)), len(rows))
    manifest = Manifest(
        world="kind", scenario="quiet-pods", scenario_sha256="", seed=0, parameters={"epoch_ns": 0},
        results={"run_id": f"quiet-{seed}", "watch_delay_ms": {"p95": p95_ms}},
    )  # fmt: skip
    return write_run(folder, history_of(manifest, [*rows, *(extra or [])]), "events.jsonl.gz")


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """40 fits instead of 200."""
    monkeypatch.setattr(pod_calibration, "RESAMPLES", 40)


def test_a_known_law_is_found_again(tmp_path: Path) -> None:
    """From stamps cut to seconds, eight times: no bias above 4 %, the spread within a third, most intervals right."""
    found = []
    for case in range(8):
        folders = [quiet_run(tmp_path / f"{case}-{seed}", 100 * case + seed) for seed in range(3)]
        document = measure(folders)
        found.append(document["durations"]["pod-start"])
        assert [one["run"] for one in document["origin"]] == [f"quiet-{100 * case + seed}" for seed in range(3)]
    assert all(one["count"] == 120 for one in found)
    assert np.mean([one["median_ms"] for one in found]) == pytest.approx(MEDIAN_MS, rel=0.04)
    assert np.mean([one["sigma"] for one in found]) == pytest.approx(SIGMA, rel=0.33)
    assert sum(one["low_ms"] <= MEDIAN_MS <= one["high_ms"] for one in found) >= 6


def test_the_event_of_a_start_encloses_it_better_than_the_status(tmp_path: Path) -> None:
    """The status waits for the kubelet's next look, the event does not."""
    plain, events = (
        measure([quiet_run(tmp_path / f"{flag}{seed}", seed, events=flag) for seed in range(3)])["durations"][
            "pod-start"
        ]
        for flag in (False, True)
    )
    assert events["known_to_ms"] < plain["known_to_ms"] - 30
    assert events["low_ms"] <= MEDIAN_MS <= events["high_ms"]


def test_logs_of_kubelet_and_daemon_enclose_a_start(tmp_path: Path) -> None:
    """Stamps alone leave it open by seconds: bound 900 ms before its container runs, serving 40 ms later."""
    bound, runs = 100 * MS, 1000 * MS
    rows = [
        *stamped(bound, Kind.POD_SCHEDULED, "w-0", bound + 900 * MS, 0),
        *stamped(runs, Kind.CONTAINER_STARTED, "w-0", runs + 900 * MS, 2),
    ]
    logs = [
        Event(bound + 5 * MS, Kind.POD_SYNCED, "kubelet", node="dev-worker", detail='{"pod":"ns/w-0"}'),
        Event(runs + 40 * MS, Kind.SLURMD_STARTED, "slurmd", node="w-0"),
        Event(runs - 500 * MS, Kind.SLURMD_STARTED, "slurmd", node="w-1"),
    ]

    def seen(events: list[Event]) -> tuple[pod_spans.Interval | None, pod_spans.Interval | None]:
        manifest = Manifest(world="kind", scenario="a", scenario_sha256="", seed=0, parameters={"epoch_ns": 0})
        pods = pod_spans.PodSpans(list(history_of(manifest, events).rows()))
        return pods.at("pod.scheduled", "w-0"), pods.at("container.started", "w-0")

    assert seen(rows) == ((0.0, 1000.0), (1000.0, 1900.0))
    assert seen([*rows, *logs]) == ((0.0, 105.0), (1000.0, 1040.0))
    unrelated = [log for log in logs if log.node == "w-1"]
    assert seen([*rows, *unrelated]) == seen(rows)


def test_a_prompt_change_is_no_earlier_than_its_receipt_less_the_delay_of_watches() -> None:
    """A binding is received within the run's delay of 100 ms: its second's beginning is no bound then."""
    stamp, receipt = stamped(900 * MS, Kind.POD_SCHEDULED, "w-0", 930 * MS, 0)
    receipt = receipt._replace(t_err_ns=100 * MS)
    assert bounds(stamp, receipt) == (830, 930)
    late = receipt._replace(t_ns=1400 * MS)
    assert bounds(stamp, late) == (0, 1000), "a receipt that came later than mostly tells nothing from below"
    assert bounds(stamp._replace(kind=Kind.CONTAINER_STARTED), receipt) == (0, 930)


def bounds(stamp: Event, receipt: Event) -> tuple[float, float]:
    """As the calibration reads a change's stamp and its receipt."""
    first, second = rows_of_events([stamp, receipt])
    return pod_spans.bounds(first, second)


def test_ticks_sooner_than_the_clock_shows_their_second_tell_when_the_loop_wakes() -> None:
    """Those that wait for time(NULL), here 4 ms behind, tell nothing of it, and silent nodes' rows are no ticks."""
    epoch_ns = 3 * SECOND + 350
    ticks = [
        Event(
            second * SECOND - 350 + ms * MS + MS // 2,
            Kind.NODE_PINGED,
            "slurmctld",
            node="w-0",
            value=value,
            t_err_ns=750_000,
        )
        for second, ms, value in ((7, 4, 1), (27, 0, 1), (47, 4, 1), (67, 1, 1), (87, 4, 1), (107, 0, 0), (127, 6, 1))
    ]
    spans = [
        (round(last[0] - first[0], 3), round(last[1] - first[1], 3))
        for first, last in wakes(list(rows_of_events(ticks)), epoch_ns)
    ]
    assert spans == [(-0.25, 1.25), (0.75, 2.25)]


def test_ticks_behind_a_kill_do_not_tell_that_the_clock_is_hardly_behind() -> None:
    """Five at whole seconds, where two before it show 4 ms: those five are the loop's wakes, not the clock's."""
    ticks = [(7, 4), (27, 4), (47, 0), (67, 0), (87, 0), (107, 0), (127, 0)]
    events = [
        Event(s * SECOND + ms * MS + MS // 2, Kind.NODE_PINGED, "slurmctld", node="w-0", value=1, t_err_ns=750_000)
        for s, ms in ticks
    ]
    killed = [*events[:2], Event(30 * SECOND, Kind.FAULT_INJECTED, "faults", detail={"kind": "kill"}), *events[2:]]
    assert len(list(wakes(list(rows_of_events(killed)), 0))) == 5
    assert len(list(wakes(list(rows_of_events(events)), 0))) == 0


def test_an_answer_to_a_request_to_register_is_that_nodes_own() -> None:
    """Not one of several nodes, which share the host, not another node's, and none that came with the request."""
    rows = []
    for second, node, purpose, answers in (
        (1, "w-0", "registration", [(5, "w-0"), (9, "w-1")]),
        (2, "w-[0-1]", "registration", [(7, "w-0"), (8, "w-1")]),
        (3, "w-0", "ping", [(5, "w-0")]),
        (4, "w-1", "registration", [(0, "w-1")]),
    ):
        at_ns, said = second * SECOND, json.dumps({"purpose": purpose})
        rows.append(Event(at_ns, Kind.NODE_PINGED, "slurmctld", node=node, value=1, detail=said))
        rows += [Event(at_ns + ms * MS, Kind.NODE_RESPONDING, "slurmctld", node=name) for ms, name in answers]
    found = [(asked[0], answered[0]) for asked, answered in registered(list(rows_of_events(rows)))]
    assert found == [(1000, 1005)]


def test_rounds_of_the_old_loop_are_counted_between_looks() -> None:
    """Two looks 10 s and 20 ms apart are ten rounds of 2 ms beyond a second; a round or two tell too little."""
    looks = [Event(t_ns, Kind.NODE_PINGED, "slurmctld", t_err_ns=MS) for t_ns in (0, 10_020 * MS, 12_024 * MS)]
    seen = pod_calibration.Seen()
    pod_calibration._read_rounds(seen, 0, list(rows_of_events(looks)))
    assert seen.spans == {"loop-round": [[pytest.approx((1.8, 2.2))]]}


def test_rounds_are_not_counted_over_a_restart() -> None:
    """The loop of the new slurmctld begins anew: looks of two loops tell nothing of a round."""
    kinds = [(0, Kind.NODE_PINGED), (10_500 * MS, Kind.SLURMCTLD_STARTED), (14_508 * MS, Kind.NODE_PINGED)]
    seen = pod_calibration.Seen()
    rows = rows_of_events([Event(t_ns, kind, "slurmctld", t_err_ns=MS) for t_ns, kind in kinds])
    pod_calibration._read_rounds(seen, 0, list(rows))
    assert seen.spans == {}


def test_a_pod_that_starts_alone_is_another_duration(tmp_path: Path) -> None:
    """Starts beside each other share the host."""
    document = measure([quiet_run(tmp_path / "a", 1, 6, apart=30 * SECOND)])
    assert document["durations"].keys() == {"pod-start-alone"}


def test_a_run_whose_host_stood_still_is_left_out_and_named(tmp_path: Path) -> None:
    """Its spans tell how long the host stood; the file says which run it was, and how late its rows came."""
    calm, stalled = quiet_run(tmp_path / "a", 1, 6), quiet_run(tmp_path / "b", 2, 6, p95_ms=1728.0)
    both = measure([calm, stalled])
    assert both["left_out"] == {"quiet-2": 1728.0}
    assert both | {"left_out": {}} == measure([calm])


def test_a_run_with_a_fault_is_refused(tmp_path: Path) -> None:
    """What is judged is never what was calibrated on."""
    fault = Event(0, Kind.FAULT_INJECTED, "fault", detail='{"fault":{"kind":"pod.delete"}}')
    with pytest.raises(InputError, match="not a quiet run"):
        measure([quiet_run(tmp_path / "a", 1, extra=[fault])])


def killed_and_back(name: str, target: str, at: int) -> list[Event]:
    """A daemon killed at `at`, its container seen ended 900 ms later and back 150 ms behind that, serving after 60."""
    fault = json.dumps({"fault": {"kind": "process.signal", "target": target}})
    app = target.partition(":")[0]
    synced, runs = at + 900 * MS, at + 1050 * MS
    return [
        Event(at, Kind.FAULT_INJECTED, "fault", detail=fault),
        Event(synced, Kind.POD_SYNCED, "kubelet", node="dev-worker", detail=f'{{"pod":"ns/{name}"}}'),
        *told(runs, name, runs + 10 * MS, 2),
        Event(runs + 60 * MS, Kind(f"{app}.started"), app, node=name if app == "slurmd" else None),
    ]


@pytest.mark.parametrize(("name", "target"), [("w-0", "slurmd:w-0"), ("slurmctld-0", "slurmctld")])
def test_a_killed_daemon_tells_what_its_return_takes(name: str, target: str) -> None:
    """From the kubelet's sync to the container, and to the daemon: event and log enclose the one between them, which
    is taken in the middle, so that both spans are together what was measured."""
    rows = killed_and_back(name, target, 5 * SECOND)
    (one,) = pod_spans.restarts(rows_of_events(rows))
    assert one.app == target.partition(":")[0]
    assert one.synced == (5900, 5900)
    middle = (6050 + 10 - 20 - pod_spans.STARTED_MS + 6060) / 2
    assert (one.runs, one.runs_by_ms) == ((middle, middle), 6060)
    assert one.serves == (6110, 6110)
    assert list(pod_spans.restarts(rows_of_events(rows[:3]))) == [], "without a log nothing is told"


def test_daemons_that_come_back_are_measured_where_nothing_is_judged(tmp_path: Path) -> None:
    """quiet-restarts has faults and no phase: container and daemon are measured, and the busy node's registration."""
    rows = killed_and_back("w-0", "slurmd:w-0", 5 * SECOND)
    missed = Event(6130 * MS, Kind.JOB_ENDED, "slurmctld", 1, "w-0", detail='{"requeued":true,"why":"missing"}')
    heard = Event(5940 * MS, Kind.CONTAINER_ENDED, "collector", detail='{"app":"slurmd","pod":"ns/w-0"}', t_err_ns=MS)
    folder = quiet_run(tmp_path / "a", 1, 0, extra=[*rows, heard, missed])
    scenario = load_scenario(Path("scenarios/faults/quiet-restarts.yaml"))
    (folder / "scenario.resolved.json").write_text(scenario.model_dump_json(by_alias=True))
    found = measure([folder])["durations"]
    assert found.keys() == {"container-restart", "end-told", "registration"}, "slurmd of 22.05 has a part of its own"
    assert found["end-told"]["median_ms"] == pytest.approx(40, rel=0.1), "the receipt as it came"
    assert 100 < found["container-restart"]["median_ms"] < 160
    assert found["registration"]["median_ms"] == pytest.approx(20, rel=0.1)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["parameters"]["slurm_version"] = "26.05"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert measure([folder])["durations"].keys() == found.keys() | {"slurmd-back"}


def test_an_end_that_no_logged_sync_saw_tells_nothing() -> None:
    """The kubelet's log may lack a line; an earlier sync of the pod is none that saw the end."""
    at = 5 * SECOND
    early, *rows = [
        Event(at - SECOND, Kind.POD_SYNCED, "kubelet", node="n", detail='{"pod":"ns/w-0"}'),
        Event(at, Kind.FAULT_INJECTED, "fault", detail='{"fault":{"kind":"process.signal","target":"slurmd:w-0"}}'),
        Event(at + 700 * MS, Kind.CONTAINER_ENDED, "collector", detail='{"app":"slurmd","pod":"ns/w-0"}'),
    ]
    assert list(pod_spans.ends_told(rows_of_events([early, *rows]))) == []
    late = Event(at + 650 * MS, Kind.POD_SYNCED, "kubelet", node="n", detail='{"pod":"ns/w-0"}')
    (found,) = pod_spans.ends_told(rows_of_events([early, rows[0], late, rows[1]]))
    assert found == ((5650, 5650), (5700, 5700))


def replaced_worker(name: str, at: int, first: int = 0, look: int = 0) -> list[Event]:
    """A worker's pod deleted at `at`, the rows counted from `first`: without grace, and gone after 20 ms; or slurmd has
    SIGTERM after 35 ms, its container ends after 0.2 s, which is told 35 ms later, a relist sees that at `look`, and it
    is gone 90 ms later. It is there again 50 ms behind that, its container runs 620 ms after it was bound, and slurmd
    serves 80 ms later.
    """
    old, new = f"{name}.1", f"{name}.2"
    detail = json.dumps({"app": "slurmd", "pod": f"ns/{name}"})
    fault = json.dumps({"fault": {"kind": "pod.delete", "target": f"slurmd:{name}"}})

    def received(t_ns: int, kind: Kind, uid: str, grace: int | None = None) -> Event:
        return Event(t_ns, kind, "collector", node="n", detail=detail, t_err_ns=30 * MS, pod_uid=uid, value=grace)

    def said(t_ns: int, reason: str, place: int) -> list[Event]:
        about = json.dumps({"about": f"Pod/{name}", "reason": reason})
        return [
            Event(t_ns, Kind.KUBE_EVENT, "apiserver", detail=about, t_err_ns=SECOND // 2),
            Event(t_ns + 10 * MS, Kind.KUBE_EVENT, "collector", detail=about, t_err_ns=20 * MS, cause_seq=place),
        ]

    ended, relisted = (
        received(at + 200 * MS, Kind.CONTAINER_ENDED, old),
        Event(look, Kind.KUBELET_RELISTED, "", node="n"),
    )
    stopped = Event(at + 35 * MS, Kind.SLURMD_STOPPED, "slurmd", node=name)
    over = received(at + 235 * MS, Kind.POD_ENDED, old)
    begin = [
        *said(at - 20 * SECOND, "Pulled", first), *said(at - 20 * SECOND, "Started", first + 2),
        Event(at, Kind.FAULT_INJECTED, "fault", detail=fault),
        received(at + 5 * MS, Kind.POD_DELETING, old, 30 if look else 0),
        *([stopped, ended, over, relisted] if look else []),
    ]  # fmt: skip
    gone = look + 90 * MS if look else at + 25 * MS
    place, bound, runs = first + len(begin) + 4, gone + 60 * MS, gone + 680 * MS
    return [
        *begin, received(gone, Kind.POD_DELETED, old),
        received(gone + 50 * MS, Kind.POD_CREATED, new), received(bound, Kind.POD_SCHEDULED, new),
        Event(bound + 5 * MS, Kind.POD_SYNCED, "kubelet", node="n", detail=f'{{"pod":"ns/{name}"}}'),
        *said(runs - 110 * MS, "Pulled", place), *said(runs, "Started", place + 2),
        Event(runs + 80 * MS, Kind.SLURMD_STARTED, "slurmd", node=name),
    ]  # fmt: skip


def test_a_pod_that_was_deleted_without_grace_tells_what_the_next_one_takes(tmp_path: Path) -> None:
    """From its mark to its end and to the next one; that one's start; and nothing of it counts as a restart."""
    rows = replaced_worker("w-0", 30 * SECOND)
    (one,) = pod_spans.replaced(rows_of_events(rows))
    assert (one.gone[0] - one.marked[0], one.created[0] - one.marked[0]) == (20, 70)
    assert one.bound == (30_055, 30_090), "received at most 30 ms late, and synced"
    middle = (30_705 + 10 - 20 - pod_spans.STARTED_MS + 30_715) / 2
    assert (one.back.runs, one.back.runs_by_ms) == ((middle, middle), 30_715)
    assert one.checked[0] > 30_000, "not that of the pod before it"
    assert one.back.serves == (30_785, 30_785)
    assert list(pod_spans.restarts(rows_of_events(rows))) == []
    assert list(pod_spans.replaced(rows_of_events(rows[:-1]))) == [], "without a log nothing is told"
    assert list(pod_spans.stops(rows_of_events(rows))) == [], "slurmd says nothing when it is killed"
    folder = quiet_run(tmp_path / "a", 1, 0, extra=rows)
    scenario = load_scenario(Path("scenarios/faults/quiet-replaced.yaml"))
    (folder / "scenario.resolved.json").write_text(scenario.model_dump_json(by_alias=True))
    found = measure([folder])["durations"]
    assert found["forced-removal"]["median_ms"] == pytest.approx(20, rel=0.05)
    assert found["set-status"]["median_ms"] == pytest.approx(70, rel=0.05)
    assert 560 < found["pod-start-alone"]["median_ms"] < 660


def test_a_pod_that_was_deleted_with_grace_tells_its_clean_up(tmp_path: Path) -> None:
    """From the relist behind its end to its removal, where its volumes were surely unmounted by then."""
    at = 30 * SECOND
    rows = replaced_worker("w-0", at, look=at + 700 * MS)
    (one,) = pod_spans.replaced(rows_of_events(rows))
    assert not one.forced
    assert one.ends == ((30_700, 30_700), (30_760, 30_790)), "received at most 30 ms late"
    early = replaced_worker("w-0", at, look=at + 400 * MS)
    assert next(pod_spans.replaced(rows_of_events(early))).ends is None, "the kubelet may have looked once more"
    folder = quiet_run(tmp_path / "a", 1, 0, extra=rows)
    scenario = load_scenario(Path("scenarios/faults/quiet-deleted.yaml"))
    (folder / "scenario.resolved.json").write_text(scenario.model_dump_json(by_alias=True))
    found = measure([folder])["durations"]
    assert found["clean-up"]["median_ms"] == pytest.approx(75, rel=0.05)
    assert found["stop-heard"]["median_ms"] == pytest.approx(35, rel=0.05)
    assert found["stop-told"]["median_ms"] == pytest.approx(200, rel=0.05)
    assert not {"forced-removal", "set-status"} & set(found)


def test_a_drain_tells_when_its_pods_are_marked(tmp_path: Path) -> None:
    """Both that it evicts at once, 60 to 80 and 100 to 120 ms behind it, by receipts and not by stamps that are cut to
    seconds; not one that a budget kept for 5 s. Of such a run nothing else is read: up to four pods come back at once.
    """
    fault = {"kind": "kube_node.drain", "target": "node-of:slurmd:w-0"}
    rows = [Event(0, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": fault}))]
    for at_ms, pod in ((80, "a"), (120, "b"), (5100, "c")):
        cut_ns = at_ms * MS // SECOND * SECOND + SECOND // 2
        rows.append(Event(cut_ns, Kind.POD_DELETING, "apiserver", pod_uid=pod, t_err_ns=SECOND // 2))
        rows.append(Event(at_ms * MS, Kind.POD_DELETING, "collector", pod_uid=pod, t_err_ns=20 * MS))
    assert list(pod_spans.evictions(rows_of_events(rows))) == [((0, 0), (60, 80)), ((0, 0), (100, 120))]
    later = [row._replace(t_ns=row.t_ns + 60 * SECOND) for row in rows]
    folder = quiet_run(tmp_path / "a", 1, 0, extra=[*replaced_worker("w-0", 30 * SECOND), *later])
    scenario = load_scenario(Path("scenarios/faults/quiet-drained.yaml"))
    (folder / "scenario.resolved.json").write_text(scenario.model_dump_json(by_alias=True))
    found = measure([folder])["durations"]
    assert found.keys() == {"eviction"}
    assert found["eviction"]["count"] == 2
    assert found["eviction"]["median_ms"] == pytest.approx(90, rel=0.1)


def test_two_that_start_beside_each_other_have_a_law_of_their_own(tmp_path: Path) -> None:
    """A third one, later, starts alone."""
    rows: list[Event] = []
    for name, at in (("w-0", 30 * SECOND), ("w-1", 30 * SECOND + 100 * MS), ("w-2", 40 * SECOND)):
        rows += replaced_worker(name, at, len(rows))
    pods = list(pod_spans.replaced(rows_of_events(rows)))
    assert [[one.beside(other) for other in pods] for one in pods] == [[True, True, False]] * 2 + [[False, False, True]]
    folder = quiet_run(tmp_path / "a", 1, 0, extra=rows)
    scenario = load_scenario(Path("scenarios/faults/quiet-deleted.yaml"))
    (folder / "scenario.resolved.json").write_text(scenario.model_dump_json(by_alias=True))
    found = measure([folder])["durations"]
    assert (found["pod-start-pair"]["count"], found["pod-start-alone"]["count"]) == (2, 1)
    assert "clean-up" not in found


def operated_run(folder: Path, bounds_ms: dict[str, int], software: dict[str, str]) -> Path:
    """A run of quiet-operated: a scaling, and pods behind it that are bound then and ready 10.7 s later."""
    fault = {"kind": "operator.scale", "target": "workers", "count": 8}
    rows = [Event(0, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": fault}))]
    for uid, at_ms in bounds_ms.items():
        rows += stamped(at_ms * MS, Kind.POD_SCHEDULED, uid, (at_ms + 5) * MS, len(rows), 5 * MS)
    for uid, at_ms in bounds_ms.items():
        ready = (at_ms + 10_700) * MS
        rows += stamped(ready, Kind.POD_READY, uid, ready + 5 * MS, len(rows), 5 * MS)
    manifest = Manifest(
        world="kind", scenario="quiet-operated", scenario_sha256="", seed=0, parameters={"epoch_ns": 0},
        results={"run_id": "operated-1", "watch_delay_ms": {"p95": 5.0}}, software=software,
    )  # fmt: skip
    made = write_run(folder, history_of(manifest, rows), "events.jsonl.gz")
    scenario = load_scenario(Path("scenarios/faults/quiet-operated.yaml"))
    (made / "scenario.resolved.json").write_text(scenario.model_dump_json(by_alias=True))
    return made


def test_mounts_of_an_operators_pods_are_told_by_how_many_are_on_their_way(tmp_path: Path) -> None:
    """One alone, two, and three that are bound within half a second."""
    together = {"a": 25_000, "b": 32_000, "c": 32_100, "d": 39_000, "e": 39_100, "f": 39_200}
    found = measure([operated_run(tmp_path / "a", together, {"operator": {"name": "reference"}})])["durations"]
    counts = {name: entry["count"] for name, entry in found.items()}
    assert counts == {"volumes-mounted": 3, "volumes-mounted-alone": 1, "volumes-mounted-pair": 2}
    assert all(entry["median_ms"] == pytest.approx(700, abs=15) for entry in found.values())


def array_run(folder: Path, waves: int, tasks: int, launch_ms: int) -> Path:
    """Tasks that slurmctld starts together, whose scripts run so long after that."""
    rows = []
    for wave in range(waves):
        for task in range(tasks):
            detail = json.dumps({"array_task": wave * tasks + task, "by": "main"})
            at = wave * 3 * SECOND + task * MS
            rows.append(Event(at, Kind.JOB_STARTED, "slurmctld", job_id=1, detail=detail))
            rows.append(Event(at + launch_ms * MS, Kind.SCRIPT_STARTED, "slurmd", job_id=1, detail=detail))
    manifest = Manifest(
        world="kind", scenario="quiet-array", scenario_sha256="", seed=0, parameters={"epoch_ns": 0},
        results={"run_id": "array-1"},
    )  # fmt: skip
    return write_run(folder, history_of(manifest, sorted(rows, key=lambda row: row.t_ns)), "events.jsonl.gz")


def test_scripts_that_begin_together_tell_what_each_of_them_adds(tmp_path: Path) -> None:
    """Eight that take 96 ms: 12 by their number, a wave being one span; three are too few, nothing else is read."""
    found = measure([array_run(tmp_path / "a", 5, 8, 96), array_run(tmp_path / "b", 5, 3, 96)])["durations"]
    assert list(found) == ["launch-among"]
    assert (found["launch-among"]["runs"], found["launch-among"]["count"]) == (1, 5)
    assert found["launch-among"]["median_ms"] == pytest.approx(12, rel=0.02)


def test_the_three_quiet_runs_of_operators_show_hooks_cordons_and_scale_ins() -> None:
    """quiet-ended: 15 ends one by one; quiet-slinky: nine cordons; quiet-shrunk: nine scale-ins, none that gives back.
    Where a batch lacks them the twin has theirs."""
    folder = Path(__file__).parents[3] / "scenarios" / "recordings"
    found = measure([folder / name / "26.05" / "pods" / "1" for name in ("quiet-ended", "quiet-slinky")])["durations"]
    shrunk = measure([folder / "quiet-shrunk" / "26.05" / "pods" / "1"])["durations"]
    assert [(shrunk[name]["count"], shrunk[name]["median_ms"]) for name in ("cordon-told", "cordon-done")] == [
        (9, pytest.approx(18.7, rel=0.05)), (9, pytest.approx(14.7, rel=0.12)),
    ]  # fmt: skip
    seen = {
        name: (found[name]["count"], found[name]["median_ms"]) for name in ("pre-stop", "cordon-told", "cordon-done")
    }
    assert seen == {
        "pre-stop": (15, pytest.approx(351, rel=0.05)),
        "cordon-told": (9, pytest.approx(20.6, rel=0.05)),
        "cordon-done": (9, pytest.approx(13.2, rel=0.12)),
    }


def test_jobs_that_take_memory_tell_what_each_part_of_it_takes_of_the_cpu() -> None:
    """quiet-grown: four jobs a run, by their own count; batches that lack it have these (pod_durations.py)."""
    folder = Path(__file__).parents[3] / "scenarios" / "recordings" / "quiet-grown" / "26.05" / "pods"
    found = measure([folder / number for number in "56789"])["durations"]
    for name in ("growth-start", "growth-step", "growth-exit"):
        assert (found[name]["runs"], found[name]["count"]) == (5, 20)
        assert (found[name]["median_ms"], found[name]["sigma"]) == pytest.approx(UNSEEN_MS[name], rel=0.05)


def test_a_relist_takes_what_the_pause_behind_it_is_longer_than_its_second() -> None:
    """Of each kubelet for itself; where one between two has no row nothing is told."""

    def relist(at_ms: int, node: str) -> Event:
        return Event(at_ms * MS, Kind.KUBELET_RELISTED, "kubelet", node=node)

    rows = [
        relist(0, "a"),
        relist(400, "b"),
        relist(1003, "a"),
        relist(1420, "b"),
        relist(3010, "a"),
        relist(4013, "a"),
    ]
    found = [(began[0] - due[0], began[1] - due[1]) for due, began in pod_spans.relists(rows_of_events(rows))]
    assert found == [(3, 3), (20, 20), (3, 3)]


def test_without_a_quiet_run_there_is_nothing_to_fit() -> None:
    """And the message says how to get one."""
    with pytest.raises(InputError, match="no quiet run"):
        measure([])


def test_equal_runs_give_equal_files(tmp_path: Path) -> None:
    """Draws come from named streams."""
    folders = [quiet_run(tmp_path / "a", 1, 6)]
    assert document_text(measure(folders)) == document_text(measure(folders))
    assert json.loads(document_text(measure(folders)))["durations"].keys() == {"pod-start"}


def test_tries_without_a_name_are_measured_beyond_their_seconds() -> None:
    """40.57 s are two attempts of ten tries, two pauses, slurmd's own start and twenty times 24 ms."""
    seen = pod_calibration.Seen()
    pod_calibration._read_attempts(seen, 0, (0.0, 0.0), (40_570.0, 40_570.0))
    pod_calibration._read_attempts(seen, 0, (0.0, 0.0), (400.0, 400.0))
    assert seen.spans["configless-try"] == [[(pytest.approx(24.0), pytest.approx(24.05))]]
