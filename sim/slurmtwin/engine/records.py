"""Records that the type checker keeps frozen, at the price of plain ones.

A frozen dataclass is four times as slow to make: each field goes through object.__setattr__(). Models make some twenty
for each pod. mypy refuses every write to them, and at run time nobody looks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

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
    """A copy with other values: dataclasses.replace() of a record without derived fields."""
    kind = type(record)
    new: Record = (_COPIERS.get(kind) or _copier(kind))(record)
    for name, value in values.items():
        setattr(new, name, value)
    return new


_COPIERS: Final[dict[type, Callable[[Any], Any]]] = {}


def _copier(kind: type) -> Callable[[Any], Any]:
    """A function that copies the fields of one class, written out as dataclasses writes its methods."""
    names = [field.name for field in dataclasses.fields(kind)]
    lines = ["def copy(record):", "    new = empty(kind)", *(f"    new.{name} = record.{name}" for name in names)]
    scope: dict[str, Any] = {"empty": kind.__new__, "kind": kind}
    exec("\n".join([*lines, "    return new"]), scope)  # noqa: S102  names of fields alone are in it
    _COPIERS[kind] = scope["copy"]
    return _COPIERS[kind]


__all__ = ["changed", "dataclass"]
