"""Which policy parts a configuration asks for, joined over one association tree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from slurmtwin.models.slurmctld.association_tree import AssociationTree, Usage
from slurmtwin.models.slurmctld.licenses import Licenses
from slurmtwin.models.slurmctld.limits import AccountingIdentity, AccountingLimits
from slurmtwin.models.slurmctld.partition_limits import PartitionLimits
from slurmtwin.models.slurmctld.priority_basic import PriorityBasic
from slurmtwin.models.slurmctld.priority_multifactor import PriorityMultifactor
from slurmtwin.models.slurmctld.reservations import Reservation, ReservationBook
from slurmtwin.models.slurmctld.tres import TresTable

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld


def attach_policies(slurmctld: Slurmctld) -> None:
    """Set priority, limits, licenses, partition_limits and reservations of a controller."""
    conf = slurmctld.conf
    tres = TresTable(conf)
    tree = AssociationTree(conf, tres) if conf.controller.accounting_storage else None
    slurmctld.partition_limits = PartitionLimits(slurmctld)
    slurmctld.licenses = Licenses(slurmctld)
    slurmctld.reservations = ReservationBook(slurmctld)
    if conf.priority.type == "priority/basic":
        slurmctld.priority = PriorityBasic(slurmctld)
    else:
        slurmctld.priority = PriorityMultifactor(slurmctld, tree, tres)
    enforce = {f.lower() for f in conf.controller.accounting_enforce}
    if tree is not None and ("limits" in enforce or "safe" in enforce):
        slurmctld.limits = AccountingLimits(slurmctld, tree, tres)
    else:
        slurmctld.limits = AccountingIdentity(slurmctld, tree, tres)


@dataclass(frozen=True, slots=True)
class PolicyState:
    """What of the policies lies on the state volume: assoc_usage, qos_usage, priority_last_decay_ran, resv_state."""

    last_ran_s: int
    last_reset_s: int
    assocs: dict[tuple[str, str, str], Usage]
    qos: dict[str, Usage]
    reservations: tuple[Reservation, ...]


def _copied(usage: Usage) -> Usage:
    return Usage(usage.raw, list(usage.tres_raw), usage.wall)


def export_state(slurmctld: Slurmctld) -> PolicyState:
    """A copy for the state volume. Usage is that of the last calculation, as if it had just been saved."""
    priority, book = slurmctld.priority, slurmctld.reservations
    records = book.records() if isinstance(book, ReservationBook) else ()
    reservations = tuple(replace(r) for r in records)
    if not isinstance(priority, PriorityMultifactor) or priority.tree is None or priority.ledger is None:
        return PolicyState(0, 0, {}, {}, reservations)
    priority.catch_up()
    return PolicyState(
        priority.ledger.last_ran_s, priority.last_reset_s,
        {a.key: _copied(a.usage) for a in priority.tree.assocs},
        {name: _copied(q.usage) for name, q in priority.tree.qos.items()}, reservations,
    )  # fmt: skip


def restore_state(slurmctld: Slurmctld, state: PolicyState | None) -> None:
    """Put a saved state into fresh policies, before jobs are loaded and before the calculation thread starts."""
    if state is None:
        return
    priority, book = slurmctld.priority, slurmctld.reservations
    if isinstance(book, ReservationBook):
        book.load(replace(r, active=False) for r in state.reservations)
    if not isinstance(priority, PriorityMultifactor) or priority.tree is None or priority.ledger is None:
        return
    priority.ledger.last_ran_s = state.last_ran_s
    priority.last_reset_s = state.last_reset_s
    for assoc in priority.tree.assocs:
        if assoc.key in state.assocs:
            assoc.usage = _copied(state.assocs[assoc.key])
    for name, usage in state.qos.items():
        if name in priority.tree.qos:
            priority.tree.qos[name].usage = _copied(usage)
