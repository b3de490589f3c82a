"""The host under the cluster: Docker's default runtime where a capability is missing, inotify limits, sizes."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin.contract.manifest import write_atomic
from slurmtwin_e2e import docker as engine
from slurmtwin_e2e.kind import programs
from slurmtwin_e2e.kind.programs import Say

CAP_SYS_RESOURCE: Final = 24
RUNTIME: Final = "slurmtwin-runc"
WRAPPER: Final = Path("/usr/local/sbin/slurmtwin-runc")
DAEMON_CONFIG: Final = Path("/etc/docker/daemon.json")
DAEMON_PID: Final = Path("/var/run/docker.pid")
INOTIFY: Final = {"max_user_watches": 524_288, "max_user_instances": 512}
"""What kind's known-issues page asks for; several nodes share the host's limits."""


def lacks_capability() -> bool:
    """Is CAP_SYS_RESOURCE missing from this process's bounding set? Then `docker run --privileged` fails."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "CapBnd":
            return not int(value, 16) >> CAP_SYS_RESOURCE & 1
    return False


def default_runtime() -> str:
    """The runtime that Docker gives to containers which name none."""
    return engine.docker("info", "-f", "{{.DefaultRuntime}}").stdout.strip()


def needs_wrapper() -> bool:
    """Must Docker's default runtime be changed before privileged containers start here?"""
    return lacks_capability() and default_runtime() != RUNTIME


def _configuration() -> dict[str, Any]:
    if not DAEMON_CONFIG.exists():
        return {}
    try:
        found = json.loads(DAEMON_CONFIG.read_text())
    except ValueError as error:
        raise EnvironmentMissingError(f"{DAEMON_CONFIG} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise EnvironmentMissingError(f"{DAEMON_CONFIG} is not a JSON object")
    return found


def _write_runtime(say: Say) -> None:
    """Install the wrapper and name it in Docker's configuration. Raises EnvironmentMissingError without the right."""
    try:
        _write_files(say)
    except PermissionError as error:
        raise EnvironmentMissingError(f"only root may give Docker another default runtime: {error}") from error


def _write_files(say: Say) -> None:
    wrapper = programs.build(say, ("runc",))["runc"]
    part = WRAPPER.with_name(f".{WRAPPER.name}.part")
    shutil.copy(wrapper, part)
    part.chmod(0o755)
    part.replace(WRAPPER)
    wanted = _configuration()
    wanted.setdefault("runtimes", {})[RUNTIME] = {"path": str(WRAPPER)}
    wanted["default-runtime"] = RUNTIME
    write_atomic(DAEMON_CONFIG, json.dumps(wanted, indent=2) + "\n")


def prepare(say: Say, *, may_reconfigure: bool) -> None:
    """Docker runs and can start privileged containers; inotify limits are high enough.

    A Docker that ran before is changed only with leave: its new default runtime is loaded by SIGHUP, running
    containers go on. Raises EnvironmentMissingError when leave is missing.
    """
    if not engine.is_running():
        if lacks_capability() and engine.is_installed():
            _write_runtime(say)
        engine.ensure_running()
    if needs_wrapper():
        if not may_reconfigure:
            raise EnvironmentMissingError(
                "this host lacks CAP_SYS_RESOURCE, so Docker needs another default runtime for privileged containers; "
                "`slurmtwin doctor` explains it; `python -m slurmtwin_e2e.kind image --yes` sets it, and running "
                "containers go on"
            )
        _write_runtime(say)
        os.kill(int(DAEMON_PID.read_text()), signal.SIGHUP)
        _wait_for_runtime()
        say(f"Docker's default runtime is now {RUNTIME} ({DAEMON_CONFIG})")
    raise_inotify(say)


def _wait_for_runtime() -> None:
    import time

    limit = time.monotonic() + 20
    while default_runtime() != RUNTIME:
        if time.monotonic() > limit:
            raise EnvironmentMissingError(f"Docker did not take {RUNTIME} from {DAEMON_CONFIG}; restart it by hand")
        time.sleep(0.3)


def low_inotify() -> dict[str, int]:
    """Limits below what several nodes need, with their present values."""
    folder = Path("/proc/sys/fs/inotify")
    now = {name: int((folder / name).read_text()) for name in INOTIFY if (folder / name).exists()}
    return {name: value for name, value in now.items() if value < INOTIFY[name]}


def raise_inotify(say: Say) -> None:
    """Raise what is too low, where we may; kind works with less until many pods run."""
    for name, value in low_inotify().items():
        try:
            Path("/proc/sys/fs/inotify", name).write_text(str(INOTIFY[name]))
        except OSError:
            say(f"fs.inotify.{name} is {value}; many pods need {INOTIFY[name]}: sysctl fs.inotify.{name}=…")
        else:
            say(f"raised fs.inotify.{name} from {value} to {INOTIFY[name]}")


@dataclass(frozen=True, slots=True)
class Capacity:
    """What this host has: CPUs, memory (all and free), disk under Docker (free), in bytes."""

    cpus: int
    memory: int
    memory_free: int
    disk_free: int
    cgroup: int


def cgroup_version() -> int:
    """2 where the unified hierarchy carries the controllers, else 1."""
    return 2 if Path("/sys/fs/cgroup/cgroup.controllers").exists() else 1


def capacity() -> Capacity:
    """This host's sizes now."""
    memory = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        memory[name] = int(value.split()[0]) * 1024
    root = Path("/var/lib/docker")
    disk = shutil.disk_usage(root if root.exists() else Path("/var/lib")).free
    return Capacity(
        cpus=len(os.sched_getaffinity(0)), memory=memory["MemTotal"], memory_free=memory["MemAvailable"],
        disk_free=disk, cgroup=cgroup_version(),
    )  # fmt: skip
