"""How much room a full volume leaves a worker, and how much it needs: `python -m slurmtwin_e2e.kind.full_volume`.

A job writes a volume in memory until the kernel takes slurmd for it (x63-oom-slurmd), without a cluster: the worker's
container lies in a cgroup of 256 MiB, as in its pod's, and what the volume has keeps counting there when the container
is gone. So each trial says how much is left then; with `--room` it fills the volume up to there itself, starts slurmd
again and says whether that lives, and whether it lives through the start of a job
(models/slurm_pods/settings.py late_fill, slurmd_memory, stepd_memory). Root, and a host with cgroup v1.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
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
SLURMD_LOG: Final = "/var/log/slurm/slurmd.log"
SUBMIT: Final = (
    "sbatch", f"--nodelist={NODE}", "--time=10", "--output=/dev/null", "/opt/slurmtwin/job", "1", "300", "0",
)  # fmt: skip
BEGUN: Final = "until [ -s /evidence/scripts.jsonl ]; do sleep 0.1; done; sleep 1"
FILL: Final = "pkill -USR2 -f slurm_script"
"""The job's script is told to fill the volume."""
SERVES_S: Final = 60.0
DIES_S: Final = 20.0
LIVES_S: Final = 2.5
"""A container that finds no room is gone within half a second."""
STARTS_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Needs:
    """What a worker makes of so much room."""

    room_mib: float
    lives: bool
    """slurmd started and was there 2.5 s later."""
    outlives_job: bool | None
    """It was also there 2.5 s behind the start of a job; None: it did not live, or no job came."""


def room_left(version: str) -> float:
    """MiB that its cgroup has left where a job has filled the volume and the container is gone.

    Raises EnvironmentMissingError without Docker, the image or cgroup v1, or where nothing dies.
    """
    with worker(load_scenario(SCENARIO).of_version(version), version) as (slurmctld, slurmd, cgroup, _own):
        docker("exec", slurmctld, *SUBMIT)
        docker("exec", slurmd, "bash", "-c", BEGUN, limit_s=60)
        docker("exec", slurmd, "bash", "-c", FILL, check=False, limit_s=60)
        if not _until(lambda: not runs(slurmd), DIES_S):
            raise EnvironmentMissingError("the volume is full and slurmd lives")
        time.sleep(0.5)
        return _room_mib(cgroup)


def needs(version: str, room_mib: float) -> Needs:
    """What happens in about so much room. Raises as room_left() does."""
    with worker(load_scenario(SCENARIO).of_version(version), version) as (slurmctld, slurmd, cgroup, own):
        docker("kill", slurmd)
        time.sleep(0.5)
        kib = round((LIMIT / MIB - room_mib) * 1024)
        words = ("if=/dev/zero", "of=/scratch/fill", "bs=1k", f"count={kib}")
        place = ("--cgroup-parent", f"/{own}", "--volume", f"{own}:/scratch", "--entrypoint", "dd")
        docker("run", "--rm", "--label", f"{LABEL}={own}", *place, f"slurmtwin/pod:{version}", *words, limit_s=60)
        left_mib = _room_mib(cgroup)
        docker("start", slurmd, check=False)
        time.sleep(LIVES_S)
        if not runs(slurmd):
            return Needs(left_mib, False, None)
        docker("exec", slurmctld, *SUBMIT)
        started = _until(lambda: "RUNNING" in _jobs(slurmctld), STARTS_S)
        time.sleep(LIVES_S)
        return Needs(left_mib, True, runs(slurmd) if started else None)


def runs(container: str) -> bool:
    """Docker says so."""
    return docker("inspect", "--format", "{{.State.Running}}", container).stdout.strip() == "true"


def _room_mib(cgroup: Path) -> float:
    return round((LIMIT - int((cgroup / "memory.usage_in_bytes").read_text())) / MIB, 2)


def _jobs(slurmctld: str) -> str:
    return docker("exec", slurmctld, "squeue", "--noheader", "--format=%T", check=False).stdout


def _until(holds: Callable[[], bool], limit_s: float) -> bool:
    limit = time.monotonic() + limit_s
    while time.monotonic() < limit:
        if holds():
            return True
        time.sleep(0.1)
    return False


@contextmanager
def worker(scenario: Scenario, version: str) -> Iterator[tuple[str, str, Path, str]]:
    """slurmctld's container, slurmd's with a volume in memory, the cgroup of both of these, and its name; all goes.

    slurmd serves.
    """
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
            wait_until_said_s(names["slurmd"], SERVES["slurmd"], SERVES_S, SLURMD_LOG)
            yield names["slurmctld"], names["slurmd"], cgroup, own
        finally:
            remove(list(names.values()))
            docker("volume", "rm", own, check=False)
            docker("network", "rm", own, check=False)
            with suppress(OSError):
                cgroup.rmdir()


def summary(rooms_mib: Sequence[float]) -> dict[str, Any]:
    """Each trial's room, and what was written into the most of it before the container was gone."""
    most = max(rooms_mib, default=0.0)
    late = sorted(round(most - room, 2) for room in rooms_mib)
    return {"trials": len(late), "most_room_mib": most, "late_mib": late, "median_mib": median(late) if late else None}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print JSON. Exit 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="26.05", help="of Slurm; its image of pods is there")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--room", type=float, nargs="+", metavar="MIB", help="what does slurmd make of so much room?")
    options = parser.parse_args(arguments)
    if options.room:
        found: dict[str, Any] = {"each": [asdict(needs(options.version, room)) for room in options.room]}
    else:
        found = summary([room_left(options.version) for _ in range(options.trials)])
    sys.stdout.write(json.dumps({"version": options.version} | found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
