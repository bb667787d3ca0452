"""Translates errors to HTTP: status, code, substatus, body."""

from __future__ import annotations

from typing import Final

import msgspec

from mayflydb.engine import catalog, record_decisions
from mayflydb.evaluation.stops import EvaluationStopped, StopReason, TooManyEvaluations
from mayflydb.model import errors as kinds


class ErrorAnswer(msgspec.Struct, frozen=True, gc=False):
    """The answer for a kind of error: HTTP status, `code` of the body, substatus unless the error's detail has one."""

    status: int
    code: str
    substatus: int = 0


ANSWERS: Final[dict[type[kinds.MayflyError], ErrorAnswer]] = {
    kinds.MayflyError: ErrorAnswer(500, "InternalServerError"),
    kinds.BadRequest: ErrorAnswer(400, "BadRequest"),
    kinds.BadQuery: ErrorAnswer(400, "BadRequest"),
    kinds.Unsupported: ErrorAnswer(400, "BadRequest"),
    kinds.TooLarge: ErrorAnswer(413, "RequestEntityTooLarge"),
    kinds.Unauthenticated: ErrorAnswer(401, "Unauthorized"),
    kinds.Forbidden: ErrorAnswer(403, "Forbidden"),
    kinds.NotFound: ErrorAnswer(404, "NotFound"),
    kinds.OwnerNotFound: ErrorAnswer(404, "NotFound", 1003),
    kinds.Conflict: ErrorAnswer(409, "Conflict"),
    kinds.Held: ErrorAnswer(409, "Conflict"),
    kinds.PreconditionFailed: ErrorAnswer(412, "PreconditionFailed"),
    kinds.WriteConflict: ErrorAnswer(449, "RetryWith"),
    kinds.Throttled: ErrorAnswer(429, "429", 3200),
    kinds.Unavailable: ErrorAnswer(503, "ServiceUnavailable"),
    kinds.InUse: ErrorAnswer(503, "ServiceUnavailable"),
    # The service answers so where storage is used up, and clients hand it to the caller. They repeat a request after 503 or 507.
    # https://learn.microsoft.com/rest/api/cosmos-db/http-status-codes-for-cosmosdb
    kinds.OutOfSpace: ErrorAnswer(403, "Forbidden", 1014),
    kinds.Overloaded: ErrorAnswer(503, "ServiceUnavailable"),
    # Clients repeat a write after 503, which could apply it twice. After 408 they leave that to the caller.
    kinds.OutcomeUnknown: ErrorAnswer(408, "RequestTimeout"),
    kinds.Corrupt: ErrorAnswer(500, "InternalServerError"),
    kinds.TimedOut: ErrorAnswer(408, "RequestTimeout"),
}
"""One row for every kind. `status`, `code_text` and `substatus` in an error's detail win (410 Gone has no kind)."""


_QUERY_MEMORY = "The query takes more memory than the server grants to queries."
_QUERY_TIME = "The query takes more time than the server grants to a query."
_BUSY_QUERIES = "Too many queries wait to be computed."
BUSY_RETRY_MS: Final = 500


def of_stop(stop: EvaluationStopped | TooManyEvaluations) -> kinds.MayflyError:
    """Return the error with which a query that was stopped is answered."""
    if isinstance(stop, TooManyEvaluations):
        return kinds.Throttled(_BUSY_QUERIES, retry_after_ms=BUSY_RETRY_MS)
    if stop.reason is StopReason.MEMORY:
        return kinds.BadRequest(_QUERY_MEMORY)
    if stop.reason is StopReason.CLOSING:
        return kinds.Unavailable("The server is stopping.")
    return kinds.TimedOut(_QUERY_TIME)


MESSAGES: Final[dict[str, str]] = {
    record_decisions.MISSING: "Resource Not Found. Learn more: https://aka.ms/cosmosdb-tsg-not-found",
    record_decisions.TAKEN: "Entity with the specified id already exists in the system.",
    record_decisions.NOT_UNIQUE: "Unique index constraint violation.",
    record_decisions.STALE: "Operation cannot be performed because one of the specified precondition is not met.",
    catalog.NODE_MISSING: "Resource Not Found",
    catalog.OWNER_MISSING: "Owner resource does not exist",
    catalog.NAME_TAKEN: "Resource with specified id, name, or unique index already exists.",
}
"""The service's messages for the engine's refusals, by the message of the engine."""


def message_of(error: kinds.MayflyError) -> str:
    """Return the message of an error as clients read it."""
    return MESSAGES.get(error.message, error.message)


class ErrorResponse(msgspec.Struct, frozen=True, gc=False):
    """An error as it is sent. `retry_after_ms` becomes `x-ms-retry-after-ms`."""

    status: int
    substatus: int
    body: bytes
    retry_after_ms: int | None = None


def answer_of(error: kinds.MayflyError) -> ErrorAnswer:
    """Return status, code and substatus of one error."""
    # The nearest base with a row: a kind without one is answered as its base.
    answer = next(ANSWERS[kind] for kind in type(error).__mro__ if kind in ANSWERS)
    detail = error.detail
    if not detail.keys() & {"status", "code_text", "substatus"}:
        return answer
    status, substatus = detail.get("status", answer.status), detail.get("substatus", answer.substatus)
    code = detail.get("code_text", answer.code)
    if not (isinstance(status, int) and isinstance(substatus, int) and isinstance(code, str)):
        raise TypeError("the detail of an error has a status, substatus or code_text of the wrong type")
    return ErrorAnswer(status, code, substatus)


def render(error: kinds.MayflyError, activity_id: str, request_uri: str, server: str) -> ErrorResponse:
    """Build the answer. `request_uri` is the path of the request, `server` a product name such as `mayfly/1.0`."""
    answer = answer_of(error)
    tail = f"\r\nActivityId: {activity_id}, Request URI: {request_uri}, {server}"
    body: dict[str, object] = {"code": answer.code, "message": body_message(error, answer) + tail}
    if (plan := error.detail.get("additional_error_info")) is not None:
        body["additionalErrorInfo"] = plan
    retry = error.detail.get("retry_after_ms")
    return ErrorResponse(answer.status, answer.substatus, _json(body), retry if isinstance(retry, int) else None)


def body_message(error: kinds.MayflyError, answer: ErrorAnswer) -> str:
    """Return the message without its tail. Clients parse JSON in it, except for 401, 403 and substatus 1004."""
    if answer.status in (401, 403) or answer.substatus == 1004:
        return message_of(error)
    if isinstance(error, kinds.BadQuery) and (query := _query_error(error)) is not None:
        return "Message: " + _json({"errors": [query]}).decode()
    return "Message: " + _json({"Errors": [message_of(error)]}).decode()


def _query_error(error: kinds.BadQuery) -> dict[str, object] | None:
    """Return the JSON of an error that has a location in the query or a code; None for one that has neither."""
    detail = error.detail
    located = "start" in detail and "end" in detail
    if not located and "code" not in detail:
        return None
    entry: dict[str, object] = {"severity": "Error"}
    if located:
        entry["location"] = {"start": detail["start"], "end": detail["end"]}
    if "code" in detail:
        entry["code"] = detail["code"]
    return entry | {"message": error.message}


def _json(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_surrogates(value))


def _without_surrogates(value: object) -> object:
    if isinstance(value, str):
        # Queries and keys may contain lone surrogates, which have no UTF-8. Each becomes a question mark.
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {name: _without_surrogates(inner) for name, inner in value.items()}
    return [_without_surrogates(inner) for inner in value] if isinstance(value, list) else value
