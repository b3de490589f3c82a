"""A shell kept open inside a node: a command starts within a millisecond; `docker exec` needs a tenth of a second."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from slurmtwin.contract.errors import SlurmtwinError


class NodeShellError(SlurmtwinError):
    """The node does not answer (frozen, stopped) or a command failed there."""


@dataclass(frozen=True, slots=True)
class Said:
    """A command's exit code and standard output, and unix ns just before and after it."""

    code: int
    text: str
    before_ns: int
    after_ns: int


class NodeShell:
    """bash in one node's container, as root. Not to be shared by threads without its lock, which run() takes."""

    def __init__(self, node: str) -> None:
        self.node = node
        self._lock = threading.Lock()
        self._child: Any = None
        self._count = 0

    def _open(self) -> Any:
        if self._child is None or self._child.poll() is not None:
            self.close()
            self._child = subprocess.Popen(
                ["docker", "exec", "-i", self.node, "bash", "--noprofile", "--norc"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1,
            )  # fmt: skip
        return self._child

    def run(self, command: str, *, check: bool = True, limit_s: float = 30.0, secrets: Sequence[str] = ()) -> Said:
        """Run a command line. Raises NodeShellError when it fails and check is set, or when no answer comes in time.

        secrets: texts in it that no error message may hold.
        """
        with self._lock:
            child = self._open()
            self._count += 1
            mark = f"--said-{self._count}--"
            before = time.time_ns()
            timer = threading.Timer(limit_s, child.kill)
            timer.start()
            try:
                child.stdin.write(f"{{ {command}\n}} < /dev/null\nsaid=$?; echo; echo {mark} $said\n")
                child.stdin.flush()
                lines: list[str] = []
                for line in child.stdout:
                    if line.startswith(mark):
                        code = int(line.split()[1])
                        break
                    lines.append(line)
                else:
                    self.close()
                    raise NodeShellError(f"{self.node}: no answer to {_hidden(command, secrets)[:120]}")
            except OSError as error:
                self.close()
                raise NodeShellError(f"{self.node}: {error}") from error
            finally:
                timer.cancel()
            said = Said(code, "".join(lines).strip(), before, time.time_ns())
        if check and said.code:
            told, text = _hidden(command, secrets), _hidden(said.text, secrets)
            raise NodeShellError(f"{self.node}: {told[:200]} ended with {said.code}: {text[-300:]}")
        return said

    def close(self) -> None:
        """End the shell."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            for pipe in (self._child.stdin, self._child.stdout):
                with suppress(OSError):
                    pipe.close()
            self._child = None


def _hidden(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
