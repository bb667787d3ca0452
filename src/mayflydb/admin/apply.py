"""Applies resource documents through the front ends' own requests: nothing is made that a client could not make.

Applied again, a document changes nothing: what is there with the same content is left alone, with its age.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from mayflydb.admin import formats
from mayflydb.admin.cosmos_items import CosmosItems, content_of, partition_header
from mayflydb.admin.mongo_documents import from_json, stored_bytes
from mayflydb.admin.resources import (
    CosmosContainer,
    CosmosDatabase,
    MongoCollection,
    Resources,
    YdbPart,
)
from mayflydb.admin.table_differences import compare_table
from mayflydb.admin.targets import TargetResolver
from mayflydb.admin.wires import Mongo, Wires, Ydb
from mayflydb.engine.engine import Engine
from mayflydb.model.errors import BadRequest, Conflict, NotFound, Unsupported
from mayflydb.model.hints import Hint

Result = Literal["created", "changed", "same"]

_CREATE_TABLE: Final = re.compile(r"\s*CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?`?([\w./-]+)`?", re.IGNORECASE)


class Applied:
    """The effects of a document: a result for each resource, and the numbers of records by target."""

    def __init__(self) -> None:
        self.resources: dict[str, Result] = {}
        self.records: defaultdict[str, Counter[Result]] = defaultdict(Counter)
        self.differences: list[dict[str, Any]] = []

    def differ(self, target: str, setting: str, declared: Any, there: Any) -> None:
        """Note what a document declares and this server leaves as it is."""
        self.differences.append({"target": target, "setting": setting, "declared": declared, "there": there})

    def describe(self) -> dict[str, Any]:
        """Return the answer."""
        totals: Counter[Result] = Counter(self.resources.values())
        for counts in self.records.values():
            totals += counts
        return {
            **{name: totals[name] for name in ("created", "changed", "same")},
            "resources": self.resources,
            "records": {
                target: {"created": counts["created"], "changed": counts["changed"], "same": counts["same"]}
                for target, counts in self.records.items()
            },
            "differences": self.differences,
        }


class Applier:
    """Makes what documents describe, one document at a time."""

    def __init__(self, engine: Engine, targets: TargetResolver, wires: Wires) -> None:
        self._engine = engine
        self._targets = targets
        self._wires = wires
        self._items = CosmosItems(wires.cosmos)
        self._applying = asyncio.Lock()

    async def apply(self, document: Resources) -> dict[str, Any]:
        """Make everything of a document, in its order. After an error what was made before stays, and the rest is missing."""
        done = Applied()
        async with self._applying:
            for database in document.databases:
                await self._apply_database(database, done)
            for home in document.mongo.databases:
                for collection in home.collections:
                    await self._apply_collection(home.name, collection, done)
            if document.ydb.statements:
                await self._run_statements(document.ydb, done)
        return {"now": formats.time(await self._engine.now()), **done.describe()}

    # --- Cosmos DB -------------------------------------------------------------------------------------------------------

    async def _apply_database(self, database: CosmosDatabase, done: Applied) -> None:
        path = ("dbs", database.id)
        there = await self._items.find(path)
        if there is None:
            offer = (
                {} if not isinstance(database.throughput, int) else {"x-ms-offer-throughput": str(database.throughput)}
            )
            await self._items.ask("POST", ("dbs",), {"id": database.id}, offer)
        else:
            await self._compare_throughput(f"cosmos:{database.id}", there, database.throughput, done)
        done.resources[f"cosmos:{database.id}"] = "created" if there is None else "same"
        for container in database.containers:
            target = self._targets.name("cosmos", database.id, container.id)
            done.resources[target] = result = await self._apply_container(path, container)
            if result != "created" and isinstance(container.throughput, int):
                there = await self._items.find((*path, "colls", container.id))
                await self._compare_throughput(target, there or {}, container.throughput, done)
            paths = _paths(container)
            for item in container.items:
                done.records[target][await self._apply_item((*path, "colls", container.id), paths, item)] += 1

    async def _apply_container(self, database: Sequence[str], container: CosmosContainer) -> Result:
        path, declared = (*database, "colls", container.id), _declare(container)
        there = await self._items.find(path)
        if there is None:
            offer = (
                {}
                if not isinstance(container.throughput, int)
                else {"x-ms-offer-throughput": str(container.throughput)}
            )
            await self._items.ask("POST", (*database, "colls"), declared, offer)
            return "created"
        if there["partitionKey"]["paths"] != declared["partitionKey"]["paths"]:
            raise Conflict(
                f"{container.id} has the partition key {there['partitionKey']['paths']}, which cannot be changed"
            )
        keys = declared.get("uniqueKeyPolicy")
        if keys is not None and not _is_part(keys, there.get("uniqueKeyPolicy", {})):
            raise Conflict(f"{container.id} has other unique keys, which cannot be changed")
        wanted = {name: value for name, value in there.items() if not name.startswith("_")}
        wanted |= {name: declared[name] for name in ("indexingPolicy",) if name in declared}
        if not isinstance(container.default_ttl, msgspec.UnsetType):
            wanted.pop("defaultTtl", None)
            wanted |= {} if container.default_ttl is None else {"defaultTtl": container.default_ttl}
        if wanted == {name: value for name, value in there.items() if not name.startswith("_")}:
            return "same"
        _, after = await self._items.ask("PUT", path, wanted, {"if-match": there["_etag"]})
        return "same" if content_of(after) == content_of(there) else "changed"

    async def _compare_throughput(
        self, target: str, there: Mapping[str, Any], declared: int | msgspec.UnsetType, done: Applied
    ) -> None:
        """Note a difference in RU/s: they are given when a resource is made, and then changed by its owner."""
        if not isinstance(declared, int):
            return
        query = {
            "query": "SELECT * FROM root WHERE root.offerResourceId = @rid",
            "parameters": [{"name": "@rid", "value": there.get("_rid", "")}],
        }
        headers = {"x-ms-documentdb-isquery": "True", "content-type": "application/query+json"}
        _, found = await self._items.ask("POST", ("offers",), query, headers)
        content = found["Offers"][0]["content"] if found["Offers"] else {}
        autoscale = content.get("offerAutopilotSettings")
        if autoscale is not None:
            done.differ(target, "throughput", declared, f"autoscale up to {autoscale['maxThroughput']}")
        elif content.get("offerThroughput") != declared:
            done.differ(target, "throughput", declared, content.get("offerThroughput"))

    async def _apply_item(self, container: Sequence[str], paths: Sequence[str], item: Mapping[str, Any]) -> Result:
        id = item.get("id")
        if not isinstance(id, str):
            raise BadRequest(f"an item of {container[-1]} has no id that is a string")
        there = await self._items.find((*container, "docs", id), partition_header(item, paths))
        if there is not None and content_of(there) == content_of(item):
            return "same"
        await self._items.write(container, paths, item, upsert=True)
        return "created" if there is None else "changed"

    # --- MongoDB ---------------------------------------------------------------------------------------------------------

    async def _apply_collection(self, database: str, collection: MongoCollection, done: Applied) -> None:
        mongo = self._wires.mongo
        if mongo is None:
            raise Unsupported("MongoDB is not served here", hint=Hint("no-mongo"))
        target, name = self._targets.name("mongo", database, collection.name), collection.name
        found = await mongo(database, {"listCollections": 1, "filter": {"name": name}, "nameOnly": True})
        if not found["cursor"]["firstBatch"]:
            await mongo(database, {"create": name})
            done.resources[target] = "created"
        else:
            done.resources[target] = "same"
        for index in collection.indexes:
            wanted = {"name": _index_name(index), **index}
            done.resources[f"{target}#{wanted['name']}"] = await _apply_index(mongo, database, name, wanted)
        for document in collection.documents:
            done.records[target][await _apply_document(mongo, database, name, document)] += 1

    # --- YDB -------------------------------------------------------------------------------------------------------------

    async def _run_statements(self, part: YdbPart, done: Applied) -> None:
        ydb = self._wires.ydb
        if ydb is None:
            raise Unsupported("YDB is not served here", hint=Hint("no-ydb"))
        database = part.database or self._targets.first_database("ydb")
        for statement in part.statements:
            made = _CREATE_TABLE.match(statement)
            if made is None or ";" in statement.strip().removesuffix(";"):
                await ydb(database, statement)
                done.records[f"ydb:{database}"]["changed"] += 1
                continue
            path = made[1] if made[1].startswith("/") else f"{database}/{made[1]}"
            done.resources[f"ydb:{path}"] = await self._create_table(ydb, database, path, statement, done)

    async def _create_table(self, ydb: Ydb, database: str, path: str, statement: str, done: Applied) -> Result:
        try:
            there = await self._targets.resolve_container(f"ydb:{path}")
        except NotFound:
            await ydb(database, statement)
            return "created"
        # A statement may be long, and is parsed on a thread.
        for setting, declared, found in await asyncio.to_thread(compare_table, statement, there.node.body):
            done.differ(f"ydb:{path}", setting, declared, found)
        return "same"


async def _apply_index(mongo: Mongo, database: str, collection: str, wanted: dict[str, Any]) -> Result:
    found = await mongo(database, {"listIndexes": collection})
    there = next((each for each in found["cursor"]["firstBatch"] if each["name"] == wanted["name"]), None)
    if there is not None:
        if _is_part(from_json(wanted), dict(there)):
            return "same"
        seconds = wanted.get("expireAfterSeconds")
        if seconds is not None and {**there, "expireAfterSeconds": seconds} == {**there, **from_json(wanted)}:
            change = {"name": wanted["name"], "expireAfterSeconds": seconds}
            await mongo(database, {"collMod": collection, "index": change})
            return "changed"
    await mongo(database, {"createIndexes": collection, "indexes": [from_json(wanted)]})
    return "created"


async def _apply_document(mongo: Mongo, database: str, collection: str, given: Mapping[str, Any]) -> Result:
    document = from_json(given)
    if "_id" not in document:
        raise BadRequest(f"a document of {collection} has no _id: applied again, it would be inserted again")
    found = await mongo(database, {"find": collection, "filter": {"_id": document["_id"]}, "limit": 1})
    there = found["cursor"]["firstBatch"]
    if there and stored_bytes(there[0]) == stored_bytes(document):
        return "same"
    update = {"q": {"_id": document["_id"]}, "u": document, "upsert": True}
    answer = await mongo(database, {"update": collection, "updates": [update]})
    for failure in answer.get("writeErrors", ()):
        raise Conflict(f"{collection}: {failure.get('errmsg')}")
    return "changed" if there else "created"


def _index_name(index: Mapping[str, Any]) -> str:
    key = index.get("key")
    if not isinstance(key, Mapping) or not key:
        raise BadRequest("an index has a key, such as {'at': 1}")
    return "_".join(f"{field}_{direction}" for field, direction in key.items())


def _declare(container: CosmosContainer) -> dict[str, Any]:
    paths = _paths(container)
    key = {"paths": paths, "kind": "Hash" if len(paths) == 1 else "MultiHash", "version": 2}
    declared: dict[str, Any] = {"id": container.id, "partitionKey": key}
    if isinstance(container.default_ttl, int):
        declared["defaultTtl"] = container.default_ttl
    if isinstance(container.indexing_policy, dict):
        declared["indexingPolicy"] = container.indexing_policy
    if isinstance(container.unique_keys, list):
        declared["uniqueKeyPolicy"] = {"uniqueKeys": [{"paths": each} for each in container.unique_keys]}
    return declared


def _paths(container: CosmosContainer) -> list[str]:
    return [container.partition_key] if isinstance(container.partition_key, str) else container.partition_key


def _is_part(declared: Any, there: Any) -> bool:
    """Return whether all that is declared is there; the service adds members."""
    if isinstance(declared, Mapping) and isinstance(there, Mapping):
        return all(name in there and _is_part(value, there[name]) for name, value in declared.items())
    if isinstance(declared, list) and isinstance(there, list):
        return len(declared) == len(there) and all(map(_is_part, declared, there))
    return bool(declared == there)
