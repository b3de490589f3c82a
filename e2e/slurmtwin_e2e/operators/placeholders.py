"""Templates of API objects, filled by strict placeholders: no shell, no text that is parsed after it was filled.

`${name}` in a scalar of an already parsed document is replaced by a value. A scalar that is nothing else takes the
value with its type (a number, a mapping); inside a longer scalar only text and numbers may stand. Values are never
scanned again, so a value that looks like a placeholder stays as it is. Keys are never filled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from slurmtwin.contract.errors import InputError

Location = tuple[int | str, ...]
_PLACE: Final = re.compile(r"\$\{([^}]*)\}")
_OPEN: Final = "${"


def names_in(template: Any, location: Location = ()) -> Iterator[tuple[Location, str]]:
    """Every placeholder of a template with its place in the document; an unclosed one has the name ""."""
    if isinstance(template, Mapping):
        for key, value in template.items():
            if _OPEN in str(key):
                yield (*location, str(key)), ""
            yield from names_in(value, (*location, str(key)))
    elif isinstance(template, list):
        for place, value in enumerate(template):
            yield from names_in(value, (*location, place))
    elif isinstance(template, str):
        rest = _PLACE.sub("", template)
        yield from ((location, name) for name in _PLACE.findall(template))
        if _OPEN in rest:
            yield location, ""


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """The template with every placeholder replaced. Raises InputError for a name without a value or of a wrong type."""
    if isinstance(template, Mapping):
        return {str(key): fill(value, values) for key, value in template.items()}
    if isinstance(template, list):
        return [fill(value, values) for value in template]
    if not isinstance(template, str):
        return template
    whole = _PLACE.fullmatch(template)
    if whole:
        return _value(whole[1], values)
    return _PLACE.sub(lambda found: _text(found[1], values), template)


def _value(name: str, values: Mapping[str, Any]) -> Any:
    if name not in values:
        raise InputError(f"${{{name}}} has no value here", hint=", ".join(sorted(values)))
    return values[name]


def _text(name: str, values: Mapping[str, Any]) -> str:
    value = _value(name, values)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InputError(f"${{{name}}} is no text: it must be the whole value")
    return str(value)
