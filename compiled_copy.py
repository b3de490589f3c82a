#!/usr/bin/env python3
"""A copy of the packages whose hot modules are compiled by mypyc: `python compiled_copy.py FOLDER`.

Runs in pods spend their time in hundreds of small functions: compiled ones cost two thirds. The copy gives the same
events (`sim/tests/worlds/test_compiled_copy.py` plays every fault scenario in both); it is used by its path:
`PYTHONPATH=FOLDER/sim:FOLDER/reports:FOLDER/e2e:FOLDER/reference_impl slurmtwin run ...`. Sources stay as they are, and
nothing compiled lies beside them, so a changed source can never be hidden by an old build.

Needs mypy, setuptools (both are locked) and a C compiler; takes two minutes of CPU time. `nox -s compiled` does it.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
COPIED = ("sim/slurmtwin", "reports/slurmtwin_reports", "e2e/slurmtwin_e2e", "reference_impl/slurmtwin_operator",
          "scenarios")  # fmt: skip
MODULES = {
    "adapters": "carrying deadlines operator_process seen_before slurm_lists slurm_port views",
    "engine": "daemon_clock environment event_sink random_streams",
    "models": "operator_pod",
    "models/api_server": "client collector errors heartbeats informer objects server watch work_queue",
    "models/controllers": "controller controller_manager deployment disruption endpoints job node_lifecycle pod_gc "
    "replica_set stateful_set taint_eviction",
    "models/kube_scheduler": "node_info queue",
    "models/kubelet": "admission back_off container_memory container_runtime image_pulls kubelet pod_actions "
    "pod_status pod_worker probe_loop program quality_of_service relist status_sender termination",
    "models/slurm_bridge": "bridge feasible objects pod_controller queue rest scheduler",
    "models/slurmctld": "backfill backfill_lengths compiled_planner job_end job_lifecycle job_start job_submit "
    "main_pass node_counts node_lifecycle node_space node_words partition_limits pending_queue plain_planner "
    "saved_records scheduler slurmctld start_attempt state_store uniform_search",
    "models/slurmctld/selection": "allocate asked cluster_view future node_choice select_cons_tres select_nodes "
    "shapes usage",
    "models/slurmd": "batch_job",
    "worlds": "pod_observer",
}
"""What a pod's life under slurm-bridge runs through (docs/speed.md), and what derives from a class of these."""


def sources() -> list[str]:
    """The compiled modules' files, below sim/."""
    return [f"slurmtwin/{room}/{name}.py" for room, names in MODULES.items() for name in names.split()]


def copy_packages(folder: Path) -> None:
    """All of the project that a run needs, in its own layout."""
    skipped = shutil.ignore_patterns("__pycache__", "*.so")
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=skipped, dirs_exist_ok=True)


def compile_modules(folder: Path) -> None:
    """mypyc, and the C compiler on what it writes."""
    from mypyc.build import mypycify
    from setuptools import setup

    os.chdir(folder / "sim")
    settings = folder / "sim" / "mypy.ini"
    settings.write_text("[mypy]\nmypy_path = .\nfollow_imports = silent\nignore_missing_imports = True\n")
    extensions = mypycify(
        ["--config-file", str(settings), *sources()], opt_level="1", debug_level="0", multi_file=True,
        group_name="slurmtwin",
    )  # fmt: skip
    setup(name="slurmtwin-compiled", packages=[], ext_modules=extensions, script_args=["-q", "build_ext", "--inplace"])
    shutil.rmtree("build")


def main(folder: Path) -> int:
    """Make, or renew, the copy."""
    folder = folder.resolve()
    copy_packages(folder)
    compile_modules(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
