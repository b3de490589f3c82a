"""Sets of node flags are looked up, not made anew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.models.slurmctld.states import NodeFlag

SETS = st.integers(0, 2 * NodeFlag.EXTERNAL - 1)


@given(SETS, SETS)
def test_sets_of_flags_are_those_of_their_values(one: int, other: int) -> None:
    """Both ways round, with a number beside a flag too; equal sets are one object."""
    a, b = NodeFlag(one), NodeFlag(other)
    for made, value in ((a & b, one & other), (a | b, one | other), (one & b, one & other), (one | b, one | other)):
        assert type(made) is NodeFlag
        assert made == value
        assert made is NodeFlag(value) & NodeFlag(value)
    assert (a & ~b) == one & ~other
