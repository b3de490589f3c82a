"""Samples of /metrics: what is read of a page, and that only changes are rows, between request and answer."""

from __future__ import annotations

import threading
from itertools import count

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin_e2e.kind.api import ApiError
from slurmtwin_e2e.kind.collect import metrics
from slurmtwin_e2e.kind.collect.metrics import MetricsReader, Source, sources, values

PAGE = """\
# HELP kubelet_running_pods Number of pods
# TYPE kubelet_running_pods gauge
kubelet_running_pods 7
kubelet_running_containers{container_state="running"} 5
kubelet_running_containers{container_state="exited"} 2
process_cpu_seconds_total 1.25e+01
kubelet_running_pods_other 99
"""


@pytest.mark.parametrize(
    ("name", "unit", "value"),
    [
        ("kubelet_running_pods", "pod", 7),
        ("kubelet_running_containers", "container", 7),
        ("process_cpu_seconds_total", "ns", 12_500_000_000),
    ],
)
def test_a_page_is_read_by_name(name: str, unit: str, value: int) -> None:
    """Samples with labels are added up, seconds become nanoseconds, comments and other names are passed over."""
    assert values(PAGE, {name: unit}) == {name: value}


class Pages:
    """A server that answers from a list, an error for None."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)

    def text(self, path: str, limit_s: float) -> str:
        """The next answer."""
        answer = self.answers.pop(0)
        if answer is None:
            raise ApiError(503, "no endpoints")
        return answer


def test_only_changes_are_rows_and_an_answer_that_fails_is_none() -> None:
    """The same value twice is one row; its time lies between request and answer."""
    page = Source("slurmctld", "slurmctld-0", "/x", {"slurm_jobs_pending": "job"})
    ticks = count(0, 10 * SECOND)
    answers = Pages("slurm_jobs_pending 3", "slurm_jobs_pending 3", None, "slurm_jobs_pending 0")
    reader = MetricsReader(answers, [page], lambda: next(ticks))
    for _ in range(4):
        reader.read(reader.pages)
    assert [(row.t_ns // SECOND, row.value, row.unit, row.node) for row in reader.rows] == [
        (5, 3, "job", "slurmctld-0"),
        (55, 0, "job", "slurmctld-0"),
    ]
    assert {row.t_err_ns for row in reader.rows} == {5 * SECOND + 1}


def test_every_kubelet_is_asked_and_slurmctld_where_it_serves_metrics() -> None:
    """One page per node, one of the API server, one per controller named."""
    assert [page.actor for page in sources(["a", "b"], "n", [], 6817)] == ["apiserver", "kubelet", "kubelet"]
    assert sources([], "n", ["slurmctld-0"], 6817)[-1].path.endswith("services/slurmctld-0:6817/proxy/metrics/jobs")


def test_long_pages_are_read_before_and_behind_a_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server's and the kubelets', which take a second and what starts meanwhile half a second more."""
    asked: list[str] = []
    there = threading.Event()

    class Noting:
        def text(self, path: str, limit_s: float) -> str:
            asked.append(path.rsplit("/", 1)[-1])
            if len(asked) > 8:
                there.set()
            return ""

    monkeypatch.setattr(metrics, "PERIOD_S", 0.001)
    reader = MetricsReader(Noting(), sources(["a"], "n", ["slurmctld-0"], 6817))
    reader.start()
    assert there.wait(10)
    assert reader.stop() == reader.stop() == []
    assert asked[:3] == ["metrics", "metrics", "jobs"] == asked[-3:]
    assert set(asked[3:-3]) == {"jobs"}
