"""What closing the connection of a probe that timed out takes: `python -m slurmtwin_e2e.kind.probe_close`.

A kubelet's probe sets SO_LINGER to a second (pkg/probe/dialer_others.go, v1.34.2): its close() waits until the other
side has acknowledged it. A stopped process acknowledges nothing itself, its kernel does so when the delay of an
acknowledgement is over. Here a process answers requests, is stopped, and is asked as often as wanted with a kubelet's
request. Needs no cluster; the kernel is that of the cluster on this host.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from statistics import median
from typing import Any, Final

LINGER_S: Final = 1
TIMEOUT_S: Final = 1.0
"""A probe's timeoutSeconds."""
PAUSE_S: Final = 0.0371
"""Between two probes: no multiple of the kernel's tick, so all phases come."""
AT_ONCE: Final = 40
REQUEST: Final = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1:6817\r\nAccept: */*\r\nConnection: close\r\n\r\n"
SERVER: Final = """
import socket
with socket.create_server(("127.0.0.1", 0), backlog=512) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        with server.accept()[0] as connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
"""


def close_ms(port: int, timeout_s: float) -> float:
    """One probe of 127.0.0.1: it waits as long for an answer; then what its close() takes, in ms."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_S))
        probe.connect(("127.0.0.1", port))
        probe.sendall(REQUEST)
        probe.settimeout(timeout_s)
        with suppress(TimeoutError):
            probe.recv(4096)
        before_s = time.perf_counter()
        probe.close()
        return (time.perf_counter() - before_s) * 1000


def measure(count: int, timeout_s: float = TIMEOUT_S) -> tuple[list[float], list[float]]:
    """What close() takes, ms: of as many probes that are answered, and of those of a stopped process."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            answered = [close_ms(port, timeout_s) for _ in range(count)]
            os.kill(server.pid, signal.SIGSTOP)
            with ThreadPoolExecutor(AT_ONCE) as pool:
                waiting = []
                for _ in range(count):
                    waiting.append(pool.submit(close_ms, port, timeout_s))
                    time.sleep(PAUSE_S)
                return answered, [probe.result() for probe in waiting]
        finally:
            server.kill()


def summary(took_ms: Sequence[float]) -> dict[str, Any]:
    """Least, median and most, in ms."""
    each = sorted(round(ms, 2) for ms in took_ms)
    return {"probes": len(each), "least_ms": each[0], "median_ms": round(median(each), 2), "most_ms": each[-1]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print JSON. Exit 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--probes", type=int, default=200)
    options = parser.parse_args(arguments)
    answered, silent = measure(options.probes)
    sys.stdout.write(json.dumps({"answered": summary(answered), "stopped": summary(silent)}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
