"""The dispatcher as a process: `python -m slurmtwin_operator.shell.job_dispatcher FOLDER` carries core/job_dispatch.py.

FOLDER/dispatcher.json says which clusters, which jobs and when (DispatcherFile); FOLDER/notes.jsonl gets one line for
each request that was made and what came of it, with unix ns before and after. It ends by SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Protocol

from pydantic import BaseModel, ConfigDict

from slurmtwin.contract.errors import SlurmtwinError
from slurmtwin_operator.core.job_dispatch import (
    COPY,
    Heard,
    JobPlan,
    Order,
    Rules,
    Told,
    first_memory,
    plan_jobs,
)
from slurmtwin_operator.shell.slurm_rest import SlurmError, SlurmRest
from slurmtwin_operator.shell.slurm_view import number

SECOND: Final = 1_000_000_000
LIVE: Final = ("PENDING", "RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT")
NO_JOBS: Final = ("DOWN", "DRAIN", "NOT_RESPONDING", "FAIL", "UNKNOWN", "FUTURE")
"""Words of a node's state with which it takes none."""
NO_CONTROLLER: Final = "contact slurm controller"
"""In slurmrestd's words for a slurmctld that it does not reach: no refusal of the job."""
NAME: Final = "dispatched-"
"""Our jobs are found again by it and the copy's number."""


Wait = Callable[[asyncio.Event, float], Awaitable[None]]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ClusterPlace(_File):
    """One cluster: slurmrestd's address, the file of its JWT key, the partition that jobs are sent to."""

    name: str
    url: str
    key: Path
    version: str
    partition: str


class DispatchedJob(_File):
    """One job: when it comes to the dispatcher, what it asks for, and its script."""

    number: int
    at_ns: int
    cpus: int
    limit_min: int
    script: str


class DispatcherFile(_File):
    """FOLDER/dispatcher.json. Times in ns; loads are asked for at zero and every staleness after it."""

    zero_ns: int
    staleness_ns: int
    lost_after_ns: int
    patience_ns: int
    remembers: bool = False
    user: str
    """Whose jobs they are."""
    clusters: tuple[ClusterPlace, ...]
    jobs: tuple[DispatchedJob, ...]


class Cluster(Protocol):
    """What the dispatcher asks of a cluster. Each raises SlurmError."""

    async def load(self) -> tuple[int, int, dict[int, int]]:
        """(CPUs that take jobs, CPUs asked for by jobs that wait or run, our live copies -> Slurm's number)."""

    async def submit(self, job: DispatchedJob, copy_number: int) -> int:
        """Slurm's number of the new job."""

    async def cancel(self, slurm_id: int) -> None:
        """Cancel a job."""


class RestCluster:
    """A cluster by its slurmrestd: loads as SlurmUser, jobs as their user."""

    def __init__(self, place: ClusterPlace, user: str, limit_s: float) -> None:
        self._place = place
        key = place.key.read_bytes()
        self._rest = SlurmRest(place.url, place.version, key, limit_s)
        self._users = SlurmRest(place.url, place.version, key, limit_s, user=user)

    async def load(self) -> tuple[int, int, dict[int, int]]:
        """Of the nodes and jobs that it lists, asked for at once."""
        nodes, jobs = await asyncio.gather(self._rest.call("GET", "nodes/"), self._rest.call("GET", "jobs/"))
        return cpus_of(nodes), *load_of(jobs)

    async def submit(self, job: DispatchedJob, copy_number: int) -> int:
        """By the user's own token."""
        body = submit_body(job, copy_number, self._place.partition)
        answer = await self._users.call("POST", "job/submit", body)
        return number(answer.get("job_id") or (answer.get("result") or {}).get("job_id"))

    async def cancel(self, slurm_id: int) -> None:
        """By SlurmUser's."""
        await self._rest.call("DELETE", f"job/{slurm_id}")

    def close(self) -> None:
        """No more calls."""
        self._rest.close()
        self._users.close()


def submit_body(job: DispatchedJob, copy_number: int, partition: str) -> dict[str, Any]:
    """The body of job/submit."""
    asked: dict[str, Any] = {
        "name": f"{NAME}{copy_number}", "partition": partition, "tasks": job.cpus, "cpus_per_task": 1,
        "time_limit": {"set": True, "number": job.limit_min}, "environment": ["PATH=/usr/local/bin:/usr/bin:/bin"],
        "current_working_directory": "/tmp", "standard_output": "/dev/null",  # noqa: S108  of the job's node
        "standard_error": "/dev/null",
    }  # fmt: skip
    return {"job": asked, "script": job.script}


def cpus_of(nodes: dict[str, Any]) -> int:
    """CPUs of the nodes that take jobs."""
    total = 0
    for node in nodes.get("nodes", ()):
        words = node.get("state") or []
        words = words if isinstance(words, list) else str(words).split("+")
        if not set(words) & set(NO_JOBS):
            total += number(node.get("cpus"))
    return total


def load_of(jobs: dict[str, Any]) -> tuple[int, dict[int, int]]:
    """CPUs asked for by live jobs, and those of our copies that are live with Slurm's numbers."""
    load = 0
    ours: dict[int, int] = {}
    for job in jobs.get("jobs", ()):
        states = job.get("job_state") or []
        states = states if isinstance(states, list) else [str(states)]
        if not set(states) & set(LIVE):
            continue
        load += number(job.get("cpus"))
        name = str(job.get("name") or "")
        if name.startswith(NAME) and name.removeprefix(NAME).isdigit():
            ours[int(name.removeprefix(NAME))] = number(job["job_id"])
    return load, ours


class JobDispatcher:
    """The core on this host's clock: requests go out side by side, each answer leads to a pass."""

    def __init__(
        self, file: DispatcherFile, clusters: dict[str, Cluster], note: Callable[..., None],
        now_ns: Callable[[], int] = time.time_ns, wait: Wait | None = None,
    ) -> None:  # fmt: skip
        self._file, self._clusters, self._note, self._now_ns = file, clusters, note, now_ns
        self._wait = wait or _first
        names = tuple(place.name for place in file.clusters)
        self._rules = Rules(clusters=names, lost_after_ns=file.lost_after_ns, remembers=file.remembers)
        self._memory = first_memory(self._rules, file.zero_ns)
        self._jobs = {job.number: job for job in file.jobs}
        self._again_ns = -1
        self._tasks: set[asyncio.Task[None]] = set()
        self._error: BaseException | None = None
        self._slurm_ids: dict[tuple[str, int], int] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Ask, take in jobs at their times, look again when the core says so; until `stop`."""
        arrivals = sorted(self._file.jobs, key=lambda job: (job.at_ns, job.number))
        ask_ns = self._file.zero_ns
        while not stop.is_set():
            if self._error is not None:
                raise self._error
            now = self._now_ns()
            if now >= ask_ns:
                ask_ns += self._file.staleness_ns * ((now - ask_ns) // self._file.staleness_ns + 1)
                for name in self._clusters:
                    self._begin(self._ask(name))
            while arrivals and now >= self._file.zero_ns + arrivals[0].at_ns:
                job = arrivals.pop(0)
                self._pass(arrived=[Order(job.number, job.cpus)])
            if 0 <= self._again_ns <= now:
                self._pass()
            times = [ask_ns, *(self._file.zero_ns + job.at_ns for job in arrivals[:1])]
            times += [self._again_ns] if self._again_ns >= 0 else []
            await self._wait(stop, max(0.001, min(0.2, (min(times) - self._now_ns()) / SECOND)))
        for task in list(self._tasks):
            task.cancel()

    def _begin(self, what: Any) -> None:
        task = asyncio.get_running_loop().create_task(what)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """What is no word of slurmrestd's is a mistake of ours, and ends the process."""
        self._tasks.discard(task)
        if not task.cancelled():
            self._error = self._error or task.exception()

    def _pass(self, **seen: Any) -> JobPlan:
        plan = plan_jobs(self._rules, self._memory, self._now_ns(), **seen)
        self._memory = plan.memory
        self._again_ns = plan.again_ns if plan.again_ns > self._now_ns() else -1
        for name in plan.lost:
            self._note("lost", self._now_ns(), self._now_ns(), cluster=name)
        for name, copy_number in plan.cancels:
            self._begin(self._cancel(name, copy_number))
        for name, order in plan.submits:
            self._begin(self._submit(name, order.copy_number))
        return plan

    async def _ask(self, name: str) -> None:
        before = self._now_ns()
        try:
            cpus, load, ours = await self._clusters[name].load()
        except SlurmError as error:
            self._note("heard", before, self._now_ns(), cluster=name, good=False, error=str(error))
            self._pass(heard=[Heard(name, before)])
            return
        self._note("heard", before, self._now_ns(), cluster=name, good=True, cpus=cpus, load=load, ours=ours)
        self._slurm_ids.update({(name, copy_number): slurm_id for copy_number, slurm_id in ours.items()})
        self._pass(heard=[Heard(name, before, True, cpus, load, tuple(sorted(ours)))])

    async def _submit(self, name: str, copy_number: int) -> None:
        before = self._now_ns()
        slurm_id, error = 0, ""
        try:
            slurm_id = await self._clusters[name].submit(self._jobs[copy_number % COPY], copy_number)
            outcome = "taken"
            self._slurm_ids[name, copy_number] = slurm_id
        except SlurmError as refusal:
            error = str(refusal)
            outcome = "silent" if not refusal.answered or NO_CONTROLLER in error.lower() else "refused"
        after = self._now_ns()
        self._note(
            "submit", before, after, cluster=name, job=copy_number, outcome=outcome, slurm_id=slurm_id, error=error
        )
        self._pass(told=[Told(name, copy_number, outcome, after)])  # type: ignore[arg-type]

    async def _cancel(self, name: str, copy_number: int) -> None:
        before, error = self._now_ns(), ""
        try:
            await self._clusters[name].cancel(self._slurm_ids[name, copy_number])
        except SlurmError as refusal:
            error = str(refusal)
        self._note("cancel", before, self._now_ns(), cluster=name, job=copy_number, error=error)


async def _first(stop: asyncio.Event, limit_s: float) -> None:
    """Wait for `stop`, or so long."""
    try:
        await asyncio.wait_for(stop.wait(), limit_s)
    except TimeoutError:
        return


class Notes:
    """FOLDER/notes.jsonl."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("a", buffering=1, encoding="utf-8")

    def __call__(self, what: str, before: int, after: int, **more: Any) -> None:
        """One line."""
        self._stream.write(json.dumps({"what": what, "before": before, "after": after, **more}) + "\n")

    def close(self) -> None:
        """No more lines."""
        self._stream.close()


async def _main(folder: Path) -> None:
    file = DispatcherFile.model_validate_json((folder / "dispatcher.json").read_text(encoding="utf-8"))
    limit_s = file.patience_ns / SECOND
    clusters = {place.name: RestCluster(place, file.user, limit_s) for place in file.clusters}
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    notes = Notes(folder / "notes.jsonl")
    notes("up", time.time_ns(), time.time_ns())
    try:
        await JobDispatcher(file, dict(clusters), notes).run(stop)
    finally:
        for cluster in clusters.values():
            cluster.close()
        notes.close()


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGTERM; 0, or the error's exit code."""
    (folder,) = sys.argv[1:] if arguments is None else arguments
    try:
        asyncio.run(_main(Path(folder)))
    except SlurmtwinError as error:
        sys.stderr.write(f"error: {error}\n")
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
