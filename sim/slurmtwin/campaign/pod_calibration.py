"""Durations of a cluster from its batch's quiet runs: what the host charges where no rule gives it (DESIGN 5).

A stamp cut to whole seconds and the collector's receipt of the same change enclose a time from both sides, so a span
is known to an interval. A container's status is told at the kubelet's next look, up to 1 s late; the event of its
start is sent at once, so the receipt of that event encloses it better. What kube-scheduler and the API server write
is received within the watch delay that each run measures on leases, so it is bounded from below by the receipt too. A
log-normal law is fitted to the intervals by its likelihood; runs, and spans within them, are drawn with replacement
and fitted again: what three quiet runs do not tell stays in the file as spread between these fits. Runs with a phase
that is judged are refused where they have a fault: calibrated and judged are never the same runs. quiet-restarts has
faults and no phase: it kills idle and busy daemons one by one, and shows what their return takes; quiet-replaced
does so with pods that are deleted without grace, quiet-deleted with grace, alone and in pairs, quiet-drained with
those of machines that it drains; quiet-operated with an operator's, which it scales away and back, quiet-ended with
those that it scales away one by one; quiet-slinky cordons an idle worker's machine, quiet-rested does so when
slurm-operator has had no pass for 26 s, quiet-shrunk takes a busy worker from a node set and gives it back;
quiet-configured changes an option of slurm.conf in place; jobs of quiet-grown take memory under a CPU limit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.campaign.before_faults import mounted, quiet_part
from slurmtwin.campaign.loop_spans import registered, wakes
from slurmtwin.campaign.operator_spans import (
    config_told,
    cordons_done,
    cordons_told,
    hooks,
    limited_starts,
    node_changes,
    operator_events,
    operator_looks,
    pod_creations,
    pod_deletions,
    pod_patches,
    reconfigured,
)
from slurmtwin.campaign.pod_spans import (
    Interval,
    PodSpans,
    Restart,
    bounds,
    ends_told,
    evictions,
    relists,
    replaced,
    restarts,
    stops,
)
from slurmtwin.campaign.recorded_passes import Pass, lone_looks, read_passes, stored_memories
from slurmtwin.campaign.recorded_starts import rounds_between
from slurmtwin.campaign.recordings import recorded_scenario
from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.manifest import Manifest, read_manifest
from slurmtwin.contract.pod_durations import DURATIONS
from slurmtwin.engine.random_streams import generator
from slurmtwin.models.slurm_pods.slurmd_program import CONFIG_TRIES
from slurmtwin.models.slurmctld.background import steady_loop
from slurmtwin.worlds.pod_durations import POD_DURATIONS_SCHEMA
from slurmtwin.worlds.pod_limits import LIMITED

if TYPE_CHECKING:
    from slurmtwin_reports.history import History, Row

RESAMPLES: Final = 200
LEAST_MS: Final = 0.05
"""Interval ends are at least so far apart, and so far above 0: the law has no mass at 0."""
USUAL_SIGMA: Final = 0.5
"""Where intervals are too wide to tell a law's spread, it is drawn to this, times or divided by 2 (one standard
deviation); spans that are known well (script-launch, exit-notice, submit) have 0.6 to 1.1.
"""
CENTRE_SPREAD: Final = 3.0
"""Likewise its median to the middle of the intervals, times or divided by this."""
ATTEMPT_MS: Final = CONFIG_TRIES * 1000.0 + 10_000.0
"""slurmd -Z without a controller: its tries of a second each and a pause of 10 s (slurmd_program.py)."""
OWN_START_MS: Final = 90.0
"""slurmd's own start (slurmctld's of quiet runs less what it is slower by), once in the span of all attempts."""
BESIDE: Final = ("-alone", "-pair")
"""Laws of starts, by how many others start beside one."""
ROUNDS: Final = 3
"""Looks of slurmctld's loop that lie further apart tell what a round takes."""
BURST_MS: Final = 20
"""slurmctld starts jobs that fit in one pass within so much of each other."""
LEAST_BURST: Final = 4
"""Fewer of them hardly wait: two CPUs take two launches in the time of one."""
STALLED_MS: Final = 600.0
"""A run in which one row of 20 came later than this is left out: its host stood still, and it shows for how long."""


@dataclass(slots=True)
class Seen:
    """Spans by name, one list for each quiet run."""

    spans: dict[str, list[list[Interval]]] = field(default_factory=dict)

    def add(self, name: str, run: int, first: Interval | None, last: Interval | None) -> None:
        """A span between two enclosed times, in ms; none where one of them did not come, or the end came first."""
        if first is None or last is None or last[1] <= first[0]:
            return
        runs = self.spans.setdefault(name, [])
        while len(runs) <= run:
            runs.append([])
        low = max(last[0] - first[1], LEAST_MS)
        runs[run].append((low, max(last[1] - first[0], low + LEAST_MS)))


def measure(folders: Sequence[Path], under_operators: Sequence[Path] = ()) -> dict[str, Any]:
    """The document of worlds/pod_durations.json from quiet runs. Raises InputError where a run has a fault, or none
    of them shows anything.

    under_operators: runs whose rows before the first fault tell when an operator's pods are probed, and nothing else.
    """
    from slurmtwin_reports.load import load_run

    manifests = {folder: read_manifest(folder) for folder in folders}
    delays = {folder: _watch_delay_ms(manifest) for folder, manifest in manifests.items()}
    used = [folder for folder in folders if delays[folder] <= STALLED_MS]
    seen = Seen()
    for run, folder in enumerate(used):
        history = load_run(folder)
        rows = list(history.rows())
        for due, began in relists(rows):
            seen.add("relist", run, due, began)
        _read_loop(seen, run, history, rows)
        _read_growth(seen, run, rows)
        if any("array_task" in row.details for row in rows if row.kind == "job.started"):
            _read_bursts(seen, run, rows)
        elif not any(row.kind == "fault.injected" for row in rows):
            _read(seen, run, history, rows)
        elif _is_judged(folder):
            raise InputError("not a quiet run: a fault was injected", Where(str(folder)))
        elif under_operator(folder):
            _read_mounts(seen, run, rows)
            _read_passes(seen, run, rows, read_passes(folder, manifests[folder].parameters["epoch_ns"]))
            if manifests[folder].software["operator"].get("name") == LIMITED:
                for began, served in limited_starts(rows):
                    seen.add("slurmd-limited", run, began, served)
        else:
            _read_restarts(seen, run, history, rows)
    before = {folder: read_manifest(folder) for folder in under_operators}
    before = {folder: manifest for folder, manifest in before.items() if _watch_delay_ms(manifest) <= STALLED_MS}
    for run, folder in enumerate(before, len(used)):
        _read_mounts(seen, run, quiet_part(list(load_run(folder).rows())))
    if not used or not seen.spans:
        raise InputError("no quiet run in pods here", hint="quiet-pods in --world kind makes one")
    return {
        "schema": POD_DURATIONS_SCHEMA,
        "origin": [_origin(manifests[folder]) for folder in used],
        "before_fault": [_run_id(manifest) for manifest in before.values()],
        "left_out": {_run_id(manifests[folder]): delays[folder] for folder in folders if folder not in used},
        "durations": {name: _fitted(name, seen.spans[name]) for name in DURATIONS if name in seen.spans},
    }


def under_operator(folder: Path) -> bool:
    """Whether an operator made the workers of this recorded run."""
    return bool(read_manifest(folder).software.get("operator"))


def document_text(document: Mapping[str, Any]) -> str:
    """The file's text: one line for each duration's fits."""
    text = json.dumps({**document, "durations": {}}, indent=1)
    lines = [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in document["durations"].items()]
    return text.replace('"durations": {}', '"durations": {\n' + ",\n".join(lines) + "\n }") + "\n"


def _is_judged(folder: Path) -> bool:
    """Whether the recorded scenario predicts anything; one that cannot be read may."""
    try:
        return bool(recorded_scenario(folder).expect.phases)
    except InputError:
        return True


def _watch_delay_ms(manifest: Manifest) -> float:
    """95 % of the run's rows were received within so much; 0: not measured."""
    return float(manifest.results.get("watch_delay_ms", {}).get("p95", 0.0))


def _run_id(manifest: Manifest) -> str:
    return str(manifest.results.get("run_id"))


def _origin(manifest: Manifest) -> dict[str, Any]:
    host = manifest.environment.get("host", {})
    return {
        "run": _run_id(manifest), "epoch_s": manifest.parameters["epoch_ns"] // SECOND,
        "host_load": manifest.resources.get("host_load"), "cpu": host.get("cpu"), "cpus": host.get("cpus"),
        "kubernetes": manifest.software.get("kubernetes"), "slurm": manifest.software.get("packages", {}).get("slurmd"),
    }  # fmt: skip


# what a run shows


def _read(seen: Seen, run: int, history: History, rows: Sequence[Row]) -> None:
    pods = PodSpans(rows)
    served = _first(rows, "slurmctld.started")
    for uid, app in pods.app.items():
        bound, runs = pods.at("pod.scheduled", uid), pods.at("container.started", uid)
        if app != "slurmctld":  # whose pod waits for its volume
            seen.add("pod-bind", run, pods.at("pod.created", uid), bound)
        seen.add("pod-start-alone" if pods.alone(uid) else "pod-start", run, bound, runs)
        seen.add(
            "container-start-alone" if pods.alone(uid) else "container-start",
            run,
            pods.checked.get(pods.name[uid]),
            runs,
        )
        if app == "slurmctld":
            seen.add("slurmctld-start", run, runs, served)
            seen.add("claim-bind", run, pods.at("pod.created", uid), _first(rows, "claim.bound"))
        elif app == "slurmd" and runs is not None and served is not None and runs[0] > served[1]:
            seen.add("slurmd-start", run, runs, _first(rows, "slurmd.started", pods.name[uid]))
        elif app == "slurmd" and runs is not None and served is not None:
            _read_attempts(seen, run, runs, _first(rows, "slurmd.started", pods.name[uid]))
    for node in sorted({row.node for row in rows if row.kind == "slurmd.started" and row.node}):
        idle = (row for row in rows if row.kind == "node.state" and row.node == node)
        listed = next((row for row in idle if str(row.details.get("state", "")).startswith("IDLE")), None)
        seen.add("registration", run, _first(rows, "slurmd.started", node), bounds(listed) if listed else None)
    _read_jobs(seen, run, history, rows)


def _read_restarts(seen: Seen, run: int, history: History, rows: Sequence[Row]) -> None:
    """Daemons that come back in their pods or in new ones."""
    steady = steady_loop(history.manifest.parameters.get("slurm_version", "22.05"))
    if not steady:
        _read_rounds(seen, run, [row for row in rows if row.kind in ("node.pinged", "slurmctld.started")])
    drained = list(evictions(rows))
    for asked, marked in drained:
        seen.add("eviction", run, asked, marked)
    if drained:
        return  # up to four pods of a machine come back at once, by no law of a start alone or in pairs
    for one in restarts(rows):
        seen.add("container-restart", run, one.synced, one.runs)
        own = {"slurmctld": "slurmctld-start", "slurmd": "slurmd-back" if steady else ""}  # 22.05's: SLURMD_START_PARTS
        _read_back(seen, run, rows, one, own[one.app])
    for synced, told in ends_told(rows):
        seen.add("end-told", run, synced, told)
    for asked, stopped, told in stops(rows):
        seen.add("stop-heard", run, asked, stopped)
        seen.add("stop-told", run, stopped, told)
    pods = list(replaced(rows))
    for pod in pods:
        if pod.forced:
            seen.add("forced-removal", run, pod.marked, pod.gone)
            seen.add("set-status", run, pod.marked, pod.created)
        elif pod.ends is not None:
            seen.add("clean-up", run, *pod.ends)
        others = sum(pod.beside(other) for other in pods if other is not pod)
        if others < len(BESIDE):
            seen.add(f"pod-start{BESIDE[others]}", run, pod.bound, pod.back.runs)
            seen.add(f"container-start{BESIDE[others]}", run, pod.checked, pod.back.runs)
        _read_back(seen, run, rows, pod.back, "slurmd-start")


def _read_mounts(seen: Seen, run: int, rows: Sequence[Row]) -> None:
    """An operator's pods until they are probed, by how many others were surely or perhaps on their way beside one."""
    pods = list(mounted(rows))
    for bound, probed in pods:
        others = sum(one[0] < probed[1] and bound[0] < other[1] for one, other in pods) - 1
        seen.add(f"volumes-mounted{BESIDE[others] if others < len(BESIDE) else ''}", run, bound, probed)


_PASSES: Final = {
    "rest-change": node_changes,
    "pod-patch": pod_patches,
    "pod-delete": pod_deletions,
    "pod-create": pod_creations,
    "operator-look": operator_looks,
    "operator-event": operator_events,
    "cordon-told": cordons_told,
    "cordon-done": cordons_done,
    "pre-stop": hooks,
    "config-told": config_told,
    "reconfigured": reconfigured,
}


def _read_passes(seen: Seen, run: int, rows: Sequence[Row], passes: Sequence[Pass]) -> None:
    """What operators' passes take, as node sets are scaled and machines cordoned."""
    for name, spans in _PASSES.items():
        for began, ended in spans(rows):
            seen.add(name, run, began, ended)
    for due, decided in lone_looks(passes):
        seen.add("operator-look-alone", run, due, decided)
    for decided, stored in stored_memories(passes, rows):
        seen.add("set-stored", run, decided, stored)


def _read_back(seen: Seen, run: int, rows: Sequence[Row], back: Restart, name: str) -> None:
    """A node with a step tells its registration to 1 ms: its job is missed then. name: of its daemon's own start, ""
    for none.
    """
    if name:
        seen.add(name, run, back.runs, back.serves)
    missed = (bounds(row) for row in rows if row.kind == "job.ended" and row.node == back.node)
    seen.add("registration", run, back.serves, next((at for at in missed if at[1] > back.serves[0]), None))


def _read_attempts(seen: Seen, run: int, runs: Interval, serves: Interval | None) -> None:
    """What a try to get the configuration takes beyond its second, where slurmd is there 20 s before slurmctld."""
    if serves is None or serves[0] - runs[1] < ATTEMPT_MS:
        return
    attempts = int((serves[0] - runs[1] + serves[1] - runs[0]) / 2 // ATTEMPT_MS)
    tries, known = attempts * CONFIG_TRIES, attempts * ATTEMPT_MS + OWN_START_MS
    low, high = ((serves[i] - runs[1 - i] - known) / tries for i in (0, 1))
    seen.add("configless-try", run, (0.0, 0.0), (low, high))


def _read_loop(seen: Seen, run: int, history: History, rows: Sequence[Row]) -> None:
    if steady_loop(history.manifest.parameters.get("slurm_version", "22.05")):
        for second, looked in wakes(rows, history.manifest.parameters["epoch_ns"]):
            seen.add("loop-wake", run, second, looked)
        for asked, answered in registered(rows):
            seen.add("register-answer", run, asked, answered)


def _read_jobs(seen: Seen, run: int, history: History, rows: Sequence[Row]) -> None:
    if not steady_loop(history.manifest.parameters.get("slurm_version", "22.05")):
        _read_rounds(seen, run, [row for row in rows if row.kind in ("sched.main_pass", "node.pinged")])
    for number, job in history.jobs.items():
        own = {row.kind: bounds(row) for row in reversed(rows) if row.job_id == number}
        sent = job.get("submit_ns", 0) / MS
        seen.add("submit", run, (sent, sent), own.get("job.submitted"))
        seen.add("script-launch", run, own.get("job.started"), own.get("script.started"))
        seen.add("exit-notice", run, own.get("script.ended"), own.get("job.ended"))


def _read_bursts(seen: Seen, run: int, rows: Sequence[Row]) -> None:
    """Of jobs that slurmctld starts within BURST_MS: what a script's launch took on the mean, by their number."""
    ran = {_task(row): bounds(row) for row in rows if row.kind == "script.started"}
    bursts: list[list[Row]] = []
    for row in rows:
        if row.kind == "job.started" and _task(row) in ran:
            if bursts and row.t_ns - bursts[-1][0].t_ns <= BURST_MS * MS:
                bursts[-1].append(row)
            else:
                bursts.append([row])
    for burst in bursts:
        if len(burst) >= LEAST_BURST:
            spans = [(ran[_task(row)], bounds(row)) for row in burst]
            low, high = (sum(script[i] - row[1 - i] for script, row in spans) / len(burst) for i in (0, 1))
            seen.add("launch-among", run, (0.0, 0.0), (low / len(burst), high / len(burst)))


def _read_growth(seen: Seen, run: int, rows: Iterable[Row]) -> None:
    """CPU times that jobs tell which took memory and gave it back."""
    for row in rows:
        if row.kind == "script.grew":
            for part in ("start", "step", "exit"):
                known_ms = int(row.details[f"{part}_ns"]) / MS
                seen.add(f"growth-{part}", run, (0.0, 0.0), (known_ms, known_ms))


def _task(row: Row) -> tuple[int | None, object]:
    return row.job_id, row.details.get("array_task")


def _read_rounds(seen: Seen, run: int, looks: Sequence[Row]) -> None:
    """What a round takes beyond its second, from looks that lie some rounds apart."""
    for first, last in pairwise(looks):
        if "slurmctld.started" in (first.kind, last.kind):
            continue  # another loop's
        rounds = rounds_between(first.t_ns, last.t_ns)
        if rounds >= ROUNDS:
            low, high = ((last.t_ns - first.t_ns - rounds * SECOND + sign * 2 * last.t_err_ns) / MS for sign in (-1, 1))
            seen.add("loop-round", run, (0.0, 0.0), (low / rounds, high / rounds))


def _first(rows: Iterable[Row], kind: str, node: str | None = None) -> Interval | None:
    found = next((row for row in rows if row.kind == kind and node in (None, row.node)), None)
    return None if found is None else bounds(found)


# the law


def _fitted(name: str, runs: Sequence[Sequence[Interval]]) -> dict[str, Any]:
    draw = generator(0, 0, f"pod-calibration.{name}")
    filled = [run for run in runs if run]
    every = [span for run in filled for span in run]
    median, sigma = _fit(every)
    fits: list[tuple[float, float]] = []
    for _ in range(RESAMPLES):
        drawn = [filled[i] for i in draw.integers(0, len(filled), len(filled))]
        fits.append(_fit([run[i] for run in drawn for i in draw.integers(0, len(run), len(run))]))
    medians = sorted(m for m, _ in fits)
    widths = sorted(high - low for low, high in every)
    return {
        "runs": len(filled), "count": len(every), "median_ms": _short(median), "sigma": _short(sigma),
        "low_ms": _short(medians[RESAMPLES // 40]), "high_ms": _short(medians[-1 - RESAMPLES // 40]),
        "known_to_ms": _short(widths[len(widths) // 2] / 2), "fits": [[_short(m), _short(s)] for m, s in fits],
    }  # fmt: skip


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _fit(spans: Sequence[Interval]) -> tuple[float, float]:
    """(median in ms, sigma of the logarithm) of the log-normal law most likely to have given these intervals."""
    import numpy as np
    from scipy import optimize
    from scipy.special import ndtr  # stats.norm.cdf() of the same arrays takes six times as long

    low, high = np.log(np.asarray(spans, dtype=float)).T

    def unlikely(at: Any) -> float:
        mean, sigma = at[0], np.exp(at[1])
        mass = ndtr((high - mean) / sigma) - ndtr((low - mean) / sigma)
        usual = (at[1] - np.log(USUAL_SIGMA)) / np.log(2)
        central = (mean - centre) / np.log(CENTRE_SPREAD)
        return float(-np.log(np.maximum(mass, 1e-12)).sum() + (usual * usual + central * central) / 2)

    centre = float(np.median(np.log((np.exp(low) + np.exp(high)) / 2)))
    begin = (centre, float(np.log(USUAL_SIGMA)))
    box = [(float(low.min()) - 1, float(high.max()) + 1), (np.log(0.02), np.log(2.0))]
    best = optimize.minimize(unlikely, begin, method="Nelder-Mead", bounds=box, options={"xatol": 1e-3, "fatol": 1e-3})
    return float(np.exp(best.x[0])), float(np.exp(best.x[1]))
