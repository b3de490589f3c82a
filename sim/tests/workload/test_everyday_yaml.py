"""libyaml's reading of everyday YAML is ruamel.yaml's, and what is not everyday is left to that."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.contract.errors import InputError
from slurmtwin.contract.yaml_file import load_yaml, plain, quick_plain

SHIPPED = sorted(
    path for part in ("scenarios", "reference_impl", "sim", "e2e", "reports") for path in Path(part).rglob("*.yaml")
)
EVERYDAY_SHARE = 0.75
ODD = (
    "a: 010", "a: 0x1f", "a: 0o17", "a: 0b11", "a: 1_000", "a: 12:30:00", "a: 1e3", "a: 1.5e+3", "a: .5", "a: 5.",
    "a: .inf", "a: -.NaN", "a: 2026-11-24", "a: 2026-11-24T10:00:00Z", "a: =", "<<: {b: 1}", "a: &x 1",
    "a: [*x]", "a: !!str 1", "? a\n: 1", "%YAML 1.1\n---\na: NO", "--- a", "a: 1\n...\n", "a: \u00e9", "a: 1\na: 2",
    "1: a\n'1': b", "a: 'not ended", "a: [1", "a: b: c", "\ta: 1", "a: 1\nb\n", "", "# nothing\n", "a:\x0b1",
    "{a: 1, a: 2}",
)  # fmt: skip
SCALARS = st.one_of(
    st.sampled_from((
        "NO", "off", "y", "true", "True", "TRUE", "tRUE", "null", "Null", "~", "", "0", "-0", "+7", "12", "1.50",
        "-0.0", "4s", "10m", "w-[0-3]", "'w-[0-3]'", '"a\\tb"', "a#b", "a #b", "00:10:00", "0-1", "26.05",
        "'26.05'", "a:b", "http://x", "-", "- a", ".", "..", "1.2.3", "1,000", "0777", "'it''s'", "{x: NO}",
        "[1, 'b', off]", "[]", "{}", "|\n   two\n   lines\n", ">-\n   two\n   lines\n\n   more\n", "plain\n   goes on",
    )),
    st.text(st.sampled_from("aNnoyTtf01.-+:_ x,'\"#e=<"), max_size=7),
)  # fmt: skip
KEYS = st.one_of(st.sampled_from(("a", "b", "NO", "on", "1", "1.0", "null", "'a'")), st.text("abn01-", max_size=3))


def read_whole(written: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.yaml"
        path.write_bytes(written)
        return plain(load_yaml(path))


def alike(one: Any, other: Any) -> bool:
    """Equal, and of the same types at each place: 1, 1.0 and True are three things."""
    return repr(one) == repr(other)


@pytest.mark.parametrize("path", SHIPPED, ids=str)
def test_shipped_files_say_the_same_to_both(path: Path) -> None:
    quick = quick_plain(path.read_bytes())
    assert quick is None or alike(quick, plain(load_yaml(path)))


def test_most_scenarios_are_everyday() -> None:
    scenarios = [path for path in SHIPPED if path.parts[0] == "scenarios"]
    read = sum(quick_plain(path.read_bytes()) is not None for path in scenarios)
    assert read >= EVERYDAY_SHARE * len(scenarios) > 100


@pytest.mark.parametrize("written", ODD)
def test_what_is_not_everyday_is_left_alone(written: str) -> None:
    assert quick_plain(written.encode()) is None


@given(st.lists(st.tuples(KEYS, SCALARS, st.booleans()), min_size=1, max_size=5))
def test_whatever_it_reads_the_whole_reader_reads_the_same(pairs: list[tuple[str, str, bool]]) -> None:
    """Mappings of odd and everyday scalars, some below a key of their own."""
    written = "".join(f"{key}:\n  x: {value}\n" if deep else f"{key}: {value}\n" for key, value, deep in pairs).encode()
    quick = quick_plain(written)
    if quick is None:
        return
    try:
        whole = read_whole(written)
    except InputError as error:
        pytest.fail(f"{written!r} is {quick!r} to one and an error to the other: {error}")
    assert alike(quick, whole), written


def test_an_anchor_may_be_given_again(tmp_path: Path) -> None:
    """YAML 1.2, 3.2.2.2: an alias is of the latest one before it. A warning, as ruamel gives, ended the fuzz once."""
    path = tmp_path / "anchors.yaml"
    path.write_text("a: &x 1\nb: *x\nc: &x 2\nd: *x\n", encoding="utf-8")
    assert plain(load_yaml(path)) == {"a": 1, "b": 1, "c": 2, "d": 2}
