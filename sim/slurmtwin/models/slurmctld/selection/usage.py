"""What running jobs hold, as classes of nodes in equal state.

slurmctld keeps node_use_record_t per node and core bitmaps per partition row (cons_tres part_data.c,
job_resources.c). Here nodes in equal state share one entry, so a wide job moves whole bitmaps and a test looks
at each state once. A copy of the classes is cheap: that is how futures are tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

RESERVED: Final = 64
"""node_req of a job in an OverSubscribe=EXCLUSIVE partition (NODE_CR_RESERVED)."""
ONE_ROW: Final = 1
"""node_req of a job that shares with nobody (NODE_CR_ONE_ROW)."""
AVAILABLE: Final = 0
"""node_req of a job that may share (NODE_CR_AVAILABLE)."""


class State(NamedTuple):
    """How a node is used."""

    shape: int
    """Index into the table of shapes."""
    rows: tuple[tuple[int, int, int], ...] = ()
    """(partition index, row, bitmap of cores), ascending, none of them empty."""
    mem_mib: int = 0
    req: int = 0
    """Sum of node_req over the jobs (node_state)."""
    gres: tuple[int, ...] = ()
    """Allocated, per entry of shape.gres; () for none."""
    sharing: int = 0
    """Jobs here that share: --oversubscribe, or a FORCE partition."""
    jobs: int = 0

    def used_cores(self) -> int:
        """Cores of any row of any partition."""
        cores = 0
        for _part, _row, bitmap in self.rows:
            cores |= bitmap
        return cores

    def part_cores(self, part: int) -> int:
        """Cores held through one partition, all rows."""
        cores = 0
        for owner, _row, bitmap in self.rows:
            if owner == part:
                cores |= bitmap
        return cores


class Share(NamedTuple):
    """What one job holds of each node of a group."""

    cores: int
    cpus: int
    mem_mib: int
    gres: tuple[int, ...]
    """Per entry of shape.gres; () for none."""


Groups = tuple[tuple[int, Share], ...]
"""(bitmap, share of each of its nodes), disjoint."""


@dataclass(slots=True)
class Holding:
    """A job's resources as the select plugin has them recorded."""

    groups: Groups
    part: int
    req: int
    sharing: bool
    no_share: bool
    """Nobody may join it on its nodes (share_res 0)."""
    ncpus: int
    row: int = 0
    """Row of its partition; -1: in no row (suspended, or the cores were taken)."""
    suspended: bool = False
    nodes: int = 0

    def restricted(self, nodes: int) -> Groups:
        """The groups cut to `nodes`."""
        return tuple((b & nodes, share) for b, share in self.groups if b & nodes)


@dataclass(slots=True)
class Usage:
    """All classes and holdings; `copy` for a what-if."""

    classes: dict[State, int]
    rows_of: Sequence[int]
    """Rows per partition index (OverSubscribe count; one more under preempt/qos)."""
    held: dict[int, Holding] = field(default_factory=dict)
    crowded: dict[int, int] = field(default_factory=dict)
    """Jobs in a row above the first, per partition index: only then do rows get rebuilt."""
    stale: dict[int, bool] = field(default_factory=dict)

    @classmethod
    def empty(cls, members: Iterable[int], rows_of: Sequence[int]) -> Usage:
        """Nothing runs: one class per shape, `members` being the nodes of each."""
        return cls({State(shape): bitmap for shape, bitmap in enumerate(members)}, rows_of)

    def copy(self) -> Usage:
        """Independent of this one; holdings with several rows are copied too."""
        held = dict(self.held)
        if self.crowded:
            for key, h in held.items():
                if self.rows_of[h.part] > 1:
                    held[key] = Holding(
                        h.groups, h.part, h.req, h.sharing, h.no_share, h.ncpus, h.row, h.suspended, h.nodes
                    )
        return Usage(dict(self.classes), self.rows_of, held, dict(self.crowded), dict(self.stale))

    def shared(self) -> bool:
        """Some job that shares runs somewhere."""
        return any(state.sharing for state in self.classes)

    def blind(self) -> Usage:
        """A copy as node_data_dup_use() makes it since 23.02: it no longer tells which nodes run jobs that share."""
        out = self.copy()
        out.classes = {}
        for state, members in self.classes.items():
            bare = state._replace(sharing=0) if state.sharing else state
            out.classes[bare] = out.classes.get(bare, 0) | members
        return out

    def add(self, key: int, holding: Holding) -> None:
        """job_res_add_job(): memory, gres, cores in the first row of its partition where they fit."""
        self.settle()
        holding.row = self._free_row(holding)
        holding.nodes = 0
        for bitmap, share in holding.groups:
            self._shift(bitmap, share, holding, 1, with_cores=True, with_rest=True)
            holding.nodes |= bitmap
        self.held[key] = holding
        if holding.row > 0:
            self.crowded[holding.part] = self.crowded.get(holding.part, 0) + 1

    def remove(self, key: int, nodes: int = -1) -> None:
        """job_res_rm_job() on `nodes` (all by default): what is left of the job stays held."""
        holding = self.held.get(key)
        if holding is None:
            return
        part = holding.restricted(nodes) if nodes != -1 else holding.groups
        gone = 0
        for bitmap, share in part:
            self._shift(bitmap, share, holding, -1, with_cores=not holding.suspended, with_rest=True)
            gone |= bitmap
        left = holding.nodes & ~gone
        if left:
            self.held[key] = Holding(
                holding.restricted(left), holding.part, holding.req, holding.sharing, holding.no_share,
                holding.ncpus, holding.row, holding.suspended, left,
            )  # fmt: skip
            return
        del self.held[key]
        self._left_row(holding)

    def strip_cores(self, key: int, nodes: int = -1) -> None:
        """Suspend (JOB_RES_ACTION_RESUME of a removal): cores go, memory and gres stay."""
        old = self.held.get(key)
        if old is None or old.suspended:
            return
        for bitmap, share in old.restricted(nodes) if nodes != -1 else old.groups:
            self._shift(bitmap, share, old, -1, with_cores=True, with_rest=False)
        self._left_row(old)
        self.held[key] = Holding(
            old.groups, old.part, old.req, old.sharing, old.no_share, old.ncpus, -1, True, old.nodes
        )

    def return_cores(self, key: int) -> None:
        """Resume: the cores are taken again, in whatever row has them free."""
        old = self.held.get(key)
        if old is None or not old.suspended:
            return
        self.settle()
        new = Holding(old.groups, old.part, old.req, old.sharing, old.no_share, old.ncpus, 0, False, old.nodes)
        new.row = self._free_row(new)
        for bitmap, share in new.groups:
            self._shift(bitmap, share, new, 1, with_cores=True, with_rest=False)
        self.held[key] = new
        if new.row > 0:
            self.crowded[new.part] = self.crowded.get(new.part, 0) + 1

    def settle(self) -> None:
        """part_data_rebuild_rows(): repack the rows of partitions that lost a job of several rows."""
        for part in list(self.stale):
            self._repack(part)
        self.stale.clear()

    def _left_row(self, holding: Holding) -> None:
        part = holding.part
        crowd = self.crowded.get(part, 0)
        if holding.row > 0:
            crowd -= 1
            if crowd:
                self.crowded[part] = crowd
            else:
                self.crowded.pop(part, None)
        if crowd:
            self.stale[part] = True

    def _free_row(self, holding: Holding) -> int:
        rows = self.rows_of[holding.part]
        if rows == 1 and not self.crowded:
            clash = self._clash(holding, 0)
            return -1 if clash else 0
        for row in range(rows):
            if not self._clash(holding, row):
                return row
        return -1

    def _clash(self, holding: Holding, row: int) -> bool:
        part = holding.part
        for bitmap, share in holding.groups:
            rest = bitmap
            for state, members in self.classes.items():
                if members & rest:
                    for owner, where, cores in state.rows:
                        if owner == part and where == row and cores & share.cores:
                            return True
                    rest &= ~members
                    if not rest:
                        break
        return False

    def _shift(
        self, bitmap: int, share: Share, holding: Holding, sign: int, *, with_cores: bool, with_rest: bool
    ) -> None:
        classes = self.classes
        moves: list[tuple[State, int]] = []
        rest = bitmap
        for state, members in classes.items():
            some = members & rest
            if some:
                moves.append((state, some))
                rest &= ~some
                if not rest:
                    break
        for state, some in moves:
            members = classes[state] & ~some
            if members:
                classes[state] = members
            else:
                del classes[state]
            new = _changed(state, share, holding, sign, with_cores, with_rest)
            classes[new] = classes.get(new, 0) | some

    def _repack(self, part: int) -> None:
        """Jobs by first core, then CPUs, each into the first row that takes it; the fuller row first."""
        jobs = [(key, h) for key, h in self.held.items() if h.part == part and not h.suspended]
        before = [(h, h.row) for _key, h in jobs]
        for _key, h in jobs:
            self._move_cores(h, -1)
        jobs.sort(key=lambda item: (_first_core(item[1]), item[1].ncpus))
        order = list(range(self.rows_of[part]))  # order[i]: which physical row stands at place i
        sizes = dict.fromkeys(order, 0)
        done = True
        for _key, h in jobs:
            for row in order:
                h.row = row
                if not self._clash(h, row):
                    self._move_cores(h, 1)
                    sizes[row] += sum(b.bit_count() * s.cores.bit_count() for b, s in h.groups)
                    break
            else:
                done = False
                break
            order.sort(key=lambda r: -sizes[r])
        if not done:  # no better than it was: as before
            placed = [h for _key, h in jobs[: jobs.index((_key, h))]]
            for other in placed:
                self._move_cores(other, -1)
            for other, row in before:
                other.row = row
                self._move_cores(other, 1)
        else:
            place = {row: i for i, row in enumerate(order)}
            if any(place[row] != row for row in order):
                for _key, h in jobs:
                    self._move_cores(h, -1)
                for _key, h in jobs:
                    h.row = place[h.row]
                    self._move_cores(h, 1)
        crowd = sum(1 for _key, h in jobs if h.row > 0)
        if crowd:
            self.crowded[part] = crowd
        else:
            self.crowded.pop(part, None)

    def _move_cores(self, holding: Holding, sign: int) -> None:
        if holding.row < 0:
            return
        bare = Holding(holding.groups, holding.part, 0, False, False, 0, holding.row)
        for bitmap, share in holding.groups:
            self._shift(bitmap, share, bare, sign, with_cores=True, with_rest=False)


def _first_core(holding: Holding) -> tuple[int, int]:
    first = min((b & -b for b, _share in holding.groups), default=0)
    for bitmap, share in holding.groups:
        if bitmap & first:
            return first.bit_length(), (share.cores & -share.cores).bit_length()
    return 0, 0


def _changed(state: State, share: Share, holding: Holding, sign: int, with_cores: bool, with_rest: bool) -> State:
    shape, rows, mem, req, gres, sharing, jobs = state
    if with_cores:
        req += sign * holding.req
        sharing += sign if holding.sharing else 0
        if holding.row >= 0 and share.cores:
            rows = _row_changed(rows, (holding.part, holding.row), share.cores, sign)
    if with_rest:
        mem = max(0, mem + sign * share.mem_mib)
        jobs += sign
        if share.gres:
            old = gres or (0,) * len(share.gres)
            gres = tuple(max(0, a + sign * b) for a, b in zip(old, share.gres, strict=True))
            if not any(gres):
                gres = ()
    return State(shape, rows, mem, max(0, req), gres, max(0, sharing), jobs)


def _row_changed(
    rows: tuple[tuple[int, int, int], ...], key: tuple[int, int], cores: int, sign: int
) -> tuple[tuple[int, int, int], ...]:
    if not rows:
        return ((*key, cores),) if sign > 0 else rows
    if len(rows) == 1 and rows[0][:2] == key:
        bitmap = rows[0][2] | cores if sign > 0 else rows[0][2] & ~cores
        return ((*key, bitmap),) if bitmap else ()
    table = {(part, row): bitmap for part, row, bitmap in rows}
    old = table.get(key, 0)
    new = old | cores if sign > 0 else old & ~cores
    if new:
        table[key] = new
    else:
        table.pop(key, None)
    return tuple((part, row, table[part, row]) for part, row in sorted(table))
