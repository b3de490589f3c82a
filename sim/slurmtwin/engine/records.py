"""Records that the type checker keeps frozen, at the price of plain ones.

A frozen dataclass is four times as slow to make: each field goes through object.__setattr__(). Models make some twenty
for each pod. mypy refuses every write to them, and at run time nobody looks.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

Record = TypeVar("Record")

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(**options: bool):
        """dataclasses.dataclass, equal and hashed as a frozen one, but not frozen."""
        if options.pop("frozen", False):
            options["unsafe_hash"] = True
        return dataclasses.dataclass(**options)


def changed(record: Record, **values: Any) -> Record:
    """A copy with other values: dataclasses.replace() of a record with slots and without derived fields."""
    kind = type(record)
    new: Record = object.__new__(kind)
    for name in kind.__slots__:  # type: ignore[attr-defined]
        setattr(new, name, getattr(record, name))
    for name, value in values.items():
        setattr(new, name, value)
    return new


__all__ = ["changed", "dataclass"]
