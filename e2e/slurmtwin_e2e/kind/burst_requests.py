"""What a request takes that waited for a stopped API server, measured on a cluster of ours.

`python -m slurmtwin_e2e.kind.burst_requests --cluster NAME` (a running one; it needs some two minutes). The server
is stopped for 2 s and runs for 0.1 s, as by the fault api_server.slow. A merge patch of one ConfigMap is on its way
while it stands; what it takes from the signal by which the server goes on until its answer is the law `burst-request`
(worlds/pod_durations.py). As many patches before that tell what one takes of a server that runs.
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from slurmtwin_e2e.kind.api import Api
from slurmtwin_e2e.kind.attach import attach
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.faults.services import FIND, at_all_times, in_bursts
from slurmtwin_e2e.kind.log_normal import log_normal
from slurmtwin_e2e.kind.node_shell import NodeShell

NAMESPACE: Final = "st-burst-requests"
PAUSE_S: Final = 2.0
STAMPS: Final = "/run/slurmtwin-bursts"
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


def measure(cluster: Cluster, count: int) -> tuple[list[Span], list[Span], list[float]]:
    """Requests to a server that runs, those while it runs in bursts, and the signals (unix seconds)."""
    api, shell = Api(cluster.kubeconfig), NodeShell(cluster.control_plane)
    maps = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    try:
        api.request("POST", maps, {"metadata": {"name": "one"}})
        turn = iter(range(1 << 30))

        def ask() -> None:
            api.patch(f"{maps}/one", {"data": {"turn": str(next(turn))}})

        quick = [_asked(ask) for _ in range(count)]
        pid = shell.run(FIND).text
        shell.run(in_bursts(pid, PAUSE_S, STAMPS))
        try:
            slow = [_asked(ask) for _ in range(count)]
        finally:
            shell.run(at_all_times(pid, PAUSE_S), check=False)
        return quick, slow, [float(stamp) for stamp in shell.run(f"cat {STAMPS}; rm {STAMPS}").text.split()]
    finally:
        shell.close()
        api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}")


def _asked(ask: Callable[[], None]) -> Span:
    time.sleep(BETWEEN_S)
    begun_s = time.time()
    ask()
    return begun_s, time.time()


def summary(quick: Sequence[Span], slow: Sequence[Span], signals_s: Sequence[float]) -> dict[str, Any]:
    """Medians in ms and sigmas of the logarithm, each request that waited, and how far apart the signals were."""
    waited = behind_signals(slow, signals_s)
    cycles = [(b - a) * 1000 for a, b in itertools.pairwise(signals_s)]
    return {
        "usual_ms": log_normal([(end - begin) * 1000 for begin, end in quick]),
        "waited": len(waited), "waited_ms": log_normal(waited), "cycle_ms": log_normal(cycles, digits=2),
        "each_ms": [round(ms, 1) for ms in waited],
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print JSON. Exit 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", required=True, help="a running cluster of ours")
    parser.add_argument("--requests", type=int, default=40)
    options = parser.parse_args(arguments)
    found = measure(attach(options.cluster), options.requests)
    sys.stdout.write(json.dumps(summary(*found)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
