"""The way of a metric to the number of workers: scraped, polled by KEDA, looked at by the autoscaler, each at its own
phase (design notes 2.2; kubernetes.md 6.28).

Its three clocks tick as long as the run does: what they decide depends on when they look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmtwin.contract.events import Kind
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.autoscaler.horizontal import HorizontalAutoscaler
from slurmtwin.models.autoscaler.keda import Activation

if TYPE_CHECKING:
    from slurmtwin.contract.pods import Autoscale
    from slurmtwin.engine.environment import Environment
    from slurmtwin.engine.event_sink import EventSink
    from slurmtwin.engine.random_streams import RandomStreams


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """What is scaled, as the chain sees it."""

    metric: Callable[[], int | None]
    """What slurmctld's /metrics says; None: no answer."""
    replicas: Callable[[], int | None]
    """spec.replicas; None: the object is not there."""
    pods: Callable[[], tuple[int, int]]
    """(pods that exist, pods that are ready)."""
    put: Callable[[int], None]
    """Changes spec.replicas by the scale subresource."""


class MetricChain:
    """One ScaledObject, or a HorizontalPodAutoscaler alone."""

    def __init__(
        self, env: Environment, sink: EventSink, streams: RandomStreams, section: Autoscale, scaled: Scaled
    ) -> None:
        self._env = env
        self._sink = sink
        self._section = section
        self._scaled = scaled
        self._scraped: int | None = None
        self._activation = Activation(section.least, section.cooldown) if section.keda else None
        self._horizontal = HorizontalAutoscaler(
            section.form, section.target, max(1, section.least), section.most, section.stabilization
        )
        self._phases = {
            name: streams.uniform_ns(f"autoscaler.{name}", 0, every)()
            for name, every in (("scrape", section.scrape), ("poll", section.poll), ("sync", section.sync))
        }

    def start(self) -> None:
        """All clocks begin, each at its phase."""
        ticks = [("scrape", self._scrape), ("sync", self._sync)]
        if self._activation is not None:
            ticks.append(("poll", self._poll))
        for name, act in ticks:
            self._env.call_in(self._phases[name], act)

    def _scrape(self, _argument: object) -> None:
        """Prometheus: a target that does not answer, or no longer has the metric, leaves no value."""
        renamed = self._section.renamed
        gone = renamed is not None and self._env.now_ns >= renamed
        seen = None if gone else self._scaled.metric()
        if seen != self._scraped and seen is not None:
            said = detail_text(metric=self._section.metric)
            self._sink.emit(self._env.now_ns, Kind.METRIC_READ, "slurmctld", None, None, seen, None, said)
        self._scraped = seen
        self._env.call_in(self._section.scrape, self._scrape)

    def _poll(self, _argument: object) -> None:
        current = self._scaled.replicas()
        if current is not None and self._activation is not None:
            self._ask(current, self._activation.look(self._env.now_ns, self._scraped, current))
        self._env.call_in(self._section.poll, self._poll)

    def _sync(self, _argument: object) -> None:
        current = self._scaled.replicas()
        if current is not None:
            usage = self._scraped
            if usage is None and self._section.keda:
                usage = 0  # KEDA's metrics server: a query without a result is 0
            pods, ready = self._scaled.pods()
            self._ask(current, self._horizontal.look(self._env.now_ns, usage, current, pods, ready))
        self._env.call_in(self._section.sync, self._sync)

    def _ask(self, current: int, wanted: int) -> None:
        if wanted != current:
            self._scaled.put(wanted)
