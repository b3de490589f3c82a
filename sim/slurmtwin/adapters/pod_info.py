"""What the end of a pass of slurm-operator writes on Slurm nodes: where their pods run (UpdateNodeWithPodInfo()).

It comes behind the status's list of nodes, for pods that were ready when the pass began and whose node's comment says
something else. An update is back when its node was read anew, one look later, and the status waits for all of them: the
first alone, then two beside each other, then four (controller_utils SlowStartBatch()). slurm-operator f2ed3fc5:
nodeset_sync_status.go syncSlurmStatus(), slurmcontrol.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from slurmtwin_operator.core import actions as a

if TYPE_CHECKING:
    from slurmtwin.adapters.performing import Performer
    from slurmtwin.adapters.slurm_port import SlurmPort
    from slurmtwin.models.api_server.objects import Custom
    from slurmtwin_operator.core.observed import SlurmNode

Item = TypeVar("Item")
Chain = tuple[a.Action, ...]
"""Updates of one node, one behind the other."""


def slow_start(items: Sequence[Item]) -> list[Sequence[Item]]:
    """One of them, then twice as many each time."""
    batches, begin, size = [], 0, 1
    while begin < len(items):
        batches.append(items[begin : begin + size])
        begin, size = begin + size, 2 * size
    return batches


def at_the_end(actions: Iterable[a.Action], nodes: Iterable[SlurmNode]) -> tuple[list[a.Action], list[Chain]]:
    """What a pass does before its last list, and what behind it, by node: a comment, and the resumption of a DOWN node
    whose pod has moved."""
    actions = list(actions)
    comments = {action.node: action for action in actions if isinstance(action, a.CommentNode)}
    if not comments:
        return actions, []
    down = {node.name for node in nodes if node.state == "DOWN"} & comments.keys()
    moved = {action.node: action for action in actions if isinstance(action, a.ResumeNode) and action.node in down}
    later = {*comments.values(), *moved.values()}
    chains: list[Chain] = [(said, moved[name]) if name in moved else (said,) for name, said in comments.items()]
    return [action for action in actions if action not in later], chains


@dataclass(slots=True)
class Writing:
    """The updates of one pass, and nodes as its status will have them."""

    performer: Performer
    port: SlurmPort
    item: Custom
    chains: list[Chain]
    goes_on: Callable[[], bool]
    """False: the pass was given up."""
    done: Callable[[tuple[SlurmNode, ...], bool], None]
    """Nodes, and whether all updates were made."""
    good: bool = True

    def begin(self, states: tuple[SlurmNode, ...]) -> None:
        """states: as the pass's last list has them."""
        self._next(slow_start(self.chains), states)

    def _next(self, batches: list[Sequence[Chain]], states: tuple[SlurmNode, ...]) -> None:
        if not batches or not self.good or not self.goes_on():
            self.done(states, self.good)
            return
        batch, read = batches[0], partial(self._read, batches, states)
        left = len(batch)

        def made(good: bool) -> None:
            nonlocal left
            self.good = self.good and good
            left -= 1
            if not left:
                self.port.read_changed(read)

        for chain in batch:
            self.performer.act(self.item, list(chain), made)

    def _read(
        self, batches: list[Sequence[Chain]], states: tuple[SlurmNode, ...], now: tuple[SlurmNode, ...]
    ) -> None:  # fmt: skip
        """Nodes of a batch are as they were read behind their update, others as they were listed."""
        names = {action.node for chain in batches[0] for action in chain if isinstance(action, a.CommentNode)}
        anew = {node.name: node for node in now if node.name in names}
        self._next(batches[1:], tuple([anew.get(node.name, node) for node in states]))
