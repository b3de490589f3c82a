"""The entry program of the pods' image under slinky: it reads the daemon's arguments as the operator writes them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from slurmtwin_e2e.operators.form import FOLDER

DAEMON = FOLDER / "slinky" / "image" / "files" / "daemon"
TOPOLOGY = "'\"$SLINKY_TOPOLOGY\"'"
"""How the operator leaves the value to a shell."""


def said(tmp_path: Path, *arguments: str, **environment: str) -> str:
    """What the daemon is started with, each argument in brackets; programs that touch the host are stand-ins."""
    for name in ("slurmctld", "slurmd", "slurmrestd"):
        (tmp_path / name).write_text(f"#!/bin/bash\nprintf '[%s]' {name} \"$@\"\n")
    (tmp_path / "supervisord").write_text('#!/bin/bash\ncat "$2"; bash "$(sed -n s/^command=//p "$2")"\n')
    for name in ("mkdir", "chown"):
        (tmp_path / name).write_text("#!/bin/bash\n")
    for path in tmp_path.iterdir():
        path.chmod(0o755)
    (tmp_path / "chmod").write_text('#!/bin/bash\n[[ $2 == /run/slurm ]] || exec /bin/chmod "$@"\n')
    (tmp_path / "chmod").chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)} | environment
    done = subprocess.run([str(DAEMON), *arguments], capture_output=True, text=True, env=env, check=True)
    return done.stdout


@pytest.mark.parametrize(
    ("topology", "conf"),
    [
        ("", "CPUs=1 Features=w RealMemory=200"),
        ("topo-switch:s2,topo-block:b2", "CPUs=1 Features=w RealMemory=200 Topology=topo-switch:s2,topo-block:b2"),
    ],
)
def test_slurmd_gets_one_argument_per_quoted_word(tmp_path: Path, topology: str, conf: str) -> None:
    """The quoted --conf is one argument, the annotation's value stands in it, and an empty Topology is left out."""
    quoted = f"'CPUs=1 Features=w RealMemory=200 Topology={TOPOLOGY}'"
    text = said(tmp_path, "slurmd", "-Z", "--conf-server", "c.ns:6817", "--conf", quoted, SLINKY_TOPOLOGY=topology)
    assert text == f"[slurmd][-D][-Z][--conf-server][c.ns:6817][--conf][{conf}]"


def test_a_variable_that_is_not_set_is_empty(tmp_path: Path) -> None:
    """Without the annotation some kubelets set no variable at all."""
    assert said(tmp_path, "slurmd", "--conf", f"'CPUs=1 Topology={TOPOLOGY}'") == "[slurmd][-D][--conf][CPUs=1]"


def test_the_other_daemons_take_their_arguments_as_they_are(tmp_path: Path) -> None:
    """Only slurmd's go through a shell; slurmrestd has no -D."""
    assert said(tmp_path, "slurmctld") == "[slurmctld][-D]"
    assert said(tmp_path, "slurmrestd", "-s", "$(id)") == "[slurmrestd][-s][$(id)]"


def test_supervised_it_is_a_program_of_supervisord(tmp_path: Path) -> None:
    """SUPERVISED=1: supervisord starts the same command, again after a crash, not after exit 0."""
    text = said(tmp_path, "slurmd", "--conf", "'CPUs=1 A=b'", SUPERVISED="1")
    assert "[program:slurmd]" in text
    assert "autorestart=unexpected" in text
    assert text.endswith("[slurmd][-D][--conf][CPUs=1 A=b]")
