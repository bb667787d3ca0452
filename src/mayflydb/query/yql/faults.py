"""Refusals of YQL: a status and nested issues; the innermost issue names the cause.

Codes: https://github.com/ydb-platform/ydb `yql/essentials/core/issue/protos/issue_id.proto`.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from mayflydb.model.errors import BadRequest

Status = Literal[
    "BAD_REQUEST",
    "UNAUTHORIZED",
    "INTERNAL_ERROR",
    "ABORTED",
    "UNAVAILABLE",
    "OVERLOADED",
    "SCHEME_ERROR",
    "GENERIC_ERROR",
    "TIMEOUT",
    "BAD_SESSION",
    "PRECONDITION_FAILED",
    "ALREADY_EXISTS",
    "NOT_FOUND",
    "SESSION_EXPIRED",
    "CANCELLED",
    "UNDETERMINED",
    "UNSUPPORTED",
    "SESSION_BUSY",
    "EXTERNAL_ERROR",
]

ERROR: Final = 1
WARNING: Final = 2


class Position(msgspec.Struct, frozen=True, order=True):
    """A position in a text: row and column, both from 1. Columns count bytes of UTF-8, as in YDB."""

    row: int
    column: int


class Issue(msgspec.Struct, frozen=True):
    """One problem; `issues` holds its causes."""

    message: str
    code: int = 0
    severity: int = ERROR
    position: Position | None = None
    issues: tuple[Issue, ...] = ()


class Fault(BadRequest):
    """A refusal: `status` and `issues`, outermost first. The message of the exception is that of the innermost first
    issue."""

    def __init__(self, status: Status, *issues: Issue) -> None:
        leaf = issues[0]
        while leaf.issues:
            leaf = leaf.issues[0]
        super().__init__(leaf.message)
        self.status: Status = status
        self.issues = issues


def fault(message: str, position: Position | None = None, status: Status = "GENERIC_ERROR", code: int = 0) -> Fault:
    """A refusal with one issue."""
    return Fault(status, Issue(message, code, position=position))


def syntax_fault(message: str, position: Position) -> Fault:
    """A syntax error."""
    return fault(message, position)


def type_fault(function: str, message: str, position: Position | None) -> Fault:
    """A type error, nested as in YDB: `Type annotation` > `At function: F` > cause."""
    cause = Issue(message, position=position)
    at = Issue(f"At function: {function}", position=position, issues=(cause,))
    return Fault("GENERIC_ERROR", Issue("Type annotation", 1030, position=position, issues=(at,)))


def unsupported(what: str, position: Position | None = None) -> Fault:
    """The refusal, by name, of syntax that YDB has and Mayfly does not support."""
    return fault(f"{what} is not supported", position)


def missing_table_fault(database: str, path: str, position: Position | None = None) -> Fault:
    """The refusal of a table or view that does not exist: `Table metadata loading` > cause."""
    cause = Issue(
        f"Cannot find table '{database}.[{path}]' because it does not exist or you do not have access permissions. "
        "Please check correctness of table path and user permissions.",
        2003,
        position=position,
    )
    return Fault("SCHEME_ERROR", Issue("Table metadata loading", 1050, position=position, issues=(cause,)))
