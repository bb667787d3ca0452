"""Queries that are bound to tables: a relation and its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mayflydb.query.yql.plans.binder import Context, Names
from mayflydb.query.yql.plans.plan import Relation
from mayflydb.query.yql.plans.scopes import Field
from mayflydb.query.yql.schemas import Table
from mayflydb.query.yql.syntax import Query


class Bound(msgspec.Struct, frozen=True):
    """A relation and its columns. `table`: the table that it is a scan of. `sources`: what it is called.

    `shared`: as in `Scope`.
    """

    relation: Relation
    fields: tuple[Field, ...]
    table: Table | None = None
    sources: frozenset[str] = frozenset()
    shared: Mapping[str, frozenset[str]] = {}


def bind_query(context: Context, names: Names, query: Query) -> Bound:
    """A query's relation and columns. Faults: tables, names, types."""
    context.depth += 1
    try:
        return QUERIES[query.__class__](context, names, query)
    finally:
        context.depth -= 1


QUERIES: dict[type, Callable[[Context, Names, Any], Bound]] = {}
"""By class of the tree; `queries`, which imports the modules that know them, fills it in."""
