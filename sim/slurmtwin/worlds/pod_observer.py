"""What the observer of a run in pods notes: who answers, and how nodes and jobs are listed, each time it changes.

The real one asks each second and each quarter of a second, and its rows say between which two answers a change lay
(docs/kind-slurm.md). Here a change is noted when it happens. A controller that hangs is refused for lack of an answer;
of two pods behind one name now one answers and now the other (service_ways.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from slurmtwin.adapters.slurm_port import Started
from slurmtwin.contract.events import Kind
from slurmtwin.contract.hostlist import expand
from slurmtwin.engine.event_sink import EventSink, detail_text
from slurmtwin.models.slurmctld.node_words import ListedNodes, node_state
from slurmtwin.models.slurmctld.states import JobState, NodeBase

if TYPE_CHECKING:
    from pathlib import Path

    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurmctld.changes import Changes
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job
    from slurmtwin.worlds.service_ways import ProbeTurns

KEPT_JOBS: Final = 1000
"""Jobs that slurmctld has purged are forgotten when there are so many of them."""
_LOOKS_AT: Final = ("job.", "node.", "slurmctld.", "script.")
_RECORDED: Final = {Kind.JOB_SUBMITTED: "PENDING", Kind.JOB_STARTED: "RUNNING", Kind.JOB_ENDED: "COMPLETED"}
_QUIET: Final = (Kind.NODE_STATE, Kind.JOB_STATE, Kind.NODE_PINGED)
_LOOKED_AT: Final = frozenset(kind for kind in Kind if kind.value.startswith(_LOOKS_AT) and kind not in _QUIET)


class ObservedSink(EventSink):
    """An event sink that tells an observer of what Slurm's daemons did."""

    looked: Callable[[], None] | None = None
    slurmd_starts: Callable[[str], None] | None = None
    """Told the names of nodes whose slurmd starts."""
    recorded: Callable[[int, str], None] | None = None
    """Told of each record of a job that slurmctld has for slurmdbd."""

    def __init__(self, run_id: str, world: str, write_to: Path | None = None, keep: bool = False) -> None:
        super().__init__(run_id, world, write_to, keep)
        self.slurmd_started_ns = Started()
        """Slurm node -> when its slurmd last started."""

    def emit(
        self, t_ns: int, kind: Kind, actor: str, job_id: int | None = None, node: str | None = None,
        value: int | None = None, unit: str | None = None, detail: str | None = None, cause_seq: int | None = None,
    ) -> None:  # fmt: skip
        """As EventSink.emit(); rows of Slurm's daemons are told."""
        super().emit(t_ns, kind, actor, job_id, node, value, unit, detail, cause_seq)
        if kind is Kind.SLURMD_STARTED:
            assert node is not None
            self.slurmd_started_ns.note(expand(node), t_ns)
            if self.slurmd_starts is not None:
                self.slurmd_starts(node)
        if self.recorded is not None and kind in _RECORDED:
            assert job_id is not None
            self.recorded(job_id, _RECORDED[kind])
        if self.looked is not None and kind in _LOOKED_AT:
            self.looked()


@lru_cache(maxsize=1024)
def _node_said(state: str) -> str:
    return detail_text(state=state)


class Observer:
    """The observer's rows."""

    def __init__(
        self, cluster: SlurmCluster, sink: ObservedSink, reachable: Callable[[str], bool],
        rest: Callable[[], bool] = lambda: True,
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self._sink = sink
        self._reachable = reachable
        """Whether the pod of that controller is reached from the control plane."""
        self._rest = rest
        """Whether slurmrestd is reached, and takes the observer's token."""
        self._answers: dict[tuple[str, str], bool] = {}
        self._nodes: dict[str, str] = {}
        self._listed = ListedNodes()
        self._jobs: dict[int, tuple[JobState, bool, str]] = {}
        self._jobs_mark: tuple[Changes[Job] | None, int] = (None, 0)
        """Whose changes, and how many of them, were seen."""
        self._joint = False
        """There was an array or a hetjob: records share a number, so each is compared with another one's."""
        self._due = False
        self.turns: dict[str, ProbeTurns] = {}
        """Controllers whose name can lead to several pods."""
        sink.looked = self.look
        cluster.on_serving.append(self.look)

    def look(self) -> None:
        """Something may have changed: compare once everything of this instant is done."""
        if not self._due:
            self._due = True
            self._cluster.env.call_at(self._cluster.env.now_ns, self._compare, None, 1)

    def _compare(self, _argument: object) -> None:
        self._due = False
        for controller in self._cluster.controllers:
            if controller.name in self.turns and self.turns[controller.name].asking:
                continue
            up = (controller.ctld is not None or controller.standby) and not controller.frozen
            self._answer("livez", controller.name, up and self._reachable(controller.name))
        ctld = self._cluster.ctld
        listed = any(c.ctld is ctld and self._reachable(c.name) for c in self._cluster.controllers) if ctld else False
        listed = listed and self._rest()
        for table in ("nodes", "jobs"):
            self._answer(table, None, listed)
        if ctld is not None and listed:
            self._list(ctld)

    def probed(self, name: str, good: bool | None) -> None:
        """A probe of a name that leads to several pods; None: it leads to one again."""
        if good is None:
            self.look()
        else:
            self._answer("livez", name, good and self._reachable(name))

    def _answer(self, asked: str, node: str | None, good: bool) -> None:
        mark = (asked, node or "")
        if self._answers.get(mark) is not good:
            known = mark in self._answers
            self._answers[mark] = good
            if good or known:
                kind = Kind.CLIENT_ANSWERED if good else Kind.CLIENT_REFUSED
                self._note(kind, node=node, detail=detail_text(asked=asked))

    def _list(self, ctld: Slurmctld) -> None:
        nodes = ctld.nodes.nodes
        for place in self._listed.changed(ctld):
            node = nodes[place]
            if node.base is NodeBase.UNKNOWN:
                continue
            if node.base is NodeBase.FUTURE:
                if self._nodes.pop(node.name, None) is not None:
                    self._note(Kind.NODE_STATE, node=node.name, detail=detail_text(state="GONE"))
                continue
            state = node_state(ctld, node)
            if self._nodes.get(node.name) != state:
                self._nodes[node.name] = state
                self._note(Kind.NODE_STATE, node=node.name, detail=_node_said(state))
        for job in self._changed_jobs(ctld):
            said = (job.state, bool(job.completing), job.reason)
            if self._jobs.get(job.id) != said:
                self._jobs[job.id] = said
                state = job.state.name + ("+COMPLETING" if job.completing else "")
                self._note(Kind.JOB_STATE, job_id=job.id, detail=detail_text(state=state, reason=job.reason))
        if len(self._jobs) > KEPT_JOBS + 2 * len(ctld.jobs):
            there = {job.id for job in ctld.jobs.values()}
            self._jobs = {number: said for number, said in self._jobs.items() if number in there}

    def _changed_jobs(self, ctld: Slurmctld) -> Iterable[Job]:
        """Jobs that may be listed otherwise than last time, in the order of the table."""
        changes, (known, version) = ctld.job_changes, self._jobs_mark
        if changes is None:
            return ctld.jobs.values()
        self._jobs_mark = (changes, changes.version)
        if known is not changes:
            version = 0
        moved = changes.since(version)
        self._joint = self._joint or any(
            job.array_waiting is not None or job.array_job is not None or job.het_job is not None for job in moved
        )
        if self._joint:
            return ctld.jobs.values()
        if len(moved) == 1:
            return [job for job in moved if ctld.jobs.get(job.slurm_id) is job]
        chosen = set(moved)
        return [job for job in ctld.jobs.values() if job in chosen] if moved else ()

    def _note(self, kind: Kind, job_id: int | None = None, node: str | None = None, detail: str | None = None) -> None:
        EventSink.emit(self._sink, self._cluster.env.now_ns, kind, "observer", job_id, node, None, None, detail)
