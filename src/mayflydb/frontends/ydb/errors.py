"""The mapping from kinds of errors to YDB's statuses and issues."""

from __future__ import annotations

from typing import Final

from mayflydb.evaluation.stops import EvaluationStopped, StopReason, TooManyEvaluations
from mayflydb.frontends.ydb.transactions import invalid_locks, schema_conflict
from mayflydb.model import errors as kinds
from mayflydb.query.yql.faults import Fault, Issue, Status

_STATUSES: Final[tuple[tuple[type[kinds.MayflyError], Status, int], ...]] = (
    # The first matching kind counts. Code 0 stands for an issue without a code.
    # Subclasses stand before their bases: Unsupported and BadQuery are BadRequests, OwnerNotFound is a NotFound, Held a
    # Conflict.
    (kinds.Unsupported, "UNSUPPORTED", 0),
    (kinds.Unauthenticated, "UNAUTHORIZED", 0),
    (kinds.Forbidden, "UNAUTHORIZED", 2018),
    (kinds.OwnerNotFound, "SCHEME_ERROR", 2003),
    (kinds.NotFound, "SCHEME_ERROR", 2003),
    (kinds.Held, "PRECONDITION_FAILED", 0),
    (kinds.Conflict, "PRECONDITION_FAILED", 2012),
    (kinds.PreconditionFailed, "PRECONDITION_FAILED", 0),
    (kinds.TooLarge, "BAD_REQUEST", 0),
    (kinds.BadQuery, "GENERIC_ERROR", 0),
    (kinds.BadRequest, "BAD_REQUEST", 0),
    (kinds.Throttled, "OVERLOADED", 0),
    (kinds.Overloaded, "OVERLOADED", 0),
    (kinds.TimedOut, "TIMEOUT", 0),
    # Clients repeat the query, at intervals that grow to a minute.
    (kinds.OutOfSpace, "OVERLOADED", 0),
    (kinds.Unavailable, "UNAVAILABLE", 0),
    (kinds.OutcomeUnknown, "UNDETERMINED", 0),
    (kinds.Corrupt, "INTERNAL_ERROR", 0),
)


class LoginRequired(Exception):
    """The caller has to log in. The call ends with gRPC's UNAUTHENTICATED, which clients do not retry."""


ANSWERED: Final = (kinds.MayflyError, EvaluationStopped, TooManyEvaluations)
"""The errors that have an answer. Any other one is a defect."""

_STOPS: Final[dict[StopReason, tuple[Status, str, int]]] = {
    StopReason.DEADLINE: ("TIMEOUT", "Query did not complete within specified timeout", 0),
    # Newer versions of YDB say OVERLOADED, and clients then repeat a query that will need as much again.
    StopReason.MEMORY: ("PRECONDITION_FAILED", "Mkql memory limit exceeded", 2029),
    StopReason.ABANDONED: ("CANCELLED", "Operation cancelled.", 0),
    StopReason.CLOSING: ("UNAVAILABLE", "The node is shutting down", 0),
}


def describe_error(
    error: kinds.MayflyError | EvaluationStopped | TooManyEvaluations,
) -> tuple[Status, tuple[Issue, ...]]:
    """Return status and issues of an error."""
    if isinstance(error, EvaluationStopped):
        status, text, code = _STOPS[error.reason]
        return status, (Issue(text, code),)
    if isinstance(error, TooManyEvaluations):
        return "OVERLOADED", (Issue("Too many queries are running"),)
    if isinstance(error, kinds.WriteConflict):
        # YDB has two refusals for what the engine calls a write conflict: changed rows, and a changed table.
        error = schema_conflict(None) if error.detail.get("scheme") else invalid_locks(None)
    if isinstance(error, Fault):
        return error.status, error.issues
    for kind, status, code in _STATUSES:
        if isinstance(error, kind):
            return status, (Issue(error.message, code),)
    return "INTERNAL_ERROR", (Issue("An internal error occurred."),)


def internal_error() -> tuple[Status, tuple[Issue, ...]]:
    """Return status and issues of a defect. The log has the cause."""
    return "INTERNAL_ERROR", (Issue("An internal error occurred."),)
