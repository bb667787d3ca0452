"""A query and its answer as plain data, for callers that know no Python values of YQL.

Values are JSON: numbers and Bools as themselves, NULL as null, and all else as its text in YQL (`2026-11-23T10:00:00Z`, `PT1H`,
`1.50`, a UUID). A String or Yson is a text where its bytes are UTF-8, else `{"base64": "..."}`. A Json is its text, since its
`null` is not NULL. A List or Tuple is an array, a Struct an object, a Dict an array of pairs, a Variant `[index, value]`, a value
in an Optional of an Optional `[value]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from mayflydb.query.yql.faults import Issue

Parameters: TypeAlias = Mapping[str, tuple[str, Any]]
"""Type and value of each parameter by its name without `$`: `{"id": ("Uint64", 5)}`."""


class AnswerLimits(msgspec.Struct, frozen=True):
    """The limits of one query.

    `seconds`: its time, where the server gives no less. `rows`, `bytes`: of each result set, in its JSON form. Rows above
    them are left out, except for a first one.
    """

    seconds: float = 60.0
    rows: int = 1_000
    bytes: int = 4 << 20


DEFAULT_LIMITS = AnswerLimits()


class Result(msgspec.Struct, frozen=True):
    """One result set. `columns`: (name, type): `("at", "Timestamp?")`. `truncated`: there are more rows than these."""

    columns: tuple[tuple[str, str], ...]
    rows: list[list[Any]]
    truncated: bool = False


class TableAccess(msgspec.Struct, frozen=True):
    """The numbers of rows of one table that a query has read, written and deleted."""

    path: str
    reads: int
    updates: int
    deletes: int


class Stats(msgspec.Struct, frozen=True):
    """Statistics: microseconds of the whole and of planning, whether the plan was cached, and the rows by table."""

    total_us: int
    planning_us: int
    cached: bool
    tables: tuple[TableAccess, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    """The answer to a query. `stats` and `plan` (JSON): if they were asked for; definitions have neither.

    `changes`: the query changes data or definitions.
    """

    results: tuple[Result, ...] = ()
    warnings: tuple[Issue, ...] = ()
    stats: Stats | None = None
    plan: str | None = None
    changes: bool = False


Mode: TypeAlias = Literal["execute", "explain"]
"""`explain`: the query is planned and not run."""
