"""What a request may be answered with instead of an object (HTTP status in the docstring)."""

from __future__ import annotations


class ApiError(Exception):
    """A request that failed."""


class NotFoundError(ApiError):
    """404: no such object."""


class AlreadyExistsError(ApiError):
    """409 at a create."""


class ConflictError(ApiError):
    """409: the object is not the one that the request was made for (resource_version or uid)."""


class InvalidError(ApiError):
    """422: the server refuses the object."""


class TooManyRequestsError(ApiError):
    """429: an eviction that a budget does not allow now."""


class UnreachableError(ApiError):
    """No answer: the server is down, or the network between is cut."""


def refused(answer: object) -> bool:
    """A write failed; to a writer of a status it is no failure that the object is gone."""
    return isinstance(answer, ApiError) and not isinstance(answer, NotFoundError)
