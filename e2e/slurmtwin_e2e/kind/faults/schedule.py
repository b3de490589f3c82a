"""When faults happen: planned times per repetition, and their punctual injection with a record of each step."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.cluster_faults import ClusterFault
from slurmtwin.contract.errors import InputError, SlurmtwinError
from slurmtwin.contract.operator_steps import OperatorStep
from slurmtwin_e2e.kind.faults.base import Fault, Reach
from slurmtwin_e2e.kind.faults.kube import NodeDelete, NodeMark, NodePause, NodeStop, PodDelete
from slurmtwin_e2e.kind.faults.memory import GroupKill, JobMemory
from slurmtwin_e2e.kind.faults.network import DnsOutage, NetworkCut, StaleWatch
from slurmtwin_e2e.kind.faults.operator import OperatorChange
from slurmtwin_e2e.kind.faults.processes import ProcessFreeze, ProcessSignal
from slurmtwin_e2e.kind.faults.services import ApiServer, ClockJump, ConfigChange, ImagePull, JwtRotate
from slurmtwin_e2e.kind.faults.storage import DiskFill, VolumeLost

PREPARE_NS: Final = 15 * SECOND
"""Look-ups begin so long before the planned time."""
ASIDE_NS: Final = 8 * SECOND
"""So long before an API server goes the look-ups of what comes meanwhile begin."""
AGAIN_NS: Final = {"pod.delete": 6 * SECOND, "memory.hog": SECOND}
"""Kind -> so long behind its planned time the next of its target can be looked up: the next pod of that name runs, the
job has read how far it was to grow."""
ENDED_NS: Final = SECOND
"""So long behind the planned end of a step its object is as it was."""
CLASSES: Final = (
    ProcessSignal, ProcessFreeze, JobMemory, GroupKill, PodDelete, NodePause, NodeStop, NodeDelete, NodeMark,
    NetworkCut, DnsOutage, StaleWatch, ApiServer, ImagePull, JwtRotate, ConfigChange, ClockJump,
    DiskFill, VolumeLost,
)  # fmt: skip
Planned = ClusterFault | OperatorStep
"""What the runner does at its planned time; everything else is the observer's."""
SENT_NS: Final = MS
"""A signal that a fault sends by itself is told within that, which the shell says right behind it."""
GOLDEN: Final = 2_654_435_769
"""2**32 / 1.618..., odd."""
BY_KIND: Final[dict[str, type[Fault]]] = {kind: cls for cls in CLASSES for kind in cls.kinds}


def planned_ns(fault: Planned, name: str, number: int, repetition: int) -> int:
    """Planned time of fault `number` of scenario `name`: `at`, or the repetition's place inside `within`.

    Places are a golden section apart, from one that the names give: however many repetitions there are, and whenever a
    further one is recorded, they lie evenly (Knuth, TAOCP 3, 6.4, theorem S). Raises InputError below 1.
    """
    if repetition < 1:
        raise InputError(f"repetition {repetition}: the first one is 1")
    if not fault.within:
        return fault.at
    first = int.from_bytes(hashlib.sha256(f"{name}/{number}".encode()).digest()[:4], "big")
    return fault.at + fault.within * ((first + repetition * GOLDEN) % 2**32) // 2**32


def looked_up_ns(faults: Sequence[tuple[int, Planned, int]], number: int) -> int:
    """When fault `number` is looked up: PREPARE_NS before its time, and never while an API server is to be away.

    A step of an operator puts back what it found, so it is looked up behind the end of another one of its target. A pod
    that another deletion replaces is looked up when the new one runs, and a job that outgrows its pod again when it has
    read how far it was to grow before.
    """
    own, at = next((fault, at) for place, fault, at in faults if place == number)
    looked = at - PREPARE_NS
    for place, fault, begin in faults:
        end = begin + fault.lasts
        if place != number and isinstance(fault, OperatorStep) and fault.target == own.target and looked < end < at:
            looked = min(at, end + ENDED_NS)
        if own.kind == fault.kind in AGAIN_NS and fault.target == own.target and begin < at:
            looked = max(looked, min(at, begin + AGAIN_NS[fault.kind]))
        if place != number and fault.kind.startswith("api_server.") and begin - ASIDE_NS < looked < begin + fault.lasts:
            looked = begin - ASIDE_NS
    return looked


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a fault as it was done: unix ns before and after."""

    number: int
    what: str
    """injected, proven, cleared, signalled or failed."""
    planned_ns: int
    before_ns: int
    after_ns: int
    text: str = ""
    node: str | None = None


class FaultRunner:
    """Runs a scenario's cluster faults, each in a thread of its own."""

    def __init__(
        self, tools: Reach, faults: Sequence[tuple[int, Planned, int]], zero_ns: int,
        say: Callable[[str], Any],
    ) -> None:  # fmt: skip
        self.steps: list[Step] = []
        self._tools, self._zero, self._say = tools, zero_ns, say
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(number, fault, at, looked_up_ns(faults, number)), daemon=True)
            for number, fault, at in faults
        ]
        self._undo: list[Fault] = []

    def start(self) -> None:
        """Begin to wait for the planned times."""
        for thread in self._threads:
            thread.start()

    @property
    def failed(self) -> bool:
        """Did any fault not end as it should?"""
        return any(step.what == "failed" for step in self.steps)

    @property
    def alive(self) -> bool:
        """Is any fault still to be injected, proven or cleared?"""
        return any(thread.is_alive() for thread in self._threads)

    def join(self, limit_s: float) -> None:
        """Wait until all faults are done and cleared."""
        end = time.monotonic() + limit_s
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _note(self, step: Step) -> None:
        with self._lock:
            self.steps.append(step)
        self._say(f"fault {step.number} {step.what} {(step.before_ns - self._zero) / SECOND:.3f} s {step.text}"[:200])

    def _make(self, fault: Planned) -> Fault:
        if isinstance(fault, OperatorStep):
            return OperatorChange(fault, self._tools)
        return BY_KIND[fault.kind](fault, self._tools)

    def _run(self, number: int, fault: Planned, at_ns: int, look_ns: int) -> None:
        planned = self._zero + at_ns
        done: Fault | None = None
        try:
            one = self._make(fault)
            _sleep_until(self._zero + look_ns)
            one.prepare()
            _sleep_until(planned)
            self._act(number, planned, "injected", one.inject, one)
            done = one
            self._act(number, planned, "proven", one.prove, one)
            if fault.lasts:
                clear_at = planned + fault.lasts
                _sleep_until(clear_at)
                done = None
                self._act(number, clear_at, "cleared", one.clear, one)
                self._signalled(number, one)
        except Exception as error:  # nobody sees a thread end: whatever ended it, the run fails
            text = str(error) if isinstance(error, SlurmtwinError) else f"{type(error).__name__}: {error}"
            self._note(Step(number, "failed", planned, time.time_ns(), time.time_ns(), text))
        finally:
            if done is not None:
                self._undo.append(done)

    def _act(self, number: int, planned: int, what: str, act: Callable[[], str | None], one: Fault) -> None:
        before = time.time_ns()
        text = act()
        self._note(Step(number, what, planned, before, time.time_ns(), text or "", one.nodes()))

    def _signalled(self, number: int, one: Fault) -> None:
        steps = [Step(number, "signalled", at, at - SENT_NS, at, word, one.nodes()) for word, at in one.signals]
        with self._lock:
            self.steps += steps

    def undo(self) -> None:
        """End what the scenario left uncleared, after the run: the cluster is as before; again: nothing."""
        while self._undo:
            one = self._undo.pop(0)
            try:
                one.clear()
            except SlurmtwinError as error:
                self._say(f"{one.kind} is not undone: {error}")


def _sleep_until(t_ns: int) -> None:
    while (left := t_ns - time.time_ns()) > 0:
        time.sleep(min(left / SECOND, 1.0))
