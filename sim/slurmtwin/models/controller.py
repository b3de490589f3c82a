"""One SlurmctldHost: its process from start to end, in charge or standing by (slurm.md 5.1, 5.2).

The primary always takes control back when it starts; a backup stands by and watches (backup.py). A clean stop
saves everything and hands over to nobody; a kill leaves what the state volume holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.engine.daemon_clock import DaemonClock
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.backup import BackupWatch
from slurmtwin.models.slurmctld.dynamic_nodes import leave_hole, restore_dynamic
from slurmtwin.models.slurmctld.restart import Recover, recover, report_lost
from slurmtwin.models.slurmctld.state_store import Heartbeat

if TYPE_CHECKING:
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

LONGEST_BEAT_S = 30
"""The heartbeat file is written every min(SlurmctldTimeout/4, 30) seconds (heartbeat.c)."""


class Controller:
    """The slurmctld process of one host."""

    def __init__(self, cluster: SlurmCluster, name: str, index: int) -> None:
        self.cluster = cluster
        self.name = name
        self.index = index
        self.clock: DaemonClock | None = None
        """The process; None when it does not run."""
        self.ctld: Slurmctld | None = None
        """The controller's tables while this host is in charge."""
        self.frozen = False
        self.unheard = False
        """The network between it and the other controllers is cut; the state directory is not."""
        self.owner: object | None = None
        """Whose process it is, where several machines may run one under this name (slurm_pods)."""
        self.watch: BackupWatch | None = None

    @property
    def standby(self) -> bool:
        """A backup that waits for its primary to fail."""
        return self.watch is not None

    @property
    def role(self) -> str:
        """As events name it."""
        return "primary" if self.index == 0 else "backup"

    def _emit(self, kind: Kind) -> None:
        detail = detail_text(role=self.role) if len(self.cluster.controllers) > 1 else None
        self.cluster.sink.emit(self.cluster.env.now_ns, kind, "slurmctld", None, self.name, None, None, detail)

    # the process

    def start(self, mode: Recover = Recover.STATE) -> None:
        """exec slurmctld; it is there slurmctld_start_ns later. Nothing happens when it runs already."""
        if self.clock is not None:
            return
        self.clock = DaemonClock(self.cluster.env)
        self.frozen = False
        self.clock.call_in(self.cluster.costs.slurmctld_start_ns, self._started, mode)

    def _started(self, mode: Recover) -> None:
        if self.index == 0:
            self.take_control_back()
            self.serve(mode, Kind.SLURMCTLD_STARTED)
        else:
            self.stand_by()

    def stop(self) -> None:
        """SIGTERM: RPCs in work are finished, everything is saved (slurm.md 5.3 "SIGTERM")."""
        if self.clock is None:
            return
        if self.ctld is not None:
            self._end_service(save=True)
        self._end_process()
        self._emit(Kind.SLURMCTLD_STOPPED)
        self.cluster.serving_changed()

    def kill(self) -> None:
        """SIGKILL: whatever was not saved is lost."""
        if self.clock is None:
            return
        if self.ctld is not None:
            self._end_service(save=False)
            self.cluster.slurmdbd.controller_killed()
        self._end_process()
        self._emit(Kind.SLURMCTLD_CRASHED)
        self.cluster.serving_changed()

    def displace(self, owner: object) -> None:
        """Another machine starts a process under this name while the old one stands still where nobody reaches it.

        Nothing is saved, and nobody is told: whoever asks for the name meets the new process.
        """
        if self.clock is not None:
            if self.ctld is not None:
                self._end_service(save=False)
            self._end_process()
        self.owner = owner

    def _end_process(self) -> None:
        assert self.clock is not None
        self.clock.end()
        self.clock = None
        self.watch = None
        self.frozen = False

    def _end_service(self, save: bool) -> None:
        """No longer in charge."""
        ctld = self.ctld
        assert ctld is not None
        if save:
            ctld.store.save(keep=True)
        else:
            ctld.store.left_behind()
        heartbeat = self.cluster.volume.heartbeat
        if heartbeat is not None and heartbeat.index == self.index:
            heartbeat.until_s = ctld.now_s()
        ctld.serving = False
        self.cluster.assembly.stop(ctld)
        self.cluster.last_ctld = ctld
        self.ctld = None

    def freeze(self) -> None:
        """SIGSTOP: connections are taken, nothing is answered, nothing is written."""
        if self.clock is None or self.frozen:
            return
        self.frozen = True
        self.clock.freeze()
        heartbeat = self.cluster.volume.heartbeat
        if self.ctld is not None and heartbeat is not None and heartbeat.index == self.index:
            heartbeat.until_s = self.ctld.now_s()
        self.cluster.serving_changed()

    def thaw(self) -> None:
        """SIGCONT. A primary that slept reasserts itself when SlurmctldTimeout has gone (controller.c)."""
        if self.clock is None or not self.frozen:
            return
        self.frozen = False
        self.cluster.serving_changed()
        if self.ctld is not None:
            self._beat()
        self.clock.thaw()
        if self.ctld is not None and self.index == 0:
            self.take_control_back()

    # in charge

    def serve(self, mode: Recover, kind: Kind) -> None:
        """Load the state and serve: the loop and every part of it begin."""
        cluster = self.cluster
        assert self.clock is not None
        self.watch = None
        ctld = cluster.assembly.build(cluster, self.clock, self.index)
        self.ctld = ctld
        self._emit(kind)
        self._restore_dynamic(ctld, mode)
        recover(ctld, ctld.nodes_lifecycle, cluster.volume.saved, mode)  # type: ignore[arg-type]
        if cluster.last_ctld is not None:
            report_lost(cluster.last_ctld, ctld)
            cluster.last_ctld = None
        self._beat()
        cluster.slurmdbd.attach(ctld)
        ctld.serving = True
        cluster.assembly.serve(ctld)
        if self.index and ctld.conf.controller.no_backup_scheduling:
            ctld.schedulers.stop()
        cluster.serving_changed()
        if ctld.conf.controller.reconfig_on_restart and kind is not Kind.SLURMCTLD_RECONFIGURED:
            cluster.slurmds.pushed()

    def _restore_dynamic(self, ctld: Slurmctld, mode: Recover) -> None:
        before = self.cluster.last_ctld
        if before is not None:
            for node in before.nodes.nodes:  # external ones were made by a bridge, not by slurm.conf
                if "EXTERNAL" in node.conf.state and node.name not in before.nodes.by_name:
                    leave_hole(ctld, ctld.nodes.nodes[node.index])
        static = len(self.cluster.conf.nodes)
        if len(ctld.nodes) > static:
            saved = self.cluster.volume.saved
            known = {record.conf.name for record in saved.nodes} if saved and mode is not Recover.NOTHING else set()
            restore_dynamic(ctld, static, known)

    def _beat(self) -> None:
        """heartbeat_start(): only with more than one SlurmctldHost."""
        cluster = self.cluster
        if len(cluster.controllers) < 2:
            return
        now_s = (cluster.epoch_ns + cluster.env.now_ns) // SECOND
        every_s = max(1, min(cluster.conf.timers.slurmctld_timeout_ns // SECOND // 4, LONGEST_BEAT_S))
        cluster.volume.heartbeat = Heartbeat(now_s, None, every_s, self.index)

    def take_control_back(self) -> None:
        """_shutdown_backup_controller(): the backup in control saves and stands by again (slurm.md 5.1)."""
        for other in self.cluster.controllers[self.index + 1 :]:
            if other.ctld is not None and not other.frozen:
                other.relinquish()

    def relinquish(self) -> None:
        """REQUEST_CONTROL from a controller of higher rank."""
        self._end_service(save=True)
        assert self.clock is not None
        self.clock.end()  # the backup's process lives on, its timers as controller do not
        self.clock = DaemonClock(self.cluster.env)
        self.stand_by()

    # standing by

    def stand_by(self) -> None:
        """run_backup()."""
        assert self.clock is not None
        self._emit(Kind.SLURMCTLD_STANDBY)
        self.watch = BackupWatch(self, self.clock)
        self.cluster.serving_changed()

    def take_over(self, load_ns: int = 0) -> None:
        """The primary is given up: full state recovery, node states included (slurm.md 5.1 "Then").

        load_ns: it serves so much later, and says so then.
        """
        if not load_ns:
            self.serve(Recover.ALL, Kind.SLURMCTLD_TOOK_OVER)
            return
        assert self.clock is not None
        self._emit(Kind.SLURMCTLD_TOOK_OVER)
        self.clock.call_in(load_ns, self._loaded)

    def _loaded(self, _argument: object) -> None:
        """A primary that returned meanwhile found nobody in control, so it is asked for control now."""
        self.serve(Recover.ALL, Kind.SLURMCTLD_STARTED)
        higher = self.cluster.controllers[: self.index]
        if any(c.ctld is not None and not c.frozen and not c.unheard for c in higher):
            self.relinquish()

    def takeover_command(self) -> None:
        """scontrol takeover: the primary is asked to stop, 2 s later the backup tries each second."""
        if self.watch is not None:
            self.watch.takeover_command()

    # reconfigure

    def reconfigure(self, kind: Kind = Kind.SLURMCTLD_RECONFIGURED) -> None:
        """scontrol reconfigure: in process in 22.05; later a new process loads the saved state, as a start does.

        kind: the row of the new process.
        """
        ctld = self.ctld
        if ctld is None or self.frozen:
            return
        if ctld.conf.version == "22.05":
            ctld.last_part_update_s = ctld.last_node_update_s = ctld.last_job_update_s = ctld.now_s()
            ctld.schedulers.queue_pass()
            self._emit(Kind.SLURMCTLD_RECONFIGURED)
            return
        self._end_service(save=True)
        assert self.clock is not None
        self.clock.end()
        self.clock = DaemonClock(self.cluster.env)
        self.cluster.serving_changed()
        self.clock.call_in(self.cluster.costs.slurmctld_start_ns, self._reconfigured, kind)

    def _reconfigured(self, kind: Kind) -> None:
        self.serve(Recover.STATE, kind)
        self.cluster.slurmds.reconfigured()
