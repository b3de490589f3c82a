"""--signal warnings and scancel --signal (job_mgr.c send_job_warn_signal(), job_signal()).

Without `B:` a signal goes to job steps only, and our scripts start none: it changes nothing but is recorded.
With `B:` the batch shell gets it; it traps nothing, so it ends by any signal whose default action is to end.
"""

from __future__ import annotations

import re
import signal as names
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.events import Kind
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.slurmctld import event_details as details
from slurmtwin.models.slurmctld.time_limit import PERIODIC_TIMEOUT_S
from slurmtwin.models.slurmd.batch_job import BatchJob

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job

_FORM = re.compile(r"(?:(?P<flags>[BR]+):)?(?P<name>[A-Za-z0-9]+)(?:@(?P<time>\d+))?\Z", re.IGNORECASE)
DEFAULT_WARN_S: Final = 60
_HARMLESS: Final = frozenset({"CHLD", "CONT", "URG", "WINCH", "STOP", "TSTP", "TTIN", "TTOU"})


def parse(text: str) -> tuple[str, int, bool] | None:
    """`[R][B:]NAME[@SECONDS]` -> (NAME without SIG, seconds, to the batch shell); None when it is no signal."""
    found = _FORM.match(text.strip())
    if not found:
        return None
    name = found["name"].upper().removeprefix("SIG")
    if name.isdigit():
        try:
            name = names.Signals(int(name)).name.removeprefix("SIG")
        except ValueError:
            return None
    if f"SIG{name}" not in names.Signals.__members__:
        return None
    warn_s = int(found["time"]) if found["time"] else DEFAULT_WARN_S
    return name, warn_s, "B" in (found["flags"] or "").upper()


class Signals:
    """Signals of one slurmctld."""

    def __init__(self, ctld: Slurmctld, lifecycle: Lifecycle) -> None:
        self._ctld = ctld
        self._lifecycle = lifecycle
        self._warned: dict[int, int] = {}
        """Slurm id -> start of the run that was warned."""

    def warning_due_s(self, job: Job) -> int | None:
        """The first second at which a scan sends the warning; None: none is asked for, or it was sent."""
        if not job.request.signal or job.limit_s is None or job.limit_s < 0:
            return None
        wanted = parse(job.request.signal)
        if wanted is None or self._warned.get(job.slurm_id) == job.start_s:
            return None
        return job.end_s - wanted[1] - PERIODIC_TIMEOUT_S

    def warn(self, job: Job) -> None:
        """Called by the 30 s scan: send the warning when it is due."""
        due_s = self.warning_due_s(job)
        if due_s is None or due_s > self._ctld.now_s():
            return
        wanted = parse(job.request.signal)
        assert wanted is not None
        self._warned[job.slurm_id] = job.start_s
        self.send(job, wanted[0], wanted[2])

    def send(self, job: Job, name: str, to_batch: bool) -> None:
        """REQUEST_SIGNAL_TASKS."""
        self._ctld.emit(
            Kind.JOB_SIGNALED,
            job_id=job.request.job_id,
            detail=details.of_task(detail_text(signal=name), job.array_task),
        )
        work = job.work
        if to_batch and name not in _HARMLESS and isinstance(work, BatchJob):
            number = int(names.Signals[f"SIG{name}"])
            self._ctld.env.call_in(self._ctld.costs.rpc_ns, lambda _: work.raise_signal(number))

    def forget(self, job: Job) -> None:
        """The run is over: a next one is warned again."""
        self._warned.pop(job.slurm_id, None)
