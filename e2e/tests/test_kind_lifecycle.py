"""Clusters belong to a run: what a run that is gone left behind is removed, and nothing else is."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurmtwin.contract.errors import EnvironmentMissingError, InputError
from slurmtwin.contract.kubernetes import KubernetesCluster, NodeGroup
from slurmtwin_e2e.kind import __main__ as commands
from slurmtwin_e2e.kind import cleanness, host, image, lifecycle, owner, services, spec
from slurmtwin_e2e.kind.cluster import Cluster, folder_of

GONE = "00000000-0000-0000-0000-000000000000/1/1"


@dataclass
class FakeDocker:
    """Volumes, containers and networks by name, and the calls that were made."""

    root: Path
    volumes: dict[str, dict[str, str]] = field(default_factory=dict)
    containers: dict[str, str] = field(default_factory=dict)
    networks: set[str] = field(default_factory=lambda: {"bridge"})
    calls: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, *arguments: str, check: bool = True, limit_s: float = 0) -> subprocess.CompletedProcess[str]:
        self.calls.append(arguments)
        out = ""
        match arguments:
            case ("volume", "create", *options, name):
                labels = [text.split("=", 1) for text in options if text != "--label"]
                self.volumes[name] = dict(labels)  # type: ignore[arg-type]
                (self.root / name).mkdir(parents=True)
            case ("info", *_):
                out = str(self.root.parent)
            case ("volume", "ls", "-q"):
                out = "\n".join(self.volumes)
            case ("volume", "ls", *_):
                out = "\n".join(name for name, labels in self.volumes.items() if owner.CLUSTER_LABEL in labels)
            case ("volume", "inspect", "-f", _, name):
                out = str(self.root / name)
            case ("volume", "inspect", name) if name not in self.volumes:
                return subprocess.CompletedProcess(arguments, 1, "[]", "no such volume")
            case ("volume", "inspect", *names):
                out = json.dumps([{"Name": name, "Labels": self.volumes[name]} for name in names])
            case ("volume", "rm", "-f", name):
                if self.volumes.pop(name, None) is not None:
                    (self.root / name).rmdir()
            case ("ps", "-aq", "--filter", text):
                wanted = text.rpartition("=")[2]
                out = "\n".join(name for name, cluster in self.containers.items() if cluster == wanted)
            case ("ps", "-a", *_):
                out = "\n".join(self.containers.values())
            case ("rm", "-f", "-v", *names):
                for name in names:
                    del self.containers[name]
            case ("network", "rm", name):
                self.networks.discard(name)
        return subprocess.CompletedProcess(arguments, 0, out, "")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeDocker:
    """A Docker that only remembers, and a kind that only makes containers."""
    fake = FakeDocker(tmp_path / "volumes")
    monkeypatch.setenv("SLURMTWIN_CACHE", str(tmp_path / "cache"))
    for module in (owner, lifecycle, cleanness):
        monkeypatch.setattr(module, "docker", fake)
    big = host.Capacity(cpus=2, memory=2**40, memory_free=2**40, disk_free=2**40, cgroup=1)
    monkeypatch.setattr(host, "capacity", lambda: big)
    monkeypatch.setattr(host, "prepare", lambda say, may_reconfigure: None)
    monkeypatch.setattr(image, "ensure", lambda say: "present")
    monkeypatch.setattr(Cluster, "wait_until_running", lambda self: None)
    monkeypatch.setattr(services, "wait_for_services", lambda cluster: None)
    monkeypatch.setattr(services, "replace_early", lambda cluster: None)
    monkeypatch.setattr(services, "wait_for_kubelets", lambda cluster: None)
    monkeypatch.setattr(Cluster, "export_logs", lambda self, target: target.mkdir(parents=True))
    monkeypatch.setattr(cleanness, "state_of", lambda cluster: {"objects": []})
    monkeypatch.setattr(cleanness, "restore", lambda cluster, before: [])

    def kind(*arguments: str, check: bool = True) -> str:
        config = json.loads(Path(arguments[arguments.index("--config") + 1]).read_text())
        for number, _ in enumerate(config["nodes"]):
            fake.containers[f"{config['name']}-{number}"] = config["name"]
        fake.networks.add(lifecycle.NETWORK)
        return ""

    monkeypatch.setattr(lifecycle, "run_kind", kind)
    return fake


def silent(_: str) -> None:
    """Say nothing."""


def left(engine: FakeDocker) -> tuple[list[str], list[str], list[str]]:
    """Volumes, containers and networks of ours."""
    return sorted(engine.volumes), sorted(engine.containers), sorted(engine.networks - {"bridge"})


def record(engine: FakeDocker, name: str, pid: str, *, keep: bool = False, containers: int = 2) -> None:
    """A cluster as another run left it."""
    owner.write(owner.Owned(name, pid, keep, "digest"))
    engine.containers |= {f"{name}-{number}": name for number in range(containers)}


def test_a_run_leaves_nothing(engine: FakeDocker) -> None:
    """After the body no volume, container, network or file of ours is left."""
    with lifecycle.running([KubernetesCluster(name="a"), KubernetesCluster(name="b")], silent) as clusters:
        assert [cluster.name for cluster in clusters] == ["slurmtwin-a", "slurmtwin-b"]
        assert len(engine.containers) == 8
    assert left(engine) == ([], [], [])
    assert not folder_of("slurmtwin-a").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SystemExit])
def test_a_run_that_breaks_off_leaves_nothing(engine: FakeDocker, error: type[BaseException]) -> None:
    """Ctrl-C, a failure and an exit all remove the clusters."""
    with pytest.raises(error), lifecycle.running([KubernetesCluster()], silent):
        raise error
    assert left(engine) == ([], [], [])


@pytest.mark.parametrize("number", lifecycle.END_SIGNALS)
def test_a_terminated_run_leaves_nothing(engine: FakeDocker, number: signal.Signals) -> None:
    """SIGTERM and SIGHUP act as Ctrl-C, and the handlers are put back."""
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), lifecycle.running([KubernetesCluster()], silent):
        os.kill(os.getpid(), number)
    assert left(engine) == ([], [], [])
    assert signal.getsignal(number) == before


def test_the_second_cluster_that_fails_takes_the_first_with_it(
    engine: FakeDocker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """When one of two cannot be made, both are removed and the logs of the failed one are kept."""
    kind = lifecycle.run_kind

    def fail_on_b(*arguments: str, check: bool = True) -> str:
        kind(*arguments)
        if "slurmtwin-b" in " ".join(arguments):
            raise EnvironmentMissingError("no")
        return ""

    monkeypatch.setattr(lifecycle, "run_kind", fail_on_b)
    wanted = [KubernetesCluster(name="a"), KubernetesCluster(name="b")]
    with pytest.raises(EnvironmentMissingError), lifecycle.running(wanted, silent, logs=tmp_path / "logs"):
        pytest.fail("the body must not run")
    assert left(engine) == ([], [], [])
    assert (tmp_path / "logs/slurmtwin-b").is_dir()


def test_a_failed_body_exports_logs(engine: FakeDocker, tmp_path: Path) -> None:
    """A failure of the scenario keeps every cluster's logs."""
    with pytest.raises(RuntimeError), lifecycle.running([KubernetesCluster()], silent, logs=tmp_path / "logs"):
        raise RuntimeError
    assert (tmp_path / "logs/slurmtwin-main").is_dir()


def test_the_sweep_takes_what_is_left_and_nothing_else(engine: FakeDocker) -> None:
    """A dead owner's cluster goes, also half made or without record; living, kept and foreign ones stay."""
    record(engine, "slurmtwin-dead", GONE)
    record(engine, "slurmtwin-half", GONE, containers=0)
    record(engine, "slurmtwin-kept", GONE, keep=True)
    record(engine, "slurmtwin-mine", owner.process_id())
    engine.containers |= {"x": "slurmtwin-unrecorded", "y": "somebody-elses"}
    assert lifecycle.sweep(silent) == ["slurmtwin-dead", "slurmtwin-half", "slurmtwin-unrecorded"]
    assert sorted(engine.volumes) == ["slurmtwin-kept-shared", "slurmtwin-mine-shared"]
    assert set(engine.containers.values()) == {"slurmtwin-kept", "slurmtwin-mine", "somebody-elses"}


def test_a_process_number_that_is_used_again_is_not_the_owner() -> None:
    """Same number, other start time or other boot: gone."""
    boot, pid, start = owner.process_id().split("/")
    assert owner.is_alive(owner.process_id())
    assert not owner.is_alive(f"{boot}/{pid}/{int(start) + 1}")
    assert not owner.is_alive(f"{GONE.split('/')[0]}/{pid}/{start}")
    assert not owner.is_alive("")


def test_paused_nodes_are_removed_too(engine: FakeDocker) -> None:
    """Docker removes a paused container only after it is unpaused."""
    record(engine, "slurmtwin-dead", GONE)
    lifecycle.delete("slurmtwin-dead")
    verbs = [call[0] for call in engine.calls]
    assert verbs.index("unpause") < verbs.index("rm")


def test_nodes_that_come_back_are_removed_again(engine: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker may still be making nodes that a killed run asked for, and refuse to remove one that is starting."""
    record(engine, "slurmtwin-dead", GONE)
    late = iter(["slurmtwin-dead-late", "slurmtwin-dead-later"])

    def more_come(name: str) -> None:
        if (node := next(late, None)) is not None:
            engine.containers[node] = name

    monkeypatch.setattr(owner, "end_creators", more_come)
    lifecycle.delete("slurmtwin-dead")
    assert left(engine) == ([], [], [])


def test_only_the_makers_of_that_cluster_are_ended(tmp_path: Path) -> None:
    """A `docker run` of another cluster's node goes on."""
    (tmp_path / "run").write_text("print('up', flush=True)\ninput()\n")
    label = f"{owner.KIND_LABEL}=slurmtwin-"
    makers = [
        subprocess.Popen(
            ["docker", "run", "--label", f"{label}{name}"], executable=sys.executable, cwd=tmp_path,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for name in ("dead", "other")
    ]  # fmt: skip
    try:
        for maker in makers:
            assert maker.stdout is not None
            assert maker.stdout.readline() == "up\n"  # just after exec its command line still reads empty
        owner.end_creators("slurmtwin-dead")
        assert makers[1].poll() is None
        assert makers[0].wait(5) == -signal.SIGKILL
    finally:
        for maker in makers:
            maker.kill()
            maker.communicate()


def test_nothing_is_made_for_an_impossible_cluster(engine: FakeDocker) -> None:
    """A refusal comes before the first call of Docker."""
    with (
        pytest.raises(InputError),
        lifecycle.running([KubernetesCluster(), KubernetesCluster(kubernetes="1.99")], silent),
    ):
        pytest.fail("the body must not run")
    assert engine.calls == []


def test_a_cluster_in_use_is_not_taken(engine: FakeDocker, tmp_path: Path) -> None:
    """While another run holds a cluster of this name, a second is refused."""
    lock = tmp_path / "cache/kind/locks/slurmtwin-main"
    lock.parent.mkdir(parents=True)
    with lock.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(EnvironmentMissingError, match="in use"), lifecycle.running([KubernetesCluster()], silent):
            pytest.fail("the body must not run")


def kept(engine: FakeDocker, cluster: KubernetesCluster) -> list[str]:
    """Run once with keep; returns what was said."""
    said: list[str] = []
    with lifecycle.running([cluster], said.append, keep=True):
        pass
    assert engine.containers
    return said


def test_a_kept_cluster_is_used_again_when_clean(engine: FakeDocker) -> None:
    """The same section finds the same cluster."""
    kept(engine, KubernetesCluster())
    assert kept(engine, KubernetesCluster()) == ["cluster slurmtwin-main: used again, proven clean"]


def test_a_cluster_that_is_not_clean_is_made_anew(engine: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference from the first state means a new cluster."""
    kept(engine, KubernetesCluster())
    monkeypatch.setattr(cleanness, "restore", lambda cluster, before: ["nodes: +x taint a=b"])
    assert kept(engine, KubernetesCluster())[0] == "cluster slurmtwin-main: made anew (nodes: +x taint a=b)"


def test_a_cluster_of_another_section_is_made_anew(engine: FakeDocker) -> None:
    """One worker more is another cluster."""
    kept(engine, KubernetesCluster())
    said = kept(engine, KubernetesCluster(workers=[NodeGroup(count=4)]))
    assert said[0] == "cluster slurmtwin-main: made anew (it was made of something else)"


@pytest.fixture
def state() -> dict[str, list[str]]:
    """A new cluster's state."""
    return {"objects": ["Pod/a/b"], "nodes": ["n ready=True unschedulable=False"], "shared": [], "waiting": []}


@pytest.mark.parametrize(
    ("subject", "rows", "says"),
    [
        ("objects", ["Pod/a/b", "Pod/a/c"], "objects: +Pod/a/c"),
        ("objects", [], "objects: -Pod/a/b"),
        ("nodes", ["n ready=False unschedulable=False"], "nodes: +n ready=False unschedulable=False"),
        ("shared", ["file"], "shared: +file"),
        ("waiting", ["a/b: Pending"], "waiting: +a/b: Pending"),
        ("n", ["-A INPUT -s 10.0.0.1/32 -j DROP"], "n: +-A INPUT -s 10.0.0.1/32 -j DROP"),
    ],
)
def test_any_difference_is_named(state: dict[str, list[str]], subject: str, rows: list[str], says: str) -> None:
    """A cluster is clean only when nothing was added and nothing is missing."""
    assert cleanness.differences(state, state) == []
    assert says in cleanness.differences(state, state | {subject: rows})


def test_clusters_of_ours_are_known_by_name() -> None:
    """Faults and sweeps go by the prefix."""
    assert spec.full_name(KubernetesCluster(name="a")).startswith(spec.PREFIX)


def test_a_directory_that_docker_made_of_a_lost_volume_goes(engine: FakeDocker) -> None:
    """A late node of a killed run brings the directory back without a volume; Docker takes it for one later."""
    late = engine.root / "slurmtwin-late-shared"
    late.mkdir(parents=True)
    lifecycle.delete("slurmtwin-late")
    assert not late.exists()
    engine("volume", "create", "slurmtwin-older-shared")
    engine("volume", "create", "somebodys-shared")
    assert lifecycle.sweep(lambda _: None) == ["slurmtwin-older"]
    assert list(engine.volumes) == ["somebodys-shared"]


@pytest.mark.parametrize(
    ("arguments", "workers"),
    [([], 3), (["--workers", "2"], 2), (["scenarios/faults/x9-takeover.yaml", "--workers", "2"], 2)],
)
def test_up_makes_a_cluster_where_the_scenario_says_nothing_of_one(
    arguments: list[str], workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It made none for most scenarios, and ended well."""
    made: list[KubernetesCluster] = []

    @contextmanager
    def running(sections: Sequence[KubernetesCluster], *_: object, **__: object) -> Iterator[list[Cluster]]:
        made.extend(sections)
        yield []

    monkeypatch.setattr(commands, "_ready", lambda _may: None)
    monkeypatch.setattr(spec, "refuse_impossible", lambda _sections, _capacity: None)
    monkeypatch.setattr(lifecycle, "running", running)
    found = CliRunner().invoke(commands.main, ["up", *arguments])
    assert found.exit_code == 0, found.output
    assert [sum(group.count for group in section.workers) for section in made] == [workers]
