"""scontrol update nodename=X state=Y: what each word does (slurm.md 4.1, node_mgr.c update_node()).

RESUME of a DOWN, FUTURE or drained node and UNDRAIN do not trust the node: it is NO_RESPOND until it has
registered, which an immediate ping tick asks for (slurm.md 4.1, _require_node_reg()).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slurmtwin.contract.events import Kind
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.slurmctld.states import NodeBase, NodeFlag

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.node_lifecycle import NodeLifecycle
    from slurmtwin.models.slurmctld.tables import Node

_OUT: Final = NodeFlag.DRAIN | NodeFlag.FAIL
_REBOOT: Final = NodeFlag.REBOOT_REQUESTED | NodeFlag.REBOOT_ISSUED
INVALID_STATE: Final = "Invalid node state specified"
INVALID_TRANSITION: Final = "Invalid node state transition specified"
_POWER_WORDS: Final = ("POWER_DOWN", "POWER_DOWN_ASAP", "POWER_DOWN_FORCE", "POWER_UP")


def update_node(nodes: NodeLifecycle, node: Node, state: str, reason: str) -> str | None:
    """Apply one update; None, or slurmctld's error text. A pass is queued and the state saved, as the RPC does."""
    word = _ALIASES.get(state.upper(), state.upper())
    if word and word not in _KNOWN:
        return INVALID_STATE
    if _already(node, word) and node.reason == reason:
        return None
    if reason:
        nodes.set_reason(node, reason)
    if word:
        if not _allowed(nodes, node, word):
            return INVALID_STATE if nodes.ctld.conf.version == "22.05" else INVALID_TRANSITION
        _apply(nodes, node, word)
    if not word.startswith("POWER"):
        nodes.node_up_record(node)
    nodes.touch()
    nodes.settle(node)
    nodes.ctld.schedulers.queue_pass()
    return None


def _already(node: Node, word: str) -> bool:
    """_equivalent_node_state()."""
    if word == "DOWN":
        return node.base is NodeBase.DOWN
    if word in ("DRAIN", "FAIL"):
        return bool(node.flags & NodeFlag[word])
    return not word


def _allowed(nodes: NodeLifecycle, node: Node, word: str) -> bool:
    """_valid_node_state_change()."""
    base, flags = node.base, node.flags
    if word in ("DOWN", "DRAIN", "FAIL", "NO_RESPOND"):
        return True
    if word == "UNDRAIN":
        return not flags & NodeFlag.INVALID_REG
    if word in _POWER_WORDS:
        return nodes.tracks_busy
    if word == "RESUME":
        if flags & NodeFlag.POWERING_DOWN:
            return True
        if flags & NodeFlag.INVALID_REG:
            return False
        out = flags & (_OUT | NodeFlag.REBOOT_REQUESTED)
        return base in (NodeBase.DOWN, NodeBase.FUTURE) or bool(out)
    if word == "FUTURE":
        return base is NodeBase.DOWN or (base is NodeBase.IDLE and not nodes.is_allocated(node))
    return not flags & NodeFlag.INVALID_REG and (  # IDLE
        base is NodeBase.DOWN or (base is NodeBase.IDLE and not nodes.is_allocated(node))
    )


def _apply(nodes: NodeLifecycle, node: Node, word: str) -> None:
    if word in ("DOWN", "FUTURE"):
        _down(nodes, node, word)
    elif word in ("DRAIN", "FAIL"):
        _drain(nodes, node, NodeFlag[word])
    elif word in ("RESUME", "UNDRAIN"):
        _resume(nodes, node, word)
    elif word == "IDLE":
        _idle(nodes, node)
    elif word == "NO_RESPOND":
        node.flags |= NodeFlag.NO_RESPOND
        nodes.ctld.nodes.avail &= ~node.bit
        nodes.ctld.emit(Kind.NODE_NOT_RESPONDING, node=node.name)
    else:
        _power(nodes, node, word)


def _down(nodes: NodeLifecycle, node: Node, word: str) -> None:
    nodes.make_down(node)
    nodes.kill_jobs(node, node.reason)
    if word == "FUTURE":
        node.base = NodeBase.FUTURE
        node.flags &= NodeFlag.DYNAMIC_NORM


def _drain(nodes: NodeLifecycle, node: Node, flag: NodeFlag) -> None:
    """Jobs finish, unless the node has them while it is without power."""
    if nodes.is_allocated(node) and node.flags & (NodeFlag.POWERED_DOWN | NodeFlag.POWERING_UP):
        nodes.kill_jobs(node, node.reason)
    nodes.ctld.nodes.avail &= ~node.bit
    node.flags = node.flags & ~_OUT | flag
    nodes.ctld.emit(Kind.NODE_DRAINED, node=node.name, detail=detail_text(reason=node.reason))


def _resume(nodes: NodeLifecycle, node: Node, word: str) -> None:
    was_down, drained = node.base is NodeBase.DOWN, bool(node.flags & NodeFlag.DRAIN)
    if word == "RESUME":
        node.flags &= ~(_OUT | _REBOOT)
        if node.flags & NodeFlag.POWERING_DOWN:
            node.flags = node.flags & ~(NodeFlag.INVALID_REG | NodeFlag.POWERING_DOWN) | NodeFlag.POWERED_DOWN
            node.power_req_s = 0
        if was_down or drained or node.base is NodeBase.FUTURE:
            _require_registration(nodes, node)
        if was_down or node.base is NodeBase.FUTURE:
            node.base = NodeBase.IDLE
    else:
        node.flags &= ~NodeFlag.DRAIN
        _require_registration(nodes, node)
    nodes.ctld.emit(Kind.NODE_RESUMED, node=node.name)
    if was_down and word == "RESUME":
        nodes.ctld.emit(Kind.NODE_UP, node=node.name, detail=detail_text(reason=node.reason))
    if node.base is NodeBase.IDLE:
        _idle_bits(nodes, node)


def _idle(nodes: NodeLifecycle, node: Node) -> None:
    was_down = node.base is NodeBase.DOWN
    node.flags &= ~_OUT
    node.base = NodeBase.IDLE
    nodes.ctld.emit(Kind.NODE_RESUMED, node=node.name)
    if was_down:
        nodes.ctld.emit(Kind.NODE_UP, node=node.name, detail=detail_text(reason=node.reason))
    _idle_bits(nodes, node)


def _idle_bits(nodes: NodeLifecycle, node: Node) -> None:
    """The IDLE and ALLOCATED branches of update_node(): up again, schedulable unless it still has to answer."""
    table, bit = nodes.ctld.nodes, node.bit
    out = bool(node.flags & _OUT)
    table.up |= bit
    if nodes.is_allocated(node):
        table.idle &= ~bit
        if not out and not node.flags & NodeFlag.NO_RESPOND:
            nodes.make_avail(node)
        return
    node.flags &= ~_OUT
    if not node.flags & NodeFlag.NO_RESPOND or node.flags & NodeFlag.POWERED_DOWN:
        nodes.make_avail(node)
    table.idle |= bit
    node.last_busy_s = 0 if node.flags & NodeFlag.POWERED_DOWN else nodes.ctld.now_s()


def _require_registration(nodes: NodeLifecycle, node: Node) -> None:
    """_require_node_reg(): NO_RESPOND, boot time unknown, and a tick at the next look; nothing where no slurmd is."""
    if node.flags & NodeFlag.EXTERNAL:
        nodes.settle(node)
        return
    node.flags |= NodeFlag.NO_RESPOND
    node.last_response_s = nodes.ctld.now_s()
    node.boot_time_s = 0
    nodes.settle(node)
    nodes.pings.ping_now()


def _power(nodes: NodeLifecycle, node: Node, word: str) -> None:
    """POWER_DOWN, _ASAP, _FORCE and POWER_UP only set flags: the power thread acts on them (power_save.py)."""
    if word == "POWER_UP":
        if node.flags & (NodeFlag.POWERED_DOWN | NodeFlag.POWERING_UP):
            node.flags |= NodeFlag.POWER_UP | NodeFlag.POWERED_DOWN
        return
    if node.flags & NodeFlag.POWERING_DOWN:
        return
    if word == "POWER_DOWN_FORCE":
        nodes.make_unavailable(node)
        nodes.kill_jobs(node, node.reason)
        node.flags &= ~NodeFlag.POWERING_UP
    elif word == "POWER_DOWN_ASAP":
        nodes.drain(node, "POWER_DOWN_ASAP")
    if node.base is NodeBase.DOWN:
        node.flags &= ~NodeFlag.POWERING_UP
    if nodes.ctld.conf.version == "22.05":
        node.flags &= ~NodeFlag.POWERED_DOWN
    node.flags |= NodeFlag.POWER_DOWN
    if node.base is NodeBase.IDLE and not nodes.is_allocated(node):
        nodes.ctld.nodes.avail &= ~node.bit


_ALIASES: Final = {"NORESP": "NO_RESPOND", "NO_RESP": "NO_RESPOND", "NORESPOND": "NO_RESPOND", "FAILING": "FAIL"}
_KNOWN: Final = ("DOWN", "DRAIN", "FAIL", "FUTURE", "IDLE", "NO_RESPOND", "RESUME", "UNDRAIN", *_POWER_WORDS)
