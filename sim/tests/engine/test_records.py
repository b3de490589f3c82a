"""Records that are cheap to make and to copy are what frozen dataclasses would be."""

from __future__ import annotations

import dataclasses

import pytest

from slurmtwin.contract.events import Kind
from slurmtwin.engine.event_sink import EventSink, detail_text
from slurmtwin.engine.records import changed
from slurmtwin.models.api_server.objects import Condition, Meta, Pod, PodStatus

RECORDS = [
    (Meta(name="a", namespace="d", labels={"app": "x"}), {"resource_version": 7, "deletion_ns": 5}),
    (PodStatus(phase="Running", conditions={"Ready": Condition("True", 3)}), {"phase": "Failed", "ip": "10.0.0.1"}),
    (Pod(meta=Meta(name="a")), {"status": PodStatus(phase="Failed")}),
]


@pytest.mark.parametrize(("record", "values"), RECORDS)
def test_a_copy_is_that_of_dataclasses(record: object, values: dict[str, object]) -> None:
    """Equal to replace(), and the first one is as it was."""
    before = dataclasses.replace(record)  # type: ignore[type-var]
    copy = changed(record, **values)
    assert copy == dataclasses.replace(record, **values)  # type: ignore[type-var]
    assert record == before
    assert type(copy) is type(record)


def test_a_key_goes_with_its_copies() -> None:
    """It is no value of its own."""
    meta = Meta(name="a", namespace="d")
    assert changed(meta, resource_version=7).key == "d/a" == meta.key
    assert Meta(name="node").key == "node"


def test_records_are_hashed_by_their_values() -> None:
    """As frozen dataclasses are."""
    assert hash(Condition("True", 3)) == hash(Condition("True", 3))


def test_rows_that_nobody_keeps_have_the_hash_of_those_that_are_kept() -> None:
    """Narrow rows and rows of pods."""
    hashes = []
    for keep in (True, False):
        sink = EventSink("r", "twin", keep=keep)
        sink.emit(1, Kind.JOB_STARTED, "slurmctld", 5, "n1", None, None, detail_text(state="RUNNING"))
        sink.emit_pod(2, Kind.POD_READY, "apiserver", "a.1", "n1", 3, "s", detail_text(pod="d/a", text='"\\é'), 0)
        hashes.append(sink.event_hash)
    assert hashes[0] == hashes[1]
