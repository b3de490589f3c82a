"""When each kubelet looked at its containers, synced and probed a run's pods: its timers, from its own log.

spec.py has the kubelets tell it (KubeletConfiguration logging.vmodule); a cluster made without it gives no rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin_e2e.collect.run_events import detail
from slurmtwin_e2e.kind.node_shell import NodeShell, NodeShellError

VMODULE: Final = {"generic": 5, "kubelet": 4, "prober": 3}
"""Verbosity of pkg/kubelet/{pleg/generic,kubelet,prober/prober}.go (v1.34.2) at which they tell it."""
BEFORE_NS: Final = 3 * SECOND
AFTER_NS: Final = 5 * SECOND
"""Of the relists, one a second on each node, those around a fault are kept."""
FIRST_PROBES: Final = 3
"""One may have been answered late, and all of a run would be most of its rows."""
RELIST: Final = '"GenericPLEG: Relisting"'
SYNC: Final = '"SyncPod enter" pod="'
PROBES: Final = ("Liveness", "Readiness", "Startup")
PROBED: Final = '"Probe succeeded"'
_LINE: Final = re.compile(
    r'(\d+)\.(\d{6}) \S+ \S+: .\d{4} (\d\d):(\d\d):(\d\d)\.(\d{6}) .*?\] (".*?")'
    r'(?: probeType="(.*?)")?(?: pod="(.*?)")?(?:.*? containerName="(.*?)")?'
)
_ZONE_US: Final = 900_000_000
"""Zones of time differ by quarters of an hour: the rest of journal minus log is how late the journal was."""


def parse(text: str, node: str) -> Iterator[Event]:
    """A row for each line of `journalctl -u kubelet -o short-unix` that tells of a relist, a sync or a good probe.

    Times are unix ns. A probe succeeds some ms behind its tick.
    """
    for found in map(_LINE.match, text.splitlines()):
        if found is None:
            continue
        seconds, micros, hour, minute, second, own, what, probe, pod, container = found.groups()
        journal_us = int(seconds) * 1_000_000 + int(micros)
        log_us = ((int(hour) * 60 + int(minute)) * 60 + int(second)) * 1_000_000 + int(own)
        t_ns = (journal_us - (journal_us - log_us) % _ZONE_US) * 1000
        if what == RELIST:
            yield Event(t_ns, Kind.KUBELET_RELISTED, "kubelet", None, node)
        elif what == PROBED:
            told = detail(pod=pod, container=container, probe=probe.lower())
            yield Event(t_ns, Kind.POD_PROBED, "kubelet", None, node, None, None, told)
        elif pod:
            yield Event(t_ns, Kind.POD_SYNCED, "kubelet", None, node, None, None, detail(pod=pod))


def kept(rows: Iterator[Event], faults_ns: Sequence[int]) -> Iterator[Event]:
    """All syncs, the relists around these times, and of each probe the first successes and the last before each of
    these: a fault that is a command of Slurm's is not among them.
    """
    count: Counter[str | None] = Counter()
    last: dict[tuple[int, str | None], Event] = {}
    for row in rows:
        if row.kind == Kind.POD_PROBED:
            count[row.detail] += 1
            if count[row.detail] <= FIRST_PROBES:
                yield row
            else:
                last |= {(at, row.detail): row for at in faults_ns if row.t_ns < at}
        elif row.kind == Kind.POD_SYNCED or any(-BEFORE_NS <= row.t_ns - at <= AFTER_NS for at in faults_ns):
            yield row
    yield from dict.fromkeys(last.values())


def rows(shell: NodeShell, namespace: str, since_ns: int, faults_ns: Sequence[int], error_ns: int) -> list[Event]:
    """What one kubelet logged since then; empty when the node does not answer. error_ns: of the node's clock."""
    probes = " ".join(f"""-e '{PROBED} probeType="{probe}" pod="{namespace}/'""" for probe in PROBES)
    command = (
        f"journalctl -u kubelet --since @{since_ns // SECOND} -o short-unix --no-pager | "
        f"grep -F -e '{RELIST}' -e '{SYNC}{namespace}/' {probes} || true"
    )
    try:
        text = shell.run(command).text
    except NodeShellError:
        return []
    return [row._replace(t_err_ns=error_ns) for row in kept(parse(text, shell.node), faults_ns)]
