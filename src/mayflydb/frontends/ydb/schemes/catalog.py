"""The schemes of a server: the tables, views and directories of its databases, and the changes of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.catalog_changes import CatalogTransaction
from mayflydb.engine.engine import Engine
from mayflydb.engine.reads import Steps
from mayflydb.frontends.ydb.schemes import paths, tree
from mayflydb.frontends.ydb.schemes.builds import Builds
from mayflydb.frontends.ydb.schemes.entries import (
    DirectoryBody,
    DirectoryEntry,
    IndexEntry,
    SystemEntry,
    ViewBody,
    ViewEntry,
)
from mayflydb.frontends.ydb.schemes.faults import (
    ALTERING,
    CREATING,
    SCHEME_CODE,
    Invalid,
    judged,
    missing,
    wrong_kind,
)
from mayflydb.frontends.ydb.schemes.lookup import Lookup
from mayflydb.frontends.ydb.schemes.making import Terms, altered, new_table, ruled
from mayflydb.frontends.ydb.schemes.specs import AlterSpec, TableSpec
from mayflydb.frontends.ydb.schemes.staging import drop_unfinished
from mayflydb.frontends.ydb.schemes.system_rows import system_rows
from mayflydb.frontends.ydb.schemes.tree import Move
from mayflydb.frontends.ydb.sequences import Sequences
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.model.errors import NotFound
from mayflydb.model.instant import Instant, Span
from mayflydb.query.yql.faults import Fault, fault
from mayflydb.query.yql.schemas import Row

T = TypeVar("T")

OWNER: Final = "root@builtin"
SOON_DATED: Final = 20_000
"""Rows whose dates a change of the TTL column waits for."""


class SchemeOptions(Protocol):
    """What of the front end's options is about schemes."""

    @property
    def databases(self) -> tuple[str, ...]:
        """Absolute paths."""

    @property
    def hide_expired(self) -> bool:
        """Whether due rows vanish at their deadline, whatever a table says."""

    @property
    def run_interval(self) -> Span:
        """How often a table is swept that says nothing of it."""

    @property
    def min_run_interval(self) -> Span:
        """The least that it may say."""


class Schemes(Lookup):
    """The lookups, and the changes. Changes take the instant of their call."""

    def __init__(self, engine: Engine, options: SchemeOptions) -> None:
        super().__init__(engine, options.databases)
        self.started: Instant = 0
        tick = engine.reaper.cadence.tick
        self.terms = Terms(options.min_run_interval, options.hide_expired, options.run_interval, tick)
        self.builds = Builds(engine, self)
        self.sequences = Sequences(engine)

    async def system_rows(self, entry: SystemEntry) -> list[Row]:
        """The rows that a table of the system has now, of all its columns."""
        return await system_rows(self, entry, self.started)

    # --- tables ----------------------------------------------------------------------------------------------------

    async def create(
        self, path: str, spec: TableSpec, now: Instant, owner: str = OWNER, replace: bool = False
    ) -> TableView:
        """A new table; `replace`: in the place of one that is there. Faults: the name is taken, or what no table can have."""
        database, name = await self.new_place(path)
        with judged(CREATING):
            definition = new_table(spec, owner, self.terms, now)
        node = await self._write(lambda rows: tree.make(rows, database, name, definition, now, replace))
        self.engine.reaper.changed(node.id)
        return self.view(node, paths.joined(path))

    async def ensure(self, path: str, spec: TableSpec, now: Instant, owner: str = OWNER) -> bool:
        """A new table, unless there is a table already: False. Faults: as in `create`."""
        if isinstance(await self.find(path), TableView):
            return False
        try:
            await self.create(path, spec, now, owner)
        except Fault:
            # Somebody else may have made it meanwhile.
            if not isinstance(await self.find(path), TableView):
                raise
            return False
        return True

    async def alter(self, path: str, spec: AlterSpec, now: Instant) -> TableView:
        """Change a table, all at once. What that leaves to be built is begun; dates of a new TTL column, in a table that is not
        large, are there when this returns. Faults: it is not there, or what cannot be."""
        view = await self.table(path)

        def change(node: Node) -> Definition:
            with judged(ALTERING):
                return altered(node.definition, spec, self.terms, now)

        try:
            node = await self.engine.definitions.replace(view.node.id, change, now)
        except NotFound:
            raise missing(path) from None
        after = self.view(node, view.table.path)
        self.builds.begin(after)
        if any(slot.state == "building" for slot in node.definition.slots):
            # Whoever moves the clock next expects the column to count.
            totals = await self.engine.insight.totals(node.id)
            if totals.records <= SOON_DATED:
                await self.builds.ended(after)
        return after

    async def drop(self, path: str) -> None:
        """Remove a table with all it holds. Faults: it is not there."""
        view = await self.table(path)
        await self._drop(view.node, path)

    async def rename(self, moves: Iterable[tuple[str, str, bool]], now: Instant) -> None:
        """Other paths for tables, all or none: (source, destination, whether that is replaced). Faults: see `Tree.move`."""
        meant: list[Move] = []
        for source, destination, replace in moves:
            meant.append(Move(await self.split(source), await self.new_place(destination), replace))
        replaced = await self._write(lambda rows: tree.move(rows, meant, now))
        for id in replaced:
            self.engine.reaper.changed(id)

    async def publish(self, copies: Sequence[tuple[int, str, str]], now: Instant) -> None:
        """Tables that nobody saw get their names: (id, database, name) each. Faults: see `Tree.publish`."""
        await self._write(lambda rows: tree.publish(rows, copies, now))

    # --- views and directories -------------------------------------------------------------------------------------

    async def create_view(self, path: str, text: str, now: Instant, owner: str = OWNER) -> None:
        """A new view of a query. Faults: the name is taken."""
        database, name = await self.new_place(path)
        body = msgspec.to_builtins(ViewBody(text, created=now, owner=owner))
        await self._write(lambda rows: tree.make(rows, database, name, Definition(body, now), now))

    async def drop_view(self, path: str) -> None:
        """Faults: it is not there, or no view."""
        entry = await self.find(path)
        if entry is None:
            raise missing(path)
        if not isinstance(entry, ViewEntry):
            raise wrong_kind(path, "view")
        await self._drop(entry.node, path)

    async def make_directory(self, path: str, now: Instant, owner: str = OWNER) -> bool:
        """A new directory and those above it; False: it is there already. Faults: there is something else."""
        entry = await self.find(path)
        if isinstance(entry, DirectoryEntry):
            return False
        if entry is not None:
            raise wrong_kind(path, "directory")
        database, name = await self.new_place(path)
        body = msgspec.to_builtins(DirectoryBody(created=now, owner=owner))
        await self._write(lambda rows: tree.make(rows, database, name, Definition(body, now), now))
        return True

    async def remove_directory(self, path: str) -> None:
        """Remove an empty directory. Faults: it is not there, it is a database, or something is in it."""
        database, name = await self.split(path)
        if not name:
            raise fault(f"Check failed: path: '{path}', error: path is a database", status="PRECONDITION_FAILED")
        await self._write(lambda rows: tree.drop_directory(rows, database, name))

    async def modify(self, path: str, judge: Callable[[Node], dict[str, Any]], now: Instant) -> None:
        """Another body for what is at a path, as `judge` makes it. Faults: nothing is there."""
        entry = await self.find(path)
        if entry is None or isinstance(entry, (SystemEntry, IndexEntry)):
            raise missing(path)
        database, name = await self.split(path)
        if entry.node is None:
            if name:
                body = msgspec.to_builtins(DirectoryBody(created=now))
                node = await self._write(lambda rows: tree.make(rows, database, name, Definition(body, now), now))
            else:
                node = await self._write(lambda rows: tree.ensure_database(rows, database, now))
        else:
            node = entry.node
        await self._write(lambda rows: tree.change(rows, node.id, database, name, judge))

    # --- what is left from before ----------------------------------------------------------------------------------

    async def resume(self, now: Instant) -> None:
        """After a start, at `now`: go on with what is not complete, and let rules be what the server's settings say."""
        self.started = now
        await drop_unfinished(self.engine)

        def change(node: Node) -> Definition:
            return ruled(node.definition, self.terms, now)

        for view in await self.tables():
            if _plain(change(view.node)) != _plain(view.node.definition):
                with contextlib.suppress(NotFound):
                    await self.engine.definitions.replace(view.node.id, change, now)
            self.builds.begin(view)

    async def close(self) -> None:
        """Leave what is being built as it is; `resume` goes on with it."""
        await self.builds.close()

    async def new_place(self, path: str) -> tuple[str, str]:
        """(database, name below it) of an absolute path where something is to be made. Faults: nothing can be there."""
        database, name = await self.split(path)
        try:
            if not name:
                raise Invalid(f"Check failed: path: '{path}', error: path is a database")
            paths.check_new(f"/{name}")
        except Invalid as error:
            raise fault(error.message, status="SCHEME_ERROR", code=SCHEME_CODE) from None
        return database, name

    async def _drop(self, node: Node, path: str) -> None:
        try:
            await self.engine.definitions.drop(node.id)
        except NotFound:
            raise missing(path) from None

    async def _write(self, body: Callable[[CatalogTransaction], Steps[T]]) -> T:
        return await self.engine.definitions.transact(body)


def _plain(definition: Definition) -> Definition:
    """A definition, but for what its changes stamp on rules."""
    rules = tuple(msgspec.structs.replace(rule, version=0, not_before=None) for rule in definition.rules)
    return msgspec.structs.replace(definition, rules=rules)
