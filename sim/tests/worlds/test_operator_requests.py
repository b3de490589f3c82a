"""What the reference operator's requests take in the twin: each kind by its own law, late in it where measured."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

from slurmtwin.contract.clock import MS
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.worlds.pod_durations import still_durations
from slurmtwin.worlds.twin import TwinOptions, run_scenario

OPERATOR = Path(__file__).parents[3] / "scenarios" / "operator"
LAWS = {"rest-change": 4, "pod-patch": 10, "pod-delete": 104, "pod-create": 200, "set-stored": 5}


def played(name: str, **laws_ms: int) -> list[Event]:
    """Rows of a run whose durations stand still."""
    laws = {**LAWS, **{law.replace("_", "-"): ms for law, ms in laws_ms.items()}}
    durations = {**still_durations(), **{law: (ms * MS,) for law, ms in laws.items()}}
    scenario = load_scenario(OPERATOR / f"{name}.yaml")
    return run_scenario(scenario, OPERATOR, TwinOptions(keep=True, durations=durations)).kept or []


def issued(rows: list[Event], do: str) -> list[int]:
    """When the operator had the answers to these."""
    return [row.t_ns for row in rows if row.kind is Kind.ACTION_ISSUED and json.loads(row.detail)["do"] == do]


def test_deletions_behind_each_other_are_a_look_and_a_deletion_apart() -> None:
    """Three idle workers of op-delete: 104 ms each, of which 4 are the look; done a quarter of the rest before."""
    rows = played("op-delete")
    first, second, third = issued(rows, "delete")[:3]
    assert (second - first, third - second) == (104 * MS, 104 * MS)
    marked = [row.t_ns for row in rows if row.kind is Kind.POD_DELETING and row.actor == "apiserver"][:3]
    assert [answer - at for answer, at in zip((first, second, third), marked, strict=True)] == [25 * MS] * 3


def test_pods_made_behind_each_other_take_longer_than_the_first() -> None:
    """op-create's workers: each behind another one 200 ms, which is there when a quarter is left."""
    rows = played("op-create")
    made = issued(rows, "create-pod")
    assert len(made) > 2
    assert {second - first for first, second in pairwise(made)} == {200 * MS}
    workers = [row for row in rows if row.kind is Kind.POD_CREATED and row.actor == "apiserver" and row.node is None]
    there = [row.t_ns for row in workers if row.t_ns > made[0] - 10 * MS][: len(made)]
    assert there == [made[0] - 5 * MS, *(at - 50 * MS for at in made[1:])]


def test_a_pass_acts_when_its_memory_is_stored_and_answered() -> None:
    """As long there as back: the first drain of op-delete comes twice as much later."""
    usual, changed = (issued(played("op-delete", set_stored=ms), "drain")[0] for ms in (5, 55))
    assert changed - usual == 2 * 50 * MS
