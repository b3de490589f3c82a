"""The user and the onlooker of a run, in a pod of its own: submits the plan's jobs and notes what Slurm answers.

Standard library alone; Python 3.11 and later. usage: observer.py EVIDENCE_FOLDER
Reads EVIDENCE/plan.json when it appears (zero_ns is unix time), appends one JSON object per line to
EVIDENCE/observer.jsonl; every line has `before` and `after`: unix ns round the request that it tells of.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

POLL_S = 1.0
PROBE_S = 0.25
REQUEST_LIMIT_S = 5.0
PROBE_LIMIT_S = 1.0
SACCT_S = 2.0
SACCT_LIMIT_S = 8.0
RESEARCHER = 1000


class Notes:
    """The output file: one write per line, from any thread."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("a", buffering=1)
        self._lock = threading.Lock()

    def add(self, what: str, before: int, after: int, **more: Any) -> None:
        line = json.dumps({"what": what, "before": before, "after": after, **more})
        with self._lock:
            self._stream.write(line + "\n")


def run_action(notes: Notes, action: dict[str, Any]) -> None:
    """Run one command of the plan, with the admin's token or the researcher's, and note its answer."""
    before = time.time_ns()
    token = Path("/secrets", "token" if action.get("admin") else "researcher-token").read_text().strip()
    done = subprocess.run(
        action["argv"], capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd="/tmp",
        env=os.environ | {"SLURM_JWT": token}, user=RESEARCHER, group=RESEARCHER,
    )  # fmt: skip
    notes.add(
        "action", before, time.time_ns(), action=action, code=done.returncode, out=done.stdout.strip()[:500],
        err=done.stderr.strip()[:500],
    )  # fmt: skip


def run_plan(notes: Notes, plan: dict[str, Any]) -> None:
    """Every action at its time, each in a thread: a command that hangs holds up no other."""
    for action in sorted(plan["actions"], key=lambda a: a["at_ns"]):
        wait = plan["zero_ns"] + action["at_ns"] - time.time_ns()
        if wait > 0:
            time.sleep(wait / 1e9)
        threading.Thread(target=run_action, args=(notes, action), daemon=True).start()


def get(host: str, port: int, path: str, headers: dict[str, str], limit_s: float) -> Any:
    """The JSON document at a path; raises OSError, ValueError or HTTPException."""
    connection = http.client.HTTPConnection(host, port, timeout=limit_s)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise OSError(f"HTTP {answer.status}")
    return json.loads(body)


def words(state: Any) -> str:
    """A state as newer versions list it (a list of flags) or as older ones do (one word, flags beside it)."""
    return "+".join(state) if isinstance(state, list) else str(state)


def node_states(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = {}
    for node in document.get("nodes", []):
        flags = node.get("state_flags") or []
        state = words(node["state"]) + "".join(f"+{flag}" for flag in flags)
        found[node["name"]] = {"state": state.upper(), "reason": node.get("reason", ""), "address": node.get("address")}
    return found


def number(value: Any) -> int:
    return int(value.get("number", 0)) if isinstance(value, dict) else int(value or 0)


def job_states(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = {}
    for job in document.get("jobs", []):
        found[str(job["job_id"])] = {
            "state": words(job["job_state"]), "reason": job.get("state_reason", ""), "nodes": job.get("nodes", ""),
            "start": number(job.get("start_time")), "end": number(job.get("end_time")),
            "restarts": number(job.get("restart_cnt")), "eligible": number(job.get("eligible_time")),
        }  # fmt: skip
    return found


class Poller:
    """Asks slurmrestd for nodes and jobs, and notes what changed between two answers."""

    def __init__(self, notes: Notes, settings: dict[str, Any]) -> None:
        self._notes = notes
        self._host, self._port, self._version = settings["rest_host"], settings["rest_port"], settings["rest_version"]
        self._last: dict[str, dict[str, Any]] = {"node": {}, "job": {}}
        self._asked: dict[str, int] = {}
        self._answering: dict[str, bool] = {}

    def run(self) -> None:
        while True:
            begun = time.monotonic()
            self._ask("node", "nodes", node_states)
            self._ask("job", "jobs", job_states)
            time.sleep(max(0.05, POLL_S - (time.monotonic() - begun)))

    def _ask(self, what: str, table: str, read: Any) -> None:
        headers = {"X-SLURM-USER-NAME": "slurm", "X-SLURM-USER-TOKEN": Path("/secrets/token").read_text().strip()}
        before = time.time_ns()
        try:
            document = get(self._host, self._port, f"/slurm/{self._version}/{table}", headers, REQUEST_LIMIT_S)
            errors = document.get("errors") or []
            if errors:
                raise OSError(str(errors[0].get("error") or errors[0].get("description") or errors[0])[:200])
            found = read(document)
        except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
            self._note_answer(table, False, before, str(error) or type(error).__name__)
            return
        after = time.time_ns()
        self._note_answer(table, True, before, "")
        since = self._asked.get(what, before)
        self._asked[what] = before
        last = self._last[what]
        for name, state in found.items():
            if last.get(name) != state:
                self._notes.add(what, since, after, name=name, **state)
        for name in last.keys() - found.keys():
            self._notes.add(what, since, after, name=name, state="GONE", reason="")
        self._last[what] = found

    def _note_answer(self, asked: str, good: bool, before: int, error: str) -> None:
        if self._answering.get(asked) is not good:
            self._answering[asked] = good
            self._notes.add("answer", before, time.time_ns(), asked=asked, good=good, error=error[:200])


def accounted(text: str) -> dict[str, dict[str, Any]]:
    """Rows of `sacct --parsable2 --noheader`, by job: state, start and end in unix seconds (0: none), nodes."""
    found = {}
    for line in text.splitlines():
        name, state, start, end, nodes, *more = line.split("|")
        found[name] = {
            "state": state.split(" ")[0], "start": int(start) if start.isdigit() else 0,
            "end": int(end) if end.isdigit() else 0, "nodes": "" if nodes.startswith("None") else nodes,
            "restarts": int(more[0]) if more and more[0].isdigit() else 0,
        }  # fmt: skip
    return found


class Accountant:
    """Asks sacct, and notes what changed between two answers."""

    def __init__(self, notes: Notes, fields: tuple[str, ...]) -> None:
        self._notes, self._fields = notes, fields
        self._last: dict[str, dict[str, Any]] = {}
        self._asked = time.time_ns()
        self._answering: bool | None = None

    def run(self) -> None:
        while True:
            self.ask()
            time.sleep(SACCT_S)

    def ask(self) -> None:
        command = ["sacct", "--allusers", "--allocations", "--parsable2", "--noheader", "--starttime=now-1days",
                   f"--format={','.join(self._fields)}"]  # fmt: skip
        env = os.environ | {"SLURM_JWT": Path("/secrets/token").read_text().strip(), "SLURM_TIME_FORMAT": "%s"}
        before = time.time_ns()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SACCT_LIMIT_S, env=env)
            error = done.stderr.strip()[:200] if done.returncode else ""
        except subprocess.TimeoutExpired:
            done, error = None, f"no answer in {SACCT_LIMIT_S:.0f} s"
        after = time.time_ns()
        if self._answering is not (not error):
            self._answering = not error
            self._notes.add("answer", self._asked, after, asked="sacct", good=not error, error=error)
        if error or done is None:
            return
        found = accounted(done.stdout)
        for name, row in found.items():
            if self._last.get(name) != row:
                self._notes.add("sacct", self._asked, after, name=name, **row)
        self._last, self._asked = found, before


class Prober:
    """Asks a daemon's port whether it lives: HTTP /livez where it is served, else a connection alone."""

    def __init__(self, notes: Notes, name: str, host: str, port: int, http_path: str) -> None:
        self._notes, self._name, self._host, self._port, self._path = notes, name, host, port, http_path
        self._good: bool | None = None
        self._since = time.time_ns()

    def _alive(self) -> str:
        try:
            if not self._path:
                socket.create_connection((self._host, self._port), timeout=PROBE_LIMIT_S).close()
                return ""
            connection = http.client.HTTPConnection(self._host, self._port, timeout=PROBE_LIMIT_S)
            try:
                connection.request("GET", self._path)
                status = connection.getresponse().status
            finally:
                connection.close()
            return "" if status < 400 else f"HTTP {status}"
        except (OSError, http.client.HTTPException) as error:
            return str(error) or type(error).__name__

    def run(self) -> None:
        while True:
            before = time.time_ns()
            error = self._alive()
            after = time.time_ns()
            good = not error
            if good is not self._good:
                self._notes.add("probe", self._since, after, asked=self._name, good=good, error=error[:200])
                self._good = good
            self._since = before
            time.sleep(PROBE_S)


def main() -> None:
    folder = Path(sys.argv[1])
    notes = Notes(folder / "observer.jsonl")
    settings = json.loads((folder / "observer.json").read_text())
    for probe in settings["probes"]:
        prober = Prober(notes, probe["name"], probe["host"], probe["port"], probe["path"])
        threading.Thread(target=prober.run, daemon=True).start()
    if settings.get("rest_host"):
        threading.Thread(target=Poller(notes, settings).run, daemon=True).start()
    if settings.get("accounting"):
        threading.Thread(target=Accountant(notes, tuple(settings["accounting"])).run, daemon=True).start()
    now = time.time_ns()
    notes.add("observing", now, now, pid=os.getpid())
    while not (folder / "plan.json").exists():
        time.sleep(0.1)
    run_plan(notes, json.loads((folder / "plan.json").read_text()))
    threading.Event().wait()


if __name__ == "__main__":
    main()
