"""Time: integer nanoseconds inside, Slurm's and Kubernetes' text forms at the edge.

Slurm's forms are those of `sbatch --time` (man sbatch 22.05): minutes, minutes:seconds,
hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds, and the words
UNLIMITED and INFINITE. Kubernetes' are those of metav1.Duration (Go time.ParseDuration).
"""

from __future__ import annotations

import re
from typing import Final

from slurmtwin.contract.errors import InputError

NS: Final = 1
US: Final = 1_000
MS: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

MAX_TEXT: Final = 64
"""No text of a time is longer."""
UNLIMITED: Final = -1
"""The value of a Slurm time limit that is UNLIMITED or INFINITE."""

_GO_UNITS: Final = {"ns": NS, "us": US, "µs": US, "ms": MS, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}
_GO_PART = re.compile(r"(\d+)(?:\.(\d+))?(ns|us|µs|ms|s|m|h|d)")
_SLURM = re.compile(r"(?:(?P<days>\d+)-)?(?P<a>\d+)(?::(?P<b>\d+))?(?::(?P<c>\d+))?\Z")


def parse_slurm_time(text: str) -> int:
    """Nanoseconds of a Slurm time such as `90`, `1:30`, `2-12`; UNLIMITED (-1) for the words.

    Raises InputError when the text is none of the six forms.
    """
    word = text.strip()
    if word.upper() in ("UNLIMITED", "INFINITE", "-1"):
        return UNLIMITED
    found = _SLURM.match(word) if len(word) <= MAX_TEXT else None
    if not found:
        raise InputError(f"not a Slurm time: {text!r}", hint="forms: MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS")
    a, b, c = (int(found[k]) if found[k] is not None else None for k in "abc")
    assert a is not None
    if found["days"] is not None:
        return int(found["days"]) * DAY + a * HOUR + (b or 0) * MINUTE + (c or 0) * SECOND
    if c is not None:
        return a * HOUR + (b or 0) * MINUTE + c * SECOND
    if b is not None:
        return a * MINUTE + b * SECOND
    return a * MINUTE


def format_slurm_time(ns: int) -> str:
    """`[D-]HH:MM:SS` as squeue and sacct print it; fractions of a second are cut."""
    if ns < 0:
        return "UNLIMITED"
    seconds = ns // SECOND
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def parse_duration(text: str) -> int:
    """Nanoseconds of a duration with units, such as `90s`, `1h30m`, `1.5s`, `2d`, `250ms`.

    Go's form (metav1.Duration) and, beyond it, `d` for 24 hours. Raises InputError otherwise.
    """
    word = text.strip()
    sign, body = (-1, word[1:]) if word.startswith("-") else (1, word)
    if body == "0":
        return 0
    total, end = 0, 0
    for part in _GO_PART.finditer(body[: MAX_TEXT + 1]):
        if part.start() != end:
            break
        end = part.end()
        unit = _GO_UNITS[part[3]]
        total += int(part[1]) * unit
        if part[2]:
            total += int(part[2]) * unit // 10 ** len(part[2])
    if end != len(body) or not body or len(word) > MAX_TEXT:
        raise InputError(f"not a duration: {text!r}", hint="write a number with a unit: 90s, 1h30m, 250ms, 2d")
    return sign * total


def format_duration(ns: int) -> str:
    """The shortest exact text with units, e.g. `1h30m`, `2.5s`; the inverse of parse_duration."""
    if ns == 0:
        return "0s"
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    parts: list[str] = []
    for unit, size in (("d", DAY), ("h", HOUR), ("m", MINUTE)):
        count, ns = divmod(ns, size)
        if count:
            parts.append(f"{count}{unit}")
    if ns:
        whole, part = divmod(ns, SECOND)
        if not part:
            parts.append(f"{whole}s")
        elif whole or part % US:
            parts.append(f"{whole}.{part:09d}".rstrip("0") + "s")
        else:
            parts.append(f"{part // MS}ms" if part % MS == 0 else f"{part // US}us")
    return sign + "".join(parts)


def seconds(ns: int) -> float:
    """Nanoseconds as seconds: for display and statistics only, never for simulation."""
    return ns / SECOND
