"""A core as a child process, in any language: one JSON object per line, in and out.

To the child   {"kind": "NodeSet", "observed": {...}, "memory": {...}, "now_ns": 0}
From the child {"plan": {...}}, or {"error": "text"}

`python -m slurmtwin_operator.child` is our own core in that form. ChildCore is the other end: it looks like `plan`.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import subprocess
import sys
import time
from typing import IO, Any, Final, Self

from slurmtwin.contract.errors import EnvironmentMissingError, InputError
from slurmtwin_operator.codec import kind_of, read_memory, read_observed, read_plan, to_json
from slurmtwin_operator.core import plan as own_plan
from slurmtwin_operator.core.actions import Memory, Plan
from slurmtwin_operator.core.observed import Observed

MAX_LINE: Final = 64 * 1024 * 1024
"""An answer may be so long, in bytes."""
TIMEOUT_S: Final = 60.0


def serve(source: IO[str], sink: IO[str]) -> None:
    """Answer requests until the input ends."""
    for line in source:
        sink.write(json.dumps(_answer(line), sort_keys=True, separators=(",", ":")) + "\n")
        sink.flush()


def _answer(line: str) -> dict[str, Any]:
    try:
        request = json.loads(line)
        observed = read_observed(str(request.get("kind")), request.get("observed"))
        memory, now_ns = read_memory(request.get("memory")), int(request["now_ns"])
    except (InputError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"plan": to_json(own_plan(observed, memory, now_ns))}


class ChildCore:
    """A core that runs as a child process; call it as `plan(observed, memory, now_ns)`."""

    def __init__(self, command: str, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._rest = b""
        try:
            self._child = subprocess.Popen(  # noqa: S603  the user's own command line, no shell
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
        except (OSError, ValueError) as error:
            raise EnvironmentMissingError(f"cannot start the core {command!r}: {error}") from error
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._in, self._out = self._child.stdin, self._child.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child: its input ends; it is killed when it does not follow."""
        self._in.close()
        try:
            self._child.wait(5)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._out.close()

    def __call__(self, observed: Observed, memory: Memory, now_ns: int) -> Plan:
        """Ask for a plan. Raises InputError when the child answers none in time, or no plan."""
        request = {
            "kind": kind_of(observed), "observed": to_json(observed), "memory": to_json(memory), "now_ns": now_ns,
        }  # fmt: skip
        try:
            self._send(json.dumps(request, separators=(",", ":")).encode() + b"\n")
        except OSError as error:
            raise InputError(f"the core's process ended: {error}") from error
        try:
            answer = json.loads(self._line())
        except (ValueError, RecursionError) as error:
            raise InputError(f"the core answered no JSON: {error}") from error
        if not isinstance(answer, dict) or "plan" not in answer:
            raise InputError(f"the core answered no plan: {str(answer)[:200]}")
        return read_plan(answer["plan"])

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._in.write(view) or 0 :]

    def _line(self) -> bytes:
        until = time.monotonic() + self._timeout_s
        while b"\n" not in self._rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._out], [], [], left)[0]:
                raise InputError(f"the core did not answer within {self._timeout_s:g} s")
            part = os.read(self._out.fileno(), 1 << 16)
            if not part or len(self._rest) > MAX_LINE:
                raise InputError("the core's process ended" if not part else "the core's answer is too long")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
