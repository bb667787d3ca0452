"""Refusals of schemes: what is wrong is found by pure functions that do not know for whom; who asks decides on the status.

YDB answers SCHEME_ERROR when a table cannot be made so, and BAD_REQUEST when it cannot be changed so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mayflydb.query.yql.faults import WARNING, Fault, Issue, Status, fault

SCHEME_CODE: Final = 2003
MISSING_CODE: Final = 200200
CREATING: Final = "SCHEME_ERROR"
ALTERING: Final = "BAD_REQUEST"


class Invalid(Exception):
    """A description that no table can have. `status`: whatever it is wanted for; None: by the verb."""

    def __init__(self, message: str, status: Status | None = None, code: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code


@contextmanager
def judged(status: Status) -> Iterator[None]:
    """What is invalid inside is refused with this status."""
    try:
        yield
    except Invalid as error:
        raise fault(error.message, status=error.status or status, code=error.code) from None


@contextmanager
def executing(what: str) -> Iterator[None]:
    """A statement of YQL tells of refusals in its execution: `Execution` > `Executing CREATE TABLE` > cause."""
    try:
        yield
    except Fault as error:
        inner = Issue(f"Executing {what}", issues=error.issues)
        raise Fault(error.status, Issue("Execution", 1060, issues=(inner,))) from None


def not_found(path: str) -> Fault:
    """A path that leads nowhere, of a request that only looks."""
    return Fault("SCHEME_ERROR", Issue("Path not found"))


def missing(path: str) -> Fault:
    """What is to be changed, and is not there."""
    return fault("Path does not exist", status="SCHEME_ERROR", code=MISSING_CODE)


def exists(path: str) -> Fault:
    """A name that is taken: what YQL says, and what requests get as a notice."""
    return fault(exists_text(path), status="SCHEME_ERROR", code=SCHEME_CODE)


def exists_notice(path: str) -> Issue:
    """What is said to whoever asked for a table that is there, and does not mind."""
    return Issue(exists_text(path), SCHEME_CODE, WARNING)


def exists_text(path: str) -> str:
    """The words that clients look for."""
    return f"Check failed: path: '{path}', error: path exist, request accepts it"


def wrong_kind(path: str, expected: str) -> Fault:
    """A path that leads to something else."""
    return fault(
        f"Check failed: path: '{path}', error: path is not a {expected}", status="SCHEME_ERROR", code=SCHEME_CODE
    )
