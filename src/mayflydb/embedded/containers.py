"""Containers of Cosmos DB, asynchronously. Each call is a request to the front end, with all checks of a client's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mayflydb.embedded.questions import NOT_GIVEN
from mayflydb.model.errors import BadRequest, Conflict, NotFound

if TYPE_CHECKING:
    from mayflydb.admin.cosmos_items import CosmosItems

Item = dict[str, Any]

PARTITION_KEY: Final = "x-ms-documentdb-partitionkey"
_CROSS_PARTITION: Final = "x-ms-documentdb-query-enablecrosspartition"
_NEEDS_MERGE: Final = 1004
"""The substatus by which the front end asks a client to merge the results of partitions."""


class AsyncCosmosDatabase:
    """One database of Cosmos DB."""

    def __init__(self, items: CosmosItems, name: str) -> None:
        self._items = items
        self.name = name

    async def container(
        self,
        name: str,
        partition_key: str | Sequence[str] | None = None,
        *,
        default_ttl: int | msgspec.UnsetType | None = NOT_GIVEN,
    ) -> AsyncContainer:
        """Open a container. With a partition key, make it and its database if they are missing.

        `partition_key`: a path, `/userId`, or several. `default_ttl`: seconds, -1 for on without a default, None for off.

        NotFound for a missing container without a partition key; Conflict for one that has other settings.
        """
        path = ("dbs", self.name, "colls", name)
        found = await self._items.find(path)
        if found is None:
            if partition_key is None:
                raise NotFound(f"there is no container {name} in {self.name}; a partition_key makes one")
            found = await self._make(name, _paths(partition_key), default_ttl)
        _compare(found, partition_key, default_ttl)
        return AsyncContainer(self._items, self.name, found)

    async def containers(self) -> list[str]:
        """Return the names of the containers. NotFound for a missing database."""
        _, answer = await self._items.ask("GET", ("dbs", self.name, "colls"), None)
        return [each["id"] for each in answer["DocumentCollections"]]

    async def delete(self) -> None:
        """Delete the database with all its containers. NotFound."""
        await self._items.ask("DELETE", ("dbs", self.name), None)

    async def _make(self, name: str, paths: list[str], default_ttl: int | msgspec.UnsetType | None) -> dict[str, Any]:
        if await self._items.find(("dbs", self.name)) is None:
            await self._items.ask("POST", ("dbs",), {"id": self.name})
        key = {"paths": paths, "kind": "Hash" if len(paths) == 1 else "MultiHash", "version": 2}
        body: dict[str, Any] = {"id": name, "partitionKey": key}
        if default_ttl is not NOT_GIVEN and default_ttl is not None:
            body["defaultTtl"] = default_ttl
        return (await self._items.ask("POST", ("dbs", self.name, "colls"), body))[1]


class AsyncContainer:
    """One container of Cosmos DB.

    A partition key is a value, or a list of values for a key of several paths. Items that have no such property have the key
    `{}`. Errors: Conflict, NotFound, PreconditionFailed, BadRequest, TooLarge, Throttled.
    """

    def __init__(self, items: CosmosItems, database: str, definition: Mapping[str, Any]) -> None:
        self._items = items
        self._path = ("dbs", database, "colls", definition["id"])
        self._paths: list[str] = definition["partitionKey"]["paths"]
        self.name: str = definition["id"]
        self.target = f"cosmos:{database}/{definition['id']}"
        """The container's name in the admin API."""

    async def create(self, item: Mapping[str, Any]) -> Item:
        """Write a new item. Conflict for an id that is there."""
        return await self._write(item, {})

    async def upsert(self, item: Mapping[str, Any]) -> Item:
        """Write an item, in the place of one with its id."""
        return await self._write(item, {"x-ms-documentdb-is-upsert": "True"})

    async def replace(self, item: Mapping[str, Any], *, if_match: str | None = None) -> Item:
        """Replace the item with this id. `if_match`: its `_etag`. NotFound; PreconditionFailed."""
        from mayflydb.admin.cosmos_items import partition_header

        headers = partition_header(item, self._paths) | _condition(if_match)
        _, answer = await self._items.ask("PUT", (*self._path, "docs", str(item["id"])), item, headers)
        return answer

    async def patch(
        self, id: str, partition_key: Any, operations: Sequence[Mapping[str, Any]], *, if_match: str | None = None
    ) -> Item:
        """Change parts of an item: `[{"op": "set", "path": "/ttl", "value": 60}]`. NotFound; PreconditionFailed."""
        headers = self._key(partition_key) | _condition(if_match)
        body = {"operations": list(operations)}
        _, answer = await self._items.ask("PATCH", (*self._path, "docs", id), body, headers)
        return answer

    async def get(self, id: str, partition_key: Any) -> Item | None:
        """Return an item; None if there is none, or it has expired."""
        return await self._items.find((*self._path, "docs", id), self._key(partition_key))

    async def delete(self, id: str, partition_key: Any, *, if_match: str | None = None) -> None:
        """Delete an item. NotFound; PreconditionFailed."""
        headers = self._key(partition_key) | _condition(if_match)
        await self._items.ask("DELETE", (*self._path, "docs", id), None, headers)

    async def query(
        self, text: str, parameters: Mapping[str, Any] | None = None, *, partition_key: Any = NOT_GIVEN
    ) -> AsyncIterator[Any]:
        """Yield the results of a query, page by page: `SELECT * FROM c WHERE c.userId = @user`, `{"@user": "u1"}`.

        Without a partition key, of all partitions. BadRequest for a wrong query.
        """
        async for page in self.query_pages(text, parameters, partition_key=partition_key):
            for found in page:
                yield found

    async def query_pages(
        self, text: str, parameters: Mapping[str, Any] | None = None, *, partition_key: Any = NOT_GIVEN
    ) -> AsyncIterator[list[Any]]:
        """Yield the same in lists, as the front end answers them."""
        wanted = [{"name": name, "value": value} for name, value in (parameters or {}).items()]
        scope = {} if partition_key is NOT_GIVEN else self._key(partition_key)
        headers = {"content-type": "application/query+json", "x-ms-documentdb-isquery": "True", **scope}
        if not scope:
            headers[_CROSS_PARTITION] = "True"
        body = {"query": text, "parameters": wanted}
        token: str | None = ""
        while token is not None:
            here = {**headers, "x-ms-continuation": token} if token else headers
            page, token = await self._query_page(body, here)
            yield page

    async def _query_page(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[list[Any], str | None]:
        path = (*self._path, "docs")
        try:
            return await self._items.query(path, body, headers)
        except BadRequest as refusal:
            if refusal.detail.get("substatus") != _NEEDS_MERGE:
                raise
            # Where WHERE names the partition, a request that may not cross partitions is served there.
            with suppress(BadRequest):
                return await self._items.query(path, body, {**headers, _CROSS_PARTITION: "False"})
            raise

    async def default_ttl(self) -> int | None:
        """Return the seconds of the default, -1 for on without one; None: TTL is off."""
        _, answer = await self._items.ask("GET", self._path, None)
        found: int | None = answer.get("defaultTtl")
        return found

    async def drop(self) -> None:
        """Delete the container with all its items. NotFound."""
        await self._items.ask("DELETE", self._path, None)

    async def _write(self, item: Mapping[str, Any], headers: Mapping[str, str]) -> Item:
        from mayflydb.admin.cosmos_items import partition_header

        key = partition_header(item, self._paths)
        _, answer = await self._items.ask("POST", (*self._path, "docs"), item, {**key, **headers})
        return answer

    def _key(self, value: Any) -> dict[str, str]:
        values = value if len(self._paths) > 1 and isinstance(value, list | tuple) else [value]
        return {PARTITION_KEY: msgspec.json.encode(values).decode()}


def _condition(if_match: str | None) -> dict[str, str]:
    return {} if if_match is None else {"if-match": if_match}


def _paths(partition_key: str | Sequence[str]) -> list[str]:
    return [partition_key] if isinstance(partition_key, str) else list(partition_key)


def _compare(
    found: Mapping[str, Any], partition_key: str | Sequence[str] | None, ttl: int | msgspec.UnsetType | None
) -> None:
    """Raise Conflict for a container whose settings are not those that are asked for."""
    name = found["id"]
    if partition_key is not None and found["partitionKey"]["paths"] != _paths(partition_key):
        raise Conflict(f"the container {name} has the partition key {found['partitionKey']['paths']}")
    if ttl is not NOT_GIVEN and found.get("defaultTtl") != ttl:
        raise Conflict(f"the container {name} has default_ttl={found.get('defaultTtl')}; db.ttl.set changes it")
