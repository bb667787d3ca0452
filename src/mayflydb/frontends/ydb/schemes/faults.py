"""Refusals of schemes. Pure functions raise Invalid, without a status; the caller decides on the status.

YDB answers SCHEME_ERROR to an invalid new table, and BAD_REQUEST to an invalid change.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mayflydb.query.yql.faults import WARNING, Fault, Issue, Status, fault

# Codes of YDB's issues: a scheme error, and a path that does not exist.
SCHEME_CODE: Final = 2003
PATH_MISSING_CODE: Final = 200200
CREATE_STATUS: Final = "SCHEME_ERROR"
ALTER_STATUS: Final = "BAD_REQUEST"


class Invalid(Exception):
    """An invalid description or change of a table.

    `status`: the status of this violation; None: that of the caller's operation.
    """

    def __init__(self, message: str, status: Status | None = None, code: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code


@contextmanager
def refuse_invalid(status: Status) -> Iterator[None]:
    """Turn Invalid into a fault with this status."""
    try:
        yield
    except Invalid as error:
        raise fault(error.message, status=error.status or status, code=error.code) from None


@contextmanager
def wrap_faults(what: str) -> Iterator[None]:
    """Wrap faults of a YQL statement as YDB does: `Execution` > `Executing CREATE TABLE` > cause."""
    try:
        yield
    except Fault as error:
        inner = Issue(f"Executing {what}", issues=error.issues)
        raise Fault(error.status, Issue("Execution", 1060, issues=(inner,))) from None


def unknown_path(path: str) -> Fault:
    """The fault of an unknown path in a read request."""
    return Fault("SCHEME_ERROR", Issue("Path not found"))


def missing_path(path: str) -> Fault:
    """The fault of an unknown path in a change."""
    return fault("Path does not exist", status="SCHEME_ERROR", code=PATH_MISSING_CODE)


def path_conflict(path: str) -> Fault:
    """The fault of a path that is taken."""
    return fault(path_conflict_text(path), status="SCHEME_ERROR", code=SCHEME_CODE)


def path_conflict_notice(path: str) -> Issue:
    """The notice of a table that exists already, for requests that accept that."""
    return Issue(path_conflict_text(path), SCHEME_CODE, WARNING)


def path_conflict_text(path: str) -> str:
    """YDB's text of a taken path, which clients search for."""
    return f"Check failed: path: '{path}', error: path exist, request accepts it"


def wrong_kind(path: str, expected: str) -> Fault:
    """The fault of an entry of another kind than expected."""
    return fault(
        f"Check failed: path: '{path}', error: path is not a {expected}", status="SCHEME_ERROR", code=SCHEME_CODE
    )
