"""How a worker of the reference operator ends: a label, a deletion, a relist, a hook, SIGTERM (quiet-ended)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import pytest
from replicated_runs import SCENARIOS, replicated

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.worlds.pod_durations import still_durations
from slurmtwin.worlds.twin import TwinOptions, run_scenario
from slurmtwin_reports.load import load_run

Durations = dict[str, tuple[int, ...]]


def run(path: Path, changed: Durations) -> list[Event]:
    """One run with these durations, the others at their medians."""
    options = TwinOptions(keep=True, durations={**still_durations(), **changed}, still=True)
    return run_scenario(load_scenario(path), path.parent, options).kept or []


def ends(rows: list[Event]) -> list[dict[str, int]]:
    """Of each worker's pod that is deleted when that came, when its kubelet stopped it, DOWN, slurmd's last line and
    the end as a watcher heard it."""
    found: dict[str, dict[str, int]] = {}
    over: list[dict[str, int]] = []
    for row in sorted(rows, key=lambda row: row.t_ns):
        said = json.loads(row.detail or "{}")
        pod = str(said.get("pod", said.get("about", ""))).rpartition("/")[2]
        if row.kind is Kind.POD_DELETING and row.actor == "apiserver" and said.get("app") == "slurmd":
            found[pod] = {"deleted": row.t_ns}
        elif (
            row.kind is Kind.KUBE_EVENT
            and row.actor == "apiserver"
            and said.get("reason") == "Killing"
            and pod in found
        ):
            found[pod].setdefault("stopped", row.t_ns)
        elif row.kind in (Kind.NODE_DOWN, Kind.SLURMD_STOPPED) and row.node in found:
            found[row.node].setdefault(row.kind.value, row.t_ns)
        elif row.kind is Kind.POD_ENDED and row.actor == "collector" and pod in found:
            over.append(found.pop(pod) | {"told": row.t_ns})
    return over


def test_a_hook_says_down_at_its_end_and_sigterm_follows() -> None:
    """Recorded: DOWN 0.24 to 0.41 s behind the kubelet's word, slurmd's last line 12 to 194 ms behind that."""
    lasts: Durations = {"pre-stop": (600 * MS,), "stop-heard": (70 * MS,), "stop-told": (400 * MS,)}
    lasts["pod-create"] = still_durations()["pod-patch"]  # what a request and a watch draw, 4 to 20 ms, goes by it
    seen = ends(run(SCENARIOS / "operator" / "op-delete.yaml", lasts))
    assert len(seen) == 4
    for end in seen:
        assert end["node.down"] - end["stopped"] == pytest.approx(600 * MS, abs=10 * MS)
        assert end["slurmd.stopped"] - end["stopped"] == pytest.approx(665 * MS, abs=12 * MS)


@pytest.mark.parametrize(("alone_ms", "beside_ms"), [(300, 519), (150, 212)])
def test_an_end_beside_others_takes_longer(alone_ms: int, beside_ms: int) -> None:
    """quiet-deleted: 0.75 of its law alone, 1.14 of pairs. Three idle workers end as their relists
    come, as long beside each other as they overlap (612 and 306 were all at once), one later alone."""
    told: Durations = {"pre-stop": (600 * MS,), "stop-heard": (70 * MS,), "stop-told": (alone_ms * MS * 4 // 3,)}
    seen = ends(run(SCENARIOS / "operator" / "op-delete.yaml", told))
    took_ms = sorted((end["told"] - end["slurmd.stopped"]) / MS for end in seen)
    assert took_ms[0] == pytest.approx(alone_ms, abs=25)
    assert median(took_ms[1:]) == pytest.approx(beside_ms, abs=30)


def test_a_deletion_right_behind_a_label_waits_for_a_relist() -> None:
    """Recorded 0.06 to 0.99 s in 15 of 15, of one worker at a time."""
    waits = [
        (end["stopped"] - end["deleted"]) / SECOND
        for number in range(4)
        for end in ends(replicated(SCENARIOS / "faults" / "quiet-ended.yaml", "1", number))
    ]
    assert len(waits) >= 50
    assert all(0 <= wait <= 1.02 for wait in waits)
    assert 0.4 <= sum(waits) / len(waits) <= 0.6


def test_a_relist_is_when_the_recording_has_it() -> None:
    """op-delete #11: its kubelets said 14.16 to 14.20 s that they stop the idle workers, behind a relist."""
    for number in range(4):
        idle = ends(replicated(SCENARIOS / "operator" / "op-delete.yaml", "11", number))[:3]
        assert all(end["stopped"] / SECOND == pytest.approx(14.165, abs=0.03) for end in idle)


def removed_behind_ms(rows: Iterable[tuple[int, str]]) -> list[float]:
    """Of removals (ns, node) on one kubelet within 0.3 s: each one's time behind the one before it."""
    behind: list[float] = []
    last: dict[str, tuple[int, int]] = {}
    for at_ns, node in rows:
        first_ns, before_ns = last.get(node, (-SECOND, 0))
        together = at_ns - first_ns < 300 * MS
        if together:
            behind.append((at_ns - before_ns) / MS)
        last[node] = (first_ns if together else at_ns, at_ns)
    return behind


def removals(rows: Iterable[Any]) -> list[tuple[int, str]]:
    """When a collector heard of each pod's removal, and its node."""
    return [(row.t_ns, row.node) for row in rows if str(row.kind) == "pod.deleted" and row.actor == "collector"]


def test_removals_of_one_kubelet_come_one_behind_the_other() -> None:
    """A pod's turn among the statuses has its look and its removal in it (status_manager.go syncPod()); with a clean-up
    of 0.2 s each of a node's four is that much behind the one before."""
    rows = run(SCENARIOS / "faults" / "quiet-operated.yaml", {"clean-up": (200 * MS,)})
    behind_ms = removed_behind_ms(removals(rows))
    assert len(behind_ms) >= 6
    assert behind_ms == pytest.approx([200.0] * len(behind_ms), abs=12)


def test_removals_of_a_real_kubelet_are_a_clean_up_apart() -> None:
    """docs/surprises.md: those of quiet-deleted, one or two at a time, and quiet-operated, up to four on a machine."""
    behind_ms: list[float] = []
    for name in ("quiet-deleted", "quiet-operated"):
        for folder in sorted((SCENARIOS / "recordings" / name / "26.05" / "pods").iterdir()):
            behind_ms += removed_behind_ms(removals(load_run(folder).rows()))
    assert len(behind_ms) >= 350
    assert quantiles(behind_ms, n=4) == pytest.approx([16.4, 23.6, 42.3], abs=1)


@pytest.mark.parametrize("name", ["config-told", "reconfigured"])
def test_an_option_is_read_in_place_as_late_as_its_two_laws_say(name: str) -> None:
    """quiet-configured: what the passes take until slurmctld is told, and its new process (op-config-change)."""
    path = SCENARIOS / "operator" / "op-config-change.yaml"
    read_ns = []
    for takes_ms in (100, 250):
        rows = run(path, {"config-told": (100 * MS,), "reconfigured": (100 * MS,), name: (takes_ms * MS,)})
        asked_ns = next(row.t_ns for row in rows if row.kind is Kind.FAULT_INJECTED)
        read_ns.append(next(r.t_ns for r in rows if r.kind is Kind.SLURMCTLD_STARTED and r.t_ns > asked_ns) - asked_ns)
    assert read_ns[1] - read_ns[0] == 150 * MS
    assert read_ns[0] == pytest.approx(3500 * MS, abs=2 * MS), "3 s for the mount, three gathers of 100 ms"
