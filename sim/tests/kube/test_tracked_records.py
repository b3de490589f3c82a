"""Saves and budgets that go by what changed hold what a look at everything would find."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.contract.scenario import load_scenario
from slurmtwin.models.api_server.objects import DisruptionBudget
from slurmtwin.models.controllers import disruption
from slurmtwin.models.slurmctld import changes, saved_records
from slurmtwin.models.slurmctld.changes import LEFT_OVER, Changes
from slurmtwin.models.slurmctld.node_words import node_words
from slurmtwin.models.slurmctld.saved_records import SavedNode, SavedRecords
from slurmtwin.models.slurmctld.slurmctld import Slurmctld
from slurmtwin.models.slurmctld.states import NodeBase
from slurmtwin.models.slurmctld.tables import Job
from slurmtwin.worlds import pod_observer
from slurmtwin.worlds.pod_observer import Observer
from slurmtwin.worlds.twin import TwinOptions, run_scenario

FAULTS = Path(__file__).parents[3] / "scenarios" / "faults"
SAVES = ("x1-slinky", "x14-state-lost", "x3-controller-host-statefulset", "x87-array", "x41-slinky", "x80-node-deleted")


def play(name: str) -> None:
    run_scenario(load_scenario(FAULTS / f"{name}.yaml"), FAULTS, TwinOptions(seed=3))


def fields(job: Job) -> list[Any]:
    """What a record holds, lists as they are now."""
    values = [getattr(job, name, None) for name in Job.__slots__ if name not in ("timers", "work", "prio_key")]
    return [list(value) if isinstance(value, list) else value for value in values]


def check_saves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Each save is compared with the tables themselves; returns the list that counts what was compared."""
    jobs, nodes = SavedRecords.jobs, SavedRecords.nodes
    compared: list[int] = []

    def all_jobs(self: SavedRecords) -> list[Job]:
        made = jobs(self)
        assert [fields(job) for job in made] == [fields(job) for job in self._ctld.jobs.values()]
        compared.append(len(made))
        return made

    def all_nodes(self: SavedRecords) -> list[SavedNode]:
        made = nodes(self)
        assert made == [saved_records._saved(node) for node in self._ctld.nodes.nodes]
        return made

    monkeypatch.setattr(SavedRecords, "jobs", all_jobs)
    monkeypatch.setattr(SavedRecords, "nodes", all_nodes)
    return compared


@pytest.mark.parametrize("name", SAVES)
def test_each_save_holds_the_tables_as_they_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs with all their fields, nodes with theirs, in order."""
    compared = check_saves(monkeypatch)
    play(name)
    assert max(compared) > 0


@pytest.mark.parametrize(("fields_of", "name"), [("JOB_FIELDS", "state"), ("NODE_FIELDS", "base")])
def test_a_write_that_is_not_noted_is_found(fields_of: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One field less in the list of those that count."""
    check_saves(monkeypatch)
    monkeypatch.setattr(changes, fields_of, frozenset({"slurm_id"} if fields_of == "JOB_FIELDS" else {"conf"}))
    with pytest.raises(AssertionError):
        play("x1-slinky")


@pytest.mark.parametrize("name", ["x41-slinky", "x32-slinky", "x1-slinky", "x42-drain-protected"])
def test_a_budget_counts_what_it_selects(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each look: healthy pods and those of each controller, counted anew from the cache."""
    selected, looks = disruption.Disruption._selected, []

    def checked(self: disruption.Disruption, budget: DisruptionBudget) -> Any:
        members = selected(self, budget)
        pods = [pod for pod in self.plane.pods.informer if disruption._selects(budget, pod)]
        assert sorted(members.pods) == sorted(pod.meta.key for pod in pods)
        assert members.healthy == sum(pod.ready and not pod.meta.deleting for pod in pods)
        owned = [pod.meta.owner.uid for pod in pods if pod.meta.owner is not None]
        assert {uid: count for uid, (_, count) in members.owners.items()} == {u: owned.count(u) for u in set(owned)}
        looks.append(len(pods))
        return members

    monkeypatch.setattr(disruption.Disruption, "_selected", checked)
    play(name)
    assert looks


@given(st.lists(st.one_of(st.integers(0, 5), st.none()), max_size=40))
def test_changes_since_a_version_are_those_noted_after_it(notes: list[int | None]) -> None:
    """None: somebody looks. Each record once, the latest first."""
    noted: Changes[int] = Changes()
    seen, expected = 0, dict[int, None]()
    for note in notes:
        if note is None:
            assert noted.since(seen) == list(reversed(expected))
            seen, expected = noted.version, {}
        else:
            noted.note(note)
            expected.pop(note, None)
            expected[note] = None
    assert noted.since(seen) == list(reversed(expected))


def test_records_that_are_gone_are_forgotten() -> None:
    """Once there are many: what is still there keeps its place."""
    noted: Changes[int] = Changes()
    for record in range(LEFT_OVER + 10):
        noted.note(record)
    noted.keep([3, 5], 2)
    assert noted.since(0) == [5, 3]


@pytest.mark.parametrize("name", ["x1-slinky", "x14-state-lost", "x41-slinky", "x62-slurmd-crash-main", "x87-array"])
def test_an_observer_that_looks_at_changes_misses_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each look every node and every job of its own number was noted as it is; the others are forgotten."""
    look, looks = Observer._list, []
    numbered_otherwise: list[bool] = []
    monkeypatch.setattr(pod_observer, "KEPT_JOBS", -1_000_000)

    def checked(self: Observer, ctld: Slurmctld) -> None:
        look(self, ctld)
        numbers = Counter(job.id for job in ctld.jobs.values())
        for job in ctld.jobs.values():
            if numbers[job.id] == 1:
                numbered_otherwise.append(job.id != job.slurm_id)
                assert self._jobs[job.id] == (job.state, bool(job.completing), job.reason)
        for node in ctld.nodes.nodes:
            if node.base not in (NodeBase.UNKNOWN, NodeBase.FUTURE):
                assert self._nodes[node.name] == "+".join(node_words(ctld, node))
        assert set(self._jobs) == set(numbers)
        looks.append(len(numbers))

    monkeypatch.setattr(Observer, "_list", checked)
    play(name)
    assert max(looks) > 0
    assert any(numbered_otherwise) is (name == "x1-slinky")
