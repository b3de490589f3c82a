"""Which CPUs a container really has: the kubelet's own account and the kernel's cpuset, compared row by row."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from slurmtwin.contract.events import Event, Kind
from slurmtwin_e2e.collect.run_events import detail
from slurmtwin_e2e.kind.faults.base import PodPlace
from slurmtwin_e2e.kind.node_shell import NodeShell, NodeShellError

ACCOUNT = "/var/lib/kubelet/cpu_manager_state"


def account_of(text: str) -> tuple[str, dict[str, str]]:
    """(default CPU set, pod uid -> CPU set of its first container) in cpu_manager_state."""
    document = json.loads(text)
    entries = document.get("entries") or {}
    return document.get("defaultCpuSet", ""), {uid: next(iter(sets.values())) for uid, sets in entries.items()}


def rows(shell: NodeShell, pods: Sequence[PodPlace]) -> list[Event]:
    """Two rows per pod of a node: by=cpu_manager and by=cgroup. Empty when the node does not answer."""
    out: list[Event] = []
    try:
        default, given = account_of(shell.run(f"cat {ACCOUNT}").text)
        for pod in pods:
            said = shell.run(
                f"cat $(find /sys/fs/cgroup/cpuset /sys/fs/cgroup -path '*{pod.container}*' "
                "\\( -name cpuset.cpus -o -name cpuset.cpus.effective \\) 2>/dev/null | head -1)"
            )
            for by, cpuset in (("cpu_manager", given.get(pod.uid, default)), ("cgroup", said.text)):
                half = (said.after_ns - said.before_ns) // 2 + 1
                text = detail(pod=f"{pod.namespace}/{pod.name}", cpuset=cpuset, by=by)
                out.append(
                    Event(time.time_ns(), Kind.CONTAINER_PINNED, "collector", None, pod.node, None, None, text, None,
                          half, pod.uid)
                )  # fmt: skip
    except NodeShellError:
        return out
    return out
