"""Lines of slurm.conf as src/common/parse_config.c reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmtwin.contract.errors import InputError
from slurmtwin.contract.scenario import Scenario
from slurmtwin.contract.slurm_files import (
    conf_text,
    literal_section,
    parse_conf_text,
    read_conf_file,
    scenario_files,
)


def pairs(text: str) -> list[tuple[int, tuple[tuple[str, str], ...]]]:
    """(line, pairs) of each logical line."""
    return [(line.where.line, line.pairs) for line in parse_conf_text(text, "slurm.conf")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1", [(1, (("A", "1"),))]),
        ("# only words\n\nA=1 # tail", [(3, (("A", "1"),))]),
        ("A = 1  B=2", [(1, (("A", "1"), ("B", "2")))]),
        ('Reason="two words" State=DOWN', [(1, (("Reason", "two words"), ("State", "DOWN")))]),
        ("A=1\\\n B=2\nC=3", [(1, (("A", "1"), ("B", "2"))), (3, (("C", "3"),))]),
        ("A=x\\#y", [(1, (("A", "x#y"),))]),
        ("A=1\r\nB=2\r\n", [(1, (("A", "1"),)), (2, (("B", "2"),))]),
        ("A+=1", [(1, (("A", "1"),))]),
        ('A=""', [(1, (("A", ""),))]),
        ("A=1 \\", [(1, (("A", "1"),))]),
    ],
)
def test_a_line_is_read_as_slurm_reads_it(text: str, expected: object) -> None:
    """Comments, quotes, continuations, escapes and spaces around = mean what they mean to Slurm."""
    assert pairs(text) == expected


@pytest.mark.parametrize("text", ["A", "A=1 junk", 'A="open end', "=1", "A=\0", "Include other.conf"])
def test_what_is_no_line_is_an_error_with_its_place(text: str) -> None:
    """Text that Slurm cannot read is an InputError at its line."""
    with pytest.raises(InputError) as caught:
        pairs(f"Good=1\n{text}")
    assert caught.value.where is not None
    assert caught.value.where.line == 2


def test_include_is_relative_to_the_first_file_and_keeps_places(tmp_path: Path) -> None:
    """Included lines stand where the Include stands and carry their own file and line."""
    (tmp_path / "slurm.conf").write_text("A=1\nInclude sub/b.conf\nC=3\n", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.conf").write_text("\nB=2\ninclude c.conf\n", encoding="utf-8")
    (tmp_path / "c.conf").write_text("D=4\n", encoding="utf-8")
    lines = read_conf_file(tmp_path / "slurm.conf")
    assert [line.pairs[0][0] for line in lines] == ["A", "B", "D", "C"]
    assert str(lines[1].where) == f"{tmp_path / 'sub' / 'b.conf'}:2"


@pytest.mark.parametrize("text", ["Include missing.conf", "Include *.conf", "Include slurm.conf"])
def test_an_include_that_cannot_be_read_is_an_error_at_its_line(tmp_path: Path, text: str) -> None:
    """Missing files, patterns and files that include themselves end with a place, not in a loop."""
    (tmp_path / "slurm.conf").write_text(f"A=1\n{text}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"slurm\.conf:2"):
        read_conf_file(tmp_path / "slurm.conf")


def test_comments_in_latin_1_do_not_stop_a_site(tmp_path: Path) -> None:
    """A file that is not UTF-8 is read as Latin-1."""
    (tmp_path / "slurm.conf").write_bytes("# für alle\nA=1\n".encode("latin-1"))
    assert read_conf_file(tmp_path / "slurm.conf")[0].pairs == (("A", "1"),)


def scenario(tmp_path: Path, slurm: str) -> tuple[Scenario, Path]:
    """A scenario file with that slurm section."""
    from slurmtwin.contract.scenario import load_scenario

    path = tmp_path / "s.yaml"
    path.write_text(f"schema: slurmtwin/scenario/1\nname: s\nslurm:\n{slurm}", encoding="utf-8")
    return load_scenario(path), path


LITERAL = """  conf:
    SchedulerParameters: "bf_continue,defer"
    UsePAM: false
    DownNodes: n2 State=DOWN Reason="no fan"
  nodes:
    - {CPUs: 2, NodeName: "n[1-2]", Feature: a}
  partitions:
    - {PartitionName: p, Nodes: ALL}
"""


def test_literal_options_become_lines_with_their_place_in_the_scenario(tmp_path: Path) -> None:
    """Every literal option carries the scenario's file and line; the naming key comes first."""
    given, path = scenario(tmp_path, LITERAL)
    files = scenario_files(given, tmp_path, path)
    assert [str(line.where) for line in files.slurm_conf] == [f"{path}:{n}" for n in (5, 6, 7, 9, 11)]
    assert conf_text(files.slurm_conf).splitlines() == [
        "SchedulerParameters=bf_continue,defer", "UsePAM=NO", 'DownNodes=n2 State=DOWN Reason="no fan"',
        "NodeName=n[1-2] CPUs=2 Feature=a", "PartitionName=p Nodes=ALL",
    ]  # fmt: skip


def test_rendered_text_reads_back_as_the_same_lines(tmp_path: Path) -> None:
    """conf_text is the inverse of parse_conf_text."""
    given, _ = scenario(tmp_path, LITERAL)
    lines = scenario_files(given).slurm_conf
    again = parse_conf_text(conf_text(lines), "again")
    assert [line.pairs for line in again] == [line.pairs for line in lines]


def test_files_written_out_literally_give_the_same_lines(tmp_path: Path) -> None:
    """literal_section holds what the files say, for worlds that render their own."""
    (tmp_path / "slurm.conf").write_text(
        "SlurmctldHost=a\nSlurmctldHost=b\nKillWait=5\nkillwait=7\nNodeName=n1 CPUs=2\nPartitionName=p Nodes=n1\n"
        'DownNodes=n1 State=DRAIN Reason="x y"\n',
        encoding="utf-8",
    )
    given, _ = scenario(tmp_path, "  files: {slurm_conf: slurm.conf}\n")
    section = literal_section(scenario_files(given, tmp_path), given.slurm)
    assert section.conf["SlurmctldHost"] == "a,b"
    assert section.conf["KillWait"] == "7"
    assert section.nodes == [{"NodeName": "n1", "CPUs": "2"}]
    assert section.conf["DownNodes"] == 'n1 State=DRAIN Reason="x y"'
