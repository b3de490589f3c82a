"""One probe of one container: when it looks, what it makes of the answers (kubernetes.md 3.1 to 3.4).

Pure: the states of pkg/kubelet/prober/worker.go doProbe(), v1.34.2. The kubelet asks `next_step` at each tick and hands
the answer to `answered`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, Protocol

from slurmtwin.contract.clock import SECOND

ProbeKind = Literal["startup", "liveness", "readiness"]


class ProbeSpec(Protocol):
    """The numbers of a probe, nanoseconds."""

    @property
    def period_ns(self) -> int: ...
    @property
    def timeout_ns(self) -> int: ...
    @property
    def failures(self) -> int: ...
    @property
    def successes(self) -> int: ...
    @property
    def initial_delay_ns(self) -> int: ...


class Answer(Enum):
    """What a probed process does."""

    OK = "ok"
    REFUSED = "refused"
    """A closed port, a bad status, a command that failed: known at once."""
    SILENT = "silent"
    """The connection is taken, nothing answers: known when its timeout is over and the connection closed."""


class Step(Enum):
    """What a tick does."""

    SKIP = "skip"
    ASK = "ask"
    STOP = "stop"
    """The worker ends for good."""


@dataclass(frozen=True, slots=True)
class Probed:
    """What the kubelet last told itself of the container. started: its startup probe is over, or it has none."""

    container_id: str
    running_since_ns: int | None
    started: bool
    will_restart: bool = True
    """Its restart policy lets it run again."""
    pod_finished: bool = False
    pod_deleting: bool = False


class ProbeWorker:
    """The state of one probe over the lives of its container.

    `result`: True and False as the kubelet acts on them, None while unknown (startup before its first result).
    """

    def __init__(self, kind: ProbeKind, spec: ProbeSpec) -> None:
        self.kind: ProbeKind = kind
        self.spec = spec
        self.container_id = ""
        self.result = self._initial()
        self._last: bool | None = None
        self._run = 0
        """How many times in a row the answer was `_last`; kept over restarts of the container, as the kubelet does."""
        self._on_hold = False

    def _initial(self) -> bool | None:
        return {"startup": None, "liveness": True, "readiness": False}[self.kind]

    def next_step(self, now_ns: int, seen: Probed) -> Step:
        """What to do at this tick."""
        if seen.pod_finished:
            return Step.STOP
        if not seen.container_id:
            return Step.SKIP
        if seen.container_id != self.container_id:
            self.container_id = seen.container_id
            self.result = self._initial()
            self._on_hold = False
        if self._on_hold:
            return Step.SKIP
        if seen.running_since_ns is None:
            self.result = False
            return Step.SKIP if seen.will_restart else Step.STOP
        if seen.pod_deleting and self.kind != "readiness":
            self.result = True
            return Step.STOP
        if (now_ns - seen.running_since_ns) // SECOND < self.spec.initial_delay_ns // SECOND:
            return Step.SKIP
        if seen.started == (self.kind == "startup"):
            return Step.SKIP
        return Step.ASK

    def answered(self, ok: bool) -> bool:
        """An answer is in. True: `result` is another one now."""
        if ok == self._last:
            self._run += 1
        else:
            self._last, self._run = ok, 1
        if self._run < (self.spec.successes if ok else self.spec.failures):
            return False
        changed = self.result != ok
        self.result = ok
        if self.kind == "startup" or (self.kind == "liveness" and not ok):
            self._on_hold = True
            self._run = 0
        return changed

    @property
    def settled(self) -> bool:
        """As long as the same answers come, nothing changes: a simulation need not ask (DESIGN 7)."""
        if self._on_hold:
            return True
        return self.result is not None and self._last == self.result
