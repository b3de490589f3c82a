"""doctor says for every need whether it is met, and the command that meets it; it changes nothing."""

from __future__ import annotations

import pytest

from slurmtwin_e2e import doctor as doctor_module
from slurmtwin_e2e.images import RELEASES


def findings(
    monkeypatch: pytest.MonkeyPatch, installed: bool, running: bool, images: tuple[str, ...] = ()
) -> dict[str, doctor_module.Finding]:
    """examine() on a machine like this, by need."""
    monkeypatch.setattr(doctor_module, "is_installed", lambda: installed)
    monkeypatch.setattr(doctor_module, "is_running", lambda: running)
    monkeypatch.setattr(doctor_module, "has_image", lambda name: name in images)
    return {found.need: found for found in doctor_module.examine()}


def test_without_docker_every_need_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """No question is put to a daemon that is not there."""
    found = findings(monkeypatch, False, False, tuple(r.image for r in RELEASES.values()))
    assert not found["docker command"].met
    assert not found["docker daemon"].met
    assert not any(found[f"image {release.image}"].met for release in RELEASES.values())
    assert all(finding.remedy for finding in found.values())


def test_each_version_has_an_image_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is here does not stand for the others."""
    found = findings(monkeypatch, True, True, (RELEASES["24.11"].image,))
    met = {version: found[f"image {release.image}"].met for version, release in RELEASES.items()}
    assert met == {"22.05": False, "24.11": True, "26.05": False}


def test_a_complete_machine_lacks_nothing_of_the_slurm_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apart from debootstrap, which only a machine without a registry needs."""
    found = findings(monkeypatch, True, True, tuple(r.image for r in RELEASES.values()))
    assert [
        f.need for f in found.values() if not f.met and f.need.startswith(("docker", "image slurmtwin/slurm"))
    ] == []
