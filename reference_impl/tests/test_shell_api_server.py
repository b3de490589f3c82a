"""The operator's process against the real kube-apiserver and etcd, with the rights of its own service account.

Schemas, server-side apply, preconditions, subresources and RBAC are the real ones; slurmrestd and the kubelet are
doubles. The programs are those of the node image (python -m slurmtwin_e2e.kind image); without them: skipped.
"""

from __future__ import annotations

import asyncio
import gc
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.request import Request, urlopen

import kopf
import pytest

from slurmtwin_e2e.kind.pins import cache_folder
from slurmtwin_operator.replay import Recorder, replay
from slurmtwin_operator.shell.kube_api import KubeApi, KubeError
from slurmtwin_operator.shell.objects import stamp
from slurmtwin_operator.shell.process import Operator, handlers, kopf_settings
from slurmtwin_operator.shell.settings import Settings
from slurmtwin_operator.testing.servers import SlurmServer

ROOT = Path(__file__).parents[1]
ADMIN = "admin-of-the-test"
LIMIT_S = 40.0
CLUSTER = """
apiVersion: slurmtwin.dev/v1
kind: Cluster
metadata: {name: c}
spec:
  image: slurm:26.05
---
apiVersion: slurmtwin.dev/v1
kind: NodeSet
metadata: {name: w}
spec:
  cluster: c
  replicas: 2
  image: slurm:26.05
"""


def program(name: str) -> Path | None:
    """The newest program of that name that the node image was built from."""
    found = sorted((cache_folder() / "programs").glob(f"{name}-*"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None


def free_port() -> int:
    """A port of the loopback interface that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass(frozen=True)
class Server:
    """A running API server."""

    base: str
    folder: Path
    kubectl_path: Path

    @property
    def authority(self) -> Path:
        """Its own certificate."""
        return self.folder / "certs" / "apiserver.crt"

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """kubectl as the administrator."""
        command = [str(self.kubectl_path), "--server", self.base, "--certificate-authority", str(self.authority)]
        done = subprocess.run([*command, "--token", ADMIN, *arguments], input=stdin, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """etcd and kube-apiserver on loopback, with our CRDs and rights."""
    etcd, kubernetes = program("etcd"), program("kubernetes")
    if etcd is None or kubernetes is None:
        pytest.skip("no API server here: python -m slurmtwin_e2e.kind image builds one")
    folder = tmp_path_factory.mktemp("api")
    for name in ("kube-apiserver", "kubectl"):
        (folder / name).symlink_to(kubernetes)
    subprocess.run(["openssl", "genrsa", "-out", folder / "sa.key", "2048"], check=True, capture_output=True)
    (folder / "tokens").write_text(f'{ADMIN},admin,1,"system:masters"\n')
    store, peer, port = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}", free_port()
    commands = [
        [str(etcd), "--data-dir", str(folder / "data"), "--listen-client-urls", store, "--advertise-client-urls", store,
         "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
         "--log-level", "error"],
        [str(folder / "kube-apiserver"), f"--etcd-servers={store}", "--bind-address=127.0.0.1", f"--secure-port={port}",
         f"--cert-dir={folder / 'certs'}", f"--service-account-key-file={folder / 'sa.key'}",
         f"--service-account-signing-key-file={folder / 'sa.key'}", "--service-account-issuer=https://test",
         "--authorization-mode=RBAC", f"--token-auth-file={folder / 'tokens'}",
         "--service-cluster-ip-range=10.97.0.0/24", "--disable-admission-plugins=ServiceAccount"],
    ]  # fmt: skip
    log = (folder / "log").open("w")
    running = [subprocess.Popen(command, stdout=log, stderr=log) for command in commands]
    try:
        found = Server(f"https://127.0.0.1:{port}", folder, folder / "kubectl")
        wait_until_ready(found)
        found.kubectl("apply", "--server-side", "--validate=strict", "-f", str(ROOT / "crds"))
        found.kubectl("apply", "-f", str(ROOT / "deploy"))
        node = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "k1"}}'
        found.kubectl("apply", "-f", "-", stdin=node)
        yield found
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()
        log.close()
        shutil.rmtree(folder / "data", ignore_errors=True)


def wait_until_ready(server: Server) -> None:
    """Until /readyz says so."""
    end = time.monotonic() + LIMIT_S
    while True:
        try:
            context = ssl.create_default_context(cafile=str(server.authority))
            ask = Request(f"{server.base}/readyz", headers={"Authorization": f"Bearer {ADMIN}"})
            with urlopen(ask, context=context, timeout=2):
                return
        except OSError:
            assert time.monotonic() < end, (server.folder / "log").read_text()[-800:]
            time.sleep(0.2)


class Kubelet:
    """Binds pods, runs them, registers them with Slurm, and ends those that are going."""

    def __init__(self, admin: KubeApi, namespace: str, slurm: SlurmServer) -> None:
        self.admin, self.namespace, self.slurm = admin, namespace, slurm

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            pods = await self.admin.items("Pod", self.namespace, "")
            for pod in pods:
                try:
                    await self._look(pod["metadata"]["name"], pod)
                except KubeError as error:
                    if error.status not in (404, 409):  # the pod went, or is going, since it was listed
                        raise
            there = {pod["metadata"]["name"] for pod in pods}
            for name, record in self.slurm.nodes.items():
                if name not in there and "NOT_RESPONDING" not in record["state"]:
                    record["state"].append("NOT_RESPONDING")
            await asyncio.sleep(0.1)

    async def _look(self, name: str, pod: dict[str, Any]) -> None:
        path = f"api/v1/namespaces/{self.namespace}/pods/{name}"
        if "deletionTimestamp" in pod["metadata"]:
            await self.admin.request("DELETE", path, {"gracePeriodSeconds": 0})
        elif (pod.get("status") or {}).get("phase") != "Running":
            if not pod["spec"].get("nodeName"):
                target = {"kind": "Node", "name": "k1"}
                body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
                await self.admin.request("POST", f"{path}/binding", body)
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp(time.time_ns())}
            status = {"phase": "Running", "conditions": [ready]}
            await self.admin.patch("Pod", self.namespace, name, {"status": status}, "status")
            self.slurm.add_node(name)


@dataclass
class Place:
    """One namespace with an operator that looks after it."""

    namespace: str
    server: Server
    slurm: SlurmServer
    operator: Operator
    record: Path
    kubelet: asyncio.Task[None]

    def apply(self, text: str) -> None:
        """kubectl apply."""
        self.server.kubectl("-n", self.namespace, "apply", "-f", "-", stdin=text)

    def names(self, kind: str) -> list[str]:
        """Names of the objects of a kind."""
        return sorted(self.server.kubectl("-n", self.namespace, "get", kind, "-o", "name").split())

    async def until(self, what: Callable[[], Any], wanted: Any) -> None:
        """Wait until what() says so."""
        end = time.monotonic() + LIMIT_S
        while (found := what()) != wanted:
            if self.kubelet.done():
                self.kubelet.result()
            assert time.monotonic() < end, f"{found!r} does not become {wanted!r}\n{self.told()}"
            await asyncio.sleep(0.2)

    def told(self) -> str:
        """What an operator's user would look at: pods, Slurm's nodes and the last passes."""
        pods = self.server.kubectl("-n", self.namespace, "get", "pods,nodesets", "-o", "wide")
        passes = "\n".join(line[-1500:] for line in self.record.read_text().splitlines()[-3:])
        return f"{pods}\n{self.slurm.nodes}\n{passes}"


@asynccontextmanager
async def operated(server: Server, namespace: str) -> AsyncIterator[Place]:
    """The operator with kopf, as its service account."""
    server.kubectl("create", "namespace", namespace)
    token, admin_token = server.folder / f"{namespace}.token", server.folder / "admin"
    account = ("-n", "slurmtwin-system", "create", "token", "slurmtwin-operator")
    token.write_text(server.kubectl(*account))
    admin_token.write_text(ADMIN)
    slurm, stop = SlurmServer(), asyncio.Event()
    record = server.folder / namespace / "plans.jsonl"
    record.parent.mkdir()
    async with (
        slurm.serve() as rest, KubeApi(server.base, token, server.authority) as api,
        KubeApi(server.base, admin_token, server.authority) as admin,
    ):  # fmt: skip
        with record.open("w") as stream:
            settings = Settings(identity=namespace, watch_namespaces=namespace)
            operator = Operator(settings, api, recorder=Recorder(stream), endpoint=lambda *_: rest)
            access = kopf.ConnectionInfo(
                server=server.base, ca_path=str(server.authority), token=token.read_text().strip()
            )
            tasks = [asyncio.create_task(loop) for loop in (operator.lead(), operator.poll(), operator.work())]
            kubelet = asyncio.create_task(Kubelet(admin, namespace, slurm).run())
            watching = asyncio.create_task(
                kopf.operator(registry=handlers(operator, lambda: access), settings=kopf_settings(), stop_flag=stop,
                              standalone=True, namespaces=[namespace], identity=cast(Any, namespace))
            )  # fmt: skip
            try:
                yield Place(namespace, server, slurm, operator, record, kubelet)
            finally:
                stop.set()
                kubelet.cancel()
                await operator.stop(tasks)
                await asyncio.wait([watching, kubelet], timeout=LIMIT_S)


def play(server: Server, namespace: str, story: Callable[[Place], Awaitable[None]]) -> None:
    """Run a story."""

    async def run() -> None:
        async with operated(server, namespace) as place:
            await story(place)

    asyncio.run(run())
    gc.collect()  # kopf may leave connections open: found here, where that is ignored, and in no later test


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_cluster_lives_from_creation_to_deletion_with_the_rights_it_has(server: Server, tmp_path: Path) -> None:
    """Create, scale in, change the template, delete: no action is refused, and every recorded pass replays equal."""

    async def story(place: Place) -> None:
        place.apply(CLUSTER)
        await place.until(lambda: place.names("pods"), ["pod/w-0", "pod/w-1"])
        form = "jsonpath={.status.updated} {.status.available}"
        await place.until(lambda: server.kubectl("-n", place.namespace, "get", "nodeset/w", "-o", form), "2 2")
        assert place.names("statefulsets,deployments") == ["deployment.apps/c-rest", "statefulset.apps/c-ctld"]
        server.kubectl("-n", place.namespace, "scale", "nodeset/w", "--replicas=1")
        await place.until(lambda: place.names("pods"), ["pod/w-0"])
        patch = '{"spec": {"features": ["new"]}}'
        server.kubectl("-n", place.namespace, "patch", "nodeset/w", "--type=merge", "-p", patch)
        await place.until(lambda: server.kubectl("-n", place.namespace, "get", "nodeset/w", "-o", form), "1 1")
        server.kubectl("-n", place.namespace, "delete", "cluster/c", "nodeset/w", "--wait=false")
        await place.until(lambda: place.names("clusters,nodesets"), [])
        assert 'outcome="failed"' not in place.operator.telemetry.text().decode()

    play(server, "life", story)
    found = replay(server.folder / "life" / "plans.jsonl")
    assert found.difference is None
    assert found.passes > 10


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_service_account_can_do_nothing_beside_its_work(server: Server) -> None:
    """Lists of secrets, roles and tokens are refused by the real RBAC."""

    async def story() -> None:
        token = server.folder / "narrow.token"
        token.write_text(server.kubectl("-n", "slurmtwin-system", "create", "token", "slurmtwin-operator"))
        async with KubeApi(server.base, token, server.authority) as api:
            for path in (
                "api/v1/secrets", "api/v1/namespaces/slurmtwin-system/secrets",
                "apis/rbac.authorization.k8s.io/v1/clusterroles", "api/v1/namespaces",
                "apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
            ):  # fmt: skip
                with pytest.raises(KubeError) as caught:
                    await api.request("GET", path)
                assert caught.value.status == 403

    asyncio.run(story())
