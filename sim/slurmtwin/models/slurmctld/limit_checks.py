"""The comparisons that association and QOS limits are made of (slurmctld/acct_policy.c).

Several holders may set one limit: the partition's QOS, the job's QOS, then the associations from the user up.
The first that sets it decides, also when it is the laxer one; `Imposed` remembers which are taken. A check
returns the index of the first TRES that fails, or OKAY.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import MINUTE
from slurmtwin.models.slurmctld.tres import NODE, Pairs

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.association_tree import Counters, Qos
    from slurmtwin.models.slurmctld.tables import Job

OKAY: Final = -1
INFINITE: Final = 0xFFFF_FFFF
_NO_VAL: Final = 0xFFFF_FFFE
"""A time limit of UNLIMITED, in minutes."""


class Imposed:
    """Which limits a QOS has set so far: one bitmap over the TRES per kind, and the scalar ones by name."""

    __slots__ = (
        "grp_mins", "grp_run_mins", "grp_tres", "max_mins_job", "max_per_account", "max_per_job", "max_per_node",
        "max_per_user", "min_per_job", "scalars",
    )  # fmt: skip

    def __init__(self) -> None:
        self.grp_tres = 0
        self.grp_mins = 0
        self.grp_run_mins = 0
        self.max_per_job = 0
        self.max_per_node = 0
        self.max_per_user = 0
        self.max_per_account = 0
        self.max_mins_job = 0
        self.min_per_job = 0
        self.scalars: dict[str, bool] = {}

    def claim(self, name: str, limit: int | None) -> bool:
        """This holder sets the scalar limit now: it does have one, and nobody before it had."""
        if limit is None or name in self.scalars:
            return False
        self.scalars[name] = True
        return True

    def free(self, name: str, limit: int | None) -> bool:
        """The limit exists and no QOS set it before; nothing is claimed (associations)."""
        return limit is not None and name not in self.scalars


def too_much(counts: Sequence[int], limits: Pairs, taken: int, divisor: int = 0) -> tuple[int, int]:
    """(first TRES over its limit or OKAY, new `taken`): _validate_tres_limits_for_qos() for maxima.

    divisor > 0: the counts per node.
    """
    for i, limit in limits:
        if taken >> i & 1:
            continue
        taken |= 1 << i
        if (counts[i] // divisor if divisor else counts[i]) > limit:
            return i, taken
    return OKAY, taken


def too_little(counts: Sequence[int], limits: Pairs, taken: int) -> tuple[int, int]:
    """The same for minima."""
    for i, limit in limits:
        if taken >> i & 1:
            continue
        taken |= 1 << i
        if counts[i] < limit:
            return i, taken
    return OKAY, taken


def too_much_for_assoc(counts: Sequence[int], limits: Pairs, taken: int, divisor: int = 0) -> int:
    """_validate_tres_limits_for_assoc(): limits no QOS took, of TRES the job uses at all."""
    for i, limit in limits:
        if not taken >> i & 1 and counts[i] and (counts[i] // divisor if divisor else counts[i]) > limit:
            return i
    return OKAY


def in_use(
    limits: Pairs, taken: int, wanted: Sequence[int], running: Sequence[int] | None,
    used: Sequence[int] | None, safe: bool,
) -> int:  # fmt: skip
    """_validate_tres_usage_limits(): the first TRES that the job may not have beside what is in use, or OKAY.

    used: consumed already (minutes); running: held by running jobs. safe: the request itself must fit.
    """
    for i, limit in limits:
        if taken >> i & 1:
            continue
        gone = 0
        if used is not None:
            gone = used[i]
            if wanted[i] and gone >= limit:
                return i
        if safe:
            if wanted[i] > limit:
                return i
            if running is not None and wanted[i] and wanted[i] + running[i] > limit - gone:
                return i
    return OKAY


def all_of(limits: Pairs) -> int:
    """Bitmap of the TRES that are limited."""
    out = 0
    for i, _ in limits:
        out |= 1 << i
    return out


def scaled(limits: Pairs, factor: float) -> Pairs:
    """LimitFactor of the QOS applied to an association's limits; 0 or less: none."""
    return limits if factor <= 0 else tuple((i, int(limit * factor)) for i, limit in limits)


def order_qos(own: Qos | None, of_part: Qos | None) -> list[Qos]:
    """Which QOS decides first; the same one never twice."""
    if own is None or of_part is None or own is of_part:
        return [q for q in (own or of_part,) if q is not None]
    return [own, of_part] if "overpartqos" in own.flags else [of_part, own]


class TimeRequest:
    """The job's time limit in minutes while it is validated: limits fill it in or cut it (_set_time_limit)."""

    __slots__ = ("minutes", "part_max", "set_by_limit")

    def __init__(self, minutes: int | None, part_max: int, set_by_limit: bool) -> None:
        self.minutes = minutes
        """None: not given."""
        self.part_max = part_max
        self.set_by_limit = set_by_limit

    def bound(self, most: int) -> None:
        """A limit of `most` minutes holds for the job."""
        if self.minutes is None:
            self.minutes = most or self.part_max
            self.set_by_limit = True
        elif self.set_by_limit and self.minutes > most:
            self.minutes = most

    def exceeds(self, most: int) -> bool:
        """The limit asked for is longer."""
        return self.minutes is not None and self.minutes > most

    def tres_minutes(self, counts: Sequence[int], limits: Pairs, taken: int) -> tuple[int, int]:
        """(first TRES whose minutes are too many or OKAY, new `taken`): _validate_tres_time_limits()."""
        for i, limit in limits:
            if taken >> i & 1 or not counts[i]:
                continue
            most = limit // counts[i]
            self.bound(most)
            taken |= 1 << i
            if self.exceeds(most):
                return i, taken
        return OKAY, taken


def unique_nodes(counts: list[int], nodes: int, counters: Counters) -> list[int]:
    """The request with nodes counted that the holder does not use yet (_get_unique_job_node_cnt)."""
    shared = (nodes & counters.nodes.some).bit_count()
    if not shared:
        return counts
    out = list(counts)
    out[NODE] = nodes.bit_count() - shared
    return out


def run_minutes(counters: Counters, usage_factor: float) -> list[int]:
    """TRES-minutes that running jobs may still use; a QOS with UsageFactor=0 sees none."""
    return [x // 60 if usage_factor else 0 for x in counters.run_secs]


def limit_minutes(job: Job) -> int:
    """The job's time limit; INFINITE when unlimited or not given."""
    return INFINITE if job.limit_s is None or job.limit_s < 0 else job.limit_s // 60


def usable_minutes(job: Job, own: Qos | None, default: bool = False) -> int:
    """The time limit in minutes, times UsageFactor with UsageFactorSafe; the partition's where none is given.

    default: DefaultTime before MaxTime (acct_policy.c _set_time_limit()). A DefaultTime that was never set counts as
    NO_VAL minutes, so a job without --time never starts under a limit on TRES minutes (docs/surprises.md).
    """
    minutes = limit_minutes(job)
    if job.limit_s is None and job.part is not None:
        conf = job.part.conf
        given = conf.default_time_ns if default and conf.default_time_ns else conf.max_time_ns
        minutes = given // MINUTE if given >= 0 else _NO_VAL if given == -2 else INFINITE
    if own is not None and own.conf.usage_factor >= 0 and "usagefactorsafe" in own.flags:
        factor = own.conf.usage_factor
        if minutes != INFINITE or factor < 1.0:
            minutes = int(minutes * factor)
    return minutes
