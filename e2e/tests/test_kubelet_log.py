"""Relists and syncs of pods, read from lines that a kubelet of v1.34.2 wrote."""

from __future__ import annotations

import json

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.kubernetes import Kubelet
from slurmtwin_e2e.kind import spec
from slurmtwin_e2e.kind.collect.kubelet_log import kept, parse

RELIST = (
    '1795316933.482542 node kubelet[3559]: I1122 03:08:53.474963    3559 generic.go:240] "GenericPLEG: Relisting"\n'
)
SYNC = (
    "1795316933.482542 node kubelet[3559]: I1122 03:08:53.478285    3559 kubelet.go:1909] "
    '"SyncPod enter" pod="st-x1/w-0" podUID="64a705ae-3b65-4e8c-bb19-7a754d6a0f11"\n'
)


def test_a_lines_own_stamp_counts_and_not_the_journals() -> None:
    """The kubelet wrote 7.6 ms before the journal took it."""
    [row] = parse(RELIST, "node")
    assert (row.kind, row.node, row.t_ns) == (Kind.KUBELET_RELISTED, "node", 1795316933_474963_000)


def test_a_line_just_before_midnight_that_the_journal_took_after_it_keeps_its_day() -> None:
    """klog names no year, so the day comes from the journal."""
    line = RELIST.replace("1795316933.482542", "1795305600.001000").replace("03:08:53.474963", "23:59:59.999000")
    [row] = parse(line, "node")
    assert row.t_ns == 1795305599_999000_000


def test_a_node_in_another_zone_tells_the_same_time() -> None:
    """klog writes local time."""
    [row] = parse(RELIST.replace("03:08:53", "08:38:53"), "node")
    assert row.t_ns == 1795316933_474963_000


def test_a_sync_names_its_pod() -> None:
    """As every other row about a pod does."""
    [row] = parse(SYNC, "node")
    assert (row.kind, json.loads(row.detail or "")) == (Kind.POD_SYNCED, {"pod": "st-x1/w-0"})


def test_a_probe_that_succeeds_names_its_pod_its_container_and_its_kind() -> None:
    """Each line of prober.go, written right behind the answer."""
    line = (
        "1795316933.482542 node kubelet[3559]: I1122 03:08:53.478285    3559 prober.go:111] "
        '"Probe succeeded" probeType="Liveness" pod="st-x1/w-0" podUID="64a705ae-3b65" containerName="slurmd"\n'
    )
    [row] = parse(line, "node")
    told = {"pod": "st-x1/w-0", "container": "slurmd", "probe": "liveness"}
    assert (row.kind, json.loads(row.detail or "")) == (Kind.POD_PROBED, told)


def test_of_a_probes_successes_the_first_three_and_the_last_before_each_fault_are_kept() -> None:
    """Its ticks stand for as long as its pod lives."""

    def probed(at_s: int, probe: str) -> Event:
        return Event(at_s * SECOND, Kind.POD_PROBED, "kubelet", detail=probe)

    rows = [probed(at, probe) for at in range(1, 90, 10) for probe in ("liveness", "readiness")]
    found = {(row.t_ns // SECOND, row.detail) for row in kept(iter(rows), [52 * SECOND, 55 * SECOND, 80 * SECOND])}
    assert found == {(at, probe) for at in (1, 11, 21, 51, 71) for probe in ("liveness", "readiness")}


def test_other_lines_are_no_rows() -> None:
    """Housekeeping, and what another program writes."""
    other = RELIST.replace('"GenericPLEG: Relisting"', '"SyncLoop (housekeeping)"')
    assert list(parse(f"{other}-- Boot 5f --\n", "node")) == []


def test_of_relists_those_around_a_fault_are_kept_and_every_sync() -> None:
    """A second's relists on each node for a whole run would be most of its rows."""
    rows = [Event(at * SECOND, Kind.KUBELET_RELISTED, "kubelet") for at in range(100)]
    rows.append(Event(90 * SECOND, Kind.POD_SYNCED, "kubelet"))
    found = list(kept(iter(rows), [50 * SECOND + 500 * MS]))
    assert [row.t_ns // SECOND for row in found] == [*range(48, 56), 90]


def test_kubelets_are_told_to_log_it() -> None:
    """By file, so that nothing else of that verbosity is written."""
    assert spec.kubelet_patch(Kubelet())["logging"] == {
        "vmodule": [
            {"filePattern": "generic", "verbosity": 5},
            {"filePattern": "kubelet", "verbosity": 4},
            {"filePattern": "prober", "verbosity": 3},
        ]
    }
