"""Temporary tables: hidden tables that one session sees at their paths, in the place of other entries, and that end with it.

Source: https://ydb.tech/docs/en/yql/reference/syntax/create_table/temporary
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from mayflydb.engine.catalog import Node
from mayflydb.frontends.ydb.schemes import paths
from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.frontends.ydb.schemes.definitions import new_table
from mayflydb.frontends.ydb.schemes.entries import Entry
from mayflydb.frontends.ydb.schemes.faults import CREATE_STATUS, path_conflict, refuse_invalid
from mayflydb.frontends.ydb.schemes.specs import AlterSpec, TableSpec
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.model.instant import Instant
from mayflydb.query.yql.faults import fault, unsupported

MAX_TABLES: Final = 100
"""Temporary tables of one session."""


class TemporaryTables:
    """The temporary tables of one session."""

    def __init__(self, schemes: Schemes) -> None:
        self.schemes = schemes
        self._ids: dict[str, int] = {}
        self._epoch = schemes.engine.epoch
        self._is_over = False

    def __bool__(self) -> bool:
        """Return whether the session has temporary tables."""
        return bool(self._ids)

    async def find(self, path: str) -> TableView | None:
        """Return the temporary table at a path; None if there is none."""
        path = paths.join_path(path)
        if self._epoch != self.schemes.engine.epoch:
            # Everything stored was replaced, and ids are given anew.
            self._ids, self._epoch = {}, self.schemes.engine.epoch
        id = self._ids.get(path)
        node = None if id is None else await self.schemes.engine.node_by_id(id)
        return None if node is None else self.schemes.view(node, path)

    async def create(self, path: str, spec: TableSpec, now: Instant, owner: str) -> None:
        """Create a temporary table. Faults: the session has one at this path, or the description is invalid."""
        path = paths.join_path(path)
        await self.schemes.split_new(path)
        if await self.find(path) is not None:
            raise path_conflict(path)
        if len(self._ids) >= MAX_TABLES:
            raise fault(f"Too many temporary tables in a session. Limit: {MAX_TABLES}", status="PRECONDITION_FAILED")
        if spec.column_store:
            raise unsupported("TEMPORARY of a column-oriented table")
        if spec.changefeeds:
            raise unsupported("CHANGEFEED of a temporary table")
        with refuse_invalid(CREATE_STATUS):
            definition = new_table(spec, owner, self.schemes.ttl_policy, now)
        node = await self.schemes.hidden.create(definition, now)
        if self._is_over:
            # The session was lost meanwhile.
            self.schemes.hidden.discard([node.id])
            return
        self._ids[path] = node.id
        self.schemes.engine.reaper.invalidate(node.id)

    async def drop(self, path: str) -> None:
        """Drop the temporary table at a path."""
        await self.schemes.hidden.drop(self._ids.pop(paths.join_path(path)))

    def end(self) -> None:
        """Drop all tables, in the background: the session has ended."""
        ids, self._ids, self._is_over = self._ids, {}, True
        if ids and self._epoch == self.schemes.engine.epoch:
            self.schemes.hidden.discard(ids.values())


def schemes_of(schemes: Schemes, temporary: TemporaryTables | None) -> Schemes:
    """Return the schemes as a session with these temporary tables sees them."""
    return SessionSchemes(temporary) if temporary else schemes


class SessionSchemes(Schemes):
    """The schemes as a session with temporary tables sees them: these come first at their paths."""

    def __init__(self, temporary: TemporaryTables) -> None:
        # All state is shared with the schemes of the server.
        vars(self).update(vars(temporary.schemes))
        self.session = self._temporary = temporary

    async def find(self, path: str) -> Entry | None:
        """Return the entry at an absolute path; None if there is none."""
        found = await self._temporary.find(path)
        return await self._temporary.schemes.find(path) if found is None else found

    async def databases(self) -> tuple[str, ...]:
        """See `Lookup.databases`."""
        return await self._temporary.schemes.databases()

    async def alter(self, path: str, spec: AlterSpec, now: Instant) -> TableView:
        """Apply a change of a table. UNSUPPORTED for changefeeds of a temporary one."""
        if (spec.add_changefeeds or spec.drop_changefeeds) and await self.is_temporary(path):
            raise unsupported("CHANGEFEED of a temporary table")
        return await super().alter(path, spec, now)

    async def is_temporary(self, path: str) -> bool:
        """Return whether the session has a temporary table at a path."""
        return await self._temporary.find(path) is not None

    async def drop(self, path: str) -> None:
        """Drop a table with its rows, the temporary one first. Faults: the table does not exist."""
        if await self.is_temporary(path):
            await self._temporary.drop(path)
        else:
            await super().drop(path)

    async def update_body(self, path: str, update: Callable[[Node], dict[str, Any]], now: Instant) -> None:
        """Replace the body of an entry. UNSUPPORTED for a temporary table: it is its session's alone."""
        if await self.is_temporary(path):
            raise unsupported("Permissions of a temporary table")
        await super().update_body(path, update, now)

    async def rename(self, moves: Iterable[tuple[str, str, bool]], now: Instant) -> None:
        """Rename tables. UNSUPPORTED for a temporary one."""
        moves = tuple(moves)
        for source, _, _ in moves:
            if await self.is_temporary(source):
                raise unsupported("RENAME of a temporary table")
        await super().rename(moves, now)
