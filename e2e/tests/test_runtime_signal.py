"""What a signal takes by way of the runtime."""

from __future__ import annotations

from slurmtwin_e2e.kind.runtime_signal import heard_ns, summary


def test_a_container_tells_when_it_hears() -> None:
    """By the line that its process wrote, not by the runtime's stamp of it; a shell's empty last line is none."""
    log = (
        "2026-11-28T00:00:01.000100000Z stdout F 1795824001.000050\n"
        "2026-11-28T00:00:02.700000000Z stdout F 1795824002.500000\n\n"
    )
    assert heard_ns(log) == [1_795_824_001_000_050_000, 1_795_824_002_500_000_000]


def test_a_signal_is_what_its_call_takes_beyond_a_client_that_only_asks() -> None:
    """By that client's median."""
    found = summary(([50.0, 40.0, 60.0], [20.0, 10.0, 90.0]))
    assert (found["median_ms"], found["each_ms"], found["client_ms"]) == (30.0, [30.0, 20.0, 40.0], 20.0)
