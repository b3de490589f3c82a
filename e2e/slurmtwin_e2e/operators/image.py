"""The image of the reference operator, made without a registry: locked wheels and sources on Debian's own Python."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin_e2e.docker import docker, ensure_running, has_image
from slurmtwin_e2e.images import RELEASES, Say, make_base
from slurmtwin_e2e.kind.pins import cache_folder
from slurmtwin_e2e.kind.slurm_images import RECIPE_FORM, RECIPE_LABEL

ROOT: Final = Path(__file__).parents[3]
IMPLEMENTATION: Final = ROOT / "reference_impl"
NAME: Final = "slurmtwin/operator:0.1.0"
RELEASE: Final = RELEASES["24.11"]
PYTHON: Final = "3.13"
"""Debian's in that release; the wheels are for it, whatever Python runs here."""
SOURCES: Final = (
    (ROOT / "sim" / "slurmtwin" / "contract", "slurmtwin/contract"),
    (IMPLEMENTATION / "slurmtwin_operator", "slurmtwin_operator"),
)
SINGLE: Final = (ROOT / "sim" / "slurmtwin" / "__init__.py", "slurmtwin/__init__.py")


def recipe_digest() -> str:
    """What the image is made of: Dockerfile, lock and sources."""
    digest = hashlib.sha256()
    files = [IMPLEMENTATION / "Dockerfile", IMPLEMENTATION / "requirements.lock", SINGLE[0]]
    for folder, _ in SOURCES:
        files += sorted(folder.rglob("*.py"))
    for path in files:
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:32]


def wheels() -> Path:
    """A folder with the locked packages for Debian's Python, made once per lock. Raises EnvironmentMissingError."""
    lock = IMPLEMENTATION / "requirements.lock"
    folder = cache_folder() / "operator" / hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    if folder.exists():
        return folder
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    machine = platform.machine()
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "--only-binary=:all:",
         "--python-version", PYTHON, "--platform", f"manylinux_2_28_{machine}", "--platform",
         f"manylinux_2_17_{machine}", "--platform", f"manylinux2014_{machine}", "--no-compile", "--target", str(part),
         "-r", str(lock)],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise EnvironmentMissingError(f"the operator's packages do not install: {done.stderr.strip()[-800:]}")
    part.rename(folder)
    return folder


def make(say: Say) -> str:
    """Build the image unless it is here and made of this recipe; returns its name."""
    ensure_running()
    if has_image(NAME) and docker("inspect", "-f", RECIPE_FORM, NAME).stdout.strip() == recipe_digest():
        return NAME
    if not (IMPLEMENTATION / "Dockerfile").exists():
        raise EnvironmentMissingError(f"{IMPLEMENTATION} is missing: the operator's image is built from a checkout")
    origin = make_base(RELEASE, say)
    say(f"building {NAME} (base image: {origin})")
    digest = recipe_digest()
    with tempfile.TemporaryDirectory(prefix="slurmtwin-operator-") as name:  # runs beside each other may build at once
        context = Path(name)
        shutil.copytree(wheels(), context / "site")
        for folder, target in SOURCES:
            shutil.copytree(folder, context / "site" / target, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(SINGLE[0], context / "site" / SINGLE[1])
        shutil.copy(IMPLEMENTATION / "Dockerfile", context)
        docker(
            "build", "--network", "host", "--build-arg", f"BASE={RELEASE.base}", "--label",
            f"{RECIPE_LABEL}={digest}", "-t", NAME, str(context), limit_s=900,
        )  # fmt: skip
    return NAME
