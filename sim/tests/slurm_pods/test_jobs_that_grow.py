"""What a job's growth in memory takes of its container's CPU: until the kernel kills it, or to a size (memory.hog)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.clock import MS
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Kind
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.models.slurm_pods.settings import Growth
from slurmtwin.worlds.pod_durations import still_durations
from slurmtwin.worlds.twin import TwinOptions, run_scenario

QUIET_GROWN = Path(__file__).parents[3] / "scenarios" / "faults" / "quiet-grown.yaml"
MIB = 1 << 20
LONG = {"id": 1, "submit": "1s", "run": "60s", "time": "10", "nodelist": "w-0"}


def growth(**parts: Any) -> Growth:
    """14 ms to begin, 3 for each step, and back at once; nothing to give it back unless told."""
    usual = {"start": lambda: 14 * MS, "work": lambda: 3 * MS, "exit": lambda: 0, "wake": lambda: 0}
    return Growth(**(usual | parts))


def test_a_job_that_grows_to_a_size_gives_it_back_and_tells_what_it_took(pods_rig: Any) -> None:
    """60 steps of 3.5 ms of CPU time under 100m: nobody dies, and nothing of it is left (quiet-grown)."""
    rig = pods_rig([LONG], memory_mib=512, growth=growth(exit=lambda: MS // 2))
    rig.at(30, lambda: rig.programs.hog(rig.slurm_id(), 240 * MIB))
    used = {}
    rig.at(29, lambda: used.update(before=rig.slurmd().place.cgroup.used))
    rig.at(40, lambda: used.update(behind=rig.slurmd().place.cgroup.used))
    rig.run(80)
    assert len(rig.times(Kind.SCRIPT_GREW)) == 1
    [grew] = [event for event in rig.sink.kept if event.kind is Kind.SCRIPT_GREW]
    assert (grew.value, grew.unit, grew.job_id, grew.node) == (240 * MIB, "byte", 1, "w-0")
    assert json.loads(grew.detail) == {"start_ns": 14 * MS, "step_ns": 3 * MS, "exit_ns": MS // 2}
    assert grew.t_ns / 1e9 == pytest.approx(30 + (0.014 + 60 * 0.0035) * 10, abs=0.12)
    assert used["before"] == used["behind"]
    assert not rig.times(Kind.CONTAINER_ENDED, app="slurmd")
    assert rig.times(Kind.SCRIPT_ENDED, job=1, exit_code=0)[0] > 60


def test_a_size_beyond_the_limit_is_killed_like_growth_without_end(pods_rig: Any) -> None:
    """The kernel knows no sizes."""
    rig = pods_rig([LONG], memory_mib=256, growth=growth())
    rig.at(30, lambda: rig.programs.hog(rig.slurm_id(), 300 * MIB))
    rig.run(60)
    assert len(rig.times(Kind.SCRIPT_ENDED, job=1, exit_code=137)) == 1
    assert not rig.times(Kind.SCRIPT_GREW)


def test_a_script_whose_time_is_over_meanwhile_ends_behind_its_child(pods_rig: Any) -> None:
    """bash waits for the child of its trap (quiet-grown: within 1 ms behind it, in fourteen of fourteen jobs)."""
    rig = pods_rig([{**LONG, "run": "30s"}], memory_mib=512, growth=growth())
    rig.at(30.5, lambda: rig.programs.hog(rig.slurm_id(), 240 * MIB))
    rig.run(60)
    [grew] = rig.times(Kind.SCRIPT_GREW, job=1)
    assert rig.times(Kind.SCRIPT_STARTED, job=1)[0] + 30 < grew
    assert rig.times(Kind.SCRIPT_ENDED, job=1, exit_code=0) == [grew]


@pytest.mark.parametrize(("memory_mib", "longer_s"), [(256, 0.6), (512, 1.25)])
def test_a_process_that_is_killed_gives_its_memory_back_before_its_script_ends(
    pods_rig: Any, memory_mib: int, longer_s: float
) -> None:
    """1 ms of CPU for each 4 MiB is a tenth of a second for ten of them under 100m, and goes by how far it grew."""
    died = []
    for exit_ns in (0, MS):
        rig = pods_rig([LONG], memory_mib=memory_mib, growth=growth(exit=lambda exit_ns=exit_ns: exit_ns))
        rig.at(30, lambda rig=rig: rig.programs.hog(rig.slurm_id()))
        rig.run(60)
        died += rig.times(Kind.SCRIPT_ENDED, job=1, exit_code=137)
    assert died[1] - died[0] == pytest.approx(longer_s, abs=0.12)


def test_slurmstepd_tells_the_end_of_what_the_growth_has_left_of_the_cpu(pods_rig: Any) -> None:
    """At once where the period has CPU left, else in the next one: never in between, and both are seen."""
    told_ms = []
    for phase in range(0, 100, 5):
        rig = pods_rig([LONG], memory_mib=256, growth=growth(phase=lambda phase=phase: phase * MS))
        rig.at(30, lambda rig=rig: rig.programs.hog(rig.slurm_id()))
        rig.run(60)
        [ended], [told] = (rig.times(kind, job=1) for kind in (Kind.SCRIPT_ENDED, Kind.JOB_ENDED))
        told_ms.append(round((told - ended) * 1000))
    late_ms = [ms for ms in told_ms if ms >= 10]
    assert 0 < len(late_ms) < len(told_ms)
    assert min(late_ms) > 20
    assert max(late_ms) < 110


def test_quiet_grown_in_the_twin_tells_the_laws_that_it_was_played_with() -> None:
    """Each of its four jobs grows by what the scenario says, and no more, within its pod's CPU limit."""
    laws = {"growth-start": (13 * MS,), "growth-step": (3 * MS,), "growth-exit": (MS // 2,)}
    options = TwinOptions(keep=True, durations={**still_durations(), **laws}, still=True)
    rows = run_scenario(load_scenario(QUIET_GROWN), QUIET_GROWN.parent, options).kept or []
    grew = [row for row in rows if row.kind is Kind.SCRIPT_GREW]
    begun = [row.t_ns for row in rows if row.kind is Kind.FAULT_INJECTED]
    assert [row.value for row in grew] == [240 * MIB] * 4
    for row, begun_ns in zip(grew, begun, strict=True):
        assert json.loads(row.detail or "") == {"start_ns": 13 * MS, "step_ns": 3 * MS, "exit_ns": MS // 2}
        assert (row.t_ns - begun_ns) / 1e9 == pytest.approx((0.013 + 60 * 0.0035) * 10, abs=0.15)
    assert not [row for row in rows if row.kind is Kind.CONTAINER_ENDED]


@pytest.mark.parametrize(
    ("kind", "size", "said"),
    [
        ("memory.hog", "3Mi", "grows by 4Mi a step: size 3Mi is less"),
        ("memory.hog", "much", "not a Kubernetes quantity: 'much'"),
        ("memory.fill", "64Mi", "memory.fill fills its volume: it has no size"),
    ],
)
def test_a_size_that_no_job_can_take_is_refused_where_it_stands(
    tmp_path: Path, kind: str, size: str, said: str
) -> None:
    """Less than a step would be growth without end to the job's script."""
    text = QUIET_GROWN.read_text()
    asked = "{at: 26s, kind: memory.hog, target: 'job:1', size: 240Mi}"
    assert asked in text
    file = tmp_path / "grows.yaml"
    file.write_text(text.replace(asked, asked.replace("memory.hog", kind).replace("240Mi", size)))
    with pytest.raises(InputError, match=said) as refused:
        load_scenario(file)
    assert str(refused.value.where) == f"{file}:{text[: text.index(asked)].count(chr(10)) + 1}"
