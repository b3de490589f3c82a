"""The dispatcher beside several clusters: a process of its own on this host, its door to each, and what it noted.

It is reference_impl's (slurmtwin_operator.shell.job_dispatcher), started as a program: the harness knows its file and
its notes alone.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import EnvironmentMissingError, UnsupportedError
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.jobs import JobRequest, to_dict
from slurmtwin.contract.scenario import Dispatch
from slurmtwin_e2e.collect.run_events import detail
from slurmtwin_e2e.kind.collect.evidence import read_lines
from slurmtwin_e2e.kind.faults.network import DOOR
from slurmtwin_e2e.kind.manifests.slurm_files import REST_PORT

MODULE: Final = "slurmtwin_operator.shell.job_dispatcher"
USER: Final = "researcher"
ACTOR: Final = "dispatcher"
UP_LIMIT_S: Final = 30.0
END_LIMIT_S: Final = 15.0
FIRST: Final = ["nice", "-n", "-10"]
"""Where it is allowed: a host busy with clusters made requests up to 1.3 s late (a first trial of x83-cluster-lost)."""
MINUTE_NS: Final = 60 * SECOND
FOREVER_S: Final = 10_000_000
SAID: Final = {"job_id", "submit_ns", "run_ns", "limit_ns", "ntasks", "exit_code"}
"""What the dispatcher can say of a job."""
Line = dict[str, Any]


def door_object(namespace: str) -> dict[str, Any]:
    """The Service by which this host reaches slurmrestd: a port of the control plane."""
    return {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": DOOR, "namespace": namespace},
        "spec": {"type": "NodePort", "selector": {"app": "slurmrestd"}, "ports": [{"port": REST_PORT}]},
    }  # fmt: skip


def dispatched_jobs(jobs: Sequence[JobRequest]) -> list[dict[str, Any]]:
    """The jobs in the words of the dispatcher's file. Raises UnsupportedError for what it cannot ask for."""
    out = []
    for job in jobs:
        unsaid = sorted(set(to_dict(job)) - SAID)
        if unsaid:
            raise UnsupportedError(f"job {job.job_id}: the dispatcher does not say {', '.join(unsaid)}")
        seconds = str(FOREVER_S) if job.run_ns is None else f"{job.run_ns / SECOND:.3f}"
        out.append(
            {"number": job.job_id, "at_ns": job.submit_ns, "cpus": job.ntasks or 1,
             "limit_min": max(1, (job.limit_ns or 60 * MINUTE_NS) // MINUTE_NS),
             "script": f"#!/bin/bash\nexec bash /opt/slurmtwin/job {job.job_id} {seconds} {job.exit_code}\n"}
        )  # fmt: skip
    return out


class DispatcherProcess:
    """The process, from start() to stop(), in a folder of its own; `doors` are (name, address, JWT key)."""

    def __init__(self, folder: Path, spec: Dispatch, version: str, jobs: Sequence[JobRequest]) -> None:
        self._folder, self._spec, self._version = folder, spec, version
        self._jobs = dispatched_jobs(jobs)
        self._child: subprocess.Popen[bytes] | None = None

    def start(self, zero_ns: int, doors: Sequence[tuple[str, tuple[str, int], bytes]]) -> None:
        """Start it before time zero. Raises EnvironmentMissingError when it does not come up."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        clusters = []
        for name, (host, port), key in doors:
            path = self._folder / f"{name}.key"
            path.touch(0o600)
            path.write_bytes(key)
            clusters.append(
                {"name": name, "url": f"http://{host}:{port}", "key": str(path), "version": self._version,
                 "partition": name}
            )  # fmt: skip
        document = {
            "zero_ns": zero_ns, "staleness_ns": self._spec.staleness, "lost_after_ns": self._spec.lost_after,
            "patience_ns": self._spec.patience, "remembers": self._spec.remembers, "user": USER,
            "clusters": clusters, "jobs": self._jobs,
        }  # fmt: skip
        (self._folder / "dispatcher.json").write_text(json.dumps(document))
        bound = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        bound += FIRST if shutil.which(FIRST[0]) else []
        with (self._folder / "output").open("wb") as output:
            self._child = subprocess.Popen(
                [*bound, sys.executable, "-m", MODULE, str(self._folder)], stdout=output, stderr=subprocess.STDOUT
            )
        limit = time.monotonic() + UP_LIMIT_S
        while not self.notes():
            if self._child.poll() is not None or time.monotonic() > limit or time.time_ns() > zero_ns:
                said = (self._folder / "output").read_text(errors="replace").strip()[-500:]
                self.stop()
                raise EnvironmentMissingError(f"the dispatcher did not come up: {said}")
            time.sleep(0.05)

    def notes(self) -> list[Line]:
        """Its lines so far."""
        return read_lines(self._folder / "notes.jsonl")

    @property
    def alive(self) -> bool:
        """It runs."""
        return self._child is not None and self._child.poll() is None

    def stop(self) -> None:
        """End it."""
        if self._child is None:
            return
        self._child.terminate()
        try:
            self._child.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        for path in self._folder.glob("*.key"):
            path.unlink()


def submit_lines(notes: Sequence[Line], cluster: str) -> list[Line]:
    """Its submits to one cluster in the form of the observer's notes; without an answer: once the copy was listed."""
    known: dict[int, int] = {}
    for line in notes:
        if line["what"] == "heard" and line["cluster"] == cluster and line["good"]:
            known |= {int(copy): slurm_id for copy, slurm_id in line["ours"].items()}
    out = []
    for line in notes:
        if line["what"] != "submit" or line["cluster"] != cluster:
            continue
        slurm_id = line["slurm_id"] or known.get(line["job"], 0)
        refused = line["outcome"] == "refused"
        if slurm_id or refused:
            out.append(
                {"what": "action", "action": {"do": "submit", "jobs": [line["job"]], "array": 0, "argv": []},
                 "before": line["before"], "after": line["after"], "code": 1 if refused else 0,
                 "out": str(slurm_id or ""), "err": line["error"]}
            )  # fmt: skip
    return out


def rows(notes: Sequence[Line], zero_ns: int) -> list[Event]:
    """What the dispatcher did and saw: whether a cluster answers, each time that changes; submits and cancels.

    An answer is known when it has come, and silence when the request was given up.
    """
    out: list[Event] = []
    answering: dict[str, bool] = {}
    for line in notes:
        what = line["what"]
        if what == "up":
            continue
        name, after = line["cluster"], line["after"] - zero_ns
        if what == "heard":
            if answering.get(name) is line["good"]:
                continue
            answering[name] = line["good"]
            kind = Kind.CLIENT_ANSWERED if line["good"] else Kind.CLIENT_REFUSED
            text = detail(asked="load", error=_plain(line.get("error", "")))
            out.append(Event(after, kind, ACTOR, detail=text, t_err_ns=SECOND // 1000, cluster=name))
        elif what == "lost":
            text = detail(do="give-up", object=name, outcome="done")
            out.append(Event(after, Kind.ACTION_ISSUED, ACTOR, detail=text, t_err_ns=SECOND // 1000, cluster=name))
        else:
            kind = Kind.ACTION_FAILED if line["error"] else Kind.ACTION_ISSUED
            text = detail(do=what, object=name, outcome=_plain(line["error"]) or "done")
            middle, half = (line["before"] + line["after"]) // 2 - zero_ns, (line["after"] - line["before"]) // 2 + 1
            out.append(Event(middle, kind, ACTOR, line["job"], detail=text, t_err_ns=half, cluster=name))
    return out


def _plain(text: str) -> str:
    """An error without addresses, which change from run to run."""
    return re.sub(r"\d+\.\d+\.\d+\.\d+(:\d+)?", "HOST", text)[:200]


def late_ms(notes: Sequence[Line], zero_ns: int, staleness_ns: int) -> float:
    """How late the latest request for a load was."""
    late = [(line["before"] - zero_ns) % staleness_ns for line in notes if line["what"] == "heard"]
    return max(late, default=0) / 1e6


def submitted(notes: Sequence[Line]) -> Mapping[int, str]:
    """Copy -> cluster that took it."""
    return {line["job"]: line["cluster"] for line in notes if line["what"] == "submit" and line["outcome"] == "taken"}
