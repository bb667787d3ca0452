"""Errors as problem documents (RFC 9457): title, status, detail, and `hint`, a member of ours with the next thing to try.

Where other surfaces word the hint otherwise, `hint_key` and `hint_values` name it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mayflydb.admin.hints import hint_of, word_hint
from mayflydb.model import errors as kinds
from mayflydb.model.hints import Hint

STATUS: Final[dict[type[kinds.MayflyError], tuple[int, str]]] = {
    kinds.MayflyError: (500, "Internal error"),
    kinds.BadRequest: (400, "Bad request"),
    kinds.TooLarge: (413, "Too large"),
    kinds.Unauthenticated: (401, "Not authenticated"),
    kinds.Forbidden: (403, "Refused"),
    kinds.NotFound: (404, "Not found"),
    kinds.Conflict: (409, "Conflict"),
    kinds.PreconditionFailed: (412, "Precondition failed"),
    kinds.WriteConflict: (409, "Conflict"),
    kinds.Throttled: (429, "Too many requests"),
    kinds.Unavailable: (503, "Store not available"),
    kinds.OutOfSpace: (507, "Disk full"),
    kinds.Overloaded: (503, "Overloaded"),
    kinds.OutcomeUnknown: (500, "Outcome unknown"),
    kinds.Corrupt: (500, "Stored data is damaged"),
    kinds.TimedOut: (503, "Timed out"),
}

CONTENT_TYPE: Final = "application/problem+json"


def problem(status: int, title: str, detail: str, hint: Hint | str = "") -> bytes:
    """Encode a problem document."""
    document: dict[str, Any] = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return msgspec.json.encode(document | hint_members(hint))


def hint_members(hint: Hint | str) -> dict[str, Any]:
    """Return the members of a problem document that tell a hint."""
    if isinstance(hint, str):
        return {"hint": hint} if hint else {}
    return {"hint": word_hint(hint, "http"), "hint_key": hint.key} | (
        {"hint_values": hint.values} if hint.values else {}
    )


def problem_of(error: kinds.MayflyError) -> tuple[int, bytes]:
    """Return the status and the document of an error."""
    # The nearest base class that the table has: a new kind of error needs no row of its own.
    status, title = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    return status, problem(status, title, error.message, hint_of(error))
