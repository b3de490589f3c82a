"""A test that cannot fail is a bug: every planted mistake of the shell turns the test that is named red."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest
import shell_mutations


@pytest.mark.parametrize("mutation", shell_mutations.MUTATIONS, ids=lambda mutation: mutation.name)
def test_is_caught(
    mutation: Any, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """The named test is green as things are, and red with the mistake."""
    named = getattr(importlib.import_module(mutation.module), mutation.test)
    arguments = shell_mutations.arguments(named)
    named(**arguments)
    red: BaseException | None = None
    with monkeypatch.context() as patch:
        mutation.plant(patch)
        try:
            named(**arguments)
        except (Exception, pytest.fail.Exception) as error:
            red = error
    assert red is not None, f"{mutation.test} does not see it"
    record_property("mutation", f"shell: {mutation.name}")
    record_property("red", f"{mutation.test}: {type(red).__name__}")


def test_there_are_enough() -> None:
    """At least fifteen mistakes."""
    assert len(shell_mutations.MUTATIONS) >= 15
