"""Several clusters with a dispatcher before them: what each is by itself, one table of all, the notes read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurmtwin.contract.errors import EnvironmentMissingError, InputError, SlurmtwinError, UnsupportedError
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.listed_jobs import listed_jobs
from slurmtwin.contract.manifest import Manifest
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.contract.several_clusters import member, one_table, own_jobs
from slurmtwin.contract.world import RunOrder
from slurmtwin_e2e import kind_world
from slurmtwin_e2e.kind import batch, dispatching, lifecycle, several, slurm_images
from slurmtwin_e2e.kind.faults import kube, network
from slurmtwin_e2e.kind.faults.base import FaultError, PodPlace
from slurmtwin_e2e.kind.manifests.slurm_files import slurm_conf, workers_of
from slurmtwin_e2e.kind.runner import RanOnce

S = 1_000_000_000
FILES = sorted((Path(__file__).parents[2] / "scenarios" / "clusters").glob("*.yaml"))


def document(**more: Any) -> dict[str, Any]:
    """Two clusters of two workers, one job for the dispatcher and one of a user's own."""
    return {
        "schema": "slurmtwin/scenario/1", "name": "case", "pods": {},
        "cluster": [{"name": name, "workers": [{"count": 2}]} for name in "ab"],
        "slurm": {
            "nodes": [{"NodeName": f"{name}-[0-1]", "CPUs": 1} for name in "ab"],
            "partitions": [{"PartitionName": name, "Nodes": f"{name}-[0-1]"} for name in "ab"],
        },
        "workload": {
            "jobs": [{"run": "10s", "time": "5"}, {"run": "10s", "partition": "b"}],
            "dispatch": {"clusters": ["a", "b"], "policy": "least-loaded", "staleness": "5s"},
        },
        "faults": [
            {"at": "10s", "kind": "kube_node.pause", "cluster": "b", "target": "all"},
            {"at": "20s", "kind": "network.cut", "target": "slurmrestd", "other": "dispatcher", "lasts": "5s"},
        ],
    } | more  # fmt: skip


def scenario(**more: Any) -> Scenario:
    """The scenario of that document."""
    return Scenario.model_validate(document(**more))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_shipped_scenarios_can_be_run(path: Path) -> None:
    """Nothing about them is refused, and a run is not longer than 150 s."""
    one = load_scenario(path)
    several.check_several(one)
    assert one.budget.max_time is not None
    assert one.budget.max_time <= 150 * S


def test_each_cluster_is_a_scenario_with_its_own_nodes_partition_and_faults() -> None:
    """A fault that names no cluster is in the first."""
    a, b = (member(scenario(), place) for place in (0, 1))
    assert [workers_of(one).names for one in (a, b)] == [("a-0", "a-1"), ("b-0", "b-1")]
    assert [[fault.kind for fault in one.faults] for one in (a, b)] == [["network.cut"], ["kube_node.pause"]]
    assert "PartitionName=b Nodes=ALL Default=YES" in slurm_conf(b)
    assert len(a.clusters) == 1


def test_a_job_with_a_partition_is_its_users_own() -> None:
    """All others are the dispatcher's."""
    jobs = list(listed_jobs(scenario()))
    assert [[job.job_id for job in own_jobs(jobs, name)] for name in ("", "a", "b")] == [[1], [], [2]]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"workload": {}}, "workload.dispatch"),
        ({"workload": document()["workload"] | {"users": {"try_again": "5s"}}}, "listed, read or generated jobs"),
        ({"slurm": {"nodes": [{"NodeName": "a-[0-1]"}]}}, "one NodeName line"),
        ({"faults": [{"at": "1s", "kind": "dns.outage", "cluster": "c"}]}, "no cluster is called 'c'"),
        ({"faults": [{"at": "1s", "kind": "node.update", "target": "a-0", "state": "DOWN"}]}, "faults of clusters"),
        ({"cluster": {"name": "a"}}, "not of several"),
        ({"faults": [{"at": "1s", "kind": "network.cut", "target": "dispatcher"}]}, "names nothing"),
        ({"faults": [{"at": "1s", "kind": "kube_node.stop", "target": "all"}]}, "names nothing"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_made(more: dict[str, Any], says: str) -> None:
    """By its name."""
    with pytest.raises(InputError, match=says):
        several.check_several(scenario(**more))


def test_a_job_that_the_dispatcher_cannot_say_is_refused() -> None:
    """An option is never left out."""
    with pytest.raises(UnsupportedError, match="licenses"):
        dispatching.dispatched_jobs([JobRequest(job_id=1, submit_ns=0, licenses="x")])


NOTES = [
    {"what": "up", "before": 0, "after": 0},
    {"what": "heard", "cluster": "a", "before": 10 * S, "after": 11 * S, "good": True, "ours": {}},
    {"what": "heard", "cluster": "a", "before": 15 * S, "after": 16 * S, "good": True, "ours": {"2": 8}},
    {"what": "submit", "cluster": "a", "job": 1, "before": 12 * S, "after": 13 * S, "outcome": "taken", "slurm_id": 7,
     "error": ""},
    {"what": "submit", "cluster": "a", "job": 2, "before": 14 * S, "after": 15 * S, "outcome": "silent", "slurm_id": 0,
     "error": "no answer in time"},
    {"what": "submit", "cluster": "a", "job": 3, "before": 14 * S, "after": 15 * S, "outcome": "silent", "slurm_id": 0,
     "error": "no answer in time"},
    {"what": "heard", "cluster": "a", "before": 20 * S, "after": 22 * S, "good": False, "error": "[10.0.0.1:80] away"},
    {"what": "lost", "cluster": "a", "before": 30 * S, "after": 30 * S},
    {"what": "cancel", "cluster": "a", "job": 1, "before": 40 * S, "after": 41 * S, "error": ""},
]  # fmt: skip


def test_submits_are_told_as_the_observer_tells_its_own() -> None:
    """One without an answer by the number under which it was listed later, one that never came not at all."""
    lines = dispatching.submit_lines(NOTES, "a")
    assert [(line["action"]["jobs"], line["out"], line["code"]) for line in lines] == [([1], "7", 0), ([2], "8", 0)]
    assert dispatching.submit_lines(NOTES, "b") == []


def test_the_dispatchers_rows_tell_changes_and_acts() -> None:
    """An answer is told when it differs from the one before; silence when the request was given up; no addresses."""
    rows = dispatching.rows(NOTES, 10 * S)
    found = [(row.t_ns / S, row.kind.value, row.job_id, row.cluster) for row in rows]
    assert found == [
        (1, "client.answered", None, "a"), (2.5, "action.issued", 1, "a"), (4.5, "action.failed", 2, "a"),
        (4.5, "action.failed", 3, "a"), (12, "client.refused", None, "a"), (20, "action.issued", None, "a"),
        (30.5, "action.issued", 1, "a"),
    ]  # fmt: skip
    assert "10.0.0.1" not in (rows[4].detail or "")
    assert json.loads(rows[5].detail or "")["do"] == "give-up"


def test_lateness_is_what_a_request_lies_behind_its_multiple() -> None:
    """A host that is too busy shows there."""
    late = [{"what": "heard", "before": 10 * S + 7_000_000}, {"what": "heard", "before": 15 * S + 2_000_000}]
    assert dispatching.late_ms(late, 5 * S, 5 * S) == 7.0


def test_one_table_of_all_clusters() -> None:
    """In time order, each row with its cluster; causes still point at theirs; the run begins and ends once."""

    def table(at: int) -> list[Event]:
        return [
            Event(0, Kind.RUN_STARTED, "harness"), Event(at, Kind.POD_READY, "collector", cause_seq=2),
            Event(at, Kind.POD_READY, "apiserver", node="n"), Event(9, Kind.RUN_ENDED, "harness"),
        ]  # fmt: skip

    rows = one_table([("a", table(5000)), ("b", table(3000))], [Event(4000, Kind.CLIENT_ANSWERED, "dispatcher")])
    assert [row.kind for row in rows].count(Kind.RUN_STARTED) == 1
    assert [row.kind for row in rows].count(Kind.RUN_ENDED) == 1
    assert [row.t_ns for row in rows] == sorted(row.t_ns for row in rows)
    for row in rows:
        if row.cause_seq is not None:
            assert (rows[row.cause_seq].actor, rows[row.cause_seq].cluster) == ("apiserver", row.cluster)
    assert {row.cluster for row in rows if row.kind is Kind.POD_READY} == {"a", "b"}


def test_a_dispatcher_that_does_not_come_up_is_told_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its key does not stay on the disk."""
    monkeypatch.setattr(dispatching, "MODULE", "no_such_module")
    spec = scenario().workload.dispatch
    assert spec is not None
    process = dispatching.DispatcherProcess(tmp_path, spec, "26.05", [])
    with pytest.raises(EnvironmentMissingError, match="no_such_module"):
        process.start(1 << 62, [("a", ("127.0.0.1", 1), b"key")])
    assert not list(tmp_path.glob("*.key"))
    assert not process.alive


def test_the_dispatcher_is_started_as_a_program_and_its_key_is_private(tmp_path: Path) -> None:
    """It notes silence of a cluster that is not there, and ends when told."""
    one = scenario()
    assert one.workload.dispatch is not None
    process = dispatching.DispatcherProcess(
        tmp_path, one.workload.dispatch, "26.05", own_jobs(list(listed_jobs(one)), "")
    )
    process.start(1 << 62, [("a", ("127.0.0.1", 1), b"key")])
    assert [note["what"] for note in process.notes()] == ["up"]
    assert (tmp_path / "a.key").stat().st_mode & 0o077 == 0
    process.stop()
    assert not process.alive


class FakeShell:
    """A node's shell: notes commands; the filter has counted so many packets."""

    def __init__(self, dropped: int) -> None:
        self.commands: list[str] = []
        self.dropped = dropped

    def run(self, command: str, **_: Any) -> SimpleNamespace:
        """Note it."""
        self.commands.append(command)
        return SimpleNamespace(text=f"{self.dropped} 0 DROP" if "-nvxL" in command else "")


class FakeTools:
    """A cluster as a cut sees it: slurmrestd's pod, one node, a door at a port of this host."""

    def __init__(self, port: int, dropped: int = 3) -> None:
        self.box = FakeShell(dropped)
        self.cluster = SimpleNamespace(control_plane="cp", nodes=("cp", "w", "w2"))
        self.deployed = SimpleNamespace(namespace="st")
        self.api = self
        self._port = port

    def shell(self, _node: str) -> FakeShell:
        """The one shell."""
        return self.box

    def pod(self, target: str) -> PodPlace:
        """slurmrestd."""
        return PodPlace(target, "st", "u", "cp", "10.0.0.9", "c")

    def request(self, _method: str, path: str) -> dict[str, Any]:
        """A node, or the door's Service."""
        if "/services/" in path:
            return {"spec": {"ports": [{"nodePort": self._port}]}}
        return {"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}}


def cut(tools: FakeTools) -> network.NetworkCut:
    """The cut between slurmrestd and the dispatcher, prepared and injected."""
    one = network.NetworkCut(member(scenario(), 0).faults[0], tools)  # type: ignore[arg-type]
    one.prepare()
    one.inject()
    return one


def test_a_cut_from_the_dispatcher_drops_packets_of_slurmrestd_and_this_host_alone() -> None:
    """In the node of slurmrestd; the proof: this host cannot connect, and packets were dropped."""
    tools = FakeTools(port=1)
    said = cut(tools).prove()
    assert "-s 10.0.0.9 -d 127.0.0.1 -j DROP" in tools.box.commands[0]
    assert "packets dropped: 3" in said


def test_a_cut_that_lets_the_dispatcher_through_is_no_cut(tmp_path: Path) -> None:
    """A door that still opens turns the proof red."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        one = cut(FakeTools(port=server.getsockname()[1]))
        with pytest.raises(FaultError, match="still reaches"):
            one.prove()


def test_a_whole_cluster_is_paused_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """All its nodes, and unpaused so; one that is not paused is no proof."""
    calls: list[tuple[str, ...]] = []
    states = "true\ntrue\ntrue\n"

    def docker(*words: str, **_: Any) -> SimpleNamespace:
        calls.append(words)
        return SimpleNamespace(stdout=states)

    monkeypatch.setattr(kube, "docker", docker)
    one = kube.NodePause(member(scenario(), 1).faults[0], FakeTools(1))  # type: ignore[arg-type]
    one.prepare()
    one.inject()
    assert calls == [("pause", "cp", "w", "w2")]
    assert "w2" in one.prove()
    assert one.nodes() is None
    one.clear()
    assert calls[-1] == ("unpause", "cp", "w", "w2")
    states = "true\nfalse\ntrue\n"
    monkeypatch.setattr(kube, "until", lambda what, fail, limit: what() or pytest.fail(fail, pytrace=False))
    with pytest.raises(pytest.fail.Exception, match="not paused"):
        one.prove()


def ran(**more: Any) -> RanOnce:
    """A run without anything wrong."""
    values: dict[str, Any] = {
        "events": [], "stop_reason": "done", "zero_ns": 0, "idle_s": 1.0, "wall_s": 1.0, "load": (1.0, 1.0),
        "late_ms": [1.0], "offsets": [], "watch_delay_ns": (1, 1, 1), "fault_errors": [], "accounting": None,
    }  # fmt: skip
    return RanOnce(**(values | more))


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (ran(stop_reason="hole"), "hole"),
        (ran(stop_reason="dispatcher"), "dispatcher"),
        (ran(late_ms=[2000.0]), "too busy"),
        (ran(dispatcher_late_ms=1500.0), "too busy"),
    ],
)
def test_a_run_that_went_wrong_is_not_recorded(made: RanOnce, says: str, tmp_path: Path) -> None:
    """A hole, a dispatcher that ended, a late fault, a late request: no folder."""
    one = batch.Wanted(scenario(), 1, 1)
    said = batch.record_run([], one, tmp_path, 3, None, run=lambda *_, **__: made)
    assert says in said
    assert not list(tmp_path.iterdir())


def test_the_manifest_tells_the_size_of_all_clusters_and_the_dispatchers_lateness(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run on one cluster says neither of clusters nor of a dispatcher."""
    monkeypatch.setattr(kind_world, "image_id", lambda _name: "sha256:1")
    monkeypatch.setattr(kind_world, "_image_of", lambda _node: "sha256:2")
    monkeypatch.setattr(slurm_images, "packages", lambda _version: {})
    clusters: list[Any] = [SimpleNamespace(nodes=("cp", "w"), control_plane="cp")] * 2
    both = kind_world.build_manifest(scenario(), ran(dispatcher_late_ms=7.123), clusters, 1)
    alone = kind_world.build_manifest(member(scenario(), 0), ran(), clusters[:1], 1)
    assert (both.environment["kube_nodes"], both.environment["clusters"]) == (4, 2)
    assert both.results["dispatcher_late_ms"] == 7.12
    assert alone.environment["kube_nodes"] == 2
    assert "clusters" not in alone.environment
    assert "dispatcher_late_ms" not in alone.results
    assert both.environment["host"]["cpus"] >= 1


def test_a_run_goes_on_until_its_users_own_jobs_have_come(tmp_path: Path) -> None:
    """All that the observer knows has ended, and one is still to be submitted."""
    lines = [{"what": "job", "name": "1", "state": "COMPLETED"}, {"what": "job", "name": "2", "state": "COMPLETED"},
             {"what": "action", "action": {"do": "submit"}}]  # fmt: skip
    (tmp_path / "observer.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    one: Any = SimpleNamespace(jobs=[1], deployed=SimpleNamespace(evidence=tmp_path))
    assert several.Member.over.__get__(one)
    one.jobs.append(2)
    assert not several.Member.over.__get__(one)


def test_a_run_that_failed_is_told(tmp_path: Path) -> None:
    """With its words."""

    def failing(*_: Any, **__: Any) -> Any:
        raise SlurmtwinError("no cluster")

    assert "no cluster" in batch.record_run([], batch.Wanted(scenario(), 1, 1), tmp_path, 3, None, run=failing)


def test_the_world_kind_runs_several_clusters_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run --world kind` makes the scenario's clusters, and writes the folder that a recording has."""
    one = scenario()
    row = Event(0, Kind.RUN_STARTED, "harness")
    asked: list[list[str]] = []

    @contextmanager
    def running(wanted: Any, _say: Any) -> Iterator[list[Any]]:
        asked.append([cluster.name for cluster in wanted])
        yield ["one", "two"]

    manifest = Manifest("kind", "case", "", 0, results={"run_id": "case-1"})
    monkeypatch.setattr(lifecycle, "running", running)
    monkeypatch.setattr(several, "run_together", lambda *_, **__: ran(events=[row]))
    monkeypatch.setattr(several, "build_manifest", lambda *_: manifest)
    order = RunOrder(scenario=one, jobs=tuple(listed_jobs(one)), folder=tmp_path / "run", seed=0, replication=0)
    answer = kind_world.run_scenario(order)
    assert asked == [["a", "b"]]
    assert list(answer.events) == [row]
    assert (tmp_path / "run" / "events.jsonl.gz").exists()
