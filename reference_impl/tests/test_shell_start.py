"""How the process begins: outside a cluster, with bad settings, with a folder to record in."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin_operator.shell import logs
from slurmtwin_operator.shell.__main__ import main
from slurmtwin_operator.shell.kube_api import KubeApi


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """What the process does to logging is undone."""
    root, kept = logging.getLogger(), (logging.getLogger().handlers[:], logging.getLogger().level, logs.log.level)
    yield
    for handler in set(logs.log.handlers):
        handler.close()
        logs.log.removeHandler(handler)
    root.handlers[:], level, ours = kept
    root.setLevel(level)
    logs.log.setLevel(ours)


def test_outside_a_cluster_it_says_where_it_belongs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 4, no traceback."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert main() == 4
    assert "the operator runs as a pod" in capsys.readouterr().err


def test_a_bad_setting_is_named_and_its_value_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2."""
    monkeypatch.setenv("SLURMTWIN_PORT", "secret-text")
    assert main() == 2
    said = capsys.readouterr().err
    assert "SLURMTWIN_PORT" in said
    assert "secret-text" not in said


def test_without_a_pod_there_is_no_api_server() -> None:
    """Its address comes from the kubelet's environment."""
    with pytest.raises(EnvironmentMissingError):
        KubeApi.in_cluster({})


def test_lines_are_json_on_stdout_and_in_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the object and the reasons; of other libraries warnings only, and a mistake with its kind."""
    assert logs.folder_of("", "op") is None
    folder = logs.folder_of(str(tmp_path), "op")
    assert folder is not None
    logs.configure(folder)
    logs.say("pass", object="NodeSet ns/w", reasons=["Created w-0"], empty="")
    logging.getLogger("kopf").info("noise")
    try:
        raise ZeroDivisionError("by nothing")
    except ZeroDivisionError:
        logs.log.exception("pass broken")
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    kept = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert shown == kept
    assert [line["say"] for line in kept] == ["pass", "pass broken"]
    assert kept[0]["reasons"] == ["Created w-0"]
    assert "empty" not in kept[0]
    assert kept[1]["error"] == "ZeroDivisionError: by nothing"
