"""How long after a SIGKILL supervisord has a Slurm daemon back: `python -m slurmtwin_e2e.kind.supervised_restart`.

slurmctld and slurmd of the pods' image run in two containers without a cluster, one of them under supervisord, which
begins a round each second and whenever a pipe of its program closes. The daemon is killed again and again, at any
phase, and its log says when it serves. An end is answered one round later, or two (models/slurm_pods/supervisor.py).
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin_e2e.docker import LABEL, docker, remove
from slurmtwin_e2e.kind.daemon_log import said_s
from slurmtwin_e2e.kind.log_normal import log_normal
from slurmtwin_e2e.kind.manifests.keys import new_keys
from slurmtwin_e2e.kind.manifests.slurm_files import config_files, slurmd_options

SCENARIO: Final = Path("scenarios/faults/x62-slurmd-crash-supervised.yaml")
NODE: Final = "w-0"
SERVES: Final = {"slurmctld": "Running as primary controller", "slurmd": "slurmd started on"}
ROUND_S: Final = 1.0
JOB_LOG: Final = ("JobCompType=jobcomp/filetxt\n", "JobCompLoc=/var/log/slurm/jobcomp.log\n")
KILLS: Final = r"""
log=/var/log/slurm/$1.log
served() { grep -c "$2" "$log"; }
until [ "$(served "$@")" -gt 0 ]; do sleep 0.1; done
for ((i = 0; i < $3; i++)); do
  sleep "2.$((100 + RANDOM % 900))"
  before=$(served "$@"); pid=$(pidof -s "$1"); at=$EPOCHREALTIME
  kill -KILL "$pid"
  until [ "$(served "$@")" -gt "$before" ]; do sleep 0.02; done
  stamp=$(grep "$2" "$log" | tail -n 1)
  stamp=${stamp#[}
  echo "$at $(date -u -d "${stamp%%]*}" +%s.%N)"
done
"""
"""usage: ROLE LINE COUNT; says for each kill when it was and when the daemon served again, in unix seconds."""
SERVED: Final = r"""
log=/var/log/slurm/$1.log
until grep -q "$2" "$log"; do sleep 0.05; done
grep "$2" "$log" | tail -n 1
"""
"""usage: ROLE LINE; the last line with these words, once there is one."""


def measure(version: str, role: str, count: int) -> list[float]:
    """Seconds from each SIGKILL until the daemon serves. Raises EnvironmentMissingError without Docker or the image."""
    scenario = load_scenario(SCENARIO).of_version(version)
    with daemons(scenario, version, role) as names:
        run = ("exec", names[role], "bash", "-c", KILLS, "kills", role, SERVES[role], str(count))
        return list(spans(docker(*run, limit_s=60 + 10 * count).stdout))


def measure_starts(version: str, role: str, count: int, bare: bool = False) -> list[float]:
    """Seconds from a container's start until its daemon serves, under supervisord or bare. Raises as measure() does."""
    scenario = load_scenario(SCENARIO).of_version(version)
    found = []
    with daemons(scenario, version, "" if bare else role) as names:
        for _ in range(count):
            docker("exec", names[role], "rm", "--force", f"/var/log/slurm/{role}.log")
            docker("restart", "--time", "1", names[role])
            began_s = stamp_s(names[role], "StartedAt")
            line = docker("exec", names[role], "bash", "-c", SERVED, "served", role, SERVES[role], limit_s=60).stdout
            served_s = said_s(line, SERVES[role])
            assert served_s is not None
            found.append(served_s - began_s)
    return found


def stamp_s(name: str, stamp: str) -> float:
    """What Docker has of that container as StartedAt or FinishedAt, in unix seconds."""
    text = docker("inspect", "--format", f"{{{{.State.{stamp}}}}}", name).stdout.strip()
    return datetime.fromisoformat(text[:26].rstrip("Z") + "+00:00").timestamp()


def spans(text: str) -> Iterator[float]:
    """Of each line of KILLS: the second time less the first."""
    for line in text.splitlines():
        killed, served = line.split()
        yield float(served) - float(killed)


def summary(found: Sequence[float]) -> dict[str, Any]:
    """How many came back a round later and how many two, and what they took beyond those, as the median and the sigma
    of the logarithm (worlds/pod_durations.py)."""
    beyond = [max(span - ROUND_S * int(span / ROUND_S), 0.001) * 1000 for span in found]
    median, sigma = log_normal(beyond)
    return {
        "restarts": len(found),
        "two_rounds": sum(span >= 2 * ROUND_S for span in found),
        "beyond_ms": median,
        "sigma": sigma,
        "each_s": [round(span, 3) for span in found],
    }


def write_mounts(scenario: Scenario, folder: Path, job_log: bool = False) -> None:
    """What containers of the pods' image mount: config and secrets. job_log: with the jobs' log of a cluster's pods."""
    conf = config_files(scenario)
    lines = [line for line in conf["slurm.conf"].splitlines(True) if not line.startswith("JobComp")]
    conf["slurm.conf"] = "".join([*lines, *(JOB_LOG if job_log else ())])
    for part, files in (("config", conf), ("secrets", new_keys())):
        (folder / part).mkdir()
        for name, content in files.items():
            (folder / part / name).write_bytes(content if isinstance(content, bytes) else content.encode())


@contextmanager
def daemons(
    scenario: Scenario, version: str, supervised: str, job_log: bool = False
) -> Iterator[dict[str, str]]:  # fmt: skip
    """Container of each role, on a network of their own; all of it is removed at the end."""
    own = f"slurmtwin-supervised-{secrets.token_hex(4)}"
    names = {role: f"{own}-{role}" for role in SERVES}
    options = [option.replace("$(POD_NAME)", NODE) for option in slurmd_options(scenario)]
    hosts = {"slurmctld": "slurmctld-0", "slurmd": NODE}
    arguments = {"slurmctld": [], "slurmd": options}
    with tempfile.TemporaryDirectory() as folder:
        write_mounts(scenario, Path(folder), job_log)
        docker("network", "create", own)
        try:
            for role, host in hosts.items():
                docker(
                    "run", "--detach", "--name", names[role], "--label", f"{LABEL}={own}", "--network", own,
                    "--hostname", host, "--network-alias", host, "--env", f"SUPERVISED={int(role == supervised)}",
                    "--volume", f"{folder}/config:/config:ro", "--volume", f"{folder}/secrets:/secrets:ro",
                    f"slurmtwin/pod:{version}", role, *arguments[role],
                )  # fmt: skip
            yield names
        finally:
            remove(list(names.values()))
            docker("network", "rm", own, check=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print JSON. Exit 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="26.05", help="of Slurm; its image of pods is there")
    parser.add_argument("--role", choices=sorted(SERVES), default="slurmd")
    parser.add_argument("--restarts", type=int, default=40)
    parser.add_argument("--starts", type=int, default=0, help="measure so many starts of its container instead")
    parser.add_argument("--bare", action="store_true", help="with --starts: without supervisord")
    options = parser.parse_args(arguments)
    if options.starts:
        found = summary(measure_starts(options.version, options.role, options.starts, options.bare))
    else:
        found = summary(measure(options.version, options.role, options.restarts))
    sys.stdout.write(json.dumps({"version": options.version, "role": options.role} | found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
