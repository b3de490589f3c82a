"""Recordings can be published: no key, token or password stands in any of them, and a run that shows one is refused."""

from __future__ import annotations

import base64
import gzip
import re
from pathlib import Path

import pytest

from slurmtwin.contract.events import Event, Kind
from slurmtwin_e2e.kind.collect.leaks import leaked
from slurmtwin_e2e.kind.manifests.keys import new_keys

RECORDINGS = Path(__file__).parents[2] / "scenarios" / "recordings"
SECRET = re.compile(
    rb"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}|-----BEGIN [A-Z ]*PRIVATE KEY|SLURM_JWT=[^d\"]|X-SLURM-USER-TOKEN|"
    rb"\"(token|password|client-key-data)\" ?: ?\"",
    re.IGNORECASE,
)


@pytest.mark.once
def test_no_recording_holds_a_secret() -> None:
    """Tokens, private keys and passwords are searched for in every file of every run on a cluster."""
    searched, found = 0, []
    for path in sorted(RECORDINGS.glob("*/*/pods/**/*")):
        if path.is_file():
            raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            searched += 1
            found += [str(path)] if SECRET.search(raw) else []
    assert searched > 0
    assert found == []


def test_the_search_finds_a_planted_token() -> None:
    """The tokens of our runs have the form that is searched for."""
    files = new_keys()
    assert SECRET.search(b"..." + files["token"] + b"...")
    assert SECRET.search(b'{"token": "x"}')


FILES = new_keys()


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize("form", ["text", "base64", "hex", "cut"])
def test_a_run_that_shows_its_secret_is_refused(name: str, form: str) -> None:
    """Each key and token, in each form a log might print it."""
    raw = FILES[name]
    coded = base64.b64encode(raw).decode()
    text = {"text": raw.decode(errors="replace"), "base64": coded, "hex": raw.hex(), "cut": coded[:40]}[form]
    if "token" in name:
        text = raw.decode()
    elif form == "text":
        text = coded  # random bytes are never printed as they are
    row = Event(1, Kind.KUBE_EVENT, "collector", detail=f'{{"message":"Error: {text}"}}')
    assert name in leaked([row], FILES)


def test_a_plain_run_shows_nothing() -> None:
    """Another run's token has the same head, and is none of this run's secrets."""
    other = new_keys()["token"].decode()
    rows = [Event(1, Kind.KUBE_EVENT, "collector", detail='{"message":"started"}'),
            Event(1, Kind.KUBE_EVENT, "collector", detail=other.split(".")[0])]  # fmt: skip
    assert leaked(rows, FILES) == []
