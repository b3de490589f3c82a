"""slurmctld in a container: the process of one SlurmctldHost (models/controller.py) as the container has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmtwin.models.slurm_pods.daemon_program import DaemonProgram, ProcessModel

if TYPE_CHECKING:
    from slurmtwin.models.controller import Controller
    from slurmtwin.models.slurm_pods.settings import DaemonPods


class SlurmctldProgram(DaemonProgram):
    """slurmctld of one host."""

    role = "slurmctld"

    def __init__(self, controller: Controller, settings: DaemonPods, process: ProcessModel) -> None:
        super().__init__(settings, process)
        self.controller = controller
        self._executed = False
        self._ending = False

    def _memory(self) -> int:
        return self.settings.slurmctld_memory

    def _begin_ns(self) -> int:
        return self.settings.standby_begin() if self.controller.index else self.settings.slurmctld_begin()

    def _again_ns(self) -> int:
        return self.settings.slurmctld_again()

    def _execute(self) -> None:
        self._executed = True
        self.controller.displace(self)
        self.controller.start()

    def _end_daemon(self, clean: bool) -> None:
        if not self._executed:
            return
        self._executed = False
        if self.controller.owner is not self:
            return
        self._ending = True
        try:
            if clean:
                self.controller.stop()
            else:
                self.controller.kill()
        finally:
            self._ending = False

    def _stand_still(self, still: bool) -> None:
        if self.controller.owner is not self:
            return
        if still:
            self.controller.freeze()
        else:
            self.controller.thaw()

    def _serves(self) -> bool:
        """Not before its own exec: until then who is in charge is a predecessor on a host that stands still."""
        return self._executed and (self.controller.ctld is not None or self.controller.standby)

    def serving_changed(self) -> None:
        """The cluster says that some controller began or ceased to answer. One that has ended by itself, after a
        takeover, exits 0.
        """
        if self.place is None or self._ending:
            return
        if self._executed and self.controller.owner is self and self.controller.clock is None:
            self._executed = False
            self.daemon_ended(clean=True)
        elif self.place is not None:
            self.place.health_changed()
