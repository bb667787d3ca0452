"""The kinds of failure. Stores and engine raise only these; each front end has one table from kind to wire code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


class MayflyError(Exception):
    """Base of all kinds. `retryable`: the same request may succeed later without being changed."""

    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **detail: object) -> None:
        super().__init__(message)
        self.message = message
        self.detail: Mapping[str, object] = detail


def drop_frames(error: BaseException) -> None:
    """Drop the tracebacks of an error that was reported, and of its causes.

    Their frames keep requests and documents. Where a frame refers to its own error, that would last until the next collection,
    and collections are rare.
    """
    following: BaseException | None = error
    seen: set[int] = set()
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        following.__traceback__ = None
        following = following.__cause__ or following.__context__


class BadRequest(MayflyError):
    """The request is malformed or breaks a rule of the protocol."""


class BadQuery(BadRequest):
    """The query text is wrong. Detail may hold `code`, `start` and `end` (characters of the text)."""


class Unsupported(BadRequest):
    """The real service can do this and Mayfly cannot; the message names the feature."""


class TooLarge(MayflyError):
    """A body, item or result is over its limit."""


class Unauthenticated(MayflyError):
    """The caller's identity could not be established."""


class Forbidden(MayflyError):
    """The caller is known and lacks the right."""


class NotFound(MayflyError):
    """The record does not exist, or is hidden."""


class OwnerNotFound(NotFound):
    """The database or container that should hold it does not exist."""


class Conflict(MayflyError):
    """The key, name or unique value is taken by something visible."""


class Held(Conflict):
    """A legal hold keeps what the request would remove."""


class PreconditionFailed(MayflyError):
    """The record's version is not the one the caller named."""


class WriteConflict(MayflyError):
    """A concurrent transaction committed first; nothing was done."""

    retryable = True


class Throttled(MayflyError):
    """Over the request-unit budget. Detail `retry_after_ms`."""

    retryable = True


class Unavailable(MayflyError):
    """The store cannot work now (closing, disk full, unreachable); nothing was done."""

    retryable = True


class InUse(Unavailable):
    """Another process or node has the store, and one of the two wants to be alone; nothing was done."""


class OutOfSpace(Unavailable):
    """The disk of the store is full, or nearly so; nothing was done. Reads and deletes go on."""


class Overloaded(MayflyError):
    """A budget of the server is used up; nothing was done."""

    retryable = True


class OutcomeUnknown(MayflyError):
    """A commit failed in a way that leaves open whether it happened."""


class Corrupt(MayflyError):
    """Stored bytes do not match their checksum."""


class TimedOut(MayflyError):
    """The request's deadline passed; nothing was done."""

    retryable = True
