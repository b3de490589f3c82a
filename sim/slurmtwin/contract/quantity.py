"""Amounts: Kubernetes quantities and Slurm memory, as integers.

Kubernetes: apimachinery resource.Quantity (suffixes n u m k M G T P E, Ki Mi Gi Ti Pi Ei, exponents).
Slurm: `--mem` and RealMemory: a bare number is mebibytes, suffix K, M, G or T (man sbatch 22.05).
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from typing import Final

from slurmtwin.contract.errors import InputError

KIB: Final = 1024
MIB: Final = 1024 * KIB
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL: Final = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([KMGTPE]i|[numkMGTPE])?)\Z")
_SLURM_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTkmgt]?)[bB]?\Z")
_SLURM_SIZE: Final = {
    "K": Decimal(1) / 1024,
    "": Decimal(1),
    "M": Decimal(1),
    "G": Decimal(1024),
    "T": Decimal(1024 * 1024),
}


def parse_quantity(text: str) -> Decimal:
    """The exact value of a Kubernetes quantity (`250m`, `512Mi`, `1e3`). Raises InputError otherwise."""
    found = _QUANTITY.match(text.strip())
    if not found:
        raise InputError(f"not a Kubernetes quantity: {text!r}", hint="for example 250m, 2, 512Mi, 1.5Gi, 1e3")
    number = Decimal(found[1])
    if found[2]:
        return number.scaleb(int(found[2][1:]))
    suffix = found[3] or ""
    if suffix in _BINARY:
        return number * Decimal(1024 ** _BINARY[suffix])
    return number.scaleb(3 * _DECIMAL[suffix])


def milli_cpu(text: str) -> int:
    """CPU as integer thousandths, rounded up as Quantity.MilliValue does."""
    return int((parse_quantity(text) * 1000).to_integral_value(rounding=ROUND_CEILING))


def quantity_bytes(text: str) -> int:
    """Memory as integer bytes, rounded up as Quantity.Value does."""
    return int(parse_quantity(text).to_integral_value(rounding=ROUND_CEILING))


def parse_slurm_mib(text: str) -> int:
    """Mebibytes of a Slurm memory amount (`4000`, `4G`, `512K`), rounded up. Raises InputError otherwise."""
    found = _SLURM_MEMORY.match(text.strip())
    if not found:
        raise InputError(f"not a Slurm memory size: {text!r}", hint="a number of MiB, or with K, M, G or T")
    mib = Decimal(found[1]) * _SLURM_SIZE[found[2].upper()]
    return int(mib.to_integral_value(rounding=ROUND_CEILING))
