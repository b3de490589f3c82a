"""What this machine has of what the world `kind` needs, and which scenarios can run on it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass

from slurmtwin.contract.errors import InputError
from slurmtwin.contract.scenario import Scenario
from slurmtwin_e2e.docker import is_installed, is_running
from slurmtwin_e2e.doctor import Finding
from slurmtwin_e2e.kind import host, image, programs, spec
from slurmtwin_e2e.kind.pins import pins

IMAGE_COMMAND = "python -m slurmtwin_e2e.kind image --yes"


@dataclass(frozen=True, slots=True)
class Fact:
    """Something about this host that decides what can run on it."""

    name: str
    value: str
    means: str = ""


def examine() -> list[Finding]:
    """Everything the world `kind` needs. Nothing is started or changed."""
    running = is_running()
    present = running and image.is_present()
    found = [
        Finding("docker command", is_installed(), "apt-get install docker.io", "1 min"),
        Finding("docker daemon", running, f"{IMAGE_COMMAND} starts it; by hand: dockerd", "5 s"),
        Finding(f"node image {pins().node_image}", present, IMAGE_COMMAND, f"{_minutes()} min on 2 cores"),
    ]
    if not present:
        found += _build_needs()
    if running and host.lacks_capability():
        met = not host.needs_wrapper()
        found.append(Finding("Docker starts privileged containers without CAP_SYS_RESOURCE", met,
                             f"{IMAGE_COMMAND} makes {host.RUNTIME} Docker's default runtime: runc without that "
                             f"capability; to undo: remove it from {host.DAEMON_CONFIG}", "1 s"))  # fmt: skip
    return found


def _minutes() -> int:
    missing = [program.minutes for program in programs.PROGRAMS if not programs.path_of(program).is_file()]
    return round(sum(missing) + 2.5)


def _build_needs() -> list[Finding]:
    """What building the node image takes, where no registry answers."""
    go = programs.go_version()
    least = ".".join(map(str, pins().go_at_least))
    has_base = image.has_base() if is_running() else False
    return [
        Finding(f"Go {least} or newer", go is not None and go >= pins().go_at_least,
                f"apt-get install golang-go where Debian has {least}; else the Go project's own archive", "1 min"),
        Finding("debootstrap, or the base image", has_base or shutil.which("debootstrap") is not None,
                "apt-get install debootstrap (only where no container registry answers)", "10 s"),
    ]  # fmt: skip


def facts() -> list[Fact]:
    """cgroup version, capabilities, CPUs, memory, disk, inotify limits, and what follows."""
    here = host.capacity()
    lacking = host.lacks_capability()
    low = host.low_inotify()
    group_kill = "the kernel kills one process of a container" if here.cgroup == 1 else "the kernel kills whole groups"
    return [
        Fact("cgroup", f"v{here.cgroup}", f"out of memory: {group_kill}"),
        Fact("CAP_SYS_RESOURCE", "missing" if lacking else "there", "runc is wrapped" if lacking else ""),
        Fact("CPUs", str(here.cpus), f"{here.cpus - 1} exclusive in each node, the same ones in all nodes"),
        Fact("memory", f"{here.memory_free / 2**30:.0f} of {here.memory / 2**30:.0f} GiB free",
             f"a cluster of 1 + 3 nodes takes {_cluster_gib():.1f} GiB"),
        Fact("disk under Docker", f"{here.disk_free / 2**30:.0f} GiB free",
             f"a cluster of 1 + 3 nodes takes {4 * spec.NODE_DISK_BYTES / 2**30:.1f} GiB"),
        Fact("inotify", "low: " + ", ".join(low) if low else "enough", "raised when a cluster is made" if low else ""),
    ]  # fmt: skip


def _cluster_gib() -> float:
    return (spec.CONTROL_PLANE_BYTES + 3 * spec.WORKER_BYTES) / 2**30


def refusals(scenarios: Iterable[Scenario]) -> dict[str, str]:
    """For every scenario with a cluster: why it cannot run here, "" when it can."""
    capacity = host.capacity()
    out = {}
    for scenario in scenarios:
        if not scenario.clusters:
            continue
        try:
            spec.refuse_impossible(scenario.clusters, capacity)
        except InputError as error:
            out[scenario.name] = str(error)
        else:
            out[scenario.name] = ""
    return out
