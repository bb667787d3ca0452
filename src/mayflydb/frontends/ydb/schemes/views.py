"""Entries of the catalogue as queries see them."""

from __future__ import annotations

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.frontends.ydb.schemes.columns import parse_stored_type
from mayflydb.frontends.ydb.schemes.defaults import parse_literal
from mayflydb.frontends.ydb.schemes.definitions import body_of
from mayflydb.frontends.ydb.schemes.entries import (
    DirectoryBody,
    DirectoryEntry,
    Entry,
    IndexEntry,
    TopicEntry,
    ViewBody,
    ViewEntry,
    kind_of,
)
from mayflydb.frontends.ydb.schemes.indexes import planner_index, secondary_indexes
from mayflydb.frontends.ydb.schemes.paths import INDEX_TABLE
from mayflydb.frontends.ydb.tables import StoredColumn, TableView, is_primary
from mayflydb.frontends.ydb.topics.bodies import topic_body
from mayflydb.query.yql.schemas import Column, Table, View


def decode_entry(node: Node, path: str) -> Entry:
    """Return the entry of a node."""
    kind = kind_of(node)
    if kind == "directory":
        return DirectoryEntry(path, msgspec.convert(node.body, DirectoryBody), node)
    if kind == "view":
        body = msgspec.convert(node.body, ViewBody)
        return ViewEntry(path, body, node, View(path, body.text))
    if kind == "topic":
        return TopicEntry(path, topic_body(node), node)
    return table_view(node, path)


def table_view(node: Node, path: str) -> TableView:
    """Return the decoded table of a node."""
    body = body_of(node.definition)
    indexes = secondary_indexes(node.definition.indexes)
    # Plans compare tables by this version. An index that becomes complete is a part of it, since plans may use the
    # index from then on.
    version = (node.id, node.definition.version, *(each.number for each in indexes.values() if each.state == "ready"))
    table = Table(
        path,
        tuple(_column(column) for column in body.columns),
        body.key,
        tuple(planner_index(index) for index in indexes.values()),
        version,
    )
    primary = next(index for index in node.definition.indexes if is_primary(index))
    return TableView(node, body, table, tuple(column.number for column in body.columns), primary, indexes)


def _column(column: StoredColumn) -> Column:
    type = parse_stored_type(column.type)
    if column.default is None:
        return Column(column.name, type, family=column.family, serial=column.sequence is not None)
    return Column(column.name, type, parse_literal(column.default, type), True, column.family)


def index_entry(view: TableView, name: str) -> IndexEntry | None:
    """Return the entry of `t/name/indexImplTable`, with the columns of the index, those of the key, and the covered
    ones; None if the index does not exist or is not complete.
    """
    # The key of an index is its columns and the rest of the primary key, as in YDB's table behind it.
    index = next((each for each in view.table.indexes if each.name == name and each.ready), None)
    if index is None:
        return None
    key = (*index.columns, *(each for each in view.table.key if each not in index.columns))
    by_name = {column.name: column for column in view.table.columns}
    columns = tuple(by_name[each] for each in (*key, *index.cover))
    path = f"{view.table.path}/{name}/{INDEX_TABLE}"
    table = Table(path, columns, key, (), view.table.version, writable=False)
    return IndexEntry(path, view, name, table)
