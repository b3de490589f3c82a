"""One batch job on its nodes: the script on the batch host, its end, and what a kill does (slurm.md 4.6).

A job is one object, however wide: only its batch host runs something. The script dies of the first SIGTERM
(it traps nothing), so KillWait is met only by a frozen host; the processes of a lost container report nothing.
Follows slurmd/req.c _rpc_batch_job(), _rpc_terminate_job(), _rpc_abort_job() and slurmstepd's batch_finish().
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.engine.event_sink import detail_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurmtwin.contract.cluster import ClusterConf
    from slurmtwin.contract.jobs import JobRequest
    from slurmtwin.engine.environment import Call, Environment
    from slurmtwin.engine.event_sink import EventSink
    from slurmtwin.models.slurmctld.host_costs import HostCosts, HostNoise
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job
    from slurmtwin.models.slurmd.parts import Slurmds, ToController

SIGKILL: Final = 9
SIGTERM: Final = 15
STEPD_RETRY_NS: Final = 15 * SECOND
"""slurmstepd tries again so long after a failed completion message (stepd/mgr.c)."""
STEPD_TRIES_OLD: Final = 241
"""22.05 to 23.11 give up then (MAX_RETRY in stepd/mgr.c); later versions never do."""
LONGEST_LAUNCH_NS: Final = SECOND
"""A recorded script that begins later than this is of another start than the one before it."""

_ENDED_WELL: Final = '{"exit_code":0}'


def _ignore(_number: int) -> None:
    return None


class Burst:
    """Launches that one machine works on at the same time.

    It shares itself among them, so all take as long; with among_ns half of the work is shared so, and half is done one
    after the other: of eight the first took 0.57 times the mean, the last 1.4 times (quiet-array in pods).
    """

    __slots__ = ("_turns_ns", "among_ns", "begun_ns", "closes_ns", "count")

    def __init__(self, begun_ns: int, closes_ns: int, among_ns: int = 0) -> None:
        self.begun_ns = begun_ns
        self.among_ns = among_ns
        """What each takes on the mean, divided by their number; 0: the host's turns count."""
        self.count = 0
        self.closes_ns = closes_ns
        """When the first of its scripts would run if it were alone: later launches are of another burst."""
        self._turns_ns = 0

    def join(self, turns_ns: int) -> int:
        """One more launch, the host being done with all that came before it after turns_ns; its place."""
        self._turns_ns = turns_ns
        self.count += 1
        return self.count

    def longer_ns(self, place: int) -> int:
        """How much longer the launch of this place, from 1, takes than one alone, when no other one can join."""
        if not self.among_ns:
            return self._turns_ns
        if self.count == 1:
            return 0
        return max(0, (self.count + 2 * place) * self.among_ns // 2 - (self.closes_ns - self.begun_ns))


class NodeSide:
    """What every job on the nodes needs: the environment's clock, the event sink, and the way to slurmctld."""

    __slots__ = (
        "burst", "cluster", "costs", "env", "host_free_ns", "job_over", "noise", "prolog_ns", "sink", "slurmds",
        "stepd_tries",
    )  # fmt: skip

    def __init__(
        self,
        env: Environment,
        sink: EventSink,
        slurmds: Slurmds,
        cluster: ToController,
        costs: HostCosts,
        conf: ClusterConf,
    ) -> None:
        self.env = env
        self.sink = sink
        self.slurmds = slurmds
        self.cluster = cluster
        self.costs = costs
        self.host_free_ns = env.now_ns
        """When the host has done with the launches and epilogs it is at."""
        self.burst = Burst(env.now_ns, env.now_ns)
        """The last launches."""
        self.noise: HostNoise | None = None
        """Draws of launch and notice times; None: their medians."""
        self.job_over: Callable[[int], None] = _ignore
        """Told the workload's number of each job (or task) that is over for good: users who wait for it go on."""
        self.prolog_ns = costs.prolog_ns if conf.controller.prolog else 0
        self.stepd_tries = STEPD_TRIES_OLD if conf.version == "22.05" else -1

    def turn_ns(self, busy_ns: int) -> int:
        """When the host gets to a new piece of work that keeps it busy for busy_ns."""
        turn_ns = max(self.env.now_ns, self.host_free_ns)
        self.host_free_ns = turn_ns + busy_ns
        return turn_ns

    def launched(self, alone_ns: int) -> tuple[Burst, int]:
        """One more launch, which would take alone_ns by itself; the burst it belongs to, and its place there."""
        now_ns = self.env.now_ns
        if now_ns >= self.burst.closes_ns:
            among = self.noise.among_ns if self.noise is not None else None
            self.burst = Burst(now_ns, now_ns + alone_ns, among() if among is not None else 0)
        burst = self.burst
        return burst, burst.join(self.turn_ns(self.costs.launch_each_ns) - burst.begun_ns)

    def recorded_ns(self, number: int) -> int | None:
        """When the script of this job begins, launched now; None: no recording tells, or of another start than this."""
        if self.noise is None:
            return None
        begins_ns = self.noise.script_ns.pop(number, None)
        now_ns = self.env.now_ns
        return begins_ns if begins_ns is not None and now_ns < begins_ns < now_ns + LONGEST_LAUNCH_NS else None

    @property
    def shares_host(self) -> bool:
        """Launches that begin together take longer."""
        return bool(self.costs.launch_each_ns) or (self.noise is not None and self.noise.among_ns is not None)


class BatchJob:
    """One run of one job (models/slurmd/parts.py Work). A requeued job gets a new one."""

    __slots__ = (
        "_began_ns", "_burst", "_call", "_host", "_left_ns", "_side", "array_task", "exit_code", "host_bit", "live",
        "nodes", "request", "signal", "slurm_id", "start_s", "started", "stopped", "unheard",
    )  # fmt: skip

    def __init__(self, side: NodeSide, job: Job, batch_host: str, batch_bit: int, stepds: int) -> None:
        self._side = side
        self._host = batch_host
        self.request: JobRequest = job.request
        self.array_task = job.array_task
        self.slurm_id = job.slurm_id
        self.start_s = job.start_s
        self.nodes = stepds | batch_bit
        self.host_bit = batch_bit
        self.started = False
        self.stopped = False
        """Every process has SIGSTOP."""
        self.live = True
        """The script has not ended (launching, running or stopped)."""
        self.unheard = True
        """slurmctld has not been told of the end."""
        self.exit_code = 0
        self.signal = 0
        self._left_ns = job.request.run_ns
        self._began_ns = 0
        self._call: Call | None = None
        self._burst: tuple[Burst, int] | None = None
        """Of a launch under way, and its place there: how long it takes is known when no other one can join."""

    @property
    def expected_end_ns(self) -> int | None:
        """When slurmctld would hear of the script's own end; None: never by itself."""
        if self._left_ns is None or not self.live:
            return None
        begun = self._began_ns or self._side.env.now_ns + self._side.costs.launch_ns
        return begun + self._left_ns + self._side.costs.exit_notice_ns

    def launch(self) -> None:
        """REQUEST_BATCH_JOB_LAUNCH is on its way to a slurmd that answers."""
        side = self._side
        side.slurmds.take(self)
        begins_ns = side.recorded_ns(self.request.job_id)
        if begins_ns is not None:
            self._began_ns = begins_ns
            self._call = side.env.call_at(begins_ns, self._begin)
            return
        launch_ns = side.costs.launch_ns if side.noise is None else side.noise.launch_ns()
        alone_ns = launch_ns + side.prolog_ns
        if side.shares_host:
            self._burst = side.launched(alone_ns)
        self._began_ns = side.env.now_ns + alone_ns
        self._call = side.env.call_at(self._began_ns, self._begin)

    def _emit(self, kind: Kind, detail: str | None) -> None:
        side = self._side
        if self.array_task is not None:
            task = f'"array_task":{self.array_task}'
            detail = f"{{{task}}}" if detail is None else f"{{{task},{detail[1:]}"
        side.sink.emit(side.env.now_ns, kind, "slurmd", self.request.job_id, self._host, None, None, detail)

    def _begin(self, _argument: object) -> None:
        burst = self._burst
        if burst is not None:
            self._burst = None
            longer_ns = burst[0].longer_ns(burst[1])
            if longer_ns:
                self._began_ns += longer_ns
                self._call = self._side.env.call_in(longer_ns, self._begin)
                return
        self.started = True
        self._began_ns = self._side.env.now_ns
        self._emit(Kind.SCRIPT_STARTED, None)
        self._call = None
        if self._left_ns is not None and not self.stopped:
            noise = self._side.noise
            waits_ns = noise.waits_ns() if noise is not None and noise.waits_ns is not None else 0
            self._call = self._side.env.call_in(waits_ns + self._left_ns, self._exit)

    def _exit(self, _argument: object) -> None:
        self.exit_code = self.request.exit_code
        self._ended(_ENDED_WELL if not self.exit_code else detail_text(exit_code=self.exit_code))
        self._call = self._side.env.call_in(self._notice_ns(), self._report)

    def _notice_ns(self) -> int:
        side = self._side
        return side.costs.exit_notice_ns if side.noise is None else side.noise.exit_notice_ns()

    def _ended(self, detail: str) -> None:
        self.live = False
        if self.started:
            self._emit(Kind.SCRIPT_ENDED, detail)

    def _report(self, _argument: object) -> None:
        side = self._side
        ctld = side.cluster.ctld
        if ctld is not None:
            self._tell(ctld)
        else:
            side.cluster.deliver(self._tell, STEPD_RETRY_NS, side.stepd_tries)

    def _tell(self, ctld: Slurmctld) -> None:
        if not self.unheard:
            return
        self.unheard = False
        self._gone()
        ctld.lifecycle.batch_complete(self)

    def _gone(self) -> None:
        self._side.slurmds.drop(self)

    def _cancel(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def kill(self, signal: int) -> None:
        """The signal reaches every process and ends them; slurmctld, which asked for it, hears nothing more."""
        self.unheard = False
        if self.live:
            self._cancel()
            self.signal = signal
            self._ended(detail_text(exit_code=0, signal=signal))
        self._gone()

    def raise_signal(self, signal: int) -> None:
        """A signal from slurmctld that the script does not trap: it ends by it and slurmstepd reports that."""
        if not self.live or not self.started:
            return
        self._cancel()
        self.signal = signal
        self._ended(detail_text(exit_code=0, signal=signal))
        self._call = self._side.env.call_in(self._notice_ns(), self._report)

    def grew(self, size: int, detail: str) -> None:
        """A child of the script took so many bytes and ended."""
        side = self._side
        side.sink.emit(
            side.env.now_ns, Kind.SCRIPT_GREW, "slurmd", self.request.job_id, self._host, size, "byte", detail
        )

    def busy(self, busy_ns: int, tells_ns: Callable[[int], int]) -> None:
        """The script waits so long for a child of its own; if its time is over by then it ends behind that."""
        if self._left_ns is not None and self._began_ns + self._left_ns < self._side.env.now_ns + busy_ns:
            self._cancel()
            self._call = self._side.env.call_in(busy_ns, self._behind, tells_ns)

    def _behind(self, tells_ns: Callable[[int], int]) -> None:
        self._call = None
        self.end_with(self.request.exit_code, tells_ns)

    def end_with(self, exit_code: int, tells_ns: Callable[[int], int] | None = None) -> None:
        """The script ends before its time with that code: a command of it failed, or was killed.

        tells_ns: what slurmstepd then takes to tell it, from what that takes elsewhere.
        """
        if not self.live or not self.started:
            return
        self._cancel()
        self.exit_code = exit_code
        self._ended(detail_text(exit_code=exit_code))
        notice_ns = self._notice_ns()
        self._call = self._side.env.call_in(tells_ns(notice_ns) if tells_ns else notice_ns, self._report)

    def stop(self) -> None:
        """SIGSTOP to every process (suspend); a script on its way here begins and stops."""
        self.stopped = True
        if self.live and self.started and self._left_ns is not None:
            self._cancel()
            self._left_ns = max(0, self._left_ns - (self._side.env.now_ns - self._began_ns))

    def go_on(self) -> None:
        """SIGCONT to every process (resume)."""
        self.stopped = False
        if self.live and self.started and self._left_ns is not None:
            self._began_ns = self._side.env.now_ns
            self._call = self._side.env.call_in(self._left_ns, self._exit)

    def lost(self, nodes: int) -> None:
        """The containers of these nodes died with every process in them: nobody reports anything."""
        if not self.nodes & nodes:
            return
        self.nodes &= ~nodes
        if not self.nodes:
            self.kill(SIGKILL)

    def abort(self, nodes: int) -> None:
        """REQUEST_ABORT_JOB arrived there: processes are killed at once, slurmctld hears no completion."""
        self.lost(nodes)
