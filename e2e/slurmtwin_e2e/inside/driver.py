"""Runs one plan against real Slurm, in simulated time: brings the cluster up, acts on time, collects.

Everything that this process does is noted in OUT_DIR/driver.jsonl, one JSON object a line, with the simulated time
before (`t`) and, for actions that take time, after (`done`), both in nanoseconds of the simulated clock.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
from typing import Any, TextIO

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from daemons import Daemons

SECOND = 1_000_000_000
JOBCOMP = pathlib.Path("/var/log/slurm_jobcomp.log")
_PLACEHOLDER = re.compile(r"\{(job|time|hours):(-?\d+)\}")


class Driver:
    """The state of one run: the clock's zero, the job numbers, the daemons."""

    def __init__(self, plan: dict[str, Any], out: pathlib.Path) -> None:
        self.plan = plan
        self.out = out
        self.factor = float(plan["factor"])
        self.log: TextIO = open(out / "driver.jsonl", "a")
        self.lock = threading.Lock()
        self.zero = 0
        self.slurm_ids: dict[int, int] = {}
        self.ended_at: dict[int, int] = {}
        self.daemons = Daemons(plan, out, self.note)
        self.lateness: list[int] = []

    def note(self, what: str, **detail: Any) -> None:
        """Write one line to driver.jsonl."""
        row = {"t": time.time_ns(), "what": what, **detail}
        with self.lock:
            self.log.write(json.dumps(row) + "\n")
            self.log.flush()

    def pause(self, real_s: float) -> None:
        """Sleep for a span of real time."""
        time.sleep(real_s * self.factor)

    # -- bringing the cluster up ---------------------------------------------------------------------------------

    def run(self, argv: list[str], user: str = "", real_limit: float = 120.0) -> subprocess.CompletedProcess[str]:
        """A Slurm command, as root or as a user; the time limit is in real seconds."""
        who: dict[str, Any] = {"user": user, "group": user, "extra_groups": []} if user else {}
        try:
            return subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd="/tmp",
                timeout=real_limit * self.factor, **who,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(argv, 124, "", "no answer in time")

    def until(self, argv: list[str], good: Any, what: str, real_limit: float = 180.0) -> str:
        """Repeat a command until good(stdout) or the limit of real seconds is over."""
        limit = time.time() + real_limit * self.factor
        while True:
            done = self.run(argv, real_limit=30)
            if done.returncode == 0 and good(done.stdout):
                return done.stdout
            if time.time() > limit:
                raise RuntimeError(f"{what}: {argv} still says {done.stdout.strip()!r} {done.stderr.strip()!r}")
            self.daemons.reap()
            if self.daemons.unexpected:
                raise RuntimeError(f"{what}: ended by themselves: {self.daemons.unexpected}")
            self.pause(0.2)

    def bring_up(self) -> None:
        """Start everything and wait until every node that is to answer is idle."""
        self.daemons.start("munged")
        self.until(["munge", "-n"], bool, "munged")
        if self.plan["accounting"]:
            self.daemons.start("slurmdbd")
            self.until(["sacctmgr", "-n", "list", "cluster"], lambda _: True, "slurmdbd")
            self._sacctmgr("before")
        for name in self.plan["controllers"]:
            self.daemons.start(f"slurmctld:{name}")
        self.until(["scontrol", "ping"], lambda text: "UP" in text, "slurmctld")
        if self.plan["accounting"]:
            self._sacctmgr("after")
        late = set(self.plan.get("late_nodes", []))
        nodes = [n for n in self.plan["nodes"] if n not in late]
        for name in nodes:
            self.daemons.start(f"slurmd:{name}")
            self.pause(self.plan.get("slurmd_gap_s", 0.02))
        ready = ("idle", "drained", "down", "future", "reserved", "maint")

        def all_ready(text: str) -> bool:
            states = [line.split() for line in text.splitlines()]
            here = {name for name, state in states if state in ready}
            return here >= set(nodes)

        self.until(["sinfo", "-h", "-N", "-o", "%N %T"], all_ready, "nodes")

    def _sacctmgr(self, when: str) -> None:
        for line in self.plan["sacctmgr"].get(when, []):
            done = self.run(["sh", "-c", f"sacctmgr -i {line}"])
            self.note("sacctmgr", line=line, returncode=done.returncode, stdout=done.stdout, stderr=done.stderr)

    # -- actions -------------------------------------------------------------------------------------------------

    def fill(self, text: str) -> str:
        """Put Slurm's job numbers and calendar times into an option."""

        def one(match: re.Match[str]) -> str:
            kind, number = match[1], int(match[2])
            if kind == "job":
                return str(self.slurm_ids.get(number, 999_999_999))
            stamp = time.gmtime((self.zero + number) // SECOND)
            return time.strftime("%Y-%m-%dT%H:%M:%S", stamp)

        return _PLACEHOLDER.sub(one, text)

    def act(self, action: dict[str, Any]) -> None:
        """Do one action of the plan and note it."""
        before = time.time_ns()
        do = action["do"]
        daemons = self.daemons
        result: dict[str, Any] = {}
        if do == "submit":
            result = self.submit(action)
        elif do == "salloc":
            result = self.salloc(action)
        elif do == "command":
            done = self.run([self.fill(a) for a in action["argv"]], action.get("user", ""))
            result = {"returncode": done.returncode, "stdout": done.stdout[-4000:], "stderr": done.stderr[-2000:]}
        elif do == "signal":
            daemons.signal(action["daemon"], action["signal"], action.get("whole_node", False))
        elif do == "start":
            daemons.start(action["daemon"], action.get("options"))
        elif do == "lose_state":
            daemons.lose_state()
        elif do == "snapshot":
            self.snapshot(action["name"])
        else:
            raise ValueError(f"no such action: {do}")
        self.note("action", before=before, action=action, **result)

    def submit(self, action: dict[str, Any]) -> dict[str, Any]:
        """sbatch; the answer's job number is kept for later dependencies and cancels."""
        done = self.run(["sbatch", "--parsable", *[self.fill(a) for a in action["argv"]]], action.get("user", ""))
        found = re.match(r"(\d+)", done.stdout)
        if found:
            for offset, number in enumerate(action["jobs"]):
                self.slurm_ids[number] = int(found[1]) + offset
        return {"slurm_id": int(found[1]) if found else None, "returncode": done.returncode, "stderr": done.stderr}

    def salloc(self, action: dict[str, Any]) -> dict[str, Any]:
        """salloc in the background: its job number is read from what it prints."""
        user = action.get("user", "")
        who: dict[str, Any] = {"user": user, "group": user, "extra_groups": []} if user else {}
        argv = ["salloc", *[self.fill(a) for a in action["argv"]]]
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/tmp",
            **who,
        )
        assert child.stderr is not None
        text = ""
        for line in child.stderr:
            text += line
            found = re.search(r"(?:Granted|Pending) job allocation (\d+)|allocation (\d+)", line)
            if found:
                slurm_id = int(found[1] or found[2])
                self.slurm_ids[action["jobs"][0]] = slurm_id
                threading.Thread(target=child.communicate, daemon=True).start()
                return {"slurm_id": slurm_id, "stderr": text}
        return {"slurm_id": None, "returncode": child.wait(), "stderr": text}

    def snapshot(self, name: str) -> None:
        """The full state of jobs, nodes, partitions and scheduler statistics as Slurm prints it."""
        for what in ("job", "node", "partition", "reservation"):
            done = self.run(["scontrol", "-a", "-d", "-o", "show", what])
            (self.out / f"snapshot.{name}.{what}.txt").write_text(done.stdout + done.stderr)
        done = self.run(["sdiag"])
        (self.out / f"snapshot.{name}.sdiag.txt").write_text(done.stdout + done.stderr)

    # -- user feedback: a job that is submitted when another one has ended ------------------------------------------

    def watch_ends(self) -> None:
        """Keep self.ended_at up to date from jobcomp's file."""
        by_slurm = {v: k for k, v in self.slurm_ids.items()}
        if not JOBCOMP.exists():
            return
        for line in JOBCOMP.read_text().splitlines():
            found = re.match(r"JobId=(\d+) ", line)
            if found and int(found[1]) in by_slurm:
                self.ended_at.setdefault(by_slurm[int(found[1])], time.time_ns())

    def ends(self) -> int:
        """How many runs of jobs have ended: lines of jobcomp's file."""
        return JOBCOMP.read_bytes().count(b"\n") if JOBCOMP.exists() else 0

    # -- the host's own lateness: how long after its time a sleeping process runs again -------------------------------

    def watch_host(self) -> None:
        """Sleep for half a simulated second again and again, and keep by how much each sleep was too long."""
        step = SECOND // 2
        while True:
            before = time.time_ns()
            time.sleep(step / SECOND)
            self.lateness.append(time.time_ns() - before - step)

    def note_lateness(self) -> None:
        """Median, 99th percentile and maximum of the host's lateness over the run."""
        late = sorted(self.lateness) or [0]
        median, high = late[len(late) // 2], late[min(len(late) - 1, len(late) * 99 // 100)]
        over = sum(1 for ns in late if ns > SECOND)
        self.note("lateness", samples=len(late), median_ns=median, p99_ns=high, max_ns=late[-1], over_1s=over)

    # -- the run -------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """All actions in order, then wait until no job is left or the time is up."""
        actions: list[dict[str, Any]] = sorted(
            (a for a in self.plan["actions"] if not a.get("after_job")), key=lambda a: int(a["t_ns"])
        )
        following = [a for a in self.plan["actions"] if a.get("after_job")]
        for action in actions:
            self._wait_until(self.zero + action["t_ns"], following)
            self.act(action)
        limit = self.zero + self.plan["max_ns"]
        ended, moved = -1, time.time_ns()
        while (left := min(limit, moved + self.plan["tail_ns"]) - time.time_ns()) > 0:
            count = self.ends()
            if count != ended:
                ended, moved = count, time.time_ns()
            self._wait_until(time.time_ns() + min(left, 15 * SECOND), following)
            self.daemons.reap()
            if following or time.time_ns() < self.zero + self.plan["min_ns"]:
                continue
            done = self.run(["squeue", "-h", "-a", "-t", "PD,R,S,CG,CF", "-o", "%i"], real_limit=30)
            if done.returncode == 0 and not done.stdout.strip():
                self.note("drained")
                return
        self.note("time.up")

    def _wait_until(self, moment: int, following: list[dict[str, Any]]) -> None:
        while True:
            if following:
                self.watch_ends()
                due = [
                    a for a in following if time.time_ns() >= self.ended_at.get(a["after_job"], 1 << 62) + a["think_ns"]
                ]
                for action in due:
                    following.remove(action)
                    self.act(action)
            left = moment - time.time_ns()
            if left <= 0:
                return
            time.sleep(min(left, SECOND if following else 30 * SECOND) / SECOND)
            self.daemons.reap()

    def collect(self) -> None:
        """Copy what the daemons wrote."""
        self.snapshot("end")
        if self.plan["accounting"]:
            fields = (
                "JobIDRaw,JobID,User,Account,Partition,QOS,Submit,Eligible,Start,End,"
                "State,ExitCode,NodeList,AllocCPUS,Flags,Reason"
            )
            done = self.run(["sacct", "-a", "-D", "-X", "-P", "-S", "2000-01-01", "-o", fields])
            (self.out / "sacct.txt").write_text(done.stdout + done.stderr)
        for path in (str(JOBCOMP), *self.plan.get("collect", [])):
            if os.path.exists(path):
                shutil.copy(path, self.out)


def main() -> None:
    """Run the plan; exit 0 when it was run to its end."""
    plan = json.loads(pathlib.Path(sys.argv[1], "plan.json").read_text())
    out = pathlib.Path(sys.argv[2])
    driver = Driver(plan, out)
    driver.note(
        "driver.started",
        real_start=float(os.environ["REAL_START"]),
        factor=plan["factor"],
        real_time=os.sched_getscheduler(0) == os.SCHED_RR,
    )
    try:
        driver.bring_up()
        driver.zero = (time.time_ns() // SECOND + plan["settle_s"]) * SECOND
        driver.note("zero", zero=driver.zero)
        threading.Thread(target=driver.watch_host, daemon=True).start()
        driver.play()
        driver.note_lateness()
        driver.collect()
        driver.note("finished")
    except Exception as error:
        driver.note("failed", error=repr(error))
        raise
    finally:
        driver.daemons.stop_all()


if __name__ == "__main__":
    main()
