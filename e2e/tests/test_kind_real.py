"""A real cluster on this machine, now. Runs where SLURMTWIN_KIND=1 asks for it (`nox -s e2e`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmtwin.contract.kubernetes import Kubelet, KubernetesCluster, NodeGroup
from slurmtwin_e2e.docker import docker
from slurmtwin_e2e.kind import lifecycle, owner
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.pins import pins

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("SLURMTWIN_KIND") != "1", reason="real cluster: needs Docker, SLURMTWIN_KIND=1"),
    pytest.mark.xdist_group("kind"),
]
PINNED = Kubelet(cpu_manager="static", reserved_cpus="0", eviction_hard={"memory.available": "64Mi"})
SECTION = KubernetesCluster(name="test", workers=[NodeGroup(count=2), NodeGroup(kubelet=PINNED, labels={"pool": "a"})])
SHELL = pins().network_pod_image


def say(text: str) -> None:
    """To pytest's captured output."""
    sys.stderr.write(f"{text}\n")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One cluster of 1 + 3 nodes for all tests; each leaves it clean."""
    with lifecycle.running([SECTION], say, logs=Path("out/kind-logs")) as clusters:
        yield clusters[0]


def pod(name: str, command: str, node: str = "", **more: object) -> str:
    """A pod's manifest: one shell command."""
    container = {"name": "c", "image": SHELL, "imagePullPolicy": "Never", "command": ["sh", "-c", command], **more}
    spec: dict[str, object] = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    if node:
        spec["nodeName"] = node
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def wait_ready(cluster: Cluster, name: str) -> None:
    """Until the pod is Ready."""
    cluster.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")


def test_all_system_pods_run_and_nothing_restarted(cluster: Cluster) -> None:
    """Control plane, DNS, network and storage pods are up on 1 + 3 nodes."""
    assert len(cluster.items("nodes")) == 4
    pods = cluster.items("pods", "-A")
    restarted = [
        (p["metadata"]["name"], status["lastState"])
        for p in pods
        for status in p["status"]["containerStatuses"]
        if status["restartCount"]
    ]
    assert len(pods) >= 15
    assert restarted == []


def test_kubelets_differ_by_node(cluster: Cluster) -> None:
    """Only the last worker has the static CPU manager; a guaranteed pod there gets a CPU of its own."""
    state = "/var/lib/kubelet/cpu_manager_state"
    policies = [json.loads(docker("exec", node, "cat", state).stdout)["policyName"] for node in cluster.workers]
    assert policies == ["none", "none", "static"]
    exact = {"cpu": "1", "memory": "32Mi"}
    manifest = pod("pinned", "sleep 600", cluster.workers[2], resources={"requests": exact, "limits": exact})
    cluster.kubectl("apply", "-f", "-", stdin=manifest)
    wait_ready(cluster, "pinned")
    shown = cluster.kubectl("exec", "pinned", "--", "sh", "-c", "grep Cpus_allowed_list /proc/self/status")
    assert shown.split()[1] == "1"
    assert lifecycle.make_clean(cluster) == []


def test_pods_reach_other_nodes_and_names(cluster: Cluster) -> None:
    """From a pod on each worker: a pod of another node answers, a service's name resolves, the API answers."""
    dns = cluster.items("pods", "-n", "kube-system", "-l", "k8s-app=kube-dns")[0]["status"]["podIP"]
    for node in cluster.workers:
        cluster.kubectl("apply", "-f", "-", stdin=pod(f"on-{node}", "sleep 600", node))
    for node in cluster.workers:
        wait_ready(cluster, f"on-{node}")
        inside = ("exec", f"on-{node}", "--", "curl", "-sk", "--max-time", "5")
        assert cluster.kubectl(*inside, f"http://{dns}:8181/ready") == "OK"
        assert cluster.kubectl(*inside, "https://kubernetes.default.svc.cluster.local/livez") == "ok"
    assert lifecycle.make_clean(cluster) == []


def test_all_nodes_share_one_directory(cluster: Cluster) -> None:
    """What one node writes every node reads, and so does the host."""
    docker("exec", cluster.workers[0], "sh", "-c", f"echo one > {cluster.shared_inside}/file")
    seen = [docker("exec", node, "cat", f"{cluster.shared_inside}/file").stdout for node in cluster.nodes]
    assert seen == ["one\n"] * 4
    assert (cluster.shared / "file").read_text() == "one\n"
    assert lifecycle.make_clean(cluster) == []


def test_a_claim_is_bound_and_gone_when_cleaned(cluster: Cluster) -> None:
    """The default storage class gives a volume; cleaning removes the claim, the volume and the directory."""
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "state"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Mi"}}},
    }  # fmt: skip
    user = json.loads(pod("user", "echo kept > /state/file; sleep 600"))
    user["spec"]["volumes"] = [{"name": "s", "persistentVolumeClaim": {"claimName": "state"}}]
    user["spec"]["containers"][0]["volumeMounts"] = [{"name": "s", "mountPath": "/state"}]
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [claim, user]}))
    wait_ready(cluster, "user")
    assert cluster.items("pv")
    assert lifecycle.make_clean(cluster) == []
    assert not cluster.items("pv")


@pytest.mark.parametrize(
    ("plant", "remove", "says"),
    [
        ("iptables -A FORWARD -s 10.9.9.9 -j DROP", "iptables -D FORWARD -s 10.9.9.9 -j DROP", "10.9.9.9"),
        ("tc qdisc add dev eth0 root pfifo limit 9", "tc qdisc del dev eth0 root", "pfifo"),
        ("touch /var/leftover", "rm /var/leftover", "leftover"),
        ("systemctl stop kubelet", "systemctl start kubelet", "unit inactive"),
        ("pkill -STOP -o containerd", "pkill -CONT -o containerd", "stopped"),
        ("echo 1.2.3.4 x >> /etc/hosts", "sed '/1.2.3.4/d' /etc/hosts > /tmp/h; cat /tmp/h > /etc/hosts", "/etc/hosts"),
    ],
)  # fmt: skip
def test_what_a_fault_left_in_a_node_is_found(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, plant: str, remove: str, says: str
) -> None:
    """A node that is not as it was makes the cluster unclean, with the leftover named; undone, it is clean again."""
    monkeypatch.setattr("slurmtwin_e2e.kind.cleanness.CLEAN_LIMIT_S", 0.0)
    docker("exec", cluster.workers[1], "sh", "-c", plant)
    try:
        assert says in "\n".join(lifecycle.make_clean(cluster))
    finally:
        docker("exec", cluster.workers[1], "sh", "-c", remove)
    monkeypatch.undo()
    assert lifecycle.make_clean(cluster) == []


def test_a_killed_run_is_swept_by_the_next(cluster: Cluster) -> None:
    """SIGKILL in the middle of making a cluster: containers, volume, files and processes go with the next sweep."""
    program = (
        "from slurmtwin.contract.kubernetes import KubernetesCluster, NodeGroup\n"
        "from slurmtwin_e2e.kind import lifecycle\n"
        "print('go', flush=True)\n"
        "with lifecycle.running([KubernetesCluster(name='killed', workers=[NodeGroup()])], print):\n"
        "    pass\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "go\n"
        while len(owner.containers("slurmtwin-killed")) < 2:
            assert child.poll() is None
        child.send_signal(signal.SIGKILL)
    assert lifecycle.sweep(say) == ["slurmtwin-killed"]
    assert owner.containers("slurmtwin-killed") == []
    assert [record.name for record in owner.records() if "killed" in record.name] == []
    listed = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, check=True).stdout
    assert not [line for line in listed.splitlines() if "kind" in line and "slurmtwin-killed" in line]
    assert cluster.not_running() == []
