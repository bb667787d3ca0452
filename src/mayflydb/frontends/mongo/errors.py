"""From the kinds of failure to MongoDB's codes, and the documents that tell them."""

from __future__ import annotations

from typing import Final

from mayflydb.frontends.mongo.failpoints import InjectedFailure
from mayflydb.model import errors as kinds
from mayflydb.query.mongo.faults import MqlError, name_of
from mayflydb.query.mongo.values import Document

CODES: Final[dict[type[kinds.MayflyError], int]] = {
    kinds.MayflyError: 1,
    kinds.BadRequest: 2,
    kinds.Unsupported: 115,
    kinds.TooLarge: 10334,
    kinds.Unauthenticated: 18,
    kinds.Forbidden: 13,
    kinds.NotFound: 26,
    kinds.OwnerNotFound: 26,
    kinds.Conflict: 11000,
    kinds.PreconditionFailed: 112,
    kinds.WriteConflict: 112,
    kinds.Throttled: 16500,
    # A client may send the command again: nothing was done.
    kinds.Unavailable: 11600,
    # Inside a transaction, where a commit is sent again and finds out. Elsewhere the connection ends without an answer.
    kinds.OutcomeUnknown: 6,
    kinds.Corrupt: 96,
    kinds.TimedOut: 50,
}
"""By the nearest base of an error. Total: every kind has its own row."""

RETRYABLE_WRITE, TRANSIENT = "RetryableWriteError", "TransientTransactionError"
RESUMABLE = "ResumableChangeStreamError"

RETRYABLE_CODES: Final = frozenset({6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436})
"""Codes after which a write that has a number may be sent again."""

RESUMABLE_CODES: Final = RETRYABLE_CODES | {63, 133, 150, 234, 13388}
"""Codes after which a change stream may be opened again where it was."""

TRANSIENT_CODES: Final = frozenset({24, 112, 239, 246, 251, 267})
"""Codes after which a transaction is over, and may be tried again from its beginning."""

_THROTTLED = (
    "Error=16500, RetryAfterMs={}, Details='Response status code does not indicate success: TooManyRequests (429); "
    "Substatus: 3200; ActivityId: {}; Reason: (\r\nErrors : [\r\n"
    '  "Request rate is large. More Request Units may be needed, so no changes were made. Please retry this request later. '
    "Learn more: http://aka.ms/cosmosdb-error-429\"\r\n]\r\n)'"
)


def code_of(error: kinds.MayflyError) -> int:
    """The code an error is told by; a `code` in its detail wins."""
    if isinstance(error, MqlError):
        return error.code
    code = error.detail.get("code")
    if isinstance(code, int):
        return code
    return next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)


def throttled_text(retry_after_ms: int, activity: str) -> str:
    """What clients look for `RetryAfterMs=` in. `activity`: a UUID."""
    return _THROTTLED.format(retry_after_ms, activity)


def message_of(error: kinds.MayflyError, activity: str) -> str:
    """`errmsg`."""
    if isinstance(error, kinds.Throttled):
        retry = error.detail.get("retry_after_ms")
        return throttled_text(retry if isinstance(retry, int) else 0, activity)
    return error.message


def refusal(code: int, message: str, labels: tuple[str, ...] = (), **fields: object) -> Document:
    """The answer to a command that was refused."""
    document: Document = {"ok": 0.0, "errmsg": message, "code": code, "codeName": name_of(code), **fields}
    if labels:
        document["errorLabels"] = list(labels)
    return document


def labels_of(error: kinds.MayflyError, code: int, body: Document) -> tuple[str, ...]:
    """The labels a command's error gets: its own, and those which tell a driver that it may send something again."""
    labels = error.labels if isinstance(error, MqlError) else ()
    if isinstance(error, InjectedFailure) and error.labelled:
        return labels
    automatic = _automatic_label(code, body)
    if isinstance(error, InjectedFailure) and automatic == RESUMABLE:
        return labels  # That is for what fails behind the command's beginning.
    return labels if automatic is None or automatic in labels else (*labels, automatic)


def _automatic_label(code: int, body: Document) -> str | None:
    if "getMore" in body and code in RESUMABLE_CODES:
        # Nobody asks after this label but change streams.
        return RESUMABLE
    if "txnNumber" not in body:
        return None
    if "autocommit" not in body:
        return RETRYABLE_WRITE if code in RETRYABLE_CODES else None
    ending = next(iter(body)) in ("commitTransaction", "abortTransaction")
    if ending and code in RETRYABLE_CODES:
        return RETRYABLE_WRITE
    return TRANSIENT if code in TRANSIENT_CODES or code in RETRYABLE_CODES else None


def error_reply(error: kinds.MayflyError, body: Document, activity: str) -> Document:
    """The whole answer to a command that failed."""
    code = code_of(error)
    fields = error.fields if isinstance(error, MqlError) else {}
    return refusal(code, message_of(error, activity), labels_of(error, code, body), **fields)
