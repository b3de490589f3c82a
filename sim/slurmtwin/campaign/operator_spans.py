"""Passes of operators in a recorded run: what looks, changes of nodes, marks on pods and hooks take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import dropwhile, pairwise
from typing import TYPE_CHECKING, Final

from slurmtwin.campaign.pod_spans import STARTED_MS, Interval, bounds
from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.worlds.pod_faults import REQUEST_NS
from slurmtwin.worlds.pod_operator import GATHER_NS, IN_PLACE_GATHERS, IN_PLACE_NS
from slurmtwin_operator.core.actions import Why

if TYPE_CHECKING:
    from slurmtwin_reports.history import Row

STORED_NS: Final = sum(REQUEST_NS) // 4
"""A pass's memory is at the API server half a request behind its decision."""
WATCHED_NS: Final = 2 * MS
"""Two changes that one watch brings are as far apart as they happened, to so much."""
CREATED_NS: Final = 150 * MS
"""A next pass's first pod is there later: behind a gather, a look, a memory and its own request."""
PASS_NS: Final = 400 * MS
"""A pass that a change of its node set brings has stored its memory by then."""
CORDONS: Final = ("NodeCordon", "ScalingDown")
"""Reasons of the event that slurm-operator writes before it cordons a pod (nodeset_sync.go syncCordon(),
syncNodeSetPods())."""
STARTED: Final = "Started container slurmd"
REASONS: Final = frozenset(map(str, Why))
"""Of Events of the reference operator."""
LOOK_NS: Final = SECOND
"""slurm-operator waits so long for a list, in whole looks (slurm-client informer.go waitForSyncList())."""
BUSY_NS: Final = 200 * MS
"""A pass that a cordon brings takes less beside its look; one that was under way ends at any time."""
HEARD_MS: Final = (15.0, 55.0)
"""The event that a kubelet stops a container is heard of until slurmd logs its end, where no hook is between:
stop-heard of ten batches, less the 7 to 16 ms from the relist to that event (quiet-ended)."""


def node_changes(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of each drain right behind another one: when the operator had the answer to that, and slurmctld's line of it."""
    for done, line in _neighbours(rows, PASS_NS, "node.drained"):
        if _does(done, "drain") and line.kind == "node.drained":
            yield bounds(done), bounds(line)


def pod_patches(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of each pod that the operator marks right behind another one, in the same pass: the answers to both."""
    return _alike(rows, GATHER_NS, lambda row: _does(row, "label-pod"))


def pod_deletions(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of each pod that the reference operator deletes, likewise."""
    return _alike(rows, GATHER_NS, lambda row: _does(row, "delete") and row.details.get("object") == "Pod")


def pod_creations(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of each pod that it makes, likewise."""
    return _alike(rows, CREATED_NS, lambda row: _does(row, "create-pod"))


def operator_events(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of each three or more Events that a pass of the reference operator writes one by one: what one takes, on the
    mean; one watch brings all. Whatever else the operator does ends them. Behind the first step, as a cluster that is
    made has other work.
    """
    chain: list[Row] = []
    for row in dropwhile(lambda row: row.kind != "fault.injected", rows):
        if _tells(row):
            if not (chain and _about(row) == _about(chain[-1]) and row.t_ns - chain[-1].t_ns < GATHER_NS):
                yield from _each_took(chain)
                chain = []
            chain.append(row)
        elif row.kind == "action.issued" or (row.kind == "object.changed" and row.actor == "collector"):
            yield from _each_took(chain)
            chain = []
    yield from _each_took(chain)


def _tells(row: Row) -> bool:
    """An Event of the reference operator."""
    if row.kind != "kube.event" or row.actor != "collector" or row.details.get("reason") not in REASONS:
        return False
    return _about(row).partition("/")[0] in ("Cluster", "NodeSet")


def _about(row: Row) -> str:
    return str(row.details.get("about"))


def _each_took(chain: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    if len(chain) > 2:
        took_ns, more = chain[-1].t_ns - chain[0].t_ns, len(chain) - 1
        yield (0.0, 0.0), ((took_ns - WATCHED_NS) / MS / more, (took_ns + WATCHED_NS) / MS / more)


def limited_starts(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of each worker that is made behind the first step: its container's start, as its kubelet tells it, and slurmd's
    first line."""
    started: dict[str, Row] = {}
    for row in dropwhile(lambda row: row.kind != "fault.injected", rows):
        if row.kind == "kube.event" and row.actor == "collector" and row.details.get("message") == STARTED:
            started[_about(row).partition("/")[2]] = row
        elif row.kind == "slurmd.started" and row.node in started:
            at_ms = started.pop(row.node).t_ns / MS
            yield (at_ms - STARTED_MS, at_ms), bounds(row)


def operator_looks(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of each change of a node set: when its pass began, and when that had decided; both by the same watch."""
    from slurmtwin_reports.history import fault_of

    told = [row for row in rows if row.kind == "object.changed" and _is_set(row)]
    for asked in rows:
        if asked.kind == "fault.injected" and fault_of(asked).get("kind") == "operator.scale":
            heard = [row.t_ns for row in told if 0 <= row.t_ns - asked.t_ns < PASS_NS]
            if len(heard) > 1:
                began, decided = (heard[0] + GATHER_NS) / MS, heard[1] - STORED_NS
                yield (began, began), ((decided - WATCHED_NS) / MS, (decided + WATCHED_NS) / MS)


def config_told(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of each option that changes in place: its change, as much later as the passes behind it gather and wait, and the
    answer of slurmctld when it is told; none beside which another pass was under way.
    """
    beside_ms = (IN_PLACE_GATHERS * GATHER_NS + IN_PLACE_NS) / MS
    for asked, told, _served in _configured(rows):
        low, high = bounds(asked)
        yield (low + beside_ms, high + beside_ms), bounds(told)


def reconfigured(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of each such option that answer, and slurmctld's first line."""
    for _asked, told, served in _configured(rows):
        yield bounds(told), bounds(served)


def cordons_told(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of each worker that slurm-operator drains as its machine is cordoned or its node set shrinks: that change, and
    the event that it writes of it less one look. One watch brings both."""
    for asked, told, _line in _cordons(rows):
        began, event = asked.t_ns / MS, told.t_ns - LOOK_NS
        yield (began, began), ((event - WATCHED_NS) / MS, (event + WATCHED_NS) / MS)


def cordons_done(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of the same the event's receipt, and slurmctld's line."""
    for _asked, told, line in _cordons(rows):
        yield (told.t_ns / MS, told.t_ns / MS), bounds(line)


def hooks(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of each worker's pod that the reference operator deletes, beside which no other ends: when its kubelet said that
    it stops the container, as much later as SIGTERM comes without a hook, and slurmd's last line.
    """
    ends: list[tuple[Row, Row]] = []
    stopping: dict[str, Row] = {}
    for row in rows:
        if row.kind == "kube.event" and row.actor == "collector" and row.details.get("reason") == "Killing":
            stopping[str(row.details.get("about")).rpartition("/")[2]] = row
        elif row.kind == "slurmd.stopped" and row.node in stopping:
            ends.append((stopping.pop(row.node), row))
    for told, stopped in ends:
        if sum(one.t_ns < stopped.t_ns and told.t_ns < last.t_ns for one, last in ends) == 1:
            at_ms = told.t_ns / MS
            yield (at_ms + HEARD_MS[0], at_ms + HEARD_MS[1]), bounds(stopped)


def _configured(rows: Sequence[Row]) -> Iterator[tuple[Row, Row, Row]]:
    """Of each option of slurm.conf that changes in place: the change, slurmctld told of it, and its new process.

    A ConfigMap, and then a mark by which slurmctld's pod is synced, come a gather behind what woke their passes, and
    the last pass soon behind its wait: else another change or a poll was between.
    """
    from slurmtwin_reports.history import fault_of

    asked = applied = synced = told = None
    for row in rows:
        if row.kind == "fault.injected":
            asked = row if fault_of(row).get("kind") == "operator.configure" else None
            applied = synced = told = None
        elif row.kind == "action.issued" and row.details.get("object") == "ConfigMap":
            applied = _behind(asked, row, GATHER_NS)
        elif row.kind == "pod.synced" and synced is None and str(row.details.get("pod")).endswith("-ctld-0"):
            synced = _behind(applied, row, GATHER_NS)
        elif _does(row, "reconfigure"):
            told = _behind(synced, row, GATHER_NS + IN_PLACE_NS)
        elif row.kind == "slurmctld.started" and asked is not None and told is not None:
            yield asked, told, row
            asked = None


def _behind(first: Row | None, row: Row, pause_ns: int) -> Row | None:
    """The row, where it comes behind another one by a pause and no more than BUSY_NS beside that."""
    return row if first is not None and 0 < row.t_ns - first.t_ns - pause_ns < BUSY_NS else None


def _cordons(rows: Sequence[Row]) -> Iterator[tuple[Row, Row, Row]]:
    """A machine's cordon or another size of the node set, slurm-operator's event of it, and the drain; none whose pass
    was under way by then."""
    from slurmtwin_reports.history import fault_of

    asked: Row | None = None
    told: Row | None = None
    sized = False
    for row in rows:
        if row.kind == "fault.injected":
            sized = fault_of(row).get("kind") == "operator.scale"
        elif row.kind == "kube_node.cordoned" or (sized and row.kind == "object.changed" and _is_set(row)):
            asked, told, sized = row, None, False
        elif row.kind == "kube.event" and row.actor == "collector" and row.details.get("reason") in CORDONS:
            told = told or row
        elif row.kind == "node.drained" and asked is not None and told is not None:
            if 0 < told.t_ns - asked.t_ns - LOOK_NS < BUSY_NS:
                yield asked, told, row
            asked = None


def _neighbours(rows: Sequence[Row], within_ns: int, *kinds: str) -> Iterator[tuple[Row, Row]]:
    """Actions of the operator, and rows of these kinds, that follow each other so soon."""
    told = sorted((row for row in rows if row.kind in ("action.issued", *kinds)), key=lambda row: row.t_ns)
    return (pair for pair in pairwise(told) if pair[1].t_ns - pair[0].t_ns < within_ns)


def _alike(
    rows: Sequence[Row], within_ns: int, is_one: Callable[[Row], bool]
) -> Iterator[tuple[Interval, Interval]]:  # fmt: skip
    """Of each two neighbours that both are such a row: when they were told."""
    for before, row in _neighbours(rows, within_ns):
        if is_one(before) and is_one(row):
            yield bounds(before), bounds(row)


def _does(row: Row, action: str) -> bool:
    return row.kind == "action.issued" and row.details.get("do") == action


def _is_set(row: Row) -> bool:
    return row.details.get("resource") == "NodeSet"
