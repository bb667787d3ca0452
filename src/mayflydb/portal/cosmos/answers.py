"""Answers of Cosmos DB's front end: the JSON of those that are fine, and the errors that others stand for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mayflydb.http.messages import Response
from mayflydb.model.errors import (
    BadQuery,
    BadRequest,
    Conflict,
    Forbidden,
    MayflyError,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Throttled,
    TooLarge,
    Unavailable,
    WriteConflict,
)

_ERRORS: Mapping[int, type[MayflyError]] = {
    400: BadRequest,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    408: OutcomeUnknown,
    412: PreconditionFailed,
    413: TooLarge,
    429: Throttled,
    449: WriteConflict,
    503: Unavailable,
}


def read_json(response: Response) -> Any:
    """Return the JSON of a response, or raise the error that it stands for."""
    return msgspec.json.decode(check_status(response).body)


def check_status(response: Response) -> Response:
    """Return a response with a status below 300. Raise the error that any other status stands for."""
    if response.status < 300:
        return response
    raise _error(_ERRORS.get(response.status, MayflyError), response.body)


def _error(kind: type[MayflyError], body: bytes) -> MayflyError:
    """Return the error with its sentence, without the activity id and the JSON around it, and its place in a query."""
    message = str(msgspec.json.decode(body).get("message", "")).partition("\r\nActivityId")[0]
    try:
        inner = msgspec.json.decode(message.removeprefix("Message: "))
    except msgspec.DecodeError:
        return kind(message)
    if isinstance(inner, dict) and isinstance(inner.get("Errors"), list):
        return kind("; ".join(map(str, inner["Errors"])))
    if isinstance(inner, dict) and inner.get("errors"):
        fault = inner["errors"][0]
        return BadQuery(str(fault.get("message", message)), code=fault.get("code", ""), **fault.get("location", {}))
    return kind(message)
