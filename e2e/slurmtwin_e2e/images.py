"""Images with Debian's unmodified Slurm packages, one per Slurm version.

The base image is pulled where a registry answers; else it is made by debootstrap from the Debian mirror that this
host's own apt sources name, and the host's apt settings are copied in (they say how the mirror is reached).
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin_e2e.docker import docker, ensure_running, has_image

PACKAGES: Final = "slurmctld slurmd slurm-client slurmrestd slurmdbd mariadb-server munge faketime python3 procps"

DOCKERFILE: Final = f"""\
ARG BASE
FROM ${{BASE}}
RUN printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d \\
 && apt-get update \\
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends {PACKAGES} \\
 && rm -rf /var/lib/apt/lists/* /usr/share/doc /usr/share/man
"""


@dataclass(frozen=True, slots=True)
class Release:
    """A Debian release and the Slurm that it ships."""

    version: str
    debian: str
    debootstrap_script: str = ""

    @property
    def base(self) -> str:
        """Name of the base image."""
        return f"debian:{self.debian}-slim"

    @property
    def image(self) -> str:
        """Name of the Slurm image."""
        return f"slurmtwin/slurm:{self.version}"


RELEASES: Final = {
    r.version: r for r in (Release("22.05", "bookworm"), Release("24.11", "trixie"), Release("26.05", "forky", "sid"))
}
Say = Callable[[str], None]


def host_mirror() -> str:
    """The Debian mirror that this host's apt uses."""
    for path in (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")):
        if not path.exists():
            continue
        for line in path.read_text().splitlines():
            words = line.split()
            if len(words) > 1 and words[0] == "URIs:":
                return words[1]
            if len(words) > 2 and words[0] == "deb":
                return next(w for w in words[1:] if "://" in w)
    raise EnvironmentMissingError("no Debian mirror in /etc/apt: cannot make base images here")


def make_base(release: Release, say: Say) -> str:
    """The base image, pulled or made; says which."""
    if has_image(release.base):
        return "present"
    if docker("pull", "-q", release.base, check=False, limit_s=120).returncode == 0:
        return "pulled"
    if shutil.which("debootstrap") is None:
        raise EnvironmentMissingError("no registry answers and debootstrap is missing: apt-get install debootstrap")
    say(f"making {release.base} by debootstrap")
    with tempfile.TemporaryDirectory(prefix="slurmtwin-base-") as folder:
        root = Path(folder, "root")
        command = ["debootstrap", "--variant=minbase", release.debian, str(root), host_mirror()]
        command += [release.debootstrap_script] if release.debootstrap_script else []
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise EnvironmentMissingError(f"debootstrap {release.debian} failed: {done.stdout[-800:]}")
        for path in Path("/etc/apt/apt.conf.d").glob("99*"):
            if "DPkg" not in path.read_text():
                shutil.copy(path, root / "etc/apt/apt.conf.d")
        for package in (root / "var/cache/apt/archives").glob("*.deb"):
            package.unlink()
        tar = subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE)
        subprocess.run(["docker", "import", "-", release.base], stdin=tar.stdout, check=True, capture_output=True)
        tar.wait()
    return "debootstrap"


def make_image(version: str, say: Say = print) -> None:
    """Build the image of one Slurm version unless it is here."""
    ensure_running()
    release = RELEASES[version]
    if has_image(release.image):
        return
    origin = make_base(release, say)
    say(f"building {release.image} (base image: {origin})")
    with tempfile.TemporaryDirectory(prefix="slurmtwin-image-") as folder:
        Path(folder, "Dockerfile").write_text(DOCKERFILE)
        docker(
            "build", "--network", "host", "--build-arg", f"BASE={release.base}",
            "--label", f"org.slurmtwin.base={origin}",
            "-t", release.image, folder, limit_s=1800,
        )  # fmt: skip


def package_versions(version: str) -> dict[str, str]:
    """Exact Debian versions of what makes the numbers: Slurm, libfaketime, the C library, Python."""
    names = ["slurmctld", "slurmd", "faketime", "libc6", "munge", "mariadb-server", "python3"]
    done = docker("run", "--rm", "--network", "none", RELEASES[version].image, "dpkg-query", "-W", *names, check=False)
    return dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
