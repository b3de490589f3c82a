"""What pods say of their nodes' last jobs: what changed tells what a look at all would."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.adapters.deadlines import Deadlines
from slurmtwin.adapters.patches import DEADLINE, dated
from slurmtwin.adapters.views import pod_view
from slurmtwin.models.api_server.objects import Meta, Pod, PodSpec
from slurmtwin_operator.core.observed import SlurmJob

NODES = ("w-0", "w-1", "w-2")
SAYS = st.sampled_from(["", "7", "8", "07", "soon"])
JOBS = st.lists(
    st.builds(
        SlurmJob, st.just(1), st.sampled_from(["RUNNING", "COMPLETING"]),
        st.lists(st.sampled_from(NODES), unique=True).map(tuple), st.sampled_from([0, 7, 8, 9]),
    ), max_size=4,
).map(tuple)  # fmt: skip
STEP = st.tuples(st.sampled_from(NODES), SAYS | st.none(), JOBS | st.none())
"""A pod says so (None: it goes), and the next list comes (None: it shows nothing new)."""


def a_pod(name: str, says: str) -> Pod:
    return dated(Pod(meta=Meta(name=name, namespace="d", uid=name), spec=PodSpec(node_name="n")), says)


def by_a_look(pods: dict[str, Pod], jobs: tuple[SlurmJob, ...]) -> list[tuple[str, str]]:
    """Each pod beside the latest end of its node's running jobs."""
    out = []
    for name, pod in pods.items():
        ends = [job.end_ns for job in jobs if job.state == "RUNNING" and name in job.nodes]
        wanted, says = str(max(ends)) if ends else "", pod.meta.annotations.get(DEADLINE, "")
        if wanted != (str(int(says)) if says.isdecimal() else says):
            out.append((name, wanted))
    return out


@given(st.lists(STEP, max_size=12))
def test_pods_that_say_another_end_are_those_that_a_look_at_all_finds(
    steps: list[tuple[str, str | None, tuple[SlurmJob, ...] | None]],
) -> None:
    """Pods come, go and are written; lists come. What is no number is wrong; 07 is 7."""
    deadlines = Deadlines()
    pods: dict[str, Pod] = {}
    jobs: tuple[SlurmJob, ...] = ()
    for name, says, listed in steps:
        old = pods.pop(name, None)
        new = None if says is None else a_pod(name, says)
        if new is not None:
            pods[name] = new
        if old is not None or new is not None:
            deadlines.pod_changed(old, new)
        jobs = jobs if listed is None else listed
        found = tuple(pod_view(pod, "w") for pod in pods.values())
        assert [(view.name, says) for view, says in deadlines.wrong("d", jobs, found)] == by_a_look(pods, jobs)


def test_another_namespace_is_another_cluster() -> None:
    """Pods of one name, each with its own date."""
    deadlines = Deadlines()
    here = a_pod("w-0", "7")
    there = dated(replace(here, meta=replace(here.meta, namespace="e")), "8")
    jobs = (SlurmJob(1, "RUNNING", ("w-0",), 7),)
    deadlines.pod_changed(None, here)
    deadlines.pod_changed(None, there)
    assert deadlines.wrong("d", jobs, (pod_view(here, "w"),)) == []
    assert [says for _, says in deadlines.wrong("e", jobs, (pod_view(there, "w"),))] == ["7"]
