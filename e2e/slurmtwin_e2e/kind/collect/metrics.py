"""Samples of the daemons' /metrics, read through the API server: its own, each kubelet's, slurmctld's (26.05).

A sample is a row when its value changed. What it tells was true between the request and its answer, or shortly
before: a daemon may keep a figure for some seconds. The pages of the API server and the kubelets are long: a round over
them takes a second, in which a pod starts 0.2 to 0.5 s later. So they are read before and behind a run, not beside it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin_e2e.collect.run_events import detail
from slurmtwin_e2e.kind.api import ApiError
from slurmtwin_e2e.kind.collect.telling_thread import TellingThread

PERIOD_S: Final = 10.0
LIMIT_S: Final = 5.0
_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{[^}]*\})? ([-+.\deE]+)(?: \d+)?$")


class Server(Protocol):
    """What is asked of an API server."""

    def text(self, path: str, limit_s: float) -> str:
        """The body of one GET request. Raises ApiError."""


@dataclass(frozen=True, slots=True)
class Source:
    """One /metrics page: whose it is, the Kubernetes node (None: the cluster's), its path, and what is read of it."""

    actor: str
    node: str | None
    path: str
    units: dict[str, str]
    """Metric -> unit of the row: `ns` for metrics that count seconds, else what is counted."""
    each_round: bool = True
    """False: read at the begin and the end alone."""


KUBELET: Final = {
    "kubelet_running_pods": "pod",
    "kubelet_running_containers": "container",
    "process_cpu_seconds_total": "ns",
}
API_SERVER: Final = {
    "apiserver_current_inflight_requests": "request",
    "apiserver_registered_watchers": "watch",
    "process_cpu_seconds_total": "ns",
}
SLURMCTLD: Final = {
    "slurm_jobs_pending": "job",
    "slurm_jobs_running": "job",
    "slurm_jobs_completing": "job",
}


def sources(nodes: Sequence[str], namespace: str, controllers: Sequence[str], port: int) -> list[Source]:
    """All pages of a run; `controllers` are empty for a Slurm that serves none."""
    found = [Source("apiserver", None, "/metrics", API_SERVER, each_round=False)]
    path = "/api/v1/nodes/{}/proxy/metrics"
    found += [Source("kubelet", node, path.format(node), KUBELET, each_round=False) for node in nodes]
    services = f"/api/v1/namespaces/{namespace}/services"
    found += [
        Source("slurmctld", name, f"{services}/{name}:{port}/proxy/metrics/jobs", SLURMCTLD) for name in controllers
    ]
    return found


def values(text: str, wanted: dict[str, str]) -> dict[str, int]:
    """The wanted metrics of a page, samples of one name added up; seconds become nanoseconds."""
    out: dict[str, int] = {}
    for line in text.splitlines():
        found = _SAMPLE.match(line)
        if found and found[1] in wanted:
            scale = SECOND if wanted[found[1]] == "ns" else 1
            out[found[1]] = out.get(found[1], 0) + round(float(found[2]) * scale)
    return out


@dataclass(slots=True)
class MetricsReader:
    """Reads pages each PERIOD_S from start() to stop(), and all of them first and last; rows have unix times."""

    server: Server
    pages: Sequence[Source]
    clock: Callable[[], int] = time.time_ns
    rows: list[Event] = field(default_factory=list)
    _last: dict[tuple[str, str | None, str], int] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    lost: list[str] = field(default_factory=list)
    """The error that ended its thread, if any, when that was stopped."""
    _thread: TellingThread | None = None

    def start(self) -> None:
        """Read all pages, and go on in a thread of its own."""
        self._thread = TellingThread(self._run, "pages of metrics")
        self.read(self.pages)
        self._thread.start()

    def stop(self) -> list[Event]:
        """End after the page that is being read, then read all once more; all rows."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            self.lost += [self._thread.lost] if self._thread.lost else []
            self._thread = None
            self.read(self.pages)
        return self.rows

    def _run(self) -> None:
        while not self._over.wait(PERIOD_S):
            self.read([page for page in self.pages if page.each_round])

    def read(self, pages: Sequence[Source]) -> None:
        """One round; a page that does not answer is passed over."""
        for page in pages:
            self.rows += self._read(page)

    def _read(self, page: Source) -> Iterator[Event]:
        before = self.clock()
        try:
            text = self.server.text(page.path, LIMIT_S)
        except ApiError:
            return
        after = self.clock()
        for name, value in values(text, page.units).items():
            key = (page.actor, page.node, name)
            if self._last.get(key) == value:
                continue
            self._last[key] = value
            yield Event(
                (before + after) // 2, Kind.METRIC_READ, page.actor, None, page.node, value, page.units[name],
                detail(metric=name), t_err_ns=(after - before) // 2 + 1,
            )  # fmt: skip
