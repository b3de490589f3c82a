"""The coverage page says what there is: every number once, homes that exist, reasons for the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from slurmtwin.contract.errors import InputError
from slurmtwin_reports import coverage
from slurmtwin_reports.coverage import FEATURES, SCENARIOS, counts, load_coverage, scenario_files
from slurmtwin_reports.html import Report, render


def test_all_193_rows_have_a_home_or_a_reason() -> None:
    """F1 to F103 and X1 to X90; a home is a file or folder of this repository."""
    entries = load_coverage()
    assert [entry.key for entry in entries] == [*FEATURES, *SCENARIOS]
    assert all(entry.homes or entry.reason for entry in entries)
    assert all(entry.reason for entry in entries if entry.status != "done")
    assert sum(counts(entries).values()) == 193


def test_every_fault_scenario_is_on_the_page() -> None:
    """A file xN-*.yaml of scenarios/faults and scenarios/clusters is a home of XN, and makes it more than open."""
    by_key = {entry.key: entry for entry in load_coverage()}
    files = scenario_files()
    assert len(files) >= 10
    for key, paths in files.items():
        assert by_key[key].homes == tuple(path.as_posix() for path in paths)
        assert by_key[key].status in ("done", "partly")


def test_done_means_recorded(tmp_path: Path) -> None:
    """Two recordings are too few, whatever the data say; the third makes it done."""
    copy_of_data(tmp_path)
    (tmp_path / "scenarios/faults").mkdir(exist_ok=True)
    (tmp_path / "scenarios/faults/x18-rest-away.yaml").write_text("")
    for number in range(1, 4):
        run = tmp_path / f"scenarios/recordings/x18-rest-away/26.05/pods/{number}"
        run.mkdir(parents=True)
        found = next(entry for entry in load_coverage(tmp_path) if entry.key == "X18")
        assert (found.status, found.reason) == ("partly", f"x18-rest-away has {number - 1} recordings")
        (run / "manifest.json").write_text("{}")
    assert next(entry for entry in load_coverage(tmp_path) if entry.key == "X18").status == "done"


def test_a_file_for_the_twin_alone_waits_for_no_recording_where_another_can_be_recorded(tmp_path: Path) -> None:
    """It is a home all the same; alone it is no more than partly there."""
    copy_of_data(tmp_path)
    for room in ("faults", "clusters"):
        (tmp_path / f"scenarios/{room}").mkdir(exist_ok=True)
    alone = tmp_path / "scenarios/faults/x84-partitions.yaml"
    alone.write_text("slurm: {}\n")
    assert next(entry for entry in load_coverage(tmp_path) if entry.key == "X84").status == "partly"
    (tmp_path / "scenarios/clusters/x84-lost.yaml").write_text("slurm: {}\npods: {}\n")
    for number in range(1, 4):
        assert next(entry for entry in load_coverage(tmp_path) if entry.key == "X84").status == "partly"
        run = tmp_path / f"scenarios/recordings/x84-lost/26.05/pods/{number}"
        run.mkdir(parents=True)
        (run / "manifest.json").write_text("{}")
    found = next(entry for entry in load_coverage(tmp_path) if entry.key == "X84")
    assert found.status == "done"
    assert found.homes == ("scenarios/faults/x84-partitions.yaml", "scenarios/clusters/x84-lost.yaml")


def copy_of_data(root: Path, change: Callable[[Any], Any] = lambda document: None) -> None:
    """coverage.yaml below another root, changed; the homes exist there."""
    document = YAML(typ="safe").load(Path("scenarios/coverage.yaml"))
    for part in ("features", "scenarios"):
        for entry in document[part].values():
            for home in entry.get("homes", ()):
                (root / home).mkdir(parents=True, exist_ok=True)
    for key, entry in document["scenarios"].items():
        document["scenarios"][key] = {"status": "open", "reason": "none yet", **entry}
    change(document)
    (root / "scenarios").mkdir(exist_ok=True)
    YAML().dump(document, root / "scenarios/coverage.yaml")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["features"].pop("F7"), "F7 is missing"),
        (lambda d: d["scenarios"].update(X91={"title": "t"}), "X91 is unknown"),
        (lambda d: d["features"]["F1"].update(homes=["nowhere.py"]), "F1: there is no nowhere.py"),
        (lambda d: d["features"]["F1"].pop("homes"), "F1: done needs a home"),
        (lambda d: d["features"]["F39"].pop("reason"), "F39: out needs a reason"),
        (lambda d: d["features"]["F1"].update(status="soon"), "F1: status 'soon'"),
        (lambda d: d["scenarios"]["X18"].update(status="done"), "X18: status 'done'"),
        (lambda d: d["features"]["F1"].update(note="x"), "F1: a mapping"),
        (lambda d: d.update(schema="other"), "not a slurmtwin/coverage/1"),
    ],
)
def test_a_wrong_entry_is_refused(
    tmp_path: Path, change: Callable[[Any], Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Missing, unknown, without home or reason: the page is not made, exit 2."""
    copy_of_data(tmp_path, change)
    with pytest.raises(InputError, match=said):
        load_coverage(tmp_path)
    assert coverage.main(["--root", str(tmp_path)]) == 2
    assert said.split("'")[0] in capsys.readouterr().err


def test_the_page_shows_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """193 rows with their status in the file, the counts on the terminal."""
    assert coverage.main(["--html", str(tmp_path / "c.html")]) == 0
    text = (tmp_path / "c.html").read_text()
    assert text.count("<tr><th>X") == 90
    assert text.count("<tr><th>F") == 103
    assert capsys.readouterr().out.startswith("scenarios: ")
    assert 'id="coverage"' not in render(Report("r"))
