"""Databases without ports: `with mayflydb.open(":memory:") as db: ...`, and the same for an event loop."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec import UnsetType

from mayflydb.config import Settings
from mayflydb.embedded.async_handles import AsyncAdminHandle
from mayflydb.embedded.containers import AsyncContainer, AsyncCosmosDatabase, Item
from mayflydb.embedded.handles import AdminHandle
from mayflydb.embedded.questions import NOT_GIVEN
from mayflydb.embedded.settings import settings_without_ports
from mayflydb.embedded.threads import Home, LoopThread
from mayflydb.embedded.within import AsyncControls, Within

if TYPE_CHECKING:
    from mayflydb.http.asgi import Application
    from mayflydb.serving.local import LocalDatabase


class AsyncDatabase(AsyncAdminHandle):
    """A database in this process, for the event loop that has opened it."""

    def __init__(self, local: LocalDatabase) -> None:
        from mayflydb.admin.cosmos_items import CosmosItems
        from mayflydb.http.application import application

        super().__init__(AsyncControls(local.admin))
        self._local = local
        self._items = CosmosItems(local.caller)
        self.key = local.key
        """The account key that requests to `asgi` are signed with."""
        self.asgi: Application = application(local.handler)
        """Cosmos DB's REST API, the admin API and the portal, for an in-process transport such as httpx's."""

    def cosmos(self, name: str) -> AsyncCosmosDatabase:
        """Return a database of Cosmos DB. It is made with its first container."""
        return AsyncCosmosDatabase(self._items, name)


class Database(AdminHandle):
    """A database in this process. Its methods may be called from any thread except its own, which would wait for itself."""

    def __init__(self, thread: LoopThread[tuple[Home, LocalDatabase, AsyncDatabase]]) -> None:
        from mayflydb.http.application import on_loop

        home, local, database = thread.start()
        super().__init__(Within(home, local.admin))
        self._thread = thread
        self._home = home
        self._database = database
        self.key = database.key
        """The account key that requests to `asgi` are signed with."""
        self.asgi: Application = on_loop(database.asgi, home.loop)
        """Cosmos DB's REST API, the admin API and the portal, for an in-process transport such as httpx's, on any loop."""

    def cosmos(self, name: str) -> CosmosDatabase:
        """Return a database of Cosmos DB. It is made with its first container."""
        return CosmosDatabase(self._home, self._database.cosmos(name))

    def close(self) -> None:
        """Flush and close the store. A second call does nothing."""
        self._thread.stop()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class CosmosDatabase:
    """One database of Cosmos DB."""

    def __init__(self, home: Home, database: AsyncCosmosDatabase) -> None:
        self._home = home
        self._database = database
        self.name = database.name

    def container(
        self,
        name: str,
        partition_key: str | Sequence[str] | None = None,
        *,
        default_ttl: int | UnsetType | None = NOT_GIVEN,
    ) -> Container:
        """Open a container. With a partition key, make it and its database if they are missing.

        `partition_key`: a path, `/userId`, or several. `default_ttl`: seconds, -1 for on without a default, None for off.

        NotFound for a missing container without a partition key; Conflict for one that has other settings.
        """
        opened = self._database.container(name, partition_key, default_ttl=default_ttl)
        return Container(self._home, self._home.call(opened))

    def containers(self) -> list[str]:
        """Return the names of the containers. NotFound for a missing database."""
        return self._home.call(self._database.containers())

    def delete(self) -> None:
        """Delete the database with all its containers. NotFound."""
        self._home.call(self._database.delete())


class Container:
    """One container of Cosmos DB: partition keys and errors as those of `AsyncContainer`."""

    def __init__(self, home: Home, container: AsyncContainer) -> None:
        self._home = home
        self._container = container
        self.name = container.name
        self.target = container.target
        """The container's name in the admin API."""

    def create(self, item: Mapping[str, Any]) -> Item:
        """Write a new item. Conflict for an id that is there."""
        return self._home.call(self._container.create(item))

    def upsert(self, item: Mapping[str, Any]) -> Item:
        """Write an item, in the place of one with its id."""
        return self._home.call(self._container.upsert(item))

    def replace(self, item: Mapping[str, Any], *, if_match: str | None = None) -> Item:
        """Replace the item with this id. `if_match`: its `_etag`. NotFound; PreconditionFailed."""
        return self._home.call(self._container.replace(item, if_match=if_match))

    def patch(
        self, id: str, partition_key: Any, operations: Sequence[Mapping[str, Any]], *, if_match: str | None = None
    ) -> Item:
        """Change parts of an item: `[{"op": "set", "path": "/ttl", "value": 60}]`. NotFound; PreconditionFailed."""
        return self._home.call(self._container.patch(id, partition_key, operations, if_match=if_match))

    def get(self, id: str, partition_key: Any) -> Item | None:
        """Return an item; None if there is none, or it has expired."""
        return self._home.call(self._container.get(id, partition_key))

    def delete(self, id: str, partition_key: Any, *, if_match: str | None = None) -> None:
        """Delete an item. NotFound; PreconditionFailed."""
        self._home.call(self._container.delete(id, partition_key, if_match=if_match))

    def query(
        self, text: str, parameters: Mapping[str, Any] | None = None, *, partition_key: Any = NOT_GIVEN
    ) -> Iterator[Any]:
        """Yield the results of a query, page by page: `SELECT * FROM c WHERE c.userId = @user`, `{"@user": "u1"}`.

        Without a partition key, of all partitions. BadRequest for a wrong query.
        """
        pages = self._container.query_pages(text, parameters, partition_key=partition_key)

        async def turn() -> list[Any] | None:
            return await anext(pages, None)

        while (page := self._home.call(turn())) is not None:
            yield from page

    def default_ttl(self) -> int | None:
        """Return the seconds of the default, -1 for on without one; None: TTL is off."""
        return self._home.call(self._container.default_ttl())

    def drop(self) -> None:
        """Delete the container with all its items. NotFound."""
        self._home.call(self._container.drop())


def open_database(place: str | Path, **settings: Any) -> Database:
    """Open a database without ports: a file, `:memory:`, or `postgresql://...`. Close it, or use it in a `with` block.

    Keywords are flags of `mayfly serve` that concern the store, queries, the clock and TTL (`clock="virtual"`). The environment
    and settings files are not read. TypeError for another keyword; StartFailed for a store that cannot be served.
    """
    configured = settings_without_ports(place, settings)
    return Database(LoopThread(partial(_open_at_home, configured), "mayfly-database"))


@asynccontextmanager
async def open_async(place: str | Path, **settings: Any) -> AsyncIterator[AsyncDatabase]:
    """Open a database on the running event loop until the block ends. Arguments and errors as of `mayflydb.open`."""
    async with _open_local(settings_without_ports(place, settings)) as local:
        yield AsyncDatabase(local)


@asynccontextmanager
async def _open_local(configured: Settings) -> AsyncIterator[LocalDatabase]:
    from mayflydb.serving.local import LocalDatabase

    local = LocalDatabase(configured, os.environ)
    try:
        await local.start()
        yield local
    finally:
        await local.close()


@asynccontextmanager
async def _open_at_home(configured: Settings, home: Home) -> AsyncIterator[tuple[Home, LocalDatabase, AsyncDatabase]]:
    async with _open_local(configured) as local:
        yield home, local, AsyncDatabase(local)
