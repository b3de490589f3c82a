"""Sphinx: MyST pages and generated reference, built with warnings as errors (`nox -s docs`)."""

from __future__ import annotations

from pathlib import Path

import slurmtwin

project = "slurmtwin"
author = "the slurmtwin developers"
release = slurmtwin.__version__
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"slurmtwin {release}"
exclude_patterns = ["_build"]
suppress_warnings: list[str] = []
nitpicky = True
assert Path(__file__).with_name("index.md").exists()


def _generate(_app: object) -> None:
    """Write the reference pages from the code before anything is read."""
    from slurmtwin.cli.reference import pages

    folder = Path(__file__).parent / "reference"
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        target = folder / name
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


def setup(app: object) -> None:
    """Sphinx calls this."""
    app.connect("builder-inited", _generate)  # type: ignore[attr-defined]
