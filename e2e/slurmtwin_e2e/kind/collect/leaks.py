"""No secret of a run may stand in what is kept of it: the run's own keys and tokens are searched for in every row."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Final

from slurmtwin.contract.events import Event

SHORTEST: Final = 16
"""A piece of a secret of so many signs is looked for: logs cut long lines."""


def _forms(raw: bytes) -> list[str]:
    """The beginning of a secret as it may be printed: as text, base64 (both alphabets), or hexadecimal."""
    head = raw[: SHORTEST * 3]
    texts = [raw[:SHORTEST].decode()] if raw.isascii() else []
    coded = base64.b64encode(head).decode()
    return [*texts, coded[:SHORTEST], coded[:SHORTEST].translate(str.maketrans("+/", "-_")), raw.hex()[:SHORTEST]]


def _signature(raw: bytes) -> list[str]:
    """Of a token (HEAD.BODY.MARK) the head is the same for all: its body and its mark are the secret's own."""
    parts = raw.decode().split(".") if raw.count(b".") == 2 and raw.isascii() else []
    return [part[-SHORTEST:] for part in parts[1:]]


def leaked(rows: Iterable[Event], files: Mapping[str, bytes]) -> list[str]:
    """Names of the secrets of which a row shows a piece; [] when all is well."""
    wanted = {name: _signature(raw) or _forms(raw) for name, raw in files.items()}
    found = set()
    for row in rows:
        text = f"{row.actor} {row.node} {row.detail}"
        found |= {name for name, pieces in wanted.items() if any(piece in text for piece in pieces)}
    return sorted(found)
