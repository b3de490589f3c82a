"""A scenario on several kind clusters with a dispatcher before them: `python -m slurmtwin_e2e.kind.several FILE…`.

Each cluster is deployed, watched and disturbed as in a run of its own (runner.py); time zero and the end are the same
for all, and every row names its cluster.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import EnvironmentMissingError, InputError
from slurmtwin.contract.events import Event
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.listed_jobs import listed_jobs
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.contract.several_clusters import dispatch_of, has_several, member, one_table, own_jobs
from slurmtwin.contract.world import RunAnswer, RunOrder
from slurmtwin_e2e.collect.run_events import rounded
from slurmtwin_e2e.kind import batch, deploy, dispatching, lifecycle, runner
from slurmtwin_e2e.kind.api import Api, ApiError
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.collect import clocks, metrics
from slurmtwin_e2e.kind.collect.collector import Collector
from slurmtwin_e2e.kind.deploy import Deployed
from slurmtwin_e2e.kind.faults.base import Reach, reach
from slurmtwin_e2e.kind.faults.network import door
from slurmtwin_e2e.kind.faults.schedule import FaultRunner
from slurmtwin_e2e.kind.manifests.slurm_files import CTLD_PORT, SERVES_PROBES, controllers_of
from slurmtwin_e2e.kind.programs import Say
from slurmtwin_e2e.kind.runner import LEAD_NS, RanOnce
from slurmtwin_e2e.kind_world import build_manifest, resolved_text, say
from slurmtwin_e2e.run_folder import write_folder

THAW_LIMIT_S: Final = 120.0


@dataclass(slots=True)
class Member:
    """One cluster of the run, with the scenario that it is by itself."""

    name: str
    scenario: Scenario
    cluster: Cluster
    jobs: list[JobRequest]
    namespace: str
    api: Api
    collector: Collector
    reader: metrics.MetricsReader
    deployed: Deployed
    tools: Reach
    offsets: list[clocks.Offset]
    pinned: list[Event]
    faults: FaultRunner | None = None
    rows: list[Event] = field(default_factory=list)
    holes: int = 0
    delay_ns: tuple[int, int, int] = (0, 0, 0)

    @property
    def over(self) -> bool:
        """Its users' jobs were submitted, and no job that its observer knows is still to end."""
        return runner.jobs_over(deploy.notes(self.deployed.evidence), len(self.jobs))


def check_several(scenario: Scenario) -> None:
    """Raise InputError or UnsupportedError before anything is made for what cannot be run."""
    if not has_several(scenario):
        raise InputError(f"{scenario.name} is not of several clusters", hint="cluster: [{name: a}, {name: b}]")
    dispatch_of(scenario)
    for place in range(len(scenario.clusters)):
        runner.check_scenario(member(scenario, place))
    dispatching.dispatched_jobs(own_jobs(list(listed_jobs(scenario)), ""))


@contextmanager
def _deployed(
    cluster: Cluster, name: str, scenario: Scenario, jobs: list[JobRequest], repetition: int, say: Say
) -> Iterator[Member]:
    """Slurm on one of the clusters, idle and watched; its namespace is removed at the end whatever happens."""
    namespace = runner.namespace_of(scenario, repetition)
    images = deploy.prepare_images(cluster, scenario, say)
    deploy.remove(cluster, namespace)
    api = Api(cluster.kubeconfig)
    collector = Collector(api, namespace)
    serving = controllers_of(scenario) if scenario.slurm.version in SERVES_PROBES else ()
    reader = metrics.MetricsReader(api, metrics.sources(cluster.nodes, namespace, serving, CTLD_PORT))
    with ExitStack() as stack:
        stack.callback(deploy.unlabel_nodes, cluster)
        stack.callback(deploy.remove, cluster, namespace)
        stack.callback(_wait_until_serving, api)
        stack.callback(reader.stop)
        stack.callback(collector.stop)
        collector.start()
        found = deploy.deploy(cluster, scenario, namespace, images, say)
        deploy.apply(cluster, [dispatching.door_object(namespace)])
        tools = reach(cluster, found, api)
        stack.callback(tools.close)
        offsets = [clocks.of_node(tools.shell(node)) for node in cluster.nodes]
        made = Member(
            name, scenario, cluster, jobs, namespace, api, collector, reader, found, tools, offsets,
            runner.pinned_now(tools),
        )  # fmt: skip
        stack.callback(_undo, made)
        yield made


def _undo(one: Member) -> None:
    if one.faults is not None:
        one.faults.undo()


def _wait_until_serving(api: Api) -> None:
    """A control plane that was frozen needs a while. Raises EnvironmentMissingError when it does not come back."""
    limit = time.monotonic() + THAW_LIMIT_S
    while True:
        try:
            api.text("/readyz")
        except ApiError as error:
            if time.monotonic() > limit:
                raise EnvironmentMissingError(f"a control plane does not come back: {error}") from error
            time.sleep(0.5)
        else:
            return


def run_together(
    clusters: Sequence[Cluster], scenario: Scenario, jobs: Sequence[JobRequest], say: Say, *,
    repetition: int = 1, keep: Path | None = None,
) -> RanOnce:  # fmt: skip
    """One run."""
    spec = dispatch_of(scenario)
    begun, load = time.monotonic(), os.getloadavg()[0]
    folder = Path(tempfile.mkdtemp(prefix="slurmtwin-dispatcher-"))
    process = dispatching.DispatcherProcess(folder, spec, scenario.slurm.version, own_jobs(list(jobs), ""))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(process.stop)
        began_ns = time.time_ns()
        members = _enter_all(stack, [
            _deployed(cluster, name, member(scenario, place), own_jobs(list(jobs), name), repetition, say)
            for place, (cluster, name) in enumerate(zip(clusters, spec.clusters, strict=True))
        ])  # fmt: skip
        idle_s = (time.time_ns() - began_ns) / SECOND
        zero_ns = time.time_ns() + LEAD_NS
        doors = [(one.name, door(one.tools), one.deployed.files["jwt_hs256.key"]) for one in members]
        process.start(zero_ns, doors)
        for one in members:
            deploy.write_plan(one.deployed.evidence, zero_ns, runner.submit_actions(one.jobs))
            planned = runner.plan_faults(one.scenario, repetition)
            one.faults = FaultRunner(one.tools, planned, zero_ns, say)
            one.faults.start()
            one.reader.start()
        why, end_ns = runner.wait_for_end(
            scenario, zero_ns, lambda: _over(members, process, len(jobs)), lambda: "" if process.alive else "dispatcher"
        )
        process.stop()
        notes = process.notes()
        for one in members:
            _undo(one)
            _wait_until_serving(one.api)
            _collect(one, notes, zero_ns, end_ns, why)
        if keep is not None:
            _keep(keep, members, folder)
        late = dispatching.late_ms(notes, zero_ns, spec.staleness)
        return _answer(members, notes, why, zero_ns, end_ns, idle_s, begun, load, late)


def _enter_all(stack: ExitStack, waiting: Sequence[Any]) -> list[Member]:
    """Deploy side by side; all that came up are taken down even where one did not."""
    with ThreadPoolExecutor(len(waiting)) as pool:
        entered = [pool.submit(one.__enter__) for one in waiting]
        members: list[Member] = []
        wrong: list[BaseException] = []
        for one, future in zip(waiting, entered, strict=True):
            error = future.exception()
            if error is None:
                stack.push(one.__exit__)
                members.append(future.result())
            else:
                wrong.append(error)
    if wrong:
        raise wrong[0]
    return members


def _over(members: Sequence[Member], process: dispatching.DispatcherProcess, count: int) -> bool:
    """All jobs are sent and ended in every cluster, and all faults done."""
    sent = {copy % 1_000_000_000 for copy in dispatching.submitted(process.notes())}
    direct = sum(len(one.jobs) for one in members)
    busy = any(one.faults is not None and one.faults.alive for one in members)
    return len(sent) + direct >= count and not busy and all(one.over for one in members)


def _collect(one: Member, notes: Sequence[dict[str, Any]], zero_ns: int, end_ns: int, why: str) -> None:
    """The table of one cluster: as of a run of its own, with the dispatcher's submits among the users'."""
    assert one.faults is not None
    changes = [change for change in one.collector.stop() if change.t_ns <= end_ns]
    sampled = one.reader.stop()
    one.delay_ns = clocks.watch_delay_ns(changes)
    with (one.deployed.evidence / "observer.jsonl").open("a") as stream:
        for line in dispatching.submit_lines(notes, one.name):
            stream.write(json.dumps(line) + "\n")
    steps = sorted(one.faults.steps, key=lambda step: step.before_ns)
    one.rows, one.holes = runner.run_rows(
        one.scenario, one.deployed, steps, changes, zero_ns, end_ns, why, one.delay_ns[0], one.offsets,
        [*one.pinned, *sampled, *runner.kubelets_told(one.tools, steps, one.offsets)],
    )  # fmt: skip


def _keep(target: Path, members: Sequence[Member], folder: Path) -> None:
    for one in members:
        shutil.copytree(one.deployed.evidence, target / one.name, dirs_exist_ok=True)
    for name in ("notes.jsonl", "output"):
        if (folder / name).exists():
            shutil.copy(folder / name, target / f"dispatcher-{name}")


def _answer(
    members: Sequence[Member], notes: Sequence[dict[str, Any]], why: str, zero_ns: int, end_ns: int, idle_s: float,
    begun: float, load: float, dispatcher_late_ms: float,
) -> RanOnce:  # fmt: skip
    told = [rounded(row) for row in dispatching.rows(notes, zero_ns) if row.t_ns <= end_ns - zero_ns]
    rows = one_table([(one.name, one.rows) for one in members], told)
    steps = [step for one in members if one.faults is not None for step in one.faults.steps]
    holes = sum(one.holes for one in members)
    lost = [text for one in members for text in (*one.collector.lost, *one.reader.lost)]
    spoilt, errors = runner.shortcomings(rows, steps, [one.deployed.files for one in members], holes, lost)
    return RanOnce(
        rows, spoilt or why, zero_ns, idle_s, time.monotonic() - begun, (load, os.getloadavg()[0]),
        runner.lateness_ms(steps), [offset for one in members for offset in one.offsets],
        max(one.delay_ns for one in members), errors, None, dispatcher_late_ms=dispatcher_late_ms,
    )  # fmt: skip


def run_scenario(order: RunOrder) -> RunAnswer:
    """Run one scenario on clusters of its own (contract.world).

    Raises InputError before anything is made for an impossible scenario, EnvironmentMissingError without Docker.
    """
    check_several(order.scenario)
    repetition = order.replication or 1
    with lifecycle.running(order.scenario.clusters, say) as clusters:
        ran = run_together(clusters, order.scenario, order.jobs, say, repetition=repetition)
        manifest = build_manifest(order.scenario, ran, clusters, repetition)
    if order.folder is not None:
        write_folder(order.folder, manifest, ran.events, resolved_text(order.scenario), order.jobs)
    return RunAnswer(manifest, ran.events)


def main(arguments: Sequence[str] | None = None) -> int:
    """Record what is missing of these scenarios, which have the same clusters. Exit 0 when nothing failed, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--root", type=Path, default=Path("scenarios/recordings"))
    parser.add_argument("--keep", type=Path, help="keep each run's evidence here")
    parser.add_argument("--keep-clusters", action="store_true", help="leave the clusters for the next call")
    options = parser.parse_args(arguments)
    scenarios = [load_scenario(path) for path in options.files]
    for scenario in scenarios:
        check_several(scenario)
        if scenario.clusters != scenarios[0].clusters:
            raise InputError(f"{scenario.name} has other clusters than {scenarios[0].name}")
    wanted = list(batch.missing(scenarios, options.repetitions, options.root))
    say(f"{len(wanted)} recordings are missing")
    failed: list[str] = []
    if wanted:
        with lifecycle.running(scenarios[0].clusters, say, keep=options.keep_clusters) as clusters:
            for one in wanted:
                for cluster in clusters:
                    cluster.wait_until_running()
                run = partial(run_together, clusters)
                found = batch.record_run(clusters, one, options.root, options.repetitions, options.keep, run)
                failed += [found] if found else []
                if found:
                    say(found)
    say(f"{len(wanted) - len(failed)} recorded, {len(failed)} failed" + "".join(f"; {text}" for text in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
