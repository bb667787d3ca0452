"""Binding of the sources of FROM: tables, views, queries, lists."""

from __future__ import annotations

from typing import Final

import msgspec

from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.faults import Fault, Issue, fault, missing_table_fault, unsupported
from mayflydb.query.yql.parser import parse
from mayflydb.query.yql.plans.binder import PRAGMAS, Binder, Context, NamedExpression, Names
from mayflydb.query.yql.plans.bound import BoundQuery, bind_query
from mayflydb.query.yql.plans.declarations import apply_declaration
from mayflydb.query.yql.plans.flatten import bind_flatten
from mayflydb.query.yql.plans.relations import ListRows, Scan
from mayflydb.query.yql.plans.scopes import Field
from mayflydb.query.yql.plans.subqueries import is_query
from mayflydb.query.yql.schemas import PRIMARY, Index, Table, View
from mayflydb.query.yql.syntax import Expression as Tree
from mayflydb.query.yql.syntax import Query, QuerySource, Source, TableRef
from mayflydb.query.yql.types import (
    EmptyListType,
    ListType,
    StructType,
    bare,
    format_long,
)

MAX_VIEWS: Final = 256
"""Views in one query. A limit is needed, since views that name views twice would double with each level."""


def bind_source(context: Context, names: Names, source: Source, wanted: frozenset[str] | None) -> BoundQuery:
    """Bind a source of FROM. `wanted`: the columns that the query may name; None: all."""
    of = source.of
    if isinstance(of, TableRef):
        bound = bind_table(context, of, wanted)
        alias = source.alias or of.name
    else:
        bound = bind_query_source(context, names, of)
        alias = source.alias or of.parameter or ""
    fields = bound.fields
    if source.columns:
        if len(source.columns) != len(fields):
            raise fault(f"Expected {len(fields)} names of columns, but got: {len(source.columns)}", source.at)
        fields = tuple(msgspec.structs.replace(f, name=n) for f, n in zip(fields, source.columns, strict=True))
    fields = tuple(msgspec.structs.replace(each, source=alias) for each in fields)
    bound = msgspec.structs.replace(bound, fields=fields, sources=frozenset((alias,)))
    if source.flatten is not None:
        return bind_flatten(context, names, bound, alias, source.flatten, source)
    return bound


def resolve_table(context: Context, reference: TableRef) -> Table | View:
    path = context.path(reference.name)
    found = context.schemas.get(path)
    if found is None:
        raise missing_table_fault("db", path, reference.at)
    return found


def bind_table(context: Context, reference: TableRef, wanted: frozenset[str] | None) -> BoundQuery:
    found = resolve_table(context, reference)
    if isinstance(found, View):
        return _bind_view(context, found, reference)
    context.reads.add(found.path)
    index = resolve_index(found, reference)
    # An asynchronous index may be behind its table. Whether a transaction may read it is decided when the plan runs.
    if index is not None and index.kind == "async":
        context.stale.add((found.path, index.name))
    columns = [each for each in found.columns if wanted is None or each.name in wanted]
    scan = Scan(found.path, tuple(each.name for each in columns), index.name if index else None)
    return BoundQuery(scan, tuple(Field(each.name, each.type) for each in columns), found)


def resolve_index(table: Table, reference: TableRef) -> Index | None:
    """The index of VIEW. Faults: the table has no complete index of this name."""
    if reference.view is None or reference.view.upper() == PRIMARY:
        return None
    for each in table.indexes:
        if each.name == reference.view and each.ready:
            return each
    cause = Issue(f"Required global index not found, index name: {reference.view}", 2003, position=reference.at)
    raise Fault("SCHEME_ERROR", Issue("Table metadata loading", 1050, position=reference.at, issues=(cause,)))


def _bind_view(context: Context, view: View, reference: TableRef) -> BoundQuery:
    """Bind the query of a view, with names and a path prefix of its own."""
    if view.path in context.open_views:
        raise fault(f"View {view.path} stands for itself", reference.at)
    context.view_count += 1
    if context.view_count > MAX_VIEWS:
        raise fault(f"A query may read {MAX_VIEWS} views, each as often as it is named", reference.at)
    script = parse(view.text)
    before = context.pragmas()
    context.open_views.append(view.path)
    try:
        # A view has its own pragmas and names, not those of the query that reads it.
        context.set_pragmas(PRAGMAS)
        names: Names = {}
        queries = [each for each in script.statements if not apply_declaration(context, names, each)]
        if len(queries) != 1 or not is_query(queries[0]):
            raise fault(f"View {view.path} is no single query", reference.at)
        return msgspec.structs.replace(bind_query(context, names, queries[0]), table=None)  # type: ignore[arg-type]
    finally:
        context.open_views.pop()
        context.set_pragmas(before)


def bind_query_source(context: Context, names: Names, of: QuerySource) -> BoundQuery:
    """Bind `(SELECT ...)`, `$query` or `AS_TABLE(list)`."""
    if of.query is not None:
        return msgspec.structs.replace(bind_query(context, names, of.query), table=None)
    if of.rows is not None:
        return bind_rows(Binder(context, names), of.rows)
    assert of.parameter is not None
    entry = names.get(of.parameter)
    if isinstance(entry, NamedExpression) and is_query(entry.value):
        query: Query = entry.value  # type: ignore[assignment]  # A query.
        return msgspec.structs.replace(bind_query(context, entry.binder.names, query), table=None)
    raise unsupported(f"${of.parameter} as a table, which is no query: AS_TABLE takes lists,", of.at)


def bind_rows(binder: Binder, rows: Tree) -> BoundQuery:
    """Bind AS_TABLE(list of structs)."""
    value: Expression = binder.expression(rows)
    type = bare(value.type)
    if isinstance(type, EmptyListType):
        return BoundQuery(ListRows(value.evaluate), ())
    if not isinstance(type, ListType) or not isinstance(bare(type.item), StructType):
        raise fault(f"AS_TABLE expects a list of structs, but got: {format_long(value.type)}", rows.at)
    struct = bare(type.item)
    assert isinstance(struct, StructType)
    return BoundQuery(ListRows(value.evaluate), tuple(Field(name, part) for name, part in struct.members))
