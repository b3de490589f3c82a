"""Docker through its command line: start it when it is installed but not running, run containers, clean up.

Every container carries the label LABEL, so that what a killed run left behind is found and removed by the next one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin_e2e import priority

LABEL: Final = "org.slurmtwin.run"
OWNER_LABEL: Final = "org.slurmtwin.owner"
NETWORK: Final = "slurmtwin"
"""An internal bridge: Slurm resolves addresses only where there is more than the loopback interface."""
START_LIMIT_S: Final = 30.0
LOOK_S: Final = 1.0
"""How long one wait for a container is: an interrupt that comes just before a wait is seen after it."""


def docker(*arguments: str, check: bool = True, limit_s: float = 600.0) -> subprocess.CompletedProcess[str]:
    """Run `docker ARGUMENTS`. Raises EnvironmentMissingError when it fails and check is set."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=limit_s)
    if check and done.returncode:
        raise EnvironmentMissingError(f"docker {arguments[0]} failed: {done.stderr.strip()[-800:]}")
    return done


def is_installed() -> bool:
    """Is there a docker command?"""
    return shutil.which("docker") is not None


def is_running() -> bool:
    """Does the daemon answer?"""
    return is_installed() and docker("info", check=False).returncode == 0


def ensure_running() -> None:
    """Start the daemon if it is installed and does not run. Raises EnvironmentMissingError if there is none."""
    if is_running():
        return
    if not is_installed() or shutil.which("dockerd") is None:
        raise EnvironmentMissingError("Docker is not installed; `slurmtwin doctor` says how to get it")
    log = Path(os.environ.get("TMPDIR", "/tmp"), "slurmtwin-dockerd.log")
    with log.open("ab") as stream:
        subprocess.Popen(["dockerd"], stdout=stream, stderr=stream, start_new_session=True)
    limit = time.monotonic() + START_LIMIT_S
    while time.monotonic() < limit:
        if is_running():
            return
        time.sleep(0.5)
    raise EnvironmentMissingError(f"dockerd did not start within {START_LIMIT_S:.0f} s; its log is {log}")


def ensure_network() -> None:
    """Make the internal network unless it is here; two processes may try at once."""
    if docker("network", "inspect", NETWORK, check=False).returncode:
        docker("network", "create", "--internal", NETWORK, check=False)


def has_image(name: str) -> bool:
    """Is the image here?"""
    return docker("image", "inspect", name, check=False).returncode == 0


def image_id(name: str) -> str:
    """The image's content hash."""
    return docker("image", "inspect", "-f", "{{.Id}}", name).stdout.strip()


def remove(containers: Sequence[str]) -> None:
    """Remove containers, running or not."""
    if containers:
        docker("rm", "-f", *containers, check=False)


def _alive(pid: str) -> bool:
    return pid.isdigit() and Path("/proc", pid).exists()


def sweep() -> list[str]:
    """Remove the containers of runs whose process is gone; returns their names."""
    listed = docker("ps", "-aq", "--filter", f"label={LABEL}").stdout.split()
    if not listed:
        return []
    stale = []
    for entry in json.loads(docker("inspect", *listed).stdout):
        if not _alive(entry["Config"]["Labels"].get(OWNER_LABEL, "")):
            stale.append(entry["Name"].lstrip("/"))
    remove(stale)
    return stale


def run_container(
    image: str, name: str, command: Sequence[str], *, hostname: str, mounts: Sequence[tuple[Path, str, bool]],
    capabilities: Sequence[str] = (), limit_s: float | None = None,
) -> tuple[int, str]:  # fmt: skip
    """Run a container to its end without a way out of it; returns exit code and output; it is always removed."""
    arguments = [
        "run", "--name", name, "--label", f"{LABEL}={name}", "--label", f"{OWNER_LABEL}={os.getpid()}",
        "--hostname", hostname, "--add-host", f"{hostname}:127.0.0.1", "--network", NETWORK,
        "--ulimit", "nofile=8192:8192", *priority.options(),
    ]  # fmt: skip
    for capability in capabilities:
        arguments += ["--cap-add", capability]
    for source, target, read_only in mounts:
        arguments += ["-v", f"{source}:{target}{':ro' if read_only else ''}"]
    try:
        child = subprocess.Popen(
            ["docker", *arguments, image, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
        deadline = None if limit_s is None else time.monotonic() + limit_s
        while True:
            try:
                output, _ = child.communicate(timeout=LOOK_S)
                return child.returncode, output
            except subprocess.TimeoutExpired:
                if deadline is not None and time.monotonic() > deadline:
                    remove([name])
                    output, _ = child.communicate()
                    return 124, output
    finally:
        remove([name])
