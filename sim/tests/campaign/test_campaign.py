"""Many runs: the same bytes however they are split, and nothing lost when something is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurmtwin.campaign import executors
from slurmtwin.campaign.campaign import Progress, Split, parse_shard, run_campaign
from slurmtwin.campaign.case_run import run_case
from slurmtwin.campaign.cases import cases
from slurmtwin.campaign.study_file import load_study
from slurmtwin.contract.errors import InputError


def _bytes(out: Path) -> bytes:
    return (out / "results.jsonl").read_bytes()


def _serial(study_file: Path, out: Path, seeds: int | None = None) -> bytes:
    run_campaign(load_study(study_file), out, Split(workers=1), seeds)
    return _bytes(out)


@pytest.mark.slow
def test_one_process_four_workers_and_three_shards_give_the_same_bytes(study_file: Path, tmp_path: Path) -> None:
    """Also when the shards come in another order."""
    loaded = load_study(study_file)
    want = _serial(study_file, tmp_path / "one")
    run_campaign(loaded, tmp_path / "four", Split(workers=4))
    assert _bytes(tmp_path / "four") == want
    for place in (3, 1, 2):
        part = run_campaign(loaded, tmp_path / "shards", Split(workers=1, shard=(place, 3)))
        assert (part.results is None) == (place != 2)
    assert _bytes(tmp_path / "shards") == want


def test_what_is_there_is_not_run_again(study_file: Path, tmp_path: Path) -> None:
    """A campaign with two results lost runs two, and more seeds run only what they add."""
    loaded, out = load_study(study_file), tmp_path / "out"
    want = _serial(study_file, out)
    for path in sorted((out / "runs").iterdir())[:2]:
        path.unlink()
    again = run_campaign(loaded, out, Split(workers=1))
    assert (again.ran, again.kept, _bytes(out)) == (2, 6, want)
    more = run_campaign(loaded, out, Split(workers=1), seeds=3)
    assert (more.ran, more.kept, more.total) == (4, 8, 12)


def test_a_failed_run_is_kept_and_named_and_the_others_go_on(study_file: Path, tmp_path: Path) -> None:
    """A design that is no scenario fails its four runs; they are tried again only where that is asked for."""
    study_file.write_text(study_file.read_text().replace("sched/builtin}", "sched/builtin, workload.generate.jobs: 0}"))
    loaded = load_study(study_file)
    seen: list[Progress] = []
    first = run_campaign(loaded, tmp_path / "out", Split(workers=1), progress=seen.append)
    assert len(first.failed) == 4
    assert "workload.generate" in first.failed[0][1]
    assert (seen[-1].done, seen[-1].failed, seen[-1].left_s) == (8, 4, 0.0)
    assert run_campaign(loaded, tmp_path / "out", Split(workers=1)).ran == 0
    assert run_campaign(loaded, tmp_path / "out", Split(workers=1), retry_failed=True).ran == 4


def test_one_run_can_be_made_again_alone(study_file: Path, tmp_path: Path) -> None:
    """By its key, as the replay command names it."""
    loaded = load_study(study_file)
    case = list(cases(loaded))[5]
    done = run_campaign(loaded, tmp_path / "out", Split(only=case.key))
    assert done.ran == 1
    kept = json.loads((tmp_path / "out" / "runs" / f"{case.key}.json").read_text())
    assert (kept["seed"], kept["design"]) == (case.seed, case.design)
    with pytest.raises(InputError, match="0 runs"):
        run_campaign(loaded, tmp_path / "out", Split(only="x"))


@pytest.mark.slow
def test_a_killed_worker_costs_no_run(study_file: Path, tmp_path: Path) -> None:
    """SIGKILL in mid campaign: its runs go to others, and the bytes are those of one process."""
    loaded = load_study(study_file)
    want = _serial(study_file, tmp_path / "one", seeds=6)
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.done == 4:
            victim = next(iter(_workers()))
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    done = run_campaign(loaded, tmp_path / "out", Split(workers=2), seeds=6, progress=kill)
    assert killed
    assert not done.failed
    assert _bytes(tmp_path / "out") == want


def _workers() -> list[int]:
    """The workers of this process: forked by the server that it started, or started by itself."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
                if b"forkserver" in words or b"spawn_main" in words:
                    parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    servers = {child for child, parent in parents.items() if parent == os.getpid()}
    return sorted(child for child, parent in parents.items() if parent in servers) or sorted(servers)


def test_a_run_that_kills_its_worker_is_failed_and_the_others_are_done(
    study_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pool whose worker dies is built anew; whoever dies alone is to blame."""

    class DyingPool:
        """Dies with the third case, whenever that is computed."""

        def __init__(self, loaded: object, workers: int) -> None:
            self.broken = False

        def __enter__(self) -> DyingPool:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def shutdown(self, **_: object) -> None:
            pass

        def submit(self, work: object, case: object) -> object:
            from concurrent.futures import Future
            from concurrent.futures.process import BrokenProcessPool

            future: Future[dict[str, object]] = Future()
            self.broken = self.broken or case.index == 2  # type: ignore[attr-defined]
            if self.broken:
                future.set_exception(BrokenProcessPool("died"))
            else:
                future.set_result({"status": "done", "index": case.index})  # type: ignore[attr-defined]
            return future

    monkeypatch.setattr(executors, "_pool", DyingPool)
    loaded = load_study(study_file)
    found = {c.index: r["status"] for c, r in executors.in_processes(loaded, cases(loaded), 2)}
    assert found == {i: "failed" if i == 2 else "done" for i in range(8)}


@pytest.mark.slow
def test_a_killed_client_loses_nothing(study_file: Path, tmp_path: Path) -> None:
    """The results written before SIGKILL stay, its workers end, and a second call makes the same bytes."""
    want = _serial(study_file, tmp_path / "one", seeds=30)
    out = tmp_path / "out"
    line = [sys.executable, "-c", "from slurmtwin.cli import main; main()", "study", str(study_file), "--out",
            str(out), "--workers", "2",
            "--seeds", "30"]  # fmt: skip
    client = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(list((out / "runs").glob("*.json"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    client.kill()
    client.wait()
    kept = len(list((out / "runs").glob("*.json")))
    assert 5 <= kept < 120
    again = run_campaign(load_study(study_file), out, Split(workers=1), seeds=30)
    assert again.kept >= kept
    assert _bytes(out) == want


def test_results_hold_nothing_of_the_machine(study_file: Path) -> None:
    """Two computations of one case are equal, word by word."""
    loaded = load_study(study_file)
    case = next(cases(loaded))
    assert json.dumps(run_case(loaded, case)) == json.dumps(run_case(loaded, case))


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", ""])
def test_a_wrong_shard_is_refused(text: str) -> None:
    """I/N with I from 1 to N."""
    with pytest.raises(InputError):
        parse_shard(text)
