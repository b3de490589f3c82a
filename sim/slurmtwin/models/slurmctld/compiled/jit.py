"""The decorators of compiled functions, with types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])
_null: Any = cgutils.get_null_value
_njit: Any = njit
"""Its types do not know these two options: without wrappers a callee is no machine code of its own."""


def compiled(function: F) -> F:
    """Compiled into whatever calls it, and for nothing else: Python cannot call it.

    It is not kept on disk: its callers would not notice that it changed.
    """
    return cast(F, _njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)(function))


def kept(function: F) -> F:
    """Compiled once on a machine and kept beside the source; what it calls must stand in the same file."""
    return cast(F, njit(cache=True)(function))


def _ones(_context: Any, _word: Any) -> Any:
    """Set bits of one word, by one machine instruction."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), code


ones: Any = intrinsic(_ones)
"""Set bits of one uint64."""


def _lent(_context: Any, array: Any) -> Any:
    """The array without its reference count, which compiled code would move at every call, by locked instructions.

    Whoever lends it keeps it alive meanwhile.
    """

    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        own = context.make_array(array)(context, builder, arguments[0])
        own.meminfo = _null(own.meminfo.type)
        own.parent = _null(own.parent.type)
        return own._getvalue()

    return array(array), code


lent: Any = intrinsic(_lent)
"""The same array, uncounted."""
