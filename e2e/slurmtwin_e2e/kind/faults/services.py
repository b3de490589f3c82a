"""Faults of what Slurm's pods rest on: API server, images, keys, clocks."""

from __future__ import annotations

import base64
import calendar
import secrets
import shlex
import time
from typing import Any, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.cluster_faults import BURST_NS
from slurmtwin.contract.errors import InputError
from slurmtwin_e2e.kind.api import ApiError
from slurmtwin_e2e.kind.faults.base import Fault, container_status, until
from slurmtwin_e2e.kind.faults.operator import Aim, aim
from slurmtwin_e2e.operators.values import image_values

MANIFEST: Final = "/etc/kubernetes/manifests/kube-apiserver.yaml"
FIND: Final = "pgrep -o -f '^(/usr/local/bin/)?kube-apiserver '"
KEPT: Final = "/etc/kubernetes/kube-apiserver.kept"
SLOW_FLAG: Final = "/run/slurmtwin-slow"
SIGNALS: Final = "/run/slurmtwin-slow.signals"
RUN_S: Final = BURST_NS / SECOND
NO_IMAGE: Final = "registry.invalid/slurmtwin/pod:none"
CONFIG_LIMIT_S: Final = 150.0
"""The kubelet looks at mounted ConfigMaps each minute or a little later."""
JWT_KEY: Final = "/run/slurm-keys/jwt_hs256.key"


def in_bursts(pid: str, pause_s: float) -> str:
    """A command by which a process runs for RUN_S between pauses, in the background; each signal is told in SIGNALS."""
    loop = (
        f"while [[ -e {SLOW_FLAG} ]] && kill -STOP {pid}; do echo STOP $EPOCHREALTIME; sleep {pause_s}; "
        f"kill -CONT {pid}; echo CONT $EPOCHREALTIME; sleep {RUN_S}; done; kill -CONT {pid}"
    )
    return f"touch {SLOW_FLAG}; setsid bash -c '{loop}' > {SIGNALS} 2>&1 &"


def at_all_times(pid: str, pause_s: float) -> str:
    """A command that ends that, once its last pause is over."""
    return f"rm -f {SLOW_FLAG}; sleep {pause_s + 0.2}; kill -CONT {pid}"


def signals(told: str) -> list[tuple[str, int]]:
    """What SIGNALS tells: each signal and when it was sent, unix ns."""
    lines = (line.split() for line in told.splitlines())
    return [(line[0], round(float(line[1]) * 1_000_000) * 1_000) for line in lines if len(line) == 2]


class ApiServer(Fault):
    """api_server.stop: its manifest is taken from the kubelet and the process killed. api_server.slow: the process
    runs in short bursts, `offset` apart, so that each request waits up to that long.
    """

    kinds = ("api_server.stop", "api_server.slow")

    def prepare(self) -> None:
        """Find the process."""
        self.node = self.tools.cluster.control_plane
        self.shell = self.tools.shell(self.node)
        self.pid = self.shell.run(FIND).text
        self.pause_s = self.fault.offset / SECOND
        if self.fault.kind == "api_server.slow" and not 0 < self.pause_s <= 10:
            raise InputError("api_server.slow needs an offset up to 10s", hint="offset: 2s")

    def inject(self) -> None:
        """Do it."""
        if self.fault.kind == "api_server.stop":
            self.shell.run(f"mv {MANIFEST} {KEPT} && kill -9 {self.pid}")
            return
        self.shell.run(in_bursts(self.pid, self.pause_s))

    def _asked(self) -> tuple[float, str]:
        begun = time.monotonic()
        try:
            self.tools.api.request("GET", "/version", limit_s=15)
        except ApiError as error:
            return time.monotonic() - begun, str(error)
        return time.monotonic() - begun, ""

    def prove(self) -> str:
        """A request fails, or takes at least a third of the pause."""
        if self.fault.kind == "api_server.stop":
            return until(lambda: self._asked()[1], "the API server still answers")

        def seen() -> str:
            took, error = self._asked()
            return f"a request took {took:.2f} s {error}".strip() if took > self.pause_s / 3 else ""

        return until(seen, "requests are as quick as ever")

    def clear(self) -> None:
        """Back as it was."""
        if self.fault.kind == "api_server.stop":
            self.shell.run(f"mv {KEPT} {MANIFEST}")
        else:
            self.shell.run(at_all_times(self.pid, self.pause_s), check=False)
            self.signals = signals(self.shell.run(f"cat {SIGNALS}; rm {SIGNALS}", check=False).text)


class ImagePull(Fault):
    """The workload's image cannot be pulled: the template, or the operator's object, names one that no registry has."""

    kinds = ("image.pull_fails",)

    def prepare(self) -> None:
        """Find what makes the target's pod, and what its image is now."""
        pod, deployed = self.tools.pod(self.fault.target), self.tools.deployed
        self.app = self.fault.target.partition(":")[0]
        self.aim: Aim | None = None
        if deployed.operator is not None:
            values = image_values(deployed.scenario, deployed.namespace, NO_IMAGE)
            self.aim = aim(self.tools, deployed.operator.image_of(self.app), values)
            return
        base = f"/apis/apps/v1/namespaces/{deployed.namespace}"
        found: list[tuple[str, dict[str, Any]]] = []
        for kind in ("statefulsets", "deployments"):
            items = self.tools.api.request("GET", f"{base}/{kind}")["items"]
            found += [(f"{base}/{kind}/{i['metadata']['name']}", i) for i in items
                      if i["spec"]["selector"]["matchLabels"].get("app") == self.app]  # fmt: skip
        if not found:
            raise InputError(f"{pod.name} belongs to no StatefulSet or Deployment of the run")
        self.path, item = found[0]
        container = item["spec"]["template"]["spec"]["containers"][0]
        self.image, self.policy = container["image"], container["imagePullPolicy"]

    def _set(self, image: str, policy: str) -> None:
        """In the template, as it is now."""
        item = self.tools.api.request("GET", self.path)
        container = item["spec"]["template"]["spec"]["containers"][0]
        changed = {**container, "image": image, "imagePullPolicy": policy}
        self.tools.api.patch(self.path, {"spec": {"template": {"spec": {"containers": [changed]}}}})

    def inject(self) -> None:
        """Name an image that is nowhere."""
        if self.aim is None:
            self._set(NO_IMAGE, "IfNotPresent")
        else:
            self.tools.api.patch(self.aim.path, self.aim.patch)

    def _stuck(self) -> list[dict[str, Any]]:
        deployed = self.tools.deployed
        out = []
        for item in self.tools.api.request("GET", f"/api/v1/namespaces/{deployed.namespace}/pods")["items"]:
            waiting = container_status(item).get("state", {}).get("waiting", {})
            if deployed.reader.app(item) == self.app and waiting.get("reason") in ("ErrImagePull", "ImagePullBackOff"):
                out.append(item)
        return out

    def prove(self) -> str:
        """A container waits for the image."""

        def seen() -> str:
            stuck = self._stuck()
            return f"{stuck[0]['metadata']['name']} waits: image cannot be pulled" if stuck else ""

        return until(seen, "no container waits for the image", 120, 0.3)

    def clear(self) -> None:
        """The old image; pods that are stuck are deleted (a StatefulSet does not do that by itself)."""
        if self.aim is None:
            self._set(self.image, self.policy)
        else:
            self.tools.api.patch(self.aim.path, self.aim.undone)
        for item in self._stuck():
            meta = item["metadata"]
            self.tools.api.request("DELETE", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}")


class JwtRotate(Fault):
    """slurmctld takes another JWT key (its file, then SIGHUP), and so does the Secret; tokens stay the old ones."""

    kinds = ("jwt.rotate",)

    def prepare(self) -> None:
        """Find slurmctld; make the new key."""
        self.pod = self.tools.pod("slurmctld")
        self.node, (self.pid, *_) = self.tools.daemon("slurmctld")
        self.new = secrets.token_bytes(32)
        self.path = f"/api/v1/namespaces/{self.tools.deployed.namespace}/secrets/slurm-keys"

    def _set(self, key: bytes) -> None:
        text = base64.b64encode(key).decode()
        target = f"/proc/{self.pid}/root{JWT_KEY}"
        command = f"echo {text} | base64 -d > {target} && kill -HUP {self.pid}"
        self.tools.shell(self.node).run(command, secrets=[text])
        self.tools.api.patch(self.path, {"data": {"jwt_hs256.key": text}})

    def inject(self) -> None:
        """Put the new key."""
        self._set(self.new)

    def _answer(self) -> str:
        """slurmrestd's answer to a question asked with the run's token: yes, no, or nothing."""
        pod = self.tools.pod("slurmrestd")
        token = self.tools.deployed.files["token"].decode()
        script = (
            f"curl -s -m 5 -H 'X-SLURM-USER-NAME: slurm' -H 'X-SLURM-USER-TOKEN: {token}' "
            f"http://{pod.address}:6820/slurm/v0.0.42/nodes | jq -r '.errors[0].error // \"good\"'"
        )
        return self.tools.shell(pod.node).run(script, check=False, secrets=[token]).text

    def prove(self) -> str:
        """The old token is refused."""

        def seen() -> str:
            answer = self._answer()
            return f"the old token is refused: {answer}" if answer not in ("", "good") else ""

        return until(seen, "the old token is still good", 30, 0.5)

    def clear(self) -> None:
        """The old key again."""
        self.node, (self.pid, *_) = self.tools.daemon("slurmctld")
        self._set(self.tools.deployed.files["jwt_hs256.key"])


class ConfigChange(Fault):
    """Lines are put at the end of slurm.conf in its ConfigMap; the kubelet carries the file into the pods."""

    kinds = ("config.change",)

    def prepare(self) -> None:
        """Read the file as it is, and find slurmctld's container."""
        if not self.fault.lines:
            raise InputError("config.change needs lines", hint="lines: ['SchedulerParameters=bf_interval=20']")
        self.path = f"/api/v1/namespaces/{self.tools.deployed.namespace}/configmaps/slurm-config"
        self.kept = str(self.tools.api.request("GET", self.path)["data"]["slurm.conf"])
        pod = self.tools.pod("slurmctld")
        self.node, self.file = pod.node, f"/proc/{self.tools.main_pid(pod)}/root/config/slurm.conf"

    def _set(self, text: str) -> None:
        self.tools.api.patch(self.path, {"data": {"slurm.conf": text}})

    def inject(self) -> None:
        """Change the ConfigMap."""
        self._set(self.kept + "".join(f"{line}\n" for line in self.fault.lines))

    def prove(self) -> str:
        """The container's file has the last line, or the container that was there is no more."""
        script = f"[[ -e {self.file} ]] || echo gone; grep -cxF {shlex.quote(self.fault.lines[-1])} {self.file}; true"

        def seen() -> str:
            said = self.tools.shell(self.node).run(script, check=False).text.split()
            if said[:1] == ["gone"]:
                return "the container that had the old file is gone"
            return "the kubelet has put the new file" if said == ["1"] else ""

        return until(seen, "the container's file is the old one", CONFIG_LIMIT_S, 0.25)

    def clear(self) -> None:
        """The old file again."""
        self._set(self.kept)


class ClockJump(Fault):
    """The clock of one daemon jumps by `offset`: it runs on libfaketime, whose offset file changes."""

    kinds = ("clock.jump",)

    def prepare(self) -> None:
        """Find the pod's clock file and log in the evidence folder."""
        pod = self.tools.pod(self.fault.target)
        folder = self.tools.deployed.evidence / "logs" / pod.name
        self.file, self.log = folder / "clock", folder / f"{self.fault.target.partition(':')[0]}.log"
        if not self.file.exists():
            raise InputError(f"{self.fault.target} does not run on libfaketime")

    def _set(self, offset_s: float) -> None:
        self.file.write_text(f"{offset_s:+g}\n")

    def inject(self) -> None:
        """Change the offset."""
        self._set(self.fault.offset / SECOND)

    def prove(self) -> str:
        """The daemon's own log goes on with the new time."""
        half = abs(self.fault.offset) / SECOND / 2

        def seen() -> str:
            last = next((x for x in reversed(self.log.read_text(errors="replace").splitlines()) if x[:2] == "[2"), "")
            stamp = calendar.timegm(time.strptime(last[1:20], "%Y-%m-%dT%H:%M:%S")) if last else time.time()
            off = stamp - time.time()
            return f"the log's last stamp is {off:+.0f} s off" if abs(off) > half else ""

        return until(seen, "the log's stamps are as before", 60, 0.5)

    def clear(self) -> None:
        """The true time again."""
        self._set(0)
