"""Lookup of entries by path. Results are cached for the current version of the catalogue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.engine.engine import Engine
from mayflydb.frontends.ydb.schemes import paths
from mayflydb.frontends.ydb.schemes.entries import (
    DirectoryBody,
    DirectoryEntry,
    Entry,
    IndexEntry,
    SystemEntry,
    ViewEntry,
    kind_of,
)
from mayflydb.frontends.ydb.schemes.faults import missing_path, unknown_path, wrong_kind
from mayflydb.frontends.ydb.schemes.system import system_entry, system_tables
from mayflydb.frontends.ydb.schemes.tree import SPACE
from mayflydb.frontends.ydb.schemes.views import decode_entry, index_entry, table_view
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.query.yql.schemas import Schemas, Table, View

MAX_PATHS: Final = 20_000
"""Cached paths, unknown ones included."""

MAX_VIEWS: Final = 4096
"""Cached tables, dropped ones included."""


class Lookup:
    """The entries of all databases, by path. `databases`: the served paths."""

    def __init__(self, engine: Engine, databases: Iterable[str]) -> None:
        self.engine = engine
        self._served = tuple(paths.join_path(each) for each in databases)
        self._version = -1
        self._databases: tuple[str, ...] = ()
        self._entries: dict[str, Entry | None] = {}
        self._views: dict[int, TableView] = {}

    async def databases(self) -> tuple[str, ...]:
        """Return the databases that are served, and others that have entries."""
        await self._refresh()
        return self._databases

    async def split(self, path: str) -> tuple[str, str]:
        """Split an absolute path into (database, name below it). Faults: the path lies in no database."""
        found = paths.split_path(await self.databases(), path)
        if found is None:
            raise unknown_path(path)
        return found

    async def find(self, path: str) -> Entry | None:
        """Return the entry at an absolute path; None if there is none."""
        path = paths.join_path(path)
        while True:
            version = await self._refresh()
            if path in self._entries:
                return self._entries[path]
            # If the catalogue changes during the lookup, the result may mix two states: it is dropped, and looked up
            # again.
            entry = await self._resolve(path)
            if self.engine.catalog_version == version:
                if len(self._entries) >= MAX_PATHS:
                    self._entries.clear()
                self._entries[path] = entry
                return entry

    async def get_table(self, path: str) -> TableView:
        """Return the table at a path. Faults: the entry does not exist, or is no table."""
        entry = await self.find(path)
        if entry is None:
            raise missing_path(path)
        if not isinstance(entry, TableView):
            raise wrong_kind(path, "table")
        return entry

    async def schemas(self, wanted: Iterable[str]) -> Schemas:
        """Return the existing tables and views among absolute paths."""
        found: dict[str, Table | View] = {}
        for path in wanted:
            entry = await self.find(path)
            if isinstance(entry, (TableView, SystemEntry, IndexEntry)):
                found[path] = entry.table
            elif isinstance(entry, ViewEntry):
                found[path] = entry.view
        return found

    async def children(self, path: str) -> list[Entry]:
        """Return the entries directly below a directory or database, by name. Faults: the path is unknown."""
        entry = await self.find(path)
        if entry is None:
            raise unknown_path(path)
        if not isinstance(entry, DirectoryEntry):
            return []
        database, name = await self.split(path)
        if name == paths.SYSTEM_DIRECTORY:
            return list(system_tables(database))
        nodes = await self._nodes(database)
        prefix = f"{name}/" if name else ""
        # Entries deeper down make the directories in between visible, with or without nodes of their own.
        leaves = {node[len(prefix) :].partition("/")[0] for node in nodes if node.startswith(prefix)}
        below = [await self.find(paths.join_path(path, leaf)) for leaf in sorted(leaves - {""})]
        system = [DirectoryEntry(paths.join_path(path, paths.SYSTEM_DIRECTORY))] if not name else []
        return [*system, *(each for each in below if each is not None)]

    async def tables(self) -> list[TableView]:
        """Return all tables of all databases."""
        found: list[TableView] = []
        for database in await self.databases():
            for name, node in (await self._nodes(database)).items():
                if kind_of(node) == "table":
                    found.append(self.view(node, paths.join_path(database, name)))
        return found

    async def database_ids(self) -> list[int]:
        """Return the ids of the databases' nodes. All tables are children of these nodes."""
        return [node.id for node in await self._database_nodes()]

    async def path_of(self, container: int) -> str | None:
        """Return the path of the table with this id; None if there is none."""
        node = await self.engine.node_by_id(container)
        home = None if node is None else await self.engine.node_by_id(node.parent)
        return None if node is None or home is None else paths.join_path(home.name, node.name)

    async def _database_nodes(self) -> list[Node]:
        space = await self.engine.node(SPACE)
        return [] if space is None else await self.engine.children(space.id)

    async def _refresh(self) -> int:
        version = self.engine.catalog_version
        while version != self._version:
            names = [node.name for node in await self._database_nodes()]
            # Reading the databases may let another change in: the version is read again until it stands still.
            now = self.engine.catalog_version
            if now == version:
                self._entries.clear()
                if len(self._views) > MAX_VIEWS:
                    self._views.clear()
                self._databases = tuple(dict.fromkeys((*self._served, *names)))
                self._version = version
            version = now
        return version

    async def _resolve(self, path: str) -> Entry | None:
        split = paths.split_path(self._databases, path)
        if split is None:
            return None
        database, name = split
        if not name:
            node = await self.engine.node(SPACE, database)
            body = DirectoryBody() if node is None else msgspec.convert(node.body, DirectoryBody)
            return DirectoryEntry(path, body, node, is_database=True)
        if name == paths.SYSTEM_DIRECTORY or name.startswith(f"{paths.SYSTEM_DIRECTORY}/"):
            return system_entry(database, name)
        node = await self.engine.node(SPACE, database, name)
        if node is not None:
            return self.view(node, path) if kind_of(node) == "table" else decode_entry(node, path)
        nodes = await self._nodes(database)
        if any(each.startswith(f"{name}/") for each in nodes):
            return DirectoryEntry(path)
        # Last, since real entries win: an index is read as `t/idx/indexImplTable`.
        return self._find_index_entry(database, name, nodes)

    def _find_index_entry(self, database: str, name: str, nodes: dict[str, Node]) -> Entry | None:
        above, _, leaf = name.rpartition("/")
        table, _, index = above.rpartition("/")
        node = nodes.get(table)
        if leaf != paths.INDEX_TABLE or node is None or kind_of(node) != "table":
            return None
        return index_entry(self.view(node, paths.join_path(database, table)), index)

    def view(self, node: Node, path: str) -> TableView:
        """Return the decoded table of a node, cached for each definition."""
        known = self._views.get(node.id)
        # The engine returns the same object until the node changes.
        if known is None or known.node is not node or known.table.path != path:
            known = self._views[node.id] = table_view(node, path)
        return known

    async def _nodes(self, database: str) -> dict[str, Node]:
        home = await self.engine.node(SPACE, database)
        return {} if home is None else {node.name: node for node in await self.engine.children(home.id)}
