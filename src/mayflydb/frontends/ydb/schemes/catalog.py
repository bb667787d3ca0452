"""The schemes of a server: changes of tables, views and directories."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.catalog_changes import CatalogTransaction
from mayflydb.engine.engine import Engine
from mayflydb.engine.reads import Steps
from mayflydb.expiry.rules import without_stamps
from mayflydb.frontends.ydb.changefeeds.publisher import TablePublisher
from mayflydb.frontends.ydb.changefeeds.scans import InitialScans
from mayflydb.frontends.ydb.schemes import feeds, paths, tree
from mayflydb.frontends.ydb.schemes.builds import Builds
from mayflydb.frontends.ydb.schemes.definitions import TtlPolicy, alter_definition, new_table, with_rule
from mayflydb.frontends.ydb.schemes.entries import (
    DirectoryBody,
    DirectoryEntry,
    IndexEntry,
    SystemEntry,
    ViewBody,
    ViewEntry,
)
from mayflydb.frontends.ydb.schemes.faults import (
    ALTER_STATUS,
    CREATE_STATUS,
    SCHEME_CODE,
    Invalid,
    missing_path,
    refuse_invalid,
    wrong_kind,
)
from mayflydb.frontends.ydb.schemes.lookup import Lookup
from mayflydb.frontends.ydb.schemes.specs import AlterSpec, TableSpec
from mayflydb.frontends.ydb.schemes.staging import HiddenTables
from mayflydb.frontends.ydb.schemes.system_rows import system_rows
from mayflydb.frontends.ydb.schemes.tree import TableMove
from mayflydb.frontends.ydb.sequences import Sequences
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.frontends.ydb.topics.log import SPACE as TOPIC_STATES
from mayflydb.model.errors import NotFound
from mayflydb.model.instant import Instant, Span
from mayflydb.query.yql.faults import Fault, fault
from mayflydb.query.yql.schemas import Row

T = TypeVar("T")

OWNER: Final = "root@builtin"
DATES_WAIT_LIMIT: Final = 20_000
"""ALTER TABLE waits for the dates of a new TTL column in tables of up to this many rows."""


class SchemeOptions(Protocol):
    """The options of the front end that concern schemes."""

    @property
    def databases(self) -> tuple[str, ...]:
        """The served databases, as absolute paths."""

    @property
    def hide_expired(self) -> bool:
        """True if due rows of all tables are hidden from their deadline on."""

    @property
    def run_interval(self) -> Span:
        """The time between removal runs of a table without a setting of its own."""

    @property
    def min_run_interval(self) -> Span:
        """The least run interval that a table may set."""


class Schemes(Lookup):
    """Lookups and changes of schemes. Each change takes the instant of its call."""

    session: Hashable = None
    """The session whose temporary tables are seen; None: no session's."""

    def __init__(self, engine: Engine, options: SchemeOptions) -> None:
        super().__init__(engine, options.databases)
        self.started_at: Instant = 0
        tick = engine.reaper.pass_settings.tick
        self.ttl_policy = TtlPolicy(options.min_run_interval, options.hide_expired, options.run_interval, tick)
        self.builds = Builds(engine, self)
        self.hidden = HiddenTables(engine)
        self.sequences = Sequences(engine)
        self.scans = InitialScans(engine, TablePublisher())

    async def system_rows(self, entry: SystemEntry) -> list[Row]:
        """Return the current rows of a system table, with all columns."""
        return await system_rows(self, entry, self.started_at)

    # --- tables ----------------------------------------------------------------------------------------------------

    async def create(
        self, path: str, spec: TableSpec, now: Instant, owner: str = OWNER, replace: bool = False
    ) -> TableView:
        """Create a table.

        `replace`: an existing table is replaced. Faults: the name is taken, or the description is invalid.
        """
        database, name = await self.split_new(path)
        with refuse_invalid(CREATE_STATUS):
            definition = new_table(spec, owner, self.ttl_policy, now)

        def create(catalog: CatalogTransaction) -> Steps[Node]:
            node = yield from tree.create_entry(catalog, database, name, definition, now, replace)
            if not spec.changefeeds:
                return node
            with refuse_invalid(CREATE_STATUS):
                return (yield from feeds.add_feeds(catalog, node, database, spec.changefeeds, now))

        if spec.changefeeds:
            await self.engine.definitions.space(TOPIC_STATES, now)
        node = await self._write(create)
        self.engine.reaper.invalidate(node.id)
        return self.view(node, paths.join_path(path))

    async def create_unless_exists(self, path: str, spec: TableSpec, now: Instant, owner: str = OWNER) -> bool:
        """Create a table unless it exists already; return True if it was created. Faults as of `create`."""
        if isinstance(await self.find(path), TableView):
            return False
        try:
            await self.create(path, spec, now, owner)
        except Fault:
            # A concurrent call may have created the table in between.
            if not isinstance(await self.find(path), TableView):
                raise
            return False
        return True

    async def alter(self, path: str, spec: AlterSpec, now: Instant) -> TableView:
        """Apply a change of a table as a whole, and start its builds.

        In a table of up to DATES_WAIT_LIMIT rows, the dates of a new TTL column are complete on return. Faults: the
        table does not exist, or the change is invalid.
        """
        view = await self.get_table(path)
        with refuse_invalid(ALTER_STATUS):
            if feeds.changes_feeds(spec):
                return await self._alter_feeds(view, spec, now)

        def change(node: Node) -> Definition:
            with refuse_invalid(ALTER_STATUS):
                return alter_definition(node.definition, spec, self.ttl_policy, now)

        try:
            node = await self.engine.definitions.replace(view.node.id, change, now)
        except NotFound:
            raise missing_path(path) from None
        after = self.view(node, view.table.path)
        self.builds.start(after)
        if any(slot.state == "building" for slot in node.definition.slots):
            # A test that moves the clock next expects the TTL column to count.
            totals = await self.engine.expiry_counts.totals(node.id)
            if totals.records <= DATES_WAIT_LIMIT:
                await self.builds.wait(after)
        return after

    async def _alter_feeds(self, view: TableView, spec: AlterSpec, now: Instant) -> TableView:
        """Add or drop a changefeed. Invalid: the first violation; faults of `feeds.alter_feeds`."""
        if view.body.column_store:
            raise Invalid("Changefeeds of column tables are not supported", "UNSUPPORTED")
        database, _ = await self.split(view.table.path)
        await self.engine.definitions.space(TOPIC_STATES, now)
        node = await self._write(lambda catalog: feeds.alter_feeds(catalog, view.node.id, database, spec, now))
        after = self.view(node, view.table.path)
        self.scans.start(after)
        return after

    async def is_temporary(self, path: str) -> bool:
        """Return whether the session has a temporary table at a path."""
        return False

    async def drop(self, path: str) -> None:
        """Drop a table with its rows and changefeeds. Faults: the table does not exist."""
        view = await self.get_table(path)
        if not view.body.changefeeds:
            await self._drop_node(view.node, path)
            return

        def drop(catalog: CatalogTransaction) -> Steps[list[int]]:
            node = yield from catalog.load(view.node.id)
            if node is None:
                raise missing_path(path)
            yield from tree.drop_entry(catalog, node)
            return [node.id, *(feed.topic for feed in view.body.changefeeds)]

        for id in await self._write(drop):
            self.engine.reaper.invalidate(id)

    async def rename(self, moves: Iterable[tuple[str, str, bool]], now: Instant) -> None:
        """Rename tables, all or none.

        `moves`: (source, destination, replace an existing table). Faults: see `tree.rename_tables`.
        """
        planned: list[TableMove] = []
        for source, destination, replace in moves:
            planned.append(TableMove(await self.split(source), await self.split_new(destination), replace))
        replaced = await self._write(lambda catalog: tree.rename_tables(catalog, planned, now))
        for id in replaced:
            self.engine.reaper.invalidate(id)

    async def publish(self, copies: Sequence[tuple[int, str, str]], now: Instant, replace: bool = False) -> None:
        """Give hidden tables their paths. `copies`: (id, database, name) each. `replace`, faults: see `tree.publish_copies`."""
        await self._write(lambda catalog: tree.publish_copies(catalog, copies, now, replace))

    # --- views and directories -------------------------------------------------------------------------------------

    async def create_view(self, path: str, text: str, now: Instant, owner: str = OWNER) -> None:
        """Create a view of a query. Faults: the name is taken."""
        database, name = await self.split_new(path)
        body = msgspec.to_builtins(ViewBody(text, created=now, owner=owner))
        await self._write(lambda catalog: tree.create_entry(catalog, database, name, Definition(body, now), now))

    async def drop_view(self, path: str) -> None:
        """Drop a view. Faults: the entry does not exist, or is no view."""
        entry = await self.find(path)
        if entry is None:
            raise missing_path(path)
        if not isinstance(entry, ViewEntry):
            raise wrong_kind(path, "view")
        await self._drop_node(entry.node, path)

    async def make_directory(self, path: str, now: Instant, owner: str = OWNER) -> bool:
        """Create a directory and its missing parents; False if it exists already.

        Faults: the path is another entry's.
        """
        entry = await self.find(path)
        if isinstance(entry, DirectoryEntry):
            return False
        if entry is not None:
            raise wrong_kind(path, "directory")
        database, name = await self.split_new(path)
        body = msgspec.to_builtins(DirectoryBody(created=now, owner=owner))
        await self._write(lambda catalog: tree.create_entry(catalog, database, name, Definition(body, now), now))
        return True

    async def remove_directory(self, path: str) -> None:
        """Remove an empty directory. Faults: the entry does not exist, is a database, or has children."""
        database, name = await self.split(path)
        if not name:
            raise fault(f"Check failed: path: '{path}', error: path is a database", status="PRECONDITION_FAILED")
        await self._write(lambda catalog: tree.drop_directory(catalog, database, name))

    async def update_body(self, path: str, update: Callable[[Node], dict[str, Any]], now: Instant) -> None:
        """Replace the body of an entry by the result of `update`. Faults: the entry does not exist."""
        entry = await self.find(path)
        if entry is None or isinstance(entry, (SystemEntry, IndexEntry)):
            raise missing_path(path)
        database, name = await self.split(path)
        if entry.node is None:
            if name:
                body = msgspec.to_builtins(DirectoryBody(created=now))
                node = await self._write(
                    lambda catalog: tree.create_entry(catalog, database, name, Definition(body, now), now)
                )
            else:
                node = await self._write(lambda catalog: tree.ensure_database(catalog, database, now))
        else:
            node = entry.node
        await self._write(lambda catalog: tree.replace_body(catalog, node.id, database, name, update))

    # --- after a start -----------------------------------------------------------------------------------------------

    async def resume(self, now: Instant) -> None:
        """Resume after a start at `now`: unfinished copies are dropped, builds go on, and rules follow the server's
        settings.
        """
        self.started_at = now
        await self.hidden.drop_unfinished()

        def change(node: Node) -> Definition:
            return with_rule(node.definition, self.ttl_policy, now)

        for view in await self.tables():
            # Settings of the server are part of the rules. Tables whose rules stay the same are not written.
            if _without_stamps(change(view.node)) != _without_stamps(view.node.definition):
                # Another node may have dropped the table since the list was read.
                with contextlib.suppress(NotFound):
                    await self.engine.definitions.replace(view.node.id, change, now)
            self.builds.start(view)
            self.scans.start(view)

    async def close(self) -> None:
        """Stop the builds. `resume` continues them."""
        await self.scans.close()
        await self.builds.close()
        await self.hidden.close()

    async def split_new(self, path: str) -> tuple[str, str]:
        """Split an absolute path for a new entry into (database, name below it).

        Faults: the path cannot be an entry.
        """
        database, name = await self.split(path)
        try:
            if not name:
                raise Invalid(f"Check failed: path: '{path}', error: path is a database")
            paths.check_new_path(f"/{name}")
        except Invalid as error:
            raise fault(error.message, status="SCHEME_ERROR", code=SCHEME_CODE) from None
        return database, name

    async def _drop_node(self, node: Node, path: str) -> None:
        try:
            await self.engine.definitions.drop(node.id)
        except NotFound:
            raise missing_path(path) from None

    async def _write(self, body: Callable[[CatalogTransaction], Steps[T]]) -> T:
        return await self.engine.definitions.transact(body)


def _without_stamps(definition: Definition) -> Definition:
    """Return a definition without the fields that changes of rules set."""
    return msgspec.structs.replace(definition, rules=tuple(map(without_stamps, definition.rules)))
