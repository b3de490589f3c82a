"""Capacity is never exceeded: at no time do the jobs on a node hold more CPUs than it has.

A job surely holds its CPUs from its start to its end (COMPLETING is left out: the select plugin frees CPUs
at the end of the run), less the measurement error at both sides and less suspensions. Where the rows do not
say how a job's CPUs spread over its nodes (a real job that never got to its script), the least it must hold on
each is counted.
"""

from __future__ import annotations

from typing import Final

from slurmtwin.contract.cluster_facts import ClusterFacts
from slurmtwin_reports.history import History, at, nodes_of
from slurmtwin_reports.job_table import Attempt, job_table
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "capacity"


def node_shares(attempt: Attempt, facts: ClusterFacts, even: bool = True) -> tuple[dict[str, int], bool]:
    """CPUs per node of an attempt, and whether they are known exactly (else the least possible).

    `even`: a row that does not tell the CPUs per node means equal ones, as contract.events has it.
    """
    nodes = nodes_of(attempt.nodes)
    if not nodes:
        return {}, True
    if len(attempt.node_cpus) == len(nodes):
        return dict(zip(nodes, attempt.node_cpus, strict=True)), True
    sizes = [facts.node_cpus.get(node, 0) for node in nodes]
    if attempt.cpus == sum(sizes):
        return dict(zip(nodes, sizes, strict=True)), True
    if len(nodes) == 1 or (even and attempt.cpus % len(nodes) == 0):
        return dict.fromkeys(nodes, attempt.cpus // len(nodes)), True
    total = sum(sizes)
    return {node: max(1, attempt.cpus - (total - size)) for node, size in zip(nodes, sizes, strict=True)}, False


def check(history: History) -> Verdict:
    """Broken at a node that holds too much or does not exist; unknown without the cluster's node sizes or any start."""
    facts = history.facts
    if facts is None or not facts.node_cpus:
        return unknown(NAME, "the run does not say how many CPUs its nodes have")
    changes: list[tuple[int, int, str]] = []
    findings: list[str] = []
    attempts, guessed = 0, 0
    table = job_table(history)
    created = _created(history)
    for key, _, attempt in table.attempts():
        attempts += 1
        if not attempt.nodes:
            findings.append(f"job {key[0]} started without nodes at {at(attempt.start_ns)}")
            continue
        shares, exact = node_shares(attempt, facts, even=history.sees_all)
        guessed += not exact
        for node, cpus in shares.items():
            if node not in facts.node_cpus and node not in created:
                findings.append(f"job {key[0]} started on {node}, which the cluster does not have")
            for begin, end in _held(attempt, table.renumbered_ns.get(key[0], table.end_ns)):
                changes += ((begin, cpus, node), (end, -cpus, node))
    findings += _overfull(changes, facts)
    if findings:
        return broken(NAME, findings)
    if not attempts:
        return unknown(NAME, "no job started")
    note = f"; {guessed} with the least possible CPUs per node" if guessed else ""
    return holds(NAME, f"{attempts} starts on {len(facts.node_cpus)} nodes{note}")


def _created(history: History) -> dict[str, bool]:
    """Nodes that came during the run."""
    rows = (r for r in history.rows() if r.kind in ("node.created", "node.registered") and r.node)
    return {name: True for row in rows for name in nodes_of(row.node or "")}


def _held(attempt: Attempt, run_end_ns: int) -> list[tuple[int, int]]:
    """Spans in which the attempt surely held its CPUs."""
    begin = attempt.start_ns + attempt.start_err_ns
    end = attempt.end_ns - attempt.end_err_ns if attempt.end_ns is not None else run_end_ns
    spans = []
    for pause, again in attempt.pauses:
        spans.append((begin, min(pause, end)))
        begin = max(begin, again if again is not None else end)
    spans.append((begin, end))
    return [(a, b) for a, b in spans if b > a]


def _overfull(changes: list[tuple[int, int, str]], facts: ClusterFacts) -> list[str]:
    """Walk ends before starts of the same instant; one finding per node, its worst moment."""
    level: dict[str, int] = {}
    worst: dict[str, tuple[int, int]] = {}
    for t, cpus, node in sorted(changes):
        level[node] = level.get(node, 0) + cpus
        most = facts.node_cpus.get(node, level[node]) * facts.share
        if level[node] > most and level[node] > worst.get(node, (0, 0))[0]:
            worst[node] = (level[node], t)
    return [f"{node} held {held} CPUs of {facts.node_cpus[node] * facts.share} at {at(t)}"
            for node, (held, t) in sorted(worst.items())]  # fmt: skip
