"""A plan on disk: plan.json, and the table behind each figure as CSV and Parquet."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from slurmtwin.contract.manifest import write_atomic

Rows = list[dict[str, Any]]


def plan_tables(document: dict[str, Any]) -> dict[str, Rows]:
    """Name -> rows: curve, replay, judged counts, shapes, what-if."""
    curve = [
        {"nodes": point["nodes"], "met": point["met"], **row} for point in document["curve"] for row in point["classes"]
    ]
    judged = [
        {"nodes": p["nodes"], "jobs": p["jobs"], "met": p["met"], **figure}
        for p in document["judge"]["points"]
        for figure in p["figures"]
    ]
    what_if = [
        {"assumption": row["assumption"], "nodes": row["nodes"], "target": target, "figure_s": figure}
        for row in document["what_if"] for target, figure in zip(document["target"], row["figures_s"], strict=True)
    ]  # fmt: skip
    tables = {
        "curve": curve, "replay": document["replay"]["classes"], "judged": judged, "shapes": document["by_shape"],
        "what_if": what_if, "power_saving": [document["power_saving"]], "costs": [
            {name: value for name, value in row.items() if name != "counts"} for row in document.get("costs", [])
        ],
    }  # fmt: skip
    return {name: rows for name, rows in tables.items() if rows}


def write_tables(folder: Path, tables: dict[str, Rows]) -> None:
    """FOLDER/NAME.csv and FOLDER/NAME.parquet for each table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        columns = list(dict.fromkeys(key for row in rows for key in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomic(folder / f"{name}.csv", text.getvalue())
        buffer = io.BytesIO()
        pq.write_table(pa.table({key: [row.get(key) for row in rows] for key in columns}), buffer)
        write_atomic(folder / f"{name}.parquet", buffer.getvalue())


def write_plan(folder: Path, document: dict[str, Any]) -> None:
    """plan.json and the tables."""
    write_atomic(folder / "plan.json", json.dumps(document, indent=1, sort_keys=True) + "\n")
    write_tables(folder / "tables", plan_tables(document))
