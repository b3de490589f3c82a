"""Record scenarios, each on a cluster as it says, with the quiet runs that belong to the batch: only what is missing.

Usage: `python -m slurmtwin_e2e.kind.batch [--cluster NAME] [--version 22.05] [--repetitions 3] [--beside 3] FILE…`.
Scenarios that touch a Kubernetes node run alone; the others may run beside each other, each in a namespace of its own:
what they wait for are timers, and the host's load stands in every manifest.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from slurmtwin.contract.cluster_faults import ClusterFault
from slurmtwin.contract.errors import InputError, SlurmtwinError
from slurmtwin.contract.kubernetes import KubernetesCluster
from slurmtwin.contract.listed_jobs import listed_jobs
from slurmtwin.contract.manifest import Manifest, read_manifest
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin_e2e.images import RELEASES
from slurmtwin_e2e.kind import deploy, lifecycle, operated
from slurmtwin_e2e.kind.attach import attach, is_made_of
from slurmtwin_e2e.kind.beside import Beside
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.runner import RanOnce, check_scenario, run_once
from slurmtwin_e2e.kind_world import build_manifest, resolved_text, say
from slurmtwin_e2e.run_folder import write_folder

ALONE: Final = ("kube_node.", "api_server.", "dns.", "watch.", "image.")
"""Faults that other runs on the cluster would feel."""
SHARED: Final = ("slurmrestd", "rest")
"""Targets, beside the operator itself, that other runs under it would feel: it serves them all, and a silent slurmrestd
holds its passes (docs/surprises.md)."""
GOOD: Final = ("done", "max_time")
LATE_LIMIT_MS: Final = 1000.0
"""A run with a fault called later than this is not recorded, whatever it shows."""
QUIET: Final = "quiet-pods"
"""The scenario without a fault, which shows what the host costs (DESIGN 5)."""
PLACE: Final = "pods"
"""Recordings lie in SCENARIO/VERSION/pods/REPETITION."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One recording to be made."""

    scenario: Scenario
    repetition: int
    turn: int
    """Runs of one turn go beside each other."""

    def folder(self, root: Path) -> Path:
        """Its run folder."""
        return root / self.scenario.name / self.scenario.slurm.version / PLACE / str(self.repetition)

    @property
    def alone(self) -> bool:
        """Must nothing run beside it?"""
        kinds = [f.kind for f in self.scenario.faults if isinstance(f, ClusterFault)]
        node_targets = [
            f for f in self.scenario.faults if isinstance(f, ClusterFault) and ("@" in f.target or "/" in f.target)
        ]
        pods = self.scenario.pods
        felt = pods is not None and pods.operator and any(map(_is_shared, self.scenario.faults))
        return bool(node_targets or felt) or any(kind.startswith(ALONE) for kind in kinds)


def _is_shared(fault: object) -> bool:
    target = str(getattr(fault, "target", ""))
    return target in SHARED or "operator" in target


def missing(scenarios: Sequence[Scenario], repetitions: int, root: Path) -> Iterator[Wanted]:
    """What the folder lacks: every scenario once before any a second time.

    A batch brings its own quiet runs: where it makes anything else, QUIET is made anew beside, under the next numbers.
    """
    quiet = [scenario for scenario in scenarios if scenario.name == QUIET]
    others = [scenario for scenario in scenarios if scenario.name != QUIET]
    lacks = [
        Wanted(scenario, turn, turn)
        for turn in range(1, repetitions + 1)
        for scenario in others
        if not (Wanted(scenario, turn, turn).folder(root) / "manifest.json").exists()
    ]
    if not others:
        yield from (one for one in _anew(quiet, range(1, repetitions + 1), root) if one.repetition <= repetitions)
        return
    yield from sorted([*lacks, *_anew(quiet, sorted({one.turn for one in lacks}), root)], key=_turn)


def _turn(one: Wanted) -> int:
    return one.turn


def _anew(quiet: Sequence[Scenario], turns: Sequence[int], root: Path) -> Iterator[Wanted]:
    """Quiet runs, one for each of these turns, numbered on from those that are there."""
    for scenario in quiet:
        folder = Wanted(scenario, 1, 1).folder(root).parent
        last = max((int(path.parent.name) for path in folder.glob("*/manifest.json")), default=0)
        yield from (Wanted(scenario, last + place, turn) for place, turn in enumerate(turns, 1))


def groups(wanted: Sequence[Wanted], beside: int) -> Iterator[list[Wanted]]:
    """Runs that go beside each other, turn by turn; those that must be alone are groups of one.

    Two versions of a scenario are never beside each other: a run's namespace bears the names of both alike. Nor are two
    under one operator.
    """
    for turn, version in sorted({(one.turn, one.scenario.slurm.version) for one in wanted}):
        mine = [one for one in wanted if (one.turn, one.scenario.slurm.version) == (turn, version)]
        yield from ([one] for one in mine if one.alone)
        yield from _beside([one for one in mine if not one.alone], beside)


def _beside(wanted: Sequence[Wanted], beside: int) -> list[list[Wanted]]:
    """In their order, each in the first group that has room, and nobody under the operator whose passes it would wait
    for."""
    out: list[list[Wanted]] = []
    for one in wanted:
        operator = _operator(one)
        fits = (group for group in out if len(group) < beside and not (operator and operator in map(_operator, group)))
        found = next(fits, None)
        if found is None:
            out.append([one])
        else:
            found.append(one)
    return out


def _operator(one: Wanted) -> str:
    """It has one worker for all node sets: slurm-operator's passes wait for lists, the reference operator's for their
    actions (docs/surprises.md).
    """
    pods = one.scenario.pods
    return pods.operator if pods is not None else ""


def other_processor(manifest: Manifest, root: Path) -> str:
    """What to say of a run on another processor than the latest quiet run before it; "" where it had the same.

    A pod's start took 0.7 s on one and 0.55 s on another of as many CPUs (docs/surprises.md).
    """
    quiet = [read_manifest(path.parent) for path in (root / QUIET).glob(f"*/{PLACE}/*/manifest.json")]
    before = [one for one in quiet if one.parameters["epoch_ns"] <= manifest.parameters["epoch_ns"]]
    if not before:
        return ""
    latest = max(before, key=lambda one: int(one.parameters["epoch_ns"]))
    here, there = (str(one.environment["host"]["cpu"]) for one in (manifest, latest))
    if here == there:
        return ""
    return f"recorded on {here}, and {QUIET} on {there}: this host needs quiet runs, and a batch, of its own"


def record_run(
    clusters: Sequence[Cluster], one: Wanted, root: Path, repetitions: int, keep: Path | None,
    run: Callable[..., RanOnce], beside: int = 1,
) -> str:  # fmt: skip
    """Record what `run` (scenario, jobs, say, …) makes on these clusters, one of `beside` runs at once.

    "" or what went wrong; then nothing is written.
    """
    name = f"{one.scenario.name}-{one.repetition}"
    try:
        jobs = list(listed_jobs(one.scenario))
        ran = run(
            one.scenario, jobs, lambda text: say(f"{name}: {text}"), repetition=one.repetition,
            keep=keep / name if keep else None,
        )  # fmt: skip
    except (SlurmtwinError, OSError) as error:
        return f"{name}: {error}"
    if ran.stop_reason not in GOOD:
        return f"{name}: {ran.stop_reason} {ran.fault_errors}"
    if ran.latest_ms > LATE_LIMIT_MS:
        return f"{name}: a fault or request came {ran.latest_ms:.0f} ms late, the host was too busy: not recorded"
    manifest = build_manifest(one.scenario, ran, clusters, one.repetition)
    beside_it = {"repetitions": repetitions, "runs_beside": beside}
    manifest = replace(manifest, parameters=manifest.parameters | beside_it)
    write_folder(one.folder(root), manifest, ran.events, resolved_text(one.scenario), jobs, ran.passes)
    say(f"{name}: recorded, {len(ran.events)} rows, at most {ran.latest_ms:.0f} ms late, load {ran.load}")
    if other := other_processor(manifest, root):
        say(f"{name}: {other}")
    return ""


def record_one(
    cluster: Cluster, one: Wanted, root: Path, repetitions: int, keep: Path | None, beside: Beside
) -> str:  # fmt: skip
    """Record one run on one cluster; "" or what went wrong."""
    run = partial(run_once, cluster, beside=beside)
    try:
        return record_run([cluster], one, root, repetitions, keep, run, beside.members)
    finally:
        beside.leave()


def record_batch(
    scenarios: Sequence[Scenario], root: Path, *, repetitions: int = 3, budget_s: float = 7200.0, beside: int = 1,
    cluster_name: str = "", keep: Path | None = None,
) -> tuple[int, list[str]]:  # fmt: skip
    """Record what is missing of these scenarios; (recordings made, what failed).

    Raises InputError before anything is made for an impossible scenario, or one of another cluster. cluster_name: a
    running cluster of ours; empty: one is made for each `cluster` section and removed. No run is begun after budget_s.
    """
    for scenario in scenarios:
        check_scenario(scenario)
        if cluster_name and scenario.clusters and not is_made_of(cluster_name, scenario.clusters[0]):
            raise InputError(
                f"{scenario.name} asks for another cluster than {cluster_name}",
                hint="without --cluster one is made of its section",
            )
    wanted = list(missing(scenarios, repetitions, root))
    say(f"{len(wanted)} recordings are missing")
    made = 0
    failed: list[str] = []
    end = time.monotonic() + budget_s
    for section in sections(wanted):
        mine = [one for one in wanted if _section(one.scenario) == section]
        with ExitStack() as stack:
            if cluster_name:
                cluster = attach(cluster_name)
            else:
                cluster = stack.enter_context(lifecycle.running([section], say))[0]
            stack.callback(deploy.unlabel_nodes, cluster)
            stack.callback(operated.uninstall_all, cluster, scenarios)
            for scenario in (one for one in scenarios if _section(one) == section):
                deploy.prepare_images(cluster, scenario, say)  # once, before runs go beside each other
            for group in groups(mine, beside):
                if time.monotonic() > end:
                    say("budget used up")
                    return made, failed
                errors = _record_group(cluster, group, root, repetitions, keep)
                made += len(group) - len(errors)
                failed += errors
    return made, failed


def _section(scenario: Scenario) -> KubernetesCluster:
    return scenario.clusters[0] if scenario.clusters else KubernetesCluster()


def sections(wanted: Sequence[Wanted]) -> list[KubernetesCluster]:
    """The clusters that these recordings need, one after another: what a scenario says of its cluster is made so."""
    return list({one.model_dump_json(): one for one in (_section(each.scenario) for each in wanted)}.values())


def _record_group(
    cluster: Cluster, group: Sequence[Wanted], root: Path, repetitions: int, keep: Path | None
) -> list[str]:
    """Record runs beside each other; what failed."""
    together = Beside(len(group))
    with ThreadPoolExecutor(len(group)) as pool:
        running = [pool.submit(record_one, cluster, one, root, repetitions, keep, together) for one in group]
        errors = [text for text in (future.result() for future in running) if text]
    for text in errors:
        say(text)
    return errors


def main(arguments: Sequence[str] | None = None) -> int:
    """Record what is missing. Exit 0 when nothing failed, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--version", choices=sorted(RELEASES), help="of Slurm, instead of the scenario's own")
    parser.add_argument("--cluster", default="", help="a running cluster of ours; default: one is made")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--beside", type=int, default=1, help="so many runs at once")
    parser.add_argument("--budget", type=float, default=7200.0, help="seconds; no further run is begun after it")
    parser.add_argument("--root", type=Path, default=Path("scenarios/recordings"))
    parser.add_argument("--keep", type=Path, help="keep each run's evidence folder here")
    options = parser.parse_args(arguments)
    scenarios = [load_scenario(path) for path in options.files]
    if options.version:
        scenarios = [scenario.of_version(options.version) for scenario in scenarios]
    made, failed = record_batch(
        scenarios, options.root, repetitions=options.repetitions,
        budget_s=options.budget, beside=options.beside, cluster_name=options.cluster, keep=options.keep,
    )  # fmt: skip
    say(f"{made} recorded, {len(failed)} failed" + "".join(f"; {text}" for text in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
