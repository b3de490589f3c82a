"""An observer whose thread ends in an error says so: its run lacks rows, and is not kept."""

from __future__ import annotations

from typing import Any

import pytest

from slurmtwin_e2e.kind.collect import collector as collecting
from slurmtwin_e2e.kind.collect import metrics
from slurmtwin_e2e.kind.collect.telling_thread import TellingThread


def dies() -> None:
    """As a reader does of an object that it does not know."""
    raise KeyError("metadata")


def test_a_thread_tells_what_ended_it() -> None:
    """And nothing where it came to its end."""
    threads = [TellingThread(dies, "watch of /api/v1/nodes"), TellingThread(lambda: None, "pages")]
    for thread in threads:
        thread.start()
        thread.join()
    assert [thread.lost for thread in threads] == ["watch of /api/v1/nodes: KeyError: 'metadata'", ""]


class Watch:
    """An informer: that of pods dies, the others end as they should."""

    def __init__(self, _api: object, path: str, _sink: object) -> None:
        self.run = dies if path.endswith("/pods") else self.stop

    def stop(self) -> None:
        """Nothing to end."""


def test_a_collector_tells_which_watch_died_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what ends one behind it."""
    monkeypatch.setattr(collecting, "custom_paths", lambda *_: [])
    monkeypatch.setattr(collecting, "Informer", Watch)
    api: Any = None
    stopped_first, watched = collecting.Collector(api, "n"), collecting.Collector(api, "n")
    for one in (stopped_first, watched):
        if one is stopped_first:
            one.stop()
        one.start()
        for thread in one._threads:
            thread.join()
        one.stop()
    assert stopped_first.lost == []
    assert watched.lost == ["watch of /api/v1/namespaces/n/pods: KeyError: 'metadata'"]


def test_a_reader_of_pages_tells_what_ended_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a page that is no text, which the rounds at its begin and end, on the run's own thread, are not told."""
    monkeypatch.setattr(metrics, "PERIOD_S", 0.0)
    server: Any = None
    reader = metrics.MetricsReader(server, [])
    monkeypatch.setattr(metrics.MetricsReader, "_run", lambda _: dies())
    reader.start()
    assert reader.stop() == []
    assert reader.lost == ["pages of metrics: KeyError: 'metadata'"]
