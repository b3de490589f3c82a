"""Usage, its decay and the two fair-share algorithms (plugins/priority/multifactor).

Usage is billing TRES-seconds, charged up the tree at each calculation and decayed by d^dt with
d = 1 - 0.693 / PriorityDecayHalfLife per second; a new slice of length dt is also multiplied by d^dt.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import reduce
from math import inf, log
from operator import add
from typing import Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.cluster import PriorityOptions
from slurmtwin.models.slurmctld.association_tree import USE_PARENT, Association, AssociationTree, Qos, Usage
from slurmtwin.models.slurmctld.tables import Job
from slurmtwin.models.slurmctld.tres import ENERGY

CHARGED: Final = -1
"""Job.usage_mark_s once the end of the run was charged (end_time_exp == NO_VAL)."""
_LEAST: Final = sys.float_info.min
_IMBALANCE: Final = 5.0
"""How strongly depth-oblivious fair share reacts to a parent's imbalance; a constant of the plugin."""


class UsageLedger:
    """Who used how much: charges running jobs and decays what was charged."""

    def __init__(self, tree: AssociationTree, options: PriorityOptions, limits_enforced: bool) -> None:
        self.tree = tree
        half_life_s = options.decay_half_life_ns / SECOND
        self.decay_per_s = 1 - 0.693 / half_life_s if half_life_s > 0 else 1.0
        self.limits_enforced = limits_enforced
        self.last_ran_s = 0
        """The previous calculation (g_last_ran); 0: none yet."""

    def decay(self, now_s: int) -> None:
        """_apply_decay(): everything used so far shrinks by d^(time since the last calculation)."""
        factor = max(self.decay_per_s ** float(now_s - self.last_ran_s), _LEAST)
        if factor == 1:
            return
        for assoc in self.tree.assocs:
            assoc.usage.decay(factor)
        for qos in self.tree.qos.values():
            if "nodecay" not in qos.flags:
                qos.usage.decay(factor)

    def reset(self) -> None:
        """_reset_usage() of PriorityUsageResetPeriod."""
        for assoc in self.tree.assocs:
            assoc.usage.reset()
        for qos in self.tree.qos.values():
            qos.usage.reset()

    def charge(
        self, job: Job, qos: Qos | None, part_qos: Qos | None, counts: list[int], bill: float, now_s: int, ended: bool
    ) -> None:
        """_apply_new_usage(): the run since the last calculation, or since its start, up to now.

        counts: allocated TRES; bill: billable TRES. ended: the run is over and this is its last charge.
        """
        if job.usage_mark_s == CHARGED:
            return
        start_s = max(job.start_s, self.last_ran_s)
        end_s = min(now_s, job.end_s) if ended and job.end_s else now_s
        delta = float(max(0, end_s - start_s))
        left_s = self._unused_seconds(job, start_s, end_s, delta, ended)
        if ended:
            job.usage_mark_s = CHARGED
        decayed = delta * self.decay_per_s**delta
        plain = delta
        bill_decayed, bill_plain = decayed * bill, delta * bill
        if qos is not None and qos.conf.usage_factor >= 0:
            factor = qos.conf.usage_factor
            bill_decayed *= factor
            decayed *= factor
            bill_plain *= factor
            plain *= factor
            left_s = int(left_s * factor)
        other = part_qos if part_qos is not qos else None
        assoc = job.assoc if isinstance(job.assoc, Association) else None
        for q in (qos, other):
            if q is None:
                continue
            keep = "nodecay" in q.flags
            self._add(q.usage, bill_plain if keep else bill_decayed, plain if keep else decayed, counts)
            if self.limits_enforced:
                _less(q.counters.run_secs, left_s, counts)
        for level in assoc.line if assoc is not None else ():
            self._add(level.usage, bill_decayed, decayed, counts)
            if self.limits_enforced:
                _less(level.counters.run_secs, left_s, counts)

    def take_off(self, job: Job, qos: Qos | None, part_qos: Qos | None, counts: list[int], last_ran_s: int) -> None:
        """Remove what a job ran until the last calculation from the TRES-run-seconds."""
        seconds = float(last_ran_s - job.start_s)
        if qos is not None and qos.conf.usage_factor >= 0:
            seconds *= qos.conf.usage_factor
        for q in (qos, part_qos if part_qos is not qos else None):
            if q is not None:
                _less(q.counters.run_secs, int(seconds), counts)
        assoc = job.assoc if isinstance(job.assoc, Association) else None
        for level in assoc.line if assoc is not None else ():
            _less(level.counters.run_secs, int(seconds), counts)

    def _unused_seconds(self, job: Job, start_s: int, end_s: int, delta: float, ended: bool) -> int:
        """Seconds to take off the TRES-run-seconds: what was used, or all that is left when the run is over."""
        limit_end_s = job.start_s + (job.limit_s if job.limit_s is not None and job.limit_s >= 0 else 0xFFFF_FFFF * 60)
        if start_s >= limit_end_s:
            return 0
        if ended:
            return limit_end_s - start_s
        if end_s > limit_end_s:
            return max(0, limit_end_s - start_s)
        return int(delta)

    def _add(self, usage: Usage, bill: float, seconds: float, counts: list[int]) -> None:
        usage.wall += seconds
        usage.raw += bill
        if self.limits_enforced:
            raw = usage.tres_raw
            for i, count in enumerate(counts):
                if count and i != ENERGY:
                    raw[i] += seconds * count


def _less(run_secs: list[int], seconds: int, counts: list[int]) -> None:
    for i, count in enumerate(counts):
        if count and i != ENERGY:
            run_secs[i] = max(0, run_secs[i] - seconds * count)


def usage_norm(tree: AssociationTree, assoc: Association) -> float:
    """set_assoc_usage_norm(): share of all usage, at most 1."""
    total = tree.root.usage.raw
    return min(1.0, assoc.usage.raw / total) if total else 0.0


# fair tree (fair_tree.c): the default


def fair_tree(tree: AssociationTree) -> None:
    """_apply_priority_fs(): every user's fs_factor = rank / number of user associations.

    slurm.md 3.1 "F fair tree (default)", except that accounts that tie are not merged: the count of tied
    accounts stops at the first account, so it is always 0 (fair_tree.c _count_tied_accounts()).
    """
    rank = _Rank(tree.user_count)
    _walk(tree, tree.root.children, rank, False)


class _Rank:
    def __init__(self, count: int) -> None:
        self.total = count
        self.rank = count
        self.untied = count


def _walk(tree: AssociationTree, siblings: Iterable[Association], rank: _Rank, account_tied: bool) -> None:
    ordered = list(siblings)
    for assoc in ordered:
        _level(tree, assoc)
    ordered.sort(key=lambda a: (-a.level_fs, not a.user))
    previous: float | None = None
    for place, assoc in enumerate(ordered):
        tied = account_tied if place == 0 and account_tied else previous == assoc.level_fs
        if assoc.user:
            if not tied:
                rank.rank = rank.untied
            assoc.fs_factor = rank.rank / rank.total
            rank.untied -= 1
        else:
            _walk(tree, assoc.children, rank, tied)
        previous = assoc.level_fs


def _level(tree: AssociationTree, assoc: Association) -> None:
    """_calc_assoc_fs(): LF = S / U; users with Fairshare=parent come first."""
    holder = assoc.fs_parent
    used = assoc.usage.raw / holder.usage.raw if holder is not None and holder.usage.raw else 0.0
    assoc.usage_efctv = used
    assoc.usage_norm = usage_norm(tree, assoc)
    if assoc.shares_raw == USE_PARENT:
        assoc.level_fs = inf if assoc.user else float(0xFFFF_FFFE)
    elif assoc.shares_norm == 0:
        assoc.level_fs = 0.0
    else:
        assoc.level_fs = assoc.shares_norm / used if used else inf


# classic: NO_FAIR_TREE


class ClassicFairShare:
    """2^(-(effective usage / normalised shares) / dampening): slurm.md 3.1 "F classic"."""

    def __init__(self, tree: AssociationTree, options: PriorityOptions, version: str) -> None:
        self.tree = tree
        self._damping = options.fair_share_dampening_factor
        self._oblivious = "DEPTH_OBLIVIOUS" in {f.upper() for f in options.flags}
        self._stored = version != "22.05"
        tree.root.usage_efctv = 1.0

    def begin(self) -> None:
        """_set_children_usage_efctv(): accounts from the top down; users are computed when first asked for."""
        self._descend(self.tree.root)

    def _descend(self, account: Association) -> None:
        for child in account.children:
            if child.user:
                child.usage_efctv = None
            else:
                self.compute(child)
                self._descend(child)

    def factor(self, assoc: Association) -> float:
        """_get_fairshare_priority() of a job's association."""
        if self._stored:
            if assoc.usage_efctv is None:
                self.compute(assoc)
            return assoc.fs_factor
        source = assoc.fs_parent if assoc.shares_raw == USE_PARENT and assoc.fs_parent else assoc
        if source.usage_efctv is None:
            self.compute(source)
        return self._power(source)

    def store(self, assoc: Association) -> None:
        """_set_assoc_fs_factor(): newer versions keep the factor with the association."""
        source = assoc.fs_parent if assoc.shares_raw == USE_PARENT and assoc.fs_parent else assoc
        assoc.fs_factor = self._power(source)

    def _power(self, source: Association) -> float:
        if source.usage_efctv is None or source.shares_norm <= 0:
            return 0.0
        return float(2.0 ** (-((source.usage_efctv / source.shares_norm) / self._damping)))

    def compute(self, assoc: Association) -> None:
        """priority_p_set_assoc_usage(): normalised, then effective usage."""
        tree, holder = self.tree, assoc.fs_parent
        assoc.usage_norm = usage_norm(tree, assoc)
        if holder is None or holder is tree.root:
            assoc.usage_efctv = assoc.usage_norm
        elif assoc.shares_raw == USE_PARENT:
            assoc.usage_efctv = holder.usage_efctv
        elif self._oblivious:
            assoc.usage_efctv = self._oblivious_usage(assoc, holder)
        elif not assoc.level_shares:
            assoc.usage_efctv = holder.usage_efctv
        else:
            above = holder.usage_efctv or 0.0
            share = assoc.shares_raw / assoc.level_shares
            assoc.usage_efctv = assoc.usage_norm + (above - assoc.usage_norm) * share
        if self._stored:
            self.store(assoc)

    def _oblivious_usage(self, assoc: Association, holder: Association) -> float:
        """DEPTH_OBLIVIOUS: the parent's ratio times a power of the own one among siblings."""
        if not (assoc.shares_norm and holder.shares_norm and holder.usage_efctv and assoc.usage_norm):
            return assoc.usage_norm
        above = holder.usage_efctv / holder.shares_norm
        level = [s.usage_norm for s in holder.children if s.shares_raw != USE_PARENT]
        siblings = reduce(add, level, 0.0) / holder.shares_norm  # sum() rounds otherwise since Python 3.12
        own = assoc.usage_norm / assoc.shares_norm / siblings
        power = 1.0
        if above and own and log(above) * log(own) < 0:
            power = 1 / (1 + (_IMBALANCE * log(above)) ** 2)
        return float(above * own**power * assoc.shares_norm)


# PriorityUsageResetPeriod


def next_reset_s(period: str, last_reset_s: int, now_s: int) -> int:
    """_next_reset(): when the usage is next set to 0, Unix seconds in UTC; 0: never.

    Weeks begin on Sunday. Seconds and below of the last reset's day are cut first.
    """
    last = datetime.fromtimestamp(last_reset_s, UTC).replace(hour=0, minute=0, second=0)
    if period in ("DAILY", "WEEKLY"):
        step = timedelta(days=1 if period == "DAILY" else 7)
        due = last + (step if period == "DAILY" else timedelta(days=7 - last.isoweekday() % 7))
        while (due + step).timestamp() < now_s:
            due += step
        return int(due.timestamp())
    month, year = last.month, last.year
    if period == "MONTHLY":
        month += 1
    elif period == "QUARTERLY":
        month = (last.month - 1) // 3 * 3 + 4
    elif period == "YEARLY":
        month = 13
    else:
        return 0
    year, month = (year + 1, month - 12) if month > 12 else (year, month)
    return int(datetime(year, month, 1, tzinfo=UTC).timestamp())
