"""One run of a scenario on real Slurm: plan in, raw folder out."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.errors import EnvironmentMissingError, ModelError
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import Scenario
from slurmtwin_e2e.conf import ClusterFiles
from slurmtwin_e2e.docker import ensure_network, ensure_running, has_image, run_container
from slurmtwin_e2e.images import RELEASES
from slurmtwin_e2e.plan import make_plan
from slurmtwin_e2e.priority import REAL_TIME

INSIDE: Final = Path(__file__).parent / "inside"
DEFAULT_FACTOR: Final = 4.0
"""Simulated seconds per real second where nobody says otherwise; docs/slurm-world.md has the study behind it."""


@dataclass(slots=True)
class RawRun:
    """What a container left behind: the folder of logs, and how it was made."""

    folder: Path
    plan: dict[str, Any]
    files: ClusterFiles
    wall_s: float
    load: float


def run_raw(scenario: Scenario, jobs: Sequence[JobRequest], version: str, factor: float, work: Path) -> RawRun:
    """Run the scenario once; raw logs end up in work/out. Raises ModelError when the run did not reach its end."""
    ensure_running()
    ensure_network()
    image = RELEASES[version].image
    if not has_image(image):
        raise EnvironmentMissingError(f"image {image} is missing: `slurmtwin record` builds it")
    plan, files = make_plan(scenario, jobs, version, factor)
    plan_dir, out = work / "in", work / "out"
    plan_dir.mkdir(parents=True)
    out.mkdir()
    out.chmod(0o777)
    (plan_dir / "plan.json").write_text(json.dumps(plan))
    capabilities = ["SYS_ADMIN"] if len(files.controllers) > 1 else []
    begin = time.monotonic()
    code, output = run_container(
        image, f"slurmtwin-{uuid.uuid4().hex[:12]}",
        ["bash", "-c", f"{REAL_TIME} $rt python3 /opt/slurmtwin/boot.py /in /out; exit $?"],
        hostname=files.controllers[0],
        mounts=[(INSIDE.resolve(), "/opt/slurmtwin", True), (plan_dir.resolve(), "/in", True),
                (out.resolve(), "/out", False)],
        capabilities=capabilities, limit_s=plan["max_ns"] / 1e9 / factor * 1.2 + 300,
    )  # fmt: skip
    wall = time.monotonic() - begin
    (out / "driver.stderr").write_text(output)
    if code:
        raise ModelError(f"the run of {scenario.name} on {version} failed ({code}): {output[-1500:]}")
    return RawRun(out, plan, files, wall, os.getloadavg()[1])
