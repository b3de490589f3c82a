"""Slurm's daemons as child processes: start, signal, and wait for them, each stamped with simulated time."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

Note = Callable[..., None]


def _keeps_open(pid: str, path: str) -> bool:
    """Has the process this file open?"""
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        try:
            if os.readlink(f"{folder}/{name}") == path:
                return True
        except OSError:
            continue
    return False


def processes_of(node: str) -> list[int]:
    """Every process of one node: its slurmd, its slurmstepds, and all that they started.

    All nodes share one kernel here. A slurmstepd is a child of init and overwrites its environment with its title;
    what tells its node is the log file, which it shares with its slurmd.
    """
    parents: dict[int, int] = {}
    found: set[int] = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = pathlib.Path("/proc", entry, "stat").read_text()
            parents[int(entry)] = int(stat[stat.rindex(")") + 2 :].split()[1])
            if "(slurm" in stat and _keeps_open(entry, f"/out/slurmd.{node}.log"):
                found.add(int(entry))
        except OSError:
            continue
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return sorted(found)


class Daemons:
    """The daemons of one cluster by name: `slurmctld:HOST`, `slurmd:NODE`, `slurmdbd`, `munged`."""

    def __init__(self, plan: dict[str, Any], out: pathlib.Path, note: Note) -> None:
        self.plan = plan
        self.out = out
        self.note = note
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.wanted_dead: set[str] = set()
        self.unexpected: list[str] = []

    def _command(self, name: str) -> list[str]:
        kind, _, where = name.partition(":")
        extra = self.plan.get("daemon_options", {}).get(name, [])
        if kind == "slurmctld":
            command = ["slurmctld", "-D", *extra]
            if len(self.plan["controllers"]) > 1:
                own = {f"/out/{where}": "/var/log/slurmctld", f"/run/slurmctld.{where}": "/run/slurmctld"}
                script = [f"hostname {where}"]
                script += [f"mkdir -p {a} && mount --bind {a} {b}" for a, b in own.items()]
                script.append(f'exec {" ".join(command)} "$@"')
                command = ["unshare", "--uts", "--mount", "sh", "-c", " && ".join(script), "sh"]
            return command
        if kind == "slurmd":
            return ["slurmd", "-D", "-N", where, *extra]
        if kind == "slurmdbd":
            return ["slurmdbd", "-D", *extra]
        if kind == "munged":
            return ["setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged", "--foreground"]
        raise ValueError(f"no such daemon: {name}")

    def start(self, name: str, options: list[str] | None = None) -> None:
        """Start a daemon in the foreground as our child."""
        command = [*self._command(name), *(options or [])]
        safe = name.replace(":", ".")
        with open(self.out / f"{safe}.stderr", "ab") as log:
            self.children[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wanted_dead.discard(name)
        self.note("daemon.started", daemon=name, options=options or [])

    def reap(self) -> None:
        """Note daemons that ended, asked for or not."""
        for name, child in list(self.children.items()):
            code = child.poll()
            if code is not None:
                del self.children[name]
                if name not in self.wanted_dead:
                    self.unexpected.append(name)
                self.note("daemon.ended", daemon=name, returncode=code, asked=name in self.wanted_dead)

    def signal(self, name: str, number: int, whole_node: bool = False) -> None:
        """Send a signal; with whole_node also to every step and task of that node, as when its container dies."""
        fatal = number in (signal.SIGKILL, signal.SIGTERM)
        if fatal:
            self.wanted_dead.add(name)
        if whole_node:
            for pid in processes_of(name.partition(":")[2]):
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue
        elif name in self.children:
            self.children[name].send_signal(number)
        self.note("daemon.signaled", daemon=name, signal=number, whole_node=whole_node)
        if fatal and name in self.children:
            self._wait_end(name)

    def _wait_end(self, name: str, real_limit: float = 60.0) -> None:
        child = self.children[name]
        factor = float(self.plan["factor"])
        limit = time.time() + real_limit * factor
        while child.poll() is None and time.time() < limit:
            time.sleep(0.002 * factor)
        self.reap()

    def lose_state(self) -> None:
        """Empty StateSaveLocation, as when its volume is lost."""
        path = pathlib.Path(self.plan["state_dir"])
        for entry in path.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        self.note("state.lost", path=str(path))

    def stop_all(self) -> None:
        """SIGKILL whatever still runs: the run is over and recorded."""
        for name, child in self.children.items():
            self.wanted_dead.add(name)
            child.kill()
        for child in self.children.values():
            child.wait()
