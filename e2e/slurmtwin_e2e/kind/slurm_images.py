"""Slurm images for pods, built from Debian's unmodified packages (e2e/slurm_images), and the exact versions in them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin_e2e.docker import docker, ensure_running, has_image, image_id
from slurmtwin_e2e.images import RELEASES, Say, make_base
from slurmtwin_e2e.kind.cluster import Cluster

RECIPE: Final = Path(__file__).parents[2] / "slurm_images"
TARGETS: Final = ("slurm", "slurmdbd")
RECIPE_LABEL: Final = "org.slurmtwin.recipe"
RECIPE_FORM: Final = '{{index .Config.Labels "org.slurmtwin.recipe"}}'


def image_name(version: str, target: str = "slurm") -> str:
    """The fixed tag of an image: slurmtwin/pod:26.05 or slurmtwin/slurmdbd:26.05."""
    return f"slurmtwin/{'pod' if target == 'slurm' else target}:{version}"


def recipe_digest() -> str:
    """What the images are made of, beside the packages of the day: Dockerfile and files."""
    digest = hashlib.sha256()
    for path in sorted(p for p in RECIPE.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
        digest.update(f"{path.relative_to(RECIPE)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:32]


def make(version: str, say: Say, target: str = "slurm") -> str:
    """Build an image unless it is here and made of this recipe (layers are cached); returns its name.

    Raises EnvironmentMissingError when the recipe's folder or the package mirror is missing.
    """
    ensure_running()
    name = image_name(version, target)
    if has_image(name) and docker("inspect", "-f", RECIPE_FORM, name).stdout.strip() == recipe_digest():
        return name
    if not (RECIPE / "Dockerfile").exists():
        raise EnvironmentMissingError(f"{RECIPE} is missing: Slurm images are built from a checkout")
    origin = make_base(RELEASES[version], say)
    say(f"building {name} (base image: {origin})")
    docker(
        "build", "--network", "host", "--build-arg", f"BASE={RELEASES[version].base}", "--target", target,
        "--label", f"org.slurmtwin.base={origin}", "--label", f"{RECIPE_LABEL}={recipe_digest()}",
        "-t", name, str(RECIPE), limit_s=1800,
    )  # fmt: skip
    return name


def make_on(base: str, folder: Path, name: str, say: Say) -> str:
    """Build an image of a folder's Dockerfile on top of one of ours, unless it is here and made of both; its name."""
    digest = hashlib.sha256(image_id(base).encode())
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    wanted = digest.hexdigest()[:32]
    if has_image(name) and docker("inspect", "-f", RECIPE_FORM, name).stdout.strip() == wanted:
        return name
    say(f"building {name} on {base}")
    docker(
        "build", "--network", "host", "--build-arg", f"SLURM={base}", "--label", f"{RECIPE_LABEL}={wanted}", "-t", name,
        str(folder), limit_s=900,
    )  # fmt: skip
    return name


def packages(version: str, target: str = "slurm") -> dict[str, str]:
    """Package -> exact Debian version, as the image recorded them when it was built."""
    name = image_name(version, target)
    text = docker("run", "--rm", "--network", "none", "--entrypoint", "cat", name, "/etc/slurmtwin-packages").stdout
    pairs = (line.split("\t", 1) for line in text.splitlines() if "\t" in line)
    return {package.split(":")[0]: found for package, found in pairs}


def load(cluster: Cluster, names: list[str], nodes: Sequence[str] = ()) -> list[str]:
    """Copy images into those nodes (default: all) that lack them or hold an older build; returns what was copied."""
    copied = []
    for name in names:
        wanted = image_id(name)
        mark = f"{wanted}\n"
        stale = [
            node for node in nodes or cluster.nodes
            if docker("exec", node, "cat", _mark_path(name), check=False).stdout != mark
        ]  # fmt: skip
        if not stale:
            continue
        cluster.load([name], stale)
        for node in stale:
            docker("exec", node, "sh", "-c", f"mkdir -p /kind/loaded && echo {wanted} > {_mark_path(name)}")
        copied.append(name)
    return copied


def _mark_path(name: str) -> str:
    return "/kind/loaded/" + name.replace("/", "_").replace(":", "_")
