"""Texts of times, amounts, node lists and arrays: round trips and refusals on generated cases."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmtwin.contract.clock import (
    SECOND,
    UNLIMITED,
    format_duration,
    format_slurm_time,
    parse_duration,
    parse_slurm_time,
)
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.hostlist import MAX_HOSTS, compress, expand
from slurmtwin.contract.jobs import parse_array
from slurmtwin.contract.quantity import milli_cpu, parse_quantity, parse_slurm_mib, quantity_bytes

pytestmark = pytest.mark.property


@given(st.integers(0, 10**9))
def test_a_slurm_time_reads_back(seconds: int) -> None:
    """format_slurm_time is the inverse of parse_slurm_time on whole seconds."""
    assert parse_slurm_time(format_slurm_time(seconds * SECOND)) == seconds * SECOND


@given(st.integers(-(10**18), 10**18))
def test_a_duration_reads_back(ns: int) -> None:
    """format_duration is the inverse of parse_duration on whole microseconds."""
    ns -= ns % 1000
    assert parse_duration(format_duration(ns)) == ns


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 300), ("5:30", 330), ("1:00:00", 3600), ("2-0", 172_800), ("1-1:1", 90_060), ("1-1:1:1", 90_061), ("0", 0)],
)
def test_the_six_forms_of_sbatch_time(text: str, seconds: int) -> None:
    """man sbatch --time."""
    assert parse_slurm_time(text) == seconds * SECOND


@pytest.mark.parametrize("text", ["UNLIMITED", "infinite", "-1"])
def test_the_words_for_no_limit(text: str) -> None:
    """In any case, and -1."""
    assert parse_slurm_time(text) == UNLIMITED


@settings(max_examples=300)
@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No parser of the contract raises anything but InputError."""
    for parse in (parse_slurm_time, parse_duration, parse_quantity, parse_slurm_mib, expand, parse_array):
        with suppress(InputError):
            parse(text)  # type: ignore[operator]


NAMES = st.lists(
    st.builds("{}{:0{}d}".format, st.sampled_from(["n", "gpu-", "a1b", "x"]), st.integers(0, 1200), st.integers(1, 4)),
    min_size=1, max_size=60,
)  # fmt: skip


@settings(max_examples=300)
@given(NAMES)
def test_a_node_list_reads_back(names: list[str]) -> None:
    """expand(compress(names)) gives each name once; compressing again changes nothing."""
    short = compress(names)
    assert sorted(expand(short)) == sorted(set(names))
    assert compress(expand(short)) == short


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n[1-3,7]", ["n1", "n2", "n3", "n7"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("a[1-2]b[3-4]", ["a1b3", "a1b4", "a2b3", "a2b4"]),
        ("x,y[1]", ["x", "y1"]),
    ],
)
def test_node_lists_are_slurm_s(text: str, names: list[str]) -> None:
    """src/common/hostlist.c: ranges, leading zeros, several brackets."""
    assert expand(text) == names


LONG = "9" * 5000
"""More digits than int() takes."""


@pytest.mark.parametrize(
    "text",
    ["n[1-", "n]1[", "n[3-1]", f"n[0-{MAX_HOSTS}]", "n[a-b]", "n[[1]]", "n[²]", f"n[{LONG}]", f"n{LONG}"],
    ids=range(9),
)
def test_a_broken_node_list_is_refused(text: str) -> None:
    """Syntax and size."""
    with pytest.raises(InputError):
        expand(text)


@pytest.mark.parametrize("parse", [parse_slurm_time, parse_duration, parse_slurm_mib, parse_array])
@pytest.mark.parametrize("text", [f"{LONG}-{LONG}:1", f"{LONG}s", "1²", "--1", "1:2:3:4"])
def test_absurd_texts_are_refused(parse: Callable[[str], object], text: str) -> None:
    """Numbers of thousands of digits and foreign digits are an InputError, not a traceback."""
    with pytest.raises(InputError):
        parse(text)


@given(st.integers(0, 10**15), st.sampled_from(["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"]))
def test_a_quantity_has_the_value_that_its_suffix_says(number: int, suffix: str) -> None:
    """apimachinery resource.Quantity: powers of 1000 and of 1024."""
    power = {"": 0, "k": 1, "M": 2, "G": 3, "T": 4}.get(suffix[:1].lower() if suffix in ("k", "Ki") else suffix[:1], 0)
    base = 1024 if suffix.endswith("i") else 1000
    assert parse_quantity(f"{number}{suffix}") == number * base**power


@pytest.mark.parametrize(
    ("text", "milli"), [("250m", 250), ("1", 1000), ("0.0001", 1), ("1e-4", 1), ("1500u", 2), ("2.5", 2500)]
)
def test_cpu_is_rounded_up_to_a_thousandth(text: str, milli: int) -> None:
    """Quantity.MilliValue rounds up."""
    assert milli_cpu(text) == milli


@pytest.mark.parametrize(("text", "size"), [("1Ki", 1024), ("1.5Gi", 1_610_612_736), ("100m", 1), ("1e3", 1000)])
def test_memory_is_rounded_up_to_a_byte(text: str, size: int) -> None:
    """Quantity.Value rounds up."""
    assert quantity_bytes(text) == size


@given(st.integers(0, 10**9))
def test_slurm_memory_is_mebibytes_rounded_up(amount: int) -> None:
    """A bare number is MiB; K rounds up, G and T multiply."""
    assert parse_slurm_mib(str(amount)) == amount
    assert parse_slurm_mib(f"{amount}K") == -(-amount // 1024)
    assert parse_slurm_mib(f"{amount}G") == amount * 1024
    assert parse_slurm_mib(f"{Decimal(amount) / 4}g") == -(-amount * 1024 // 4)


@given(st.sets(st.integers(0, 400), min_size=1, max_size=30), st.integers(0, 50))
def test_an_array_reads_back(indices: set[int], most: int) -> None:
    """A list of indices, and the bound on running tasks."""
    text = ",".join(map(str, sorted(indices))) + (f"%{most}" if most else "")
    assert parse_array(text) == (sorted(indices), most)


@pytest.mark.parametrize(
    ("text", "indices"), [("0-9:4", [0, 4, 8]), ("1-3,3,7", [1, 2, 3, 7]), ("5", [5]), ("0-2%1", [0, 1, 2])]
)
def test_arrays_are_sbatch_s(text: str, indices: list[int]) -> None:
    """man sbatch --array: ranges, steps, lists."""
    assert parse_array(text)[0] == indices
