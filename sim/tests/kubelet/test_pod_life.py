"""A pod's life on a node: start, restart, end, and what holds it up or evicts it (kubernetes.md 2 to 4)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.contract.quantity import MIB
from slurmtwin.models.api_server.objects import Container, Meta, Node, Pod, Volume
from slurmtwin.models.api_server.watch import DELETED
from slurmtwin.models.kubelet.container_runtime import LateMount, StartCosts
from slurmtwin.models.kubelet.eviction import EvictionState, read_thresholds
from slurmtwin.models.kubelet.node_pressure import NodeUse
from slurmtwin.models.kubelet.program import Service

STARTED, ENDED, WAITING = Kind.CONTAINER_STARTED, Kind.CONTAINER_ENDED, Kind.CONTAINER_WAITING


def test_a_pod_starts_within_its_costs_and_is_ready_at_the_next_relist(one_node: Any) -> None:
    """Mount 350 ms, sandbox 300, create 45, start 110, then up to 1 s until the kubelet sees it."""
    node = one_node()
    node.create()
    node.run(10)
    [started], [ready] = node.times(STARTED), node.times(Kind.POD_READY)
    assert started == pytest.approx(1.805, abs=0.02)
    assert 0 < ready - started <= 1
    assert node.pod().status.phase == "Running"


def test_the_first_restart_comes_at_once_then_10_20_40_s(one_node: Any) -> None:
    """Up to 1 s to see the end; back-off checked each 10 to 15 s (+ 1 s tick) in 1.34 (kubernetes.md 2.9 to 2.12)."""
    node = one_node(lambda pod, container: Service(run_ns=2 * SECOND, exit_code=1))
    node.create()
    node.run(200)
    starts, ends = node.times(STARTED), node.times(ENDED)
    gaps = [start - end for end, start in zip(ends, starts[1:], strict=False)]
    assert gaps[0] < 1.3
    for gap, least in zip(gaps[1:4], (10, 20, 40), strict=True):
        assert least <= gap <= least + 17.3


def test_a_container_that_comes_back_takes_what_a_restart_takes(one_node: Any) -> None:
    """Its sandbox and volumes are there, its predecessor is removed: a start of its own kind (StartCosts.restart)."""
    gaps = []
    for restart in (lambda: 110 * MS, lambda: 2 * SECOND):
        node = one_node(
            lambda pod, container: Service(run_ns=2 * SECOND, exit_code=1), costs=StartCosts(restart=restart)
        )
        node.create()
        node.run(10)
        gaps.append(node.times(STARTED)[1] - node.times(ENDED)[0])
    assert gaps[1] - gaps[0] == pytest.approx(1.89, abs=0.01)


def replaces(node: Any, verb: str, _: Any, last: Any) -> None:
    """As soon as pod a is gone there is pod b."""
    if verb == DELETED and isinstance(last, Pod) and last.meta.name == "a":
        node.client.create(Pod(meta=Meta(name="b", namespace="d"), spec=last.spec))


def test_a_pod_that_comes_back_alone_waits_for_a_refused_list(one_node: Any) -> None:
    """Its volumes are looked at each 300 ms, as always; a pod beside it finds the objects listed, and one that comes
    10 s behind them is let list them."""
    late, asked = LateMount(round(1.95 * SECOND), (round(1.1 * SECOND), round(1.15 * SECOND))), []

    def late_mount() -> LateMount:
        asked.append(1)
        return late

    usual = one_node(costs=StartCosts(mount=lambda uid: 300 * MS))
    node = one_node(costs=StartCosts(mount=lambda uid: 300 * MS, late_mount=late_mount))
    for one in (usual, node):
        for at_s, name in ((1, "a"), (30, "c"), (80, "e")):
            one.create(at_s=at_s, name=name)
        one.delete(10, grace_s=1, name="a")
        one.server.on_write.append(partial(replaces, one))
        one.delete(60, grace_s=1, name="b")
        one.delete(70, grace_s=1, name="c")
        one.run(100)
    first, second, *others = (a - b for a, b in zip(node.times(STARTED), usual.times(STARTED), strict=True))
    assert (first, second) == (0, pytest.approx(1.8, abs=0.001))
    assert others == [pytest.approx(0, abs=0.05)] * 2
    assert len(asked) == 1
    failed = [row.t_ns for row, said in node.rows(Kind.KUBE_EVENT, "collector") if said["reason"] == "FailedMount"]
    begun_s = node.times(STARTED)[1] - (usual.times(STARTED)[1] - usual.times(Kind.POD_CREATED)[1]) - 1.8
    assert [at_ns / SECOND - begun_s for at_ns in failed] == pytest.approx([1.11, 1.16], abs=0.02)


def test_a_pod_that_comes_back_beside_another_finds_its_objects_listed(one_node: Any) -> None:
    """The other one holds the references (AddReference()): of 1,200 such pods none waited."""
    asked: list[int] = []
    node = one_node(costs=StartCosts(late_mount=lambda: asked.append(1)))
    for name in ("a", "beside"):
        node.create(name=name)
    node.server.on_write.append(partial(replaces, node))
    node.delete(10, grace_s=1, name="a")
    node.run(30)
    assert node.pod("b") is not None
    assert not asked


def test_a_container_has_sigterm_once_its_runtime_has_run_runc(one_node: Any) -> None:
    """StartCosts.term: its end comes so much later, and its grace begins then."""
    ends = []
    for term_ns, stop_ns in ((0, 100 * MS), (60 * MS, 100 * MS), (60 * MS, None)):
        program = Service(stop_ns=stop_ns)
        node = one_node(lambda pod, container, program=program: program, costs=StartCosts(term=lambda ns=term_ns: ns))
        node.create()
        node.delete(20, grace_s=2)
        node.run(30)
        ends.append(node.times(ENDED)[0])
    assert ends[1] - ends[0] == pytest.approx(0.06, abs=0.001)
    assert ends[2] - ends[0] == pytest.approx(1.96, abs=0.001)


def test_a_container_that_outlives_its_grace_ends_one_run_of_runc_later(one_node: Any) -> None:
    """StartCosts.kill: one that ends before knows nothing of it, one that ends beside it is not killed."""
    ends: dict[tuple[int, int | None], float] = {}
    for kill_ms, stop_ms in ((0, None), (60, None), (60, 100), (60, 2030)):
        program = Service(stop_ns=None if stop_ms is None else stop_ms * MS)
        node = one_node(
            lambda pod, container, program=program: program, costs=StartCosts(kill=lambda ms=kill_ms: ms * MS)
        )
        node.create()
        node.delete(20, grace_s=2)
        node.run(30)
        ends[kill_ms, stop_ms] = node.times(ENDED)[0] - 20
    assert ends[60, None] - ends[0, None] == pytest.approx(0.06, abs=0.001)
    assert ends[0, None] - ends[60, 100] == pytest.approx(1.9, abs=0.001)
    assert ends[0, None] - ends[60, 2030] == pytest.approx(-0.03, abs=0.001)


@pytest.mark.parametrize(
    ("marks_s", "waits"),
    [((), False), ((15.0,), False), ((20.0,), True), ((19.0, 19.02), True), ((19.98, 20.0), True)],
    ids=["none", "long ago", "just now", "twice within a relist", "twice just now"],
)
def test_a_pod_that_was_marked_is_stopped_at_a_relist(one_node: Any, marks_s: tuple[float, ...], waits: bool) -> None:
    """A label syncs it, and the next sync waits for a newer look (podCache.GetNewerThan()): 15 of 15 ends under the
    reference operator, which labels a pod 15 ms before it deletes it (quiet-ended). Marks within one relist are two
    syncs, the second at the next one."""
    node = one_node(lambda pod, container: Service(stop_ns=0))
    node.create()
    for number, at_s in enumerate(marks_s):
        meta = {"labels": {"mark": str(number)}}
        node.at(
            at_s, lambda meta=meta: node.client.patch(Pod, "d/a", lambda p: replace(p, meta=replace(p.meta, **meta)))
        )
    node.delete(20.02)
    node.run(30)
    [ended] = node.times(ENDED)
    ticks = node.machine.kubelet.relist.ticks
    relist = ticks.next_after(round(20.03 * SECOND)) / SECOND
    assert relist - 20.03 > 0.1, "a seed whose relist is far enough away"
    assert (ended == pytest.approx(relist, abs=0.01)) is waits
    assert (ended == pytest.approx(20.03, abs=0.01)) is not waits


def test_a_hook_is_told_when_it_begins(one_node: Any) -> None:
    """And SIGTERM comes behind it."""
    node = one_node(lambda pod, container: Service(stop_ns=0))
    hooked = []
    node.runtime.hooked = lambda pod: hooked.append((pod.meta.name, node.env.now_ns / SECOND))
    node.create(Container(name="c", pre_stop_ns=400 * MS))
    node.delete(20)
    node.run(30)
    [(name, at_s)] = hooked
    assert (name, at_s) == ("a", pytest.approx(20.01, abs=0.01))
    assert node.times(ENDED)[0] - at_s == pytest.approx(0.4, abs=0.001)


def test_1_35_restarts_within_half_a_back_off(one_node: Any) -> None:
    """U(r, 1.5 r) of what is left."""
    node = one_node(lambda pod, container: Service(run_ns=2 * SECOND, exit_code=1), "1.35")
    node.create()
    node.run(200)
    gap = node.times(STARTED)[2] - node.times(ENDED)[1]
    assert 10 <= gap <= 17.3


def test_crash_loop_back_off_is_shown_at_the_next_look_only(one_node: Any) -> None:
    """The status is made before the start is refused: its reason waits for the next sync (x63-oom-slurmd)."""
    node = one_node(lambda pod, container: Service(run_ns=2 * SECOND, exit_code=1))
    node.create()
    node.run(60)
    [refused, *_] = node.times(Kind.KUBE_EVENT, reason="BackOff")
    [shown, *_] = node.times(WAITING, "collector", reason="CrashLoopBackOff")
    assert 10 <= shown - refused <= 16.1


def test_a_start_that_dies_between_two_relists_was_never_running(one_node: Any) -> None:
    """Its end alone is told, and the pod never was Ready."""
    node = one_node(lambda pod, container: Service(run_ns=1 * MS, exit_code=137))
    node.create()
    node.run(3)
    assert not node.times(STARTED, "collector")
    assert len(node.times(ENDED, "collector")) == 1
    assert not node.times(Kind.POD_READY)


@pytest.mark.parametrize(
    ("policy", "code", "phase"), [("Never", 0, "Succeeded"), ("Never", 3, "Failed"), ("OnFailure", 0, "Succeeded")]
)
def test_a_pod_that_is_done_has_a_final_phase(one_node: Any, policy: str, code: int, phase: str) -> None:
    """And its object stays: nobody asked to delete it."""
    node = one_node(lambda pod, container: Service(run_ns=5 * SECOND, exit_code=code))
    node.create(restart_policy=policy)
    node.run(30)
    assert node.pod().status.phase == phase
    assert len(node.times(STARTED)) == 1
    assert not node.runtime.pods


# deletion


def test_a_deleted_pod_gets_sigterm_and_leaves_within_two_seconds(one_node: Any) -> None:
    """Container ends, phase Succeeded, clean-up after the next relist, object gone (recorded in x3: 0.3 to 0.6 s)."""
    node = one_node()
    node.create()
    node.delete(10)
    node.run(20)
    [ended], [gone] = node.times(ENDED), node.times(Kind.POD_DELETED, "collector")
    assert ended == pytest.approx(10, abs=0.1)
    assert 0.25 < gone - ended < 1.4
    assert node.pod() is None
    assert node.rows(Kind.POD_ENDED, "collector")[0][1]["phase"] == "Succeeded"


@pytest.mark.parametrize(("grace_s", "killed_s"), [(30, 30), (5, 5), (1, 2)])
def test_a_program_that_ignores_sigterm_is_killed_when_its_grace_is_over(
    one_node: Any, grace_s: int, killed_s: int
) -> None:
    """Two seconds at least (kubernetes.md 3.5)."""
    node = one_node(lambda pod, container: Service(stop_ns=None))
    node.create()
    node.delete(10, grace_s)
    node.run(60)
    [(row, said)] = node.rows(ENDED)
    assert row.t_ns / SECOND == pytest.approx(10 + killed_s, abs=0.1)
    assert said["exit_code"] == 137


def test_a_forced_deletion_takes_the_object_first_and_the_processes_after(one_node: Any) -> None:
    """Grace 0: the name is free at once, the old container has 2 s yet (recorded in x46)."""
    node = one_node(lambda pod, container: Service(stop_ns=None))
    node.create()
    node.delete(10, 0)
    node.run(11)
    assert node.pod() is None
    assert [i.running for p in node.runtime.pods.values() for i in p.running()] == [True]
    node.run(14)
    assert not node.runtime.pods


def test_a_pre_stop_hook_eats_the_grace_period(one_node: Any) -> None:
    """10 s of hook, 20 s from SIGTERM to SIGKILL."""
    node = one_node(lambda pod, container: Service(stop_ns=None))
    node.create(Container(name="c", pre_stop_ns=10 * SECOND))
    node.delete(10)
    node.run(60)
    assert node.times(ENDED) == [pytest.approx(40, abs=0.1)]


def test_a_pod_is_gone_behind_the_look_that_follows_its_end(one_node: Any) -> None:
    """Volumes are unmounted meanwhile; if they are not, they are looked at each 300 ms (SyncTerminatedPod)."""
    gone = []
    for unmount in (lambda: 0, lambda: 20 * SECOND):
        node = one_node(lambda pod, container: Service(stop_ns=None), costs=StartCosts(unmount=unmount))
        node.create()
        node.delete(10)
        node.run(90)
        [ended], [deleted] = node.times(ENDED), node.times(Kind.POD_DELETED, "collector")
        gone.append(deleted - ended)
    assert 0.04 < gone[0] < 1.1, "a look comes each second, and the rest takes 40 ms"
    assert 20 < gone[1] < 20.5


def test_a_shorter_grace_hurries_a_deletion_under_way(one_node: Any) -> None:
    """A second request can only shorten it."""
    node = one_node(lambda pod, container: Service(stop_ns=None))
    node.create()
    node.delete(10, 60)
    node.delete(20, 5)
    node.run(60)
    assert node.times(ENDED) == [pytest.approx(25, abs=0.1)]


# init containers


def test_init_containers_run_one_after_the_other_and_sidecars_end_last(one_node: Any) -> None:
    """A sidecar starts in its place among them, and is stopped when the others have ended."""
    order: list[str] = []

    class Noted(Service):
        def start(self, place: Any) -> None:
            order.append(f"+{place.container.name}")
            super().start(place)

        def _over(self, code: int) -> None:
            assert self.place is not None
            order.append(f"-{self.place.container.name}")
            super()._over(code)

    def programs(pod: Pod, container: Container) -> Service:
        return Noted(run_ns=SECOND if container.name.startswith("init") else None, stop_ns=2 * SECOND)

    node = one_node(programs)
    node.create(
        Container(name="c"),
        init_containers=(Container(name="init1"), Container(name="side", restartable=True), Container(name="init2")),
    )
    node.delete(20)
    node.run(40)
    assert order == ["+init1", "-init1", "+side", "+init2", "-init2", "+c", "-c", "-side"]
    assert node.pod() is None


def test_a_failed_init_container_of_a_pod_that_never_restarts_fails_it(one_node: Any) -> None:
    """The regular container is never made."""
    node = one_node(lambda pod, container: Service(run_ns=SECOND, exit_code=1))
    node.create(Container(name="c"), init_containers=(Container(name="init"),), restart_policy="Never")
    node.run(20)
    assert node.pod().status.phase == "Failed"
    assert not node.times(STARTED)


# kubelet, runtime, machine


def test_a_status_is_written_behind_a_request_that_reads_its_pod(one_node: Any) -> None:
    """A request takes 4 ms here, 2 of them to the server: a status of a look is there 6 ms behind it."""
    node = one_node()
    node.create()
    written: list[int] = []

    def patched(_verb: str, old: object, new: object) -> None:
        if isinstance(old, Pod) and isinstance(new, Pod) and old.status != new.status:
            written.append(node.env.now_ns)

    node.server.on_write.append(patched)
    node.run(5)
    assert written[-1] - node.machine.kubelet.relist.ticks.last_before(written[-1]) == 6 * MS


def test_a_status_that_could_not_be_told_is_told_when_the_server_is_back(one_node: Any) -> None:
    """The sweep of each 10 s tries again."""
    node = one_node(lambda pod, container: Service(run_ns=30 * SECOND))
    node.create()
    node.at(15, node.server.stop)
    node.at(50, node.server.start)
    node.run(61)
    assert node.pod().status.containers[0].restart_count == 1
    [told] = node.times(STARTED, "collector")[1:]
    assert 50 <= told <= 60.1


# volumes, room


def test_a_volume_that_is_not_attached_holds_the_pod_up(one_node: Any) -> None:
    """Looked at each 0.3 s; after 123 s the sync fails with FailedMount and begins again."""
    ready = {"now": False}
    node = one_node(volumes_ready=lambda pod: ready["now"])
    node.create()
    node.at(150, lambda: ready.update(now=True))
    node.run(160)
    assert node.times(Kind.KUBE_EVENT, reason="FailedMount") == [pytest.approx(124, abs=0.5)]
    assert node.times(STARTED)[0] == pytest.approx(150.9, abs=0.4)


def test_a_pod_without_room_is_refused_for_good(one_node: Any) -> None:
    """OutOfcpu: Failed, and the object stays (kubernetes.md 1.12)."""
    node = one_node(milli_cpu=1000)
    node.create(Container(name="c", milli_cpu=800), name="a")
    node.create(Container(name="c", milli_cpu=300), name="b", at_s=5)
    node.delete(20, name="a")
    node.run(60)
    assert (node.pod("b").status.phase, node.pod("b").status.reason) == ("Failed", "OutOfcpu")


def hungry(memory_mib: int) -> Any:
    """A program of so many MiB that ignores SIGTERM."""
    return Service(stop_ns=None, memory=memory_mib * MIB)


def pressed(one_node: Any, thresholds: dict[str, str], **use: int) -> Any:
    """A node of 1000 MiB with these hard thresholds; its pods' names say their MiB."""
    return one_node(
        lambda pod, container: hungry(int(pod.meta.name.split("-")[0])),
        eviction=lambda: EvictionState(read_thresholds(thresholds, {}, {}, {}), 300 * SECOND),
        use=NodeUse(1000 * MIB, **use),
    )


def test_a_node_that_is_short_of_memory_evicts_one_pod_after_the_other(one_node: Any) -> None:
    """Looked at each 10 s; the largest over its request first; the next look when the evicted one is gone. 2 s between
    SIGTERM and SIGKILL though a hard threshold asks for 1 (kubernetes.md 2.16).
    """
    node = pressed(one_node, {"memory.available": "300Mi"})
    for name, at_s in (("200-a", 1), ("350-b", 20), ("400-c", 40)):
        node.create(name=name, at_s=at_s)
    node.run(120)
    ended = {said["pod"]: row.t_ns / SECOND for row, said in node.rows(ENDED)}
    assert list(ended) == ["d/400-c"]
    assert 42.5 < ended["d/400-c"] < 53.5
    pod = node.pod("400-c")
    assert (pod.status.phase, pod.status.reason) == ("Failed", "Evicted")
    assert pod.status.conditions["DisruptionTarget"].status == "True"
    assert node.pod("350-b").status.phase == "Running"


def test_memory_pressure_lasts_five_minutes_and_refuses_best_effort_pods(one_node: Any) -> None:
    """evictionPressureTransitionPeriod; the condition goes out with the node's next status."""
    node = pressed(one_node, {"memory.available": "500Mi"})
    node.create(name="600-a")
    node.create(name="1-b", at_s=60)
    node.create(Container(name="c", memory=MIB), name="2-c", at_s=61)
    node.create(name="3-d", at_s=400)
    node.run(420)
    assert node.pod("1-b").status.reason == "Evicted"
    assert node.pod("2-c").status.phase == "Running"
    assert node.pod("3-d").status.phase == "Running"
    assert node.server.get(Node, "n1").status.conditions["MemoryPressure"].status == "False"


def test_unused_images_go_before_a_pod_has_to(one_node: Any) -> None:
    """Disk: 60 of 100 MiB are used by the system, half of that by images nobody needs."""
    node = pressed(
        one_node, {"nodefs.available": "20%"}, disk=100 * MIB, system_disk=60 * MIB, reclaimable_disk=30 * MIB
    )
    node.create(name="1-a")
    node.at(20, lambda: node.runtime.write(node.pod("1-a").meta.uid, 30 * MIB))
    node.run(60)
    assert node.pod("1-a").status.phase == "Running"
    node.at(70, lambda: node.runtime.write(node.pod("1-a").meta.uid, 30 * MIB))
    node.run(120)
    assert node.pod("1-a").status.reason == "Evicted"


def test_a_pod_over_the_size_of_its_volume_goes_without_any_pressure(one_node: Any) -> None:
    """emptyDir sizeLimit (localStorageEviction())."""
    node = pressed(one_node, {}, disk=1000 * MIB)
    node.create(name="1-a", volumes=(Volume(name="scratch", size=10 * MIB),))
    node.at(20, lambda: node.runtime.write(node.pod("1-a").meta.uid, 11 * MIB))
    node.run(60)
    assert node.pod("1-a").status.reason == "Evicted"
    assert node.server.get(Node, "n1").status.conditions["DiskPressure"].status == "False"


def test_equal_seeds_give_equal_rows(one_node: Any) -> None:
    """And another seed others."""
    hashes = []
    for seed in (1, 1, 2):
        node = one_node(lambda pod, container: Service(run_ns=3 * SECOND, exit_code=1), seed=seed)
        node.create()
        node.run(200)
        hashes.append(node.sink.event_hash)
    assert hashes[0] == hashes[1] != hashes[2]


def test_restart_counts_and_ids_go_up_by_one(one_node: Any) -> None:
    """Each run has its own id; the status keeps the last two."""
    node = one_node(lambda pod, container: Service(run_ns=3 * SECOND, exit_code=1))
    node.create()
    node.run(200)
    values = [row.value for row, _ in node.rows(STARTED)]
    assert all(b - a == 1 for a, b in pairwise(values))
