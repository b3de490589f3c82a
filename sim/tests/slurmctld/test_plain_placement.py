"""The short way to place a plain job gives what the general way gives, at every start of whole runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurmtwin.models.slurmctld.parts import Placement
from slurmtwin.models.slurmctld.selection.select_nodes import Selection
from slurmtwin.workload.synthetic import synthetic
from slurmtwin.worlds.replay import replay_scenario
from slurmtwin.worlds.twin import run_scenario


@pytest.mark.parametrize("version", ["24.11", "26.05"])
@pytest.mark.parametrize("memory_mib", [None, 1, 2])
def test_the_short_way_places_as_the_general_one(
    monkeypatch: pytest.MonkeyPatch, version: str, memory_mib: int | None
) -> None:
    """Same nodes, CPUs, cores and memory, with cores and memory consumable (the default) and memory asked or not."""
    short = Selection._place_plainly
    compared: list[bool] = []

    def both(self: Selection, *question: object) -> Placement | None:
        answer = short(self, *question)  # type: ignore[arg-type]
        if answer is not None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Selection, "_place_plainly", lambda *_: None)
                compared.append(self.select_nodes(*question) == answer)  # type: ignore[arg-type]
        return answer

    monkeypatch.setattr(Selection, "_place_plainly", both)
    jobs = [replace(job, mem_per_node_mib=memory_mib) for job in synthetic("o150", nodes=100).requests()]
    run_scenario(replay_scenario(["100x1x2"], version=version), jobs=jobs)
    assert len(compared) == len(jobs)
    assert all(compared)
