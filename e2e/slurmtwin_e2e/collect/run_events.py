"""Builds the event table of a slurm run.

Times: facts of slurmctld's log have the log line's stamp (1 ms, and the host's delay times the factor); facts known
only from jobcomp have Slurm's whole second, stored as +0.5 s with an error of 0.5 s.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.clock import US
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.hostlist import compress, expand
from slurmtwin_e2e.collect.job_numbers import JobNumbers, answer_from_log, learn
from slurmtwin_e2e.collect.slurmctld_log import Fact, iso_ns
from slurmtwin_e2e.collect.sources import (
    Note,
    Record,
    ScriptLine,
    expand_cpus,
    read_facts,
    read_jobcomp,
    read_notes,
    read_scripts,
)

SECOND: Final = 1_000_000_000
MILLI: Final = 1_000_000
PING_ANSWER_NS: Final = 15 * SECOND
END_SEEN_NS: Final = SECOND + SECOND // 4
"""A log line about an end comes in the whole second that jobcomp names, or a little later."""
RECONFIGURE_NS: Final = 15 * SECOND
SIGTERM: Final = 15
SIGNAL_SEEN_NS: Final = 10 * SECOND
"""A daemon logs a signal so soon after it was sent, at any acceleration."""

STATES: Final = {"PREEMPTED": "PREEMPTED", "NODE_FAIL": "NODE_FAIL", "OUT_OF_MEMORY": "OUT_OF_MEMORY"}
ENDS: Final = {
    "done": 0, "timeout": 1, "kill_rpc": 2, "preempted_requeue": 3, "preempted_kill": 3, "node_fail_requeue": 3,
    "node_fail_kill": 3, "missing": 3, "requeue_by": 3, "requeue": 3, "invalid_depend": 4,
}  # fmt: skip
"""Facts of the log that may mark the end of a run."""


def log_error_ns(factor: float) -> int:
    """Half-width of a log stamp: half a millisecond of truncation, a quarter of a real one times the factor."""
    return int(MILLI * (0.5 + 0.25 * factor))


def detail(**values: Any) -> str | None:
    """The canonical JSON text, without empty values; None for nothing."""
    kept = {k: v for k, v in values.items() if v not in (None, "")}
    return json.dumps(kept, sort_keys=True, separators=(",", ":")) if kept else None


def rounded(event: Event) -> Event:
    """Times to microseconds: finer digits are noise, and cost space."""
    return event._replace(t_ns=round(event.t_ns / US) * US)


def hosts(text: str) -> str:
    """The canonical form of a node list."""
    return compress(expand(text))


class Builder:
    """One run's folder to one run's rows."""

    def __init__(
        self, folder: Path, plan: dict[str, Any], faults: list[dict[str, Any]], node_cpus: dict[str, int]
    ) -> None:
        self.notes: list[Note] = read_notes(folder)
        self.facts = read_facts(folder)
        self.records: list[Record] = read_jobcomp(folder)
        self.scripts: list[ScriptLine] = read_scripts(folder)
        self.plan = plan
        self.faults = faults
        self.node_cpus = node_cpus
        self.factor = float(plan["factor"])
        self.error = log_error_ns(self.factor)
        self.zero = next(int(n["zero"]) for n in self.notes if n["what"] == "zero")
        answer_from_log(self.notes, [fact for _, fact in self.facts])
        self.numbers = JobNumbers()
        learn(self.numbers, self.notes)
        self.rows: list[Event] = []
        self._layout: dict[tuple[int, int], ScriptLine] = {}
        self._serving: set[str] = set()
        self._reconfigures: list[int] = []
        self._starts: dict[tuple[int, int | None], list[int]] = {}

    def add(
        self, t_ns: int, kind: Kind, actor: str, error: int, *, job: tuple[int, int | None] | None = None,
        node: str | None = None, value: int | None = None, unit: str | None = None, **more: Any,
    ) -> None:  # fmt: skip
        """One row; t_ns is unix time of the simulated clock."""
        if job and job[1] is not None:
            more["array_task"] = job[1]
        number = job[0] if job else None
        self.rows.append(Event(t_ns - self.zero, kind, actor, number, node, value, unit, detail(**more), None, error))

    def build(self) -> list[Event]:
        """All rows, in time order."""
        for line in self.scripts:
            if line.array_id and line.task >= 0:
                self.numbers.task(0, line.slurm_id, line.array_id, line.task)
        for _, fact in self.facts:
            if "job" in fact.parts:
                self.numbers.resolve_text(fact.parts["job"], fact.t_ns)
        for line in self.scripts:
            if line.what == "start":
                self._layout[(line.slurm_id, line.restart)] = line
        self._driver_rows()
        self._log_rows()
        self._job_runs()
        self._script_rows()
        self.rows.sort(key=lambda e: e.t_ns)
        return self._within_budget()

    def _within_budget(self) -> list[Event]:
        """Without what Slurm did between the end of the budget and its daemons' end."""
        ended = next((e for e in self.rows if e.kind is Kind.RUN_ENDED), None)
        limit = self.plan.get("max_ns")
        if ended is None or limit is None or ended.t_ns <= limit:
            return self.rows
        kept = [e for e in self.rows if e.t_ns <= limit]
        return [*kept, ended._replace(t_ns=limit)]

    # -- what the harness did -------------------------------------------------------------------------------------

    def _driver_rows(self) -> None:
        add, slack = self.add, int(2 * MILLI * self.factor)
        names = {"slurmctld": "SLURMCTLD", "slurmd": "SLURMD", "slurmdbd": "SLURMDBD"}
        for note in self.notes:
            kind, _, where = str(note.get("daemon", "")).partition(":")
            if note["what"] == "daemon.started" and kind in ("slurmd", "slurmdbd"):
                add(note["t"], Kind[f"{names[kind]}_STARTED"], "harness", slack, node=where or None)
            elif (
                note["what"] == "daemon.signaled"
                and note["signal"] in (9, 15)
                and kind in names
                and note["t"] >= self.zero
            ):
                crashed = note["signal"] == 9 and kind != "slurmdbd"
                word = "CRASHED" if crashed else "STOPPED"
                add(
                    note["t"],
                    Kind[f"{names[kind]}_{word}"],
                    "harness",
                    slack,
                    node=where or None,
                    whole_node=note["whole_node"] or None,
                )
            elif note["what"] == "action":
                self._action_rows(note)
            elif note["what"] == "zero":
                add(self.zero, Kind.RUN_STARTED, "harness", 0, factor=self.factor, version=self.plan["version"])
            elif note["what"] in ("drained", "time.up"):
                add(
                    note["t"], Kind.RUN_ENDED, "harness", slack, why="done" if note["what"] == "drained" else "max_time"
                )

    def _action_rows(self, note: Note) -> None:
        action, before, after = note["action"], int(note["before"]), int(note["t"])
        middle, half = (before + after) // 2, (after - before) // 2 + MILLI
        if "fault" in action:
            fault = self.faults[action["fault"]]
            answer = note.get("returncode")
            text = (note.get("stderr") or "").strip()[:200] if answer else ""
            if fault["kind"] == "node.update" and not answer:
                middle, half = self._updated(fault["target"], before, after) or (middle, half)
            self.add(middle, Kind.FAULT_INJECTED, "fault", half, node=self._target(action), fault=fault, failed=text)
            if not answer:
                self._scontrol_rows(fault, middle, half)
        elif action["do"] in ("submit", "salloc") and not note.get("slurm_id"):
            reason = (note.get("stderr") or "").strip().splitlines()
            self.add(
                middle,
                Kind.JOB_REJECTED,
                "slurmctld",
                half,
                job=(action["jobs"][0], None),
                reason=reason[-1] if reason else "",
            )
        elif action["do"] == "command" and action["argv"][0] == "scancel":
            self.add(middle, Kind.FAULT_INJECTED, "user", half, fault={"argv": action["argv"]})

    def _updated(self, target: str, before: int, after: int) -> tuple[int, int] | None:
        """(time, error) of the nodes' update in slurmctld's log: scontrol may have looked for a name long before."""
        nodes = set(expand(target))
        logged = [
            fact.t_ns
            for _, fact in self.facts
            if fact.what == "update_node" and fact.parts["node"] in nodes and before - MILLI <= fact.t_ns <= after
        ]
        return (min(logged), self.error) if logged else None

    @staticmethod
    def _target(action: Note) -> str | None:
        name = str(action.get("daemon", "")).partition(":")
        return name[2] or None

    def _scontrol_rows(self, fault: dict[str, Any], middle: int, half: int) -> None:
        """State changes that slurmctld makes in the RPC itself, and logs under no common form."""
        kind = fault["kind"]
        if kind == "node.update":
            word = str(fault.get("state", "")).upper()
            event = {
                "DRAIN": Kind.NODE_DRAINED,
                "RESUME": Kind.NODE_RESUMED,
                "UNDRAIN": Kind.NODE_RESUMED,
                "DOWN": Kind.NODE_DOWN,
            }.get(word)
            if event:
                self.add(middle, event, "slurmctld", half, node=hosts(fault["target"]), reason=fault.get("reason"))
        elif kind in ("job.hold", "job.release", "job.suspend", "job.resume", "job.update"):
            verb = kind.split(".")[1]
            event = {
                "hold": Kind.JOB_HELD, "release": Kind.JOB_RELEASED, "suspend": Kind.JOB_SUSPENDED,
                "resume": Kind.JOB_RESUMED, "update": Kind.JOB_UPDATED,
            }[verb]  # fmt: skip
            self.add(middle, event, "slurmctld", half, job=(fault["job"], None), set=fault.get("set"))
        elif kind == "node.create":
            self.add(middle, Kind.NODE_CREATED, "slurmctld", half, node=fault["target"])
        elif kind == "node.delete":
            self.add(middle, Kind.NODE_DELETED, "slurmctld", half, node=fault["target"])
        elif kind == "reservation.create":
            self.add(middle, Kind.RESERVATION_CREATED, "slurmctld", half, name=fault["name"])
        elif kind == "slurmctld.reconfigure" and not self._new_process(middle - half):
            self.add(middle, Kind.SLURMCTLD_RECONFIGURED, "slurmctld", half)

    def _new_process(self, asked_ns: int) -> bool:
        """Did a new process begin to serve on `scontrol reconfigure`, as since 23.11? Before, the old one goes on."""
        self._reconfigures.append(asked_ns)
        return any(
            fact.what == "primary" and asked_ns <= fact.t_ns <= asked_ns + RECONFIGURE_NS for _, fact in self.facts
        )

    # -- what slurmctld logged ------------------------------------------------------------------------------------

    def _log_rows(self) -> None:
        planned: dict[tuple[int, int | None], tuple[str, str]] = {}
        begun: int | None = None
        silent = [(f.t_ns, set(expand(f.parts["nodes"]))) for _, f in self.facts if f.what == "not_responding"]
        for host, fact in self.facts:
            what, parts, t = fact.what, fact.parts, fact.t_ns
            job = self.numbers.resolve_text(parts["job"], t) if "job" in parts else None
            actor = "slurmctld"
            if what in ("submit", "submit_het") and job:
                self._submit_rows(fact, job[0])
            elif what == "salloc" and job:
                self.add(t, Kind.JOB_SUBMITTED, actor, self.error, job=job, slurm_id=parts["job"])
            elif what == "planned" and job:
                seen = (parts["start"], parts["nodes"])
                start = iso_ns(parts["start"])
                if planned.get(job) != seen and start is not None:
                    planned[job] = seen
                    self.add(
                        t,
                        Kind.JOB_PLANNED,
                        "backfill",
                        self.error,
                        job=job,
                        node=hosts(parts["nodes"]),
                        value=start - self.zero,
                        unit="ns",
                    )
            elif what == "main_pass":
                self.add(t, Kind.SCHED_MAIN_PASS, actor, self.error, depth=parts["depth"].split()[0])
            elif what == "bf_begin":
                begun = t
            elif what in ("bf_end", "bf_none") and begun is not None:
                tested = int(parts.get("tested", 0))
                self.add(
                    begun,
                    Kind.SCHED_BACKFILL_CYCLE,
                    "backfill",
                    self.error,
                    value=tested,
                    unit="job",
                    took_ns=t - begun,
                )
                begun = None
            elif what in ("ping", "registration"):
                self._ping_row(what, fact, silent)
            else:
                self._node_and_daemon_row(host, fact, job)

    def _submit_rows(self, fact: Fact, number: int) -> None:
        """One row, or one for each component of a heterogeneous job: the log names the leader alone."""
        prio = fact.parts.get("prio")
        known = self.numbers.components(int(fact.parts["job"]), fact.t_ns) if fact.what == "submit_het" else []
        for slurm_id, job in known or [(int(fact.parts["job"]), number)]:
            self.add(
                fact.t_ns, Kind.JOB_SUBMITTED, "slurmctld", self.error, job=(job, None), slurm_id=str(slurm_id),
                priority=int(prio) if prio else None,
            )  # fmt: skip

    def _ping_row(self, what: str, fact: Fact, silent: list[tuple[int, set[str]]]) -> None:
        asked = expand(fact.parts["nodes"])
        dead = {n for t, names in silent if fact.t_ns <= t <= fact.t_ns + PING_ANSWER_NS for n in names}
        for answered in (1, 0):
            names = [n for n in asked if (n not in dead) == bool(answered)]
            if names:
                purpose = "registration" if what == "registration" else "ping"
                self.add(
                    fact.t_ns,
                    Kind.NODE_PINGED,
                    "slurmctld",
                    self.error,
                    node=compress(names),
                    value=answered,
                    purpose=purpose,
                )

    def _node_and_daemon_row(self, host: str, fact: Fact, job: tuple[int, int | None] | None) -> None:
        what, parts, t, error = fact.what, fact.parts, fact.t_ns, self.error
        node = parts.get("node") or parts.get("node2")
        simple = {
            "responding": Kind.NODE_RESPONDING, "returned": Kind.NODE_UP, "drain": Kind.NODE_DRAINED,
            "inval": Kind.NODE_INVALID, "power_down": Kind.NODE_POWERING_DOWN,
        }  # fmt: skip
        if what == "registered":
            self.add(t, Kind.NODE_REGISTERED, "slurmctld", error, node=node, jobs=int(parts["jobs"]))
        elif what in simple and node:
            self.add(t, simple[what], "slurmctld", error, node=node, reason=parts.get("reason"))
        elif what == "not_responding":
            self.add(t, Kind.NODE_NOT_RESPONDING, "slurmctld", error, node=hosts(parts["nodes"]))
        elif what == "down":
            self.add(t, Kind.NODE_DOWN, "slurmctld", error, node=hosts(parts["nodes"]), reason="Not responding")
        elif what == "resume_timeout":
            self.add(t, Kind.NODE_DOWN, "slurmctld", error, node=node, reason="ResumeTimeout reached")
        elif what == "rebooted":
            self.add(t, Kind.NODE_DOWN, "slurmctld", error, node=node, reason="Node unexpectedly rebooted")
        elif what == "primary":
            self._serving.add(host)
            again = any(asked <= t <= asked + RECONFIGURE_NS for asked in self._reconfigures)
            kind = Kind.SLURMCTLD_RECONFIGURED if again else Kind.SLURMCTLD_STARTED
            self.add(t, kind, "slurmctld", error, node=host or None)
        elif what == "standby":
            self.add(t, Kind.SLURMCTLD_STANDBY, "slurmctld", error, node=host or None)
        elif what == "terminated" and host in self._serving and not self._told_to_stop(host, t):
            self._serving.discard(host)
            self.add(t, Kind.SLURMCTLD_STOPPED, "slurmctld", error, node=host or None, asked_by="rpc")
        elif what == "takeover":
            self.add(t, Kind.SLURMCTLD_TOOK_OVER, "slurmctld", error, node=parts["host"])
        elif what in ("preempted_requeue", "preempted_kill", "preempted_suspend", "grace") and job:
            by = self.numbers.resolve_text(parts["by"], t) if "by" in parts else None
            mode = {"grace": "grace", "preempted_kill": "cancel"}.get(what, what.removeprefix("preempted_"))
            self.add(t, Kind.JOB_PREEMPTED, "slurmctld", error, job=job, by_job=by[0] if by else None, mode=mode)
        elif what in ("held", "hold") and job:
            self.add(t, Kind.JOB_HELD, "slurmctld", error, job=job, reason=parts.get("reason", "held by user"))
        elif what == "node_removed" and job:
            self.add(t, Kind.JOB_SHRUNK, "slurmctld", error, job=job, node=node)
        elif what == "warn_signal" and job:
            self.add(t, Kind.JOB_SIGNALED, "slurmctld", error, job=job, signal=int(parts["signal"]))

    def _told_to_stop(self, host: str, t_ns: int) -> bool:
        """Is this the SIGTERM that the harness sent and noted itself? Else another controller asked for it by RPC."""
        return any(
            note["what"] == "daemon.signaled"
            and note["daemon"].startswith(f"slurmctld:{host}")
            and note["signal"] == SIGTERM
            and abs(note["t"] - t_ns) < SIGNAL_SEEN_NS
            for note in self.notes
        )

    # -- runs of jobs: starts from the log, ends from jobcomp, refined by the log --------------------------------------

    def _job_runs(self) -> None:
        ends: dict[tuple[int, int | None], list[Fact]] = {}
        for _, fact in self.facts:
            job = self.numbers.resolve_text(fact.parts["job"], fact.t_ns) if "job" in fact.parts else None
            if not job:
                continue
            if fact.what in ENDS:
                ends.setdefault(job, []).append(fact)
            elif fact.what in ("start_main", "start_backfill") or (
                fact.what == "salloc" and fact.parts["nodes"] not in ("(null)", "")
            ):
                self._starts.setdefault(job, []).append(fact.t_ns)
                self._start_row(fact, job)
        for record in self.records:
            self._end_row(record, ends)

    def _start_row(self, fact: Fact, job: tuple[int, int | None]) -> None:
        names = expand(fact.parts["nodes"])
        line = self._near_layout(fact, job)
        cpus = expand_cpus(line.cpus_per_node) if line else []
        known = int(fact.parts.get("cpus", 0)) or sum(cpus) or self._recorded_cpus(fact, job)
        equal = len(set(cpus)) <= 1
        whole = cpus == [self.node_cpus.get(n, -1) for n in names]
        uneven = cpus if cpus and not equal and not whole and len(cpus) == len(names) else None
        by = {"start_main": "main", "start_backfill": "backfill", "salloc": "salloc"}[fact.what]
        gpus = line.gpus if line and line.gpus != "-" else None
        self.add(
            fact.t_ns, Kind.JOB_STARTED, "backfill" if by == "backfill" else "slurmctld", self.error, job=job,
            node=compress(names), value=known or None, unit="cpu" if known else None, by=by,
            node_cpus=uneven, gpus=gpus,
        )  # fmt: skip

    def _near_layout(self, fact: Fact, job: tuple[int, int | None]) -> ScriptLine | None:
        """The script line of this very run: the first one of the job after the start."""
        best: ScriptLine | None = None
        for line in self._layout.values():
            after_ns = line.t_ns - fact.t_ns
            sooner = best is None or line.t_ns < best.t_ns
            if (
                line.nodes
                and sooner
                and 0 <= after_ns < 20 * SECOND
                and self.numbers.resolve(line.slurm_id, line.t_ns) == job
            ):
                best = line
        return best

    def _recorded_cpus(self, fact: Fact, job: tuple[int, int | None]) -> int:
        for record in self.records:
            near = record.start_ns is not None and abs(record.start_ns - fact.t_ns) <= 2 * SECOND
            if near and self.numbers.resolve(record.slurm_id, record.end_ns) == job:
                return record.cpus
        return 0

    def _end_row(self, record: Record, ends: dict[tuple[int, int | None], list[Fact]]) -> None:
        job = self.numbers.resolve(record.slurm_id, record.end_ns)
        if job is None or record.state == "RESIZING":
            return  # jobcomp also closes the part of a run before it lost a node; the run goes on
        near = [
            fact for fact in ends.get(job, ())
            if record.end_ns - SECOND // 50 <= fact.t_ns < record.end_ns + END_SEEN_NS
        ]  # fmt: skip
        best = max(near, key=lambda fact: ENDS[fact.what], default=None)
        state = STATES.get(record.state, record.state)
        if best is not None and best.what.startswith("preempted_"):
            state = "PREEMPTED"
        elif best is not None and best.what in ("node_fail_requeue", "node_fail_kill", "missing"):
            state = "NODE_FAIL"
        requeued = (
            record.state in ("REQUEUED", "PENDING")
            or any("requeue" in fact.what for fact in near)
            or self._runs_again(job, record)
        )
        t, error = (best.t_ns, self.error) if best else (record.end_ns + SECOND // 2, SECOND // 2)
        if record.start_ns is None:
            self.add(
                t,
                Kind.JOB_ENDED,
                "slurmctld",
                error,
                job=job,
                state=state,
                exit_code=record.exit_code,
                never_started=True,
            )
            return
        why = best.what if best else record.state
        self.add(
            t, Kind.JOB_ENDED, "slurmctld", error, job=job, node=hosts(record.nodes), state=state,
            exit_code=record.exit_code, requeued=True if requeued else None, why=why if why != "done" else None,
        )  # fmt: skip
        if requeued:
            self.add(t, Kind.JOB_REQUEUED, "slurmctld", error, job=job, reason=why)

    def _runs_again(self, job: tuple[int, int | None], record: Record) -> bool:
        """Does the log start the job once more after this end?"""
        return any(t_ns > record.end_ns + END_SEEN_NS for t_ns in self._starts.get(job, ()))

    def _script_rows(self) -> None:
        """A script that outlives its slurmctld may end when its number is another job's: who started it counts."""
        began: dict[tuple[int, int, int, str], tuple[int, int | None] | None] = {}
        for line in self.scripts:
            script = (line.slurm_id, line.task, line.restart, line.host)
            job = began.get(script) if line.what == "end" else None
            job = job or self.numbers.resolve(line.slurm_id, line.t_ns)
            if line.what == "start":
                began[script] = job
            if job:
                kind = Kind.SCRIPT_STARTED if line.what == "start" else Kind.SCRIPT_ENDED
                self.add(
                    line.t_ns,
                    kind,
                    "script",
                    int(MILLI * self.factor),
                    job=job,
                    node=line.host or None,
                    exit_code=line.code if line.what == "end" else None,
                )


def build_events(
    folder: Path, plan: dict[str, Any], faults: list[dict[str, Any]], node_cpus: dict[str, int]
) -> list[Event]:
    """The event table of the raw folder of one run."""
    return Builder(folder, plan, faults, node_cpus).build()
