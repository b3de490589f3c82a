"""Read a YAML file into plain values, and find the line of any place in it.

YAML 1.2 by ruamel.yaml: `NO` stays text, `12:30:00` stays text, a duplicate key is an error. It takes 15 ms for a
scenario; libyaml reads the same from a file of everyday forms in one (quick_plain).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from slurmtwin.contract.errors import InputError, Where

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Location = tuple[int | str, ...]
Model = TypeVar("Model", bound=BaseModel)


def load_yaml(path: Path) -> Any:
    """The file's content with line marks kept (ruamel CommentedMap/CommentedSeq). Raises InputError with file:line."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    reader = YAML(typ="rt", pure=True)
    reader.allow_duplicate_keys = False
    reader.composer.warn_double_anchors = False  # YAML 1.2, 3.2.2.2: an alias is of the latest anchor of its name
    try:
        with path.open(encoding="utf-8") as stream:
            return reader.load(stream)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", Where(str(path))) from error
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8 text", Where(str(path))) from error
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 0
        problem = (error.problem or error.context or "bad YAML").splitlines()[0]
        raise InputError(problem, Where(str(path), line)) from error
    except (YAMLError, ValueError, RecursionError, AttributeError, TypeError) as error:
        raise InputError(
            f"not YAML: {str(error).splitlines()[0] if str(error) else type(error).__name__}", Where(str(path))
        ) from error


def quick_plain(written: bytes) -> Any:
    """What plain(load_yaml()) gives for a file with these bytes, by libyaml; None: this is for load_yaml() to read.

    So where PyYAML has no libyaml, and for each file that is not right, empty, or holds what YAML 1.1 and 1.2 read
    differently: anchors, tags, merges, directives, numbers in any but the everyday form, characters beyond ASCII.
    """
    try:
        from slurmtwin.contract.everyday_yaml import read_everyday
    except ImportError:
        return None
    return plain(read_everyday(written))


def line_of(document: Any, location: Location) -> int:
    """The 1-based line of the deepest part of `location` that the document has; 0 if none."""
    node, line = document, 0
    for part in location:
        marks = getattr(node, "lc", None)
        if marks is None:
            break
        try:
            if isinstance(node, dict):
                if part not in node:
                    continue  # pydantic adds union tags to locations: not keys of the file
                line = marks.key(part)[0] + 1
            elif isinstance(node, list) and isinstance(part, int) and part < len(node):
                line = marks.item(part)[0] + 1
            else:
                continue
            node = node[part]
        except (KeyError, IndexError, TypeError):
            break
    return line


def plain(value: Any) -> Any:
    """The same document as dict, list, str, int, float, bool and None."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return str(value)


def first_error(error: ValidationError) -> str:
    """`place: what is wrong there` of the first thing that is wrong."""
    return _said(_first(error))


def _first(error: ValidationError) -> ErrorDetails:
    return error.errors(include_url=False, include_context=False)[0]


def _said(first: ErrorDetails) -> str:
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def validated(
    model: type[Model], document: Any, path: Path, hint: Callable[[str, Location], str] = lambda _kind, _location: ""
) -> Model:
    """What load_yaml() read, as this model. Raises InputError with file:line for the first thing that is wrong.

    hint: of pydantic's kind of error and its place.
    """
    try:
        return model.model_validate(plain(document))
    except ValidationError as error:
        first = _first(error)
        location = tuple(first["loc"])
        where = Where(str(path), line_of(document, location))
        raise InputError(_said(first), where, hint(first["type"], location)) from error
