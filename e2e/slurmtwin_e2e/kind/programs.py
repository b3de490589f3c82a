"""Go programs of the cluster, built from pinned modules and kept in the user's cache folder.

Each program is a folder of node_image/go with its own go.mod and go.sum: Go itself checks every module against
go.sum and refuses any other. A program that was built stays, and Go keeps the packages of one that was interrupted:
the next build goes on from there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin_e2e.kind.pins import cache_folder, data_folder, digest, pins

Say = Callable[[str], None]
HEARTBEAT_S: Final = 60.0
ROOM_BYTES: Final = 12 * 2**30
"""Module cache, build cache, programs, images: what a cold build was seen to need, and some."""


@dataclass(frozen=True, slots=True)
class Program:
    """A binary, the folder that pins it, the package that holds its main, and its usual build time on 2 cores."""

    name: str
    package: str
    minutes: float


PROGRAMS: Final = (
    Program("runc", ".", 0.2),
    Program("kind", "sigs.k8s.io/kind", 0.5),
    Program("etcd", "go.etcd.io/etcd/server/v3", 1.0),
    Program("local-path-provisioner", "github.com/rancher/local-path-provisioner", 2.0),
    Program("coredns", ".", 1.5),
    Program("kubernetes", ".", 9.0),
)


def go_version() -> tuple[int, ...] | None:
    """The Go on the path, such as (1, 24, 1); None if there is none."""
    if shutil.which("go") is None:
        return None
    done = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True)
    found = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return tuple(int(part) for part in found.groups() if part) if found else None


def _flags(program: Program) -> str:
    flags = "-s -w"
    if program.name == "kubernetes":
        version = pins().kubernetes
        major, minor = version.lstrip("v").split(".")[:2]
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            flags += f" -X {package}.gitVersion={version} -X {package}.gitMajor={major}"
            flags += f" -X {package}.gitMinor={minor} -X {package}.gitTreeState=clean"
    return flags


def _key(program: Program) -> str:
    return digest(data_folder() / "go" / program.name)[:16]


def path_of(program: Program) -> Path:
    """Where the built program is or will be; the name holds the digest of what pins it."""
    return cache_folder() / "programs" / f"{program.name}-{_key(program)}"


def _build(program: Program, out: Path, say: Say) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f"{out.name}.part{os.getpid()}")
    environment = os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=readonly"}
    command = ["go", "build", "-trimpath", "-buildvcs=false", "-ldflags", _flags(program), "-o", str(part)]
    child = subprocess.Popen(
        [*command, program.package], cwd=data_folder() / "go" / program.name, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        output = _wait(child, program, say)
        if child.returncode:
            raise EnvironmentMissingError(f"go build {program.name} failed: {output.strip()[-1500:]}")
        part.replace(out)
    finally:
        child.kill()
        child.wait()
        part.unlink(missing_ok=True)


def _wait(child: subprocess.Popen[str], program: Program, say: Say) -> str:
    """Wait for a build, saying now and then how long it has been at it."""
    start = time.monotonic()
    while True:
        try:
            return child.communicate(timeout=HEARTBEAT_S)[0]
        except subprocess.TimeoutExpired:
            minutes = (time.monotonic() - start) / 60
            say(f"  {program.name}: {minutes:.1f} min of about {program.minutes:.0f}")


def build(say: Say, only: tuple[str, ...] = ()) -> dict[str, Path]:
    """All programs (or those named), from the cache or built now. Raises EnvironmentMissingError without Go."""
    wanted = [program for program in PROGRAMS if not only or program.name in only]
    missing = [program for program in wanted if not path_of(program).is_file()]
    if missing:
        _require_go()
        _require_room()
    for number, program in enumerate(missing, 1):
        left = sum(later.minutes for later in missing[number - 1 :])
        say(f"building {program.name} ({number} of {len(missing)}; about {left:.0f} min to go on 2 cores)")
        start = time.monotonic()
        _build(program, path_of(program), say)
        say(f"built {program.name} in {time.monotonic() - start:.0f} s")
    return {program.name: path_of(program) for program in wanted}


def _require_go() -> None:
    have = go_version()
    least = pins().go_at_least
    text = ".".join(map(str, least))
    if have is None:
        raise EnvironmentMissingError(f"Go is missing; the node image is built with Go {text} or newer")
    if have < least:
        raise EnvironmentMissingError(f"Go {'.'.join(map(str, have))} is too old; {text} or newer is needed")


def _require_room() -> None:
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < ROOM_BYTES:
        raise EnvironmentMissingError(
            f"{free / 2**30:.0f} GiB free in {folder}; a cold build needs {ROOM_BYTES / 2**30:.0f} GiB"
        )
