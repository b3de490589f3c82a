"""The pure core: `plan(observed, memory, now_ns) -> Plan` for each kind of object.

No clock, client, randomness or logging inside. Everything that goes in and out is frozen and turns into JSON.
"""

from slurmtwin_operator.core.plan import plan

__all__ = ["plan"]
