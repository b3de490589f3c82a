"""What a probe's connection to a process that stands still takes to close."""

from __future__ import annotations

from slurmtwin_e2e.kind.probe_close import AT_ONCE, SERVER, measure, summary


def test_a_stopped_process_delays_the_end_of_a_probe() -> None:
    """One that answers does not: its close() has nobody to wait for (the kernel's own timer, 40 ms on Linux)."""
    answered, stopped = measure(4, timeout_s=0.1)
    assert len(answered) == len(stopped) == 4
    assert min(stopped) > max(answered)


def test_figures_are_the_least_the_middle_and_the_most() -> None:
    """In ms, to two digits behind the point."""
    assert summary([42.0, 40.123, 43.0]) == {"probes": 3, "least_ms": 40.12, "median_ms": 42.0, "most_ms": 43.0}


def test_the_server_takes_all_probes_that_wait_at_once() -> None:
    """A full queue would refuse what is to time out."""
    assert int(SERVER.split("backlog=")[1].split(")")[0]) > AT_ONCE
