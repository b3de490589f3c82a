"""The node image: present, pulled or built, whichever is shortest on this machine, and said."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin_e2e.docker import docker, ensure_running, has_image, remove
from slurmtwin_e2e.images import Release, make_base
from slurmtwin_e2e.kind import host, programs
from slurmtwin_e2e.kind.cluster import IMPORT
from slurmtwin_e2e.kind.pins import CONTROL_PLANE_PROGRAMS, KUBERNETES_PROGRAMS, data_folder, pins, recipe_digest
from slurmtwin_e2e.kind.programs import Say

RECIPE_LABEL: Final = "org.slurmtwin.recipe"
BUILDER: Final = "slurmtwin-node-build"
NETWORK_STAGE: Final = "slurmtwin/network-pod:build"
NODE_STAGE: Final = "slurmtwin/node:build"
PACKAGES: Final = "/kind/packages"
STORE: Final = "/var/lib/containerd"
SEED: Final = "/kind/seed"
"""Where the node image holds a containerd's store with all images of the cluster, unpacked."""
RECORDED_PACKAGES: Final = ("containerd", "runc", "systemd", "iptables", "containernetworking-plugins", "catatonit")
Origin = Literal["present", "pulled", "built"]


def is_present() -> bool:
    """Is a node image of exactly this recipe in the local Docker?"""
    done = docker("image", "inspect", "-f", "{{json .Config.Labels}}", pins().node_image, check=False)
    if done.returncode:
        return False
    return (json.loads(done.stdout) or {}).get(RECIPE_LABEL) in (recipe_digest(), "pulled")


def ensure(say: Say) -> Origin:
    """Make sure that the node image is here; returns how. The daemon must be prepared (host.prepare) before."""
    ensure_running()
    if is_present():
        say(f"node image {pins().node_image}: present")
        return "present"
    origin: Origin = "pulled" if _pull(say) else "built"
    if origin == "built":
        _build(say)
    say(f"node image {pins().node_image}: {origin}")
    return origin


def _pull(say: Say) -> bool:
    """kind's own image, where a registry answers and this host needs no wrapper round runc inside the nodes."""
    if host.lacks_capability():
        return False
    if docker("pull", "-q", pins().pulled, check=False, limit_s=600).returncode:
        return False
    say(f"pulled {pins().pulled}")
    dockerfile = f"FROM {pins().pulled}\nLABEL {RECIPE_LABEL}=pulled\n"
    with tempfile.TemporaryDirectory(prefix="slurmtwin-node-") as folder:
        Path(folder, "Dockerfile").write_text(dockerfile)
        docker("build", "-q", "-t", pins().node_image, folder)
    return True


def _build(say: Say) -> None:
    release = Release(version="node", debian=pins().debian)
    say(f"base image {release.base}: {make_base(release, say)}")
    built = programs.build(say)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="slurmtwin-node-") as name:
        folder = Path(name)
        _context(folder, built)
        say("building the node's file system")
        for target, tag in (("network-pod", NETWORK_STAGE), ("node", NODE_STAGE)):
            docker(
                "build", "--network", "host", "--target", target, "--build-arg", f"BASE={release.base}",
                "-t", tag, str(folder), limit_s=1200,
            )  # fmt: skip
        say("packing the cluster's images")
        _images(folder, built)
        _commit()
    docker("rmi", *pins().archived, NETWORK_STAGE, NODE_STAGE, check=False)
    say(f"node image made in {time.monotonic() - start:.0f} s")


def _context(folder: Path, built: Mapping[str, Path]) -> None:
    """What the Dockerfile copies: our files, the one Kubernetes binary and its names, the runc wrapper."""
    data = data_folder()
    for part in ("files", "manifests"):
        shutil.copytree(data / part, folder / part)
    shutil.copy(data / "Dockerfile", folder)
    Path(folder, "version").write_text(f"{pins().kubernetes}\n")
    shutil.copy2(built["runc"], folder / "runc")
    names = folder / "programs"
    names.mkdir()
    shutil.copy2(built["kubernetes"], names / "kubernetes")
    for program in KUBERNETES_PROGRAMS:
        (names / program).symlink_to("kubernetes")
    for path in (folder / "runc", names / "kubernetes"):
        path.chmod(0o755)


def _import(folder: Path, tag: str, binary: Path, inside: str, entrypoint: tuple[str, ...]) -> None:
    """An image that is one static binary."""
    root = folder / "root"
    target = root / inside.lstrip("/")
    target.parent.mkdir(parents=True)
    shutil.copy2(binary, target)
    target.chmod(0o755)
    archive = folder / "root.tar"
    subprocess.run(["tar", "--owner=0", "--group=0", "-C", str(root), "-cf", str(archive), "."], check=True)
    path = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    docker("import", "--change", path, "--change", f"ENTRYPOINT {json.dumps(entrypoint)}", str(archive), tag)
    shutil.rmtree(root)
    archive.unlink()


def _images(folder: Path, built: Mapping[str, Path]) -> None:
    pin = pins()
    container = docker("create", NODE_STAGE).stdout.strip()
    try:
        docker("cp", f"{container}:/usr/bin/catatonit", str(folder / "catatonit"))
    finally:
        remove([container])
    etcd = "/usr/local/bin/etcd"
    provisioner = "/usr/local/bin/local-path-provisioner"
    _import(folder, pin.pause_image, folder / "catatonit", "/pause", ("/pause", "-P"))
    _import(folder, pin.etcd_image, built["etcd"], etcd, (etcd,))
    _import(folder, pin.coredns_image, built["coredns"], "/coredns", ("/coredns",))
    _import(folder, pin.local_path_image, built["local-path-provisioner"], provisioner, (provisioner,))
    # one image under five names: its layers are stored and unpacked once
    shared = [f"registry.k8s.io/{name}:{pin.kubernetes}" for name in (*CONTROL_PLANE_PROGRAMS, "kube-proxy")]
    for tag in (*shared, pin.network_pod_image):
        docker("tag", NETWORK_STAGE, tag)


def _commit() -> None:
    """Put the images into a containerd's store, unpacked, keep the store in SEED, and that as the node image.

    Unpacking mounts, so the container is privileged; the store lies on a volume while containerd runs, because an
    overlay cannot be written on another. A node makes links to SEED when it boots (files/entrypoint).
    """
    remove([BUILDER])
    docker(
        "run", "-d", "--name", BUILDER, "--network", "none", "--privileged", "-v", STORE,
        "--entrypoint", "sleep", NODE_STAGE, "infinity",
    )  # fmt: skip
    try:
        docker("exec", "-d", BUILDER, "containerd")
        _wait_for_containerd()
        save = subprocess.Popen(["docker", "save", *pins().archived], stdout=subprocess.PIPE)
        done = subprocess.run(
            ["docker", "exec", "-i", BUILDER, *IMPORT], stdin=save.stdout, capture_output=True, text=True
        )  # fmt: skip
        assert save.stdout is not None
        save.stdout.close()  # an import that gave up must not leave the other waiting for a reader
        if save.wait() or done.returncode:
            raise EnvironmentMissingError(f"images do not import: {done.stderr.strip()[-800:]}")
        docker("exec", BUILDER, "sh", "-c", "pkill containerd; while pgrep -x containerd; do sleep 0.1; done")
        docker("exec", BUILDER, "cp", "-a", STORE, SEED)
        docker(
            "commit", "--change", f"LABEL {RECIPE_LABEL}={recipe_digest()}", "--change", "CMD []",
            "--change", 'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]', BUILDER, pins().node_image,
        )  # fmt: skip
    finally:
        with suppress(EnvironmentMissingError):
            docker("rm", "-f", "-v", BUILDER, check=False)


def _wait_for_containerd() -> None:
    limit = time.monotonic() + 30
    while docker("exec", BUILDER, "ctr", "version", check=False).returncode:
        if time.monotonic() > limit:
            raise EnvironmentMissingError("containerd does not start in the node image")
        time.sleep(0.3)


def versions() -> dict[str, str]:
    """What the node image holds, for a run's manifest: pinned versions, and what Debian had on the day it was made."""
    pin = pins()
    out = {"kubernetes": pin.kubernetes, "kind": pin.kind}
    for name, image in (("etcd", pin.etcd_image), ("coredns", pin.coredns_image)):
        out[name] = image.rpartition(":")[2]
    listed = docker("run", "--rm", "--network", "none", "--entrypoint", "cat", pin.node_image, PACKAGES, check=False)
    rows = dict(line.split("\t", 1) for line in listed.stdout.splitlines() if "\t" in line)
    return out | {name: rows[name] for name in RECORDED_PACKAGES if name in rows}


def has_base() -> bool:
    """Is the Debian base image here?"""
    return has_image(Release(version="node", debian=pins().debian).base)
