"""The options of slurm.conf by Slurm version: type, default, and what this program does with them.

The data is slurm_defaults.yaml beside this file; read is slurm_defaults.json, made of it by `slurmtwin schema`,
because YAML takes fifty times as long to read. This module looks options up and converts their text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.clock import MINUTE, SECOND, UNLIMITED, US, parse_slurm_time
from slurmtwin.contract.errors import InputError, ModelError

VERSIONS: Final = ("22.05", "24.11", "26.05")
DATA: Final = Path(__file__).with_name("slurm_defaults.yaml")
GENERATED: Final = DATA.with_suffix(".json")
EFFECTS: Final = ("modelled", "harmless", "not_modelled", "changes")
MAX_COUNT: Final = 2**32 - 1
DERIVED: Final = "derived"


@dataclass(frozen=True, slots=True)
class Option:
    """One option or parameter word. `section` is slurm.conf, NodeName, PartitionName, SchedulerParameters ..."""

    section: str
    name: str
    effect: str
    """One of EFFECTS."""
    versions: tuple[str, ...]
    """The versions that have it."""
    type: str = "text"
    defaults: tuple[Any, ...] = ()
    """Per entry of VERSIONS, as it would be written; DERIVED where other options decide."""
    field: str = ""
    """Place in ClusterConf, dotted."""
    least: int | None = None
    most: int | None = None
    alternative: int | None = None
    """A value outside of least..most that is allowed too (-1: off)."""
    choices: tuple[str, ...] = ()
    harmless_values: tuple[str, ...] = ()
    why: str = ""
    source: str = ""

    def default(self, version: str) -> Any:
        """The default of a version, as it would be written."""
        return self.defaults[VERSIONS.index(version)]


def generated_text() -> str:
    """What slurm_defaults.json has to hold: the YAML file as JSON, in its order."""
    from ruamel.yaml import YAML

    document = YAML(typ="safe", pure=True).load(DATA.read_text(encoding="utf-8"))
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


@lru_cache(maxsize=1)
def option_table() -> dict[str, dict[str, Option]]:
    """Section -> lower-case name -> option, from slurm_defaults.json."""
    document = json.loads(GENERATED.read_text(encoding="utf-8"))
    table: dict[str, dict[str, Option]] = {}
    for section, groups in document.items():
        if section == "schema":
            continue
        ranges = groups.get("versions", {})
        options = [_modelled(section, name, data, ranges) for name, data in groups["modelled"].items()]
        for effect in EFFECTS[1:]:
            for group in groups.get(effect, ()):
                for name in group["names"]:
                    harmless = tuple(str(v).lower() for v in group.get("harmless_values", ()))
                    versions, why = _versions(ranges.get(name)), group["why"]
                    options.append(Option(section, name, effect, versions, harmless_values=harmless, why=why))
        table[section] = {option.name.lower(): option for option in options}
        if len(table[section]) != len(options):
            raise ModelError(f"an option stands twice in section {section} of {DATA.name}")
    return table


def _modelled(section: str, name: str, data: dict[str, Any], ranges: dict[str, str]) -> Option:
    default = data.get("default", False if data["type"] == "flag" else "")
    defaults = tuple(default[v] for v in VERSIONS) if isinstance(default, dict) else (default,) * len(VERSIONS)
    return Option(
        section, name, "modelled", _versions(ranges.get(name)), data["type"], defaults, data.get("field", ""),
        data.get("min"), data.get("max"), data.get("or"), tuple(data.get("choices", ())), source=data["source"],
    )  # fmt: skip


def _versions(text: str | None) -> tuple[str, ...]:
    """`24.11+`: from there on; `-24.11`: until there; `24.11`: that one; None: all."""
    if text is None:
        return VERSIONS
    if text.startswith("-"):
        return VERSIONS[: VERSIONS.index(text[1:]) + 1]
    if text.endswith("+"):
        return VERSIONS[VERSIONS.index(text[:-1]) :]
    return (VERSIONS[VERSIONS.index(text)],)


def find_option(section: str, name: str) -> Option | None:
    """The option of that name, any case; None when no version of Slurm has it."""
    return option_table()[section].get(name.lower())


def close_name(section: str, name: str) -> str:
    """A hint that names the closest known option, or "unknown option"."""
    known = {option.name.lower(): option.name for option in option_table()[section].values()}
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.7)
    return f"did you mean {known[close[0]]}?" if close else f"no option of {section} in Slurm {', '.join(VERSIONS)}"


def split_words(text: str) -> list[str]:
    """The parts of a comma-separated value, without empty ones."""
    return [part.strip() for part in text.split(",") if part.strip()]


def number(text: str, low: int = 0, high: int = MAX_COUNT) -> int:
    """An integer as parse_value.c reads it: decimal, 0x or 0 octal, suffix K. Raises InputError."""
    found = re.fullmatch(r"\s*(-?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9]\d*)([kK]?)\s*", text[:40])
    if not found:
        raise InputError(f"not a number: {text[:40]!r}")
    body = found[2]
    value = int(body, 16) if body[:2].lower() == "0x" else int(body, 8) if body.startswith("0") else int(body)
    value *= (-1 if found[1] else 1) * (1024 if found[3] else 1)
    if not low <= value <= high:
        raise InputError(f"{value} is outside {low}..{high}")
    return value


def is_unlimited(text: str) -> bool:
    """Whether the text is one of Slurm's words for no limit."""
    return text.strip().upper() in ("UNLIMITED", "INFINITE")


def yes_no(text: str) -> bool:
    """Slurm's booleans (parse_value.c s_p_handle_boolean). Raises InputError otherwise."""
    word = text.strip().lower()
    if word in ("yes", "up", "true", "1"):
        return True
    if word in ("no", "down", "false", "0"):
        return False
    raise InputError(f"not YES or NO: {text!r}")


def slurm_minutes(text: str) -> int:
    """A Slurm time rounded up to whole minutes (parse_time.c time_str2mins); UNLIMITED allowed."""
    ns = parse_slurm_time(text)
    return ns if ns == UNLIMITED else -(-ns // MINUTE) * MINUTE


def tres_name(text: str) -> str:
    """A TRES name as the model writes it: cpu, mem, node, billing lower case; gres/NAME keeps its name's case."""
    kind, slash, rest = text.strip().partition("/")
    return f"{kind.lower()}/{rest}" if slash else kind.lower()


_WEIGHT = re.compile(r"([+-]?\d*\.?\d+(?:[eE][+-]?\d{1,3})?)([KMGTP]?)[bB]?\Z", re.IGNORECASE)
_STEPS: Final = "KMGTP"


def tres_weights(text: str) -> tuple[tuple[str, float], ...]:
    """`CPU=1.0,Mem=0.25G,GRES/gpu=2` per unit; a unit letter makes it per K, M, G, T or P (mem counts MiB).

    Source: slurm_protocol_api.c _tres_weight_item(). Raises InputError.
    """
    out: list[tuple[str, float]] = []
    for part in split_words(text):
        name, equal, value = part.partition("=")
        found = _WEIGHT.match(value.strip())
        if not equal or not name.strip() or not found:
            raise InputError(f"not a TRES weight: {part!r}", hint="for example CPU=1.0,Mem=0.25G,GRES/gpu=2.0")
        weight, tres = float(found[1]), tres_name(name)
        if not math.isfinite(weight):
            raise InputError(f"not a TRES weight: {part!r}")
        if found[2]:
            base = 1 if tres == "mem" else -1
            steps = _STEPS.index(found[2].upper()) - base
            weight = weight / 1024**steps if steps > 0 else weight
        out.append((tres, weight))
    return tuple(out)


def counts(text: str) -> tuple[tuple[str, int], ...]:
    """`matlab:5,fluent` as (name, count) pairs; a missing count is 1. Raises InputError."""
    out: list[tuple[str, int]] = []
    for part in split_words(text):
        name, sep, count = re.sub(r"[=*]", ":", part).partition(":")
        if not name or "(" in part:
            raise InputError(f"not NAME:COUNT: {part!r}")
        out.append((name, number(count) if sep else 1))
    return tuple(out)


_ENFORCE: Final = {
    "1": {"associations"}, "associations": {"associations"}, "2": {"associations", "limits"},
    "limits": {"associations", "limits"}, "safe": {"associations", "limits", "safe"},
    "wckeys": {"associations", "wckeys"}, "qos": {"associations", "qos"},
    "all": {"associations", "limits", "safe", "wckeys", "qos"}, "nojobs": {"nojobs", "nosteps"}, "nosteps": {"nosteps"},
}  # fmt: skip
_FLAGS: Final = (
    "ACCRUE_ALWAYS", "SMALL_RELATIVE_TO_TIME", "CALCULATE_RUNNING", "DEPTH_OBLIVIOUS", "NO_FAIR_TREE", "INCR_ONLY",
    "MAX_TRES_GRES", "MAX_TRES", "NO_NORMAL_ALL", "NO_NORMAL_ASSOC", "NO_NORMAL_PART", "NO_NORMAL_QOS",
    "NO_NORMAL_TRES",
)  # fmt: skip
_PROLOG_FLAGS: Final = (
    "Alloc", "Contain", "DeferBatch", "NoHold", "ForceRequeueOnFail", "RunInJob", "Serial", "X11",
)  # fmt: skip


def _known_words(text: str, known: Iterable[str]) -> list[str]:
    table = {word.lower(): word for word in known}
    out: list[str] = []
    for word in split_words(text):
        if word.lower() not in table:
            raise InputError(f"unknown word {word!r}", hint=f"one of {', '.join(table.values())}")
        out.append(table[word.lower()])
    return out


def _priority_flags(text: str) -> frozenset[str]:
    flags = set(_known_words(text, _FLAGS))
    if "NO_NORMAL_ALL" in flags:
        flags |= {"NO_NORMAL_ASSOC", "NO_NORMAL_PART", "NO_NORMAL_QOS", "NO_NORMAL_TRES"}
    if "DEPTH_OBLIVIOUS" in flags:
        flags.add("NO_FAIR_TREE")
    return frozenset(flags)


def _prolog_flags(text: str) -> frozenset[str]:
    flags = set(_known_words(text, _PROLOG_FLAGS))
    if flags & {"Contain", "X11", "NoHold", "RunInJob"}:
        flags.add("Alloc")
    if flags & {"X11", "RunInJob"}:
        flags.add("Contain")
    return frozenset(flags)


def _enforce(text: str) -> frozenset[str]:
    words = _known_words(text, _ENFORCE)
    return frozenset().union(*(_ENFORCE[word] for word in words))


def _enforce_part(text: str) -> str:
    word = text.strip().lower()
    table = {"yes": "all", "up": "all", "true": "all", "1": "all", "all": "all", "any": "any",
             "no": "no", "down": "no", "false": "no", "0": "no"}  # fmt: skip
    if word not in table:
        raise InputError(f"not ALL, ANY or NO: {text!r}")
    return table[word]


def _topology(text: str) -> str:
    word = text.strip().lower().removeprefix("topology/")
    word = "flat" if word in ("", "none", "default", "flat") else word
    if word not in ("flat", "tree", "block", "3d_torus", "hypercube"):
        raise InputError(f"not a topology plugin: {text!r}", hint="topology/flat, topology/tree or topology/block")
    return word


def _storage(text: str) -> bool:
    word = text.strip().lower().removeprefix("accounting_storage/")
    if word not in ("", "none", "slurmdbd"):
        raise InputError(f"accounting storage {text!r} is not in slurmctld", hint="accounting_storage/slurmdbd")
    return word == "slurmdbd"


def _limit(text: str, scale: int) -> int:
    return UNLIMITED if is_unlimited(text) or text.strip() in ("-1", "NONE") else number(text) * scale


def _lower_names(text: str) -> tuple[str, ...]:
    return () if text.strip().lower() == "all" else tuple(split_words(text.lower()))


_CONVERT: Final[dict[str, Callable[[str], Any]]] = {
    "text": str.strip,
    "lower": lambda t: t.strip().lower(),
    "upper": lambda t: t.strip().upper(),
    "plugin": lambda t: t.strip().lower(),
    "int": number,
    "int_bool": lambda t: number(t) > 0,
    "bool": yes_no,
    "seconds": lambda t: number(t, -1) * SECOND,
    "minutes": lambda t: number(t) * MINUTE,
    "microseconds": lambda t: number(t) * US,
    "limit_seconds": lambda t: _limit(t, SECOND),
    "limit_minutes": lambda t: _limit(t, MINUTE),
    "limit_int": lambda t: _limit(t, 1),
    "slurm_minutes": slurm_minutes,
    "slurm_seconds": parse_slurm_time,
    "mib": lambda t: 0 if is_unlimited(t) else number(t, 0, 2**50),
    "percent": lambda t: number(t.strip().rstrip("%"), 0, 100),
    "present": lambda t: bool(t.strip()),
    "names": lambda t: tuple(split_words(t)),
    "lower_names": _lower_names,
    "all_names": lambda t: () if t.strip().lower() == "all" else tuple(split_words(t)),
    "words_set": lambda t: frozenset(split_words(t)),
    "counts": counts,
    "tres_weights": tres_weights,
    "enforce": _enforce,
    "enforce_part": _enforce_part,
    "priority_flags": _priority_flags,
    "prolog_flags": _prolog_flags,
    "topology": _topology,
    "storage": _storage,
}


def convert(option: Option, text: str) -> Any:
    """The option's value from its text, in the unit of its field. Raises InputError without a place.

    The limits of the option (least, most) count in its own unit, as written.
    """
    if option.type not in _CONVERT:
        raise ModelError(f"option {option.name} has no plain value (type {option.type})")
    if option.least is not None or option.most is not None:
        written = number(text, -1)
        low, high = option.least or 0, option.most if option.most is not None else MAX_COUNT
        if not low <= written <= high and written != option.alternative:
            raise OutOfRangeError(f"{written} is outside {low}..{high}")
    value = _CONVERT[option.type](text)
    if isinstance(value, int) and not isinstance(value, bool) and value < 0 and option.alternative is None:
        if not option.type.startswith(("limit_", "slurm_")):
            raise InputError(f"{text.strip()} is negative")
    elif option.alternative is not None and value == option.alternative * SECOND:
        value = option.alternative
    choices = {choice.lower() for choice in option.choices}
    if choices and str(value).lower() not in choices:
        raise InputError(f"{text!r} is not one of {', '.join(option.choices)}")
    return value


class OutOfRangeError(InputError):
    """A number outside of what slurmctld accepts; for parameter words Slurm logs it and takes the default."""
