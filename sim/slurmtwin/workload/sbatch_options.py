"""sbatch options as text into the fields of JobRequest (man sbatch 22.05), for event traces and SubmitLine.

Options that cannot change scheduling (output files, mail, names of shells) are passed over; one that
would and has no field in JobRequest is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final

from slurmtwin.contract.clock import parse_slurm_time
from slurmtwin.contract.errors import InputError, UnsupportedError
from slurmtwin.contract.quantity import parse_slurm_mib

MAX_NUMBER: Final = 10**9
SHORT: Final = {
    "A": "account", "b": "begin", "c": "cpus-per-task", "C": "constraint", "d": "dependency", "D": "chdir",
    "e": "error", "F": "nodefile", "G": "gpus", "H": "hold", "i": "input", "J": "job-name", "k": "no-kill",
    "L": "licenses", "M": "clusters", "N": "nodes", "n": "ntasks", "o": "output", "O": "overcommit",
    "p": "partition", "q": "qos", "Q": "quiet", "s": "oversubscribe", "S": "core-spec", "t": "time",
    "v": "verbose", "w": "nodelist", "W": "wait", "x": "exclude", "a": "array",
}  # fmt: skip
FLAGS: Final = (
    "hold", "no-kill", "oversubscribe", "contiguous", "spread-job", "requeue", "no-requeue", "quiet", "verbose", "wait",
    "parsable", "overcommit", "ignore-pbs", "use-min-nodes", "test-only", "reboot",
)  # fmt: skip
OPTIONAL: Final = ("exclusive", "nice", "parsable", "get-user-env", "propagate", "export-file", "no-kill")
"""Options whose value is given only with `=`."""
HARMLESS: Final = (
    "acctg-freq", "chdir", "comment", "cpu-freq", "error", "export", "export-file", "extra", "get-user-env", "gid",
    "input", "ignore-pbs", "mail-type", "mail-user", "open-mode", "output", "parsable", "profile", "propagate", "quiet",
    "verbose", "wait", "wait-all-nodes", "wckey", "wrap", "tmp", "container", "container-id", "bcast", "distribution",
    "mem-bind", "hint", "sockets-per-node", "cores-per-socket", "kill-on-invalid-dep", "power", "priority", "network",
)  # fmt: skip
CHANGES: Final = (
    "burst-buffer", "bb", "bbf", "clusters", "cluster-constraint", "core-spec", "thread-spec", "deadline", "delay-boot",
    "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "cpus-per-gpu", "mem-per-gpu", "gres-flags",
    "mcs-label", "nodefile", "ntasks-per-gpu", "ntasks-per-core", "ntasks-per-socket", "overcommit", "prefer", "reboot",
    "switches-wait", "test-only", "tres-per-task", "tres-per-node", "use-min-nodes", "segment", "stepmgr",
)  # fmt: skip


def whole(text: str, low: int = 0) -> int:
    """A plain integer from `low` to 10^9. Raises InputError."""
    word = text.strip()
    if not word.isascii() or not word.isdigit() or len(word) > 12 or not low <= int(word) <= MAX_NUMBER:
        raise InputError(f"not a number from {low}: {text[:40]!r}")
    return int(word)


def node_counts(text: str) -> tuple[int, int]:
    """`N`, `MIN-MAX`, with suffix k: (least, most). Raises InputError."""
    parts = text.strip().split("-")
    if len(parts) > 2:
        raise InputError(f"not a node count: {text[:40]!r}", hint="N or MIN-MAX")
    sizes = [whole(p[:-1], 1) * 1024 if p[-1:] in ("k", "K") else whole(p, 1) for p in parts]
    if sizes[-1] < sizes[0]:
        raise InputError(f"not a node count: {text[:40]!r}", hint="MIN is not above MAX")
    return sizes[0], sizes[-1]


def mib(text: str) -> int:
    """A Slurm memory amount below 2^50 MiB. Raises InputError."""
    if len(text) > 30 or (amount := parse_slurm_mib(text)) > 2**50:
        raise InputError(f"not a memory size: {text[:40]!r}")
    return amount


def _nodes(text: str) -> dict[str, Any]:
    low, high = node_counts(text)
    return {"nodes_min": low, "nodes_max": high}


def _exclusive(text: str) -> dict[str, Any]:
    word = text.strip().lower()
    if word not in ("", "user", "mcs", "topo", "exclusive", "ok"):
        raise InputError(f"--exclusive={text[:20]}", hint="user or mcs")
    if word == "topo":
        raise UnsupportedError("--exclusive=topo is not modelled")
    return {"exclusive": word if word in ("user", "mcs") else "node"}


def _nice(text: str) -> dict[str, Any]:
    word = text.strip()
    return {"nice": -whole(word[1:]) if word.startswith("-") else whole(word) if word else 100}


def _gres(text: str) -> dict[str, Any]:
    return {"gres": "" if text.strip().upper() == "NONE" else text.strip()}


_READ: Final[dict[str, Callable[[str], dict[str, Any]]]] = {
    "account": lambda t: {"account": t.lower()},
    "array": lambda t: {"array": t},
    "constraint": lambda t: {"constraint": t},
    "contiguous": lambda _: {"contiguous": True},
    "cpus-per-task": lambda t: {"cpus_per_task": whole(t, 1)},
    "dependency": lambda t: {"dependency": t},
    "exclude": lambda t: {"exclude": t},
    "exclusive": _exclusive,
    "gres": _gres,
    "hold": lambda _: {"hold": True},
    "job-name": lambda t: {"name": t},
    "licenses": lambda t: {"licenses": t},
    "mem": lambda t: {"mem_per_node_mib": mib(t)},
    "mem-per-cpu": lambda t: {"mem_per_cpu_mib": mib(t)},
    "mincpus": lambda _: {},
    "nice": _nice,
    "no-kill": lambda t: {"no_kill": t.strip().lower() != "off"},
    "no-requeue": lambda _: {"requeue": False},
    "nodelist": lambda t: {"nodelist": t},
    "nodes": _nodes,
    "ntasks": lambda t: {"ntasks": whole(t, 1)},
    "ntasks-per-node": lambda t: {"ntasks_per_node": whole(t, 1)},
    "oversubscribe": lambda _: {"oversubscribe": True},
    "partition": lambda t: {"partition": t},
    "qos": lambda t: {"qos": t.lower()},
    "requeue": lambda _: {"requeue": True},
    "reservation": lambda t: {"reservation": t},
    "signal": lambda t: {"signal": t},
    "spread-job": lambda _: {"spread": True},
    "switches": lambda t: {"switches": t},
    "threads-per-core": lambda t: {"threads_per_core": whole(t, 1)},
    "time": lambda t: {"limit_ns": slurm_time(t)},
    "time-min": lambda t: {"time_min_ns": slurm_time(t)},
    "uid": lambda t: {"user": t},
}


def slurm_time(text: str) -> int:
    """clock.parse_slurm_time for text of bounded length. Raises InputError."""
    if len(text) > 30:
        raise InputError(f"not a Slurm time: {text[:40]!r}")
    return parse_slurm_time(text)


def begin_after(text: str) -> int:
    """`now+SECONDS`, `now+10minutes`: nanoseconds after the submission. Raises InputError for other forms."""
    word = text.strip().lower().removeprefix("now")
    units = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
    digits = word.lstrip("+")
    count = digits.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = digits[len(count) :].removesuffix("s") or "second"
    if not word:
        return 0
    if not word.startswith("+") or unit not in units:
        raise InputError(f"--begin={text[:30]} is not relative", hint="now+SECONDS, now+2hours")
    return whole(count) * units[unit] * 1_000_000_000


def split_options(words: list[str]) -> list[tuple[str, str]]:
    """(long name, value) of the options before the script; a word that is no option ends them."""
    out: list[tuple[str, str]] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        at += 1
        if word.startswith("--"):
            name, equal, value = word[2:].partition("=")
        else:
            name, equal, value = SHORT.get(word[1], ""), word[2:], word[2:].removeprefix("=")
            if not name:
                raise InputError(f"unknown sbatch option {word[:20]!r}")
        if not equal and name not in FLAGS and name not in OPTIONAL:
            if at >= len(words):
                raise InputError(f"--{name} has no value")
            value = words[at]
            at += 1
        out.append((name, value))
    return out


def option_fields(name: str, value: str) -> dict[str, Any]:
    """The JobRequest fields that one option sets. Raises InputError, or UnsupportedError when it has none."""
    if name in _READ:
        try:
            return _READ[name](value)
        except InputError as error:
            raise type(error)(f"--{name}: {error.message}", error.where, error.hint) from error
    if name in HARMLESS:
        return {}
    if name in CHANGES:
        raise UnsupportedError(f"--{name} is not modelled")
    close = get_close_matches(name, [*_READ, *HARMLESS, *CHANGES], n=1)
    raise InputError(f"unknown sbatch option --{name[:30]}", hint=f"did you mean --{close[0]}?" if close else "")
