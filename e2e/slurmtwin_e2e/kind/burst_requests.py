"""What a request takes that waited for a stopped API server, measured on a cluster of ours.

`python -m slurmtwin_e2e.kind.burst_requests --cluster NAME` (a running one; it needs some four minutes). The server
is stopped for 2 s and runs for 0.1 s, as by the fault api_server.slow. Reads and merge patches of one ConfigMap and
merge patches of one Pod are on their way while it stands; two more of the kind follow each in the same burst, one
behind the other. How many times as long as usual those take is `slower` (models, api_server/bursts.py). From the signal
by which the server goes on until the answer to one that waited, less so many times its usual, is the law `burst-wake`;
what lies between two signals beyond pause and burst is `burst-cycle` (worlds/pod_durations.py).
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin_e2e.kind.api import Api
from slurmtwin_e2e.kind.attach import attach
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.faults.services import FIND, RUN_S, SIGNALS, at_all_times, in_bursts, signals
from slurmtwin_e2e.kind.log_normal import log_normal
from slurmtwin_e2e.kind.node_shell import NodeShell

NAMESPACE: Final = "st-burst-requests"
MAP: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
PODS: Final = "/api/v1/namespaces/kube-system/pods"
LABEL: Final = "k8s-app=kube-dns"
"""Of the pod that is patched: every cluster has one, and nothing of Slurm's is disturbed."""
MARK: Final = "slurmtwin.dev/burst-requests"
PAUSE_S: Final = 2.0
BEHIND: Final = 2
BETWEEN_S: Final = 0.37
"""Between two requests: they come at any part of a pause."""
WAITED_S: Final = 0.15
"""A request that took longer was on its way while the server stood."""
Span = tuple[float, float]
"""Unix seconds of a request and of its answer."""


def behind_signals(spans: Sequence[Span], signals_s: Sequence[float]) -> list[float]:
    """Of each request that waited, ms from the last signal before its answer, which came while it was under way."""
    out = []
    for asked_s, answered_s in spans:
        place = bisect.bisect_right(signals_s, answered_s)
        if place and answered_s - asked_s > WAITED_S and signals_s[place - 1] > asked_s:
            out.append((answered_s - signals_s[place - 1]) * 1000)
    return out


def in_one_burst(spans: Sequence[Span], signals_s: Sequence[float]) -> list[float]:
    """What those took, ms, that were asked and answered in the same burst."""
    out = []
    for asked_s, answered_s in spans:
        place = bisect.bisect_right(signals_s, answered_s)
        if place and signals_s[place - 1] < asked_s and answered_s < signals_s[place - 1] + RUN_S:
            out.append((answered_s - asked_s) * 1000)
    return out


@dataclass(slots=True)
class Measured:
    """Spans by kind of request: of a server that runs, and while it runs in bursts; its signals (unix seconds)."""

    quick: dict[str, list[Span]] = field(default_factory=dict)
    slow: dict[str, list[Span]] = field(default_factory=dict)
    behind: dict[str, list[Span]] = field(default_factory=dict)
    """Right behind one of `slow`."""
    signals_s: list[float] = field(default_factory=list)


def measure(cluster: Cluster, count: int) -> Measured:
    """So many requests of each kind, in turns, to a server that runs, and as many while it runs in bursts."""
    api, shell = Api(cluster.kubeconfig), NodeShell(cluster.control_plane)
    name = api.request("GET", f"{PODS}?labelSelector={LABEL}")["items"][0]["metadata"]["name"]
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    try:
        api.request("POST", MAP, {"metadata": {"name": "one"}})
        kinds = _kinds(api, f"{PODS}/{name}")
        found = Measured(quick=_in_turns(kinds, count, 0)[0])
        pid = shell.run(FIND).text
        shell.run(in_bursts(pid, PAUSE_S))
        try:
            found.slow, found.behind = _in_turns(kinds, count, BEHIND)
        finally:
            shell.run(at_all_times(pid, PAUSE_S), check=False)
        told = signals(shell.run(f"cat {SIGNALS}; rm {SIGNALS}").text)
        found.signals_s = [at_ns / SECOND for word, at_ns in told if word == "CONT"]
        return found
    finally:
        shell.close()
        api.patch(f"{PODS}/{name}", {"metadata": {"annotations": {MARK: None}}})
        api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}")


def _kinds(api: Api, pod: str) -> dict[str, Callable[[], object]]:
    turns = itertools.count()
    return {
        "read": lambda: api.request("GET", f"{MAP}/one"),
        "patch": lambda: api.patch(f"{MAP}/one", {"data": {"turn": str(next(turns))}}),
        "pod-patch": lambda: api.patch(pod, {"metadata": {"annotations": {MARK: str(next(turns))}}}),
    }


def _in_turns(
    kinds: Mapping[str, Callable[[], object]], count: int, behind: int
) -> tuple[dict[str, list[Span]], dict[str, list[Span]]]:
    """Spans of each kind, and of so many more that follow each at once."""
    spans: dict[str, list[Span]] = {kind: [] for kind in kinds}
    more: dict[str, list[Span]] = {kind: [] for kind in kinds}
    for kind, ask in list(kinds.items()) * count:
        time.sleep(BETWEEN_S)
        spans[kind].append(_asked(ask))
        more[kind] += [_asked(ask) for _ in range(behind)]
    return spans, more


def _asked(ask: Callable[[], object]) -> Span:
    begun_s = time.time()
    ask()
    return begun_s, time.time()


def summary(found: Measured) -> dict[str, Any]:
    """Medians in ms and sigmas of the logarithm: of each kind, of what waking takes, of what cycles have beyond."""
    kinds: dict[str, dict[str, Any]] = {}
    usual: dict[str, float] = {}
    waited: dict[str, list[float]] = {}
    for kind, spans in found.slow.items():
        took, behind = _took_ms(found.quick[kind]), in_one_burst(found.behind.get(kind, []), found.signals_s)
        usual[kind], waited[kind] = statistics.median(took), behind_signals(spans, found.signals_s)
        kinds[kind] = {
            "usual_ms": log_normal(took), "waited": len(waited[kind]), "waited_ms": log_normal(waited[kind]),
            "behind": len(behind), "slower": round(statistics.median(behind) / usual[kind], 2) if behind else 1.0,
        }  # fmt: skip
    slower = statistics.median(each["slower"] for each in kinds.values()) if kinds else 1.0
    wake = [ms - slower * usual[kind] for kind in kinds for ms in waited[kind]]
    cycles = [(b - a - PAUSE_S - RUN_S) * 1000 for a, b in itertools.pairwise(found.signals_s)]
    return {
        "kinds": kinds, "slower": slower,
        "wake_ms": log_normal(wake, least_ms=1), "each_wake_ms": [round(ms, 1) for ms in wake],
        "cycle_ms": log_normal(cycles, digits=2), "each_cycle_ms": [round(ms, 2) for ms in cycles],
    }  # fmt: skip


def _took_ms(spans: Sequence[Span]) -> list[float]:
    return [(answered_s - asked_s) * 1000 for asked_s, answered_s in spans]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print JSON. Exit 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", required=True, help="a running cluster of ours")
    parser.add_argument("--requests", type=int, default=40, help="of each kind")
    options = parser.parse_args(arguments)
    found = measure(attach(options.cluster), options.requests)
    sys.stdout.write(json.dumps(summary(found)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
