"""Syntax trees of statements, and of a script."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from mayflydb.query.yql.definitions import Definition, ShowCreate
from mayflydb.query.yql.syntax import (
    Binding,
    Compound,
    Expression,
    Item,
    Query,
    QuerySource,
    Select,
    Star,
    Syntax,
    TableRef,
    TypeName,
    Values,
)


class Declare(Syntax, frozen=True):
    name: str
    type: TypeName


class Pragma(Syntax, frozen=True):
    """A setting for the rest of the script: `PRAGMA TablePathPrefix = "/local/x"`, `PRAGMA a.B("c", "d")`, `PRAGMA
    Flag`."""

    name: str
    values: tuple[str, ...] = ()


class Write(Syntax, frozen=True):
    """`UPSERT|REPLACE|INSERT INTO table (columns) source RETURNING ...`. `or_`: "ABORT", "IGNORE" or "REVERT" of INSERT
    OR."""

    verb: Literal["UPSERT", "REPLACE", "INSERT"]
    table: TableRef
    columns: tuple[str, ...] | None
    source: Query
    returning: tuple[Item | Star, ...] | None = None
    or_: str | None = None


class Update(Syntax, frozen=True):
    """`UPDATE t SET a = 1 WHERE ...`, or with `on`, and without `sets`, `UPDATE t ON (columns) source`. `batch`: BATCH
    UPDATE."""

    table: TableRef
    sets: tuple[tuple[str, Expression], ...] = ()
    where: Expression | None = None
    on: tuple[tuple[str, ...] | None, Query] | None = None
    returning: tuple[Item | Star, ...] | None = None
    batch: bool = False


class Delete(Syntax, frozen=True):
    table: TableRef
    where: Expression | None = None
    on: tuple[tuple[str, ...] | None, Query] | None = None
    returning: tuple[Item | Star, ...] | None = None
    batch: bool = False


class Commit(Syntax, frozen=True):
    """`COMMIT`, or with `rollback` `ROLLBACK`."""

    rollback: bool = False


class Discard(Syntax, frozen=True):
    """`DISCARD SELECT ...`"""

    query: Query


class Action(Syntax, frozen=True):
    """`DEFINE ACTION $name($a) AS ... END DEFINE;`"""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Statement, ...]
    optional: int = 0


class Do(Syntax, frozen=True):
    """`DO $action(1)`, or with `body` `DO BEGIN ... END DO`."""

    action: str | None
    arguments: tuple[Expression, ...] = ()
    body: tuple[Statement, ...] = ()


class EvaluateIf(Syntax, frozen=True):
    condition: Expression
    then: Do
    otherwise: Do | None = None


class EvaluateFor(Syntax, frozen=True):
    name: str
    items: Expression
    body: Do
    otherwise: Do | None = None


Statement: TypeAlias = (
    Select
    | Values
    | Compound
    | QuerySource
    | Binding
    | Declare
    | Pragma
    | Write
    | Update
    | Delete
    | Commit
    | Discard
    | Action
    | Do
    | EvaluateIf
    | EvaluateFor
    | ShowCreate
    | Definition
)


class Script(msgspec.Struct, frozen=True):
    """A script: all statements of a text."""

    statements: tuple[Statement, ...]
