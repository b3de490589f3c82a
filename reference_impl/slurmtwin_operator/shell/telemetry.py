"""Prometheus metrics, and the HTTP server for /metrics, /healthz (the loop turns) and /readyz (caches are filled)."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

HEALTHY_S = 60.0


class Telemetry:
    """The operator's own numbers, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.passes = Counter("slurmtwin_passes", "Passes over objects.", ["kind", "outcome"], registry=self.registry)
        self.seconds = Histogram("slurmtwin_pass_seconds", "Length of a pass.", ["kind"], registry=self.registry)
        self.actions = Counter("slurmtwin_actions", "Actions of plans.", ["do", "outcome"], registry=self.registry)
        self.answers = Counter(
            "slurmtwin_slurm_answers", "What slurmrestd was to a pass: fresh, away or absent.", ["answer"],
            registry=self.registry,
        )  # fmt: skip
        self.leader = Gauge("slurmtwin_leader", "1 while this process holds the Lease.", registry=self.registry)
        self.waiting = Gauge("slurmtwin_queue_length", "Objects with a pass to come.", registry=self.registry)

    def text(self) -> bytes:
        """All metrics in Prometheus' text form."""
        return generate_latest(self.registry)


def application(telemetry: Telemetry, alive: Callable[[], bool], ready: Callable[[], bool]) -> web.Application:
    """The HTTP server's routes."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=telemetry.text(), headers={"Content-Type": "text/plain; version=0.0.4"})

    def probe(good: Callable[[], bool]) -> Callable[[web.Request], object]:
        async def answer(_: web.Request) -> web.Response:
            return web.Response(text="ok\n") if good() else web.Response(text="no\n", status=503)

        return answer

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", probe(alive))  # type: ignore[arg-type]
    app.router.add_get("/readyz", probe(ready))  # type: ignore[arg-type]
    return app
