"""How far apart two events of one moment are heard of."""

from __future__ import annotations

from slurmtwin_e2e.kind.event_gap import gaps_ms, summary


def test_a_gap_is_from_the_last_unhealthy_to_the_first_killing() -> None:
    """Of each pod by itself; another Killing, or one without a failed probe, tells nothing."""
    heard = [
        (1.0, "a", "Unhealthy"), (2.0, "a", "Unhealthy"), (2.001, "b", "Killing"), (2.004, "a", "Killing"),
        (3.0, "a", "Unhealthy"), (3.009, "a", "Killing"), (4.0, "c", "Unhealthy"), (4.008, "c", "Killing"),
    ]  # fmt: skip
    assert summary(gaps_ms(heard)) == {"pods": 2, "median_ms": 6.0, "sigma": 0.49, "each_ms": [4.0, 8.0]}
