"""The state of a node as slurmrestd lists it: its base state, then flags in slurmctld's order.

Source: slurm_protocol_defs.c node_state_base_string(), node_state_flag_string(), 26.05.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from slurmtwin.models.slurmctld.states import NodeBase, NodeFlag
from slurmtwin.models.slurmctld.tables import bits

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.changes import Changes
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Node

_FLAGS: Final = (
    (NodeFlag.DRAIN, "DRAIN"), (NodeFlag.COMPLETING, "COMPLETING"), (NodeFlag.MAINT, "MAINTENANCE"),
    (NodeFlag.NO_RESPOND, "NOT_RESPONDING"), (NodeFlag.INVALID_REG, "INVALID_REG"),
    (NodeFlag.POWER_DOWN, "POWER_DOWN"), (NodeFlag.POWERING_DOWN, "POWERING_DOWN"),
    (NodeFlag.POWERED_DOWN, "POWERED_DOWN"), (NodeFlag.POWERING_UP, "POWERING_UP"),
    (NodeFlag.DYNAMIC_NORM, "DYNAMIC_NORM"), (NodeFlag.EXTERNAL, "EXTERNAL"),
)  # fmt: skip


def node_words(ctld: Slurmctld, node: Node) -> tuple[str, ...]:
    """Base state and flags. ALLOCATED and COMPLETING are not kept in the record: the jobs of the node say them."""
    base, flags = node.base, node.flags
    if base is NodeBase.IDLE:
        running, leaving = ctld.nodes_lifecycle.held
        if running & node.bit:
            return _words("ALLOCATED", flags._value_)
        if leaving & node.bit:
            flags |= NodeFlag.COMPLETING
    return _words(base._name_, flags._value_)


def node_state(ctld: Slurmctld, node: Node) -> str:
    """node_words(), joined by "+"."""
    words = node_words(ctld, node)
    text = _TEXTS.get(words)
    if text is None:
        text = _TEXTS[words] = "+".join(words)
    return text


def _words(base: str, flags: int) -> tuple[str, ...]:
    words = _WORDS.get((base, flags))
    if words is None:
        words = _WORDS[base, flags] = (base, *(word for flag, word in _FLAGS if flags & flag))
    return words


_WORDS: Final[dict[tuple[str, int], tuple[str, ...]]] = {}
"""Of each base state with a set of flags that was met: they have the same words for ever."""
_TEXTS: Final[dict[tuple[str, ...], str]] = {}
"""... and the same text."""


_RECORD: Final = attrgetter("conf", "base", "flags", "reason")


class ListedNodes:
    """Which nodes may be listed otherwise than last time: whoever lists a thousand looks at those alone.

    Goes by all that node_words() and a record's reason and name depend on.
    """

    def __init__(self) -> None:
        self._ctld: Slurmctld | None = None
        self._records: list[tuple[object, ...]] = []
        self._running = self._leaving = 0
        self._count = self._version = 0

    def changed(self, ctld: Slurmctld) -> Sequence[int]:
        """Places in the node table, in order; all of them for another slurmctld."""
        running, leaving = ctld.nodes_lifecycle.held
        changes = ctld.node_changes
        if changes is not None:
            return self._noted(ctld, changes, running, leaving)
        records: list[tuple[object, ...]] = list(map(_RECORD, ctld.nodes.nodes))
        before = self._records
        moved = (running ^ self._running) | (leaving ^ self._leaving)
        same = self._ctld is ctld and len(before) == len(records)
        self._ctld, self._records, self._running, self._leaving = ctld, records, running, leaving
        if not same:
            return range(len(records))
        if records != before:
            for place, (old, new) in enumerate(zip(before, records, strict=True)):
                if old != new:
                    moved |= 1 << place
        return list(bits(moved))

    def _noted(self, ctld: Slurmctld, changes: Changes[Node], running: int, leaving: int) -> Sequence[int]:
        """By the changes that the records themselves noted."""
        count = len(ctld.nodes.nodes)
        same = self._ctld is ctld and self._count == count
        moved = (running ^ self._running) | (leaving ^ self._leaving)
        if same:
            for node in changes.since(self._version):
                moved |= 1 << node.index
        self._ctld, self._count, self._running, self._leaving = ctld, count, running, leaving
        self._version = changes.version
        return list(bits(moved)) if same else range(count)
