"""Entries of the scheme tree other than tables, and their stored bodies."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from mayflydb.engine.catalog import Definition, Node
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.frontends.ydb.topics.bodies import TopicBody
from mayflydb.model.instant import Instant
from mayflydb.query.yql.schemas import Table, View


class DirectoryBody(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="directory"):
    """The body of a directory or database."""

    created: int = 0
    owner: str = "root@builtin"
    permissions: dict[str, tuple[str, ...]] = {}


class ViewBody(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="view"):
    """The body of a view. `text`: its query."""

    text: str
    created: int = 0
    owner: str = "root@builtin"
    permissions: dict[str, tuple[str, ...]] = {}


class DirectoryEntry(msgspec.Struct, frozen=True):
    """A directory. `node` None: the directory exists only as a prefix of other paths, or belongs to the system."""

    path: str
    body: DirectoryBody = DirectoryBody()
    node: Node | None = None
    is_database: bool = False


class ViewEntry(msgspec.Struct, frozen=True):
    """A view."""

    path: str
    body: ViewBody
    node: Node
    view: View


class TopicEntry(msgspec.Struct, frozen=True):
    """A topic, also one that belongs to a changefeed."""

    path: str
    body: TopicBody
    node: Node


class SystemEntry(msgspec.Struct, frozen=True):
    """A system table. Its rows are computed when it is read (`system_rows`)."""

    path: str
    name: str
    table: Table


class IndexEntry(msgspec.Struct, frozen=True):
    """A secondary index that is read as a table: `t/idx/indexImplTable`."""

    path: str
    view: TableView
    index: str
    table: Table


Entry: TypeAlias = TableView | ViewEntry | TopicEntry | DirectoryEntry | SystemEntry | IndexEntry


def kind_of(node: Node | Definition) -> str:
    """Return the kind of an entry: "table", "view", "topic" or "directory"."""
    kind: str = node.body.get("kind", "table")
    return kind


def created_of(entry: Entry) -> Instant:
    """Return the instant of an entry's creation; 0 if it has none."""
    if isinstance(entry, TableView):
        return entry.body.created
    return entry.body.created if isinstance(entry, (ViewEntry, TopicEntry, DirectoryEntry)) else 0
