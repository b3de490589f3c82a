"""Whether slurmd finds room behind a full volume: `python -m slurmtwin_e2e.kind.full_volume`.

A job writes a volume in memory until the kernel takes slurmd for it (x63-oom-slurmd), without a cluster: the worker's
container lies in a cgroup of 256 MiB, as in its pod's, and what the volume has keeps counting there when the container
is gone. How much room that leaves is read before the container is started again; then whether slurmd serves, and
whether it lives through the start of its requeued job (models/slurm_pods/settings.py late_fill, start_peak). Root, and
a host with cgroup v1.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin.contract.quantity import MIB
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin_e2e.docker import LABEL, docker, remove
from slurmtwin_e2e.kind.daemon_log import wait_until_said_s
from slurmtwin_e2e.kind.manifests.slurm_files import slurmd_options
from slurmtwin_e2e.kind.supervised_restart import NODE, SERVES, write_mounts

SCENARIO: Final = Path("scenarios/faults/x63-oom-slurmd.yaml")
CGROUPS: Final = Path("/sys/fs/cgroup/memory")
LIMIT: Final = 256 * MIB
SUBMIT: Final = (
    "sbatch", f"--nodelist={NODE}", "--time=10", "--output=/dev/null", "/opt/slurmtwin/job", "1", "300", "0",
)  # fmt: skip
BEGUN: Final = "until [ -s /evidence/scripts.jsonl ]; do sleep 0.1; done; pkill -USR2 -f slurm_script"
"""Once its script runs, it is told to fill the volume."""
SERVES_S: Final = 60.0
DIES_S: Final = 20.0
LIVES_S: Final = 3.0
"""A container that finds no room is gone within a second."""
AGAIN_S: Final = 25.0
"""The requeued job waits 11 s, and for a pass of each 5."""


@dataclass(frozen=True, slots=True)
class Filled:
    """One volume that was filled."""

    room_mib: float
    """What the cgroup had left when its container was gone."""
    serves: bool
    """slurmd started once more and was there 3 s later."""
    outlives_job: bool | None
    """It also lived 3 s behind the start of its job; None: no job came."""


def measure(version: str) -> Filled:
    """One trial. Raises EnvironmentMissingError without Docker, the image or cgroup v1, or where nothing dies."""
    with pod(load_scenario(SCENARIO).of_version(version), version) as (slurmctld, slurmd, cgroup):
        wait_until_said_s(slurmd, SERVES["slurmd"], SERVES_S)
        docker("exec", slurmctld, *SUBMIT)
        docker("exec", slurmd, "bash", "-c", BEGUN, check=False, limit_s=60)
        if not _until(lambda: not runs(slurmd), DIES_S):
            raise EnvironmentMissingError("the volume is full and slurmd lives")
        room_mib = (LIMIT - int((cgroup / "memory.usage_in_bytes").read_text())) / MIB
        docker("start", slurmd, check=False)
        time.sleep(LIVES_S)
        serves = runs(slurmd)
        started = _until(lambda: "RUNNING" in _job(slurmctld), AGAIN_S) if serves else False
        if started:
            time.sleep(LIVES_S)
        return Filled(round(room_mib, 2), serves, runs(slurmd) if started else None)


def runs(container: str) -> bool:
    """Docker says so."""
    return docker("inspect", "--format", "{{.State.Running}}", container).stdout.strip() == "true"


def _job(slurmctld: str) -> str:
    return docker("exec", slurmctld, "squeue", "--noheader", "--format=%T", check=False).stdout


def _until(holds: Any, limit_s: float) -> bool:
    limit = time.monotonic() + limit_s
    while time.monotonic() < limit:
        if holds():
            return True
        time.sleep(0.1)
    return False


@contextmanager
def pod(scenario: Scenario, version: str) -> Iterator[tuple[str, str, Path]]:
    """slurmctld's container, slurmd's with a volume in memory, and the cgroup of both of these; all of it goes."""
    own = f"slurmtwin-full-{secrets.token_hex(4)}"
    names = {role: f"{own}-{role}" for role in (*SERVES, "volume")}
    hosts = {"slurmctld": "slurmctld-0", "slurmd": NODE}
    options = [option.replace("$(POD_NAME)", NODE) for option in slurmd_options(scenario)]
    cgroup = CGROUPS / own
    with tempfile.TemporaryDirectory() as folder:
        try:
            cgroup.mkdir()
            (cgroup / "memory.limit_in_bytes").write_text(str(LIMIT))
        except OSError as error:
            raise EnvironmentMissingError(f"no cgroup of its own: {error}") from error
        write_mounts(scenario, Path(folder))
        docker("network", "create", own)
        size = ("--opt", "type=tmpfs", "--opt", "device=tmpfs", "--opt", "o=size=1g")
        docker("volume", "create", "--driver", "local", *size, own)
        try:
            kept = ("--volume", f"{own}:/scratch", "--entrypoint", "sleep", f"slurmtwin/pod:{version}", "600")
            docker("run", "--detach", "--name", names["volume"], "--label", f"{LABEL}={own}", *kept)
            for role, host in hosts.items():
                place = ("--cgroup-parent", f"/{own}", "--volume", f"{own}:/scratch") if role == "slurmd" else ()
                docker(
                    "run", "--detach", "--name", names[role], "--label", f"{LABEL}={own}", "--network", own, *place,
                    "--hostname", host, "--network-alias", host, "--env", "SUPERVISED=0", "--tmpfs", "/evidence",
                    "--volume", f"{folder}/config:/config:ro", "--volume", f"{folder}/secrets:/secrets:ro",
                    f"slurmtwin/pod:{version}", role, *(options if role == "slurmd" else ()),
                )  # fmt: skip
            yield names["slurmctld"], names["slurmd"], cgroup
        finally:
            remove(list(names.values()))
            docker("volume", "rm", own, check=False)
            docker("network", "rm", own, check=False)
            with suppress(OSError):
                cgroup.rmdir()


def summary(found: Sequence[Filled]) -> dict[str, Any]:
    """How many slurmds found room, how many of those outlived their job's start, and each trial."""
    jobs = [one.outlives_job for one in found if one.outlives_job is not None]
    return {
        "trials": len(found), "serves": sum(one.serves for one in found),
        "jobs": len(jobs), "outlives_job": sum(jobs), "each": [asdict(one) for one in found],
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print JSON. Exit 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="26.05", help="of Slurm; its image of pods is there")
    parser.add_argument("--trials", type=int, default=10)
    options = parser.parse_args(arguments)
    found = [measure(options.version) for _ in range(options.trials)]
    sys.stdout.write(json.dumps({"version": options.version} | summary(found), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
