"""The API server's rules: versions, graceful deletion, watches, latency, and what clients see when it is away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.engine.daemon_clock import DaemonClock
from slurmtwin.engine.environment import Environment, RunBudget
from slurmtwin.models.api_server.client import EVENTS_KEPT, Client, RateLimit
from slurmtwin.models.api_server.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    UnreachableError,
)
from slurmtwin.models.api_server.informer import Informer
from slurmtwin.models.api_server.objects import (
    ContainerStatus,
    Custom,
    Meta,
    Node,
    NodeSpec,
    Owner,
    Pod,
    PodSpec,
    PodStatus,
)
from slurmtwin.models.api_server.server import ApiServer
from slurmtwin.models.api_server.watch import more_than_marks, more_than_marks_of_running
from slurmtwin.models.api_server.work_queue import WorkQueue


@pytest.fixture
def env() -> Environment:
    return Environment()


@pytest.fixture
def server(env: Environment) -> ApiServer:
    return ApiServer(env)


def run(env: Environment, until_ns: int | None = None) -> None:
    env.stop_reason = ""
    env.run_within(RunBudget(max_time_ns=until_ns))


def pod(name: str = "a", node: str = "", **more: object) -> Pod:
    spec = PodSpec(node_name=node, **more)  # type: ignore[arg-type]
    return Pod(meta=Meta(name=name, namespace="ns"), spec=spec)


def bind(node: str):
    return lambda item: replace(item, spec=replace(item.spec, node_name=node))


def phase(name: str):
    return lambda item: replace(item, status=replace(item.status, phase=name))


class TestVersions:
    def test_every_change_gets_the_next_version_of_the_whole_store(self, server: ApiServer) -> None:
        """One counter for all objects, as etcd's revision."""
        first = server.create(pod("a"))
        second = server.create(Node(meta=Meta(name="n")))
        changed = server.patch(Pod, "ns/a", phase("Running"))
        assert [x.meta.resource_version for x in (first, second, changed)] == [1, 2, 3]

    def test_an_update_made_for_an_older_version_is_a_conflict(self, server: ApiServer) -> None:
        """Optimistic locking."""
        old = server.create(pod())
        server.patch(Pod, "ns/a", phase("Running"))
        with pytest.raises(ConflictError):
            server.update(replace(old, spec=replace(old.spec, priority=1)))

    def test_an_update_that_changes_nothing_makes_no_version(self, server: ApiServer) -> None:
        """No write, no watch event."""
        old = server.create(pod())
        assert server.update(old) is old
        assert server.writes == 1

    def test_update_leaves_the_status_and_update_status_the_rest(self, server: ApiServer) -> None:
        """Two endpoints of one object."""
        both = replace(server.create(pod()), spec=PodSpec(priority=7))
        both = replace(both, status=replace(both.status, phase="Running"))
        after = server.update(both)
        assert (after.spec.priority, after.status.phase) == (7, "Pending")
        after = server.update_status(replace(phase("Running")(after), spec=PodSpec(priority=9)))
        assert (after.spec.priority, after.status.phase) == (7, "Running")

    def test_generation_counts_changes_of_the_spec_alone(self, server: ApiServer) -> None:
        """A status does not move it."""
        server.create(Node(meta=Meta(name="n")))
        after = server.patch(Node, "n", lambda n: replace(n, status=replace(n.status, pods=5)))
        assert after.meta.generation == 1
        after = server.patch(Node, "n", lambda n: replace(n, spec=NodeSpec(unschedulable=True)))
        assert after.meta.generation == 2

    def test_a_name_is_taken_until_its_object_is_gone(self, server: ApiServer) -> None:
        """A pod that is being deleted still holds its name: what a StatefulSet waits for."""
        server.create(pod(node="w"))
        server.delete(Pod, "ns/a")
        with pytest.raises(AlreadyExistsError):
            server.create(pod())
        server.delete(Pod, "ns/a", grace_ns=0)
        assert server.create(pod()).meta.uid == "a.2"

    def test_two_custom_resources_may_share_a_name(self, server: ApiServer) -> None:
        """Their kind is part of the key."""
        for resource in ("NodeSet", "SlurmCluster"):
            server.create(Custom(meta=Meta(name="x", namespace="ns"), resource=resource))
        assert server.get(Custom, "NodeSet/ns/x").resource == "NodeSet"


class TestDeletion:
    def test_a_bound_pod_keeps_its_grace_until_the_kubelet_ends_it(self, env: Environment, server: ApiServer) -> None:
        """deletionTimestamp is the end of the grace period; nothing happens by itself then."""
        server.create(pod(node="w", grace_ns=20 * SECOND))
        server.delete(Pod, "ns/a")
        meta = server.get(Pod, "ns/a").meta
        assert (meta.deletion_ns, meta.grace_ns) == (20 * SECOND, 20 * SECOND)
        env.call_at(100 * SECOND, lambda _: None)
        run(env)
        assert server.find(Pod, "ns/a") is not None

    @pytest.mark.parametrize("how", ["unbound", "finished", "forced"])
    def test_some_pods_go_at_once(self, server: ApiServer, how: str) -> None:
        """Not scheduled, finished, or deleted with grace 0 (pod/strategy.go)."""
        server.create(pod(node="" if how == "unbound" else "w"))
        if how == "finished":
            server.patch(Pod, "ns/a", phase("Failed"))
        server.delete(Pod, "ns/a", grace_ns=0 if how == "forced" else None)
        assert server.find(Pod, "ns/a") is None

    def test_a_pod_deleted_without_grace_is_marked_and_then_removed(self, env: Environment) -> None:
        """Two writes, as store.go Delete() makes them; the kubelet's last deletion of a pod that is marked is one."""
        server, seen = ApiServer(env, removal=lambda: 20 * MS), []
        server.on_write.append(lambda verb, _old, new: seen.append((env.now_ns // MS, verb, new.meta.grace_ns)))
        server.create(pod(node="w", grace_ns=30 * SECOND))
        assert server.delete(Pod, "ns/a", grace_ns=0).meta.deletion_ns == 0
        with pytest.raises(AlreadyExistsError):
            server.create(pod())
        run(env)
        assert seen == [(0, "ADDED", 0), (0, "MODIFIED", 0), (20, "DELETED", 0)]

    def test_a_second_deletion_without_grace_does_not_remove_the_next_pod(self, env: Environment) -> None:
        """Whoever comes first removes it; the other write finds another pod, and leaves it."""
        server = ApiServer(env, removal=lambda: 20 * MS)
        server.create(pod(node="w"))
        server.delete(Pod, "ns/a", grace_ns=0)
        server.delete(Pod, "ns/a", grace_ns=0)
        server.create(pod())
        run(env)
        assert server.get(Pod, "ns/a").meta.uid == "a.2"

    def test_a_second_deletion_can_only_shorten_the_grace(self, env: Environment, server: ApiServer) -> None:
        """30 s asked at 0, 60 s at 5 changes nothing, 10 s at 6 ends at 10 s after the first request."""
        server.create(pod(node="w"))
        server.delete(Pod, "ns/a")
        env.call_at(5 * SECOND, lambda _: server.delete(Pod, "ns/a", grace_ns=60 * SECOND))
        env.call_at(6 * SECOND, lambda _: server.delete(Pod, "ns/a", grace_ns=10 * SECOND))
        run(env, 5 * SECOND)
        assert server.get(Pod, "ns/a").meta.deletion_ns == 30 * SECOND
        run(env)
        assert server.get(Pod, "ns/a").meta.deletion_ns == 10 * SECOND

    def test_finalizers_hold_an_object_until_the_last_is_taken_off(self, server: ApiServer) -> None:
        """Also one that was forced."""
        server.create(Node(meta=Meta(name="n", finalizers=("x", "y"))))
        server.delete(Node, "n")
        assert server.get(Node, "n").meta.deleting
        server.patch(Node, "n", lambda n: replace(n, meta=replace(n.meta, finalizers=("y",))))
        assert server.find(Node, "n") is not None
        server.patch(Node, "n", lambda n: replace(n, meta=replace(n.meta, finalizers=())))
        assert server.find(Node, "n") is None

    def test_a_deletion_for_another_uid_is_refused(self, server: ApiServer) -> None:
        """A controller that read the old object cannot delete the new one."""
        server.create(pod())
        with pytest.raises(ConflictError):
            server.delete(Pod, "ns/a", uid="another")


def marked(item: Pod, value: str) -> Pod:
    return replace(item, meta=replace(item.meta, labels={"mark": value}))


def other_uid(item: Pod) -> Pod:
    return replace(item, meta=replace(item.meta, uid="b.1"))


class Recorder:
    """A watch's other end."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.seen: list[tuple[int, str, int]] = []
        self.broke: list[int] = []

    def happened(self, verb: str, item: object) -> None:
        self.seen.append((self.env.now_ns, verb, item.meta.resource_version))  # type: ignore[attr-defined]

    def broken(self) -> None:
        self.broke.append(self.env.now_ns)


class TestWatches:
    def test_changes_arrive_late_but_in_order(self, env: Environment) -> None:
        """A delay of 50 ms and then one of 10 ms: the second change waits for the first."""
        delays = iter([50 * MS, 10 * MS])
        server = ApiServer(env, lambda: next(delays))
        seen = Recorder(env)
        server.watch(Pod, seen)
        server.create(pod())
        env.call_at(20 * MS, lambda _: server.patch(Pod, "ns/a", phase("Running")))
        run(env)
        assert seen.seen == [(50 * MS, "ADDED", 1), (50 * MS, "MODIFIED", 2)]

    def test_a_kubelet_sees_a_pod_appear_when_it_is_bound(self, env: Environment, server: ApiServer) -> None:
        """The field selector spec.nodeName makes the binding an ADDED."""
        here, there = Recorder(env), Recorder(env)
        server.watch(Pod, here, node="w")
        server.watch(Pod, there, node="v")
        server.create(pod())
        server.patch(Pod, "ns/a", bind("w"))
        server.delete(Pod, "ns/a", grace_ns=0)
        run(env)
        assert [verb for _, verb, _ in here.seen] == ["ADDED", "MODIFIED", "DELETED"]
        assert there.seen == []

    @pytest.mark.parametrize(
        ("change", "heard"),
        [
            (lambda p: replace(p, meta=replace(p.meta, labels={"protect": "true"})), False),
            (lambda p: replace(p, meta=replace(p.meta, annotations={"cordon": "true"})), False),
            (lambda p: replace(p, meta=replace(p.meta, finalizers=("held",))), True),
            (lambda p: replace(p, meta=replace(p.meta, owner=Owner("ReplicaSet", "r", "r.1"))), True),
            (phase("Running"), True),
            (bind("w"), True),
        ],
        ids=["label", "annotation", "finalizer", "owner", "status", "spec"],
    )
    def test_a_watch_that_reads_no_marks_hears_of_everything_else(
        self, env: Environment, change: Callable[[Pod], Pod], heard: bool
    ) -> None:
        """A label alone neither arrives nor draws a delay; with anything else it does. Deletions always do."""
        draws = iter(range(10))
        server = ApiServer(env, lambda: next(draws))
        seen = Recorder(env)
        server.create(pod())
        server.watch(Pod, seen, wanted=more_than_marks)
        server.patch(Pod, "ns/a", change)
        server.patch(Pod, "ns/a", lambda p: replace(p, meta=replace(p.meta, finalizers=())))
        server.delete(Pod, "ns/a", grace_ns=0)
        run(env)
        verbs = [verb for _, verb, _ in seen.seen]
        assert verbs[-1] == "DELETED"
        assert ("MODIFIED" in verbs) == heard
        assert next(draws) == len(verbs)

    @pytest.mark.parametrize(("running", "heard"), [(True, False), (False, True)])
    def test_a_kubelet_hears_of_marks_while_a_container_waits(self, running: bool, heard: bool) -> None:
        """A pod whose containers all run would be synced in vain."""
        status = PodStatus(containers=(ContainerStatus(name="c", running_ns=1 if running else None),))
        old = replace(pod(), spec=replace(pod().spec, node_name="n1"), status=status)
        new = replace(old, meta=replace(old.meta, annotations={"a": "b"}))
        assert more_than_marks_of_running("MODIFIED", old, new) == heard

    def test_a_frozen_process_hears_everything_when_it_thaws(self, env: Environment, server: ApiServer) -> None:
        """The connection lives in the kernel meanwhile."""
        clock = DaemonClock(env)
        seen = Recorder(env)
        server.watch(Pod, seen, clock=clock)
        clock.freeze()
        server.create(pod())
        server.patch(Pod, "ns/a", phase("Running"))
        env.call_at(9 * SECOND, lambda _: clock.thaw())
        run(env)
        assert seen.seen == [(9 * SECOND, "ADDED", 1), (9 * SECOND, "MODIFIED", 2)]


class TestClients:
    def test_a_request_takes_its_latency_half_there_half_back(self, env: Environment, server: ApiServer) -> None:
        """Written after 4 of 8 ms, answered after 8."""
        client, answers = Client(server, env, lambda: 8 * MS), []
        client.create(pod(), lambda item: answers.append((env.now_ns, item.meta.created_ns)))
        run(env)
        assert answers == [(8 * MS, 4 * MS)]

    def test_requests_of_a_kind_take_what_they_are_said_to(self, env: Environment, server: ApiServer) -> None:
        """A deletion is there after 20 ms and answered after 27, a patch after 3 and 5; a creation takes 8 as ever."""
        took = {("delete", Pod): lambda: (20 * MS, 7 * MS), ("patch", Pod): lambda: (3 * MS, 2 * MS)}
        client, there, answered = Client(server, env, lambda: 8 * MS, takes=took), [], []

        def answer(_item: object) -> None:
            answered.append(env.now_ns)

        def mark(item: Pod) -> Pod:
            there.append(env.now_ns)
            return item

        client.create(pod(), answer)
        run(env)
        client.patch(Pod, pod().meta.key, mark, answer)
        run(env)
        client.delete(Pod, pod().meta.key, done=answer)
        for at_ms in (32, 34):
            env.call_at(at_ms * MS, lambda _: there.append(server.find(Pod, pod().meta.key) is None))
        run(env)
        assert answered == [8 * MS, 13 * MS, 40 * MS]
        assert there == [11 * MS, False, True]

    def test_the_bucket_lets_a_burst_pass_and_then_one_each_period(self, env: Environment, server: ApiServer) -> None:
        """2 tokens, 10 a second: 0, 0, 100, 200 ms."""
        client, times = Client(server, env, limit=RateLimit(10, 2)), []
        for name in "abcd":
            client.create(pod(name), lambda _: times.append(env.now_ns))
        run(env)
        assert times == [0, 0, 100 * MS, 200 * MS]

    def test_errors_are_answers(self, env: Environment, server: ApiServer) -> None:
        """done() gets the error."""
        client, answers = Client(server, env), []
        client.get(Pod, "ns/none", answers.append)
        run(env)
        assert isinstance(answers[0], NotFoundError)

    def test_an_ended_process_hears_no_answer_but_its_write_stands(self, env: Environment, server: ApiServer) -> None:
        """A crash between a write and its answer."""
        clock = DaemonClock(env)
        client, answers = Client(server, clock, lambda: 10 * MS), []
        client.create(pod(), answers.append)
        env.call_at(7 * MS, lambda _: clock.end())
        run(env)
        assert server.find(Pod, "ns/a") is not None
        assert answers == []

    def test_over_a_cut_network_requests_time_out_and_watches_wait(self, env: Environment, server: ApiServer) -> None:
        """Cut from 0 to 30 s: the request fails at 10 s, the change arrives when it heals."""
        client, answers = Client(server, env), []
        seen = Recorder(env)
        client.watch(Pod, seen)
        client.cut()
        server.create(pod())
        client.get(Pod, "ns/a", lambda answer: answers.append((env.now_ns, type(answer))))
        env.call_at(30 * SECOND, lambda _: client.heal())
        run(env)
        assert answers == [(10 * SECOND, UnreachableError)]
        assert seen.seen == [(30 * SECOND, "ADDED", 1)]


class TestInformers:
    def test_the_cache_lags_the_store(self, env: Environment) -> None:
        """List answered after 10 ms; a change at 1 s is known 0.2 s later."""
        server = ApiServer(env, lambda: 200 * MS)
        server.create(pod())
        changes: list[tuple[int, bool]] = []
        informer = Informer(
            Client(server, env, lambda: 10 * MS), Pod, lambda old, _: changes.append((env.now_ns, old is None))
        )
        informer.start()
        env.call_at(SECOND, lambda _: server.patch(Pod, "ns/a", phase("Running")))
        run(env, 1100 * MS)
        assert informer.get("ns/a").status.phase == "Pending"  # type: ignore[union-attr]
        run(env)
        assert informer.get("ns/a").status.phase == "Running"  # type: ignore[union-attr]
        assert changes == [(10 * MS, True), (1200 * MS, False)]

    def test_nothing_is_lost_between_list_and_watch(self, env: Environment) -> None:
        """A change while the list's answer is on its way."""
        server = ApiServer(env, lambda: MS)
        server.create(pod())
        informer = Informer(Client(server, env, lambda: 100 * MS), Pod)
        informer.start()
        env.call_at(60 * MS, lambda _: server.patch(Pod, "ns/a", phase("Running")))
        run(env)
        assert informer.get("ns/a").status.phase == "Running"  # type: ignore[union-attr]

    def test_after_an_outage_it_lists_again_and_tells_what_changed(self, env: Environment, server: ApiServer) -> None:
        """Down from 1 s to 4 s: tries at 1.8 s, 3.4 s and 6.6 s; the pod deleted meanwhile is gone then."""
        server.create(pod("a"))
        gone: list[tuple[int, str]] = []

        def changed(old: Pod | None, new: Pod | None) -> None:
            if new is None and old is not None:
                gone.append((env.now_ns, old.meta.name))

        informer = Informer(Client(server, env), Pod, changed)
        informer.start()
        env.call_at(SECOND, lambda _: server.stop())
        env.call_at(2 * SECOND, lambda _: server.delete(Pod, "ns/a"))
        env.call_at(4 * SECOND, lambda _: server.start())
        run(env)
        assert gone == [(6600 * MS, "a")]

    def test_who_reads_no_marks_is_told_of_everything_else(self, env: Environment, server: ApiServer) -> None:
        """A label, a status, another pod of that name with the same spec and status, and its end: the cache has all."""
        told: dict[bool, list[str]] = {True: [], False: []}
        informer = Informer(Client(server, env), Pod)
        for marks, uids in told.items():
            informer.tell(lambda old, new, uids=uids: uids.append((new or old).meta.uid), marks)
        informer.start()
        server.create(pod())
        env.call_at(SECOND, lambda _: server.patch(Pod, "ns/a", lambda p: marked(p, "1")))
        env.call_at(2 * SECOND, lambda _: server.patch(Pod, "ns/a", phase("Running")))
        env.call_at(3 * SECOND, lambda _: informer.happened("MODIFIED", other_uid(informer.cache["ns/a"])))
        env.call_at(4 * SECOND, lambda _: informer.happened("DELETED", informer.cache["ns/a"]))
        run(env)
        assert told == {True: ["a.1", "a.1", "a.1", "b.1", "b.1"], False: ["a.1", "a.1", "b.1", "b.1"]}

    def test_a_stale_cache_catches_up_in_order(self, env: Environment, server: ApiServer) -> None:
        """hold() and release()."""
        informer = Informer(Client(server, env), Pod)
        informer.start()
        env.call_at(SECOND, lambda _: informer.hold())
        env.call_at(2 * SECOND, lambda _: server.create(pod()))
        env.call_at(9 * SECOND, lambda _: informer.release())
        run(env, 8 * SECOND)
        assert informer.get("ns/a") is None
        run(env)
        assert informer.get("ns/a") is not None


class TestWorkQueues:
    def test_of_several_times_the_earliest_counts(self, env: Environment) -> None:
        """delaying_queue.go insert(): a later time for a key that waits is dropped, an earlier one replaces it."""
        seen: list[int] = []

        def reconcile(_key: str, finished: Callable[[bool], None]) -> None:
            seen.append(env.now_ns // SECOND)
            finished(True)

        queue = WorkQueue(env, reconcile)
        for wait_s in (30, 40, 20, 25):
            queue.add_after("a", wait_s * SECOND)
        run(env)
        assert seen == [20]
        queue.add_after("a", SECOND)
        run(env)
        assert len(seen) == 2

    def test_a_key_added_in_work_comes_again_afterwards(self, env: Environment) -> None:
        """Never twice at once, never lost."""
        log: list[tuple[int, str]] = []

        def reconcile(key: str, finished) -> None:
            log.append((env.now_ns, key))
            env.call_in(SECOND, finished, True)

        queue = WorkQueue(env, reconcile, workers=2)
        queue.add("a")
        queue.add("a")
        env.call_at(SECOND // 2, lambda _: queue.add("a"))
        run(env)
        assert log == [(0, "a"), (SECOND, "a")]

    def test_failures_back_off_5_10_20_ms_and_success_forgets(self, env: Environment) -> None:
        """kubernetes.md 6.4."""
        times: list[int] = []

        def reconcile(key: str, finished) -> None:
            times.append(env.now_ns)
            finished(len(times) > 3)

        queue = WorkQueue(env, reconcile)
        queue.add("a")
        run(env)
        assert times == [0, 5 * MS, 15 * MS, 35 * MS]
        assert queue.failures("a") == 0


def test_an_event_that_many_others_have_pushed_out_counts_from_one_again(env: Environment, server: ApiServer) -> None:
    """client-go's correlator keeps the last 4096; so does the client, however long a run is."""
    counts: list[int] = []
    server.on_write.append(lambda _verb, _old, new: counts.append(new.count))
    client = Client(server, env)
    for number in (0, 0, *range(1, EVENTS_KEPT + 1), 0):
        client.event(f"Pod/{number}", "Killing")
    run(env)
    assert (counts[:2], counts[-1]) == ([1, 2], 1)
    assert len(client._events) == EVENTS_KEPT


def test_an_event_is_written_behind_the_answer_to_the_one_before(env: Environment, server: ApiServer) -> None:
    """Recorded in x2-controller-hang: Killing is heard of 5 ms behind the third Unhealthy on the median; a pod is
    written beside them."""
    times: list[tuple[str, int]] = []
    server.on_write.append(lambda _verb, _old, new: times.append((getattr(new, "reason", "pod"), env.now_ns // MS)))
    client = Client(server, env, lambda: 6 * MS)
    for reason in ("Unhealthy", "Killing", "Pulled"):
        client.event("Pod/slurmctld-0", reason)
    client.create(pod())
    run(env)
    assert times == [("Unhealthy", 3), ("pod", 3), ("Killing", 9), ("Pulled", 15)]
