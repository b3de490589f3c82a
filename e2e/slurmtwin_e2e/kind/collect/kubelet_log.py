"""When each kubelet looked at its containers and began to sync a run's pods: two of its timers, from its own log.

spec.py has the kubelets tell both (KubeletConfiguration logging.vmodule); a cluster made without it gives no rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin_e2e.collect.run_events import detail
from slurmtwin_e2e.kind.node_shell import NodeShell, NodeShellError

VMODULE: Final = {"generic": 5, "kubelet": 4}
"""Verbosity of pkg/kubelet/pleg/generic.go and pkg/kubelet/kubelet.go (v1.34.2) at which they tell it."""
BEFORE_NS: Final = 3 * SECOND
AFTER_NS: Final = 5 * SECOND
"""Of the relists, one a second on each node, those around a fault are kept."""
RELIST: Final = '"GenericPLEG: Relisting"'
SYNC: Final = '"SyncPod enter" pod="'
_LINE: Final = re.compile(
    r'(\d+)\.(\d{6}) \S+ \S+: .\d{4} (\d\d):(\d\d):(\d\d)\.(\d{6}) .*?\] (".*?")(?: pod="(.*?)")?'
)
_ZONE_US: Final = 900_000_000
"""Zones of time differ by quarters of an hour: the rest of journal minus log is how late the journal was."""


def parse(text: str, node: str) -> Iterator[Event]:
    """A row for each line of `journalctl -u kubelet -o short-unix` that tells of a relist or a sync; unix ns."""
    for found in map(_LINE.match, text.splitlines()):
        if found is None:
            continue
        seconds, micros, hour, minute, second, own, what, pod = found.groups()
        journal_us = int(seconds) * 1_000_000 + int(micros)
        log_us = ((int(hour) * 60 + int(minute)) * 60 + int(second)) * 1_000_000 + int(own)
        t_ns = (journal_us - (journal_us - log_us) % _ZONE_US) * 1000
        if what == RELIST:
            yield Event(t_ns, Kind.KUBELET_RELISTED, "kubelet", None, node)
        elif pod:
            yield Event(t_ns, Kind.POD_SYNCED, "kubelet", None, node, None, None, detail(pod=pod))


def kept(rows: Iterator[Event], faults_ns: Sequence[int]) -> Iterator[Event]:
    """All syncs, and the relists around these times."""
    for row in rows:
        if row.kind == Kind.POD_SYNCED or any(-BEFORE_NS <= row.t_ns - at <= AFTER_NS for at in faults_ns):
            yield row


def rows(shell: NodeShell, namespace: str, since_ns: int, faults_ns: Sequence[int], error_ns: int) -> list[Event]:
    """What one kubelet logged since then; empty when the node does not answer. error_ns: of the node's clock."""
    command = (
        f"journalctl -u kubelet --since @{since_ns // SECOND} -o short-unix --no-pager | "
        f"grep -F -e '{RELIST}' -e '{SYNC}{namespace}/' || true"
    )
    try:
        text = shell.run(command).text
    except NodeShellError:
        return []
    return [row._replace(t_err_ns=error_ns) for row in kept(parse(text, shell.node), faults_ns)]
