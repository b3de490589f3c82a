"""Advance reservations: who may use which nodes when (slurmctld/reservation.c).

slurm.md 9 "Reservations". Whole nodes only: reservations of cores, GRES or licences are not modelled. The real
slurmctld looks every 5 s which reservations are active, sets node flags and stamps last_node_update; ended ones
are purged by the 30 s job scan. Here both looks are armed only while a reservation can change something.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.events import Kind
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.slurmctld.association_tree import Association
from slurmtwin.models.slurmctld.background import BackgroundLoop, Duty, Periodic
from slurmtwin.models.slurmctld.partition_limits import ROOT
from slurmtwin.models.slurmctld.states import NodeFlag, Reason
from slurmtwin.models.slurmctld.tables import INFINITE_S

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job

POLL_S: Final = 5
"""Spacing of set_node_maint_mode()."""
JOB_SCAN_S: Final = 30
_RETRIES: Final = 10
_NEVER_S: Final = 1 << 62
_REPEATS_S: Final = {"HOURLY": 3600, "DAILY": 86_400, "WEEKLY": 7 * 86_400}
_REPEATING: Final = (*_REPEATS_S, "WEEKDAY", "WEEKEND")
_ALIASES: Final = {
    "IGN_JOBS": "IGNORE_JOBS", "IGN_JOB": "IGNORE_JOBS", "NO_HOLD_JOBS": "NO_HOLD_JOBS_AFTER_END",
    "NO_HOLD_JOBS_AFTER": "NO_HOLD_JOBS_AFTER_END", "STATIC": "STATIC_ALLOC",
}  # fmt: skip


class ReservationError(StrEnum):
    """scontrol's and sbatch's words (common/slurm_errno.c)."""

    INVALID = "Requested reservation is invalid"
    ACCESS = "Access denied to requested reservation"
    BUSY = "Requested reservation is in use"
    OVERLAP = "Requested reservation overlaps with another reservation"
    EMPTY = "Reservation request lacks users, groups or accounts"
    DUPLICATE = "Duplicate reservation name"
    NODE_NAME = "Invalid node name specified"
    NODES_BUSY = "Requested nodes are busy"
    TIME_VALUE = "Invalid time value"
    NOT_SUPPORTED = "Function not implemented"


class Verdict(StrEnum):
    """What job_test_resv() finds besides nodes."""

    OKAY = "okay"
    LATER = "later"
    """The job's reservation has not begun (ESLURM_INVALID_TIME_VALUE)."""
    BUSY = "busy"
    """A node the job names is reserved for others (ESLURM_NODES_BUSY)."""
    MAINTENANCE = "maintenance"
    """All of the job's partition is under maintenance (ESLURM_RESERVATION_MAINT)."""
    REFUSED = "refused"
    """No access, or the reservation is over (ESLURM_RESERVATION_ACCESS, _INVALID)."""


@dataclass(frozen=True, slots=True)
class ReservationTest:
    """Outcome of Reservations.test()."""

    verdict: Verdict
    nodes: int
    """Bitmap the job may use as far as reservations go; 0 unless OKAY."""
    when_s: int
    """The start it holds for: later than asked for when the test could move it."""
    overlap: bool = False
    """Reservations of others cut nodes of its partition."""


@dataclass(slots=True, eq=False)
class Reservation:
    """One record."""

    name: str
    start_s: int
    end_s: int
    nodes: int
    users: tuple[str, ...]
    accounts: tuple[str, ...]
    flags: frozenset[str]
    purge_idle_s: int = 0
    """PURGE_COMP=time."""
    users_denied: bool = False
    accounts_denied: bool = False
    idle_s: int = 0
    """Since when no job uses it; 0: one does, or it has not begun."""
    active: bool = False
    """The poll has set its node flags."""
    begun: bool = False
    ended: bool = False

    def spans(self, now_s: int) -> tuple[int, int]:
        """(start, end) as seen now: a floating start moves along."""
        if "TIME_FLOAT" in self.flags:
            length = self.end_s - self.start_s
            return now_s + self.start_s, now_s + self.start_s + length
        return self.start_s, self.end_s

    @property
    def repeats(self) -> bool:
        """DAILY, WEEKLY and the like."""
        return any(f in self.flags for f in _REPEATING)


class ReservationBook:
    """parts.Reservations."""

    def __init__(self, slurmctld: Slurmctld) -> None:
        self._ctl = slurmctld
        self._list: dict[str, Reservation] = {}
        self._enforced = bool(slurmctld.conf.controller.accounting_enforce)
        self._old = slurmctld.conf.version == "22.05"
        self._poll: Periodic | None = None
        self._scan: Periodic | None = None
        self._poll_due_s = self._scan_due_s = _NEVER_S

    def start(self) -> None:
        """slurmctld begins to serve: the polls take their phase from the background loop."""
        background = self._ctl.background
        assert isinstance(background, BackgroundLoop)
        background.register(Duty.RESERVATIONS, self._look)
        self._poll = Periodic(background, self._ctl, POLL_S)
        self._scan = Periodic(background, self._ctl, JOB_SCAN_S)
        if self._list:
            self._arm()

    def records(self) -> Iterable[Reservation]:
        """All reservations, for the state volume."""
        return self._list.values()

    def load(self, records: Iterable[Reservation]) -> None:
        """load_all_resv_state(): what the volume held."""
        self._list = {r.name: r for r in records}

    def __len__(self) -> int:
        return len(self._list)

    # scontrol

    def create(
        self, name: str, start_s: int, duration_s: int, nodes: int,
        users: Sequence[str], accounts: Sequence[str], flags: frozenset[str],
    ) -> str | None:  # fmt: skip
        """scontrol create reservation; None, or why it was refused. duration_s 0: no end."""
        now_s = self._ctl.now_s()
        words, purge_s = _flags(flags)
        if name in self._list:
            return ReservationError.DUPLICATE
        if not users and not accounts:
            return ReservationError.EMPTY
        floating = "TIME_FLOAT" in words
        if not floating and start_s < now_s - 600 and "FORCE_START" not in words:
            return ReservationError.TIME_VALUE
        if floating and any(f in words for f in _REPEATING):
            return ReservationError.NOT_SUPPORTED
        if not nodes and "ANY_NODES" not in words:
            return ReservationError.NODE_NAME
        end_s = start_s + (duration_s or INFINITE_S)
        record = Reservation(
            name, start_s - now_s if floating else start_s, end_s - now_s if floating else end_s, nodes,
            tuple(u.removeprefix("-") for u in users), tuple(a.removeprefix("-") for a in accounts), words, purge_s,
            any(u.startswith("-") for u in users), any(a.startswith("-") for a in accounts),
        )  # fmt: skip
        if nodes == (1 << len(self._ctl.nodes)) - 1:
            record.flags |= {"ALL_NODES"}
        if self._overlaps(record, now_s):
            return ReservationError.OVERLAP
        if "IGNORE_JOBS" not in words and self._jobs_in_the_way(start_s, nodes):
            return ReservationError.NODES_BUSY
        self._list[name] = record
        self._changed()
        self._ctl.emit(
            Kind.RESERVATION_CREATED, node=self._ctl.nodes.hostlist(nodes) if nodes else None, value=start_s - now_s,
            unit="s", detail=detail_text(flags=sorted(words), name=name, seconds=duration_s),
        )  # fmt: skip
        self._arm()
        return None

    def _overlaps(self, new: Reservation, now_s: int) -> bool:
        """_resv_overlap(): none with MAINT or OVERLAP on either side."""
        if "MAINT" in new.flags or "OVERLAP" in new.flags:
            return False
        start, end = new.spans(now_s)
        for other in self._list.values():
            if "MAINT" in other.flags or "OVERLAP" in other.flags or not other.nodes & new.nodes:
                continue
            other_start, other_end = other.spans(now_s)
            if start < other_end and other_start < end:
                return True
        return False

    def _jobs_in_the_way(self, start_s: int, nodes: int) -> bool:
        """_job_overlap(): a running job on those nodes whose limit ends after the start."""
        return any(
            job.alloc is not None and job.alloc.nodes & nodes and job.end_s > start_s
            for job in self._ctl.running.values()
        )

    def delete(self, name: str) -> str | None:
        """scontrol delete reservation: refused while jobs run in it; waiting ones are held."""
        record = self._list.get(name)
        if record is None:
            return ReservationError.INVALID
        if any(name in _names(job) for job in self._ctl.running.values()):
            return ReservationError.BUSY
        self._remove(record)
        return None

    def _remove(self, record: Reservation) -> None:
        del self._list[record.name]
        if record.active:
            record.active = False
            self._flag_nodes()
        self._clear_jobs(record)
        self._changed()
        if not record.ended:
            record.ended = True
            self._ctl.emit(Kind.RESERVATION_ENDED, detail=detail_text(name=record.name))

    def _clear_jobs(self, record: Reservation) -> None:
        """_clear_job_resv(): jobs that asked for it lose it and are held, unless NO_HOLD_JOBS_AFTER_END."""
        for job in list(self._ctl.jobs.values()):
            if not job.reservation or record.name not in _names(job):
                continue
            job.reservation = ",".join(n for n in _names(job) if n != record.name)
            keep = "NO_HOLD_JOBS_AFTER_END" in record.flags
            if job.pending and not job.reservation and not keep and not job.held:
                self._ctl.lifecycle.hold(job, Reason.RESERVATION_DELETED)

    def _changed(self) -> None:
        ctl = self._ctl
        ctl.last_resv_update_s = ctl.now_s()
        ctl.store.changed(jobs=False)

    # what jobs ask

    def submit(self, job: Job) -> str | None:
        """validate_job_resv() inside the submit RPC: the refusal in sbatch's words, or None."""
        for name in _names(job):
            record = self._list.get(name)
            if record is None:
                return ReservationError.INVALID
            if not self._may_use(job, record):
                return ReservationError.ACCESS
            record.idle_s = 0
        return None

    def access(self, job: Job) -> str | None:
        """job_test_resv_now(): Reservation while none of those it names can be used now, else None."""
        names = _names(job)
        if not names:
            return None
        now_s = self._ctl.now_s()
        usable = any((record := self._list.get(n)) is not None and self._open_now(job, record, now_s) for n in names)
        return None if usable else Reason.RESERVATION

    def _open_now(self, job: Job, record: Reservation, now_s: int) -> bool:
        if not self._may_use(job, record):
            return False
        if "FLEX" in record.flags:
            return True
        if now_s < record.start_s or now_s > record.end_s:
            return False
        return bool(record.nodes) or "ANY_NODES" in record.flags

    def _may_use(self, job: Job, record: Reservation) -> bool:
        """_valid_job_access_resv(): by association where those are enforced, else by user and account name."""
        if "TIME_FLOAT" in record.flags:
            return False
        user = job.user or ROOT
        if user == ROOT:
            return True
        if self._enforced and isinstance(job.assoc, Association):
            accounts = [level.account for level in job.assoc.line]
        else:
            accounts = [job.account]
        user_fits = not record.users or (user in record.users) != record.users_denied
        account_fits = not record.accounts or any(a in record.accounts for a in accounts) != record.accounts_denied
        return user_fits and account_fits

    def magnetic(self, job: Job) -> tuple[str, ...]:
        """Reservations with MAGNETIC that draw a job which names none: a queue record for each (job_resv_append_magnetic)."""  # noqa: E501
        if not self._list or job.reservation:
            return ()
        return tuple(r.name for r in self._list.values() if "MAGNETIC" in r.flags and self._may_use(job, r))

    def end_s(self, job: Job) -> int | None:
        """First second at which the 30 s scan ends a running job with its reservation (ResvOverRun 0); FLEX: never."""
        for name in _names(job):
            record = self._list.get(name)
            if record is not None and "FLEX" not in record.flags:
                return record.end_s + 1
        return None

    def usable_nodes(self, job: Job, avail: int, start_s: int, end_s: int) -> int:
        """job_test_resv() without moving the start: `avail` as far as reservations leave it, 0 when refused."""
        if not self._list:
            return avail if not job.reservation else 0
        return avail & self.test(job, start_s, end_s - start_s, move=False).nodes

    def test(self, job: Job, when_s: int, length_s: int, move: bool) -> ReservationTest:
        """job_test_resv(): nodes the job may use from when_s for length_s. move: a later start may be returned."""
        if self._list:
            self._watch()
        if not job.reservation:
            return self._test_without(job, when_s, length_s, move)
        result = ReservationTest(Verdict.REFUSED, 0, when_s)
        for name in _names(job):
            record = self._list.get(name)
            if record is not None:
                result = self._test_inside(job, record, when_s, length_s)
                if result.verdict is Verdict.OKAY:
                    break
        return result

    def _test_inside(self, job: Job, record: Reservation, when_s: int, length_s: int) -> ReservationTest:
        if not self._may_use(job, record):
            return ReservationTest(Verdict.REFUSED, 0, when_s)
        now_s = self._ctl.now_s()
        everything = (1 << len(self._ctl.nodes)) - 1
        if "FLEX" in record.flags:
            nodes = everything
        else:
            if record.end_s <= now_s:
                self._advance(record)
            if when_s < record.start_s:
                return ReservationTest(Verdict.LATER, 0, record.start_s)
            if not record.nodes and "ANY_NODES" not in record.flags:
                return ReservationTest(Verdict.LATER, 0, now_s + 600)
            if when_s > record.end_s:
                if now_s > record.end_s and job.pending:
                    job.priority = 0
                return ReservationTest(Verdict.REFUSED, 0, record.end_s)
            nodes = everything if "ANY_NODES" in record.flags else record.nodes
            if self._required(job) & ~nodes:
                return ReservationTest(Verdict.REFUSED, 0, when_s)
        if not self._old and job.part is not None:
            nodes &= job.part.nodes
        overlap = False
        for other in self._list.values():
            if other is record or not other.nodes or "MAINT" in record.flags:
                continue
            if "OVERLAP" in record.flags and "MAINT" not in other.flags:
                continue
            start_s, end_s = other.spans(now_s)
            if start_s < when_s + length_s and end_s > when_s and nodes & other.nodes:
                overlap = True
                nodes &= ~other.nodes
        return ReservationTest(Verdict.OKAY, nodes, when_s, overlap)

    def _test_without(self, job: Job, when_s: int, length_s: int, move: bool) -> ReservationTest:
        everything = (1 << len(self._ctl.nodes)) - 1
        now_s = self._ctl.now_s()
        required = self._required(job)
        verdict = Verdict.OKAY
        nodes, overlap = everything, False
        for _ in range(_RETRIES + 1):
            verdict, nodes, overlap = Verdict.OKAY, everything, False
            for record in self._list.values():
                if "TIME_FLOAT" not in record.flags and record.end_s <= now_s:
                    self._advance(record)
                start_s, end_s = record.spans(now_s)
                if start_s >= when_s + length_s or end_s <= when_s or not record.nodes:
                    continue
                if self._whole_partition(job, record):
                    verdict = Verdict.MAINTENANCE
                elif required & record.nodes:
                    verdict = Verdict.BUSY
                if verdict is not Verdict.OKAY:
                    if move:
                        when_s = record.end_s
                    break
                nodes &= ~record.nodes
                overlap = overlap or job.part is None or bool(job.part.nodes & record.nodes)
            if verdict is Verdict.OKAY or not move:
                break
        return ReservationTest(verdict, nodes if verdict is Verdict.OKAY else 0, when_s, overlap)

    def _whole_partition(self, job: Job, record: Reservation) -> bool:
        """All of the job's partition is under maintenance."""
        if "ALL_NODES" in record.flags:
            return True
        return "MAINT" in record.flags and job.part is not None and not job.part.nodes & ~record.nodes

    def _required(self, job: Job) -> int:
        if not job.request.nodelist:
            return 0
        from slurmtwin.contract.hostlist import expand

        table = self._ctl.nodes
        return table.bitmap(n for n in expand(job.request.nodelist) if n in table.by_name)

    def next_change_s(self, after_s: int) -> int | None:
        """When a reservation next begins or ends after `after_s`."""
        now_s = self._ctl.now_s()
        times = [t for r in self._list.values() for t in r.spans(now_s) if t > after_s]
        return min(times, default=None)

    # the polls

    def _watch(self) -> None:
        """Somebody schedules: an active reservation's polls are seen."""
        if any(r.active for r in self._list.values()):
            self._arm()

    def _arm(self) -> None:
        """Have the next poll happen at which something changes, or the very next one while jobs wait."""
        if not self._list:
            return
        if self._poll is None or self._scan is None:
            self.start()
        assert self._poll is not None
        assert self._scan is not None
        now_s = self._ctl.now_s()
        waiting = any(job.pending for job in self._ctl.jobs.values())
        polls: list[int] = []
        scan = False
        for record in self._list.values():
            if "TIME_FLOAT" in record.flags:
                continue
            if record.active and waiting:
                polls.append(now_s)
            if not record.ended:
                polls.append(record.end_s if record.begun else record.start_s)
            scan = scan or record.ended or ("PURGE_COMP" in record.flags and record.begun)
        self._poll_due_s = self._poll.next_s(max(now_s, min(polls))) if polls else _NEVER_S
        self._scan_due_s = self._scan.next_s() if scan else _NEVER_S
        due_s = min(self._poll_due_s, self._scan_due_s)
        if due_s < _NEVER_S:
            self._ctl.background.arm(Duty.RESERVATIONS, due_s)

    def _look(self) -> None:
        now_s = self._ctl.now_s()
        if now_s >= self._poll_due_s:
            self._poll_now(now_s)
        if now_s >= self._scan_due_s:
            self._purge(now_s)
        self._arm()

    def _poll_now(self, now_s: int) -> None:
        """set_node_maint_mode()."""
        begun = 0
        flags_change = False
        active = False
        for record in self._list.values():
            if "TIME_FLOAT" in record.flags:
                continue
            inside = record.start_s <= now_s < record.end_s
            flags_change |= inside != record.active
            record.active = inside
            active |= inside
            if record.start_s <= now_s and not record.begun:
                record.begun = True
                begun += 1
            if record.end_s <= now_s and not record.ended:
                record.ended = True
                self._ctl.emit(Kind.RESERVATION_ENDED, detail=detail_text(name=record.name))
        if flags_change:
            self._flag_nodes()
        if active or flags_change:
            self._ctl.last_node_update_s = now_s
        if begun:
            self._ctl.schedulers.queue_pass()

    def _flag_nodes(self) -> None:
        """NODE_STATE_RES on nodes of active reservations, MAINT as well where the reservation says so."""
        reserved = maint = 0
        for record in self._list.values():
            if record.active:
                reserved |= record.nodes
                if "MAINT" in record.flags:
                    maint |= record.nodes
        for node in self._ctl.nodes.nodes:
            flags = node.flags & ~(NodeFlag.RES | NodeFlag.MAINT)
            if reserved >> node.index & 1:
                flags |= NodeFlag.RES
            if maint >> node.index & 1:
                flags |= NodeFlag.MAINT
            node.flags = flags

    def _purge(self, now_s: int) -> None:
        """job_resv_check(): repeated reservations move on, ended ones go once no job runs in them."""
        for record in list(self._list.values()):
            running = any(record.name in _names(j) for j in self._ctl.running.values())
            waiting = any(j.pending and record.name in _names(j) for j in self._ctl.jobs.values())
            if record.start_s <= now_s:
                record.idle_s = 0 if running or waiting else record.idle_s or now_s
            idle = record.idle_s and "PURGE_COMP" in record.flags and record.end_s > now_s
            if idle and record.purge_idle_s <= now_s - record.idle_s:
                record.idle_s = 0
                if record.repeats:
                    self._advance(record)
                else:
                    self._remove(record)
                continue
            if record.end_s >= now_s or not (record.begun and record.ended):
                continue
            if record.repeats:
                self._advance(record)
            elif not running or "FLEX" in record.flags:
                self._remove(record)

    def _advance(self, record: Reservation) -> None:
        """_advance_resv_time(): a repeated reservation moves to its next turn."""
        step_s = next((s for f, s in _REPEATS_S.items() if f in record.flags), 0)
        if not step_s:
            weekday = (self._ctl.now_s() // 86_400 + 4) % 7  # 1970-01-01 was a Thursday; Sunday is 0
            if "WEEKDAY" in record.flags:
                step_s = 86_400 * {5: 3, 6: 2}.get(weekday, 1)
            elif "WEEKEND" in record.flags:
                step_s = 86_400 * {0: 6, 6: 1}.get(weekday, 6 - weekday)
        if step_s:
            record.start_s += step_s
            record.end_s += step_s
            record.idle_s = 0
            record.begun = record.ended = False
            self._changed()


def _names(job: Job) -> list[str]:
    return [n for n in job.reservation.split(",") if n]


def _flags(flags: frozenset[str]) -> tuple[frozenset[str], int]:
    """(flags in capitals without time, PURGE_COMP's seconds)."""
    out: list[str] = []
    purge_s = 0
    for word in sorted(flags):
        name, _, value = word.upper().partition("=")
        if name == "PURGE_COMP" and value:
            parts = [int(p) for p in value.split(":")]
            purge_s = parts[0] * 60 if len(parts) == 1 else sum(p * 60**i for i, p in enumerate(reversed(parts)))
        out.append(_ALIASES.get(name, name))
    return frozenset(out), purge_s
