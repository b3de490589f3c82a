"""Calls to slurmrestd: what one server does not answer holds up no other."""

from __future__ import annotations

import asyncio
import os
import socket
from http.server import BaseHTTPRequestHandler

from http_server import serving

from slurmtwin_operator.shell.slurm_rest import SlurmError, SlurmRest

KEY = b"x" * 32
MORE_THAN_A_SHARED_POOL = (os.cpu_count() or 1) + 40
"""asyncio's own threads: the number of CPUs and 4, 32 at most."""


class Answers(BaseHTTPRequestHandler):
    """An empty answer to everything."""

    def do_GET(self) -> None:
        """One JSON object."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_a_silent_slurmrestd_holds_up_no_other_cluster() -> None:
    """More calls than a shared pool of threads has wait for one server; another one's call is answered all the same.

    With shared threads a scale-in waited 12.8 s for another cluster's slurmrestd (docs/surprises.md).
    """

    async def story(silent: socket.socket, base: str) -> dict[str, object]:
        dead = SlurmRest(f"http://127.0.0.1:{silent.getsockname()[1]}", "26.05", KEY, 0)
        live = SlurmRest(base, "26.05", KEY, 5)
        waiting = [asyncio.ensure_future(dead.call("GET", "nodes/")) for _ in range(MORE_THAN_A_SHARED_POOL)]
        await asyncio.sleep(0)  # all of them have asked for a thread
        try:
            found = await live.call("GET", "nodes/")
            assert not any(one.done() for one in waiting)
            return found
        finally:
            dead.close()
            silent.close()
            ends = await asyncio.gather(*waiting, return_exceptions=True)
            assert all(isinstance(end, SlurmError | asyncio.CancelledError) for end in ends)
            live.close()

    silent = socket.create_server(("127.0.0.1", 0), backlog=64)
    with serving(Answers) as base:
        assert asyncio.run(story(silent, base)) == {}
