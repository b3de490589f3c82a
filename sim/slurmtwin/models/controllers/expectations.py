"""What a controller has asked for and its cache does not show yet (pkg/controller/controller_utils.go v1.34.2).

A create that fails is not waited for, nor is one that was never sent because an earlier one failed
(CreationObserved() of manageReplicas() and manageJob()).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slurmtwin.models.api_server.errors import ApiError

if TYPE_CHECKING:
    from slurmtwin.models.api_server.client import Done
    from slurmtwin.models.controllers.controller import Request


class Expectations:
    """Names of pods by the key of the object that they belong to."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, None]] = {}

    def pending(self, key: str) -> bool:
        """Something of this object is waited for."""
        return bool(self._names.get(key))

    def seen(self, key: str, name: str) -> None:
        """The cache shows the pod, or its end."""
        self._names.get(key, {}).pop(name, None)

    def forget(self, key: str) -> None:
        """The object is gone."""
        self._names.pop(key, None)

    def until_seen(self, key: str, name: str, send: Callable[[Done], None]) -> Request:
        """A request about a pod that is waited for from when it is sent until it is seen, or has failed."""

        def request(done: Done) -> None:
            names = self._names.setdefault(key, {})
            names[name] = None

            def answered(answer: Any) -> None:
                if isinstance(answer, ApiError):
                    names.pop(name, None)
                done(answer)

            send(answered)

        return request
