"""What this machine has of what the real worlds need, and the command that gets the rest."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from slurmtwin_e2e.docker import has_image, is_installed, is_running
from slurmtwin_e2e.images import RELEASES


@dataclass(frozen=True, slots=True)
class Finding:
    """One need: whether it is met, what to do when it is not, and how long that takes."""

    need: str
    met: bool
    remedy: str
    takes: str = ""


def examine() -> list[Finding]:
    """Everything the world `slurm` needs. Nothing is started or changed."""
    running = is_running()
    found = [
        Finding("docker command", is_installed(), "apt-get install docker.io"),
        Finding("docker daemon", running, "slurmtwin record starts it; by hand: dockerd"),
        Finding("debootstrap", shutil.which("debootstrap") is not None,
                "apt-get install debootstrap (only where no container registry answers)"),
    ]  # fmt: skip
    for version, release in RELEASES.items():
        built = running and has_image(release.image)
        found.append(Finding(f"image {release.image}", built, f"slurmtwin record builds it (Slurm {version})"))
    return found
