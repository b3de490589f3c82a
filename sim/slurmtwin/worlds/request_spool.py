"""The requests of one run: looked at ahead, written down as they are taken, and read again if the run begins anew."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import IO, Final

from slurmtwin.contract.jobs import JobRequest, to_dict

_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


class RequestSpool:
    """Iterate once over each of `taken()` and `again()`. Use it as a context."""

    def __init__(self, requests: Iterable[JobRequest], target: Path | None) -> None:
        """target: RUN/jobs.jsonl, where every request that is taken stands afterwards."""
        self._source = iter(requests)
        self._target = target
        self._stream: IO[str] | None = None

    def ahead(self, count: int) -> list[JobRequest]:
        """The first `count` requests, or all; before the first one is taken."""
        first = list(islice(self._source, count))
        self._source = chain(first, self._source)
        return first

    def __enter__(self) -> RequestSpool:
        if self._target is not None:
            self._stream = self._target.open("w+", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            self._stream.close()

    def keep(self) -> None:
        """What is taken must be readable again, target or not."""
        if self._stream is None:
            self._stream = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  __exit__ closes it

    def taken(self) -> Iterator[JobRequest]:
        """The requests that nobody has taken yet."""
        stream = self._stream
        for request in self._source:
            if stream is not None:
                stream.write(_encode(to_dict(request)) + "\n")
            yield request

    def again(self) -> Iterator[JobRequest]:
        """All requests from the first one on; keep() or a target came first."""
        stream = self._stream
        assert stream is not None
        stream.seek(0)
        count = sum(1 for _ in stream)
        stream.seek(0)
        for _ in range(count):
            line = stream.readline()
            at = stream.tell()
            yield JobRequest(**json.loads(line))
            stream.seek(at)
        stream.seek(0, 2)
        yield from self.taken()
