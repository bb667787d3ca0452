"""Reports on collections: `$collStats`, `$indexStats`, `$planCacheStats` and `$listCatalog`.

Shapes: https://www.mongodb.com/docs/manual/reference/operator/aggregation/indexStats/ and the pages of the other stages.
"""

from __future__ import annotations

import socket
from hashlib import blake2b
from typing import Any, Final

from bson import DatetimeMS, Int64

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import ID_INDEX, Collection
from mayflydb.frontends.mongo.documents import binary_uuid, to_milliseconds
from mayflydb.frontends.mongo.quick_finds import list_remembered_plans
from mayflydb.frontends.mongo.services import Services
from mayflydb.frontends.mongo.sizes import count_visible, parse_scale, storage_stats
from mayflydb.frontends.mongo.time_series.statistics import count_buckets
from mayflydb.frontends.mongo.usage import CollectionUsage
from mayflydb.query.mongo.faults import MqlError, failed_to_parse
from mayflydb.query.mongo.values import Document, type_name

_PARTS: Final = ("latencyStats", "storageStats", "count", "queryExecStats", "targetAllNodes", "operationStats")
_STORED_PARTS: Final = ("storageStats", "count", "queryExecStats")
"""Parts that only a collection has, and no view."""


async def build_coll_stats(services: Services, call: Call, spec: Document) -> list[Document]:
    """Return the document of `$collStats`. Raise MqlError 26 and 166 for figures of what is no collection, 40415, 9."""
    parts = _parse_parts(spec)
    name = _named_collection(call, "$collStats")
    collection = await services.collections.find(call.database, name)
    namespace = f"{call.database}.{name}"
    found: Document = {
        "ns": namespace,
        "host": socket.gethostname(),
        "localTime": DatetimeMS(to_milliseconds(call.now)),
    }
    if "latencyStats" in parts:
        used = CollectionUsage(call.now) if collection is None else collection.usage
        histograms = parts["latencyStats"].get("histograms", False)
        found["latencyStats"] = used.latencies.describe(histograms)
    for part in _STORED_PARTS:
        if part in parts:
            found[part] = await _build_part(services, call, _check_stored(collection, namespace), part, parts[part])
    return [found]


def _parse_parts(spec: Document) -> Document:
    parts: Document = {}
    for part, given in spec.items():
        if part not in _PARTS:
            raise MqlError(40415, f"BSON field '$collStats.{part}' is an unknown field.")
        if part == "targetAllNodes":
            if given is not None and type(given) is not bool:
                raise failed_to_parse(f"targetAllNodes must be a boolean, but is {type_name(given)}")
        elif part == "operationStats":
            raise MqlError(238, "$collStats with 'operationStats' is not supported")
        elif given is not None:
            parts[part] = arguments.document(spec, part, "$collStats")
    for part in ("count", "queryExecStats"):
        if parts.get(part):
            raise MqlError(31170, f"the {part} option takes an empty document")
    if type(parts.get("latencyStats", {}).get("histograms", False)) is not bool:
        raise MqlError(14, "the histograms option of latencyStats must be a boolean")
    return parts


def _check_stored(collection: Collection | None, namespace: str) -> Collection:
    if collection is None:
        raise MqlError(26, f"ns does not exist: {namespace}")
    if collection.view_on is not None:
        raise MqlError(166, f"{namespace} is a view, not a collection")
    return collection


async def _build_part(services: Services, call: Call, collection: Collection, part: str, given: Document) -> Any:
    if part == "count":
        # That of a time series is the number of its buckets.
        count = count_visible if collection.series is None else count_buckets
        return await count(services, call, collection)
    if part == "storageStats":
        return await storage_stats(services, call, collection, parse_scale(given, "$collStats.storageStats"))
    scans = Int64(collection.usage.scans)
    return {"collectionScans": {"total": scans, "nonTailable": scans}}


async def list_index_uses(services: Services, call: Call, spec: Document) -> list[Document]:
    """Return a document of `$indexStats` for each index: how many queries have used it, and since when that is counted."""
    if spec:
        raise MqlError(28803, "The $indexStats stage specification must be an empty object")
    collection = await services.collections.find(call.database, _named_collection(call, "$indexStats"))
    if collection is None:
        return []
    used, host = collection.usage, socket.gethostname()
    return [
        {
            "name": index.name,
            "key": index.to_document()["key"],
            "host": host,
            "accesses": {
                "ops": Int64(used.accesses[index.name]),
                "since": DatetimeMS(to_milliseconds(used.counted_since(index.name))),
            },
            "spec": index.to_document(),
        }
        for index in collection.listed_specs
    ]


async def list_plans(services: Services, call: Call, spec: Document) -> list[Document]:
    """Return a document of `$planCacheStats` for each shape of queries whose plan a collection remembers."""
    for field, value in spec.items():
        if field != "allHosts":
            raise failed_to_parse(f"$planCacheStats parameters object may contain only 'allHosts', found: {field}")
        if type(value) is not bool:
            raise MqlError(13111, f"wrong type for field (allHosts) {type_name(value)} != bool")
    if spec.get("allHosts") and services.options.topology != "mongos":
        raise MqlError(4503200, "$planCacheStats stage supports allHosts parameter only for sharded clusters")
    name = _named_collection(call, "$planCacheStats")
    collection = await services.collections.find(call.database, name)
    if collection is None:
        raise MqlError(50933, f"collection '{call.database}.{name}' does not exist")
    host = socket.gethostname()
    found: list[Document] = []
    for shape, index in list_remembered_plans(collection):
        key = blake2b(repr(shape).encode(), digest_size=4).hexdigest().upper()
        scan: Document = {"stage": "IXSCAN", "keyPattern": dict(index.key), "indexName": index.name}
        found.append(
            {
                "version": "1",
                "planCacheShapeHash": key,
                "queryHash": key,
                "planCacheKey": key,
                "isActive": True,
                "cachedPlan": {"stage": "FETCH", "inputStage": scan},
                "indexFilterSet": False,
                "host": host,
            }
        )
    return found


async def list_catalog(services: Services, call: Call, spec: Document) -> list[Document]:
    """Return the catalogue's entries: of one collection, or of all that the sender may list (on `admin`)."""
    if spec:
        raise failed_to_parse("The $listCatalog stage specification must be an empty object")
    if type(call.body[call.name]) is str:
        one = await services.collections.find(call.database, call.body[call.name])
        return [] if one is None else [_describe_entry(one)]
    if call.database != "admin":
        raise MqlError(73, "Collectionless $listCatalog must be run against the 'admin' database with {aggregate: 1}")
    services.require_right(call, "read", "admin")
    nodes = await services.collections.list_databases()
    readable = [each for each in nodes if services.accounts.has_right(call.connection.user, "read", each.name)]
    return [
        _describe_entry(each) for node in readable for each in await services.collections.list_collections(node.name)
    ]


def _describe_entry(collection: Collection) -> Document:
    head: Document = {"db": collection.database, "name": collection.name, "ns": collection.namespace}
    if collection.view_on is not None:
        return {**head, "type": "view", **collection.options}
    indexes = [
        {"spec": spec.to_document(), "ready": True, "multikey": spec.name in collection.multikey}
        for spec in collection.listed_specs
    ]
    options = {**collection.options, "uuid": binary_uuid(collection.uuid)}
    metadata: Document = {"ns": collection.namespace, "options": options, "indexes": indexes}
    return {**head, "type": "collection", "md": metadata, "idIndex": ID_INDEX}


def _named_collection(call: Call, stage: str) -> str:
    name = call.body[call.name]
    if type(name) is not str:
        raise MqlError(73, f"{stage} needs a collection")
    return name
