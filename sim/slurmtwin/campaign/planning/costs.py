"""Cost and energy of a plan, where prices and watts are given: today's nodes beside the answer's."""

from __future__ import annotations

import re
from typing import Any, Final

from slurmtwin.contract.errors import InputError

HOURS_PER_YEAR: Final = 8_766.0


def with_costs(document: dict[str, Any], prices: list[float], watts: list[str]) -> None:
    """Put `costs` into a plan. Raises InputError when there is not one price (or pair of watts) for each shape."""
    shapes = len(document["shapes"])
    for given, word in ((prices, "--price"), (watts, "--watts")):
        if given and len(given) != shapes:
            raise InputError(f"{len(given)} of {word} for {shapes} shapes", hint="one for each shape, in their order")
    pairs = [_watts(text) for text in watts]
    rows = []
    options = (
        ("today", document["today"]["counts"]), ("answer", document["answer"]["counts"]),
        ("enough with 95 % confidence", document["answer"]["counts_95"]),
    )  # fmt: skip
    for name, counts in options:
        cpus = sum(count * cpus for count, cpus in zip(counts, _cpus(document), strict=True))
        busy = min(1.0, document["demand"]["mean_cpus"] / cpus) if cpus else 0.0
        row: dict[str, Any] = {"what": name, "nodes": sum(counts), "counts": list(counts), "utilisation": busy}
        if prices:
            row["per_year"] = sum(n * price for n, price in zip(counts, prices, strict=True)) * HOURS_PER_YEAR
        if pairs:
            power = sum(n * (idle + busy * (full - idle)) for n, (idle, full) in zip(counts, pairs, strict=True))
            row["mwh_per_year"] = power * HOURS_PER_YEAR / 1e6
        rows.append(row)
    document["costs"] = rows


def _cpus(document: dict[str, Any]) -> list[int]:
    return [int(shape.partition("x")[0]) for shape in document["shapes"]]


def _watts(text: str) -> tuple[float, float]:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)/(\d+(?:\.\d+)?)", text.strip())
    if not found or float(found[2]) < float(found[1]):
        raise InputError(f"not watts: {text!r}", hint="IDLE/BUSY for one node, for example 120/400")
    return float(found[1]), float(found[2])
