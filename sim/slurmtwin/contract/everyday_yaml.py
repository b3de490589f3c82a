"""The everyday part of YAML, read by libyaml (PyYAML): what versions 1.1 and 1.2 of the language agree on.

YAML 1.2.2, 10.3.2 (core schema) says what a plain scalar is. Whatever may be something else by YAML 1.1, or by an
extension of either, is not everyday: the whole file is then left to the reader that knows all of it.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final

from yaml import CSafeLoader, YAMLError

_NULL, _BOOL, _INT, _FLOAT, _ODD = (f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "odd"))
_SIGNS: Final = "-+.0123456789"
_SCALARS: Final = (
    (_NULL, r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (_BOOL, r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (_INT, r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    (_FLOAT, r"[-+]?(?:0|[1-9][0-9]*)\.[0-9]+", list("-+0123456789")),
    (_ODD, r"[-+.:_0-9a-fA-FxXoOinNITZ ]+|[=<].*", [*_SIGNS, "=", "<"]),
)
"""(tag, regular expression of all of a plain scalar, its first characters), the first that matches. Numbers with
exponents, bases, colons or underscores and dates are odd; `4s` and `26.05-rc` have letters that none of those has."""
_NOT_EVERYDAY: Final = re.compile(r"[^\n -~]|(?:^|[ \[{,])[&*!?]|^[%\ufeff]|^(?:---|\.\.\.)|<<", re.MULTILINE)


class _OddError(Exception):
    """The file has something that is not everyday."""


class EverydayLoader(CSafeLoader):
    """PyYAML's safe loader with the core schema's everyday scalars, and an end at anything odd or said twice."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """The mapping, of keys that differ also as text."""
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        if len({str(key) for key in found}) != len(node.value):
            raise _OddError
        return found


def _odd(_loader: EverydayLoader, _node: Any) -> None:
    raise _OddError


for _tag, _pattern, _first in _SCALARS:
    EverydayLoader.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), _first)
EverydayLoader.add_constructor(_ODD, _odd)


def read_everyday(written: bytes) -> Any:
    """The file's document; None where it is not everyday, not right, or empty."""
    try:
        text = written.decode("ascii")
        return None if _NOT_EVERYDAY.search(text) else EverydayLoader(text).get_single_data()
    except (YAMLError, _OddError, ValueError, TypeError, AttributeError, RecursionError):
        return None
