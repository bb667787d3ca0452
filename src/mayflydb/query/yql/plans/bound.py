"""Bound queries: a relation and its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mayflydb.query.yql.plans.binder import Context, Names
from mayflydb.query.yql.plans.plan import Relation
from mayflydb.query.yql.plans.scopes import Field
from mayflydb.query.yql.schemas import Table
from mayflydb.query.yql.syntax import Query


class BoundQuery(msgspec.Struct, frozen=True):
    """A bound query. `table`: the table, if the relation is a scan of one. `sources`: the names of the tables.

    `shared`: as in `RowScope`.
    """

    relation: Relation
    fields: tuple[Field, ...]
    table: Table | None = None
    sources: frozenset[str] = frozenset()
    shared: Mapping[str, frozenset[str]] = {}


def bind_query(context: Context, names: Names, query: Query) -> BoundQuery:
    """Bind a query. Faults: tables, names, types."""
    context.depth += 1
    try:
        return QUERIES[query.__class__](context, names, query)
    finally:
        context.depth -= 1


# A table that is filled from above breaks the circle of imports: a source of FROM may be any query again.
QUERIES: dict[type, Callable[[Context, Names, Any], BoundQuery]] = {}
"""The function that binds each class of query. `queries`, which imports the modules with these functions, registers
them."""
