"""Calls that nobody answers: when Linux sends a SYN again, and how many refusals it sends.

A Service without a ready pod refuses connections with an ICMP message of the caller's node, and Linux limits those to
one address: one a second, six at once (net/ipv4/inetpeer.c inet_peer_xrlim_allow(), icmp_ratelimit 1000 ms). A SYN
that is neither answered nor refused is sent again after 1, 2, 3, 4 s and then with doubled pauses
(tcp_syn_linear_timeouts 4), and given up after 131 s (tcp_syn_retries 6 behind those four).
"""

from __future__ import annotations

from typing import Final

from slurmtwin.contract.clock import SECOND

SYN_AGAIN_S: Final = (1, 2, 3, 4, 5, 7, 11, 19, 35, 67)
"""Seconds since the first; the pauses double behind the first five."""
GIVEN_UP_S: Final = 131
"""Then connect() fails (ETIMEDOUT), whatever its caller would wait."""
BURST: Final = 6
"""Refusals to one address at once (XRLIM_BURST_FACTOR)."""


def syn_again_ns(since_ns: int, again: int) -> int:
    """When a SYN first sent at since_ns is sent again for the time number `again`, from 0; at last: is given up."""
    return since_ns + (SYN_AGAIN_S[again] if again < len(SYN_AGAIN_S) else GIVEN_UP_S) * SECOND


def given_up_ns(since_ns: int, timeout_ns: int) -> int:
    """When the caller hears that nobody answered; timeout_ns: its own patience, 0: it has no limit."""
    return since_ns + min(timeout_ns or GIVEN_UP_S * SECOND, GIVEN_UP_S * SECOND)


class Refusals:
    """The refusals that a node still sends to one address."""

    def __init__(self) -> None:
        self._saved_ns = BURST * SECOND
        self._last_ns = 0

    def sent(self, now_ns: int, wanted: int) -> int:
        """How many of so many SYNs that come now are refused; the others are lost."""
        self._saved_ns = min(BURST * SECOND, self._saved_ns + now_ns - self._last_ns)
        self._last_ns = now_ns
        sent = min(wanted, self._saved_ns // SECOND)
        self._saved_ns -= sent * SECOND
        return sent
