"""Clusters are made from a scenario's section, used again when proven clean, and removed without a trace."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin.contract.kubernetes import KubernetesCluster
from slurmtwin_e2e.docker import docker
from slurmtwin_e2e.kind import cleanness, host, image, owner, services, spec
from slurmtwin_e2e.kind.cluster import NETWORK, Cluster, folder_of, run_kind
from slurmtwin_e2e.kind.owner import Owned
from slurmtwin_e2e.kind.pins import cache_folder, pins, recipe_digest
from slurmtwin_e2e.kind.programs import Say

BASELINE: Final = "baseline.json"
REMOVE_LIMIT_S: Final = 120.0
END_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
Handler = Callable[[int, FrameType | None], object] | signal.Handlers


def spec_digest(wanted: KubernetesCluster) -> str:
    """What a cluster is made of: its section, the node image's recipe, and this host's lack of a capability."""
    text = f"{wanted.model_dump_json()}\0{recipe_digest()}\0{host.lacks_capability()}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def handle(wanted: KubernetesCluster, shared: Path) -> Cluster:
    """The handle on a cluster of this section."""
    names = tuple(plan.name for plan in spec.nodes(wanted))
    return Cluster(spec.full_name(wanted), names, shared, wanted.shared_directory)


def create(wanted: KubernetesCluster, say: Say, *, keep: bool = False, logs: Path | None = None) -> Cluster:
    """Make a cluster and wait until all its pods run; on failure its logs go to `logs` and it is removed."""
    name = spec.full_name(wanted)
    folder = folder_of(name)
    folder.mkdir(parents=True, exist_ok=True)
    cluster = handle(wanted, owner.write(Owned(name, owner.process_id(), keep, spec_digest(wanted))))
    try:
        spec.write_patches(wanted, folder / "patches")
        config = spec.kind_config(wanted, folder / "patches", cluster.shared, rootless_kubelet=host.lacks_capability())
        (folder / "kind.json").write_text(json.dumps(config, indent=1) + "\n")
        start = time.monotonic()
        run_kind(
            "create", "cluster", "--config", str(folder / "kind.json"), "--image", pins().node_image,
            "--kubeconfig", str(cluster.kubeconfig), "--retain",
        )  # fmt: skip
        made = time.monotonic() - start
        services.wait_for_services(cluster)
        services.replace_early(cluster)
        cluster.wait_until_running()
        services.wait_for_kubelets(cluster)
        took = time.monotonic() - start
        say(f"cluster {name}: {len(cluster.nodes)} nodes made in {made:.0f} s, all pods running after {took:.0f} s")
        (folder / BASELINE).write_text(json.dumps(cleanness.state_of(cluster), indent=1) + "\n")
    except BaseException:
        if logs is not None and owner.containers(name):
            cluster.export_logs(logs / name)
            say(f"logs of {name}: {logs / name}")
        delete(name)
        raise
    return cluster


def make_clean(cluster: Cluster) -> list[str]:
    """Remove what a scenario left in a cluster; returns what still differs from its first state, [] when proven clean.

    A cluster that is not clean must be deleted, never used.
    """
    path = folder_of(cluster.name) / BASELINE
    if not path.is_file():
        return ["no record of its first state"]
    return cleanness.restore(cluster, json.loads(path.read_text()))


def obtain(wanted: KubernetesCluster, say: Say, *, keep: bool = False, logs: Path | None = None) -> Cluster:
    """A cluster of this section: the one that is here if it is the same and proven clean, else a new one."""
    name = spec.full_name(wanted)
    here = next((record for record in owner.records() if record.name == name), None)
    if here is None and not owner.containers(name):
        return create(wanted, say, keep=keep, logs=logs)
    reasons = ["it was made of something else"]
    if here is not None and here.spec == spec_digest(wanted) and here.keep == keep:
        cluster = handle(wanted, owner.directory(here))
        reasons = make_clean(cluster)
        if not reasons:
            say(f"cluster {name}: used again, proven clean")
            return cluster
    say(f"cluster {name}: made anew ({'; '.join(reasons[:3])})")
    delete(name)
    return create(wanted, say, keep=keep, logs=logs)


def delete(name: str) -> None:
    """Remove a cluster whatever is left of it: containers with their volumes, record, files, the last network."""
    with _handled((signal.SIGINT, *END_SIGNALS), signal.SIG_IGN):  # no signal cuts a removal short
        _remove_containers(name)
        owner.remove(name)
        shutil.rmtree(folder_of(name), ignore_errors=True)
        if not owner.clusters_in_docker(spec.PREFIX):
            docker("network", "rm", NETWORK, check=False)


def _remove_containers(name: str) -> None:
    """Remove the nodes until none comes back: a run that was killed may have asked Docker for more just before."""
    limit = time.monotonic() + REMOVE_LIMIT_S
    empty = 0
    while empty < 2:
        owner.end_creators(name)
        containers = owner.containers(name)
        if not containers:
            empty += 1
            continue
        empty = 0
        docker("unpause", *containers, check=False)
        done = docker("rm", "-f", "-v", *containers, check=False)
        if time.monotonic() > limit:
            raise EnvironmentMissingError(f"Docker does not remove the nodes of {name}: {done.stderr.strip()[-500:]}")


def sweep(say: Say) -> list[str]:
    """Remove clusters whose owner is gone and which nobody asked to keep; returns their names."""
    nobodys = owner.without_record(spec.PREFIX)  # before the records: a cluster may be made meanwhile
    known = owner.records()
    unrecorded = set(owner.clusters_in_docker(spec.PREFIX)) - {record.name for record in known}
    stale = sorted({record.name for record in known if record.is_stale} | unrecorded | set(nobodys))
    for name in stale:
        say(f"removing {name}, left behind by a run that is gone")
        delete(name)
    if not owner.clusters_in_docker(spec.PREFIX) and not owner.records():
        shutil.rmtree(cache_folder() / "clusters", ignore_errors=True)
        docker("network", "rm", NETWORK, check=False)
    return stale


@contextmanager
def _handled(numbers: Sequence[signal.Signals], handler: Handler) -> Iterator[None]:
    """These signals are handled so while the body runs; elsewhere than in the main thread nothing may be changed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """One process uses a cluster of this name at a time; the lock goes with the process."""
    folder = cache_folder() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise EnvironmentMissingError(f"cluster {name} is in use by another run of slurmtwin") from error
        yield


@contextmanager
def running(
    wanted: Sequence[KubernetesCluster], say: Say, *, keep: bool = False, logs: Path | None = None
) -> Iterator[list[Cluster]]:
    """The clusters of a scenario, refused before anything is made if they cannot be; removed at the end unless `keep`.

    Docker is started and the node image made where they are missing; when the body fails, the clusters' logs go to
    `logs`. Raises EnvironmentMissingError where a Docker that runs would have to be reconfigured first.
    """
    spec.refuse_impossible(wanted, host.capacity())
    host.prepare(say, may_reconfigure=False)
    image.ensure(say)
    with ExitStack() as stack:
        stack.enter_context(_handled(END_SIGNALS, _interrupt))  # as Ctrl-C: its clusters are removed
        for section in wanted:
            stack.enter_context(_alone(spec.full_name(section)))
        sweep(say)
        clusters: list[Cluster] = []
        try:
            for section in wanted:
                clusters.append(obtain(section, say, keep=keep, logs=logs))
            yield clusters
        except Exception:
            for cluster in clusters if logs is not None else ():
                assert logs is not None
                cluster.export_logs(logs / cluster.name)
            raise
        finally:
            if not keep:
                for cluster in clusters:
                    delete(cluster.name)
