"""slurm_defaults.yaml against the option tables and manuals of the three Slurm versions."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_type_hints

import pytest

from slurmtwin.contract.cluster import ClusterConf, PartitionConf
from slurmtwin.workload.options import EFFECTS, GENERATED, VERSIONS, find_option, generated_text, option_table

NAMES = Path(__file__).with_name("data") / "slurm_option_names.txt"
UNDOCUMENTED = {
    "SchedulerParameters": {
        "max_rpc_count", "permit_job_expansion", "whole_pack", "max_job_bf", "bf_yield_rpc_count",
        "preempt_reorder_count", "preempt_strict_order", "preempt_youngest_first",
    },
    "SlurmctldParameters": {"enable_rpc_queue", "preempt_send_user_signal"},
}  # fmt: skip
"""Words that the source reads and the manual of that version does not list."""


def rows() -> list[tuple[str, str, list[str]]]:
    """(version, section, names) as extracted from Slurm's source."""
    lines = [line.split() for line in NAMES.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [(line[0], line[1], line[2:]) for line in lines]


def test_the_quick_form_of_the_table_is_fresh() -> None:
    """slurm_defaults.json is what `slurmtwin schema` makes of the YAML file now."""
    assert GENERATED.read_text(encoding="utf-8") == generated_text()


@pytest.mark.parametrize(("version", "section", "names"), rows())
def test_every_option_of_slurm_is_classified(version: str, section: str, names: list[str]) -> None:
    """No option of any version is unknown, and each is known for that version."""
    table = option_table()[section]
    assert [name for name in names if name.lower() not in table] == []
    assert [name for name in names if version not in table[name.lower()].versions] == []


@pytest.mark.parametrize(("version", "section", "names"), rows())
def test_no_option_is_invented(version: str, section: str, names: list[str]) -> None:
    """What we call an option of a version is one, or a word that only the source knows."""
    known = {name.lower() for name in names} | {word.lower() for word in UNDOCUMENTED.get(section, ())}
    ours = [option.name for option in option_table()[section].values() if version in option.versions]
    assert [name for name in ours if name.lower() not in known] == []


def test_every_option_has_an_effect_and_every_modelled_one_a_source() -> None:
    """The data is complete: effect, reason or source, a default per version."""
    for section in option_table().values():
        for option in section.values():
            assert option.effect in EFFECTS
            assert option.source if option.effect == "modelled" else option.why
            if option.effect == "modelled":
                assert len(option.defaults) == len(VERSIONS)


def test_every_field_of_the_data_exists_in_the_contract() -> None:
    """`field` names a field of ClusterConf (or of PartitionConf for partition options)."""

    def has(cls: type, path: str) -> bool:
        head, _, rest = path.partition(".")
        hints = get_type_hints(cls)
        if head not in {f.name for f in fields(cls)}:
            return False
        return not rest or (is_dataclass(hints[head]) and has(hints[head], rest))

    for name, section in option_table().items():
        for option in section.values():
            if option.field:
                assert has(PartitionConf if name == "PartitionName" else ClusterConf, option.field), option


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SelectType", ("select/linear", "select/cons_tres", "select/cons_tres")),
        ("PriorityType", ("priority/basic", "priority/multifactor", "priority/multifactor")),
        ("TreeWidth", (50, 16, 16)),
        ("TopologyPlugin", ("topology/none", "topology/none", "topology/flat")),
        ("MessageTimeout", (10, 10, 10)),
        ("SlurmdTimeout", (300, 300, 300)),
        ("MaxArraySize", (1001, 1001, 1001)),
    ],
)
def test_defaults_are_those_of_slurm_md_0(name: str, expected: tuple[object, ...]) -> None:
    """slurm.md 0: defaults that changed between versions, and some that did not."""
    option = find_option("slurm.conf", name)
    assert option is not None
    assert option.defaults == expected
