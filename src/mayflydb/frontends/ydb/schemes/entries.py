"""What a path may lead to besides a table, as the catalogue keeps it."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from mayflydb.engine.catalog import Definition, Node
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.model.instant import Instant
from mayflydb.query.yql.schemas import Table, View


class DirectoryBody(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="directory"):
    """A directory's row, or a database's."""

    created: int = 0
    owner: str = "root@builtin"
    permissions: dict[str, tuple[str, ...]] = {}


class ViewBody(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="view"):
    """A view's row: `text` is the query it stands for."""

    text: str
    created: int = 0
    owner: str = "root@builtin"
    permissions: dict[str, tuple[str, ...]] = {}


class DirectoryEntry(msgspec.Struct, frozen=True):
    """A directory. `node` None: it is there only because something is below it, or because it is the system's."""

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


class SystemEntry(msgspec.Struct, frozen=True):
    """A table of the system, whose rows are made when they are read (`system.rows`)."""

    path: str
    name: str
    table: Table


class IndexEntry(msgspec.Struct, frozen=True):
    """What reads as a table and is a secondary index of one: `t/idx/indexImplTable`."""

    path: str
    view: TableView
    index: str
    table: Table


Entry: TypeAlias = TableView | ViewEntry | DirectoryEntry | SystemEntry | IndexEntry


def kind_of(node: Node | Definition) -> str:
    """ "table", "view" or "directory"."""
    kind: str = node.body.get("kind", "table")
    return kind


def created_of(entry: Entry) -> Instant:
    """When it was made; 0: it never was."""
    if isinstance(entry, TableView):
        return entry.body.created
    return entry.body.created if isinstance(entry, (ViewEntry, DirectoryEntry)) else 0
