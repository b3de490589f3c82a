"""Does anything of ours stay on the host? Runs in processes of their own, some of them killed, and a look at the host
before, meanwhile and afterwards: `python -m slurmtwin_e2e.kind clean-up`.

A run makes a cluster of 1 + 1 nodes, starts a pod with a claim in it, and removes all. What a killed run leaves is
removed by the next one.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from slurmtwin.contract.kubernetes import KubernetesCluster, NodeGroup
from slurmtwin_e2e.docker import docker
from slurmtwin_e2e.kind import host, image, lifecycle, owner, spec
from slurmtwin_e2e.kind.pins import cache_folder, pins
from slurmtwin_e2e.kind.programs import Say

Look = dict[str, frozenset[str]]
SECTION: Final = KubernetesCluster(name="clean-up", workers=[NodeGroup()])
OURS: Final = ("containerd-shim", "docker", "docker-proxy", "kind", "runc", "slurmtwin-runc")
"""Programs that run on the host for a cluster and end with it."""
NAMESPACES: Final = ("cgroup", "ipc", "mnt", "net", "pid", "uts")
SCRATCH: Final = ("slurmtwin-node-", "slurmtwin-base-", "slurmtwin-evidence-")
"""Temporary folders of runs on a cluster."""
LOOK_S: Final = 3.0
SETTLE_S: Final = 20.0
"""The kernel takes cgroups and mounts apart after the last process is gone."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One run: how it was ended, its exit code, its length in seconds, and what was left just after it."""

    number: int
    how: str
    code: int | None
    seconds: float
    left: tuple[str, ...]


def container_processes(proc: Path, others: Iterable[str] = ()) -> Iterator[tuple[Path, str]]:
    """(folder in /proc, comm) of every process in a container, and of the programs on the host that serve one.

    Containers `others` live their own life beside the runs: what begins and ends in them is passed over.
    """
    for folder in proc.glob("[0-9]*"):
        try:
            comm = (folder / "comm").read_text().strip()
            group = (folder / "cgroup").read_text()
        except OSError:
            continue  # it has ended meanwhile
        if ("/docker/" in group or comm in OURS) and not any(name in group for name in others):
            yield folder, comm


def _namespaces(folders: Sequence[Path]) -> frozenset[str]:
    found = set()
    own = {str(Path("/proc/self/ns", name).readlink()) for name in NAMESPACES}
    for folder in folders:
        for name in NAMESPACES:
            try:
                found.add(str((folder / "ns" / name).readlink()))
            except OSError:
                continue
    return frozenset(found - own)


def _names(*patterns: str) -> frozenset[str]:
    return frozenset(str(path) for pattern in patterns for path in Path("/").glob(pattern.lstrip("/")))


def look(others: Collection[str] = (), proc: Path = Path("/proc")) -> Look:
    """What is on this host that a cluster could have left, by subject, without the inside of containers `others`."""
    processes = list(container_processes(proc, others))
    groups = (path for path, _, _ in os.walk("/sys/fs/cgroup"))
    root = docker("info", "-f", "{{.DockerRootDir}}").stdout.strip()
    rules = [
        subprocess.run(["iptables", "-t", table, "-S"], capture_output=True, text=True).stdout
        for table in ("filter", "nat")
    ]  # fmt: skip
    return {
        "containers": frozenset(docker("ps", "-aq", "--no-trunc").stdout.split()),
        "networks": frozenset(docker("network", "ls", "--format", "{{.Name}}").stdout.split()),
        "volumes": frozenset(docker("volume", "ls", "-q").stdout.split()),
        "images": frozenset(docker("images", "-aq", "--no-trunc").stdout.split()),
        "processes": frozenset(f"{folder.name} {comm}" for folder, comm in processes),
        "namespaces": _namespaces([folder for folder, _ in processes]),
        "mounts": frozenset(line.split()[4] for line in (proc / "self/mountinfo").read_text().splitlines()),
        "cgroups": frozenset(path for path in groups if not any(name in path for name in others)),
        "links": _names("/sys/class/net/*"),
        "packet rules": frozenset("".join(rules).splitlines()),
        "Docker's folders": _names(f"{root}/containers/*", f"{root}/volumes/*/", f"{root}/overlay2/*"),
        "our files": _names(f"{cache_folder()}/clusters/*", *(f"{tempfile.gettempdir()}/{name}*" for name in SCRATCH)),
    }


def added(before: Look, now: Look) -> list[str]:
    """What is there now and was not before, as SUBJECT: NAME."""
    return [f"{subject}: {name}" for subject in before for name in sorted(now[subject] - before[subject])]


def one_run() -> None:
    """A whole run, in this process: a cluster, a pod with a claim, a file in the shared directory."""
    with lifecycle.running([SECTION], _say) as (cluster,):
        claim = {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "state"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
        }  # fmt: skip
        container = {
            "name": "c", "image": pins().network_pod_image, "imagePullPolicy": "Never", "command": ["sleep", "600"],
            "volumeMounts": [{"name": "state", "mountPath": "/state"}],
        }  # fmt: skip
        volume = {"name": "state", "persistentVolumeClaim": {"claimName": "state"}}
        pod = {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user"},
            "spec": {"containers": [container], "volumes": [volume]},
        }  # fmt: skip
        both = {"apiVersion": "v1", "kind": "List", "items": [claim, pod]}
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(both))
        cluster.kubectl("wait", "--for=condition=Ready", "pod/user", "--timeout=90s")
        (cluster.shared / "file").write_text("ours\n")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _run(number: int, kill: signal.Signals | None, before: Look, most: dict[str, int]) -> Ran:
    """One run in a process; `kill` is sent when both nodes' containers are there, before Kubernetes is up."""
    start = time.monotonic()
    child: BaseProcess = multiprocessing.get_context("spawn").Process(target=one_run)
    child.start()
    looked = start
    while child.is_alive():
        child.join(0.05)
        if kill is not None and len(owner.containers(spec.full_name(SECTION))) == 2 and child.pid is not None:
            os.kill(child.pid, kill)
            child.join()
        elif time.monotonic() - looked > LOOK_S:
            looked = time.monotonic()
            now = look(before["containers"])
            for subject, names in now.items():
                most[subject] = max(most.get(subject, 0), len(names - before[subject]))
    left = settled(before, 0.0 if kill is signal.SIGKILL else SETTLE_S)
    return Ran(number, kill.name if kill else "end", child.exitcode, time.monotonic() - start, tuple(left))


def settled(before: Look, limit_s: float = SETTLE_S) -> list[str]:
    """What is left, once nothing is or limit_s has passed."""
    limit = time.monotonic() + limit_s
    while (left := added(before, look(before["containers"]))) and time.monotonic() < limit:
        time.sleep(0.5)
    return left


def run_all(count: int, kills: dict[int, signal.Signals], say: Say) -> tuple[list[Ran], list[str], list[str]]:
    """All runs; (the runs, the table's lines, what is left at the end). Docker must be prepared before."""
    host.prepare(say, may_reconfigure=False)
    image.ensure(say)
    lifecycle.sweep(say)
    before = look(docker("ps", "-aq", "--no-trunc").stdout.split())
    most: dict[str, int] = {}
    runs = []
    for number in range(1, count + 1):
        ran = _run(number, kills.get(number), before, most)
        runs.append(ran)
        say(f"run {number} of {count}: {ran.how}, exit {ran.code}, {ran.seconds:.0f} s, {len(ran.left)} things left")
    lifecycle.sweep(say)  # the last one may have been killed
    left = settled(before)
    after = look(before["containers"])
    table = ["| what | before | a run adds at most | left at the end |", "|---|---|---|---|"]
    for subject, names in before.items():
        table.append(f"| {subject} | {len(names)} | {most.get(subject, 0)} | {len(after[subject] - names)} |")
    return runs, table, left


def wrong_with(runs: Sequence[Ran], kills: dict[int, signal.Signals], left: Sequence[str]) -> list[str]:
    """Findings: things left by runs that ended by themselves or at the end, runs that failed, a kill that missed."""
    out = [f"at the end: {name}" for name in left]
    for ran in runs:
        kill = kills.get(ran.number)
        if kill is signal.SIGKILL:
            out += [] if ran.code == -kill else [f"run {ran.number} was not killed: exit {ran.code}"]
            out += [] if ran.left else [f"run {ran.number} was killed and left nothing: the look sees nothing"]
            continue
        out += [f"run {ran.number}: {name}" for name in ran.left]
        if (ran.code == 0) is not (kill is None):
            out.append(f"run {ran.number} ({ran.how}) ended with {ran.code}")
    return out
