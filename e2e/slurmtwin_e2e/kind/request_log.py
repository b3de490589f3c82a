"""What slurm-operator asks an API server for, and when, by that server's log of its requests.

`python -m slurmtwin_e2e.kind.request_log --cluster NAME --turn on` makes the server write one (klog verbosity 3, which
costs CPU: no run beside it is a recording), `--turn off` ends that; without either the log is read and spans of passes
are printed as JSON. `--log FILE` reads a copy of it.

A pass of a NodeSet asks for a ControllerRevision before all else, and ends with writes: the set's status, conditions of
pods, labels (nodeset_controller.go, nodeset_sync_status.go at f2ed3fc5). A status of the set brings a pass of the
operator's other controller, that of its Controller object: two Services and a StatefulSet are patched.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from slurmtwin_e2e.docker import docker
from slurmtwin_e2e.kind.attach import attach

AGENT: Final = "manager/"
"""slurm-operator's user agent begins so."""
LINE: Final = re.compile(r'^\S+ \S+ F I(\d{4} \d\d:\d\d:\d\d\.\d{6}) .*"HTTP" (?P<words>.*)$')
WORD: Final = re.compile(r'([\w-]+)="([^"]*)"')
LATENCY: Final = re.compile(r"^([\d.]+)(µs|ms|s)$")
UNITS_MS: Final = {"µs": 0.001, "ms": 1.0, "s": 1000.0}
FOLLOWS_MS: Final = 100.0
"""A pass that begins so soon behind a write is the next one."""
IDLE_MS: Final = (2000.0, 32000.0)
"""Two looks of a second each, and those with the pause of a pass behind which nothing is to be done."""
BESIDE_MS: Final = 150.0
"""A pass that wrote nothing takes less beside them; else it waited, or something woke the next."""
STATUS: Final = re.compile(r"/nodesets/[^/]+/status$")
CONDITIONS: Final = re.compile(r"/pods/[^/]+/status$")
POD: Final = re.compile(r"/pods/[^/]+$")


@dataclass(frozen=True, slots=True)
class Request:
    """One that was answered; times in ms of the log's clock."""

    begun_ms: float
    answered_ms: float
    verb: str
    path: str

    @property
    def took_ms(self) -> float:
        """From its arrival to its answer."""
        return self.answered_ms - self.begun_ms

    @property
    def namespace(self) -> str:
        """Where its object is; "" for those of the cluster."""
        found = re.search(r"/namespaces/([^/]+)/", self.path)
        return found[1] if found else ""


def requests(lines: Iterable[str], year: int) -> Iterator[Request]:
    """slurm-operator's, as the server logged them (httplog.go: a line stands where the answer was sent)."""
    for line in lines:
        found = LINE.match(line)
        words = dict(WORD.findall(found["words"])) if found else {}
        latency = LATENCY.match(words.get("latency", ""))
        if found and latency and words.get("userAgent", "").startswith(AGENT) and words["verb"] != "WATCH":
            stamp = datetime.strptime(f"{year}{found[1]}", "%Y%m%d %H:%M:%S.%f").replace(tzinfo=UTC)
            at_ms = stamp.timestamp() * 1000
            took_ms = float(latency[1]) * UNITS_MS[latency[2]]
            yield Request(at_ms - took_ms, at_ms, words["verb"], words["URI"].partition("?")[0])


def controller_passes(asked: Sequence[Request]) -> list[tuple[float, float]]:
    """Of its Controller object: from the first Service's patch to the answer to the StatefulSet's."""
    ends = [one for one in asked if one.verb == "PATCH" and one.path.endswith("/statefulsets/slurm-controller")]
    out = []
    for one in asked:
        if one.verb == "PATCH" and one.path.endswith("/services/slurm-controller-internal"):
            end = next((e for e in ends if e.namespace == one.namespace and e.begun_ms >= one.begun_ms), None)
            if end is not None:
                out.append((one.begun_ms, end.answered_ms))
    return out


def _ends_a_pass(one: Request) -> bool:
    """A status of the set, conditions of a pod, a label of one."""
    if one.verb == "PUT":
        return bool(STATUS.search(one.path))
    return one.verb == "PATCH" and bool(CONDITIONS.search(one.path) or POD.search(one.path))


def spans_ms(asked: Sequence[Request]) -> dict[str, list[float]]:
    """behind: from the answer to the last write of a pass to the request for the next one's revision; between: from
    the answer to a set's status to the conditions of a pod; revision_beside and _alone: what that request takes beside
    a pass of the Controller and else; controller: what such a pass takes; status and conditions: what such a write
    takes; idle: what a pass that wrote nothing takes beside its looks, and its pause."""
    asked = sorted(asked, key=lambda one: one.begun_ms)
    beside = controller_passes(asked)
    out: dict[str, list[float]] = {name: [] for name in ("behind", "between", "revision_beside", "revision_alone")}
    out["controller"] = [end - begin for begin, end in beside]
    out["status"] = [one.took_ms for one in asked if one.verb == "PUT" and STATUS.search(one.path)]
    out["conditions"] = [one.took_ms for one in asked if one.verb == "PATCH" and CONDITIONS.search(one.path)]
    out["idle"] = list(_idle(asked))
    last: dict[str, Request] = {}
    for one in asked:
        before = last.get(one.namespace)
        follows = before is not None and 0 <= one.begun_ms - before.answered_ms < FOLLOWS_MS
        if one.verb == "POST" and one.path.endswith("/controllerrevisions"):
            met = any(begin < one.answered_ms and one.begun_ms < end for begin, end in beside)
            out["revision_beside" if met else "revision_alone"].append(one.took_ms)
            if before is not None and follows and met:
                out["behind"].append(one.begun_ms - before.answered_ms)
        elif CONDITIONS.search(one.path) and before is not None and follows and STATUS.search(before.path):
            out["between"].append(one.begun_ms - before.answered_ms)
        if _ends_a_pass(one):
            last[one.namespace] = one
    return out


def _idle(asked: Sequence[Request]) -> Iterator[float]:
    begun: dict[str, float] = {}
    for one in asked:
        if one.verb == "POST" and one.path.endswith("/controllerrevisions"):
            took_ms = one.begun_ms - begun.get(one.namespace, one.begun_ms)
            yield from (took_ms - looks_ms for looks_ms in IDLE_MS if 0 <= took_ms - looks_ms < BESIDE_MS)
            begun[one.namespace] = one.begun_ms
        elif _ends_a_pass(one):
            begun.pop(one.namespace, None)


def summary(spans: dict[str, list[float]]) -> dict[str, Any]:
    """Count, quartiles and range of each span."""
    out: dict[str, Any] = {}
    for name, values in spans.items():
        some = sorted(values)
        places = [0, len(some) // 4, len(some) // 2, 3 * len(some) // 4, len(some) - 1] if some else []
        out[name] = {"count": len(some), "ms": [round(some[place], 1) for place in places]}
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Turn the log on or off, or print what it shows: count, and least, quartiles and most in ms. Exit 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--cluster", help="a running cluster of ours")
    where.add_argument("--log", type=Path, help="a copy of its API server's log")
    parser.add_argument("--turn", choices=("on", "off"))
    options = parser.parse_args(arguments)
    if options.turn and not options.cluster:
        parser.error("--turn wants a --cluster")
    if options.turn:
        level = "3" if options.turn == "on" else "0"
        attach(options.cluster).kubectl("replace", "--raw", "/debug/flags/v", "-f", "-", stdin=level)
        return 0
    text = options.log.read_text() if options.log else _read(attach(options.cluster).control_plane)
    found = summary(spans_ms(list(requests(text.splitlines(), datetime.now(UTC).year))))
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return 0


def _read(control_plane: str) -> str:
    return docker("exec", control_plane, "sh", "-c", "cat /var/log/pods/kube-system_kube-apiserver*/*/*.log").stdout


if __name__ == "__main__":
    sys.exit(main())
