"""What slurmctld's pod has from outside, and how a fault takes or changes it: its state, slurm.conf, slurmdbd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from slurmtwin.contract.events import Kind
from slurmtwin.engine.event_sink import EventSink, detail_text
from slurmtwin.models.slurmctld.dynamic_nodes import fill_hole, leave_hole
from slurmtwin.models.slurmctld.tables import bits
from slurmtwin.worlds.kubelet_phases import LastSync, Resync

if TYPE_CHECKING:
    from slurmtwin.contract.cluster import ClusterConf
    from slurmtwin.contract.cluster_faults import ClusterFault
    from slurmtwin.engine.random_streams import RandomStreams
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld


class PodState:
    """State directory, mounted slurm.conf and database of the one cluster in pods."""

    def __init__(
        self, cluster: SlurmCluster, streams: RandomStreams, config_poll_ns: int, pod: Callable[[], LastSync],
        sync_factor: float, configured: Callable[[Sequence[str]], ClusterConf],
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self._config_poll_ns = config_poll_ns
        self._pod = pod
        """slurmctld's pod, and its last sync."""
        self._configured = configured
        generator = streams.generator("configmap.sync")
        self._resync = Resync(generator, sync_factor)
        self._poll_ns = int(generator.integers(0, max(1, config_poll_ns)))
        self._unknown = 0
        """Nodes that were in the lost state and whose slurmd has not started since."""
        self._next: tuple[ClusterConf, str, int] | None = None
        """A changed slurm.conf, the pod that still has the old one, and when the kubelet brings it the new one."""
        self._queued: list[tuple[int, str]] = []
        """(job, state) that slurmdbd has not heard of."""
        self._answers = True

    # state

    def lose(self, kill: Callable[[], None]) -> Callable[[], None]:
        """The state directory is emptied and slurmctld killed: jobs and dynamic nodes are unknown to the next one."""
        kill()
        self._cluster.volume.lose()
        self._unknown = (1 << len(self._cluster.node_confs)) - 1
        return _nothing

    def built(self, ctld: Slurmctld) -> None:
        """A slurmctld was made: what it does not know has no record."""
        for index in bits(self._unknown):
            leave_hole(ctld, ctld.nodes.nodes[index])

    def slurmd_started(self, nodes: int) -> None:
        """slurmd -Z registers when it starts, and its node is there again."""
        ctld = self._cluster.ctld
        for index in bits(nodes & self._unknown):
            self._unknown &= ~(1 << index)
            if ctld is not None:
                fill_hole(ctld, ctld.nodes.nodes[index])

    # slurm.conf

    def change(self, fault: ClusterFault) -> Callable[[], None]:
        """Lines are put at the end of slurm.conf: a new pod has them at once, a mounted file at the kubelet's sync."""
        now_ns = self._cluster.env.now_ns
        last = self._pod()
        mounted_ns = self._resync.mounted_ns(last, now_ns)
        self._next = (self._configured(fault.lines), last.uid, mounted_ns)
        if self._config_poll_ns:
            self._cluster.env.call_at(mounted_ns, self._brought, fault)
        return _nothing

    def configured_anew(self, lines: Sequence[str], in_ns: int | None) -> None:
        """An operator has written another slurm.conf: a new pod reads it (None), or slurmctld in its place later."""
        now_ns = self._cluster.env.now_ns
        self._next = (self._configured(lines), self._pod().uid, now_ns + (in_ns or 0))
        if in_ns is not None:
            self._cluster.env.call_in(in_ns, self._taken)

    def _brought(self, fault: ClusterFault) -> None:
        """The mounted file has changed; the container's loop finds it at its next look and asks for a reconfigure."""
        said = detail_text(fault={"kind": fault.kind, "lines": list(fault.lines)})
        self._cluster.sink.emit(self._cluster.env.now_ns, Kind.FAULT_PROVEN, "fault", None, None, None, None, said)
        self._cluster.env.call_in(self._poll_ns, self._taken)

    def _taken(self, _argument: object) -> None:
        """scontrol reconfigure: a new process, which the collector calls a start, as no fault has asked for it."""
        for controller in self._cluster.controllers:
            if controller.ctld is not None:
                controller.reconfigure(Kind.SLURMCTLD_STARTED)

    def configure(self) -> None:
        """A slurmctld is about to be made: it reads the file that its pod has."""
        if self._next is None:
            return
        conf, old_pod, at_ns = self._next
        if self._pod().uid != old_pod or self._cluster.env.now_ns >= at_ns:
            self._cluster.conf = conf
            self._next = None

    # slurmdbd

    def freeze_database(self) -> Callable[[], None]:
        """slurmdbd takes connections and answers nobody: slurmctld's records wait in its memory."""
        self._answers = False
        return self._thaw_database

    def _thaw_database(self) -> None:
        self._answers = True
        queued, self._queued = self._queued, []
        for job, state in queued:
            self._account(job, state)

    def recorded(self, job: int, state: str) -> None:
        """slurmctld has a record of a job for slurmdbd."""
        if self._answers:
            self._account(job, state)
        else:
            self._queued.append((job, state))

    def _account(self, job: int, state: str) -> None:
        """sacct lists it."""
        now_ns, said = self._cluster.env.now_ns, detail_text(state=state)
        EventSink.emit(self._cluster.sink, now_ns, Kind.JOB_ACCOUNTED, "slurmdbd", job, None, None, None, said)


def _nothing() -> None:
    return None
