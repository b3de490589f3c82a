"""Real CPU sets on a real kubelet, step by step: `python -m slurmtwin_e2e.kind.prove_pinning [--out FILE]`.

One worker with the static CPU manager (CPU 0 reserved), a pod without limits and Guaranteed pods that want CPU 1. After
each step stand, for every container, the kubelet's own account and the kernel's cpuset, and for every pod its phase,
reason and restarts. What is expected is in the program, derived from the kubelet's rules; exit 1 where it differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin.contract.kubernetes import Kubelet, KubernetesCluster, NodeGroup
from slurmtwin_e2e.docker import docker
from slurmtwin_e2e.kind import lifecycle
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.pins import pins
from slurmtwin_e2e.kind.programs import Say
from slurmtwin_e2e.kind_world import say

KUBELET: Final = Kubelet(cpu_manager="static", reserved_cpus="0", exclusive_cpus=1)
SECTION: Final = KubernetesCluster(name="pinning", workers=[NodeGroup(kubelet=KUBELET)])
STATE: Final = "/var/lib/kubelet/cpu_manager_state"
LIMIT_S: Final = 90.0
Seen = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Step:
    """One act, and what must be seen after it: pod -> the facts that are asked for."""

    name: str
    act: Callable[[Cluster], None]
    expected: Seen


def _pod(name: str, node: str, cpu: str = "") -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "c", "image": pins().network_pod_image, "imagePullPolicy": "Never", "command": ["sleep", "3600"],
    }  # fmt: skip
    if cpu:
        container["resources"] = {"limits": {"cpu": cpu, "memory": "32Mi"}}
    # bound by hand: the scheduler would keep a second one pending, the kubelet must refuse it
    spec = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _create(name: str, cpu: str = "") -> Callable[[Cluster], None]:
    return lambda cluster: _apply(cluster, _pod(name, cluster.workers[0], cpu))


def _apply(cluster: Cluster, item: dict[str, Any]) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(item))


def _delete(name: str) -> Callable[[Cluster], None]:
    def act(cluster: Cluster) -> None:
        cluster.kubectl("delete", "pod", name, "--wait=true")

    return act


def _inside(script: str) -> Callable[[Cluster], None]:
    def act(cluster: Cluster) -> None:
        docker("exec", cluster.workers[0], "sh", "-c", script)

    return act


def _kill(name: str) -> Callable[[Cluster], None]:
    def act(cluster: Cluster) -> None:
        container = seen(cluster)[name]["container"]
        docker("exec", cluster.workers[0], "sh", "-c", f"ctr -n k8s.io tasks kill -s 9 {container}")

    return act


def _restart_node(cluster: Cluster) -> None:
    docker("restart", "-t", "15", cluster.workers[0])


def _stale_state(cluster: Cluster) -> None:
    """The kubelet is started on the account of another policy, must not come up, and gets its own back."""
    node = cluster.workers[0]
    script = (
        f"systemctl stop kubelet; cp {STATE} {STATE}.kept; rm -f {STATE}; "
        'echo \'{"policyName":"none","defaultCpuSet":"","checksum":1353318690}\' > ' + STATE + "; "
        "since=$(date '+%F %T'); systemctl start kubelet || true; sleep 6; "
        "journalctl -u kubelet --since \"$since\" --no-pager -o cat | grep -m1 -o 'configured policy.*' || true; "
        f"systemctl stop kubelet; mv {STATE}.kept {STATE}; "
        "systemctl reset-failed kubelet || true; systemctl start kubelet"
    )
    said = docker("exec", node, "sh", "-c", script).stdout
    if "differs from state checkpoint policy" not in said:
        raise EnvironmentMissingError(f"the kubelet took the account of another policy: {said[-300:]!r}")


ONE: Final[dict[str, Any]] = {"phase": "Running", "cpu_manager": "1", "cgroup": "1"}
SHRUNK: Final[dict[str, Any]] = {"phase": "Running", "cpu_manager": "0", "cgroup": "0"}
WHOLE: Final[dict[str, Any]] = {"phase": "Running", "cpu_manager": "0-1", "cgroup": "0-1"}
REFUSED: Final[dict[str, Any]] = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
"""Not OutOfcpu: the managers' admission comes before that of sizes (pkg/kubelet/kubelet.go, v1.34.2)."""
STEPS: Final = (
    Step("a pod without limits has the shared pool", _create("shared"), {"shared": WHOLE}),
    Step("a Guaranteed pod gets a CPU, the shared pool shrinks", _create("first", "1"), {
        "shared": SHRUNK, "first": ONE | {"restarts": 0}}),
    Step("a second Guaranteed pod is refused", _create("second", "1"), {
        "shared": SHRUNK, "first": ONE | {"restarts": 0}, "second": REFUSED}),
    Step("its container dies and is restarted on the same CPU", _kill("first"), {
        "shared": SHRUNK, "first": ONE | {"restarts": 1}}),
    Step("the kubelet is restarted", _inside("systemctl restart kubelet"), {
        "shared": SHRUNK, "first": ONE | {"restarts": 1}}),
    Step("the account is another policy's: the kubelet does not start; with its own it does", _stale_state, {
        "shared": SHRUNK, "first": ONE | {"restarts": 1}}),
    Step("the node is restarted", _restart_node, {
        "shared": SHRUNK | {"restarts": 1}, "first": ONE | {"restarts": 2}}),
    Step("the Guaranteed pod is deleted, the shared pool grows", _delete("first"), {"shared": WHOLE}),
)  # fmt: skip


def seen(cluster: Cluster) -> Seen:
    """Every pod of the namespace `default`: phase, reason, restarts, and its CPU set by the kubelet and the kernel."""
    out: Seen = {}
    account = docker("exec", cluster.workers[0], "cat", STATE, check=False).stdout
    given = json.loads(account) if account.strip() else {}
    for item in cluster.items("pods"):
        status = item["status"]
        first = (status.get("containerStatuses") or [{}])[0]
        container = str(first.get("containerID", "")).rpartition("//")[2]
        sets = (given.get("entries") or {}).get(item["metadata"]["uid"], {})
        row: dict[str, Any] = {
            "phase": status.get("phase"), "restarts": first.get("restartCount", 0),
            "cpu_manager": next(iter(sets.values()), given.get("defaultCpuSet", "")),
        }  # fmt: skip
        if status.get("reason"):
            row["reason"] = status["reason"]
        if container and first.get("state", {}).get("running"):
            row["container"] = container
            row["cgroup"] = docker(
                "exec", cluster.workers[0], "sh", "-c",
                f"cat $(find /sys/fs/cgroup/cpuset /sys/fs/cgroup -path '*{container}*' "
                "\\( -name cpuset.cpus -o -name cpuset.cpus.effective \\) 2>/dev/null | head -1)", check=False,
            ).stdout.strip()  # fmt: skip
        out[item["metadata"]["name"]] = row
    return out


def differences(expected: Seen, found: Seen) -> list[str]:
    """What is not as expected, as POD.FACT: FOUND, expected EXPECTED."""
    return [
        f"{pod}.{fact}: {found.get(pod, {}).get(fact)!r}, expected {value!r}"
        for pod, facts in expected.items()
        for fact, value in facts.items()
        if found.get(pod, {}).get(fact) != value
    ]


def run(cluster: Cluster, tell: Say) -> list[dict[str, Any]]:
    """All steps in order; each waits until what is expected is seen, for LIMIT_S at most."""
    out = []
    for step in STEPS:
        start = time.monotonic()
        step.act(cluster)
        while True:
            try:
                found = seen(cluster)
            except EnvironmentMissingError:
                found = {}  # the node boots
            wrong = differences(step.expected, found)
            if not wrong or time.monotonic() - start > LIMIT_S:
                break
            time.sleep(0.5)
        took = time.monotonic() - start
        plain = {pod: {k: v for k, v in facts.items() if k != "container"} for pod, facts in sorted(found.items())}
        out.append({"step": step.name, "seconds": round(took, 1), "pods": plain, "differs": wrong})
        tell(f"{step.name}: {'as expected' if not wrong else '; '.join(wrong)} ({took:.1f} s)")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all steps on a cluster of their own. Exit 0 when all is as expected, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the steps there, as JSON")
    options = parser.parse_args(arguments)
    with lifecycle.running([SECTION], say, logs=Path("out/kind-logs")) as (cluster,):
        steps = run(cluster, say)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        document = {
            "kubernetes": pins().kubernetes,
            "kubelet": KUBELET.model_dump(exclude_defaults=True),
            "steps": steps,
        }
        options.out.write_text(json.dumps(document, indent=1) + "\n")
    wrong = [text for step in steps for text in step["differs"]]
    say(f"{len(steps)} steps, {len(wrong)} facts differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
