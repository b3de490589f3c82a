"""slurmrestd as an operator meets it: what it lists, how old that may be, and changes of nodes (slurm.md 5.4).

An answer needs a slurmrestd pod that serves and a slurmctld that answers it; else the last one is kept and is `away`.
Where there is no REST service at all, the answer is `absent`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.adapters.lost_calls import Refusals, given_up_ns, syn_again_ns
from slurmtwin.adapters.slurm_lists import ClientLists
from slurmtwin.contract.clock import SECOND
from slurmtwin.models.slurmctld.dynamic_nodes import delete_nodes
from slurmtwin.models.slurmctld.node_words import ListedNodes, node_words
from slurmtwin.models.slurmctld.states import JobState, NodeBase
from slurmtwin.models.slurmctld.tables import bits
from slurmtwin_operator.core.observed import Slurm, SlurmJob, SlurmNode

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import Clock
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job, Node

PASS_CALLS: Final = 3
CLUSTER_CALLS: Final = 5
"""A pass of a node set asks for nodes, jobs and reservations, one of its Cluster for partitions and settings too."""
CLUSTER_NS: Final = 5 * SECOND
"""While slurmrestd is away the Cluster is looked at so long after the last look (core/cluster.py SOON_NS)."""
KEPT_RECORDS: Final = 16_384
"""Records of nodes that are made once: a node is idle, allocated, and then again what it was."""


@lru_cache(maxsize=KEPT_RECORDS)
def _record(
    name: str, words: tuple[str, ...], reason: str, comment: str, feature: str, registered_ns: int
) -> SlurmNode:  # fmt: skip
    """A node as slurmrestd lists it; words: node_words()."""
    return SlurmNode(
        name=name, state=words[0], flags=tuple(sorted(words[1:])), reason=reason, comment=comment, features=(feature,),
        registered_ns=registered_ns,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Informing:
    """How a client of slurm-client works: its timers, and what is drawn."""

    lists: ClientLists
    batch: Callable[[int], int]
    """From a refresh asked for at that time to the batch that makes it."""
    begin: Callable[[], int]
    """A pass writes a ControllerRevision that is there already, before it looks at pods (nodeset_history.go
    getNodeSetRevisions(); answered 409, by the API server's log)."""
    reads: Callable[[], int]
    """What a pass takes beside a list that it waits for."""


@dataclass(frozen=True, slots=True)
class RestCalls:
    """What slurmrestd takes, as a process asks it."""

    look: Callable[[], int]
    """Lists of nodes, jobs and reservations, read, beside the Cluster's own pass; with slurm-client a list of nodes."""
    look_alone: Callable[[], int]
    """The same of a pass that the Cluster has none beside; with slurm-client nobody asks."""
    change: Callable[[], int]
    """A change of a node until slurmctld has made it, or a look at one."""


class Started(dict[str, int]):
    """Slurm node -> when its slurmd last started, nanoseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        """Starts noted so far."""

    def note(self, nodes: Iterable[str], at_ns: int) -> None:
        """Their slurmd starts."""
        self.version += 1
        self.update(dict.fromkeys(nodes, at_ns))


class SlurmPort:
    """One cluster's slurmrestd, as one process asks it."""

    def __init__(
        self, cluster: SlurmCluster, clock: Clock, serves: Callable[[], str], feature: str, cache_ns: int,
        started_ns: Started, timeout_ns: int, calls: RestCalls, informer: Informing | None = None,
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self._clock = clock
        self._serves = serves
        """fresh, away, absent, tarpit (connections are taken, nobody answers), cut (packets are dropped) or refused
        (its Service has no pod that is ready)."""
        self._refusals = Refusals()
        self._cluster_asks = False
        """The Cluster's own passes ask as well, and are refused."""
        self._feature = feature
        self._cache_ns = cache_ns
        self._started_ns = started_ns
        """Slurm node -> when its slurmd last started."""
        self._timeout_ns = timeout_ns
        """A client without an answer gives up after so long; 0: it waits for ever (a wedged pass)."""
        self._informing = informer
        """Where set, nodes, jobs and reservations are listed by informers of slurm-client."""
        self._known_jobs: tuple[SlurmJob, ...] = ()
        """As the informer of jobs listed them last."""
        self._calls = calls
        if informer is not None and informer.lists.running:
            self._arm(informer.lists)
        self._failed = False
        """The informer's last list failed: whoever asks is told so at once (informer.go hasSyncedList())."""
        self._last = Slurm("away", clock.now_ns)
        self._asked_ns = -(1 << 62)
        self._comments: dict[str, str] = {}
        self._commented: set[str] = set()
        """Since nodes were listed last."""
        self._behind = 0
        """Lists that the last change of a node has not waited for yet."""
        self._listed = ListedNodes()
        self._records: list[SlurmNode | None] = []
        """By place in the node table, as they were listed last; None: not known."""
        self._nodes_listed: tuple[SlurmNode, ...] = ()
        self._starts: dict[str, int] = {}
        self._starts_seen = -1
        self._unknown = 0
        """Records that are not listed."""
        self._jobs_mark: tuple[object, int] = (None, -1)
        """Whose changes, and how many of them, the jobs were listed after."""
        self._jobs_listed: tuple[SlurmJob, ...] = ()
        self._seen_jobs: dict[int, tuple[tuple[object, ...], SlurmJob]] = {}
        """Job -> what its record was made of, and the record."""

    def wait_for_change(self, done: Callable[[], None]) -> None:
        """With slurm-client a change of a node is back when nodes were listed anew (client.go Update())."""
        _, lists_ns = self._lists_ns(self._behind)
        self._behind = 0
        if lists_ns:
            self._clock.call_in(lists_ns, lambda _: done())
        else:
            done()

    def settle(self, done: Callable[[tuple[SlurmNode, ...]], None]) -> None:
        """The end of a pass: with slurm-client its status waits for a new list, and for that of a change.

        (slurm-operator nodeset_sync_status.go RefreshNodeCache(), client.go WaitRefreshCache.) done: is given the nodes
        as that list has them, which may be most of a second old.
        """
        self._read_behind(1 + self._behind, self._informing.reads() if self._informing is not None else 0, done)

    def read_changed(self, done: Callable[[tuple[SlurmNode, ...]], None]) -> None:
        """Changes that were made beside each other are back: done is given the nodes as they were read for them."""
        self._read_behind(self._behind, 0, done)

    def _read_behind(self, count: int, reads_ns: int, done: Callable[[tuple[SlurmNode, ...]], None]) -> None:
        """So many lists, one behind the other, and what is read off the last, which takes reads_ns."""
        listed_ns, lists_ns = self._lists_ns(count)
        self._behind = 0
        if self._informing is None or not lists_ns:
            done(self.states())
            return
        self._clock.call_in(listed_ns, self._listed_last, (lists_ns - listed_ns + reads_ns, done))

    def _listed_last(self, waiting: tuple[int, Callable[[tuple[SlurmNode, ...]], None]]) -> None:
        wait_ns, done = waiting
        states = self.states()
        self._clock.call_in(wait_ns, lambda _: done(states))

    def _lists_ns(self, count: int) -> tuple[int, int]:
        """So many lists, one after the other: until the last is made, and until the look that finds it done; nobody
        waits for a service that was away, or without informers."""
        informing, now_ns = self._informing, self._clock.now_ns
        if informing is None or self._direct(informing) or self._last.answer != "fresh" or self._failed:
            return 0, 0
        at_ns = listed_ns = now_ns
        for _ in range(count):
            takes_ns = informing.batch(at_ns) + self._calls.look()
            listed_ns = at_ns + takes_ns
            at_ns += informing.lists.looks_ns(takes_ns)
        return listed_ns - now_ns, at_ns - now_ns

    def _direct(self, informing: Informing) -> bool:
        return informing.lists.direct(self._clock.now_ns)

    def read_lists(self, beside: bool, done: Callable[[Slurm], None]) -> None:
        """Nodes as they are now, jobs as old as the cache allows; beside: the Cluster's own pass asks as well."""
        self._clock.call_in(self._calls.look() if beside else self._calls.look_alone(), self._answer, done)

    def ask(self, begun: Callable[[], None], done: Callable[[Slurm], None]) -> None:
        """The same with slurm-client: Slinky refreshes its list of nodes in each pass.

        begun: called when the pass looks at pods: when it knows its reservation and has written its revision.
        """
        informing = self._informing
        assert informing is not None
        wait_ns = informing.lists.reservations_wait_ns(self._clock.now_ns) if self._serves() != "absent" else 0
        self._clock.call_in(wait_ns + informing.begin(), self._refresh, (informing, begun, done))

    def _refresh(self, order: tuple[Informing, Callable[[], None], Callable[[Slurm], None]]) -> None:
        """The pass knows its reservation and wants nodes."""
        informing, begun, done = order
        begun()
        if self._serves() == "absent":
            done(Slurm("absent", self._clock.now_ns))
            return
        if self._direct(informing):
            self._clock.call_in(self._calls.look(), self._answer, done)
            return
        listed_ns = informing.batch(self._clock.now_ns) + self._calls.look()
        if self._failed:
            self._clock.call_in(listed_ns, self._answer, partial(self._informed, informing))
            done(replace(self._last, answer="away"))
        else:
            wait_ns = informing.lists.looks_ns(listed_ns) - listed_ns
            self._clock.call_in(listed_ns, self._answer, partial(self._checked, informing, wait_ns, done))

    def _informed(self, informing: Informing, slurm: Slurm) -> None:
        """The informer's list is there, or has failed: each 30 s it lists anew, which matters after a failure."""
        if slurm.answer == "away" and not self._failed:
            self._clock.call_in(informing.lists.period_ns, self._list_again, informing)
        self._failed = slurm.answer == "away"

    def _list_again(self, informing: Informing) -> None:
        if self._failed:
            self._failed = False
            self._answer(partial(self._informed, informing))

    def _checked(self, informing: Informing, wait_ns: int, done: Callable[[Slurm], None], slurm: Slurm) -> None:
        """Who waits looks at once and then each second."""
        self._informed(informing, slurm)
        self._clock.call_in(wait_ns, self._with_jobs, (informing, done, slurm))

    def _with_jobs(self, answer: tuple[Informing, Callable[[Slurm], None], Slurm]) -> None:
        """Nodes are there; the first list of jobs may not be."""
        informing, done, slurm = answer
        wait_ns = informing.lists.jobs_wait_ns(self._clock.now_ns) if slurm.answer == "fresh" else 0
        if wait_ns:
            self._clock.call_in(wait_ns, self._with_jobs, answer)
        else:
            known = replace(slurm, jobs=self._known_jobs)
            self._clock.call_in(informing.reads(), lambda _: done(known))

    def _arm(self, lists: ClientLists) -> None:
        now_ns = self._clock.now_ns
        self._clock.call_in(lists.next_list_ns(now_ns) - now_ns, self._list_jobs, lists)

    def _list_jobs(self, lists: ClientLists) -> None:
        """A tick of the informer of jobs."""
        ctld = self._cluster.ctld
        if self._serves() == "fresh" and ctld is not None:
            self._known_jobs = self._jobs(ctld)
        self._arm(lists)

    def _answer(self, done: Callable[[Slurm], None]) -> None:
        how = self._serves()
        ctld = self._cluster.ctld
        now_ns = self._clock.now_ns
        if how == "tarpit":
            self._hang((now_ns, done))
        elif how == "cut":
            self._dropped((now_ns, 0, done))
        elif how == "refused":
            if not self._cluster_asks:
                self._cluster_asks = True
                self._refuse((now_ns, CLUSTER_CALLS, 0, self._cluster_refused))
            self._refuse((now_ns, PASS_CALLS, 0, done))
        elif how == "absent":
            done(Slurm("absent", now_ns))
        elif how != "fresh" or ctld is None:
            done(replace(self._last, answer="away"))
        else:
            self._last = Slurm("fresh", now_ns, self._nodes(ctld), self._jobs_for(ctld, now_ns))
            done(self._last)

    def _jobs_for(self, ctld: Slurmctld, now_ns: int) -> tuple[SlurmJob, ...]:
        """Jobs of this answer: new ones, or those of the last list."""
        if self._informing is None:
            if now_ns - self._asked_ns < self._cache_ns and self._last.answer == "fresh":
                return self._last.jobs
            self._asked_ns = now_ns
            return self._jobs(ctld)
        lists = self._informing.lists
        if lists.asked(now_ns):
            self._arm(lists)
        return self._jobs(ctld) if lists.direct(now_ns) else self._known_jobs

    def states(self) -> tuple[SlurmNode, ...]:
        """Nodes as a list finds them now."""
        ctld = self._cluster.ctld
        return self._nodes(ctld) if self._serves() == "fresh" and ctld is not None else self._nodes_listed

    def _hang(self, request: tuple[int, Callable[[Slurm], None]]) -> None:
        """A connection that nobody serves: answered when slurmrestd goes on, or given up."""
        since_ns, done = request
        if self._serves() != "tarpit":
            self._answer(done)
        elif self._timeout_ns and self._clock.now_ns - since_ns >= self._timeout_ns:
            done(replace(self._last, answer="away"))
        else:
            self._clock.call_in(SECOND, self._hang, request)

    def _dropped(self, request: tuple[int, int, Callable[[Slurm], None]]) -> None:
        """A SYN is lost: it is sent again (lost_calls.py), or the call given up.

        So a call under way when the way is open again may still be lost.
        """
        since_ns, again, done = request
        if self._serves() != "cut":
            self._answer(done)
            return
        self._wait(since_ns, again, done, partial(self._dropped, (since_ns, again + 1, done)))

    def _refuse(self, request: tuple[int, int, int, Callable[[Slurm], None]]) -> None:
        """Some of a pass's calls are refused at once, the others when their SYN is sent again; all are waited for."""
        since_ns, left, again, done = request
        if self._serves() != "refused" and not again:
            self._answer(done)
            return
        left = left - self._refusals.sent(self._clock.now_ns, left) if self._serves() in ("refused", "cut") else 0
        if left:
            self._wait(since_ns, again, done, partial(self._refuse, (since_ns, left, again + 1, done)))
        else:
            done(replace(self._last, answer="away"))

    def _wait(self, since_ns: int, again: int, done: Callable[[Slurm], None], sent: Callable[[], None]) -> None:
        """Until a call's SYN is sent again, or its caller has given it up; one that stood still finds that done."""
        now_ns = self._clock.now_ns
        next_ns, end_ns = syn_again_ns(since_ns, again), given_up_ns(since_ns, self._timeout_ns)
        if next_ns >= end_ns:
            lost = replace(self._last, answer="away")
            self._clock.call_in(max(0, end_ns - now_ns), lambda _: done(lost))
        else:
            self._clock.call_in(max(0, next_ns - now_ns), lambda _: sent())

    def _cluster_refused(self, _slurm: Slurm) -> None:
        self._clock.call_in(CLUSTER_NS, self._cluster_again)

    def _cluster_again(self, _argument: object) -> None:
        self._cluster_asks = self._serves() == "refused"
        if self._cluster_asks:
            self._refuse((self._clock.now_ns, CLUSTER_CALLS, 0, self._cluster_refused))

    def forget(self) -> None:
        """The next ask goes to slurmrestd: something was just changed."""
        self._asked_ns = -(1 << 62)

    def _nodes(self, ctld: Slurmctld) -> tuple[SlurmNode, ...]:
        """Records are made anew of nodes that are not as they were; nothing new: the same tuple."""
        nodes = ctld.nodes.nodes
        places = set(self._listed.changed(ctld))
        if self._starts_seen != self._started_ns.version or self._commented:
            self._starts_seen = self._started_ns.version
            names = self._commented | {n for n, at_ns in self._started_ns.items() if self._starts.get(n) != at_ns}
            places |= {node.index for name in names if (node := ctld.nodes.by_name.get(name)) is not None}
            self._starts = dict(self._started_ns)
            self._commented = set()
        if len(self._records) != len(nodes):
            self._records = [None] * len(nodes)
            self._unknown = len(nodes)
        if places:
            records = self._records
            for place in sorted(places):
                node, before = nodes[place], records[place]
                record = records[place] = self._node(ctld, node) if self._known(node) else None
                self._unknown += (record is None) - (before is None)
            listed: Any = records if not self._unknown else [record for record in records if record is not None]
            self._nodes_listed = tuple(listed)
        return self._nodes_listed

    def _known(self, node: Node) -> bool:
        """A dynamic node is known once it has registered."""
        return bool(node.name) and node.base not in (NodeBase.UNKNOWN, NodeBase.FUTURE)

    def _node(self, ctld: Slurmctld, node: Node) -> SlurmNode:
        words = node_words(ctld, node)
        name = node.name
        comment, started_ns = self._comments.get(name, ""), self._started_ns.get(name, 0)
        return _record(name, words, node.reason, comment, self._feature, started_ns)

    def _jobs(self, ctld: Slurmctld) -> tuple[SlurmJob, ...]:
        """Records are made anew of jobs that are not as they were; nothing new: the same tuple."""
        changes = ctld.job_changes
        if changes is not None:
            asked = (changes, changes.version)
            if asked == self._jobs_mark:
                return self._jobs_listed
            self._jobs_mark = asked
        seen, self._seen_jobs = self._seen_jobs, {}
        for job in ctld.jobs.values():
            if job.state.finished and not job.completing:
                continue
            mark = (job.state, job.alloc.nodes if job.alloc is not None else 0, job.end_s, job.part, ctld.epoch_ns)
            known = seen.get(job.id)
            self._seen_jobs[job.id] = known if known and known[0] == mark else (mark, self._job(ctld, job))
        self._jobs_listed = tuple([record for _, record in self._seen_jobs.values()])
        return self._jobs_listed

    def _job(self, ctld: Slurmctld, job: Job) -> SlurmJob:
        nodes: tuple[str, ...] = ()
        if job.alloc is not None and job.state in (JobState.RUNNING, JobState.SUSPENDED):
            nodes = tuple(ctld.nodes.nodes[i].name for i in bits(job.alloc.nodes))
        end_ns = job.end_s * SECOND - ctld.epoch_ns if job.end_s else 0
        partition = job.part.name if job.part is not None else ""
        return SlurmJob(job.slurm_id, job.state.name, nodes, end_ns, partition, str(job.request.name))

    # changes

    def update(self, node: str, state: str, reason: str, done: Callable[[str], None]) -> None:
        """State of a node; done("") or the error."""

        def change(ctld: Slurmctld) -> str:
            found = ctld.nodes.by_name.get(node)
            if found is None or not self._known(found):
                return f"slurmctld knows no node {node}"
            return ctld.nodes_lifecycle.update(found, state, reason) or ""

        self._change(change, done, self._calls.change())

    def comment(self, node: str, text: str, done: Callable[[str], None]) -> None:
        """Comment of a node: with slurm-client nothing is written on its pod beside it."""

        def change(_ctld: Slurmctld) -> str:
            self._comments[node] = text
            self._commented.add(node)
            return ""

        self._change(change, done, self._calls.look())

    def comments_are(self, comments: dict[str, str]) -> None:
        """Comments of all nodes, as a recorded operator has written them."""
        before, self._comments = self._comments, dict(comments)
        self._commented |= {name for name in before.keys() | comments.keys() if before.get(name) != comments.get(name)}

    def delete(self, node: str, done: Callable[[str], None]) -> None:
        """Delete the record of a dynamic node."""
        self._change(lambda ctld: delete_nodes(self._cluster, ctld, node) or "", done, self._calls.change())

    def _change(self, change: Callable[[Slurmctld], str], done: Callable[[str], None], takes_ns: int) -> None:
        """The pass waits for a list for it: what is changed next is changed behind that, as an update reads its object
        anew (slurm-client client.go Update())."""
        _, lists_ns = self._lists_ns(self._behind)
        self._behind = 0
        self._clock.call_in(lists_ns + takes_ns, self._do, (change, done))

    def _do(self, order: tuple[Callable[[Slurmctld], str], Callable[[str], None]]) -> None:
        change, done = order
        self._behind = 1
        ctld = self._cluster.ctld
        if self._serves() != "fresh" or ctld is None:
            done("slurmrestd does not answer")
            return
        self.forget()
        done(change(ctld))

    def look(self, node: str, done: Callable[[SlurmNode | None, bool], None]) -> None:
        """One node, asked now: (record or None, whether anybody answered)."""

        def answered(_argument: object) -> None:
            ctld = self._cluster.ctld
            if self._serves() != "fresh" or ctld is None:
                done(None, False)
                return
            found = ctld.nodes.by_name.get(node)
            done(self._node(ctld, found) if found is not None and self._known(found) else None, True)

        self._clock.call_in(self._calls.change(), answered)
