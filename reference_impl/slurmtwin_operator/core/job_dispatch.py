"""Which of several Slurm clusters a job is sent to, by what was last heard of them (the KCP idea, design notes 2.7).

Each cluster is asked for its load at intervals; in between nothing is known but, with `remembers`, what was sent
there. A job goes to the least loaded cluster within reach, and waits where none is. A cluster that is silent for
lost_after_ns loses its jobs: each is sent again as another copy, and the copy that was left behind is cancelled as
soon as its cluster answers again. slurmrestd has no idempotent submit: one without an answer may have come through,
and only an answer that was asked for later tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

COPY: Final = 1_000_000_000
"""Job 7 sent again is job 1000000007, as contract/scenario.py has it."""

State = Literal["asked", "silent", "there", "left"]
"""Of a copy: its submit is under way, was never answered, came through; given up and to be cancelled."""
Outcome = Literal["taken", "refused", "silent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The dispatcher's settings (contract.scenario.Dispatch)."""

    clusters: tuple[str, ...]
    """In the order in which equals are chosen."""
    lost_after_ns: int = 0
    """Silence after which a cluster's jobs are sent again; 0: never."""
    remembers: bool = False
    """Counts what it sent itself since it last heard."""


@dataclass(frozen=True, slots=True)
class Order:
    """A job to be placed, and how many copies of it were sent before."""

    number: int
    cpus: int
    copies: int = 0

    @property
    def copy_number(self) -> int:
        """The number of the copy that is sent next."""
        return self.number + self.copies * COPY


@dataclass(frozen=True, slots=True)
class Heard:
    """One request for a cluster's load, answered or not."""

    cluster: str
    asked_ns: int
    """When the request was sent: what the answer says is no older."""
    answered: bool = False
    cpus: int = 0
    """CPUs of its nodes that take jobs."""
    load: int = 0
    """CPUs asked for by its jobs that wait or run, whoever submitted them."""
    live: tuple[int, ...] = ()
    """Copies of ours that wait or run."""


@dataclass(frozen=True, slots=True)
class Told:
    """How a submit ended."""

    cluster: str
    copy_number: int
    outcome: Outcome
    at_ns: int


@dataclass(frozen=True, slots=True)
class Known:
    """What is remembered of a cluster."""

    name: str
    heard_ns: int
    reachable: bool = False
    cpus: int = 0
    load: int = 0
    sent: int = 0
    """CPUs sent there since heard_ns."""


@dataclass(frozen=True, slots=True)
class Held:
    """A copy that was sent and is not known to be over."""

    order: Order
    cluster: str
    state: State
    at_ns: int
    """When it was submitted, or its submit answered."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What a pass hands to the next."""

    known: tuple[Known, ...]
    waiting: tuple[Order, ...] = ()
    held: tuple[Held, ...] = ()


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What to do now: submits and cancels as (cluster, copy), and when to look again (-1: nothing is waited for)."""

    submits: tuple[tuple[str, Order], ...]
    cancels: tuple[tuple[str, int], ...]
    lost: tuple[str, ...]
    """Clusters that were given up in this pass."""
    memory: Memory
    again_ns: int


def first_memory(rules: Rules, now: int) -> Memory:
    """Nothing was heard of any cluster; silence counts from now."""
    return Memory(tuple(Known(name, now) for name in rules.clusters))


def least_loaded(loads: Mapping[int, int] | Sequence[int], cpus: Sequence[int], able: Sequence[int]) -> int:
    """The place in `able` order with the smallest load for its CPUs; whole numbers compare exactly."""
    best = able[0]
    for other in able[1:]:
        if loads[other] * cpus[best] < loads[best] * cpus[other]:
            best = other
    return best


def plan_jobs(
    rules: Rules, memory: Memory, now: int, *, heard: Sequence[Heard] = (), told: Sequence[Told] = (),
    arrived: Sequence[Order] = (),
) -> JobPlan:  # fmt: skip
    """One pass: take in what was heard and told, give up lost clusters, place what waits."""
    memory = replace(memory, waiting=(*memory.waiting, *arrived))
    for answer in told:
        memory = _submitted(memory, answer)
    cancels: list[tuple[str, int]] = []
    for one in heard:
        memory = _listen(memory, one, cancels)
    memory, lost = _give_up(rules, memory, now)
    memory, submits = _place(rules, memory, now)
    return JobPlan(submits, tuple(cancels), lost, memory, _deadline(rules, memory))


def _change(memory: Memory, name: str, **values: object) -> Memory:
    known = tuple(replace(k, **values) if k.name == name else k for k in memory.known)  # type: ignore[arg-type]
    return replace(memory, known=known)


def _submitted(memory: Memory, told: Told) -> Memory:
    """A submit came back: taken, refused (the job is over), or nobody knows (its cluster is out of reach)."""
    held = []
    for one in memory.held:
        if (one.cluster, one.order.copy_number) != (told.cluster, told.copy_number):
            held.append(one)
        elif told.outcome != "refused":
            state: State = "there" if told.outcome == "taken" else "silent"
            state = state if one.state == "asked" else one.state
            held.append(replace(one, state=state, at_ns=told.at_ns))
    memory = replace(memory, held=tuple(held))
    return _change(memory, told.cluster, reachable=False) if told.outcome == "silent" else memory


def _listen(memory: Memory, heard: Heard, cancels: list[tuple[str, int]]) -> Memory:
    """A cluster's answer: what it lists is there, what it lacks is over or never came; what was left is cancelled."""
    if not heard.answered:
        return _change(memory, heard.cluster, reachable=False)
    memory = _change(
        memory, heard.cluster, heard_ns=heard.asked_ns, reachable=True, cpus=heard.cpus, load=heard.load, sent=0
    )
    held: list[Held] = []
    waiting = list(memory.waiting)
    for one in memory.held:
        if one.cluster != heard.cluster:
            held.append(one)
        elif one.order.copy_number in heard.live:
            if one.state == "left":
                cancels.append((one.cluster, one.order.copy_number))
            held.append(one if one.state == "left" else replace(one, state="there"))
        elif one.state == "asked" or one.at_ns >= heard.asked_ns:
            held.append(one)  # the answer is older than the submit, or passed one that is under way
        elif one.state == "silent":
            waiting.append(one.order)
    return replace(memory, held=tuple(held), waiting=tuple(waiting))


def _give_up(rules: Rules, memory: Memory, now: int) -> tuple[Memory, tuple[str, ...]]:
    """Jobs of clusters that were silent for too long wait again, as another copy."""
    if not rules.lost_after_ns:
        return memory, ()
    silent = {k.name for k in memory.known if now - k.heard_ns >= rules.lost_after_ns}
    lost = [one for one in memory.held if one.cluster in silent and one.state != "left"]
    if not lost:
        return memory, ()
    held = tuple(replace(one, state="left") if one in lost else one for one in memory.held)
    again = (replace(one.order, copies=one.order.copies + 1) for one in lost)
    names = tuple(k.name for k in memory.known if any(one.cluster == k.name for one in lost))
    memory = replace(memory, held=held, waiting=(*memory.waiting, *again))
    for name in names:
        memory = _change(memory, name, reachable=False)
    return memory, names


def _place(rules: Rules, memory: Memory, now: int) -> tuple[Memory, tuple[tuple[str, Order], ...]]:
    """Every waiting job to the least loaded cluster within reach that can take it at all."""
    submits: list[tuple[str, Order]] = []
    waiting: list[Order] = []
    for order in memory.waiting:
        known = memory.known
        cpus = [k.cpus for k in known]
        largest = max(range(len(cpus)), key=lambda i: (cpus[i], -i))
        fitting = [i for i, has in enumerate(cpus) if order.cpus <= has] or [largest]
        able = [i for i in fitting if known[i].reachable and cpus[i]]
        if not able:
            waiting.append(order)
            continue
        loads = [k.load + (k.sent if rules.remembers else 0) for k in known]
        chosen = known[least_loaded(loads, cpus, able)]
        submits.append((chosen.name, order))
        memory = _change(memory, chosen.name, sent=chosen.sent + order.cpus)
        memory = replace(memory, held=(*memory.held, Held(order, chosen.name, "asked", now)))
    return replace(memory, waiting=tuple(waiting)), tuple(submits)


def _deadline(rules: Rules, memory: Memory) -> int:
    """When the next cluster would be given up, were it silent from now on."""
    live = {one.cluster for one in memory.held if one.state != "left"}
    times = [k.heard_ns + rules.lost_after_ns for k in memory.known if k.name in live]
    return min(times, default=-1) if rules.lost_after_ns else -1
