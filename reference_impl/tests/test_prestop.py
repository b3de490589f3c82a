"""The preStop hook, run by a real shell with a scontrol that writes down what it is told."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from slurmtwin_operator.core.manifests import worker_pod
from slurmtwin_operator.core.observed import TERMINATING, Identity, NodeSetObserved
from slurmtwin_operator.core.spec import NodeSetSpec
from slurmtwin_operator.core.switches import Switches

LINE = "NodeName=w-0 Arch=x86_64 CPUAlloc=0 State={state} ThreadsPerCore=1 Partitions=w {reason}"


def told(tmp_path: Path, policy: str, line: str, code: int = 0) -> list[str]:
    """What scontrol was told beside `show node`."""
    o = NodeSetObserved(Identity("ns", "w", "u"), NodeSetSpec(cluster="c", image="i"), Switches(prestop=policy))
    hook = json.loads(worker_pod(o, "0"))["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    log = tmp_path / "log"
    log.touch()
    program = tmp_path / "scontrol"
    program.write_text(
        f'#!/bin/sh\ncase $1 in show) echo "{line}"; exit {code};; *) echo "$@" >> {log};; esac\n', encoding="utf-8"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "POD_NAME": "w-0"}
    done = subprocess.run(hook, env=env, check=False)
    assert done.returncode == 0
    return log.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    ("state", "reason", "given"),
    [
        ("IDLE", "", TERMINATING),
        ("ALLOCATED", "Reason=old words [root@2026-01-01T00:00:00]", TERMINATING),
        ("IDLE+DRAIN", "Reason=bad disk [root@2026-01-01T00:00:00]", "bad disk"),
        ("IDLE+DRAIN", "Reason=slurmtwin: scale-in [slurm@2026-01-01T00:00:00]", "slurmtwin: scale-in"),
    ],
)
def test_node_goes_down_with_the_right_reason(tmp_path: Path, state: str, reason: str, given: str) -> None:
    """A drained node keeps its reason: a foreign drain must not look like ours when the pod is back."""
    assert told(tmp_path, "down", LINE.format(state=state, reason=reason)) == [
        f"update nodename=w-0 state=down reason={given}"
    ]


def test_record_is_deleted_where_the_design_does_so(tmp_path: Path) -> None:
    """down-delete: as Slinky to v1.1."""
    assert told(tmp_path, "down-delete", LINE.format(state="IDLE", reason=""))[1] == "delete nodename=w-0"


def test_a_controller_that_is_away_holds_up_nothing(tmp_path: Path) -> None:
    """scontrol fails: the hook ends well, and says nothing."""
    assert told(tmp_path, "down", "", code=1) == []
