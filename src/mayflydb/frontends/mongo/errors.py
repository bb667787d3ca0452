"""MongoDB's codes for errors, and the documents that report them."""

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
    # IllegalOperation.
    kinds.Held: 20,
    kinds.PreconditionFailed: 112,
    kinds.WriteConflict: 112,
    kinds.Throttled: 16500,
    # Nothing was done, so the client may send the command again.
    kinds.Unavailable: 11600,
    # OutOfDiskSpace. Drivers do not retry it.
    kinds.OutOfSpace: 14031,
    # Not one of those after which drivers look for another server.
    kinds.Overloaded: 365,
    # Reached only within transactions, where a repeated commit learns the outcome. Elsewhere the connection ends
    # unanswered.
    kinds.OutcomeUnknown: 6,
    kinds.Corrupt: 96,
    kinds.TimedOut: 50,
}
"""Codes by the nearest base class of an error. Every kind has a row of its own."""

RETRYABLE_WRITE, TRANSIENT = "RetryableWriteError", "TransientTransactionError"
RESUMABLE = "ResumableChangeStreamError"

# HostUnreachable, HostNotFound, NetworkTimeout, ShutdownInProgress, PrimarySteppedDown, ExceededTimeLimit,
# SocketException, NotWritablePrimary, InterruptedAtShutdown, InterruptedDueToReplStateChange, NotPrimaryNoSecondaryOk,
# NotPrimaryOrSecondary.
RETRYABLE_CODES: Final = frozenset({6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436})
"""Codes after which a retryable write may be sent again."""

# StaleShardVersion, FailedToSatisfyReadPreference, StaleEpoch, RetryChangeStream, StaleConfig.
RESUMABLE_CODES: Final = RETRYABLE_CODES | {63, 133, 150, 234, 13388}
"""Codes after which a change stream may be resumed."""

# LockTimeout, WriteConflict, SnapshotTooOld, SnapshotUnavailable, NoSuchTransaction, PreparedTransactionInProgress.
TRANSIENT_CODES: Final = frozenset({24, 112, 239, 246, 251, 267})
"""Codes that end a transaction, which may be retried from its beginning."""

_THROTTLED = (
    "Error=16500, RetryAfterMs={}, Details='Response status code does not indicate success: TooManyRequests (429); "
    "Substatus: 3200; ActivityId: {}; Reason: (\r\nErrors : [\r\n"
    '  "Request rate is large. More Request Units may be needed, so no changes were made. Please retry this request later. '
    "Learn more: http://aka.ms/cosmosdb-error-429\"\r\n]\r\n)'"
)


def code_of(error: kinds.MayflyError) -> int:
    """The code of an error; a `code` in its detail has priority."""
    if isinstance(error, MqlError):
        return error.code
    code = error.detail.get("code")
    if isinstance(code, int):
        return code
    return next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)


def throttled_text(retry_after_ms: int, activity: str) -> str:
    """The text in which clients look for `RetryAfterMs=`. `activity`: a UUID."""
    return _THROTTLED.format(retry_after_ms, activity)


def message_of(error: kinds.MayflyError, activity: str) -> str:
    """The field `errmsg`."""
    if isinstance(error, kinds.Throttled):
        retry = error.detail.get("retry_after_ms")
        return throttled_text(retry if isinstance(retry, int) else 0, activity)
    return error.message


def error_document(code: int, message: str, labels: tuple[str, ...] = (), **fields: object) -> Document:
    """The document that reports an error."""
    document: Document = {"ok": 0.0, "errmsg": message, "code": code, "codeName": name_of(code), **fields}
    if labels:
        document["errorLabels"] = list(labels)
    return document


def labels_of(error: kinds.MayflyError, code: int, body: Document) -> tuple[str, ...]:
    """The labels of a command's error: its own, and those by which a driver knows that it may retry."""
    labels = error.labels if isinstance(error, MqlError) else ()
    # Tests of drivers count on the exact labels that they asked for.
    if isinstance(error, InjectedFailure) and error.has_own_labels:
        return labels
    automatic = _automatic_label(code, body)
    if isinstance(error, InjectedFailure) and automatic == RESUMABLE:
        return labels  # The label applies only to failures of a command that has begun.
    return labels if automatic is None or automatic in labels else (*labels, automatic)


def _automatic_label(code: int, body: Document) -> str | None:
    if "getMore" in body and code in RESUMABLE_CODES:
        # Only change streams look for this label, so every getMore may carry it.
        return RESUMABLE
    if "txnNumber" not in body:
        return None
    if "autocommit" not in body:
        return RETRYABLE_WRITE if code in RETRYABLE_CODES else None
    # A commit or abort may be sent again as it is. Any other command takes its whole transaction along.
    ending = next(iter(body)) in ("commitTransaction", "abortTransaction")
    if ending and code in RETRYABLE_CODES:
        return RETRYABLE_WRITE
    return TRANSIENT if code in TRANSIENT_CODES or code in RETRYABLE_CODES else None


def error_reply(error: kinds.MayflyError, body: Document, activity: str) -> Document:
    """The complete answer to a command that failed."""
    code = code_of(error)
    fields = error.fields if isinstance(error, MqlError) else {}
    return error_document(code, message_of(error, activity), labels_of(error, code, body), **fields)
