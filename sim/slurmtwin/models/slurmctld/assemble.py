"""Put a slurmctld together from its parts, start it and stop it, in the order of controller.c main()."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slurmtwin.models.slurmctld.background import BackgroundLoop
from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
from slurmtwin.models.slurmctld.node_lifecycle import NodeLifecycle
from slurmtwin.models.slurmctld.policies import attach_policies
from slurmtwin.models.slurmctld.scheduler import Scheduler
from slurmtwin.models.slurmctld.selection.select_nodes import Selection
from slurmtwin.models.slurmctld.slurmctld import Slurmctld
from slurmtwin.models.slurmctld.state_store import StateStore
from slurmtwin.models.slurmd.batch_job import NodeSide

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import DaemonClock
    from slurmtwin.engine.random_streams import RandomStreams
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurmctld.attempt_trace import AttemptTrace


class Assembly:
    """How the controllers of one cluster are made: the same parts at every start, on what outlives them."""

    loop_type: type[BackgroundLoop] = BackgroundLoop

    def __init__(self, streams: RandomStreams, watch: AttemptTrace | None = None) -> None:
        self._streams = streams
        self._watch = watch
        self._side: NodeSide | None = None

    def side(self, cluster: SlurmCluster) -> NodeSide:
        """The nodes' side of the jobs, one for the life of the cluster."""
        if self._side is None:
            self._side = NodeSide(cluster.env, cluster.sink, cluster.slurmds, cluster, cluster.costs, cluster.conf)
        return self._side

    def build(self, cluster: SlurmCluster, clock: DaemonClock, index: int) -> Slurmctld:
        """A slurmctld of the cluster's configuration with empty tables; it does not serve yet."""
        conf = cluster.conf
        if len(cluster.node_confs) != len(conf.nodes):
            conf = replace(conf, nodes=tuple(cluster.node_confs))
        ctld = Slurmctld(
            clock, conf, cluster.sink, cluster.costs, self._streams, cluster.epoch_ns, cluster.volume.copies_all
        )
        ctld.cluster = cluster
        ctld.slurmds = cluster.slurmds
        ctld.store = StateStore(ctld, cluster.volume, index)
        loop = self.loop_type(ctld)
        ctld.background = loop
        attach_policies(ctld)
        ctld.selection = Selection(ctld)
        if self._watch is not None:
            self._watch.attach(ctld)
        ctld.nodes_lifecycle = NodeLifecycle(ctld)
        ctld.lifecycle = Lifecycle(ctld, loop, self.side(cluster))
        ctld.schedulers = Scheduler(ctld)
        return ctld

    def serve(self, ctld: Slurmctld) -> None:
        """The loop begins, then everything that works in it."""
        assert isinstance(ctld.background, BackgroundLoop)
        assert isinstance(ctld.lifecycle, Lifecycle)
        ctld.background.start()
        ctld.reservations.start()
        ctld.lifecycle.serve()
        ctld.nodes_lifecycle.start()
        ctld.priority.start()
        ctld.store.serve()
        ctld.schedulers.start()

    def stop(self, ctld: Slurmctld) -> None:
        """The process ends or steps back: nothing of it happens any more."""
        assert isinstance(ctld.background, BackgroundLoop)
        assert isinstance(ctld.lifecycle, Lifecycle)
        ctld.schedulers.stop()
        ctld.lifecycle.stop()
        ctld.background.stop()
