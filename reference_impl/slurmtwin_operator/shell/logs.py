"""Structured logs: one JSON object per line, with the object and the plan's reasons; also into the recording's folder.

Tokens have a known form: whatever looks like one is struck out, whoever wrote the line.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from pathlib import Path
from typing import Any, Final

NAME: Final = "slurmtwin.operator"
log: Final = logging.getLogger(NAME)
TOKEN: Final = re.compile(r"eyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]{4,}")
STRUCK: Final = "[token]"


class JsonLines(logging.Formatter):
    """t_ns, level, say, and the fields that say() was given."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line = {"t_ns": int(record.created * 1e9), "level": record.levelname.lower(), "say": record.getMessage()}
        if record.name != NAME:
            line["logger"] = record.name
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        return TOKEN.sub(STRUCK, json.dumps(line, default=str, ensure_ascii=False))


def say(text: str, level: int = logging.INFO, **fields: Any) -> None:
    """Log a line with fields."""
    log.log(level, text, extra={"fields": {key: value for key, value in fields.items() if value not in (None, "", [])}})


def configure(folder: Path | None) -> None:
    """All logging of the process goes to stdout as JSON lines, ours also to FOLDER/log.jsonl."""
    root = logging.getLogger()
    root.handlers[:] = [_handler(logging.StreamHandler(sys.stdout))]
    root.setLevel(logging.WARNING)
    log.setLevel(logging.INFO)
    if folder is not None:
        log.addHandler(_handler(logging.FileHandler(folder / "log.jsonl", encoding="utf-8")))


def _handler(handler: logging.Handler) -> logging.Handler:
    handler.setFormatter(JsonLines())
    return handler


def folder_of(root: str, identity: str) -> Path | None:
    """A new folder of this process below the recordings' root; None: nothing is recorded."""
    if not root:
        return None
    path = Path(root, f"{identity}-{time.time_ns() // 1_000_000_000}")
    path.mkdir(parents=True, exist_ok=True)
    return path
