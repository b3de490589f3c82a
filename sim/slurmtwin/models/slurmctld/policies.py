"""Which policy parts a configuration asks for, joined over one association tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmtwin.models.slurmctld.association_tree import AssociationTree
from slurmtwin.models.slurmctld.licenses import Licenses
from slurmtwin.models.slurmctld.limits import AccountingIdentity, AccountingLimits
from slurmtwin.models.slurmctld.partition_limits import PartitionLimits
from slurmtwin.models.slurmctld.priority_basic import PriorityBasic
from slurmtwin.models.slurmctld.priority_multifactor import PriorityMultifactor
from slurmtwin.models.slurmctld.reservations import ReservationBook
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
