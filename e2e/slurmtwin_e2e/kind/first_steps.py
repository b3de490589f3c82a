"""A new user's first steps: install the reference operator, apply one small file, and see `sinfo` answer.

What is timed is what the user waits for: from `kubectl apply` of the file until sinfo shows every node of its NodeSet
idle. The images are in the nodes before, where a registry's cache would have put them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin_e2e.images import Say
from slurmtwin_e2e.kind import slurm_images
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.operators import image as operator_image

FOLDER: Final = operator_image.IMPLEMENTATION
FILE: Final = FOLDER / "examples" / "first-cluster.yaml"
VERSION: Final = "26.05"
"""Of Slurm: the image that FILE names."""
BAR_S: Final = 60.0
LIMIT_S: Final = 180.0
"""Nothing is waited for longer."""
SINFO: Final = ("sinfo", "--Node", "--noheader", "--format=%N %T")


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """Seconds from the apply until all nodes were idle, and what sinfo then said."""

    seconds: float
    sinfo: str


def idle_nodes(told: str) -> int:
    """Number of idle nodes in sinfo's lines `NAME STATE`; a node counts once, a state with a mark (*, ~) does not."""
    cells = [line.split() for line in told.splitlines()]
    return len({cell[0] for cell in cells if cell[1:] == ["idle"]})


def _installed() -> str:
    """What `kubectl apply -f crds -f deploy` reads: definitions first."""
    files = [*sorted((FOLDER / "crds").glob("*.yaml")), *sorted((FOLDER / "deploy").glob("*.yaml"))]
    if not files or not FILE.is_file():
        raise EnvironmentMissingError(f"{FOLDER} is missing: first steps are made from a checkout")
    return "\n---\n".join(path.read_text() for path in files)


def install(cluster: Cluster, say: Say) -> None:
    """Images in the nodes, the operator from its shipped manifests, ready."""
    manifests = _installed()
    names = [operator_image.make(say), slurm_images.make(VERSION, say)]
    for name in slurm_images.load(cluster, names):
        say(f"copied {name} to {cluster.name}")
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests)
    where = ("-n", "slurmtwin-system", "deployment/slurmtwin-operator")
    cluster.kubectl("rollout", "status", f"--timeout={LIMIT_S:.0f}s", *where)


def first_steps(cluster: Cluster, namespace: str) -> FirstSteps:
    """Apply the file in a new namespace and wait for sinfo. Raises EnvironmentMissingError with what it said last."""
    cluster.kubectl("create", "namespace", namespace)
    start = time.monotonic()
    cluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=FILE.read_text())
    sets = cluster.items("nodesets.slurmtwin.dev", "-n", namespace)
    wanted = sum(int(item["spec"]["replicas"]) for item in sets)
    pod = f"{sets[0]['spec']['cluster']}-ctld-0"
    while True:
        told = cluster.kubectl("-n", namespace, "exec", pod, "--", *SINFO, check=False).strip()
        took = time.monotonic() - start
        if wanted and idle_nodes(told) == wanted:
            return FirstSteps(took, told)
        if took > LIMIT_S:
            raise EnvironmentMissingError(f"sinfo shows no {wanted} idle nodes after {took:.0f} s: {told or 'nothing'}")
        time.sleep(0.5)


def remove(cluster: Cluster, namespace: str) -> None:
    """Take the user's objects off, while the operator still answers for their finalizers."""
    cluster.kubectl("-n", namespace, "delete", "-f", "-", "--wait=true", "--ignore-not-found", stdin=FILE.read_text())
    cluster.kubectl("delete", "namespace", namespace, "--wait=true", "--ignore-not-found")


def uninstall(cluster: Cluster) -> None:
    """Take the operator off again."""
    cluster.kubectl("delete", "--ignore-not-found", "--wait=true", "-f", "-", stdin=_installed(), check=False)


def one_user(cluster: Cluster, namespace: str, say: Say) -> list[str]:
    """One new user where the operator runs; what was wrong, [] when sinfo came in time."""
    found = first_steps(cluster, namespace)
    say(f"{namespace}: sinfo shows all nodes idle after {found.seconds:.1f} s")
    say(found.sinfo)
    return [f"{namespace}: {found.seconds:.0f} s, more than {BAR_S:.0f}"] if found.seconds > BAR_S else []


def measure(cluster: Cluster, times: int, say: Say) -> list[str]:
    """So many new users, one after the other, and the operator off again; what was wrong."""
    wrong = []
    try:
        install(cluster, say)
        for number in range(1, times + 1):
            wrong += one_user(cluster, f"first-steps-{number}", say)
            remove(cluster, f"first-steps-{number}")
    finally:
        uninstall(cluster)
    return wrong
